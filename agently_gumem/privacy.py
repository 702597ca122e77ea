"""What may be remembered, per category: taken out, dropped, or kept for a time.

Everything is plain data and is checked where it is made; a dict of the same fields is taken too.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

from pydantic import AfterValidator, Field, ValidationError, model_validator

from agently_gumem.errors import ConfigError
from agently_gumem.records import Kind, Record

Action: TypeAlias = Literal["redact", "drop", "keep"]
SpecialCategory: TypeAlias = Literal["health", "sex", "faith", "politics", "origin"]
WordCategory: TypeAlias = Literal["health", "sex", "faith", "politics", "origin", "allergy"]
Category: TypeAlias = Literal[
    "secret", "card", "bank-account", "id-number", "email", "phone",
    "health", "sex", "faith", "politics", "origin", "allergy",
]  # fmt: skip
_FIELDS = {
    "secret": "secrets",
    "card": "cards",
    "bank-account": "bank_accounts",
    "id-number": "id_numbers",
    "email": "emails",
    "phone": "phones",
    "allergy": "allergies",
}
_STRICT = ("secrets", "cards", "bank_accounts", "id_numbers")


def _positive(time: timedelta) -> timedelta:
    if time <= timedelta(0):
        raise ConfigError(f"a time must be longer than nothing, not {time}")
    return time


Lifetime = Annotated[timedelta, AfterValidator(_positive)]
"""A `timedelta`, a number of seconds, or ISO 8601 such as "P30D"."""


class _Checked(Record):
    """A record whose faults are a ConfigError, also where it is made directly."""

    if not TYPE_CHECKING:  # a checker shall know the fields by name

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise ConfigError(f"no valid {type(self).__name__}: {_faults(error)}") from error


def _faults(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, f['loc'])) + ': ' if f['loc'] else ''}"
        f"{f['msg'].removeprefix('Value error, ')}"
        for f in error.errors()
    )


class Treatment(_Checked):
    """What happens to a category; the name of the action alone is taken as well."""

    action: Action
    """`redact`: a placeholder stands for it. `drop`: the whole message is not stored. `keep`."""
    lifetime: Lifetime | None = None
    """How long a message with it is kept; only with `keep`."""
    access: str = ""
    """Label that a reader must name to be shown it; only with `keep`."""

    @model_validator(mode="before")
    @classmethod
    def _of_a_word(cls, value: Any) -> Any:
        return {"action": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _only_what_is_kept(self) -> "Treatment":
        if self.action != "keep" and (self.lifetime is not None or self.access):
            raise ConfigError(
                f"lifetime and access are for what is kept, and the action is {self.action!r}: "
                "leave them out, or say 'keep'"
            )
        if self.access != self.access.strip():
            raise ConfigError(f"an access label has no space around it, unlike {self.access!r}")
        return self

    @property
    def limited(self) -> bool:
        """Whether it is kept, and only for a time or only for some."""
        return self.action == "keep" and (self.lifetime is not None or bool(self.access))


class Retention(_Checked):
    """What goes when it is old enough: all that matches every field that is given."""

    older_than: Lifetime
    layer: Literal["message", "fact", "summary"] | None = None
    """Only these records; None is all of them."""
    kind: Kind | None = None
    """Only Facts of this kind, such as "plan"."""
    label: str = ""
    """Only Facts and Summaries with this label."""
    event_type: str = ""
    """Only messages of this type."""

    @model_validator(mode="after")
    def _of_one_layer(self) -> "Retention":
        for name, layers in (
            ("kind", ("fact",)),
            ("label", ("fact", "summary")),
            ("event_type", ("message",)),
        ):
            if getattr(self, name) and self.layer is not None and self.layer not in layers:
                raise ConfigError(f"{name} is of {' and '.join(layers)}, not of {self.layer}")
        if self.event_type and (self.kind or self.label):
            raise ConfigError("event_type is of messages, kind and label are not: make two of it")
        return self


REDACT = Treatment(action="redact")
KEEP = Treatment(action="keep")


class PrivacyPolicy(_Checked):
    """What is found in a text before it is stored or sent to a model, and what happens to it."""

    secrets: Treatment = REDACT
    """Keys, tokens, passwords, PINs and one-time codes."""
    cards: Treatment = REDACT
    """Numbers of payment cards."""
    bank_accounts: Treatment = REDACT
    """IBANs, and account numbers that are called so."""
    id_numbers: Treatment = REDACT
    """National identity, tax, insurance, passport and licence numbers."""
    emails: Treatment = KEEP
    phones: Treatment = KEEP
    phone_regions: tuple[str, ...] = ("CN", "US", "GB", "DE", "FR")
    """Countries whose phone numbers are found without their + code."""
    special: Treatment = REDACT
    """What is said of a person's health, sex, faith, politics, origin."""
    special_categories: Mapping[SpecialCategory, Treatment] = Field(
        default_factory=dict[SpecialCategory, Treatment]
    )
    """Other treatments for some of these."""
    allergies: Treatment = KEEP
    """Allergies and intolerances: a memory that forgets one does harm."""
    special_words: Mapping[WordCategory, list[str]] = Field(
        default_factory=dict[WordCategory, list[str]]
    )
    """Further words and phrases: category -> words of either language."""
    harmless_words: list[str] = Field(default_factory=list)
    """Phrases that never count as special content."""
    noise_events: frozenset[str] = frozenset()
    """Further types of events that are not stored."""
    wanted_events: frozenset[str] = frozenset()
    """Types of events that are stored though they would count as noise."""
    retention: list[Retention] = Field(default_factory=list[Retention])
    """What goes when it is old enough."""

    @model_validator(mode="after")
    def _has_limits(self) -> "PrivacyPolicy":
        for name in _STRICT:
            treatment: Treatment = getattr(self, name)
            if treatment.action == "keep" and treatment.lifetime is None:
                raise ConfigError(f"{name}: 'keep' needs a lifetime, such as 'P30D' (thirty days)")
        special = {"special": self.special}
        special |= {f"special_categories.{k}": v for k, v in self.special_categories.items()}
        for name, treatment in special.items():
            if treatment.action == "keep" and not (treatment.lifetime and treatment.access):
                raise ConfigError(
                    f"{name}: 'keep' needs a lifetime and an access label, such as "
                    "Treatment(action='keep', lifetime='P30D', access='care')"
                )
        return self

    @model_validator(mode="after")
    def _has_usable_words(self) -> "PrivacyPolicy":
        for name, word in self._words():
            plain = word.strip()
            if len(plain) < (3 if plain.isascii() else 2):
                raise ConfigError(f"{name}: {word!r} is too short to be looked for")
        for name in ("noise_events", "wanted_events"):
            if blank := [e for e in getattr(self, name) if not event_key(e)]:
                raise ConfigError(f"{name}: {blank[0]!r} names no type of events")
        if both := {event_key(e) for e in self.noise_events} & {
            event_key(e) for e in self.wanted_events
        }:
            raise ConfigError(f"noise_events and wanted_events both name {min(both)!r}")
        for region in self.phone_regions:
            if not re.fullmatch("[A-Z]{2}", region):
                raise ConfigError(f"phone_regions takes codes of two letters, not {region!r}")
        return self

    def _words(self) -> Iterator[tuple[str, str]]:
        for category, words in self.special_words.items():
            yield from ((f"special_words.{category}", word) for word in words)
        yield from (("harmless_words", word) for word in self.harmless_words)

    def strictest(self) -> "PrivacyPolicy":
        """Return the policy that takes out all that this one could keep or drop."""
        redacted: dict[str, Any] = dict.fromkeys(_FIELDS.values(), REDACT)
        return self.model_copy(update={**redacted, "special": REDACT, "special_categories": {}})

    def treatment(self, category: Category) -> Treatment:
        """Return what happens to a category."""
        if name := _FIELDS.get(category):
            return getattr(self, name)
        own = cast("Mapping[str, Treatment]", self.special_categories)
        return own.get(category, self.special)


@dataclass(frozen=True)
class Selection:
    """A text as it may be remembered, and what was found in it."""

    text: str
    found: Mapping[str, int] = field(default_factory=dict[str, int])
    """Kind of placeholder -> how many took the place of something."""
    drop: bool = False
    """The whole message is not for memory."""
    access: tuple[str, ...] = ()
    """Labels under which what was kept may be shown."""
    lifetime: timedelta | None = None
    """How long what was kept may be kept, the shortest time of all that was found."""
    special: Mapping[str, int] = field(default_factory=dict[str, int])
    """Category of special content -> how many statements, taken out or kept under limits."""


def event_key(event_type: str) -> str:
    """Return a type of events as types are compared: letters, digits, no signs between them."""
    return "".join(c for c in event_type.casefold() if c.isalnum())
