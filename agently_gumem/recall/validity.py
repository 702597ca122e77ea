"""What may be shown: validity, time, access, the window, filters, and old values in raw turns."""

from collections.abc import Collection
from datetime import datetime
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from agently_gumem.config import RecallConfig
from agently_gumem.recall.index import TURN, Stored, UserIndex
from agently_gumem.recall.outdated import OldValue, old_values, terms_of
from agently_gumem.records import APART, Fact, Message, Summary, has_passed, shown_to

UNSURE = 0.2  # of its weight, a Fact or Summary of no confidence at all loses so much


class Sight:
    """Tells of each record whether this recall may show it."""

    def __init__(
        self,
        index: UserIndex,
        config: RecallConfig,
        hidden: Collection[str],
        now: datetime,
        *,
        past: bool = False,
    ) -> None:
        self._index = index
        self._config = config
        self._hidden = frozenset(hidden)
        self._now = now
        self._past = past and config.as_of is None
        self._labels = frozenset(config.labels)

    def shows(self, record: Stored) -> bool:
        """Tell whether a record may be shown; a Topic is never shown."""
        if isinstance(record, Message):
            return self._may_see(record) and self._turn(record)
        if isinstance(record, Fact):
            return self._may_see(record) and self._fact(record)
        return isinstance(record, Summary) and self._summary(record)

    def _may_see(self, record: Message | Fact) -> bool:
        return shown_to(record, self._config.access, self._now)

    def sources(self, record: Stored) -> tuple[str, ...]:
        """Return the ids of the messages that a record rests on."""
        if isinstance(record, Message):
            return (record.id,)
        if isinstance(record, Fact):
            return tuple(record.source_message_ids)
        if isinstance(record, Summary):
            told = [i for fact in self._facts_of(record) for i in fact.source_message_ids]
            return tuple(dict.fromkeys([*told, *self._evidence(record)]))
        return ()

    def _evidence(self, summary: Summary) -> list[str]:
        """List the messages that a Summary names as its evidence, beside its Facts."""
        named = [str(entry.get("id", "")) for entry in summary.evidence]
        return [i for i in named if i in self._index.messages]

    def weight(self, record: Stored) -> float:
        """Return the factor of a record's score: confidence, boost, decay a day."""
        if not isinstance(record, Fact | Summary):
            return 1.0
        sure = 1.0 - UNSURE * (1.0 - record.confidence)
        if isinstance(record, Fact):
            return sure
        told = record.time.event_end or record.updated_at
        days = max(0.0, ((self._config.as_of or self._now) - told).total_seconds() / 86_400)
        kept = max(0.0, 1.0 - record.decay_factor) ** days
        return record.retrieval_boost * kept * sure

    @property
    def of_past(self) -> bool:
        """Whether this recall is of a past time: what no longer holds is shown as such."""
        return self._past or self._config.as_of is not None

    def _fact(self, fact: Fact) -> bool:
        # The window shows what was said, but not that it no longer holds, nor since when.
        past = self._past and fact.validity == "deprecated"
        return (
            (past or self._fact_holds(fact))
            and (past or not self._hidden.issuperset(fact.source_message_ids))
            and self._labelled(fact.labels)
            and self._filtered(fact.source_message_ids)
        )

    def _fact_holds(self, fact: Fact) -> bool:
        moment = self._config.as_of
        if moment is None:
            return fact.validity == "active" and not has_passed(fact.valid_to, self._now)
        if fact.validity == "invalid" or (fact.valid_from or fact.created_at) > moment:
            return False
        end = fact.valid_to or (fact.updated_at if fact.validity == "deprecated" else None)
        return not has_passed(end, moment)

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
        out = ("deleted",) if self._config.archived else ("archived", "deleted")
        if summary.memory_status in out or summary.validity == "invalid":
            return False
        if has_passed(summary.expires_at, self._now):
            return False
        moment = self._config.as_of
        if moment is None:
            valid = summary.validity == "active"
        else:
            ended = summary.validity == "deprecated" and summary.updated_at <= moment
            valid = summary.created_at <= moment and not ended
        facts = self._facts_of(summary)
        return valid and all(self._fact_holds(f) and self._may_see(f) for f in facts)

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
        if self._past and message.timestamp is not None:
            return False  # its date says when it held
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
        if fact.superseded_by or fact.validity == "deprecated":  # its successor may be forgotten
            return moment is None or (fact.valid_to or fact.updated_at) <= moment
        return self._index.supersedes(fact.id) and self._fact_holds(fact)

    def _answers_outdated(self, message: Message) -> bool:
        """Tell whether this is the assistant's reply directly after an outdated turn."""
        if message.role != "assistant":
            return False
        before = self._before(message)
        return before is not None and self._outdated(before)

    def _before(self, message: Message) -> Message | None:
        """Find the turn before one in its session, past what tools returned between them."""
        order, places = self._order
        row = self._index.row(message.id)
        place = int(places[row]) if row is not None else 0
        while place > 0:
            place -= 1
            before = self._index.record_at(int(order[place]))
            if not isinstance(before, Message) or before.session_id != message.session_id:
                return None
            if before.event_type not in APART:
                return before
        return None

    def _repeats_old_value(self, message: Message) -> bool:
        """Tell whether a turn says a superseded value again, though no Fact rests on that.

        The assistant repeats what it recalls, in any session: the old value must not come back
        through its replies, nor through a question that names it. A short reply ("42.") is about
        what the turn before it is about.
        """
        if self._config.as_of is not None or not self._old_values:
            return False
        terms = terms_of(message.content)
        held = [value for value in self._old_values if value.held(terms)]
        if not held:
            return False
        before = self._before(message) if message.role == "assistant" else None
        around = terms | terms_of(before.content) if before is not None else terms
        facts = [f for f in self._index.citing(message.id) if self._fact_holds(f)]
        told = [terms_of(fact.content) for fact in facts]
        return any(
            value.meant(around) and not any(value.held(own) for own in told) for value in held
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
