"""From one question to what is recalled, best first: signals, floor, what may be shown."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from agently_gumem.config import RecallConfig
from agently_gumem.recall.index import FACT, SUMMARY, TURN, Stored, UserIndex
from agently_gumem.recall.outdated import before
from agently_gumem.recall.question import Question
from agently_gumem.recall.signals import Signals, gather
from agently_gumem.recall.spread import spread
from agently_gumem.recall.validity import Sight
from agently_gumem.records import Fact, Summary
from agently_gumem.text import words

HitLayer = Literal["summary", "fact", "turn"]

# The evidence that the best record must reach. With the bundled encoder: of three Facts, nothing
# passes that has nothing to do with the question (40 questions in two languages); on five dialogues
# of snap-research/locomo it silences 86 % of the questions asked of another dialogue and 0.9 % of
# the own ones; of Chinese paraphrases that share no word with their Fact it loses one in eight. A
# floor that rises with the number of records silences a little more and loses more of these.
FLOOR = 0.2
# Beside a best record that passes, another needs this share of the score of the best of its layer;
# what stands alone, with no conversation around it that could speak for it, these shares of the
# floor and of the best evidence as well.
BEST_SHARE = 0.35
ALONE_FLOOR = 0.33
ALONE_BEST = 0.4
# Earlier values of one Fact that a question about the past brings along.
MOST_BEFORE = 5


@dataclass(frozen=True)
class Hit:
    """One record that a question recalls."""

    layer: HitLayer
    id: str
    score: float
    """Sum of the signals, what it is ranked by; larger is better, not a probability."""
    parts: dict[str, float]
    """The score by signal, and `evidence`, what passed the floor."""
    source_message_ids: tuple[str, ...]


def rank(
    index: UserIndex,
    question: Question,
    vector: NDArray[np.float32],
    config: RecallConfig,
    *,
    session_id: str | None,
    hidden: Collection[str] = (),
    now: datetime,
) -> list[Hit]:
    """Recall what a question needs, best first; nothing where nothing passes the floor.

    Args:
        index: The user's records.
        question: The question.
        vector: The vector of its `bare` text, (dimension,), L2-normalised.
        config: Layers, filters, numbers of hits, floor, `as_of`.
        session_id: The session that asks, where there is one.
        hidden: Ids of messages that the model sees anyway: the window.
        now: The moment of the question.
    """
    if not len(index) or not words(question.text, stop=False):
        return []
    signals = gather(index, question, vector, session_id=session_id, topics=config.topic_top_k)
    sight = Sight(index, config, hidden, now, past=question.asks_past)
    floor = FLOOR if config.floor is None else config.floor
    hits: list[Hit] = []
    for layer, kind, limit in _layers(config):
        rows = _passing(signals, index.rows(kind), floor, calibrated=config.floor is None)
        hits += _best(index, signals, sight, layer, rows, limit)
    if max((hit.parts["evidence"] for hit in hits), default=0.0) < floor:
        return []
    hits, last = _apart(index, sorted(hits, key=lambda hit: -hit.score))
    return [*spread(hits, _session_in(index)), *last]


def _apart(index: UserIndex, hits: list[Hit]) -> tuple[list[Hit], list[Hit]]:
    """Set the deprioritized apart: they come last, and not at all where another hit is better."""
    low = [hit for hit in hits if _deprioritized(index.get(hit.id))]
    if not low:
        return hits, low
    rest = [hit for hit in hits if hit not in low]
    best = max((hit.score for hit in rest), default=-np.inf)
    return rest, [hit for hit in low if hit.score > best]


def _deprioritized(record: Stored | None) -> bool:
    return isinstance(record, Summary) and record.memory_status == "deprioritized"


def _session_in(index: UserIndex) -> Callable[[str], str | None]:
    def session_of(message_id: str) -> str | None:
        message = index.messages.get(message_id)
        return message.session_id if message is not None else None

    return session_of


def _passing(
    signals: Signals, rows: NDArray[np.intp], floor: float, *, calibrated: bool
) -> NDArray[np.intp]:
    """Leave out the rows of a layer that say too little for this question.

    A floor that the developer sets holds for every record alike.
    """
    evidence = signals.evidence[rows]
    if not calibrated:
        return rows[evidence >= floor]
    core = signals.core[rows]
    near = core >= BEST_SHARE * core.max(initial=0.0)
    least = max(ALONE_FLOOR * floor, ALONE_BEST * float(evidence.max(initial=0.0)))
    return rows[near & (~signals.alone[rows] | (evidence >= least))]


def _layers(config: RecallConfig) -> list[tuple[HitLayer, int, int]]:
    layers: list[tuple[HitLayer, int, int]] = [
        ("summary", SUMMARY, config.summary_top_k),
        ("fact", FACT, config.fact_top_k),
        ("turn", TURN, config.message_top_k),
    ]
    return [layer for layer in layers if layer[0] in config.layers]


def _best(
    index: UserIndex,
    signals: Signals,
    sight: Sight,
    layer: HitLayer,
    rows: NDArray[np.intp],
    limit: int,
) -> list[Hit]:
    """Take the best of some rows of a layer that may be shown."""
    total = signals.total[rows]
    if layer == "summary":  # a few: what their owner set weighs before the choice
        total = total * np.array([sight.weight(index.record_at(row)) for row in rows.tolist()])
    chosen: dict[str, tuple[int, Stored]] = {}
    for row in rows[np.argsort(-total, kind="stable")].tolist():
        if len(chosen) >= limit:
            break
        for record in _of_row(index, row, sight):
            chosen.setdefault(record.id, (row, record))
    parts = signals.parts(np.array([row for row, _ in chosen.values()], np.intp))
    return [
        Hit(
            layer,
            record.id,
            sight.weight(record) * float(signals.total[row]),
            values,
            sight.sources(record),
        )
        for (row, record), values in zip(chosen.values(), parts, strict=True)
    ]


def _of_row(index: UserIndex, row: int, sight: Sight) -> list[Stored]:
    """Give what a row lets be shown: its record, and of a past time the values before it.

    A question about the past may name the new value, and find the old one only through it.
    """
    record = index.record_at(row)
    found = [record] if sight.shows(record) else []
    if sight.of_past and isinstance(record, Fact):
        found += [f for f in before(index, record)[:MOST_BEFORE] if sight.shows(f)]
    return found
