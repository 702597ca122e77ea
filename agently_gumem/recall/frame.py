"""Content made safe to stand in a prompt: one line, no delimiter, no section head, no slot."""

import re
import unicodedata

ITEM_CHARS = 600
"""Characters of one item; the rest is cut and marked with an ellipsis."""

# What could hide a delimiter from a pattern but not from a model: controls, format characters
# (category Cf), variation selectors, and letters and marks that are not shown at all. The joiner
# U+200D has a rule of its own.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891"
    "\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Between two emoji the joiner makes one of them; no delimiter holds an emoji.
_EMOJI = "[\u2190-\u21ff\u2600-\u2767\u2794-\u27bf\u2b00-\u2bff\U0001f300-\U0001faff]"
_LOOSE_JOINER = re.compile(f"(?<!{_EMOJI})\u200d|\u200d(?!{_EMOJI})")

# What is looked for stands in the line's compatibility form (NFKC), where the wide form of a
# character is the plain one; what is found is replaced in the line itself. Wide forms of `<>[]$`:
_MARK = re.compile("[<>\\[\\]$\ufe47\ufe48\ufe64\ufe65\ufe69\uff04\uff1c\uff1e\uff3b\uff3d]")
_HARMLESS = (
    (re.compile(r"<(?=(?:[^\w<‹]|_)*memory|\|)", re.IGNORECASE), "‹"),
    (re.compile(r"(?<=\|)>"), "›"),
    (re.compile(r"\[(?=[^\W\d_][\w ./-]{0,60}\]\s*:)"), "("),
    (re.compile(r"\](?=\s*:)"), ")"),
    (re.compile(r"\$(?=\{)"), "$ "),
)


def neutralise(text: str, limit: int | None = ITEM_CHARS) -> str:
    """Make content one harmless line; doing it twice changes nothing more.

    Args:
        text: What a user, a model or a document said.
        limit: Characters at most, ellipsis included; None cuts nothing.

    Returns:
        One line in which the memory's delimiters and markers of chat templates can't stand, in
        plain or wide characters; no head such as `[INPUT]:` opens a section of Agently's prompt,
        and `${` is no slot. What is not shown, such as zero-width characters, is dropped.
    """
    visible = _LOOSE_JOINER.sub("", _INVISIBLE.sub("", text))
    line = " ".join(visible.split())
    if _MARK.search(line):
        line = _defused(line)
    if limit is not None and len(line) > limit:
        line = line[: limit - 1].rstrip() + "…"
    return line


def _defused(line: str) -> str:
    """Replace each mark that the compatibility form of the line shows to be part of a delimiter."""
    shapes = list(line) if line.isascii() else [unicodedata.normalize("NFKC", c) for c in line]
    shape = "".join(shapes)
    places = [place for place, part in enumerate(shapes) for _ in part]
    out = list(line)
    for pattern, instead in _HARMLESS:
        for found in pattern.finditer(shape):
            out[places[found.start()]] = instead
    return "".join(out)
