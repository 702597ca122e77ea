"""Correct: an operator's word as a message of its own, and the Fact that takes the old one's place.

No model is asked. All is one write; the memo is pruned at once and written anew by the next digest.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from agently_gumem import dates
from agently_gumem.errors import ConfigError, NotFound
from agently_gumem.recall.outdated import present
from agently_gumem.records import Change, Fact, MemoState, Message, Summary, noted, now
from agently_gumem.records.placeholders import holds_placeholder
from agently_gumem.remember.extract import LONGEST_FACT
from agently_gumem.remember.memo import MemoRules, apply_patches
from agently_gumem.remember.reconcile import Proposal, Reconciled, reconcile
from agently_gumem.scope import Outdated, Scope
from agently_gumem.text import fold

CORRECTION = "correction"
OPERATOR = "operator"
# The session of all corrections: no history of Agently's is compared with it.
SESSION = "gumem.corrections"


async def correct(scope: Scope, fact_id: str, content: str, reason: str, by: str) -> Fact:
    """Put another text in the place of an active Fact.

    Args:
        scope: The user.
        fact_id: The Fact that is wrong.
        content: What is right.
        reason: Why; kept with the message and in the history.
        by: Who says so.

    Returns:
        The Fact that holds now: a new one, or one that said it already.

    Raises:
        NotFound: The user has no such Fact.
        ConfigError: The Fact is not active, says this already, or the text can't be a Fact.
        StoreError: Nothing was written.
    """
    while True:
        # One after the other: each would take the others' ground away, and none ever end.
        async with scope.correct_lock:
            # A digest that is under way rests on the old value: its answer is discarded, and it
            # asks again. So is one that begins before this is written.
            scope.generation += 1
            try:
                return await _write(scope, fact_id, content, reason, by)
            except Outdated:
                continue
            finally:
                scope.generation += 1


async def _write(scope: Scope, fact_id: str, content: str, reason: str, by: str) -> Fact:
    seen, thread = scope.generation, scope.services.worker.thread
    old = _active(scope, fact_id)
    text = await thread(_checked, scope, content, old)
    why, who = await thread(lambda: [scope.services.select(t).text for t in (reason, by)])
    said = _message(scope, old, text, why, who)
    proposal = Proposal("f1", _fact(scope, old, said), replaces=("k1",))
    known = dict(scope.index.facts)
    alike = {("f1", "k1"): 1.0}  # an operator's verdict needs no likeness
    done = await thread(reconcile, [proposal], known, {"k1": old}, alike, now())
    changes = [_with_cause(f, done, said) for f in done.facts]
    memo = await thread(_memo, scope, changes)
    stale = _retired(scope.index.summaries, set(done.superseded), said)
    await scope.write([said, *changes, *stale, *([memo] if memo is not None else [])], seen=seen)
    return scope.index.facts[done.by_ref["f1"]]


def _active(scope: Scope, fact_id: str) -> Fact:
    """Find the Fact to correct.

    Raises:
        NotFound: There is none of that id.
        ConfigError: It is not active; the message names the one that is.
    """
    fact = scope.index.facts.get(fact_id)
    if fact is None:
        raise NotFound(f"no Fact {fact_id!r} of user {scope.user_id!r}")
    if fact.validity == "active":
        return fact
    end = present(scope.index, fact)
    now_active = end is not None and end.validity == "active"
    hint = f"correct {end.id!r}, which took its place" if now_active and end else "none is active"
    raise ConfigError(f"Fact {fact_id!r} is {fact.validity}, not active: {hint}")


def _checked(scope: Scope, content: str, old: Fact) -> str:
    """Return the text as it may be kept.

    Raises:
        ConfigError: It is empty, too long, the same, or holds what is not for memory.
    """
    if not content.strip():
        raise ConfigError("new_content must say something; to take a Fact away, forget it")
    selection = scope.services.select(content.strip())
    text = selection.text
    if selection.drop or holds_placeholder(text):
        raise ConfigError(
            "new_content holds what the privacy policy keeps out of memory, such as a secret or a "
            "number of a card: leave it out"
        )
    if len(text) > LONGEST_FACT:
        raise ConfigError(
            f"new_content has {len(text)} characters; a Fact is one sentence of at most "
            f"{LONGEST_FACT}"
        )
    if fold(text) == fold(old.content):
        raise ConfigError(f"new_content is what Fact {old.id!r} says already")
    return text


def _message(scope: Scope, old: Fact, text: str, reason: str, by: str) -> Message:
    moment = now()
    told = [CORRECTION, old.id, text, moment.isoformat()]
    return Message(
        id=scope.services.ids.of("msg", scope.key, *told),
        user_id=scope.user_id,
        space=scope.space,
        session_id=SESSION,
        role=OPERATOR,
        content=text,
        # Not before what it corrects, should that have come with a time ahead of this clock.
        timestamp=max(moment, old.valid_from or moment),
        event_type=CORRECTION,
        anchors=old.anchors,
        metadata={"corrects": old.id, "reason": reason, "by": by},
        status="processed",
        sequence=scope.next_sequence(),
        access=old.access,
        expires_at=old.expires_at,
    )


def _fact(scope: Scope, old: Fact, said: Message) -> Fact:
    """Make the Fact that the message says, of the same subject, kind and Topic as the old one."""
    moment = now()
    fields: dict[str, Any] = {
        "id": scope.services.ids.of(
            "fact", scope.key, fold(said.content), fold(old.subject), said.id
        ),
        "content": said.content,
        "session_ids": list(dict.fromkeys([*old.session_ids, said.session_id])),
        "source_message_ids": [said.id],
        "entities": [e for e in old.entities if fold(e) in fold(said.content)],
        "certainty": "stated",
        "confidence": 1.0,
        "time_range": old.time_range if _same_dates(old.content, said.content) else None,
        "valid_from": said.timestamp,
        "count": 1,
        "changes": [_change("created", moment, said)],
        "created_at": moment,
        "updated_at": moment,
    }
    return old.model_copy(update=fields)


def _same_dates(a: str, b: str) -> bool:
    """Tell whether two texts name the same days: then the time of one is that of the other."""
    one, other = dates.normal(a), dates.normal(b)
    named = [{day for _, day in dates.written(text)} for text in (one, other)]
    return named[0] == named[1] and dates.weekdays(one) == dates.weekdays(other)


def _change(what: str, at: datetime, said: Message) -> Change:
    told = said.metadata
    return Change(at=at, what=what, by=[said.id], actor=told["by"], reason=told["reason"])


def _with_cause(fact: Fact, done: Reconciled, said: Message) -> Fact:
    """Say in the newest change of a Fact that an operator brought it, and why."""
    if not fact.changes or fact.id in done.new:
        return fact
    last = fact.changes[-1]
    what = "corrected" if fact.id in done.superseded else last.what
    changes = [*fact.changes[:-1], _change(what, last.at, said)]
    return fact.model_copy(update={"changes": changes})


def _retired(
    summaries: Mapping[str, Summary], superseded: set[str], said: Message
) -> list[Summary]:
    """Retire the Summaries that tell the old value; what still holds is summarised anew."""
    moment = now()
    gone = {"validity": "deprecated", "updated_at": moment}
    told = _change("superseded", moment, said).model_dump()
    return [
        noted(summary.model_copy(update=gone), **told)
        for summary in summaries.values()
        if summary.validity == "active" and not superseded.isdisjoint(summary.source_facts)
    ]


def _memo(scope: Scope, changed: Collection[Fact]) -> MemoState | None:
    """Take out of the memo what rested on the old value; the next digest writes it anew."""
    before = scope.memo
    if before is None:
        return None
    services = scope.services
    rules = MemoRules(services.schema, services.count_tokens, services.memo_tokens)
    facts = {**scope.index.facts, **{fact.id: fact for fact in changed}}
    after = apply_patches(before, [], {}, facts, rules, now()).state
    if after.value == before.value and after.facts == before.facts:
        return None
    return after.for_rebuild()
