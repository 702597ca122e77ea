"""Numbers and times of day as two languages write them: 1k, 八百, a couple, 3 pm, 下午三点."""

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal

CHINESE = "零〇一二两三四五六七八九十百千万亿"
_DIGITS = {char: i for i, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_UNITS = {"十": 10, "百": 100, "千": 1_000}
_SECTIONS = {"万": 10_000, "亿": 100_000_000}
_SCALES = {
    "k": 1_000, "w": 10_000, "m": 1_000_000, "bn": 1_000_000_000, "thousand": 1_000,
    "million": 1_000_000, "billion": 1_000_000_000, "百": 100, "千": 1_000, "万": 10_000,
    "亿": 100_000_000,
}  # fmt: skip
_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS = {word: i for i, word in enumerate(_SMALL.split())} | {
    word: 10 * i for i, word in enumerate(_TENS.split(), start=2)
}
_BIG = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "dozen": 12}
# Words that can stand for a number where it is read, but claim none where it is written.
_LOOSE = {
    "a": 1, "an": 1, "one": 1, "once": 1, "single": 1, "first": 1, "twice": 2, "both": 2,
    "couple": 2, "pair": 2, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6,
    "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10,
}  # fmt: skip
# A longer run of digits is no number to reckon with; it is compared as it is written.
LONGEST = 20
_IDIOMS = frozenset({"千万", "万一", "一一", "万万", "百万千万"})
_CLASSIFIERS = frozenset(
    "个只双条件本台张套次天年岁元块码米斤克箱瓶杯口名位人家门部辆间层遍周日号秒小页倍折期课碗顿公千英"
)

_NUMBER = re.compile(
    r"(?<![\d.])(\d{1,3}(?:,\d{3})+(?!\d)|\d+)(\.\d+)?"
    r"(?:\s?(thousand|million|billion|bn|k|w|m|百|千|万|亿)(?![a-z]))?"
)
_RUN = re.compile(f"[{CHINESE}]+")
_WORD = re.compile(r"[a-z]+")
_ANY = re.compile(f"(?<![A-Za-z-])\\d[\\d.,]*|[{CHINESE}]{{2,}}")
_DIGIT_RUN = re.compile(r"\d+")


def chinese_number(run: str) -> int | None:
    """Read a run of Chinese numerals; None where it is an idiom, too long or two numbers, 三四."""
    if run in _IDIOMS or len(run) > LONGEST:
        return None
    if all(char in _DIGITS for char in run):
        written = "".join(str(_DIGITS[char]) for char in run)
        return int(written) if len(run) in (1, 4) or "〇" in run or "零" in run else None
    total = section = digit = 0
    for char in run:
        if char in _DIGITS:
            digit = _DIGITS[char]
        elif char in _UNITS:
            section += (digit or 1) * _UNITS[char]
            digit = 0
        else:
            total = (total + section + digit or 1) * _SECTIONS[char]
            section = digit = 0
    return total + section + digit


def number_word(word: str) -> int | None:
    """Read one small number: digits, an English word, a Chinese numeral."""
    if word.isdecimal():
        return int(word) if len(word) <= LONGEST else None
    if word and all(char in CHINESE for char in word):
        return chinese_number(word)
    return _WORDS.get(word, _LOOSE.get(word))


def blank(text: str) -> str:
    """Take the numbers out of a text."""
    return _ANY.sub(" ", text)


def claimed(text: str) -> list[frozenset[Decimal]]:
    """List the numbers that a text claims, each with its possible readings.

    What is often no number is left out: a lone "one", 一 before a measure word, ordinals.
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    found = [readings for readings, _ in _digits(text)]
    found += [frozenset({value}) for value in _english(text) if value != 1]
    for match in _RUN.finditer(_NUMBER.sub(" ", text)):
        value = _claimed_run(match)
        if value is not None:
            found.append(frozenset({Decimal(value)}))
    return found


def stated(text: str) -> frozenset[Decimal]:
    """Collect every number that a text can be read to state."""
    text = unicodedata.normalize("NFKC", text).casefold()
    values: set[Decimal] = {Decimal(run) for run in _DIGIT_RUN.findall(text)}
    for readings, plain in _digits(text):
        values |= readings | {plain}
    values.update(_english(text))
    values.update(Decimal(_LOOSE[w]) for w in _WORD.findall(text) if w in _LOOSE)
    for run in _RUN.findall(text):
        value = chinese_number(run)
        singles = [_DIGITS[c] for c in run if c in _DIGITS]
        values.update(Decimal(v) for v in ([*singles] if value is None else [value, *singles]))
    return frozenset(values)


def _digits(text: str) -> Iterator[tuple[frozenset[Decimal], Decimal]]:
    for match in _NUMBER.finditer(text):
        whole, fraction, scale = match.groups()
        plain = Decimal(whole.replace(",", "") + (fraction or ""))
        value = plain * _SCALES[scale] if scale and len(whole) <= LONGEST else plain
        yield frozenset({value, plain} if scale == "m" else {value}), plain


def _claimed_run(match: re.Match[str]) -> int | None:
    run = match.group()
    after = match.string[match.end() : match.end() + 1]
    if len(run) > 1 or (run != "一" and after in _CLASSIFIERS and after):
        return chinese_number(run)
    return None


def _english(text: str) -> Iterator[Decimal]:
    """Read sequences of number words: "two hundred and five" is 205, "twenty-five" is 25."""
    total = current = last = 0
    counting = False
    for word in [*_WORD.findall(text), ""]:
        value = _WORDS.get(word)
        if value is not None and not (counting and last and last < 20):
            current, last, counting = current + value, value, True
        elif word in _BIG and counting and current < 10**LONGEST:
            current, last = current * _BIG[word], 0
            if _BIG[word] > 100:
                total, current = total + current, 0
        elif not (word == "and" and counting and not last):
            if counting:
                yield Decimal(total + current)
            total = 0
            current = last = value or (_BIG["dozen"] if word == "dozen" else 0)
            counting = bool(current)


_HOUR = "(\\d{1,2}|[一二两三四五六七八九十]{1,3})"
_CLOCK = re.compile(
    r"(上午|早上|凌晨|早|中午|下午|傍晚|晚上|晚)?\s?(?:(\d{1,2}):(\d\d)\s?([ap])?"
    r"|(?<![\d.])(\d{1,2})\s?([ap])\.?m\b"
    rf"|{_HOUR}点(?:(半)|{_HOUR}分?)?)"
)


def clocks(text: str) -> Iterator[tuple[tuple[int, int], frozenset[int]]]:
    """Yield the times of day in a text, as minutes; both halves of the day where none is named."""
    for match in _CLOCK.finditer(text.lower()):
        part, h1, m1, ap1, h2, ap2, h3, half, m3 = match.groups()
        hour = number_word(h1 or h2 or h3)
        minute = 30 if half else number_word(m1 or m3 or "0")
        if hour is None or minute is None or hour > 24 or (h3 == "一" and not part):
            continue
        yield match.span(), _minutes(hour, minute, part or ap1 or ap2 or "")


def _minutes(hour: int, minute: int, half: str) -> frozenset[int]:
    if hour > 12 or hour == 0:
        hours = {hour % 24}
    elif half.startswith(("p", "下", "傍", "晚", "中")):
        hours = {hour % 12 + 12}
    elif half:
        hours = {hour % 12}
    else:
        hours = {hour % 12, hour % 12 + 12}
    return frozenset(h * 60 + minute for h in hours)
