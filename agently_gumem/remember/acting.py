"""Actions at a digest: habits and decisions become Facts in code, whatever the model says."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agently_gumem.recall.index import UserIndex
from agently_gumem.records import Change, Fact, Message, TimeRange, latest, noted, now, union
from agently_gumem.remember import hooking
from agently_gumem.remember.behave import Habit, decision, entities, habits, is_action, of_habit
from agently_gumem.remember.reconcile import Reconciled
from agently_gumem.scope import Scope
from agently_gumem.text import fold

_MOST_ENTITIES = 12
# From here on a Topic's name is about the same thing as what was done; below it the page names one.
TOPIC_SIMILARITY = 0.41


async def with_actions(
    scope: Scope, batch: Sequence[Message], done: Reconciled, leave_out: Collection[str] = ()
) -> Reconciled:
    """Add what the actions of a batch come to: habits of all sessions, and decisions.

    Args:
        scope: The user.
        batch: The messages of this digest.
        done: What it made of the model's Facts.
        leave_out: Ids of messages whose content is not kept.

    Returns:
        The same with the Facts of the actions; the digest writes them.

    Raises:
        HookError: A hook failed that stops the work then.
    """
    fresh = [m for m in batch if is_action(m) and m.id not in leave_out]
    if not fresh:
        return done
    taken = {m.id for m in fresh}
    messages = await scope.read(lambda index: _actions(index, taken, leave_out))
    facts = {**scope.index.facts, **{f.id: f for f in done.facts}}
    work = _Acts(scope, messages, facts)
    made = await scope.services.worker.thread(work.made, fresh)
    made = await _asked(scope, await _placed(scope, made, facts))
    if not made:
        return done
    held = {f.id: f for f in done.facts} | made
    known = scope.index.facts.keys() | set(done.new)
    new = (*done.new, *(i for i in made if i not in known))
    return replace(done, facts=tuple(held.values()), new=new)


def _actions(
    index: UserIndex, taken: Collection[str], leave_out: Collection[str]
) -> dict[str, Message]:
    """Collect the actions that are digested, those of this batch included."""
    return {
        m.id: m
        for m in index.messages.values()
        if (m.status == "processed" or m.id in taken) and m.id not in leave_out and is_action(m)
    }


async def _asked(scope: Scope, made: Mapping[str, Fact]) -> dict[str, Fact]:
    """Ask the hooks; a Fact keeps its id whatever they change, so that it grows in its place."""
    kept = await hooking.facts(scope, made)
    return {i: f.model_copy(update={"id": i}) for i, f in kept.items()}


async def _placed(
    scope: Scope, made: Mapping[str, Fact], facts: Mapping[str, Fact]
) -> dict[str, Fact]:
    """Give each new Fact a topic: of Facts from the same messages, the nearest, or a page."""
    bare = [f for f in made.values() if not f.topic]
    vectors = await scope.embed_each([f.content for f in bare])
    named = await scope.read(lambda index: [_nearest(index, vector) for vector in vectors])
    topics: dict[str, str] = {}
    for fact, near in zip(bare, named, strict=True):
        topics[fact.id] = _shared_topic(fact, facts.values()) or near or _page(scope, fact)
    return {i: f.model_copy(update={"topic": topics.get(i, f.topic)}) for i, f in made.items()}


def _shared_topic(fact: Fact, facts: Iterable[Fact]) -> str:
    mine = set(fact.source_message_ids)
    shared = [f for f in facts if f.topic and not mine.isdisjoint(f.source_message_ids)]
    return max(shared, key=lambda f: f.updated_at).topic if shared else ""


def _nearest(index: UserIndex, vector: NDArray[np.float32] | None) -> str:
    if vector is None:
        return ""
    best, name = TOPIC_SIMILARITY, ""
    for topic in index.topics.values():
        held = index.vector(topic.id)
        near = float(vector @ held.astype(np.float32)) if held is not None else 0.0
        if near >= best:
            best, name = near, topic.name
    return name


def _page(scope: Scope, fact: Fact) -> str:
    pages = (scope.index.messages.get(i) for i in reversed(fact.source_message_ids))
    return next((m.page.strip("/ ") for m in pages if m is not None and m.page), "")[:60]


@dataclass(frozen=True)
class _Acts:
    """Turns actions into Facts; reads nothing that changes meanwhile."""

    scope: Scope
    messages: Mapping[str, Message]
    """Every action of the user that is digested, this batch included."""
    facts: Mapping[str, Fact]
    """Every Fact of the user as this digest leaves it."""

    def made(self, fresh: Sequence[Message]) -> dict[str, Fact]:
        """Make the habits that a batch touches, then the decisions that no Fact tells yet."""
        least = self.scope.services.limits.behaviour_after
        found = habits(self.messages.values(), least, fresh)
        made = [fact for habit in found if (fact := self._habit(habit, least)) is not None]
        told = {i for h in found for i in (m.id for m in h.messages)}
        told |= {i for f in self.facts.values() if f.kind == "action" for i in f.source_message_ids}
        made += self._decided([m for m in fresh if m.id not in told])
        return {f.id: f for f in made if not self.scope.refuses(f.id)}

    def _habit(self, habit: Habit, least: int) -> Fact | None:
        """Bring the Fact of a habit up to its events; None where nothing changed."""
        known = next((f for f in self.facts.values() if of_habit(f, habit, self.messages)), None)
        if known is None:
            return self._begun(habit, least)
        # Events past what the index holds stay sources, and count as they did.
        unseen = [i for i in known.source_message_ids if i not in self.messages]
        ids = [*unseen, *(m.id for m in habit.messages)]
        if ids == known.source_message_ids and known.count == habit.count + len(unseen):
            return None
        counted = replace(habit, count=habit.count + len(unseen))
        added = [m.id for m in habit.messages if m.id not in known.source_message_ids]
        grown = known.model_copy(update={**_told(counted, ids), "updated_at": now()})
        return noted(grown, at=now(), what="joined", by=added) if added else grown

    def _begun(self, habit: Habit, least: int) -> Fact | None:
        """Make a habit's Fact; one that was put aside begins anew with what came after that."""
        fact_id = self._id("behavior", habit.deed.verb, *habit.deed.key, habit.messages[0].id)
        former = self.facts.get(fact_id)
        if former is None:
            return self._fact(fact_id, habit.content, habit.messages, habit)
        end = former.valid_to or former.updated_at
        later = [m for m in habit.messages if m.timestamp is not None and m.timestamp > end]
        anew = habits(later, least, later)
        same = next((h for h in anew if h.deed.key == habit.deed.key), None)
        return self._begun(same, least) if same is not None else None

    def _decided(self, fresh: Sequence[Message]) -> list[Fact]:
        """Make a Fact of each decision; the same one again is one Fact with both events."""
        by_text: dict[str, list[Message]] = {}
        for message in fresh:
            if text := decision(message):
                by_text.setdefault(text, []).append(message)
        made: list[Fact] = []
        for text, events in by_text.items():
            known = next((f for f in self.facts.values() if _is_told(f, text)), None)
            own = self._id("action", fold(text), events[0].id)
            made.append(_joined(known, events) if known else self._fact(own, text, events, None))
        return made

    def _id(self, *parts: str) -> str:
        return self.scope.services.ids.of("fact", self.scope.key, *parts)

    def _fact(
        self, fact_id: str, content: str, events: Sequence[Message], habit: Habit | None
    ) -> Fact:
        moment, ids = now(), [m.id for m in events]
        told: dict[str, Any] = {"source_message_ids": ids, "content": content, **_drawn(events)}
        if habit is not None:
            told |= _told(habit, ids)
        return Fact(
            id=fact_id,
            user_id=self.scope.user_id,
            space=self.scope.space,
            kind="behavior" if habit else "action",
            certainty="observed",
            changes=[Change(at=moment, what="created", by=ids)],
            created_at=moment,
            updated_at=moment,
            **told,
        )


def _told(habit: Habit, ids: list[str]) -> dict[str, Any]:
    return {
        "content": habit.content,
        "count": habit.count,
        "confidence": habit.confidence,
        "source_message_ids": ids,
        **_drawn(habit.messages),
    }


def _drawn(events: Sequence[Message]) -> dict[str, Any]:
    """Take over from events what a Fact keeps of them: when, where, about what, for whom."""
    times = sorted(m.timestamp for m in events if m.timestamp is not None)
    named = dict.fromkeys(e for m in events for e in entities(m))
    return {
        "session_ids": list(dict.fromkeys(m.session_id for m in events)),
        "entities": list(named)[:_MOST_ENTITIES],
        "anchors": {k: v for m in events for k, v in m.anchors.items()},
        "access": union(*(m.access for m in events)),
        "expires_at": latest(m.expires_at for m in events),
        "valid_from": times[-1] if times else None,
        "time_range": _range(times),
    }


def _range(times: Sequence[datetime]) -> TimeRange | None:
    if not times:
        return None
    return TimeRange(start=times[0], end=times[-1] if times[-1] != times[0] else None)


def _is_told(fact: Fact, text: str) -> bool:
    same = fold(fact.content).rstrip(".。") == fold(text).rstrip(".。")
    return same and fact.kind == "action" and fact.validity == "active"


def _joined(known: Fact, events: Sequence[Message]) -> Fact:
    added = [m.id for m in events if m.id not in known.source_message_ids]
    times = [m.timestamp for m in events if m.timestamp is not None]
    before = known.time_range.start if known.time_range else None
    drawn = _drawn(events)
    update = {
        "source_message_ids": [*known.source_message_ids, *added],
        "session_ids": [*dict.fromkeys([*known.session_ids, *drawn["session_ids"]])],
        "anchors": {**known.anchors, **drawn["anchors"]},
        "access": [*dict.fromkeys([*known.access, *drawn["access"]])],
        "time_range": _range(sorted([*([before] if before else []), *times])),
        "updated_at": now(),
    }
    return noted(known.model_copy(update=update), at=now(), what="joined", by=added)
