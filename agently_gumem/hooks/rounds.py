"""Asking the hooks of one point, in their order, about the records of one piece of work."""

import copy
import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeVar

from agently_gumem.errors import HookError
from agently_gumem.hooks.events import (
    DROP,
    TURN_POINTS,
    HookEvent,
    read_changes,
    read_instruction,
)
from agently_gumem.hooks.webhooks import Webhook
from agently_gumem.records import now

OnFailure = Literal["continue", "drop", "stop"]
R = TypeVar("R")


@dataclass(frozen=True)
class Hook:
    """One hook as it was added."""

    id: str
    name: str
    point: str
    timeout: float
    on_failure: OnFailure
    call: Callable[[HookEvent], Any] | Webhook = field(repr=False)

    @property
    def target(self) -> str:
        """The function's name, or the URL without credentials and query."""
        return self.call.shown if isinstance(self.call, Webhook) else name_of(self.call)

    @property
    def longest(self) -> float:
        """Seconds that a digest waits for it at most, all tries together."""
        return self.timeout * (self.call.retries + 1 if isinstance(self.call, Webhook) else 1)


@dataclass(frozen=True)
class Whose:
    """Whom an event is about."""

    user_id: str
    space: str
    session_id: str = ""


class Asks(Protocol):
    """Calls a hook, and tells what goes wrong with it."""

    async def ask(self, hook: Hook, event: HookEvent, within: float) -> Any:
        """Call one, and wait for it so many seconds at most."""
        ...

    def failed(self, hook: Hook, error: HookError) -> None:
        """Tell that one failed."""
        ...

    async def select(self, clean: Callable[[Any], R], value: Any) -> R:
        """Take out of what one gave what is not for memory."""
        ...


_FAILED: Final = object()


class Round:
    """Asks the hooks of one point about the records of one piece of work.

    One that gave no answer is not asked again in the same round: its `on_failure` holds for what
    comes after, so that many records cost one wait.
    """

    def __init__(
        self,
        hooks: Asks,
        point: str,
        held: tuple[Hook, ...],
        note: Callable[[str, BaseException], None],
        clean: Callable[[Any], Any],
    ) -> None:
        self._hooks = hooks
        self._point = point
        self._held = held
        self._note = note
        self._clean = clean
        self._silent: dict[str, HookError] = {}

    async def change(self, data: Mapping[str, Any], whose: Whose) -> dict[str, Any] | None:
        """Ask for changes of one record, each hook seeing what those before it made of it.

        Returns:
            The data as it is now; None where it was dropped.

        Raises:
            HookError: A hook failed that stops the work then.
        """
        shown = dict(data)
        deadline = self._deadline()
        for hook in self._held:
            changed = await self._asked(
                hook, shown, whose, deadline, functools.partial(self._changes, shown)
            )
            if changed is DROP or (changed is _FAILED and hook.on_failure == "drop"):
                return None
            if changed is not _FAILED and changed:
                shown |= await self._hooks.select(self._clean, changed)
        return shown

    async def instructions(self, data: Mapping[str, Any], whose: Whose) -> list[str]:
        """Ask for instructions to add to a request.

        Raises:
            HookError: A hook failed that stops the work then.
        """
        added: list[str] = []
        for hook in self._held:
            line = await self._asked(hook, data, whose, None, read_instruction)
            if line is not _FAILED and line:
                added.append(await self._hooks.select(self._clean, line))
        return added

    async def show(self, data: Mapping[str, Any], whose: Whose) -> None:
        """Let the hooks look; what one gives changes nothing, and is noted for `status()`.

        Raises:
            HookError: A hook failed that stops the work then.
        """
        for hook in self._held:
            given = await self._asked(hook, data, whose, None, lambda answer: answer)
            if given is not _FAILED and given is not None:
                self._note("hook_answer", HookError(f"gave {type(given).__name__}: it only looks"))

    def _changes(self, shown: Mapping[str, Any], answer: Any) -> Any:
        if answer is None or answer is DROP:
            return answer
        return read_changes(self._point, shown, answer)

    def _deadline(self) -> float | None:
        """Where a turn waits, no record takes longer than the slowest of its hooks may."""
        if self._point not in TURN_POINTS:
            return None
        return time.monotonic() + max(hook.timeout for hook in self._held)

    async def _asked(
        self,
        hook: Hook,
        data: Mapping[str, Any],
        whose: Whose,
        deadline: float | None,
        read: Callable[[Any], Any],
    ) -> Any:
        try:
            return read(await self._answer(hook, data, whose, deadline))
        except HookError as error:
            failure = error
        except Exception as error:  # noqa: BLE001  # whatever it is, it is not the turn's
            failure = HookError(type(error).__name__)
            failure.__cause__ = error
        if hook.id not in self._silent:
            self._note("hook", failure)
            self._hooks.failed(hook, failure)
        if not failure.answered:
            self._silent[hook.id] = failure
        if hook.on_failure == "stop":
            raise HookError(f"hook {hook.name} at {hook.point}: {failure}") from failure
        return _FAILED

    async def _answer(
        self, hook: Hook, data: Mapping[str, Any], whose: Whose, deadline: float | None
    ) -> Any:
        if (silent := self._silent.get(hook.id)) is not None:
            raise silent
        left = None if deadline is None else deadline - time.monotonic()
        within = hook.longest if left is None else min(hook.timeout, left)
        if within <= 0:
            raise HookError("no time was left for it", answered=False)
        return await self._hooks.ask(hook, self._event(hook, data, whose), within)

    def _event(self, hook: Hook, data: Mapping[str, Any], whose: Whose) -> HookEvent:
        copied = copy.deepcopy(dict(data))
        return HookEvent(
            hook.point,
            hook.id,
            hook.name,
            now(),
            whose.user_id,
            whose.space,
            whose.session_id,
            copied,
        )


def name_of(fn: Callable[..., Any]) -> str:
    """Name a function."""
    return str(getattr(fn, "__qualname__", None) or type(fn).__qualname__)
