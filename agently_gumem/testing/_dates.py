"""Relative dates, against the time of their message."""

import re
from datetime import date, datetime, timedelta

from agently_gumem.numerals import number_word
from agently_gumem.testing._patterns import WEEKDAYS
from agently_gumem.text import is_chinese

_DAYS = {day: place for place, day in enumerate(WEEKDAYS.split("|"))}
_DAYS_ZH = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}
_OFFSETS = (
    (r"\bday after tomorrow\b|(?<!大)后天", 2),
    (r"大后天", 3),
    (r"\bday before yesterday\b|前天", -2),
    (r"\btomorrow\b|明天|明早|明晚", 1),
    (r"\byesterday\b|昨天|昨晚", -1),
    (r"\b(?:today|tonight|this (?:morning|afternoon|evening))\b|今天|今晚", 0),
)
_N = r"(?P<{}>\d+|[a-z]{{1,9}}|[一二两三四五六七八九十]{{1,3}})"
_COUNTED = re.compile(
    rf"\bin {_N.format('a')} (?P<au>day|week|month|year)s?\b"
    rf"|\b{_N.format('b')} (?P<bu>day|week|month|year)s? (?P<bw>ago|from now)\b"
    rf"|{_N.format('c')}\s*个?(?P<cu>天|日|周|星期|礼拜|月|年)[之以]?(?P<cw>后|前)",
    re.IGNORECASE,
)
_UNITS = {
    **dict.fromkeys(("day", "天", "日"), 1),
    **dict.fromkeys(("week", "周", "星期", "礼拜"), 7),
}
_WEEKDAY = re.compile(rf"\b(next|last|this|on) ({WEEKDAYS})\b", re.IGNORECASE)
_WEEKDAY_ZH = re.compile(r"(?<!每)(下个?|上个?|这个?|本)?(?:周|星期|礼拜)([一二三四五六日天])")
_WEEK = re.compile(
    r"\b(next|last) week\b|(下|上)个?(?:周|星期)(?![一二三四五六日天])", re.IGNORECASE
)
_MONTH = re.compile(r"\b(next|last) month\b|(?<!\d)(下|上)个?月", re.IGNORECASE)
_YEAR = re.compile(r"\b(next|last) year\b|(明|去)年", re.IGNORECASE)
_BACK = frozenset({"last", "上", "去", "ago", "前"})
_PAST = re.compile(r"\b(?:was|were|had|did|got|went|came|met|saw|\w{3,}ed)\b|了", re.IGNORECASE)
_ISO = re.compile(r"\b(\d{4}-\d{2}-\d{2})\b")


def resolve(content: str, time: str, *, plan: bool) -> tuple[str, str, str]:
    """Find the date that a sentence means.

    Returns:
        The content, the date behind it where it was resolved; start and end in ISO, or empty.
        Without `time` nothing relative is resolved.
    """
    written = _ISO.search(content)
    if written:
        return content, written.group(1) if plan else "", ""
    try:
        today = datetime.fromisoformat(time.replace("Z", "+00:00")).date()
    except ValueError:
        return content, "", ""
    chinese = is_chinese(content)
    start = _day(content, today, plan)
    if start:
        shown = start.isoformat()
        return content + (f"（{shown}）" if chinese else f" ({shown})"), shown, ""
    start, end, behind = _span(content, today)
    if start:
        return content + (f"（{behind}）" if chinese else f" ({behind})"), start, end
    return content, "", ""


def _day(text: str, today: date, plan: bool) -> date | None:
    for pattern, days in _OFFSETS:
        if re.search(pattern, text, re.IGNORECASE):
            return today + timedelta(days=days)
    counted = _counted(text)
    if counted and counted[1] in _UNITS:
        return today + timedelta(days=counted[0] * _UNITS[counted[1]])
    return _weekday(text, today, plan)


def _counted(text: str) -> tuple[int, str] | None:
    """Read "in 3 weeks" and the like: how many, back where below zero, and of what."""
    found = _COUNTED.search(text)
    if not found:
        return None
    form = "abc"[[found["a"], found["b"], found["c"]].index(found["a"] or found["b"] or found["c"])]
    number = number_word(found[form].lower())
    if number is None:
        return None
    way = "" if form == "a" else found[f"{form}w"].lower()
    return (-number if way in _BACK else number), found[f"{form}u"].lower()


def _weekday(text: str, today: date, plan: bool) -> date | None:
    english, chinese = _WEEKDAY.search(text), _WEEKDAY_ZH.search(text)
    if english:
        which, day = english.group(1).lower(), _DAYS[english.group(2).lower()]
    elif chinese:
        which, day = (chinese.group(1) or "on")[0], _DAYS_ZH[chinese.group(2)]
    else:
        return None
    monday = today - timedelta(days=today.weekday())
    if which in ("next", "下"):
        return monday + timedelta(days=7 + day)
    if which in ("last", "上"):
        return monday + timedelta(days=day - 7)
    if which in ("this", "这", "本"):
        return monday + timedelta(days=day)
    if plan:
        return today + timedelta(days=(day - today.weekday()) % 7)
    return today - timedelta(days=(today.weekday() - day - 1) % 7 + 1) if past(text) else None


def past(text: str) -> bool:
    """Tell a sentence of what has happened."""
    return _PAST.search(text) is not None


def _span(text: str, today: date) -> tuple[str, str, str]:
    """Find a week, month or year that is named: its start, its end, and what to write behind."""
    week, month, year = (p.search(text) for p in (_WEEK, _MONTH, _YEAR))
    counted = _counted(text)
    if week:
        monday = today + timedelta(days=7 * _step(week) - today.weekday())
        sunday = (monday + timedelta(days=6)).isoformat()
        return monday.isoformat(), sunday, f"{monday.isoformat()} – {sunday}"
    if month or (counted and counted[1] in ("month", "月")):
        step = _step(month) if month else counted[0] if counted else 0
        whole, index = divmod(today.year * 12 + today.month - 1 + step, 12)
        return (shown := f"{whole}-{index + 1:02}"), "", shown
    if year or (counted and counted[1] in ("year", "年")):
        step = _step(year) if year else counted[0] if counted else 0
        return (shown := str(today.year + step)), "", shown
    return "", "", ""


def _step(found: re.Match[str]) -> int:
    return -1 if (found.group(1) or found.group(2)).lower() in _BACK else 1
