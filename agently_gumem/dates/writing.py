"""Dates as two languages write them: 2026-05-03, May 3rd, 5月3日, 三号, and names of weekdays."""

import calendar
import re
import unicodedata
from collections.abc import Iterator

from agently_gumem.dates.spans import Day
from agently_gumem.numerals import number_word

MONTHS = tuple(name.lower() for name in calendar.month_name)  # by number: the first is empty
WEEKDAYS = tuple(name.lower() for name in calendar.day_name)
CN_DAYS = "一二三四五六日"
N = "(\\d{1,2}|[一二两三四五六七八九十]{1,3})"
_Y = "((?:19|20)\\d\\d|[一二][〇零一二三四五六七八九]{3})"
# "may" and "march" are words: alone or not, they are months only with a capital. "May we" and
# "March on" are none where a sentence begins; "in May we" goes on with one.
_GOES_ON = r"(?<=[a-z\d]\s)(?<!\bthe\s)(?<!\ba\s)"
_WORD_MONTH = (
    r"May(?!\s+(?:I|we|you|he|she|they|my|it|the(?!\s+\d))\b)|Mar(?:ch)?(?!\s+on\b)"
    rf"|{_GOES_ON}(?:May|Mar(?:ch)?)"
)
_STREET = r"(?!\s+(?:Street|St|Road|Rd|Avenue|Ave|Lane|Court|Drive)\b)"
MONTH = (
    f"(Jan(?:uary)?|Feb(?:ruary)?|{_WORD_MONTH}|Apr(?:il)?|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|"
    "Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?|january|february|april|june|july|august|september|"
    f"october|november|december)\\b\\.?{_STREET}"
)
_TH = "(?:st|nd|rd|th)?"
# Behind a number these make it the name of a place or a thing, or a length of time: 3号楼, 三日游.
_NO_DAY = (
    "(?:号(?![楼线院门房座厅馆桌机店位床柜室车站口厂井仓台码选令员称召])"
    "|日(?![本元游内间均常程语料三]))"
)
_WRITTEN: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?<![\d-])((?:19|20)\d\d)[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)"), "ymd"),
    (re.compile(r"(?<![\d-])((?:19|20)\d\d)[-/](0[1-9]|1[0-2])(?![\d-])"), "ym"),
    # Day first or month first: read only where the other one is no month.
    (
        re.compile(r"(?<![\d/.-])(1[3-9]|2\d|3[01])[/.](0?[1-9]|1[0-2])[/.]((?:19|20)\d\d)(?!\d)"),
        "dmy",
    ),
    (
        re.compile(r"(?<![\d/.-])(0?[1-9]|1[0-2])[/.](1[3-9]|2\d|3[01])[/.]((?:19|20)\d\d)(?!\d)"),
        "mdy",
    ),
    (re.compile(f"{_Y} ?年(?: ?{N} ?月(?: ?{N} ?[日号])?)?"), "ymd"),
    (re.compile(f"{N} ?月(?: ?{N} ?[日号])?"), "md"),
    (re.compile(f"{N} ?{_NO_DAY}"), "d"),
    (re.compile(rf"\b(\d{{1,2}}){_TH}\s+(?:of\s+)?{MONTH}(?:,?\s+((?:19|20)\d\d)\b)?"), "dmy"),
    (
        re.compile(
            rf"\b{MONTH}(?:\s+(\d{{1,2}}){_TH}\b(?!:|\s*[ap]\.?m))?(?:,?\s+((?:19|20)\d\d)\b)?"
        ),
        "mdy",
    ),
)
# "sun" and "sat" are words; the other short forms are days.
DAY_NAME = (
    "(mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs(?:day)?)?|fri(?:day)?|saturday|sunday)"
)


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
    year, month = small(parts.get("y")), parts.get("m")
    number = month_number(month) if month else None
    if month and number is None:  # 三四月 is either: only a year beside it is told
        return Day(year) if year else None
    day = Day(year, number, small(parts.get("d")))
    ok = (day.month is None or 1 <= day.month <= 12) and (day.day is None or 1 <= day.day <= 31)
    return day if ok and any(day) else None


def small(part: str | None) -> int | None:
    """Read a small number, where there is one."""
    return number_word(part) if part else None


def month_number(part: str) -> int | None:
    """Read a month: a number, or its English name or the beginning of it."""
    lower = part.lower()
    number = number_word(lower)
    if number is not None:
        return number
    named = (i for i, name in enumerate(MONTHS) if i and name.startswith(lower[:3]))
    return next(named, None)


def weekdays(text: str) -> frozenset[int]:
    """Collect the weekdays that a text names, Monday being 0."""
    english = {weekday(name) for name in re.findall(rf"\b{DAY_NAME}s?\b", text.lower())}
    chinese = re.findall(r"(?:周|星期|礼拜)([一二三四五六日天])(?![个种次份])", text)
    return frozenset(english | {CN_DAYS.index(c.replace("天", "日")) for c in chinese})


def weekday(name: str) -> int:
    """Number an English weekday, also a short one; Monday is 0."""
    return next(i for i, full in enumerate(WEEKDAYS) if full.startswith(name[:3]))
