"""The calls of tools of one session, on their way to the journal."""

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agently_gumem.engine import Engine
from agently_gumem.records import Message
from agently_gumem.remember.align import NO_ANSWER
from agently_gumem.remember.happened import Happened
from agently_gumem.scope import Scope
from agently_gumem.tool_calls import MOST_CALLS, ToolCall, Wanted, calls_of

# Seconds that a function of the application may take to decide on one call.
_DECIDED_WITHIN = 2.0


@dataclass(frozen=True)
class _Taken:
    """A call that nobody decided on yet."""

    call: ToolCall
    question: str
    turn: str


class Calls:
    """What tools returned in a session, until it is journaled.

    Args:
        engine: Knows the memory's own actions, which are left out.
        wanted: Which calls are journaled.
        failed: Tells what failed in it, on any thread.
    """

    def __init__(
        self, engine: Engine, wanted: Wanted, failed: Callable[[str, Exception], None]
    ) -> None:
        self._engine = engine
        self._wanted = wanted
        self._failed = failed
        self._question = ""
        self._turn = secrets.token_hex(6)
        self._answered = False
        self._taken: deque[_Taken] = deque()
        self._waiting: list[Happened] = []

    def asking(self, question: str) -> None:
        """Note that a question is on its way; the same one again may be a second attempt."""
        if self._answered or question != self._question:
            self._turn, self._answered = secrets.token_hex(6), False
        self._question = question

    def answered(self, new: Sequence[Message]) -> None:
        """Note what was journaled: an answer ends a turn, that of a failed attempt does not."""
        if any(m.role == "assistant" and m.content != NO_ANSWER for m in new):
            self._answered = True

    def take(self, full_result: Any) -> None:
        """Take what tools returned for the question; on any thread, before the answer begins."""
        if self._wanted is False:
            return
        own = self._engine.own_actions
        calls = [c for c in calls_of(full_result, own, self._unread) if not c.own]
        if len(calls) > MOST_CALLS:
            self._engine.troubles.counts["tool_calls_left_out"] += len(calls) - MOST_CALLS
        for call in calls[-MOST_CALLS:]:
            self._taken.append(_Taken(call, self._question, self._turn))

    def _unread(self, error: Exception) -> None:
        self._failed("tool_calls", error)

    def add(self, happened: Happened) -> None:
        """Let something else wait for the answer."""
        self._waiting.append(happened)

    def clear(self) -> None:
        """Drop all of it: it may be another user's."""
        self._taken.clear()
        self._waiting.clear()

    @property
    def question(self) -> str:
        """The question that is on its way."""
        return self._question

    async def chosen(self, scope: Scope) -> list[Happened]:
        """Return what waits; the journal takes out of it what it has handled."""
        if scope.paused:
            self.clear()
        while self._taken:
            taken = self._taken.popleft()
            happened = taken.call.happened(taken.question, taken.turn)
            known = {h.key for h in self._waiting}
            if happened.key not in known and await self._is_wanted(taken.call, scope.key):
                self._waiting.append(happened)
        return self._waiting

    async def _is_wanted(self, call: ToolCall, whose: str) -> bool:
        """Ask the application in the pool; where its function fails, nothing is kept."""
        wanted = self._wanted
        if isinstance(wanted, bool):
            return wanted
        if isinstance(wanted, frozenset):
            return call.name in wanted
        try:
            apart = self._engine.worker.apart
            return bool(
                await apart(_DECIDED_WITHIN, whose, wanted, call.name, dict(call.arguments))
            )
        except Exception as error:  # noqa: BLE001  # the application's own function
            self._failed("record_actions", error)
            return False
