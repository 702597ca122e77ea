"""One BLAS thread for our small products.

A product of a few rows gains nothing from a second thread, and where the cores are busy it waits
for one in a spin: an embedding that takes 1.3 ms alone took 220 ms beside one busy process on two
cores (OpenBLAS, measured with and without this). The limit is the process's own, so it is set by
the first of ours that comes and lifted by the last that goes.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np


class _Limit:
    """Counts who needs the limit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._held: Any = None

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._held = _controller().limit(limits=1, user_api="blas")

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._held.restore_original_limits()
                self._held = None


_limit = _Limit()


@lru_cache(maxsize=1)
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # looks through the loaded libraries, once

    _ = np.zeros(1) @ np.zeros(1)  # so that numpy's own is among them
    return ThreadpoolController()


@contextmanager
def one_thread() -> Generator[None, None, None]:
    """Hold the process's BLAS at one thread."""
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()
