"""Facts, the evidence layer, and what is built on them: Summaries and Topics."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Literal, TypeVar

from pydantic import Field

from agently_gumem.records._base import Moment, Record, Text, aware
from agently_gumem.text import fold

Kind = Literal["preference", "fact", "constraint", "plan", "identity", "action", "behavior"]
Certainty = Literal["stated", "observed", "inferred"]
Validity = Literal["active", "deprecated", "invalid"]
MemoryStatus = Literal["active", "deprioritized", "archived", "deleted"]


F = TypeVar("F", "Fact", "Summary")


class TimeRange(Record):
    """When a Fact or a Summary holds or happens; either end may be open."""

    start: Moment | None = None
    end: Moment | None = None


class EventTime(Record):
    """The time of what a Summary tells, with the names of the GUMem documents."""

    event_start: Moment | None = None
    event_end: Moment | None = None


class Change(Record):
    """One change of a record: when, what, and by what message or operator."""

    at: Moment
    what: Text
    """created, joined, superseded, corrected, updated, cut, retired."""
    by: list[str] = Field(default_factory=list)
    """Ids of the messages that brought it; empty where an operator or a rule did."""
    actor: Text = "memory"
    """memory (a digest), hook, import, retention, operator, or the name given to `correct`."""
    reason: Text = ""


class Fact(Record):
    """One thing worth remembering, with the messages that say it."""

    id: str
    user_id: str
    space: str = "default"
    session_ids: list[str] = Field(default_factory=list)
    subject: str = "user"
    """Whom it is about: the user, or a speaker's name in a session of several."""
    content: Text
    kind: Kind = "fact"
    topic: str = ""
    entities: list[str] = Field(default_factory=list)
    labels: list[str] = Field(default_factory=list)
    source_message_ids: list[str] = Field(min_length=1)
    certainty: Certainty = "stated"
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)
    time_range: TimeRange | None = None
    valid_from: Moment | None = None
    valid_to: Moment | None = None
    """When it was superseded; None while it holds."""
    status: Literal["pending", "chunked", "processed", "failed"] = "processed"
    validity: Validity = "active"
    superseded_by: str = ""
    count: int = Field(default=1, ge=1)
    """How often it was seen done, for a behaviour; 1 for what was said."""
    anchors: dict[str, str] = Field(default_factory=dict)
    """Ids of business objects that its messages are about, such as an order."""
    access: list[str] = Field(default_factory=list)
    """Labels that a reader must all name to be shown it; none: anybody who may read the user."""
    expires_at: Moment | None = None
    """When it is forgotten on its own; None: never."""
    changes: list[Change] = Field(default_factory=list[Change])
    """What became of it, oldest first: the first change and the newest nineteen."""
    created_at: Moment
    updated_at: Moment


class Summary(Record):
    """What the Facts of a Topic say together, in a few sentences."""

    id: str
    user_id: str
    space: str = "default"
    content: Text
    topic: str
    source_facts: list[str] = Field(min_length=1)
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)
    time: EventTime = EventTime()
    labels: list[str] = Field(default_factory=list)
    entities: list[str] = Field(default_factory=list)
    decay_factor: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    """How much of its weight in ranking is lost a day; 0 keeps all."""
    validity: Literal["active", "invalid", "deprecated"] = "active"
    memory_status: MemoryStatus = "active"
    retrieval_boost: float = Field(default=1.0, ge=0.0, allow_inf_nan=False)
    evidence: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    """What it rests on: `{"layer": "fact", "id": ...}` for each Fact, and for each action among
    their messages `{"layer": "action", "id": ..., "event_type": ...}`."""
    anchors: dict[str, str] = Field(default_factory=dict)
    expires_at: Moment | None = None
    """When it is forgotten on its own; None: never."""
    changes: list[Change] = Field(default_factory=list[Change])
    """What became of it, oldest first: the first change and the newest nineteen."""
    created_at: Moment
    updated_at: Moment


def due(fact: Fact) -> datetime | None:
    """Return when a Fact is due: when it begins, or by when it is to be; None: it has no time."""
    return (fact.time_range.start or fact.time_range.end) if fact.time_range is not None else None


def by_due(facts: Iterable[Fact], after: datetime | None, before: datetime | None) -> list[Fact]:
    """List the Facts that are due within two times, both included, the earliest first."""
    timed = [(moment, fact) for fact in facts if (moment := due(fact)) is not None]
    start = aware(after) if after is not None else None
    end = aware(before) if before is not None else None
    kept = [
        (moment, fact)
        for moment, fact in timed
        if (start is None or moment >= start) and (end is None or moment <= end)
    ]
    return [fact for _, fact in sorted(kept, key=lambda item: (item[0], item[1].created_at))]


MOST_CHANGES = 20


def noted(record: F, **change: Any) -> F:
    """Return a Fact or Summary with one change more; of many the newest are kept, and the first.

    Args:
        record: The record, with its other fields as they shall be.
        change: Fields of the Change.
    """
    changes = [*record.changes, Change(**change)]
    if len(changes) > MOST_CHANGES:
        changes = [changes[0], *changes[-(MOST_CHANGES - 1) :]]
    return record.model_copy(update={"changes": changes})


class Topic(Record):
    """A name under which Facts and Summaries are kept together."""

    id: str
    user_id: str
    space: str = "default"
    name: Text
    aliases: list[str] = Field(default_factory=list)
    description: Text = ""
    labels: list[str] = Field(default_factory=list)
    updated_at: Moment


def hidden_topics(facts: Iterable[Fact], shows: Callable[[Fact], bool]) -> frozenset[str]:
    """Name, folded, the Topics all of whose Facts are kept from a reader: a name tells of them.

    Args:
        facts: All Facts of the user.
        shows: Tells whether the reader is shown one.
    """
    names: dict[str, bool] = {}
    for fact in facts:
        name = fold(fact.topic)
        names[name] = names.get(name, False) or shows(fact)
    return frozenset(name for name, shown in names.items() if not shown)
