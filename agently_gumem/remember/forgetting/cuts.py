"""Which messages that stay say what was forgotten, and what is left of them (pure)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agently_gumem.records import TOLD, Fact, Message
from agently_gumem.records.placeholders import EMPTIED
from agently_gumem.remember.forgetting import traces
from agently_gumem.remember.forgetting.plan import Fallen, Records, Wanted, standing
from agently_gumem.remember.forgetting.traces import Held, Statement, Traces
from agently_gumem.remember.ground import MACHINES
from agently_gumem.text import fold

# What is told: another event tells what happened, whoever reports it.
_TOLD = TOLD | {"", "stage"}
# A sentence of a message, found again by its words alone, needs so many that carry meaning.
_SENTENCE_TERMS = 3


def by_machine(message: Message) -> bool:
    """Tell what a machine said, and so only repeated, from what a person said or did."""
    return fold(message.role) in MACHINES and fold(message.event_type) in _TOLD


@dataclass
class Cuts:
    """Messages that lose part of their text: id -> what is left of it."""

    texts: dict[str, str] = field(default_factory=dict[str, str])
    echoes: list[str] = field(default_factory=list[str])
    signs: Traces = field(default_factory=lambda: Traces((), Held()))
    """What gives away, in any text that stays, what was forgotten."""
    close: Traces = field(default_factory=lambda: Traces((), Held()))
    """The same for what is noted beside it, such as a reason: names in any case, numbers alone."""


def cuts(records: Records, wanted: Wanted, gone: Fallen) -> Cuts:
    """Find which messages that stay say what was forgotten; those of which nothing is left go.

    Sources of a Fact that was named, and those of its earlier and later values, lose the sentences
    that say it. So does what a machine said later, in any session. What a person said elsewhere
    stays: it is another source.
    """
    found = Cuts(dict.fromkeys(wanted.emptied - gone.messages, EMPTIED))
    fallen = [records.facts[i] for i in sorted(gone.facts - gone.regrow) if i in records.facts]
    named = [f for f in fallen if _is_named(wanted, f)]
    for fact in named:
        for source in fact.source_message_ids:
            _cut_source(records, source, named, gone, found, whole=True)
        for source in (s for v in _versions(records, fact) for s in v.source_message_ids):
            _cut_source(records, source, named, gone, found, whole=False)
    _cut_replies(records, gone, found)
    told, stays = _signs(records, wanted, gone, found, fallen)
    found.signs, found.close = Traces(told, stays), Traces(told, stays, near=True)
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
    stays = standing(records, message_id, gone)
    signs = Traces(map(_statement, named), Held(tuple(f.content for f in stays)), near=True)
    left = traces.without(message.content, signs, Traces(map(_statement, stays), Held()))
    if left is None and (whole or signs.says(message.content)):
        left = EMPTIED
    if left is not None:
        found.texts[message_id] = left


def _cut_replies(records: Records, gone: Fallen, found: Cuts) -> None:
    """Cut, out of the answer to a message that goes, what repeats any of it."""
    asked = [m for i in gone.messages if (m := records.messages.get(i)) and not by_machine(m)]
    stays = Held(tuple(f.content for f in records.facts.values() if f.id not in gone.facts))
    for message in sorted(asked, key=lambda m: m.sequence):
        reply = records.messages.get(records.following.get(message.id, ""))
        known = reply is None or reply.id in gone.messages or reply.id in found.texts
        if reply is not None and not known and by_machine(reply):
            signs = Traces(traces.of(message.content, 1), stays, near=True)
            _cut_echo(records, reply, signs, gone, found)


def _signs(
    records: Records, wanted: Wanted, gone: Fallen, found: Cuts, fallen: Iterable[Fact]
) -> tuple[list[Statement], Held]:
    """Collect what was forgotten, and what people say that stays."""
    messages = [m for m in records.messages.values() if not by_machine(m)]
    stays = [f.content for f in records.facts.values() if f.id not in gone.facts]
    stays += [found.texts.get(m.id, m.content) for m in messages if m.id not in gone.messages]
    told = [
        statement
        for m in messages
        if m.id in gone.messages and m.id not in wanted.emptied
        for statement in traces.of(m.content, _SENTENCE_TERMS)
    ]
    return [*map(_statement, fallen), *told], Held(tuple(stays))


def signs_of_all(records: Records) -> Traces:
    """Make what gives any of a user away, for the reason of who forgets all of it."""
    texts = [m.content for m in records.messages.values()]
    told = [s for text in texts for s in traces.of(text, _SENTENCE_TERMS)]
    return Traces([*map(_statement, records.facts.values()), *told], Held(), near=True)


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
    stays = standing(records, message.id, gone)
    left = traces.without(message.content, signs, Traces(map(_statement, stays), Held()))
    if left is None:
        return
    found.echoes.append(message.id)
    if traces.says_nothing(left) and not stays:
        gone.messages.add(message.id)
    else:
        found.texts[message.id] = left
