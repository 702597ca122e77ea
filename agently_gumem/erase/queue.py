"""Chroma's queue of changes, emptied through Chroma, and the mark that rows were deleted.

Both work on collections that are open: what Chroma raises is for the caller to name.
"""

import json
import uuid
from collections.abc import Mapping
from typing import Any

_THRESHOLD = 1_000  # Chroma's own; a collection on a cloud has no such index


def take_up(collection: Any, batch: int) -> None:
    """Have a collection's vector index written out, and so its queue emptied.

    Chroma writes the index once `sync_threshold` changes came, and then takes out of the queue
    what the index holds, all but the last row. Deletions of ids that are not there are such
    changes: they change nothing, and the last row says nothing.
    """
    told: dict[str, Any] = collection.configuration_json
    hnsw: dict[str, Any] | None = told.get("hnsw")
    wanted = int(hnsw["sync_threshold"]) if hnsw else _THRESHOLD
    for start in range(0, wanted, batch):
        collection.delete(ids=[uuid.uuid4().hex for _ in range(min(batch, wanted - start))])


class DirtyMark:
    """Says whether rows were deleted since the bytes were last erased, in every process.

    Each writer has a counter in one row of the root; an erasure keeps the counters that it found
    before it began. So a deletion beside a running erasure leaves the mark set.

    Args:
        root: The collection of what holds for all.
        writer: Name of this writer's counter.
    """

    def __init__(self, root: Any, writer: str) -> None:
        self._root = root
        self._writer = writer
        self._count = 0

    def set(self) -> None:
        """Count up: rows are about to be deleted."""
        self._count += 1
        self._write("deleted", {self._writer: self._count}, "{}")

    @property
    def is_set(self) -> bool:
        """Whether rows were deleted since the last erasure."""
        found = self._read()
        last: dict[str, Any] = json.loads((found.get("erased") or (None, "{}"))[1])
        return self._counted(found) != last.get("counters", {})

    def counters(self) -> dict[str, int]:
        """Read what was counted so far, by writer."""
        return self._counted(self._read())

    def clear(self, counters: Mapping[str, int]) -> None:
        """Keep what was counted before an erasure, which did all that."""
        self._write("erased", None, json.dumps({"counters": dict(counters)}))

    def _counted(self, found: Mapping[str, tuple[Any, str]]) -> dict[str, int]:
        return dict((found.get("deleted") or ({}, ""))[0] or {})

    def _read(self) -> dict[str, tuple[Any, str]]:
        got: dict[str, Any] = self._root.get(
            ids=["deleted", "erased"], include=["metadatas", "documents"]
        )
        return {
            name: (metadata, document)
            for name, metadata, document in zip(
                got["ids"], got["metadatas"], got["documents"], strict=True
            )
        }

    def _write(self, name: str, fields: Mapping[str, int] | None, document: str) -> None:
        self._root.upsert(
            ids=[name],
            embeddings=[[0.0]],
            documents=[document],
            metadatas=None if fields is None else [dict(fields)],
        )
