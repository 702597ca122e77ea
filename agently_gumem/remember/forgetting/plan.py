"""What rests on what: which records go, which are cut, and how the others stay whole (pure)."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agently_gumem.records import Fact, MemoState, Message, Summary, Topic, noted
from agently_gumem.remember.forgetting import traces
from agently_gumem.remember.forgetting.matching import texts_of
from agently_gumem.remember.forgetting.traces import CUT, Held, Statement, Traces
from agently_gumem.remember.ground import ground_fact
from agently_gumem.text import fold

Holds = Callable[[str], bool]


@dataclass(frozen=True)
class Records:
    """All that is stored of a user, by id; messages in their order."""

    messages: Mapping[str, Message]
    facts: Mapping[str, Fact]
    summaries: Mapping[str, Summary]
    topics: Mapping[str, Topic]
    memo: MemoState | None = None

    @cached_property
    def citing(self) -> dict[str, list[str]]:
        """Message -> the Facts that name it as a source."""
        found: dict[str, list[str]] = {}
        for fact in self.facts.values():
            for source in fact.source_message_ids:
                found.setdefault(source, []).append(fact.id)
        return found

    @cached_property
    def following(self) -> dict[str, str]:
        """Message -> the next one of its session."""
        last: dict[str, str] = {}
        found: dict[str, str] = {}
        for message in self.messages.values():
            if message.session_id in last:
                found[last[message.session_id]] = message.id
            last[message.session_id] = message.id
        return found


@dataclass(frozen=True)
class Wanted:
    """What is to be forgotten."""

    messages: frozenset[str] = frozenset()
    facts: frozenset[str] = frozenset()
    summaries: frozenset[str] = frozenset()
    holds: Holds | None = None
    """Tells of a text that it holds what must go, wherever it stands."""
    emptied: frozenset[str] = frozenset()
    """Messages whose text has to go; a Fact that rests on one stays."""


@dataclass
class Fallen:
    """What goes: a set of ids a layer, which grows until nothing rests on it."""

    messages: set[str] = field(default_factory=set[str])
    facts: set[str] = field(default_factory=set[str])
    summaries: set[str] = field(default_factory=set[str])
    regrow: set[str] = field(default_factory=set[str])
    """Of `facts`, habits with too few events left: they may come again with new ones."""


def fall(records: Records, wanted: Wanted, least: int) -> Fallen:
    """Find all that has to go with what is wanted.

    Args:
        records: All that is stored.
        wanted: What is to be forgotten.
        least: Events that a habit needs to be one.

    Returns:
        The ids. A Fact goes where none of its sources is left, or where those that are left do
        not hold what it says. A message goes with a Fact that was named where no other Fact
        rests on it.
    """
    gone = Fallen(set(wanted.messages), set(wanted.facts), set(wanted.summaries))
    if wanted.holds is not None:
        held = wanted.holds
        gone.messages |= {m.id for m in records.messages.values() if any(map(held, texts_of(m)))}
        gone.facts |= {f.id for f in records.facts.values() if held(f.content) or held(f.subject)}
        gone.summaries |= {s.id for s in records.summaries.values() if any(map(held, texts_of(s)))}
    named = frozenset(gone.facts)
    before = -1
    while before != len(gone.messages) + len(gone.facts):
        before = len(gone.messages) + len(gone.facts)
        for fact_id in named:
            gone.messages |= _only_of(records, fact_id, gone)
        for fact_id in {f for m in gone.messages for f in records.citing.get(m, ())} - gone.facts:
            reason = _falls(records, records.facts[fact_id], gone, least)
            if reason:
                gone.facts.add(fact_id)
            if reason == "habit":
                gone.regrow.add(fact_id)
    gone.messages |= {m for m in wanted.emptied if not _standing(records, m, gone)}
    gone.summaries |= {
        s.id for s in records.summaries.values() if not gone.facts.isdisjoint(s.source_facts)
    }
    return gone


def _standing(records: Records, message_id: str, gone: Fallen) -> list[Fact]:
    """List the Facts that rest on a message and stay."""
    ids = records.citing.get(message_id, ())
    return [records.facts[i] for i in ids if i not in gone.facts]


def _only_of(records: Records, fact_id: str, gone: Fallen) -> set[str]:
    """Find the sources of a Fact on which no other Fact rests."""
    fact = records.facts.get(fact_id)
    sources = fact.source_message_ids if fact is not None else []
    held = (m for m in sources if m in records.messages)
    return {m for m in held if not _standing(records, m, gone)}


def _falls(records: Records, fact: Fact, gone: Fallen, least: int) -> str:
    """Say why a Fact that lost a source goes: no other one, or none that holds what it says."""
    left = _left(records, fact, gone)
    if not left:
        return "sources"
    if fact.kind == "behavior" and fact.count > 1:
        return "habit" if len(left) < least else ""
    speakers = {m.speaker for m in records.messages.values() if m.speaker}
    verdict = ground_fact(
        fact.content,
        left,
        speakers=speakers,
        entities=fact.entities,
        following=records.following,
    )
    return "" if verdict.ok else "support"


def _left(records: Records, fact: Fact, gone: Fallen) -> list[Message]:
    held = (records.messages.get(i) for i in fact.source_message_ids if i not in gone.messages)
    return [m for m in held if m is not None]


# Who talks without being a person, and what is told: an event tells what happened.
_MACHINES = frozenset(
    {"assistant", "ai", "bot", "chatbot", "model", "agent", "助手"}
    | {"system", "developer", "tool", "function", "系统"}
)
_TOLD = frozenset({"", "message", "stage", "imported_memo"})
# A sentence of a message, found again by its words alone, needs so many that carry meaning.
_SENTENCE_TERMS = 3


def by_machine(message: Message) -> bool:
    """Tell what a machine said, and so only repeated, from what a person said or did."""
    return fold(message.role) in _MACHINES and fold(message.event_type) in _TOLD


@dataclass
class Cuts:
    """Messages that lose part of their text: id -> what is left of it."""

    texts: dict[str, str] = field(default_factory=dict[str, str])
    echoes: list[str] = field(default_factory=list[str])
    signs: Traces = field(default_factory=lambda: Traces((), Held()))
    """What gives away, in any text that stays, what was forgotten."""


def cuts(records: Records, wanted: Wanted, gone: Fallen) -> Cuts:
    """Find which messages that stay say what was forgotten; those of which nothing is left go.

    Sources of a Fact that was named, and those of its earlier and later values, lose the sentences
    that say it. So does what a machine said later, in any session. What a person said elsewhere
    stays: it is another source.
    """
    found = Cuts(dict.fromkeys(wanted.emptied - gone.messages, CUT))
    fallen = [records.facts[i] for i in sorted(gone.facts - gone.regrow) if i in records.facts]
    named = [f for f in fallen if _is_named(wanted, f)]
    for fact in named:
        for source in fact.source_message_ids:
            _cut_source(records, source, named, gone, found, whole=True)
        for source in (s for v in _versions(records, fact) for s in v.source_message_ids):
            _cut_source(records, source, named, gone, found, whole=False)
    _cut_replies(records, gone, found)
    found.signs = _signs(records, wanted, gone, found, fallen)
    for message in _later(records, gone, found, fallen):
        _cut_echo(records, message, found.signs, gone, found)
    return found


def _is_named(wanted: Wanted, fact: Fact) -> bool:
    """Tell a Fact that has to go itself from one that only fell with its sources."""
    held = wanted.holds
    return fact.id in wanted.facts or (
        held is not None and (held(fact.content) or held(fact.subject))
    )


def _versions(records: Records, fact: Fact) -> list[Fact]:
    """List the Facts that a Fact took the place of, and the one that took its place."""
    following = records.facts.get(fact.superseded_by)
    before = [f for f in records.facts.values() if f.superseded_by == fact.id]
    return [*before, *([following] if following is not None else [])]


def _statement(fact: Fact) -> Statement:
    return Statement(fact.content, fact.entities)


def _cut_source(
    records: Records,
    message_id: str,
    named: Sequence[Fact],
    gone: Fallen,
    found: Cuts,
    *,
    whole: bool,
) -> None:
    """Cut what says the Facts out of a source that stays; with `whole`, else all of its text."""
    message = records.messages.get(message_id)
    if message is None or message_id in gone.messages or message_id in found.texts:
        return
    stays = _standing(records, message_id, gone)
    signs = Traces(map(_statement, named), Held(tuple(f.content for f in stays)), near=True)
    left = traces.without(message.content, signs, Traces(map(_statement, stays), Held()))
    if left is None and (whole or signs.says(message.content)):
        left = CUT
    if left is not None:
        found.texts[message_id] = left


def _cut_replies(records: Records, gone: Fallen, found: Cuts) -> None:
    """Cut, out of the answer to a message that goes, what repeats any of it."""
    asked = [m for i in gone.messages if (m := records.messages.get(i)) and not by_machine(m)]
    for message in sorted(asked, key=lambda m: m.sequence):
        reply = records.messages.get(records.following.get(message.id, ""))
        known = reply is None or reply.id in gone.messages or reply.id in found.texts
        if reply is not None and not known and by_machine(reply):
            stays = Held(tuple(f.content for f in records.facts.values() if f.id not in gone.facts))
            signs = Traces(traces.of(message.content, 1), stays, near=True)
            _cut_echo(records, reply, signs, gone, found)


def _signs(
    records: Records, wanted: Wanted, gone: Fallen, found: Cuts, fallen: Iterable[Fact]
) -> Traces:
    """Collect what gives away what was forgotten, beside what people say that stays."""
    messages = [m for m in records.messages.values() if not by_machine(m)]
    stays = [f.content for f in records.facts.values() if f.id not in gone.facts]
    stays += [found.texts.get(m.id, m.content) for m in messages if m.id not in gone.messages]
    told = [
        statement
        for m in messages
        if m.id in gone.messages and m.id not in wanted.emptied
        for statement in traces.of(m.content, _SENTENCE_TERMS)
    ]
    return Traces([*map(_statement, fallen), *told], Held(tuple(stays)))


def _later(records: Records, gone: Fallen, found: Cuts, fallen: Iterable[Fact]) -> list[Message]:
    """List what a machine said after the first message that told what was forgotten."""
    first = {i for f in fallen for i in f.source_message_ids} | gone.messages
    begin = min((records.messages[i].sequence for i in first if i in records.messages), default=0)
    return [
        m
        for m in records.messages.values()
        if m.sequence >= begin
        and by_machine(m)
        and m.id not in gone.messages
        and m.id not in found.texts
    ]


def _cut_echo(records: Records, message: Message, signs: Traces, gone: Fallen, found: Cuts) -> None:
    stays = _standing(records, message.id, gone)
    left = traces.without(message.content, signs, Traces(map(_statement, stays), Held()))
    if left is None:
        return
    found.echoes.append(message.id)
    if traces.says_nothing(left) and not stays:
        gone.messages.add(message.id)
    else:
        found.texts[message.id] = left


_COUNTED = re.compile(r"(?<![\d.])\d+(?=\s*(?:times|次))")


def mended(records: Records, gone: Fallen, reason: Mapping[str, Any]) -> dict[str, Fact]:
    """Return the Facts that stay and change: without lost sources, their chain closed again.

    Args:
        records: All that is stored.
        gone: What goes.
        reason: Fields of the change that is noted where a source was lost.
    """
    changed: dict[str, Fact] = {}
    for fact in records.facts.values():
        if fact.id in gone.facts:
            continue
        fields = {**_without_sources(records, fact, gone), **_closed(records, fact, gone)}
        if not fields:
            continue
        kept = fact.model_copy(update=fields)
        lost = "source_message_ids" in fields
        changed[fact.id] = noted(kept, what="cut", **reason) if lost else kept
    return changed


def _closed(records: Records, fact: Fact, gone: Fallen) -> dict[str, Any]:
    """Point past a successor that goes; the value stays ended where none is left."""
    following, seen = fact.superseded_by, {fact.id}
    while following in gone.facts and following not in seen:
        seen.add(following)
        following = records.facts[following].superseded_by if following in records.facts else ""
    if following == fact.superseded_by:
        return {}
    return {"superseded_by": "" if following in seen else following}


def _without_sources(records: Records, fact: Fact, gone: Fallen) -> dict[str, Any]:
    if gone.messages.isdisjoint(fact.source_message_ids):
        return {}
    left = _left(records, fact, gone)
    held = {i for m in left for i in m.anchors.items()}
    lost = {i for i in fact.source_message_ids if i in gone.messages and i in records.messages}
    went = {i for m in lost for i in records.messages[m].anchors.items()} - held
    fields: dict[str, Any] = {
        "source_message_ids": [m.id for m in left],
        "session_ids": list(dict.fromkeys(m.session_id for m in left)),
        "anchors": {k: v for k, v in fact.anchors.items() if (k, v) not in went},
        "changes": [
            c.model_copy(update={"by": [i for i in c.by if i not in gone.messages]})
            for c in fact.changes
        ],
    }
    if fact.kind == "behavior" and fact.count > 1:
        fields["count"] = len(left)
        fields["content"] = _COUNTED.sub(str(len(left)), fact.content)
    return fields
