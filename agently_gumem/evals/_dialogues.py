"""The labelled dialogues: JSON Lines, one dialogue a line, one file a language."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from agently_gumem.errors import ConfigError

FOLDER = Path(__file__).parent / "dialogues"
LANGUAGES = ("en", "zh")
# When a dialogue begins that names no time of its own: a Wednesday.
_BEGINS = {"en": "2026-05-06T09:30:00+02:00", "zh": "2026-05-06T09:30:00+08:00"}
_ROLES = {"u": "user", "a": "assistant"}
_LABEL = frozenset({"has", "not", "kind", "subject", "from", "may", "date", "guess"})
_DIALOGUE = frozenset({"id", "rule", "when", "talk", "facts", "allowed", "memo", "not_memo"})


@dataclass(frozen=True)
class Said:
    """One message, or one thing done, of a dialogue."""

    number: int
    """Its place in the dialogue, from 1, over all sessions."""
    session: int
    text: str
    at: datetime
    role: str = "user"
    speaker: str = ""
    event: str = ""


@dataclass(frozen=True)
class Label:
    """A Fact that is expected, or allowed."""

    has: tuple[tuple[str, ...], ...]
    """What its text must hold: one of each."""
    without: tuple[str, ...] = ()
    """What its text must not hold."""
    kinds: tuple[str, ...] = ()
    subject: str = ""
    sources: frozenset[int] = frozenset()
    """Messages that it must cite."""
    may_cite: frozenset[int] = frozenset()
    date: str = ""
    """The beginning of its time range as an ISO date, or the year or month of it."""
    guess: bool = False
    """Whether it counts only as a guess of low confidence."""


@dataclass(frozen=True)
class Dialogue:
    """What is said and done, and what a memory should make of it."""

    id: str
    rule: str
    language: str
    said: tuple[Said, ...]
    facts: tuple[Label, ...] = ()
    allowed: tuple[Label, ...] = ()
    """Facts that follow from what was said too, and count neither way."""
    memo: tuple[str, ...] = ()
    """What the memo must hold at the end."""
    not_memo: tuple[str, ...] = field(default=())


def load(
    folder: Path = FOLDER, *, language: str | None = None, rule: str | None = None
) -> list[Dialogue]:
    """Read the dialogues of a folder, all or those of one language or rule.

    Raises:
        ConfigError: A line is no dialogue, or there is no such language or rule.
    """
    if language is not None and language not in LANGUAGES:
        raise ConfigError(f"language={language!r}: there are {', '.join(LANGUAGES)}")
    chosen = LANGUAGES if language is None else (language,)
    found = [d for name in chosen for d in _read(folder / f"{name}.jsonl", name)]
    rules = sorted({d.rule for d in found})
    if rule is not None and rule not in rules:
        raise ConfigError(f"rule={rule!r}: there are {', '.join(rules)}")
    return [d for d in found if rule in (None, d.rule)]


def _read(path: Path, language: str) -> Iterator[Dialogue]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"dialogues {path}: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield dialogue(json.loads(line), language)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"dialogues {path}, line {number}: {error!r}") from error


def dialogue(given: Mapping[str, Any], language: str) -> Dialogue:
    """Read one dialogue (pure).

    Raises:
        ValueError: A field is unknown, or a label names a message that is not there.
        KeyError: `id`, `rule`, `talk`, or `has` of a label, is missing.
    """
    if unknown := set(given) - _DIALOGUE:
        raise ValueError(f"no field {', '.join(sorted(unknown))}")
    said = tuple(_said(given["talk"], given.get("when", _BEGINS[language])))
    labels = {
        name: tuple(_label(part, len(said)) for part in given.get(name, ()))
        for name in ("facts", "allowed")
    }
    memo = {name: tuple(given.get(name, ())) for name in ("memo", "not_memo")}
    return Dialogue(given["id"], given["rule"], language, said, **labels, **memo)


def _said(talk: Sequence[Sequence[str]], when: str) -> Iterator[Said]:
    """Number the lines of a talk, a minute apart; "---" begins another session at its time."""
    at, session, number = datetime.fromisoformat(when), 1, 0
    for who, text in talk:
        if who == "---":
            at, session = datetime.fromisoformat(text).replace(tzinfo=at.tzinfo), session + 1
            continue
        number += 1
        yield _line(who, text, at, session, number)
        at += timedelta(minutes=1)


def _line(who: str, text: str, at: datetime, session: int, number: int) -> Said:
    if who.startswith("!"):
        return Said(number, session, text, at, event=who[1:])
    role, _, speaker = who.partition(":")
    return Said(number, session, text, at, role=_ROLES.get(role, role), speaker=speaker)


def _label(given: Mapping[str, Any], messages: int) -> Label:
    if unknown := set(given) - _LABEL:
        raise ValueError(f"no field {', '.join(sorted(unknown))} in a label")
    sources, more = frozenset(given.get("from", ())), frozenset(given.get("may", ()))
    if not given["has"] or any(not 1 <= n <= messages for n in sources | more):
        raise ValueError(f"a label without words, or of a message that is not there: {given}")
    return Label(
        has=tuple(tuple(part.split("|")) for part in given["has"]),
        without=tuple(given.get("not", ())),
        kinds=tuple(filter(None, str(given.get("kind", "")).split("|"))),
        subject=given.get("subject", ""),
        sources=sources,
        may_cite=more,
        date=given.get("date", ""),
        guess=bool(given.get("guess")),
    )
