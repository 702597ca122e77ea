"""What is special in a draft of the model, and what a policy does to it and its message (pure)."""

from collections.abc import Collection, Sequence
from typing import Any, TypeVar, get_args

from agently_gumem.privacy import PrivacyPolicy, SpecialCategory, Treatment
from agently_gumem.records import Fact, Message, earliest, now, union
from agently_gumem.records.placeholders import SPECIAL

K = TypeVar("K", Message, Fact)


def treatments(policy: PrivacyPolicy, told: str, found: Collection[str] = ()) -> list[Treatment]:
    """List what a policy says of the special subjects of a draft.

    Args:
        policy: The policy.
        told: The subject that the model names; empty where it names none.
        found: Subjects that words find in the draft: the model may say plainly what its source
            only lets one guess.
    """
    named = {told.strip().lower(), *found}
    return [policy.treatment(subject) for subject in get_args(SpecialCategory) if subject in named]


def is_taken_out(special: Sequence[Treatment]) -> bool:
    """Tell whether something of it is not for memory: of several subjects the strictest holds."""
    return any(treatment.action != "keep" for treatment in special)


def kept_under(record: K, special: Sequence[Treatment]) -> K:
    """Put a record that tells something special under its labels and the shortest lifetime."""
    if not special:
        return record
    ends = [now() + t.lifetime for t in special if t.lifetime is not None]
    access = union(record.access, (t.access for t in special if t.access))
    expires = earliest([record.expires_at, *ends])
    return record.model_copy(update={"access": access, "expires_at": expires})


def without_text(message: Message, said: str) -> Message:
    """Return a message without what it told; `said` is the hash by which it is known from now."""
    cut: dict[str, Any] = {"content": SPECIAL, "said": said, "page": ""}
    return message.model_copy(update={**cut, "metadata": {}, "anchors": {}})
