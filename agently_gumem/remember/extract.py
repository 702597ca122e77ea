"""Extract: messages -> proposed Facts and a patch of the memo, in one model request."""

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from agently_gumem.privacy import Treatment
from agently_gumem.prompts import ExtractAnswer, FactDraft
from agently_gumem.recall.index import text_of
from agently_gumem.recall.nominate import nearest_topics, nominate
from agently_gumem.records import (
    APART,
    TOLD,
    TOOL_CALL,
    Certainty,
    Change,
    Fact,
    Kind,
    Message,
    TimeRange,
    earliest,
    now,
    union,
)
from agently_gumem.records.placeholders import holds_placeholder
from agently_gumem.remember import hooking
from agently_gumem.remember.behave import claim, is_action
from agently_gumem.remember.cleaning import clean_names
from agently_gumem.remember.ground import ground_fact, is_persons, spoken
from agently_gumem.remember.reconcile import Proposal
from agently_gumem.remember.timing import ground_time, told_time
from agently_gumem.remember.treated import is_taken_out, kept_under, treatments
from agently_gumem.scope import Scope
from agently_gumem.text import fold

# A Fact is one sentence; what is longer is a copied text, and would fill later requests.
LONGEST_FACT = 500
LONGEST_NAME = 60
# An item that cites more explains nothing, and once superseded would hide them all.
MOST_SOURCES = 8
_SELF = frozenset({"", "user", "the user", "用户", "me", "i", "我"})
# A guess is never as sure as a statement (spec: "mark it as low-confidence").
_GUESS = 0.45


@dataclass
class Extracted:
    """What one request proposed, after grounding."""

    proposals: list[Proposal]
    answer: ExtractAnswer
    candidates: Mapping[str, Fact]
    dropped: Counter[str] = field(default_factory=Counter[str])
    special: dict[str, list[Treatment]] = field(default_factory=dict[str, list[Treatment]])
    """Message -> what is done to each special subject (health and the like) found in it."""
    similarity: dict[tuple[str, str], float] = field(
        default_factory=lambda: cast("dict[tuple[str, str], float]", {})
    )


async def extract(
    scope: Scope, batch: Sequence[Message], agent: Any | None, seen: int
) -> Extracted:
    """Ask for the Facts of a batch and hold each to its source.

    Raises:
        ModelError: There was no valid answer.
        Outdated: Something was forgotten since the generation `seen`; hooks are not told of it.
    """
    refs = {f"m{i}": message for i, message in enumerate(batch, 1)}
    vectors = np.stack([_vector(scope, m.id) for m in batch])
    texts = [text_of(m) for m in batch]
    limits = scope.services.limits
    known, topics = await scope.read(
        lambda index: (
            nominate(index, vectors, texts, limits.candidates),
            nearest_topics(index, vectors, texts, limits.topics),
        )
    )
    candidates = {f"k{i}": fact for i, fact in enumerate(known, 1)}
    prompt = scope.services.prompts.extract(
        refs,
        candidates,
        [t.name for t in topics],
        scope.services.schema.fitting(scope.memo.value) if scope.memo else {},
        scope.services.schema.json_schema,
        await _instructions(scope, batch),
    )
    # A verdict counts only on what the model was shown.
    candidates = {ref: fact for ref, fact in candidates.items() if ref in prompt.shown}
    answer, broken = await scope.ask(prompt, agent, seen)
    await _show(scope, refs, cast("ExtractAnswer", answer))
    found = await _propose(scope, refs, candidates, cast("ExtractAnswer", answer))
    found.dropped += Counter(malformed=broken)
    scope.expect(seen)
    return await _hooked(scope, found)


async def _instructions(scope: Scope, batch: Sequence[Message]) -> list[str]:
    """Ask hooks what to add to the request."""
    return await hooking.instructions(
        scope,
        "extract",
        "fact.before_llm",
        lambda: {"messages": [hooking.shown(m) for m in batch]},
        hooking.one_session(m.session_id for m in batch),
    )


async def _show(scope: Scope, refs: Mapping[str, Message], answer: ExtractAnswer) -> None:
    """Let hooks look at the answer; its references are told as ids."""
    await hooking.looked(
        scope,
        "fact.after_llm",
        lambda: {
            "messages": {ref: m.id for ref, m in refs.items()},
            "answer": answer.model_dump(mode="json"),
        },
        hooking.one_session(m.session_id for m in refs.values()),
    )


async def _hooked(scope: Scope, found: Extracted) -> Extracted:
    """Ask hooks about each proposal; what one changed is compared anew, what it dropped goes."""
    asked = {place: p.fact for place, p in enumerate(found.proposals)}
    kept = await hooking.facts(scope, asked)
    if kept is asked:
        return found
    proposals: list[Proposal] = []
    changed: list[Proposal] = []
    for place, proposal in enumerate(found.proposals):
        fact = kept.get(place)
        reason = "hook" if fact is None else _shape(fact.content)
        if fact is None or reason:
            found.dropped[reason] += 1
            continue
        proposals.append(replace(proposal, fact=fact))
        if fact is not proposal.fact:
            changed.append(proposals[-1])
    await _compare(scope, found, changed)
    found.proposals = proposals
    return found


async def _compare(scope: Scope, found: Extracted, changed: Sequence[Proposal]) -> None:
    """Say how near proposals are to the candidates, by what they say now."""
    for proposal, vector in zip(
        changed, await scope.embed_each([p.fact.content for p in changed]), strict=True
    ):
        for name, candidate in found.candidates.items():
            near = float(vector @ _vector(scope, candidate.id)) if vector is not None else 0.0
            found.similarity[(proposal.ref, name)] = near


async def _propose(
    scope: Scope,
    refs: Mapping[str, Message],
    candidates: Mapping[str, Fact],
    answer: ExtractAnswer,
) -> Extracted:
    """Turn drafts into proposals; what its sources do not hold is dropped and counted."""
    drafts = [d.model_copy(update={"ref": d.ref or f"f{i}"}) for i, d in enumerate(answer.facts, 1)]
    vectors = await scope.embed_each([d.content for d in drafts])
    known = [*(m.id for m in refs.values()), *(f.id for f in candidates.values())]
    held = {record_id: _vector(scope, record_id) for record_id in known}
    following = _following(scope, refs.values())
    work = _Judge(scope, refs, candidates, held, following)
    # In the pool: a long answer must not hold up the users beside this one.
    return await scope.services.worker.thread(work.judge, answer, drafts, vectors)


def _vector(scope: Scope, record_id: str) -> NDArray[np.float32]:
    """Return the vector of a record of the index; zeros where it has none."""
    held = scope.index.vector(record_id)
    return held.astype(np.float32) if held is not None else np.zeros(scope.index.dimension, "f4")


@dataclass
class _Judge:
    """Holds the drafts of one answer to their sources; reads nothing that changes meanwhile."""

    scope: Scope
    refs: Mapping[str, Message]
    candidates: Mapping[str, Fact]
    vectors: Mapping[str, NDArray[np.float32]]
    following: Mapping[str, str]
    """Message -> the one that directly follows it in its session: only that can confirm it."""
    taken: Counter[str] = field(default_factory=Counter[str])

    @property
    def behaviour_after(self) -> int:
        """Distinct events that make a habit."""
        return self.scope.services.limits.behaviour_after

    def judge(
        self,
        answer: ExtractAnswer,
        drafts: Sequence[FactDraft],
        vectors: Sequence[NDArray[np.float32] | None],
    ) -> Extracted:
        """Sort drafts into proposals and what is dropped."""
        out = Extracted([], answer, self.candidates)
        served = {m.session_id for m in self.refs.values() if fold(m.role) == "user"}
        for given, maybe in zip(drafts, vectors, strict=True):
            vector = maybe if maybe is not None else np.zeros(self.scope.index.dimension, "f4")
            sources = self._sources(given, vector)
            kind, habit = claim(given.kind, given.content, sources, self.behaviour_after)
            kind = "action" if of_tools(sources) else kind
            draft = given.model_copy(update={"kind": kind})
            told = self.scope.services.select(draft.content)
            special = treatments(self.scope.services.privacy, draft.special, told.special)
            for message in sources if special else ():
                out.special.setdefault(message.id, []).extend(special)
            reason = "special" if is_taken_out(special) else habit or _shape(told.text)
            reason = reason or self._refusal(draft, sources, vector)
            if reason:
                out.dropped[reason] += 1
                continue
            self.taken.update(m.id for m in sources)
            fact = _fact(self.scope, draft, sources, self.following, served)
            fact = kept_under(fact, special)
            out.proposals.append(Proposal(draft.ref, fact, draft.same_as, tuple(draft.replaces)))
            for name, candidate in self.candidates.items():
                near = float(vector @ self.vectors[candidate.id])
                out.similarity[(draft.ref, name)] = near
        return out

    def _sources(self, draft: FactDraft, vector: NDArray[np.float32]) -> list[Message]:
        """Read the references; of a Fact that cites everything only the nearest messages count."""
        sources = [self.refs[r] for r in dict.fromkeys(draft.sources) if r in self.refs]
        if len(sources) <= MOST_SOURCES:
            return sources
        near = sorted(sources, key=lambda m: -float(vector @ self.vectors[m.id]))[:MOST_SOURCES]
        return sorted(near, key=lambda m: m.sequence)

    def _similarity(self, sources: Sequence[Message], vector: NDArray[np.float32]) -> float:
        """Say how near a draft is to what people said: an assistant's claim lends no support."""
        said = spoken(sources, self.following)
        return max((float(vector @ self.vectors[m.id]) for m in said), default=0.0)

    def _refusal(
        self, draft: FactDraft, sources: Sequence[Message], vector: NDArray[np.float32]
    ) -> str:
        """Say why a draft is no Fact; empty where it is one."""
        if not sources or any(ref not in self.refs for ref in draft.sources):
            return "reference"
        limit = self.scope.services.limits.facts_per_message
        if all(self.taken[m.id] >= limit for m in sources):
            return "too_many"
        verdict = ground_fact(
            draft.content,
            sources,
            speakers={m.speaker for m in self.refs.values() if m.speaker},
            entities=draft.entities,
            similarity=self._similarity(sources, vector),
            following=self.following,
        )
        return "" if verdict.ok else verdict.reason


def of_tools(sources: Sequence[Message]) -> bool:
    """Tell whether all that a Fact cites is what tools returned: then it is of kind action."""
    return bool(sources) and all(m.event_type == TOOL_CALL for m in sources)


def _shape(content: str) -> str:
    """Say why a text is no Fact whatever its sources hold."""
    if not content.strip():
        return "malformed"
    if len(content) > LONGEST_FACT:
        return "too_long"
    return "redacted" if holds_placeholder(content) else ""


def short(scope: Scope, names: Sequence[str], most: int = 12) -> list[str]:
    """Keep names that are names and for memory: a few, and none of a paragraph's length."""
    kept = [name.strip()[:LONGEST_NAME] for name in clean_names(scope.services.select, names)]
    return [name for name in dict.fromkeys(kept) if name][:most]


def _following(scope: Scope, messages: Iterable[Message]) -> dict[str, str]:
    """Map each message to the one after it in its session."""
    following: dict[str, str] = {}
    for session_id in {m.session_id for m in messages}:
        ids = [m.id for m in scope.messages_of(session_id) if m.event_type not in APART]
        following.update(itertools.pairwise(ids))
    return following


def _fact(
    scope: Scope,
    draft: FactDraft,
    sources: Sequence[Message],
    following: Mapping[str, str],
    served: Collection[str],
) -> Fact:
    content = scope.services.select(draft.content.strip()).text
    subject = _subject(draft.subject, sources, served)
    times = [m.timestamp for m in sources if m.timestamp is not None]
    moment = now()
    cited = [m.id for m in sources]
    certainty = _certainty(draft, sources)
    confidence = unit(draft.confidence)
    return Fact(
        id=hooking.fact_id(scope, content, subject, cited),
        user_id=scope.user_id,
        space=scope.space,
        session_ids=union(m.session_id for m in sources),
        subject=subject,
        content=content,
        kind=cast("Kind", draft.kind if draft.kind in get_args(Kind) else "fact"),
        topic="".join(short(scope, [draft.topic])),
        entities=short(scope, draft.entities),
        labels=union(short(scope, draft.labels), [TOOL_CALL] if of_tools(sources) else []),
        source_message_ids=cited,
        certainty=certainty,
        confidence=min(confidence, _GUESS) if certainty == "inferred" else confidence,
        time_range=_time_range(draft, sources, following),
        valid_from=max(times, default=None),
        anchors={k: v for m in sources for k, v in m.anchors.items()},
        access=union(*(m.access for m in sources)),
        expires_at=earliest(m.expires_at for m in sources),
        changes=[Change(at=moment, what="created", by=cited)],
        created_at=moment,
        updated_at=moment,
    )


def unit(confidence: float) -> float:
    """Bring a confidence into 0.0-1.0; what is no number is half sure."""
    return min(max(confidence, 0.0), 1.0) if math.isfinite(confidence) else 0.5


def _certainty(draft: FactDraft, sources: Sequence[Message]) -> Certainty:
    """Take the model's word for a guess only; what was done and not said is observed."""
    if draft.certainty == "inferred":
        return "inferred"
    done = all(m.event_type not in TOLD for m in sources)
    return "observed" if done else "stated"


def _subject(name: str, sources: Sequence[Message], served: Collection[str]) -> str:
    """Take a speaker's name or one that the sources hold; anybody else is the user.

    Where a user speaks in the session too, another person's role, such as seller, is not them.
    """
    if fold(name) in _SELF:
        people = [m for m in sources if is_persons(m)]
        others = {m.role for m in people if m.session_id in served and fold(m.role) != "user"}
        speakers = {m.speaker for m in sources if m.speaker} or others
        return speakers.pop() if len(speakers) == 1 else "user"
    name = name.strip()[:LONGEST_NAME]
    told = any(fold(name) in fold(f"{m.speaker} {m.content}") for m in sources)
    return name if told else "user"


# Kinds whose time is told by their words alone, where the model gives none.
_TIMED = ("plan", "fact", "action", "constraint", "identity")


def _time_range(
    draft: FactDraft, sources: Sequence[Message], following: Mapping[str, str]
) -> TimeRange | None:
    """Take the model's dates where the messages hold them, else what their words settle."""
    start, end = (
        ground_time(value, sources, following=following, last=last) if value else None
        for value, last in ((draft.start, False), (draft.end, True))
    )
    if start is not None and end is not None and end < start:
        end = None
    if start or end:
        return TimeRange(start=start, end=end)
    if draft.kind == "action" and len(sources) == 1 and is_action(sources[0]):
        at = sources[0].timestamp
        return TimeRange(start=at) if at else None
    if draft.kind not in _TIMED:
        return None
    return told_time(draft.content, sources, plan=draft.kind == "plan", following=following)
