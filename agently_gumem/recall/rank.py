"""From one question to what is recalled, best first: signals, floor, what may be shown."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from math import log
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from agently_gumem.config import RecallConfig
from agently_gumem.recall.index import FACT, SUMMARY, TURN, UserIndex
from agently_gumem.recall.nominate import nearest_topics, nominate, same_topic
from agently_gumem.recall.signals import Signals, gather
from agently_gumem.recall.validity import Sight

HitLayer = Literal["summary", "fact", "turn"]

__all__ = ["Hit", "floor_of", "nearest_topics", "nominate", "rank", "same_topic"]

# The floor of the best record, by the number of records: the best of more unrelated texts lies
# higher, by the logarithm of their number (nine of ten foreign questions stay below 0.16 on 3, 0.22
# on 10, 0.30 on 120 short facts). Calibrated with the bundled encoder on five dialogues of
# snap-research/locomo, 762 questions, each also asked of another dialogue: of the gold turns among
# the first 20, 1.2 % are lost; 7.5 % of the foreign questions recall anything. On 120 facts in two
# languages, 7 % of those questions recall anything; of paraphrases that share no word with their
# fact, 13 % (English), 0 % (across languages) and 42 % (Chinese) recall nothing.
FLOOR_ONE = 0.17
FLOOR_GROWTH = 0.02
# Beside a best record that passes, another needs this share of the floor, and of the best of its
# layer.
ITEM_SHARE = 0.55
BEST_SHARE = 0.35


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


def floor_of(records: int) -> float:
    """Return the evidence that the best record of a store of this size must reach."""
    return FLOOR_ONE + FLOOR_GROWTH * log(max(1, records))


def rank(
    index: UserIndex,
    query: str,
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
        query: The question.
        vector: Its vector, (dimension,), L2-normalised.
        config: Layers, filters, numbers of hits, floor, `as_of`.
        session_id: The session that asks, where there is one.
        hidden: Ids of messages that the model sees anyway: the window.
        now: The moment of the question.
    """
    if not len(index):
        return []
    signals = gather(index, query, vector, session_id=session_id, topics=config.topic_top_k)
    sight = Sight(index, config, hidden, now)
    floor, share = _floor(index, config)
    hits: list[Hit] = []
    for layer, kind, limit in _layers(config):
        hits += _best(index, signals, sight, layer, index.rows(kind), limit, floor * share)
    best = max((hit.parts["evidence"] for hit in hits), default=0.0)
    if best < floor:
        return []
    kept = hits if config.floor is not None else _near_best(hits)
    return sorted(kept, key=lambda hit: -hit.score)


def _near_best(hits: list[Hit]) -> list[Hit]:
    """Leave out what is far behind the best of its own layer.

    A turn that repeats the question's words must not push the Facts that answer it below the cut.
    """
    best: dict[str, float] = {}
    for hit in hits:
        best[hit.layer] = max(best.get(hit.layer, 0.0), hit.parts["evidence"])
    return [hit for hit in hits if hit.parts["evidence"] >= BEST_SHARE * best[hit.layer]]


def _floor(index: UserIndex, config: RecallConfig) -> tuple[float, float]:
    """Return the floor of the best, and the share of it that each other must reach.

    A floor that the developer sets holds for every record alike.
    """
    if config.floor is not None:
        return config.floor, 1.0
    return floor_of(len(index) - len(index.topics)), ITEM_SHARE


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
    least: float,
) -> list[Hit]:
    """Take the best of a layer that may be shown and whose evidence is enough."""
    rows = rows[signals.evidence[rows] >= least]
    hits: list[Hit] = []
    for row in rows[np.argsort(-signals.total[rows], kind="stable")].tolist():
        if len(hits) >= limit:
            break
        record = index.record_at(row)
        if sight.shows(record):
            weight = sight.weight(record)
            parts = signals.parts(row)
            score = weight * float(signals.total[row])
            hits.append(Hit(layer, record.id, score, parts, sight.sources(record)))
    return hits
