"""When a Fact is, held to the words of its messages and the time at which they were written."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timezone, tzinfo

from agently_gumem import dates
from agently_gumem.records import Message, TimeRange
from agently_gumem.remember.ground import spoken, text_of
from agently_gumem.remember.specifics import clocks, terms
from agently_gumem.text import sentences


def ground_time(
    value: str,
    sources: Sequence[Message],
    *,
    following: Mapping[str, str] | None = None,
    last: bool = False,
) -> datetime | None:
    """Keep a date that the model gives only where it follows from the cited messages.

    Args:
        value: ISO date or time, such as "2026-05-13", "2026-05" or "2026-05-13T15:00".
        sources: The cited messages. An undated one resolves no date word.
        following: As for `ground_fact`.
        last: It is the end of something: a month, or a year, stands for its last day.

    Returns:
        The date in the time zone of its message, with the time of day where the message holds
        that too; None where it does not follow: no date is ever invented.
    """
    parsed = _iso(value)
    if parsed is None:
        return None
    day, moment = parsed
    if last and day.year is not None:
        _, end = dates.span(day.year, day.month, day.day)
        moment = moment.replace(month=end.month, day=end.day)
    for message in spoken(sources, following):
        text = dates.normal(text_of(message))
        if dates.follows(day, text, message.timestamp):
            return _at(moment, message)
    return None


def told_time(
    content: str,
    sources: Sequence[Message],
    *,
    plan: bool,
    following: Mapping[str, str] | None = None,
) -> TimeRange | None:
    """Read the time of a Fact from the words, where these settle it.

    From its own words first; of a plan also from the one sentence of each message that it is
    about. Several dates, or one that can mean several days, settle nothing.

    Args:
        content: The Fact, which stands in its messages.
        sources: The cited messages.
        plan: Whether it tells of something to come.
        following: As for `ground_fact`.

    Returns:
        The time in the zone of the message, or None.
    """
    told = spoken(sources, following)
    own = _of(told, lambda _: content, plan=plan)
    if own or not plan:
        return own
    return _of(told, lambda message: _about(content, text_of(message)), plan=True)


def _of(
    messages: Sequence[Message], sentence_of: Callable[[Message], str], *, plan: bool
) -> TimeRange | None:
    """Read the sentence of each message: all that settle a time must agree."""
    found: dict[tuple[datetime | None, datetime | None], TimeRange] = {}
    for message in messages:
        time_range = _read(dates.normal(sentence_of(message)), message, plan=plan)
        if time_range is not None:
            found[time_range.start, time_range.end] = time_range
    return next(iter(found.values())) if len(found) == 1 else None


def _read(sentence: str, message: Message, *, plan: bool) -> TimeRange | None:
    settled = dates.settled(sentence, message.timestamp, ahead=plan)
    if settled is None:
        return None
    first, last = settled
    start = _midnight(first[0], message) if first else None
    end = _midnight(last[1], message) if last else None
    if start is None or start != end:
        return TimeRange(start=start, end=end)
    hour = _hour(sentence) or 0
    return TimeRange(start=start.replace(hour=hour // 60, minute=hour % 60))


def _about(content: str, text: str) -> str:
    """Find the sentence of a text that a Fact is about: the one that shares most with it."""
    wanted = set(terms(dates.normal(content)))
    parts = list(sentences(text))
    if len(parts) < 2:
        return text
    shared = [len(wanted & set(terms(dates.normal(s)))) for s in parts]
    most = max(shared)
    return parts[shared.index(most)] if most and shared.count(most) == 1 else ""


def _hour(sentence: str) -> int | None:
    """Read the one time of day of a sentence, in minutes; None where it may be either half."""
    found = clocks(sentence)
    return next(iter(found[0][1])) if len(found) == 1 and len(found[0][1]) == 1 else None


def _midnight(day: date, message: Message) -> datetime:
    return datetime.combine(day, time(), _zone(message))


def _zone(message: Message) -> tzinfo:
    zone = message.timestamp.tzinfo if message.timestamp else None
    return zone or timezone.utc


def _iso(value: str) -> tuple[dates.Day, datetime] | None:
    value = value.strip()
    match = re.fullmatch(r"(\d{4})(?:-(\d{2}))?", value)
    full = f"{value}-01" if match and match.group(2) else f"{value}-01-01" if match else value
    try:
        moment = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", full))
    except ValueError:
        return None
    parts = match.groups() if match else (moment.year, moment.month, moment.day)
    return dates.Day(*(int(part) if part else None for part in parts)), moment


def _at(moment: datetime, message: Message) -> datetime:
    """Drop a time of day that the message does not hold; place the rest in its time zone."""
    minutes = frozenset({moment.hour * 60 + moment.minute})
    if not any(minutes & stated for _, stated in clocks(message.content)):
        moment = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=_zone(message))
