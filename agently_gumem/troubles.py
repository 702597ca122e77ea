"""What went wrong last, and when to try again: kinds and counts, never a text."""

from collections import Counter
from dataclasses import dataclass, field

from agently_gumem.records import now


@dataclass
class Troubles:
    """What went wrong last, and how often: for `status()`."""

    counts: Counter[str] = field(default_factory=Counter[str])
    last: dict[str, str] | None = None

    def note(self, what: str, error: BaseException) -> None:
        """Keep the kind of a failure, never its text, which may quote the user."""
        self.counts[what] += 1
        self.last = {"what": what, "error": type(error).__name__, "at": now().isoformat()}


@dataclass
class Backoff:
    """After a failed digest the next attempt waits 2, 4, ... 32 turns."""

    failures: int = 0
    turns_left: int = 0

    def failed(self) -> None:
        """Wait longer."""
        self.failures += 1
        self.turns_left = min(2**self.failures, 32)

    def succeeded(self) -> None:
        """Wait no more."""
        self.failures = self.turns_left = 0

    def turn(self) -> None:
        """Count a turn of the user."""
        self.turns_left = max(0, self.turns_left - 1)
