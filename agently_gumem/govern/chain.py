"""From a record to what it rests on and what rests on it, and how a Fact changed (pure)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

from agently_gumem.govern.shown import View
from agently_gumem.recall.index import Stored
from agently_gumem.records import ContextItem, Fact, MemoState, Summary, Topic
from agently_gumem.text import fold

MEMO = "memo:"


def explained(view: View, record: Stored) -> dict[str, Any]:
    """Collect what stands behind and above a record.

    Returns:
        `topic`, `summaries`, `facts`, `messages`; `chain`: the versions of these Facts, the oldest
        first; `evidence`: what a Summary names as such, Facts and actions, with the records.
    """
    facts = _facts_of(view, record)
    cited = {i for f in facts for i in f.source_message_ids} | {record.id}
    own = {f.id for f in facts} | {record.id}
    names = {fold(f.topic) for f in facts} | {fold(getattr(record, "topic", ""))}
    summaries = [s for s in view.index.summaries.values() if own & {s.id, *s.source_facts}]
    topic = (
        record
        if isinstance(record, Topic)
        else next((t for t in view.index.topics.values() if fold(t.name) in names), None)
    )
    return {
        "topic": topic,
        "summaries": view.only(summaries),
        "facts": facts,
        "messages": view.messages(cited),
        "chain": told_chain(view, facts),
        "evidence": _evidence(view, record),
    }


def _facts_of(view: View, record: Stored) -> list[Fact]:
    if isinstance(record, Fact):
        return [record]
    if isinstance(record, Summary):
        return view.facts(record.source_facts)
    if isinstance(record, Topic):
        held = view.index.facts.values()
        return view.only(f for f in held if fold(f.topic) == fold(record.name))
    return view.only(view.index.citing(record.id))


def _evidence(view: View, record: Stored) -> list[dict[str, Any]]:
    """Read the evidence of a Summary: each entry with the record that it names."""
    if not isinstance(record, Summary):
        return []
    told = [{**entry, "record": view.get(str(entry.get("id", "")))} for entry in record.evidence]
    return [entry for entry in told if entry["record"] is not None]


def explained_memo(view: View, memo: MemoState | None, key: str | None) -> dict[str, Any] | None:
    """Collect what stands behind one key of the memo, or behind all; None where there is none."""
    if memo is None or (key is not None and key not in memo.value):
        return None
    keys = {
        k: view.facts(memo.facts.get(k, ()))
        for k in memo.value
        if key in (None, k) and view.shows_all(memo.facts.get(k, ()))
    }
    facts = list({f.id: f for found in keys.values() for f in found}.values())
    cited = {i for f in facts for i in f.source_message_ids}
    own = {f.id for f in facts}
    summaries = (s for s in view.index.summaries.values() if own & set(s.source_facts))
    return {
        "topic": None,
        "summaries": view.only(summaries),
        "facts": facts,
        "messages": view.messages(cited),
        "chain": told_chain(view, facts),
        "evidence": [],
        "memo": {k: memo.value[k] for k in keys},
        "keys": keys,
    }


def explained_item(item: ContextItem, behind: dict[str, Any] | None) -> dict[str, Any]:
    """Join what a text held with what stands behind it; `found` is False where it is gone."""
    told = {"layer": item.layer, "id": item.id, "score": item.score, "parts": dict(item.parts)}
    if behind is None:
        nothing: dict[str, Any] = {
            "topic": None,
            **{k: [] for k in ("summaries", "facts", "messages", "chain", "evidence")},
        }
        return {**told, "found": False, "source_message_ids": [], **nothing}
    return {
        **told,
        "found": True,
        "text": item.text,
        "source_message_ids": [m.id for m in behind["messages"]],
        **behind,
    }


def told_chain(view: View, facts: Iterable[Fact]) -> list[dict[str, Any]]:
    """Tell the versions of Facts: each with when it held, its messages, and what replaced it."""
    return [
        {
            "fact": fact,
            "since": fact.valid_from,
            "until": fact.valid_to,
            "messages": view.messages(fact.source_message_ids),
            "replaced_by": fact.superseded_by,
        }
        for fact in versions(view, facts)
    ]


def versions(view: View, facts: Iterable[Fact]) -> list[Fact]:
    """Follow what was superseded, back and forth; the oldest first.

    A value that comes back is a Fact of its own, so that each change is one step.
    """
    before: dict[str, list[Fact]] = {}
    for fact in view.index.facts.values():
        if fact.superseded_by:
            before.setdefault(fact.superseded_by, []).append(fact)
    found: dict[str, Fact] = {}
    waiting = list(facts)
    while waiting:
        fact = waiting.pop()
        if fact.id in found:
            continue
        found[fact.id] = fact
        successor = view.index.facts.get(fact.superseded_by)
        waiting += [*before.get(fact.id, ()), *([successor] if successor is not None else [])]
    return view.only(_ordered(list(found.values())))


def _ordered(facts: Sequence[Fact]) -> list[Fact]:
    """Put each Fact before its successor; those that are free of that by when they held."""
    left = {f.id: f for f in sorted(facts, key=_moment)}
    before = Counter(f.superseded_by for f in facts if f.superseded_by in left)
    free = [_moment(f) for f in left.values() if not before[f.id]]
    ordered: list[Fact] = []
    while left:
        # Where each one left has a predecessor left, they go in a circle: the oldest is first.
        fact = left.pop(heappop(free)[-1] if free else next(iter(left)))
        ordered.append(fact)
        before[fact.superseded_by] -= 1
        if fact.superseded_by in left and not before[fact.superseded_by]:
            heappush(free, _moment(left[fact.superseded_by]))
    return ordered


def _moment(fact: Fact) -> tuple[Any, Any, str]:
    return fact.valid_from or fact.created_at, fact.created_at, fact.id
