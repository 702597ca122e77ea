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
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from agently_gumem.errors import Closed

P = ParamSpec("P")
R = TypeVar("R")

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


def left_behind(fn: Callable[[], R], name: str) -> "concurrent.futures.Future[R]":
    """Run what may hang in a daemon thread of its own; the future tells its answer.

    Whoever waits no longer leaves it behind: it takes no thread from a pool, and never holds up
    the end of the process.

    Raises:
        RuntimeError: The system gives no more threads.
    """
    future: concurrent.futures.Future[R] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answer = fn()
        except BaseException as error:  # noqa: BLE001  # whoever waits takes it
            future.set_exception(error)
        else:
            future.set_result(answer)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


class Worker:
    """Owns the loop's thread, and a small pool for what blocks: store, embedder, callbacks."""

    def __init__(self, threads: int = 4) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pool = concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="gumem")
        self._callbacks = concurrent.futures.ThreadPoolExecutor(
            2 * threads, thread_name_prefix="gumem-callback"
        )
        self._writes = concurrent.futures.ThreadPoolExecutor(2, thread_name_prefix="gumem-write")
        self._long = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="gumem-long")
        self._pid = os.getpid()
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, started at first use.

        Raises:
            Closed: After `close`, or in a forked child.
        """
        if self.inherited:
            raise Closed("this GUMem belongs to the parent process: open a new one after the fork")
        with self._lock:
            if self._closed:
                raise Closed("this GUMem is closed: open a new one")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="gumem-worker", daemon=True
                )
                self._thread.start()
            return self._loop

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
        """Start a coroutine function on the worker's loop, in an empty context."""
        loop = self.loop
        return contextvars.Context().run(
            asyncio.run_coroutine_threadsafe, fn(*args, **kwargs), loop
        )

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
        future = self.submit(fn, *args, **kwargs)
        try:
            return await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError as error:
            if not future.cancelled():
                raise  # the caller itself was cancelled
            raise Closed("this GUMem was closed during the call") from error

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

    async def callback(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function of the application, in threads of their own: one that blocks is alone."""
        return await _run_in(self._callbacks, fn, *args, **kwargs)

    def spawn(self, coro: Coroutine[Any, Any, R]) -> "asyncio.Task[R]":
        """Start a task that is kept alive until it ends; only from the worker's loop."""
        task = asyncio.get_running_loop().create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self, timeout: float = 5.0) -> None:
        """Cancel what still runs and end the thread; safe to call twice."""
        with self._lock:
            already, self._closed = self._closed, True
            loop, thread = self._loop, self._thread
        if already or self.inherited:
            return
        if loop is not None and thread is not None and thread is not threading.current_thread():
            stop = asyncio.run_coroutine_threadsafe(self._cancel_all(), loop)
            try:
                stop.result(timeout)
            except concurrent.futures.TimeoutError:
                _log.warning("tasks of the memory did not end within %.1f s", timeout)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout)
            if not thread.is_alive():
                loop.close()
        for pool in (self._pool, self._callbacks, self._writes, self._long):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _cancel_all(self) -> None:
        rest = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=1.0)


class HasWorker(Protocol):
    """An object whose methods run on a worker."""

    @property
    def worker(self) -> Worker:
        """The worker."""
        ...


S = TypeVar("S", bound=HasWorker)


def blocking(
    fn: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[S, P], R]:
    """Give a coroutine method the form that blocks its caller until it is done."""

    @functools.wraps(fn)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.worker.run(fn, self, *args, **kwargs)

    return call


def awaitable(
    fn: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Give a coroutine method the form that can be awaited on any loop."""

    @functools.wraps(fn)
    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.worker.arun(fn, self, *args, **kwargs)

    return call
