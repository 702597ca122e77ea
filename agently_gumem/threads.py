"""Threads for what blocks: daemons all, so that whatever hangs in one never holds up an exit.

The pools of the standard library are joined when the interpreter ends, and take nothing more once
its main thread is done. What is ours is closed in bounded time instead (`closing`), and works for
as long as any thread of the application does.
"""

import asyncio
import concurrent.futures
import functools
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Future = concurrent.futures.Future
_marked = threading.local()


def inside() -> bool:
    """Tell whether the caller runs in a thread of ours, such as a hook or a trigger does."""
    return bool(getattr(_marked, "ours", False))


def can_start() -> bool:
    """Tell whether a thread can be started: from Python 3.12 on not while the interpreter ends."""
    try:
        threading.Thread(target=int, name="gumem-probe", daemon=True).start()
    except RuntimeError:
        return False
    return True


def left_behind(fn: Callable[[], R], name: str) -> "Future[R]":
    """Run what may hang in a daemon thread of its own; the future tells its answer.

    Whoever waits no longer leaves it behind: it takes no thread from a pool, and never holds up
    the end of the process.

    Raises:
        RuntimeError: The system gives no more threads.
    """
    future: Future[R] = Future()
    future.set_running_or_notify_cancel()
    threading.Thread(target=_answer, args=(future, fn), name=name, daemon=True).start()
    return future


def _answer(future: "Future[R]", fn: Callable[[], R]) -> None:
    _marked.ours = True
    try:
        answer = fn()
    except BaseException as error:  # noqa: BLE001  # whoever waits takes it
        future.set_exception(error)
    else:
        future.set_result(answer)


def run_alone(coro: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine to its end on a loop of its own, whose pool is of daemon threads.

    A name is looked up in that pool: in the loop's own one it would hold up the interpreter's end,
    and fail once the main thread is done.
    """

    async def run() -> R:
        asyncio.get_running_loop().set_default_executor(Lane("gumem-resolve", 4))
        return await coro

    return asyncio.run(run())


@dataclass
class _Jobs:
    """What the threads of a lane share; they must not hold the lane itself."""

    # Reentrant, as is every lock here: a signal's handler may come in the middle of any call.
    changed: threading.Condition = field(init=False)
    quiet: threading.Condition = field(init=False)
    waiting: "deque[tuple[Future[Any], Callable[[], Any]]]" = field(
        default_factory=deque["tuple[Future[Any], Callable[[], Any]]"]
    )
    threads: int = 0
    free: int = 0
    running: int = 0
    closed: bool = False

    def __post_init__(self) -> None:
        # Of the same lock: who waits for quiet is not woken by each job, nor a thread by quiet.
        lock = threading.RLock()
        self.changed, self.quiet = threading.Condition(lock), threading.Condition(lock)

    def close(self) -> None:
        with self.changed:
            self.closed = True
            dropped = list(self.waiting)
            self.waiting.clear()
            self.changed.notify_all()
            self.quiet.notify_all()
        for future, _ in dropped:
            future.cancel()

    def serve(self) -> None:
        """Do what waits, one after the other, until the lane is closed."""
        while (job := self._next()) is not None:
            future, call = job
            if future.set_running_or_notify_cancel():
                _answer(future, call)
            del job, future, call
            with self.changed:
                self.running -= 1
                if not self.running and not self.waiting:
                    self.quiet.notify_all()

    def _next(self) -> "tuple[Future[Any], Callable[[], Any]] | None":
        with self.changed:
            self.free += 1
            self.changed.wait_for(lambda: self.waiting or self.closed)
            self.free -= 1
            if self.closed:
                self.threads -= 1
                return None
            self.running += 1
            return self.waiting.popleft()


class Lane(concurrent.futures.ThreadPoolExecutor):
    """A pool of daemon threads, made when they are needed.

    A `ThreadPoolExecutor` in type alone, which a loop asks of its default one.

    Args:
        name: Prefix of the threads' names.
        most: Threads at most; what comes while all are taken waits for one.
    """

    def __init__(self, name: str, most: int) -> None:
        super().__init__(most, thread_name_prefix=name)
        self._name = name
        self._most = most
        self._jobs = _Jobs()
        weakref.finalize(self, self._jobs.close).atexit = False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Run a function in one of the threads.

        Raises:
            RuntimeError: The lane is closed, or the system gives not even one thread.
        """
        future: Future[R] = Future()
        jobs = self._jobs
        with jobs.changed:
            if jobs.closed:
                raise RuntimeError(f"{self._name} takes nothing more: it is closed")
            if jobs.free <= len(jobs.waiting) and jobs.threads < self._most:
                self._grow()
            jobs.waiting.append((future, functools.partial(fn, *args, **kwargs)))
            jobs.changed.notify()
        return future

    def _grow(self) -> None:
        jobs = self._jobs
        name = f"{self._name}_{jobs.threads}"
        try:
            threading.Thread(target=jobs.serve, name=name, daemon=True).start()
        except RuntimeError:  # no more threads: what is there has to do
            if not jobs.threads:
                raise
        else:
            jobs.threads += 1

    def idle(self, timeout: float) -> bool:
        """Wait until nothing runs or waits in it; tell whether that is so within `timeout` s."""
        jobs = self._jobs
        with jobs.quiet:
            return jobs.quiet.wait_for(lambda: not jobs.running and not jobs.waiting, timeout)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002  # the standard signature
        """Take nothing more, and drop what waits; what runs ends as it may, and is not waited for.

        The parameters are those of the base, and change nothing.
        """
        self._jobs.close()


class Patience:
    """How long callers wait: less, for a while, where one has waited in vain for the same owner.

    Args:
        less: Seconds that are waited then.
        lasts: Seconds that it lasts, unless something succeeds before.
        clock: Gives seconds that only grow.
    """

    def __init__(
        self, less: float, lasts: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._less, self._lasts, self._clock = less, lasts, clock
        self._lost: dict[Hashable, float] = {}

    def of(self, owner: Hashable, seconds: float) -> float:
        """Say how long to wait now for what would otherwise be waited for so many seconds."""
        lost = self._lost.get(owner)
        recent = lost is not None and self._clock() - lost < self._lasts
        return min(seconds, self._less) if recent else seconds

    def lose(self, owner: Hashable) -> None:
        """Note that somebody waited in vain; not anew by who waited less, or it would last on."""
        now = self._clock()
        self._lost = {k: t for k, t in list(self._lost.items()) if now - t < self._lasts}
        self._lost.setdefault(owner, now)

    def regain(self, owner: Hashable) -> None:
        """Note that something succeeded."""
        self._lost.pop(owner, None)


class Overdue:
    """Counts what was given up waiting for and has not ended: it must not pile up.

    Args:
        each: So much of one owner, while more of it is refused at once.
        most: So much in all.
    """

    def __init__(self, each: int, most: int) -> None:
        self._each, self._most = each, most
        self._lock = threading.RLock()
        self._counts: Counter[Hashable] = Counter()
        self._total = 0

    def check(self, owner: Hashable) -> None:
        """Refuse to wait once more.

        Raises:
            TimeoutError: What was called before has not ended yet.
        """
        with self._lock:
            if self._counts[owner] >= self._each or self._total >= self._most:
                raise TimeoutError("earlier calls have not ended yet")

    def add(self, owner: Hashable, future: "Future[Any]") -> None:
        """Count one until it ends."""
        with self._lock:
            self._counts[owner] += 1
            self._total += 1
        future.add_done_callback(lambda _: self._ended(owner))

    def _ended(self, owner: Hashable) -> None:
        with self._lock:
            self._total -= 1
            self._counts[owner] -= 1
            if not self._counts[owner]:
                del self._counts[owner]
