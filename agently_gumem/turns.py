"""What happens at a turn of one session: journal, decide, digest, cut; all beside Agently.

No exception of ours reaches the turn: it is logged, emitted as an event, and in `status()`.
"""

import secrets
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from agently_gumem.behind import Digests, IdleClock
from agently_gumem.called import Calls
from agently_gumem.config import RecallConfig
from agently_gumem.engine import Engine, checked_name, switched_off
from agently_gumem.errors import Closed
from agently_gumem.held import (
    MARK,
    Held,
    Measured,
    Sieve,
    as_text,
    fingerprint,
    is_ours,
    measure,
)
from agently_gumem.options import SessionOptions
from agently_gumem.query import Asked, memo_text
from agently_gumem.records import NOTE, MemoryContext, Message, now
from agently_gumem.remember import journal as journaling
from agently_gumem.remember.align import Mirror, Said, said
from agently_gumem.remember.asked import asks_to_remember
from agently_gumem.remember.happened import Happened
from agently_gumem.scope import Scope
from agently_gumem.triggers import Idle, TriggerState, parts
from agently_gumem.user import UserMemory
from agently_gumem.versions import mend_doubles
from agently_gumem.worker import CALLBACK_WITHIN, Worker, awaitable, blocking

R = TypeVar("R")

Handled = tuple[None, list[Any] | None, Any]
NOTHING: Handled = (None, None, None)
# Seconds that a turn waits for its journal at most, beside its digest: a store that hangs, such as
# a server that is gone, must not hold the user's answer. What was not journaled is in the next one.
TURN_WITHIN = 30.0


class HostSide(Protocol):
    """What a session asks of the agent that it runs on."""

    @property
    def agent(self) -> Any:
        """The agent, whose settings the memory's own requests inherit."""
        ...

    def overlapping(self) -> str:
        """Say why nothing of the present turns may be read or kept; empty where it may."""
        ...

    def strayed(self, memory: "SessionTurns", recorded: str) -> bool:
        """Tell whether what is recorded in its session was asked by another user."""
        ...

    def refusal(self, memory: "SessionTurns") -> str:
        """Say why an action of this session may not be served now; empty where it may."""
        ...

    def turn_ended(self, memory: "SessionTurns") -> None:
        """Note that a turn was answered and recorded."""
        ...

    def window_of(self, memory: "SessionTurns") -> Sequence[Any]:
        """Return the window of the Agently session that it serves."""
        ...

    def release(self, memory: "SessionTurns") -> None:
        """Let go of its memory."""
        ...

    def history_of(self, memory: "SessionTurns") -> tuple[Any, Sequence[Any]] | None:
        """Return its session settings and full context, where the session is known."""
        ...

    def held_of(self, memory: "SessionTurns") -> Held | None:
        """Return Agently's own lists of the session that it serves, where it is known."""
        ...

    def refresh(self, memory: "SessionTurns", memo: Any) -> None:
        """Put the memo as it is now, where it is ours, and the window into what Agently holds."""
        ...


@dataclass(frozen=True)
class Request:
    """A question that is on its way to the model."""

    question: str
    """As text, whatever its shape."""
    recorded: str
    """What will be recorded of it, where that is known."""
    held: Held
    fields: frozenset[str] = frozenset()
    """Those that a structured answer was asked to have."""


@dataclass(frozen=True)
class _Mixed:
    """A history, and from where on it may hold what another user said."""

    history: Sequence[Said]
    start: int


class SessionTurns:
    """The turns of one session: Agently's two handlers, and what the agent's side tells."""

    def __init__(
        self,
        engine: Engine,
        user: UserMemory,
        session_id: str,
        options: SessionOptions,
        host: HostSide | None = None,
    ) -> None:
        self._engine = engine
        self.user = user
        self.user_id = user.user_id
        self.space = user.space
        self.session_id = checked_name(session_id, "session_id")
        self.options = options
        self.host = host
        self.ended = False
        self.executes = False
        """Our execution handler runs for it; else memo and window are somebody else's."""
        self._detached = False
        self._bound: Any = None
        self._mirror = Mirror()
        self._calls = Calls(engine, options.record_actions, self.note_failure)
        self._analysed = False
        self._generation = 0
        """Up to which forgetting its memo was written anew."""
        self._sieve = Sieve(self.session_id)
        key = (self.user_id, self.space, self.session_id)
        self._digests = Digests(engine, key, options.wait, self._agent)
        self._clock = IdleClock(
            engine,
            key,
            [p.minutes for p in parts(options.when) if isinstance(p, Idle)],
            self._idle,
        )
        engine.opened(self)
        if host is not None:
            engine.served_by(self.user_id, self.space, host.agent)

    @property
    def worker(self) -> Worker:
        """Where its methods run."""
        return self._engine.worker

    @property
    def _whose(self) -> dict[str, str]:
        return {"user_id": self.user_id, "space": self.space, "session_id": self.session_id}

    @property
    def active(self) -> bool:
        """Whether it reads and writes at all."""
        wanted = self.options.remember and not self._detached
        return wanted and not switched_off() and not self._engine.gone

    # -- Agently's handlers ----------------------------------------------------------------------

    async def analysis_handler(
        self, full_context: Any, context_window: Any, memo: Any, session_settings: Any
    ) -> str | None:
        """Journal what is new, and name our strategy where a digest or a cut is due."""
        if not self.active:
            return None
        mend_doubles(full_context, context_window)
        return await self.guarded(
            "analysis",
            self.worker.within(
                TURN_WITHIN,
                self._owner,
                self._analyse,
                full_context,
                context_window,
                memo,
                session_settings,
            ),
            None,
        )

    async def execution_handler(
        self, full_context: Any, context_window: Any, memo: Any, session_settings: Any
    ) -> Handled:
        """Digest, and return `(None, kept window, memo)`; None leaves a part as it is."""
        if not self.active:
            return NOTHING
        mend_doubles(full_context, context_window)
        return await self.guarded(
            "execution",
            self.worker.within(
                TURN_WITHIN + self.options.wait,
                self._owner,
                self._execute,
                full_context,
                context_window,
                memo,
                session_settings,
            ),
            NOTHING,
        )

    async def turn_recorded(self, held: Held, memo: Any) -> str | None:
        """Do the analysis handler's work for a turn, whatever other turns have added since."""
        if not self.active:
            return None
        work = self.worker.within(
            TURN_WITHIN,
            self._owner,
            self._analyse,
            held.full,
            held.window,
            memo,
            held.settings,
            answered=True,
        )
        return await self.guarded("analysis", work, None)

    async def guarded(self, what: str, work: Awaitable[R], otherwise: R) -> R:
        """Await our own work inside a turn: the turn goes on whatever happens in it."""
        try:
            return await work
        except Exception as error:  # noqa: BLE001  # the border to the user's turn
            if isinstance(error, Closed) and self._engine.gone:
                self._engine.say_gone()
            else:
                await self.failed(what, error)
            return otherwise

    async def failed(self, what: str, error: Exception) -> None:
        """Log a failure, emit it, and keep it for `status()`; by its kind, never its text."""
        self.note_failure(what, error)

    def note_failure(self, what: str, error: Exception) -> None:
        """Do what `failed` does, on any thread, also where the memory is closed."""
        self._engine.failed(what, error, self._whose)

    async def _analyse(
        self, full: Any, window: Any, memo: Any, settings: Any, *, answered: bool = False
    ) -> str | None:
        mirror = self._mirror_of(settings)
        answered = answered or (bool(full) and said(full[-1]).role != "user")
        if (mixed := self._overlaps(mirror, full, answered)) is not None:
            await self._pass_over(mixed)
            return None
        async with self._use() as scope:
            await self._sieve.look_through(scope, Held(settings, full, window), mirror)
            new = await self._journaled(scope, mirror, full)
            if not answered:
                return None
            self._counted(scope, new)
            self._digests.look_back(scope)
            shown = await self._measured(window)
            state = self._state(scope, shown)
            fired = await self._asked(state)
            at_once = any(_wants_digest(m) for m in new)
            started = (fired or at_once) and self._digests.start(
                scope, beside=at_once, last_chance=at_once
            )
            if fired or at_once:
                self._told_triggered(state, started)
            cut = not scope.paused and self._cut(shown)[1] > 0
            due = started or cut or self._memo_is_new(scope, memo, settings)
            if scope.tombs and self._generation != scope.generation:
                due = due or is_ours(memo, settings)
        # Where we ask for nothing, who runs our strategy next does so on his own account.
        self._analysed = due
        return self.options.strategy if due else None

    async def _execute(self, full: Any, window: Any, memo: Any, settings: Any) -> Handled:
        mirror = self._mirror_of(settings)
        alone, self._analysed = not self._analysed, False
        if (mixed := self._overlaps(mirror, full, alone)) is not None:
            await self._pass_over(mixed)
            return NOTHING
        self.executes = True
        async with self._use() as scope:
            if alone:
                self._counted(scope, await self._journaled(scope, mirror, full))
                self._digests.look_back(scope)
            if memo is not None and memo not in ("", {}) and not is_ours(memo, settings):
                await journaling.import_memo(scope, self.session_id, as_text(memo))
            if alone:
                self._digests.start(scope)
            await self._digests.wait()
            self._generation = scope.generation
            written = await self._session_memo(scope, full, memo, settings)
            paused = scope.paused
        # Read after the wait: a turn that overlaps may have added to the window meanwhile.
        kept = None if paused else await self._kept(mirror, window)
        if written is not None:
            settings.set(MARK, fingerprint(written))
        return None, kept, written

    # -- what the host tells ---------------------------------------------------------------------

    async def prepare(self, asked: "Request") -> MemoryContext:
        """Note that a question is on its way, and recall for it; on the worker's loop.

        What an earlier process left of this user starts to be digested beside it.
        """
        self.ended = False
        mirror = self._mirror_of(asked.held.settings)
        async with self._use() as scope:
            await self._sieve.look_through(scope, asked.held, mirror)
            place = len(asked.held.full)
            mirror.live[place] = now()
            mirror.asked[place] = asked.recorded
            mirror.asks(asked.recorded, asked.fields)
            self._calls.asking(asked.recorded)
            self._digests.look_back(scope)
            if scope.tombs and self.host is not None:
                # A session that was saved before brings its memo of then along.
                self.host.refresh(self, self._held_memo(scope))
        return await self.context_for(asked.question, list(asked.held.window), self._engine.recall)

    async def catch_up(self) -> None:
        """Journal what Agently holds and the journal lacks; never raises."""

        async def work() -> None:
            async with self._use() as scope:
                await self._journal_now(scope)

        if self.active:
            await self.guarded("journal", work(), None)

    async def let_go(self, scope: Scope, *, whole: bool) -> None:
        """Take what was forgotten out of what Agently holds; under the user's journal lock.

        Args:
            scope: The user.
            whole: All of its history goes, also what was never stored; not a question that is on
                its way.
        """
        held = self.host.held_of(self) if self.host is not None else None
        if held is None or self.host is None:
            return
        await self._sieve.take_out(scope, held, self._mirror_of(held.settings), whole=whole)
        self.host.refresh(self, self._held_memo(scope))

    async def note_end(self) -> None:
        """Note on the worker's loop that the agent left the session; never raises."""
        await self.guarded("end", self._end(), None)

    async def has_imported(self, memo: Any) -> bool:
        """Tell whether a memo of another handler was taken over already."""
        async with self._use() as scope:
            return journaling.imported_id(scope, self.session_id, as_text(memo)) in (
                scope.index.messages
            )

    async def _end(self) -> None:
        """Note that the session was deactivated, switched away from, or closed."""
        if self.ended or not self.active:
            return
        self.ended = True
        self._clock.stop()
        async with self._use() as scope:
            await self._journal_now(scope, last=True)
            await self._decide(scope, ended=True)

    end, async_end = blocking(_end), awaitable(_end)

    async def context_for(
        self, query: str, window: Sequence[Any], config: RecallConfig
    ) -> MemoryContext:
        """Recall for a question beside a window, on the worker's loop."""
        if not self.active:
            return MemoryContext(query=query)
        return await self.user.recall(Asked(query, config, self.session_id, list(window)))

    # -- decisions -------------------------------------------------------------------------------

    @property
    def _owner(self) -> tuple[str, str]:
        return self.user_id, self.space

    def _use(self) -> Any:
        return self._engine.use(self.user_id, self.space)

    def _mirror_of(self, session_settings: Any) -> Mirror:
        """Return the mirror of the Session object that these settings belong to."""
        if self._bound is not session_settings:
            self._bound, self._mirror = session_settings, Mirror()
        return self._mirror

    def _overlaps(self, mirror: Mirror, full: Any, answered: bool) -> "_Mixed | None":
        """Return what has come into a history that may be another user's; None: nothing such."""
        if self.host is None:
            return None
        history = [said(m) for m in list(full)]
        asked = next((m.text for m in reversed(history) if m.role == "user"), "")
        mixed = bool(self.host.overlapping())
        strayed = not mixed and self.host.strayed(self, asked)
        if answered:
            self.host.turn_ended(self)
        if not mixed and not strayed:
            return None
        known = len(mirror.seen or ())
        mirror.passed(history, waits=strayed)
        return _Mixed(history, known)

    async def _pass_over(self, mixed: "_Mixed") -> None:
        """Keep out what overlapping turns said, also when the session is saved and loaded."""
        self._calls.clear()
        async with self._use() as scope:
            await journaling.pass_over(scope, mixed.history, mixed.start)

    def _counted(self, scope: Scope, new: Sequence[Message]) -> None:
        """Count a turn and put off the idle digest."""
        if not new:
            return
        self.ended = False
        scope.backoff.turn()
        self._clock.restart()

    async def _idle(self, minutes: float) -> None:
        async def work() -> None:
            async with self._use() as scope:
                await self._decide(scope, idle_minutes=minutes)

        if self.active:
            await self.guarded("idle", work(), None)

    async def _decide(self, scope: Scope, **happened: Any) -> None:
        """Ask the trigger beside a turn, when something has happened, and digest at once."""
        state = await self._fired(scope, **happened)
        if state is not None:
            self._start_beside(scope, state)

    async def _fired(self, scope: Scope, **happened: Any) -> TriggerState | None:
        """Ask the trigger about what has happened; give the state that it fires at."""
        state = self._state(scope, await self._measured(self._window()))
        state = replace(state, **happened)
        return state if await self._asked(state) else None

    def _start_beside(self, scope: Scope, state: TriggerState) -> None:
        started = self._digests.start(scope, beside=True, last_chance=state.ended)
        self._told_triggered(state, started)

    def _told_triggered(self, state: TriggerState, started: bool) -> None:
        told = {"digest": started, **{k: v for k, v in vars(state).items() if v is not None}}
        self._engine.events.tell("triggered", {**self._whose, **told})

    def _window(self) -> Sequence[Any]:
        return self.host.window_of(self) if self.host is not None else ()

    def _agent(self) -> Any | None:
        if self.host is not None:
            return self.host.agent
        return self._engine.agent_of(self.user_id, self.space)

    def _state(self, scope: Scope, shown: Measured) -> TriggerState:
        waiting = scope.waiting(self.session_id)
        return TriggerState(
            messages=len(shown.roles),
            chars=shown.chars,
            tokens=shown.tokens,
            turns=sum(m.role == "assistant" for m in waiting),
            pending=len(waiting),
            session_id=self.session_id,
        )

    async def _measured(self, window: Sequence[Any]) -> Measured:
        count = self._engine.services.count_tokens
        return await self.worker.apart(CALLBACK_WITHIN, self._owner, measure, list(window), count)

    async def _asked(self, state: TriggerState) -> bool:
        """Ask the trigger in the pool: a function of the application never runs on our loop."""
        try:
            return await self.worker.apart(CALLBACK_WITHIN, self._owner, self.options.when, state)
        except Exception as error:  # noqa: BLE001  # the application's own function
            await self.failed("trigger", error)
            return False

    async def took(self, full_result: Any) -> None:
        """Take what tools returned for the question that is being answered."""
        self._calls.take(full_result)

    def _refusal(self) -> str:
        """Say why actions of a model may not read or write now."""
        if not self.active:
            return "memory is off for this session"
        return self.host.refusal(self) if self.host is not None else ""

    async def _note(self, text: str) -> str:
        """Keep what the model chose, between this question and its answer; it is digested then."""
        if self.host is None or self._session_known() is None:
            return await self.user.keep_note(text, self.session_id)
        async with self._use() as scope:
            if (await self.worker.thread(scope.services.select, text)).drop:
                return ""
            note = Happened((secrets.token_hex(8),), "", "assistant", NOTE, text, now())
            self._calls.add(note)
            return journaling.happened_id(scope, self.session_id, note)

    def _session_known(self) -> Any | None:
        return self.host.history_of(self) if self.host is not None else None

    async def _journaled(
        self, scope: Scope, mirror: Mirror, full: Any, *, last: bool = False
    ) -> list[Message]:
        """Journal what is new of a history, and what happened between its messages."""
        waiting = await self._calls.chosen(scope)
        new = await journaling.journal(scope, self.session_id, mirror, full, waiting, last=last)
        self._calls.answered(new)
        return new

    async def _journal_now(self, scope: Scope, *, last: bool = False) -> None:
        """Journal what the session holds at this moment, where it is known."""
        if self.host is None or self.host.overlapping():
            return
        known = self.host.history_of(self)
        if known is not None:
            settings, full = known
            await self._journaled(scope, self._mirror_of(settings), full, last=last)

    async def _kept(self, mirror: Mirror, window: Any) -> list[Any] | None:
        """Cut the window, only by what the store has confirmed.

        Agently's own list is cut in place, and None returned: in place of a list that is returned,
        what a turn at the same time has added meanwhile would be dropped.
        """
        held = list(window)
        shown = await self._measured(held)
        lead, cut = self._cut(shown)
        handled: set[Said] = set(mirror.seen or ())
        if not cut or not all(said(m) in handled for m in held[lead : lead + cut]):
            return None
        if self._is_agentlys(window):
            # Another turn may have cut it meanwhile.
            if list(map(id, window[: lead + cut])) == list(map(id, held[: lead + cut])):
                del window[lead : lead + cut]
            return None
        # What came while it was measured stays.
        return [*held[:lead], *held[lead + cut :], *list(window)[len(held) :]]

    def _is_agentlys(self, window: Any) -> bool:
        """Tell whether it is the list that Agently itself shows, and not its history as well.

        Those two are one on 4.0.8, once a history was set.
        """
        held = self.host.held_of(self) if self.host is not None else None
        return held is not None and held.window is window and held.full is not window

    def _cut(self, shown: Measured) -> tuple[int, int]:
        """Say how many instructions stand first, which stay, and how many messages leave."""
        roles = shown.roles
        lead = next((i for i, r in enumerate(roles) if r not in journaling.INSTRUCTIONS), 0)
        return lead, self.options.window.cut(roles[lead:], shown.sizes[lead:])

    async def _session_memo(
        self, scope: Scope, full: Sequence[Any], memo: Any, settings: Any
    ) -> Any:
        """Return what Agently holds between requests; None leaves it as it is."""
        # An empty one takes an old one of ours out; the prefix handler shows no section for it.
        ours = bool(memo) and is_ours(memo, settings)
        if self.options.session_memo == "dict":
            value = self._held_memo(scope)
            return value if value or ours else None
        if self.host is None:
            # Nothing replaces the section at each request, so it is this question's own context.
            asked = next((s.text for s in map(said, reversed(list(full))) if s.role == "user"), "")
            context = await self.context_for(asked, (), self.user.config(None))
            return context.formatted_context or ("" if ours else None)
        text = self._held_memo(scope)
        return text if text or ours else None

    def _held_memo(self, scope: Scope) -> Any:
        """Return the memo as Agently holds it between requests, as text or as data."""
        if self.options.session_memo == "dict":
            return scope.services.schema.fitting(scope.memo.value) if scope.memo else {}
        return memo_text(scope, self._engine.recall.memo_tokens)

    def _memo_is_new(self, scope: Scope, memo: Any, settings: Any) -> bool:
        """Tell whether a digest behind the turn changed what Agently holds."""
        if self.host is None or not (self.executes or is_ours(memo, settings)):
            return False
        if self.options.session_memo == "dict":
            value = self._held_memo(scope)
            return value != memo if value else bool(memo) and is_ours(memo, settings)
        return self._held_memo(scope) != (memo or "")


def _wants_digest(message: Message) -> bool:
    """Tell whether the user, or the model on the user's behalf, asks to remember something."""
    if message.event_type == NOTE:
        return True
    return message.role == "user" and asks_to_remember(message.content)
