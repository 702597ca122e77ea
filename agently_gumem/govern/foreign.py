"""What other programs wrote: a session of Agently, an export of mem0 (pure)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from agently_gumem.errors import ConfigError
from agently_gumem.records import Message, aware
from agently_gumem.remember.rendered import input_of

GUMEM, SESSION, MEM0 = "gumem", "agently-session", "mem0"
FORMATS = (GUMEM, SESSION, MEM0)
IMPORTED_MEMORY = "imported_memory"
_CONTEXTS = ("full_context", "context_window", "window_context")
_LISTS = ("results", "memories")
# Names of mem0's own fields that are kept beside the text; the text's own hash says nothing.
_KEPT = ("updated_at", "categories", "metadata", "agent_id", "app_id", "run_id")


def format_of(told: Any) -> str:
    """Tell which program wrote it.

    Raises:
        ConfigError: None of those that are known.
    """
    if isinstance(told, Mapping):
        names = cast("Mapping[str, Any]", told).keys()
        if any(name in names for name in _CONTEXTS):
            return SESSION
        if any(name in names for name in _LISTS):
            return MEM0
    if isinstance(told, list):
        return MEM0
    raise ConfigError(
        "this is no export of agently-gumem (its first line has a format), no session of Agently "
        "(it has a full_context), and no export of mem0 (it has results)"
    )


def session_of(told: Any) -> tuple[str, list[dict[str, Any]]]:
    """Read a session of Agently.

    Returns:
        Its id, empty where it has none, and its history, the oldest message first.

    Raises:
        ConfigError: It is no session.
    """
    if not isinstance(told, Mapping):
        raise ConfigError(f"a session of Agently is an object, not a {type(told).__name__}")
    held = cast("Mapping[str, Any]", told)
    name = next(
        (n for n in _CONTEXTS if held.get(n)), next((n for n in _CONTEXTS if n in held), "")
    )
    history: Any = held.get(name)
    if not isinstance(history, list):
        raise ConfigError("a session of Agently has a full_context, a list of messages")
    listed = cast("list[Any]", history)
    for place, message in enumerate(listed, 1):
        if not isinstance(message, Mapping) or not {"role", "content"} <= set(
            cast("Mapping[str, Any]", message)
        ):
            raise ConfigError(f"session: message {place} of {name} has no role and content")
    return str(held.get("id") or ""), [_unrendered(dict(m)) for m in listed]


def _unrendered(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    rendered = message["role"] == "user" and isinstance(content, str)
    return {**message, "content": input_of(content)} if rendered else message


def mem0_messages(told: Any, user_id: str, *, as_user: bool) -> list[Message]:
    """Read an export of mem0, or what its `get_all` returns: a memory becomes a Message.

    It is a statement whose own source is gone, so it is the source of what a digest makes of it.

    Args:
        told: An object with `results` or `memories`, or a list.
        user_id: The user; memories of another one are an error,
        as_user: unless this says that they are this user's.

    Raises:
        ConfigError: It has another form, or belongs to somebody else; names the item.
    """
    items: Any = told
    if isinstance(told, Mapping):
        held = cast("Mapping[str, Any]", told)
        items = next((held[name] for name in _LISTS if name in held), None)
    if not isinstance(items, list):
        raise ConfigError("an export of mem0 is a list of memories, or has one as results")
    return [
        _memory(place, item, user_id, as_user=as_user)
        for place, item in enumerate(cast("list[Any]", items), 1)
    ]


def _memory(place: int, item: Any, user_id: str, *, as_user: bool) -> Message:
    if not isinstance(item, Mapping):
        raise ConfigError(f"results: item {place} is a {type(item).__name__}, not an object")
    held = cast("Mapping[str, Any]", item)
    text, own = held.get("memory"), held.get("id")
    if not isinstance(text, str) or not isinstance(own, str) or not own.strip():
        raise ConfigError(f"results: item {place} has no id and memory, which are texts")
    owner = held.get("user_id")
    if owner not in (None, "", user_id) and not as_user:
        raise ConfigError(
            f"results: item {place} is of user {owner!r}, not of {user_id!r}: give as_user=True "
            "where that is the same person"
        )
    return Message(
        id=f"mem0-{own}",
        content=text,
        timestamp=_time(place, held.get("created_at")),
        event_type=IMPORTED_MEMORY,
        metadata={name: held[name] for name in _KEPT if held.get(name)},
    )


def _time(place: int, value: Any) -> datetime | None:
    if value in (None, ""):
        return None
    try:
        # Python 3.10 reads neither "Z" nor a fraction of other than three or six digits.
        return aware(datetime.fromisoformat(_plain(str(value))))
    except ValueError as error:
        raise ConfigError(f"results: item {place}: created_at={value!r} is no time") from error


def _plain(value: str) -> str:
    text = value.strip().replace("Z", "+00:00").replace("z", "+00:00")
    head, point, tail = text.partition(".")
    if not point:
        return text
    digits = len(tail) - len(tail.lstrip("0123456789"))
    return f"{head}.{tail[:digits][:6].ljust(6, '0')}{tail[digits:]}"
