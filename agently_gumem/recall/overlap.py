"""Whether one text stands for another: by its specifics and its words, never by a vector."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from agently_gumem.text import fold, holds_text, words

WORDS_HELD = 0.6  # content words that a text must share with what it stands for
WORDS_EQUAL = 0.8  # Jaccard of content words from which two texts are one said twice
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
NAME = re.compile(r"(?<!^)(?<![.?!:]\s)\b[A-Z][\w'’-]+")
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|without|cannot|\w+n['’]t)\b|[不没無无未别別勿非]", re.IGNORECASE
)


@dataclass(frozen=True)
class _Profile:
    words: frozenset[str]
    specifics: frozenset[str]
    negated: bool


@holds_text
@lru_cache(maxsize=4_096)
def _profile(text: str) -> _Profile:
    names = {term for name in NAME.findall(text) for term in words(name)}
    numbers = set(_NUMBER.findall(fold(text)))
    return _Profile(
        frozenset(words(text)), frozenset(names | numbers), bool(_NEGATION.search(text))
    )


def stands_for(text: str, other: str, entities: Iterable[str] = ()) -> bool:
    """Tell whether a text holds what another says, so that the other need not be shown.

    It must hold every number and name of the other (and `entities`), a negation where there is
    one, and WORDS_HELD of its content words.
    """
    own, wanted = _profile(text), _profile(other)
    if wanted.negated and not own.negated:
        return False
    folded = fold(text)
    named = all(fold(entity) in folded for entity in entities if fold(entity) in fold(other))
    held = own.words | own.specifics
    if not named or not wanted.specifics <= held or not wanted.words:
        return False
    return len(wanted.words & own.words) >= WORDS_HELD * len(wanted.words)


class Told:
    """Texts that were told already, by their specifics and negation."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._words: dict[tuple[frozenset[str], bool], list[frozenset[str]]] = {}
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Note a text."""
        own = _profile(text)
        self._words.setdefault((own.specifics, own.negated), []).append(own.words)

    def says(self, text: str) -> bool:
        """Tell whether one of them is this text said before: same specifics, negation, words."""
        own = _profile(text)
        return any(_equal(own.words, w) for w in self._words.get((own.specifics, own.negated), ()))


def _equal(words: frozenset[str], others: frozenset[str]) -> bool:
    shared = len(words & others)
    return shared > 0 and shared >= WORDS_EQUAL * len(words | others)
