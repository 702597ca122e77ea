"""What happens, told to Agently's event center and to logging: kinds, counts, never a user's text.

An event is handed over and the work goes on: hooks of the application run in a thread of their
own, one event after the other, and one that blocks holds up nothing but the events behind it.
"""

import asyncio
import concurrent.futures
import logging
import queue
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

# Events that wait for a hook that blocks; what comes on top is left out and counted.
MOST_WAITING = 1_000
_REST_WITHIN = 5.0
_SAID = ("what", "error")  # of a failure; a console shows no more than this
_OWNER = ("user_id", "space", "session_id")
_failures = logging.getLogger("agently_gumem")
_log = logging.getLogger("agently_gumem.events")


class Tell(Protocol):
    """Tells an event, from any thread, without waiting for who hears it."""

    def __call__(self, kind: str, payload: Mapping[str, Any], *, warning: bool = False) -> None:
        """Tell it."""
        ...


@dataclass(frozen=True)
class _Event:
    kind: str
    payload: dict[str, Any]
    warning: bool


_Heard: TypeAlias = "concurrent.futures.Future[None]"


class Events:
    """Tells events in their order.

    Each is an event `gumem.<kind>` of Agently's event center, and a line of the logger
    `agently_gumem.events` at DEBUG, there without the names of user and session.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[_Event | _Heard | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.left_out: Counter[str] = Counter()
        """Kind -> events that were not delivered: a hook blocked, or the event center failed."""

    def tell(self, kind: str, payload: Mapping[str, Any], *, warning: bool = False) -> None:
        """Tell one event; never waits and never raises.

        Args:
            kind: "journaled", "triggered", "digested", "recalled", "failed", "forgotten", ...
            payload: Counts, times in seconds, and reasons.
            warning: Something went wrong. Agently's own `error` level raises what it emits, so a
                failure is a warning there.
        """
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("gumem.%s %s", kind, {k: v for k, v in payload.items() if k not in _OWNER})
        if self._waiting.qsize() < MOST_WAITING:
            self._put(_Event(kind, dict(payload), warning))
        else:
            self.left_out[kind] += 1

    async def told(self, within: float) -> None:
        """Wait until what was told has been heard, `within` seconds: a hook may be who waits."""
        heard: _Heard = concurrent.futures.Future()
        if self._thread is not None and self._put(heard):
            await asyncio.wait({asyncio.wrap_future(heard)}, timeout=within)

    def close(self) -> None:
        """End the thread once what waits is told; does not wait for it."""
        with self._lock:
            self._closed = True
            self._waiting.put(None)

    def _put(self, item: "_Event | _Heard") -> bool:
        with self._lock:
            if self._closed:
                return False
            self._waiting.put(item)
            if self._thread is None or not self._thread.is_alive():  # none lives on after a fork
                self._thread = threading.Thread(target=self._run, name="gumem-events", daemon=True)
                self._thread.start()
            return True

    def _run(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            while (item := self._waiting.get()) is not None:
                if isinstance(item, _Event):
                    loop.run_until_complete(self._deliver(item))
                else:
                    item.set_result(None)
        finally:
            loop.close()

    async def _deliver(self, event: _Event) -> None:
        try:
            await _emit(event)
            # A hook may be asked in the background, on this loop, which rests between two events.
            if rest := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(rest, timeout=_REST_WITHIN)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  # a hook's
            kind = type(error).__name__
            if not self.left_out[event.kind]:
                _failures.warning("event gumem.%s was not delivered: %s", event.kind, kind)
            self.left_out[event.kind] += 1


async def _emit(event: _Event) -> None:
    """Emit it as the event center of this version takes it."""
    from agently import Agently  # the host is loaded when it is used

    center: Any = Agently.event_center
    name, level = f"gumem.{event.kind}", "WARNING" if event.warning else "DEBUG"
    if hasattr(center, "create_emitter"):
        emitter = center.create_emitter("GUMem")
        said = " ".join([event.kind, *(str(event.payload.get(k, "")) for k in _SAID)]).strip()
        await emitter.async_emit(name, level=level, message=said, payload=event.payload)
        return
    # Before 4.0.9 the kinds of events are fixed; "data" is the one for applications.
    await center.async_emit(
        "data",
        {
            "module_name": "GUMem",
            "content": event.payload,
            "level": level,
            "meta": {"event_type": name},
        },
    )
