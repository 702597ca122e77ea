"""What decides when the memory may ask the model: counts and times in, a moment out (pure).

Times are seconds of a clock that never goes back; only a day and an HTTP date are of the calendar.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Generic, TypeVar

from agently_gumem.records import aware

T = TypeVar("T")

MINUTE = 60.0
# A model that refuses and does not say until when: 2, 4, ... 64 seconds.
FIRST_HOLD, LONGEST_HOLD = 2.0, 64.0
# A server that says a week means that somebody has to look; asking once a day finds out.
LONGEST_TOLD = 86_400.0


@dataclass(frozen=True)
class Limited:
    """Why a request may not be sent now, and from when on it may."""

    limit: str
    """Name of the field of `Limits`, or "model": the model itself asked to wait."""
    until: float


@dataclass
class Rate:
    """A sliding window: at most `limit` requests in any 60 seconds; None: no limit."""

    limit: int | None
    taken: deque[float] = field(default_factory=deque[float])
    """When the newest requests began, at most `limit` of them."""

    def ready_at(self, now: float) -> float:
        """Return the moment from which one more may be sent; `now` where it may already."""
        if self.limit is None or len(self.taken) < self.limit:
            return now
        return max(now, self.taken[0] + MINUTE)

    def take(self, now: float) -> None:
        """Note that one is sent now."""
        if self.limit is not None:
            self.taken.append(now)
            if len(self.taken) > self.limit:
                self.taken.popleft()

    def give_back(self, moment: float) -> None:
        """Forget one that was noted at a moment and never sent."""
        if moment in self.taken:
            self.taken.remove(moment)


@dataclass
class Allowance:
    """Tokens of each user in a day of UTC; None: no limit. Only the present day is kept."""

    limit: int | None
    day: date = date.min
    spent: dict[str, int] = field(default_factory=dict[str, int])

    def spend(self, user_id: str, tokens: int, at: datetime) -> None:
        """Count tokens of a request."""
        if self.limit is None:
            return
        if self.day != at.date():
            self.day, self.spent = at.date(), {}
        self.spent[user_id] = self.spent.get(user_id, 0) + tokens

    def wait(self, user_id: str, at: datetime) -> float:
        """Return the seconds until the user may ask again: to the next midnight, or none."""
        if self.limit is None or self.day != at.date():
            return 0.0
        if self.spent.get(user_id, 0) < self.limit:
            return 0.0
        midnight = datetime.combine(self.day + timedelta(days=1), time(), timezone.utc)
        return (midnight - at).total_seconds()


@dataclass
class Holds:
    """Models that asked to wait, by address and name, and until when."""

    until: dict[str, float] = field(default_factory=dict[str, float])
    refused: dict[str, int] = field(default_factory=dict[str, int])
    """How often in a row, where a model did not say how long."""

    def refuse(self, where: str, told: float | None, now: float) -> float:
        """Note that a model refused; return until when it is not asked.

        A request that was on its way beside it may be refused with a shorter time, or none: what
        was said stays said.
        """
        held = self.ready_at(where, now)
        if told is None:
            if held > now:
                return held  # one refusal: several requests met it
            self.refused[where] = self.refused.get(where, 0) + 1
            times = min(self.refused[where] - 1, 10)
            told = min(FIRST_HOLD * float(2**times), LONGEST_HOLD)
        self.until[where] = max(held, now + told)
        return self.until[where]

    def answered(self, where: str, now: float) -> None:
        """Note that a model answered: the next refusal is the first again."""
        self.refused.pop(where, None)
        if self.ready_at(where, now) <= now:
            self.until.pop(where, None)

    def ready_at(self, where: str, now: float) -> float:
        """Return the moment from which the model may be asked; `now` where it may already."""
        return max(now, self.until.get(where, now))


def retry_after(value: str | None, at: datetime) -> float | None:
    """Read a `Retry-After` header, seconds or an HTTP date (RFC 9110, 10.2.3).

    Args:
        value: The header.
        at: The present moment.

    Returns:
        Seconds to wait, a day at most; None where there is none, or none that can be read.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_TOLD)
    try:
        told = aware(parsedate_to_datetime(text))
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max((told - at).total_seconds(), 0.0), LONGEST_TOLD)


class Turns(Generic[T]):
    """What waits, given out by user in turn: a user with many things holds up nobody."""

    def __init__(self) -> None:
        self._users: OrderedDict[str, deque[T]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def push(self, user_id: str, item: T) -> None:
        """Add one, behind the user's own and those of the users that wait already."""
        self._users.setdefault(user_id, deque()).append(item)
        self._count += 1

    def pop(self) -> T:
        """Take the first one of the user who waits longest; that user goes to the end."""
        user_id, own = self._users.popitem(last=False)
        item = own.popleft()
        if own:
            self._users[user_id] = own
        self._count -= 1
        return item
