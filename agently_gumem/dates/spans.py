"""Spans of days, and the arithmetic of weeks, months and years (python-dateutil)."""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import NamedTuple

from dateutil.relativedelta import relativedelta

Span = tuple[date, date]
"""First and last day."""


class Day(NamedTuple):
    """A date as written: what it leaves out is None."""

    year: int | None = None
    month: int | None = None
    day: int | None = None


def span(year: int, month: int | None = None, day: int | None = None) -> Span:
    """Give the days of a year, a month or a day.

    Raises:
        ValueError: There is no such day.
    """
    first = date(year, month or 1, day or 1)
    if day is not None:
        return first, first
    return first, first + (relativedelta(day=31) if month else relativedelta(month=12, day=31))


def one(day: date) -> Span:
    """Give a span of one day."""
    return day, day


def week(today: date, step: int, first: int = 0, last: int = 6) -> Span:
    """Give days of a week, counted from Monday, so many weeks from this one."""
    monday = today + timedelta(days=7 * step - today.weekday())
    return monday + timedelta(days=first), monday + timedelta(days=last)


def month(today: date, step: int, day: int | None = None) -> Span:
    """Give a month, or a day of it, so many months from this one."""
    there = today.replace(day=1) + relativedelta(months=step)
    return span(there.year, there.month, day)


def quarter(today: date, step: int) -> Span:
    """Give a quarter of a year, so many quarters from this one."""
    first = date(today.year, 3 * ((today.month - 1) // 3) + 1, 1) + relativedelta(months=3 * step)
    return first, first + relativedelta(months=2, day=31)


EDGES = {"start": (1, 10), "middle": (11, 20), "end": (21, 31)}
"""Part of a month -> its days, as calendars of both languages cut it."""


def edge(whole: Span, part: str) -> list[Span]:
    """Give what the start, the middle or the end of a month, a year or a week can mean."""
    first, last = whole
    if (last - first).days < 7:
        return (
            [(first, first + timedelta(days=1)), one(first)]
            if part == "start"
            else ([(last - timedelta(days=1), last), one(last)] if part == "end" else [])
        )
    if (last - first).days > 31:
        months = {"start": (0, 0), "middle": (5, 6), "end": (11, 11)}[part]
        begin = first + relativedelta(months=months[0])
        wide = (begin, first + relativedelta(months=months[1], day=31))
    else:
        begin, stop = EDGES[part]
        wide = (first + relativedelta(day=begin), first + relativedelta(day=stop))
    sharp = {"start": [one(first)], "middle": [], "end": [one(last)]}[part]
    return [wide, *sharp]


def occurrences(day: Day, moment: datetime | None) -> list[Span]:
    """Fill in what a written date leaves out: the last and the next time that it occurs."""
    if day.year is not None:
        return _valid([(day.year, day.month)], day.day)
    if moment is None:
        return []
    if day.month is not None:
        choices, reach = [(moment.year + i, day.month) for i in (-1, 0, 1)], 366
    else:
        reach = 31
        there = [moment.date().replace(day=1) + relativedelta(months=i) for i in (-1, 0, 1)]
        choices = [(d.year, d.month) for d in there]
    today = moment.date()
    return [s for s in _valid(choices, day.day) if abs((s[0] - today).days) <= reach]


def _valid(choices: Iterable[tuple[int, int | None]], day: int | None) -> list[Span]:
    found: list[Span] = []
    for year, number in choices:
        try:
            found.append(span(year, number, day))
        except ValueError:  # no such day in that month
            continue
    return found


def fits(day: Day, whole: Span) -> bool:
    """Tell whether a date says no more than a span: it holds the span, or is an end of a week."""
    years = {day.year} if day.year else {whole[0].year, whole[1].year}
    for first, last in _valid([(year, day.month) for year in years], day.day):
        if first <= whole[0] and whole[1] <= last:
            return True
        if first == last and first in whole and (whole[1] - whole[0]).days < 7:
            return True
    return False
