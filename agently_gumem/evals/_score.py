"""What a memory made of a dialogue, held to its labels (pure)."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from agently_gumem.dates import resolve, written
from agently_gumem.evals._dialogues import Dialogue, Label
from agently_gumem.records import Fact
from agently_gumem.text import fold, is_chinese

Got = tuple[Fact, frozenset[int]]
"""A Fact, and the numbers of the messages that it cites."""


@dataclass
class Score:
    """Counts of one dialogue, or of several together; each `_of` is out of how many."""

    dialogues: int = 0
    expected: int = 0
    found: int = 0
    invented: int = 0
    """Facts that nobody stated, `wrong` among them."""
    wrong: int = 0
    """Of these, those about something expected, with another value, date, subject or polarity."""
    language: int = 0
    language_of: int = 0
    dates: int = 0
    dates_of: int = 0
    sources: int = 0
    sources_of: int = 0
    kinds: int = 0
    kinds_of: int = 0
    memo: int = 0
    memo_of: int = 0
    requests: int = 0
    tokens: int = 0

    def __add__(self, other: "Score") -> "Score":
        return Score(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Scores:
    """A score, and what went wrong, for people to read."""

    score: Score
    missed: tuple[str, ...] = ()
    """What was expected and not found."""
    invented: tuple[str, ...] = ()
    """The Facts that nobody stated."""
    memo: tuple[str, ...] = ()
    """What the memo should hold and doesn't, or the other way round (with a minus sign)."""


def judge(dialogue: Dialogue, got: Sequence[Got], memo: Mapping[str, Any]) -> Scores:
    """Hold the active Facts and the memo at the end of a dialogue to its labels."""
    matched = [(label, [g for g in got if _matches(label, g[0], dialogue)]) for label in
               dialogue.facts]  # fmt: skip
    fine = [*dialogue.facts, *dialogue.allowed]
    invented = [g for g in got if not any(_matches(label, g[0], dialogue) for label in fine)]
    score = Score(
        dialogues=1,
        expected=len(matched),
        found=sum(bool(found) for _, found in matched),
        invented=len(invented),
        wrong=sum(any(_near(label, fact) for label in fine) for fact, _ in invented),
        language=sum(is_chinese(f.content) == (dialogue.language == "zh") for f, _ in got),
        language_of=len(got),
    )
    for label, found in matched:
        _count(score, label, found)
    faults = _memo_faults(dialogue, memo)
    if faults is not None:
        score.memo, score.memo_of = int(not faults), 1
    return Scores(
        score,
        tuple(" + ".join("|".join(part) for part in label.has) for label, found in matched
              if not found),
        tuple(fact.content for fact, _ in invented),
        tuple(faults or ()),
    )  # fmt: skip


def _count(score: Score, label: Label, found: Sequence[Got]) -> None:
    """Count what is right about an expected Fact: its date, its sources, its kind."""
    if label.date:
        score.dates_of += 1
        score.dates += any(_dated(label, fact) for fact, _ in found)
    if not found:
        return
    if label.sources:
        score.sources_of += 1
        cited = frozenset[int]().union(*(numbers for _, numbers in found))
        score.sources += label.sources <= cited <= label.sources | label.may_cite
    if label.kinds:
        score.kinds_of += 1
        score.kinds += any(fact.kind in label.kinds for fact, _ in found)


def _matches(label: Label, fact: Fact, dialogue: Dialogue) -> bool:
    text = fold(fact.content)
    if not all(any(_stands(one, text) for one in part) for part in label.has):
        return False
    if any(_stands(one, text) for one in label.without):
        return False
    if label.subject and fold(label.subject) != fold(fact.subject):
        return False
    if label.guess and (fact.certainty != "inferred" or fact.confidence >= 0.5):
        return False
    return not label.date or _right_or_silent(label, fact, dialogue)


def _near(label: Label, fact: Fact) -> bool:
    """Tell whether a Fact is about what a label is about."""
    text = fold(fact.content)
    return any(_stands(one, text) for part in label.has for one in part)


def _stands(word: str, text: str) -> bool:
    """Find a word: it begins where a word begins, and a number is whole."""
    word = fold(word)
    before = r"(?<![a-z0-9])" if word[0].isascii() and word[0].isalnum() else ""
    after = r"(?![0-9])" if word[-1].isdigit() else ""
    return re.search(before + re.escape(word) + after, text) is not None


def _dated(label: Label, fact: Fact) -> bool:
    """Tell whether a Fact gives the date of its label, in its time range or its words."""
    start = fact.time_range.start if fact.time_range else None
    if start is not None:
        return start.date().isoformat().startswith(label.date)
    return _says(label, fact)


def _says(label: Label, fact: Fact) -> bool:
    """Tell whether the date of a label stands in the words of a Fact."""
    wanted = [int(part) for part in label.date.split("-")]
    held = any(_same_day(wanted, day) for _, day in written(fact.content))
    return held or _stands(label.date, fold(fact.content))


def _same_day(wanted: Sequence[int], day: Sequence[int | None]) -> bool:
    """Compare a date with a written one, which may leave out its year but nothing else of it."""
    return all(
        part == own or (part is None and place == 0)
        for place, (own, part) in enumerate(zip(wanted, day, strict=False))
    )


def _right_or_silent(label: Label, fact: Fact, dialogue: Dialogue) -> bool:
    """Tell whether what a Fact says of its date is right, or nothing.

    A word such as tomorrow needs the date beside it, also where the time range has it: the
    sentence alone goes on into Summaries and memo, and says something else a day later.
    """
    if resolve(fact.content, dialogue.said[0].at) and not _says(label, fact):
        return False
    silent = not (fact.time_range and fact.time_range.start) and not any(written(fact.content))
    return silent or _dated(label, fact)


def _memo_faults(dialogue: Dialogue, memo: Mapping[str, Any]) -> list[str] | None:
    """List what is wrong with the memo; None where the dialogue says nothing of it."""
    empty = not dialogue.facts and not dialogue.allowed
    if not (dialogue.memo or dialogue.not_memo or empty):
        return None
    text = fold(json.dumps(memo, ensure_ascii=False))
    filled = any(memo.values())
    return [
        *(word for word in dialogue.memo if not _stands(word, text)),
        *(f"-{word}" for word in dialogue.not_memo if _stands(word, text)),
        *(["-anything"] if empty and filled else []),
    ]
