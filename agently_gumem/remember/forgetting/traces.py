"""What gives a forgotten statement away in another text (pure).

A text says it again where it holds what only the statement pins down (a name, a long number, a
quoted phrase, three Chinese characters in a row), or most of its content words.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import pairwise

from agently_gumem import dates, numerals
from agently_gumem.records.placeholders import EMPTIED
from agently_gumem.remember import specifics as sp
from agently_gumem.text import CJK, CJK_STOP, STOP_WORDS, fold, words

# Of the content words of a statement: so many in one sentence say it again.
MOST = 0.6
# From here on a number is told by itself: an amount, a year, a number of a house or an order. A
# smaller one says the same only beside another word of the statement.
_LONG_NUMBER = 100
_ABBREVIATED = re.compile(
    r"\b(Dr|Mr|Mrs|Ms|Prof|St|Sr|Jr|No|Nr|vs|approx|ca|e\.g|i\.e|[A-Z])\.(?=\s)", re.IGNORECASE
)
_END = re.compile(r"(?:[!?。！？…]+|\.+(?=\s|[\"”’」』)）]|$)|\n)[\"”’」』)）]*\s*")
_CLAUSE = re.compile(
    r"(?<=[,;:，；、：])\s*|\s(?=(?:and|but|while|although|because|so)\s)|(?=但是|而且|不过|并且|因为|所以)",
    re.IGNORECASE,
)
_ASKS = re.compile(r"[?？][\"”’」』)）]*$|[吗呢]$")
_WORD = re.compile(r"[^\W_]+")
_CJK_RUN = re.compile(f"(?:{CJK.pattern})+")


@dataclass(frozen=True)
class Statement:
    """A text that was forgotten, and the names that it is known to hold."""

    text: str
    names: Sequence[str] = ()
    least: int = 1
    """So many content words it must have for them to count; fewer stand together by chance."""


@dataclass(frozen=True)
class Held:
    """What stays: a sign that stands here gives nothing away."""

    texts: tuple[str, ...] = ()

    @cached_property
    def folded(self) -> str:
        """All of it in the form in which equal texts are equal."""
        return fold("\n".join(self.texts))

    @cached_property
    def terms(self) -> frozenset[str]:
        """Its terms."""
        return frozenset(words(self.folded))

    @cached_property
    def words(self) -> frozenset[str]:
        """Its words as they are written."""
        return frozenset(_WORD.findall(self.folded))

    @cached_property
    def numbers(self) -> frozenset[Decimal]:
        """Its numbers."""
        return numerals.stated(self.folded)


class Traces:
    """The signs of some statements, less those that stand in what stays.

    Args:
        statements: What was forgotten.
        held: What stays.
        near: They are looked for where they come from: there a small number alone tells them.
    """

    def __init__(self, statements: Iterable[Statement], held: Held, *, near: bool = False) -> None:
        self._held = held
        self._near = near
        self._words: set[str] = set()
        self._phrases: set[str] = set()
        self._grams: set[str] = set()
        self._numbers: set[Decimal] = set()
        self._weak: dict[Decimal, set[str]] = {}
        self._terms: dict[str, list[int]] = {}
        self._sizes: list[int] = []
        self._any = False
        for statement in statements:
            self._any = True
            self._add(statement)

    def says(self, text: str) -> bool:
        """Tell whether a text says one of the statements again."""
        if not self._any:
            return False
        folded = fold(text)
        if self._phrases and any(phrase in folded for phrase in self._phrases):
            return True
        if self._tells_name(text) or not self._grams.isdisjoint(_grams(folded)):
            return True
        terms = frozenset(sp.terms(text)) | frozenset(words(folded))
        return self._tells_number(folded, terms) or self._tells_most(terms)

    def _tells_name(self, text: str) -> bool:
        """Look for a name as names are written; where it comes from, however it is written."""
        found = _WORD.findall(text)
        named = found if self._near else [w for w in found if w[0].isupper()]
        return not self._words.isdisjoint(map(fold, named))

    def touches(self, text: str) -> bool:
        """Tell whether a text shares any content word with one of the statements."""
        folded = fold(text)
        terms = {*sp.terms(text), *words(folded)}
        return any(t in terms or (CJK.search(t) and t in folded) for t in self._terms)

    def _tells_number(self, folded: str, terms: frozenset[str]) -> bool:
        if not (self._numbers or self._weak):
            return False
        numbers = numerals.stated(folded)
        if not self._numbers.isdisjoint(numbers):
            return True
        return any(not self._weak[n].isdisjoint(terms) for n in numbers if n in self._weak)

    def _tells_most(self, terms: frozenset[str]) -> bool:
        hits = Counter(place for term in terms for place in self._terms.get(term, ()))
        own = {place for term in terms - self._held.terms for place in self._terms.get(term, ())}
        return any(count >= self._sizes[p] for p, count in hits.items() if p in own)

    def _add(self, statement: Statement) -> None:
        text = _ABBREVIATED.sub(lambda m: m.group()[:-1], dates.normal(statement.text))
        known = [*sp.names(text), *statement.names]
        for name in known:
            self._add_name(fold(name))
        for phrase in (*sp.identifiers(text), *map(fold, sp.quotations(text))):
            if len(phrase) > 2 and phrase not in self._held.folded:
                self._phrases.add(phrase)
        terms = sp.terms(text)
        self._grams |= {g for g in _grams(fold(text)) if g not in self._held.folded}
        self._add_numbers(text, terms)
        if len(terms) >= statement.least:
            for term in terms:
                self._terms.setdefault(term, []).append(len(self._sizes))
            self._sizes.append(math.ceil(MOST * len(terms)))

    def _add_numbers(self, text: str, terms: Iterable[str]) -> None:
        company = {t for t in terms if not any(ch.isdigit() for ch in t)}
        for number in numerals.stated(fold(text)) - self._held.numbers:
            if number >= _LONG_NUMBER or (self._near and number > 1):
                self._numbers.add(number)
            elif number > 1:  # "a" and "first" stand for it everywhere
                self._weak.setdefault(number, set()).update(company)

    def _add_name(self, name: str) -> None:
        """Take a name by its words; one in Chinese, or of several words, as it stands."""
        if CJK.search(name):
            if len(name) > 1 and name not in self._held.folded:
                self._phrases.add(name)
            return
        parts = [p for p in _WORD.findall(name) if len(p) > 2 and p not in STOP_WORDS]
        self._words |= {p for p in parts if p not in self._held.words and not p.isdigit()}


def _grams(folded: str) -> set[str]:
    """Collect three Chinese characters in a row that carry meaning."""
    found: set[str] = set()
    if folded.isascii():
        return found
    for run in _CJK_RUN.findall(sp.GENERIC_CJK.sub(" ", folded)):
        grams = (run[i : i + 3] for i in range(len(run) - 2))
        found |= {g for g in grams if not any(ch in CJK_STOP for ch in g)}
    return found


def sentences(text: str) -> list[str]:
    """Split a text into its sentences; joined, they are the text."""
    # The dot of "Dr." ends nothing; one of the same length stands for it while places are found.
    masked = _ABBREVIATED.sub(lambda m: f"{m.group()[:-1]}_", text)
    places = [0, *(m.end() for m in _END.finditer(masked)), len(text)]
    return [text[a:b] for a, b in pairwise(places) if a < b]


def clauses(sentence: str) -> list[str]:
    """Split a sentence at its commas and conjunctions; joined, they are the sentence."""
    places = [0, *(m.end() for m in _CLAUSE.finditer(sentence)), len(sentence)]
    return [sentence[a:b] for a, b in pairwise(places) if a < b]


def without(text: str, gone: Traces, stays: Traces) -> str | None:
    """Cut out of a text the sentences that say what was forgotten.

    Args:
        text: The text.
        gone: What was forgotten.
        stays: What has to stay; a sentence that touches it loses only its clauses with the
            former, where they can be told apart.

    Returns:
        The text without them; None where none of them says it.
    """
    parts: list[tuple[str, bool]] = []
    for sentence in sentences(text):
        if not gone.says(sentence):
            parts.append((sentence, True))
        elif stays.touches(sentence):
            parts += _clause_by_clause(sentence, gone)
        else:
            parts.append((sentence, False))
    if all(kept for _, kept in parts):
        return None
    return _joined(parts)


def _clause_by_clause(sentence: str, gone: Traces) -> list[tuple[str, bool]]:
    parts = [(clause, not gone.says(clause)) for clause in clauses(sentence)]
    rest = "".join(clause for clause, kept in parts if kept)
    apart = bool(rest) and not all(kept for _, kept in parts) and not gone.says(rest)
    return parts if apart else [(sentence, False)]


def _joined(parts: Sequence[tuple[str, bool]]) -> str:
    """Put the parts that stay together, one mark for each run that went."""
    told: list[str] = []
    for i, (part, kept) in enumerate(parts):
        if kept:
            told.append(part)
        elif i == 0 or parts[i - 1][1]:
            space = part[len(part.rstrip()) :]
            told.append(f"{EMPTIED}{space}")
        elif told and (space := part[len(part.rstrip()) :]) and not told[-1].endswith(space):
            told[-1] += space
    return "".join(told).strip()


def says_nothing(text: str) -> bool:
    """Tell whether nothing but marks of what was cut is left of a text."""
    return not text.replace(EMPTIED, "").strip(" \n.,;:!?。，；：！？、")


def of(text: str, least: int) -> list[Statement]:
    """Make statements of a text, one a sentence; a question states nothing."""
    parts = (part.strip() for part in sentences(text))
    return [Statement(part, (), least) for part in parts if part and not _ASKS.search(part)]
