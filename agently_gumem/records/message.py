"""What was said or done: the raw layer, and the source of everything above it."""

from typing import Any, Literal

from pydantic import Field

from agently_gumem.records._base import Moment, Record, Text

Status = Literal["pending", "chunked", "processed", "failed"]


# Types of what was told, in whatever way it came; any other type is of something that happened.
TOLD = frozenset({"message", "imported_memo", "imported_memory", "correction", "memory_note"})
TOOL_CALL, NOTE = "tool_call", "memory_note"
# Types of what stands between a question and its answer, and in no history that Agently holds.
APART = frozenset({TOOL_CALL, NOTE})


class Message(Record):
    """One message of a conversation, or one thing that the user did."""

    id: str = ""
    """Computed by the store unless the caller gives one; given twice, it is the same message."""
    user_id: str = ""
    space: str = "default"
    session_id: str = ""
    role: Text = "user"
    """user, assistant, system, or a role of the application's own."""
    speaker: Text = ""
    """The name of the person who speaks, where a session has several."""
    content: Text
    timestamp: Moment | None = None
    """None where the time is not known: then no relative date in it is resolved."""
    event_type: Text = "message"
    """message, imported_memo, imported_memory, correction, stage, tool_call (what a tool returned),
    memory_note (what the model chose to keep), or the kind of a user action, such as save."""
    page: Text = ""
    anchors: dict[str, str] = Field(default_factory=dict)
    """Ids of business objects that it is about, such as an order."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    stored_at: Moment | None = None
    """When it was stored; set by the store."""
    status: Status = "pending"
    sequence: int = 0
    """Its place among all messages of the user; set by the store, rises by one."""
    attempts: int = 0
    """Digests that the model answered without this message becoming processed."""
    said: str = ""
    """Keyed hash of what was said, where the text was changed or cut since: a history that comes
    again is known by it."""
    access: list[str] = Field(default_factory=list)
    """Labels that a reader must all name to be shown it; none: anybody who may read the user."""
    expires_at: Moment | None = None
    """When it is forgotten on its own; None: never."""


class Action(Record):
    """A behaviour event, with the fields of GUMem's user actions."""

    content: Text
    event_type: Text = "action"
    timestamp: Moment | None = None
    log_id: str = ""
    """The event's id in the application's log; the same id is the same event."""
    device_id: str = ""
    app: str = ""
    platform: str = ""
    page: Text = ""
    anchors: dict[str, str] = Field(default_factory=dict)
    entities: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
