"""The memo as text: a value of any schema as compact, stable lines within a budget."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from agently_gumem.recall.frame import neutralise

CountTokens = Callable[[str], int]

MAX_DEPTH = 8
"""Levels of a memo's value; no schema that a person reads is deeper, but a hostile value can be."""


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
    memo = cast("dict[str, Any]", _without_empty(value))
    if not memo or count_tokens(_render(memo)) <= budget:
        return memo, 0
    order = _dropping_order(memo)
    # Each entry that goes makes the text shorter, so the first fit is found by halving: a few
    # renderings instead of one for each entry.
    fewest, most = 1, len(order)
    while fewest < most:
        middle = (fewest + most) // 2
        if count_tokens(_render(_without(memo, order[:middle]))) <= budget:
            most = middle
        else:
            fewest = middle + 1
    return _without(memo, order[:most]), most


def _dropping_order(memo: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """List all entries as (top-level key, key or place in it), what goes first at the head."""
    order: list[tuple[str, Any]] = []
    for key in reversed(list(memo)):
        entries: Any = memo[key]
        if isinstance(entries, dict):
            order += [(key, name) for name in cast("dict[str, Any]", entries)]
        elif isinstance(entries, list):
            sureness = [_confidence(entry) for entry in cast("list[Any]", entries)]
            order += [(key, i) for i in sorted(range(len(sureness)), key=sureness.__getitem__)]
        else:
            order.append((key, None))
    return order


def _without(memo: Mapping[str, Any], dropped: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Copy a memo without some entries, and without a key that loses its last one."""
    out: dict[str, set[Any]] = {}
    for key, name in dropped:
        out.setdefault(key, set()).add(name)
    kept: dict[str, Any] = {}
    for key, entries in memo.items():
        left = _left(entries, out[key]) if key in out else entries
        if key not in out or left:
            kept[key] = left
    return kept


def _left(entries: Any, out: set[Any]) -> Any:
    if isinstance(entries, dict):
        return {k: v for k, v in cast("dict[str, Any]", entries).items() if k not in out}
    if isinstance(entries, list):
        return [v for i, v in enumerate(cast("list[Any]", entries)) if i not in out]
    return None


def _confidence(entry: Any) -> float:
    """Return how sure an entry is; one that does not say counts as sure."""
    stated = (
        cast("dict[str, Any]", entry).get("confidence", 1.0) if isinstance(entry, dict) else 1.0
    )
    return float(stated) if isinstance(stated, int | float) else 1.0


def _without_empty(value: Any, depth: int = 0) -> Any:
    """Copy a value without what is empty, at any depth, and without what is nested too deep."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        copied = {str(key): _without_empty(item, depth + 1) for key, item in items}
        return {key: item for key, item in copied.items() if not _is_empty(item)}
    if _is_list(value):
        entries = [_without_empty(item, depth + 1) for item in cast("Sequence[Any]", value)]
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
