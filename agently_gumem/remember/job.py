"""What a digest takes and gives; its stages are loaded with the first one.

They hold half of the package's patterns and a quarter of what its import costs, and a turn needs
none of them.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

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

    def payload(self) -> dict[str, Any]:
        """Return it as the payload of an event."""
        return {**vars(self), "dropped": dict(self.dropped)}


@dataclass(frozen=True)
class Job:
    """What a digest takes, and how it asks."""

    session_id: str | None = None
    """Only messages of this session and of sessions that nobody has open; None: of all."""
    ids: frozenset[str] | None = None
    """Only these messages, where that is settled already."""
    agent: Any | None = None
    retry_failed: bool = False


async def digest(scope: Scope, job: Job) -> DigestReport:
    """Digest all that waits; see `remember.digest.digest`."""
    from agently_gumem.remember import digest as stages

    return await stages.digest(scope, job)


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
