"""Whose turn it is: what one at a time does for a user, in this process and in all of them.

In one process a lock orders all memories that are open in it. On a server a lease beside it orders
the processes: a row an epoch, which `add` gives to the first of all racers. Its holder shows that
it lives by a beat; who waits measures by its own clock how long the beat stood still, so that no
two clocks are compared. A holder that was taken over writes nothing: right before a write it looks
whether its epoch is still the last.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import threading
import time
import weakref
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass

from agently_gumem.errors import StoreError
from agently_gumem.store import ScopedStore, Standing
from agently_gumem.worker import Worker

_log = logging.getLogger("agently_gumem")
# Seconds between two looks at a turn that somebody has: the first, and the longest.
_FIRST_LOOK, _LONGEST_LOOK = 0.02, 0.5
# A beat comes so often within the time after which its holder counts as dead.
_BEATS = 3


class FairLock:
    """A lock for tasks of several loops, first come, first served; nobody's loop is blocked."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._waiting: deque[Future[None]] = deque()

    async def acquire(self) -> None:
        """Wait for the lock; a cancelled wait gives it on."""
        turn: Future[None] = Future()
        with self._guard:
            if not self._held:
                self._held = True
                return
            self._waiting.append(turn)
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            if not turn.cancel():  # it was given already
                self.release()
            raise

    def release(self) -> None:
        """Give the lock to the first of those who still wait."""
        with self._guard:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            self._held = False


class _Locks:
    """The locks of this process, by scope and name."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: weakref.WeakValueDictionary[tuple[str, str], FairLock] = (
            weakref.WeakValueDictionary()
        )

    def of(self, scope: str, name: str) -> FairLock:
        """Return the one lock of that name; a scope's key is the same for whoever opens it."""
        with self._guard:
            return self._locks.setdefault((scope, name), FairLock())


_locks = _Locks()
if hasattr(os, "register_at_fork"):  # not on Windows
    # Who held a lock in the parent does not run in the child.
    os.register_at_fork(after_in_child=_locks.__init__)


@dataclass
class Watch:
    """How long the beat of a holder stood still, by the clock of who watches (pure)."""

    seconds: float
    """After which the holder counts as dead."""
    _seen: tuple[int, int] | None = None
    _since: float = 0.0

    def is_over(self, standing: Standing, moment: float) -> bool:
        """Tell whether the turn may be taken: it is free, or its holder dead."""
        seen = (standing.epoch, standing.beat)
        if seen != self._seen:
            self._seen, self._since = seen, moment
        return standing.free or moment - self._since >= self.seconds


class Lease:
    """The turn of this process among others, kept in the store.

    Args:
        rows: The user.
        name: What it is for.
        seconds: Without a sign of life, after which the turn is taken from its holder.
        worker: Runs what blocks.
    """

    def __init__(self, rows: ScopedStore, name: str, seconds: float, worker: Worker) -> None:
        self._rows = rows
        self._name = name
        self._seconds = seconds
        self._worker = worker
        self._next: int | None = None
        """The epoch after our own last, as long as nobody is known to have had it."""
        self._beats: asyncio.Task[None] | None = None
        self.epoch: int | None = None
        """Of the turn that is held."""

    async def acquire(self) -> None:
        """Wait for the turn.

        Raises:
            StoreError: The store can't be asked.
        """
        watch, holder, pause = Watch(self._seconds), secrets.token_hex(8), _FIRST_LOOK
        ask = self._worker.thread
        epoch, self._next = self._next, None
        while True:
            if epoch is None:
                standing = await ask(self._rows.standing, self._name)
            else:
                standing = await self._taken(epoch, holder)
                if (standing.epoch, standing.holder) == (epoch, holder):
                    break
            epoch = _next_epoch(standing, watch)
            if epoch is None:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_LOOK, self._seconds / _BEATS)
        self.epoch = epoch
        self._beats = self._worker.spawn(self._beating(epoch))

    async def _taken(self, epoch: int, holder: str) -> Standing:
        """Take a turn, or see who has it; what is taken for a caller that gave up is given on."""
        taking = _Taking(self._rows, self._name, epoch, holder)
        try:
            return await self._worker.thread(taking.take)
        except asyncio.CancelledError:
            if taking.give_up():
                self._worker.spawn(self._give_on(epoch))
            raise

    async def _give_on(self, epoch: int) -> None:
        with contextlib.suppress(StoreError):  # then it ends by itself, without a beat
            await self._worker.thread(self._rows.end_turn, self._name, epoch)

    async def release(self) -> None:
        """Give the turn on; where the store can't be reached it ends by itself."""
        epoch, self.epoch = self.epoch, None
        if self._beats is not None:
            self._beats.cancel()
        if epoch is None:
            return
        try:
            await self._worker.thread(self._rows.end_turn, self._name, epoch)
        except StoreError as error:
            _log.warning("a turn was not given free: %s", type(error).__name__)
        else:
            self._next = epoch + 1

    def lose(self) -> None:
        """Note that another process has the turn now."""
        self.epoch = None

    async def _beating(self, epoch: int) -> None:
        beat = 0
        while self.epoch == epoch:
            await asyncio.sleep(self._seconds / _BEATS)
            beat += 1
            # A server that can't be reached now is asked again; and before a write in any case.
            with contextlib.suppress(StoreError):
                if not await self._worker.thread(self._rows.keep_turn, self._name, epoch, beat):
                    return  # who writes next looks, finds it lost, and decides anew


class _Taking:
    """A turn that is being taken in a thread, which ends also where its caller's loop does not."""

    def __init__(self, rows: ScopedStore, name: str, epoch: int, holder: str) -> None:
        self._rows = rows
        self._name = name
        self._own = (epoch, holder)
        self._guard = threading.Lock()
        self._got = self._given_up = False

    def take(self) -> Standing:
        """Take it, and give it on at once where nobody waits for it any more."""
        standing = self._rows.take_turn(self._name, *self._own)
        with self._guard:
            self._got = (standing.epoch, standing.holder) == self._own
            unwanted = self._got and self._given_up
        if unwanted:
            self._rows.end_turn(self._name, standing.epoch)
        return standing

    def give_up(self) -> bool:
        """Wait no longer; tell whether the turn was got by then, which the caller gives on."""
        with self._guard:
            self._given_up = True
            return self._got


def _next_epoch(standing: Standing | None, watch: Watch) -> int | None:
    """Say which epoch may be taken now; None while somebody has the turn (pure but for time)."""
    if standing is None:
        return 1
    return standing.epoch + 1 if watch.is_over(standing, time.monotonic()) else None


class Turn:
    """One at a time: `async with`; a lock in this process, and on a server a lease as well.

    Args:
        rows: The user.
        name: What it is for.
        lease: Whether other processes take part; None where they don't.
    """

    def __init__(self, rows: ScopedStore, name: str, lease: Lease | None = None) -> None:
        self.name = name
        self._lock = _locks.of(rows.key, name)
        self._lease = lease
        self._entered = False
        self.waits = False
        """Whether another process has the turn that is waited for."""

    @property
    def epoch(self) -> int | None:
        """Of the lease that is held; None where none is."""
        return self._lease.epoch if self._lease is not None else None

    @property
    def lost(self) -> bool:
        """Whether another process took it over from who is in it."""
        return self._entered and self._lease is not None and self._lease.epoch is None

    def lose(self) -> None:
        """Note that another process has it now."""
        if self._lease is not None:
            self._lease.lose()

    @property
    def state(self) -> str:
        """Say how it stands: "free", "held" or "lost" here, or "waiting" for another process."""
        if self.waits:
            return "waiting"
        if self.lost:
            return "lost"
        return "held" if self._entered else "free"

    async def __aenter__(self) -> "Turn":
        await self._lock.acquire()
        try:
            if self._lease is not None:
                self.waits = True
                await self._lease.acquire()
        except BaseException:
            self._lock.release()
            raise
        finally:
            self.waits = False
        self._entered = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._entered = False
        try:
            if self._lease is not None:
                await self._lease.release()
        finally:
            self._lock.release()
