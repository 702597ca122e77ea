"""The memo: patched by a digest, held to its Facts, bounded, and rebuilt on demand (pure)."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, cast

from agently_gumem.memo_schema import MemoSchema
from agently_gumem.prompts import MemoPatch
from agently_gumem.recall.memo import MAX_DEPTH, bound_memo
from agently_gumem.recall.outdated import without
from agently_gumem.records import TOOL_CALL, Fact, MemoState
from agently_gumem.remember.ground import SUPPORT_SHARE
from agently_gumem.remember.specifics import Evidence, missing
from agently_gumem.text import words

# A paraphrase of a Fact in the memo shares about half of its content words with it; an entry that
# rests on another Fact shares fewer. Used to find the Fact behind an entry, not to judge it.
_SHARED = 0.5
# A patch is cut to this many budgets before its texts are checked: the merge with what stands
# there may need more than one, and the check of what can't be kept is wasted.
_PATCH_BUDGETS = 4
_MOST_PARTS = 10_000
_MOST_CHARS = 2_000  # of one text; a recall shows 600 of it
_MOST_NUMBER = 1e18  # no claim about a user is larger; infinity and NaN fall out too
_KEY_CHARS = 60
# A paraphrase may share no word with its Fact ("no meat dishes" for "vegetarian"); it is short
# then. An instruction that somebody smuggles in needs more words, or a word of command.
_PARAPHRASE_TERMS = 6
_COMMAND = re.compile(
    r"\b(?:always|never|must|only|ignore|obey|instead|disregard|instructions?|system|recommend|"
    r"pretend|reveal)\b|总是|永远|从不|必须|务必|一律|忽略|无视|服从|推荐|不得|禁止|绝不|只能"
)
_RATING = re.compile(
    "(?:(?:confidence|certainty|importance|relevance|priority|salience)(?:_score)?|score|"
    "probability|likelihood)"
)
_COUNTER = re.compile(r"[ _-]\d{1,2}$")
_MINUS = re.compile(r"(?<!\d)[-−]\d|\b(?:minus|negative|below|debts?|owes?)\b|零下|负|欠")


@dataclass(frozen=True)
class MemoRules:
    """What a memo is held to: its schema, and its bound in tokens."""

    schema: MemoSchema
    count_tokens: Callable[[str], int]
    budget: int

    @cached_property
    def names(self) -> frozenset[str]:
        """The keys that the schema itself gives; any other key is a text of the model."""
        return frozenset(_properties(self.schema.json_schema))


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
        A valid memo; a patch that would break it changes nothing, and an entry that its Facts
        don't hold is left out of it.
    """
    value = rules.schema.fitting(before.value)
    links = {key: list(ids) for key, ids in before.facts.items() if key in value}
    pruned = {k: _prune({k: v}, links.get(k, []), facts, rules.names) for k, v in value.items()}
    value = {key: left for key, left in pruned.items() if not _empty(left)}
    refused: list[str] = []
    olds = _before(facts)
    for patch in patches:
        reason = _apply(patch, value, links, behind, facts, olds, rules)
        if reason:
            refused.append(reason)
    return Patched(_settled(before, value, links, facts, rules, now), refused)


def _settled(
    before: MemoState,
    value: dict[str, Any],
    links: Mapping[str, Sequence[str]],
    facts: Mapping[str, Fact],
    rules: MemoRules,
    now: datetime,
) -> MemoState:
    """Bound the new value, and link each key to its active Facts."""
    value, _ = bound_memo(value, rules.count_tokens, rules.budget)
    value = {k: v for k, v in value.items() if not _empty(v)}
    links = {
        key: [i for i in dict.fromkeys(links.get(key, [])) if _active(facts.get(i))]
        for key in value
    }
    changed = value != before.value or rules.schema.digest != before.schema_digest
    return before.model_copy(
        update={
            "value": value,
            "facts": links,
            "schema_digest": rules.schema.digest,
            "updated_at": now if changed else before.updated_at,
        }
    )


def _apply(
    patch: MemoPatch,
    value: dict[str, Any],
    links: dict[str, list[str]],
    behind: Mapping[str, Fact | None],
    facts: Mapping[str, Fact],
    olds: Mapping[str, Sequence[str]],
    rules: MemoRules,
) -> str:
    """Apply one patch in place, and say what was refused of it."""
    if not patch.facts:
        return "no facts behind it"
    resting = [behind.get(ref) for ref in patch.facts]
    if any(f is not None and f.access for f in resting):
        return "a fact behind it is kept under a label"
    sure = [f for f in resting if f is not None and f.certainty != "inferred"]
    if len(sure) < len(resting):
        return "a fact behind it was refused or is a guess"
    if all(TOOL_CALL in f.labels for f in sure):
        return "only tools say it"
    try:
        wanted = _sized(patch.key, patch.value, rules)
    except ValueError:
        return "does not fit the schema"
    before = value.get(patch.key)
    known = [facts[i] for i in links.get(patch.key, []) if _active(facts.get(i))]
    gone = [text for fact in (*sure, *known) for text in olds.get(fact.id, ())]
    wanted = _present(wanted, gone) if gone else wanted
    kept = frozenset(words("\n".join(f.content for f in facts.values() if f.access)))
    ground = _Ground((*sure, *known), before, wanted, rules.names, kept)
    said = ground.held({patch.key: wanted})
    if said != wanted and _empty(said):
        return "says more than its facts"
    merged = _merge(before, said, known)
    if not rules.schema.whole({**value, patch.key: merged}):
        return "does not fit the schema"
    value[patch.key] = merged
    links[patch.key] = [*links.get(patch.key, []), *(f.id for f in sure)]
    return "" if said == wanted else "says more than its facts"


def _before(facts: Mapping[str, Fact]) -> dict[str, list[str]]:
    """Map each Fact to the texts of those that it took the place of, over the whole chain."""
    olds: dict[str, list[str]] = {}
    for fact in facts.values():
        seen, end = set[str](), facts.get(fact.superseded_by)
        while end is not None and end.id not in seen:
            seen.add(end.id)
            olds.setdefault(end.id, []).append(fact.content)
            end = facts.get(end.superseded_by)
    return olds


def _present(value: Any, olds: Sequence[str]) -> Any:
    """Tell a value without what was before: the memo says what holds."""
    if isinstance(value, str):
        return without(value, olds)
    if isinstance(value, Mapping):
        return {k: _present(v, olds) for k, v in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_present(item, olds) for item in cast("list[Any]", value)]
    return value


def _sized(key: str, raw: Any, rules: MemoRules) -> Any:
    """Validate a new value, and cut it to what can be checked in little time.

    Raises:
        ValueError: It does not fit the schema, or is nested too deep or far too large.
    """
    if not _sane(raw):
        raise ValueError("nested too deep, or too large")
    wanted = rules.schema.value_of(key, raw)
    if not _sane(wanted):  # validation makes a number of "Infinity"
        raise ValueError("a number out of bounds")
    cut, dropped = bound_memo({key: wanted}, rules.count_tokens, _PATCH_BUDGETS * rules.budget)
    if dropped and key not in cut:
        raise ValueError("far over the budget")
    return cut[key] if dropped else wanted


def _sane(value: Any) -> bool:
    """Tell whether a value can be walked through: without recursion, which a deep one exhausts."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    parts = 0
    while waiting:
        part, depth = waiting.pop()
        children = _children(part)
        parts += 1
        # The level of the top-level key counts too.
        too_deep = bool(children) and depth + 1 >= MAX_DEPTH
        if too_deep or parts + len(children) > _MOST_PARTS or not _bounded(part):
            return False
        waiting += [(child, depth + 1) for child in children]
    return True


def _children(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(cast("Mapping[Any, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


def _bounded(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _MOST_CHARS
    return not isinstance(value, int | float) or -_MOST_NUMBER < value < _MOST_NUMBER


@dataclass(frozen=True)
class _Ground:
    """What the new value of a key is held to: the Facts cited and behind it, and the old value."""

    facts: tuple[Fact, ...]
    before: Any
    wanted: Any
    names: frozenset[str]
    kept: frozenset[str] = frozenset()
    """Words of the Facts that are kept under a label: the model was shown them, others are not."""

    @cached_property
    def old(self) -> frozenset[str]:
        """The texts that stand there already: they were checked, and pruned since."""
        return frozenset([*_leaves(self.before), *_free_keys(self.before, self.names)])

    @cached_property
    def siblings(self) -> frozenset[str]:
        return frozenset([*self.old, *_free_keys(self.wanted, self.names)])

    @cached_property
    def evidence(self) -> Evidence:
        return _evidence([*(f.content for f in self.facts), *sorted(self.old)])

    @cached_property
    def told(self) -> frozenset[str]:
        return frozenset(words("\n".join(f.content for f in self.facts)))

    @cached_property
    def longest(self) -> int:
        return max((len(words(f.content, stop=False)) for f in self.facts), default=0)

    def held(self, value: Mapping[str, Any]) -> Any:
        """Give the value of the one key in `value` without the entries that are not held."""
        (whole,) = value.values()
        if isinstance(whole, Mapping):
            entries = cast("Mapping[str, Any]", whole).items()
            return {k: v for k, v in entries if self.holds_entry({k: v})}
        if isinstance(whole, list):
            return [v for v in cast("list[Any]", whole) if self.holds_entry(v)]
        return whole if self.holds_entry(value) else None

    def holds_entry(self, entry: Any) -> bool:
        """Tell whether the Facts hold all texts, numbers and free keys of an entry."""
        keys = _free_keys(entry, self.names)
        return all(map(self._holds_key, keys)) and all(map(self._holds_text, _leaves(entry)))

    def _holds_key(self, key: str) -> bool:
        """Hold a key of the model's choice like a text; "tea 2" beside "tea" is but a counter."""
        if len(key) > _KEY_CHARS or _RATING.fullmatch(key):
            return False
        base = _COUNTER.sub("", key)
        return key in self.old or self._holds_text(_label(base if base in self.siblings else key))

    def _holds_text(self, text: str) -> bool:
        if text in self.old:
            return True
        if not self.told >= self.kept.intersection(words(text)):
            return False
        if re.match(r"-\d", text) and not _MINUS.search(self.evidence.folded):
            return False
        return not missing(text, self.evidence) and self._related(text)

    def _related(self, text: str) -> bool:
        """Tell whether a text shares meaning with the Facts, as far as words can tell.

        A fifth of its terms, as for a Fact and its messages; below that only a short text without
        a word of command, which is a paraphrase or a value such as "brief".
        """
        terms = set(words(text))
        shared = sum(t in self.told or _within(t, self.evidence) for t in terms)
        if not terms or shared >= SUPPORT_SHARE * len(terms):
            return True
        short = len(words(text, stop=False)) <= 2 * self.longest
        return short and len(terms) <= _PARAPHRASE_TERMS and not _COMMAND.search(text.casefold())


def _within(term: str, evidence: Evidence) -> bool:
    """Find a term of Chinese that its neighbours cut differently there."""
    return not term.isascii() and term in evidence.folded


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


def _prune(
    value: Mapping[str, Any],
    ids: Sequence[str],
    facts: Mapping[str, Fact],
    names: frozenset[str],
) -> Any:
    """Give the value of the one key in `value` without the entries that lost their Fact.

    Without any active Fact nothing of it is left: a paraphrase shares no word with the Fact that
    it rested on, so no comparison would find it. An outdated value is worse than a lost entry,
    since the memo can be rebuilt.
    """
    (whole,) = value.values()
    held = [facts[i] for i in ids if _active(facts.get(i))]
    if len(held) == len(ids) and held:
        return whole
    if not held:
        return None
    behind = _Behind([facts[i] for i in ids if i in facts and not _active(facts[i])], held, names)
    if isinstance(whole, Mapping):
        entries = cast("Mapping[str, Any]", whole).items()
        return {k: v for k, v in entries if not behind.lost({k: v})}
    if isinstance(whole, list):
        return [v for v in cast("list[Any]", whole) if not behind.lost(v)]
    return None if behind.lost(value) else whole


@dataclass(frozen=True)
class _Behind:
    """The Facts behind a key, superseded and active, and the keys that the schema gives."""

    gone: Sequence[Fact]
    active: Sequence[Fact]
    names: frozenset[str]

    @cached_property
    def evidence(self) -> Evidence:
        return _evidence([f.content for f in self.active])

    def lost(self, entry: Any) -> bool:
        """Tell whether an entry rests on a superseded Fact, or may do so.

        It does where the active Facts lack one of its specifics. Otherwise the better support
        decides; where both are equal, none included, the entry may be the outdated one.
        """
        labels = [_label(_COUNTER.sub("", key)) for key in _free_keys(entry, self.names)]
        text = "\n".join([*_leaves(entry), *labels])
        if missing(text, self.evidence):
            return True
        if all(missing(text, _evidence([f.content])) for f in self.gone):
            return False
        return self._best(entry, self.gone) >= self._best(entry, self.active)

    def _best(self, entry: Any, facts: Sequence[Fact]) -> float:
        return max((_support(entry, fact) for fact in facts), default=0.0)


def _supported(entry: Any, facts: Sequence[Fact]) -> bool:
    return any(_support(entry, fact) >= _SHARED for fact in facts)


def _support(entry: Any, fact: Fact) -> float:
    """Return the share of an entry's content words that a Fact holds; 0 where specifics differ."""
    terms = set(_terms(entry))
    if not terms or missing("\n".join(_leaves(entry)), _evidence([fact.content])):
        return 0.0
    told = set(words(fact.content))
    # What has digits is held, also where it is written another way: 1500 and 1,500.
    return sum(t in told or any(c.isdigit() for c in t) for t in terms) / len(terms)


def _evidence(texts: Iterable[str]) -> Evidence:
    return Evidence(tuple((text, None) for text in texts))


def _terms(entry: Any) -> list[str]:
    return words("\n".join(_leaves(entry)))


def _leaves(value: Any) -> list[str]:
    """List the texts and numbers in a value; a rating such as a confidence is no claim."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return [t for k, v in items if not _is_rating(k, v) for t in _leaves(v)]
    if isinstance(value, list):
        return [text for item in cast("list[Any]", value) for text in _leaves(item)]
    if isinstance(value, str):
        return [value]
    return [_digits(value)] if _is_number(value) else []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_rating(key: str, value: Any) -> bool:
    return _is_number(value) and _RATING.fullmatch(key) is not None


def _digits(number: float) -> str:
    whole = isinstance(number, float) and number.is_integer()
    return str(int(number)) if whole else str(number)


def _free_keys(value: Any, names: frozenset[str]) -> list[str]:
    """List the keys at any depth that the model chose."""
    below = [key for child in _children(value) for key in _free_keys(child, names)]
    if not isinstance(value, Mapping):
        return below
    return [*(key for key in cast("Mapping[str, Any]", value) if key not in names), *below]


def _label(key: str) -> str:
    """Write a key as words: favoriteColor and favorite_color as "favorite color"."""
    parted = re.sub(r"(?<=[a-z])[A-Z](?=[a-z])", lambda m: f" {m.group().lower()}", key)
    return parted.replace("_", " ")


def _properties(schema: Any) -> Iterator[str]:
    """Give the names of all properties in a JSON Schema."""
    if isinstance(schema, Mapping):
        parts = cast("Mapping[str, Any]", schema)
        named = parts.get("properties")
        if isinstance(named, Mapping):
            yield from cast("Mapping[str, Any]", named)
    for child in _children(schema):
        yield from _properties(child)


def _empty(value: Any) -> bool:
    """Tell what says nothing; 0 and False do say something."""
    return value is None or value in ("", [], {})


def _active(fact: Fact | None) -> bool:
    """Tell whether a Fact may stand behind the memo, which every reader of the user sees."""
    return fact is not None and fact.validity == "active" and not fact.access
