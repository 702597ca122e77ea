"""Requests under way on one agent, and whether turns of two users overlap.

Agently mixes the histories of two sessions whose turns overlap on one agent: the answer is recorded
in the session that is active when it comes.
"""

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# A request that was left without an end (a generator that was closed early) keeps nobody's memory
# off after that; sooner where the task that carried it is done, since an answer begins to be
# recorded some milliseconds later. As long as somebody holds the request its record may still come,
# such as that of a stream whose reader pauses: then it counts again.
FORGOTTEN_AFTER = 600.0
RECORDED_WITHIN = 10.0
# Seconds that the record of an answer takes at most, with our work of two messages in it; sooner
# over where the task that records it is done, as when another handler has raised there.
LANDED_WITHIN = 120.0

WHY = (
    "turns of two users overlap on one agent, which mixes their histories: nothing of them is kept "
    "or recalled; use one agent a user"
)
Owner = tuple[str, str]


@dataclass(eq=False)
class _Flight:
    """A request under way: which and whose it is, what it asks, and how far it came."""

    request: weakref.ref[object]
    owner: Owner
    asked: str
    clock: Callable[[], float]
    until: float
    """It keeps nobody's memory off after that."""
    done: bool = False
    """The task that carried it is."""
    landing: bool = False

    def carried(self, task: "asyncio.Task[Any]") -> None:
        self.done = True
        if self.landing:
            return
        # Not by `exception()`: asyncio then says no more of an error that nobody takes.
        failed = task.cancelled() or getattr(task, "_exception", None) is not None
        # What failed is hardly recorded any more.
        self.until = self.clock() + (-1 if failed else RECORDED_WITHIN)

    def recorded(self, _task: "asyncio.Task[Any]") -> None:
        self.until = self.clock() - 1

    def late(self) -> bool:
        """Tell whether it keeps nobody's memory off any more; its record may still come."""
        return self.clock() > self.until

    def over(self) -> bool:
        """Tell whether nothing can come of it any more."""
        if self.landing:
            return self.late()
        return self.request() is None and (self.done or self.late())

    def told_from(self, asked: str) -> bool:
        """Tell whether its record would be known as its own beside that of another question.

        Only once the model has answered or failed: then nothing but the record can come of it.
        """
        answered = self.done or self.landing
        return answered and self.asked not in asked and asked not in self.asked


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

    def take_off(
        self, request: object, owner: Owner, asked: str = "", *, active: Owner | None = None
    ) -> None:
        """Note a request of a user and space, in the task that carries it.

        Args:
            request: What it is known by when it lands; not kept alive.
            owner: Whose it is.
            asked: What will be recorded of its question; empty where that is not known.
            active: Whose session is active by now, where that is another's.
        """
        until = self._clock() + FORGOTTEN_AFTER
        flight = _Flight(weakref.ref(request), owner, asked, self._clock, until)
        if (task := asyncio.current_task()) is not None:
            task.add_done_callback(flight.carried)
        with self._alone:
            self._settle()
            others = self._others(owner)
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
            own = (f for f in self._flights if f.owner == owner)
            return bool(self._others(owner)) and not any(f.asked in recorded for f in own)

    def approach(self, request: object) -> None:
        """Note, in the task that does it, that the answer to a request is about to be recorded."""
        task = asyncio.current_task()
        with self._alone:
            for flight in self._of(request):
                was_late = flight.late()
                flight.landing, flight.until = True, self._clock() + LANDED_WITHIN
                if task is not None:
                    task.add_done_callback(flight.recorded)
                others = self._others(flight.owner) if was_late else []
                # Who asked meanwhile was not compared with it.
                if any(not flight.told_from(other.asked) for other in others):
                    self._overlap = WHY

    def fail(self, request: object) -> None:
        """Note that a request failed: nothing of it will be recorded."""
        with self._alone:
            self._flights = [f for f in self._flights if f.request() is not request]
            self._settle()

    def land(self, request: object) -> None:
        """Note that a request was answered and recorded."""
        with self._alone:
            for landed in self._of(request):
                place = self._flights.index(landed)
                # Earlier attempts at the question have landed with it.
                earlier = [f for f in self._flights[:place] if not (f.done and _same(f, landed))]
                self._flights = [*earlier, *self._flights[place + 1 :]]
            self._settle()

    def overlapping(self) -> str:
        """Say why nothing may be read or kept now; empty where it may."""
        with self._alone:
            self._settle()
            return self._overlap

    def _others(self, owner: Owner) -> list[_Flight]:
        return [f for f in self._flights if f.owner != owner and not f.late()]

    def _of(self, request: object) -> list[_Flight]:
        return [f for f in self._flights if f.request() is request]

    def _settle(self) -> None:
        self._flights = [f for f in self._flights if not f.over()]
        if all(f.late() for f in self._flights):
            self._overlap = ""


def _same(one: _Flight, other: _Flight) -> bool:
    return (one.owner, one.asked) == (other.owner, other.asked)
