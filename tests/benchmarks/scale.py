"""What recall, journal, digest and opening cost as a store grows, beside one plain Chroma query.

`python tests/benchmarks/scale.py` builds stores of 4,000 and 100,000 records through the public
interface, opens each in a process of its own, lets users come at random under an index cap of
256 MB, and prints CPU time apart from embedding. `--records 1000000` does the large one.
"""

import json
import subprocess
import sys
import tempfile
from argparse import SUPPRESS, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _report import arguments, publish
from _scale_runs import PHASES, run

USERS = {4_000: 40, 100_000: 1_000, 1_000_000: 50_000}
# Records of a user at the largest size: the small store that it is compared with has as many.
FEW = 20
Figures = Mapping[str, Any]


def _options() -> Namespace:
    parser = arguments(__doc__ or "")
    parser.add_argument("--records", type=int, nargs="+", default=[4_000, 100_000])
    parser.add_argument("--users", type=int, help="for every size; default 40, 1,000, 50,000")
    parser.add_argument("--shards", type=int, nargs="+", default=[16])
    parser.add_argument("--dimension", type=int, default=512, help="length of the vectors")
    parser.add_argument("--arrivals", type=int, default=700, help="users that come at random")
    parser.add_argument("--plain-queries", type=int, default=60)
    parser.add_argument("--no-plain", action="store_true", help="leave plain Chroma out")
    parser.add_argument("--questions", type=int, default=60, help="asked of the one user")
    parser.add_argument("--one-user", type=int, default=700, help="records of it; 0 leaves it out")
    parser.add_argument("--folder", help=SUPPRESS)
    parser.add_argument("--phase", choices=list(PHASES), help=SUPPRESS)
    return parser.parse_args()


def part(phase: str, options: Namespace, folder: str, **given: int) -> dict[str, Any]:
    """Run one part in a process of its own, and read its figures from its last line."""
    told = {
        "dimension": options.dimension,
        "arrivals": options.arrivals,
        "plain-queries": options.plain_queries,
        "questions": options.questions,
        **given,
    }
    flags = [word for name, value in told.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, __file__, "--phase", phase, "--folder", folder, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{phase} failed:\n{done.stderr}")
    print(f"{phase} {given} done", file=sys.stderr, flush=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def size(options: Namespace, records: int, users: int, shards: int) -> dict[str, Any]:
    """Build and measure one store."""
    with tempfile.TemporaryDirectory() as folder:
        told = {"records": records, "users": users, "shards": shards}
        built = part("build", options, folder, **told)
        return {**told, **built, **part("measure", options, folder, **told)}


def _beside(options: Namespace, records: int, users: int) -> dict[str, Any]:
    """Measure plain Chroma on the same texts and vectors, unless it is left out."""
    if options.no_plain:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        return part("plain", options, folder, records=records, users=users)


def measured(options: Namespace) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Measure every size and number of shards that was asked for, and the one user."""
    rows: list[dict[str, Any]] = []
    for records in options.records:
        users = options.users or USERS.get(records, max(1, records // 100))
        own = [size(options, records, users, s) for s in options.shards]
        plain = _beside(options, records, users)
        rows += [{**row, **plain} for row in own]
        if records // users == FEW and records > min(USERS):
            small = size(options, 4_000, 4_000 // FEW, options.shards[0])
            rows.insert(0, {**small, **_beside(options, 4_000, 4_000 // FEW)})
    one: dict[str, Any] = {}
    if options.one_user:
        with tempfile.TemporaryDirectory() as folder:
            one = part("one-user", options, folder, records=options.one_user)
    return rows, one


def _columns(rows: Sequence[Figures], columns: Mapping[str, str]) -> list[dict[str, Any]]:
    heads = ("records", "users", "shards")
    return [
        {**{h: row[h] for h in heads}, **{t: row.get(k, "-") for k, t in columns.items()}}
        for row in rows
    ]


_READS = {
    "warm_p50": "warm recall p50",
    "warm_p95": "p95",
    "cold_p50": "cold recall p50",
    "load_p50": "of it the store",
    "cold_users": "cold users",
    "turn_p50": "first turn p50",
    "turn_p95": "first turn p95",
    "plain_p50": "Chroma where user p50",
    "plain_p95": "Chroma p95",
}
_WRITES = {
    "journal_p50": "journal p50",
    "journal_p95": "journal p95",
    "digest_p50": "digest of 6",
    "digest_write_p50": "of it the store",
    "open_ms": "open",
    "process_ms": "first turn of a process",
}
_SPACE = {
    "rss": "RSS, MB",
    "disk_mb": "disk, MB",
    "build_s": "build, s CPU",
    "plain_rss": "Chroma RSS",
    "plain_disk_mb": "Chroma disk",
    "plain_build_s": "Chroma build",
}


def _alike(row: Figures) -> tuple[int, int]:
    """Return what two rows must share to be set beside each other: records a user, and shards."""
    return row["records"] // row["users"], row["shards"]


def ratios(rows: Sequence[Figures]) -> list[dict[str, Any]]:
    """Set a store beside the smallest one with as many records a user and as many shards."""
    found: list[dict[str, Any]] = []
    for row in rows:
        alike = [r for r in rows if _alike(r) == _alike(row)]
        base = min(alike, key=lambda r: r["records"])
        if base is not row and base["records"] < row["records"]:
            plain, before = row.get("plain_p50", 0.0), base.get("plain_p50", 0.0)
            found.append(
                {
                    "records": row["records"],
                    "shards": row["shards"],
                    "against": base["records"],
                    "warm recall": row["warm_p50"] / base["warm_p50"],
                    "first turn": row["turn_p50"] / base["turn_p50"],
                    "journal": row["journal_p50"] / base["journal_p50"],
                    "Chroma": plain / before if before else "-",
                }
            )
    return found


def main() -> None:
    """Run everything, or the one part that a process of its own was started for."""
    options = _options()
    if options.phase:
        options.records, options.shards = options.records[0], options.shards[0]
        print(json.dumps(run(options)))
        return
    rows, one = measured(options)
    tables: dict[str, Sequence[Figures]] = {
        "Recall, CPU ms apart from embedding": _columns(rows, _READS),
        "Writing and opening, CPU ms apart from embedding": _columns(rows, _WRITES),
        "Memory and disk": _columns(rows, _SPACE),
        "Ratio to the smallest store with as many records a user": ratios(rows),
        "One user, CPU ms apart from embedding": [one] if one else [],
    }
    publish("scale", tables, Path(options.json) if options.json else None)


if __name__ == "__main__":
    main()
