"""What every record shares: frozen, strict about its fields, and the time helpers."""

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from agently_gumem.errors import ConfigError
from agently_gumem.text import make_safe

R = TypeVar("R", bound="Record")


def now() -> datetime:
    """Return the present moment, aware, in UTC."""
    return datetime.now(timezone.utc)


def aware(moment: datetime) -> datetime:
    """Read a naive time as UTC: a store that is shared by machines has no local time."""
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def _safe(value: Any) -> Any:
    return make_safe(value) if isinstance(value, str) else value


Moment = Annotated[datetime, AfterValidator(aware)]
Text = Annotated[str, BeforeValidator(_safe)]


class Record(BaseModel):
    """A frozen record; an unknown field is an error, so that a typing slip is seen."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def named(kind: type[Record]) -> str:
    """Name a kind of record with its article: a Message, an Action."""
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"


def as_record(kind: type[R], value: "R | Mapping[str, Any] | None", what: str) -> R:
    """Take a record, a mapping of its fields, or None (all defaults).

    Raises:
        ConfigError: The value is of another type, or a field is unknown or wrong.
    """
    if isinstance(value, kind):
        return value
    if value is not None and not isinstance(value, Mapping):
        raise ConfigError(f"{what} takes {named(kind)} or a dict of its fields, not {value!r}")
    try:
        return kind.model_validate(dict(value or {}))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or kind.__name__}: {fault['msg']}"
            for fault in error.errors()
        )
        raise ConfigError(f"{what} is no valid {kind.__name__}: {faults}") from error
