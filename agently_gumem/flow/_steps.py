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
    with contextlib.closing(steps):
        try:
            step = next(steps)
            while True:
                try:
                    value = step.now()
                except Exception as error:  # noqa: BLE001  # whoever asked for the step takes it
                    step = steps.throw(error)
                else:
                    step = steps.send(value)
        except StopIteration as end:
            return cast("R", end.value)


async def arun(steps: Steps[R]) -> R:
    """Take all steps on the caller's loop, which they never block."""
    with contextlib.closing(steps):
        try:
            step = next(steps)
            while True:
                try:
                    value = await step.later()
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
