"""The memo as text: a value of any schema as compact, stable lines within a budget."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from agently_gumem.recall.frame import neutralise

CountTokens = Callable[[str], int]


def render_memo(value: Mapping[str, Any], count_tokens: CountTokens, budget: int) -> str:
    """Write a memo as plain lines, each key's entries under it, within a budget.

    Args:
        value: A structured memo of any schema; keys keep their order.
        count_tokens: Counts the tokens of a text.
        budget: Tokens at most; `bound_memo` says what goes first.

    Returns:
        The text, "" where nothing stands in the memo or fits.
    """
    return _render(bound_memo(value, count_tokens, budget)[0])


def bound_memo(
    value: Mapping[str, Any], count_tokens: CountTokens, budget: int
) -> tuple[dict[str, Any], int]:
    """Cut a memo to a budget of tokens.

    Entries of the last top-level key go first; within it the least sure where its entries state a
    `confidence`, else the oldest, which is the first. Empty values are left out.

    Returns:
        The value that fits, and how many entries were dropped.
    """
    kept = cast("dict[str, Any]", _without_empty(value))
    dropped = 0
    while kept and count_tokens(_render(kept)) > budget:
        _drop_one(kept)
        dropped += 1
    return kept, dropped


def _drop_one(memo: dict[str, Any]) -> None:
    """Take one entry out of the last top-level key, and the key with its last entry."""
    key = next(reversed(memo))
    entries = memo[key]
    if isinstance(entries, dict):
        del entries[next(iter(cast("dict[str, Any]", entries)))]
    elif isinstance(entries, list):
        sureness = [_confidence(entry) for entry in cast("list[Any]", entries)]
        del entries[sureness.index(min(sureness))]
    else:
        entries = None
    if not entries:
        del memo[key]


def _confidence(entry: Any) -> float:
    """Return how sure an entry is; one that does not say counts as sure."""
    stated = (
        cast("dict[str, Any]", entry).get("confidence", 1.0) if isinstance(entry, dict) else 1.0
    )
    return float(stated) if isinstance(stated, int | float) else 1.0


def _without_empty(value: Any) -> Any:
    """Copy a value without what is empty, at any depth."""
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        copied = {str(key): _without_empty(item) for key, item in items}
        return {key: item for key, item in copied.items() if not _is_empty(item)}
    if _is_list(value):
        entries = [_without_empty(item) for item in cast("Sequence[Any]", value)]
        return [entry for entry in entries if not _is_empty(entry)]
    return value


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes)


def _is_empty(value: Any) -> bool:
    return value is None or value in ({}, []) or (isinstance(value, str) and not value.strip())


def _render(memo: Mapping[str, Any]) -> str:
    lines: list[str] = []
    for key, value in memo.items():
        if isinstance(value, Mapping):
            entries = cast("Mapping[str, Any]", value).items()
            lines += [neutralise(f"{key}:"), *(_entry(f"{k}: {_inline(v)}") for k, v in entries)]
        elif isinstance(value, list):
            lines += [
                neutralise(f"{key}:"),
                *(_entry(_inline(v)) for v in cast("list[Any]", value)),
            ]
        else:
            lines.append(neutralise(f"{key}: {_inline(value)}"))
    return "\n".join(lines)


def _entry(text: str) -> str:
    return f"- {neutralise(text)}"


def _inline(value: Any) -> str:
    """Write a value in one line; of an object with one field beside its confidence, that field."""
    if isinstance(value, Mapping):
        fields = dict(cast("Mapping[str, Any]", value))
        told = {key: item for key, item in fields.items() if key != "confidence"} or fields
        if len(told) == 1 and len(fields) > 1:
            return _inline(next(iter(told.values())))
        return "; ".join(f"{key}: {_inline(item)}" for key, item in told.items())
    if isinstance(value, list):
        return ", ".join(_inline(item) for item in cast("list[Any]", value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
