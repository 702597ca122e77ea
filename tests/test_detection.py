"""How much of what is not for memory is found, and how little else: the targets, on labelled sets.

`python tests/detection/report.py -v` prints the table and every fault.
"""

from functools import lru_cache

import pytest
from detection import report
from detection.report import NUMBERS, SETS, Tally

CHECKSUMMED = [(name, kind) for name in SETS for kind in NUMBERS]


@lru_cache(maxsize=8)
def patterns(name: str) -> dict[str, Tally]:
    """Look at a set once."""
    return report.patterns(name)


@lru_cache(maxsize=8)
def special(name: str) -> Tally:
    """Look at a set once."""
    return report.special(name)


def test_the_sets_are_large_enough() -> None:
    """Three hundred of each, and sixty statements with sixty look-alikes in each language mix."""
    cases = [case for name in SETS for case in report.cases(name)]
    said = [case for name in SETS for case in report.cases(f"{name}_special")]
    assert sum(len(case.spans) for case in cases) >= 300
    assert sum(not case.spans for case in cases) >= 300
    assert sum(bool(case.special) for case in said) >= 120
    assert sum(not case.special for case in said) >= 120
    assert {case.special for case in said} == {"", "health", "sex", "faith", "politics", "origin"}


def test_no_text_stands_twice() -> None:
    """What stands in two sets would be counted as unseen and is not."""
    texts = [c.text for n in SETS for end in ("", "_special") for c in report.cases(n + end)]
    assert sorted(texts) == sorted(set(texts))


@pytest.mark.parametrize(("name", "kind"), CHECKSUMMED)
def test_numbers_are_found_and_nothing_else(name: str, kind: str) -> None:
    """Cards, accounts and identity numbers: every one, at a precision of .99."""
    tally = patterns(name)[kind]
    assert tally.recall == 1.0, tally.missed
    assert tally.precision >= 0.99, tally.false


@pytest.mark.parametrize("name", SETS)
def test_secrets_are_found(name: str) -> None:
    """Nine of ten at least, at a precision of .95."""
    tally = patterns(name)["secret"]
    assert tally.recall >= 0.9, tally.missed
    assert tally.precision >= 0.95, tally.false


@pytest.mark.parametrize("name", SETS)
def test_special_content_is_found_by_words(name: str) -> None:
    """Three of four statements, and of sixty look-alikes three at most."""
    tally = special(name)
    assert tally.recall >= 0.75, tally.missed
    lookalikes = sum(not case.special for case in report.cases(f"{name}_special"))
    assert tally.wrong <= 3 * lookalikes / 60, tally.false


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("language", ["zh", "en"])
def test_special_content_is_found_in_either_language(name: str, language: str) -> None:
    """Neither language carries the other."""
    select = report.Selector()
    cases = [
        case
        for case in report.cases(f"{name}_special")
        if case.special and any("\u4e00" <= c <= "\u9fff" for c in case.text) is (language == "zh")
    ]
    found = [case for case in cases if "[special]" in select(case.text).text]
    assert len(found) >= 0.75 * len(cases)


def test_look_alikes_are_left_alone() -> None:
    """Of more than three hundred at most six are touched at all."""
    assert len([text for name in SETS for text in report.touched(name)]) <= 6


@pytest.mark.parametrize("name", SETS[:2])
def test_contacts_are_found_under_a_policy(name: str) -> None:
    """Addresses and telephone numbers, where they are to be taken out."""
    for kind, tally in report.contacts(name).items():
        assert tally.recall >= 0.95, (kind, tally.missed)
        assert tally.precision >= 0.9, (kind, tally.false)


@pytest.mark.parametrize("name", SETS)
def test_nothing_of_a_found_value_stays(name: str) -> None:
    """No piece of three characters of it is left in the text that is stored."""
    select = report.Selector()
    for case in report.cases(name):
        kept = select(case.text)
        again = select(kept.text)
        assert (again.text, again.found) == (kept.text, {})
