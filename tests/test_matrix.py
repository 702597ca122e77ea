"""The runner over the versions of Agently: what it counts, and what it takes for wrong."""

import inspect
import os
import re
import subprocess
import sys
import venv
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import matrix
import pytest
from agently import Agently
from e2e import LEVELS
from matrix import (
    NEWEST,
    VERSIONS,
    Asked,
    Ran,
    counts,
    is_asked_for,
    longest_first,
    stamp,
    table,
    total,
)

GOOD = Ran(Asked("4.0.9"), "4.0.9", "3.11.7", tests=120, skipped=2, seconds=61.23)


def test_a_run_counts_only_with_the_right_version_and_enough_tests():
    """A failure, another version, too few tests and no environment are each told by what it is."""
    assert GOOD.wrong == ""
    assert "2 failed" in replace(GOOD, failed=2).wrong
    assert "4.1.2, not 4.0.9" in replace(GOOD, agently="4.1.2").wrong
    assert replace(GOOD, tests=82).wrong == ""
    assert "79 tests ran, not 80" in replace(GOOD, tests=81).wrong
    assert "environment" in replace(GOOD, agently="").wrong


def test_the_newest_is_none_of_the_older_ones():
    """Where pip gives an old version for the newest, the run does not count."""
    older = [v for v in VERSIONS if v != NEWEST]
    assert [is_asked_for(NEWEST, version) for version in older] == [False] * len(older)
    assert is_asked_for(NEWEST, "4.1.4.10")
    assert is_asked_for(NEWEST, "5.0")
    assert not is_asked_for("4.0.8", "4.0.8.5")


def test_what_takes_longest_begins():
    """All tests of a version before the others, and of those the newest, which asks for most."""
    asked = [Asked(v) for v in ("4.0.8", "4.0.9", NEWEST)]
    order = [one.version for one in longest_first(asked, ["4.0.8"])]
    assert order == ["4.0.8", NEWEST, "4.0.9"]


def test_the_report_of_pytest_is_counted(tmp_path):
    """Failures, errors and skipped tests of a real report."""
    tests = tmp_path / "test_it.py"
    tests.write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('n', range(4))\n"
        "def test_fine(n): pass\n"
        "def test_bad(): assert 0\n"
        "def test_broken(missing): pass\n"
        "@pytest.mark.skip\n"
        "def test_not(): pass\n",
        "utf-8",
    )
    report = tmp_path / "report.xml"
    plain = ["-c", os.devnull, "-p", "no:cacheprovider", f"--junitxml={report}"]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plain, str(tests)],
        capture_output=True,
        cwd=tmp_path,
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert counts(report.read_text("utf-8")) == (7, 2, 1)


def test_the_table_and_the_last_line():
    """Columns are aligned, and the last line reads as pytest's own."""
    runs = [GOOD, replace(GOOD, asked=Asked(NEWEST), agently="4.1.4.10", failed=1)]
    assert table(runs).splitlines() == [
        "asked for  Agently   Python  run  failed  skipped  seconds",
        "4.0.9      4.0.9     3.11.7  118       0        2     61.2",
        "newest     4.1.4.10  3.11.7  118       1        2     61.2",
    ]
    assert total(runs, 125.5) == "1 failed, 235 passed, 4 skipped in 125.50s"
    assert total([GOOD], 61.23) == "118 passed, 2 skipped in 61.23s"
    assert total([Ran(Asked("4.0.8"))], 1).startswith("1 failed, 0 passed")


def test_an_environment_is_made_anew_when_what_it_rests_on_changes():
    """pyproject, the version, the Python: each of them counts, and nothing else."""
    stamps = {
        stamp(Asked("4.0.8"), b"a"),
        stamp(Asked("4.0.8"), b"b"),
        stamp(Asked("4.0.9"), b"a"),
        stamp(Asked("4.0.8", "/usr/bin/python3.13"), b"a"),
    }
    assert len(stamps) == 4
    assert stamp(Asked("4.0.8"), b"a") in stamps
    asked = [*map(Asked, VERSIONS), Asked(NEWEST, "/usr/bin/python3.13")]
    homes = {one.home(matrix.FOLDER) for one in asked}
    assert len(homes) == len(VERSIONS) + 1
    assert all(home.parent == matrix.FOLDER for home in homes)


def test_a_test_sees_nothing_of_the_callers_environment(monkeypatch):
    """No variable that changes Python, memory or pip gets in; pip itself reaches its index."""
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "GUMEM_OFF", "PIP_INDEX_URL", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "x")
    inside = matrix.inside(Path("/env"))
    assert set(inside) == {"PATH", "HOME", "TMPDIR", "LANG", "PYTHONNOUSERSITE"}
    assert (inside["PATH"].split(":")[0], inside["HOME"]) == ("/env/bin", "/env")
    assert {k for k, v in matrix.outside().items() if v == "x"} == {"PIP_INDEX_URL"}


def test_a_python_that_is_not_there_is_told():
    """The name that was looked for stands in the error."""
    number = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert Path(matrix.interpreter(number)).name == f"python{number}"
    with pytest.raises(SystemExit, match=r"python2\.99"):
        matrix.interpreter("2.99")


PAGE = (matrix.ROOT / "docs" / "compatibility.md").read_text("utf-8")
ROWS = [
    [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if re.match(r"\| (\d|newest)", line) and line.count("|") == 7
]


def test_the_page_has_a_row_for_each_version():
    """The table of the docs lists the versions of the matrix, in their order."""
    assert [row[0] for row in ROWS] == list(VERSIONS)


@pytest.mark.host
def test_the_row_of_this_version_says_what_its_objects_show():
    """Handlers, the name of a strategy's, the plugin switch, tool calls and the event centre."""
    found = version("agently")
    named = found if found in VERSIONS else NEWEST
    if named == NEWEST:
        assert is_asked_for(NEWEST, found), f"{found} has no row"
    agent = Agently.create_agent().activate_session(session_id="s")
    session = agent.activated_session
    use = getattr(session, "use_memory", None)
    takes = [n for n in inspect.signature(use).parameters if n != "mode"] if use else ["-"]
    resize = hasattr(session, "register_resize_handler")
    assert next(row for row in ROWS if row[0] == named)[1:] == [
        "on the agent" if "agent" in LEVELS else "on each session",
        "register_resize_handler" if resize else "register_execution_handlers",
        *takes,
        "tools, actions" if hasattr(agent, "use_actions") else "tools",
        "gumem.*" if hasattr(Agently.event_center, "create_emitter") else "data",
    ]


def test_who_asks_from_an_environment_of_its_own_gets_the_same_one(tmp_path):
    """What `make matrix` made is not made anew by a Python of another environment."""
    venv.create(tmp_path / "other", with_pip=False, symlinks=True)
    ask = "import matrix; print(matrix.stamp(matrix.Asked('4.0.8'), b'a'))"
    told = subprocess.run(
        [str(tmp_path / "other" / "bin" / "python"), "-c", ask],
        cwd=matrix.ROOT / "tests",
        capture_output=True,
        text=True,
    )
    assert told.stdout.strip() == stamp(Asked("4.0.8"), b"a"), told.stderr
