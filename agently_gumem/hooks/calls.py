"""Calls of the application's functions: each in a thread of its own, and so many at a time."""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from typing import Any, cast

from agently_gumem.errors import HookError
from agently_gumem.hooks.events import HookEvent
from agently_gumem.threads import left_behind, run_alone

# Calls of one hook at a time, in all and for one user: what hangs must not pile up, and a hook
# that asks the memory, which asks the hook, must end.
MOST_RUNNING, MOST_FOR_A_USER = 64, 4


class Running:
    """Counts the calls that run; one that was left behind counts until it ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, ...]] = Counter()

    def take(self, hook_id: str, whose: tuple[str, str]) -> Callable[[], None]:
        """Count a call in, and return what counts it out.

        Raises:
            HookError: Too many run already.
        """
        keys = ((hook_id,), (hook_id, *whose))
        with self._lock:
            most = (MOST_RUNNING, MOST_FOR_A_USER)
            if any(self._counts[key] >= m for key, m in zip(keys, most, strict=True)):
                raise HookError("too many of its calls are still running", answered=False)
            self._counts.update(keys)

        def release() -> None:
            with self._lock:
                self._counts.subtract(keys)
                for key in keys:
                    if not self._counts[key]:
                        del self._counts[key]

        return release

    @contextlib.contextmanager
    def held(self, hook_id: str, whose: tuple[str, str]) -> Generator[None, None, None]:
        """Count a call in for as long as this is held."""
        release = self.take(hook_id, whose)
        try:
            yield
        finally:
            release()


async def call(
    fn: Callable[[HookEvent], Any], event: HookEvent, within: float, release: Callable[[], None]
) -> Any:
    """Call a function, plain or async, in a daemon thread, and wait for it so long.

    Not in the worker's pool: one that hangs would take a thread from triggers and events, and hold
    up the end of the process.

    Args:
        fn: The function.
        event: What it is called with.
        within: Seconds; after them it is left behind.
        release: Called when the thread ends.

    Raises:
        HookError: It raised, or was too slow.
    """

    def run() -> Any:
        try:
            return _answer(fn, event, within)
        except _LateError:
            raise _late(within) from None
        except BaseException as error:
            raise _failure(error) from error
        finally:
            release()

    try:
        future = left_behind(run, "gumem-hook")
    except RuntimeError as error:  # the system gives no more threads
        release()
        raise _failure(error) from error
    task = asyncio.wrap_future(future)
    done, _ = await asyncio.wait({task}, timeout=within)
    if not done:
        task.cancel()
        raise _late(within)
    return task.result()


class _LateError(Exception):
    """A coroutine of the application did not end in time."""


def _late(within: float) -> HookError:
    return HookError(f"no answer within {within:.3g} s", answered=False)


def _failure(error: BaseException) -> HookError:
    """Name an exception by its kind: its text may quote what the user said."""
    return HookError(type(error).__name__)


def _answer(fn: Callable[[HookEvent], Any], event: HookEvent, within: float) -> Any:
    answer: Any = fn(event)
    if not isinstance(answer, Awaitable):
        return answer
    return run_alone(_within(cast("Awaitable[Any]", answer), within))


async def _within(answer: Awaitable[Any], seconds: float) -> Any:
    """Await it; what is not done by then is cancelled, so that its thread ends."""
    task = asyncio.ensure_future(answer)
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        task.cancel()
        raise _LateError
    return task.result()
