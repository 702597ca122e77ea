"""What was sent to which webhook, about which user, and when: counts, never what was sent."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import ValidationError

from agently_gumem.errors import StoreError
from agently_gumem.records import Moment, Record

# So many users are held whose counts are stored already; they are loaded again with the user.
_MOST_USERS = 10_000


class Delivery(Record):
    """What one webhook got of one resource of a user, so far."""

    hook: str
    """Its name."""
    url: str
    """Where it went, without credentials and query."""
    resource: str
    """message, fact, summary, topic or recall."""
    count: int
    """Requests."""
    first: Moment
    last: Moment

    @property
    def key(self) -> tuple[str, str, str]:
        """What is counted together."""
        return self.hook, self.url, self.resource


@dataclass(frozen=True)
class _Line:
    told: Delivery
    unsaved: int
    """How many of its count no row holds yet."""


class Deliveries:
    """The deliveries of each user and space, in this process and, once loaded, those before it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: dict[tuple[str, str], dict[tuple[str, str, str], _Line]] = {}

    def renew(self) -> None:
        """Let go of a lock that a forked child inherits."""
        self._lock = threading.Lock()

    def note(
        self, whose: tuple[str, str], hook: str, url: str, resource: str, at: datetime
    ) -> None:
        """Count one request about a user, given as user id and space."""
        one = Delivery(hook=hook, url=url, resource=resource, count=1, first=at, last=at)
        with self._lock:
            lines = self._users.setdefault(whose, {})
            held = lines.get(one.key)
            if held is not None:
                told = {"count": held.told.count + 1, "last": at}
                lines[one.key] = _Line(held.told.model_copy(update=told), held.unsaved + 1)
            else:
                lines[one.key] = _Line(one, 1)
            self._users[whose] = self._users.pop(whose)
            self._let_go()

    def of(self, whose: tuple[str, str]) -> list[Delivery]:
        """List what was sent about a user, the last first."""
        with self._lock:
            told = [line.told for line in self._users.get(whose, {}).values()]
        return sorted(told, key=lambda d: d.last, reverse=True)

    def unsaved(self, whose: tuple[str, str]) -> list[Delivery]:
        """List what changed since it was stored."""
        with self._lock:
            return [line.told for line in self._users.get(whose, {}).values() if line.unsaved]

    def saved(self, whose: tuple[str, str], stored: Sequence[Delivery]) -> None:
        """Note that these are stored as they are given."""
        with self._lock:
            lines = self._users.get(whose, {})
            for one in stored:
                if (held := lines.get(one.key)) is not None:
                    rest = max(0, held.told.count - one.count)
                    lines[one.key] = replace(held, unsaved=min(held.unsaved, rest))

    def load(self, whose: tuple[str, str], document: str) -> None:
        """Take in a stored row; what this process has not stored yet is counted on top.

        Raises:
            StoreError: The row can't be read.
        """
        try:
            stored = Delivery.model_validate_json(document)
        except ValidationError as error:
            raise StoreError(
                f"a row of what was sent can't be read: {error.error_count()}"
            ) from None
        with self._lock:
            lines = self._users.setdefault(whose, {})
            held = lines.get(stored.key)
            if held is None:
                lines[stored.key] = _Line(stored, 0)
                return
            told = {
                "count": stored.count + held.unsaved,
                "first": min(stored.first, held.told.first),
                "last": max(stored.last, held.told.last),
            }
            lines[stored.key] = _Line(stored.model_copy(update=told), held.unsaved)

    def forget(self, whose: tuple[str, str]) -> None:
        """Drop what is held of a user."""
        with self._lock:
            self._users.pop(whose, None)

    def _let_go(self) -> None:
        for whose in list(self._users)[: max(0, len(self._users) - _MOST_USERS)]:
            if not any(line.unsaved for line in self._users[whose].values()):
                del self._users[whose]
