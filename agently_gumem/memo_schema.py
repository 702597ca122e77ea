"""The schema of the memo: a pydantic model or an Agently output dict, validated key by key."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model

from agently_gumem.errors import ConfigError

_PLACEHOLDERS = ("<", "...")


class MemoSchema:
    """What a memo may hold.

    Args:
        schema: A pydantic model class, or a dict in Agently's output notation:
            `{"key": (str, "description")}`, nested dicts and lists, `{"<key>": (str,)}` for a
            dict with keys of the model's choice.

    Raises:
        ConfigError: It is neither.
    """

    def __init__(self, schema: type[BaseModel] | Mapping[str, Any]) -> None:
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            self.model = schema
        elif isinstance(schema, Mapping) and schema:
            self.model = _model_of("Memo", schema)
        else:
            raise ConfigError(
                f"memo= takes a pydantic model class or an Agently output dict, not {schema!r}"
            )
        if not self.model.model_fields:
            raise ConfigError(f"memo={self.model.__name__} has no fields")

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema that a request shows."""
        return _untitled(self.model.model_json_schema())

    @cached_property
    def digest(self) -> str:
        """Tell two schemas apart."""
        text = json.dumps(self.json_schema, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def keys(self) -> list[str]:
        """The top-level keys, in their order."""
        return list(self.model.model_fields)

    def value_of(self, key: str, value: Any) -> Any:
        """Validate the value of one top-level key and bring it to plain JSON data.

        Raises:
            ValueError: The schema has no such key, or the value does not fit it.
        """
        known = self.model.model_fields.get(key)
        if known is None:
            raise ValueError(f"the memo has no key {key!r}")
        adapter: TypeAdapter[Any] = TypeAdapter(known.rebuild_annotation())
        return adapter.dump_python(adapter.validate_python(value), mode="json", exclude_none=True)

    def whole(self, value: Mapping[str, Any]) -> bool:
        """Tell whether the model's own validators accept it; a key not yet filled is no fault."""
        try:
            self.model.model_validate(dict(value))
        except ValidationError as error:
            return all(f["type"] == "missing" and len(f["loc"]) == 1 for f in error.errors())
        return True

    def fitting(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Keep what of an older memo the present schema accepts."""
        kept: dict[str, Any] = {}
        for key in self.keys:
            if key in value:
                try:
                    kept[key] = self.value_of(key, value[key])
                except ValueError:
                    continue  # written under another shape: the rebuild fills it anew
        return kept if self.whole(kept) else {}


def _untitled(schema: Any) -> Any:
    """Leave out pydantic's titles, which repeat the keys and cost tokens in each request."""
    if isinstance(schema, dict):
        items = cast("dict[str, Any]", schema).items()
        return {k: _untitled(v) for k, v in items if not (k == "title" and isinstance(v, str))}
    return [_untitled(v) for v in cast("list[Any]", schema)] if isinstance(schema, list) else schema


def _model_of(name: str, notation: Mapping[str, Any]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for key, part in notation.items():
        if not isinstance(key, str) or not key.isidentifier():
            raise ConfigError(f"memo key {key!r} is no plain name")
        kind, description = _kind_of(f"{name}_{key}", part)
        fields[key] = (kind | None, Field(default=None, description=description))
    return create_model(name, **fields)


def _kind_of(name: str, part: Any) -> tuple[Any, str | None]:
    """Read one value of Agently's notation: (type, "description"), dict, list, or a type."""
    if isinstance(part, tuple):
        items = cast("tuple[Any, ...]", part)
        kind, _ = _kind_of(name, items[0] if items else str)
        return kind, str(items[1]) if len(items) > 1 else None
    if isinstance(part, Mapping):
        inner = cast("Mapping[str, Any]", part)
        free = next((v for k, v in inner.items() if k.startswith(_PLACEHOLDERS[0])), None)
        if free is not None:
            return dict[str, _kind_of(name, free)[0]], None
        named = {k: v for k, v in inner.items() if k not in _PLACEHOLDERS}
        return _model_of(name, named), None
    if isinstance(part, Sequence) and not isinstance(part, str):
        inner_kind = _kind_of(name, part[0])[0] if part else str
        return list[inner_kind], None
    if isinstance(part, type):
        return part, None
    if isinstance(part, str):
        return _NAMED.get(part, Any), None if part in _NAMED else part
    raise ConfigError(f"memo key {name!r}: {part!r} is no type that Agently's notation knows")


_NAMED: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool, "any": Any}
