"""Closing a memory: in bounded time, from wherever it is called, whatever hangs in it."""

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from agently_gumem.engine import STOP_WITHIN, Engine, switched_off
from agently_gumem.errors import Closed
from agently_gumem.threads import can_start, inside, left_behind

# Seconds that sessions have to journal what they hold, where nobody waits for digests.
_END_WITHIN = 2.0
# Seconds that the connections of webhooks have to close.
_HOOKS_WITHIN = 1.0
_log = logging.getLogger("agently_gumem")


class Closing:
    """The end of one memory.

    Args:
        engine: The memory's.
        flush: Waits for digests so many seconds; on the worker's loop.
        also: What else ends with it, on the worker's loop.
    """

    def __init__(
        self,
        engine: Engine,
        flush: Callable[[float], Awaitable[bool]],
        also: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._engine = engine
        self._flush = flush
        self._also = also
        self.renew()

    def renew(self) -> None:
        """Begin anew in a forked child, where whoever closes did not come along."""
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._closer: int | None = None

    def close(self, timeout: float) -> None:
        """End all sessions, wait for their digests so long, and stop; see `GUMem.close`."""
        self._close(timeout, inside())

    async def aclose(self, timeout: float) -> None:
        """Close in a thread of its own: cancelling the caller does not cancel it."""
        called_inside = inside()
        closing = left_behind(lambda: self._close(timeout, called_inside), "gumem-close")
        await asyncio.wait({asyncio.wrap_future(closing)})

    def _close(self, timeout: float, called_inside: bool) -> None:
        if self._engine.worker.inherited:
            self._engine.closed = True  # a forked child: the store is the parent's to close
            return
        me = threading.get_ident()
        with self._lock:
            first = self._closer is None
            self._closer = me if first else self._closer
        if not first:
            # A signal's handler in the middle of a close, or what that close waits for: either
            # would wait for itself.
            if not (called_inside or self._closer == me or self._engine.worker.here()):
                self._over.wait(timeout + _END_WITHIN + _HOOKS_WITHIN + STOP_WITHIN)
            return
        if self._engine.worker.here():
            left_behind(lambda: self._stop(0.0), "gumem-close")
        else:
            # A hook or a trigger waits for no digest, since a digest may wait for it.
            self._stop(0.0 if called_inside else timeout)

    def _stop(self, timeout: float) -> None:
        try:
            if not can_start():
                timeout = 0.0  # the interpreter ends: no request can be sent any more
            self._engine.closing = timeout <= 0
            if not switched_off():
                self._finish(timeout)
        finally:
            self._engine.shut(STOP_WITHIN)
            self._over.set()

    def _finish(self, timeout: float) -> None:
        """Have the sessions end on the worker's loop, where that still runs."""
        longest = max(timeout, _END_WITHIN) + _HOOKS_WITHIN
        try:
            self._engine.worker.submit(self._ends, timeout).result(longest + _HOOKS_WITHIN)
        except (Closed, RuntimeError, concurrent.futures.CancelledError) as error:
            _log.debug("sessions were not ended: %s", type(error).__name__)
        except concurrent.futures.TimeoutError:
            _log.warning("the memory's own thread does not answer: it is closed all the same")

    async def _ends(self, timeout: float) -> None:
        until = time.monotonic() + timeout
        worker = self._engine.worker
        ends = [worker.spawn(memory.note_end()) for memory in self._engine.sessions()]
        if ends:
            _, late = await asyncio.wait(ends, timeout=max(timeout, _END_WITHIN))
            if late:
                _log.warning("%d sessions did not end in time", len(late))
        await self._flush(max(0.0, until - time.monotonic()))
        await asyncio.wait({worker.spawn(self._also())}, timeout=_HOOKS_WITHIN)
