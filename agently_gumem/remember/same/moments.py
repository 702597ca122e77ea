"""Times of two sentences compared: dates, times of day, date words, seasons, recurrences."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from agently_gumem import dates, numerals

Table = list[tuple[str, re.Pattern[str]]]

_WORD = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_HOUR = rf"(?:{_WORD}|\d{{1,2}})"
_CLOCK = r"(?::00)?(?: o['’]?clock)?"
# One way of writing for what has several: (what, how), applied in this order.
_REWRITES = (
    (r"\b(in|since|from|by|until|before|after|during) ((?:19|20)\d\d)\b(?![-/.]\d)", r"\1 \2年"),
    (r"\btwice\b", "2 times"),
    (r"\bthrice\b", "3 times"),
    (r"\b(?:noon|midday)\b|正午|中午(?![\d一二十])", "12:00 pm"),
    (r"\bmidnight\b|午夜", "0:00"),
    (rf"\bhalf past ({_HOUR})\b", r"\1:30"),
    (rf"\bquarter past ({_HOUR})\b", r"\1:15"),
    (rf"\b({_HOUR}){_CLOCK} in the morning\b", r"\1 am"),
    (rf"\b({_HOUR}){_CLOCK} (?:in the (?:afternoon|evening)|at night)\b", r"\1 pm"),
    (r"\b(\d{1,2}:\d\d) in the morning\b", r"\1 am"),
    (r"\b(\d{1,2}:\d\d) (?:in the (?:afternoon|evening)|at night)\b", r"\1 pm"),
    (rf"\b({_HOUR}) o['’]?clock\b", r"\1:00"),
    (r"点一刻", "点15分"),
    (r"点三刻", "点45分"),
    (r"\bhalf an hour\b|半个?小时|半个?钟头", "30 minutes"),
    (r"\bhalf a year\b|半年", "6 months"),
    (r"(?<=[\d一二两三四五六七八九十])个半小时", ".5 hours"),
    (r"\bhalf a dozen\b", "6"),
    (r"(\d|[一二两三])米([一二三四五六七八九\d])(?!\d)", r"\1.\2米"),
)
_BEFORE_CLOCK = re.compile(rf"\b(?:{_WORD})(?= ?(?:[ap]\.?m\b|:\d\d))")

_CN_WEEK = "个?(?:周|星期|礼拜)(?!末)"
# Unit -> its English name, and Chinese for the next, this and the last one.
_STEPS = {
    "week": ("week", f"下{_CN_WEEK}", f"[这本]{_CN_WEEK}", f"上{_CN_WEEK}"),
    "weekend": ("weekend", "下个?周末", "[这本]个?周末", "上个?周末"),
    "month": ("month", "下个?月", "[这本]个?月", "上个?月"),
    "quarter": ("quarter", "下个?季度", "[这本]个?季度", "上个?季度"),
    "year": ("year", "明年", "今年", "去年"),
}
_WAYS = {"+1": "next|coming", "+0": "this|current", "-1": "last|past|previous"}
# Days that a text names by their distance, and feasts.
_DAYS = {
    "day+2": r"\bday after tomorrow\b|后天",
    "day+1": r"(?<!after )\btomorrow\b|明[天日早晚]",
    "day+0": r"\b(?:today|tonight|this (?:morning|afternoon|evening))\b|今[天日早晚]",
    "day-1": r"(?<!before )\b(?:yesterday|last night)\b|昨[天日晚]",
    "day-2": r"\bday before yesterday\b|前天",
    "year+2": "后年",
    "year-2": "前年",
    "spring festival": r"\b(?:spring festival|(?:chinese|lunar) new year)\b|春节|过年",
    "christmas": r"\b(?:christmas|xmas)\b|圣诞",
    "mid-autumn": r"\bmid-autumn\b|中秋",
    "national day": r"\bnational day\b|国庆",
    "new year": r"(?<!chinese )(?<!lunar )\bnew year\b|元旦",
}
_A = r"(?<!in )(?<!for )(?<!half )\ba"
# Kinds of time: a text that names none may mean any; two that name others don't say the same.
_KINDS = {
    "part": {
        "morning": r"\bmornings?\b|早[上晨间]|上午|清晨|凌晨|晨跑",
        "afternoon": r"\bafternoons?\b|下午",
        "evening": r"\b(?:evenings?|nights?)\b|晚[上间]|傍晚|夜[里间跑]",
    },
    "season": {
        "spring": r"\bspring(?!\s?(?:boot|festival))\b|春[天季]",
        "summer": r"\bsummers?\b|夏[天季]|暑假",
        "autumn": r"\bautumn\b|\bin (?:the )?fall\b|秋[天季]",
        "winter": r"\bwinters?\b|冬[天季]|寒假",
    },
    "often": {
        "day": rf"\b(?:daily|(?:every|each|per) day)\b|{_A} day\b|每[天日]"
        r"|天天|一天(?=[\d两三四五六])",
        "week": rf"\b(?:weekly|(?:every|each|per) week)\b|{_A} week\b|一周|周会"
        "|每个?(?:周(?![一二三四五六日末])|星期(?![一二三四五六日天])|礼拜)",
        "month": rf"\b(?:monthly|(?:every|each|per) month)\b|{_A} month\b|每个?月|月[租供费付薪]",
        "quarter": r"\b(?:quarterly|(?:every|each|per) quarter)\b|每个?季度",
        "year": rf"\b(?:yearly|annual(?:ly)?|(?:every|each|per) year)\b|{_A} year\b|每年|年[费薪]",
    },
    "edge": {
        "start": r"\b(?:start|beginning) of\b|\bearly\b|[月年]初",
        "end": r"\bend of\b|\blate\b|[月年][底末]",
    },
    "free": {
        "off": r"\bweekends?\b|周末|双休日",
        "work": r"\bweekdays?\b|\bworkdays?\b|工作日|平日",
    },
}


def plain(text: str) -> str:
    """Bring what has several ways of writing into one; case stays, May is no may."""
    text = dates.normal(text)
    for pattern, replacement in _compiled():
        text = pattern.sub(replacement, text)
    return _BEFORE_CLOCK.sub(lambda m: str(numerals.number_word(m.group())), text)


def dates_differ(a: str, b: str) -> bool:
    """Tell whether two texts name other dates, times of day or recurrences."""
    one, other = plain(a), plain(b)
    mine, theirs = ([minutes for _, minutes in numerals.clocks(t)] for t in (one, other))
    if len(mine) != len(theirs) or any(not any(m & t for t in theirs) for m in mine):
        return True
    written = [{d for _, d in dates.written(t) if d.month or d.year} for t in (one, other)]
    if written[0] != written[1] or dates.weekdays(one) != dates.weekdays(other):
        return True
    periods, kinds = _tables()
    one, other = one.lower(), other.lower()
    if _codes(periods, one) != _codes(periods, other):
        return True
    asked = [table for kind, table in kinds.items() if not (mine and kind == "part")]
    return any(_conflict(_codes(table, one), _codes(table, other)) for table in asked)


@lru_cache(maxsize=1)
def _compiled() -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern), replacement) for pattern, replacement in _REWRITES]


@lru_cache(maxsize=1)
def _tables() -> tuple[Table, dict[str, Table]]:
    periods = [*_DAYS.items(), *_steps()]
    kinds = {kind: _table(patterns.items()) for kind, patterns in _KINDS.items()}
    return _table(periods), kinds


def _steps() -> Iterator[tuple[str, str]]:
    for unit, (name, *chinese) in _STEPS.items():
        for (step, english), own in zip(_WAYS.items(), chinese, strict=True):
            yield f"{unit}{step}", rf"\b(?:{english})[ -]{name}\b|{own}"


def _table(patterns: Iterable[tuple[str, str]]) -> Table:
    return [(code, re.compile(pattern)) for code, pattern in patterns]


def _codes(table: Table, text: str) -> set[str]:
    return {code for code, pattern in table if pattern.search(text)}


def _conflict(mine: set[str], theirs: set[str]) -> bool:
    return bool(mine and theirs) and not (mine <= theirs or theirs <= mine)
