"""What an execution's `data` holds: state, resources, the run, and which visit of a stage it is.

Of `data` only what every version of Agently has is used.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agently_gumem.agent import AgentMemory
from agently_gumem.errors import ConfigError, NotFound
from agently_gumem.flow._steps import Step, Steps
from agently_gumem.session import MemorySession
from agently_gumem.user import UserMemory
from agently_gumem.versions import read_state, resource_of, state_setters

MemoryOf = str | Callable[[Any], Any]
RunOf = str | Callable[[Any], Any]
# What is ours in an execution's state, which is saved, stands under one key: on some versions the
# state is what a flow returns. The values are texts: others are merged or copied by some versions.
_OWN_RUN = "gumem.run"
_DONE = "done"


def write(data: Any, key: str, value: str) -> Step:
    """Set a text in the execution's state; no chunk that listens to changes is called."""
    put, aput = state_setters(data)
    return Step(lambda: put(key, value, emit=False), lambda: aput(key, value, emit=False))


def run_of(data: Any, source: RunOf) -> Steps[str]:
    """Return the application's id of this run; without one, an id that is saved with the state."""
    if callable(source):
        given = source(data)
    else:
        given = read_state(data, source) or resource_of(data, source)
    if given is not None and str(given).strip():
        return str(given)
    own = read_state(data, _OWN_RUN)
    if own is None:
        own = str(data.execution_id)  # after a load it may be another one: the first is kept
        yield write(data, _OWN_RUN, own)
    return str(own)


def memories_of(data: Any, memory: MemoryOf) -> list[Any]:
    """Return what `memory` names in this execution.

    Raises:
        NotFound: There is nothing.
    """
    given = memory(data) if callable(memory) else resource_of(data, memory)
    several = list(cast("Sequence[Any]", given)) if isinstance(given, list | tuple) else [given]
    if not several or any(one is None for one in several):
        what = f"runtime resource {memory!r}" if isinstance(memory, str) else "memory function"
        raise NotFound(
            f"the {what} gave no memory: give runtime_resources= at the start and at each load of "
            "an execution; a sub-flow has only what its capture= names"
        )
    return several


def session_of(found: Any) -> MemorySession:
    """Return the session whose stage it is.

    Raises:
        NotFound: The agent has no active session.
        ConfigError: It is something else.
    """
    if isinstance(found, AgentMemory):
        return found.session()
    if isinstance(found, MemorySession):
        return found
    raise ConfigError(
        f"a stage takes what GUMem.session or GUMem.attach returned, not {type(found).__name__}"
    )


def user_of(found: Any) -> tuple[UserMemory, MemorySession | None]:
    """Return the user, and the session where there is one.

    Raises:
        NotFound: The agent has no active session, and its users differ by session.
        ConfigError: It is something else.
    """
    if isinstance(found, AgentMemory) and found.status()["active"]:
        found = found.session()
    if isinstance(found, MemorySession):
        return found.user, found
    if isinstance(found, AgentMemory):
        return found.user, None
    if isinstance(found, UserMemory):
        return found, None
    raise ConfigError(f"a memory is a UserMemory or a MemorySession, not {type(found).__name__}")


class _Visits:
    """Which visit of a stage a chunk is; the number and its state are kept in the flow's state.

    A visit that the state holds as begun, and that nobody in this process is in, is resumed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: set[tuple[str, str]] = set()

    def begin(self, data: Any, name: str) -> "Visit":
        """Take the first visit that is neither over nor somebody's."""
        place = f"gumem.{hashlib.sha256(name.encode()).hexdigest()[:12]}"
        run = str(data.execution_id)
        over = int(read_state(data, f"{place}.over") or 0)
        with self._lock:
            number = over + 1
            while True:
                key = f"{place}.{number}"
                kept = read_state(data, key)
                if kept != _DONE and (run, key) not in self._live:
                    break
                number += 1
            self._live.add((run, key))
        return Visit(place, number, key, (run, key), None if kept is None else str(kept))

    def end(self, visit: "Visit") -> None:
        """Let go of it."""
        with self._lock:
            self._live.discard(visit.live)


@dataclass(frozen=True)
class Visit:
    place: str
    number: int
    key: str
    live: tuple[str, str]
    kept: str | None
    """What the state held of it when it began: then it is resumed."""

    def over(self, data: Any) -> Steps[None]:
        """Note in the state that it is over, and that all up to it are where that is so."""
        yield write(data, self.key, _DONE)
        over = f"{self.place}.over"
        if int(read_state(data, over) or 0) == self.number - 1:
            yield write(data, over, str(self.number))


visits = _Visits()
if hasattr(os, "register_at_fork"):  # not on Windows
    # Who is in a visit in the parent does not run in the child.
    os.register_at_fork(after_in_child=visits.__init__)
