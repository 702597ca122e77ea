"""Erase a store: the mark, the gate, Chroma's queue, and the process that cleans the files."""

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from agently_gumem.erase.gate import Gate
from agently_gumem.erase.index import KEEPER, index_of, scrub_index, torn_indexes
from agently_gumem.erase.queue import DirtyMark, take_up
from agently_gumem.erase.report import ON_A_SERVER, Erased, command_for
from agently_gumem.erase.run import mend, run
from agently_gumem.errors import StoreError

_MENDING_WITHIN = 60.0
# What Chroma says where a row is there and its vector is not.
_NO_VECTOR = "Error finding id"
_log = logging.getLogger("agently_gumem")


class Eraser:
    """What one store keeps for taking out the bytes of deleted rows.

    What Chroma raises passes through: the store names it.

    Args:
        kind: "embedded", "memory" or "server".
        folder: Where the files are; None in memory and on a server.
        namespace: Prefix of the collections' names.
        root: The collection of what holds for all.
        writer: Name of this store's counter in the mark.
        gate: The one of this database in this process.
    """

    def __init__(
        self,
        *,
        kind: str,
        folder: Path | None,
        namespace: str,
        root: Any,
        writer: str,
        gate: Gate,
    ) -> None:
        self._kind = "memory" if kind == "embedded" and folder is None else kind
        self._folder = folder
        self._namespace = namespace
        self._root = root
        self._mark = DirtyMark(root, writer)
        self._gate = gate
        # What was marked before may have been erased by another process since, or be of a folder
        # that was deleted and made anew.
        gate.marked.discard(namespace)

    def mend(self) -> bool:
        """Have Chroma make the indexes anew that a kill tore, once each is read; tell if any was.

        For before anything of the namespace is read, which Chroma fails at, and keeps what it
        failed on; the gate is shut meanwhile.
        """
        if self._folder is None or not torn_indexes(self._folder):
            return False
        try:
            return bool(mend(self._folder, self._namespace, _MENDING_WITHIN))
        except StoreError as error:  # the other collections are of use
            _log.warning("%s", error)
            return False

    @property
    def dirty(self) -> bool:
        """Whether rows were deleted, or texts cut, since the bytes were last erased."""
        return self._mark.is_set

    def set_dirty(self) -> None:
        """Mark that rows are about to be deleted, or texts cut."""
        # On a server another process may have cleared the mark: it is set each time.
        if self._kind == "server" or self._namespace not in self._gate.marked:
            self._mark.set()
            self._gate.marked.add(self._namespace)

    def erase(self, shards: Callable[[], Iterable[Any]], batch: int, timeout: float) -> Erased:
        """Erase, while the gate is shut; `shards` gives the collections, ready for it.

        Raises:
            StoreError: The bytes are still there, in part or all.
        """
        with self._gate.shut():
            counters = self._mark.counters()
            began = time.monotonic()
            if self._kind == "memory":
                erased = Erased("memory")
            else:
                for collection in [*shards(), self._root]:
                    take_up(collection, batch)
                erased = self._clean(timeout)
            self._mark.clear(counters)
            self._gate.marked.discard(self._namespace)
            return replace(erased, seconds=round(time.monotonic() - began, 3))

    def _clean(self, timeout: float) -> Erased:
        if self._folder is None:
            command = command_for("PATH", self._namespace)
            return Erased("server", left=ON_A_SERVER, command=command)
        return run(self._folder, self._namespace, timeout)

    def begun(self, collection: Any) -> bool:
        """Tell whether an index is still to be made, or was torn: a mere read would make it anew.

        Chroma makes none before it knows how long the vectors are.
        """
        if self._folder is None or collection.get_model().dimension is None:
            return False
        return not self._prepared(collection)

    def _prepared(self, collection: Any) -> bool:
        kept: dict[str, Any] = collection.get(ids=[KEEPER], include=["metadatas"])
        if [fields["layer"] for fields in kept["metadatas"]] != [KEEPER]:
            return False
        return _has_vectors(collection, [KEEPER])

    def prepare(
        self, collection: Any, vector: Any, keep: Callable[[str, str], None], batch: int
    ) -> None:
        """Have Chroma make the index of a collection, once in its life, before anything is in it.

        Chroma writes memory of its process into the files of an index that it makes, which can
        hold anything that anybody said; and it makes it anew at the first read or write of each
        opening, until it has once been written out. So it is written out at once, and cleaned.

        Rows that stand there already were written through a server, or have lost their vectors with
        a torn index: of these each gets `vector`, without which Chroma gives none of them, and is
        embedded anew when its user is read.

        Args:
            collection: Which one.
            vector: That of a row that has none.
            keep: Writes a row without text, of an id and a layer.
            batch: Rows in one call at most.
        """
        # Looked at first without the gate: what is made already holds up no other writer.
        if self._folder is None or self._prepared(collection):
            return
        with self._gate.shut():
            if self._prepared(collection):
                return
            lost = self._fill(collection, vector, batch)
            if lost:
                _log.warning(
                    "a kill tore the index of %s: %d rows lost their vectors; what they say is "
                    "embedded anew when its user is next read",
                    collection.name,
                    lost,
                )
            # Its vector is written out with all others, so that it stands for all of them: what
            # shows that this is done is a field, which says nothing where the vector is lost.
            keep(KEEPER, "making")
            mark = uuid.uuid4().hex
            keep(mark, "gone")
            take_up(collection, batch)
            try:
                scrub_index(index_of(self._folder, mark))
            except (OSError, ValueError) as error:
                # As of a Chroma that is not known yet: the memory goes on, and an erasure fails.
                _log.warning(
                    "the new index of %s holds memory of this process, until a version that knows "
                    "its form erases: %s",
                    collection.name,
                    error,
                )
            collection.delete(where={"layer": {"$eq": "gone"}})
            # Last: what was interrupted begins anew.
            collection.update(ids=[KEEPER], metadatas=[{"layer": KEEPER}])

    def _fill(self, collection: Any, vector: Any, batch: int) -> int:
        """Give every row a vector whose own is lost; return how many these are."""
        found: dict[str, Any] = collection.get(include=["metadatas"])
        fields: list[dict[str, Any] | None] = found["metadatas"]
        ids = [
            row_id
            for row_id, told in zip(found["ids"], fields, strict=True)
            if (told or {}).get("layer") not in (KEEPER, "making", "gone")
        ]
        lost = 0
        for start in range(0, len(ids), batch):
            part = ids[start : start + batch]
            if not _has_vectors(collection, part):
                collection.upsert(ids=part, embeddings=[vector] * len(part))
                lost += len(part)
        return lost


def _has_vectors(collection: Any, ids: list[str]) -> bool:
    """Tell whether Chroma can read the vectors of all these rows."""
    try:
        collection.get(ids=ids, include=["embeddings"])
    except Exception as error:  # Chroma has no class for it
        if _NO_VECTOR in str(error):
            return False
        raise
    return True
