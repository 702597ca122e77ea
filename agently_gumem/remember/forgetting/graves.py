"""The marks of what is forgotten: keyed hashes by which it is known wherever it comes again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agently_gumem.records import APART, Fact, Message, Tomb
from agently_gumem.remember.align import Said
from agently_gumem.remember.forgetting.decide import Plan
from agently_gumem.remember.form import SHORT, compared, said_id, skip_id
from agently_gumem.scope import Scope


@dataclass(frozen=True)
class Epitaph:
    """What is noted on each mark."""

    at: datetime
    by: str
    reason: str


def tombs(
    scope: Scope, plan: Plan, before: Mapping[str, Message], summaries: Iterable[str], note: Epitaph
) -> dict[str, Tomb]:
    """Make the marks of a plan, by their ids.

    Args:
        scope: The user.
        plan: What goes and what is cut.
        before: Message -> the one before it in its session.
        summaries: Those that were named; of others another one may be written in the same words.
        note: What is noted on each.
    """
    made: dict[str, Tomb] = {}
    for message in plan.messages:
        made[scope.tomb(message.id)] = _of_message(scope, message, before.get(message.id), note)
    for old, _ in plan.cut.values():
        tomb_id = scope.tomb(f"cut {old.id}")
        made[tomb_id] = _of_cut(scope, old, before.get(old.id), note)
    for fact in plan.facts:
        if fact.id not in plan.regrow:
            made[scope.tomb(fact.id)] = _of_fact(scope, fact, note)
    for summary_id in summaries:
        made[scope.tomb(summary_id)] = Tomb(layer="summary", **vars(note))
    return made


def previous(messages: Sequence[Message]) -> dict[str, Message]:
    """Map each message to the one before it in its session, as a history holds them."""
    last: dict[str, Message] = {}
    found: dict[str, Message] = {}
    for message in messages:
        if message.session_id in last:
            found[message.id] = last[message.session_id]
        if message.event_type not in APART:
            last[message.session_id] = message
    return found


def _of_message(scope: Scope, message: Message, before: Message | None, note: Epitaph) -> Tomb:
    return Tomb(
        layer="message",
        role=message.role,
        said=said_of(scope, message),
        session=scope.services.ids.of("session", scope.key, message.session_id),
        sequence=message.sequence,
        skips=_skips(scope, message, before),
        **vars(note),
    )


def _of_cut(scope: Scope, message: Message, before: Message | None, note: Epitaph) -> Tomb:
    """Mark a message that loses text; one that lost some before refuses all its earlier texts."""
    earlier = scope.cut_tomb(message.id) or {}
    was = said_id(scope, Said(message.role, message.content))
    return Tomb(
        layer="message",
        cut=True,
        role=message.role,
        said=said_of(scope, message),
        skips=[*dict.fromkeys([*earlier.get("skips", ()), *_skips(scope, message, before)])],
        was=[*earlier.get("was", ()), was],
        **vars(note),
    )


def _of_fact(scope: Scope, fact: Fact, note: Epitaph) -> Tomb:
    sources = [scope.tomb(i) for i in fact.source_message_ids]
    return Tomb(layer="fact", of=sources, **vars(note))


def said_of(scope: Scope, message: Message) -> str:
    """Return the keyed hash of what was said, whatever became of the text since."""
    return message.said or said_id(scope, Said(message.role, message.content))


def _skips(scope: Scope, message: Message, before: Message | None) -> list[str]:
    """Return the hashes that keep a message out of a history under whatever session's name.

    Of one whose text was changed only the hash of what was said is left, and of a short one whose
    predecessor's text is not known any more: it is known by that alone then.
    """
    form = compared(scope, Said(message.role, message.content))
    unknown = before is not None and bool(before.said) and len(form.text) <= SHORT
    if message.said or unknown:
        return [said_of(scope, message)]
    told = Said(before.role, before.content) if before is not None else None
    return [skip_id(scope, compared(scope, told) if told else None, form)]
