"""What may be shown: validity, time, the window, filters, and old values in raw turns."""

from collections.abc import Collection
from datetime import datetime
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from agently_gumem.config import RecallConfig
from agently_gumem.recall.index import TURN, Stored, UserIndex
from agently_gumem.records import Fact, Message, Summary
from agently_gumem.text import words

DEPRIORITIZED = 0.5  # what a deprioritized Summary keeps of its weight
UNSURE = 0.2  # of its weight, a Fact of no confidence at all loses so much
MOST = 0.6  # of the words that a superseded Fact alone says: a turn with them says it again


class Sight:
    """Tells of each record whether this recall may show it."""

    def __init__(
        self, index: UserIndex, config: RecallConfig, hidden: Collection[str], now: datetime
    ) -> None:
        self._index = index
        self._config = config
        self._hidden = frozenset(hidden)
        self._now = now
        self._labels = frozenset(config.labels)

    def shows(self, record: Stored) -> bool:
        """Tell whether a record may be shown; a Topic is never shown."""
        if isinstance(record, Message):
            return self._turn(record)
        if isinstance(record, Fact):
            return self._fact(record)
        return isinstance(record, Summary) and self._summary(record)

    def sources(self, record: Stored) -> tuple[str, ...]:
        """Return the ids of the messages that a record rests on."""
        if isinstance(record, Message):
            return (record.id,)
        if isinstance(record, Fact):
            return tuple(record.source_message_ids)
        if isinstance(record, Summary):
            facts = self._facts_of(record)
            return tuple(dict.fromkeys(i for fact in facts for i in fact.source_message_ids))
        return ()

    def weight(self, record: Stored) -> float:
        """Return the factor of a record's score: confidence, boost, decay a day, deprioritized."""
        if isinstance(record, Fact):
            return 1.0 - UNSURE * (1.0 - record.confidence)
        if not isinstance(record, Summary):
            return 1.0
        told = record.time.event_end or record.updated_at
        days = max(0.0, ((self._config.as_of or self._now) - told).total_seconds() / 86_400)
        kept = max(0.0, 1.0 - record.decay_factor) ** days
        lowered = DEPRIORITIZED if record.memory_status == "deprioritized" else 1.0
        return record.retrieval_boost * kept * lowered

    def _fact(self, fact: Fact) -> bool:
        return (
            self._fact_holds(fact)
            and not self._hidden.issuperset(fact.source_message_ids)
            and self._labelled(fact.labels)
            and self._filtered(fact.source_message_ids)
        )

    def _fact_holds(self, fact: Fact) -> bool:
        moment = self._config.as_of
        if moment is None:
            ended = fact.valid_to is not None and fact.valid_to <= self._now
            return fact.validity == "active" and not ended
        if fact.validity == "invalid" or (fact.valid_from or fact.created_at) > moment:
            return False
        end = fact.valid_to or (fact.updated_at if fact.validity == "deprecated" else None)
        return end is None or moment < end

    def _summary(self, summary: Summary) -> bool:
        sources = self.sources(summary)
        return (
            self._summary_holds(summary)
            and not (sources and self._hidden.issuperset(sources))
            and self._labelled(summary.labels)
            and self._filtered(sources)
        )

    def _summary_holds(self, summary: Summary) -> bool:
        """Hold a Summary to its validity, and to that of the Facts it tells: one is old, all is."""
        if summary.memory_status in ("archived", "deleted") or summary.validity == "invalid":
            return False
        moment = self._config.as_of
        if moment is None:
            valid = summary.validity == "active"
        else:
            ended = summary.validity == "deprecated" and summary.updated_at <= moment
            valid = summary.created_at <= moment and not ended
        return valid and all(self._fact_holds(fact) for fact in self._facts_of(summary))

    def _facts_of(self, summary: Summary) -> list[Fact]:
        known = self._index.facts
        return [known[fact_id] for fact_id in summary.source_facts if fact_id in known]

    def _turn(self, message: Message) -> bool:
        return (
            message.id not in self._hidden
            and self._said_by_then(message)
            and self._filtered([message.id])
            and self._turn_labelled(message)
            and not (self._index.superseding and self._tells_old_value(message))
        )

    def _tells_old_value(self, message: Message) -> bool:
        return (
            self._outdated(message)
            or self._answers_outdated(message)
            or self._repeats_old_value(message)
        )

    def _said_by_then(self, message: Message) -> bool:
        """Leave out, under `as_of`, also what has no time: it may be from later."""
        moment = self._config.as_of
        return moment is None or (message.timestamp is not None and message.timestamp <= moment)

    def _outdated(self, message: Message) -> bool:
        """Tell whether a turn brings an old value back, or its Fact stands for the change."""
        return any(self._changed(fact) for fact in self._index.citing(message.id))

    def _changed(self, fact: Fact) -> bool:
        moment = self._config.as_of
        if fact.superseded_by:
            return moment is None or (fact.valid_to or fact.updated_at) <= moment
        return self._index.supersedes(fact.id) and self._fact_holds(fact)

    def _answers_outdated(self, message: Message) -> bool:
        """Tell whether this is the assistant's reply directly after an outdated turn."""
        if message.role != "assistant":
            return False
        order, places = self._order
        row = self._index.row(message.id)
        place = int(places[row]) if row is not None else 0
        if place == 0:
            return False
        before = self._index.record_at(int(order[place - 1]))
        return (
            isinstance(before, Message)
            and before.session_id == message.session_id
            and self._outdated(before)
        )

    def _repeats_old_value(self, message: Message) -> bool:
        """Tell whether a turn says a superseded value again, though no Fact rests on it.

        The assistant repeats what it recalls, in any session: the old value must not come back
        through its replies, nor through a question that names it.
        """
        if self._config.as_of is not None or not self._old_values:
            return False
        if any(self._fact_holds(fact) for fact in self._index.citing(message.id)):
            return False
        terms = frozenset(words(message.content))
        return any(
            len(gone & terms) >= least * len(gone) and 2 * len(shared & terms) >= len(shared)
            for gone, shared, least in self._old_values
        )

    @property
    def _old_values(self) -> "list[OldValue]":
        return self._index.derived("old values", lambda: old_values(self._index))

    @cached_property
    def _order(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows of the turns by session and sequence, and the place of each row among them."""
        order = self._index.rows(TURN)
        places = np.zeros(int(order.max(initial=0)) + 1, np.intp)
        places[order] = np.arange(len(order))
        return order, places

    def _labelled(self, labels: Collection[str]) -> bool:
        return not self._labels or not self._labels.isdisjoint(labels)

    def _turn_labelled(self, message: Message) -> bool:
        """Take a turn's labels from its Facts: a message carries none of its own."""
        return not self._labels or any(
            self._labelled(fact.labels) for fact in self._index.citing(message.id)
        )

    def _filtered(self, message_ids: Collection[str]) -> bool:
        wanted = self._config.metadata_filters
        if not wanted:
            return True
        known = self._index.messages
        return any(
            all(known[i].metadata.get(key) == value for key, value in wanted.items())
            for i in message_ids
            if i in known
        )


OldValue: TypeAlias = tuple[frozenset[str], frozenset[str], float]


def old_values(index: UserIndex) -> list[OldValue]:
    """Say what each superseded Fact alone says, what its successor says too, how much counts.

    Where numbers differ, they are the old value; else the words that are gone, most of them.
    """
    found: list[OldValue] = []
    for fact in index.facts.values():
        present = _successor(index, fact)
        if present is None:
            continue
        old, new = frozenset(words(fact.content)), frozenset(words(present.content))
        numbers = frozenset(t for t in old - new if any(ch.isdigit() for ch in t))
        if old - new:
            found.append((numbers or old - new, old & new, 1.0 if numbers else MOST))
    return found


def _successor(index: UserIndex, fact: Fact) -> Fact | None:
    """Follow a superseded Fact to the one that holds at present."""
    seen: set[str] = set()
    present: Fact | None = fact
    while present is not None and present.superseded_by and present.id not in seen:
        seen.add(present.id)
        present = index.facts.get(present.superseded_by)
    return present if seen and present is not None else None
