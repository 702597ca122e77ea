"""When the memory asks the model: what waits, in which order, and what goes on by itself.

Two kinds of waiting. For a slot, and for a turn of the user, a request waits where it stands: that
is over in seconds. Where only time helps (requests a minute, tokens a day, a model that asks to
wait) it ends with `LimitReached`: its messages wait in the store, nothing is held or under way, and
a digest behind the turns is started again by the one timer here.

Everything but `own` runs on the worker's loop.
"""

import asyncio
import contextvars
import heapq
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from agently_gumem.budget.clock import Clock, Timer
from agently_gumem.budget.decide import Allowance, Holds, Limited, Rate, Turns, retry_after
from agently_gumem.budget.own import OwnTurns
from agently_gumem.config import Limits
from agently_gumem.errors import LimitReached

# Digests that are started again by themselves; each keeps its agent. What is over it is taken up
# by the user's next turn or by a sweep.
MOST_WAITING = 1_000
_WHY = {
    "requests_per_minute": "the model has had the requests of Limits(requests_per_minute=)",
    "tokens_per_user_day": "this user's memory has used Limits(tokens_per_user_day=)",
    "model": "the model refused (too many requests, or no service)",
}
Key = tuple[str, str, str]
"""User, space and session."""


@dataclass(eq=False)
class Permit:
    """What a digest behind the turns carries: it is let in before those that wait still."""

    moment: float | None = None
    """When its first request was counted; None where none was, or it has been sent."""
    first: bool = False
    """Whether its first request is let in already."""


_permit: contextvars.ContextVar[Permit | None] = contextvars.ContextVar("permit", default=None)


@dataclass(eq=False)
class Waiter:
    """A digest that waits for time to pass."""

    key: Key
    where: str
    limited: Limited
    resume: Callable[[Permit], None]


@dataclass(eq=False)
class Budget:
    """What all requests of one GUMem may use together."""

    limits: Limits
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.own = OwnTurns(lambda: self.clock)
        self.renew()

    def renew(self) -> None:
        """Begin anew, as in a forked child, where no request and no timer came along."""
        self.own.renew()
        self._rate = Rate(self.limits.requests_per_minute)
        self._tokens = Allowance(self.limits.tokens_per_user_day)
        self._holds = Holds()
        self._busy = 0
        self._permits = 0
        self._parked: Turns[asyncio.Future[None]] = Turns()
        self._parked_for: Counter[tuple[str, str]] = Counter()
        self._waiters: dict[Key, Waiter] = {}
        self._ready: Turns[Waiter] = Turns()
        self._later: list[tuple[float, int, Waiter]] = []
        self._number = itertools.count()
        self._timer: Timer | None = None
        self._timer_at: float | None = None

    # -- a request -------------------------------------------------------------------------------

    @asynccontextmanager
    async def slot(
        self, user_id: str, where: str, before: Callable[[], None]
    ) -> AsyncGenerator[None, None]:
        """Hold one of the slots for a request.

        Args:
            user_id: For whom it is.
            where: Address and name of the model.
            before: Called once it may be sent; where it raises, nothing is sent or counted.

        Raises:
            LimitReached: It may not be sent before some time has passed.
        """
        permit = _permit.get()
        if permit is not None:
            with self._noted(user_id, "own_turn"):
                await self.own.landed(user_id)
        self._check(user_id, where, permit)
        with self._noted(user_id, "concurrent"):
            await self._enter(user_id)
        try:
            # While it waited for the slot, the model may have refused another's.
            self._check(user_id, where, permit)
            before()
            if permit is None or permit.moment is None:
                self._rate.take(self.clock.seconds())
            self._used(permit)
            yield
        finally:
            self._leave()

    def spend(self, user_id: str, tokens: int) -> None:
        """Count the tokens of a request."""
        self._tokens.spend(user_id, tokens, self.clock.today())

    def refused(self, where: str, header: str | None) -> LimitReached:
        """Note that a model refused, and return the error that says until when it is not asked."""
        now = self.clock.seconds()
        told = retry_after(header, self.clock.today())
        limited = Limited("model", self._holds.refuse(where, told, now))
        return self._error(limited, where, refused=True)

    def answered(self, where: str) -> None:
        """Note that a model answered."""
        self._holds.answered(where, self.clock.seconds())

    def _limited(self, user_id: str, where: str, *, rate: bool = True) -> Limited | None:
        """Say why a request may not be sent now; None where it may."""
        now = self.clock.seconds()
        waits = {
            "model": self._holds.ready_at(where, now),
            "tokens_per_user_day": now + self._tokens.wait(user_id, self.clock.today()),
            "requests_per_minute": self._rate.ready_at(now) if rate else now,
        }
        limit = max(waits, key=lambda name: waits[name])
        return Limited(limit, waits[limit]) if waits[limit] > now else None

    def _check(self, user_id: str, where: str, permit: Permit | None) -> None:
        let_in = permit is not None and permit.first
        limited = self._limited(user_id, where, rate=not let_in)
        if limited is None and not let_in and self.limits.requests_per_minute and self._ready:
            # Others wait for the same: who comes later, or has had a turn, goes behind them.
            now = self.clock.seconds()
            limited = Limited("requests_per_minute", self._rate.ready_at(now))
        if limited is not None:
            raise self._error(limited, where)

    def _error(self, limited: Limited, where: str, *, refused: bool = False) -> LimitReached:
        seconds = max(0.0, limited.until - self.clock.seconds())
        why = f"{_WHY[limited.limit]}: it is not asked for {seconds:.0f} s, and what waits is kept"
        return LimitReached(why, limit=limited.limit, seconds=seconds, where=where, refused=refused)

    # -- slots -----------------------------------------------------------------------------------

    async def _enter(self, user_id: str) -> None:
        most = self.limits.concurrent
        if most is None or self._busy < most:
            self._busy += 1
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parked.push(user_id, future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._leave()  # it was given the slot, and takes it no more
            raise

    def _leave(self) -> None:
        """Give the slot to whoever waits for one, the users in turn."""
        while self._parked:
            future = self._parked.pop()
            if not future.done():
                future.set_result(None)
                return
        self._busy -= 1
        self._pump()

    @property
    def _room(self) -> bool:
        most = self.limits.concurrent
        return most is None or self._busy + len(self._parked) + self._permits < most

    # -- what waits for time to pass -------------------------------------------------------------

    @contextmanager
    def behind(self, permit: Permit) -> Generator[None, None, None]:
        """Mark the requests of a task as those of a digest behind the turns: nobody waits there."""
        _permit.set(permit)
        try:
            yield
        finally:
            if permit.moment is not None:
                self._rate.give_back(permit.moment)
            self._used(permit)
            self._pump()

    def wait(self, key: Key, error: LimitReached, resume: Callable[[Permit], None]) -> bool:
        """Start a digest again when the limit that it met allows it.

        Args:
            key: Whose digest it is; one that waits already is not doubled.
            error: Which limit, and until when.
            resume: Starts it, with a permit for its first request.

        Returns:
            Whether it waits; not where too many do.
        """
        if key in self._waiters:
            return True
        if len(self._waiters) >= MOST_WAITING:
            return False
        until = self.clock.seconds() + error.seconds
        waiter = Waiter(key, error.where, Limited(error.limit, until), resume)
        self._waiters[key] = waiter
        self._put(waiter)
        self._pump()
        return True

    def waits(self, key: Key) -> bool:
        """Tell whether a digest waits for time to pass."""
        return key in self._waiters

    def close(self) -> None:
        """Start nothing any more; what waits is in the store."""
        self._waiters.clear()
        self._later.clear()
        self._ready = Turns()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _put(self, waiter: Waiter) -> None:
        if waiter.limited.limit == "requests_per_minute":
            self._ready.push(waiter.key[0], waiter)
        else:
            heapq.heappush(self._later, (waiter.limited.until, next(self._number), waiter))

    def _pump(self) -> None:
        """Let in what may go on, the users in turn, and set the timer for the next."""
        now = self.clock.seconds()
        while self._later and self._later[0][0] <= now:
            waiter = heapq.heappop(self._later)[2]
            self._ready.push(waiter.key[0], waiter)
        while self._ready and self._room and self._rate.ready_at(now) <= now:
            waiter = self._ready.pop()
            limited = self._limited(waiter.key[0], waiter.where)
            if limited is not None:
                waiter.limited = limited
                self._put(waiter)
                continue
            del self._waiters[waiter.key]
            self._permits += 1
            self._rate.take(now)
            counted = now if self.limits.requests_per_minute else None
            waiter.resume(Permit(counted, first=True))
        self._set_timer()

    def _set_timer(self) -> None:
        moments = [self._later[0][0]] if self._later else []
        if self._ready and self._room:
            moments.append(self._rate.ready_at(self.clock.seconds()))
        at = min(moments, default=None)
        if self._timer is not None and at != self._timer_at:
            self._timer.cancel()
            self._timer = None
        if self._timer is None and at is not None:
            self._timer_at = at
            self._timer = self.clock.later(max(0.0, at - self.clock.seconds()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._pump()

    def _used(self, permit: Permit | None) -> None:
        if permit is not None and permit.first:
            permit.first, permit.moment = False, None
            self._permits -= 1

    # -- what is told ----------------------------------------------------------------------------

    def _noted(self, user_id: str, limit: str) -> "_Noted":
        return _Noted(self._parked_for, (user_id, limit))

    def waiting_for(
        self, user_id: str, space: str, session_id: str | None = None
    ) -> dict[str, Any] | None:
        """Say what a user's digests wait for, and when they go on; None where they do not wait."""
        for key, waiter in list(self._waiters.items()):
            if key[:2] == (user_id, space) and session_id in (None, key[2]):
                return self._told(waiter.limited)
        for limit in ("concurrent", "own_turn"):
            if self._parked_for[user_id, limit]:
                return {"limit": limit, "until": None}
        return None

    def _told(self, limited: Limited) -> dict[str, Any]:
        now = self.clock.seconds()
        until = max(limited.until, now)
        if limited.limit == "requests_per_minute":
            until = max(until, self._rate.ready_at(now))
        at = self.clock.today() + timedelta(seconds=until - now)
        return {"limit": limited.limit, "until": at.isoformat()}

    def status(self) -> dict[str, int]:
        """Count the requests that are sent, those that wait for a slot, and the waiting digests."""
        return {
            "requests": self._busy,
            "waiting_requests": len(self._parked),
            "waiting_digests": len(self._waiters),
        }


@dataclass
class _Noted:
    """Counts who waits, while it waits."""

    counts: Counter[tuple[str, str]]
    what: tuple[str, str]

    def __enter__(self) -> None:
        self.counts[self.what] += 1

    def __exit__(self, *_: object) -> None:
        self.counts[self.what] -= 1
        if not self.counts[self.what]:
            del self.counts[self.what]
