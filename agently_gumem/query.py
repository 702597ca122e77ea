"""Recall, at its edge: a question and a user's scope -> a MemoryContext; no model is asked."""

import contextlib
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from agently_gumem.blas import one_thread
from agently_gumem.config import RecallConfig
from agently_gumem.errors import HookError
from agently_gumem.hooks import Round, Whose
from agently_gumem.recall.compose import compose
from agently_gumem.recall.frame import neutralise
from agently_gumem.recall.index import Stored, UserIndex
from agently_gumem.recall.memo import render_memo
from agently_gumem.recall.question import Question, read_question
from agently_gumem.recall.rank import Hit, rank
from agently_gumem.records import Fact, MemoryContext, Message, Summary, Topic, now, shown_to
from agently_gumem.remember import hooking
from agently_gumem.remember.align import Said, said
from agently_gumem.remember.form import form_of, stored_form
from agently_gumem.remember.journal import IMPORTED_MEMO
from agently_gumem.scope import WAITING, Scope

R = TypeVar("R")


@dataclass(frozen=True)
class Asked:
    """A question, from which session, and what its window already holds."""

    text: str
    config: RecallConfig
    session_id: str | None = None
    window: Sequence[Any] = ()
    """The window as Agently holds it."""


async def recall(scope: Scope, beside: Sequence[Scope], asked: Asked) -> MemoryContext:
    """Compose what a question needs.

    Args:
        scope: The user's own space.
        beside: Other spaces of the same user that are read too.
        asked: The question.

    Returns:
        The context; empty while the user's memory is paused.
    """
    if scope.paused:
        return MemoryContext(query=asked.text)
    question = read_question(
        asked.text, _speakers(scope, beside), asked.config.now or now(), scope.index.common
    )
    (vector,) = await scope.embed_each([question.bare])
    if vector is None:  # the words of the question still find something
        vector = np.zeros(scope.index.dimension, np.float32)

    def ranked() -> _Ranked:
        return _rank(scope, beside, asked, question, vector)

    hook = hooking.begin(scope, "recall.before_compose", functools.partial(_clean, scope))
    if hook is None:
        return await _guarded(scope, beside, lambda: _compose(scope, beside, asked, ranked()))
    found, items = await _guarded(scope, beside, lambda: _offered(scope, beside, ranked()))
    # Nothing was found: a question need not wait for what nobody can change.
    chosen = await _hooked(scope, hook, asked, found, items) if items else found
    if scope.paused:
        return MemoryContext(query=asked.text)
    return await _guarded(scope, beside, lambda: _compose(scope, beside, asked, chosen))


def _offered(
    scope: Scope, beside: Sequence[Scope], ranked: "_Ranked"
) -> "tuple[_Ranked, list[dict[str, Any]]]":
    """Give beside what was found what hooks are told of it."""
    index = _together(scope, beside)
    items = [
        {"layer": h.layer, "id": h.id, "text": record.content, "score": h.score}
        for h in ranked.hits
        if isinstance(record := index.get(h.id), Summary | Fact | Message)
    ]
    return ranked, items


def _clean(scope: Scope, changed: Mapping[str, Any]) -> dict[str, Any]:
    """Take out of what a hook made of the items what is not for memory; ids stay as they are."""
    items: Sequence[Mapping[str, Any]] = changed["items"]
    told = [{**item, "text": hooking.selected_value(scope, item["text"])} for item in items]
    return {"items": [item for item in told if item["text"].strip()]}


async def _hooked(
    scope: Scope, hook: Round, asked: Asked, ranked: "_Ranked", items: Sequence[dict[str, Any]]
) -> "_Ranked":
    """Ask hooks which of the hits are shown, in which order and words; on a stop it is none."""
    query = await scope.services.worker.thread(hooking.selected_value, scope, asked.text)
    whose = Whose(scope.user_id, scope.space, asked.session_id or "")
    try:
        data = await hook.change({"query": query, "items": list(items)}, whose)
    except HookError:
        data = None
    if data is None:
        return replace(ranked, hits=(), recent=())
    hits = {hit.id: hit for hit in ranked.hits}
    told = {item["id"]: item["text"] for item in items}
    return replace(
        ranked,
        hits=[hits[item["id"]] for item in data["items"]],
        words={i["id"]: i["text"] for i in data["items"] if i["text"] != told[i["id"]]},
    )


def _speakers(scope: Scope, beside: Sequence[Scope]) -> frozenset[str]:
    return frozenset(name for held in (scope, *beside) for name in held.index.speakers)


async def _guarded(scope: Scope, beside: Sequence[Scope], work: Callable[[], R]) -> R:
    """Run what reads the indexes in the pool; none of them changes meanwhile."""

    def guarded() -> R:
        with contextlib.ExitStack() as guards, one_thread():
            for held in sorted({scope, *beside}, key=lambda s: s.space):
                guards.enter_context(held.guard)
            return work()

    return await scope.services.worker.thread(guarded)


@dataclass(frozen=True)
class _Ranked:
    """What a question recalls, before it is composed."""

    hits: Sequence[Hit]
    recent: Sequence[Message]
    moment: datetime
    past: bool = False
    """The question asks for what held before."""
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    """Id -> what a hook made of the text."""


def _rank(
    scope: Scope, beside: Sequence[Scope], asked: Asked, question: Question, vector: Any
) -> _Ranked:
    index = _together(scope, beside)
    moment = asked.config.now or now()
    hidden = in_window(scope, asked)
    hits = rank(
        index,
        question,
        vector,
        asked.config,
        session_id=asked.session_id,
        hidden=hidden,
        now=moment,
    )
    return _Ranked(hits, _recent(scope, asked, hidden, moment), moment, past=question.asks_past)


def _compose(scope: Scope, beside: Sequence[Scope], asked: Asked, ranked: _Ranked) -> MemoryContext:
    index = _together(scope, beside)
    return compose(
        _Reworded(index, ranked.words) if ranked.words else index,
        ranked.hits,
        memo_text=memo_text(scope, asked.config.memo_tokens),
        query=asked.text,
        config=asked.config,
        count_tokens=scope.services.count_tokens,
        prompts=scope.services.prompts,
        now=ranked.moment,
        recent=ranked.recent,
        past=ranked.past,
    )


class _Reworded(UserIndex):
    """An index in which some records say what a hook made of them; it is only read."""

    def __init__(self, index: UserIndex, texts: Mapping[str, str]) -> None:
        self.__dict__.update(vars(index))
        self._texts = texts

    def get(self, record_id: str) -> Stored | None:
        """Return the record of that id in its words for this recall."""
        record, text = super().get(record_id), self._texts.get(record_id)
        if text is None or record is None or isinstance(record, Topic):
            return record
        return record.model_copy(update={"content": text})


def memo_text(scope: Scope, budget: int) -> str:
    """Render the memo, and beside it a memo that was taken over and is not digested yet."""
    count = scope.services.count_tokens
    value: Mapping[str, Any] = scope.memo.value if scope.memo else {}
    text = render_memo(scope.services.schema.fitting(value), count, budget)
    imported = [
        neutralise(m.content)
        for m in scope.index.events(IMPORTED_MEMO)
        if m.status in WAITING and shown_to(m, ())
    ]
    lines = [text] if text else []
    for line in imported:
        if count("\n".join([*lines, line])) <= budget:
            lines.append(line)
    return "\n".join(lines)


def in_window(scope: Scope, asked: Asked) -> frozenset[str]:
    """Find the stored messages that the window already shows."""
    if not asked.window or asked.session_id is None:
        return frozenset()
    shown = {said(message) for message in asked.window}
    held = scope.messages_of(asked.session_id)
    changed: set[Said] = set()
    if any(m.said for m in held):
        form = form_of(scope)
        changed = {form.changed(form.form(s)) for s in shown}
    shown |= {Said(s.role, scope.services.select(s.text).text) for s in shown}
    return frozenset(
        m.id for m in held if Said(m.role, m.content) in shown or stored_form(m) in changed
    )


def _recent(scope: Scope, asked: Asked, hidden: Collection[str], moment: datetime) -> list[Message]:
    if asked.session_id is None or not asked.config.message_recent_limit:
        return []
    newest = (
        m
        for m in reversed(list(scope.index.messages.values()))
        if m.session_id == asked.session_id
        and m.id not in hidden
        and shown_to(m, asked.config.access, moment)
    )
    return list(islice(newest, asked.config.message_recent_limit))[::-1]


def _together(scope: Scope, beside: Sequence[Scope]) -> UserIndex:
    """Return the index of a scope, or one that holds other spaces of the user as well.

    That one is made once, and again when one of them has changed.
    """
    if not beside:
        return scope.index
    key = tuple((part.index.serial, part.index.changes) for part in (scope, *beside))
    return scope.index.joined(key, lambda: _joined(scope, beside))


def _joined(scope: Scope, beside: Sequence[Scope]) -> UserIndex:
    """Put the records of several spaces into one index.

    Sessions of other spaces stay apart from those of the own, and so do ids that both have.
    """
    index = UserIndex(scope.services.embedder.dimension)
    for part in (scope, *beside):
        held = part.index
        records: list[Stored] = [
            *held.messages.values(),
            *held.facts.values(),
            *held.summaries.values(),
            *held.topics.values(),
        ]
        vectors = [held.vector(record.id) for record in records]
        if part is not scope:
            ids = {r.id: f"{part.space}/{r.id}" for r in records if index.get(r.id) is not None}
            records = [_moved(record, part.space, ids) for record in records]
        index.put(records, vectors)
    return index


def _moved(record: Stored, space: str, ids: Mapping[str, str]) -> Stored:
    """Give a record of another space the session and the ids that it has in a joined index."""
    changed: dict[str, Any] = {"id": ids.get(record.id, record.id)}
    if isinstance(record, Message):
        changed["session_id"] = f"{space}/{record.session_id}"
    elif isinstance(record, Fact):
        changed["source_message_ids"] = [ids.get(i, i) for i in record.source_message_ids]
        successor = record.superseded_by
        changed["superseded_by"] = ids.get(successor, successor) if successor else successor
    elif isinstance(record, Summary):
        changed["source_facts"] = [ids.get(i, i) for i in record.source_facts]
    return record.model_copy(update=changed)
