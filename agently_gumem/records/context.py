"""What one recall gives."""

from typing import Literal

from pydantic import Field

from agently_gumem.records._base import Record
from agently_gumem.records.message import Message

Layer = Literal["memo", "summary", "fact", "turn"]


class ContextItem(Record):
    """One thing that stands in `formatted_context`."""

    layer: Layer
    id: str
    text: str
    """As it stands in the text."""
    score: float = 0.0
    """Absolute evidence for this query; larger is better, not a probability."""
    parts: dict[str, float] = Field(default_factory=dict)
    """The score by signal, such as dense and lexical."""
    source_message_ids: list[str] = Field(default_factory=list)


class MemoryContext(Record):
    """The context of one query; `formatted_context` is the part for the prompt."""

    query: str = ""
    short_term_context: list[Message] = Field(default_factory=list[Message])
    """This session's newest messages that are no longer in the window, oldest first."""
    mid_term_context: list[ContextItem] = Field(default_factory=list[ContextItem])
    """What the query recalled: Summaries, Facts, turns, best first."""
    long_term_user_context: str = ""
    """The memo, as text."""
    formatted_context: str = ""
    tokens: int = 0
    """Tokens of `formatted_context`, by the counter of the GUMem."""
    abstained: bool = True
    """Nothing passed the floor. What did may still be left out of the text, by the budget, or
    since the memo says it."""
    items: list[ContextItem] = Field(default_factory=list[ContextItem])
    """What stands in the text, in its order."""
