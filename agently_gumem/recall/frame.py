"""Content made safe to stand in a prompt: one line, no delimiter, no section head, no slot."""

import re

ITEM_CHARS = 600
"""Characters of one item; the rest is cut and marked with an ellipsis."""

# Invisible characters that could hide a delimiter from a pattern but not from a model: controls,
# zero-width and direction marks, variation tags. The joiner of emoji (U+200D) stays.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u2069"
    "\ufeff\U000e0000-\U000e007f]"
)
_DELIMITER = re.compile(r"<(?=[\s\u200d]*/?[\s\u200d]*memory|\|)", re.IGNORECASE)
_SECTION = re.compile(r"\[([^\W\d_][\w ./-]{0,60})\](?=\s*[:：])")
_HEAD_END = re.compile(r"\](?=\s*[:：])")


def neutralise(text: str, limit: int | None = ITEM_CHARS) -> str:
    """Make content one harmless line; doing it twice changes nothing more.

    Args:
        text: What a user, a model or a document said.
        limit: Characters at most, ellipsis included; None cuts nothing.

    Returns:
        One line in which the memory's delimiters and markers of chat templates can't stand, no
        head such as `[INPUT]:` opens a section of Agently's prompt, and `${` is no slot.
    """
    line = " ".join(_INVISIBLE.sub("", text).split())
    line = _DELIMITER.sub("‹", line)
    line = _HEAD_END.sub(")", _SECTION.sub(r"(\1)", line)).replace("${", "$ {")
    if limit is not None and len(line) > limit:
        line = line[: limit - 1].rstrip() + "…"
    return line
