"""The memo's patch: what always matters, in the shape of whatever schema the request shows."""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

from agently_gumem.testing._frames import CONCEPTS, concept, conflicts, frame, plain
from agently_gumem.text import fold, words

Schema = Mapping[str, Any]
_DEFAULT = {"user_preferences", "constraints", "stable_facts"}
_DURABLE = frozenset({"preference", "constraint", "identity"})
_GENERIC_WORDS = """
long term short each default value list user durabl confirm key string
"""
_GENERIC = frozenset(_GENERIC_WORDS.split())


@dataclass(frozen=True)
class Entry:
    """A Fact that the memo may rest on."""

    ref: str
    content: str
    kind: str
    topic: str
    certainty: str = "stated"

    @property
    def durable(self) -> bool:
        """Whether it is stated, and of a kind that always matters."""
        return self.kind in _DURABLE and self.certainty == "stated"


def patch(
    schema: Schema,
    memo: Mapping[str, Any],
    new: Sequence[Entry],
    known: Sequence[Entry] = (),
    gone: Sequence[Entry] = (),
) -> list[dict[str, Any]]:
    """Write the keys of the memo that change.

    Args:
        schema: The JSON schema of the memo, or a mapping of keys to descriptions.
        memo: The memo so far.
        new: Facts to add where they are durable.
        known: Facts that may stand behind what is kept.
        gone: Known Facts that are no longer true; what they support is taken out.
    """
    value: dict[str, Any] = deepcopy(dict(memo))
    lost = {plain(e.content) for e in gone} | {
        fold(f.value) for e in gone if (f := frame(e.content))
    }
    value = {key: _without(part, lost, gone) for key, part in value.items()}
    behind: dict[str, list[str]] = {}
    for entry in (e for e in new if e.durable):
        key = _place(schema, value, entry)
        if key:
            behind.setdefault(key, []).append(entry.ref)
    changed = [key for key in value if value[key] != memo.get(key)]
    return [
        {"key": key, "value": value[key], "facts": _support(value[key], behind.get(key, []), known)}
        for key in changed
    ]


def _support(value: Any, refs: Sequence[str], known: Sequence[Entry]) -> list[str]:
    texts = {plain(t) for t in _leaves(value)}
    kept = [e.ref for e in known if plain(e.content) in texts or _says(e, texts)]
    return list(dict.fromkeys([*refs, *kept]))


def _says(entry: Entry, texts: set[str]) -> bool:
    found = frame(entry.content)
    return found is not None and fold(found.value) in texts


def _leaves(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [t for v in cast("Mapping[str, Any]", value).values() for t in _leaves(v)]
    if isinstance(value, list):
        return [t for v in cast("list[Any]", value) for t in _leaves(v)]
    return [] if value is None else [str(value)]


def _without(value: Any, lost: set[str], gone: Sequence[Entry]) -> Any:
    """Take out every text that a Fact which is gone supported."""
    if isinstance(value, Mapping):
        parts = cast("Mapping[str, Any]", value)
        kept = {k: _without(v, lost, gone) for k, v in parts.items()}
        return {k: v for k, v in kept.items() if v not in ("", None) or parts[k] in ("", None)}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [i for i in items if not any(_is_lost(t, lost) for t in _leaves(i)[:1])]
    if isinstance(value, str) and _is_lost(value, lost):
        return ""
    return value


def _is_lost(text: str, lost: set[str]) -> bool:
    if plain(text) in lost:
        return True
    mine = set(words(text))
    return any(mine and (w := set(words(t))) and len(mine & w) >= 0.8 * len(mine | w) for t in lost)


def properties(schema: Schema) -> dict[str, Any]:
    """Give key -> schema of the key, for a JSON schema or a plain mapping of keys."""
    found = schema.get("properties")
    if isinstance(found, Mapping):
        return dict(cast("Mapping[str, Any]", found))
    return {} if "type" in schema and "$defs" not in schema else dict(schema)


def _place(schema: Schema, value: dict[str, Any], entry: Entry) -> str:
    keys = properties(schema)
    if set(keys) >= _DEFAULT:
        return _place_default(value, entry)
    about = _about(entry)
    scored = [(_score(key, part, about, schema), key) for key, part in keys.items()]
    best = max(scored, key=lambda pair: pair[0], default=(0, ""))
    if not best[0]:
        return ""
    filled = _filled(value.get(best[1]), keys[best[1]], entry, schema)
    if filled is None:
        return ""
    value[best[1]] = filled
    return best[1]


def _place_default(value: dict[str, Any], entry: Entry) -> str:
    if entry.kind == "preference":
        kept: dict[str, Any] = value.setdefault("user_preferences", {})
        _put(kept, entry)
        return "user_preferences"
    if entry.kind == "constraint":
        _add(value.setdefault("constraints", []), entry.content, entry)
        return "constraints"
    _add(value.setdefault("stable_facts", []), {"fact": entry.content, "confidence": 1.0}, entry)
    return "stable_facts"


def _put(kept: dict[str, Any], entry: Entry) -> None:
    if any(plain(str(v)) == plain(entry.content) for v in kept.values()):
        return
    found = frame(entry.content)
    key = found.key.removeprefix("my ") if found else (entry.topic or entry.kind)
    name, number = key, 2
    while name in kept and not conflicts(entry.content, str(kept[name]), corrects=False):
        name, number = f"{key} {number}", number + 1
    kept[name] = entry.content


def _add(items: list[Any], item: Any, entry: Entry) -> None:
    if all(plain(t) != plain(entry.content) for i in items for t in _leaves(i)[:1]):
        items.append(item)


def _about(entry: Entry) -> set[str]:
    field = concept(entry.content)
    found = frame(entry.content)
    extra = [entry.topic, *(CONCEPTS[field][3:] if field is not None else ())]
    named = found.key if found else ""
    kind = {
        "preference": "preference like 偏好 喜好",
        "constraint": "constraint limit rule 限制 约束",
    }
    text = " ".join([entry.content, *extra, named, kind.get(entry.kind, "")])
    return set(words(text)) - _GENERIC


def _score(key: str, part: Any, about: set[str], schema: Schema) -> int:
    shape = _resolve(part, schema)
    named = set(words(re.sub(r"([a-z])([A-Z])", r"\1 \2", key).replace("_", " "))) - _GENERIC
    described = set(words(str(shape.get("description", "")))) - _GENERIC
    inner = [_score(k, v, about, schema) for k, v in _inner(shape).items()]
    return 3 * len(named & about) + len(described & about) + max(inner, default=0)


def _inner(shape: Schema) -> dict[str, Any]:
    found = shape.get("properties")
    return dict(cast("Mapping[str, Any]", found)) if isinstance(found, Mapping) else {}


def _resolve(part: Any, schema: Schema) -> dict[str, Any]:
    """Follow `$ref` and the first branch of `anyOf` that is not null."""
    if not isinstance(part, Mapping):
        return {"type": "string", "description": str(part)}
    shape = dict(cast("Mapping[str, Any]", part))
    for name in ("anyOf", "allOf", "oneOf"):
        branches = [b for b in shape.get(name, []) if b.get("type") != "null"]
        if branches:
            shape = {**_resolve(branches[0], schema), **{k: shape[k] for k in shape if k != name}}
    if "$ref" in shape:
        target = schema.get("$defs", {}).get(str(shape["$ref"]).rsplit("/", 1)[-1], {})
        shape = {**_resolve(target, schema), **{k: shape[k] for k in shape if k != "$ref"}}
    return shape


def _filled(old: Any, part: Any, entry: Entry, schema: Schema) -> Any:
    """Give the new value of a key of any shape, or None where the Fact has nothing for it."""
    shape = _resolve(part, schema)
    kind = shape.get("type", "string")
    if kind == "object":
        return _filled_object(old, shape, entry, schema)
    if kind == "array":
        items: list[Any] = list(cast("list[Any]", old)) if isinstance(old, list) else []
        item = _filled(None, shape.get("items", {"type": "string"}), entry, schema)
        if item is not None:
            whole = entry.content if isinstance(item, str) else item
            _add(items, whole, entry)
        return items
    return _filled_scalar(kind, shape, entry)


def _filled_scalar(kind: str, shape: Schema, entry: Entry) -> Any:
    found = frame(entry.content)
    if kind in ("integer", "number"):
        number = re.search(r"\d+(?:\.\d+)?", entry.content)
        return None if number is None else (int if kind == "integer" else float)(number.group())
    if kind == "boolean":
        return True
    if "enum" in shape:
        return next((v for v in shape["enum"] if fold(str(v)) in fold(entry.content)), None)
    return found.value if found else entry.content


def _filled_object(old: Any, shape: Schema, entry: Entry, schema: Schema) -> Any:
    value: dict[str, Any] = dict(cast("dict[str, Any]", old)) if isinstance(old, dict) else {}
    inner = _inner(shape)
    if not inner:
        _put(value, entry)
        return value
    about = _about(entry)
    first = {k: v for k, v in inner.items() if _resolve(v, schema).get("type") == "string"}
    best = max(inner, key=lambda key: _score(key, inner[key], about, schema))
    if not _score(best, inner[best], about, schema):
        best = next(iter(first), best)
    filled = _filled(value.get(best), inner[best], entry, schema)
    return None if filled is None else {**value, best: filled}
