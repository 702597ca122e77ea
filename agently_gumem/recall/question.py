"""A question as recall reads it: whom and what time it names, and what is left to look for."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from agently_gumem.dates import MONTHS, WEEKDAYS, Span, days_in, normal
from agently_gumem.recall.past import asks_past, without_marks
from agently_gumem.text import CJK, STOP_WORDS, fold, words

_ASKS_WHEN = re.compile(
    r"^\W*(?:\w+\W+){0,3}?when\b|\bhow (?:long|recently|soon)\b"
    r"|\b(?:what|which) (?:date|day|month|year|time)(?: (?:did|was|were|is|are|do|does|will|would|"
    r"should|can|have|has|had|am)\b|\W*$)"
    r"|什么时候|什么时间|何时|哪[一]?[天年月日周]|几[月号点年]|多久|多长时间|哪个(?:月|星期)",
    re.IGNORECASE,
)
_ASKS_LATEST = re.compile(
    r"\b(?:latest|newest|recent(?:ly)?|last time|currently|nowadays|right now|these days)\b"
    r"|最近|最新|目前|现在|如今|上次|上一次|刚才|刚刚",
    re.IGNORECASE,
)
_TELLS_WHEN = re.compile(
    r"\b(?:(?i:yesterday|today|tonight|tomorrow|ago|recently|since|(?:mon|tues|wednes|thurs|fri|"
    r"satur|sun)days?|weekends?|weeks?|months?|years?|(?:last|next|this|past|every) (?:\w+ )?"
    r"(?:day|night|morning|evening|spring|summer|fall|autumn|winter)s?)"
    r"|January|February|March(?!\s+on\b)|April|May(?!\s+(?:I|we|you|he|she|they|my|it)\b)|June"
    r"|July|August|September|October|November|December"
    r"|(?:19|20)\d\d|\d{1,2}:\d\d)\b"
    r"|[昨今明前后]天|[昨今明]晚|[去今明前后]年|[上下这本]个?(?:周|月|星期|礼拜)"
    r"|周[一二三四五六日末]|星期[一二三四五六日天]"
    r"|[\d一二三四五六七八九十](?:年|月|日|号|点|天前|周前|个月)|最近|刚刚",
)
_ASKS = re.compile(r"[?？][\s\"'”’)）*~!！]{0,8}$")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_OPENING = ".?!:;。？！：；…\n"
_MARKS = " \t'\"‘“*-#>(（"


def _set(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_MONTHS = frozenset(MONTHS[1:])
_CALENDAR = _MONTHS | frozenset(WEEKDAYS)
_TITLES = _set("the a an my our mr mrs ms miss dr prof sir")
_OF_A_MONTH = _set("in by since until till of last next this on from before after")
# Names that are also words: at the opening of a question the word is meant.
_ALSO_WORDS = STOP_WORDS | _MONTHS | _set("mark grant bill art rose grace hope joy")

LONGEST = 8_000
"""Characters of a question that are read: as many as are embedded."""
_NEAR = 4_000  # characters in which date words are looked for


@dataclass(frozen=True)
class Question:
    """What recall looks for."""

    text: str
    bare: str
    """Without the names of those who speak: a name in every line says nothing of the content, and
    takes the meaning of a short question with it. Embed this."""
    speakers: frozenset[str] = frozenset()
    """The speakers that it names, as they are stored."""
    asks_when: bool = False
    """It asks for a time."""
    asks_latest: bool = False
    """It asks for what is newest."""
    asks_past: bool = False
    """It asks for what held before: what was superseded since is shown, with its dates."""
    days: frozenset[Span] = frozenset()
    """The days that it names."""


def read_question(
    text: str, speakers: Iterable[str], now: datetime, common: Callable[[str], bool] | None = None
) -> Question:
    """Read a question.

    Args:
        text: As it was asked; what is over LONGEST characters is not read.
        speakers: Everyone who speaks in the user's memory.
        now: The moment of the question: "last week" is counted from it.
        common: Whether so many records hold a term that a name in it says nothing.
    """
    text = text[:LONGEST]
    named: set[str] = set()
    bare = text
    for name, called in _calls(text, speakers).items():
        shorter = _without(bare, name)
        if shorter != bare:
            named |= called
            bare = shorter
    if common is not None:
        bare = _without_common(bare, common)
    plain = normal(text[:_NEAR])
    days = days_in(plain, now)
    past = asks_past(plain, days, now)
    if past:
        bare = without_marks(bare)
    if not words(bare):  # the name was the question
        bare = text
    return Question(
        text,
        bare,
        frozenset(named),
        asks_when=_ASKS_WHEN.search(plain) is not None,
        asks_latest=_ASKS_LATEST.search(plain) is not None,
        asks_past=past,
        days=days,
    )


def asks(text: str) -> bool:
    """Tell whether a turn ends as a question: what it says is then mostly in the answer."""
    return _ASKS.search(text[-16:]) is not None


def tells_when(text: str) -> bool:
    """Tell whether a text holds a time or a word for one, near its beginning."""
    return _TELLS_WHEN.search(text[:_NEAR]) is not None


def names_in(text: str) -> list[str]:
    """List the words of a text that are written as names are.

    A word that opens a sentence, a line or an item of a list is none, nor is an acronym; where
    most words have capitals, they say nothing.
    """
    found = [(m.group(), _opens(text, m.start())) for m in _WORD.finditer(text)]
    inside = [word for word, opens in found if not opens and word[0].isalpha()]
    names = [w for w in inside if w[0].isupper() and w[1:2].islower()]
    if 2 * len(names) > len(inside) and len(inside) > 2:
        return []
    return [name for name in names if fold(name) not in _CALENDAR]


def _opens(text: str, place: int) -> bool:
    """Tell whether what stands at a place opens a sentence, a line or an item."""
    while place > 0 and text[place - 1] in _MARKS:
        place -= 1
    return place == 0 or text[place - 1] in _OPENING


def _calls(text: str, speakers: Iterable[str]) -> Mapping[str, set[str]]:
    """List the names in a question that a speaker may be called by, the longest first."""
    present = {fold(_owner(word)) for word in _WORD.findall(text)}
    calls: dict[str, set[str]] = {}
    for speaker in speakers:
        whole = speaker.strip()
        first = whole.split(maxsplit=1)[:1]
        for name in {whole, *(f for f in first if fold(f).rstrip(".") not in _TITLES)}:
            here = name in text if CJK.search(name) else fold(_head(name)) in present
            if len(name) > 1 and here:
                calls.setdefault(name, set()).add(speaker)
    return dict(sorted(calls.items(), key=lambda call: (-len(call[0]), call[0])))


def _head(name: str) -> str:
    """Return the first word of a name, as the words of a question are found."""
    found = _WORD.search(name)
    return found.group() if found else name


def _owner(word: str) -> str:
    return re.sub(r"['’]s$", "", word)


def _cut(what: re.Pattern[str], instead: str | Callable[[re.Match[str]], str], text: str) -> str:
    """Take out what a pattern finds, and the gaps that it leaves; else the text as it is."""
    shorter = what.sub(instead, text)
    return " ".join(shorter.split()) if shorter != text else text


def _without_common(text: str, common: Callable[[str], bool]) -> str:
    """Take out the names, past the first word, that are all over the memory."""

    def gone(match: re.Match[str]) -> str:
        word = match.group()
        terms = words(word)
        told = match.start() and word[0].isupper() and terms and all(common(t) for t in terms)
        return "" if told else word

    return _cut(_WORD, gone, text)


def _without(text: str, name: str) -> str:
    """Take a name out; "will" is no name where the speaker is called Will."""
    if CJK.search(name):
        return text.replace(name, "")
    if not _WORD.fullmatch(name):
        whole = rf"(?<!\w){re.escape(name)}(?!\w)(?:['’]s)?"
        return _cut(re.compile(whole, re.IGNORECASE), "", text)
    wanted = fold(name)

    def gone(match: re.Match[str]) -> str:
        word = match.group()
        owner = _owner(word)
        capital = owner[0].isupper() or not name[0].isupper()
        named = fold(owner) == wanted and capital and not _is_the_word(match, owner)
        return "" if named else word

    return _cut(_WORD, gone, text)


def _is_the_word(match: re.Match[str], owner: str) -> bool:
    """Tell whether the word is meant, not the name: it opens a sentence, or is a month."""
    folded = fold(owner)
    if folded not in _ALSO_WORDS or match.group() != owner:
        return False
    before = match.string[: match.start()].split()[-1:]
    in_month = folded in _MONTHS and before and fold(before[0]) in _OF_A_MONTH
    return bool(in_month) or _opens(match.string, match.start())
