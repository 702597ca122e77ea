"""Dates as two languages write them, and what a date word means on a given day.

Used to check, never to invent: an ambiguous word ("next Friday", a bare weekday) gives every day
that it can mean, and the caller asks whether a date that somebody wrote is one of them. Where one
expression has one meaning, `settled` gives it.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from agently_gumem.dates.relative import RELATIVE, Reader
from agently_gumem.dates.spans import Day, Span, fits, occurrences, span
from agently_gumem.dates.writing import MONTHS, WEEKDAYS, normal, weekdays, written

__all__ = [
    "MONTHS",
    "WEEKDAYS",
    "Day",
    "Mention",
    "Span",
    "days_in",
    "follows",
    "mentions",
    "normal",
    "resolve",
    "settled",
    "span",
    "stands",
    "weekdays",
    "written",
]

_TO = re.compile(r"\s*(?:-|–|—|~|to|until|till|through|到|至)\s*", re.IGNORECASE)
_BESIDE = re.compile(r"[\s,(（的是]*")
_BEFORE = re.compile(r"\b(?:by|until|till|before|no later than|due)\s+(?:the\s+|on\s+)?$", re.I)
_SINCE = re.compile(r"\bsince\s+$", re.I)
_AFTER = re.compile(r"\b(?:since|from|after|starting|as of)\s+(?:the\s+)?$|[自从]\s*$", re.I)
_CN_BEFORE = re.compile(" ?(?:之|以)?前(?!往|台|端|面)|截止|到期|为止")
_CN_AFTER = re.compile("(?:之|以)后|以?来(?!的?时)|起")
# A date without a year that is so near, in days, is that one: the other is two seasons away.
_NEAR = 120
_MOST = 200  # expressions of one text that are read: more is a calendar, not a sentence


class Mention(NamedTuple):
    """A date expression in a text: its place, and the spans that it can mean."""

    start: int
    end: int
    readings: tuple[Span, ...]
    weekday: int | None = None
    """Where it is the bare name of a weekday."""
    day: Day | None = None
    """Where it is a date as written."""
    ends: tuple[Span, ...] = ()
    """Where it is a range: what its first and its last part can mean alone."""


class Settled(NamedTuple):
    """What the date expressions of a text come to."""

    first: Span | None
    """The day that it begins, or happens; None where only an end is told: "by Friday"."""
    last: Span | None
    """The day that it ends by; None where only a beginning is told: "since May"."""


def follows(day: Day, text: str, moment: datetime | None) -> bool:
    """Tell whether a date stands in a text, or follows from it and the time it was written."""
    return stands(day, {found for _, found in written(text)}, days_in(text, moment))


def stands(day: Day, stated: Iterable[Day], spans: Iterable[Span]) -> bool:
    """Tell whether a date is among those that a text states, or among the days that it means."""
    for found in stated:
        if all(mine is None or mine == theirs for mine, theirs in zip(day, found, strict=True)):
            return True
    return any(fits(day, span) for span in spans)


def resolve(text: str, moment: datetime) -> frozenset[Span]:
    """Give every span of days that the date words of a text can mean at a moment."""
    return frozenset(s for m in _longest(_relative(text, moment)) for s in m.readings)


def days_in(text: str, moment: datetime | None) -> frozenset[Span]:
    """Give the spans of both: the dates that stand in a text, and what its date words mean."""
    return frozenset(s for m in mentions(text, moment) for s in (*m.readings, *m.ends))


def mentions(text: str, moment: datetime | None) -> list[Mention]:
    """List the date expressions of a text in their order; a weekday joins the date beside it."""
    found = [
        Mention(start, end, tuple(occurrences(day, moment)), day=day)
        for (start, end), day in written(text)
    ]
    if moment is not None:
        found += _relative(text, moment)
    joined: list[Mention] = []
    for mention in (_since(m, text, moment) for m in _longest(found)):
        one = _joined(joined[-1], mention, text) if joined else None
        if one is None:
            joined.append(mention)
        else:
            joined[-1] = one
    return joined[:_MOST]


def settled(text: str, moment: datetime | None, *, ahead: bool = False) -> Settled | None:
    """Give what a text's one date expression means; None where it has none, several, or is open.

    Args:
        text: A sentence.
        moment: When it was written.
        ahead: It tells of something to come: days that were past by then are not meant.
    """
    found = mentions(text, moment)
    if len(found) != 1:
        return None
    readings = list(dict.fromkeys(found[0].readings))
    if moment is not None:
        readings = _nearest(found[0].day, readings, moment, ahead=ahead)
    widest = [s for s in readings if all(s[0] <= r[0] and r[1] <= s[1] for r in readings)]
    if not widest:
        return None
    if found[0].ends:  # a range has both
        return Settled(widest[0], widest[0])
    before, after = text[: found[0].start], text[found[0].end :]
    if _BEFORE.search(before[-20:]) or _CN_BEFORE.match(after):
        return Settled(None, widest[0])
    if _AFTER.search(before[-20:]) or _CN_AFTER.match(after):
        return Settled(widest[0], None)
    return Settled(widest[0], widest[0])


def _nearest(day: Day | None, readings: list[Span], moment: datetime, *, ahead: bool) -> list[Span]:
    """Leave out what is not meant: the past of a plan, and May 21 of last year said in May."""
    today = moment.date()
    if ahead:
        readings = [s for s in readings if s[1] >= today]
    if day is None or day.year is not None or day.month is None:
        return readings
    near = [s for s in readings if abs((s[0] - today).days) <= _NEAR]
    return near if len(near) == 1 else readings


def _since(mention: Mention, text: str, moment: datetime | None) -> Mention:
    """Take what lies ahead out of a date behind "since"."""
    if moment is None or not _SINCE.search(text[max(0, mention.start - 8) : mention.start]):
        return mention
    past = tuple(s for s in mention.readings if s[0] <= moment.date())
    return mention._replace(readings=past)


def _relative(text: str, moment: datetime) -> Iterator[Mention]:
    lower = text.lower()
    if len(lower) != len(text):  # a letter whose lower case is two: places would not fit
        lower = text
    for pattern, read in RELATIVE:
        for match in pattern.finditer(lower):
            spans = _safely(read, match, moment)
            if spans:
                bare = _bare_weekday(match)
                yield Mention(*match.span(), tuple(spans), weekday=bare)


def _bare_weekday(match: re.Match[str]) -> int | None:
    named = weekdays(match.group())
    return next(iter(named)) if len(named) == 1 and len(match.group()) < 10 else None


def _safely(read: Reader, match: re.Match[str], moment: datetime) -> list[Span]:
    try:
        return read(match, moment)
    except (ValueError, OverflowError):  # no such day, or a year that no calendar has
        return []


def _longest(found: Iterable[Mention]) -> list[Mention]:
    """Take of overlapping expressions the first, and of those that begin together the longest."""
    kept: list[Mention] = []
    for mention in sorted(found, key=lambda m: (m.start, -m.end)):
        if not kept or mention.start >= kept[-1].end:
            kept.append(mention)
    return kept


def _joined(one: Mention, other: Mention, text: str) -> Mention | None:
    between = text[one.end : other.start]
    if len(between) > 10:
        return None
    if _TO.fullmatch(between):
        return _range(one, other)
    if not _BESIDE.fullmatch(between):
        return None
    name, dated = (one, other) if one.weekday is not None else (other, one)
    if name.weekday is None or dated.weekday is not None:
        return None
    fitting = tuple(s for s in dated.readings if _on(s, name.weekday))
    return Mention(one.start, other.end, fitting, day=dated.day)


def _on(span: Span, place: int) -> bool:
    return span[0] == span[1] and span[0].weekday() == place


def _range(one: Mention, other: Mention) -> Mention | None:
    """Read "May 20 to May 25", 5月20日到25日: each beginning with the next end."""
    last = other.readings
    if other.day is not None and other.day[:2] == (None, None) and other.day.day:
        fulls = (Day(s[0].year, s[0].month, other.day.day) for s in one.readings)
        last = tuple(s for full in fulls for s in occurrences(full, None))
    pairs = [(a[0], min((b[1] for b in last if b[0] >= a[0]), default=None)) for a in one.readings]
    readings = tuple((a, b) for a, b in pairs if b is not None)
    if not readings:
        return None
    return Mention(one.start, other.end, readings, ends=(*one.readings, *last))
