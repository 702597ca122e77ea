"""Values that no longer hold: which texts say one again, and how a text is told without it."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from agently_gumem.recall.index import UserIndex
from agently_gumem.records import Fact
from agently_gumem.text import CJK, words

MOST = 0.6  # of the words that a superseded Fact alone says: a turn with them says it again
_NAME = re.compile(r"(?<!^)(?<![.?!:]\s)\b[A-Z][\w'’-]+")
# Where a sentence about a change names what was before. A slot ends at the next mark.
_SLOT = "(?P<old>[^,;.!?，；。！？、()（）]{1,60}?)"
_END = r"(?=\s*(?:[,;.!?，；。！？、()（）]|$))"
_SLOTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\bfrom {_SLOT}(?= (?:to|into|over to|back to)\b)",
        rf"\bnot {_SLOT}(?=,? but\b)",
        rf"\b(?:not|no longer|instead of|rather than|in place of|replac(?:es|ed|ing)|previously|"
        rf"formerly|originally|earlier|before that|used to|was|were|no more)(?: to)? {_SLOT}"
        rf"(?= (?:and|but|any ?more)\b|{_END[3:]}",
        rf"\b(?:away from|out of|up from|down from|changed from|left|quit|gave up) {_SLOT}"
        rf"(?= (?:and|but|for|to|in|on|at)\b|{_END[3:]}",
        rf"(?:^|(?<=\s)|(?<=:)){_SLOT}\s*(?:->|=>|→)",
        r"(?:[从由自])(?P<old>[^，。；！？、,;.!?]{1,20}?)(?=搬|换|改|变|调|升|降|转|涨|减|提|增|移|推|延|跳|到|至|迁)",
        r"(?:不再|不是|而不是|而非|并非|取代了?|代替了?|替代了?|离开了?|放弃了?|告别了?|原来的?是?|原先的?是?|之前的?是?|以前的?是?"
        r"|此前的?是?|曾经?|不)(?P<old>[^，。；！？、,;.!?]{1,20}?)(?=而是|了?(?:[，。；！？、,;.!?（(]|$)|，)",
        r"[把将](?P<old>[^，。；！？、,;.!?]{1,20}?)(?=换|改|变|调|升级|更换|更改)",
        r"(?:(?<=[，。；：])|(?<=用户)|^)(?P<old>[^，。；！？、,;.!?]{1,20}?)(?=(?:改|换|变|调整|升级|更改|更换)(?:成|为|到|作))",
    )
)
# What is left of the words around an old value once it is gone.
_TIDY = (
    (re.compile(r"\s*[,(（]?\s*\b(?:not|instead of|rather than)\s*…\s*[)）]?(?!,? but)", re.I), ""),
    (re.compile(r"\bnot …,? but ", re.I), ""),
    (re.compile(r"\bfrom … (?=(?:to|into|over to|back to)\b)", re.I), ""),
    (re.compile(r"[，,]?(?:而不是|而非)…"), ""),
    (re.compile(r"[从由自]…(?=搬|换|改|变|调|升|降|转|涨|减|提|增|移|推|延|跳|到|至|迁)"), ""),
    (re.compile(r"不是…[，,]?(?:而)?是"), "是"),
)


@dataclass(frozen=True)
class OldValue:
    """What a superseded Fact says and its successor does not."""

    gone: frozenset[str]
    """Its numbers; else its names; else its words."""
    shared: frozenset[str]
    """What both say: the thing that is told of."""
    fresh: frozenset[str]
    """What the successor alone says."""
    least: float
    """Share of `gone` that makes a text say it again."""

    def held(self, terms: Collection[str]) -> bool:
        """Tell whether a text of these terms holds the value."""
        return len(self.gone.intersection(terms)) >= self.least * len(self.gone)

    def meant(self, terms: Collection[str]) -> bool:
        """Tell whether a text of these terms is about what the value was of, or about its change.

        Half of what both Facts say stands in it, or what is new.
        """
        return 2 * len(self.shared.intersection(terms)) >= len(self.shared) or (
            bool(self.fresh) and len(self.fresh.intersection(terms)) >= MOST * len(self.fresh)
        )


def terms_of(text: str) -> frozenset[str]:
    """Split a text into terms; a number is the same with and without its commas."""
    return frozenset(t.replace(",", "") if t[0].isdigit() else t for t in words(text))


def old_values(index: UserIndex) -> list[OldValue]:
    """List what superseded Facts alone say."""
    found = (_old_value(fact.content, now.content) for fact, now in _superseded(index))
    return [value for value in found if value is not None]


def _old_value(before: str, after: str) -> OldValue | None:
    old, new = terms_of(before), terms_of(after)
    left = old - new
    if not left:
        return None
    numbers = frozenset(t for t in left if any(ch.isdigit() for ch in t))
    names = frozenset(t for name in _NAME.findall(before) for t in terms_of(name)) & left
    least = 1.0 if numbers else MOST
    return OldValue(numbers or names or left, old & new, new - old, least)


def _superseded(index: UserIndex) -> Iterator[tuple[Fact, Fact]]:
    """Give each superseded Fact with the one that stands at the end of its chain."""
    for fact in index.replaced():
        end = present(index, fact)
        if end is not None:
            yield fact, end


def present(index: UserIndex, fact: Fact) -> Fact | None:
    """Follow a superseded Fact to the one that holds at present; None where none is known."""
    seen: set[str] = set()
    end: Fact | None = fact
    while end is not None and end.superseded_by and end.id not in seen:
        seen.add(end.id)
        end = index.facts.get(end.superseded_by)
    return end if seen and end is not None else None


def before(index: UserIndex, fact: Fact) -> list[Fact]:
    """List the Facts that this one took the place of, over its whole chain, the nearest first."""
    chain: dict[str, Fact] = {}
    waiting = [fact]
    while waiting:
        for earlier in index.replaced_by(waiting.pop(0).id):
            if earlier.id not in chain and earlier.id != fact.id:
                chain[earlier.id] = earlier
                waiting.append(earlier)
    return list(chain.values())


def without(text: str, olds: Iterable[str], kept: str = "") -> str:
    """Tell a text of a change without what was before: "moved from … to Oslo" as "moved to Oslo".

    Args:
        text: A Fact, a Summary or a line of the memo.
        olds: What was said before.
        kept: What holds at present: none of its words is an old value.
    """
    gone = {t for old in olds for t in _pieces(old)} - set(_pieces(kept))
    if not gone:
        return text
    for slot in _SLOTS:
        text = slot.sub(lambda m: _masked(m, gone), text)
    if "…" in text:
        for pattern, instead in _TIDY:
            text = pattern.sub(instead, text)
    return text.strip()


def _masked(match: "re.Match[str]", gone: Collection[str]) -> str:
    whole, old = match.group(), match["old"]
    return whole.replace(old, "…", 1) if gone.intersection(_pieces(old)) else whole


def _pieces(text: str) -> frozenset[str]:
    """Split a text into terms; of Chinese the pairs that no border of a sentence can lose."""
    terms = terms_of(text)
    return frozenset(t for t in terms if not (len(t) == 1 and CJK.match(t)))
