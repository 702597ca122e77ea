"""A page in a terminal: headings, and text wrapped to its width, Chinese characters being two."""

import re
import sys
import unicodedata

WIDTH = 92
# A Chinese character with the punctuation that must not begin a line, or a word with its spaces.
_WORD = re.compile(r"[\u2e80-\uffef][，。；：！？、）”]*|[^\s\u2e80-\uffef]+\s*|\s+")


def bold(text: str) -> str:
    """Make a text bold on a terminal, and leave it plain in a file."""
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() else text


def heading(text: str) -> None:
    """Print a line that begins a section."""
    print(f"\n{bold(f'== {text} ')}{'=' * max(3, WIDTH - columns(text) - 4)}")


def columns(text: str) -> int:
    """Count the columns that a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def show(text: str, first: str = "  ", rest: str | None = None) -> None:
    """Print a text wrapped to the page, `first` before its first line and `rest` before others."""
    rest = " " * columns(first) if rest is None else rest
    for paragraph in text.splitlines() or [""]:
        line = first
        for word in _WORD.findall(paragraph):
            if columns(line + word.rstrip()) > WIDTH and line not in (first, rest):
                print(line.rstrip())
                line = rest
            line += word
        print(line.rstrip())
        first = rest
