"""What every benchmark shares: arguments, CPU time, a table on the screen and JSON in a file."""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
# Some of the data tells of health or faith. What measures how well recall finds things keeps them,
# under a label that its questions name.
LABEL = "all"
KEPT = {"action": "keep", "lifetime": "P1D", "access": LABEL}
KEEPING: Mapping[str, Any] = {"privacy": {"special": KEPT}, "recall": {"access": (LABEL,)}}


def arguments(about: str, *, data: bool = False) -> argparse.ArgumentParser:
    """Make a parser that knows `--json OUT` and, for a benchmark on data, the file's path."""
    parser = argparse.ArgumentParser(description=about)
    if data:
        parser.add_argument("file", type=Path, help="the data, from where you keep it")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    return parser


def cpu_ms(call: Callable[[], Any]) -> float:
    """Return the CPU milliseconds of one call, all threads of the process."""
    began = time.process_time()
    call()
    return (time.process_time() - began) * 1000


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share (0-1) of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    """Return the median; 0 of nothing."""
    return statistics.median(values) if values else 0.0


def table(title: str, rows: Sequence[Row]) -> str:
    """Lay out rows of one shape as a Markdown table; floats under 10 get three digits."""
    heads = list(rows[0])
    cells = [[_cell(row[head]) for head in heads] for row in rows]
    widths = [max(len(line[i]) for line in [heads, *cells]) for i in range(len(heads))]

    def line(parts: Sequence[str]) -> str:
        return "| " + " | ".join(p.ljust(w) for p, w in zip(parts, widths, strict=True)) + " |"

    rule = line(["-" * width for width in widths])
    return "\n".join([f"\n{title}\n", line(heads), rule, *map(line, cells)])


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def publish(name: str, tables: Mapping[str, Sequence[Row]], path: Path | None) -> None:
    """Print the tables, and write them with what they were measured on where a path is given."""
    for title, rows in tables.items():
        if rows:
            print(table(title, rows), flush=True)
    if path is not None:
        on = {
            "python": platform.python_version(),
            "machine": platform.machine(),
            **{p: version(p) for p in ("agently", "chromadb", "numpy")},
        }
        body = {"benchmark": name, "on": on, "tables": tables}
        path.write_text(json.dumps(body, ensure_ascii=False, indent=1), encoding="utf-8")
