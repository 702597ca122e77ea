"""The form of an export: JSON Lines, a header first, then one record a line (pure)."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from pydantic import Field, ValidationError
from pydantic_core import PydanticSerializationError

from agently_gumem.errors import ConfigError
from agently_gumem.records import (
    Fact,
    MemoState,
    Message,
    Moment,
    Record,
    Summary,
    Topic,
)

FORMAT, VERSION = "agently-gumem", 1
# A line is one record; nothing that this memory stores comes near it.
LONGEST_LINE = 64 * 2**20
Portable: TypeAlias = Topic | Summary | Fact | Message | MemoState
KINDS: dict[str, type[Portable]] = {
    "topic": Topic,
    "summary": Summary,
    "fact": Fact,
    "message": Message,
    "memo": MemoState,
}
FLAGS = frozenset({"mark", "skip", "forgotten"})
"""Layers of lines that hold no text: stages that were marked, keyed hashes of what is not taken."""
_OWNER = ("user_id", "space")
_NOTHING: tuple[Any, ...] = (None, "", [], {})


class Header(Record):
    """The first line: whose export it is, and of what."""

    format: str
    version: int
    user_id: str
    space: str
    exported_at: Moment
    embedder: str = ""
    """Whose vectors the store had; they are not exported, and made anew."""
    memo_schema: str = ""
    """Digest of the schema of the memo."""
    store: str = ""
    """Tells stores apart: marks and hashes count in their own only."""
    counts: dict[str, int] = Field(default_factory=dict)
    withheld: dict[str, int] = Field(default_factory=dict)
    """Access label -> records that were left out, since it was not named."""


def header_line(header: Header) -> str:
    """Write the first line."""
    return json.dumps(json.loads(header.model_dump_json()), ensure_ascii=False)


def record_line(record: Portable) -> str:
    """Write a record: what it says first, and nothing that is empty or that the header says."""
    layer = next(name for name, kind in KINDS.items() if isinstance(record, kind))
    told: dict[str, Any] = json.loads(record.model_dump_json(exclude=set(_OWNER)))
    own = record.model_dump(exclude=set(_OWNER), exclude_defaults=True).keys()
    kept = {k: v for k, v in told.items() if k in own or v not in _NOTHING}
    return json.dumps({"layer": layer, **kept}, ensure_ascii=False)


def flag_line(layer: str, flag_id: str, told: Mapping[str, Any] | None = None) -> str:
    """Write a line that only says that something was marked or forgotten."""
    # A mark of what was forgotten names the layer of that; a line is of the mark's own.
    rest = {"what" if name == "layer" else name: value for name, value in (told or {}).items()}
    return json.dumps({"layer": layer, "id": flag_id, **rest}, ensure_ascii=False)


def read_header(line: str) -> Header:
    """Read the first line.

    Raises:
        ConfigError: It is no header, or of a version that is not known.
    """
    told = read_object(1, line)
    if told.get("format") != FORMAT:
        raise ConfigError(f"line 1: no header of an export: format={told.get('format')!r}")
    if told.get("version") is True or told.get("version") != VERSION:
        raise ConfigError(
            f"line 1: version {told.get('version')!r} of an export; this release reads version "
            f"{VERSION}: import it with the release that wrote it"
        )
    return cast("Header", _record(1, Header, told))


def read_object(number: int, line: str) -> dict[str, Any]:
    """Read a line as a JSON object.

    Raises:
        ConfigError: It is none; names the line.
    """
    if len(line) > LONGEST_LINE:
        raise ConfigError(f"line {number}: longer than {LONGEST_LINE} characters")
    try:
        told: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else _reason(error)
        raise ConfigError(f"line {number}: no JSON: {reason}") from error
    if not isinstance(told, dict):
        raise ConfigError(f"line {number}: a {type(told).__name__}, not an object")
    return cast("dict[str, Any]", told)


def layer_of_line(number: int, told: Mapping[str, Any]) -> str:
    """Name the layer of a line.

    Raises:
        ConfigError: There is no such layer; names the line.
    """
    layer = told.get("layer")
    if not isinstance(layer, str) or layer not in {*KINDS, *FLAGS}:
        known = ", ".join([*KINDS, *sorted(FLAGS)])
        raise ConfigError(f"line {number}: layer={layer!r} is none of {known}")
    return layer


def read_record(
    number: int, told: Mapping[str, Any], user_id: str, space: str
) -> tuple[str, Portable]:
    """Read a line as a record of a user.

    Returns:
        Its layer, and the record.

    Raises:
        ConfigError: A field is unknown or wrong; names the line and the field.
    """
    layer = layer_of_line(number, told)
    fields = {k: v for k, v in told.items() if k != "layer"}
    owned = {**fields, "user_id": user_id, "space": space}
    record = cast("Portable", _record(number, KINDS[layer], owned))
    try:
        record.model_dump_json()
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise ConfigError(
            f"line {number}: a {layer} that can't be written: a lone surrogate, or nested too deep"
        ) from error
    if not isinstance(record, MemoState):
        _check_name(number, layer, "id", record.id)
        if isinstance(record, Message):
            _check_name(number, layer, "session_id", record.session_id)
    return layer, record


def _check_name(number: int, layer: str, what: str, name: str) -> None:
    if not name.strip():
        raise ConfigError(f"line {number}: a {layer} without {what}")
    if "\x00" in name:
        raise ConfigError(f"line {number}: the {what} of a {layer} holds a NUL")


def numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Count lines from 1, and pass over blank ones."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, line


def _record(number: int, kind: type[Record], fields: Mapping[str, Any]) -> Record:
    try:
        return kind.model_validate(dict(fields))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)
        )
        raise ConfigError(f"line {number}: no valid {kind.__name__}: {faults}") from error


def _reason(error: Exception) -> str:
    """Say what is wrong with a line, without the line."""
    return getattr(error, "msg", None) or type(error).__name__
