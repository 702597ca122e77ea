"""What Agently holds of a session: whose memo it is, how large its window, what must leave it."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agently_gumem.remember.align import Mirror, Said, said
from agently_gumem.remember.forgetting.scrub import Scrubbed, all_but_live, scrub, settle
from agently_gumem.scope import Scope

# Says, in the session's own settings (which are saved with it), which memo is ours.
MARK = "gumem_memo"


def fingerprint(memo: Any) -> str:
    """Tell memos apart without keeping their text."""
    text = json.dumps(memo, ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def is_ours(memo: Any, session_settings: Any) -> bool:
    """Tell whether a session's memo was written by us, also in another process."""
    return memo is not None and session_settings.get(MARK) == fingerprint(memo)


def as_text(memo: Any) -> str:
    """Bring a memo of an earlier handler to text."""
    return memo if isinstance(memo, str) else json.dumps(memo, ensure_ascii=False, default=str)


@dataclass(frozen=True)
class Held:
    """What Agently holds of a session: its own lists, which can be changed in place."""

    settings: Any
    full: list[Any]
    window: list[Any]

    def said(self) -> tuple[list[Said], list[Said]]:
        """Return what was said in its history, and in its window."""
        return [said(m) for m in list(self.full)], [said(m) for m in list(self.window)]


@dataclass(frozen=True)
class Measured:
    """A window as triggers and cuts see it: roles, and characters and tokens of each message."""

    roles: list[str]
    sizes: list[tuple[int, int]]

    @property
    def chars(self) -> int:
        """Characters in all."""
        return sum(chars for chars, _ in self.sizes)

    @property
    def tokens(self) -> int:
        """Tokens in all."""
        return sum(tokens for _, tokens in self.sizes)


def measure(window: Sequence[Any], count_tokens: Callable[[str], int]) -> Measured:
    """Measure a window of Agently messages."""
    shown = [said(message) for message in list(window)]
    sizes = [(len(one.text), count_tokens(one.text)) for one in shown]
    return Measured([one.role for one in shown], sizes)


def is_clean(history: Sequence[Said], window: Sequence[Said], mirror: Mirror) -> bool:
    """Tell whether all that Agently holds was looked through, or is said just now."""
    seen = mirror.seen or []
    rest = history[len(seen) :]
    known = list(history[: len(seen)]) == seen and (not rest or mirror.arrived(len(seen), rest[0]))
    return known and set(window) <= set(history)


def of_window(window: Sequence[Said], history: Sequence[Said], found: Scrubbed) -> Scrubbed:
    """Say of a window what is known of the history that it shows (pure).

    A window is the end of a history, with parts left out; what stands in no place of it, such as
    the end of a message that was cut to a length, goes where a message that goes holds it.
    """
    gone: set[int] = set()
    texts: dict[int, str] = {}
    lost = [history[i].text for i in found.gone | found.texts.keys()]
    end = len(history)
    for i in range(len(window) - 1, -1, -1):
        place = next((j for j in range(end - 1, -1, -1) if history[j] == window[i]), None)
        if place is None:
            if any(window[i].text and window[i].text in text for text in lost):
                gone.add(i)
            continue
        end = place
        if place in found.gone:
            gone.add(i)
        elif place in found.texts:
            texts[i] = found.texts[place]
    return Scrubbed(frozenset(gone), texts)


def take_out(held: list[Any], found: Scrubbed) -> None:
    """Change Agently's own list in place: what was forgotten goes, what was cut has its new text.

    From the end, one by one: a turn that goes on may add to it meanwhile.
    """
    for i, text in found.texts.items():
        held[i] = _with_text(held[i], text)
    for i in sorted(found.gone, reverse=True):
        del held[i]


def _with_text(message: Any, text: str) -> Any:
    """Copy a message of Agently, a dict or a record, with another text."""
    if isinstance(message, dict):
        return {**cast("dict[str, Any]", message), "content": text}
    return message.model_copy(update={"content": text})


class Sieve:
    """Takes what was forgotten out of what Agently holds of one session."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._looked: int | None = None
        """Up to which forgetting Agently's lists were looked through."""

    async def look_through(self, scope: Scope, held: Held, mirror: Mirror) -> None:
        """Take it out of a history that was restored, or came back by a turn."""
        if not scope.tombs:
            return
        if self._looked != scope.generation or not is_clean(*held.said(), mirror):
            async with scope.journal_lock:
                await self.take_out(scope, held, mirror)

    async def take_out(
        self, scope: Scope, held: Held, mirror: Mirror, *, whole: bool = False
    ) -> None:
        """Change Agently's lists in place; under the user's journal lock.

        Args:
            scope: The user.
            held: The lists.
            mirror: What was handled of them; brought up to what is left.
            whole: All of it goes, but what was said since it was journaled.
        """
        history, window = held.said()
        found = (
            all_but_live(mirror, history)
            if whole
            else await scrub(scope, self._session_id, mirror, history)
        )
        self._looked = scope.generation
        if held.window is not held.full:  # as they are on Agently 4.0.8, once a history was set
            take_out(held.window, of_window(window, history, found))
        take_out(held.full, found)
        if found:
            settle(mirror, history, found)
