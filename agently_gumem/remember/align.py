"""What of a session's history is new: aligning what Agently holds with what is stored (pure).

No index in a list is an identity: a history is restored, cut, reset, continued by another process.
A mirror a Session object remembers what was handled; where the history is no extension of it, its
longest beginning that is a subsequence of the stored messages is known.
"""

import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any, cast

from agently_gumem.records.placeholders import PLACEHOLDERS
from agently_gumem.remember.rendered import input_of
from agently_gumem.text import make_safe

LABEL = "[input]:\n"
NO_ANSWER = "None"
# The name of a field in a structured answer as Agently records it, in YAML.
_FIELD = re.compile(
    r"""^(?:'([^'\n]+)'|"([^"\n]+)"|([^\s\-\[\]{}'"#][^:\n]*)):(?=\s|$)""", re.MULTILINE
)
# Questions whose fields are remembered: retries of one follow on each other.
_WANTED = 50
_PLACEHOLDER = re.compile("|".join(map(re.escape, PLACEHOLDERS)))


@dataclass(frozen=True)
class Said:
    """A message as Agently holds it: role and text, before anything is taken out of it."""

    role: str
    text: str


@dataclass
class Mirror:
    """What was handled of one Session object's full context."""

    nonce: str = field(default_factory=lambda: secrets.token_hex(8))
    """Tells two Session objects apart that say the same words at the same place."""
    seen: list[Said] | None = None
    """The beginning that was handled; None before the first look."""
    ids: list[str | None] = field(default_factory=lambda: cast("list[str | None]", []))
    """The stored id of each of those; None for what was left out."""
    live: dict[int, datetime] = field(default_factory=lambda: cast("dict[int, datetime]", {}))
    """Place of a user's message -> when it came, for messages that were seen to arrive."""
    asked: dict[int, str] = field(default_factory=lambda: cast("dict[int, str]", {}))
    """Place -> the question that was on its way there; a request that fails leaves one behind."""

    wanted: dict[str, frozenset[str]] = field(
        default_factory=lambda: cast("dict[str, frozenset[str]]", {})
    )
    """Question -> the fields that its answer was asked to have, where it was asked for some."""

    def asks(self, question: str, fields: frozenset[str]) -> None:
        """Note which fields the answer to a question was asked to have."""
        self.wanted.pop(question, None)
        if fields:
            self.wanted[question] = fields
        for oldest in list(self.wanted)[:-_WANTED]:
            del self.wanted[oldest]

    def passed(self, history: "list[Said]", *, waits: bool) -> None:
        """Note that a history was handled without keeping what is new in it.

        Args:
            history: All of it.
            waits: A question of this session is still on its way, and comes behind it.
        """
        by = len(history) - len(self.seen or ())
        known = len(history) - by
        later = {i + by: t for i, t in self.live.items() if i >= known} if waits else {}
        asked = {i + by: q for i, q in self.asked.items() if i + by in later}
        self.live, self.asked = later, asked
        self.seen, self.ids = history, [None] * len(history)

    def arrived(self, place: int, message: Said) -> bool:
        """Tell whether the message of a place was seen to arrive there as a live turn."""
        return place in self.live and self.asked.get(place, "") in message.text


@dataclass(frozen=True)
class Aligned:
    """Where new messages begin, and the stored ids of what stands before them."""

    start: int
    ids: list[str | None]
    extends: bool = False
    """The history goes on from the mirror by what was seen to arrive."""


def said(message: Any) -> Said:
    """Read a message of Agently (a ChatMessage or a dict), of any role and content."""
    role: Any
    content: Any
    if isinstance(message, Mapping):
        held = cast("Mapping[str, Any]", message)
        role, content = held.get("role"), held.get("content")
    else:
        role, content = getattr(message, "role", None), getattr(message, "content", None)
    text = make_safe(_text(content))
    if role == "user" and text.startswith(LABEL):
        text = text[len(LABEL) :]
    elif role == "user":
        text = input_of(text)
    return Said(str(role or "user"), text)


def _text(content: Any) -> str:
    """Bring content to text; of a list of parts the texts, and a placeholder for the rest."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, Sequence):
        return "\n".join(_part(part) for part in cast("Sequence[Any]", content))
    return str(content)


def _part(part: Any) -> str:
    if isinstance(part, Mapping):
        held = cast("Mapping[str, Any]", part)
        return str(held["text"]) if "text" in held else f"({held.get('type', 'attachment')})"
    return str(part)


def left_out(
    history: Sequence[Said],
    wanted: Mapping[str, Collection[str]] | None = None,
    stored: Callable[[int], bool | None] = lambda _: None,
) -> set[int]:
    """Find the turns that only record a failed attempt.

    A structured answer that needs retries is recorded once an attempt, as the user's text and the
    assistant's "None" or whatever could be read, in an order that differs by version, and on some
    versions the good answer twice. Such a turn is dropped only beside one with the same user text,
    since it can be an answer.

    Args:
        history: All messages.
        wanted: Question -> the fields that its answer was asked to have.
        stored: The place of a restored answer -> whether it is stored; None where it is new.
    """
    gone: set[int] = set()
    for turns in _same_questions(history):
        fields = (wanted or {}).get(history[turns[0]].text, ())
        known = any(stored(i + 1) for i in turns)
        failed = {i for i in turns if _fails(history[i + 1].text, fields)}
        if known:
            failed |= {
                i for i in turns if stored(i + 1) is False and _FIELD.match(history[i + 1].text)
            }
        if not failed:
            continue
        good = [i for i in turns if i not in failed]
        read = [i for i in turns if history[i + 1].text != NO_ANSWER] or turns
        once = {history[i + 1].text: i for i in reversed(good)}.values() if good else read[:1]
        gone |= {place for i in turns if i not in once for place in (i, i + 1)}
    return gone


def _fails(answer: str, fields: Collection[str]) -> bool:
    """Tell whether an answer is what Agently records of an attempt without the wanted fields."""
    if answer == NO_ANSWER:
        return True
    held = {next(filter(None, match.groups())) for match in _FIELD.finditer(answer)}
    return bool(held) and not held.issuperset(fields)


def _same_questions(history: Sequence[Said]) -> list[list[int]]:
    """Group the places of turns that follow on each other and ask the same."""
    groups: list[list[int]] = []
    for i in range(len(history) - 1):
        if (history[i].role, history[i + 1].role) != ("user", "assistant"):
            continue
        group = groups[-1] if groups else []
        if group and group[-1] == i - 2 and history[group[-1]] == history[i]:
            group.append(i)
        else:
            groups.append([i])
    return groups


@dataclass(frozen=True)
class StoredForm:
    """How a message compares with what is stored: its text after selection, and what to pass by."""

    form: Callable[[Said], Said]
    passed_over: Callable[[Said | None, Said], bool]
    """(the form of the message before it, its form) -> whether it was passed over before."""
    changed: Callable[[Said], Said] = lambda form: form
    """Its form -> what stands for it in the store where its text was changed since."""
    stored: Callable[[Said], Said] = lambda held: held
    """What is stored -> its form."""


def align(
    mirror: Mirror,
    full: Sequence[Said],
    stored: Sequence[tuple[str, Said]],
    skipped: Collection[int],
    to: StoredForm,
) -> Aligned:
    """Say what of the history is known.

    Args:
        mirror: What was handled before.
        full: The history as it stands, without a last question that is not answered yet.
        stored: The session's stored messages in their order: id and what they say.
        skipped: Places of `full` that are known to be left out.
        to: How a message is compared with a stored one.

    Returns:
        Where new messages begin.
    """
    seen = mirror.seen
    if seen is not None and list(full[: len(seen)]) == seen:
        rest = full[len(seen) :]
        # What came without being seen to arrive was put there: it may be stored already.
        if not rest or mirror.arrived(len(seen), rest[0]):
            return Aligned(len(seen), list(mirror.ids), extends=True)
    elif seen is not None and seen[: len(full)] == list(full):
        return Aligned(len(full), mirror.ids[: len(full)])
    return _searched(mirror, full, stored, skipped, replace(to, form=cache(to.form)))


def _searched(
    mirror: Mirror,
    full: Sequence[Said],
    stored: Sequence[tuple[str, Said]],
    skipped: Collection[int],
    to: StoredForm,
) -> Aligned:
    """Find the longest beginning of a history that is a subsequence of what is stored."""
    ids: list[str | None] = []
    place = 0
    held = [to.stored(s) for _, s in stored]
    for i, message in enumerate(full):
        if mirror.arrived(i, message):
            break  # said now, even in words that are stored already
        wanted = to.form(message)
        alike = (wanted, to.changed(wanted))
        is_next = place < len(held) and held[place] in alike
        if is_next and i in skipped and message.role == "user":
            # An attempt that was left out asks the same as its good twin, which is stored.
            is_next = [to.form(m) for m in full[i + 1 : i + 2]] == list(held[place + 1 : place + 2])
        # Before what stands further on: a placeholder alone says little of which one it is.
        if not is_next and (i in skipped or _passed_over(full, i, to)):
            ids.append(None)
            continue
        found = next((p for p in range(place, len(held)) if held[p] in alike), None)
        if found is None and _redacted(full, i, held, place, to):
            found = place
        if found is None:
            break
        ids.append(stored[found][0])
        place = found + 1
    return Aligned(len(ids), ids)


def _passed_over(full: Sequence[Said], i: int, to: StoredForm) -> bool:
    return to.passed_over(to.form(full[i - 1]) if i else None, to.form(full[i]))


def _redacted(
    full: Sequence[Said], i: int, held: Sequence[Said], place: int, to: StoredForm
) -> bool:
    """Tell whether the next stored message is this one with more, or less, taken out of it.

    As where the words of a policy changed since. The message after it has to be the same.
    """
    after = full[i + 1 : i + 2]
    if not after or held[place + 1 : place + 2] != [to.form(after[0])]:
        return False
    one, other = held[place], to.form(full[i])
    same = one.role == other.role
    return same and (_fits(one.text, other.text) or _fits(other.text, one.text))


def _fits(redacted: str, text: str) -> bool:
    """Tell whether a text is one in which placeholders stand for what was taken out."""
    first, *rest = _PLACEHOLDER.split(redacted)
    if not rest or not text.startswith(first) or not text.endswith(rest[-1]):
        return False
    at = len(first)
    for part in rest:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True
