"""Date words of two languages, and every span of days that they can mean at a moment."""

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta

from agently_gumem.dates.feasts import FEAST, FEAST_CN, feast
from agently_gumem.dates.spans import (
    Day,
    Span,
    edge,
    month,
    occurrences,
    one,
    quarter,
    span,
    week,
)
from agently_gumem.dates.writing import CN_DAYS, DAY_NAME, MONTHS, N, month_number, small, weekday
from agently_gumem.numerals import number_word

Reader = Callable[[re.Match[str], datetime], list[Span]]

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
# 晚上周三, 一下周三, 日本周边: the character belongs to the word before it.
_CN_STEP = "(?<![晚早马])上上?|(?<![一剩当底手乡天])下下?|这|(?<![日原基])本"
_CN_WEEK = "个?(?:周|星期|礼拜)"
_STEP = "last|past|previous|this|next|coming"
# A lone character between 一 and 十 is one number; "every Friday", 每周三 is no day.
_AMOUNT = "(?P<n>\\d{1,3}|half an?|an?|couple|[a-z]{3,9}|半|[一二两三四五六七八九十]{1,3})"
_EN_UNIT = "(?P<unit>minute|hour|day|week|fortnight|month|year)s?"
_CN_UNIT = "(?P<unit>分钟|个?小时|天|日|周|个?星期|个?礼拜|个月|年)"
_EDGES = {
    "beginning": "start", "start": "start", "early": "start", "mid": "middle", "middle": "middle",
    "late": "end", "end": "end", "初": "start", "上旬": "start", "中": "middle", "中旬": "middle",
    "下旬": "end", "底": "end", "末": "end",
}  # fmt: skip
_NAMES = "|".join(MONTHS[1:])


def _offset(match: re.Match[str], at: datetime) -> list[Span]:
    return [one(at.date() + timedelta(days=_OFFSETS[match.group()]))]


def _weekday(match: re.Match[str], at: datetime) -> list[Span]:
    """Give what a weekday means: which Friday the next one is, people don't agree on."""
    word, place, today = match.group(1) or "", weekday(match.group(2)), at.date()
    ahead = (place - today.weekday() - 1) % 7 + 1
    after, before = today + timedelta(days=ahead), today + timedelta(days=ahead - 7)
    same, earlier = week(today, 0, place, place), week(today, -1, place, place)
    if word in ("next", "coming"):
        return [one(after)] if word == "coming" else [one(after), week(today, 1, place, place)]
    if word in ("last", "past", "previous"):
        nearest = before - timedelta(days=7) if before == today else before
        return [one(nearest), earlier]
    if word == "this":
        return [same] if same[0] >= today else [same, one(after)]
    return [one(before), one(after)]


def _weekday_of(match: re.Match[str], at: datetime) -> list[Span]:
    """Read "Monday next week" and "a week from Monday"."""
    parts = match.groupdict()
    if parts["day"]:
        place = weekday(parts["day"])
        return [week(at.date(), _STEPS[parts["step"]], place, place)]
    ahead = (weekday(parts["from"]) - at.weekday() - 1) % 7 + 1
    return [one(at.date() + timedelta(days=ahead + 7))]


def _unit(match: re.Match[str], at: datetime) -> list[Span]:
    word, unit, today = match.group(1), match.group(2), at.date()
    step = _STEPS.get(word, 0)
    if unit == "weekend":
        return _weekend(word, step, today)
    if unit == "quarter":
        return [quarter(today, step)]
    if unit == "week":
        return [week(today, step)]
    return [month(today, step) if unit == "month" else span(today.year + step)]


def _weekend(word: str, step: int, today: date) -> list[Span]:
    if word == "next" and today.weekday() < 5:  # said on a Wednesday it may be the coming one
        return [week(today, 1, 5, 6), week(today, 0, 5, 6)]
    if word in ("on the", "at the", "the"):
        return [week(today, 0, 5, 6), week(today, -1, 5, 6)]
    return [week(today, step, 5, 6)]


def _after_next(match: re.Match[str], at: datetime) -> list[Span]:
    back = match.group(1) == "before last"
    return [week(at.date(), -2 if back else 2)]


def _chinese_week(match: re.Match[str], at: datetime) -> list[Span]:
    prefix, day = match.groups()
    today = at.date()
    if day is None:
        return [week(today, _STEPS[prefix])] if prefix else []
    if day == "末":
        steps = [_STEPS[prefix]] if prefix else [0, -1]
        return [week(today, step, 5, 6) for step in steps]
    place = CN_DAYS.index(day.replace("天", "日"))
    if prefix:
        return [week(today, _STEPS[prefix], place, place)]
    ahead = (place - today.weekday() - 1) % 7 + 1
    return [one(today + timedelta(days=ahead - 7)), one(today + timedelta(days=ahead))]


def _chinese_month(match: re.Match[str], at: datetime) -> list[Span]:
    prefix, part, day = match.groups()
    if part:
        return edge(month(at.date(), _STEPS[prefix] if prefix else 0), _EDGES[part])
    return [month(at.date(), _STEPS[prefix], small(day))] if prefix else []


def _chinese_year(match: re.Match[str], at: datetime) -> list[Span]:
    step, year_edge, number, day, part = match.groups()
    year = at.year + _STEPS[step] if step else at.year
    if year_edge:
        return edge(span(year), _EDGES[year_edge])
    if not step:
        return []
    if not number:
        return [span(year)]
    whole = span(year, small(number), small(day))
    return edge(whole, _EDGES[part]) if part and not day else [whole]


def _named_edge(match: re.Match[str], at: datetime) -> list[Span]:
    """Read "end of the month", "early next year", "mid-June 2027", 六月底."""
    parts = match.groupdict()
    part = _EDGES[parts["edge"]]
    if parts.get("unit"):
        step, unit = _STEPS.get(parts["step"] or "this", 0), parts["unit"]
        today = at.date()
        whole = {"week": week(today, step), "month": month(today, step)}.get(unit)
        return edge(whole or span(today.year + step), part)
    number, year = month_number(parts["month"]), parts.get("year")
    found = occurrences(Day(int(year) if year else None, number), at)
    return [one_part for whole in found for one_part in edge(whole, part)]


def _chinese_quarter(match: re.Match[str], at: datetime) -> list[Span]:
    return [quarter(at.date(), _STEPS[match.group(1)])]


def _distance(match: re.Match[str], at: datetime) -> list[Span]:
    parts = match.groupdict()
    unit = parts["unit"].lstrip("个")
    half = parts["n"] in ("half a", "half an", "半")
    number = 6 if half else number_word(parts["n"])
    if number is None or (half and unit not in ("year", "年")):
        return []
    step = -number if parts["way"] in ("ago", "前") else number
    if half or unit in ("month", "月"):
        return [month(at.date(), step)]
    if unit in ("year", "年"):
        return [span(at.year + step)]
    hours = {"minute": 1 / 60, "分钟": 1 / 60, "hour": 1, "小时": 1, "day": 24, "天": 24, "日": 24,
             "fortnight": 336}.get(unit, 168)  # fmt: skip
    return [one((at + timedelta(hours=step * hours)).date())]


def _year(match: re.Match[str], _at: datetime) -> list[Span]:
    return [span(int(match.group(1)))]


def _date_of_year(match: re.Match[str], at: datetime) -> list[Span]:
    """Read "2nd of April last year"."""
    parts = match.groupdict()
    year = at.year + _STEPS[parts["step"]]
    return [span(year, month_number(parts["m"]), small(parts["d"] or parts["e"]))]


def _day_of_month(match: re.Match[str], at: datetime) -> list[Span]:
    return occurrences(Day(day=int(match.group(1))), at)


def _feast(match: re.Match[str], at: datetime) -> list[Span]:
    return feast(match, at.date())


_THEN = r"(?=\s*(?:$|[.,;:!?)]|(?:at|and|or|in|to|for|we|i|from|if|because|with)\b))"
# The first one that begins at a place and reaches farthest is taken.
RELATIVE: tuple[tuple[re.Pattern[str], Reader], ...] = tuple(
    (re.compile(pattern), reader)
    for pattern, reader in (
        (
            f"(?:{'|'.join(sorted(_OFFSETS, key=len, reverse=True))})(?!(?<=[前后]天)[气性])",
            _offset,
        ),
        (
            rf"(?<!every )(?<!each )\b(?:({_STEP})\s+)?{DAY_NAME}\b(?!['’]?s\b)",
            _weekday,
        ),
        (
            rf"\b(?P<day>{DAY_NAME[1:-1]})\s+(?:of\s+)?(?P<step>last|this|next) week\b"
            rf"|\ba week (?:from|on)\s+(?P<from>{DAY_NAME[1:-1]})\b",
            _weekday_of,
        ),
        (rf"\b({_STEP})\s+(weekend|week|month|quarter|year)\b", _unit),
        (r"\b(on the|at the)\s+(weekend)\b", _unit),
        (r"\bweek (after next|before last)\b", _after_next),
        (
            f"(?<![每隔])(?:({_CN_STEP}))?{_CN_WEEK}([一二三四五六日天末])?(?![个种次份])",
            _chinese_week,
        ),
        (
            f"(?:({_CN_STEP})个?)?(?<![\\d一二三四五六七八九十])月(?![亮球饼经光薪租])"
            f"(?:份?(上旬|中旬|下旬|[初底末])|{N}[日号])?",
            _chinese_month,
        ),
        (
            f"(?:(去|今|明|前|后)年的?|年(?=[底初末]))(?:年?([底初末]|(?<=年)中(?![国秋级]))"
            f"|{N}月份?(?:{N}[日号]|(上旬|中旬|下旬|[初底末]))?)?",
            _chinese_year,
        ),
        (
            r"\b(?P<edge>beginning|start|middle|end|early|late|mid)[ -](?:of\s+)?(?:the\s+|in\s+)?"
            rf"(?:(?:(?P<step>last|this|next)\s+)?(?P<unit>month|year|week)"
            rf"|(?P<month>{_NAMES})(?:,?\s+(?P<year>(?:19|20)\d\d))?)\b",
            _named_edge,
        ),
        (f"(?P<month>{N[1:-1]})月份?(?P<edge>上旬|中旬|下旬|[初底末])", _named_edge),
        (f"({_CN_STEP})个?季度", _chinese_quarter),
        (rf"\b(?P<way>in)\s+{_AMOUNT}\s+(?:of\s+)?{_EN_UNIT}\b", _distance),
        (rf"\b{_AMOUNT}\s(?:of\s)?{_EN_UNIT}\s(?P<way>ago|later|from now)\b", _distance),
        (f"{_AMOUNT}{_CN_UNIT}(?:以|之)?(?P<way>后|前)(?!台)", _distance),
        (f"再过{_AMOUNT}{_CN_UNIT}(?P<way>)", _distance),
        (
            rf"\b(?:(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?(?P<m>{_NAMES})"
            r"(?:\s+(?P<e>\d{1,2})(?:st|nd|rd|th)?)?,?\s+(?P<step>last|this|next) year\b",
            _date_of_year,
        ),
        (
            r"\b(?:in|since|until|till|by|before|after|from|during|of)\s+((?:19|20)\d\d)\b"
            r"(?![-/.:]\d|\s+\w*(?:yuan|dollars?|euros?|people|meters?|km|steps))",
            _year,
        ),
        (
            rf"\b(?:on|by|until|before|after|from) the (\d{{1,2}})(?:st|nd|rd|th)\b{_THEN}",
            _day_of_month,
        ),
        (FEAST, _feast),
        (FEAST_CN, _feast),
    )
)
