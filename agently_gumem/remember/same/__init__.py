"""What forbids that two sentences say the same, whatever a model holds of them (pure)."""

from agently_gumem import dates
from agently_gumem.remember import specifics as sp
from agently_gumem.remember.same.amounts import amounts, numbers_differ
from agently_gumem.remember.same.frame import reframed
from agently_gumem.remember.same.moments import dates_differ
from agently_gumem.remember.same.names import named, names_differ
from agently_gumem.remember.same.persons import persons_differ
from agently_gumem.remember.same.polarity import contradict
from agently_gumem.text import fold, is_chinese

__all__ = ["ACROSS_SIMILARITY", "differs"]

# Across two languages there are no words to compare: below this cosine they tell other things.
# Bundled embedder: 32 of 35 translations reach it, 6 of 16 pairs that differ in the thing told.
ACROSS_SIMILARITY = 0.61


def differs(a: str, b: str, similarity: float | None = None) -> str:
    """Tell what forbids that two texts say the same.

    No embedder tells a duplicate from a near miss; a rule that keeps two Facts apart loses
    nothing, one that merges them does.

    Args:
        a: A text.
        b: Another one.
        similarity: Their cosine by the bundled embedder, where it is known; it counts only across
            two languages, and only where no name and no amount is shared.

    Returns:
        "number", "date", "negation", "subject", "name", "unrelated", or "" where nothing forbids.
    """
    if fold(a) == fold(b):
        return ""
    one, other = dates.normal(a), dates.normal(b)
    across = is_chinese(one) != is_chinese(other)
    checks = (
        ("number", lambda: _numbers_differ(one, other)),
        ("date", lambda: dates_differ(one, other)),
        ("negation", lambda: contradict(one, other)),
        ("subject", lambda: persons_differ(one, other)),
        ("name", lambda: names_differ(one, other) or (not across and reframed(one, other))),
        ("unrelated", lambda: across and _unrelated(one, other, similarity)),
    )
    return next((reason for reason, forbids in checks if forbids()), "")


def _numbers_differ(a: str, b: str) -> bool:
    return numbers_differ(a, b) or sp.identifiers(a) != sp.identifiers(b)


def _unrelated(a: str, b: str, similarity: float | None) -> bool:
    if similarity is None or similarity >= ACROSS_SIMILARITY:
        return False
    return not (amounts(a) or named(a) or named(b))
