"""Many users at once on a slow model: is each answered with what was its own, and at what price?

`python tests/benchmarks/crowd.py` has 200 users talk for 20 turns each, all at the same time, each
with an agent of its own, with a model that takes a second for every answer (in a process of its
own). All say the same but for one number; the last question of each asks for it. The same again
without memory (`--without`: only that) tells what memory adds to a turn. Exits with 1 where an
answer was wrong, a row too many or too few, or the process larger than `--rss`.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from _report import arguments, median, percentile, publish

HERE = Path(__file__).parent
FEWEST = 12
SETTINGS = {"users": 200, "turns": 20, "delay": 1.0, "rss": 600.0}


@contextlib.contextmanager
def slow_model(seconds: float) -> Iterator[str]:
    """Run the model in a process of its own, and give its address."""
    command = [sys.executable, str(HERE / "_crowd_model.py"), str(seconds)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the model's process has no pipes")
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.stdin.close()


def run(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Run the users in a process of their own; its memory is theirs alone."""
    command = [sys.executable, str(HERE / "_crowd_users.py"), json.dumps(asked)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def row(name: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Lay out the figures of one run."""
    turns = figures["turns"]
    return {
        "": name,
        "right": figures["right"],
        "rows": figures.get("rows", 0),
        "digests": figures.get("digests", 0),
        "memory requests": figures.get("requests", 0),
        "seconds in all": figures["seconds"],
        "a turn, median s": median(turns),
        "a turn, 95th percentile s": percentile(turns, 0.95),
        "CPU ms a turn": figures["cpu_ms_a_turn"],
        "peak RSS MB": figures["rss_mb"],
    }


def faults(figures: Mapping[str, Any], users: int, turns: int, rss: float) -> list[str]:
    """Say what is not as it must be."""
    found = []
    if figures["right"] != users:
        found.append(f"{figures['right']} of {users} answers are right: {figures['wrong']}")
    if not figures["fewest_rows"] == figures["most_rows"] == 2 * turns:
        found.append(f"rows a user: {figures['fewest_rows']} to {figures['most_rows']}")
    if figures["rss_mb"] > rss:
        found.append(f"{figures['rss_mb']:.0f} MB")
    if figures["errors"] or figures["failed"] or not figures["flushed"]:
        found.append(f"errors {figures['errors']}, {figures['failed']} requests failed")
    return found


def main() -> int:
    """Run both, print the table, and say what is wrong."""
    parser = arguments("Many users at once on a slow model.")
    for name, value in SETTINGS.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--limits", type=json.loads, default={}, help="fields of Limits, as JSON")
    parser.add_argument("--without", action="store_true", help="only the run without memory")
    parser.add_argument("--with", action="store_true", dest="only_with", help="only that with it")
    args = parser.parse_args()
    if args.turns < FEWEST:
        parser.error(f"--turns {args.turns}: before {FEWEST} the value still stands in the window")
    rows, found = [], []
    for memory in (False, True):
        if (memory and args.without) or (not memory and args.only_with):
            continue
        with slow_model(args.delay) as url, tempfile.TemporaryDirectory() as folder:
            asked = {**vars(args), "json": None, "url": url, "path": folder, "memory": memory}
            figures = run(asked)
        rows.append(row("with memory" if memory else "Agently alone", figures))
        if memory:
            found = faults(figures, args.users, args.turns, args.rss)
    title = f"{args.users} users, {args.turns} turns each, {args.delay:g} s an answer"
    publish("crowd", {title: rows}, args.json)
    for fault in found:
        print(f"WRONG: {fault}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
