"""Dates as two languages write them, and what a date word means on a given day.

Used to check, never to invent: an ambiguous word ("next Wednesday", a bare weekday) gives every
day that it can mean, and the caller asks whether a date that somebody wrote is one of them.
"""

import calendar
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta
from typing import NamedTuple

from agently_gumem.numerals import number_word

Span = tuple[date, date]
"""First and last day."""


class Day(NamedTuple):
    """A date as written: what it leaves out is None."""

    year: int | None = None
    month: int | None = None
    day: int | None = None


MONTHS = tuple(name.lower() for name in calendar.month_name)  # by number: the first is empty
WEEKDAYS = tuple(name.lower() for name in calendar.day_name)
_N = "(\\d{1,2}|[一二两三四五六七八九十]{1,3})"
_Y = "((?:19|20)\\d\\d|[一二][〇零一二三四五六七八九]{3})"
# "may" and "march" are words: alone or not, they are months only with a capital. "May we" and
# "March on" are none where a sentence begins; "in May we" goes on with one.
_GOES_ON = r"(?<=[a-z\d]\s)(?<!\bthe\s)(?<!\ba\s)"
_WORD_MONTH = (
    r"May(?!\s+(?:I|we|you|he|she|they|my|it|the(?!\s+\d))\b)|Mar(?:ch)?(?!\s+on\b)"
    rf"|{_GOES_ON}(?:May|Mar(?:ch)?)"
)
_MONTH = (
    f"(Jan(?:uary)?|Feb(?:ruary)?|{_WORD_MONTH}|Apr(?:il)?|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|"
    "Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?|january|february|april|june|july|august|september|"
    "october|november|december)\\b\\.?"
)
_TH = "(?:st|nd|rd|th)?"
_WRITTEN: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?<![\d-])((?:19|20)\d\d)[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)"), "ymd"),
    (re.compile(r"(?<![\d-])((?:19|20)\d\d)[-/](0[1-9]|1[0-2])(?![\d-])"), "ym"),
    (re.compile(f"{_Y}年(?:{_N}月(?:{_N}[日号])?)?"), "ymd"),
    (re.compile(f"{_N}月(?:{_N}[日号])?"), "md"),
    (re.compile(f"{_N}[日号]"), "d"),
    (re.compile(rf"\b(\d{{1,2}}){_TH}\s+(?:of\s+)?{_MONTH}(?:,?\s+((?:19|20)\d\d)\b)?"), "dmy"),
    (
        re.compile(
            rf"\b{_MONTH}(?:\s+(\d{{1,2}}){_TH}\b(?!:|\s*[ap]\.?m))?(?:,?\s+((?:19|20)\d\d)\b)?"
        ),
        "mdy",
    ),
)
_OFFSETS = {
    "day after tomorrow": 2, "day before yesterday": -2, "tomorrow": 1, "yesterday": -1,
    "last night": -1, "today": 0, "tonight": 0, "this morning": 0, "this afternoon": 0,
    "this evening": 0, "大后天": 3, "后天": 2, "明天": 1, "明早": 1, "明晚": 1, "明日": 1,
    "今天": 0, "今晚": 0, "今早": 0, "今日": 0, "昨天": -1, "昨晚": -1, "昨日": -1, "大前天": -3,
    "前天": -2,
}  # fmt: skip
_STEPS = {
    "上上": -2, "上": -1, "这": 0, "本": 0, "下": 1, "下下": 2, "前": -2, "去": -1, "今": 0,
    "明": 1, "后": 2, "last": -1, "past": -1, "previous": -1, "this": 0, "next": 1, "coming": 1,
}  # fmt: skip
_CN_STEP = "上上|下下|上|下|这|本"
_CN_DAYS = "一二三四五六日"
# "sun" and "sat" are words; the other short forms are days.
_DAY_NAME = (
    "(mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs(?:day)?)?|fri(?:day)?|"
    "saturday|sunday)s?"
)
_AMOUNT = "(\\d{1,3}|an?|couple|[a-z]{3,9}|[一二两三四五六七八九十]{1,3})"


def normal(text: str) -> str:
    """Bring full-width forms to ASCII; case stays, since it tells May from may."""
    return unicodedata.normalize("NFKC", text)


def written(text: str) -> Iterator[tuple[tuple[int, int], Day]]:
    """Yield the dates that stand in a text, with their place in it; the fullest reading wins."""
    taken = bytearray(len(text))
    for pattern, order in _WRITTEN:
        for match in pattern.finditer(text):
            day = _read(match, order)
            start, end = match.span()
            if day is not None and taken.find(1, start, end) < 0:
                taken[start:end] = b"\1" * (end - start)
                yield (start, end), day


def _read(match: re.Match[str], order: str) -> Day | None:
    parts = dict(zip(order, match.groups(), strict=True))
    year, month = _small(parts.get("y")), parts.get("m")
    number = _month(month) if month else None
    if month and number is None:  # 三四月 is either: only a year beside it is told
        return Day(year) if year else None
    day = Day(year, number, _small(parts.get("d")))
    ok = (day.month is None or 1 <= day.month <= 12) and (day.day is None or 1 <= day.day <= 31)
    return day if ok and any(day) else None


def _small(part: str | None) -> int | None:
    return number_word(part) if part else None


def _month(part: str) -> int | None:
    lower = part.lower()
    number = number_word(lower)
    if number is not None:
        return number
    named = (i for i, name in enumerate(MONTHS) if i and name.startswith(lower[:3]))
    return next(named, None)


def weekdays(text: str) -> frozenset[int]:
    """Collect the weekdays that a text names, Monday being 0."""
    english = {_index(name) for name in re.findall(rf"\b{_DAY_NAME}\b", text.lower())}
    chinese = re.findall(r"(?:周|星期|礼拜)([一二三四五六日天])(?![个种次份])", text)
    return frozenset(english | {_CN_DAYS.index(c.replace("天", "日")) for c in chinese})


def _index(name: str) -> int:
    return next(i for i, full in enumerate(WEEKDAYS) if full.startswith(name[:3]))


def follows(day: Day, text: str, moment: datetime | None) -> bool:
    """Tell whether a date stands in a text, or follows from it and the time it was written."""
    return stands(day, {found for _, found in written(text)}, days_in(text, moment))


def stands(day: Day, stated: Iterable[Day], spans: Iterable[Span]) -> bool:
    """Tell whether a date is among those that a text states, or among the days that it means."""
    for found in stated:
        if all(mine is None or mine == theirs for mine, theirs in zip(day, found, strict=True)):
            return True
    return any(_fits(day, span) for span in spans)


def resolve(text: str, moment: datetime) -> frozenset[Span]:
    """Give every span of days that the date words of a text can mean at a moment."""
    lower, today = text.lower(), moment.date()
    spans: set[Span] = set()
    for pattern, read in _RELATIVE:
        for match in pattern.finditer(lower):
            spans.update(_safely(read, match, today))
    return frozenset(spans)


def days_in(text: str, moment: datetime | None) -> frozenset[Span]:
    """Give the spans of both: the dates that stand in a text, and what its date words mean."""
    spans = {span for _, day in written(text) for span in _meant(day, moment)}
    return frozenset(spans | (resolve(text, moment) if moment else frozenset()))


def _safely(
    read: Callable[[re.Match[str], date], list[Span]], match: re.Match[str], today: date
) -> list[Span]:
    try:
        return read(match, today)
    except (ValueError, OverflowError):  # no such day, or a year that no calendar has
        return []


def _span(year: int, month: int | None, day: int | None) -> Span:
    if month is None:
        return date(year, 1, 1), date(year, 12, 31)
    if day is None:
        return date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1])
    return date(year, month, day), date(year, month, day)


def _meant(day: Day, moment: datetime | None) -> Iterator[Span]:
    """Fill in what a written date leaves out: the last and the next time that it occurred."""
    if day.year is not None:
        choices, reach = [(day.year, day.month)], None
    elif moment is None:
        return
    elif day.month is not None:
        choices, reach = [(moment.year + i, day.month) for i in (-1, 0, 1)], 366
    else:
        choices, reach = (
            [divmod(moment.year * 12 + moment.month - 1 + i, 12) for i in (-1, 0, 1)],
            31,
        )
        choices = [(year, month + 1) for year, month in choices]
    for year, month in choices:
        try:
            start, end = _span(year, month, day.day)
        except ValueError:
            continue
        if reach is None or moment is None or abs((start - moment.date()).days) <= reach:
            yield start, end


def _fits(day: Day, span: Span) -> bool:
    """Tell whether a date says no more than a span: it holds the span, or is an end of a week."""
    years = {day.year} if day.year else {span[0].year, span[1].year}
    for year in years:
        try:
            start, end = _span(year, day.month, day.day)
        except ValueError:
            continue
        if start <= span[0] and span[1] <= end:
            return True
        if start == end and start in span and (span[1] - span[0]).days < 7:
            return True
    return False


def _week(today: date, step: int, first: int = 0, last: int = 6) -> Span:
    monday = today + timedelta(days=7 * step - today.weekday())
    return monday + timedelta(days=first), monday + timedelta(days=last)


def _months(today: date, step: int, day: int | None = None) -> Span:
    year, month = divmod(today.year * 12 + today.month - 1 + step, 12)
    return _span(year, month + 1, day)


def _offset(match: re.Match[str], today: date) -> list[Span]:
    day = today + timedelta(days=_OFFSETS[match.group()])
    return [(day, day)]


def _weekday(match: re.Match[str], today: date) -> list[Span]:
    word, weekday = match.group(1), _index(match.group(2))
    ahead = (weekday - today.weekday() - 1) % 7 + 1
    after, before = today + timedelta(days=ahead), today + timedelta(days=ahead - 7)
    before -= timedelta(days=7 if before == today and word in ("last", "past", "previous") else 0)
    step = _STEPS.get(word or "", 0)
    same = _week(today, step, weekday, weekday)
    nearest = {-1: [before], 0: [before, after], 1: [after]}[step]
    return [same, *((day, day) for day in nearest)]


def _unit(match: re.Match[str], today: date) -> list[Span]:
    step, unit = _STEPS[match.group(1)], match.group(2)
    if unit == "week":
        return [_week(today, step)]
    if unit == "weekend":
        return [_week(today, step, 5, 6), _week(today, step - 1, 5, 6)][: 2 if step == 0 else 1]
    return [_months(today, step) if unit == "month" else _span(today.year + step, None, None)]


def _chinese_week(match: re.Match[str], today: date) -> list[Span]:
    prefix, day = match.groups()
    steps = [_STEPS[prefix]] if prefix else [-1, 0, 1]
    if day == "末":
        return [_week(today, step, 5, 6) for step in steps]
    if day is None:
        return [_week(today, steps[0])] if prefix else []
    index = _CN_DAYS.index(day.replace("天", "日"))
    return [_week(today, step, index, index) for step in steps]


def _chinese_month(match: re.Match[str], today: date) -> list[Span]:
    return [_months(today, _STEPS[match.group(1)], _small(match.group(2)))]


def _chinese_year(match: re.Match[str], today: date) -> list[Span]:
    step, month, day = match.groups()
    return [_span(today.year + _STEPS[step], _small(month), _small(day))]


def _distance(match: re.Match[str], today: date) -> list[Span]:
    parts = match.groupdict()
    number = number_word(parts["n"])
    if number is None:
        return []
    step = -number if parts["way"] in ("ago", "前") else number
    unit = parts["unit"].lstrip("个")
    if unit in ("year", "年"):
        return [_span(today.year + step, None, None)]
    if unit in ("month", "月"):
        return [_months(today, step)]
    day = today + timedelta(days=step * (1 if unit in ("day", "天", "日") else 7))
    return [(day, day)]


_N_NAMED = _AMOUNT.replace("(", "(?P<n>", 1)
_EN_UNIT = "(?P<unit>day|week|month|year)s?"
_RELATIVE: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], date], list[Span]]], ...] = (
    (re.compile("|".join(sorted(_OFFSETS, key=len, reverse=True))), _offset),
    (re.compile(rf"\b(?:(last|past|previous|this|next|coming)\s+)?{_DAY_NAME}\b"), _weekday),
    (re.compile(r"\b(last|past|previous|this|next|coming)\s+(weekend|week|month|year)\b"), _unit),
    (re.compile(f"({_CN_STEP})?个?(?:周|星期|礼拜)([一二三四五六日天末])?"), _chinese_week),
    (re.compile(f"({_CN_STEP})个?月(?:{_N}[日号])?"), _chinese_month),
    (re.compile(f"(去|今|明|前|后)年(?:{_N}月(?:{_N}[日号])?)?"), _chinese_year),
    (re.compile(rf"\b(?P<way>in)\s+{_N_NAMED}\s+(?:of\s+)?{_EN_UNIT}\b"), _distance),
    (re.compile(rf"\b{_N_NAMED}\s(?:of\s)?{_EN_UNIT}\s(?P<way>ago|later|from now)\b"), _distance),
    (
        re.compile(f"{_N_NAMED}(?P<unit>天|日|周|个?星期|个?礼拜|个月|年)(?:以|之)?(?P<way>后|前)"),
        _distance,
    ),
)  # fmt: skip
