"""List what is kept of a user, layer by layer."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, get_args

from agently_gumem.engine import switched_off
from agently_gumem.errors import ConfigError
from agently_gumem.govern.part import UserPart
from agently_gumem.govern.shown import labels_of
from agently_gumem.records import (
    Fact,
    Kind,
    MemoryStatus,
    Message,
    Status,
    Summary,
    Topic,
    Validity,
    aware,
    shown_to,
)
from agently_gumem.records.fact import by_due, hidden_topics
from agently_gumem.text import fold
from agently_gumem.worker import awaitable, blocking


class Listing(UserPart):
    """The part of a user's memory that lists its records; empty where GUMEM_OFF is set."""

    async def _messages(
        self,
        session_id: str | None = None,
        *,
        role: str | None = None,
        status: str | None = None,
        event_type: str | None = None,
        anchor: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
        access: str | Iterable[str] = (),
    ) -> list[Message]:
        """List messages, oldest first; the newest `limit` of those that match.

        `anchor` is the id of a business object, such as an order, that they are about.
        What is kept under a label is listed only where `access` names it.

        Raises:
            ConfigError: There is no such `status`, or another filter is of a wrong kind.
            StoreError: The store can't be read.
        """
        _one_of(status, Status, "status")
        labels, start, most = labels_of(access), _moment(since, "since"), _limit(limit)
        if switched_off():
            return []
        async with self._use() as scope:
            found = [
                m
                for m in scope.index.messages.values()
                if shown_to(m, labels)
                and session_id in (None, m.session_id)
                and role in (None, m.role)
                and status in (None, m.status)
                and event_type in (None, m.event_type)
                and (anchor is None or _anchored(m, anchor))
                and (start is None or (m.timestamp is not None and m.timestamp >= start))
            ]
        return found[-most:] if most else found

    async def _facts(
        self,
        *,
        topic: str | None = None,
        kind: str | None = None,
        subject: str | None = None,
        label: str | None = None,
        session_id: str | None = None,
        anchor: str | None = None,
        due_before: datetime | None = None,
        due_after: datetime | None = None,
        validity: str | None = "active",
        access: str | Iterable[str] = (),
    ) -> list[Fact]:
        """List Facts, oldest first; `validity=None` lists superseded ones as well.

        What is kept under a label is listed only where `access` names it.

        With `due_before` or `due_after` only what has a time of its own is listed, by that time:
        `facts(kind="plan", due_before=now)` are the plans that are due, those long past included;
        `due_after` leaves these out. A Fact is due when it begins; where only an end is known, as
        of "by Friday", then. A naive time is read as UTC.

        Raises:
            ConfigError: There is no such `kind` or `validity`, or a filter is of a wrong kind.
            StoreError: The store can't be read.
        """
        _one_of(kind, Kind, "kind")
        _one_of(validity, Validity, "validity")
        labels = labels_of(access)
        after, before = _moment(due_after, "due_after"), _moment(due_before, "due_before")
        if switched_off():
            return []
        async with self._use() as scope:
            found = [
                f
                for f in scope.index.facts.values()
                if shown_to(f, labels)
                and (topic is None or fold(topic) == fold(f.topic))
                and kind in (None, f.kind)
                and (subject is None or fold(subject) == fold(f.subject))
                and (label is None or label in f.labels)
                and (session_id is None or session_id in f.session_ids)
                and (anchor is None or _anchored(f, anchor))
                and validity in (None, f.validity)
            ]
        if before is not None or after is not None:
            return by_due(found, after, before)
        return sorted(found, key=lambda f: f.created_at)

    async def _summaries(
        self,
        *,
        topic: str | None = None,
        anchor: str | None = None,
        validity: str | None = "active",
        memory_status: str | None = None,
    ) -> list[Summary]:
        """List Summaries, oldest first; `validity=None` lists retired ones as well.

        Without `memory_status` all but the deleted ones are listed.

        Raises:
            ConfigError: There is no such `validity` or `memory_status`.
            StoreError: The store can't be read.
        """
        _one_of(validity, Validity, "validity")
        _one_of(memory_status, MemoryStatus, "memory_status")
        wanted = {memory_status} if memory_status else {*get_args(MemoryStatus)} - {"deleted"}
        if switched_off():
            return []
        async with self._use() as scope:
            found = [
                s
                for s in scope.index.summaries.values()
                if (topic is None or fold(topic) == fold(s.topic))
                and (anchor is None or _anchored(s, anchor))
                and validity in (None, s.validity)
                and s.memory_status in wanted
            ]
        return sorted(found, key=lambda s: s.created_at)

    async def _topics(self, *, access: str | Iterable[str] = ()) -> list[Topic]:
        """List Topics by name; one all of whose Facts are kept under labels only with a label.

        Raises:
            ConfigError: `access` is no label or list of labels.
            StoreError: The store can't be read.
        """
        labels = labels_of(access)
        if switched_off():
            return []
        async with self._use() as scope:
            hidden = hidden_topics(scope.index.facts.values(), lambda f: shown_to(f, labels))
            shown = [t for t in scope.index.topics.values() if fold(t.name) not in hidden]
            return sorted(shown, key=lambda t: t.name)

    messages, async_messages = blocking(_messages), awaitable(_messages)
    facts, async_facts = blocking(_facts), awaitable(_facts)
    summaries, async_summaries = blocking(_summaries), awaitable(_summaries)
    topics, async_topics = blocking(_topics), awaitable(_topics)


def _anchored(record: Message | Fact | Summary, anchor: str) -> bool:
    """Tell whether a record is about the business object of this id."""
    return fold(anchor) in map(fold, record.anchors.values())


def _moment(given: object, what: str) -> datetime | None:
    """Take a time; a naive one is read as UTC.

    Raises:
        ConfigError: It is none.
    """
    if given is not None and not isinstance(given, datetime):
        raise ConfigError(f"{what}= takes a datetime, not {given!r}")
    return None if given is None else aware(given)


def _limit(given: object) -> int | None:
    """Take how many are listed at most.

    Raises:
        ConfigError: It is no whole number above 0.
    """
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and given > 0):
        return given
    raise ConfigError(f"limit={given!r} takes a whole number above 0, or None for all")


def _one_of(value: str | None, allowed: Any, what: str) -> None:
    """Check a filter.

    Raises:
        ConfigError: Nothing can have this value; the message names those that can be.
    """
    if value is not None and value not in get_args(allowed):
        names = ", ".join(map(repr, get_args(allowed)))
        raise ConfigError(f"{what}={value!r} is none of {names}, or None for all")
