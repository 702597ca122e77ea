"""Where the memory's work asks the application's hooks, and what their answers do to records."""

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from agently_gumem.errors import HookError
from agently_gumem.hooks import Round, Whose
from agently_gumem.privacy import Selection
from agently_gumem.records import Fact, MemoState, Message, Summary, Topic, noted, now
from agently_gumem.remember.align import Said
from agently_gumem.remember.cleaning import Cleaner
from agently_gumem.remember.form import said_id
from agently_gumem.rows import Kept, flag_row
from agently_gumem.scope import Scope
from agently_gumem.store import Row
from agently_gumem.text import fold, make_safe

K = TypeVar("K")
T = TypeVar("T", Message, Fact, Summary, Topic)
N = TypeVar("N", Fact, Summary)

_MESSAGE = "id role speaker content timestamp event_type page anchors metadata access"
_FACT = (
    "id subject content kind topic entities labels certainty confidence time_range session_ids "
    "source_message_ids access"
)
_SUMMARY = "id topic content source_facts labels entities confidence"
_TOPIC = "id name aliases description labels"


async def messages(scope: Scope, new: Mapping[K, Message]) -> Mapping[K, Message]:
    """Ask about messages that are about to be stored; what was dropped is not among them.

    Raises:
        HookError: A hook failed that stops the work then.
    """

    def changed(message: Message, changes: Mapping[str, Any]) -> Message:
        update = dict(changes)
        if "content" in changes:
            # What Agently holds goes on saying it as it was said: it must not look new.
            update["said"] = said_id(scope, Said(message.role, message.content))
        return message.model_copy(update=update)

    return await _each(scope, "message.before_add", _MESSAGE, new, changed)


async def facts(scope: Scope, new: Mapping[K, Fact]) -> Mapping[K, Fact]:
    """Ask about Facts before they are compared with what is known.

    Raises:
        HookError: A hook failed that stops the work then.
    """

    def changed(fact: Fact, changes: Mapping[str, Any]) -> Fact:
        content = str(changes.get("content", fact.content))
        own = fact_id(scope, content, fact.subject, fact.source_message_ids)
        return _noted(fact.model_copy(update={**changes, "id": own}), changes)

    return await _each(scope, "fact.before_add", _FACT, new, changed)


async def summaries(scope: Scope, new: Mapping[K, Summary]) -> Mapping[K, Summary]:
    """Ask about Summaries.

    Raises:
        HookError: A hook failed that stops the work then.
    """

    def changed(summary: Summary, changes: Mapping[str, Any]) -> Summary:
        content = str(changes.get("content", summary.content))
        own = summary_id(scope, summary.topic, content, summary.source_facts)
        return _noted(summary.model_copy(update={**changes, "id": own}), changes)

    return await _each(scope, "summary.before_add", _SUMMARY, new, changed)


def _noted(record: N, changes: Iterable[str]) -> N:
    """Note in the history of a record which of its fields hooks changed before it was added."""
    reason = f"changed before it was added: {', '.join(changes)}"
    return noted(record, at=now(), what="updated", actor="hook", reason=reason)


async def topic(scope: Scope, new: Topic) -> Topic | None:
    """Ask about a new Topic; None where it was dropped.

    Raises:
        HookError: A hook failed that stops the work then.
    """

    def changed(held: Topic, changes: Mapping[str, Any]) -> Topic:
        own = topic_id(scope, str(changes.get("name", held.name)))
        return held.model_copy(update={**changes, "id": own})

    kept = await _each(scope, "topic.before_add", _TOPIC, {"": new}, changed)
    return kept.get("")


def fact_id(scope: Scope, content: str, subject: str, sources: Iterable[str]) -> str:
    """Return the id of a Fact: a hash of what it says, of whom, and of its sources."""
    return scope.services.ids.of("fact", scope.key, fold(content), fold(subject), *sorted(sources))


def summary_id(scope: Scope, topic_name: str, content: str, source_facts: Iterable[str]) -> str:
    """Return the id of a Summary: a hash of what it says, under which Topic, and of its Facts."""
    told = (fold(topic_name), content, *sorted(source_facts))
    return scope.services.ids.of("sum", scope.key, *told)


def topic_id(scope: Scope, name: str) -> str:
    """Return the id of a Topic: a hash of its name."""
    return scope.services.ids.of("topic", scope.key, fold(name))


async def instructions(
    scope: Scope, template: str, point: str, told: Callable[[], Mapping[str, Any]], session_id: str
) -> list[str]:
    """Ask for instructions to add to a request.

    Raises:
        HookError: A hook failed that stops the work then.
    """
    asked = begin(scope, point)
    if asked is None:
        return []
    lines = await asked.instructions(told(), Whose(scope.user_id, scope.space, session_id))
    if lines and not scope.services.prompts.shows(template, "instructions"):
        error = HookError(f"the template {template}.jinja of the application has no instructions")
        scope.troubles.note("hook", error)
        return []
    return lines


async def looked(
    scope: Scope, point: str, told: Callable[[], Mapping[str, Any]], session_id: str
) -> None:
    """Let hooks look at an answer of the model.

    Raises:
        HookError: A hook failed that stops the work then.
    """
    asked = begin(scope, point)
    if asked is not None:
        await asked.show(told(), Whose(scope.user_id, scope.space, session_id))


def begin(scope: Scope, point: str, clean: Callable[[Any], Any] | None = None) -> Round | None:
    """Begin to ask the hooks of a point; None where there are none.

    `clean` takes out of what a hook gave what is not for memory; it is done in all texts without.
    """
    selecting = clean or functools.partial(selected_value, scope)
    return scope.services.hooks.round(point, scope.troubles.note, selecting)


def shown(record: Message | Fact | Summary | Topic, names: str = _MESSAGE) -> dict[str, Any]:
    """Return what a hook is told of a record, as plain data."""
    return json.loads(record.model_dump_json(include=set(names.split())))


def one_session(session_ids: Iterable[str]) -> str:
    """Name the session behind something; empty where there are several."""
    found = set(session_ids)
    return found.pop() if len(found) == 1 else ""


def selected_value(scope: Scope, value: Any) -> Any:
    """Take out of nested data what must not be kept.

    A text that is not for memory at all is empty after it.
    """

    def select(text: str) -> Selection:
        selection = scope.services.select(make_safe(text))
        return Selection("") if selection.drop else selection

    return Cleaner(select).data(value)


async def write(
    scope: Scope,
    records: Sequence[Kept | MemoState],
    flags: Sequence[Row] = (),
    *,
    seen: int | None = None,
    dirty: bool = False,
) -> None:
    """Write records, and beside them what webhooks were sent about the user since the last time.

    Raises:
        Outdated: Something was forgotten since the generation `seen`; nothing was written.
        StoreError: Nothing was written.
    """
    whose, sent = (scope.user_id, scope.space), scope.services.hooks.sent
    rest = sent.unsaved(whose)
    rows = [
        flag_row("sent", scope.services.ids.of("sent", *d.key), **d.model_dump(mode="json"))
        for d in rest
    ]
    await scope.write(records, [*flags, *rows], seen=seen, dirty=dirty)
    sent.saved(whose, rest)


async def _each(
    scope: Scope,
    point: str,
    names: str,
    records: Mapping[K, T],
    changed: Callable[[T, Mapping[str, Any]], T],
) -> Mapping[K, T]:
    """Ask about records one by one; without a hook they are given back as they are."""
    asked = begin(scope, point)
    if asked is None:
        return records
    kept: dict[K, T] = {}
    for key, record in records.items():
        told = shown(record, names)
        data = await asked.change(told, Whose(scope.user_id, scope.space, _session(record)))
        if data is None or not str(data.get("content", data.get("name"))).strip():
            continue
        changes = {name: value for name, value in data.items() if value != told[name]}
        kept[key] = changed(record, changes) if changes else record
    return kept


def _session(record: Message | Fact | Summary | Topic) -> str:
    if isinstance(record, Message):
        return record.session_id
    return one_session(record.session_ids) if isinstance(record, Fact) else ""
