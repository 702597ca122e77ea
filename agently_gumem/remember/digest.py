"""Digest: the stages in order, one write, and how an interrupted one resumes.

What waits is taken in batches. Each batch is one model request and one write that holds new and
superseded Facts, Topics, the memo and the messages' status: after a crash it is there whole, or
the messages still wait. Summaries follow in a request of their own, when enough is new.
"""

import contextlib
import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from agently_gumem.errors import HookError, LimitReached, ModelError, StoreError
from agently_gumem.privacy import Treatment
from agently_gumem.prompts import MemoAnswer, MemoPatch
from agently_gumem.recall.nominate import same_topic
from agently_gumem.records import TOOL_CALL, Fact, MemoState, Message, Summary, Topic, now
from agently_gumem.remember import hooking
from agently_gumem.remember.acting import with_actions
from agently_gumem.remember.align import Said
from agently_gumem.remember.extract import Extracted, extract
from agently_gumem.remember.forgetting.retention import expire
from agently_gumem.remember.form import said_id
from agently_gumem.remember.job import DigestReport, Job, waiting_ids
from agently_gumem.remember.memo import MemoRules, Patched, apply_patches
from agently_gumem.remember.reconcile import Reconciled, reconcile
from agently_gumem.remember.summarize import summarize
from agently_gumem.remember.treated import is_taken_out, kept_under, without_text
from agently_gumem.rows import Kept
from agently_gumem.scope import Outdated, Scope
from agently_gumem.text import fold, is_chinese

R = TypeVar("R")
REBUILD_FACTS = 120


async def digest(scope: Scope, job: Job) -> DigestReport:
    """Digest all that waits, under the user's lock.

    Returns:
        What was done.

    Raises:
        ModelError: The model failed; what was not written waits for the next digest.
        StoreError: The store failed; the same holds.
        HookError: A hook failed that stops the digest then; the same holds.
    """
    report = DigestReport()
    await expire(scope, scope.services.privacy, now())
    # What is taken is settled before the lock: a stage that waits for the digest before it must
    # not take in the first turns of the next stage.
    snapshot = job.ids if job.ids is not None else waiting_ids(scope, job.session_id)
    lost = True
    while lost:  # what another process took over is not done twice: what is left, once it is done
        async with scope.digest_lock as turn:
            await scope.ready()
            if scope.paused:
                break
            if job.retry_failed:
                snapshot = snapshot | await _take_up_failed(scope)
            await scope.embed_missing()
            await _digest_all(scope, snapshot, job.agent, report)
            if not turn.lost:
                await _derive(scope, job.agent, report)
            lost = turn.lost
    return report


async def _digest_all(
    scope: Scope, snapshot: frozenset[str], agent: Any | None, report: DigestReport
) -> None:
    """Digest what waits of some messages, batch by batch, as long as it is this one's turn."""
    while not (scope.paused or scope.digest_lock.lost):
        seen = scope.generation
        try:
            batch = await _next_batch(scope, snapshot, seen)
            if not batch:
                return
            await _digest_batch(scope, batch, seen, agent, report)
        except Outdated:
            continue  # something was forgotten meanwhile: taken anew, without it
        snapshot = snapshot - {m.id for m in batch}


async def _derive(scope: Scope, agent: Any | None, report: DigestReport) -> None:
    """Bring up what is derived from Facts; where the model fails, the next digest makes up for it.

    The Facts are stored by then: a Summary that can't be had must not hold back the next ones.
    """
    try:
        if scope.memo is not None and scope.memo.schema_digest != scope.services.schema.digest:
            await _up_to_date(scope, lambda: _rebuild(scope, agent, report))
        report.summaries = len(await _up_to_date(scope, lambda: summarize(scope, agent)))
    except Outdated:
        return  # another process has the turn now, and derives it
    except LimitReached as error:
        report.error, report.limited = type(error).__name__, error
    except (HookError, ModelError) as error:
        report.error = type(error).__name__
        scope.troubles.note("summarize", error)


async def _up_to_date(scope: Scope, step: Callable[[], Awaitable[R]]) -> R:
    """Take a step anew where something was forgotten while the model was asked.

    Raises:
        Outdated: Another process took over the turn.
    """
    while True:
        try:
            return await step()
        except Outdated:
            if scope.digest_lock.lost:
                raise


async def rebuild_memo(scope: Scope, agent: Any | None) -> DigestReport:
    """Write the memo anew from active Facts alone, in one request.

    Raises:
        ModelError: There was no valid answer; the memo stays as it was.
        StoreError: Nothing was written.
    """
    report = DigestReport()
    lost = True
    while lost:
        async with scope.digest_lock as turn:
            await scope.ready()
            with contextlib.suppress(Outdated):
                await _up_to_date(scope, lambda: _rebuild(scope, agent, report))
            lost = turn.lost
    return report


async def _take_up_failed(scope: Scope) -> frozenset[str]:
    failed = [m for m in scope.index.messages.values() if m.status == "failed"]
    again = {"status": "pending", "attempts": 0}
    if failed:
        await scope.write([m.model_copy(update=again) for m in failed])
    return frozenset(m.id for m in failed)


async def _next_batch(scope: Scope, ids: Collection[str], seen: int) -> list[Message]:
    """Take the next messages within the limits; mark the rest as waiting for the one after.

    Raises:
        Outdated: Something was forgotten, or the turn lost, before they were marked.
    """
    limits = scope.services.limits
    waiting = [m for m in scope.waiting() if m.id in ids]
    # A Fact of a stage rests on what was said in it: two stages are never shown in one request.
    stage = scope.stage_of(waiting[0]) if waiting else None
    waiting = [m for m in waiting if scope.stage_of(m) == stage]
    # In the pool: counting tokens may be the application's own function.
    batch, rest = await scope.services.worker.thread(
        split, waiting, limits.digest_messages, limits.digest_tokens, scope.services.count_tokens
    )
    marked = [m.model_copy(update={"status": "chunked"}) for m in rest if m.status == "pending"]
    if marked:
        await scope.write(marked, seen=seen)
    return batch


def split(
    messages: Sequence[Message], most: int, tokens: int, count: Callable[[str], int]
) -> tuple[list[Message], list[Message]]:
    """Split off what one request takes (pure).

    At least one message: one that alone is over the limit must not block what comes after.
    """
    batch: list[Message] = []
    used = 0
    for place, message in enumerate(messages):
        size = count(message.content) + 30
        if batch and (used + size > tokens or len(batch) >= most):
            return batch, list(messages[place:])
        batch.append(message)
        used += size
    return batch, []


def _shortened(message: Message, tokens: int, count: Callable[[str], int]) -> Message:
    """Cut what a request shows of one message to the limit of a request."""
    text = message.content
    while len(text) > 1 and count(text) > tokens:
        text = text[: max(1, len(text) * tokens // (count(text) + 1))]
    return message if text == message.content else message.model_copy(update={"content": text})


async def _digest_batch(
    scope: Scope,
    batch: Sequence[Message],
    seen: int,
    agent: Any | None,
    report: DigestReport,
) -> None:
    limits, count = scope.services.limits, scope.services.count_tokens
    shown = await scope.services.worker.thread(
        lambda: [_shortened(m, limits.digest_tokens, count) for m in batch]
    )
    try:
        found = await extract(scope, shown, agent, seen)
        # Another writer may have changed what is known while the model was asked.
        await scope.ready()
        if scope.paused:
            return  # turned off meanwhile: nothing of it is kept
        scope.expect(seen)
        done = await _reconciled(scope, found)
        hidden = [i for i, special in found.special.items() if is_taken_out(special)]
        done = await with_actions(scope, batch, done, hidden)
        records = _with_topics(scope, done, await _topics(scope, done))
        memo = await scope.services.worker.thread(_memo, scope, found, done, records)
    except (StoreError, HookError, Outdated):
        raise
    except Exception as error:
        # Whatever an answer breaks, its messages must not be asked about for ever.
        await _count_attempt(scope, batch, error)
        raise
    processed = [_processed(scope, m, found.special.get(m.id, ())) for m in batch]
    stale = _stale_summaries(scope, done.superseded)
    changed = [memo.state] if memo.state != scope.memo else []
    memo_changed = memo.state.value != (scope.memo.value if scope.memo else {})
    written = [*records, *stale, *processed, *changed]
    await hooking.write(scope, written, seen=seen, dirty=bool(hidden))
    report.memo_changed |= memo_changed
    dropped = found.dropped + Counter(verdict=len(done.refused), memo_patch=len(memo.refused))
    _count(scope, report, batch, done, dropped)


def _count(
    scope: Scope,
    report: DigestReport,
    batch: Sequence[Message],
    done: Reconciled,
    dropped: Counter[str],
) -> None:
    """Count what a batch came to, once it is written."""
    report.messages += len(batch)
    report.new += len(done.new)
    report.superseded += len(done.superseded)
    report.dropped += dropped
    scope.dropped += dropped


def _processed(scope: Scope, message: Message, special: Sequence[Treatment]) -> Message:
    """Return a message as digested; what the model found to be special is kept by the policy.

    Where one of several subjects is not for memory, none of the text is.
    """
    processed = message.model_copy(update={"status": "processed"})
    if not is_taken_out(special):
        return kept_under(processed, special)
    said = message.said or said_id(scope, Said(message.role, message.content))
    return without_text(processed, said)


async def _count_attempt(scope: Scope, batch: Sequence[Message], error: Exception) -> None:
    """Count a digest that the model answered in vain; an outage is not the messages' fault."""
    if isinstance(error, ModelError) and not error.answered:
        return
    most = scope.services.limits.max_attempts
    counted = [
        m.model_copy(
            update={
                "attempts": m.attempts + 1,
                "status": "failed" if m.attempts + 1 >= most else m.status,
            }
        )
        for m in batch
    ]
    # Not where another process took over the turn: it may have digested them.
    await scope.write(counted, seen=scope.generation)


async def _reconciled(scope: Scope, found: Extracted) -> Reconciled:
    """Reconcile in the pool: comparing two texts takes milliseconds, and others wait for the loop.

    On a copy, since turns are journaled meanwhile. The Facts stay as they are until this digest
    writes: whatever writes Facts here holds the user's digest lock.
    """
    known = dict(scope.index.facts)
    return await scope.services.worker.thread(
        reconcile, found.proposals, known, found.candidates, found.similarity, now()
    )


async def _topics(scope: Scope, done: Reconciled) -> dict[str, Topic]:
    """Find or make the Topic of each new Fact: folded name as proposed -> Topic."""
    fresh = [f for f in done.facts if f.id in set(done.new)]
    names = list(dict.fromkeys(_topic_name(f) for f in fresh))
    # What is kept under a label gives no name to a Topic that every reader sees.
    telling = {_topic_name(f) for f in fresh if not f.access}
    vectors = await scope.embed_each(names)
    nothing = np.zeros(scope.index.dimension, np.float32)
    topics: dict[str, Topic] = {}
    for name, vector in zip(names, vectors, strict=True):
        known = await scope.read(
            functools.partial(same_topic, name=name, vector=nothing if vector is None else vector)
        )
        known = known or _same_now(topics.values(), name)
        if known is None:
            known = await _new_topic(scope, name, topics.values())
            if known is None:
                continue
        elif name in telling and fold(name) not in {fold(n) for n in (known.name, *known.aliases)}:
            added = {"aliases": [*known.aliases, name], "updated_at": now()}
            known = known.model_copy(update=added)
        topics = {k: known if t.id == known.id else t for k, t in topics.items()}
        topics[fold(name)] = known
    return topics


async def _new_topic(scope: Scope, name: str, beside: Iterable[Topic]) -> Topic | None:
    """Make a Topic, or take the one whose name a hook gave it; None where a hook dropped it."""
    made = Topic(
        id=hooking.topic_id(scope, name),
        user_id=scope.user_id,
        space=scope.space,
        name=name,
        updated_at=now(),
    )
    kept = await hooking.topic(scope, made)
    if kept is None:
        scope.dropped["hook"] += 1
        return None
    return _same_now([*scope.index.topics.values(), *beside], kept.name) or kept


def _same_now(topics: Iterable[Topic], name: str) -> Topic | None:
    return next((t for t in topics if fold(name) in {fold(t.name), *map(fold, t.aliases)}), None)


def _topic_name(fact: Fact) -> str:
    return fact.topic.strip() or ("综合" if is_chinese(fact.content) else "general")


def _with_topics(scope: Scope, done: Reconciled, topics: Mapping[str, Topic]) -> list[Kept]:
    """Give new Facts the name of their Topic, and add the Topics that are new or changed."""
    fresh = set(done.new)
    records: list[Kept] = []
    for fact in done.facts:
        if fact.id not in fresh:
            records.append(fact)
            continue
        topic = topics.get(fold(_topic_name(fact)))  # None where a hook dropped it
        records.append(fact.model_copy(update={"topic": topic.name if topic else ""}))
    known = scope.index.topics
    changed = {t.id: t for t in topics.values() if known.get(t.id) != t}
    return [*records, *changed.values()]


def _stale_summaries(scope: Scope, superseded: Collection[str]) -> list[Summary]:
    """Retire the Summaries that tell a superseded Fact; what still holds is summarised anew."""
    gone = set(superseded)
    retired = {"validity": "deprecated", "updated_at": now()}
    return [
        s.model_copy(update=retired)
        for s in scope.index.summaries.values()
        if s.validity == "active" and gone & set(s.source_facts)
    ]


def _empty_memo(scope: Scope) -> MemoState:
    return MemoState(
        user_id=scope.user_id,
        space=scope.space,
        schema_digest=scope.services.schema.digest,
        updated_at=now(),
    )


def _rules(scope: Scope) -> MemoRules:
    return MemoRules(scope.services.schema, scope.services.count_tokens, scope.services.memo_tokens)


def _memo(scope: Scope, found: Extracted, done: Reconciled, records: Sequence[Kept]) -> Patched:
    """Bring the memo up to the Facts of this digest; a refused verdict refuses its patch."""
    facts = {**scope.index.facts, **{r.id: r for r in records if isinstance(r, Fact)}}
    behind: dict[str, Fact | None] = {
        ref: None if ref in done.refused else facts.get(fact_id)
        for ref, fact_id in done.by_ref.items()
    }
    for ref, candidate in found.candidates.items():
        held = facts.get(candidate.id)
        behind[ref] = held if held is not None and held.validity == "active" else None
    before = scope.memo or _empty_memo(scope)
    if before.schema_digest != scope.services.schema.digest:
        # Written under another schema: it is rebuilt from Facts right after this.
        return Patched(before)
    return apply_patches(before, found.answer.memo, behind, facts, _rules(scope), now())


async def _rebuild(scope: Scope, agent: Any | None, report: DigestReport) -> None:
    active = [
        f
        for f in scope.index.facts.values()
        if f.validity == "active"
        and f.certainty != "inferred"
        and f.kind != "plan"
        and not f.access
        and TOOL_CALL not in f.labels
    ]
    active.sort(key=lambda f: f.updated_at)
    seen = scope.generation
    refs = {f"k{i}": fact for i, fact in enumerate(active[-REBUILD_FACTS:], 1)}
    patches: list[MemoPatch] = []
    if refs:
        prompt = scope.services.prompts.memo(refs, scope.services.schema.json_schema)
        answer, broken = await scope.ask(prompt, agent, seen)
        patches = cast("MemoAnswer", answer).memo
        report.dropped += Counter(malformed=broken)
    behind: dict[str, Fact | None] = dict(refs)
    facts = dict(scope.index.facts)
    memo = await scope.services.worker.thread(
        apply_patches, _empty_memo(scope), patches, behind, facts, _rules(scope), now()
    )
    report.dropped += Counter(memo_patch=len(memo.refused))
    report.memo_changed |= scope.memo is None or memo.state.value != scope.memo.value
    await scope.write([memo.state], seen=seen)
