"""What Agently holds of a session between requests: whose memo it is, and how large its window."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agently_gumem.remember.align import said

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
