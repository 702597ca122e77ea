"""Words of special content, from the files beside: one pattern for all of them, made once."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias, cast

Strength: TypeAlias = Literal["alone", "noun", "identity", "choice", "weak", "given", "harmless"]
CATEGORIES = ("health", "sex", "faith", "politics", "origin", "allergy")
Words: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""Category -> further words, as it can be a key of a cache."""


class Term(NamedTuple):
    """A word of the lists in a text."""

    start: int
    end: int
    category: str
    strength: Strength


class Lexicon:
    """All words as one pattern, and what each of them is."""

    def __init__(self, given: Words, harmless: Iterable[str]) -> None:
        self._known: dict[str, list[tuple[str, Strength]]] = {}
        for category in CATEGORIES:
            for strength, words in _read(category).items():
                self._add(category, strength, words)
        for category, words in given:
            self._add(category, "given", words)
        self._add("", "harmless", harmless)
        self._stems = {
            word: re.compile(re.escape(word).replace(r"\*", "[a-z]*"))
            for word in self._known
            if "*" in word
        }
        self._pattern = re.compile(any_of(self._known))

    def _add(self, category: str, strength: Strength, words: Iterable[str]) -> None:
        for word in words:
            self._known.setdefault(_plain(word.strip()), []).append((category, strength))

    def terms(self, text: str) -> Iterator[Term]:
        """Yield the words of the lists that stand in a text, but for harmless phrases."""
        for match in self._pattern.finditer(_lower(text)):
            kinds = self._what(_plain(match.group()))
            if all(strength != "harmless" for _, strength in kinds):
                yield from (Term(match.start(), match.end(), *kind) for kind in kinds)

    def _what(self, word: str) -> list[tuple[str, Strength]]:
        """Say what a word is: as it stands, without the s of many, or by its beginning."""
        for form in (word, word.removesuffix("s"), word.removesuffix("es")):
            if form in self._known:
                return self._known[form]
        stem = max((s for s, form in self._stems.items() if form.fullmatch(word)), key=len)
        return self._known[stem]


def _plain(word: str) -> str:
    return re.sub(r"[\s-]", " ", _lower(word)).replace("’", "'")


def _lower(text: str) -> str:
    """Make it lower case, each character in its place."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


@lru_cache(maxsize=8)
def lexicon(given: Words = (), harmless: tuple[str, ...] = ()) -> Lexicon:
    """Return the words of the package with those of a policy."""
    return Lexicon(given, harmless)


def _read(category: str) -> Mapping[Strength, list[str]]:
    """Read a list: `[strength]` opens a section, words stand between commas, `#` is a remark."""
    text = (files("agently_gumem.remember") / "words" / f"{category}.txt").read_text(
        encoding="utf-8"
    )
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
    letters stands alone; one that ends in `*` takes any letters behind it. The look behind stands
    after the first letter, so that the search still knows with which letters a match begins.
    """
    parts: list[str] = []
    for char, node in sorted(_tree(words).items()):
        first, rest = re.escape(char), _branch(node)
        if char.isascii():
            rest = f"(?<![a-z0-9_-]{first}){rest}(?:e?s)?(?![a-z0-9_]|['’](?!s))"
        parts.append(first + rest)
    return "|".join(parts)


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
    return {" ": "[ -]", "*": "[a-z]*", "'": "['’]"}.get(char, re.escape(char))
