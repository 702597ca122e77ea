"""The results as a table for people, and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from agently_gumem.evals._run import Result
from agently_gumem.evals._score import Score

_COLUMNS = (
    "dialogues", "expected", "found", "wrong", "invented", "language", "dates", "sources", "kinds",
    "memo", "requests", "tokens",
)  # fmt: skip
_OF = frozenset({"language", "dates", "sources", "kinds", "memo"})


def by_rule(results: Iterable[Result]) -> dict[str, Score]:
    """Add the scores up by rule, in the order of the dialogues."""
    sums: dict[str, Score] = {}
    for result in results:
        if result.scores is not None:
            rule = result.dialogue.rule
            sums[rule] = sums.get(rule, Score()) + result.scores.score
    return sums


def table(results: Sequence[Result]) -> str:
    """Write a table with a line for each rule, and one for all together."""
    sums = by_rule(results)
    rows = [["rule", *_COLUMNS]]
    rows += [[rule, *_cells(score)] for rule, score in sums.items()]
    rows.append(["all", *_cells(sum(sums.values(), Score()))])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in _numbers(row, widths))])
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:-1], "-" * len(lines[0]), lines[-1]])


def _numbers(row: Sequence[str], widths: Sequence[int]) -> Iterable[tuple[str, int]]:
    return zip(row[1:], widths[1:], strict=True)


def _cells(score: Score) -> list[str]:
    values = asdict(score)
    return [f"{values[c]}/{values[f'{c}_of']}" if c in _OF else str(values[c]) for c in _COLUMNS]


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    """Give the scores in all, by rule and by dialogue, with what was missed and invented."""
    sums = by_rule(results)
    return {
        "all": asdict(sum(sums.values(), Score())),
        "rules": {rule: asdict(score) for rule, score in sums.items()},
        "dialogues": [_told(result) for result in results],
    }


def _told(result: Result) -> dict[str, Any]:
    told: dict[str, Any] = {"id": result.dialogue.id, "rule": result.dialogue.rule}
    if result.scores is None:
        return {**told, "error": result.error}
    scores = asdict(result.scores)
    return {**told, **scores.pop("score"), **{f"{k}_texts": v for k, v in scores.items()}}
