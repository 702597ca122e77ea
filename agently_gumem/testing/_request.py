"""What the server received, read the way a test asks for it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

Stage = Literal["extract", "summarize", "memo"]

_STAGE = re.compile(r"^gumem\.(extract|summarize|memo)[ \t]*$", re.MULTILINE)
_NEEDED = {"extract": "# NEW MESSAGES", "summarize": "# ALL TOPICS", "memo": "# FACTS"}
_HEADINGS = (
    "NEW MESSAGES",
    "KNOWN FACTS",
    "TOPICS",
    "MEMO",
    "MEMO SCHEMA",
    "FACTS",
    "ALL TOPICS",
)
_HEADING = re.compile(rf"^# ({'|'.join(_HEADINGS)})[ \t]*$")
_MEMO = re.compile(
    r"^\[CHAT SESSION MEMO\]:\n(.*?)(?=\n\[[A-Z][A-Z0-9 _]*\]:[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_INPUT = re.compile(
    r"^\[INPUT\]:\n(.*?)(?=\n+\[OUTPUT(?: REQUIREMENT)?\]:[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)


@dataclass
class Request:
    """One request as it came over HTTP."""

    body: dict[str, Any]
    """The whole JSON body."""
    index: int = 0
    """Its place among all requests of the server, from 0."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    started: float = 0.0
    """`time.monotonic()` when it was read."""
    ended: float | None = None
    """`time.monotonic()` when the last byte was sent, None until then."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The chat messages, oldest first."""
        found = self.body.get("messages")
        return cast("list[dict[str, Any]]", found) if isinstance(found, list) else []

    @cached_property
    def text(self) -> str:
        """The content of the last user message: what Agently rendered for this turn."""
        texts = [_text(m.get("content")) for m in self.messages if m.get("role") == "user"]
        return texts[-1] if texts else ""

    @cached_property
    def question(self) -> str:
        """The user's own input: the text under `[INPUT]:`, or the whole bare text."""
        found = _INPUT.search(self.text)
        return (found.group(1) if found else self.text).strip()

    @cached_property
    def memo_section(self) -> str | None:
        """The text under `[CHAT SESSION MEMO]:` up to the next section; None without it."""
        found = _MEMO.search(self.text)
        return found.group(1).strip() if found else None

    @cached_property
    def memory_stage(self) -> Stage | None:
        """Which of the memory's own requests it is; None for a chat request.

        Told by the first line of the memory's prompt (`gumem.extract` and its like, alone on its
        line) together with the heading that this stage can't do without.
        """
        prompt = self._prompt
        for stage in _STAGE.findall(prompt):
            if re.search(rf"^{_NEEDED[stage]}[ \t]*$", prompt, re.MULTILINE):
                return cast("Stage", stage)
        return None

    @cached_property
    def instructions(self) -> str:
        """The rules of a memory request: its text before the first heading of data."""
        lines = self._prompt.splitlines() if self.memory_stage else []
        end = next((i for i, line in enumerate(lines) if _HEADING.match(line)), len(lines))
        return "\n".join(lines[:end])

    @cached_property
    def data(self) -> dict[str, list[Any]]:
        """The data of a memory request: heading -> the JSON lines below it, parsed.

        `data["NEW MESSAGES"]` is a list of messages, `data["MEMO"][0]` the memo. A heading that
        the request does not have is missing.
        """
        if self.memory_stage is None:
            return {}
        found: dict[str, list[Any]] = {}
        current: list[Any] | None = None
        for line in self._prompt.splitlines():
            heading = _HEADING.match(line)
            if heading:
                current = found[heading.group(1)] = []
            elif current is not None and not _append_json(current, line):
                current = None
        return found

    @cached_property
    def _prompt(self) -> str:
        system = [_text(m.get("content")) for m in self.messages if m.get("role") == "system"]
        return "\n".join([*system, self.text])


def _text(content: Any) -> str:
    """Read content that is a text or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = cast("list[Any]", content)
    return "\n".join(str(p.get("text", "")) for p in parts if isinstance(p, dict))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _append_json(lines: list[Any], line: str) -> bool:
    try:
        lines.append(json.loads(line))
    except ValueError:
        return False
    return True
