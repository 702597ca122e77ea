"""A chunk's own work as a stage."""

import contextlib
import functools
import inspect
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, cast

from agently_gumem.engine import checked_name
from agently_gumem.errors import ConfigError, NotFound
from agently_gumem.flow._data import (
    MemoryOf,
    RunOf,
    Visit,
    memories_of,
    run_of,
    session_of,
    visits,
    write,
)
from agently_gumem.flow._steps import Step, Steps, arun, in_a_loop, run
from agently_gumem.session import MemorySession, StageEnd
from agently_gumem.user import UserMemory

_log = logging.getLogger("agently_gumem")
R = TypeVar("R")
Since = Literal["chunk", "mark"]
Outcome = Callable[[Any], Mapping[str, Any]]
MEMORY = "memory"
RUN_ID = "run_id"


class Stage:
    """A chunk's own work as a stage: `with` in a plain chunk, `async with` in an async one.

    What the sessions got meanwhile is digested on its own when the block ends, where their `when=`
    asks for it. A block that raises is marked as failed, and its exception goes on unchanged. A
    visit of the stage marks once, also where its chunk runs again after a load.

    Args:
        data: What the chunk was called with.
        name: The stage.
        memory: Name of the runtime resource that is its MemorySession (or what `attach` returned),
            or a function of `data` that returns it, or several of them in a list.
        run_id: Name of the state or resource that holds the application's id of this run, or a
            function of `data`; where there is none, one is made and kept in the state.
        since: "chunk": the stage is what this block does. "mark": all since the session's mark
            before, for a stage of several chunks, or of branches that are joined here.

    Raises:
        ConfigError: A parameter is wrong.
    """

    def __init__(
        self,
        data: Any,
        name: str,
        *,
        memory: MemoryOf = MEMORY,
        run_id: RunOf = RUN_ID,
        since: Since = "chunk",
    ) -> None:
        check(name, memory, run_id, since)
        self.name = name
        self.outcome: Mapping[str, Any] | None = None
        """What the stage decided; set it in the block, and it is remembered."""
        self._data = data
        self._memory_of = memory
        self._run_of = run_id
        self._from_mark = since == "mark"
        self._visit: Visit | None = None
        self._memories: list[MemorySession] = []
        self._begun: list[int | None] = []
        self._open = False
        self._outcome: Callable[[], Mapping[str, Any] | None] = lambda: self.outcome

    def keep_open(self) -> None:
        """Say that the chunk pauses in the middle of its stage and runs again: no mark yet."""
        self._open = True

    def returns(self, result: R, outcome: Outcome | None) -> R:
        """Take what a handler returned, and return it; a pause that comes back here keeps open."""
        if _pauses_here(result):
            self.keep_open()
        elif outcome is not None:
            self._outcome = functools.partial(outcome, result)
        return result

    def __enter__(self) -> "Stage":
        run(self._guarded(self._begin()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        run(self._guarded(self._end(error, wait=not in_a_loop())))

    async def __aenter__(self) -> "Stage":
        await arun(self._guarded(self._begin()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await arun(self._guarded(self._end(error, wait=True)))

    def _guarded(self, steps: Steps[None]) -> Steps[None]:
        try:
            yield from steps
        except Exception as error:  # noqa: BLE001  # the border to the user's flow
            self._told(error)

    def _told(self, error: Exception) -> None:
        tell("stage", self.name, error, self._memories[:1])

    def _begin(self) -> Steps[None]:
        self._visit = visit = visits.begin(self._data, self.name)
        try:
            yield from self._found_out(visit)
        except GeneratorExit:  # cancelled: no end will come
            visits.end(visit)
            raise

    def _found_out(self, visit: Visit) -> Steps[None]:
        """Note where the sessions stand as the stage begins, or read where they stood."""
        if visit.kept is not None:
            begun = _read_begun(visit.kept)
            if begun is None:
                _log.warning(
                    "what the flow's state holds of stage %r was changed: it is what was said "
                    "since the mark before",
                    self.name,
                )
            self._begun = begun or []
            return
        if not self._from_mark:
            try:
                self._memories = self._sessions()
            except NotFound:
                self._memories = []  # the chunk may activate one; its end says what is missing
            for memory in self._memories:
                self._begun.append((yield _on(memory, memory.begin_stage)))
        yield write(self._data, visit.key, json.dumps(self._begun))

    def _end(self, error: BaseException | None, *, wait: bool) -> Steps[None]:
        visit = self._visit
        if visit is None:
            return  # it did not begin, which was told
        try:
            if not self._open or error is not None:
                yield from self._mark(visit, error, wait=wait)
                yield from visit.over(self._data)
        finally:
            visits.end(visit)

    def _mark(self, visit: Visit, error: BaseException | None, *, wait: bool) -> Steps[None]:
        self._memories = self._sessions()
        run_id = yield from run_of(self._data, self._run_of)
        failed = [] if error is None else ["failed"]  # a new attempt may yet succeed
        key = json.dumps([run_id, self.name, visit.number, *failed])
        begun = self._begun if len(self._begun) == len(self._memories) else []
        outcome = self._decided()
        for place, memory in enumerate(self._memories):
            since = begun[place] if begun else None
            end = StageEnd(self.name, key, outcome, error, since, wait)
            if error is None or isinstance(error, Exception):
                yield _on(memory, functools.partial(memory.end_stage, end))
            else:
                memory.end_stage_beside(end)  # cancelled, or the process ends: nothing is awaited
            outcome = None  # it is remembered once

    def _decided(self) -> Mapping[str, Any] | None:
        """Ask for the outcome; one that can't be had leaves the mark without."""
        try:
            outcome = self._outcome()
        except Exception as error:  # noqa: BLE001  # the application's own function
            self._told(error)
            return None
        if outcome is None or isinstance(outcome, Mapping):
            return outcome
        self._told(ConfigError(f"an outcome is a mapping, not {type(outcome).__name__}"))
        return None

    def _sessions(self) -> list[MemorySession]:
        return [session_of(one) for one in memories_of(self._data, self._memory_of)]


def _read_begun(kept: str) -> list[int | None] | None:
    """Read back where sessions stood; None where a flow's state was changed outside."""
    begun: Any = None
    with contextlib.suppress(ValueError):
        begun = json.loads(kept)
    if isinstance(begun, list):
        places = cast("list[Any]", begun)
        if all(place is None or type(place) is int for place in places):
            return places
    return None


def _on(memory: MemorySession, work: Callable[[], Any]) -> Step:
    """Do it on the memory's own loop."""
    return Step(lambda: memory.worker.run(work), lambda: memory.worker.arun(work))


def _pauses_here(result: Any) -> bool:
    """Tell a pause after which the chunk itself runs again; else its work is done."""
    interrupt = getattr(result, "interrupt", None)
    if not isinstance(interrupt, Mapping):
        return False
    return cast("Mapping[str, Any]", interrupt).get("resume_to") == "self"


_SAID = (ConfigError, NotFound)


def tell(
    what: str, name: str, error: Exception, memories: Sequence[MemorySession | UserMemory]
) -> None:
    """Log a failure by its kind, and let the memory count and emit it where there is one."""
    for memory in memories:
        memory.note_failure(what, error)
    # What was given wrong is named; other texts may quote a store, or a user.
    why = str(error) if isinstance(error, _SAID) else type(error).__name__
    failed = "brings nothing" if what == "recall" else "is not remembered"
    _log.warning("%s %r %s: %s", what, name, failed, why)


def check(name: object, memory: object, run_id: object, since: object) -> None:
    checked_name(name, "name")
    for what, value in (("memory", memory), ("run_id", run_id)):
        if inspect.iscoroutinefunction(value):
            raise ConfigError(f"{what}= takes a plain function of data, not an async one")
        if not callable(value):
            checked_name(value, what)
    if since not in ("chunk", "mark"):
        raise ConfigError(f'since={since!r} is neither "chunk" nor "mark"')
