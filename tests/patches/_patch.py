"""One way to break the package, and the test that sees it."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Patch:
    """One way to break what the memory promises, by the point that it belongs to."""

    point: str
    file: str
    old: str
    new: str
    test: str
    agently: str = ""
    """The version of Agently that shows it, in the environment that `make matrix` keeps of it."""
