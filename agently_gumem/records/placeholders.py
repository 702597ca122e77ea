"""What stands in a text for what was taken out of it."""

SPECIAL = "[special]"
"""For what tells of somebody's health, faith and the like."""
EMPTIED = "[forgotten]"
"""For what was forgotten."""
PLACEHOLDERS = (
    "[secret]",
    "[card]",
    "[id-number]",
    "[bank-account]",
    "[email]",
    "[phone]",
    SPECIAL,
    EMPTIED,
)


def holds_placeholder(text: str) -> bool:
    """Tell whether something was taken out of a text."""
    return any(mark in text for mark in PLACEHOLDERS)
