"""What the scripted server sends back, well or badly."""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agently_gumem.errors import ConfigError

_PIECES = 4


@dataclass(frozen=True)
class Reply:
    """One answer of the server; every way in which a real one goes wrong is a field.

    Example:
        `Reply("hello", delay=0.2)`, `Reply(status=429, headers={"Retry-After": "1"})`,
        `Reply(chunks=["half an "], cut=True)`, `Reply(drop=True)`, `Reply("late", wait=event)`.
    """

    text: str = ""
    """The assistant's text, or a dict (sent as JSON); with an error status, its message."""
    delay: float = 0.0
    """Seconds before it is sent."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    chunks: Sequence[str] | None = None
    """The deltas of a streamed answer; None splits `text` into a few."""
    cut: bool = False
    """End the connection after what was sent, in the middle of the answer."""
    drop: bool = False
    """Close the connection without any answer."""
    wait: threading.Event | None = None
    """Hold the answer back until this is set, or the server stops."""
    wait_after: int = 0
    """Deltas of a stream that are sent before `delay` and `wait`: a stream that stalls."""

    def __post_init__(self) -> None:
        given: object = self.text
        if isinstance(given, Mapping):
            text = json.dumps(given, ensure_ascii=False)
            object.__setattr__(self, "text", text)
        elif not isinstance(given, str):
            raise ConfigError(
                f"a Reply's text is a text or a dict (sent as JSON), not {type(given).__name__}"
            )

    @property
    def pieces(self) -> list[str]:
        """The deltas in their order."""
        if self.chunks is not None:
            return list(self.chunks)
        size = max(1, -(-len(self.text) // _PIECES))
        return [self.text[i : i + size] for i in range(0, len(self.text), size)]

    @property
    def whole(self) -> str:
        """The text of all deltas."""
        return self.text if self.chunks is None else "".join(self.chunks)


def as_reply(value: "str | Mapping[str, Any] | Reply") -> Reply:
    """Take a text, the JSON object to answer with, or a whole Reply."""
    if isinstance(value, Reply):
        return value
    if isinstance(value, str):
        return Reply(value)
    return Reply(json.dumps(value, ensure_ascii=False))
