"""The user's own requests go first: what the memory asks for a user waits for that user's turn.

Not for the turns of others: with many users there is always somebody's, and memory would starve.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass

from agently_gumem.budget.clock import Clock

WITHIN = 10.0
"""Seconds that a memory request waits for turns of its user, at most: a chat that never pauses
holds it up no longer."""
# A turn that was left without an end (a generator that was closed early) counts no longer.
COUNTS_FOR = 60.0


@dataclass(frozen=True, eq=False)
class _Turn:
    """One that is on its way: of which session, and since when."""

    session: int
    asked: str
    began: float


class OwnTurns:
    """Turns of users that are on their way to the model; told of from any thread."""

    def __init__(self, clock: Callable[[], Clock]) -> None:
        self._clock = clock
        self.renew()

    def renew(self) -> None:
        """Begin anew in a forked child, where no turn lands that the parent began."""
        self._lock = threading.Lock()
        self._turns: dict[str, list[_Turn]] = {}
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def begin(self, user_id: str, session: object, asked: str = "") -> None:
        """Note that a question goes out, in the task that carries it; of the object `session`.

        Rounds of one question, as of tools and retries, are `asked` alike, and are one turn.
        """
        turn = _Turn(id(session), asked, self._clock().seconds())
        with self._lock:
            self._turns.setdefault(user_id, []).append(turn)
        if (task := _task()) is not None:
            task.add_done_callback(lambda _: self._over(user_id, turn))

    def end(self, user_id: str, session: object) -> None:
        """Note that the oldest one of a session was answered, with all its rounds."""
        with self._lock:
            own = [t for t in self._turns.get(user_id, ()) if t.session == id(session)]
        for turn in own:
            if turn is own[0] or (turn.asked and turn.asked == own[0].asked):
                self._over(user_id, turn)

    def under_way(self, user_id: str) -> bool:
        """Tell whether one of the user is on its way."""
        oldest = self._clock().seconds() - COUNTS_FOR
        with self._lock:
            self._keep(user_id, [t for t in self._turns.get(user_id, ()) if t.began > oldest])
            return user_id in self._turns

    async def landed(self, user_id: str) -> None:
        """Wait until none is on its way, `WITHIN` seconds at most; on the worker's loop."""
        if not self.under_way(user_id):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if user_id not in self._turns:
                return
            self._waiting.setdefault(user_id, set()).add(future)
        timer = self._clock().later(WITHIN, lambda: _done(future))
        try:
            await future
        finally:
            timer.cancel()
            with self._lock:
                if (held := self._waiting.get(user_id)) is not None:
                    held.discard(future)

    def _over(self, user_id: str, turn: _Turn) -> None:
        """Take one out; whoever waits goes on after the last."""
        with self._lock:
            self._keep(user_id, [t for t in self._turns.get(user_id, ()) if t is not turn])
            waiting = user_id not in self._turns and self._waiting.pop(user_id, None)
        for future in waiting or ():
            loop = future.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_done, future)

    def _keep(self, user_id: str, held: list[_Turn]) -> None:
        if held:
            self._turns[user_id] = held
        else:
            self._turns.pop(user_id, None)


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _task() -> "asyncio.Task[object] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs here: nothing tells the end but the answer
        return None
