"""A Chroma server on loopback, as an application runs one beside its processes."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import chromadb


class Server:
    """A real `chroma run` on a folder, at a port that was free; it is up once it is made."""

    def __init__(self, path: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        command = [str(Path(sys.executable).parent / "chroma"), "run", "--path", str(path)]
        self._process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(self.port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "NO_COLOR": "1"},
        )
        assert self._process.stdout is not None
        while "istening" not in (line := self._process.stdout.readline()):
            assert line, "the server ended"
        # It logs each request, and would wait for somebody to read.
        self._log = self._process.stdout
        self._reader = threading.Thread(target=self._log.read, daemon=True)
        self._reader.start()

    def client(self) -> Any:
        """Connect to it."""
        return chromadb.HttpClient(host="127.0.0.1", port=self.port)

    def stop(self) -> None:
        """End it, as its operator does."""
        self._process.terminate()
        self._process.wait(timeout=30)
        self._reader.join()
        self._log.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
