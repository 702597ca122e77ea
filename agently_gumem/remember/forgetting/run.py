"""How something is forgotten: marks, deletion and what stays in one write, under the user's locks.

No model is waited for. From that write on, what a digest has under way is refused and decided anew;
another process that writes what it knew before finds the marks when it reads again, and takes it
out.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from agently_gumem.records import ForgetReport, Message, Tomb, now
from agently_gumem.remember.forgetting.cuts import signs_of_all
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
        StoreError: Nothing was forgotten; of a user larger than a batch of Chroma's perhaps a part.
            The call can be repeated.
    """
    async with scope.journal_lock:
        await scope.ready()
        wanted = choose(await read_all(scope))
        plan = await _forgotten(scope, wanted, why)
        if also is not None and not plan.nothing:
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
            reason="" if signs_of_all(records).says(why.reason) else why.reason,
        )
        marks = _marks(scope, plan, records, records.summaries, why)
        await scope.clear(marks)
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


async def _forgotten(scope: Scope, wanted: Wanted, why: Why) -> Plan:
    """Decide and write; again where a digest, or another process, wrote what rests on it."""
    decided: list[Plan] = []
    known: Records | None = None
    terms = Terms(
        MemoRules(scope.services.schema, scope.services.count_tokens, scope.services.memo_tokens),
        now(),
        least=scope.services.limits.behaviour_after,
        actor=why.by,
        reason=why.reason,
    )
    while True:
        state = scope.state
        held = await read_all(scope)
        records = held if known is None else held.beside(known)
        plan = await scope.services.worker.thread(decide, records, wanted, terms)
        if not plan.nothing and not await _write(scope, plan, records, wanted, why, state):
            continue
        decided.append(plan)
        known, state = records, scope.state
        await scope.ready()
        if plan.nothing or state == scope.state:
            return _joined(decided)


async def _write(
    scope: Scope,
    plan: Plan,
    records: Records,
    wanted: Wanted,
    why: Why,
    state: tuple[int, int],
) -> bool:
    """Write a plan that was decided on a state; False where that is not the state any more."""
    gone = [
        *(("message", m.id) for m in plan.messages),
        *(("fact", f.id) for f in plan.facts),
        *(("summary", i) for i in plan.summaries),
        *(("topic", i) for i in plan.topics),
    ]
    cut = [
        after.model_copy(update={"said": said_of(scope, old)}) for old, after in plan.cut.values()
    ]
    memos = [plan.memo] if plan.memo is not None else []
    marks = _marks(scope, plan, records, _lasting(wanted, records, why), why)
    if not await scope.bury(marks, gone, [*cut, *plan.changed, *memos], seen=state):
        return False
    for topic in plan.bare:
        scope.summarized.pop(topic, None)
    return True


def _marks(
    scope: Scope, plan: Plan, records: Records, summaries: Iterable[str], why: Why
) -> dict[str, Tomb]:
    before = previous([*records.messages.values()])
    note = Epitaph(at=now(), by=why.by, reason=plan.reason)
    return tombs(scope, plan, before, summaries, note)


def _lasting(wanted: Wanted, records: Records, why: Why) -> Iterable[str]:
    """Name the Summaries whose very words shall not be written again: those that were named."""
    return () if why.by == "retention" else wanted.summaries & records.summaries.keys()


def _joined(plans: Sequence[Plan]) -> Plan:
    """Join the plans of several looks: each was written, on top of the one before."""
    whole = Plan()
    for plan in plans:
        whole.cut = {**plan.cut, **whole.cut}
        whole.memo = plan.memo or whole.memo
    whole.messages = list({m.id: m for p in plans for m in p.messages}.values())
    facts = {f.id: f for p in plans for f in p.facts}
    whole.facts = list(facts.values())
    whole.summaries = sorted({i for p in plans for i in p.summaries})
    whole.topics = list(dict.fromkeys(i for p in plans for i in p.topics))
    whole.memo_keys = list(dict.fromkeys(key for p in plans for key in p.memo_keys))
    whole.echoes = list(dict.fromkeys(i for p in plans for i in p.echoes))
    whole.bare = list(dict.fromkeys(i for p in plans for i in p.bare))
    whole.kept = sorted({i for p in plans for i in p.kept} - facts.keys())
    whole.changed = [record for p in plans for record in p.changed]
    return whole


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
