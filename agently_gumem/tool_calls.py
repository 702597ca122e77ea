"""What tools returned: from Agently's logs of a turn to what is journaled of it.

Agently's logs of a response hold them on every version, with other keys. Nothing here awaits; what
is no plain data is rendered without calling anything of it.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, TypeAlias, cast
from uuid import UUID

from pydantic import BaseModel

from agently_gumem.errors import ConfigError
from agently_gumem.records import TOOL_CALL, now
from agently_gumem.remember.happened import READ_CHARS, Happened
from agently_gumem.text import fold, make_safe

Wanted: TypeAlias = bool | frozenset[str] | Callable[[str, Mapping[str, Any]], bool]
RecordActions: TypeAlias = bool | str | Iterable[str] | Callable[[str, Mapping[str, Any]], bool]

MOST_CALLS = 20
"""Calls of one turn that are kept, the last ones."""
OF_MEMORY = "agently_gumem"
"""Key in the results of the memory's own actions: what was recalled never becomes a Fact."""
_ARGUMENT_CHARS, _ARGUMENTS_CHARS, _ERROR_CHARS = 300, 900, 500
_DEEPEST, _MOST_NODES = 8, 2_000
_LARGEST = 10**40  # a longer number is no value of a tool, and slow to write
_AS_TEXT = (date, time, timedelta, Decimal, UUID, PurePath)
_SECRET_NAMES = (
    "password", "passwd", "passphrase", "passcode", "secret", "token", "apikey", "accesskey",
    "privatekey", "authorization", "credential", "cookie", "密码", "口令", "密钥", "令牌",
)  # fmt: skip
_SECRET = "[secret]"  # noqa: S105  # the placeholder, not one
# As Agently 4.0 reports a call that failed: by a text.
_FAILED = ("error:", "can not find tool named")


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool, as plain data."""

    name: str
    arguments: Mapping[str, Any]
    result: str
    failed: bool
    key: str
    """Agently's id of the call, where it has one."""
    own: bool
    """One of the memory's own actions returned it."""
    at: datetime = field(default_factory=now)

    def happened(self, question: str, turn: str) -> Happened:
        """Write it as what happened while a question was answered."""
        told = ", ".join(f"{k}={v}" for k, v in self._arguments())
        if len(told) > _ARGUMENTS_CHARS:
            told = told[: _ARGUMENTS_CHARS - 1].rstrip() + "…"
        once = (self.key,) if self.key else (turn, self.name, told, self.result)
        return Happened(
            key=once,
            question=question,
            role="tool",
            event_type=TOOL_CALL,
            head=f"{self.name}({told}) {'failed: ' if self.failed else 'returned '}",
            result=self.result,
            at=self.at,
            metadata={"action": self.name, "outcome": "failed" if self.failed else "succeeded"},
        )

    def _arguments(self) -> Iterator[tuple[str, str]]:
        for key, value in self.arguments.items():
            text = _written(value)
            if len(text) > _ARGUMENT_CHARS:
                text = text[: _ARGUMENT_CHARS - 1].rstrip() + "…"
            yield key, text


def as_wanted(record_actions: object) -> Wanted:
    """Check `record_actions=`: True, False, names of actions, or a function.

    Raises:
        ConfigError: It is something else.
    """
    if isinstance(record_actions, bool):
        return record_actions
    if isinstance(record_actions, str):
        return frozenset({record_actions})
    if callable(record_actions):
        return cast("Wanted", record_actions)
    named = list(cast("Iterable[object]", record_actions)) if _lists(record_actions) else [None]
    if all(isinstance(name, str) and name for name in named):
        return frozenset(cast("list[str]", named))
    raise ConfigError(
        f"record_actions={record_actions!r} takes True, False, names of actions such as "
        '["search_shop"], or a function of a name and its arguments that returns a bool'
    )


def _lists(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, bytes | Mapping)


def calls_of(
    full_result: Any, own: Collection[str], unread: Callable[[Exception], None]
) -> list[ToolCall]:
    """Read the calls of tools from the data of a response.

    Args:
        full_result: What Agently hands to handlers of a response, on any version.
        own: Names of the memory's own actions.
        unread: Is told why a call can't be read: one that raises costs no other.
    """
    extra = _mapping(_mapping(full_result).get("extra"))
    logs = extra.get("action_logs") or extra.get("tool_logs")
    listed = cast("list[Any]", logs) if isinstance(logs, list) else []
    calls: list[ToolCall] = []
    for log in listed:
        try:
            if isinstance(log, Mapping):
                calls.append(_call(_mapping(log), own))
        except Exception as error:  # noqa: BLE001  # of a class of the application
            unread(error)
    return calls


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


_OMITTED = {"omitted": True}


def _call(log: Mapping[str, Any], own: Collection[str]) -> ToolCall:
    name = make_safe(str(log.get("tool_name") or log.get("action_id") or "tool"))[:120]
    given, result = _exchange(log)
    failed = _has_failed(log, result)
    error = log.get("error")
    told = str(error)[:_ERROR_CHARS] if failed and error else _written(result)
    return ToolCall(
        name=name,
        arguments=_mapping(plain(given)),
        result=make_safe(told)[: READ_CHARS + 1],
        failed=failed,
        key=str(log.get("action_call_id") or ""),
        own=name in own or OF_MEMORY in _mapping(result),
    )


def _exchange(log: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return arguments and result; from 4.1.2 on a digest stands for a long one, or a query's."""
    given, result = log.get("kwargs"), log.get("result", log.get("data"))
    digest = _mapping(result)
    if not {"result_preview", "artifact_refs"} <= digest.keys():
        return given, result
    told = _mapping(digest.get("instruction"))
    if not given and isinstance(told.get("kind"), str):
        given = {told["kind"]: told.get("preview")}
    preview: Any = digest["result_preview"]
    if preview == _OMITTED:  # as the newest shows what is very long
        size = _mapping(digest.get("result_preview_meta")).get("original_size")
        preview = f"({size} bytes)" if isinstance(size, int) else None
    given = given or told
    return {} if given == _OMITTED else given, preview


def _has_failed(log: Mapping[str, Any], result: Any) -> bool:
    """Tell whether a call failed: versions that do not say so return a text that does."""
    for name in ("success", "ok"):
        if isinstance(log.get(name), bool):
            return not log[name]
    return isinstance(result, str) and fold(result[:80]).startswith(_FAILED)


def _written(value: Any) -> str:
    """Write a value as a tool's result reads: a text as it is, anything else as JSON."""
    told = plain(value)
    return told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)


def plain(value: Any) -> Any:
    """Bring any value to bounded plain data; what goes under a secret's name is replaced.

    Nothing of an unknown object is called: its `repr` may be endless, or raise.
    """
    return _Plain().of(value, 0)


class _Plain:
    """Copies plain data, so many parts at most."""

    def __init__(self) -> None:
        self._left = _MOST_NODES

    def of(self, value: Any, depth: int) -> Any:
        """Copy one value."""
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            return "…"
        if isinstance(value, str):
            return make_safe(str.__str__(value)[: READ_CHARS + 1])
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, float):
            return float.__float__(value)
        if isinstance(value, int):
            number = int.__int__(value)
            return number if abs(number) < _LARGEST else "(a long number)"
        return self._other(value, depth)

    def _other(self, value: Any, depth: int) -> Any:
        parts = _parts(value)
        if parts is not None:
            return self._fields(parts, depth)
        if isinstance(value, Enum):
            return self.of(value.value, depth + 1)
        if isinstance(value, _AS_TEXT):
            return str(value)
        if isinstance(value, BaseException):
            return f"{type(value).__name__}: {', '.join(a for a in value.args if type(a) is str)}"
        if isinstance(value, bytes | bytearray):
            return f"({len(value)} bytes)"
        if isinstance(value, list | tuple | set | frozenset):
            return self._items(cast("Iterable[Any]", value), depth)
        return f"({type(value).__name__})"

    def _items(self, values: Iterable[Any], depth: int) -> list[Any]:
        out: list[Any] = []
        for value in values:
            out.append(self.of(value, depth + 1))
            if self._left < 0:
                break
        return out

    def _fields(self, parts: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in parts:
            name = make_safe(str(key))[:120] if isinstance(key, str | int | float) else "(key)"
            secret = _is_secret(name) and value is not None and not isinstance(value, bool)
            out[name] = _SECRET if secret else self.of(value, depth + 1)
            if self._left < 0:
                break
        return out


def _parts(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """List what a mapping, a model or a dataclass holds; None for anything else."""
    if isinstance(value, dict):
        return cast("Iterable[tuple[Any, Any]]", cast("Any", dict).items(value))
    if isinstance(value, BaseModel):
        return list(value.__dict__.items())
    if is_dataclass(value) and not isinstance(value, type):
        held: dict[str, Any] = getattr(value, "__dict__", {})
        return [(f.name, held[f.name]) for f in fields(value) if f.name in held]
    return None


def _is_secret(name: str) -> bool:
    bare = fold(name).replace("_", "").replace("-", "").replace(" ", "")
    return bare in ("pin", "auth", "pwd") or any(word in bare for word in _SECRET_NAMES)
