"""Run what reads the database file in a process of its own, and take its answer.

A second SQLite in this process would break the locks of Chroma's.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from agently_gumem.erase.report import Erased, command_for
from agently_gumem.errors import StoreError
from agently_gumem.ownership import token_of

_ROOT = Path(__file__).resolve().parents[2]
_STAYS = "Nothing is lost, and the bytes of what was deleted are still in the files"


def run(folder: Path, namespace: str, timeout: float) -> Erased:
    """Clean a folder that this process has open in Chroma; nothing of it may write meanwhile.

    Args:
        folder: Where chroma.sqlite3 is.
        namespace: Prefix of the collections whose vector files are cleaned.
        timeout: Seconds after which the process is stopped; SQLite takes back what it began.

    Raises:
        StoreError: It could not be started, failed, took too long, or found damage.
    """
    if not sys.executable:
        raise StoreError(
            f"no Python interpreter to erase with. {_STAYS}: {_by_hand(folder, namespace)}"
        )
    try:
        done = _call(folder, namespace, timeout)
    except subprocess.TimeoutExpired as error:
        raise StoreError(
            f"erasing in {str(folder)!r} took more than {timeout:g} s and was stopped. {_STAYS}: "
            "call it again with a longer timeout, or when the disk is less busy"
        ) from error
    except OSError as error:
        raise StoreError(
            f"erasing did not start: {error}. {_STAYS}: {_by_hand(folder, namespace)}"
        ) from error
    return _answer(folder, done)


def mend(folder: Path, namespace: str, timeout: float) -> list[str]:
    """Take out the lists of ids of torn indexes of a namespace; give the indexes' folders.

    Raises:
        StoreError: It could not be started, failed, or took too long.
    """
    try:
        done = _call(folder, namespace, timeout, "--torn")
        if done.returncode == 0:
            return [str(name) for name in json.loads(done.stdout)]
        reason = _reason(done)
    except (subprocess.TimeoutExpired, OSError, ValueError) as error:  # or another answer
        reason = str(error)
    raise StoreError(f"a torn index in {str(folder)!r} could not be mended: {reason}")


def _call(
    folder: Path, namespace: str, timeout: float, *more: str
) -> "subprocess.CompletedProcess[bytes]":
    options = ["--namespace", namespace, "--timeout", str(timeout), "--owner", token_of(folder)]
    return subprocess.run(  # noqa: S603  # our own module, and a path as one argument
        [sys.executable, "-m", "agently_gumem.erase", str(folder), *options, *more],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=_environment(),
        timeout=timeout,
        check=False,
    )


def _reason(done: "subprocess.CompletedProcess[bytes]") -> str:
    last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    return last[0] if last else f"its process ended with {done.returncode}"


def _environment() -> dict[str, str]:
    """Let the process find this package wherever it was imported from."""
    known = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, known)), "PYTHONUTF8": "1"}


def _answer(folder: Path, done: "subprocess.CompletedProcess[bytes]") -> Erased:
    if done.returncode not in (0, 3):
        raise StoreError(
            f"erasing in {str(folder)!r} failed: {_reason(done)}. {_STAYS}: see that the disk has "
            "room for twice the size of chroma.sqlite3 and that the folder may be written, then "
            "call it again"
        )
    told: dict[str, Any] = json.loads(done.stdout)
    told["indexes"] = tuple(told["indexes"])
    erased = Erased(**told)
    if erased.integrity != "ok":
        raise StoreError(
            f"the database in {str(folder)!r} is damaged, says SQLite's integrity check: "
            f"{erased.integrity}. Restore it from a copy"
        )
    return erased


def _by_hand(folder: Path, namespace: str) -> str:
    return f"close the application and run {command_for(str(folder), namespace)}"
