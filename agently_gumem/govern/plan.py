"""What a file holds, found out before anything of it is written."""

from collections.abc import Generator
from dataclasses import dataclass, field

from agently_gumem.errors import ConfigError
from agently_gumem.govern.portable import (
    FLAGS,
    Header,
    Portable,
    layer_of_line,
    numbered,
    read_header,
    read_object,
    read_record,
)
from agently_gumem.govern.source import Lines
from agently_gumem.records import MemoState, Message


@dataclass
class Plan:
    """What a file holds, by line; never its texts."""

    header: Header
    layers: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Layer -> the lines that hold one of it."""
    ids: dict[str, str] = field(default_factory=dict[str, str])
    """Id of a record -> its layer."""
    records: int = 0
    places: dict[int, str] = field(default_factory=dict[int, str])
    """Place of a message among all of the user -> its id."""
    last: int = 0
    """The place of the last message."""
    in_order: bool = True
    """Each message has a place of its own, and they rise."""


def check(lines: Lines, user_id: str, space: str, *, as_user: bool) -> Plan:
    """Read all lines, and keep what is where (pure but for the file).

    Raises:
        ConfigError: A line is broken, the version is unknown, it is somebody else's, or an id
            comes twice; names the line.
    """
    rows = numbered(lines)
    plan = Plan(read_header(next(rows, (1, ""))[1]))
    owner = (plan.header.user_id, plan.header.space)
    if owner != (user_id, space) and not as_user:
        raise ConfigError(
            f"line 1: an export of user {owner[0]!r} in space {owner[1]!r}, not of {user_id!r} in "
            f"{space!r}: give as_user=True where it shall become theirs"
        )
    for number, line in rows:
        told = read_object(number, line)
        layer = layer_of_line(number, told)
        if layer not in FLAGS:
            _note(plan, number, read_record(number, told, user_id, space))
        plan.layers.setdefault(layer, []).append(number)
    return plan


def _note(plan: Plan, number: int, read: tuple[str, Portable]) -> None:
    layer, record = read
    if isinstance(record, MemoState):
        if layer in plan.layers:
            raise ConfigError(f"line {number}: a second memo; a user has one")
        return
    known = plan.ids.setdefault(record.id, layer)
    if len(plan.ids) == plan.records:
        raise ConfigError(f"line {number}: the id {record.id!r} is that of a {known} before")
    plan.records += 1
    if isinstance(record, Message):
        plan.in_order = plan.in_order and record.sequence > max(plan.last, 0)
        plan.last = record.sequence
        plan.places[record.sequence] = record.id


def read_layer(
    lines: Lines, plan: Plan, layer: str, user_id: str, space: str
) -> Generator[Portable, None, None]:
    """Read the records of one layer, in their order; the lines of others are passed over."""
    wanted = iter(plan.layers.get(layer, ()))
    following = next(wanted, None)
    if following is None:
        return
    for number, line in numbered(lines):
        if number != following:
            continue
        yield read_record(number, read_object(number, line), user_id, space)[1]
        following = next(wanted, None)
        if following is None:
            return
