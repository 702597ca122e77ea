"""Summarize: a Topic's Facts -> its Summary, when enough is new; and Topics that are one."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agently_gumem.errors import ModelError
from agently_gumem.prompts import SameTopic, SummarizeAnswer, SummaryDraft, TopicFacts
from agently_gumem.records import EventTime, Fact, Summary, Topic, now
from agently_gumem.remember import hooking
from agently_gumem.remember.extract import short, unit
from agently_gumem.remember.governed import as_governed, shown_to_model
from agently_gumem.remember.ground import holds
from agently_gumem.rows import Kept
from agently_gumem.scope import Scope
from agently_gumem.text import fold, words

FACTS_A_TOPIC = 40
TOPICS_A_REQUEST = 5
LONGEST_SUMMARY = 1_500
# Of a summary's content words, those that its facts hold: joining words and paraphrase make up the
# rest; a text about something else shares next to none.
SHARED = 0.3
# Cosine of two topic names, bundled encoder: "running shoes" and "jogging shoes" .83, "跑鞋" .6 to
# .8, unrelated names below .4.
RELATED_TOPICS = 0.45


@dataclass(frozen=True)
class Due:
    """A Topic with enough new Facts, and the Summary that it has so far."""

    topic: Topic
    facts: Sequence[Fact]
    previous: Summary | None

    @property
    def fact_ids(self) -> frozenset[str]:
        """The ids of its Facts."""
        return frozenset(f.id for f in self.facts)


def due(
    topics: Iterable[Topic], facts: Iterable[Fact], summaries: Iterable[Summary], enough: int
) -> list[Due]:
    """Find the Topics that gathered enough new Facts since their Summary (pure).

    What a Summary was shown and left out is not new: else it would be asked for at each digest.
    """
    by_topic: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.validity == "active" and not fact.access:  # every reader sees a Summary
            by_topic.setdefault(fold(fact.topic), []).append(fact)
    current = {fold(s.topic): s for s in summaries if s.validity == "active"}
    found: list[Due] = []
    for topic in topics:
        held = by_topic.get(fold(topic.name), [])
        previous = current.get(fold(topic.name))
        if sum(previous is None or f.created_at > previous.created_at for f in held) >= enough:
            found.append(Due(topic, held[-FACTS_A_TOPIC:], previous))
    return found


async def summarize(scope: Scope, agent: Any | None) -> list[Summary]:
    """Write the Summaries that are due, in one request and one write; none is due: no request.

    Raises:
        ModelError: There was no valid answer; Facts and memo are stored already.
        StoreError: Nothing was written.
        HookError: A hook failed that stops the work then; the same holds.
        Outdated: Something was forgotten meanwhile; the same holds.
    """
    index, seen = scope.index, scope.generation
    waiting = due(
        index.topics.values(),
        index.facts.values(),
        index.summaries.values(),
        scope.services.limits.summary_after,
    )
    waiting = [d for d in waiting if scope.summarized.get(d.topic.id) != d.fact_ids]
    waiting = waiting[:TOPICS_A_REQUEST]
    if not waiting:
        return []
    refs, answer = await _asked(scope, waiting, agent, seen)
    made, records = await _hooked(scope, *_records(scope, waiting, refs, answer))
    merged, gone = _merge_topics(scope, answer.same_topics)
    moved = {fold(alias): t.name for t in merged if isinstance(t, Topic) for alias in t.aliases}
    records = [_moved(record, moved) for record in records]
    latest = {record.id: record for record in [*merged, *records]}
    async with scope.journal_lock:  # an operator changes Summaries under it
        await hooking.write(scope, as_governed(latest.values(), scope.index.summaries), seen=seen)
    await scope.delete("topic", gone)
    _note_asked(scope, waiting)
    return made


async def _asked(
    scope: Scope, waiting: Sequence[Due], agent: Any | None, seen: int
) -> tuple[dict[str, Fact], SummarizeAnswer]:
    """Ask the model, with what hooks add, and let hooks look at its answer.

    Returns:
        The Facts behind its references, and the answer.
    """
    refs: dict[str, Fact] = {}
    shown: list[TopicFacts] = []
    for entry in waiting:
        own = {f"k{len(refs) + i}": fact for i, fact in enumerate(entry.facts, 1)}
        refs.update(own)
        shown.append(TopicFacts(entry.topic.name, own, shown_to_model(entry.previous)))
    names = [t.name for t in scope.index.topics.values()][: 3 * scope.services.limits.topics]
    prompt = scope.services.prompts.summarize(shown, names, await _instructions(scope, shown))
    try:
        asked, broken = await scope.ask(prompt, agent, seen)
    except ModelError as error:
        if error.answered:
            _note_asked(scope, waiting)
        raise
    answer = cast("SummarizeAnswer", asked)
    scope.dropped += Counter(malformed=broken)

    def told() -> dict[str, Any]:
        ids = {ref: fact.id for ref, fact in refs.items()}
        return {"facts": ids, "answer": answer.model_dump(mode="json")}

    await hooking.looked(scope, "summary.after_llm", told, "")
    return refs, answer


async def _instructions(scope: Scope, topics: Sequence[TopicFacts]) -> list[str]:
    """Ask hooks what to add to the request."""

    def told() -> dict[str, Any]:
        return {
            "topics": [
                {
                    "topic": t.name,
                    "previous": t.previous,
                    "facts": [f.content for f in t.facts.values()],
                }
                for t in topics
            ]
        }

    return await hooking.instructions(scope, "summarize", "summary.before_llm", told, "")


async def _hooked(
    scope: Scope, made: Sequence[Summary], records: Sequence[Kept]
) -> tuple[list[Summary], list[Kept]]:
    """Ask hooks about each Summary; where one is dropped, the one before it stays as it is."""
    asked = {s.id: s for s in made}
    kept = await hooking.summaries(scope, asked)
    if kept is asked:
        return list(made), list(records)
    scope.dropped.update(["hook"] * (len(asked) - len(kept)))
    unchanged = {fold(s.topic) for s in made if s.id not in kept}
    before = [
        r
        for r in records
        if isinstance(r, Summary) and r.id not in asked and fold(r.topic) not in unchanged
    ]
    # The new ones last: one that a hook gave the words of its predecessor is that one, active.
    return list(kept.values()), [*before, *kept.values()]


def _note_asked(scope: Scope, waiting: Sequence[Due]) -> None:
    """A Topic is not asked for again until its Facts change, whatever the answer was."""
    scope.summarized.update({d.topic.id: d.fact_ids for d in waiting})


def _records(
    scope: Scope, waiting: Sequence[Due], refs: Mapping[str, Fact], answer: SummarizeAnswer
) -> tuple[list[Summary], list[Kept]]:
    made: list[Summary] = []
    records: list[Kept] = []
    by_name = {fold(entry.topic.name): entry for entry in waiting}
    for draft in answer.summaries:
        entry = by_name.get(fold(draft.topic))
        own = {f.id for f in entry.facts} if entry else set[str]()
        facts = [refs[r] for r in dict.fromkeys(draft.facts) if r in refs and refs[r].id in own]
        if entry is None or not facts:
            scope.dropped["summary_reference"] += 1
        elif not _tells(draft.content, [f.content for f in facts]):
            scope.dropped["summary_ungrounded"] += 1
        else:
            made.append(_summary(scope, entry, draft, facts))
            records.append(made[-1])
            if entry.previous is not None and entry.previous.id != made[-1].id:
                retired = {"validity": "deprecated", "updated_at": now()}
                records.append(entry.previous.model_copy(update=retired))
            by_name.pop(fold(draft.topic))
    return made, records


def _tells(content: str, facts: Sequence[str]) -> bool:
    """Tell whether a text is a summary of these: their specifics, and mostly their words."""
    if len(content) > LONGEST_SUMMARY or not holds(content, facts).ok:
        return False
    terms, known = set(words(content)), {term for fact in facts for term in words(fact)}
    return len(terms & known) >= SHARED * len(terms)


def _summary(scope: Scope, entry: Due, draft: SummaryDraft, facts: Sequence[Fact]) -> Summary:
    moment = now()
    sources = {i for f in facts for i in f.source_message_ids}
    messages = [m for i in sources if (m := scope.index.messages.get(i)) is not None]
    times = [m.timestamp for m in messages if m.timestamp is not None]
    content = scope.services.select(draft.content.strip()).text
    ids = [f.id for f in facts]
    return Summary(
        id=hooking.summary_id(scope, entry.topic.name, content, ids),
        user_id=scope.user_id,
        space=scope.space,
        content=content,
        topic=entry.topic.name,
        source_facts=ids,
        confidence=min(unit(draft.confidence), *(f.confidence for f in facts)),
        time=EventTime(event_start=min(times, default=None), event_end=max(times, default=None)),
        labels=short(scope, draft.labels),
        entities=short(scope, draft.entities),
        evidence=[{"layer": "fact", "id": f.id} for f in facts]
        + [
            {"layer": "action", "id": m.id, "event_type": m.event_type}
            for m in sorted(messages, key=lambda m: m.sequence)
            if m.event_type != "message"
        ],
        anchors={k: v for m in messages for k, v in m.anchors.items()},
        created_at=moment,
        updated_at=moment,
    )


def _moved(record: Kept, moved: Mapping[str, str]) -> Kept:
    """Put a Summary that was just made under the Topic that its own became."""
    name = moved.get(fold(record.topic)) if isinstance(record, Summary) else None
    return record if name is None else record.model_copy(update={"topic": name})


def _related(scope: Scope, one: Topic, two: Topic) -> bool:
    """Hold the model's verdict to some evidence: a shared word, or names that mean alike."""
    if set(words(one.name)) & set(words(two.name)):
        return True
    a, b = scope.index.vector(one.id), scope.index.vector(two.id)
    return a is not None and b is not None and float(a @ b) >= RELATED_TOPICS


def _merge_topics(scope: Scope, pairs: Sequence[SameTopic]) -> tuple[list[Kept], list[str]]:
    """Make one Topic of two that the model says are one; their Facts and Summaries follow."""
    records: list[Kept] = []
    gone: list[str] = []
    topics = {fold(t.name): t for t in scope.index.topics.values()}
    for pair in pairs:
        keep, other = topics.get(fold(pair.keep)), topics.pop(fold(pair.other), None)
        if keep is None or other is None or keep.id == other.id:
            continue
        if not _related(scope, keep, other):
            scope.dropped["topic_merge"] += 1
            topics[fold(other.name)] = other
            continue
        aliases = dict.fromkeys([*keep.aliases, other.name, *other.aliases])
        keep = keep.model_copy(update={"aliases": list(aliases), "updated_at": now()})
        topics[fold(keep.name)] = keep
        records.append(keep)
        gone.append(other.id)
        for record in [*scope.index.facts.values(), *scope.index.summaries.values()]:
            if fold(record.topic) == fold(other.name):
                records.append(record.model_copy(update={"topic": keep.name}))
    return records, gone
