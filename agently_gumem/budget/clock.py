"""The clock of the limits; a test gives one of its own instead of sleeping."""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from agently_gumem.records import now


class Timer(Protocol):
    """What was set to happen later."""

    def cancel(self) -> None:
        """Let it not happen."""
        ...


class Clock:
    """The system's clock, and timers of the loop that runs."""

    def seconds(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def today(self) -> datetime:
        """Return the present moment, in UTC."""
        return now()

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call something on the running loop after some seconds."""
        return asyncio.get_running_loop().call_later(seconds, call)
