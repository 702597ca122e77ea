"""A gate that many may pass at once, and that one may shut."""

import contextlib
import threading
from collections.abc import Generator


class Gate:
    """Writes pass together; who shuts the gate waits for them, and holds the next ones up.

    One gate a database and process. It also keeps which namespaces are marked as having deleted
    rows, so that the mark is written once.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._passing = 0
        self._shut = False
        self.marked: set[str] = set()

    @contextlib.contextmanager
    def passing(self) -> Generator[None, None, None]:
        """Wait while the gate is shut, then hold it open."""
        with self._changed:
            self._changed.wait_for(lambda: not self._shut)
            self._passing += 1
        try:
            yield
        finally:
            with self._changed:
                self._passing -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def shut(self) -> Generator[None, None, None]:
        """Shut the gate, once nobody else has, and wait for those who pass."""
        with self._changed:
            self._changed.wait_for(lambda: not self._shut)
            self._shut = True
            self._changed.wait_for(lambda: not self._passing)
        try:
            yield
        finally:
            with self._changed:
                self._shut = False
                self._changed.notify_all()
