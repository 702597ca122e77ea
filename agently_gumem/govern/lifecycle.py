"""Govern a Summary: how much it counts, whether it is shown, whether it holds."""

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, cast

from pydantic import ValidationError

from agently_gumem.errors import ConfigError, NotFound
from agently_gumem.govern.part import UserPart
from agently_gumem.records import Summary, noted, now
from agently_gumem.remember.cleaning import Cleaner
from agently_gumem.scope import Outdated, Scope
from agently_gumem.text import fold
from agently_gumem.worker import awaitable, blocking


class Governing(UserPart):
    """The part of a user's memory in which an operator governs Summaries."""

    async def _update_summary(
        self,
        summary_id: str,
        *,
        memory_status: str | None = None,
        retrieval_boost: float | None = None,
        decay_factor: float | None = None,
        validity: str | None = None,
        labels: Sequence[str] | None = None,
        confidence: float | None = None,
        reason: str = "",
    ) -> Summary:
        """Change how a Summary is treated; what it says is changed by a correction, never here.

        Args:
            summary_id: The Summary.
            memory_status: "active"; "deprioritized": recalled after all others; "archived":
                recalled only where that is asked for; "deleted": not shown any more. The bytes of
                a deleted one go with `forget(summary_ids=[...], erase=True)`.
            retrieval_boost: Its weight in ranking; 1 is neutral.
            decay_factor: How much of that is lost a day; 0 keeps all.
            validity: "active", "deprecated" or "invalid"; of an invalid one the Topic's Facts are
                summarised anew.
            labels: All of its labels, in place of those that it has.
            confidence: From 0 to 1.
            reason: Noted in its history, beside what changed.

        Returns:
            The Summary as it is now. The next one of its Topic takes over boost, decay, labels
            and "deprioritized".

        Raises:
            ConfigError: Nothing is to be changed, or a value is wrong.
            NotFound: This user has no such Summary.
            StoreError: Nothing was written.
        """
        given: dict[str, Any] = {
            "memory_status": memory_status,
            "retrieval_boost": retrieval_boost,
            "decay_factor": decay_factor,
            "validity": validity,
            "labels": labels,
            "confidence": confidence,
        }
        wanted = {name: value for name, value in given.items() if value is not None}
        if not wanted:
            raise ConfigError(f"update_summary takes one of {', '.join(given)} at least")
        async with self._use() as scope:
            clean = Cleaner(scope.services.select)
            wanted, why = await scope.services.worker.thread(clean.data, [wanted, reason])
            while True:
                # With the lock under which a digest writes Summaries; another process's is seen.
                with contextlib.suppress(Outdated):
                    async with scope.journal_lock:
                        return await _update(scope, summary_id, wanted, why)

    update_summary, async_update_summary = blocking(_update_summary), awaitable(_update_summary)


async def _update(scope: Scope, summary_id: str, wanted: dict[str, Any], why: str) -> Summary:
    """Write a Summary with other values.

    Raises:
        NotFound: There is none of that id.
        ConfigError: A value is wrong.
        Outdated: Something else was written meanwhile; nothing was written.
    """
    seen, held = scope.generation, scope.index.summaries.get(summary_id)
    if held is None:
        raise NotFound(
            f"no Summary {summary_id!r} of user {scope.user_id!r} in space {scope.space!r}"
        )
    changed = updated(held, wanted, why)
    if wanted.get("validity") == "active":
        _check_alone(changed, list(scope.index.summaries.values()))
    if changed != held:
        await scope.write([changed], seen=seen)
    return changed


def updated(summary: Summary, wanted: dict[str, Any], reason: str) -> Summary:
    """Return a Summary with other values and the change noted (pure); as it is where none differs.

    Raises:
        ConfigError: A value is wrong; names it.
    """
    values = {name: _checked(summary, name, value) for name, value in wanted.items()}
    different = {n: v for n, v in values.items() if v != getattr(summary, n)}
    if not different:
        return summary
    told = [f"{n}: {getattr(summary, n)!r} -> {v!r}" for n, v in different.items()]
    moment = now()
    changed = summary.model_copy(update={**different, "updated_at": moment})
    why = "; ".join([*told, *([reason] if reason else [])])
    return noted(changed, at=moment, what="updated", actor="operator", reason=why)


def _checked(summary: Summary, name: str, value: Any) -> Any:
    """Check one value as the field of a Summary.

    Raises:
        ConfigError: The field can't hold it.
    """
    listed = isinstance(value, list | tuple | set | frozenset)
    given = list(cast("Iterable[Any]", value)) if name == "labels" and listed else value
    try:
        return getattr(Summary.model_validate({**summary.model_dump(), name: given}), name)
    except ValidationError as error:
        said = "; ".join(fault["msg"] for fault in error.errors(include_url=False))
        raise ConfigError(f"update_summary: {name}={value!r}: {said}") from error


def _check_alone(summary: Summary, others: Sequence[Summary]) -> None:
    """Refuse a second active Summary of a Topic: a recall would show both.

    Raises:
        ConfigError: There is one; names it.
    """
    for other in others:
        alike = fold(other.topic) == fold(summary.topic) and other.id != summary.id
        if alike and other.validity == "active":
            raise ConfigError(
                f"update_summary: validity='active', but {other.id!r} is the active Summary of "
                "this Topic: make that one deprecated first"
            )
