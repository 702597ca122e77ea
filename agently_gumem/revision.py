"""What each writer of a user changed last, by which others know what to read again (pure).

A writer keeps one value in the user's revision row: the number of its last write, and the rows of
the last few. Who read up to some number reads the rows of those after it; where they are not
listed any more, or rows were deleted, all of the user.
"""

import json
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

# What one value lists at most: it is written with every write, and a writer that falls further
# behind has much to read anyway.
_WRITES = 16
_ROWS = 64
# Values of writers that a row holds before they are taken out: each process leaves one behind.
MOST_WRITERS = 32
_WRITER = "w_"
CLEARED = "cleared"


@dataclass(frozen=True)
class News:
    """What of a user others have written since it was read."""

    rows: tuple[str, ...] = ()
    """Ids of rows to read again."""
    whole: bool = False
    """Whether all has to be read again."""
    ground: bool = False
    """Whether what decisions rest on has changed, such as by a correction or a digest."""

    @property
    def nothing(self) -> bool:
        """Whether nothing was written."""
        return not (self.rows or self.whole or self.ground)


@dataclass
class Log:
    """The last writes of one writer to one user.

    `base` is the number up to which writes are not listed.
    """

    base: int = 0
    writes: deque[tuple[int, list[str] | None, bool]] = field(
        default_factory=deque[tuple[int, "list[str] | None", bool]]
    )

    @property
    def last(self) -> int:
        """Number of the last write."""
        return self.writes[-1][0] if self.writes else self.base

    def add(self, number: int, rows: Collection[str] | None, *, ground: bool) -> None:
        """Note a write; None where rows were deleted, so that no list tells it all."""
        listed = list(rows) if rows is not None and len(rows) <= _ROWS else None
        self.writes.append((number, listed, ground))
        while len(self.writes) > 1 and self._is_long():
            self.base = self.writes.popleft()[0]

    def _is_long(self) -> bool:
        listed = sum(len(rows or ()) for _, rows, _ in self.writes)
        return len(self.writes) > _WRITES or listed > _ROWS

    def value(self) -> str:
        """Return it as the value of a revision row."""
        return json.dumps([self.base, list(self.writes)], separators=(",", ":"))


def key_of(writer: str) -> str:
    """Return the name of a writer's value."""
    return f"{_WRITER}{writer}"


def of_others(fields: Mapping[str, Any], own: str) -> dict[str, Any]:
    """Keep of a revision row what other writers told."""
    return {k: v for k, v in fields.items() if k == CLEARED or (k.startswith(_WRITER) and k != own)}


def without_old(known: Mapping[str, Any], token: str) -> dict[str, Any]:
    """Return what takes out the values of other writers, where they have become many.

    Their processes may have ended long ago, which nobody can know. A writer that lives tells
    anew, and the token has everybody read all once: so nothing is missed.
    """
    writers = [key for key in known if key != CLEARED]
    if len(writers) < MOST_WRITERS:
        return {}
    return {**dict.fromkeys(writers), CLEARED: token}


def news(known: Mapping[str, Any], found: Mapping[str, Any]) -> News:
    """Compare what other writers told when all was read with what they tell now."""
    whole = ground = found.get(CLEARED) != known.get(CLEARED)
    rows: dict[str, None] = {}
    for key, value in found.items():
        if key == CLEARED or value == known.get(key):
            continue
        part = _of_writer(known.get(key), value)
        whole, ground = whole or part.whole, ground or part.ground
        rows |= dict.fromkeys(part.rows)
    return News(() if whole else tuple(rows), whole, ground)


def _of_writer(known: object, found: object) -> News:
    told = _read(found)
    before = _read(known) if known is not None else Log()
    if told is None or before is None or before.last < told.base:
        return News(whole=True, ground=True)
    unread = [write for write in told.writes if write[0] > before.last]
    ground = any(write[2] for write in unread)
    listed = [write[1] for write in unread]
    if None in listed:
        return News(whole=True, ground=ground)
    return News(tuple(row for rows in listed if rows for row in rows), ground=ground)


def _read(value: object) -> Log | None:
    """Read the value of a writer; None where it is of another form, as older versions wrote it."""
    if not isinstance(value, str):
        return None
    base, writes = json.loads(value)
    return Log(base, deque((n, rows, ground) for n, rows, ground in writes))
