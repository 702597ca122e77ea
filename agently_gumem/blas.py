"""One BLAS thread for our small products.

A product of a few rows gains nothing from a second thread, and where the cores are busy it waits
for one in a spin: an embedding that takes 1.3 ms alone took 220 ms beside one busy process on two
cores (OpenBLAS, measured with and without this). The limit is the process's own, so it is set by
the first of ours that comes and lifted by the last that goes.
"""

import os
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, cast

import numpy as np


class _Limit:
    """Counts who needs the limit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before: Sequence[tuple[Any, int]] = ()

    def enter(self) -> None:
        with self._lock:
            if self._users == 0:
                self._before = [(lib, lib.num_threads) for lib in _libraries()]
                self._set([(lib, 1) for lib, _ in self._before])
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._set(self._before)

    def renew(self) -> None:
        """Lift in a forked child what threads of the parent had set."""
        self._lock = threading.Lock()
        if self._users:
            self._users = 0
            self._set(self._before)

    @staticmethod
    def _set(wanted: Sequence[tuple[Any, int]]) -> None:
        for lib, threads in wanted:
            # threadpoolctl 3.8 lets only the thread that set a limit first set another, and all
            # others silently do nothing; the lock here is what keeps ours in order.
            release = getattr(lib, "clear_controlling_thread", None)
            if release is not None:
                release(force=True)
            lib.set_num_threads(threads)
            if release is not None:
                release(force=True)


_limit = _Limit()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_limit.renew)


@lru_cache(maxsize=1)
def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController  # looks through the loaded libraries, once

    _ = np.zeros(1) @ np.zeros(1)  # so that numpy's own is among them
    loaded: list[Any] = cast("Any", ThreadpoolController)().lib_controllers
    return [lib for lib in loaded if lib.user_api == "blas"]


@contextmanager
def one_thread() -> Generator[None, None, None]:
    """Hold the process's BLAS at one thread."""
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()
