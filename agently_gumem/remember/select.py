"""What may be remembered: secrets, numbers and special content become typed placeholders.

Runs before anything is stored, logged or sent to a model. Checksums come from python-stdnum,
patterns of provider keys from detect-secrets, telephone numbers from phonenumbers; each is
imported at its first use.
"""

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from agently_gumem.privacy import Category, PrivacyPolicy, Selection, Treatment, event_key
from agently_gumem.records import earliest, union
from agently_gumem.remember._lexicon import CATEGORIES

Found = tuple[int, int, str]
"""Start, end, category."""

# Characters that are not seen: soft hyphen, joiners, direction marks, variation selectors, tags.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e007f]"
)
_VARIANT = re.compile("[^\x00-\x7f\u3400-\u4dbf\u4e00-\u9fff\u3001-\u3003\uff0c\uff01\uff1f]")
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d"), "-")
# One pass is enough for text that people write; a crafted one can uncover more.
_MAX_PASSES = 8

_NOISE_EVENTS = """
    scroll scrolling hover hovering mousemove mouseover mouseenter mouseleave mouseout cursor
    cursormove pointermove focus blur resize expand expanded expandpanel panelexpanded panelexpand
    collapse collapsed collapsepanel panelcollapsed toggle togglepanel panel dwellscroll viewport
    keydown keyup touchmove strayclick misclick accidentalclick rageclick deadclick idle
    impression heartbeat pagination pagecursor nextcursor nexttoken pagetoken tooltoken csrf nonce
    onetimetoken sessiontoken uistate temporarysort panelstate
"""
_NOISE = frozenset(_NOISE_EVENTS.split())
_NOISE_TEXT = re.compile(
    r"\s*(?:scroll(?:ed|ing)?|hover(?:ed|ing)?|mouse ?move[ds]?|cursor|expand(?:ed)?|collapsed?|"
    r"滚动|悬停|鼠标移动|光标|展开|收起)(?![a-z])",
    re.IGNORECASE,
)

_SPECIAL = frozenset(CATEGORIES)


@dataclass(frozen=True)
class Selector:
    """Replaces what is not for memory by placeholders such as `[secret]` and `[special]`.

    Selecting twice changes nothing more. What is not replaced stays as it was, to the character.
    """

    policy: PrivacyPolicy = field(default_factory=PrivacyPolicy)

    def __call__(self, text: str) -> Selection:
        """Select one text."""
        found: Counter[str] = Counter()
        special: Counter[str] = Counter()
        drop = False
        for _ in range(_MAX_PASSES):
            shadow, hidden = _shadow(text)
            places = self._taken_out(shadow)
            if not places:
                break
            whole = _merged(places)
            text = _replaced(text, whole, hidden)
            found.update(_placeholder(category) for _, _, category in whole)
            # Not of the joined ones: one clause may say things of two categories.
            special.update(category for _, _, category in places if category in _SPECIAL)
            drop = drop or any(self._of(c).action == "drop" for _, _, c in places)
        kept = self._kept(_shadow(text)[0])
        special.update(category for _, _, category in kept if category in _SPECIAL)
        limits = [self._of(c) for c in dict.fromkeys(category for _, _, category in kept)]
        return Selection(
            text=text,
            found=dict(found),
            drop=drop,
            access=tuple(union(t.access for t in limits if t.access)),
            lifetime=earliest(t.lifetime for t in limits),
            special=dict(special),
        )

    def _of(self, category: str) -> Treatment:
        return self.policy.treatment(cast("Category", category))

    def _taken_out(self, shadow: str) -> list[Found]:
        """Find what goes: first what has a form of its own, then the statements around it."""
        finders = _finders()
        for places in (
            finders.with_a_form(shadow, self.policy),
            finders.special(shadow, self.policy),
        ):
            if taken := [p for p in places if self._of(p[2]).action != "keep"]:
                return taken
        return []

    def _kept(self, shadow: str) -> list[Found]:
        """Find what stays for a time or for some readers only."""
        if not any(self._of(c).limited for c in _kinds()):
            return []
        finders = _finders()
        places: list[Found] = [
            *finders.with_a_form(shadow, self.policy),
            *finders.special(shadow, self.policy),
        ]
        return [p for p in places if self._of(p[2]).limited]


@lru_cache(maxsize=1)
def _finders() -> Any:
    from agently_gumem.remember import finding  # with the first text: it takes its time to load

    return finding


def _kinds() -> tuple[str, ...]:
    return ("secret", "card", "bank-account", "id-number", "email", "phone", *CATEGORIES)


def _placeholder(category: str) -> str:
    return "special" if category in _SPECIAL else category


def is_noise(event_type: str, content: str, policy: PrivacyPolicy | None = None) -> bool:
    """Tell whether an event is state of the screen, or says nothing at all."""
    if not _INVISIBLE.sub("", content).strip():
        return True
    kind = event_key(event_type)
    if policy is not None:
        if any(kind == event_key(wanted) for wanted in policy.wanted_events):
            return False
        if any(kind == event_key(noise) for noise in policy.noise_events):
            return True
    if kind in ("", "message"):
        return False
    return kind in _NOISE or (kind == "action" and _NOISE_TEXT.match(content) is not None)


def _shadow(text: str) -> tuple[str, list[int]]:
    """Give the text as it reads, and after how many of its characters one is not seen.

    Full-width and other digits and letters become ASCII, dashes one dash, invisible characters
    go; each other character keeps its place, so that a place found here is one in the text.
    """
    if text.isascii():
        return text, []
    hidden = [match.start() - i for i, match in enumerate(_INVISIBLE.finditer(text))]
    plain = _INVISIBLE.sub("", text) if hidden else text
    return _VARIANT.sub(_ascii, plain.translate(_DASHES)), hidden


def _ascii(match: re.Match[str]) -> str:
    return _plain_form(match.group())


@lru_cache(maxsize=4096)
def _plain_form(char: str) -> str:
    digit = unicodedata.decimal(char, None)
    form = str(digit) if digit is not None else unicodedata.normalize("NFKC", char)
    return form if len(form) == 1 else char


def _merged(places: Sequence[Found]) -> list[Found]:
    """Join overlapping places, sorted; the kind of the first one stands."""
    merged: list[Found] = []
    for start, end, kind in sorted(places, key=lambda p: (p[0], -p[1])):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
        else:
            merged.append((start, end, kind))
    return merged


def _replaced(text: str, places: Sequence[Found], hidden: list[int]) -> str:
    parts: list[str] = []
    done = 0
    for start, end, category in places:
        first = start + bisect_right(hidden, start)
        parts += [text[done:first], f"[{_placeholder(category)}]"]
        done = end - 1 + bisect_right(hidden, end - 1) + 1
    return "".join([*parts, text[done:]])
