"""Import an export: each layer is written after what it rests on, in batches."""

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from agently_gumem.errors import ConfigError
from agently_gumem.govern.foreign import GUMEM
from agently_gumem.govern.plan import Plan, read_layer
from agently_gumem.govern.portable import Portable, numbered, read_object
from agently_gumem.govern.source import Lines
from agently_gumem.records import Fact, MemoState, Message, Summary, Topic
from agently_gumem.records.account import ImportCount, ImportReport
from agently_gumem.remember import hooking, taking
from agently_gumem.remember.taking import Taken, newer
from agently_gumem.rows import Kept, flag_row, layer_of
from agently_gumem.scope import Scope
from agently_gumem.text import fold

T = TypeVar("T", Fact, Summary, Topic)
# Records a write: a turn of the user that comes between waits for one of them.
BATCH = 200
# A gap this large in the places of messages is no gap that forgetting leaves.
_WIDEST = 1_000_000


def store_name(scope: Scope) -> str:
    """Tell this store apart from others, and say nothing about its key."""
    return scope.services.ids.of("store")


class Importer:
    """Writes what a plan holds into a scope, whose digests wait meanwhile."""

    def __init__(self, scope: Scope, lines: Lines, plan: Plan, origin: Scope) -> None:
        """Take who reads, what, and whose it was; that may be the same."""
        self._scope = scope
        self._origin = origin
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
                yield part if self._origin is scope else self._unburied(layer, part)

    def _unburied(self, layer: str, records: list[Portable]) -> list[Portable]:
        """Leave out what was forgotten where it comes from: no other name brings it back."""
        gone = {
            r.id for r in records if not isinstance(r, MemoState) and taking.buried(self._origin, r)
        }
        self._taken(layer).refused.update(dict.fromkeys(gone, taking.FORGOTTEN))
        return [r for r in records if isinstance(r, MemoState) or r.id not in gone]

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
        async for part in self._batches("fact"):
            facts = [f for f in part if isinstance(f, Fact)]
            await self._write("fact", facts, functools.partial(taking.take_fact, scope))
            self._topics += [(fold(f.topic), f.id in scope.index.facts) for f in facts]

    async def _summaries(self) -> None:
        held = self._scope.index.summaries.values()
        active = {fold(s.topic): s.id for s in held if s.validity == "active"}

        def take(summary: Summary) -> Summary | str:
            others = {topic for topic, own in active.items() if own != summary.id}
            return taking.take_summary(self._scope, summary, others)

        async for part in self._batches("summary"):
            await self._write("summary", [s for s in part if isinstance(s, Summary)], take)

    async def _topics_named(self) -> None:
        scope = self._scope
        held = {fold(f.topic) for f in scope.index.facts.values()}
        refused = taking.topics_without_facts(self._topics) - held
        named = {fold(n) for t in scope.index.topics.values() for n in (t.name, *t.aliases)}

        def take(topic: Topic) -> Topic | str:
            return taking.take_topic(scope, topic, refused)

        async for part in self._batches("topic"):
            topics = [t for t in part if isinstance(t, Topic)]
            # One of that name is there, under the id that this store gave it.
            known = scope.index.topics
            alike = {t.id for t in topics if t.id not in known and fold(t.name) in named}
            self._taken("topic").known += alike
            await self._write("topic", [t for t in topics if t.id not in alike], take)

    async def _write(self, layer: str, given: Sequence[T], take: Callable[[T], T | str]) -> None:
        """Write what is new, and what was changed after the one that is stored."""
        taken, scope = self._taken(layer), self._scope
        held: dict[str, Any] = {r.id: scope.index.get(r.id) for r in given}
        wanted = {r.id: r for r in given if held[r.id] is None or newer(r, held[r.id])}
        taken.known += [r.id for r in given if r.id not in wanted]
        records: dict[str, Kept] = {}
        for record_id, told in await scope.services.worker.thread(
            _each, take, list(wanted.values())
        ):
            if isinstance(told, str):
                taken.refused[record_id] = told
            else:
                records[record_id] = told
        if records:
            await hooking.write(scope, list(records.values()))
        there = {record_id for record_id in records if scope.index.get(record_id) is not None}
        taken.note((i for i in records if held[i] is None), there, taken.added)
        taken.note((i for i in records if held[i] is not None), there, taken.updated)

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
            await self._scope.write([stands.for_rebuild()])

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


def _each(take: Callable[[T], T | str], records: Sequence[T]) -> list[tuple[str, T | str]]:
    return [(record.id, take(record)) for record in records]


def _part(records: Iterator[Portable]) -> list[Portable]:
    return list(islice(records, BATCH))


def _lines_at(lines: Lines, wanted: frozenset[int]) -> list[tuple[int, str]]:
    return [(n, line) for n, line in numbered(lines) if n in wanted] if wanted else []
