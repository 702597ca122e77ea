"""The example server, started as a reader starts it: two workers, a Chroma server of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

RUN = Path(__file__).parent.parent / "examples" / "server" / "run.py"


class Running:
    """The server, up once both workers are; it is asked over HTTP."""

    def __init__(self, folder: Path, workers: int = 2, **named: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("GUMEM_")}
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [sys.executable, str(RUN), "--port", str(port), "--workers", str(workers)],
            cwd=folder,
            env=kept | named,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.log: list[str] = []
        up = 0
        while up < workers:
            line = self.process.stdout.readline()
            assert line, "".join(self.log)
            self.log.append(line)
            up += "Application startup complete" in line
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        self.log.extend(self.process.stdout)

    def say(self, user: str, session: str, text: str) -> tuple[str, str, list[str]]:
        """Ask in a connection of its own; give the worker, the answer and the kinds of events."""
        kinds, answer = [], ""
        body = {"text": text, "session": session}
        with (
            httpx.Client(cookies={"user": user}, timeout=30) as client,
            client.stream("POST", f"{self.url}/chat", json=body) as reply,
        ):
            assert reply.headers["content-type"].startswith("text/event-stream")
            for line in reply.iter_lines():
                if line.startswith("event: "):
                    kinds.append(line[7:])
                elif line.startswith("data: ") and kinds[-1] == "delta":
                    answer += json.loads(line[6:])
            return reply.headers["x-worker"], answer, kinds

    def stop(self) -> None:
        """Interrupt it, as who runs it in a terminal does."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)
        self._reader.join(10)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """One server for all tests here."""
    running = Running(tmp_path_factory.mktemp("server"))
    yield running
    running.stop()
    log = "".join(running.log)
    assert "Traceback" not in log, log


def test_whichever_worker_answers_knows_what_the_other_was_told(running):
    """Ten turns of one conversation, each a request of its own: each message is stored once."""
    user, workers = "alice", []
    texts = ["I am allergic to peanuts.", *(f"I have {n} bikes." for n in range(2, 10))]
    for text in texts:
        worker, answer, kinds = running.say(user, "monday", text)
        workers.append(worker)
        assert answer
        assert set(kinds[:-1]) == {"delta"}
        assert kinds[-1] == "done"
    for turn in range(20):  # until the other one answers, in another session
        worker, answer, _ = running.say(user, f"tuesday-{turn}", "What am I allergic to?")
        if worker != workers[0]:
            break
    assert worker != workers[0]
    assert "peanuts" in answer
    with httpx.Client(cookies={"user": user}, timeout=30) as client:
        status = client.get(f"{running.url}/memory").json()["status"]
        assert status["messages"] == 2 * (len(texts) + turn + 1)
        assert client.get(f"{running.url}/health").json()["store"]["kind"] == "server"


def test_nobody_gets_anothers_memory_and_without_a_user_nobody_is_served(running):
    """The stub asks for a name; two names are two users."""
    running.say("carol", "s", "My dentist is Dr. Alvarez.")
    assert "Alvarez" not in running.say("dave", "s", "Who is my dentist?")[1]
    assert "Alvarez" in running.say("carol", "t", "Who is my dentist?")[1]
    assert httpx.get(f"{running.url}/memory").status_code == 401
    page = httpx.get(running.url).text
    assert "<form" in page
    assert "innerHTML" not in page
