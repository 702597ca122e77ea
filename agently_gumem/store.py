"""Chroma, and nothing else: rows of one user and space, read whole and written at once."""

import contextlib
import json
import os
import secrets
import threading
import uuid
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agently_gumem.erase import KEEPER, Erased, Eraser, Gate
from agently_gumem.errors import ConfigError, EmbedderMismatch, StoreError
from agently_gumem.ids import Ids
from agently_gumem.opening import Opened, chroma, close_client, open_stores
from agently_gumem.revision import Log, key_of, of_others, without_old

SCHEMA_VERSION = 1
MAX_SHARDS = 999
# Rows of turns that are over, before they are taken out.
_OLD_TURNS = 4
# Users of whom a store remembers which rows it wrote last; of others, all is read anew elsewhere.
_MOST_LOGS = 4_096
# A row that has no vector of its own (memo, state, revision) carries zeros.
VECTOR_LAYERS = frozenset({"message", "fact", "summary", "topic"})
# What says something about a user; the other layers hold keyed hashes and flags.
TELLING_LAYERS = VECTOR_LAYERS | {"memo"}
# What has to outlive the user's records: else they could come in again, or anew while paused.
LASTING_LAYERS = ("forgotten", "skip", "state")
# Cosine: in any other space Chroma writes memory of its process where the vectors' lengths belong.
_HNSW = {"hnsw": {"space": "cosine", "sync_threshold": 50, "batch_size": 50}}


@dataclass(frozen=True)
class Row:
    """One record as it is kept: its layer, id, JSON text, promoted fields and vector."""

    layer: str
    id: str
    document: str
    fields: Mapping[str, str | int | float]
    """Scalars that can be filtered on: session_id, status, validity, sequence, and in seconds
    time, since (when its age begins) and expires (0: never)."""
    vector: NDArray[np.float32] | None = None


# Every promoted field is written every time: Chroma's upsert merges metadata, and a field that a
# new row did not name would keep its old value.
_NEUTRAL: dict[str, str | int | float] = {
    "session_id": "",
    "status": "",
    "validity": "",
    "time": 0.0,
    "since": 0.0,
    "expires": 0.0,
    "sequence": 0,
}


# A row on its way out: no scope, so that nobody reads it between its overwriting and its deletion.
_GONE: dict[str, str | int | float] = {
    **_NEUTRAL,
    "scope": "",
    "layer": "gone",
    "record_id": "",
    "user_id": "",
    "space": "",
}


@dataclass(frozen=True)
class Standing:
    """Who has, or had last, the turn at something that one process at a time does for a user."""

    epoch: int
    """Rises with each holder."""
    holder: str
    beat: int
    """Rises while the holder lives."""
    free: bool
    """Whether the holder is done."""


_gates: defaultdict[str, Gate] = defaultdict(Gate)
if hasattr(os, "register_at_fork"):  # not on Windows
    # A gate that a thread of the parent holds would stay shut in the child for ever.
    os.register_at_fork(after_in_child=_gates.clear)


class Store:
    """The collections of one namespace: one for each shard, and one for what holds for all.

    Args:
        opened: A client, as `open_client` gives it.
        namespace: Prefix of the collections' names.
        shards: Collections to spread users over; counts only when the store is made.
        embedder: Name of the embedder, recorded in the store.
        dimension: Length of its vectors.

    Raises:
        EmbedderMismatch: The store was made with another embedder, dimension or schema.
    """

    def __init__(
        self,
        opened: Opened,
        *,
        namespace: str,
        shards: int,
        embedder: str,
        dimension: int,
    ) -> None:
        client, kind = opened.client, opened.kind
        self._client = client
        self._owned = opened.owned
        self._key = opened.key
        self._check_place = opened.check_place
        self._ownership = opened.ownership
        if opened.ownership is not None:  # also of one that is dropped without being closed
            weakref.finalize(self, opened.ownership.release)
        if not isinstance(shards, int) or not 1 <= shards <= MAX_SHARDS:
            raise ConfigError(f"shards={shards!r} takes a whole number from 1 to {MAX_SHARDS}")
        self._gate = _gates[opened.key]
        self.kind = kind
        # All in-memory clients of a process share one database: each store has names of its own.
        self._namespace = namespace if kind != "memory" else f"{namespace}-{uuid.uuid4().hex[:12]}"
        self._dimension = dimension
        self._writer = secrets.token_hex(6)
        self._raised = 0
        self._logs: OrderedDict[str, Log] = OrderedDict()
        self._unlisted = 0
        """Number of the last write to a user whose log was let go."""
        self._counting = threading.Lock()
        self._collections: dict[int, Any] = {}
        self._prepared: set[int] = set()
        self._root = self._collection("root")
        with chroma("say its largest batch"):
            self._batch = int(client.get_max_batch_size())
        self._eraser = Eraser(
            kind=kind,
            folder=opened.folder,
            namespace=self._namespace,
            root=self._root,
            writer=self._writer,
            gate=self._gate,
        )
        try:
            self._open(shards, embedder, dimension)
        except BaseException:
            open_stores[self._key].discard(self)
            raise

    def _open(self, shards: int, embedder: str, dimension: int) -> None:
        """Mend what a kill tore, then read what holds for all, or make it."""
        torn = self._mend()
        self._prepare(self._root, [0.0])
        made = self._make_root(shards, embedder, dimension)
        self.shards = int(made["shards"])
        self.ids = Ids(bytes.fromhex(made["key"]))
        if torn:  # all at once, so that whoever opens the folder to mend it has done so
            for shard in self._in_use():
                self.collection(shard)

    def _mend(self) -> bool:
        """Mend the namespace, as the first store of it in this process; tell if it was torn.

        Beside another one Chroma may write an index out just now, also as it reads one: after a
        kill the queue can hold enough for that.
        """
        with self._gate.shut():
            beside = [s for s in open_stores[self._key] if s._namespace == self._namespace]
            open_stores[self._key].add(self)
            return not beside and self._eraser.mend()

    def told(self) -> dict[str, Any]:
        """Say what kind of store it is, and which process holds its folder, where it has one."""
        held = self._ownership.told() if self._ownership is not None else None
        return {"kind": self.kind, "shards": self.shards, "lock": held}

    @property
    def shared(self) -> bool:
        """Whether somebody else writes to it too: other processes, or a second one in this."""
        return self.kind == "server" or len(open_stores[self._key]) > 1

    def scope(self, user_id: str, space: str) -> "ScopedStore":
        """Return the part of one user and space; there is no other way to read or write."""
        return ScopedStore(self, user_id, space)

    def pending(self) -> list[tuple[str, str]]:
        """List the users and spaces that have messages waiting for a digest."""
        return self._owners(
            [{"layer": {"$eq": "message"}}, {"status": {"$in": ["pending", "chunked"]}}]
        )

    def expired(self, moment: float) -> list[tuple[str, str]]:
        """List the users and spaces with records whose time to expire has come, in seconds."""
        return self._owners([{"expires": {"$gt": 0.0}}, {"expires": {"$lte": moment}}])

    def aged(self, layers: Sequence[str], moment: float) -> list[tuple[str, str]]:
        """List the users and spaces with records of these layers from before a time in seconds."""
        return self._owners(
            [
                {"layer": {"$in": list(layers)}},
                {"since": {"$gt": 0.0}},
                {"since": {"$lt": moment}},
            ]
        )

    def _owners(self, conditions: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
        found: dict[tuple[str, str], None] = {}
        for shard in range(self.shards):
            with chroma("list users"):
                got: dict[str, Any] = self.collection(shard).get(
                    where={"$and": list(conditions)}, include=["metadatas"]
                )
            metadatas: list[dict[str, Any]] = got["metadatas"] or []
            for fields in metadatas:
                found[(str(fields["user_id"]), str(fields["space"]))] = None
        return list(found)

    def close(self) -> None:
        """Let go of a database that was opened here; a caller's own client stays open.

        What was in memory is deleted: its database lives as long as the process does.
        """
        if self.kind == "memory":
            for name in ["root", *(f"{shard:03d}" for shard in self._collections)]:
                with chroma(f"delete {name}"):
                    self._client.delete_collection(f"{self._namespace}-{name}")
        self._collections.clear()
        open_stores[self._key].discard(self)
        try:
            if self._owned:
                close_client(self._client)
        finally:
            if self._ownership is not None:
                self._ownership.release()

    @cached_property
    def zeros(self) -> NDArray[np.float32]:
        """The vector of a row that has none of its own."""
        return np.zeros(self._dimension, dtype=np.float32)

    @contextlib.contextmanager
    def writing(self, shard: int) -> Generator[Any, None, None]:
        """Give the collection of a shard to write to, and hold open the gate that erasing shuts."""
        collection = self.collection(shard)
        if shard not in self._prepared:
            self._prepare(collection, self.zeros)
            self._prepared.add(shard)
        with self._gate.passing():
            yield collection

    def collection(self, shard: int) -> Any:
        """Return the collection of a shard, made at first use; finish what a kill left half."""
        self._check_place()
        if shard not in self._collections:
            found = self._collection(f"{shard:03d}")
            with chroma("look at an index"):
                begun = self._eraser.begun(found)
            if begun:
                self._prepare(found, self.zeros)
            self._collections[shard] = found
        return self._collections[shard]

    def shard_of(self, user_id: str) -> int:
        """Return the user's shard: a stable hash, the same in every process."""
        return int.from_bytes(sha256(user_id.encode()).digest()[:8], "big") % self.shards

    def write(
        self,
        shard: int,
        rows: Sequence[tuple[str, Row, dict[str, Any]]],
        *,
        dirty: bool = False,
    ) -> None:
        """Upsert rows in one call, or in Chroma's largest batches where they are more.

        `dirty` says that text of rows is replaced on purpose: its bytes go at the next erasure.
        """
        with self.writing(shard) as collection:
            if dirty:
                self._set_dirty()
            self._upsert(collection, rows)

    def drop(
        self,
        shard: int,
        row_ids: Sequence[str],
        also: Sequence[tuple[str, Row, dict[str, Any]]] = (),
        *,
        telling: bool,
        first: Sequence[tuple[str, Row, dict[str, Any]]] = (),
    ) -> None:
        """Delete rows, and upsert `also` once nobody can read them any more.

        Rows that tell something are overwritten before: Chroma leaves the vector of a deleted
        row in its index, in memory and in the file. `first` is written in the same call.
        """
        with self.writing(shard) as collection:
            if telling:
                self._set_dirty()
                gone = Row("gone", "", "", {})
                self._upsert(collection, [*first, *((i, gone, _GONE) for i in row_ids), *also])
            for start in range(0, len(row_ids), self._batch):
                with chroma("delete"):
                    collection.delete(ids=list(row_ids[start : start + self._batch]))
            if also and not telling:
                self._upsert(collection, also)

    def _set_dirty(self) -> None:
        with chroma("mark that rows are deleted"):
            self._eraser.set_dirty()

    def _upsert(self, collection: Any, rows: Sequence[tuple[str, Row, dict[str, Any]]]) -> None:
        zeros = self.zeros
        for start in range(0, len(rows), self._batch):
            part = rows[start : start + self._batch]
            with chroma("write"):
                collection.upsert(
                    ids=[row_id for row_id, _, _ in part],
                    embeddings=[zeros if r.vector is None else r.vector for _, r, _ in part],
                    documents=[r.document for _, r, _ in part],
                    metadatas=[fields for _, _, fields in part],
                )

    def changed(self, key: str, rows: Collection[str] | None, *, ground: bool) -> dict[str, Any]:
        """Note a write to a scope; give what its revision row says of it to other processes.

        Args:
            key: The scope.
            rows: Ids of the rows; None where some were deleted.
            ground: Whether it changes what others may be about to decide on.
        """
        with self._counting:
            self._raised += 1
            log = self._logs.pop(key, None) or Log(self._unlisted)
            log.add(self._raised, rows, ground=ground)
            self._logs[key] = log
            if len(self._logs) > _MOST_LOGS:
                self._unlisted = max(self._unlisted, self._logs.popitem(last=False)[1].last)
            return {self.own_key(): log.value()}

    def own_key(self) -> str:
        """Return the name of this writer's value in a revision row."""
        return key_of(self._writer)

    @property
    def dirty(self) -> bool:
        """Whether rows were deleted, or texts cut, since the bytes were last erased."""
        self._check_place()
        with chroma("read the mark of deleted rows"):
            return self._eraser.dirty

    def erase_if_dirty(self, timeout: float = 600.0) -> Erased | None:
        """Erase where something was deleted since the last time; None where nothing was.

        Raises:
            StoreError: As `erase`.
        """
        return self.erase(timeout) if self.dirty else None

    def erase(self, timeout: float = 600.0) -> Erased:
        """Make the bytes of deleted rows go from the files; writes wait meanwhile, none fails.

        In memory there is no file. On a server the queue and the vectors are cleaned, and the
        answer says what is left and what its operator runs.

        Args:
            timeout: Seconds after which it gives up.

        Raises:
            StoreError: The bytes are still there, in part or all; nothing else is lost.
        """
        self._check_place()
        with chroma("erase what was deleted"):
            for shard in self._in_use():
                self.collection(shard)  # its making may have been interrupted; not at a shut gate
            return self._eraser.erase(self._ready_shards, self._batch, timeout)

    def _in_use(self) -> list[int]:
        """List the shards that were ever read or written."""
        names = {str(c.name) for c in self._client.list_collections()}
        return [n for n in range(self.shards) if f"{self._namespace}-{n:03d}" in names]

    def _ready_shards(self) -> list[Any]:
        """List the shards that have rows, without what an interrupted deletion left there."""
        found = [self._collection(f"{n:03d}") for n in self._in_use()]
        ready = [collection for collection in found if collection.count()]
        for collection in ready:
            collection.delete(where={"layer": {"$eq": "gone"}})
            if not collection.get(ids=[KEEPER], include=[])["ids"]:  # on a server
                _keep(collection, self.zeros, KEEPER, KEEPER)
        return ready

    def _prepare(self, collection: Any, vector: Any) -> None:
        with chroma("make an index"):
            self._eraser.prepare(
                collection, vector, partial(_keep, collection, vector), self._batch
            )

    def _collection(self, name: str) -> Any:
        with chroma(f"open the collection {self._namespace}-{name}"):
            return self._client.get_or_create_collection(
                f"{self._namespace}-{name}", embedding_function=None, configuration=_HNSW
            )

    def _make_root(self, shards: int, embedder: str, dimension: int) -> dict[str, Any]:
        wanted = {
            "schema": SCHEMA_VERSION,
            "embedder": embedder,
            "dimension": dimension,
            "shards": shards,
            "key": secrets.token_hex(32),
        }
        with chroma("read the store's root"):
            # `add` of an id that exists is silent and keeps the first: all racers agree.
            self._root.add(ids=["root"], embeddings=[[0.0]], documents=[json.dumps(wanted)])
            got = self._root.get(ids=["root"], include=["documents"])
            found: dict[str, Any] = json.loads(got["documents"][0])
        for what in ("schema", "embedder", "dimension"):
            if found[what] != wanted[what]:
                raise EmbedderMismatch(
                    f"this store was made with {what} {found[what]!r}, not {wanted[what]!r}: "
                    "open it with the same embedder, or make a new store and add the messages anew"
                )
        return found


def _keep(collection: Any, vector: Any, row_id: str, layer: str) -> None:
    collection.upsert(
        ids=[row_id],
        embeddings=[vector],
        documents=["{}"],
        metadatas=[{**_GONE, "layer": layer}],
    )


@dataclass(frozen=True)
class ScopedStore:
    """The rows of one user and space."""

    store: Store
    user_id: str
    space: str
    _others: dict[str, Any] = field(default_factory=dict[str, Any], compare=False)
    """What other writers had told when it was last read."""

    @cached_property
    def key(self) -> str:
        """The scope as one keyed value, on which every read filters."""
        return self.store.ids.of("scope", self.user_id, self.space)

    @property
    def shard(self) -> int:
        """Its collection."""
        return self.store.shard_of(self.user_id)

    def load(self) -> list[Row]:
        """Read every row of the scope, with vectors."""
        return self._read(where={"scope": {"$eq": self.key}})

    def read(self, row_ids: Sequence[str]) -> list[Row]:
        """Read some rows of the scope by their ids, with vectors; those that are there."""
        rows = self._read(ids=list(row_ids))
        return [row for row in rows if row.fields["scope"] == self.key]

    def _read(self, **which: Any) -> list[Row]:
        with chroma("read a user"):
            got = self.store.collection(self.shard).get(
                **which, include=["documents", "metadatas", "embeddings"]
            )
        return [
            Row(
                layer=str(fields["layer"]),
                id=str(fields["record_id"]),
                document=document,
                fields=fields,
                vector=np.asarray(vector, dtype=np.float32)
                if fields["layer"] in VECTOR_LAYERS
                else None,
            )
            for document, fields, vector in zip(
                got["documents"], got["metadatas"], got["embeddings"], strict=True
            )
        ]

    def write(
        self,
        rows: Sequence[Row],
        *,
        dirty: bool = False,
        ground: bool = False,
        turns: Mapping[str, int] | None = None,
    ) -> frozenset[str]:
        """Write rows at once: whole or not at all, up to Chroma's largest batch.

        Args:
            rows: What is written.
            dirty: Text was cut on purpose, so that its bytes go at the next erasure.
            ground: What others may be about to decide on has changed.
            turns: Name -> epoch of the turns that it rests on, looked at right before.

        Returns:
            The turns that another process has taken over; then nothing was written.
        """
        if not rows:
            return frozenset()
        if lost := self.look(turns)[1] if turns else frozenset[str]():
            return lost
        ready = [(self._row_id(row.layer, row.id), row, self._fields(row)) for row in rows]
        if self.store.shared:
            ready.append(self._revision_row([row_id for row_id, _, _ in ready], ground))
        self.store.write(self.shard, ready, dirty=dirty)
        return frozenset()

    def delete(self, layer: str, ids: Sequence[str]) -> None:
        """Delete rows of one layer by their records' ids."""
        self.forget([(layer, record_id) for record_id in ids])

    def forget(self, rows: Sequence[tuple[str, str]]) -> None:
        """Delete rows by layer and id, so that no reader sees them half gone.

        What they told is overwritten first; `Store.erase` takes its bytes out of the files.
        """
        telling = any(layer in TELLING_LAYERS for layer, _ in rows)
        self._drop([self._row_id(layer, record_id) for layer, record_id in rows], telling)

    def replace(
        self,
        gone: Sequence[tuple[str, str]],
        rows: Sequence[Row],
        turns: Mapping[str, int] | None = None,
    ) -> frozenset[str]:
        """Write rows and delete others, by layer and id, so that none or all of it is there.

        One call up to Chroma's largest batch; of more, `rows` come first. `turns` and what is
        returned are those of `write`.
        """
        if lost := self.look(turns)[1] if turns else frozenset[str]():
            return lost
        row_ids = [self._row_id(layer, record_id) for layer, record_id in gone]
        self._drop(row_ids, telling=True, first=rows)
        return frozenset()

    def forget_all(self, rows: Sequence[Row] = ()) -> int:
        """Delete all rows of the scope, but those that keep what was forgotten from coming back.

        Args:
            rows: Of the latter, those that are written with it, as `replace` does.

        Returns:
            The number of rows that went.
        """
        with chroma("list the rows of a user"):
            got = self.store.collection(self.shard).get(
                where={
                    "$and": [
                        {"scope": {"$eq": self.key}},
                        {"layer": {"$nin": list(LASTING_LAYERS)}},
                    ]
                },
                include=[],
            )
        found: list[str] = got["ids"]
        self._drop(found, telling=True, first=rows)
        return len(found)

    def _drop(self, row_ids: Sequence[str], telling: bool, first: Sequence[Row] = ()) -> None:
        if row_ids or first:
            also = [self._revision_row(None, telling)] if self.store.shared else []
            ready = [(self._row_id(row.layer, row.id), row, self._fields(row)) for row in first]
            unique = list(dict.fromkeys(row_ids))
            self.store.drop(self.shard, unique, also, telling=telling, first=ready)

    def revision(self) -> dict[str, Any]:
        """Read what other writers told; empty on a store that one process owns."""
        return self.look({})[0] if self.store.shared else {}

    def look(self, turns: Mapping[str, int]) -> tuple[dict[str, Any], frozenset[str]]:
        """Read in one call what other writers told, and which turns another process has now.

        Args:
            turns: Name -> epoch of the turns that are held here.
        """
        pairs = {
            name: (self._turn_id(name, n), self._turn_id(name, n + 1)) for name, n in turns.items()
        }
        revision = self._row_id("revision", "")
        with chroma("read a revision"):
            got: dict[str, Any] = self.store.collection(self.shard).get(
                ids=[revision, *(row_id for pair in pairs.values() for row_id in pair)],
                include=["metadatas"],
            )
        found: dict[str, dict[str, Any]] = dict(zip(got["ids"], got["metadatas"], strict=True))
        # The next holder's row is there; or it was taken out by a later one, and ours with it.
        lost = frozenset(
            n for n, (own, next_) in pairs.items() if next_ in found or own not in found
        )
        others = of_others(found.get(revision) or {}, self.store.own_key())
        self._others.clear()
        self._others.update(others)
        return others, lost

    # -- turns: what one process at a time does, on a server ---------------------------------------

    def standing(self, name: str) -> Standing | None:
        """Read who has the turn, or had it last; None where nobody ever had."""
        rows = self._turns(name)
        return _standing(rows) if rows else None

    def take_turn(self, name: str, epoch: int, holder: str) -> Standing:
        """Take the turn of an epoch, where nobody else has; give who has it now.

        `add` keeps the first of all racers. One that comes so late that its epoch is over, and its
        row taken out again, finds a higher one.
        """
        fields = {"turn": name, "epoch": epoch, "holder": holder, "beat": 0, "free": 0}
        row = {**self._fields(Row("turn", f"{name}-{epoch}", "", {})), **fields}
        with chroma("take a turn"), self.store.writing(self.shard) as collection:
            collection.add(
                ids=[self._turn_id(name, epoch)],
                embeddings=[self.store.zeros],
                documents=["{}"],
                metadatas=[{**row, "scope": f"turn-{self.key}"}],
            )
        rows = self._turns(name)
        if not rows:  # deleted by hand between the two calls
            raise StoreError(f"the turn {name!r} that was just taken is not there")
        now = _standing(rows)
        if (now.epoch, now.holder) == (epoch, holder) and len(rows) > _OLD_TURNS:
            self._drop_turns(name, [past for past in rows if past < epoch])
        return now

    def keep_turn(self, name: str, epoch: int, beat: int) -> bool:
        """Show that the holder lives; tell whether it still has the turn."""
        self._set_turn(name, epoch, beat=beat)
        return not self.look({name: epoch})[1]

    def end_turn(self, name: str, epoch: int) -> None:
        """Give the turn free."""
        self._set_turn(name, epoch, free=1)

    def _turns(self, name: str) -> dict[int, dict[str, Any]]:
        with chroma("read whose turn it is"):
            got: dict[str, Any] = self.store.collection(self.shard).get(
                where={"scope": {"$eq": f"turn-{self.key}"}}, include=["metadatas"]
            )
        return {int(f["epoch"]): f for f in got["metadatas"] if f["turn"] == name}

    def _set_turn(self, name: str, epoch: int, **fields: int) -> None:
        with chroma("keep a turn"), self.store.writing(self.shard) as collection:
            # Of a row that is not there any more it changes nothing: `update` makes none.
            collection.update(ids=[self._turn_id(name, epoch)], metadatas=[dict(fields)])

    def _drop_turns(self, name: str, epochs: Sequence[int]) -> None:
        with chroma("take out old turns"), self.store.writing(self.shard) as collection:
            collection.delete(ids=[self._turn_id(name, n) for n in epochs])

    def _turn_id(self, name: str, epoch: int) -> str:
        return self._row_id("turn", f"{name}-{epoch}")

    def _row_id(self, layer: str, record_id: str) -> str:
        return self.store.ids.of("row", self.key, layer, record_id)

    def _fields(self, row: Row) -> dict[str, Any]:
        # A flag outlives a user who was forgotten, and so does not name them; the empty text
        # takes out what an older version wrote, since an upsert merges.
        named = row.layer in TELLING_LAYERS
        return {
            **_NEUTRAL,
            **row.fields,
            "scope": self.key,
            "layer": row.layer,
            "record_id": row.id,
            "user_id": self.user_id if named else "",
            "space": self.space if named else "",
        }

    def _revision_row(
        self, rows: Collection[str] | None, ground: bool
    ) -> tuple[str, Row, dict[str, Any]]:
        row = Row("revision", "", "{}", {})
        old = without_old(self._others, secrets.token_hex(4))
        if old:
            self._others.clear()
        told = {**old, **self.store.changed(self.key, rows, ground=ground)}
        # A row of its own scope, so that no load of the user reads it as a record.
        fields = {**self._fields(row), **told, "scope": f"revision-{self.key}"}
        return self._row_id("revision", ""), row, fields


def _standing(rows: Mapping[int, Mapping[str, Any]]) -> Standing:
    """Say who has the turn by its rows, epoch -> fields: the last one counts."""
    fields = rows[max(rows)]
    return Standing(max(rows), str(fields["holder"]), int(fields["beat"]), bool(fields["free"]))
