"""What is kept of a record that was forgotten: keyed hashes, so that it does not come in again."""

from typing import Any

from pydantic import Field

from agently_gumem.records._base import Moment, Record, Text


class Tomb(Record):
    """The mark of a forgotten record, or of a message that was cut; no text, no name."""

    layer: str
    """message, fact or summary."""
    at: Moment
    by: str = "operator"
    """operator, or retention."""
    reason: Text = ""
    """What the operator gave as the reason."""
    role: str = ""
    """Of a message: its role, which aligning compares."""
    said: str = ""
    """Of a message: keyed hash of its role and its text as it was said."""
    session: str = ""
    """Of a message: keyed hash of its session's id."""
    sequence: int = 0
    """Of a message: its place, so that the order of a restored history is known around it."""
    skips: list[str] = Field(default_factory=list)
    """Keyed hashes by which a restored history is kept out."""
    cut: bool = False
    """The message is still stored, without part of its text."""
    of: list[str] = Field(default_factory=list)
    """Of a Fact: the tombs that its sources would have, with which it comes free again."""
    was: list[str] = Field(default_factory=list)
    """Of a cut message: keyed hashes of the texts that must not be written again."""

    def document(self) -> dict[str, Any]:
        """Return it as plain data, without what is empty."""
        return self.model_dump(mode="json", exclude_defaults=True)
