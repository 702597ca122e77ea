"""Run the tests that depend on the host on every version of Agently, each in its own environment.

`python tests/matrix.py [--versions 4.0.8 newest] [--pythons 3.10 3.13] [--jobs 3] [--whole 4.0.8]`

An environment is made in `.matrix/` when there is none, or when pyproject.toml has changed, and is
kept. Prints a table of what was read and counted inside each one; exits with 1 where a test failed,
where the version is not the one that was asked for, or where too few tests ran.
"""

import argparse
import concurrent.futures
import hashlib
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".matrix"
# Not that of the environment in which this runs: whoever asks gets the same one.
OWN = str(Path(sys.executable).resolve())
NEWEST = "newest"
VERSIONS = ("4.0.8", "4.0.8.5", "4.0.9", "4.1.2", "4.1.3.9", "4.1.4.1", NEWEST)
AT_LEAST = 80
"""Tests that have to run on each version."""
SECONDS = 1800
"""What the tests of one version may take at most."""
_READ = """
import platform
from importlib.metadata import version
print(version("agently"), platform.python_version())
"""
# What pip needs of the caller to reach a package index; a test gets none of it.
_FOR_PIP = ("PIP_", "SSL_", "REQUESTS_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_COLUMNS = ("asked for", "Agently", "Python", "run", "failed", "skipped", "seconds")


@dataclass(frozen=True)
class Asked:
    """One environment: a version of Agently on a Python."""

    version: str
    python: str = OWN

    @property
    def label(self) -> str:
        """Name it in the table."""
        return self.version if self.python == OWN else f"{self.version} on {Path(self.python).name}"

    def home(self, folder: Path) -> Path:
        """Say where its environment stands."""
        return folder / self.label.replace(" ", "-")

    @property
    def requirement(self) -> str:
        """What pip is asked for."""
        return "agently" if self.version == NEWEST else f"agently=={self.version}"


@dataclass(frozen=True)
class Ran:
    """What came of one environment."""

    asked: Asked
    agently: str = ""
    python: str = ""
    tests: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    output: str = field(default="", repr=False)

    @property
    def wrong(self) -> str:
        """Say why it doesn't count; empty where all is well."""
        if not self.agently:
            return "the environment could not be made"
        if not is_asked_for(self.asked.version, self.agently):
            return f"Agently is {self.agently}, not {self.asked.version}"
        if self.failed:
            return f"{self.failed} failed"
        if self.tests - self.skipped < AT_LEAST:
            return f"{self.tests - self.skipped} tests ran, not {AT_LEAST}"
        return ""


def is_asked_for(wanted: str, found: str) -> bool:
    """Tell whether a version is the one asked for; the newest is none of the older ones."""
    if wanted != NEWEST:
        return found == wanted
    return _parts(found) > max(_parts(v) for v in VERSIONS if v != NEWEST)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def counts(junit: str) -> tuple[int, int, int]:
    """Read tests, failures with errors, and skipped from a report of pytest."""
    suites = ET.fromstring(junit).iter("testsuite")  # noqa: S314  # our own file
    numbers = [(int(s.get("tests", 0)), _bad(s), int(s.get("skipped", 0))) for s in suites]
    tests, bad, skipped = (sum(column) for column in zip(*numbers, strict=True))
    return tests, bad, skipped


def _bad(suite: ET.Element) -> int:
    return int(suite.get("failures", 0)) + int(suite.get("errors", 0))


def table(runs: Sequence[Ran]) -> str:
    """Lay the runs out in columns."""
    rows = [_COLUMNS]
    for run in runs:
        told = (run.tests - run.skipped, run.failed, run.skipped, f"{run.seconds:.1f}")
        rows.append((run.asked.label, run.agently or "-", run.python or "-", *map(str, told)))
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    sides = ["<"] * 3 + [">"] * (len(_COLUMNS) - 3)
    lines = (
        "  ".join(f"{c:{s}{w}}" for c, s, w in zip(row, sides, widths, strict=True)) for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def total(runs: Sequence[Ran], seconds: float) -> str:
    """Sum the runs, in the words of pytest."""
    failed = sum(run.failed for run in runs) + sum(bool(r.wrong) and not r.failed for r in runs)
    passed = sum(run.tests - run.failed - run.skipped for run in runs)
    skipped = sum(run.skipped for run in runs)
    parts = [(failed, "failed"), (passed, "passed"), (skipped, "skipped")]
    told = ", ".join(f"{n} {word}" for n, word in parts if n or word == "passed")
    return f"{told} in {seconds:.2f}s"


# -- environments ----------------------------------------------------------------------------------


def stamp(asked: Asked, project: bytes) -> str:
    """Tell whether an environment still is what it has to be."""
    return hashlib.sha256(project + f"{asked.requirement} {asked.python}".encode()).hexdigest()


def make(asked: Asked, home: Path) -> None:
    """Make an environment, or leave the one that stands.

    Raises:
        CalledProcessError: pip could not install it; the error has what it said.
    """
    wanted = stamp(asked, (ROOT / "pyproject.toml").read_bytes())
    ready = home / ".ready"
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    if not ready.exists() or ready.read_text() != wanted:
        shutil.rmtree(home, ignore_errors=True)
        _run([asked.python, "-m", "venv", str(home)], outside())
        # What is imported is compiled then; compiling all of it takes longer than installing it.
        _run([*pip, "--no-compile", "--editable", f"{ROOT}[test]", asked.requirement], outside())
        ready.write_text(wanted)
    elif asked.version == NEWEST:
        _run([*pip, "--upgrade", asked.requirement], outside())


def longest_first(asked: Sequence[Asked], whole: Sequence[str]) -> list[Asked]:
    """Order what runs, so that no long one is left over at the end; the newest asks for most."""
    return sorted(asked, key=lambda one: (one.version not in whole, -asked.index(one)))


def _run(command: Sequence[str], env: dict[str, str], timeout: float | None = None) -> str:
    """Run a command and return what it printed, errors too."""
    return subprocess.run(
        command,
        env=env,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=True,
    ).stdout


def outside() -> dict[str, str]:
    """Return what pip may know of the caller."""
    passed = {k: v for k, v in os.environ.items() if k.upper().startswith(_FOR_PIP)}
    return {**inside(Path.home()), **passed}


def inside(home: Path) -> dict[str, str]:
    """Return the whole environment of a test: nothing of the caller's but where to put a file."""
    return {
        "PATH": f"{home / 'bin'}:{os.defpath}",
        "HOME": str(home),
        "TMPDIR": os.environ.get("TMPDIR", "/tmp"),  # noqa: S108  # as Python itself has it
        "LANG": "C.UTF-8",
        "PYTHONNOUSERSITE": "1",
    }


# -- a run -----------------------------------------------------------------------------------------


def run(asked: Asked, folder: Path, *, whole: bool) -> Ran:
    """Make the environment, and run the tests there."""
    home = asked.home(folder)
    try:
        began = time.monotonic()
        make(asked, home)
        print(f"{asked.label}: environment ready in {time.monotonic() - began:.0f} s", flush=True)
    except subprocess.CalledProcessError as error:
        return Ran(asked, output=str(error.output))
    return tested(asked, home, whole=whole)


def tested(asked: Asked, home: Path, *, whole: bool) -> Ran:
    """Read what is in an environment, and run the tests there."""
    python = home / "bin" / "python"
    env = inside(home)
    agently, version = _run([str(python), "-c", _READ], env).split()
    report = home / "report.xml"
    report.unlink(missing_ok=True)
    chosen = [] if whole else ["-m", "host"]
    began = time.monotonic()
    output, failed = "", 0
    try:
        tests = [str(python), "-m", "pytest", *chosen, f"--junitxml={report}"]
        output = _run(tests, env, timeout=SECONDS)
    except subprocess.CalledProcessError as error:
        output, failed = str(error.output), 1
    except subprocess.TimeoutExpired as error:
        output, failed = f"{error.output!r}\nended after {SECONDS} s", 1
    tests, bad, skipped = counts(report.read_text("utf-8")) if report.exists() else (0, 0, 0)
    seconds = time.monotonic() - began
    return Ran(asked, agently, version, tests, max(bad, failed), skipped, seconds, output)


def interpreter(python: str) -> str:
    """Find an installed Python by its number.

    Raises:
        SystemExit: There is none.
    """
    name = f"python{python}"
    own = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(name), *sorted(own.glob(f"{python}.*/bin/{name}"))]
    for path in filter(None, found):
        # What is found on the path may be a shim that leads nowhere.
        if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return str(path)
    raise SystemExit(f"matrix: no {name} here")


def main() -> int:
    """Run what was asked for, print the table, and tell whether all is well."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--versions", nargs="+", default=VERSIONS)
    options.add_argument("--pythons", nargs="*", default=[], help="run the newest Agently on these")
    options.add_argument("--folder", type=Path, default=FOLDER, help="where environments stand")
    options.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1)
    options.add_argument("--whole", nargs="*", default=[], help="versions on which all tests run")
    given = options.parse_args()
    asked = [Asked(version) for version in given.versions]
    if given.pythons:
        asked = [Asked(NEWEST, interpreter(python)) for python in given.pythons]
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        folder = given.folder.resolve()
        begun = {
            one: pool.submit(run, one, folder, whole=one.version in given.whole)
            for one in longest_first(asked, given.whole)
        }
    runs = [begun[one].result() for one in asked]
    for one in runs:
        if one.wrong:
            print(f"--- {one.asked.label}: {one.wrong}\n{one.output[-8000:]}\n")
    print(table(runs))
    print(total(runs, time.monotonic() - began))
    return 1 if any(one.wrong for one in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
