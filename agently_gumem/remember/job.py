"""What a digest takes and gives; its stages are loaded with the first one.

They hold half of the package's patterns and a quarter of what its import costs, and a turn needs
none of them.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from agently_gumem.errors import LimitReached
from agently_gumem.model import spending
from agently_gumem.scope import Scope


@dataclass
class DigestReport:
    """What one digest did."""

    messages: int = 0
    """Messages that became processed."""
    new: int = 0
    superseded: int = 0
    summaries: int = 0
    memo_changed: bool = False
    dropped: Counter[str] = field(default_factory=Counter[str])
    """Drafts that were no Facts, and parts of answers that were refused, by reason."""
    error: str = ""
    """Why it ended early; what waits is taken up by the next."""
    limited: LimitReached | None = None
    """The limit that Summaries or the memo have to wait for; what is new is stored."""

    def payload(self) -> dict[str, Any]:
        """Return it as the payload of an event."""
        told = {name: value for name, value in vars(self).items() if name != "limited"}
        return {**told, "dropped": dict(self.dropped)}


@dataclass(frozen=True)
class Job:
    """What a digest takes, and how it asks."""

    session_id: str | None = None
    """Only messages of this session and of sessions that nobody has open; None: of all."""
    ids: frozenset[str] | None = None
    """Only these messages, where that is settled already."""
    agent: Any | None = None
    retry_failed: bool = False
    asked_by: str = ""
    """The session that asks for it, for who is told; empty where none does."""


async def digest(scope: Scope, job: Job) -> DigestReport:
    """Digest all that waits, and tell what came of it; see `remember.digest.digest`."""
    from agently_gumem.remember import digest as stages

    began = time.monotonic()
    asked_by = job.asked_by or job.session_id or ""
    with spending() as spent:
        try:
            report = await stages.digest(scope, job)
        except Exception as error:
            if not isinstance(error, LimitReached) or error.refused:  # to wait is no failure
                _tell_failed(scope, asked_by, "digest", type(error).__name__)
            raise
    waits = report.limited is not None and not report.limited.refused
    if report.error and not waits:
        _tell_failed(scope, asked_by, "summarize", report.error)
    if report.messages or report.summaries or report.memo_changed:
        cost = {
            "seconds": time.monotonic() - began,
            "requests": len(spent),
            "tokens_in": sum(use.tokens_in for use in spent),
            "tokens_out": sum(use.tokens_out for use in spent),
        }
        told = {**report.payload(), **cost}
        scope.tell("digested", told, asked_by)
    return report


def _tell_failed(scope: Scope, asked_by: str, what: str, error: str) -> None:
    scope.tell("failed", {"what": what, "error": error}, asked_by, warning=True)


async def rebuild_memo(scope: Scope, agent: Any | None) -> DigestReport:
    """Write the memo anew; see `remember.digest.rebuild_memo`."""
    from agently_gumem.remember import digest as stages

    return await stages.rebuild_memo(scope, agent)


def waiting_ids(scope: Scope, session_id: str | None) -> frozenset[str]:
    """Name what a digest of a session takes: its own, and what closed sessions left behind."""
    return frozenset(
        m.id
        for m in scope.waiting()
        if session_id in (None, m.session_id) or not scope.is_open(m.session_id)
    )
