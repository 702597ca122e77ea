"""One decision from end to end: what to delete, what to write, and what is told of it (pure)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from agently_gumem.records import Fact, MemoState, Message
from agently_gumem.remember.forgetting.beside import Clean
from agently_gumem.remember.forgetting.cuts import Cuts, cuts
from agently_gumem.remember.forgetting.derived import Signs, moved, prune, themes
from agently_gumem.remember.forgetting.mending import mended
from agently_gumem.remember.forgetting.plan import Records, Wanted, fall
from agently_gumem.remember.memo import MemoRules
from agently_gumem.rows import Kept


@dataclass(frozen=True)
class Terms:
    """Under what rules it is decided, and what is noted of it."""

    rules: MemoRules
    now: datetime
    least: int = 3
    """Events that a habit needs to be one."""
    actor: str = "operator"
    reason: str = ""


@dataclass
class Plan:
    """What goes and what changes."""

    messages: list[Message] = field(default_factory=list[Message])
    facts: list[Fact] = field(default_factory=list[Fact])
    summaries: list[str] = field(default_factory=list[str])
    topics: list[str] = field(default_factory=list[str])
    regrow: set[str] = field(default_factory=set[str])
    """Of the Facts, those that may come in again."""
    cut: dict[str, tuple[Message, Message]] = field(
        default_factory=dict[str, tuple[Message, Message]]
    )
    """Messages that lose text: id -> as it was, as it is."""
    changed: list[Kept] = field(default_factory=list[Kept])
    """Facts, Summaries and Topics to write as they are now."""
    memo: MemoState | None = None
    """The memo to write; None where it stays."""
    memo_keys: list[str] = field(default_factory=list[str])
    kept: list[str] = field(default_factory=list[str])
    echoes: list[str] = field(default_factory=list[str])
    bare: list[str] = field(default_factory=list[str])
    """Topics whose Summary is to be written anew."""
    reason: str = ""
    """What is noted as the reason; empty where that says what is forgotten."""

    @property
    def nothing(self) -> bool:
        """Whether nothing goes and nothing changes."""
        went = self.messages or self.facts or self.summaries or self.topics
        return not (went or self.cut or self.changed or self.memo is not None)


def decide(records: Records, wanted: Wanted, terms: Terms) -> Plan:
    """Decide what goes with what is wanted, and how the rest stays whole.

    Args:
        records: All that is stored of the user.
        wanted: What is to be forgotten.
        terms: The rules, the time, and whom it is noted of.
    """
    gone = fall(records, wanted, terms.least)
    found = cuts(records, wanted, gone)
    signs = Signs(found.signs, wanted.holds)
    gone.summaries |= {s.id for s in records.summaries.values() if signs.says(s.content)}
    close = Signs(found.close, wanted.holds)
    reason = "" if close.says(terms.reason) else terms.reason
    clean = Clean(close, gone.messages, wanted.holds)
    facts = {i: clean.fact(f) for i, f in records.facts.items() if i not in gone.facts}
    note = {"at": terms.now, "actor": terms.actor, "reason": reason}
    mends = mended(replace(records, facts={**records.facts, **facts}), gone, note)
    stay = {i: mends.get(i, f) for i, f in facts.items()}
    topics = themes(records, stay, gone, signs, terms.now)
    summaries = [clean.summary(s) for s in records.summaries.values() if s.id not in gone.summaries]
    renamed = moved([*stay.values(), *summaries], topics.moved)
    kept: dict[str, Kept] = {r.id: r for r in (*stay.values(), *summaries, *renamed)}
    whole = (m for m in records.messages.values() if m.id not in gone.messages | found.texts.keys())
    kept |= {m.id: clean.correction(m) for m in whole}
    final = {i: cast("Fact", kept[i]) for i in stay}
    fallen = [records.facts[i] for i in gone.facts if i in records.facts]
    memo = prune(records.memo, final, fallen, signs, terms.rules, terms.now)
    return Plan(
        messages=[m for m in records.messages.values() if m.id in gone.messages],
        facts=fallen,
        summaries=sorted(gone.summaries & records.summaries.keys()),
        topics=topics.gone,
        regrow=gone.regrow,
        cut=_cut_messages(records, found, wanted),
        changed=[*_differing(records, kept), *topics.changed.values()],
        memo=memo.state if memo.state is not records.memo else None,
        memo_keys=memo.keys,
        kept=_poorer(records, mends),
        echoes=found.echoes,
        bare=topics.bare,
        reason=reason,
    )


def _differing(records: Records, kept: Mapping[str, Kept]) -> list[Kept]:
    """List the records that are not as they were."""
    before = {**records.messages, **records.facts, **records.summaries}
    return [record for i, record in kept.items() if record is not before[i] and record != before[i]]


def _poorer(records: Records, mends: Mapping[str, Fact]) -> list[str]:
    """Name the Facts that lost a source and stay."""
    before = records.facts
    return sorted(
        i for i, f in mends.items() if f.source_message_ids != before[i].source_message_ids
    )


def _cut_messages(
    records: Records, found: Cuts, wanted: Wanted
) -> dict[str, tuple[Message, Message]]:
    """Return the messages that lose text, as they were and as they are."""
    cut: dict[str, tuple[Message, Message]] = {}
    for message_id, text in found.texts.items():
        before = records.messages[message_id]
        emptied = message_id in wanted.emptied

        def says(told: str, emptied: bool = emptied) -> bool:
            return emptied or found.signs.says(told)

        fields = {
            "content": text,
            "page": "" if says(before.page) else before.page,
            "anchors": {k: v for k, v in before.anchors.items() if not says(f"{k} {v}")},
            "metadata": _without(before.metadata, says),
        }
        cut[message_id] = (before, before.model_copy(update=fields))
    return cut


def _without(value: Any, says: Any) -> Any:
    """Copy nested data without the texts that say what was forgotten."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {k: _without(v, says) for k, v in items if not (isinstance(v, str) and says(v))}
    if isinstance(value, list):
        held = cast("list[Any]", value)
        return [_without(v, says) for v in held if not (isinstance(v, str) and says(v))]
    return value
