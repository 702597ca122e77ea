"""How the Facts that stay are made whole again: their sources, and the chain of values (pure)."""

import re
from collections.abc import Mapping
from typing import Any

from agently_gumem.records import Fact, noted
from agently_gumem.remember.behave import distinct
from agently_gumem.remember.forgetting.plan import Fallen, Records, left_of

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
    left = left_of(records, fact, gone)
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
        times = len(distinct(left))
        fields["count"] = times
        fields["content"] = _COUNTED.sub(str(times), fact.content)
    return fields
