"""The memo: patched by a digest, held to its Facts, bounded, and rebuilt on demand (pure)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from agently_gumem.memo_schema import MemoSchema
from agently_gumem.prompts import MemoPatch
from agently_gumem.recall.memo import bound_memo
from agently_gumem.records import Fact, MemoState
from agently_gumem.remember.ground import holds
from agently_gumem.text import words

# A paraphrase of a Fact in the memo shares about half of its content words with it; an entry that
# rests on another Fact shares fewer. Used to find the Fact behind an entry, not to judge it.
_SHARED = 0.5


@dataclass(frozen=True)
class MemoRules:
    """What a memo is held to: its schema, and its bound in tokens."""

    schema: MemoSchema
    count_tokens: Callable[[str], int]
    budget: int


@dataclass
class Patched:
    """The memo after a digest, and what was refused of the patch, by reason."""

    state: MemoState
    refused: list[str] = field(default_factory=lambda: cast("list[str]", []))


def apply_patches(
    before: MemoState,
    patches: Sequence[MemoPatch],
    behind: Mapping[str, Fact | None],
    facts: Mapping[str, Fact],
    rules: MemoRules,
    now: datetime,
) -> Patched:
    """Bring the memo up to new and superseded Facts.

    Args:
        before: The memo as it was.
        patches: What the model wants changed.
        behind: Reference -> the Fact that it ended in; None where it, or a verdict that the patch
            rests on, was refused.
        facts: All Facts of the user after the digest, by id.
        rules: What the memo is held to.
        now: For `updated_at`.

    Returns:
        A valid memo; a patch that would break it changes nothing.
    """
    value = rules.schema.fitting(before.value)
    links = {key: list(ids) for key, ids in before.facts.items() if key in value}
    for key in list(value):
        value[key] = _prune(value[key], [facts[i] for i in links.get(key, []) if i in facts])
    refused: list[str] = []
    for patch in patches:
        reason = _apply(patch, value, links, behind, facts, rules)
        if reason:
            refused.append(reason)
    value, _ = bound_memo(value, rules.count_tokens, rules.budget)
    value = {k: v for k, v in value.items() if v not in (None, "", [], {})}
    links = {
        key: [i for i in dict.fromkeys(links.get(key, [])) if _active(facts.get(i))]
        for key in value
    }
    changed = value != before.value or rules.schema.digest != before.schema_digest
    state = before.model_copy(
        update={
            "value": value,
            "facts": links,
            "schema_digest": rules.schema.digest,
            "updated_at": now if changed else before.updated_at,
        }
    )
    return Patched(state, refused)


def _apply(
    patch: MemoPatch,
    value: dict[str, Any],
    links: dict[str, list[str]],
    behind: Mapping[str, Fact | None],
    facts: Mapping[str, Fact],
    rules: MemoRules,
) -> str:
    """Apply one patch in place, or say why not."""
    if not patch.facts:
        return "no facts behind it"
    resting = [behind.get(ref) for ref in patch.facts]
    sure = [f for f in resting if f is not None and f.certainty != "inferred"]
    if len(sure) < len(resting):
        return "a fact behind it was refused or is a guess"
    try:
        wanted = rules.schema.value_of(patch.key, patch.value)
    except ValueError:
        return "does not fit the schema"
    before = value.get(patch.key)
    known = [facts[i] for i in links.get(patch.key, []) if _active(facts.get(i))]
    evidence = [f.content for f in [*sure, *known]] + [*_leaves(before)]
    if not all(holds(leaf, evidence).ok for leaf in _leaves(wanted)):
        return "says more than its facts"
    merged = _merge(before, wanted, known)
    if not rules.schema.whole({**value, patch.key: merged}):
        return "does not fit the schema"
    value[patch.key] = merged
    links[patch.key] = [*links.get(patch.key, []), *(f.id for f in sure)]
    return ""


def _merge(before: Any, wanted: Any, known: Sequence[Fact]) -> Any:
    """Take the new value, and keep of the old one what an active Fact still holds.

    The model gives a whole value; what it forgets to repeat must not be lost by that.
    """
    if isinstance(before, Mapping) and isinstance(wanted, Mapping):
        old, new = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", wanted)
        kept = {k: v for k, v in old.items() if k not in new and _supported(v, known)}
        return {**{k: v for k, v in kept.items() if not _told(v, new.values())}, **new}
    if isinstance(before, list) and isinstance(wanted, list):
        old_items, new_items = cast("list[Any]", before), cast("list[Any]", wanted)
        kept_items = [
            item
            for item in old_items
            if item not in new_items and _supported(item, known) and not _told(item, new_items)
        ]
        return [*kept_items, *new_items]
    return wanted


def _told(entry: Any, others: Iterable[Any]) -> bool:
    """Tell whether another entry says it: all its content words stand there."""
    terms = set(_terms(entry))
    return any(terms <= set(_terms(other)) for other in others)


def _prune(value: Any, behind: Sequence[Fact]) -> Any:
    """Take out the entries that rest on a superseded Fact rather than on an active one."""
    gone = [f for f in behind if not _active(f)]
    if not gone:
        return value
    held = [f for f in behind if _active(f)]
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value)
        return {k: v for k, v in entries.items() if not _outdated(v, gone, held)}
    if isinstance(value, list):
        return [v for v in cast("list[Any]", value) if not _outdated(v, gone, held)]
    return None if _outdated(value, gone, held) else value


def _outdated(entry: Any, gone: Sequence[Fact], held: Sequence[Fact]) -> bool:
    best_gone = max((_support(entry, f) for f in gone), default=0.0)
    best_held = max((_support(entry, f) for f in held), default=0.0)
    return best_gone >= _SHARED and best_gone > best_held


def _supported(entry: Any, facts: Sequence[Fact]) -> bool:
    return any(_support(entry, fact) >= _SHARED for fact in facts)


def _support(entry: Any, fact: Fact) -> float:
    """Return the share of an entry's content words that a Fact holds; 0 where specifics differ."""
    terms = set(_terms(entry))
    if not terms or not holds(" ".join(_leaves(entry)), [fact.content]).ok:
        return 0.0
    return len(terms & set(words(fact.content))) / len(terms)


def _terms(entry: Any) -> list[str]:
    return words(" ".join(_leaves(entry)))


def _leaves(value: Any) -> list[str]:
    """List the texts in a value; numbers such as a confidence are not claims."""
    if isinstance(value, Mapping):
        return [t for v in cast("Mapping[str, Any]", value).values() for t in _leaves(v)]
    if isinstance(value, list):
        return [text for item in cast("list[Any]", value) for text in _leaves(item)]
    return [value] if isinstance(value, str) else []


def _active(fact: Fact | None) -> bool:
    return fact is not None and fact.validity == "active"
