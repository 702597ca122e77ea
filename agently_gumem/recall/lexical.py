"""BM25 postings that grow and shrink a record at a time, scored on an absolute scale."""

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from agently_gumem.text import CJK, CJK_STOP, words

K1 = 1.2
B = 0.75
# Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), 3.4.

COMMON = 0.05  # share of the rows from which a term is common

_MOST_TERMS = 64  # of one query, the rarest: a whole document asked as a question stays bounded


@dataclass(frozen=True)
class Match:
    """What the words of one query find, one column a row of the index."""

    mass: NDArray[np.float32]
    """(terms,) IDF of each distinct term of the query, also of those that no record holds."""
    gain: NDArray[np.float32]
    """(terms, rows) BM25 part of each term, 0 where the record lacks it."""

    @property
    def score(self) -> NDArray[np.float32]:
        """BM25 divided by what the query could score at most: (rows,), 0-1, absolute."""
        most = float(self.mass.sum()) * (K1 + 1)
        together: NDArray[np.float32] = self.gain.sum(axis=0)
        return np.asarray(together / (most or 1.0), np.float32)

    @property
    def coverage(self) -> NDArray[np.float32]:
        """Share of the query's IDF mass that each row covers: (rows,), 0-1."""
        covered: NDArray[np.float32] = self.mass @ (self.gain > 0).astype(np.float32)
        return np.asarray(covered / (float(self.mass.sum()) or 1.0), np.float32)


def _joint(term: str) -> bool:
    return CJK.match(term) is not None and any(character in CJK_STOP for character in term)


@dataclass
class _Posting:
    rows: "array[int]"
    counts: "array[int]"


class Postings:
    """Which rows hold which terms, over all layers: one document frequency a user."""

    def __init__(self) -> None:
        self._terms: dict[str, _Posting] = {}
        self._lengths: dict[int, int] = {}
        self._total = 0
        self._entries = 0

    def __len__(self) -> int:
        return len(self._lengths)

    def __contains__(self, row: object) -> bool:
        return row in self._lengths

    def knows(self, term: str) -> bool:
        """Tell whether any row holds the term."""
        return term in self._terms

    def common(self, term: str) -> bool:
        """Tell whether a term is in so many rows that it tells none from another."""
        posting = self._terms.get(term)
        return posting is not None and len(posting.rows) >= max(10, COMMON * len(self))

    @property
    def nbytes(self) -> int:
        """Approximate bytes: 6 an entry, and a term's string, key and two arrays."""
        return self._entries * 6 + len(self._terms) * 360 + len(self._lengths) * 100

    def add(self, row: int, text: str) -> None:
        """Index the text of a row that is not indexed."""
        counts = Counter(words(text))
        for term, count in counts.items():
            posting = self._terms.get(term)
            if posting is None:
                posting = self._terms[term] = _Posting(array("I"), array("H"))
            posting.rows.append(row)
            posting.counts.append(min(count, 65_535))
        self._lengths[row] = counts.total()
        self._total += counts.total()
        self._entries += len(counts)

    def remove(self, row: int, text: str) -> None:
        """Take a row out; `text` is what it was indexed with."""
        counts = Counter(words(text))
        for term in counts:
            posting = self._terms[term]
            at = posting.rows.index(row)
            for column in (posting.rows, posting.counts):
                column[at] = column[-1]
                column.pop()
            if not posting.rows:
                del self._terms[term]
        self._total -= self._lengths.pop(row)
        self._entries -= len(counts)

    def idf(self, term: str) -> float:
        """Return ln(1 + (N - df + 0.5) / (df + 0.5)); a term that no row holds weighs most."""
        posting = self._terms.get(term)
        frequency = len(posting.rows) if posting else 0
        return float(np.log1p((len(self) - frequency + 0.5) / (frequency + 0.5)))

    def match(self, terms: Iterable[str], lengths: NDArray[np.int64]) -> Match:
        """Score the distinct terms of a query against all rows.

        Args:
            terms: The terms, as `text.words` gives them. A CJK pair with a function character
                that no record holds is left out: it mostly spans two words and tells nothing.
            lengths: (rows,) number of terms of each row, kept by the index.
        """
        told = (term for term in dict.fromkeys(terms) if term in self._terms or not _joint(term))
        distinct = self._rarest(list(islice(told, 16 * _MOST_TERMS)))
        gain = np.zeros((len(distinct), len(lengths)), np.float32)
        mass = np.array([self.idf(term) for term in distinct], np.float32)
        mean = self._total / max(1, len(self)) or 1.0
        for place, term in enumerate(distinct):
            posting = self._terms.get(term)
            if posting is None:
                continue
            rows = np.array(posting.rows, np.intp)
            counts = np.array(posting.counts, np.float32)
            norm = K1 * (1 - B + B * lengths[rows] / mean)
            gain[place, rows] = mass[place] * counts * (K1 + 1) / (counts + norm)
        return Match(mass, gain)

    def _rarest(self, terms: list[str]) -> list[str]:
        """Keep the terms that weigh most, in their order."""
        if len(terms) <= _MOST_TERMS:
            return terms
        heaviest = set(sorted(terms, key=self.idf, reverse=True)[:_MOST_TERMS])
        return [term for term in terms if term in heaviest]

    def length(self, row: int) -> int:
        """Return the number of terms of a row."""
        return self._lengths[row]
