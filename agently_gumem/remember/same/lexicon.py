"""Names that two languages write in their own ways: places, peoples, languages, brands, people."""

import re
from functools import lru_cache
from importlib.resources import files

from agently_gumem.text import fold

# Words that are names with a capital only: US and us, Mark and mark.
_WORDS = re.compile(
    r"\b(?:us|turkey|polish|mark|frank|apple|canon|oracle|ford|jack|bob|latin|amazon)\b"
)


def known_names(text: str) -> frozenset[str]:
    """Collect codes of the names that a text holds in either language.

    A country stands for its people and its language too: what is told of them tells which.
    """
    codes, order, latin, han = _table()
    folded = fold(_WORDS.sub(" ", text))
    english = {codes[match.group()] for match in latin.finditer(folded)}
    chinese = {order[match.lastindex - 1] for match in han.finditer(folded) if match.lastindex}
    return frozenset(english | chinese)


@lru_cache(maxsize=1)
def _table() -> tuple[dict[str, str], list[str], re.Pattern[str], re.Pattern[str]]:
    """Read the lines "english|other form=chinese|other form"; Chinese forms are patterns."""
    codes: dict[str, str] = {}
    order: list[str] = []
    chinese: list[str] = []
    text = files("agently_gumem.remember.same").joinpath("names.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        forms, _, own = line.partition("=")
        order.append(forms.split("|")[0])
        codes.update((form, order[-1]) for form in forms.split("|"))
        chinese.append(f"({own})")
    latin = "|".join(re.escape(form) for form in sorted(codes, key=len, reverse=True))
    return codes, order, re.compile(rf"(?<![\w.])(?:{latin})(?!\w)"), re.compile("|".join(chinese))
