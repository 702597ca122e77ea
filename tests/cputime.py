"""The CPU that a call takes: of its own thread, and without the garbage of what ran before."""

import gc
import time
from collections.abc import Callable
from typing import Any


def spent(call: Callable[..., object], *args: Any, **options: Any) -> float:
    """Call it, and say how many seconds of CPU its thread took."""
    collects = gc.isenabled()
    gc.disable()
    try:
        began = time.thread_time()
        call(*args, **options)
        return time.thread_time() - began
    finally:
        if collects:
            gc.enable()
