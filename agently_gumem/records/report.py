"""What a forgetting did, and what it could not reach; ids, counts and keys, never a text."""

from typing import Any, Literal

from pydantic import Field

from agently_gumem.records._base import Moment, Record

Elsewhere = Literal["session file", "webhook", "model provider", "backup", "server files", "export"]


class Outside(Record):
    """A place that no library can reach, where what was forgotten can still be."""

    kind: Elsewhere
    where: str
    """A file, a table, an address without credentials; what is known of the place."""
    what: str
    """What was sent there, or can be left there; counts, never the text."""
    first: Moment | None = None
    """When it was first sent there; None where that is not known."""
    last: Moment | None = None


_COUNTED = ("messages", "facts", "summaries", "topics", "cut", "kept", "echoes")


class ForgetReport(Record):
    """What went, what stays, and what is left for others to do."""

    at: Moment
    messages: list[str] = Field(default_factory=list)
    """Ids of the messages that went."""
    facts: list[str] = Field(default_factory=list)
    """Ids of the Facts that went: they rested on nothing else."""
    summaries: list[str] = Field(default_factory=list)
    topics: list[str] = Field(default_factory=list)
    cut: list[str] = Field(default_factory=list)
    """Ids of messages that lost part of their text, or all of it, and stay as sources."""
    kept: list[str] = Field(default_factory=list)
    """Ids of Facts that lost a source and stay on others."""
    echoes: list[str] = Field(default_factory=list)
    """Ids of messages of the assistant that repeated it: of `messages` or of `cut`."""
    memo_keys: list[str] = Field(default_factory=list)
    """Keys of the memo that lost entries, or went."""
    to_rebuild: list[str] = Field(default_factory=list)
    """What the next digest writes anew: "memo", and ids of Topics for their Summaries."""
    erased: bool = False
    """Whether no byte of it is left in the store's files, as far as is known."""
    erasure: dict[str, Any] = Field(default_factory=dict)
    """With `erase=True`: what was done to the files, and what of them is left to do."""
    outside: list[Outside] = Field(default_factory=list[Outside])

    def counts(self) -> dict[str, int]:
        """Say how much of each went, was cut or stays: without an id."""
        return {name: len(getattr(self, name)) for name in _COUNTED}

    @property
    def nothing(self) -> bool:
        """Whether there was nothing to forget."""
        return not (self.messages or self.facts or self.summaries or self.cut or self.memo_keys)
