"""What rests on what: which records go with those that are named (pure)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from agently_gumem.records import Fact, MemoState, Message, Summary, Topic
from agently_gumem.remember.behave import distinct
from agently_gumem.remember.forgetting.matching import texts_of
from agently_gumem.remember.ground import ground_fact

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

    @cached_property
    def speakers(self) -> frozenset[str]:
        """The names of those who speak in the messages."""
        return frozenset(m.speaker for m in self.messages.values() if m.speaker)

    def beside(self, before: "Records") -> "Records":
        """Put what was there before beside it, for what is to be told from that; it counts less."""
        both = {**before.messages, **self.messages}
        return Records(
            dict(sorted(both.items(), key=lambda item: item[1].sequence)),
            {**before.facts, **self.facts},
            {**before.summaries, **self.summaries},
            {**before.topics, **self.topics},
            self.memo,
        )


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
    gone.messages |= {m for m in wanted.emptied if not standing(records, m, gone)}
    gone.summaries |= {
        s.id for s in records.summaries.values() if not gone.facts.isdisjoint(s.source_facts)
    }
    return gone


def standing(records: Records, message_id: str, gone: Fallen) -> list[Fact]:
    """List the Facts that rest on a message and stay."""
    ids = records.citing.get(message_id, ())
    return [records.facts[i] for i in ids if i not in gone.facts]


def _only_of(records: Records, fact_id: str, gone: Fallen) -> set[str]:
    """Find the sources of a Fact on which no other Fact rests."""
    fact = records.facts.get(fact_id)
    sources = fact.source_message_ids if fact is not None else []
    held = (m for m in sources if m in records.messages)
    return {m for m in held if not standing(records, m, gone)}


def _falls(records: Records, fact: Fact, gone: Fallen, least: int) -> str:
    """Say why a Fact that lost a source goes: no other one, or none that holds what it says."""
    left = left_of(records, fact, gone)
    if not left:
        return "sources"
    if fact.kind == "behavior" and fact.count > 1:
        return "habit" if len(distinct(left)) < least else ""
    verdict = ground_fact(
        fact.content,
        left,
        speakers=records.speakers,
        entities=fact.entities,
        following=records.following,
    )
    return "" if verdict.ok else "support"


def left_of(records: Records, fact: Fact, gone: Fallen) -> list[Message]:
    """List the sources of a Fact that are there and stay."""
    held = (records.messages.get(i) for i in fact.source_message_ids if i not in gone.messages)
    return [m for m in held if m is not None]
