"""What became of a record: each change, when, by which messages or by whom (pure)."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from agently_gumem.govern.chain import versions
from agently_gumem.govern.shown import View
from agently_gumem.recall.index import Stored
from agently_gumem.records import Change, Fact, MemoState, Message, Summary, Topic
from agently_gumem.records.account import HistoryEntry
from agently_gumem.text import fold

_ENDS = ("superseded", "corrected")


def history_of(view: View, record: Stored) -> list[HistoryEntry]:
    """List the changes of a record, the oldest first; of a Fact with those of its versions."""
    if isinstance(record, Fact):
        return _in_order(e for f in versions(view, [record]) for e in _of_fact(view, f))
    if isinstance(record, Summary):
        alike = [s for s in view.index.summaries.values() if fold(s.topic) == fold(record.topic)]
        return _in_order(e for s in view.only(alike) for e in _of_summary(view, s))
    if isinstance(record, Topic):
        return _in_order(_of_topic(view, record))
    return _in_order(_of_message(view, record))


def history_of_memo(view: View, memo: MemoState, key: str | None) -> list[HistoryEntry]:
    """List what came to stand behind a key of the memo, and when it was written last."""
    ids = [i for k, ids in memo.facts.items() if key in (None, k) for i in ids]
    facts = versions(view, view.facts(ids))
    value = memo.value if key is None else memo.value.get(key)
    written = HistoryEntry(
        at=memo.updated_at,
        layer="memo",
        id="memo" if key is None else f"memo:{key}",
        what="written",
        content=json.dumps(value, ensure_ascii=False),
        by=list(dict.fromkeys(i for f in facts for i in f.source_message_ids)),
    )
    return _in_order([*(e for f in facts for e in _of_fact(view, f)), written])


def history_of_forgotten(record_id: str, tomb: Mapping[str, Any]) -> HistoryEntry:
    """Tell that a record was forgotten, and nothing of what it said."""
    return HistoryEntry(
        at=moment_of(tomb.get("at")),
        layer=str(tomb.get("layer") or "record"),
        id=record_id,
        what="forgotten",
        actor=str(tomb.get("by") or "operator"),
        reason=str(tomb.get("reason") or ""),
    )


def moment_of(value: Any) -> datetime | None:
    """Read a moment of a flag; None where it has none."""
    try:
        return datetime.fromisoformat(str(value)) if value else None
    except ValueError:
        return None


def _of_fact(view: View, fact: Fact) -> list[HistoryEntry]:
    told = [_entry("fact", fact, change) for change in fact.changes]
    if not any(change.what == "created" for change in fact.changes):
        joined = {i for change in fact.changes if change.what == "joined" for i in change.by}
        first = [i for i in fact.source_message_ids if i not in joined]
        created = Change(at=fact.created_at, what="created", by=first or fact.source_message_ids)
        told.insert(0, _entry("fact", fact, created))
    if fact.validity != "active" and not any(change.what in _ENDS for change in fact.changes):
        # Superseded before changes were noted: the pointer and the dates say the same.
        successor = view.index.facts.get(fact.superseded_by)
        by = list(successor.source_message_ids) if successor is not None else []
        what = "superseded" if fact.superseded_by else "retired"
        at = successor.created_at if successor is not None else fact.updated_at
        told.append(_entry("fact", fact, Change(at=at, what=what, by=by)))
    return told


def _of_summary(view: View, summary: Summary) -> list[HistoryEntry]:
    told = [_entry("summary", summary, change) for change in summary.changes]
    if not any(change.what == "created" for change in summary.changes):
        facts = (view.index.facts.get(i) for i in summary.source_facts)
        by = list(dict.fromkeys(i for f in facts if f is not None for i in f.source_message_ids))
        created = Change(at=summary.created_at, what="created", by=by)
        told.insert(0, _entry("summary", summary, created))
    ended = any(c.what == "retired" or "validity" in c.reason for c in summary.changes)
    if summary.validity != "active" and not ended:
        retired = Change(at=summary.updated_at, what="retired")
        told.append(_entry("summary", summary, retired))
    return told


def _of_topic(view: View, topic: Topic) -> list[HistoryEntry]:
    facts = [f for f in view.index.facts.values() if fold(f.topic) == fold(topic.name)]
    told: list[HistoryEntry] = []
    if facts := sorted(view.only(facts), key=lambda f: f.created_at):
        by = facts[0].source_message_ids
        told.append(_entry("topic", topic, Change(at=facts[0].created_at, what="created", by=by)))
    also = f"also named: {', '.join(topic.aliases)}" if topic.aliases else ""
    told.append(_entry("topic", topic, Change(at=topic.updated_at, what="updated", reason=also)))
    return told


def _of_message(view: View, message: Message) -> list[HistoryEntry]:
    told: dict[str, Any] = {"layer": "message", "id": message.id, "content": message.content}
    said = HistoryEntry(at=message.timestamp, what="said", by=[message.id], actor="user", **told)
    entries = [said.model_copy(update={"actor": message.role})]
    if message.said:
        entries.append(
            HistoryEntry(what="changed", reason="its text was changed after it was said", **told)
        )
    if message.status == "failed":
        entries.append(HistoryEntry(what="given up", reason="no valid digest", **told))
    for fact in view.only(view.index.citing(message.id)):
        joined = next((c.at for c in fact.changes if message.id in c.by), fact.created_at)
        entries.append(
            HistoryEntry(
                at=joined,
                layer="fact",
                id=fact.id,
                what="cited",
                content=fact.content,
                by=[message.id],
            )
        )
    return entries


def _entry(layer: str, record: Fact | Summary | Topic, change: Change) -> HistoryEntry:
    ends = change.what in _ENDS and isinstance(record, Fact)
    return HistoryEntry(
        at=change.at,
        layer=layer,
        id=record.id,
        what=change.what,
        content=record.name if isinstance(record, Topic) else record.content,
        by=list(change.by),
        actor=change.actor,
        reason=change.reason,
        replaced_by=record.superseded_by if ends and isinstance(record, Fact) else "",
    )


def _in_order(entries: Iterable[HistoryEntry]) -> list[HistoryEntry]:
    """Sort by time; what has none keeps its place at the front."""
    listed = list(entries)
    dated = [(e.at, place) for place, e in enumerate(listed) if e.at is not None]
    return [*(e for e in listed if e.at is None), *(listed[place] for _, place in sorted(dated))]
