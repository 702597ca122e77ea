"""One daemon thread with one loop: what is ours never runs on, or dies with, a caller's loop.

Agently runs handlers on many loops and threads: a new loop for each `start()`, a fresh thread for
each message on older versions. A coroutine of ours is submitted here instead, in an empty context
(so that it does not spend the caller's request limits), and awaited through a shield (so that a
cancelled turn cancels no digest).
"""

import asyncio
import concurrent.futures
import contextvars
import functools
import inspect
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from agently_gumem.errors import AFTER_A_FORK, Closed
from agently_gumem.threads import Lane, Overdue, Patience

P = ParamSpec("P")
R = TypeVar("R")

# Seconds that a function of the application may take where a turn waits for it: as a hook may.
CALLBACK_WITHIN = 5.0
# Functions of the application at a time; and so many that hang before others are refused at once,
# of one user and in all, so that one user's leave threads to everyone else.
_CALLBACKS, _HANGING_EACH, _HANGING = 64, 2, 48
# Seconds that a step of a user's turn is waited for, once one was waited for in vain, and how long
# that holds: a store that hangs must not cost each turn its whole time.
IMPATIENT, IMPATIENT_FOR = 2.0, 60.0
# Seconds that tasks have to end once they are cancelled.
_CANCEL_WITHIN = 1.0

_log = logging.getLogger("agently_gumem")


def _contained(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call, and turn an exit or interrupt into an error: asyncio lets those end its loop."""
    try:
        return fn(*args, **kwargs)
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"{type(error).__name__} in a function of the application") from error


async def _run_in(
    pool: concurrent.futures.Executor, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    call = functools.partial(_contained, fn, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(pool, call)


def _taken(future: "asyncio.Future[Any]") -> None:
    """Take the exception of what nobody waits for any more, so that nothing reports it."""
    if not future.cancelled():
        future.exception()


class Worker:
    """Owns the loop's thread, and the threads for what blocks: store, embedder, callbacks."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        # Reentrant: a signal's handler may close in the middle of a call.
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pool = Lane("gumem", 4)
        self._callbacks = Lane("gumem-callback", _CALLBACKS)
        self._writes = Lane("gumem-write", 2)
        self._long = Lane("gumem-long", 1)
        self._hanging = Overdue(_HANGING_EACH, _HANGING)
        self._late = Overdue(_HANGING_EACH, 1_000_000)
        self._patience = Patience(IMPATIENT, IMPATIENT_FOR)
        self._pid = os.getpid()
        self._closed = self._ended = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._submitted: dict[concurrent.futures.Future[Any], Coroutine[Any, Any, Any]] = {}

    def renew(self) -> None:
        """Begin anew in a forked child, where no thread came along; one that is closed stays so."""
        if not self._closed:
            self._begin()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, started at first use.

        Raises:
            Closed: After `close`, in a forked child, or where its thread has ended.
        """
        if self.inherited:
            raise Closed(f"this GUMem belongs to the parent process: {AFTER_A_FORK}")
        with self._lock:
            if self._closed:
                raise Closed("this GUMem is closed: open a new one")
            if self._ended:
                raise Closed("the thread of this GUMem has ended: close it and open a new one")
            if self._loop is None:
                self._loop = self._started()
            return self._loop

    def _started(self) -> asyncio.AbstractEventLoop:
        # Not of the application's policy, which may give loops that live in its main thread.
        loop = asyncio.SelectorEventLoop()
        loop.set_default_executor(Lane("gumem-resolve", 4))
        self._thread = threading.Thread(
            target=self._serve, args=(loop,), name="gumem-worker", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or the interpreter ends
            self._thread = None
            loop.close()
            raise
        return loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_forever()
        finally:
            # Whatever ended it: nobody may wait for a loop that runs no more.
            with self._lock:
                self._ended = True
                left = list(self._submitted.items())
            for future, coro in left:
                future.cancel()
                if inspect.getcoroutinestate(coro) == inspect.CORO_CREATED:
                    coro.close()

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child of the process that made it."""
        return self._pid != os.getpid()

    def here(self) -> bool:
        """Tell whether the caller runs on the worker's own thread."""
        return threading.current_thread() is self._thread

    def submit(
        self, fn: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> "concurrent.futures.Future[R]":
        """Start a coroutine function on the worker's loop, in an empty context.

        Raises:
            Closed: After `close`, in a forked child, or where its thread has ended.
        """
        _ = self.loop
        coro = fn(*args, **kwargs)
        with self._lock:
            try:
                loop = self.loop
            except Closed:
                coro.close()
                raise
            future = contextvars.Context().run(asyncio.run_coroutine_threadsafe, coro, loop)
            self._submitted[future] = coro
        future.add_done_callback(lambda done: self._submitted.pop(done, None))
        return future

    def run(self, fn: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it and wait, from any thread but the worker's own.

        Raises:
            Closed: On the worker's own thread, where it would wait on itself.
        """
        if self.here():
            raise Closed("a blocking call on the memory's own thread: use the async_ form there")
        try:
            return self.submit(fn, *args, **kwargs).result()
        except concurrent.futures.CancelledError as error:
            raise Closed("this GUMem was closed during the call") from error

    async def arun(
        self, fn: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run it and await, from any loop; cancelling the caller does not cancel it."""
        if self.here():
            return await fn(*args, **kwargs)
        return await self._awaited(self.submit(fn, *args, **kwargs), None)

    async def within(
        self,
        seconds: float,
        owner: Hashable,
        fn: Callable[P, Coroutine[Any, Any, R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Run it and await, so many seconds at most; what has not ended then goes on behind.

        While two such go on behind, the next one of the same owner is refused at once; and for a
        minute after one, `IMPATIENT` seconds are enough: a store that hangs holds up one step of
        a user's turns, and not the next turn as long again.

        Raises:
            TimeoutError: It did not end in time, or was refused.
        """
        if self.here():
            return await fn(*args, **kwargs)
        self._late.check(owner)
        future = self.submit(fn, *args, **kwargs)
        try:
            answer = await self._awaited(future, self._patience.of(owner, seconds))
        except TimeoutError:
            self._patience.lose(owner)
            if not future.done():
                self._late.add(owner, future)
            raise
        self._patience.regain(owner)
        return answer

    @staticmethod
    async def _awaited(future: "concurrent.futures.Future[R]", seconds: float | None) -> R:
        waited = asyncio.wrap_future(future)
        waited.add_done_callback(_taken)
        # Neither a cancelled caller nor the time that is over cancels what is waited for.
        done, _ = await asyncio.wait({waited}, timeout=seconds)
        if not done:
            raise TimeoutError(f"the memory did not answer within {seconds:g} s")
        if waited.cancelled():
            raise Closed("this GUMem was closed during the call")
        return waited.result()

    async def thread(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run what blocks in the pool; only from the worker's loop."""
        return await _run_in(self._pool, fn, *args, **kwargs)

    async def storing(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run what writes to the store, in threads of its own: while files are cleaned it waits.

        What reads and embeds goes on meanwhile.
        """
        return await _run_in(self._writes, fn, *args, **kwargs)

    async def alone(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run what takes long, such as cleaning the files, in a thread of its own."""
        return await _run_in(self._long, fn, *args, **kwargs)

    async def apart(
        self,
        seconds: float,
        owner: Hashable,
        fn: Callable[P, R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Run a function of the application in threads of their own, so many seconds at most.

        One that hangs is left behind. While two of an owner hang, the next one is refused at once,
        so that no user's functions take the threads of all others.

        Raises:
            TimeoutError: It did not answer in time, or was refused.
        """
        self._hanging.check(owner)
        future = self._callbacks.submit(_contained, fn, *args, **kwargs)
        waited = asyncio.wrap_future(future)
        waited.add_done_callback(_taken)
        done = set[Any]()
        try:
            done, _ = await asyncio.wait({waited}, timeout=seconds)
        finally:
            if not done and not future.cancel():
                self._hanging.add(owner, future)
        if not done:
            raise TimeoutError(f"no answer within {seconds:g} s")
        return waited.result()

    def spawn(self, coro: Coroutine[Any, Any, R]) -> "asyncio.Task[R]":
        """Start a task that is kept alive until it ends; only from the worker's loop."""
        task = asyncio.get_running_loop().create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self, timeout: float = 5.0, last: Callable[[], None] | None = None) -> None:
        """Cancel what still runs and end the thread; safe to call twice, and from any thread.

        Args:
            timeout: Seconds that all of it takes at most.
            last: Closes the store, once nothing is under way there; where something hangs there
                the store is left open, since closing it below a write may break it.
        """
        with self._lock:
            already, self._closed = self._closed, True
        if already or self.inherited:
            return
        until = time.monotonic() + timeout
        self._stop(until)
        if last is not None:
            self._do_last(last, until)
        for lane in (self._pool, self._callbacks, self._writes, self._long):
            lane.shutdown()

    def _stop(self, until: float) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or self.here():
            return
        if thread.is_alive():
            stop = asyncio.run_coroutine_threadsafe(self._cancel_all(), loop)
            try:
                stop.result(min(2 * _CANCEL_WITHIN, _rest(until)))
            except (concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
                _log.warning("tasks of the memory did not end when it was closed")
            loop.call_soon_threadsafe(loop.stop)
            thread.join(min(_CANCEL_WITHIN, _rest(until)))
        if not thread.is_alive():
            loop.close()

    def _do_last(self, last: Callable[[], None], until: float) -> None:
        if not all(lane.idle(_rest(until)) for lane in (self._pool, self._writes, self._long)):
            _log.warning("the store does not answer: it is left open")
            return
        try:
            closing = self._writes.submit(last)
        except RuntimeError:  # the interpreter ends, and nothing was ever written
            return
        try:
            closing.result(_rest(until))
        except concurrent.futures.TimeoutError:
            _log.warning("the store did not close in time")
        except Exception as error:  # noqa: BLE001  # whoever closes can do nothing about it
            _log.warning("the store did not close: %s", type(error).__name__)

    async def _cancel_all(self) -> None:
        rest = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=_CANCEL_WITHIN)


def _rest(until: float) -> float:
    return max(0.0, until - time.monotonic())


class HasWorker(Protocol):
    """An object whose methods run on a worker."""

    @property
    def worker(self) -> Worker:
        """The worker."""
        ...


S = TypeVar("S", bound=HasWorker)


F = TypeVar("F", bound=Callable[..., Any])


def _named(fn: F) -> F:
    """Give the body of a method the public name, which an error about its arguments shows."""
    fn.__qualname__ = fn.__qualname__.replace("._", ".")
    return fn


def blocking(
    fn: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[S, P], R]:
    """Give a coroutine method the form that blocks its caller until it is done."""

    @functools.wraps(_named(fn))
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.worker.run(fn, self, *args, **kwargs)

    return call


def awaitable(
    fn: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Give a coroutine method the form that can be awaited on any loop."""

    @functools.wraps(_named(fn))
    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.worker.arun(fn, self, *args, **kwargs)

    return call
