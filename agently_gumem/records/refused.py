"""What of a user's records must not be read or written: it was forgotten, or rests on that (pure).

Another process, or a digest that was under way, can write what it knew before.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from agently_gumem.records.fact import Fact, Summary, Topic
from agently_gumem.records.memo import MemoState
from agently_gumem.records.message import Message
from agently_gumem.records.placeholders import EMPTIED

Stored: TypeAlias = Message | Fact | Summary | Topic


@dataclass(frozen=True)
class Refusal:
    """What is known to be forgotten."""

    gone: Callable[[str], bool]
    """Tells of an id that its record was forgotten."""
    uncut: Callable[[Message], str]
    """Tells of a message that it holds text that was cut out of it: what it is known by then."""


@dataclass
class Let:
    """What may come in, and what is left over."""

    records: list[Stored] = field(default_factory=list[Stored])
    unwanted: list[Stored] = field(default_factory=list[Stored])
    """Records that must not be there at all."""
    emptied: list[Message] = field(default_factory=list[Message])
    """Messages that came with text that was cut: they stay as sources, without any."""


def let_in(records: Sequence[Stored], refusal: Refusal) -> Let:
    """Part what may be kept from what was forgotten or rests on nothing else.

    Args:
        records: Of any layers.
        refusal: What is known to be forgotten.

    Returns:
        A Fact that lost some of its sources is without them; one that lost all is unwanted, and so
        is a Summary that tells it.
    """
    found = Let()
    lost: set[str] = set()
    for record in records:
        if isinstance(record, Summary):
            continue
        kept = _kept(record, refusal)
        if kept is None:
            lost.add(record.id)
            found.unwanted.append(record)
        else:
            found.records.append(kept)
            if kept is not record and isinstance(kept, Message):
                found.emptied.append(kept)
    for record in records:
        if isinstance(record, Summary):
            told = [record.id, *record.source_facts]
            out = any(i in lost or refusal.gone(i) for i in told)
            (found.unwanted if out else found.records).append(record)
    _drop_bare(found)
    return found


def _drop_bare(found: Let) -> None:
    """Take out the Topics that only unwanted records stood under."""
    under = {r.topic for r in found.unwanted if isinstance(r, Fact | Summary)}
    under -= {r.topic for r in found.records if isinstance(r, Fact | Summary)}
    bare = [r for r in found.records if isinstance(r, Topic) and r.name in under]
    found.unwanted += bare
    out = {topic.id for topic in bare}
    found.records = [r for r in found.records if r.id not in out]


def _kept(record: Stored, refusal: Refusal) -> Stored | None:
    if isinstance(record, Topic):
        return record
    if refusal.gone(record.id):
        return None
    if isinstance(record, Message) and (said := refusal.uncut(record)):
        return record.model_copy(
            update={
                "content": EMPTIED,
                "said": said,
                "page": "",
                "anchors": dict[str, str](),
                "metadata": dict[str, str](),
            }
        )
    if isinstance(record, Fact):
        left = [i for i in record.source_message_ids if not refusal.gone(i)]
        if not left:
            return None
        if len(left) < len(record.source_message_ids):
            return record.model_copy(update={"source_message_ids": left})
    return record


def memo_without(memo: MemoState, lost: Callable[[str], bool]) -> MemoState:
    """Return a memo without the keys that rest on a Fact that was forgotten, for a rebuild."""
    out = {key for key, ids in memo.facts.items() if any(map(lost, ids))}
    if not out:
        return memo
    return memo.for_rebuild(
        value={k: v for k, v in memo.value.items() if k not in out},
        facts={k: ids for k, ids in memo.facts.items() if k not in out},
    )


def ids_of(records: Iterable[Stored]) -> list[tuple[str, str]]:
    """Name records by layer and id."""
    return [(type(record).__name__.lower(), record.id) for record in records]
