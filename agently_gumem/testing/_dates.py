"""Relative dates, against the time of their message."""

import re
from datetime import date, datetime, timedelta

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
_COUNTED = re.compile(
    r"\bin (\d+) (day|week)s?\b|(\d+)\s*(天|周)[之以]?后"
    r"|\b(\d+) (day|week)s? ago\b|(\d+)\s*(天|周)[之以]?前",
    re.IGNORECASE,
)
_WEEKDAY = re.compile(rf"\b(next|last|this|on) ({WEEKDAYS})\b", re.IGNORECASE)
_WEEKDAY_ZH = re.compile(r"(?<!每)(下个?|上个?|这个?|本)?(?:周|星期|礼拜)([一二三四五六日天])")
_WEEK = re.compile(
    r"\b(next|last) week\b|(下|上)个?(?:周|星期)(?![一二三四五六日天])", re.IGNORECASE
)
_MONTH = re.compile(r"\bnext month\b|下个?月", re.IGNORECASE)
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
    start, end = _span(content, today)
    if start:
        shown = start.isoformat()
        behind = f"（{shown} 起）" if chinese else f" (from {shown})"
        return content + behind, shown, end.isoformat() if end else ""
    return content, "", ""


def _day(text: str, today: date, plan: bool) -> date | None:
    for pattern, days in _OFFSETS:
        if re.search(pattern, text, re.IGNORECASE):
            return today + timedelta(days=days)
    counted = _COUNTED.search(text)
    if counted:
        number, unit = [g for g in counted.groups() if g][:2]
        back = counted.group(5) or counted.group(7)
        days = int(number) * (7 if unit.lower() in ("week", "周") else 1)
        return today + timedelta(days=-days if back else days)
    return _weekday(text, today, plan)


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
    return today + timedelta(days=(day - today.weekday()) % 7) if plan else None


def _span(text: str, today: date) -> tuple[date | None, date | None]:
    week = _WEEK.search(text)
    if week:
        back = (week.group(1) or week.group(2)).lower() in ("last", "上")
        monday = today - timedelta(days=today.weekday() + (7 if back else -7))
        return monday, monday + timedelta(days=6)
    if _MONTH.search(text):
        first = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
        return first, (first + timedelta(days=32)).replace(day=1) - timedelta(days=1)
    return None, None
