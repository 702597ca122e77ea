"""A question as recall reads it: whom and what time it names, and what is left to look for."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from agently_gumem.dates import Span, days_in, normal
from agently_gumem.text import CJK, fold, words

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
    r"|January|February|March|April|May|June|July|August|September|October|November|December"
    r"|(?:19|20)\d\d|\d{1,2}:\d\d)\b"
    r"|[昨今明前后]天|[昨今明]晚|[去今明前后]年|[上下这本]个?(?:周|月|星期|礼拜)"
    r"|周[一二三四五六日末]|星期[一二三四五六日天]"
    r"|[\d一二三四五六七八九十]+(?:年|月|日|号|点|天前|周前|个月)|最近|刚刚",
)
_ASKS = re.compile(r"[?？][\s\"'”’)）*~!！]*$")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


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
    days: frozenset[Span] = frozenset()
    """The days that it names."""


def read_question(
    text: str, speakers: Iterable[str], now: datetime, common: Callable[[str], bool] | None = None
) -> Question:
    """Read a question.

    Args:
        text: As it was asked.
        speakers: Everyone who speaks in the user's memory.
        now: The moment of the question: "last week" is counted from it.
        common: Whether so many records hold a term that a name in it says nothing.
    """
    named: set[str] = set()
    bare = text
    for name, called in _calls(speakers).items():
        shorter = _without(bare, name)
        if shorter != bare:
            named |= called
            bare = shorter
    if common is not None:
        bare = _without_common(bare, common)
    if not words(bare):  # the name was the question
        bare = text
    plain = normal(text)
    return Question(
        text,
        bare,
        frozenset(named),
        asks_when=_ASKS_WHEN.search(plain) is not None,
        asks_latest=_ASKS_LATEST.search(plain) is not None,
        days=days_in(plain, now),
    )


def asks(text: str) -> bool:
    """Tell whether a turn ends as a question: what it says is then mostly in the answer."""
    return _ASKS.search(text) is not None


def tells_when(text: str) -> bool:
    """Tell whether a text holds a time or a word for one."""
    return _TELLS_WHEN.search(text) is not None


def _calls(speakers: Iterable[str]) -> Mapping[str, set[str]]:
    """List the names that a question may call a speaker by, the longest first: whole, or first."""
    calls: dict[str, set[str]] = {}
    for speaker in speakers:
        parts = speaker.split()
        for name in {speaker.strip(), *parts[:1]}:
            if len(name) > 1:
                calls.setdefault(name, set()).add(speaker)
    return dict(sorted(calls.items(), key=lambda call: -len(call[0])))


def _without_common(text: str, common: Callable[[str], bool]) -> str:
    """Take out the names, past the first word, that are all over the memory."""

    def gone(match: re.Match[str]) -> str:
        word = match.group()
        terms = words(word)
        told = match.start() and word[0].isupper() and terms and all(common(t) for t in terms)
        return "" if told else word

    shorter = _WORD.sub(gone, text)
    return " ".join(shorter.split()) if shorter != text else text


def _without(text: str, name: str) -> str:
    """Take a name out; "will" is no name where the speaker is called Will."""
    if CJK.search(name):
        return text.replace(name, "")
    wanted = fold(name)

    def gone(match: re.Match[str]) -> str:
        word = match.group()
        owner = re.sub(r"['’]s$", "", word)
        named = fold(owner) == wanted and (owner[0].isupper() or not name[0].isupper())
        return "" if named else word

    if " " in name:
        shorter = re.sub(rf"\b{re.escape(name)}\b(?:['’]s)?", "", text, flags=re.IGNORECASE)
    else:
        shorter = _WORD.sub(gone, text)
    return " ".join(shorter.split()) if shorter != text else text
