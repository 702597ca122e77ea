"""What an erasure did, and what it could not reach."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Erased:
    """What was done to the bytes of deleted rows."""

    kind: str
    """Where the store is: "embedded" (a folder), "memory" (no file at all), or "server"."""
    integrity: str = ""
    """What SQLite's integrity check said afterwards, "ok"; empty where no file was reached."""
    left: Mapping[str, str] = field(default_factory=dict[str, str])
    """File or table -> what of deleted rows can still stand there."""
    command: str = ""
    """What whoever runs the server runs, once it is stopped, so that nothing is left."""
    seconds: float = 0.0
    freed: int = 0
    """Bytes by which the database file became smaller."""
    zeroed: int = 0
    """Bytes of the vector files that were overwritten."""
    indexes: tuple[str, ...] = ()
    """Folders of the vector files, inside the store's folder."""

    @property
    def complete(self) -> bool:
        """Whether nothing is left that is known."""
        return not self.left

    def document(self) -> dict[str, Any]:
        """Return it as plain data."""
        told = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**told, "left": dict(self.left), "indexes": list(self.indexes)}


ON_A_SERVER: Mapping[str, str] = MappingProxyType(
    {
        "chroma.sqlite3, free pages": "texts and fields of deleted rows",
        "chroma.sqlite3, embedding_fulltext_search_data": "three-letter parts of deleted texts, "
        "with their places",
        "data_level0.bin and length.bin of each index": "memory of the server's process, which "
        "Chroma writes where no vector stands yet",
    }
)
"""What stays behind a server when its queue and its vectors are clean."""


def command_for(path: str, namespace: str) -> str:
    """Say what cleans the folder of a store that nobody has open, as a shell takes it."""
    extra = "" if namespace == "gumem" else f" --namespace {shlex.quote(namespace)}"
    return f"python -m agently_gumem.erase {shlex.quote(path)}{extra}"
