"""All that is stored of a user, also past what the index of a large user holds."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from agently_gumem.records import Fact, MemoState, Message, Summary, Topic, shown_to
from agently_gumem.records.fact import hidden_topics
from agently_gumem.rows import Kept, from_row
from agently_gumem.scope import Scope
from agently_gumem.text import fold


async def older_messages(scope: Scope) -> list[Message]:
    """Read the messages that the index leaves out, past its limit; oldest first.

    Raises:
        StoreError: The store can't be read.
    """
    if not scope.left_out:
        return []
    return await scope.services.worker.thread(_read, scope, scope.left_out)


def _read(scope: Scope, wanted: frozenset[str]) -> list[Message]:
    rows = (row for row in scope.rows.load() if row.layer == "message" and row.id in wanted)
    found = (from_row(row) for row in rows)
    return sorted((m for m in found if isinstance(m, Message)), key=lambda m: m.sequence)


def all_records(scope: Scope, older: list[Message]) -> Iterator[Kept]:
    """Go through the records in the order in which they are read: the raw layer comes last."""
    index = scope.index
    yield from sorted(index.topics.values(), key=lambda t: (t.name, t.id))
    yield from sorted(index.summaries.values(), key=lambda s: (s.created_at, s.id))
    yield from sorted(index.facts.values(), key=lambda f: (f.created_at, f.id))
    yield from sorted([*older, *index.messages.values()], key=lambda m: (m.sequence, m.id))


def split(
    records: Sequence[Kept], labels: frozenset[str], moment: datetime | None = None
) -> tuple[list[Kept], dict[str, int]]:
    """Take out what a reader of these labels is not shown, and what tells it (pure).

    Returns:
        The rest, and how many were taken out, by label.
    """
    hidden: set[str] = set()
    withheld: Counter[str] = Counter()
    for record in records:
        if isinstance(record, Message | Fact) and not shown_to(record, labels, moment):
            hidden.add(record.id)
            withheld.update(record.access)
    facts = [r for r in records if isinstance(r, Fact)]
    names = hidden_topics(facts, lambda fact: fact.id not in hidden)
    hidden |= {r.id for r in records if isinstance(r, Topic) and fold(r.name) in names}
    for record in records:
        if isinstance(record, Summary) and hidden.intersection(record.source_facts):
            hidden.add(record.id)
    return [r for r in records if r.id not in hidden], dict(withheld)


def shown_memo(memo: MemoState, records: Sequence[Kept], shown: Sequence[Kept]) -> MemoState:
    """Leave out the keys of the memo that rest on what is not shown (pure)."""
    hidden = {r.id for r in records} - {r.id for r in shown}
    keys = [k for k in memo.value if not hidden.intersection(memo.facts.get(k, ()))]
    return memo.model_copy(
        update={
            "value": {k: memo.value[k] for k in keys},
            "facts": {k: memo.facts[k] for k in keys if k in memo.facts},
        }
    )
