"""What speaks for each record of an index, given one question: plain numbers, no decision."""

import re
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from agently_gumem.recall.index import TURN, UserIndex
from agently_gumem.recall.lexical import Match
from agently_gumem.text import fold, is_chinese, words

Scores = NDArray[np.float32]

# Weights beside the raw cosine (1.0), tuned on five dialogues of snap-research/locomo with its
# facts (512-dimension universal sentence encoder; recall of gold turns at 10 and 20). The
# maximum is flat (half or double of any of them moves recall by under 0.02), hence round numbers.
LEXICAL = 2.0
WINDOW_WORDS = 0.6
WINDOW_DENSE = 0.5
SESSION = 0.8
FROM_FACTS = 0.5
FROM_TURNS = 0.3
# Soft priors without a data set of their own: about the spread of the cosine among relevant texts.
TOPIC = 0.1
FROM_SUMMARIES = 0.2
# A tie-break: of equal turns, the one of the session that asks.
SAME_SESSION = 0.02
# Coverage in the evidence: with half a cosine's weight the floor keeps the most gold (same data).
COVERAGE = 0.4
# Share of a turn's evidence that the next turn of its session has as well: an answer ("42, wide
# fit") says little without its question. Below 1, so it never lifts a question over the floor.
ANSWER = 0.6
# What a name that the store never saw takes from the evidence: 94 % of the questions asked of
# another dialogue of the same data have one, 10 % of its own.
UNSEEN_NAME = 0.3
_SESSION_BEST = 3

_NAME = re.compile(r"(?<!^)(?<![.?!:]\s)(?<![^\W_])[A-Z][\w'’-]+")
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_MONTHS = "january february march april may june july august september october november december"
_NO_NAMES = frozenset(f"{_DAYS} {_MONTHS}".split())


@dataclass(frozen=True)
class Signals:
    """One value a row of the index, by signal; `total` ranks, `evidence` is held to the floor."""

    dense: Scores
    """Cosine, -1 to 1."""
    lexical: Scores
    """Weighted BM25 share, 0 to LEXICAL."""
    evidence: Scores
    """What is held to the floor: absolute; of the text itself, or, for a turn, of its Fact or of
    the turn that it answers."""
    window: Scores
    """For a turn: what it and its neighbours say together."""
    links: Scores
    """For a turn: its best Fact. For a Fact: its best turn and Summary."""
    prior: Scores
    """Session and Topic: soft, never a gate."""

    @cached_property
    def total(self) -> Scores:
        """Sum of the signals."""
        return self.dense + self.lexical + self.window + self.links + self.prior

    def parts(self, row: int) -> dict[str, float]:
        """Return the value of each signal for one row."""
        return {name: round(float(getattr(self, name)[row]), 4) for name in _NAMES}


_NAMES = tuple(field.name for field in fields(Signals))


def gather(
    index: UserIndex, query: str, vector: Scores, *, session_id: str | None, topics: int
) -> Signals:
    """Compute every signal of one question against every row.

    Args:
        index: The user's records.
        query: The question.
        vector: Its vector, (dimension,), L2-normalised.
        session_id: The session that asks.
        topics: How many Topics raise what belongs to them.
    """
    dense = index.cosine(vector[None, :])[0]
    match = index.match(query)
    coverage = match.coverage
    # The weight of words follows how much of the question's rare words a text covers: one common
    # word of many is chance.
    lexical = LEXICAL * match.score * coverage
    evidence = dense + COVERAGE * coverage - _strangers(index, query)
    base = dense + lexical
    window, links, prior = (np.zeros_like(dense) for _ in range(3))
    turns = index.rows(TURN)
    sessions = index.column("session")[turns]
    window[turns] = _window(dense[turns], Match(match.mass, match.gain[:, turns]), sessions)
    prior[turns] = _session_prior(base[turns], sessions)
    if session_id is not None:
        prior[turns] += SAME_SESSION * (sessions == index.code(session_id))
    question, _ = _shifted(evidence[turns], sessions)
    evidence[turns] = np.maximum(evidence[turns], ANSWER * question)
    _link(index, base, base + window, links, evidence)
    _raise_topics(index, base, prior, topics)
    return Signals(dense, lexical, evidence, window, links, prior)


def _strangers(index: UserIndex, query: str) -> Scores:
    """Count a name in the question that no record holds against the texts of its language.

    A text in the other language may hold the name in another script, and is left alone.
    """
    rows = index.column("chinese")
    unseen = [
        name
        for name in _NAME.findall(query)
        if fold(name) not in _NO_NAMES
        and (terms := words(name))
        and not any(index.knows(term) for term in terms)
    ]
    same_language = rows == int(is_chinese(query))
    return np.float32(UNSEEN_NAME if unseen else 0.0) * same_language.astype(np.float32)


def _shifted(values: Scores, sessions: NDArray[np.int64]) -> tuple[Scores, Scores]:
    """Give each turn the value of the turn before and after it in its session, else 0."""
    before, after = np.zeros_like(values), np.zeros_like(values)
    same = sessions[1:] == sessions[:-1]
    before[..., 1:] = values[..., :-1] * same
    after[..., :-1] = values[..., 1:] * same
    return before, after


def _window(dense: Scores, match: Match, sessions: NDArray[np.int64]) -> Scores:
    """Score a turn with its two neighbours: words of the three together, and their best cosine."""
    if not dense.size:
        return dense
    before, after = _shifted(match.gain, sessions)
    together = Match(match.mass, np.maximum(match.gain, np.maximum(before, after)))
    neighbours = np.maximum(*_shifted(np.maximum(dense, 0), sessions))
    found = WINDOW_WORDS * LEXICAL * together.score * together.coverage
    return np.asarray(found + WINDOW_DENSE * neighbours, np.float32)


def _session_prior(base: Scores, sessions: NDArray[np.int64]) -> Scores:
    """Give each turn the mean of the three best turns of its session, weighted."""
    prior = np.zeros_like(base)
    if not base.size:
        return prior
    starts = np.flatnonzero(np.r_[True, sessions[1:] != sessions[:-1]])
    for start, end in zip(starts, [*starts[1:], len(base)], strict=True):
        own = base[start:end]
        best = np.sort(own)[-_SESSION_BEST:]
        prior[start:end] = SESSION * max(0.0, float(best.sum()) / _SESSION_BEST)
    return prior


def _link(index: UserIndex, base: Scores, turns: Scores, links: Scores, evidence: Scores) -> None:
    """Let Facts and their turns, Summaries and their Facts speak for each other.

    An active Fact raises the turns that it cites and is raised by the best of them; a Summary
    raises its Facts. A turn is as evident as its best Fact.
    """
    for summary in index.summaries.values():
        own = FROM_SUMMARIES * float(base[index.row_of(summary.id)])
        for fact_id in summary.source_facts:
            if (row := index.row(fact_id)) is not None:
                links[row] = max(float(links[row]), own)
    facts, cited = index.citations()
    if not len(facts):
        return
    from_facts, best = np.zeros_like(base), np.full_like(base, -1.0)
    np.maximum.at(from_facts, cited, base[facts])
    np.maximum.at(best, cited, evidence[facts])
    from_turns = np.zeros_like(base)
    np.maximum.at(from_turns, facts, turns[cited])
    links += FROM_FACTS * from_facts + FROM_TURNS * from_turns
    np.maximum(evidence, best, out=evidence)


def _raise_topics(index: UserIndex, base: Scores, prior: Scores, limit: int) -> None:
    """Raise the Facts and Summaries of the Topics nearest to the question, by their nearness."""
    topics = sorted(index.topics.values(), key=lambda topic: -base[index.row_of(topic.id)])
    belongs = index.column("topic")
    for topic in topics[:limit]:
        codes = [index.code(fold(name)) for name in (topic.name, *topic.aliases)]
        own = max(0.0, float(base[index.row_of(topic.id)]))
        prior[np.isin(belongs, codes)] += np.float32(TOPIC * own)
