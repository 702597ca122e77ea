"""The registry of hooks, and how one is asked.

None of them runs on the worker's loop. One that fails, is too slow or gives what it may not give
is logged by kind, emitted as an event and counted in `status()`; what happens then is its
`on_failure`.
"""

import functools
import logging
import math
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, get_args

from agently_gumem.errors import ConfigError, HookError, NotFound
from agently_gumem.events import Tell
from agently_gumem.hooks.calls import Running, call
from agently_gumem.hooks.deliveries import Deliveries, Delivery
from agently_gumem.hooks.events import CHANGES, POINTS, HookEvent, read_reply
from agently_gumem.hooks.rounds import Hook, OnFailure, Round, name_of
from agently_gumem.hooks.webhooks import Webhook, deliver, new_client
from agently_gumem.worker import Worker

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
_MOST_RETRIES = 10

_log = logging.getLogger("agently_gumem")


class Hooks:
    """The hooks of a GUMem, in the order in which they were added; `GUMem.hooks`.

    Args:
        worker: The worker, on whose loop webhooks are awaited.
        tell: Emits an event beside what goes on.
    """

    def __init__(self, worker: Worker, tell: Tell) -> None:
        self._worker = worker
        self._tell = tell
        self._lock = threading.Lock()
        self._at: dict[str, tuple[Hook, ...]] = {}
        self._running = Running()
        self._client: Any = None
        self.sent = Deliveries()

    # -- what an application calls ---------------------------------------------------------------

    def on(
        self,
        point: str,
        *,
        name: str | None = None,
        timeout: float = 5.0,
        on_failure: OnFailure = "continue",
    ) -> Callable[[F], F]:
        """Add the function below, plain or async, as a hook; see `add`."""

        def register(fn: F) -> F:
            self.add(point, fn, name=name, timeout=timeout, on_failure=on_failure)
            return fn

        return register

    def add(
        self,
        point: str,
        target: Callable[[HookEvent], Any] | str,
        *,
        name: str | None = None,
        secret: str | bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 5.0,
        retries: int = 2,
        backoff: float = 0.5,
        on_failure: OnFailure = "continue",
    ) -> str:
        """Add a hook behind those that the point has already.

        Args:
            point: Where it is asked: one of `POINTS`, such as "fact.before_add".
            target: A function of a HookEvent, plain or async, or a URL.
            name: For the log, events and the record of deliveries.
            secret: Signs what a webhook is sent.
            headers: Sent with each request of a webhook.
            timeout: Seconds that one try may take. Where a turn waits for it (`TURN_POINTS`),
                all tries together.
            retries: Further tries of a webhook, where what went wrong can pass.
            backoff: Seconds before the first of those; doubled for each after it.
            on_failure: When it fails: "continue" as if it were not there, "drop" the record, or
                "stop" the work that it belongs to.

        Returns:
            Its id, for `remove`.

        Raises:
            ConfigError: A parameter is wrong.
        """
        _check(point, timeout, retries, backoff, on_failure)
        if isinstance(target, str):
            asked = Webhook(target, secret, dict(headers or {}), retries, backoff)
        elif not callable(target):
            raise ConfigError(f"a hook is a function or a URL, not {type(target).__name__}")
        elif secret is not None or headers is not None:
            raise ConfigError("secret and headers are for a URL: a function takes neither")
        else:
            asked = target
        told = name or (asked.host if isinstance(asked, Webhook) else name_of(asked))
        hook = Hook(f"hook-{secrets.token_hex(8)}", told, point, timeout, on_failure, asked)
        with self._lock:
            self._at[point] = (*self._at.get(point, ()), hook)
        return hook.id

    def remove(self, hook_id: str) -> None:
        """Take a hook out; a call that is under way ends as it may.

        Raises:
            NotFound: There is none of that id.
        """
        with self._lock:
            for point, held in self._at.items():
                if any(hook.id == hook_id for hook in held):
                    self._at[point] = tuple(hook for hook in held if hook.id != hook_id)
                    return
        raise NotFound(f"no hook {hook_id!r}")

    def list(self) -> "list[Hook]":
        """List the hooks, point by point, in the order in which they are asked."""
        with self._lock:
            return [hook for point in POINTS for hook in self._at.get(point, ())]

    def __iter__(self) -> Iterator[Hook]:
        return iter(self.list())

    def deliveries(self, user_id: str, space: str = "default") -> "list[Delivery]":
        """List what webhooks were sent about a user: how often, and when first and last.

        What an earlier process sent is in it once the user was loaded.
        """
        return self.sent.of((user_id, space))

    # -- what the memory calls -------------------------------------------------------------------

    def round(
        self,
        point: str,
        note: Callable[[str, BaseException], None],
        clean: Callable[[Any], Any],
    ) -> "Round | None":
        """Begin to ask the hooks of a point about some records; None where it has none.

        Args:
            point: Where.
            note: Keeps a failure for `status()`.
            clean: Takes out of what a hook gave what is not for memory; runs in the pool.
        """
        held = self._at.get(point)
        return Round(self, point, held, note, clean) if held else None

    async def aclose(self) -> None:
        """Close the connections of webhooks; on the worker's loop."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def ask(self, hook: Hook, event: HookEvent, within: float) -> Any:
        """Call one hook; on the worker's loop.

        Raises:
            HookError: It raised, was too slow, is busy, or could not be reached.
        """
        whose = (event.user_id, event.space)
        if not isinstance(hook.call, Webhook):
            return await call(hook.call, event, within, self._running.take(hook.id, whose))
        with self._running.held(hook.id, whose):
            note = functools.partial(
                self.sent.note, whose, hook.name, hook.call.shown, event.resource, event.time
            )
            reply = await deliver(
                await self._connected(),
                hook.call,
                event.envelope(),
                timeout=hook.timeout,
                within=within,
                on_sent=note,
            )
        return read_reply(event.point, reply)

    async def select(self, clean: Callable[[Any], R], value: Any) -> R:
        """Take out of what a hook gave what is not for memory; in the pool."""
        return await self._worker.thread(clean, value)

    def failed(self, hook: Hook, error: HookError) -> None:
        """Log a failure and emit it: by its kind, which holds nothing that anybody said."""
        _log.warning("hook %s at %s failed: %s", hook.name, hook.point, error)
        _log.debug("hook %s at %s failed", hook.name, hook.point, exc_info=error)
        payload = {
            "what": "hook",
            "error": type(error).__name__,
            "hook": hook.name,
            "hook_id": hook.id,
            "point": hook.point,
            "reason": str(error),
            "on_failure": hook.on_failure,
        }
        self._tell("failed", payload, warning=True)

    async def _connected(self) -> Any:
        if self._client is None:
            client = await self._worker.thread(new_client)
            if self._client is None:
                self._client = client
            else:
                await client.aclose()
        return self._client


def _check(point: str, timeout: float, retries: int, backoff: float, on_failure: str) -> None:
    if point not in POINTS:
        raise ConfigError(f"point={point!r} is none of {', '.join(POINTS)}")
    if on_failure not in get_args(OnFailure):
        raise ConfigError(f'on_failure={on_failure!r} is none of "continue", "drop", "stop"')
    if on_failure == "drop" and point not in CHANGES:
        raise ConfigError(f'on_failure="drop" at {point}, where no record can be dropped')
    if not _is_number(timeout) or timeout <= 0:
        raise ConfigError(f"timeout={timeout!r} takes seconds above 0")
    if not _is_number(backoff) or backoff < 0:
        raise ConfigError(f"backoff={backoff!r} takes seconds, 0 or more")
    if (
        not isinstance(retries, int)
        or isinstance(retries, bool)
        or not 0 <= retries <= _MOST_RETRIES
    ):
        raise ConfigError(f"retries={retries!r} takes a whole number from 0 to {_MOST_RETRIES}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
