"""The default schema of the memo, and what is kept of a memo in the store."""

from typing import Any

from pydantic import BaseModel, Field

from agently_gumem.records._base import Moment, Record


class StableFact(BaseModel):
    """A confirmed fact that matters to most questions."""

    fact: str
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)


class Memo(BaseModel):
    """What always matters about the user; subclass or replace it with a schema of your own."""

    user_preferences: dict[str, str] = Field(
        default_factory=dict,
        description="Long-term preferences, one short key each: how to address and answer, likes, "
        "dislikes.",
    )
    constraints: list[str] = Field(
        default_factory=list,
        description="Durable limits that every plan has to respect: budget, diet, times that are "
        "not possible.",
    )
    stable_facts: list[StableFact] = Field(
        default_factory=list[StableFact],
        description="Confirmed facts about the user that matter to most questions.",
    )


# In a subclass the string under a field is its description, which the model reads. Not here: to
# find it pydantic asks for the source, and so for the file of every loaded module (30 ms of CPU).
Memo.model_config["use_attribute_docstrings"] = True


class MemoState(Record):
    """The memo of a user as stored: its value and the Facts behind each top-level key."""

    user_id: str
    space: str = "default"
    value: dict[str, Any] = Field(default_factory=dict)
    facts: dict[str, list[str]] = Field(default_factory=dict)
    """Top-level key -> ids of the Facts that it rests on."""
    schema_digest: str = ""
    """Of the schema that it was written under; another one, or none, asks for a rebuild."""
    updated_at: Moment

    def for_rebuild(self, **changes: Any) -> "MemoState":
        """Return it, with other fields where given, as one that the next digest writes anew."""
        return self.model_copy(update={**changes, "schema_digest": ""})

    @property
    def is_for_rebuild(self) -> bool:
        """Whether the next digest writes it anew, whatever the schema."""
        return not self.schema_digest
