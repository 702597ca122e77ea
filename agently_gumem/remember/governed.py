"""What an operator decided about Summaries, kept by what a digest writes (pure)."""

from collections.abc import Iterable, Mapping

from agently_gumem.records import Summary, noted
from agently_gumem.rows import Kept
from agently_gumem.text import fold

_MOST_LABELS = 12


def shown_to_model(previous: Summary | None) -> str:
    """Return what a request for a Summary shows of the one before: of one put away, nothing."""
    if previous is None or previous.memory_status in ("archived", "deleted"):
        return ""
    return previous.content


def as_governed(records: Iterable[Kept], held: Mapping[str, Summary]) -> list[Kept]:
    """Bring Summaries that a digest writes up to what an operator decided meanwhile.

    Args:
        records: What the digest writes; its copies are as old as its request.
        held: The Summaries as they are stored now.
    """
    return [_governed(r, held) if isinstance(r, Summary) else r for r in records]


def _governed(record: Summary, held: Mapping[str, Summary]) -> Summary:
    known = held.get(record.id)
    if known is None:
        return _heir(record, held.values())
    # One that was called invalid stays so, also where the model writes the same text once more.
    validity = "invalid" if known.validity == "invalid" else record.validity
    changed = {"topic": record.topic, "validity": validity, "updated_at": record.updated_at}
    present = known.model_copy(update=changed)
    if validity == known.validity:
        return present
    what = "created" if validity == "active" else "retired"
    return noted(present, at=record.updated_at, what=what, reason="summarised anew")


def _heir(record: Summary, held: Iterable[Summary]) -> Summary:
    """Hand weight, labels and "deprioritized" down; "archived" and "deleted" stay behind."""
    alike = [s for s in held if fold(s.topic) == fold(record.topic)]
    before = max(alike, key=lambda s: s.created_at, default=None)
    if before is None:
        return record
    labels = [*dict.fromkeys([*before.labels, *record.labels])][:_MOST_LABELS]
    status = before.memory_status if before.memory_status == "deprioritized" else "active"
    return record.model_copy(
        update={
            "labels": labels,
            "memory_status": status,
            "retrieval_boost": before.retrieval_boost,
            "decay_factor": before.decay_factor,
        }
    )
