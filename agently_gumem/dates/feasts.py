"""Feasts by name, Chinese lunar ones and those that move included (borax, python-dateutil)."""

import re
from datetime import date, timedelta
from functools import lru_cache

from dateutil.easter import easter
from dateutil.relativedelta import TH, relativedelta

from agently_gumem.dates.spans import Span, one

# Name -> (English words, Chinese words). English ones are days only behind a word such as "at".
_NAMES = {
    "Chinese New Year": ("(?:chinese|lunar) new year|spring festival", "春节|过年|大年初一"),
    "Chinese New Year's Eve": ("(?:chinese|lunar) new year['’]?s eve", "除夕|大年三十|年三十"),
    "New Year's Day": ("new year['’]?s day", "元旦"),
    "New Year's Eve": ("new year['’]?s eve", "跨年夜?"),
    "Tomb-Sweeping Day": ("tomb[- ]sweeping day|qingming(?: festival)?", "清明节?"),
    "Lantern Festival": ("lantern festival", "元宵节?|正月十五"),
    "Qixi": ("qixi(?: festival)?", "七夕(?:情人节|节)?"),
    "Double Ninth Festival": ("double ninth festival", "重阳节?"),
    "Labor Day": ("", "五一(?:节|假期|长假)?|劳动节"),
    "Dragon Boat Festival": ("dragon boat festival", "端午节?"),
    "Mid-Autumn Festival": ("mid-autumn(?: festival)?", "中秋节?"),
    "National Day": ("", "国庆(?:节|假期|长假|黄金周)?|十一(?:假期|长假|黄金周)"),
    "Christmas Eve": ("christmas eve|xmas eve", "平安夜"),
    "Christmas Day": ("christmas(?: day)?|xmas", "圣诞节?"),
    "Halloween": ("halloween", "万圣节"),
    "Valentine's Day": ("valentine['’]?s day", "(?<!七夕)情人节"),
    "Easter": ("easter(?: sunday)?", "复活节"),
    "Thanksgiving Day": ("thanksgiving(?: day)?", "感恩节"),
}
_FIXED = {
    "New Year's Day": (1, 1), "New Year's Eve": (12, 31), "Christmas Eve": (12, 24),
    "Christmas Day": (12, 25), "Halloween": (10, 31), "Valentine's Day": (2, 14),
    "Labor Day": (5, 1), "National Day": (10, 1),
}  # fmt: skip
# By the month and day of the Chinese lunar calendar.
_LUNAR = {
    "Chinese New Year": (1, 1), "Lantern Festival": (1, 15), "Dragon Boat Festival": (5, 5),
    "Qixi": (7, 7), "Mid-Autumn Festival": (8, 15), "Double Ninth Festival": (9, 9),
}  # fmt: skip
# Feasts that are spoken of as the days off around them: days before and after the first one.
_AROUND = {
    "Chinese New Year": (-1, 6), "National Day": (0, 6), "Labor Day": (0, 4),
    "Christmas Day": (-1, 1),
}  # fmt: skip
_STEPS = {"last": -1, "去年": -1, "this": 0, "今年": 0, "next": 1, "明年": 1}
_AT = "at|on|over|by|before|after|for|until|till|since|during|around|in|this|next|last|the"
# What a feast lends its name to is no day: a Christmas tree, 圣诞礼物.
_NO_NOUN = (
    r"(?!['’]|\s+(?:tree|eggs?|cards?|gifts?|presents?|cake|cookies|music|songs?|movies?|market|"
    r"party|dinner|decorations?|jumper|sweater|recipes?|shopping|break|holidays?)\b)"
)
_NO_NOUN_CN = "(?![礼树歌卡蛋帽]|晚会|联欢|快乐|贺卡|电影|档|大餐|装饰|市集)"


def _group(place: int) -> str:
    """Join the words of all feasts into one pattern, each with a group of its own."""
    named = sorted(enumerate(_NAMES.values()), key=lambda item: -len(item[1][place]))
    return "|".join(f"(?P<f{i}>{words[place]})" for i, words in named if words[place])


FEAST = rf"\b(?:(?P<step>last|this|next)|{_AT})\s+(?:{_group(0)})\b{_NO_NOUN}"
FEAST_CN = rf"(?<!每)(?<!每年)(?:(?P<step>去年|今年|明年)的?|(?<!每))(?:{_group(1)}){_NO_NOUN_CN}"


def feast(match: re.Match[str], today: date) -> list[Span]:
    """Give the days of a feast: the last and the next one, or that of the year that is named."""
    parts = match.groupdict()
    found = next(key for key, word in parts.items() if key != "step" and word)
    name = [*_NAMES][int(found[1:])]
    years = [y for y in (today.year - 1, today.year, today.year + 1) if 1950 <= y <= 2090]
    days = [_day(name, year) for year in years]
    chosen = _chosen(days, parts.get("step") or "", today)
    before, after = _AROUND.get(name, (0, 0))
    spread = [(d + timedelta(days=before), d + timedelta(days=after)) for d in chosen if after]
    return [*map(one, chosen), *spread]


def _chosen(days: list[date], step: str, today: date) -> list[date]:
    past, coming = [d for d in days if d < today], [d for d in days if d >= today]
    if not step:
        return [*past[-1:], *coming[:1]]
    year = [d for d in days if d.year == today.year + _STEPS[step]]
    nearest = {"last": past[-1:], "next": coming[:1]}.get(step, [])
    return [*dict.fromkeys([*nearest, *year])]


def _day(name: str, year: int) -> date:
    if name in _FIXED:
        return date(year, *_FIXED[name])
    if name == "Easter":
        return easter(year)
    if name == "Thanksgiving Day":
        return date(year, 11, 1) + relativedelta(weekday=TH(4))
    return _chinese(name, year)


@lru_cache(maxsize=256)
def _chinese(name: str, year: int) -> date:
    """Look a feast of the Chinese calendar up; the library is loaded at the first one."""
    from borax.calendars.lunardate import LunarDate, TermUtils

    if name == "Tomb-Sweeping Day":
        return TermUtils.nth_term_day(year, TermUtils.name2index("清明"))
    if name == "Chinese New Year's Eve":
        return _chinese("Chinese New Year", year) - timedelta(days=1)
    month, day = _LUNAR[name]
    return LunarDate(year, month, day).to_solar_date()
