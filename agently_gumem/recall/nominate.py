"""What the write path asks of the index: known Facts and Topics near to new messages."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agently_gumem.recall.index import UserIndex
from agently_gumem.records import Fact, Topic
from agently_gumem.text import fold, words

# Below this cosine a Fact is not nominated for its meaning. Unrelated short texts reach 0.16 in one
# of ten cases with the bundled encoder, paraphrases 0.3 in the median: generous on purpose, since a
# candidate costs one line of a prompt and a missed one leaves an old value standing.
NEAR = 0.15
# Weight of words beside the cosine: what says the same in the same words comes first.
LEXICAL = 2.0
# Topic names: the encoder gives 16 of 22 pairs of one meaning, in two languages and across, at
# least 0.76, and none of 22 pairs of different meaning (hiking boots, car or health insurance)
# more than 0.72.
SAME_TOPIC = 0.75
_DIGITS = re.compile(r"\d+")


def nominate(
    index: UserIndex, vectors: NDArray[np.float32], texts: Sequence[str], limit: int
) -> list[Fact]:
    """Return the active Facts that new messages may repeat or change, nearest first.

    Args:
        index: The user's records.
        vectors: (n, dimension), one a message, L2-normalised.
        texts: The messages' texts.
        limit: Facts at most; those best in meaning and those best in words share it.
    """
    facts = [fact for fact in index.facts.values() if fact.validity == "active"]
    return [facts[place] for place in _nearest(index, facts, vectors, texts, limit, NEAR)]


def nearest_topics(
    index: UserIndex, vectors: NDArray[np.float32], texts: Sequence[str], limit: int
) -> list[Topic]:
    """Return the Topics nearest to new messages, nearest first; arguments as for `nominate`.

    There is no floor: their names keep the model from inventing others.
    """
    topics = list(index.topics.values())
    return [topics[place] for place in _nearest(index, topics, vectors, texts, limit, -1.0)]


def same_topic(index: UserIndex, name: str, vector: NDArray[np.float32]) -> Topic | None:
    """Return the Topic that a name means: its name or alias, its words, or its meaning.

    Args:
        index: The user's records.
        name: A name as the model or a developer gives it.
        vector: Its vector, (dimension,), L2-normalised.
    """
    wanted, terms = fold(name), _terms(name)
    topics = list(index.topics.values())
    for topic in topics:
        if wanted in {fold(known) for known in (topic.name, *topic.aliases)}:
            return topic
    for topic in topics:
        if terms and any(terms == _terms(known) for known in (topic.name, *topic.aliases)):
            return topic
    near = index.cosine(vector[None, :])[0]
    like = [topic for topic in topics if _DIGITS.findall(topic.name) == _DIGITS.findall(name)]
    best = max(like, key=lambda topic: near[index.row_of(topic.id)], default=None)
    if best is None or near[index.row_of(best.id)] < SAME_TOPIC:
        return None
    return best


def _terms(name: str) -> frozenset[str]:
    """Keep function words: "work" and "work out" differ by one."""
    return frozenset(words(name, stop=False))


def _nearest(
    index: UserIndex,
    records: Sequence[Fact] | Sequence[Topic],
    vectors: NDArray[np.float32],
    texts: Sequence[str],
    limit: int,
    near: float,
) -> list[int]:
    """Return places in `records`: half by meaning, half by words, then by both together."""
    if not records or not len(vectors) or limit <= 0:
        return []
    rows = np.array([index.row_of(record.id) for record in records], np.intp)
    dense = index.cosine(vectors)[:, rows].max(axis=0)
    lexical = np.zeros_like(dense)
    for text in texts:
        match = index.match(text)
        np.maximum(lexical, (match.score * match.coverage)[rows], out=lexical)
    total = dense + LEXICAL * lexical
    by_meaning = [i for i in np.argsort(-dense, kind="stable").tolist() if dense[i] >= near]
    by_words = [i for i in np.argsort(-lexical, kind="stable").tolist() if lexical[i] > 0]
    half = (limit + 1) // 2
    chosen = list(dict.fromkeys(by_meaning[:half] + by_words[:half]))
    rest = sorted(set(by_meaning + by_words) - set(chosen), key=lambda i: -total[i])
    chosen = (chosen + rest)[:limit]
    return sorted(chosen, key=lambda i: -total[i])
