"""Say where a record comes from, and what became of it."""

from typing import Any, Protocol

from agently_gumem.errors import ConfigError, NotFound
from agently_gumem.govern.part import UserPart
from agently_gumem.records import Fact, Summary, Topic
from agently_gumem.text import fold
from agently_gumem.worker import awaitable, blocking


class HasId(Protocol):
    """A record, whatever its layer."""

    @property
    def id(self) -> str:
        """Its id."""
        ...


class Explaining(UserPart):
    """The part of a user's memory that says where things come from."""

    async def _explain(self, record: str | HasId) -> dict[str, Any]:
        """Say where a record comes from: Topic, Summaries, Facts, messages.

        Args:
            record: A record, or its id.

        Returns:
            The records behind it and above it, as `{"topic", "summaries", "facts", "messages"}`.

        Raises:
            ConfigError: It is neither.
            NotFound: This user has no such record.
        """
        record_id = getattr(record, "id", record)
        if not isinstance(record_id, str):
            raise ConfigError(f"explain takes a record or its id, not {type(record).__name__}")
        async with self._use() as scope:
            held = scope.index.get(record_id)
            if held is None:
                raise NotFound(f"no record {record_id!r} of user {self.user_id!r}")
            return _chain(scope.index, held)

    explain, async_explain = blocking(_explain), awaitable(_explain)


def _chain(index: Any, record: Any) -> dict[str, Any]:
    """Collect what stands behind and above a record."""
    facts: list[Fact] = []
    if isinstance(record, Fact):
        facts = [record]
    elif isinstance(record, Summary):
        facts = [index.facts[i] for i in record.source_facts if i in index.facts]
    elif isinstance(record, Topic):
        facts = [f for f in index.facts.values() if fold(f.topic) == fold(record.name)]
    else:
        facts = [f for f in index.facts.values() if record.id in f.source_message_ids]
    cited = {i for f in facts for i in f.source_message_ids} | {record.id}
    own = {f.id for f in facts}
    names = {fold(f.topic) for f in facts} | {fold(getattr(record, "topic", ""))}
    return {
        "topic": next((t for t in index.topics.values() if fold(t.name) in names), None),
        "summaries": [s for s in index.summaries.values() if own & set(s.source_facts)],
        "facts": facts,
        "messages": [m for m in index.messages.values() if m.id in cited],
    }
