"""Requests under way on one agent, and whether turns of two users overlap.

Agently mixes the histories of two sessions whose turns overlap on one agent: the answer is recorded
in the session that is active when it comes.
"""

import asyncio
import os
import time
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


@dataclass
class _Flight:
    """A request under way: for whom, and when the task that carried it was done."""

    owner: tuple[str, str]
    began: float
    done: float | None = None

    def carried(self, task: "asyncio.Task[Any]") -> None:
        failed = task.cancelled() or task.exception() is not None
        # What failed is not recorded any more.
        self.done = -FORGOTTEN_AFTER if failed else time.monotonic()

    def over(self) -> bool:
        now = time.monotonic()
        lost = self.done is not None and now - self.done > RECORDED_WITHIN
        return lost or now - self.began > FORGOTTEN_AFTER


class Flights:
    """The requests of one agent; once two users overlap, until the last of them has landed."""

    def __init__(self) -> None:
        self._flights: list[_Flight] = []
        self._overlap = ""
        self._pid = os.getpid()

    def take_off(self, owner: tuple[str, str]) -> None:
        """Note a request of a user and space, in the task that carries it."""
        self._settle()
        flight = _Flight(owner, time.monotonic())
        if (task := asyncio.current_task()) is not None:
            task.add_done_callback(flight.carried)
        self._flights.append(flight)
        if len({f.owner for f in self._flights}) > 1:
            self._overlap = WHY

    def land(self, owner: tuple[str, str]) -> None:
        """Note that a turn was answered and recorded, as one of this user and space."""
        if self._flights:
            own = (f for f in self._flights if f.owner == owner)
            self._flights.remove(next(own, self._flights[0]))
        self._settle()

    def overlapping(self) -> str:
        """Say why nothing may be read or kept now; empty where it may."""
        self._settle()
        return self._overlap

    def _settle(self) -> None:
        if self._pid != os.getpid():  # what flies in the parent does not land here
            self._flights, self._pid = [], os.getpid()
        self._flights = [f for f in self._flights if not f.over()]
        if not self._flights:
            self._overlap = ""
