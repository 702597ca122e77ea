"""How a session remembers: what `attach` and `session` take, checked once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from agently_gumem.engine import checked_name
from agently_gumem.errors import ConfigError
from agently_gumem.tool_calls import RecordActions, Wanted, as_wanted
from agently_gumem.triggers import Trigger, TriggerState, Window, as_trigger, window_of


@dataclass(frozen=True)
class SessionOptions:
    """How a session remembers; checked once, by `make`."""

    when: Trigger
    window: Window
    strategy: str
    wait: float
    remember: bool
    session_memo: Literal["text", "dict"]
    record_actions: Wanted = True

    @classmethod
    def make(
        cls,
        *,
        when: Callable[[TriggerState], bool],
        keep: int = 4,
        strategy: str = "compress_with_memo",
        wait: float = 2.0,
        remember: bool = True,
        session_memo: str = "text",
        record_actions: RecordActions = True,
    ) -> "SessionOptions":
        """Check and complete the options.

        Raises:
            ConfigError: One of them is wrong.
        """
        trigger = as_trigger(when)
        checked_name(strategy, "strategy")
        if not isinstance(wait, int | float) or isinstance(wait, bool) or not wait >= 0:
            raise ConfigError(f"wait={wait!r} takes seconds, 0 or more")
        wanted = as_wanted(record_actions)
        window = window_of(trigger, keep)
        if session_memo == "dict":
            return cls(trigger, window, strategy, wait, remember, "dict", wanted)
        if session_memo == "text":
            return cls(trigger, window, strategy, wait, remember, "text", wanted)
        raise ConfigError(f'session_memo={session_memo!r} is neither "text" nor "dict"')
