"""Break the package on purpose, one small patch at a time: a named test must go red for each.

`python tests/sabotage.py [words]` copies the package and its tests, applies one patch to a copy,
and runs the test that is named for it. Prints a table; exits with 1 where a patch went unseen.
"""

import concurrent.futures
import importlib
import pkgutil
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matrix
import patches
from patches._patch import ROOT, Patch

WITHIN = 300.0
"""Seconds that a test may take with its patch: one that hangs has seen it too."""
PATCHES: list[Patch] = [
    patch
    for part in pkgutil.iter_modules(patches.__path__)
    if not part.name.startswith("_")
    for patch in importlib.import_module(f"patches.{part.name}").PATCHES
]


def copy_of(folder: Path) -> Path:
    """Copy what a test run needs."""
    target = folder / "copy"
    for name in ("agently_gumem", "tests", "examples", "docs"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "README.zh.md"):
        shutil.copy(ROOT / name, target / name)
    return target


def run(
    folder: Path, tests: list[str], agently: str, *, within: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run tests against the copy in a folder, which comes first on the path."""
    python = matrix.Asked(agently).home(matrix.FOLDER) / "bin/python" if agently else sys.executable
    command = [str(python), "-m", "pytest", "-x", "-q", *tests]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=within)


def sabotage(patch: Patch) -> str:
    """Apply one patch to a copy and say what its test made of it."""
    with tempfile.TemporaryDirectory() as folder:
        target = copy_of(Path(folder))
        path = target / "agently_gumem" / patch.file
        text = path.read_text(encoding="utf-8")
        if text.count(patch.old) != 1:
            return f"the patch no longer fits: {text.count(patch.old)} places"
        path.write_text(text.replace(patch.old, patch.new), encoding="utf-8")
        try:
            done = run(target, [patch.test], patch.agently, within=WITHIN)
        except subprocess.TimeoutExpired:
            return "red"  # it ends without the patch, as was seen before
    if done.returncode == 0:
        return "UNSEEN: the test stays green"
    # The process may end by more than the failed test, before it names it: by a signal that nobody
    # handled any more, or a lock that was given up twice and took the file of its output along.
    failed = "\nFAILED " in done.stdout or re.match(r"[.sx]*F", done.stdout)
    return "red" if failed else f"the test did not run: {done.stdout[-300:]}"


def main() -> int:
    """Run all patches, or those whose point or file holds one of the words given."""
    words = sys.argv[1:]
    chosen = [p for p in PATCHES if not words or any(w in f"{p.point} {p.file}" for w in words)]
    for agently in sorted({p.agently for p in chosen}):
        if agently:
            asked = matrix.Asked(agently)
            matrix.make(asked, asked.home(matrix.FOLDER))
        with tempfile.TemporaryDirectory() as folder:
            tests = sorted({p.test for p in chosen if p.agently == agently})
            clean = run(copy_of(Path(folder)), tests, agently)
        if clean.returncode != 0:
            print(clean.stdout[-3000:], clean.stderr[-1000:])
            print("the tests are red without any patch")
            return 1
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results: list[str] = []
        for patch, result in zip(chosen, pool.map(sabotage, chosen), strict=True):
            place = f"{patch.point:<28} {patch.file:<24} {patch.test.split('::')[-1]}"
            print(f"{result:<10} {place}", flush=True)
            results.append(result)
    unseen = sum(result != "red" for result in results)
    print(f"{len(results) - unseen} passed, {unseen} failed")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
