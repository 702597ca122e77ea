"""How something is forgotten: the marks first, then the deletion, under the user's locks.

No model is waited for. From the moment that the marks are written, what a digest has under way is
refused and decided anew; another process that writes what it knew before finds the marks when it
reads again, and takes it out.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from agently_gumem.records import Fact, ForgetReport, Message, now
from agently_gumem.remember.forgetting.decide import Plan, Terms, decide
from agently_gumem.remember.forgetting.graves import Epitaph, previous, said_of, tombs
from agently_gumem.remember.forgetting.plan import Records, Wanted
from agently_gumem.remember.memo import MemoRules
from agently_gumem.rows import from_row
from agently_gumem.scope import Scope

Choose = Callable[[Records], Wanted]


@dataclass(frozen=True)
class Why:
    """Who forgets, and what reason was given."""

    by: str = "operator"
    reason: str = ""


async def forget(
    scope: Scope,
    choose: Choose,
    why: Why,
    also: Callable[[Plan], Awaitable[None]] | None = None,
) -> Plan:
    """Forget what is chosen, and all that rests on it.

    Args:
        scope: The user.
        choose: Says what, given all that is stored; it may raise, and nothing is forgotten then.
        why: What is noted of it.
        also: Awaited at the end, before another turn of the user is journaled.

    Returns:
        What went and what changed.

    Raises:
        StoreError: The marks that were written hold; the rest is done at the next call or load.
    """
    async with scope.journal_lock:
        await scope.ready()
        wanted = choose(await read_all(scope))
        plan = await _buried(scope, wanted, why)
        if plan.nothing:
            return plan
        await _delete(scope, plan)
        if also is not None:
            await also(plan)
    return plan


async def forget_all(
    scope: Scope, why: Why, also: Callable[[Plan], Awaitable[None]] | None = None
) -> Plan:
    """Forget all of the user in this space; the marks stay, and say nothing.

    Raises:
        StoreError: As `forget`.
    """
    async with scope.journal_lock:
        await scope.ready()
        records = await read_all(scope)
        plan = Plan(
            messages=list(records.messages.values()),
            facts=list(records.facts.values()),
            summaries=list(records.summaries),
            topics=list(records.topics),
            memo_keys=list(records.memo.value) if records.memo is not None else [],
        )
        await _bury(scope, plan, records.summaries, why)
        await scope.clear()
        if also is not None:
            await also(plan)
    return plan


async def read_all(scope: Scope) -> Records:
    """Collect all that is stored, also what the index of a large user leaves out."""
    index = scope.index
    messages = dict(index.messages)
    if scope.left_out:
        rows = await scope.services.worker.thread(scope.rows.load)
        held = [from_row(row) for row in rows if row.layer == "message"]
        whole = [m for m in held if isinstance(m, Message) and not scope.refuses(m.id)]
        messages = {m.id: m for m in sorted(whole, key=lambda m: m.sequence)}
    return Records(
        messages, dict(index.facts), dict(index.summaries), dict(index.topics), scope.memo
    )


async def _buried(scope: Scope, wanted: Wanted, why: Why) -> Plan:
    """Decide, and write the marks; again where a digest wrote in between what rests on it."""
    decided: list[Plan] = []
    terms = Terms(
        MemoRules(scope.services.schema, scope.services.count_tokens, scope.services.memo_tokens),
        now(),
        least=scope.services.limits.behaviour_after,
        actor=why.by,
        reason=why.reason,
    )
    while True:
        state = (scope.index.serial, scope.index.changes)
        records = await read_all(scope)
        plan = await scope.services.worker.thread(decide, records, wanted, terms)
        if not plan.nothing:
            await _bury(scope, plan, _lasting(wanted, records, why), why)
            await scope.ready()
        decided.append(plan)
        if state == (scope.index.serial, scope.index.changes):
            return _joined(decided)


def _lasting(wanted: Wanted, records: Records, why: Why) -> Iterable[str]:
    """Name the Summaries whose very words shall not be written again: those that were named."""
    return () if why.by == "retention" else wanted.summaries & records.summaries.keys()


def _joined(plans: Sequence[Plan]) -> Plan:
    """Join the plans of several looks: the last one says how what stays is written."""
    last = plans[-1]
    messages = {m.id: m for p in plans for m in p.messages}
    facts: dict[str, Fact] = {f.id: f for p in plans for f in p.facts}
    last.messages, last.facts = list(messages.values()), list(facts.values())
    last.summaries = sorted({i for p in plans for i in p.summaries})
    last.memo_keys = list(dict.fromkeys(key for p in plans for key in p.memo_keys))
    last.echoes = list(dict.fromkeys(i for p in plans for i in p.echoes))
    last.kept = sorted({i for p in plans for i in p.kept} - facts.keys())
    return last


async def _bury(scope: Scope, plan: Plan, summaries: Iterable[str], why: Why) -> None:
    before = previous([*(await read_all(scope)).messages.values()])
    note = Epitaph(at=now(), by=why.by, reason=why.reason)
    await scope.bury(tombs(scope, plan, before, summaries, note))


async def _delete(scope: Scope, plan: Plan) -> None:
    """Delete what goes, then write what stays in its new form."""
    pairs = [
        *(("message", m.id) for m in plan.messages),
        *(("fact", f.id) for f in plan.facts),
        *(("summary", i) for i in plan.summaries),
        *(("topic", i) for i in plan.topics),
    ]
    if pairs:
        await scope.forget(pairs)
    memos = [plan.memo] if plan.memo is not None else []
    cut = [
        after.model_copy(update={"said": said_of(scope, old)}) for old, after in plan.cut.values()
    ]
    written = [*cut, *plan.changed, *memos]
    if written:
        await scope.write(written, dirty=True)
    for topic in plan.bare:
        scope.summarized.pop(topic, None)


def reported(plan: Plan, at: datetime) -> ForgetReport:
    """Say what went and what changed: ids and keys, no text."""
    return ForgetReport(
        at=at,
        messages=[m.id for m in plan.messages],
        facts=[f.id for f in plan.facts],
        summaries=plan.summaries,
        topics=plan.topics,
        cut=list(plan.cut),
        kept=plan.kept,
        echoes=plan.echoes,
        memo_keys=plan.memo_keys,
        to_rebuild=[*(["memo"] if plan.memo is not None else []), *plan.bare],
    )
