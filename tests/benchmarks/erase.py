"""What it costs to take one user's bytes out of a large store, while others talk.

    python tests/benchmarks/erase.py [--users 1000] [--messages 100] [--folder DIR] [--json OUT]

A store is filled, one user is forgotten and erased, and meanwhile a thread writes turns of the
others, one after the other. Every file is searched for the user's texts and vectors before and
after; then all other rows are read back.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from _report import arguments, percentile, publish
from _scale_data import name_of, said
from numpy.typing import NDArray

from agently_gumem.opening import open_client
from agently_gumem.store import Row, Store

sys.path.append(str(Path(__file__).parents[1]))  # what tests and benchmarks share
from bytesearch import find

DIMENSION = 512  # of the embedder that comes with the package
VICTIM = 7
SEARCHED = 25
"""Texts that are searched for; all vectors are."""
TALKERS = 20


def main() -> None:
    """Run it and print the figures."""
    given = _arguments()
    place = nullcontext(given.folder) if given.folder else tempfile.TemporaryDirectory()
    with place as folder:
        path = Path(folder)
        store = _open(path)
        began = time.monotonic()
        if not store.scope(name_of(VICTIM), "default").load():
            _fill(store, given.users, given.messages)
        print(f"filled in {time.monotonic() - began:.0f} s", flush=True)
        rows = _measure(store, path, given.users, given.messages)
    publish("erase", {"Erasing one user of many": rows}, given.json)


def _arguments() -> argparse.Namespace:
    parser = arguments("Erase one user of many while others talk.")
    parser.add_argument("--users", type=int, default=1_000)
    parser.add_argument("--messages", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="an empty folder, on the disk to measure")
    return parser.parse_args()


def _open(path: Path) -> Store:
    opened = open_client(path, None)
    return Store(opened, namespace="gumem", shards=16, embedder="random", dimension=DIMENSION)


def _vector(user: int, place: int) -> NDArray[np.float32]:
    draw = np.random.default_rng((user, place))
    made = draw.standard_normal(DIMENSION, np.float32)
    return made / np.linalg.norm(made)


def _row(user: int, place: int) -> Row:
    fields = {"status": "processed", "session_id": f"s{place // 10}", "sequence": place}
    told = {"role": "user", "content": said(user, place).text, "session_id": f"s{place // 10}"}
    return Row("message", f"m{place}", json.dumps(told), fields, _vector(user, place))


def _fill(store: Store, users: int, messages: int) -> None:
    for user in range(users):
        scope = store.scope(name_of(user), "default")
        scope.write([_row(user, place) for place in range(messages)])


class Talk:
    """Turns of other users, one after the other, in a thread of their own."""

    def __init__(self, store: Store, users: Sequence[int], messages: int) -> None:
        self._store = store
        self._users = users
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.next = dict.fromkeys(users, messages)
        """User -> the place of the next message."""
        self.waits: list[tuple[float, float]] = []
        """When each write began, and how long it took."""
        self.failed: list[BaseException] = []

    def __enter__(self) -> "Talk":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        turn = 0
        while not self._stop.is_set():
            user = self._users[turn % len(self._users)]
            place = self.next[user]
            began = time.monotonic()
            try:
                scope = self._store.scope(name_of(user), "default")
                scope.write([_row(user, place), _row(user, place + 1)])
                self.next[user] += 2
            except Exception as error:  # noqa: BLE001  # it is what is measured
                self.failed.append(error)
            self.waits.append((began, time.monotonic() - began))
            turn += 1


def _measure(store: Store, path: Path, users: int, messages: int) -> list[dict[str, Any]]:
    texts = [said(VICTIM, place).text for place in range(0, messages, max(1, messages // SEARCHED))]
    vectors = [_vector(VICTIM, place) for place in range(messages)]
    others = [user for user in range(users) if user != VICTIM]
    before = _size(path)
    found = len(find(path, texts, vectors))
    store.collection(store.shard_of(name_of(VICTIM))).count()
    with Talk(store, others[:TALKERS], messages) as talk:
        _until(lambda: len(talk.waits) > TALKERS)
        quiet = [wait for _, wait in talk.waits]
        forgotten = _timed(store.scope(name_of(VICTIM), "default").forget_all)
        start = time.monotonic()
        erased = _timed(store.erase)
        end = time.monotonic()
    beside = [wait for began, wait in talk.waits if began + wait > start and began < end]
    result = erased["result"]
    row = {
        "records": users * messages,
        "found before": found,
        "found after": len(find(path, texts, vectors)),
        "forget s": forgotten["s"],
        "erase s": erased["s"],
        "CPU s here": forgotten["CPU s"] + erased["CPU s"],
        "CPU s of the process": erased["child CPU s"],
        "usual wait ms": percentile(quiet, 0.5) * 1000,
        "longest wait s": max(beside),
        "turns beside": len(beside),
        "turns failed": len(talk.failed),
        "rows lost": _lost(store, others, messages, talk.next),
        "integrity": result.integrity,
        "left": len(result.left),
        "MB before": before / 1e6,
        "MB after": _size(path) / 1e6,
        "RSS MB here": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    store.close()
    row["found after close"] = len(find(path, texts, vectors))
    return [{"what": what, "value": value} for what, value in row.items()]


def _timed(call: Callable[[], Any]) -> dict[str, Any]:
    wall, cpu, child = time.monotonic(), time.process_time(), _children()
    result = call()
    return {
        "result": result,
        "s": time.monotonic() - wall,
        "CPU s": time.process_time() - cpu,
        "child CPU s": _children() - child,
    }


def _children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.01)


def _size(path: Path) -> int:
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


def _lost(store: Store, users: Iterable[int], messages: int, talked: dict[int, int]) -> int:
    """Count rows that are not there exactly as they were written, with their vectors."""
    lost = 0
    for user in users:
        found = {row.id: row for row in store.scope(name_of(user), "default").load()}
        for place in range(talked.get(user, messages)):
            kept, wanted = found.pop(f"m{place}", None), _row(user, place)
            same = kept is not None and kept.document == wanted.document
            lost += not (same and np.array_equal(kept.vector, wanted.vector))
        lost += len(found)
    return lost


if __name__ == "__main__":
    main()
