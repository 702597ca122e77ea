"""One user's memory in this process: its records, derived from the store and kept current.

A `Scope` is touched on the worker's loop only. What is written goes to the store first and to the
index after it, in one order; what is read was loaded in one call.
"""

import asyncio
import json
import math
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from agently_gumem.blas import one_thread
from agently_gumem.config import Limits
from agently_gumem.embedder import Embedder
from agently_gumem.embedding import Refusals, embed_each, is_vector
from agently_gumem.errors import EmbedderError, StoreError
from agently_gumem.events import Tell
from agently_gumem.hooks import Hooks
from agently_gumem.ids import Ids
from agently_gumem.lease import Lease, Turn
from agently_gumem.memo_schema import MemoSchema
from agently_gumem.model import Model
from agently_gumem.privacy import PrivacyPolicy, Selection
from agently_gumem.prompts import Prompt, Prompts
from agently_gumem.recall.index import UserIndex, text_of
from agently_gumem.records import MemoState, Message, Tomb
from agently_gumem.records.refused import Let, Refusal, ids_of, let_in, memo_without
from agently_gumem.revision import News, news
from agently_gumem.rows import Kept, flag_row, from_row, to_row
from agently_gumem.store import Row, ScopedStore, Store
from agently_gumem.troubles import Backoff, Troubles
from agently_gumem.worker import Worker

R = TypeVar("R")
WAITING = ("pending", "chunked")
# Seconds that the application's embedder may take, and one more for each text: a question is asked
# with what its words find before its recall is given up.
EMBED_WITHIN = 10.0
# Seconds after which a turn is taken from who shows no sign of life. A digest waits for a model,
# and who waits for it loses nothing; a write takes milliseconds.
_DIGEST, _WRITE = math.inf, 5.0
Pair: TypeAlias = "tuple[Kept, NDArray[np.float32] | None]"
"""A record and its vector, where it has one."""


class Outdated(Exception):  # noqa: N818  # not an error: it is decided anew
    """What was to be written was decided before something was forgotten or corrected.

    So it is for who lost the turn to another process.
    """


@dataclass(frozen=True)
class Services:
    """What every scope of a GUMem shares."""

    store: Store
    embedder: Embedder
    worker: Worker
    model: Model
    prompts: Prompts
    schema: MemoSchema
    limits: Limits
    select: Callable[[str], Selection]
    compare: Callable[[str], Selection]
    """Under the strictest policy: what is stored is known by it whatever policy stored it."""
    count_tokens: Callable[[str], int]
    memo_tokens: int
    """Bound of the memo."""
    hooks: Hooks
    privacy: PrivacyPolicy
    tell: Tell
    refusals: Refusals = field(default_factory=Refusals)

    @property
    def ids(self) -> Ids:
        """The store's ids."""
        return self.store.ids


class Scope:
    """One user and space: records, memo, flags, and the locks that order their changes."""

    def __init__(self, services: Services, user_id: str, space: str) -> None:
        self.services = services
        self.user_id = user_id
        self.space = space
        self.rows: ScopedStore = services.store.scope(user_id, space)
        self.index = UserIndex(services.embedder.dimension)
        self.memo: MemoState | None = None
        self.paused = False
        self.marks: set[str] = set()
        self.asked: dict[str, dict[str, Any]] = {}
        """What a model asked to forget, and waits for the user's word: ids and times."""
        self.cuts: dict[str, list[int]] = {}
        """Session, as a keyed hash -> sequences, ascending, at which a stage begins or ends."""
        self.passed_over: set[str] = set()
        self.tombs: dict[str, dict[str, Any]] = {}
        """Keyed hash of a record's id -> what is known of its forgetting: never a text."""
        self.gone: frozenset[str] = frozenset()
        """Keyed hashes by which what was forgotten is known in a restored history."""
        self.generation = 0
        """Rises when something is forgotten, here or in another process; also when another one
        changes what decisions rest on, or takes over a turn."""
        self.summarized: dict[str, frozenset[str]] = {}
        """Topic -> the Facts that it had when its Summary was last asked for."""
        self.left_out: frozenset[str] = frozenset()
        """Ids of the processed turns that the index leaves out, past its limit."""
        self.dropped: Counter[str] = Counter()
        self.troubles = Troubles()
        self.digest_lock = Turn(self.rows, "digest", self._lease("digest", _DIGEST))
        self.journal_lock = Turn(self.rows, "journal")
        self.correct_lock = Turn(self.rows, "correct")
        self._write_turn = Turn(self.rows, "write", self._lease("write", _WRITE))
        """Held while something is written that rests on what is known: for some milliseconds."""
        self.backoff = Backoff()
        self.leftover: frozenset[str] = frozenset()
        """Messages that waited already when the user was loaded: an earlier process left them."""
        self.is_open: Callable[[str], bool] = lambda _session_id: False
        self.in_use = 0
        self.guard = threading.Lock()
        """Held while the index changes, and while a recall reads it in the pool."""
        self._bare: dict[str, None] = {}
        """Ids of the records that say something and have no vector."""
        self._order = asyncio.Lock()
        """Orders writes and loads: what is read while something is written would lose it."""
        self._revision: Mapping[str, Any] | None = None
        self._sequence = 0

    @property
    def key(self) -> str:
        """The scope as one keyed value."""
        return self.rows.key

    def _lease(self, name: str, seconds: float) -> Lease | None:
        """Make a lease, on a store that other processes write to as well."""
        if self.services.store.kind != "server":
            return None
        seconds = min(seconds, self.services.limits.turn_seconds)
        return Lease(self.rows, name, seconds, self.services.worker)

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None, None]:
        """Write what rests on what is known, while nobody else does; what came is read first.

        The turn is waited for outside the order of this scope, so that turns of the user go on.
        """
        async with self._write_turn, self._order:
            if self.services.store.shared:
                await self._refresh()
            yield

    def _turns(self) -> dict[str, int]:
        """Name the turns that are held on a server, with their epochs."""
        held = {turn.name: turn.epoch for turn in (self.digest_lock, self._write_turn)}
        return {name: epoch for name, epoch in held.items() if epoch is not None}

    def _lose(self, lost: Collection[str]) -> None:
        """Note turns that another process took over: what rests on them is decided anew."""
        for turn in (self.digest_lock, self._write_turn):
            if turn.name in lost:
                turn.lose()
                self.generation += 1
                self.troubles.note("turn", Outdated())

    async def ready(self) -> "Scope":
        """Load the user where that is not done, or where another process wrote since.

        Raises:
            StoreError: The store can't be read.
        """
        async with self._order:
            await self._refresh()
        return self

    async def _refresh(self) -> None:
        """Read what other writers changed since the last time; all of it at the first."""
        thread, shared = self.services.worker.thread, self.services.store.shared
        revision, lost = await thread(self.rows.look, self._turns()) if shared else ({}, ())
        self._lose(lost)
        found = News(whole=True) if self._revision is None else news(self._revision, revision)
        if found.whole or not await self._catch_up(found):
            left = await thread(self._take, await thread(self.rows.load))
            await self._put_right(left)
            await self._embed_bare()
        self.generation += found.ground
        self._revision = revision

    async def _catch_up(self, found: News) -> bool:
        """Read the rows that others changed; False where that does not tell it all."""
        if not found.rows:
            return True
        return self._take_in(await self.services.worker.thread(self.rows.read, found.rows))

    async def _put_right(self, left: Let) -> None:
        """Delete what was written by who did not know yet that it was forgotten."""
        storing = self.services.worker.storing
        if left.unwanted:
            await storing(self.rows.forget, ids_of(left.unwanted))
            if self.memo is not None and self.memo.is_for_rebuild:
                await storing(self.rows.write, [to_row(self.memo, None)], dirty=True)
        if left.emptied:
            await storing(self.rows.write, [to_row(m, None) for m in left.emptied], dirty=True)

    def tell(
        self, kind: str, payload: Mapping[str, Any], session_id: str = "", *, warning: bool = False
    ) -> None:
        """Tell an event of this user; `payload` holds counts and reasons, never a text."""
        whose = {"user_id": self.user_id, "space": self.space, "session_id": session_id}
        self.services.tell(kind, {**whose, **payload}, warning=warning)

    def next_sequence(self) -> int:
        """Give the next place in the order of the user's messages."""
        self._sequence += 1
        return self._sequence

    @property
    def last_sequence(self) -> int:
        """The last place that was given."""
        return self._sequence

    def messages_of(self, session_id: str) -> list[Message]:
        """List the messages of a session, in their order."""
        return [m for m in self.index.messages.values() if m.session_id == session_id]

    def waiting(self, session_id: str | None = None) -> list[Message]:
        """List messages that wait for a digest, in their order; of one session or of all."""
        return [
            m
            for m in self.index.messages.values()
            if m.status in WAITING and session_id in (None, m.session_id)
        ]

    def tomb(self, record_id: str) -> str:
        """Return the keyed hash by which a forgotten record is known."""
        return self.services.ids.of("tomb", self.key, record_id)

    def refuses(self, record_id: str) -> bool:
        """Tell whether a record was forgotten: then it does not come in again."""
        return bool(self.tombs) and self.tomb(record_id) in self.tombs

    async def write(
        self,
        records: Sequence[Kept | MemoState],
        flags: Sequence[Row] = (),
        *,
        seen: int | None = None,
        dirty: bool = False,
    ) -> None:
        """Write records in one call, then bring the index up to them; what was forgotten stays out.

        Args:
            records: Of any layers.
            flags: Rows that only say something.
            seen: The `generation` that they rest on; None where they rest on no record.
            dirty: Text of records that are there is replaced on purpose.

        Raises:
            Outdated: Something was forgotten since; nothing was written.
            StoreError: Nothing was written.
        """
        if seen is None:
            async with self._order:
                await self._write(await self._paired(records), flags, dirty=dirty)
            return
        # An embedder can be slow: it is asked before the turn is taken.
        pairs = await self._paired(records)
        async with self._alone():
            self.expect(seen)
            self._lose(await self._write(pairs, flags, dirty=dirty, turns=self._turns()))
            self.expect(seen)
        if self.services.store.shared:
            # What another process forgot meanwhile was not known: it is taken out again now.
            await self.ready()

    async def _paired(
        self, records: Sequence[Kept | MemoState]
    ) -> "list[tuple[Kept | MemoState, NDArray[np.float32] | None]]":
        """Leave out what was forgotten, and give each record its vector."""
        allowed = self._allowed(records)
        return list(zip(allowed, await self._vectors(allowed), strict=True))

    async def _write(
        self,
        pairs: "Sequence[tuple[Kept | MemoState, NDArray[np.float32] | None]]",
        flags: Sequence[Row],
        *,
        dirty: bool,
        turns: Mapping[str, int] | None = None,
    ) -> Collection[str]:
        """Write in the order of this scope, and bring up the index; give the turns that are lost.

        Where one is, nothing was written. `turns` is None for what decides nothing.
        """
        rows = [*(to_row(r, v) for r, v in pairs), *flags]
        storing, ground = self.services.worker.storing, turns is not None
        lost = await storing(self.rows.write, rows, dirty=dirty, ground=ground, turns=turns)
        if not lost:
            self._put([(r, v) for r, v in pairs if not isinstance(r, MemoState)])
            self.memo = next((r for r, _ in pairs if isinstance(r, MemoState)), self.memo)
        return lost

    def expect(self, generation: int) -> None:
        """Refuse to go on with what was decided before something was forgotten.

        Raises:
            Outdated: Something was forgotten since that generation.
        """
        if generation != self.generation:
            raise Outdated

    async def ask(self, prompt: Prompt, agent: Any | None, seen: int) -> tuple[BaseModel, int]:
        """Ask the model; nothing that was forgotten goes out, and no answer that holds it comes in.

        Args:
            prompt: What is asked.
            agent: Its settings are inherited; None asks with Agently's own.
            seen: The `generation` that the prompt rests on.

        Raises:
            ModelError: There is no valid answer.
            Outdated: Something was forgotten since.
        """
        answer = await self.services.model.ask(
            prompt, self.user_id, agent, lambda: self.expect(seen)
        )
        await self.ready()
        self.expect(seen)
        return answer

    async def bury(
        self,
        tombs: Mapping[str, Tomb],
        gone: Sequence[tuple[str, str]],
        records: Sequence[Kept | MemoState],
        *,
        seen: tuple[int, int],
    ) -> bool:
        """Mark what is forgotten, delete it, and write what stays in its new form: in one write.

        Args:
            tombs: The marks, by their ids; from now on what they say is refused.
            gone: What is deleted, by layer and id.
            records: What is written anew.
            seen: State of the index that all this was decided on.

        Returns:
            Whether it was done; not where something was written since that state.

        Raises:
            StoreError: Nothing was written; of a user larger than a batch of Chroma's a part.
        """
        ids = [record_id for _, record_id in gone]
        pairs = list(zip(records, await self._vectors(records), strict=True))
        async with self._alone():
            if seen != self.state:
                return False
            rows = [*(to_row(r, v) for r, v in pairs), *_flags(tombs)]
            revision, self._revision = self._revision, None  # read anew where it breaks off
            replace = self.services.worker.storing(self.rows.replace, gone, rows, self._turns())
            lost = await replace
            self._revision = revision
            if lost:
                self._lose(lost)
                return False
            self._know(tombs)
            with self.guard:
                self.index.drop(ids)
            for record_id in ids:
                self._bare.pop(record_id, None)
            self._put([(r, v) for r, v in pairs if not isinstance(r, MemoState)])
            self.memo = next((r for r in records if isinstance(r, MemoState)), self.memo)
        return True

    @property
    def state(self) -> tuple[int, int]:
        """What changes with each write and load of the index."""
        return (self.index.serial, self.index.changes)

    async def unbury(self, ids: Sequence[str]) -> None:
        """Take marks out again: what they refused may come in."""
        async with self._order:
            pairs = [("forgotten", i) for i in ids]
            await self.services.worker.storing(self.rows.forget, pairs)
            self.tombs = {i: tomb for i, tomb in self.tombs.items() if i not in ids}
            self._know_tombs()

    async def clear(self, tombs: Mapping[str, Tomb]) -> None:
        """Delete all of the user but the marks of what was forgotten, and whether it is paused.

        Args:
            tombs: The marks of all that goes, written with it.
        """
        async with self._alone():
            self._revision = None
            await self.services.worker.storing(self.rows.forget_all, _flags(tombs))
            self.marks.clear()
            self.cuts.clear()
            self.summarized.clear()
            self.services.hooks.sent.forget((self.user_id, self.space))
            self._know(tombs)
        await self.ready()

    async def write_flags(self, flags: Sequence[Row]) -> None:
        """Write rows that only say something."""
        async with self._order:
            await self.services.worker.storing(self.rows.write, flags)

    async def delete(self, layer: str, ids: Sequence[str]) -> None:
        """Delete records of one layer that nothing rests on."""
        if not ids:
            return
        async with self._order:
            await self.services.worker.storing(self.rows.delete, layer, ids)
            with self.guard:
                self.index.drop(ids)
            for record_id in ids:
                self._bare.pop(record_id, None)

    async def mark(self, mark_id: str, name: str, session_id: str, ends: Sequence[int]) -> None:
        """Remember that a stage was marked, and where it begins and ends, for every process."""
        told = {"session": self._session(session_id), "ends": list(ends)} if ends else {}
        await self.write_flags([flag_row("mark", mark_id, stage=name, **told)])
        self.marks.add(mark_id)

    def cut(self, session_id: str, ends: Sequence[int]) -> None:
        """Digest what a session said up to each of these sequences apart from what follows it."""
        self._cut(self._session(session_id), ends)

    def stage_of(self, message: Message) -> tuple[str, int] | None:
        """Tell messages of two stages apart; None: of a session without stages."""
        session = self._session(message.session_id) if self.cuts else ""
        cuts = self.cuts.get(session)
        return (session, bisect_left(cuts, message.sequence)) if cuts else None

    def _cut(self, session: str, ends: Sequence[int]) -> None:
        if ends:
            self.cuts[session] = sorted({*self.cuts.get(session, ()), *ends})

    def _session(self, session_id: str) -> str:
        return self.services.ids.of("session", self.key, session_id)

    async def set_paused(self, paused: bool) -> None:
        """Turn the user's memory off or on, in the store, for every process."""
        await self.write_flags([flag_row("state", "state", paused=paused)])
        self.paused = paused

    async def read(self, fn: Callable[[UserIndex], R]) -> R:
        """Run what computes over the index in the pool; the index does not change meanwhile."""

        def held() -> R:
            with self.guard, one_thread():
                return fn(self.index)

        return await self.services.worker.thread(held)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed in the pool; a function of the application apart, where it may hang.

        Raises:
            EmbedderError: It fails, or does not answer in time.
        """
        worker, embedder = self.services.worker, self.services.embedder
        if embedder.bundled:
            return await worker.thread(embedder.embed, list(texts))
        try:
            within = EMBED_WITHIN + len(texts)
            return await worker.apart(within, self.key, embedder.embed, list(texts))
        except TimeoutError as error:
            raise EmbedderError(f"embedder {embedder.name}: {error}", answered=False) from error

    async def embed_missing(self) -> None:
        """Embed what an embedder refused, or was down for, when it was stored."""
        async with self._order:
            await self._embed_bare()

    async def _embed_bare(self) -> None:
        bare = [r for r in map(self.index.get, self._bare) if r is not None]
        if not bare:
            return
        vectors = await self.embed_each([text_of(record) for record in bare])
        found = [(r, v) for r, v in zip(bare, vectors, strict=True) if v is not None]
        rows = [to_row(r, v) for r, v in found if is_vector(v)]
        if rows:
            await self.services.worker.storing(self.rows.write, rows)
        if found:
            # One whose vector is zero is done too: asked again, the embedder says the same.
            self._put(found)

    def _put(self, pairs: Sequence[Pair]) -> None:
        """Bring the index up to what was written."""
        with self.guard:
            self.index.put([r for r, _ in pairs], [v for _, v in pairs])
        for record, _ in pairs:
            self._bare.pop(record.id, None)
        self._bare |= _without_vector(pairs)

    async def embed_each(self, texts: Sequence[str]) -> "list[NDArray[np.float32] | None]":
        """Embed, and give None for a text that the embedder refuses; see `embedding`."""
        vectors, failure = await embed_each(self.embed, self.services.refusals, texts)
        if failure is not None:
            self.troubles.note("embedder", failure)
        return vectors

    async def _vectors(
        self, records: Sequence[Kept | MemoState]
    ) -> list[NDArray[np.float32] | None]:
        """Embed what is new or says something else; take the rest from the index."""
        out: list[NDArray[np.float32] | None] = []
        fresh: list[tuple[int, str]] = []
        for place, record in enumerate(records):
            out.append(None)
            if isinstance(record, MemoState):
                continue
            held = self.index.get(record.id)
            same = held is not None and text_of(held) == text_of(record)
            if same and record.id not in self._bare:
                out[place] = self.index.vector(record.id)
            else:
                fresh.append((place, text_of(record)))
        if fresh:
            matrix = await self.embed_each([text for _, text in fresh])
            for (place, _), vector in zip(fresh, matrix, strict=True):
                out[place] = vector
        return out

    def _take(self, rows: list[Row]) -> Let:
        """Build the index anew from the rows of one load; give what must not be there."""
        index = UserIndex(self.services.embedder.dimension)
        # In the pool: nobody may see it half read, such as a user who is paused as one who is not.
        if not any(row.layer == "state" for row in rows):
            self.paused = False
        before, self.tombs = self.tombs, _documents(rows, "forgotten")
        self.asked = _documents(rows, "asked")
        memo, pairs = self._read_rows(rows, None)
        if self.tombs != before:
            self._know_tombs()
        let, pairs = self._let_in(pairs)
        if memo is not None and let.unwanted:
            lost = {record.id for record in let.unwanted}
            memo = memo_without(memo, lambda i: i in lost or self.refuses(i))
        pairs, self.left_out = _within(pairs, self.services.limits.index_records)
        pairs.sort(key=_place)
        index.put([r for r, _ in pairs], [v for _, v in pairs])
        last = max((m.sequence for m in index.messages.values()), default=0)
        self._sequence = max(self._sequence, last)
        with self.guard:
            self.memo, self.index = memo, index
        self._bare = _without_vector(pairs)
        self.leftover = frozenset(m.id for m in self.waiting())
        return let

    def _read_rows(
        self, rows: list[Row], memo: MemoState | None
    ) -> tuple[MemoState | None, list[Pair]]:
        """Read the memo of rows, else `memo`, and their records; flags are taken in."""
        pairs: list[Pair] = []
        for row in rows:
            record = self._record(row)
            if isinstance(record, MemoState):
                memo = record
            elif record is not None:
                pairs.append((record, row.vector if is_vector(row.vector) else None))
            else:
                self._take_flag(row)
        return memo, pairs

    def _take_in(self, rows: list[Row]) -> bool:
        """Bring the index up to rows that others changed; False where all has to be read again.

        So it is where something was forgotten: what goes with it is known by the whole alone.
        """
        if any(row.layer == "forgotten" for row in rows):
            return False
        memo, pairs = self._read_rows(rows, self.memo)
        let, pairs = self._let_in(pairs)
        if let.unwanted or let.emptied:
            return False
        pairs.sort(key=_place)
        self._sequence = max([self._sequence, *map(_place, pairs)])
        with self.guard:
            self.memo = memo
            # The vector of what it said before must not stand for what it says now.
            self.index.drop([r.id for r, vector in pairs if vector is None])
        self._put(pairs)
        self.leftover |= {r.id for r, _ in pairs if isinstance(r, Message) and r.status in WAITING}
        return True

    def _record(self, row: Row) -> Kept | MemoState | None:
        """Read a row; one that can't be read is noted, and the rest of the user is of use."""
        try:
            return from_row(row)
        except StoreError as error:
            self.troubles.note("row", error)
            return None

    def _know(self, tombs: Mapping[str, Tomb]) -> None:
        """Take in marks that were written."""
        self.tombs |= {i: tomb.document() for i, tomb in tombs.items()}
        self._know_tombs()

    def _know_tombs(self) -> None:
        """Bring up what is derived from the marks of what was forgotten."""
        before = self.gone
        self.gone = frozenset(skip for t in self.tombs.values() for skip in t.get("skips", ()))
        self.passed_over = (self.passed_over - before) | self.gone
        self.generation += 1

    def said_id(self, role: str, text: str) -> str:
        """Return the keyed hash by which a message is known whose text was changed since."""
        text = self.services.compare(text).text
        return self.services.ids.of("said", self.key, role, text)

    def cut_tomb(self, message_id: str) -> dict[str, Any] | None:
        """Return the mark of a message that lost text, where it did."""
        return self.tombs.get(self.tomb(f"cut {message_id}")) if self.tombs else None

    def _uncut(self, message: Message) -> str:
        tomb = self.cut_tomb(message.id)
        if tomb is None or self.said_id(message.role, message.content) not in tomb["was"]:
            return ""
        return str(tomb["said"])

    def _let_in(self, pairs: list[Pair]) -> tuple[Let, list[Pair]]:
        """Keep out of a load what was forgotten."""
        if not self.tombs:
            return Let(), pairs
        let = let_in([record for record, _ in pairs], Refusal(self.refuses, self._uncut))
        vectors = {record.id: vector for record, vector in pairs}
        emptied = {m.id for m in let.emptied}
        return let, [(r, None if r.id in emptied else vectors[r.id]) for r in let.records]

    def _allowed(self, records: Sequence[Kept | MemoState]) -> list[Kept | MemoState]:
        """Keep out of a write what was forgotten, whoever still knew it."""
        if not self.tombs:
            return list(records)
        plain = [r for r in records if not isinstance(r, MemoState)]
        let = let_in(plain, Refusal(self.refuses, self._uncut))
        memos = [r for r in records if isinstance(r, MemoState)]
        # A copy of before the cut is left out: what is stored is newer.
        emptied = {m.id for m in let.emptied}
        return [*(r for r in let.records if r.id not in emptied), *memos]

    def _take_flag(self, row: Row) -> None:
        if row.layer == "state":
            self.paused = bool(json.loads(row.document).get("paused"))
        elif row.layer == "mark":
            self.marks.add(row.id)
            told = json.loads(row.document)
            self._cut(told.get("session", ""), told.get("ends", ()))
        elif row.layer == "asked":
            self.asked[row.id] = json.loads(row.document)
        elif row.layer == "skip":
            self.passed_over.add(row.id)
        elif row.layer == "forgotten":
            self.tombs[row.id] = json.loads(row.document)
        elif row.layer == "sent":
            self._take_sent(row)

    def _take_sent(self, row: Row) -> None:
        try:
            self.services.hooks.sent.load((self.user_id, self.space), row.document)
        except StoreError as error:
            self.troubles.note("row", error)  # a count that can't be read holds up nothing


def _documents(rows: Sequence[Row], layer: str) -> dict[str, dict[str, Any]]:
    """Read the flags of a layer, by their ids."""
    return {row.id: json.loads(row.document) for row in rows if row.layer == layer}


def _place(pair: Pair) -> int:
    """Return the place of a message in the order of the user's; 0 of what is none."""
    return pair[0].sequence if isinstance(pair[0], Message) else 0


def _flags(tombs: Mapping[str, Tomb]) -> list[Row]:
    """Make the rows of marks."""
    said = {i: json.dumps(tomb.document(), ensure_ascii=False) for i, tomb in tombs.items()}
    return [Row("forgotten", i, document, {}) for i, document in said.items()]


def _without_vector(pairs: Sequence[Pair]) -> dict[str, None]:
    """Name the records that say something and were not embedded, in their order."""
    return {r.id: None for r, v in pairs if v is None and text_of(r).strip()}


def _within(pairs: list[Pair], limit: int) -> tuple[list[Pair], frozenset[str]]:
    """Leave out the oldest processed turns of a user past the limit of an index."""
    over = len(pairs) - limit
    if over <= 0:
        return pairs, frozenset()
    processed = sorted(
        (r.sequence, r.id) for r, _ in pairs if isinstance(r, Message) and r.status == "processed"
    )
    gone = frozenset(record_id for _, record_id in processed[:over])
    return [p for p in pairs if p[0].id not in gone], gone
