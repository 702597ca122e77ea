"""Import an export: all of it is checked first, then each layer is written on what it rests on."""

import contextlib
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from agently_gumem.errors import ConfigError
from agently_gumem.govern.foreign import GUMEM
from agently_gumem.govern.portable import (
    FLAGS,
    Header,
    Portable,
    layer_of_line,
    numbered,
    read_header,
    read_object,
    read_record,
)
from agently_gumem.govern.source import Lines
from agently_gumem.records import Fact, MemoState, Message, Summary, Topic
from agently_gumem.records.account import ImportCount, ImportReport
from agently_gumem.remember import hooking, taking
from agently_gumem.remember.taking import Taken, newer
from agently_gumem.rows import Kept, flag_row, layer_of
from agently_gumem.scope import Scope
from agently_gumem.text import fold

T = TypeVar("T", Fact, Summary, Topic)
BATCH = 500
# A gap this large in the places of messages is no gap that forgetting leaves.
_WIDEST = 1_000_000


@dataclass
class Plan:
    """What a file holds, by line; never its texts."""

    header: Header
    layers: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Layer -> the lines that hold one of it."""
    ids: dict[str, str] = field(default_factory=dict[str, str])
    """Id of a record -> its layer."""
    records: int = 0
    places: dict[int, str] = field(default_factory=dict[int, str])
    """Place of a message among all of the user -> its id."""
    last: int = 0
    """The place of the last message."""
    in_order: bool = True
    """Each message has a place of its own, and they rise."""


def check(lines: Lines, user_id: str, space: str, *, as_user: bool) -> Plan:
    """Read all lines, and keep what is where (pure but for the file).

    Raises:
        ConfigError: A line is broken, the version is unknown, it is somebody else's, or an id
            comes twice; names the line.
    """
    rows = numbered(lines)
    plan = Plan(read_header(next(rows, (1, ""))[1]))
    owner = (plan.header.user_id, plan.header.space)
    if owner != (user_id, space) and not as_user:
        raise ConfigError(
            f"line 1: an export of user {owner[0]!r} in space {owner[1]!r}, not of {user_id!r} in "
            f"{space!r}: give as_user=True where it shall become theirs"
        )
    for number, line in rows:
        told = read_object(number, line)
        layer = layer_of_line(number, told)
        if layer not in FLAGS:
            _note(plan, number, read_record(number, told, user_id, space))
        plan.layers.setdefault(layer, []).append(number)
    return plan


def _note(plan: Plan, number: int, read: tuple[str, Portable]) -> None:
    layer, record = read
    if isinstance(record, MemoState):
        if layer in plan.layers:
            raise ConfigError(f"line {number}: a second memo; a user has one")
        return
    known = plan.ids.setdefault(record.id, layer)
    if len(plan.ids) == plan.records:
        raise ConfigError(f"line {number}: the id {record.id!r} is that of a {known} before")
    plan.records += 1
    if isinstance(record, Message):
        plan.in_order = plan.in_order and record.sequence > max(plan.last, 0)
        plan.last = record.sequence
        plan.places[record.sequence] = record.id


def read_layer(
    lines: Lines, plan: Plan, layer: str, user_id: str, space: str
) -> Generator[Portable, None, None]:
    """Read the records of one layer, in their order; the lines of others are passed over."""
    wanted = iter(plan.layers.get(layer, ()))
    following = next(wanted, None)
    if following is None:
        return
    for number, line in numbered(lines):
        if number != following:
            continue
        yield read_record(number, read_object(number, line), user_id, space)[1]
        following = next(wanted, None)
        if following is None:
            return


def store_name(scope: Scope) -> str:
    """Tell this store apart from others, and say nothing about its key."""
    return scope.services.ids.of("store")


class Importer:
    """Writes what a plan holds into a scope, whose digests wait meanwhile."""

    def __init__(self, scope: Scope, lines: Lines, plan: Plan) -> None:
        self._scope = scope
        self._lines = lines
        self._plan = plan
        self._done: dict[str, Taken] = {}
        self._topics: list[tuple[str, bool]] = []
        """Topic of each Fact, folded, and whether the Fact is kept."""

    async def run(self) -> ImportReport:
        """Write messages, Facts, Summaries, Topics, memo: each after what it rests on.

        Raises:
            ConfigError: An id is that of another record here; nothing was written.
            HookError: A hook failed that stops the work then; what was written stays.
            StoreError: The store failed; what was written stays, and is known to the next try.
        """
        scope = self._scope
        async with scope.digest_lock:
            await scope.ready()
            self._check_ids()
            await self._messages()
            await self._facts()
            await self._summaries()
            await self._topics_named()
            await self._memo()
            await self._marks()
        return self.report()

    def report(self) -> ImportReport:
        """Count what became of each layer."""
        reasons: dict[str, int] = {}
        for taken in self._done.values():
            for reason in taken.refused.values():
                reasons[reason] = reasons.get(reason, 0) + 1
        layers = {layer: counted(taken) for layer, taken in self._done.items()}
        return ImportReport(format=GUMEM, layers=layers, reasons=reasons)

    def _check_ids(self) -> None:
        for record_id, layer in self._plan.ids.items():
            held = self._scope.index.get(record_id)
            if held is not None and layer_of(held) != layer:
                raise ConfigError(
                    f"the id {record_id!r} of a {layer} is that of a {layer_of(held)} of this user"
                )

    def _taken(self, layer: str) -> Taken:
        return self._done.setdefault(layer, Taken())

    async def _batches(self, layer: str) -> AsyncIterator[list[Portable]]:
        """Read in the pool, so many at a time."""
        scope = self._scope
        records = read_layer(self._lines, self._plan, layer, scope.user_id, scope.space)
        with contextlib.closing(records):
            while part := await scope.services.worker.thread(_part, records):
                yield part

    async def _messages(self) -> None:
        scope = self._scope
        keep = self._keeps_places()
        async for part in self._batches("message"):
            messages = [m for m in part if isinstance(m, Message)]
            if not keep:
                messages = [
                    m
                    if m.id in scope.index.messages
                    else m.model_copy(update={"sequence": scope.next_sequence()})
                    for m in messages
                ]
            await taking.take_messages(scope, messages, self._taken("message"))

    def _keeps_places(self) -> bool:
        """Tell whether the messages can have the places that they had, and then reserve them.

        With them a store that lost some gets each back where it was; else they come after all
        others, in their own order.
        """
        plan, scope = self._plan, self._scope
        held = {m.sequence: m.id for m in scope.index.messages.values()}
        own = {m.id: m.sequence for m in scope.index.messages.values()}
        free = all(
            held.get(place, message_id) == message_id and own.get(message_id, place) == place
            for place, message_id in plan.places.items()
        )
        if not (free and plan.in_order) or scope.left_out:
            return False
        now_at = scope.next_sequence()
        if plan.last - now_at > _WIDEST:
            return False
        for _ in range(now_at, plan.last):
            scope.next_sequence()
        return True

    async def _facts(self) -> None:
        scope = self._scope

        def take(part: list[Fact]) -> list[tuple[Fact, Fact | str]]:
            return [(f, taking.take_fact(scope, f)) for f in part]

        async for part in self._batches("fact"):
            facts = [f for f in part if isinstance(f, Fact)]
            await self._write("fact", await scope.services.worker.thread(take, facts))
            kept = scope.index.facts
            self._topics += [(fold(f.topic), f.id in kept) for f in facts]

    async def _summaries(self) -> None:
        scope = self._scope
        active = {
            fold(s.topic): s.id for s in scope.index.summaries.values() if s.validity == "active"
        }

        def take(part: list[Summary]) -> list[tuple[Summary, Summary | str]]:
            return [
                (s, taking.take_summary(scope, s, {t for t, i in active.items() if i != s.id}))
                for s in part
            ]

        async for part in self._batches("summary"):
            summaries = [s for s in part if isinstance(s, Summary)]
            await self._write("summary", await scope.services.worker.thread(take, summaries))

    async def _topics_named(self) -> None:
        scope = self._scope
        held = {fold(f.topic) for f in scope.index.facts.values()}
        refused = taking.topics_without_facts(self._topics) - held
        named = {fold(n) for t in scope.index.topics.values() for n in (t.name, *t.aliases)}

        def take(part: list[Topic]) -> list[tuple[Topic, Topic | str]]:
            return [(t, taking.take_topic(scope, t, refused)) for t in part]

        async for part in self._batches("topic"):
            topics = [t for t in part if isinstance(t, Topic)]
            # One of that name is there, under the id that this store gave it.
            alike = [t for t in topics if t.id not in scope.index.topics and fold(t.name) in named]
            self._taken("topic").known += [t.id for t in alike]
            fresh = [t for t in topics if t not in alike]
            await self._write("topic", await scope.services.worker.thread(take, fresh))

    async def _write(self, layer: str, told: Sequence[tuple[T, T | str]]) -> None:
        """Write what is new, and what was changed after the one that is stored."""
        taken, scope = self._taken(layer), self._scope
        records: list[Kept] = []
        for given, record in told:
            held: Any = scope.index.get(given.id)
            if held is not None and not newer(given, held):
                taken.known.append(given.id)
            elif isinstance(record, str):
                taken.refused[given.id] = record
            else:
                records.append(record)
                (taken.added if held is None else taken.updated).append(record.id)
        if records:
            await hooking.write(scope, records)

    async def _memo(self) -> None:
        scope = self._scope
        async for part in self._batches("memo"):
            for given in part:
                if isinstance(given, MemoState):
                    memo = await scope.services.worker.thread(taking.take_memo, scope, given)
                    await self._take_memo(memo)

    async def _take_memo(self, memo: MemoState) -> None:
        held, taken = self._scope.memo, self._taken("memo")
        if held is None or not held.value:
            taken.added.append("memo")
            await self._scope.write([memo])
        elif memo.value == held.value or not (newer(memo, held) or self._taken("fact").added):
            taken.known.append("memo")
        else:
            # Two memos of one user: the newer one stands until the next digest writes it anew.
            (taken.updated if newer(memo, held) else taken.known).append("memo")
            stands = memo if newer(memo, held) else held
            await self._scope.write([stands.model_copy(update={"schema_digest": ""})])

    async def _marks(self) -> None:
        """Take in the stages that were marked, in the store whose key their ids are made with."""
        scope, wanted = self._scope, self._plan.layers.get("mark", [])
        lines = await scope.services.worker.thread(_lines_at, self._lines, frozenset(wanted))
        ids = [str(read_object(number, line).get("id") or "") for number, line in lines]
        if not ids:
            return
        taken = self._taken("mark")
        if self._plan.header.store != store_name(scope):
            taken.refused.update(dict.fromkeys(ids, "store"))
            return
        taken.known += [i for i in ids if i in scope.marks]
        taken.added += [i for i in ids if i not in scope.marks]
        await scope.write_flags([flag_row("mark", i, stage="") for i in taken.added])
        scope.marks |= set(taken.added)


def counted(taken: Taken) -> ImportCount:
    """Count what became of records."""
    return ImportCount(
        added=len(taken.added),
        updated=len(taken.updated),
        known=len(taken.known),
        refused=len(taken.refused),
    )


def _part(records: Iterator[Portable]) -> list[Portable]:
    return list(islice(records, BATCH))


def _lines_at(lines: Lines, wanted: frozenset[int]) -> list[tuple[int, str]]:
    return [(n, line) for n, line in numbered(lines) if n in wanted] if wanted else []
