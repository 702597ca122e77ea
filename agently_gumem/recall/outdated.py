"""Values that no longer hold: which texts say one again, and how a text is told without it."""

import functools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from agently_gumem.recall.index import UserIndex
from agently_gumem.recall.overlap import NAME
from agently_gumem.records import Fact
from agently_gumem.text import CJK, words

MOST = 0.6  # of the words that a superseded Fact alone says: a turn with them says it again
# Where a sentence about a change names what was before; a slot ends at the next mark.
_SLOT = "(?P<old>[^,;.!?，；。！？、()（）]{1,60}?)"
_CJK_SLOT = "(?P<old>[^,;.!?，；。！？、()（）]{1,20}?)"
_END = r"\s*(?:[,;.!?，；。！？、()（）]|$)"
_ON = "搬|换|改|变|调|升|降|转|涨|减|提|增|移|推|延|跳|到|至|迁"
_SURE = (
    rf"\bfrom {_SLOT}(?= (?:to|into|over to|back to)\b)",
    rf"[从由自]{_CJK_SLOT}(?={_ON})",
)
_MAYBE = (
    rf"\bnot {_SLOT}(?=,? but\b)",
    rf"(?:[,;(—-]|\band)\s*not {_SLOT}(?={_END})",
    rf"\b(?:no longer|instead of|rather than|in place of|replac(?:es|ed|ing)|previously|formerly|"
    rf"originally|earlier|used to|was|were) {_SLOT}(?= (?:and|but)\b|{_END})",
    rf"\b(?:away from|out of|up from|down from|changed from|left|quit|gave up) {_SLOT}"
    rf"(?= (?:and|but|for|to)\b|{_END})",
    rf"\b(?:after|since|when) {_SLOT}(?= (?:left|retired|quit|closed|moved|ended|died|broke)\b)",
    rf"(?:^|[，。；：、因由])(?:为|于)?{_CJK_SLOT}(?=(?:退休|离职|离开|停产|关门|倒闭|卖掉|坏)了?)",
    rf"{_SLOT}\s*(?:->|=>|→)",
    rf"(?:不再|不是|而不是|而非|并非|取代了?|代替了?|替代了?|离开了?|放弃了?|原来的?是?|原先的?是?|之前的?是?|以前的?是?"
    rf"|此前的?是?|曾经?){_CJK_SLOT}(?=而是|了?{_END})",
    rf"不{_CJK_SLOT}(?=了{_END})",
    r"(?P<old>\d[\d.,:]*[^\W\d]{0,2}?|(?:周|星期|礼拜)[一二三四五六日天])(?=(?:改|换|变|调整|升级)(?:成|为|到|至))",
)
_SLOTS = tuple(
    [(re.compile(pattern, re.IGNORECASE), True) for pattern in _SURE]
    + [(re.compile(pattern, re.IGNORECASE), False) for pattern in _MAYBE]
)
# What is left of the words around an old value once it is gone.
_TIDY = (
    (re.compile(r"\bnot …,? but ", re.IGNORECASE), ""),
    (re.compile(r"\s*[,;(—-]?\s*\b(?:not|instead of|rather than) …\)?", re.IGNORECASE), ""),
    (re.compile(r"\bfrom … (?=(?:to|into|over to|back to)\b)", re.IGNORECASE), ""),
    (re.compile(r"[，,]?(?:而不是|而非)…"), ""),
    (re.compile(rf"[从由自]…(?={_ON})"), ""),
    (re.compile(r"不是…[，,]?而?是"), "是"),
    (re.compile(r"[，,]不是…(?=[。！!]?$)"), ""),
    (re.compile(r"不再?…了?[，,]"), ""),
)


# What leads to an old value says nothing of the new one.
_LEADS = frozenset(
    {"longer", "left", "quit", "gave", "replac", "use", "previous", "former", "不再"}
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
    found = (old_value(fact.content, now.content) for fact, now in _superseded(index))
    return [value for value in found if value is not None]


def old_value(before: str, after: str) -> OldValue | None:
    """Say what a Fact says and its successor does not; None where that is nothing."""
    old, new = terms_of(before), terms_of(after)
    left = old - new
    if not left:
        return None
    numbers = frozenset(t for t in left if any(ch.isdigit() for ch in t))
    names = frozenset(t for name in NAME.findall(before) for t in terms_of(name)) & left
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


def without(text: str, olds: Sequence[str]) -> str:
    """Tell a text of a change without what was before: "moved from A to B" as "moved to B".

    Args:
        text: A Fact, a Summary or a line of the memo.
        olds: What was said before.

    Returns:
        The text as it is where it names no old value as one, or says nothing else.
    """
    gone = frozenset(term for old in olds for term in terms_of(old))
    letters = frozenset("".join(olds))
    told = text
    for slot, sure in _SLOTS:
        # "from Berlin to Rome" that was said before is no change.
        frame = {m["old"] for old in olds for m in slot.finditer(old)}
        told = slot.sub(functools.partial(_masked, frame, gone, letters, sure), told)
    if told == text:
        return text
    for pattern, instead in _TIDY:
        told = pattern.sub(instead, told)
    return told.strip() if _says_more(told, olds) else text


def _masked(
    frame: Collection[str],
    gone: frozenset[str],
    letters: frozenset[str],
    sure: bool,
    match: "re.Match[str]",
) -> str:
    old = match["old"]
    if old in frame or not _held(old, gone, letters, sure):
        return match[0]
    start = match.start("old") - match.start()
    return match[0][:start] + "…" + match[0][start + len(old) :]


def _held(slot: str, gone: frozenset[str], letters: frozenset[str], sure: bool) -> bool:
    """Tell whether what stands in a slot was said before: all of it, or where sure some of it."""
    terms = terms_of(slot)
    if sure:
        return not terms.isdisjoint(gone)
    return bool(terms) and all(
        term in gone or (CJK.match(term) is not None and letters.issuperset(term)) for term in terms
    )


def _says_more(text: str, olds: Sequence[str]) -> bool:
    """Tell whether a text says more than what all of the old ones said as well."""
    first, *others = map(terms_of, olds)
    return not terms_of(text) <= first.intersection(*others) | _LEADS
