"""Words of special content, from the files beside: one pattern for all of them, made once."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias, cast

Strength: TypeAlias = Literal["alone", "noun", "identity", "weak", "given", "harmless"]
CATEGORIES = ("health", "sex", "faith", "politics", "origin", "allergy")
# What is tried first takes the characters: what is harmless, then what the user gave.
_STRENGTHS: tuple[Strength, ...] = ("harmless", "given", "alone", "identity", "noun", "weak")
Words: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""Category -> further words, as it can be a key of a cache."""


class Term(NamedTuple):
    """A word of the lists in a text."""

    start: int
    end: int
    category: str
    strength: Strength


class Lexicon:
    """All words as one pattern."""

    def __init__(self, given: Words, harmless: Iterable[str]) -> None:
        lists: dict[tuple[Strength, str], list[str]] = {("harmless", ""): list(harmless)}
        lists |= {("given", category): list(words) for category, words in given}
        for category in CATEGORIES:
            for strength, words in _read(category).items():
                of = "" if strength == "harmless" else category
                lists.setdefault((strength, of), []).extend(words)
        self._keys = sorted((k for k in lists if lists[k]), key=lambda k: _STRENGTHS.index(k[0]))
        self._pattern = re.compile(
            "|".join(f"({any_of(lists[key])})" for key in self._keys), re.IGNORECASE
        )

    def terms(self, text: str) -> Iterator[Term]:
        """Yield the words of the lists that stand in a text, but for harmless phrases."""
        for match in self._pattern.finditer(text):
            strength, category = self._keys[(match.lastindex or 1) - 1]
            if strength != "harmless":
                yield Term(match.start(), match.end(), category, strength)


@lru_cache(maxsize=8)
def lexicon(given: Words = (), harmless: tuple[str, ...] = ()) -> Lexicon:
    """Return the words of the package with those of a policy."""
    return Lexicon(given, harmless)


def _read(category: str) -> Mapping[Strength, list[str]]:
    """Read a list: `[strength]` opens a section, words stand between commas, `#` is a remark."""
    text = (files(__package__) / "words" / f"{category}.txt").read_text(encoding="utf-8")
    lists: dict[Strength, list[str]] = {}
    section: list[str] = []
    for line in text.splitlines():
        if line.startswith("["):
            section = lists.setdefault(cast("Strength", line.strip("[]")), [])
        elif not line.startswith("#"):
            section += [word for part in line.split(",") if (word := part.strip())]
    return lists


def any_of(words: Iterable[str]) -> str:
    """Return a pattern of any of the words, the longest that fits, in time linear in the text.

    A tree by letters: at each character of a text at most one branch is followed. A word in Latin
    letters stands alone; one that ends in `*` takes any letters behind it.
    """
    return "|".join(f"(?:{pattern})" for pattern in _patterns(words))


def _patterns(words: Iterable[str]) -> Iterator[str]:
    plain = {re.sub(r"[\s-]+", " ", word.strip().lower()) for word in words}
    latin = {word for word in plain if word[0].isascii()}
    if latin:
        yield rf"(?<![A-Za-z0-9_-]){_branch(_tree(latin))}(?![A-Za-z0-9_]|'[A-Za-rt-z])"
    if plain - latin:
        yield _branch(_tree(plain - latin))


def _tree(words: Iterable[str]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for word in words:
        node = root
        for char in word:
            node = node.setdefault(char, {})
        node[""] = {}
    return root


def _branch(node: dict[str, Any]) -> str:
    ends = "" in node
    parts = [_step(char) + _branch(child) for char, child in sorted(node.items()) if char]
    if not parts:
        return ""
    joined = parts[0] if len(parts) == 1 and not ends else f"(?:{'|'.join(parts)})"
    return f"{joined}?" if ends else joined


def _step(char: str) -> str:
    """A space in a word is also a hyphen or none seen; an apostrophe is either form of it."""
    return {" ": "[ -]", "*": "[A-Za-z]*", "'": "['’]"}.get(char, re.escape(char))
