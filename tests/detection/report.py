"""How well selection finds what is not for memory: recall and precision by kind, on three sets.

`python tests/detection/report.py` prints the table and what is missed or hit wrongly.

`first*.jsonl` was written before the patterns and the words were, and they were made on it;
`second*.jsonl` after them, in other ways of talking, and what it showed was mended; `third*.jsonl`
last: its special content is as unseen as it was. What must be found is marked in the text as
`⟦kind|value⟧`; a `¦` in a value keeps scanners of repositories from taking it for a real key.
"""

import json
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from agently_gumem.privacy import REDACT, PrivacyPolicy
from agently_gumem.remember.select import Selector

HERE = Path(__file__).parent
SETS = ("first", "second", "third")
NUMBERS = ("card", "bank-account", "id-number")
CONTACTS = ("email", "phone")
_MARK = re.compile(r"⟦([a-z-]+)\|(.*?)⟧", re.DOTALL)
_SEEN = re.compile(r"[^\W_]{3,}")


class Case(NamedTuple):
    """One labelled text."""

    text: str
    spans: list[tuple[str, str]]
    """Kind and value of what must be found."""
    special: str
    """Category of special content that it says; empty where it says none."""


@dataclass
class Tally:
    """Counts of one kind on one set, and the texts behind the faults."""

    expected: int = 0
    found: int = 0
    wrong: int = 0
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)

    @property
    def recall(self) -> float:
        """Share of what is there that was found."""
        return self.found / self.expected if self.expected else 1.0

    @property
    def precision(self) -> float:
        """Share of what was taken out that had to be."""
        return self.found / (self.found + self.wrong) if self.found else 1.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.expected + other.expected,
            self.found + other.found,
            self.wrong + other.wrong,
            self.missed + other.missed,
            self.false + other.false,
        )


def cases(name: str) -> list[Case]:
    """Read a set; the marks are taken out of its texts."""
    path = HERE / f"{name}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [_case(json.loads(line)) for line in lines]


def _case(row: dict[str, str]) -> Case:
    marked = row["text"].replace("¦", "")
    spans = [(m.group(1), m.group(2)) for m in _MARK.finditer(marked)]
    return Case(_MARK.sub(r"\2", marked), spans, row.get("special", ""))


def patterns(name: str) -> dict[str, Tally]:
    """Count secrets and numbers of a set."""
    return _counted(name, Selector(), ("secret", *NUMBERS))


def contacts(name: str) -> dict[str, Tally]:
    """Count addresses and telephone numbers, under a policy that takes them out."""
    policy = PrivacyPolicy(emails=REDACT, phones=REDACT)
    return _counted(f"{name}_contacts", Selector(policy), CONTACTS)


def _counted(name: str, select: Selector, kinds: tuple[str, ...]) -> dict[str, Tally]:
    tallies = {kind: Tally() for kind in kinds}
    for case in cases(name):
        kept = select(case.text).text
        out = Counter({kind: kept.count(f"[{kind}]") for kind in kinds})
        for kind, value in case.spans:
            tally = tallies[kind]
            tally.expected += 1
            if out[kind] and not _remains(value, case.text, kept):
                tally.found += 1
                out[kind] -= 1
            else:
                tally.missed.append(case.text)
        for kind in +out:
            tallies[kind].wrong += out[kind]
            tallies[kind].false.append(case.text)
    return tallies


def _remains(value: str, text: str, kept: str) -> bool:
    """Tell whether a part of a value is still there, apart from where it stood elsewhere too."""
    around = text.replace(value, " ")
    return any(piece in kept and piece not in around for piece in _SEEN.findall(value))


def special(name: str) -> Tally:
    """Count the statements and the look-alikes of a set of special content."""
    select, tally = Selector(), Tally()
    for case in cases(f"{name}_special"):
        hit = "[special]" in select(case.text).text
        tally.expected += bool(case.special)
        tally.found += hit and bool(case.special)
        tally.wrong += hit and not case.special
        if case.special and not hit:
            tally.missed.append(case.text)
        if hit and not case.special:
            tally.false.append(case.text)
    return tally


def touched(name: str) -> list[str]:
    """List the look-alikes of both files of a set that selection changes at all, by default."""
    select = Selector()
    harmless = [c for c in cases(name) if not c.spans]
    harmless += [c for c in cases(f"{name}_special") if not c.special]
    return [c.text for c in harmless if select(c.text).text != c.text]


def _row(name: str, kind: str, tally: Tally) -> str:
    return (
        f"{name:8}{kind:14}{tally.expected:5}{tally.found:7}{tally.wrong:7}"
        f"{tally.recall:8.3f}{tally.precision:11.3f}"
    )


def main() -> None:
    """Print the table, then every fault."""
    print(f"{'set':8}{'kind':14}{'true':>5}{'found':>7}{'wrong':>7}{'recall':>8}{'precision':>11}")
    faults: list[str] = []
    for name in SETS:
        tallies = {**patterns(name), **contacts(name), "special": special(name)}
        for kind, tally in tallies.items():
            print(_row(name, kind, tally))
            faults += [f"{name} {kind} missed: {text!r}" for text in tally.missed]
            faults += [f"{name} {kind} false: {text!r}" for text in tally.false]
        print(f"{name:8}look-alikes touched: {len(touched(name))}")
    if "-v" in sys.argv[1:]:
        print(*faults, sep="\n")


if __name__ == "__main__":
    main()
