"""What is made from Facts, when some are gone: Topics without them, and the memo pruned (pure)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from agently_gumem.records import Fact, MemoState, Summary, Topic
from agently_gumem.remember.forgetting.matching import texts_of
from agently_gumem.remember.forgetting.plan import Fallen, Holds, Records
from agently_gumem.remember.forgetting.traces import Traces
from agently_gumem.remember.memo import MemoRules, apply_patches
from agently_gumem.text import fold, is_chinese


@dataclass(frozen=True)
class Signs:
    """Tells of a text that what was forgotten stands in it."""

    traces: Traces
    holds: Holds | None = None

    def says(self, text: str) -> bool:
        """Tell whether it does."""
        return self.traces.says(text) or (self.holds is not None and self.holds(text))


@dataclass
class Themes:
    """Topics that go or change, and the new names for what stands under them."""

    gone: list[str] = field(default_factory=list[str])
    changed: dict[str, Topic] = field(default_factory=dict[str, Topic])
    moved: dict[str, str] = field(default_factory=dict[str, str])
    """Folded name of a Topic -> the name that its Facts and Summaries get."""
    bare: list[str] = field(default_factory=list[str])
    """Topics that stay and lost their Summary."""


def themes(
    records: Records, facts: Mapping[str, Fact], gone: Fallen, signs: Signs, now: datetime
) -> Themes:
    """Find what becomes of the Topics of what goes.

    Args:
        records: All that is stored.
        facts: The Facts that stay.
        gone: What goes.
        signs: Tells what must not stand in a name.
        now: For `updated_at`.
    """
    found = Themes()
    touched = {fold(f.topic) for f in records.facts.values() if f.id in gone.facts}
    lost = {fold(s.topic) for s in records.summaries.values() if s.id in gone.summaries}
    standing = {fold(f.topic) for f in facts.values()} | {
        fold(s.topic) for s in records.summaries.values() if s.id not in gone.summaries
    }
    names = {fold(t.name): t for t in records.topics.values()}
    for name, topic in names.items():
        held = signs.holds is not None and any(map(signs.holds, texts_of(topic)))
        if name not in touched | lost and not held:
            continue
        if name not in standing:
            found.gone.append(topic.id)
            continue
        if name in lost:
            found.bare.append(topic.id)
        _rename(topic, names, signs, found, now)
    return found


def _rename(
    topic: Topic, names: Mapping[str, Topic], signs: Signs, found: Themes, now: datetime
) -> None:
    """Take what must not stand there out of a Topic's name, aliases and description."""
    clean = topic.model_copy(
        update={
            "name": _clean_name(topic, signs),
            "aliases": [a for a in topic.aliases if not signs.says(a)],
            "description": "" if signs.says(topic.description) else topic.description,
            "labels": [label for label in topic.labels if not signs.says(label)],
        }
    )
    if clean == topic:
        return
    other = names.get(fold(clean.name))
    if other is not None and other.id != topic.id:
        found.gone.append(topic.id)
    else:
        found.changed[topic.id] = clean.model_copy(update={"updated_at": now})
    if clean.name != topic.name:
        found.moved[fold(topic.name)] = other.name if other is not None else clean.name


def _clean_name(topic: Topic, signs: Signs) -> str:
    if not signs.says(topic.name):
        return topic.name
    aliases = [a for a in topic.aliases if not signs.says(a)]
    if aliases:
        return aliases[0]
    rest = " ".join(word for word in topic.name.split() if not signs.says(word))
    if rest and not signs.says(rest):
        return rest
    return "综合" if is_chinese(topic.name) else "general"


def moved(records: Iterable[Fact | Summary], names: Mapping[str, str]) -> "list[Fact | Summary]":
    """Return those whose Topic got another name, under that name."""
    return [
        r.model_copy(update={"topic": names[fold(r.topic)]})
        for r in records
        if fold(r.topic) in names
    ]


@dataclass(frozen=True)
class PrunedMemo:
    """The memo without what was forgotten, and the keys that changed."""

    state: MemoState | None
    keys: list[str]


def prune(
    memo: MemoState | None,
    facts: Mapping[str, Fact],
    gone: Iterable[Fact],
    signs: Signs,
    rules: MemoRules,
    now: datetime,
) -> PrunedMemo:
    """Take out of the memo what rested on Facts that go; no model is asked.

    Args:
        memo: The memo as it is.
        facts: The Facts that stay.
        gone: Those that go.
        signs: Tells what must not stand in it, whatever it is said to rest on.
        rules: What a memo is held to.
        now: For `updated_at`.

    Returns:
        A memo that the next digest writes anew from Facts; the same one where nothing changes.
    """
    if memo is None:
        return PrunedMemo(None, [])
    ended = {f.id: f.model_copy(update={"validity": "deprecated"}) for f in gone}
    behind = {i for ids in memo.facts.values() for i in ids}
    value = memo.value
    links = memo.facts
    if not behind.isdisjoint(ended):
        pruned = apply_patches(memo, [], {}, {**facts, **ended}, rules, now).state
        value, links = pruned.value, pruned.facts
    value = {key: left for key, v in value.items() if not _empty(left := _without(v, signs))}
    keys = [key for key in memo.value if memo.value[key] != value.get(key)]
    if not keys and behind.isdisjoint(ended):
        return PrunedMemo(memo, [])
    kept = {k: [i for i in ids if i not in ended] for k, ids in links.items() if k in value}
    return PrunedMemo(memo.for_rebuild(value=value, facts=kept, updated_at=now), keys)


def _without(value: Any, signs: Signs) -> Any:
    """Copy a value without the entries that say what was forgotten, keys as well."""
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        left = {k: _without(v, signs) for k, v in entries if not _tells(k, v, signs)}
        return {k: v for k, v in left.items() if not _empty(v)}
    if isinstance(value, list):
        return [v for v in cast("list[Any]", value) if not _says(v, signs)]
    return None if value is not None and signs.says(str(value)) else value


def _says(value: Any, signs: Signs) -> bool:
    """Tell whether an entry of a list says it anywhere: then all of the entry goes."""
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        return any(_tells(k, v, signs) or _says(v, signs) for k, v in entries)
    if isinstance(value, list):
        return any(_says(v, signs) for v in cast("list[Any]", value))
    return isinstance(value, str | int | float) and signs.says(str(value))


def _tells(key: str, value: Any, signs: Signs) -> bool:
    """Look at a key beside its value: "dentist" and "Alvarez" say it together."""
    plain = str(value) if isinstance(value, str | int | float) else ""
    return signs.says(f"{key} {plain}".replace("_", " "))


def _empty(value: Any) -> bool:
    return value is None or value in ("", [], {})
