"""Amounts of two sentences compared: numbers in digits and words, units, limits."""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from agently_gumem import numerals
from agently_gumem.remember.same.moments import plain
from agently_gumem.remember.specifics import without_dates
from agently_gumem.text import fold


class Amount(NamedTuple):
    """A number; what it measures is empty where no unit tells."""

    value: Decimal
    kind: str = ""
    size: Decimal = Decimal(0)
    """The value in the smallest unit of its kind."""


# Units by what they measure: how many of the smallest one of them is, and its words.
_UNITS: dict[str, dict[str, str]] = {
    "length": {
        "1": "mm|毫米", "10": "cm|centimet(?:er|re)s?|厘米|公分", "1000": "met(?:er|re)s?|m|米",
        "1000000": "km|kilomet(?:er|re)s?|公里|千米", "1609344": "miles?|英里",
        "304.8": "foot|feet|ft|英尺", "25.4": "inch(?:es)?|英寸", "914.4": "yards?",
    },
    "mass": {
        "1": "mg|milligrams?|毫克", "1000": "grams?|g|克",
        "1000000": "kg|kilos?|kilograms?|公斤|千克", "453592": "lbs?|磅", "500000": "斤",
        "1000000000": "tons?|tonnes?|吨",
    },
    "volume": {"1": "ml|millilit(?:er|re)s?|毫升", "1000": "lit(?:er|re)s?|l|升"},
    "area": {"1": "sq(?:uare)?\\.? ?(?:m|met(?:er|re)s?)|平(?:方米|米)?|㎡"},
    "data": {"1": "kb", "1000": "mb", "1000000": "gb", "1000000000": "tb"},
    "yuan": {"1": "yuan|rmb|cny|人民币|元|块钱?"},
    "dollar": {"1": "(?:us )?dollars?|usd|bucks|美元|美金|美刀|刀"},
    "euro": {"1": "euros?|eur|欧元"},
    "sterling": {"1": "gbp|英镑|pounds sterling"},
    "yen": {"1": "yen|jpy|日元"},
    "hkd": {"1": "hkd|港币|港元"},
    "clock": {
        "1": "seconds?|secs?|秒", "60": "minutes?|mins?|分钟",
        "3600": "hours?|hrs?|h|个?小时|个?钟头",
    },
    "days": {"1": "days?|天", "7": "weeks?|个?星期|个?礼拜|周(?![一二三四五六日末年])"},
    "months": {"1": "months?|个月", "12": "years?(?! old)|年"},
    "share": {"1": "percent|per ?cent|%"},
}  # fmt: skip
_SIGNS = {"$": "dollar", "€": "euro", "£": "sterling", "¥": "yuan"}
_SCALES = {
    "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000, "bn": 1_000_000_000,
    "k": 1_000, "w": 10_000, "百": 100, "千": 1_000, "万": 10_000, "亿": 100_000_000,
}  # fmt: skip
_NUMBER = re.compile(
    r"([$€£¥])?\s?(?<![\d.])(\d{1,3}(?:,\d{3})+(?!\d)|\d+)(\.\d+)?"
    r"(?:\s?(thousand|million|billion|bn|k|w|百|千|万|亿)(?![a-z米克瓦]))?"
)
_SMALL = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|"
    "seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
)
_BIG = "hundred|thousand|million|dozen"
_ENGLISH = re.compile(
    rf"\b(?:(?:one|an?) (?={_BIG}))?(?:{_SMALL}|{_BIG})(?:[ -](?:and )?(?:one|{_SMALL}|{_BIG}))*\b"
)
_ORDINALS = (
    *("third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh"),
    "twelfth",
)
_ORDINAL = re.compile(rf"\b(?:(\d+)(?:st|nd|rd|th)|({'|'.join(_ORDINALS)}))\b")
_CHINESE = re.compile(f"[{numerals.CHINESE}]+")
# 八百五 is 850 where 八百零五 is 805.
_SHORT = re.compile("(?:.*[百千万])[一二三四五六七八九]")
_DECIMAL = re.compile(f"([{numerals.CHINESE}])[.点]([{numerals.CHINESE}])(?=米|块|倍|公|万)")
# What a first number that counts nothing tells: "one", "a".
_COUNTED = frozenset({"length", "mass", "volume"})
_MOST = re.compile(
    r"\b(?:below|under|within|up to|at most|no more than|not more than|less than|cheaper than|"
    r"maximum|max|fewer than|not exceed\w*|cap(?:ped)?)\b"
    r"|不超过|不多于|不高于|低于|少于|小于|至多|最多|顶多|以内|以下|之内|不到|控制在"
)
_LEAST = re.compile(
    r"\b(?:at least|no less than|not less than|minimum|more than|above|exceed\w*|"
    r"over(?= [$€£¥]?\d))\b|不低于|不少于|不小于|至少|最少|起码|以上|高于|多于|超过"
)
_NOT_MOST = re.compile(r"\bno(?:t|) less than\b|不低于|不少于|不小于")
_NOT_LEAST = re.compile(r"\bno(?:t|) more than\b|\bnot exceed\w*|不超过|不高于|不多于")


def numbers_differ(a: str, b: str) -> bool:
    """Tell whether two texts hold other amounts, or limits of opposite direction."""
    mine, theirs = amounts(a), amounts(b)
    if not (_all_in(mine, theirs) and _all_in(theirs, mine)):
        return True
    one, other = (_limits(fold(text)) for text in (a, b))
    return bool(mine and one and other) and one.isdisjoint(other)


def amounts(text: str) -> list[Amount]:
    """List the numbers of a text outside its dates, each with what it measures.

    A lone one is left out: it is an article as often as a number.
    """
    bare = _digits(without_dates(plain(text)).casefold())
    found = [_amount(match) for match in _NUMBER.finditer(bare)]
    return [a for a in found if a.value != 1 or a.kind in _COUNTED]


def measured(text: str) -> str:
    """Write each amount with a unit in the smallest of its kind: equal ones look the same."""
    bare, out, end = _digits(text.casefold()), "", 0
    for match in _NUMBER.finditer(bare):
        unit = next((u for p, _, _ in _units() if (u := p.match(bare, match.end()))), None)
        if unit is not None:
            amount = _amount(match)
            out += f"{bare[end : match.start()]} {amount.kind}{amount.size.normalize():f}"
            end = unit.end()
    return out + bare[end:]


@lru_cache(maxsize=1)
def _units() -> list[tuple[re.Pattern[str], str, Decimal]]:
    return [
        (re.compile(rf"[ -]?(?:{words})(?![a-z])"), kind, Decimal(factor))
        for kind, factors in _UNITS.items()
        for factor, words in factors.items()
    ]


def _amount(match: re.Match[str]) -> Amount:
    sign, whole, fraction, scale = match.groups()
    value = Decimal(whole.replace(",", "") + (fraction or ""))
    if len(whole) > numerals.LONGEST:
        return Amount(value)
    value *= _SCALES.get(scale or "", 1)
    if sign:
        return Amount(value, _SIGNS[sign], value)
    for pattern, kind, factor in _units():
        if pattern.match(match.string, match.end()):
            return Amount(value, kind, value * factor)
    return Amount(value)


def _all_in(mine: Iterable[Amount], theirs: Iterable[Amount]) -> bool:
    return all(any(_equal(amount, other) for other in theirs) for amount in mine)


def _equal(a: Amount, b: Amount) -> bool:
    if a.kind and b.kind:
        return a.kind == b.kind and a.size == b.size
    return a.value == b.value


def _limits(text: str) -> set[str]:
    most = _MOST.search(_NOT_MOST.sub(" ", text))
    least = _LEAST.search(_NOT_LEAST.sub(" ", text))
    return {side for side, found in (("most", most), ("least", least)) if found}


def _digits(text: str) -> str:
    """Write the numbers that stand in words with digits."""
    text = _ORDINAL.sub(_ordinal, text)
    text = _ENGLISH.sub(lambda m: "".join(_values(m.group())) or m.group(), text)
    text = _DECIMAL.sub(_decimal, text)
    return _CHINESE.sub(_chinese, text)


def _ordinal(match: re.Match[str]) -> str:
    digits, word = match.groups()
    return digits or str(_ORDINALS.index(word) + 3)


def _values(run: str) -> Iterator[str]:
    readings = numerals.claimed(run)
    if len(readings) == 1:
        yield str(next(iter(readings[0])))


def _decimal(match: re.Match[str]) -> str:
    return ".".join(str(numerals.number_word(part)) for part in match.groups())


def _chinese(match: re.Match[str]) -> str:
    """Read a run where it is claimed as a number: 三 of 三次, not of 张三."""
    run, text = match.group(), match.string
    before, after = text[: match.start()][-1:], text[match.end() : match.end() + 1]
    if len(run) == 1 and (run == "一" or not numerals.claimed(run + after)) and before != "第":
        return run
    value = numerals.chinese_number(run)
    if value is not None and _SHORT.fullmatch(run) and "零" not in run:
        scale = {"百": 10, "千": 100, "万": 1_000}.get(run[-2], 1)
        value += (value % 10) * (scale - 1)
    return run if value is None else str(value)
