"""What a reader is shown: records with access labels only where one of the labels is named."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

from agently_gumem.errors import ConfigError
from agently_gumem.recall.index import Stored, UserIndex
from agently_gumem.records import Fact, Message, Summary, has_passed, shown_to
from agently_gumem.records.fact import hidden_topics
from agently_gumem.text import fold

S = TypeVar("S", bound=Stored)


def labels_of(access: object) -> frozenset[str]:
    """Take one label or several.

    Raises:
        ConfigError: It is neither.
    """
    if isinstance(access, str):
        return frozenset({access})
    try:
        labels = frozenset(cast("Iterable[Any]", access))
    except TypeError as error:
        raise ConfigError(f"access={access!r} is no label, and no list of labels") from error
    if not all(isinstance(label, str) for label in labels):
        raise ConfigError(f"access={access!r} takes labels, which are texts")
    return cast("frozenset[str]", labels)


@dataclass(frozen=True)
class View:
    """An index as a reader sees it who names these labels."""

    index: UserIndex
    access: frozenset[str] = frozenset()
    older: Mapping[str, Message] = field(default_factory=dict[str, Message])
    """Messages that the index of a large user leaves out."""

    def shows(self, record: Stored) -> bool:
        """Tell whether the reader is shown a record: a Summary only with all that it tells.

        And a Topic not where all of its Facts are kept from the reader.
        """
        if isinstance(record, Message | Fact):
            return shown_to(record, self.access)
        if isinstance(record, Summary):
            return not has_passed(record.expires_at) and self.shows_all(record.source_facts)
        return fold(record.name) not in self._hidden_topics

    @cached_property
    def _hidden_topics(self) -> frozenset[str]:
        return hidden_topics(self.index.facts.values(), self.shows)

    def shows_all(self, fact_ids: Iterable[str]) -> bool:
        """Tell whether none of these Facts is kept from the reader."""
        facts = (self.index.facts.get(fact_id) for fact_id in fact_ids)
        return all(self.shows(fact) for fact in facts if fact is not None)

    def get(self, record_id: str) -> Stored | None:
        """Return a record that the reader is shown, or None."""
        record = self.index.get(record_id) or self.older.get(record_id)
        return record if record is not None and self.shows(record) else None

    def only(self, records: Iterable[S]) -> list[S]:
        """Keep what the reader is shown."""
        return [record for record in records if self.shows(record)]

    def messages(self, ids: Collection[str]) -> list[Message]:
        """Return the messages of these ids that the reader is shown, in their order."""
        held = (self.index.messages.get(i) or self.older.get(i) for i in ids)
        found = [m for m in held if m is not None and self.shows(m)]
        return sorted(found, key=lambda m: m.sequence)

    def facts(self, ids: Iterable[str]) -> list[Fact]:
        """Return the Facts of these ids that the reader is shown."""
        held = (self.index.facts.get(fact_id) for fact_id in dict.fromkeys(ids))
        return [f for f in held if f is not None and self.shows(f)]
