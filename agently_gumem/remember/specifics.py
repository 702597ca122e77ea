"""What a sentence pins down (numbers, dates, names, quotations), and whether evidence holds it."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property

from agently_gumem import dates, numerals
from agently_gumem.text import CJK, STOP_WORDS, fold, words

# Words that a memory puts into its sentences, whatever they tell: sharing them is no support.
_GENERIC_WORDS = """
    prefer prefers preferred like likes liked love loves enjoy enjoys want wants wanted need
    needs plan plans planning planned currently recently usually often mostly really very think
    thinks feel feels felt believe believes mention mentioned say says said interested interest
    user users
"""
_GENERIC = frozenset(_GENERIC_WORDS.split())
GENERIC_CJK = re.compile(
    "用户|偏好|喜欢|喜爱|倾向于?|希望|打算|计划|准备|正在|当前|目前|大多|通常|经常|更加?|感兴趣|"
    "关注|的|了|是|在|与|把|被|以内|表示|提到|认为|想要|需要|一直|最近|比较|非常"
)
# Capitalised, but no names: who is spoken of, and units that both languages write their own way.
_NO_NAMES = "user users i ok am pm rmb usd cny eur gbp mr mrs ms dr mom dad mum grandma grandpa"
_ORDINARY = STOP_WORDS | frozenset(_NO_NAMES.split())
_TOKEN = re.compile(r"[^\W_]+(?:['’&.+/-][^\W_]+)*")
# Bounded where parts repeat: a long word without a digit is passed in one go.
_IDENTIFIER = re.compile(
    r"https?://[^\s，。；）)]+|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|(?<![A-Za-z0-9])[A-Za-z]+(?:[-_/.][A-Za-z]+){0,8}[-_/.]?\d[A-Za-z0-9]*(?:[-_/.][A-Za-z0-9]+)*"
)
_LONG_NUMBER = re.compile(r"(?<!\d)\d(?:[ -]?\d){6,}(?!\d)")
_SEPARATOR = re.compile(r"(?<=\d)[ -](?=\d)")
_QUOTE = re.compile(
    r"[\"“「『《]([^\"“”「」『』《》\n]{2,200})[\"”」』》]|(?<!\w)['‘]([^'‘’\n]{2,80})['’](?!\w)"
)
_ENDS = '.!?。！？:：\n"“「(（'
# The two characters before a suffix of places, such as 朝阳 of 北京朝阳区.
PLACE = re.compile("([\u4e00-\u9fff]{2})[区市省县镇路街]")
_LATIN_WORD = re.compile(r"[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


@dataclass(frozen=True)
class Evidence:
    """Texts, each with the time at which it was written, and names that need no other source."""

    texts: tuple[tuple[str, datetime | None], ...]
    names: Collection[str] = ()

    @cached_property
    def folded(self) -> str:
        """All texts in the form in which equal texts are equal."""
        return fold("\n".join([*(text for text, _ in self.texts), *self.names]))

    @cached_property
    def tokens(self) -> frozenset[str]:
        """The Latin words in it, with and without a plural s."""
        found = _LATIN_WORD.findall(self.folded)
        return frozenset([*found, *(word.removesuffix("s") for word in found)])

    @cached_property
    def numbers(self) -> frozenset[Decimal]:
        """The numbers in it, and the years that its date words mean."""
        years = {Decimal(day.year) for span in self._spans for day in span}
        return numerals.stated(self.folded).union(years)

    @cached_property
    def _digits(self) -> str:
        return _SEPARATOR.sub("", self.folded)

    @cached_property
    def _spans(self) -> frozenset[dates.Span]:
        return frozenset(
            span for text, at in self.texts for span in dates.days_in(dates.normal(text), at)
        )

    @cached_property
    def _days(self) -> frozenset[dates.Day]:
        return frozenset(
            day for text, _ in self.texts for _, day in dates.written(dates.normal(text))
        )

    @cached_property
    def _weekdays(self) -> frozenset[int]:
        named = (dates.weekdays(dates.normal(text)) for text, _ in self.texts)
        return frozenset(span[0].weekday() for span in self._spans).union(*named)

    @cached_property
    def _minutes(self) -> frozenset[int]:
        return frozenset(m for text, _ in self.texts for _, at in clocks(text) for m in at)

    def holds_name(self, name: str) -> bool:
        """Tell whether every part of a name stands in it as a word of its own."""
        parts = _LATIN_WORD.findall(re.sub(r"['’]s?\b", " ", fold(name)))
        return all(part in self.tokens or part.removesuffix("s") in self.tokens for part in parts)

    def holds_day(self, day: dates.Day) -> bool:
        """Tell whether a date stands in it, or follows from a text of it and its time."""
        if day.month is None and Decimal(day.year or 0) in self.numbers:
            return True
        return dates.stands(day, self._days, self._spans)

    def holds_weekday(self, weekday: int) -> bool:
        """Tell whether a weekday is named in it, or is the day that a date in it falls on."""
        return weekday in self._weekdays

    def holds_clock(self, minutes: frozenset[int]) -> bool:
        """Tell whether a time of day stands in it."""
        return not minutes.isdisjoint(self._minutes)

    def holds_digits(self, digits: str) -> bool:
        """Tell whether a phone number and the like stands in it, with whatever separators."""
        return digits in self._digits


def clocks(text: str) -> list[tuple[tuple[int, int], frozenset[int]]]:
    """List the times of day in a text, with their places."""
    return list(numerals.clocks(dates.normal(text)))


def missing(text: str, evidence: Evidence, entities: Sequence[str] = ()) -> str:
    """Name the first kind of specific in a text that its evidence lacks, or ""."""
    plain = dates.normal(text)
    if not all(fold(q).strip(" .,!?。，！？") in evidence.folded for q in quotations(plain)):
        return "quotation"
    if _lacks_date(plain, evidence):
        return "date"
    bare = without_dates(plain)
    if not all(_holds_identifier(i, evidence) for i in _IDENTIFIER.findall(bare)):
        return "number"
    bare = _LONG_NUMBER.sub(lambda m: _unless_held(m, evidence), _IDENTIFIER.sub(" x ", bare))
    if not all(readings & evidence.numbers for readings in numerals.claimed(bare)):
        return "number"
    if not all(evidence.holds_name(name) for name in names(bare)):
        return "name"
    lost = [e for e in entities if fold(e) in fold(text) and not _holds_entity(e, evidence)]
    return "name" if lost else ""


def _lacks_date(plain: str, evidence: Evidence) -> bool:
    days = [d for _, d in dates.written(plain) if d.month or d.year]
    return not (
        all(evidence.holds_day(day) for day in days)
        and all(evidence.holds_weekday(day) for day in dates.weekdays(plain))
        and all(evidence.holds_clock(minutes) for _, minutes in numerals.clocks(plain))
    )


def _unless_held(match: re.Match[str], evidence: Evidence) -> str:
    """Blank a phone number and the like that stands there with other separators."""
    held = evidence.holds_digits(_SEPARATOR.sub("", match.group()))
    return " " if held else match.group()


def _holds_identifier(identifier: str, evidence: Evidence) -> bool:
    return fold(identifier).rstrip(".,") in evidence.folded


def _holds_entity(entity: str, evidence: Evidence) -> bool:
    """Hold an entity: a short or capitalised one whole, of a longer phrase half of its terms."""
    folded = fold(entity)
    if folded in evidence.folded:
        return True
    if CJK.search(entity) is None and entity != entity.lower():
        return evidence.holds_name(entity)
    parts = terms(entity)
    held = sum(part in evidence.folded for part in parts)
    return len(parts) > 1 and held * 2 >= len(parts)


def quotations(text: str) -> list[str]:
    """List the quoted phrases and titles of a text."""
    return [(a or b).strip() for a, b in _QUOTE.findall(text)]


def without_dates(plain: str) -> str:
    """Blank out dates and times, so that their digits are no numbers of their own."""
    places = [place for place, day in dates.written(plain) if day.month or day.year]
    places += [place for place, _ in numerals.clocks(plain)]
    chars = list(plain)
    for start, end in places:
        chars[start:end] = " " * (end - start)
    return "".join(chars)


def names(text: str) -> list[str]:
    """List the words that only a name explains: capitals inside a sentence, or inside a word."""
    marked = CJK.sub("~", text)
    found = [(m, _opens(marked, m.start())) for m in _TOKEN.finditer(marked)]
    kept: list[str] = []
    for i, (match, opens) in enumerate(found):
        word = match.group()
        run = any(after.group()[0].isupper() and not new for after, new in found[i + 1 : i + 2])
        if _is_name(word) and (not opens or run or not word[1:].islower()):
            kept.append(word)
    return kept


def _opens(text: str, place: int) -> bool:
    while place and text[place - 1] in " '‘*-":
        place -= 1
    return not place or text[place - 1] in _ENDS


def _is_name(word: str) -> bool:
    first = re.split(r"['’]", fold(word))[0]
    if not word[0].isupper() or first in _ORDINARY or numerals.number_word(first) is not None:
        return False
    return not dates.weekdays(first) and not any(day.month for _, day in dates.written(word))


def identifiers(text: str) -> frozenset[str]:
    """Collect what mixes letters and digits: models, order numbers, addresses."""
    return frozenset(fold(i) for i in _IDENTIFIER.findall(without_dates(dates.normal(text))))


def terms(text: str, leave_out: Collection[str] = ()) -> list[str]:
    """List the terms that carry the content of a sentence, each once."""
    skipped = _GENERIC | {word for name in leave_out for word in _LATIN_WORD.findall(fold(name))}
    kept: dict[str, None] = {}
    for part in _pieces(GENERIC_CJK.sub(" ", dates.normal(text)), skipped):
        kept.update(dict.fromkeys(words(part)))
    return list(kept)


def _pieces(text: str, skipped: Collection[str]) -> Iterator[str]:
    """Split at words that are left out: a possessive s goes with its word."""
    for piece in text.split():
        word = re.split(r"['’]", fold(piece).strip('.,!?;:()"“”'))[0]
        if word not in skipped:
            yield piece
