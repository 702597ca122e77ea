"""What may be remembered: secrets and numbers of people and accounts become typed placeholders.

Runs before anything is stored, logged or sent to a model. Checksums come from python-stdnum,
patterns of provider keys from detect-secrets; both are imported at the first use.
"""

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache

from agently_gumem.privacy import PrivacyPolicy
from agently_gumem.remember._sensitive import Found, find

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
    keydown keyup touchmove
"""
_NOISE = frozenset(_NOISE_EVENTS.split())
_NOISE_TEXT = re.compile(
    r"\s*(?:scroll(?:ed|ing)?|hover(?:ed|ing)?|mouse ?move[ds]?|cursor|expand(?:ed)?|collapsed?|"
    r"滚动|悬停|鼠标移动|光标|展开|收起)(?![a-z])",
    re.IGNORECASE,
)


# What stands in a text for what was taken out of it.
PLACEHOLDERS = ("[secret]", "[card]", "[id-number]", "[bank-account]")


@dataclass(frozen=True)
class Selection:
    """A text as it may be remembered, and how much of each kind was taken out."""

    text: str
    found: Mapping[str, int] = field(default_factory=dict[str, int])
    """Kind of placeholder -> how many."""
    drop: bool = False
    """The whole message is not for memory."""
    access: tuple[str, ...] = ()
    """Labels under which what was kept may be shown."""
    lifetime: timedelta | None = None
    """How long what was kept may be kept."""


@dataclass(frozen=True)
class Selector:
    """Replaces what is not for memory: `[secret]`, `[card]`, `[id-number]`, `[bank-account]`.

    Selecting twice changes nothing more. What is not replaced stays as it was, to the character.
    """

    policy: PrivacyPolicy = field(default_factory=PrivacyPolicy)

    def __call__(self, text: str) -> Selection:
        """Select one text."""
        found: Counter[str] = Counter()
        for _ in range(_MAX_PASSES):
            shadow, hidden = _shadow(text)
            places = _merged(find(shadow))
            if not places:
                break
            text = _replaced(text, places, hidden)
            found.update(kind for _, _, kind in places)
        return Selection(text, dict(found))


def is_noise(event_type: str, content: str) -> bool:
    """Tell whether an event is state of the screen, or says nothing at all."""
    if not _INVISIBLE.sub("", content).strip():
        return True
    kind = re.sub(r"[^a-z]", "", event_type.lower())
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


def _merged(places: Iterator[Found]) -> list[Found]:
    """Join overlapping places, sorted; the kind of the first one stands."""
    merged: list[Found] = []
    for start, end, kind in sorted(places, key=lambda p: (p[0], -p[1])):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
        else:
            merged.append((start, end, kind))
    return merged


def _replaced(text: str, places: list[Found], hidden: list[int]) -> str:
    parts: list[str] = []
    done = 0
    for start, end, kind in places:
        first = start + bisect_right(hidden, start)
        parts += [text[done:first], f"[{kind}]"]
        done = end - 1 + bisect_right(hidden, end - 1) + 1
    return "".join([*parts, text[done:]])
