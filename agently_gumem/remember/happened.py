"""What happened between a question and its answer, and where it stands among them (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agently_gumem.privacy import Selection
from agently_gumem.records import Message
from agently_gumem.remember.align import NO_ANSWER, Said
from agently_gumem.remember.cleaning import Select

RESULT_BYTES = 2_000
"""Bytes of what a tool returned that are kept, in UTF-8."""
READ_CHARS = 8_000
"""Characters of it that are looked at."""
# A secret that the reading cut in two may not be known as one: what stands near a cut goes.
_NEAR_A_CUT = 1_000


@dataclass(frozen=True)
class Happened:
    """One thing that happened while a question was answered."""

    key: tuple[str, ...]
    """What makes it this one: given twice, it is the same."""
    question: str
    """The question that was on its way, as far as that is known."""
    role: str
    event_type: str
    head: str
    """The beginning of its text."""
    at: datetime
    result: str = ""
    """What was returned, as it was: the store gets it selected and bounded."""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    def message(self, select: Select) -> Message:
        """Write it as a message; its text has yet to be selected as a whole."""
        return Message(
            role=self.role,
            content=self.head + bounded(self.result, select),
            timestamp=self.at,
            event_type=self.event_type,
            metadata=dict(self.metadata),
        )


def bounded(result: str, select: Select) -> str:
    """Select a result, then cut it to `RESULT_BYTES`: cutting first could hide half a secret."""
    if not result:
        return ""
    read = result[:READ_CHARS]
    told: Selection = select(read)
    text = told.text
    if len(read) < len(result):
        text = text[: max(0, len(text) - _NEAR_A_CUT)]
    raw = text.encode("utf-8", "replace")
    if len(raw) <= RESULT_BYTES and len(read) == len(result):
        return text
    kept = raw[: RESULT_BYTES - len("…".encode())].decode("utf-8", "ignore")
    opened = kept.rfind("[")
    if opened > kept.rfind("]") and len(kept) - opened < len("[bank-account]"):
        kept = kept[:opened]  # a placeholder that was cut in two
    return kept.rstrip() + "…"


@dataclass
class Placed:
    """Where each of those that wait stands among new messages."""

    first: list[Happened] = field(default_factory=list[Happened])
    """Before all of them: its question was never answered."""
    after: dict[int, list[Happened]] = field(default_factory=dict[int, list[Happened]])
    """Place of a question -> what happened before its answer."""
    waits: list[Happened] = field(default_factory=list[Happened])
    """Not yet: nothing new, or its answer is an attempt that may be made again."""

    def all(self) -> list[Happened]:
        """List all that have a place, in their order."""
        return [*self.first, *(h for place in sorted(self.after) for h in self.after[place])]


def placed(
    waiting: Sequence[Happened], head: Sequence[Said], start: int, *, last: bool = False
) -> Placed:
    """Say where what happened stands among the messages from `start` on.

    Args:
        waiting: What happened, in its order.
        head: A history, without a question that is not answered yet.
        start: Where its new messages begin.
        last: Nothing more will come: all of it has a place.
    """
    found = Placed()
    asked = [i for i in range(start, len(head)) if head[i].role == "user"]
    for one in waiting:
        place = next((i for i in reversed(asked) if one.question in head[i].text), None)
        if place is not None and (last or not _may_come_again(head, place)):
            found.after.setdefault(place, []).append(one)
        elif place is not None or not (asked or last):
            found.waits.append(one)
        else:
            found.first.append(one)
    return found


def _may_come_again(head: Sequence[Said], place: int) -> bool:
    """Tell whether the answer is "None", as that of a failed attempt, and the last so far."""
    return place == len(head) - 2 and head[place + 1].text == NO_ANSWER
