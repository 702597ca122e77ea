"""How a record is kept as a row, and read back."""

import json
from datetime import datetime
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from agently_gumem.errors import StoreError
from agently_gumem.records import Fact, MemoState, Message, Summary, Topic
from agently_gumem.store import Row

Kept: TypeAlias = Message | Fact | Summary | Topic
"""The records that are searched, and so have a vector."""

_KINDS: dict[str, type[BaseModel]] = {
    "message": Message,
    "fact": Fact,
    "summary": Summary,
    "topic": Topic,
    "memo": MemoState,
}


def layer_of(record: Kept | MemoState) -> str:
    """Name the layer of a record."""
    return "memo" if isinstance(record, MemoState) else type(record).__name__.lower()


def _message_fields(record: Message) -> dict[str, str | int | float]:
    return {
        "session_id": record.session_id,
        "status": record.status,
        "time": _seconds(record.timestamp),
        "since": _seconds(record.timestamp or record.stored_at),
        "expires": _seconds(record.expires_at),
        "sequence": record.sequence,
    }


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment is not None else 0.0


def _validity_fields(record: Fact | Summary) -> dict[str, str | int | float]:
    return {
        "validity": record.validity,
        "time": record.updated_at.timestamp(),
        "since": record.created_at.timestamp(),
        "expires": _seconds(record.expires_at),
    }


def to_row(record: Kept | MemoState, vector: NDArray[np.float32] | None) -> Row:
    """Bring a record to the form of the store."""
    fields: dict[str, str | int | float] = {}
    if isinstance(record, Message):
        fields = _message_fields(record)
    elif isinstance(record, Fact | Summary):
        fields = _validity_fields(record)
    record_id = "memo" if isinstance(record, MemoState) else record.id
    return Row(layer_of(record), record_id, record.model_dump_json(), fields, vector)


def from_row(row: Row) -> Kept | MemoState | None:
    """Read a record; None for a row of another kind, such as a mark.

    Raises:
        StoreError: The row can't be read: it was changed by something else.
    """
    kind: Any = _KINDS.get(row.layer)
    if kind is None:
        return None
    try:
        return kind.model_validate_json(row.document)
    except ValidationError as error:
        raise StoreError(
            f"row {row.layer} {row.id} can't be read: {len(error.errors())} wrong fields"
        ) from error


def flag_row(layer: str, row_id: str, **values: Any) -> Row:
    """Make a row that only says something: a stage that was marked, a message passed over."""
    return Row(layer, row_id, json.dumps(values, ensure_ascii=False), {})
