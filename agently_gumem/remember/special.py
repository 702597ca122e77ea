"""What is said of a person's health, sex, faith, politics or origin: by words of both languages.

A word alone says little: 头疼 is said of a bug, and Cancer is a sign of the zodiac. It counts where
somebody has, takes or is it: a person before it, a verb between them, and nothing that makes it
the subject of a book, a film or a task. Only the clause that says it is found, not what stands
beside it. All checks look at a bounded stretch before and after a word.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from agently_gumem.remember._lexicon import Lexicon, Strength, Term
from agently_gumem.remember._person import (
    APPLIED,
    CHOOSES,
    CHOSEN,
    CLAIM,
    FRAME,
    GENERAL,
    HAS,
    HAS_BEHIND,
    IS,
    MEDICAL,
    PERSON,
    PET,
    PET_HAS,
    QUOTED,
    SELF,
    TASK,
    THING,
    THINGS,
)

_END = re.compile(r"[。！？；\n]+|(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bSt)(?<!\bMrs)[.!?;]+(?=\s|$)")
_BREAK = re.compile(
    r"[，：\"“”{}()（）\[\]—–|]|[,:](?=\s|$)|\s-\s"
    r"|\s(?:and|but|so|because|since|although|while)\s"
    r"(?=(?:I|I['’]\w+|we|he|she|they|my|our|his|her|their|you|your|it)\b)",
    re.IGNORECASE,
)
_BEFORE = 64
# Words looked at in one sentence: nobody says more, and a crafted text shall cost little.
_MOST_TRIED = 64


class Statement(NamedTuple):
    """A clause that says something special, and what it is about."""

    start: int
    end: int
    category: str


def statements(text: str, lexicon: Lexicon) -> Iterator[Statement]:
    """Yield the clauses that say something special, each once for each category."""
    terms = list(lexicon.terms(text))
    if not terms:
        return
    ends = [m.start() for m in _END.finditer(text)]
    groups: dict[int, list[Term]] = {}
    for term in terms:
        groups.setdefault(bisect_right(ends, term.start), []).append(term)
    for place, group in groups.items():
        start = ends[place - 1] if place else 0
        end = ends[place] if place < len(ends) else len(text)
        yield from _sentence(text, start, end, group)


def _sentence(text: str, start: int, end: int, terms: list[Term]) -> Iterator[Statement]:
    """Look at one sentence: what follows a statement in it, as in a list, counts as well."""
    sentence = text[start:end]
    person = PERSON.search(sentence) is not None
    task = TASK.match(sentence) is not None
    breaks = [m.span() for m in _BREAK.finditer(sentence)]
    edges = [0, *(end for _, end in breaks)], [*(start for start, _ in breaks), len(sentence)]
    clauses: dict[tuple[int, int], set[str]] = {}
    said: set[str] = set()
    tried = 0
    for term in terms:
        place = _Place(sentence, term.start - start, term.end - start, term.category, person, task)
        clause = _clause(sentence, *edges, (place.start, place.end))
        if term.category in clauses.get(clause, ()):
            continue
        tried += 1
        follows = term.category in said and term.strength in ("noun", "identity", "choice")
        follows = follows and not THING.match(sentence, place.end)
        if follows or (tried <= _MOST_TRIED and _is_said(place, term.strength)):
            said.add(term.category)
            clauses.setdefault(clause, set()).add(term.category)
    for (first, last), categories in clauses.items():
        yield from (Statement(start + first, start + last, c) for c in sorted(categories))


class _Place(NamedTuple):
    """A word in its sentence."""

    sentence: str
    start: int
    end: int
    category: str
    person: bool
    """Whether somebody is spoken of in the sentence."""
    task: bool
    """Whether the sentence asks for a text, a translation, a definition."""

    @property
    def before(self) -> str:
        """What stands before the word, as far as a verb may be from it."""
        return self.sentence[max(0, self.start - _BEFORE) : self.start]

    @property
    def spoken_of(self) -> bool:
        return self.person or APPLIED.search(self.before) is not None


def _is_said(place: _Place, strength: Strength) -> bool:
    """Decide whether a word is said of a person."""
    if strength == "given":
        return True
    framed = place.task or FRAME.search(place.sentence[max(0, place.start - 300) : place.start])
    if framed and (QUOTED.match(place.sentence) or not CLAIM.search(place.before)):
        return False
    if THING.match(place.sentence, place.end) or _of_a_pet(place):
        return False
    return _RULES[strength](place)


def _of_a_pet(place: _Place) -> bool:
    if PET_HAS.search(place.before):
        return True
    return PET.search(place.before) is not None and not CLAIM.search(place.before)


def _alone(place: _Place) -> bool:
    if place.spoken_of or place.category == "allergy":
        return True
    return SELF.match(place.sentence, place.end) is not None


def _identity(place: _Place) -> bool:
    subject = IS.search(place.before)
    return subject is not None and not (place.category == "origin" and subject.group("they"))


def _noun(place: _Place) -> bool:
    if not place.spoken_of:
        return False
    return bool(HAS.search(place.before) or HAS_BEHIND.match(place.sentence, place.end))


def _weak(place: _Place) -> bool:
    if GENERAL.search(place.before) and not CLAIM.search(place.before):
        return False
    around = place.sentence[max(0, place.start - 200) : place.end + 200]
    return MEDICAL.search(around) is not None and not THINGS.search(around)


def _choice(place: _Place) -> bool:
    if not place.spoken_of:
        return False
    return bool(CHOOSES.search(place.before) or CHOSEN.match(place.sentence, place.end))


_RULES: Mapping[Strength, Callable[[_Place], bool]] = {
    "alone": _alone,
    "identity": _identity,
    "noun": _noun,
    "weak": _weak,
    "choice": _choice,
}


def _clause(
    sentence: str, starts: list[int], ends: list[int], place: tuple[int, int]
) -> tuple[int, int]:
    """Return the clause around a word, without the space and the marks at its ends."""
    first = starts[bisect_right(starts, place[0]) - 1]
    last = ends[min(bisect_left(ends, place[1]), len(ends) - 1)]
    while first < place[0] and not sentence[first].isalnum():
        first += 1
    while last > place[1] and sentence[last - 1].isspace():
        last -= 1
    return first, last
