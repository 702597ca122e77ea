"""Date libraries on 186 sentences of two languages: which find the right days, which invent some.

`python tests/benchmarks/dates.py [--misses]` compares what is installed beside this package:
dateparser, recognizers-text-date-time, parsedatetime, ctparse, timefhuman, jionlp, dateutil.
Each may give several spans of days; one that the sentence does not mean counts as invented.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

Span = tuple[date, date]
Reader = Callable[[str, datetime], Iterable[Span]]

NOW = datetime(2026, 5, 6, 10, tzinfo=timezone(timedelta(hours=8)))
DATA = Path(__file__).with_name("_date_phrases.txt")
HOSTILE = ("May ", "1月", "last ", "1/", "next next ", "二十", "3 days ", "12:00 ")
LENGTHS = (1_000, 2_000)
PATIENCE = 5.0


@dataclass(frozen=True)
class Phrase:
    """A sentence with the spans that it may mean; several readings may stand beside one another."""

    text: str
    readings: tuple[frozenset[Span], ...]

    @property
    def chinese(self) -> bool:
        """Whether it is Chinese."""
        return not self.text.isascii()

    def judge(self, found: frozenset[Span]) -> str:
        """Give "right", "missed", "wide" (days made out of a span, or the reverse) or "wrong"."""
        if not found:
            return "missed" if self.readings else "right"
        meant = frozenset(span for reading in self.readings for span in reading)
        if found <= meant:
            return "right"
        near = all(any(a[0] <= b[1] and b[0] <= a[1] for b in meant) for a in found)
        return "wide" if near else "wrong"


def phrases(path: Path = DATA) -> list[Phrase]:
    """Read the labelled sentences."""
    lines = (line for line in path.read_text(encoding="utf-8").splitlines() if line[:1] != "#")
    return [Phrase(text.strip(), _readings(meant)) for text, _, meant in map(_parted, lines)]


def _parted(line: str) -> tuple[str, str, str]:
    return line.partition("|")


def _readings(meant: str) -> tuple[frozenset[Span], ...]:
    readings = [part.strip() for part in meant.split(" or ") if part.strip()]
    return tuple(frozenset(_span(one.strip()) for one in r.split(" and ")) for r in readings)


def _span(text: str) -> Span:
    first, _, last = text.partition("..")
    return date.fromisoformat(first), date.fromisoformat(last or first)


# -- the readers -----------------------------------------------------------------------------------


def _ours() -> Reader:
    from agently_gumem.dates import days_in, normal

    return lambda text, moment: days_in(normal(text), moment)


def _dateparser() -> Reader:
    from dateparser.search import search_dates

    def read(text: str, moment: datetime) -> Iterator[Span]:
        settings = {"RELATIVE_BASE": moment.replace(tzinfo=None)}
        languages = ["zh"] if not text.isascii() else ["en"]
        for _, found in search_dates(text, languages=languages, settings=settings) or ():
            yield found.date(), found.date()

    return read


def _parsedatetime() -> Reader:
    from parsedatetime import Calendar

    calendar = Calendar()

    def read(text: str, moment: datetime) -> Iterator[Span]:
        for found, flag, *_ in calendar.nlp(text, sourceTime=moment.replace(tzinfo=None)) or ():
            if flag in (1, 3):
                yield found.date(), found.date()

    return read


def _ctparse() -> Reader:
    from ctparse import ctparse

    def read(text: str, moment: datetime) -> Iterator[Span]:
        best = ctparse(text, ts=moment.replace(tzinfo=None), timeout=PATIENCE)
        found: Any = best.resolution if best else None
        with suppress(AttributeError, TypeError, ValueError):
            first, last = getattr(found, "t_from", found), getattr(found, "t_to", found)
            yield (date(first.year, first.month, first.day), date(last.year, last.month, last.day))

    return read


def _timefhuman() -> Reader:
    from timefhuman import tfhConfig, timefhuman

    def read(text: str, moment: datetime) -> Iterator[Span]:
        config = tfhConfig(now=moment.replace(tzinfo=None))
        for found in timefhuman(text, config) or ():
            if isinstance(found, datetime):
                yield found.date(), found.date()
            elif isinstance(found, tuple):
                yield found[0].date(), found[-1].date()

    return read


def _recognizers() -> Reader:
    from recognizers_date_time import recognize_datetime
    from recognizers_text import Culture

    def read(text: str, moment: datetime) -> Iterator[Span]:
        culture = Culture.English if text.isascii() else Culture.Chinese
        for found in recognize_datetime(text, culture, reference=moment.replace(tzinfo=None)):
            for value in (found.resolution or {}).get("values", ()):
                ends = [value.get("value") or value.get("start"), value.get("end")]
                with suppress(TypeError, ValueError):
                    first = date.fromisoformat(ends[0][:10])
                    last = date.fromisoformat(ends[1][:10]) if ends[1] else first
                    # An end of days is the day after the last one.
                    yield first, last - timedelta(days=1) if value["type"] == "daterange" else last

    return read


def _jionlp() -> Reader:
    import jionlp

    def read(text: str, moment: datetime) -> Iterator[Span]:
        for found in jionlp.ner.extract_time(text, time_base=moment.timestamp()) or ():
            times = (found.get("detail") or {}).get("time")
            if isinstance(times, list) and found["type"] in ("time_point", "time_span"):
                with suppress(TypeError, ValueError):
                    yield date.fromisoformat(times[0][:10]), date.fromisoformat(times[1][:10])

    return read


def _dateutil() -> Reader:
    from dateutil.parser import parse

    def read(text: str, moment: datetime) -> Iterator[Span]:
        with suppress(ValueError, OverflowError):
            found, tokens = parse(text, default=moment.replace(tzinfo=None), fuzzy_with_tokens=True)
            if "".join(tokens).strip() != text.strip():
                yield found.date(), found.date()

    return read


READERS: dict[str, Callable[[], Reader]] = {
    "agently-gumem": _ours,
    "dateparser": _dateparser,
    "recognizers-text-date-time": _recognizers,
    "parsedatetime": _parsedatetime,
    "ctparse": _ctparse,
    "timefhuman": _timefhuman,
    "jionlp": _jionlp,
    "python-dateutil": _dateutil,
}


# -- the comparison --------------------------------------------------------------------------------


@dataclass
class Figures:
    """What one library made of the sentences."""

    name: str
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    seconds: float = 0.0
    slowest: str = ""
    misses: list[str] = field(default_factory=list)

    def add(self, phrase: Phrase, found: frozenset[Span], failed: str = "") -> None:
        """Count one sentence."""
        part = ("zh" if phrase.chinese else "en") + ("" if phrase.readings else " none")
        how = "failed" if failed else phrase.judge(found)
        self.counts[part, how] = self.counts.get((part, how), 0) + 1
        if how != "right":
            told = " ".join(f"{a}..{b}" for a, b in sorted(found)) or failed
            self.misses.append(f"{how:7} {phrase.text}  {told}")

    def row(self, sizes: dict[str, int]) -> str:
        """Write the line of the table."""
        cells = [self.name, *(f"{self.counts.get((p, 'right'), 0)}/{n}" for p, n in sizes.items())]
        for how in ("wide", "wrong", "missed", "failed"):
            cells.append(str(sum(n for (_, h), n in self.counts.items() if h == how)))
        return "| " + " | ".join([*cells, f"{self.seconds * 1e3:.1f}", self.slowest]) + " |"


def measure(name: str, read: Reader, all_phrases: list[Phrase]) -> Figures:
    """Let one library read every sentence, and texts that are made to be slow."""
    figures = Figures(f"{name} {_version(name)}")
    for phrase in all_phrases:
        started = time.process_time()
        found, failed = _attempt(read, phrase.text)
        figures.seconds += (time.process_time() - started) / len(all_phrases)
        figures.add(phrase, found, failed)
    figures.slowest = _hostile(read)
    return figures


def _attempt(read: Reader, text: str) -> tuple[frozenset[Span], str]:
    try:
        return frozenset(read(text, NOW)), ""
    except Exception as error:  # noqa: BLE001 - a library that fails on a sentence has a figure too
        return frozenset(), type(error).__name__


def _hostile(read: Reader) -> str:
    """Give the longest time of CPU on a repetition, and how it grew with twice the length."""
    worst = (0.0, 0.0)
    for piece in HOSTILE:
        times = []
        for length in LENGTHS:
            started = time.process_time()
            _attempt(read, (piece * length)[:length])
            times.append(time.process_time() - started)
            if times[-1] > PATIENCE:
                break
        worst = max(worst, (times[-1], times[-1] / max(times[0], 1e-6)))
    return f"{worst[0]:.2f} s, x{worst[1]:.1f}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--misses", action="store_true", help="list what is not right")
    parser.add_argument("--only", action="append", choices=list(READERS), help="one library")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = phrases()
    sizes: dict[str, int] = {}
    for phrase in known:
        part = ("zh" if phrase.chinese else "en") + ("" if phrase.readings else " none")
        sizes[part] = sizes.get(part, 0) + 1
    print("| library |", " | ".join(sizes), "| wide | wrong | missed | failed | ms | slowest |")
    print("|" + "---|" * (len(sizes) + 7))
    for name, make in READERS.items():
        if options.only and name not in options.only:
            continue
        try:
            read = make()
        except ImportError as error:
            print(f"{name}: not installed ({error.name})", file=sys.stderr)
            continue
        figures = measure(name, read, known)
        print(figures.row(sizes), flush=True)
        if options.misses:
            print(*figures.misses, sep="\n")


if __name__ == "__main__":
    main()
