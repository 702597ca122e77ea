"""Start the chat server: Chroma, a model where none is named, and two workers.

    pip install 'agently-gumem[examples]'
    python examples/server/run.py [--port 8000] [--workers 2]

Without GUMEM_BASE_URL, GUMEM_MODEL and GUMEM_API_KEY it runs on rules in place of a model; without
GUMEM_CHROMA=host:port it starts a Chroma server of its own on ./gumem-server-data.
"""

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import uvicorn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from _model import chat_model  # noqa: E402  # after its path


@contextlib.contextmanager
def chroma() -> Iterator[str]:
    """Give the address of the Chroma server that is named, or of one that ends with this."""
    named = os.environ.get("GUMEM_CHROMA")
    if named:
        yield named
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [str(Path(sys.executable).parent / "chroma"), "run", "--path", "gumem-server-data"]
    server = subprocess.Popen(  # noqa: S603  # our own command
        [*command, "--host", "127.0.0.1", "--port", port],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Ctrl+C goes to all processes of the terminal's group: this one ends after the workers.
        start_new_session=True,
    )
    try:
        _wait_for(server, int(port))
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def _wait_for(server: "subprocess.Popen[bytes]", port: int) -> None:
    """Wait until it answers: a worker that comes before it would not start."""
    until = time.monotonic() + 60
    while server.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise SystemExit("the Chroma server did not start")


def main() -> None:
    """Run until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8_000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    with chroma() as address, chat_model() as (settings, _):
        os.environ |= {
            "GUMEM_CHROMA": address,
            "GUMEM_BASE_URL": settings["base_url"],
            "GUMEM_MODEL": settings["model"],
            "GUMEM_API_KEY": settings["api_key"],
        }
        uvicorn.run(
            "app:app", app_dir=str(HERE), host="127.0.0.1", port=given.port, workers=given.workers
        )


if __name__ == "__main__":
    main()
