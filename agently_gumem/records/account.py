"""What is told of a memory: its history, what an import did, and the report on all of it."""

from typing import Any, Literal

from pydantic import Field

from agently_gumem.records._base import Moment, Record, Text
from agently_gumem.records.fact import Fact, Summary, Topic
from agently_gumem.records.message import Message
from agently_gumem.records.page import to_html


class HistoryEntry(Record):
    """One change of a record."""

    at: Moment | None = None
    """None where the time is not known, such as of a restored message."""
    layer: str
    id: str
    """The record that changed; of a Fact also its earlier and later versions."""
    what: Text
    """created, joined, superseded, corrected, updated, cut, retired, said, cited, changed, given
    up, written, forgotten."""
    content: Text = ""
    """What the record says; empty of a forgotten one."""
    by: list[str] = Field(default_factory=list)
    """Ids of the messages that brought it; empty where an operator or a rule did."""
    actor: Text = "memory"
    """memory (a digest), hook, import, retention, operator, or the name given to `correct`; of a
    message the role that said it."""
    reason: Text = ""
    replaced_by: str = ""
    """Of a superseded Fact, its successor."""


class ImportCount(Record):
    """What became of the records of one layer."""

    added: int = 0
    updated: int = 0
    """Known, and newer in the file."""
    known: int = 0
    refused: int = 0


class ImportReport(Record):
    """What an import did: counts and reasons, never a user's text."""

    format: str
    layers: dict[str, ImportCount] = Field(default_factory=dict)
    reasons: dict[str, int] = Field(default_factory=dict)
    """Why records were refused -> how many: forgotten, selection, source (nothing that it rests
    on came along), hook, noise, store (marks and hashes of another store's key)."""

    @property
    def added(self) -> int:
        """Records that are new."""
        return sum(count.added for count in self.layers.values())

    @property
    def updated(self) -> int:
        """Records that were known, and newer in the file."""
        return sum(count.updated for count in self.layers.values())

    @property
    def known(self) -> int:
        """Records that were there already."""
        return sum(count.known for count in self.layers.values())

    @property
    def refused(self) -> int:
        """Records that did not come in."""
        return sum(count.refused for count in self.layers.values())


class Recipient(Record):
    """Who received what of a user's memory."""

    kind: Literal["model", "webhook", "export"]
    where: str
    what: str
    count: int
    first: Moment | None = None
    last: Moment | None = None
    failed: int = 0


class Source(Record):
    """One session that messages came from."""

    session_id: str
    messages: int
    first: Moment | None = None
    last: Moment | None = None


class Lifetime(Record):
    """How long something is kept."""

    what: str
    rule: str


class Forgotten(Record):
    """That something was forgotten; what it said is not known any more."""

    layer: str
    at: Moment | None = None
    by: Text = ""
    reason: Text = ""


class UserReport(Record):
    """All that is kept of a user in one space, and what an access request asks beside it."""

    user_id: str
    space: str
    made_at: Moment
    paused: bool = False
    purpose: Text = ""
    """The application's own words for what the memory is for."""
    purposes: dict[str, str] = Field(default_factory=dict)
    """Layer -> what it is kept for."""
    stored: dict[str, str] = Field(default_factory=dict)
    """Where it is stored, and which embedder made its vectors."""
    counts: dict[str, int] = Field(default_factory=dict)
    memo: dict[str, Any] = Field(default_factory=dict)
    memo_facts: dict[str, list[str]] = Field(default_factory=dict)
    """Key of the memo -> the Facts that it rests on."""
    facts: list[Fact] = Field(default_factory=list[Fact])
    summaries: list[Summary] = Field(default_factory=list[Summary])
    topics: list[Topic] = Field(default_factory=list[Topic])
    messages: list[Message] = Field(default_factory=list[Message])
    sources: list[Source] = Field(default_factory=list[Source])
    recipients: list[Recipient] = Field(default_factory=list[Recipient])
    lifetimes: list[Lifetime] = Field(default_factory=list[Lifetime])
    forgotten: list[Forgotten] = Field(default_factory=list[Forgotten])
    withheld: dict[str, int] = Field(default_factory=dict)
    """Access label -> records that were left out, since the label was not named."""
    notes: list[str] = Field(default_factory=list)
    """What this report can't know."""

    def to_html(self) -> str:
        """Render it as one page that needs nothing else, and in which no text is markup."""
        return to_html(self.model_dump(mode="json"))
