"""Work that plain and async chunks share: written once, as steps that either kind takes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar, cast

R = TypeVar("R")


@dataclass(frozen=True)
class Step:
    """One thing that waits, in the form that blocks and in the form that is awaited."""

    now: Callable[[], Any]
    later: Callable[[], Awaitable[Any]]


Steps = Generator[Step, Any, R]
"""What is done, step by step, whoever runs it: a plain chunk or an async one."""


def run(steps: Steps[R]) -> R:
    """Take all steps on the caller's thread."""
    taking = _taken(steps, _now)
    try:
        taking.send(None)
    except StopIteration as end:
        return cast("R", end.value)
    raise AssertionError("a step that blocks suspended")


async def arun(steps: Steps[R]) -> R:
    """Take all steps on the caller's loop, which they never block."""
    return await _taken(steps, lambda step: step.later())


async def _now(step: Step) -> Any:
    return step.now()


async def _taken(steps: Steps[R], take: Callable[[Step], Awaitable[Any]]) -> R:
    with contextlib.closing(steps):
        try:
            step = next(steps)
            while True:
                try:
                    value = await take(step)
                except Exception as error:  # noqa: BLE001  # whoever asked for the step takes it
                    step = steps.throw(error)
                else:
                    step = steps.send(value)
        except StopIteration as end:
            return cast("R", end.value)


def in_a_loop() -> bool:
    """Tell whether the caller would hold up a loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
