"""New Facts against known ones: which is the same, which takes the place of another (pure)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agently_gumem.recall.outdated import old_value, terms_of
from agently_gumem.records import Fact, latest, noted
from agently_gumem.remember import specifics as sp
from agently_gumem.remember.same import differs
from agently_gumem.text import fold

# From here on two facts are about the same thing: with the bundled embedder it found 29 of 30
# duplicates and no unrelated pair.
RELATED_SIMILARITY = 0.61
# From here on the only Fact that a new one is said to correct may be about the same thing. Bundled
# embedder, English, Chinese and across: 18 of 24 corrections reach it (13 of 15 across), 1 of 26
# and 4 % of 2,708 pairs of other themes do. Two of one kind are no surer (7 % of those pairs).
CORRECTION_SIMILARITY = 0.41
# So many Facts a new one may retire for no more than the name of their topic, the model's word.
_BY_TOPIC = 2
# Of the content words of the shorter of two Facts: "wears size 42", "shoe size is 42".
_ALIKE = 0.6


@dataclass(frozen=True)
class Proposal:
    """A grounded Fact with the model's verdicts on the candidates that it was shown."""

    ref: str
    fact: Fact
    same_as: str = ""
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reconciled:
    """What to write, and what became of each proposal."""

    facts: tuple[Fact, ...]
    """Every record that changed or is new, in its last state, one per id."""
    new: tuple[str, ...]
    superseded: tuple[str, ...]
    by_ref: Mapping[str, str]
    """Reference of a proposal -> id of the Fact that it ended in."""
    refused: Mapping[str, str]
    """Reference of a proposal -> why a verdict of it did not count."""


def reconcile(
    proposals: Iterable[Proposal],
    known: Mapping[str, Fact],
    candidates: Mapping[str, Fact],
    similarity: Mapping[tuple[str, str], float],
    now: datetime,
) -> Reconciled:
    """Bring proposals, in their order, into what is known.

    Args:
        proposals: New Facts.
        known: All Facts of the user by id, whatever their validity.
        candidates: Reference (k1, k2, ...) -> the known Fact that the model was shown.
        similarity: (proposal ref, candidate ref) -> cosine, where it is known.
        now: The moment of the change.

    Returns:
        What to write. A Fact is only ever added, joined or deprecated, never deleted.
    """
    state = _State({**{f.id: f for f in candidates.values()}, **known}, candidates, similarity, now)
    for fact in state.live.values():
        state.remember_text(fact)
    for proposal in proposals:
        state.by_ref[proposal.ref] = state.take(proposal)
    return Reconciled(
        facts=tuple(state.live[i] for i in state.changed),
        new=tuple(state.new),
        superseded=tuple(state.superseded),
        by_ref=state.by_ref,
        refused=state.refused,
    )


@dataclass
class _State:
    live: dict[str, Fact]
    candidates: Mapping[str, Fact]
    similarity: Mapping[tuple[str, str], float]
    now: datetime
    texts: dict[tuple[str, str], list[str]] = field(
        default_factory=dict[tuple[str, str], list[str]]
    )
    changed: dict[str, None] = field(default_factory=dict[str, None])
    new: list[str] = field(default_factory=list[str])
    superseded: list[str] = field(default_factory=list[str])
    by_ref: dict[str, str] = field(default_factory=dict[str, str])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    by_topic: Counter[str] = field(default_factory=Counter[str])

    def remember_text(self, fact: Fact) -> None:
        self.texts.setdefault(_key(fact), []).append(fact.id)

    def write(self, fact: Fact) -> None:
        self.live[fact.id] = fact
        self.changed[fact.id] = None

    def take(self, proposal: Proposal) -> str:
        """Place one proposal; give the id of the Fact that it ended in."""
        fact = proposal.fact
        equals = [self.live[i] for i in self.texts.get(_key(fact), [])]
        present = next((f for f in equals if f.validity == "active"), None)
        if present is None and fact.id in self.live:
            return fact.id  # the same text from the same source again: what was decided stands
        target = present or self._same(proposal) or self._given_up(proposal, equals)
        if target is None:
            self._add(proposal, equals)
        elif target.validity == "active" or fact.certainty != "inferred":
            self._join(target.id, fact)
        ended = target.id if target else fact.id
        for ref in proposal.replaces:
            self._replace(proposal, ref, ended)
        return ended

    def _same(self, proposal: Proposal) -> Fact | None:
        if not proposal.same_as or proposal.same_as in proposal.replaces:
            return None
        target, reason = self._candidate(proposal, proposal.same_as)
        if target is not None and not reason:
            near = self.similarity.get((proposal.ref, proposal.same_as))
            reason = differs(proposal.fact.content, target.content, near)
        if reason:
            self.refused.setdefault(proposal.ref, reason)
            return None
        return target

    def _candidate(self, proposal: Proposal, ref: str) -> tuple[Fact | None, str]:
        """Find the present state of a candidate, and why a verdict on it can't count."""
        shown = self.candidates.get(ref)
        if shown is None:
            return None, "unknown"
        target = self.live[shown.id]
        if target.validity != "active":
            return target, "inactive"
        return target, "" if fold(target.subject) == fold(proposal.fact.subject) else "subject"

    def _join(self, target: str, fact: Fact) -> None:
        known = self.live[target]
        sources = [*dict.fromkeys([*known.source_message_ids, *fact.source_message_ids])]
        sessions = [*dict.fromkeys([*known.session_ids, *fact.session_ids])]
        if (sources, sessions) != (known.source_message_ids, known.session_ids):
            joined = {
                "source_message_ids": sources,
                "session_ids": sessions,
                "anchors": {**known.anchors, **fact.anchors},
                "access": [*dict.fromkeys([*known.access, *fact.access])],
                "expires_at": latest([known.expires_at, fact.expires_at]),
                "updated_at": self.now,
            }
            said = [i for i in fact.source_message_ids if i not in known.source_message_ids]
            self.write(noted(known.model_copy(update=joined), at=self.now, what="joined", by=said))

    def _given_up(self, proposal: Proposal, equals: list[Fact]) -> Fact | None:
        """Find the superseded Fact that a guess or an older statement only says again.

        A message that comes late, or was with the model while an operator corrected the Fact, must
        not bring the old value back.
        """
        for former in equals:
            end = self._active_end(former)
            reason = _too_weak(proposal.fact, end) if end is not None else ""
            if reason:
                self.refused.setdefault(proposal.ref, reason)
                return former
        return None

    def _add(self, proposal: Proposal, equals: list[Fact]) -> None:
        """Add a Fact; said before and given up since, it takes the place of what stands now."""
        fact = proposal.fact
        self.write(fact)
        self.new.append(fact.id)
        self.remember_text(fact)
        for former in equals:
            end = self._active_end(former)
            if end is not None and end.id != fact.id:
                self._supersede(end, fact.id, fact)

    def _active_end(self, fact: Fact) -> Fact | None:
        seen: set[str] = set()
        while fact.validity == "deprecated" and fact.id not in seen:
            seen.add(fact.id)
            following = self.live.get(fact.superseded_by)
            if following is None:
                return None
            fact = following
        return fact if fact.validity == "active" else None

    def _replace(self, proposal: Proposal, ref: str, successor: str) -> None:
        target, reason = self._candidate(proposal, ref)
        if target is not None and reason == "inactive":
            # Superseded while the model was asked: the verdict is on what took its place.
            end = self._active_end(target)
            target, reason = (end, "") if end is not None else (target, reason)
        if target is not None and successor in (target.id, target.superseded_by):
            return
        if target is not None and not reason and not self._related(proposal, ref, target):
            reason = "unrelated"
        if target is not None and not reason:
            reason = _too_weak(proposal.fact, target)
            if reason == "older" and successor in self.new:
                self._supersede(self.live[successor], target.id, target)
        if target is None or reason:
            self.refused.setdefault(proposal.ref, reason)
            return
        self._supersede(target, successor, proposal.fact)
        self._supersede_alike(target, successor, proposal.fact)

    def _supersede_alike(self, target: Fact, successor: str, said: Fact) -> None:
        """End with a Fact those shown beside it that say the same old value in other words."""
        for shown in self.candidates.values():
            other = self.live[shown.id]
            live = other.validity == "active" and other.id != successor
            if live and not _too_weak(said, other) and _says_it_too(other, target, said):
                self._supersede(other, successor, said)

    def _related(self, proposal: Proposal, ref: str, target: Fact) -> bool:
        """Ask for something in common: a true Fact is not retired by an unrelated one."""
        mine, alone = proposal.fact, len(set(proposal.replaces)) == 1
        needed = CORRECTION_SIMILARITY if alone else RELATED_SIMILARITY
        if self.similarity.get((proposal.ref, ref), 0.0) >= needed or _share_terms(mine, target):
            return True
        if not mine.topic or fold(mine.topic) != fold(target.topic):
            return False
        self.by_topic[proposal.ref] += 1
        return self.by_topic[proposal.ref] <= _BY_TOPIC

    def _supersede(self, target: Fact, successor: str, said: Fact) -> None:
        since = said.valid_from or self.live[successor].valid_from or self.now
        gone: dict[str, Any] = {
            "validity": "deprecated",
            "valid_to": since,
            "superseded_by": successor,
        }
        gone["updated_at"] = self.now
        ended = target.model_copy(update=gone)
        by = said.source_message_ids
        self.write(noted(ended, at=self.now, what="superseded", by=by))
        self.superseded.append(target.id)


def _too_weak(new: Fact, target: Fact) -> str:
    """Say why a Fact can't retire another: a guess never does, nor what was said before it."""
    if new.certainty == "inferred":
        return "guess"
    older = new.valid_from and target.valid_from and new.valid_from < target.valid_from
    return "older" if older else ""


def _says_it_too(other: Fact, old: Fact, new: Fact) -> bool:
    """Tell whether a Fact says the same as one that was just replaced: the value that is gone."""
    value = old_value(old.content, new.content)
    mine, theirs = terms_of(other.content), terms_of(old.content)
    shared = len(mine & theirs)
    return (
        value is not None
        and fold(other.subject) == fold(old.subject)
        and value.gone <= mine
        and shared >= max(2, _ALIKE * min(len(mine), len(theirs)))
        and not differs(other.content, old.content)
        and bool(differs(other.content, new.content))
    )


def _share_terms(a: Fact, b: Fact) -> bool:
    mine, theirs = (set(sp.terms(f.content, [a.subject])) for f in (a, b))
    return not mine.isdisjoint(theirs)


def _key(fact: Fact) -> tuple[str, str]:
    return fold(fact.content).rstrip(".。!！ "), fold(fact.subject)
