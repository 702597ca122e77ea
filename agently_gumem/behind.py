"""Digests behind the turns of one session, and the clock that notices when it is quiet.

Everything here runs on the worker's loop.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from agently_gumem.budget import Key, Permit
from agently_gumem.engine import Engine, switched_off
from agently_gumem.errors import Closed, LimitReached
from agently_gumem.remember.job import DigestReport, Job, digest, waiting_ids
from agently_gumem.scope import Scope

_log = logging.getLogger("agently_gumem")


class Digests:
    """The digests of one session.

    Args:
        engine: Keeps the tasks, so that `flush` can wait for them.
        key: User, space and session; messages of the session, and of sessions that nobody has open,
            go in.
        wait: Seconds that a turn waits at most.
        agent: Gives the agent whose settings the memory's own requests inherit, or None.
    """

    def __init__(
        self, engine: Engine, key: Key, wait: float, agent: Callable[[], Any | None]
    ) -> None:
        self._engine = engine
        self.key = key
        self._session_id = key[2]
        self._wait_at_most = wait
        self._agent = agent
        self._task: asyncio.Task[DigestReport] | None = None
        self._waited: asyncio.Task[DigestReport] | None = None
        self._looked_back = False
        self.last: DigestReport | None = None
        """What the last one did."""

    @property
    def running(self) -> bool:
        """Whether one is under way."""
        # One that a forked child inherits is none of its own: its loop did not come along.
        task = self._task
        return task is not None and not task.done() and task in self._engine.digests

    def start(self, scope: Scope, *, beside: bool = False, last_chance: bool = False) -> bool:
        """Start one of what waits now; one that runs already is not doubled.

        Args:
            scope: The user.
            beside: Also where one runs already, which may not take what came since.
            last_chance: Also while the next attempt has to wait for more turns.

        Returns:
            Whether one is under way.
        """
        if scope.paused or self._engine.closing or self._engine.budget.waits(self.key):
            return False
        if (self.running and not beside) or (scope.backoff.turns_left and not last_chance):
            return self.running
        ids = waiting_ids(scope, self._session_id)
        if ids:
            self._task = self._spawn(scope, self._job(ids))
        return self.running

    async def now(self, scope: Scope, *, retry_failed: bool = False) -> DigestReport:
        """Digest for somebody who waits for it and takes its errors.

        Raises:
            ModelError: The model failed.
            StoreError: The store failed.
        """
        job = Job(self._session_id, agent=self._agent(), retry_failed=retry_failed)
        self.last = await digest(scope, job)
        scope.backoff.succeeded()
        return self.last

    def look_back(self, scope: Scope) -> None:
        """Once: digest what an earlier process left pending in sessions that nobody has open."""
        if self._looked_back:
            return
        self._looked_back = True
        own = {m.id for m in scope.messages_of(self._session_id)}
        left = (scope.leftover & waiting_ids(scope, self._session_id)) - own
        scope.leftover = frozenset()
        if left and not scope.paused and not self._engine.closing:
            self._spawn(scope, self._job(left))

    async def wait(self) -> None:
        """Wait for the present one at most as long as a turn may, and for the same one once."""
        task = self._task
        if task is None or not self.running or task is self._waited or not self._wait_at_most:
            return
        self._waited = task
        await asyncio.wait({task}, timeout=self._wait_at_most)

    async def flush(self, timeout: float | None) -> bool:
        """Wait until none is under way; tell whether that is so within `timeout` seconds."""
        # A session that was just left may still be about to start its digest.
        endings = {asyncio.wrap_future(f) for f in list(self._engine.endings)}
        if endings and (await asyncio.wait(endings, timeout=timeout))[1]:
            return False
        if self.running and self._task is not None:
            await asyncio.wait({self._task}, timeout=timeout)
        await self._engine.told()
        return not self.running

    def _job(self, ids: frozenset[str], agent: Any | None = None) -> Job:
        return Job(ids=ids, agent=agent or self._agent(), asked_by=self._session_id)

    def _spawn(
        self, scope: Scope, job: Job, permit: Permit | None = None
    ) -> "asyncio.Task[DigestReport]":
        scope.in_use += 1
        task = self._engine.worker.spawn(self._run(scope, job, permit or Permit()))
        self._engine.digests.add(task)

        def over(done: "asyncio.Task[DigestReport]") -> None:
            scope.in_use -= 1
            self._engine.digests.discard(done)

        task.add_done_callback(over)
        return task

    async def _run(self, scope: Scope, job: Job, permit: Permit) -> DigestReport:
        """Digest; a failure is kept, told, and tried again later."""
        try:
            with self._engine.budget.behind(permit):
                report = await digest(scope, job)
        except LimitReached as error:
            if error.refused:  # to wait is no failure, and is told by `waiting_for`
                scope.troubles.note("refused", error)
                self._failed(error)
            self.last = DigestReport(error=type(error).__name__)
            self._go_on_later(error, job.agent)
            return self.last
        except Exception as error:  # noqa: BLE001  # nobody waits for a background task's error
            scope.backoff.failed()
            scope.troubles.note("digest", error)
            return self._failed(error)
        scope.backoff.succeeded()
        self.last = report
        if report.limited is not None:
            self._go_on_later(report.limited, job.agent)
        return report

    def _failed(self, error: Exception) -> DigestReport:
        """Log a failure by its kind."""
        self.last = DigestReport(error=type(error).__name__)
        _log.warning("digest failed (%s), its messages wait", self.last.error)
        _log.debug("digest failed", exc_info=error)
        return self.last

    def _go_on_later(self, error: LimitReached, agent: Any | None) -> None:
        """Go on by itself when the limit allows it: no failure, and nothing is under way."""

        def resume(permit: Permit) -> None:
            self._engine.worker.spawn(self._go_on(agent, permit))

        if self._engine.budget.wait(self.key, error, resume):
            _log.info("a digest waits for %s, %.0f s", error.limit, error.seconds)

    async def _go_on(self, agent: Any | None, permit: Permit) -> None:
        user_id, space, session_id = self.key
        try:
            async with self._engine.use(user_id, space) as scope:
                if scope.paused or switched_off():
                    with self._engine.budget.behind(permit):
                        return  # the permit goes back
                ids = waiting_ids(scope, session_id)
                # Also where nothing waits any more: the permit goes back, Summaries may be due.
                self._task = self._spawn(scope, self._job(ids, agent), permit)
        except Closed:
            return  # what waits is in the store
        except Exception as error:  # noqa: BLE001  # nobody waits for it
            with self._engine.budget.behind(permit):
                self._engine.troubles.note("digest", error)
            _log.warning("a digest that waited could not go on (%s)", type(error).__name__)


class IdleClock:
    """Tells when a session was quiet for each of some times; a turn sets it back.

    Args:
        engine: Keeps the timers of all sessions.
        key: User, space and session: whoever serves the session next sets the same clock back.
        minutes: The times, ascending.
        fire: Called with the minutes that have passed.
    """

    def __init__(
        self,
        engine: Engine,
        key: tuple[str, str, str],
        minutes: Sequence[float],
        fire: Callable[[float], Coroutine[Any, Any, None]],
    ) -> None:
        self._engine = engine
        self._key = key
        self._minutes = sorted(set(minutes))
        self._fire = fire

    def restart(self) -> None:
        """Begin anew: a turn came."""
        self.stop()
        self._set(self._minutes, 0.0)

    def stop(self) -> None:
        """Ring no more: the session has ended."""
        if (timer := self._engine.timers.pop(self._key, None)) is not None:
            timer.cancel()

    def _set(self, minutes: list[float], passed: float) -> None:
        if minutes:
            loop = asyncio.get_running_loop()
            self._engine.timers[self._key] = loop.call_later(
                (minutes[0] - passed) * 60, lambda: self._engine.worker.spawn(self._ring(minutes))
            )

    async def _ring(self, minutes: list[float]) -> None:
        # A timer that is kept would keep the session, and its agent, for ever.
        self._engine.timers.pop(self._key, None)
        self._set(minutes[1:], minutes[0])
        await self._fire(minutes[0])
