"""Requests under way on one agent, and whether turns of two users overlap.

Agently mixes the histories of two sessions whose turns overlap on one agent: the answer is recorded
in the session that is active when it comes.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# A request that was left without an end (a generator that was closed early) counts as over then;
# sooner where the task that carried it is done. An answer is recorded some milliseconds after that,
# and a failed request ends in the same way: until then it may still be recorded.
FORGOTTEN_AFTER = 600.0
RECORDED_WITHIN = 2.0

WHY = (
    "turns of two users overlap on one agent, which mixes their histories: nothing of them is kept "
    "or recalled; use one agent a user"
)
Owner = tuple[str, str]


@dataclass
class _Flight:
    """A request under way: for whom, what it asks, and when the task that carried it was done."""

    owner: Owner
    asked: str
    began: float
    clock: Callable[[], float]
    done: float | None = None

    def carried(self, task: "asyncio.Task[Any]") -> None:
        # Not by `exception()`: asyncio then says no more of an error that nobody takes.
        failed = task.cancelled() or getattr(task, "_exception", None) is not None
        # What failed is not recorded any more.
        self.done = -FORGOTTEN_AFTER if failed else self.clock()

    def over(self) -> bool:
        now = self.clock()
        lost = self.done is not None and now - self.done > RECORDED_WITHIN
        return lost or now - self.began > FORGOTTEN_AFTER

    def told_from(self, asked: str) -> bool:
        """Tell whether its record would be known as its own beside that of another question.

        Only once the model has answered or failed: then nothing but the record can come of it.
        """
        return self.done is not None and self.asked not in asked and asked not in self.asked


class Flights:
    """The requests of one agent; once two users overlap, until the last of them has landed.

    Told and asked from any thread: the callers' loops, and the worker's.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._flights: list[_Flight] = []
        self._overlap = ""
        self._pid = os.getpid()
        self._lock = threading.RLock()

    @property
    def _alone(self) -> threading.RLock:
        """The lock; in a forked child a new one, and what flies in the parent does not land."""
        if self._pid != os.getpid():
            self._lock, self._flights, self._pid = threading.RLock(), [], os.getpid()
        return self._lock

    def take_off(self, owner: Owner, asked: str = "", *, active: Owner | None = None) -> None:
        """Note a request of a user and space, in the task that carries it.

        Args:
            owner: Whose it is.
            asked: What will be recorded of its question; empty where that is not known.
            active: Whose session is active by now, where that is another's.
        """
        flight = _Flight(owner, asked, self._clock(), self._clock)
        if (task := asyncio.current_task()) is not None:
            task.add_done_callback(flight.carried)
        with self._alone:
            self._settle()
            others = [f for f in self._flights if f.owner != owner]
            self._flights.append(flight)
            if active not in (None, owner) or any(not f.told_from(asked) for f in others):
                self._overlap = WHY

    def strayed(self, owner: Owner, recorded: str) -> bool:
        """Tell whether what is recorded for an owner was asked by another.

        Args:
            owner: Whose session it came into.
            recorded: The question that was recorded.
        """
        with self._alone:
            self._settle()
            others = any(f.owner != owner for f in self._flights)
            own = (f for f in self._flights if f.owner == owner)
            return others and not any(f.asked in recorded for f in own)

    def land(self, owner: Owner, recorded: str = "") -> None:
        """Note that a turn was answered and recorded, as one of this user and space."""
        with self._alone:
            own = [f for f in self._flights if f.owner == owner]
            matching = [f for f in own if f.asked in recorded]
            landed = next(iter([*matching, *own, *self._flights]), None)
            if landed is not None:
                self._flights.remove(landed)
                # Retries and rounds of one question land once, together.
                self._flights = [f for f in self._flights if f.done is None or not _same(f, landed)]
            self._settle()

    def overlapping(self) -> str:
        """Say why nothing may be read or kept now; empty where it may."""
        with self._alone:
            self._settle()
            return self._overlap

    def _settle(self) -> None:
        self._flights = [f for f in self._flights if not f.over()]
        if not self._flights:
            self._overlap = ""


def _same(one: _Flight, other: _Flight) -> bool:
    return (one.owner, one.asked) == (other.owner, other.asked)
