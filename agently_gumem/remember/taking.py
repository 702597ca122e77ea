"""Take in records of an export: ids as they are, everything selected anew, nothing forgotten.

Each function returns why a record is refused, or the record as it may be stored.
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agently_gumem.records import (
    APART,
    Fact,
    MemoState,
    Message,
    Summary,
    Topic,
    earliest,
    has_passed,
    latest,
    noted,
    now,
    union,
)
from agently_gumem.remember import hooking
from agently_gumem.remember.align import Said
from agently_gumem.remember.cleaning import Cleaner
from agently_gumem.remember.form import compared, form_of, said_id
from agently_gumem.remember.journal import (
    IMPORTED_MEMO,
    check,
    cleaned,
    hooked,
)
from agently_gumem.remember.select import is_noise
from agently_gumem.scope import Scope
from agently_gumem.text import fold

Refused: TypeAlias = str
FORGOTTEN, SELECTION, SOURCE, HOOK, NOISE, EXPIRED = (
    "forgotten", "selection", "source", "hook", "noise", "expired",
)  # fmt: skip


@dataclass
class Taken:
    """What became of the records of one batch, or of all."""

    added: list[str] = field(default_factory=list[str])
    updated: list[str] = field(default_factory=list[str])
    known: list[str] = field(default_factory=list[str])
    refused: dict[str, Refused] = field(default_factory=dict[str, Refused])
    before: dict[str, Said] = field(default_factory=dict[str, Said])
    """Session -> the message before, as far as they were read."""

    def note(self, written: Iterable[str], held: Container[str], among: list[str]) -> None:
        """Count what was written; what is not held after it is kept out by a mark."""
        for record_id in written:
            if record_id in held:
                among.append(record_id)
            else:
                self.refused[record_id] = FORGOTTEN


async def take_messages(scope: Scope, messages: Sequence[Message], taken: Taken) -> None:
    """Store messages of an export in one write; those that are there stay as they are.

    Raises:
        HookError: A hook failed that stops the work then.
        StoreError: Nothing of this batch was stored.
    """
    async with scope.journal_lock:
        await scope.ready()
        known = scope.index.messages.keys() | scope.left_out
        new = [m for m in messages if m.id not in known]
        made = await scope.services.worker.thread(_selected_messages, scope, new, taken)
        for message in made.values():
            check(scope, message)
        kept = await hooked(scope, made) if made else {}
        taken.refused.update(dict.fromkeys(made.keys() - kept.keys(), HOOK))
        if kept:
            await hooking.write(scope, list(kept.values()))
        taken.note(kept, scope.index.messages, taken.added)
        taken.known += [m.id for m in messages if m.id in known]


def _selected_messages(
    scope: Scope, messages: Sequence[Message], taken: Taken
) -> dict[str, Message]:
    made: dict[str, Message] = {}
    for message in messages:
        told = _selected_message(scope, message, taken.before.get(message.session_id))
        if message.event_type not in APART:
            taken.before[message.session_id] = Said(message.role, message.content)
        if isinstance(told, Message):
            made[told.id] = told
        else:
            taken.refused[message.id] = told
    return made


def _selected_message(scope: Scope, message: Message, before: Said | None) -> Message | Refused:
    if scope.refuses(message.id):
        return FORGOTTEN
    if has_passed(message.expires_at):
        return EXPIRED
    blank = not message.content and message.event_type == IMPORTED_MEMO
    if not blank and is_noise(message.event_type, message.content, scope.services.privacy):
        return NOISE
    clean = cleaned(scope, message)
    if clean is None:
        return SELECTION
    if passed_over(scope, before, Said(message.role, clean["content"])):
        return FORGOTTEN
    return message.model_copy(
        update={
            "status": "pending" if message.status == "chunked" else message.status,
            "stored_at": message.stored_at or now(),
            **clean,
        }
    )


def take_fact(scope: Scope, fact: Fact) -> Fact | Refused:
    """Select a Fact, and let it rest on what of its messages is there (in the pool)."""
    if scope.refuses(fact.id):
        return FORGOTTEN
    if has_passed(fact.expires_at):
        return EXPIRED
    held = scope.index.messages
    sources = [i for i in fact.source_message_ids if i in held or i in scope.left_out]
    if not sources:
        return SOURCE
    selection = scope.services.select(fact.content)
    if selection.drop or selection.text != fact.content:
        return SELECTION  # a Fact that holds a placeholder is none
    said = [held.get(i) for i in sources]
    ends = latest(m.expires_at if m is not None else None for m in said)
    limit = None if selection.lifetime is None else now() + selection.lifetime
    labels = union(fact.access, *(m.access for m in said if m is not None), selection.access)
    return fact.model_copy(
        update={
            "source_message_ids": sources,
            **_clean(scope, fact, "subject", "topic", "entities", "labels", "anchors"),
            "access": labels,
            "expires_at": earliest([fact.expires_at, ends, limit]),
        }
    )


def take_summary(scope: Scope, summary: Summary, active: Collection[str]) -> Summary | Refused:
    """Select a Summary; one without all of its Facts may tell what is not kept (in the pool).

    Args:
        scope: The user.
        summary: The Summary.
        active: Folded names of the Topics that have an active Summary already.
    """
    if scope.refuses(summary.id):
        return FORGOTTEN
    if has_passed(summary.expires_at):
        return EXPIRED
    facts = [scope.index.facts.get(fact_id) for fact_id in summary.source_facts]
    if any(fact is None or fact.access for fact in facts):
        return SOURCE
    selection = scope.services.select(summary.content)
    if selection.drop or selection.access or selection.text != summary.content:
        return SELECTION
    clean = summary.model_copy(
        update=_clean(scope, summary, "topic", "labels", "entities", "anchors")
    )
    if summary.validity == "active" and fold(summary.topic) in active:
        retired = clean.model_copy(update={"validity": "deprecated"})
        reason = "the Topic has another Summary"
        return noted(retired, at=now(), what="retired", actor="import", reason=reason)
    return clean


def take_topic(scope: Scope, topic: Topic, refused: Collection[str]) -> Topic | Refused:
    """Select a Topic (in the pool).

    Args:
        scope: The user.
        topic: The Topic.
        refused: Folded names of Topics whose Facts were all refused.
    """
    if scope.refuses(topic.id):
        return FORGOTTEN
    if fold(topic.name) in refused:
        return SOURCE
    clean = _clean(scope, topic, "name", "aliases", "description", "labels")
    return SELECTION if clean["name"] != topic.name else topic.model_copy(update=clean)


def take_memo(scope: Scope, memo: MemoState) -> MemoState:
    """Keep the keys of a memo all of whose Facts are there (in the pool)."""
    facts = scope.index.facts
    keys = [
        key
        for key in memo.value
        if memo.facts.get(key)
        and all((f := facts.get(i)) is not None and not f.access for i in memo.facts[key])
    ]
    value = {key: Cleaner(scope.services.select).data(memo.value[key]) for key in keys}
    if value == memo.value:
        return memo
    # What had to be left out is told anew, from the Facts that are there.
    return memo.for_rebuild(value=value, facts={key: memo.facts[key] for key in keys})


def buried(origin: Scope, record: Fact | Summary | Topic | Message) -> bool:
    """Tell whether whom an export was taken from has forgotten a record, or part of its text."""
    if origin.refuses(record.id):
        return True
    if not isinstance(record, Message):
        return False
    cut = origin.cut_tomb(record.id)
    said = Said(record.role, record.content)
    return passed_over(origin, None, said) or (
        cut is not None and said_id(origin, said) in cut["was"]
    )


def passed_over(scope: Scope, before: Said | None, said: Said) -> bool:
    """Tell whether a message is known as one that must not be taken up."""
    if not (scope.gone or scope.passed_over):
        return False
    ahead = compared(scope, before) if before is not None else None
    return form_of(scope).passed_over(ahead, compared(scope, said))


def newer(record: Any, held: Any) -> bool:
    """Tell whether a record was changed after the one that is stored."""
    return bool(record.updated_at > held.updated_at)


def topics_without_facts(facts: Sequence[tuple[str, bool]]) -> set[str]:
    """Name the Topics whose Facts were all refused, from (folded topic, whether it is kept)."""
    kept: dict[str, bool] = defaultdict(bool)
    for topic, stays in facts:
        kept[topic] = kept[topic] or stays
    return {topic for topic, stays in kept.items() if not stays}


def _clean(scope: Scope, record: Any, *names: str) -> Mapping[str, Any]:
    cleaner = Cleaner(scope.services.select)
    return {name: cleaner.data(getattr(record, name)) for name in names}
