"""The example server under load: users who talk at once, on a model of loopback.

`python tests/benchmarks/server_load.py [--users 20] [--turns 8] [--concurrent 10] [--delay 0.2]`
starts the server with two workers, lets each user tell one value of their own and chat on, and asks
for it at the end. Prints throughput, latency, errors, how many answers held the right value and
nobody else's, and the memory of the workers.
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from _report import percentile
from e2e import fact_answer
from test_server import Running

from agently_gumem.testing import Reply, Request, ScriptedModel


@dataclass
class Load:
    """What was measured."""

    seconds: list[float] = field(default_factory=list[float])
    first: list[float] = field(default_factory=list[float])
    errors: list[str] = field(default_factory=list[str])
    right: int = 0
    foreign: int = 0


def answer(delay: float):
    """Answer a question with what the memory brought, anything else with a word."""

    def reply(request: Request) -> Reply:
        asks = request.question.endswith("?")
        return Reply(request.memo_section or "nothing" if asks else "Noted.", delay=delay)

    return reply


async def turn(client: httpx.AsyncClient, load: Load, user: int, text: str) -> str:
    """Ask once, as the page does; give the answer."""
    began, first, told = time.monotonic(), None, []
    body = {"text": text, "session": "load"}
    cookie = {"Cookie": f"user=user-{user}"}
    kind = ""
    async with client.stream("POST", "/chat", json=body, headers=cookie) as reply:
        if reply.status_code != 200:
            load.errors.append(f"status {reply.status_code}")
            return ""
        async for line in reply.aiter_lines():
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: ") and kind == "delta":
                first = first or time.monotonic()
                told.append(json.loads(line[6:]))
            elif line.startswith("data: ") and kind == "error":
                load.errors.append(line[6:])
    load.seconds.append(time.monotonic() - began)
    load.first.append((first or time.monotonic()) - began)
    return "".join(told)


async def talk(
    client: httpx.AsyncClient, load: Load, gate: asyncio.Semaphore, user: int, turns: int
) -> None:
    """Say a value, chat on, and ask for it."""
    texts = [f"My voucher code is V{100_000 + user}."]
    texts += [f"On day {n} I walked {n + user} miles." for n in range(1, turns - 1)]
    for text in texts:
        async with gate:
            try:
                await turn(client, load, user, text)
            except httpx.HTTPError as error:
                load.errors.append(type(error).__name__)
    async with gate:
        told = await turn(client, load, user, "What is my voucher code?")
    values = set(re.findall(r"V\d{6}", told))
    load.right += f"V{100_000 + user}" in values
    load.foreign += bool(values - {f"V{100_000 + user}"})


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process in MB; 0 where it can't be read."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0.0
    found = re.search(r"VmRSS:\s+(\d+)", status.read_text(encoding="utf-8"))
    return int(found.group(1)) / 1024 if found else 0.0


async def run(running: Running, given: argparse.Namespace) -> tuple[Load, float, set[int]]:
    """Let all users talk; give what was measured, how long it took, and who the workers are."""
    load, gate = Load(), asyncio.Semaphore(given.concurrent)
    began = time.monotonic()
    limits = httpx.Limits(max_connections=given.concurrent, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=running.url, timeout=120, limits=limits) as client:
        talks = [talk(client, load, gate, u, given.turns) for u in range(given.users)]
        await asyncio.gather(*talks)
        took = time.monotonic() - began
        workers = {(await client.get("/health")).json()["worker"] for _ in range(20)}
    return load, took, workers


def main() -> int:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--concurrent", type=int, default=10)
    parser.add_argument("--delay", type=float, default=0.2, help="seconds of the model")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        ScriptedModel(answer(given.delay), memory=fact_answer) as model,
    ):
        named = {"GUMEM_BASE_URL": model.url, "GUMEM_MODEL": "scripted", "GUMEM_API_KEY": "none"}
        running = Running(Path(folder), **named)
        try:
            load, took, workers = asyncio.run(run(running, given))
            memory = ", ".join(f"{rss_mb(pid):.0f} MB" for pid in sorted(workers))
        finally:
            running.stop()
    turns = len(load.seconds)
    print(f"{given.users} users, {given.turns} turns each, {given.concurrent} at once")
    print(f"{turns} turns in {took:.1f} s: {turns / took:.1f} a second, {len(load.errors)} errors")
    for name, values in (("whole answer", load.seconds), ("first delta", load.first)):
        marks = ", ".join(f"{q:.0%} {percentile(values, q):.2f} s" for q in (0.5, 0.9, 0.99))
        print(f"{name}: {marks}, of which the model {given.delay:.2f} s")
    print(f"right answers {load.right} of {given.users}, with a foreign value {load.foreign}")
    print(f"workers: {memory}; memory requests {len(model.memory_requests)}")
    return int(bool(load.errors) or load.right < given.users or load.foreign > 0)


if __name__ == "__main__":
    sys.exit(main())
