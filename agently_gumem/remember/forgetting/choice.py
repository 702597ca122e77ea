"""What somebody asks to forget, or what has expired, as ids (pure)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agently_gumem.errors import NotFound
from agently_gumem.privacy import PrivacyPolicy, Retention
from agently_gumem.records import Fact, Message, Summary, has_passed
from agently_gumem.records.placeholders import EMPTIED
from agently_gumem.remember.forgetting.plan import Records, Wanted


@dataclass(frozen=True)
class Choice:
    """What is asked for; several are taken together."""

    message_ids: tuple[str, ...] = ()
    fact_ids: tuple[str, ...] = ()
    summary_ids: tuple[str, ...] = ()
    session_id: str | None = None
    before: datetime | None = None
    holds: Callable[[str], bool] | None = None

    def wanted(self, records: Records) -> Wanted:
        """Say what that is among all that is stored.

        Raises:
            NotFound: An id is of no record; it names all that are.
        """
        _check(self.message_ids, records.messages, "message")
        _check(self.fact_ids, records.facts, "fact")
        _check(self.summary_ids, records.summaries, "summary")
        messages = set(self.message_ids)
        if self.session_id is not None:
            own = (m for m in records.messages.values() if m.session_id == self.session_id)
            messages |= {m.id for m in own}
        if self.before is not None:
            messages |= older(records.messages.values(), self.before)
        return Wanted(
            frozenset(messages),
            frozenset(self.fact_ids),
            frozenset(self.summary_ids),
            self.holds,
        )


def _check(ids: Iterable[str], known: Mapping[str, Any], what: str) -> None:
    missing = [i for i in ids if i not in known]
    if missing:
        raise NotFound(
            f"no {what} {', '.join(map(repr, missing))} of this user: nothing was forgotten"
        )


def older(messages: Iterable[Message], moment: datetime) -> set[str]:
    """Find the messages from before a moment.

    The time of a message is that at which it was said, else that at which it was stored. One
    without either, from an older store, is as old as the next message that has one.
    """
    found: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        time = _time(message)
        if time is None:
            waiting.append(message.id)
            continue
        if time < moment:
            found |= {message.id, *waiting}
        waiting = []
    return found


def _time(message: Message) -> datetime | None:
    return message.timestamp or message.stored_at


def expired(records: Records, policy: PrivacyPolicy, now: datetime) -> Wanted:
    """Find what has expired by its own lifetime, or is as old as the policy lets it become.

    What a lifetime was set for goes with all that rests on it. Of a message that is only old the
    text goes, and the Facts that rest on it stay: those have ages of their own.
    """
    messages = {m.id for m in records.messages.values() if has_passed(m.expires_at, now)}
    facts = {f.id for f in records.facts.values() if has_passed(f.expires_at, now)}
    summaries = {s.id for s in records.summaries.values() if has_passed(s.expires_at, now)}
    emptied: set[str] = set()
    for rule in policy.retention:
        emptied |= {m.id for m in records.messages.values() if _old_message(m, rule, now)}
        facts |= {f.id for f in records.facts.values() if _old(f, rule, "fact", now)}
        summaries |= {s.id for s in records.summaries.values() if _old(s, rule, "summary", now)}
    return Wanted(
        frozenset(messages),
        frozenset(facts),
        frozenset(summaries),
        emptied=frozenset(emptied - messages),
    )


def _old_message(message: Message, rule: Retention, now: datetime) -> bool:
    if rule.layer not in (None, "message") or rule.kind or rule.label or message.content == EMPTIED:
        return False
    time = _time(message)
    return (
        rule.event_type in ("", message.event_type)
        and time is not None
        and time < now - rule.older_than
    )


def _old(record: Fact | Summary, rule: Retention, layer: str, now: datetime) -> bool:
    if rule.layer not in (None, layer) or rule.event_type:
        return False
    if rule.kind and (not isinstance(record, Fact) or record.kind != rule.kind):
        return False
    labelled = not rule.label or rule.label in record.labels
    return labelled and record.created_at < now - rule.older_than


def any_of(wanted: Wanted) -> bool:
    """Tell whether anything is wanted at all."""
    named = wanted.messages or wanted.facts or wanted.summaries or wanted.emptied
    return bool(named) or wanted.holds is not None
