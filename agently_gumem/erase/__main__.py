"""`python -m agently_gumem.erase PATH`: clean the folder of a store that nobody writes to."""

import argparse
import json
import sqlite3
import sys
from pathlib import Path

from agently_gumem.erase.database import FILE, clean, unlist_torn
from agently_gumem.errors import StoreError
from agently_gumem.ownership import owned

_ABOUT = """Make the bytes of deleted memories go from the folder of a Chroma store.
Stop the server first (chroma run), or close the application that has the folder open.
Needs free room on the disk of about twice the size of chroma.sqlite3."""


def main(arguments: list[str] | None = None) -> int:
    """Clean a folder and print what was done as JSON.

    Returns:
        0 where nothing is left, 3 where something is, 1 where it failed.
    """
    parser = argparse.ArgumentParser(prog="python -m agently_gumem.erase", description=_ABOUT)
    parser.add_argument("path", type=Path, help="the folder that holds chroma.sqlite3")
    parser.add_argument("--namespace", default="gumem", help="as in GUMem(namespace=...)")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds to wait for a lock")
    parser.add_argument("--owner", default="", help=argparse.SUPPRESS)  # a store's own process
    parser.add_argument("--torn", action="store_true", help=argparse.SUPPRESS)  # so, too
    given = parser.parse_args(arguments)
    try:
        (given.path / FILE).stat()  # a folder without a store is left as it is
        with owned(given.path, given.owner):
            if given.torn:
                torn = unlist_torn(given.path, given.namespace, given.timeout)
                sys.stdout.write(json.dumps(torn) + "\n")
                return 0
            erased = clean(given.path, given.namespace, given.timeout)
    except (sqlite3.Error, OSError, ValueError, StoreError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    sys.stdout.write(json.dumps(erased.document(), indent=1) + "\n")
    return 0 if erased.complete and erased.integrity == "ok" else 3


if __name__ == "__main__":
    sys.exit(main())
