"""What a hook is told and what it may answer, point by point (pure)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from agently_gumem.errors import HookError
from agently_gumem.records import Kind
from agently_gumem.text import make_safe

# Characters of one added instruction, and of a Fact, a Summary, a name.
LONGEST_INSTRUCTION = 1_000
_LONGEST_FACT, _LONGEST_SUMMARY, _LONGEST_NAME = 500, 1_500, 60
_MOST_NAMES = 12


class _Drop:
    """The answer that takes a record out."""

    def __repr__(self) -> str:
        return "DROP"


DROP: Final = _Drop()
"""What a function of a hook returns to keep a record out; of a recall, all of its items."""


@dataclass(frozen=True)
class HookEvent:
    """What a hook is called with."""

    point: str
    """Where it is called, such as `fact.before_add`."""
    hook_id: str
    hook_name: str
    time: datetime
    user_id: str
    space: str
    session_id: str
    """Empty where several sessions are behind it, or none."""
    data: dict[str, Any] = field(repr=False)
    """A copy of the data of this point; it is changed by what the hook returns, not in place."""

    @property
    def resource(self) -> str:
        """What it is about: message, fact, summary, topic or recall."""
        return self.point.partition(".")[0]

    @property
    def event(self) -> str:
        """The moment: before_add, before_llm, after_llm or before_compose."""
        return self.point.partition(".")[2]

    def envelope(self) -> dict[str, Any]:
        """Return it as the body of a webhook."""
        return {
            "hook_id": self.hook_id,
            "hook_name": self.hook_name,
            "resource": self.resource,
            "event": self.event,
            "mode": "sync",
            "time": self.time.isoformat(),
            "context": {
                "user_id": self.user_id,
                "space": self.space,
                "session_id": self.session_id,
            },
            "data": self.data,
        }


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("says nothing")
    return make_safe(text)


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """Take data that JSON can hold as it is, and nothing else."""
    try:
        same = json.loads(json.dumps(value, allow_nan=False)) == value
    except TypeError:
        same = False
    if not same:
        raise ValueError("is no plain data")
    return value


def _distinct(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))


_Said = Annotated[str, AfterValidator(_said)]
_Name = Annotated[str, Field(max_length=_LONGEST_NAME), AfterValidator(_said)]
_Names = Annotated[list[_Name], Field(max_length=_MOST_NAMES), AfterValidator(_distinct)]
_Loose = Annotated[str, AfterValidator(make_safe)]
_Share = Annotated[float, Field(ge=0.0, le=1.0)]


class _Changes(BaseModel):
    """Fields that a hook may change; all are optional, no other is known."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _MessageChanges(_Changes):
    content: _Said = ""
    page: _Loose = ""
    anchors: dict[_Loose, _Loose] = Field(default_factory=dict)
    metadata: Annotated[dict[str, Any], AfterValidator(_plain)] = Field(default_factory=dict)


class _FactChanges(_Changes):
    content: Annotated[_Said, Field(max_length=_LONGEST_FACT)] = ""
    kind: Kind = "fact"
    topic: Annotated[_Loose, Field(max_length=_LONGEST_NAME)] = ""
    labels: _Names = Field(default_factory=list)
    entities: _Names = Field(default_factory=list)
    confidence: _Share = 1.0


class _SummaryChanges(_Changes):
    content: Annotated[_Said, Field(max_length=_LONGEST_SUMMARY)] = ""
    labels: _Names = Field(default_factory=list)
    entities: _Names = Field(default_factory=list)
    confidence: _Share = 1.0


class _TopicChanges(_Changes):
    name: _Name = ""
    description: Annotated[_Loose, Field(max_length=_LONGEST_SUMMARY)] = ""
    labels: _Names = Field(default_factory=list)


class _ItemChanges(_Changes):
    id: str
    layer: str = ""
    text: _Said = ""
    score: float = 0.0


class _RecallChanges(_Changes):
    items: list[_ItemChanges] = Field(default_factory=list[_ItemChanges])


CHANGES: Mapping[str, type[_Changes]] = {
    "message.before_add": _MessageChanges,
    "fact.before_add": _FactChanges,
    "summary.before_add": _SummaryChanges,
    "topic.before_add": _TopicChanges,
    "recall.before_compose": _RecallChanges,
}
"""The points whose hooks may change or drop, and the fields that they may change."""

POINTS = (*CHANGES, "fact.before_llm", "fact.after_llm", "summary.before_llm", "summary.after_llm")
TURN_POINTS = frozenset({"message.before_add", "recall.before_compose"})
"""The points for which a turn waits."""


def read_changes(point: str, data: Mapping[str, Any], answer: Any) -> dict[str, Any]:
    """Read the fields that a hook changed.

    Args:
        point: One of `CHANGES`.
        data: What the hook was told.
        answer: What it gave: some fields, or all of them.

    Returns:
        The fields that differ, valid.

    Raises:
        HookError: It gave something else, or another value for a field that stays as it is.
    """
    if not isinstance(answer, Mapping):
        raise HookError(f"gave {_kind(answer)}, where it takes None, DROP or a dict")
    given = cast("Mapping[str, Any]", answer)
    model = CHANGES[point]
    changed = {k: v for k, v in given.items() if k not in data or not _equal(v, data[k])}
    fixed = [k for k in changed if k in data and k not in model.model_fields]
    if fixed:
        raise HookError(f"changed {', '.join(fixed)}, which stays as it is")
    try:
        valid = model.model_validate(changed)
    except (ValidationError, RecursionError) as error:
        raise HookError(f"gave {_faults(error, model)}") from None
    read = valid.model_dump(include=set(changed), exclude_unset=True)
    if "items" in read:
        read["items"] = _items(data["items"], read["items"])
    return read


def _items(
    told: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Read the items of a recall: some of those told, in any order, with other words."""
    known = {item["id"]: item for item in told}
    items: dict[str, dict[str, Any]] = {}
    for item in given:
        held = known.get(item["id"])
        if held is None or item["id"] in items:
            raise HookError("gave an item that it was not told, or one twice")
        if any(item.get(name, held[name]) != held[name] for name in ("layer", "score")):
            raise HookError("changed layer or score, which stay as they are")
        items[item["id"]] = {**held, "text": item.get("text", held["text"])}
    return list(items.values())


def read_instruction(answer: Any) -> str:
    """Read an instruction to add to a request; empty where there is none.

    Raises:
        HookError: It is something else, or too long.
    """
    if isinstance(answer, Mapping) and set(cast("Mapping[str, Any]", answer)) == {"instruction"}:
        answer = cast("Mapping[str, Any]", answer)["instruction"]
    if answer is None:
        return ""
    if not isinstance(answer, str):
        raise HookError(f"gave {_kind(answer)}, where it takes None or a text to add")
    line = " ".join(make_safe(answer).split())
    if len(line) > LONGEST_INSTRUCTION:
        raise HookError(f"gave {len(line)} characters, where {LONGEST_INSTRUCTION} are the most")
    return line


def read_reply(point: str, reply: Any) -> Any:
    """Bring the JSON of a webhook to what a function would have returned.

    Args:
        point: Where it was called.
        reply: The JSON of its answer; None where it sent none.

    Raises:
        HookError: It is none of `{}`, `{"data": {...}}`, `{"drop": true}`, and before a request to
            the model `{"instruction": "..."}`.
    """
    if reply is None or reply == {}:
        return None
    if point.endswith(".after_llm"):
        return reply  # nothing of it counts
    if not isinstance(reply, Mapping):
        raise HookError(f"answered with {_kind(reply)}, where it takes a JSON object")
    held = cast("Mapping[str, Any]", reply)
    form = {name: _kind(value) for name, value in held.items()}
    if point in CHANGES and form == {"drop": "bool"}:
        return DROP if held["drop"] else None
    if point in CHANGES and form == {"data": "dict"}:
        return held["data"]
    if point.endswith(".before_llm") and form == {"instruction": "str"}:
        return held["instruction"]
    raise HookError("answered in another form")


def _equal(one: Any, two: Any) -> bool:
    """Compare as JSON does: True is not 1."""
    return one is two or (type(one) is type(two) and one == two)


def _kind(value: Any) -> str:
    return type(value).__name__


def _faults(error: ValidationError | RecursionError, model: type[_Changes]) -> str:
    """Name the fields that are wrong; a name that is not ours may hold anything."""
    if isinstance(error, RecursionError):
        return "data nested too deep"
    told: dict[str, None] = {}
    for fault in error.errors(include_input=False, include_url=False):
        name = str(fault["loc"][0]) if fault["loc"] else ""
        told[f"{name} ({fault['type']})" if name in model.model_fields else "an unknown field"] = (
            None
        )
    return ", ".join(told)
