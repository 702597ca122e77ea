"""For whom a record is kept, and until when: labels and times, also those of several records."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from agently_gumem.records._base import now

T = TypeVar("T", datetime, timedelta)


def has_passed(moment: datetime | None, at: datetime | None = None) -> bool:
    """Tell whether a time has come, at a moment or now; None never comes."""
    return moment is not None and moment <= (at or now())


def earliest(ends: Iterable[T | None]) -> T | None:
    """Return the first of several times; None where there is none."""
    return min((end for end in ends if end is not None), default=None)


def latest(ends: Iterable[datetime | None]) -> datetime | None:
    """Return the last of several times; None, which is never, where one is."""
    held = list(ends)
    known = [end for end in held if end is not None]
    return max(known) if known and len(known) == len(held) else None


def union(*labels: Iterable[str]) -> list[str]:
    """Join labels, each once, in their order."""
    return list(dict.fromkeys(label for group in labels for label in group))


class Labelled(Protocol):
    """A record that may be kept under labels, and until a time."""

    @property
    def access(self) -> Sequence[str]:
        """The labels; none: anybody who may read the user."""
        ...

    @property
    def expires_at(self) -> datetime | None:
        """When it is forgotten on its own."""
        ...


def shown_to(record: Labelled, access: Iterable[str], moment: datetime | None = None) -> bool:
    """Tell whether a reader who names these labels may be shown a record.

    Args:
        record: A Message or a Fact.
        access: The labels that the reader names; all of the record's must be among them.
        moment: The time of reading; None is the present one.
    """
    if has_passed(record.expires_at, moment):
        return False
    named = {access} if isinstance(access, str) else set(access)
    return named.issuperset(record.access)
