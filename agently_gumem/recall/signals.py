"""What speaks for each record of an index, given one question: plain numbers, no decision."""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from agently_gumem.recall.index import FACT, SUMMARY, UserIndex
from agently_gumem.recall.lexical import Match
from agently_gumem.recall.question import Question, names_in
from agently_gumem.recall.talk import Scores, Turns, pairs, session_best, shifted, turns_of
from agently_gumem.text import fold, is_chinese, words

# Weights beside a cosine of 1.0. They were fitted with one dialogue of five left out in turn
# (listwise softmax over 760 questions of snap-research/locomo, the bundled encoder) and rounded;
# half or double of any one moves the recall of gold turns at 10 by under 0.015.
#
# A turn: what it means together with the turn before it, what it means alone, and its words.
PAIR = 0.7
ALONE = 0.3
# Words weigh by the square of the IDF share that they cover: one common word of many is chance, a
# name or a number that nothing else holds is not.
TURN_WORDS = 0.4
TURN_WINDOW = 0.6
"""Words of a turn and the two turns on either side, by the IDF share that they cover together."""
# A Fact stands alone. LIFT is what context brings a turn on average, so that both layers compare.
RECORD_WORDS = 0.6
LIFT = 0.25
SESSION = 0.4
SPEAKER = 0.3
ASKED_WHEN = 0.1
"""A time, where the question asks for one."""
DATED = 0.2
"""The day that the question names."""
LATEST = 0.1
"""By the place in the order of all that was said, where the question asks for what is newest."""
ASKING = -0.15
"""A turn that ends as a question says less than its answer."""
SUBSTANCE = 0.06
"""By the logarithm of the number of content words: "Wow, great!" answers nothing."""
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
_MOST_WORDS = 15
_REACH = 2  # turns on either side whose words count


@dataclass(frozen=True)
class Signals:
    """One value a row of the index, by signal; `total` ranks, `evidence` is held to the floor."""

    dense: Scores
    """Cosine, -1 to 1; of a turn, with that of the turn before it and of its best Fact."""
    lexical: Scores
    """Words of the text itself, or of a turn's best Fact."""
    evidence: Scores
    """What is held to the floor: absolute; of the text itself, or, for a turn, of its Fact or of
    the turn that it answers."""
    window: Scores
    """For a turn: the words that it and its neighbours hold together."""
    cues: Scores
    """Who speaks, which day, whether a turn asks or says much."""
    prior: Scores
    """Session, Topic and Summary: soft, never a gate. What stands alone has LIFT in it."""
    alone: NDArray[np.bool_]
    """Whether a record stands alone: all but the turns of a talk."""

    @cached_property
    def core(self) -> Scores:
        """The total without LIFT: what can be compared with the best of a layer."""
        return np.asarray(self.total - LIFT * self.alone, np.float32)

    @cached_property
    def total(self) -> Scores:
        """Sum of the signals."""
        return np.asarray(
            self.dense + self.lexical + self.window + self.cues + self.prior, np.float32
        )

    def parts(self, rows: NDArray[np.intp]) -> list[dict[str, float]]:
        """Return the value of each signal for some rows."""
        columns = [getattr(self, name)[rows] for name in _FIELDS]
        values = np.round(np.stack(columns, axis=1, dtype=np.float64), 4).tolist()
        return [dict(zip(_FIELDS, line, strict=True)) for line in values]


_FIELDS = tuple(field.name for field in fields(Signals) if field.name != "alone")


def gather(
    index: UserIndex, question: Question, vector: Scores, *, session_id: str | None, topics: int
) -> Signals:
    """Compute every signal of one question against every row.

    Args:
        index: The user's records.
        question: The question.
        vector: The vector of its `bare` text, (dimension,), L2-normalised.
        session_id: The session that asks.
        topics: How many Topics raise what belongs to them.
    """
    cosine = index.cosine(vector[None, :])[0]
    match = index.match(question.bare)
    coverage = match.coverage
    turns = turns_of(index)
    facts, cited = index.citations()
    best_cosine = _with_facts(cosine, facts, cited)
    best_coverage = _with_facts(coverage, facts, cited)
    rows = turns.rows
    dense, lexical = np.array(cosine), RECORD_WORDS * coverage**2
    window, prior = np.zeros_like(cosine), np.zeros_like(cosine)
    dense[rows] = PAIR * pairs(cosine[rows], turns) + ALONE * best_cosine[rows]
    lexical[rows] = TURN_WORDS * best_coverage[rows] ** 2
    window[rows] = _window(match, turns, coverage[rows])
    prior[rows] = SESSION * session_best(best_cosine[rows], turns.sessions)
    if session_id is not None:
        prior[rows] += SAME_SESSION * (turns.sessions == index.known_code(session_id))
    soft = _named(index, question)
    cues = np.zeros_like(cosine)
    cues[rows] = soft[rows] + turns.talk * _substance(index, rows)
    _lift(index, prior, soft, facts, cited)
    base = cosine + lexical
    _raise_by_summaries(index, base, prior)
    _raise_topics(index, base, prior, topics)
    evidence = _evidence(index, question, cosine + COVERAGE * coverage, turns)
    alone = np.ones(len(cosine), np.bool_)
    alone[rows] = ~turns.talk
    return Signals(dense, lexical, evidence, window, cues, prior, alone)


def _with_facts(values: Scores, facts: NDArray[np.intp], cited: NDArray[np.intp]) -> Scores:
    """Give each row its own value, or that of the best active Fact that cites it."""
    best: Scores = np.array(values, np.float32)
    np.maximum.at(best, cited, values[facts])
    return best


def _window(match: Match, turns: Turns, coverage: Scores) -> Scores:
    """Score the words that a turn and its neighbours hold together; a statement stands alone."""
    held = match.gain[:, turns.rows] > 0
    together = np.array(held)
    for by in range(1, _REACH + 1):
        for beside in shifted(held, turns.sessions, by):
            together |= beside
    covered = match.mass @ together.astype(np.float32) / (float(match.mass.sum()) or 1.0)
    alone = LIFT + (RECORD_WORDS - TURN_WORDS) * coverage**2
    return np.where(turns.talk, TURN_WINDOW * covered, alone).astype(np.float32)


def _named(index: UserIndex, question: Question) -> Scores:
    """Score what the question names beside its content: one speaker, a day, that it asks when."""
    found = np.zeros(len(index.column("kind")), np.float32)
    if question.asks_when:
        found[index.column("dated") > 0] += ASKED_WHEN
    if question.asks_latest:
        sequence = np.maximum(index.column("sequence"), 0)
        found += LATEST * sequence / max(1, int(sequence.max(initial=0)))
    first, last = index.column("first"), index.column("last")
    told = np.zeros(len(found), np.bool_)
    for start, end in question.days:
        # What happened on a day is told on the next as well.
        told |= (first >= 0) & (first <= end.toordinal() + 1) & (last >= start.toordinal())
    found[told] += DATED
    if len(question.speakers) == 1:
        (speaker,) = question.speakers
        found += SPEAKER * (index.column("who") == index.known_code(speaker))
    return found.astype(np.float32)


def _substance(index: UserIndex, rows: NDArray[np.intp]) -> Scores:
    """Score how much a turn says, whatever the question."""
    length = np.minimum(index.column("length")[rows], _MOST_WORDS)
    asking = ASKING * (index.column("asks")[rows] > 0)
    return (SUBSTANCE * np.log1p(length) + asking).astype(np.float32)


def _lift(
    index: UserIndex,
    prior: Scores,
    soft: Scores,
    facts: NDArray[np.intp],
    cited: NDArray[np.intp],
) -> None:
    """Give Facts what the best of their turns has from its session and from what is named."""
    alone = (index.column("kind") == FACT) | (index.column("kind") == SUMMARY)
    lifted = soft * alone
    np.maximum.at(lifted, facts, (prior + soft)[cited])
    prior += lifted + LIFT * alone


def _evidence(index: UserIndex, question: Question, own: Scores, turns: Turns) -> Scores:
    """Return what is held to the floor; a turn is as evident as its best Fact."""
    evidence = own - _strangers(index, question.bare)
    before, _ = shifted(evidence[turns.rows], turns.sessions)
    evidence[turns.rows] = np.maximum(evidence[turns.rows], ANSWER * before)
    return _with_facts(evidence, *index.citations())


def _raise_by_summaries(index: UserIndex, base: Scores, prior: Scores) -> None:
    """Raise the Facts that an active Summary tells by how well it answers."""
    tellers, told = index.derived("tellers", lambda: _tellers(index))
    raised = np.zeros_like(base)
    np.maximum.at(raised, told, FROM_SUMMARIES * base[tellers])
    prior += raised


def _tellers(index: UserIndex) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return which Summaries tell which Facts, as two columns of rows."""
    pairs = [
        (index.row_of(summary.id), row)
        for summary in index.summaries.values()
        if summary.validity == "active" and summary.memory_status in ("active", "deprioritized")
        for fact_id in summary.source_facts
        if (row := index.row(fact_id)) is not None
    ]
    return np.array([a for a, _ in pairs], np.intp), np.array([b for _, b in pairs], np.intp)


def _raise_topics(index: UserIndex, base: Scores, prior: Scores, limit: int) -> None:
    """Raise the Facts and Summaries of the Topics nearest to the question, by their nearness."""
    topics = sorted(index.topics.values(), key=lambda topic: -base[index.row_of(topic.id)])
    belongs = index.column("topic")
    for topic in topics[:limit]:
        own = max(0.0, float(base[index.row_of(topic.id)]))
        for code in {index.known_code(fold(name)) for name in (topic.name, *topic.aliases)}:
            prior[belongs == code] += np.float32(TOPIC * own)


def _strangers(index: UserIndex, query: str) -> Scores:
    """Count a name in the question that no record holds against the texts of its language.

    A text in the other language may hold the name in another script, and is left alone.
    """
    rows = index.column("chinese")
    unseen = any(
        (terms := words(name)) and not any(index.knows(term) for term in terms)
        for name in names_in(query)
    )
    same_language = rows == int(is_chinese(query))
    return np.float32(UNSEEN_NAME if unseen else 0.0) * same_language.astype(np.float32)
