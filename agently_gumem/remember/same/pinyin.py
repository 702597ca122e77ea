"""How Chinese characters sound in Latin letters: whether 李伟 is Li Wei."""

import re
from bisect import bisect_right
from functools import lru_cache
from importlib.resources import files

from agently_gumem.text import CJK, fold

# The 3,755 characters of GB 2312's first level stand in the order of their sound.
_FIRST, _LAST = "啊".encode("gb2312"), "座".encode("gb2312")


def sounds(name: str) -> str:
    """Return a Chinese name in letters, without spaces; empty where a character has no sound."""
    parts = [_syllable(char) for char in name]
    return "".join(parts) if all(parts) else ""


def heard(name: str, text: str) -> bool:
    """Tell whether whole characters of a Chinese text, side by side, sound like a Latin name."""
    letters = re.sub(r"[^a-z]", "", fold(name).replace("ü", "u"))
    parts = [_syllable(char) if CJK.match(char) else "" for char in text]
    return len(letters) > 1 and any(
        _begins(parts[i : i + len(letters)], letters) for i in range(len(parts))
    )


def _syllable(char: str) -> str:
    """Return the sound under which the standard files a character, or one of a given name."""
    keys, syllables, others = _table()
    if char in others:
        return others[char]
    try:
        code = char.encode("gb2312")
    except UnicodeEncodeError:
        return ""
    return syllables[bisect_right(keys, code) - 1] if _FIRST <= code <= _LAST else ""


@lru_cache(maxsize=1)
def _table() -> tuple[list[bytes], list[str], dict[str, str]]:
    """Read the first character of each sound, and characters outside the first level."""
    text = files("agently_gumem.remember.same").joinpath("pinyin.txt").read_text(encoding="utf-8")
    pairs = [line.split() for line in text.splitlines()]
    coded = [(char.encode("gb2312", "ignore"), sound, char) for sound, char in pairs]
    first = sorted((code, sound) for code, sound, _ in coded if _FIRST <= code <= _LAST)
    others = {char: sound for code, sound, char in coded if not _FIRST <= code <= _LAST}
    return [code for code, _ in first], [sound for _, sound in first], others


def _begins(parts: list[str], letters: str) -> bool:
    """Spell letters out with the first parts; 吕 may be written Lv as well as Lu."""
    for part in parts:
        if not part or not letters.startswith((part, part.replace("u", "v"))):
            break
        letters = letters[len(part) :]
        if not letters:
            return True
    return False
