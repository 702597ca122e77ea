"""The agent's side: what is set on an agent, and how it is undone.

Before each request a handler puts the question's own context into the prompt.
"""

import contextlib
import contextvars
import functools
import json
import logging
import weakref
from collections.abc import Callable, Sequence
from typing import Any, cast

from agently_gumem.engine import Engine, switched_off
from agently_gumem.errors import Closed
from agently_gumem.flights import Flights, Owner
from agently_gumem.held import MARK, Held, fingerprint, is_ours
from agently_gumem.recall.memo import render_memo
from agently_gumem.session import MemorySession
from agently_gumem.text import make_safe
from agently_gumem.turns import Request, SessionTurns
from agently_gumem.versions import (
    analysis_of,
    lists_of,
    mend_doubles,
    put_analysis,
    put_first_extension,
    put_memo,
    take_out_extension,
)

SECTION = "CHAT SESSION MEMO"
# Seconds that a question waits for what is recalled for it; then it is asked without.
RECALL_WITHIN = 20.0
_log = logging.getLogger("agently_gumem")
# By agent, the session that this very task or thread has activated last on it: another one may
# have activated its own before the request of this one is on its way.
_activated: "contextvars.ContextVar[dict[int, weakref.ref[Any]] | None]"
_activated = contextvars.ContextVar("gumem_activated", default=None)
Resolve = Callable[[str, Any], MemorySession | None]


class Host:
    """Everything that is set on one agent, for one or many of its sessions.

    Args:
        agent: An Agently agent.
        engine: The memory's.
        resolve: (key of the session on the agent, Session object) -> its memory, or None.
        on_release: Called when one session's memory is detached on its own.
        on_activate: Called with the Session object after each `activate_session`.
        owner: Gives whose all sessions of the agent are; None where each is somebody's.
    """

    def __init__(
        self,
        agent: Any,
        engine: Engine,
        resolve: Resolve,
        on_release: Callable[[SessionTurns], None] | None = None,
        on_activate: Callable[[Any], None] | None = None,
        owner: Callable[[], Owner | None] = lambda: None,
    ) -> None:
        self.agent = agent
        self._engine = engine
        self._resolve = resolve
        self._on_release = on_release
        self._on_activate = on_activate
        self._owner_of_all = owner
        self._flights = Flights()
        self._set_input_keys = False
        self._wrappers: dict[str, Any] = {}
        self._active = False
        self._warned = False

    # -- what is set and undone ------------------------------------------------------------------

    def install(self) -> None:
        """Set the prefix handler, the input keys and the watch on the active session."""
        self._active = True
        put_first_extension(self.agent, "finally", self._answered)
        for place, handler in self._handlers():
            self.agent.extension_handlers.append(place, handler)
        if self.agent.settings.get("session.input_keys") is None:
            self.agent.set_settings("session.input_keys", ["input"])
            self._set_input_keys = True
        for name in ("activate_session", "deactivate_session"):
            self._wrappers[name] = self._watched(getattr(self.agent, name))
            setattr(self.agent, name, self._wrappers[name])

    def remove(self) -> None:
        """Undo `install`; what Agently can't take out is left inert."""
        if not self._active:
            return
        self._active = False
        for place, ours in [*self._handlers(), ("finally", self._answered)]:
            take_out_extension(self.agent, place, ours)
        if self._set_input_keys:
            self.agent.settings.delete("session.input_keys")
        for name, wrapper in self._wrappers.items():
            # Another wrapper around ours stays: ours is inert by then.
            if getattr(self.agent, "__dict__", {}).get(name) is wrapper:
                delattr(self.agent, name)

    def _handlers(self) -> list[tuple[str, Callable[..., Any]]]:
        return [
            ("request_prefixes", self._prefix),
            ("broadcast_prefixes", self._called),
            ("finally", self._recorded),
        ]

    def _watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            before = self.agent.activated_session
            bound = {id(s): (s, analysis_of(s)) for _, s in self._sessions()}
            result = original(*args, **kwargs)
            after = self.agent.activated_session
            self._note_activated(after)
            self._bind_again(bound)
            if self._active and self._on_activate is not None and after is not None:
                self._on_activate(after)
            if before is not None and before is not after:
                self._left(before)
            return result

        return call

    def _note_activated(self, session: Any | None) -> None:
        """Note in the caller's context which session it has activated on this agent; None: none."""
        held = {a: s for a, s in (_activated.get() or {}).items() if s() is not None}
        held.pop(id(self.agent), None)
        if session is not None:
            held[id(self.agent)] = weakref.ref(session)
        _activated.set(held)

    def _bind_again(self, bound: dict[int, tuple[Any, Any]]) -> None:
        """Give a session its own analysis handler back, which activating it wipes."""
        for session, handler in bound.values():
            if getattr(handler, "__self__", None) is not session and self._own(session, handler):
                put_analysis(session, handler)

    def _own(self, session: Any, handler: Any) -> bool:
        """Tell whether a handler is the one that we gave for this session."""
        memory = self.memory_of(session)
        wrapped = getattr(handler, "__wrapped__", handler)
        return memory is not None and memory.analysis_handler in (handler, wrapped)

    def _left(self, session: Any) -> None:
        memory = self.memory_of(session)
        if memory is None or not memory.active:
            return
        # Where the memory was closed before the agent, what waited is in the store.
        with contextlib.suppress(Closed, RuntimeError):  # or the system gives no thread
            self._engine.ending(self._engine.worker.submit(memory.note_end))

    # -- sessions --------------------------------------------------------------------------------

    def _sessions(self) -> list[tuple[str, Any]]:
        """List the agent's sessions by their keys: another thread may activate one meanwhile."""
        return list(self.agent.sessions.items())

    def key_of(self, session: Any) -> str | None:
        """Return the key of a Session object on the agent; loading a session changes its id."""
        return next((k for k, s in self._sessions() if s is session), None)

    def session_of(self, session_settings: Any) -> Any | None:
        """Find the Session object that a handler was called for."""
        return next(
            (s for _, s in self._sessions() if s.session_settings is session_settings),
            None,
        )

    def memory_of(self, session: Any) -> MemorySession | None:
        """Return the memory of a Session object of the agent."""
        key = self.key_of(session)
        return self._resolve(key, session) if key is not None else None

    def _session_for(self, memory: SessionTurns) -> Any | None:
        found = (s for _, s in self._sessions() if self.memory_of(s) is memory)
        return next(found, None)

    def window_of(self, memory: SessionTurns) -> Sequence[Any]:
        """Return the window of the session that a memory serves."""
        session = self._session_for(memory)
        return session.context_window if session is not None else ()

    def history_of(self, memory: SessionTurns) -> tuple[Any, Sequence[Any]] | None:
        """Return its settings and full context."""
        session = self._session_for(memory)
        return (session.session_settings, session.full_context) if session is not None else None

    def held_of(self, memory: SessionTurns) -> Held | None:
        """Return Agently's own lists of the session that a memory serves."""
        session = self._session_for(memory)
        return _held(session) if session is not None else None

    def refresh(self, memory: SessionTurns, memo: Any) -> None:
        """Put the memo as it is now in place of an older one of ours, and the window anew."""
        session = self._session_for(memory)
        if session is None:
            return
        settings = session.session_settings
        if is_ours(session.memo, settings) and session.memo != memo:
            put_memo(session, memo or None)
            settings.set(MARK, fingerprint(memo or None))
        if session is self.agent.activated_session and "chat_history" in self.agent.agent_prompt:
            del self.agent.agent_prompt["chat_history"]
            self.agent.agent_prompt.set("chat_history", session.context_window)

    # -- what a session asks --------------------------------------------------------------------

    def overlapping(self) -> str:
        """Say why nothing may be read or kept now: turns of two users overlap on the agent."""
        return self._flights.overlapping()

    def strayed(self, memory: SessionTurns, recorded: str) -> bool:
        """Tell whether what is recorded in its session was asked by another user."""
        return self._flights.strayed(_owner(memory), recorded)

    def refusal(self, memory: SessionTurns) -> str:
        """Say why an action of a session's memory may not be served: another user is served now."""
        if why := self.overlapping():
            return why
        session = self.agent.activated_session
        served = self.memory_of(session) if session is not None else memory
        if served is None or _owner(served) != _owner(memory):
            return "the active session of this agent is another user's"
        return ""

    def turn_ended(self, memory: SessionTurns) -> None:
        """Note that a turn was answered and recorded."""
        self._engine.budget.own.end(memory.user_id, memory)

    def release(self, memory: SessionTurns) -> None:
        """Let go of one session's memory."""
        if self._on_release is not None:
            self._on_release(memory)

    # -- the request -----------------------------------------------------------------------------

    async def _prefix(self, prompt: Any, _settings: Any) -> None:
        """Put this question's own context into the prompt; awaited before each request."""
        session = self.agent.activated_session
        if self._active and session is None and not self._warned:
            self._warned = True
            _log.warning("a turn without an active session is not remembered: activate_session()")
        if not self._active:
            return
        held = session is not None and is_ours(session.memo, session.session_settings)
        try:
            self._take_off(prompt, session)
        except Exception as error:  # noqa: BLE001  # the border to the user's turn
            self._engine.failed("recall", error, {})
            return
        if session is None:
            return
        if held and (switched_off() or session.memo is None):
            # Switched off in the middle: what Agently holds stays, and is not sent. Nor is what was
            # taken out just now, since another user's settings are there.
            _set_section(prompt, "")
        if self._engine.gone:
            self._engine.say_gone()
        memory = self.memory_of(session)
        if memory is not None and memory.active:
            await memory.guarded("recall", self._inject(memory, session, prompt), None)

    async def _called(self, full_result: Any, _settings: Any) -> None:
        """Take what tools returned for a question; called when its answer begins."""
        session = self.agent.activated_session
        memory = self.memory_of(session) if self._active and session is not None else None
        if memory is not None and memory.active and not self.overlapping():
            await memory.guarded("tool_calls", memory.took(full_result), None)

    async def _answered(self, result: Any, _settings: Any) -> None:
        """Note that a request's answer is there, or failed; called before Agently records it."""
        try:
            await result.async_get_text()
        except Exception:  # noqa: BLE001  # the request's own, which whoever asked gets
            self._flights.fail(result.prompt)
        else:
            self._flights.approach(result.prompt)

    async def _recorded(self, result: Any, _settings: Any) -> None:
        """Note that a request's answer was recorded; called after Agently did."""
        self._flights.land(result.prompt)

    def _take_off(self, prompt: Any, active: Any | None) -> None:
        """Note a request; also one that no memory serves: what is recorded of it is nobody's."""
        held = (_activated.get() or {}).get(id(self.agent))
        session = held() if held is not None else None
        asking = active if session is None or self.key_of(session) is None else session
        self._flights.take_off(
            prompt, self._whose(asking), _recorded(prompt), active=self._whose(active)
        )

    def _whose(self, session: Any | None) -> Owner:
        """Say whose what is recorded in a session is; one without a memory is nobody's."""
        memory = self.memory_of(session) if session is not None else None
        if memory is not None:
            return _owner(memory)
        return self._owner_of_all() or ("", "")

    async def _inject(self, memory: MemorySession, session: Any, prompt: Any) -> None:
        recorded = _recorded(prompt)
        self._engine.budget.own.begin(memory.user_id, memory, recorded)
        ours = session.memo is None or is_ours(session.memo, session.session_settings)
        if self.overlapping():
            if ours:
                _set_section(prompt, "")
            return
        shown = session.context_window
        mend_doubles(*lists_of(session))
        request = Request(_question(prompt), recorded, _held(session), _fields(prompt))
        owner, within = (memory.user_id, memory.space), self._engine.worker.within
        context = await within(RECALL_WITHIN, owner, memory.prepare, request)
        if list(map(id, shown)) != list(map(id, session.context_window)):
            # What was forgotten came with a history that was restored, or stood there twice, and
            # is out of it now.
            del prompt["chat_history"]
            prompt.set("chat_history", session.context_window)
        text = context.formatted_context
        if not ours and not await within(RECALL_WITHIN, owner, memory.has_imported, session.memo):
            text = "\n\n".join(part for part in (_foreign(session.memo), text) if part)
        _set_section(prompt, text)


def _held(session: Any) -> Held:
    """Return Agently's own lists: its properties give copies."""
    return Held(session.session_settings, *lists_of(session))


def _owner(memory: SessionTurns) -> tuple[str, str]:
    return memory.user_id, memory.space


def _set_section(prompt: Any, text: str) -> None:
    """Replace the section, or take it out: an empty text would leave a bare heading."""
    if text:
        prompt.set(SECTION, text)
    elif SECTION in prompt:
        del prompt[SECTION]


def _recorded(prompt: Any) -> str:
    """Return what will be recorded of the question; empty where that is not known."""
    asked = prompt.get("input")
    return make_safe(asked).strip() if isinstance(asked, str) else ""


def _question(prompt: Any) -> str:
    """Return what the user asks: the input as text, whatever its shape."""
    value = prompt.get("input")
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


def _fields(prompt: Any) -> frozenset[str]:
    """Return the names of the fields that an answer has to have."""
    output: Any = prompt.get("output")
    names = getattr(output, "model_fields", output)
    return frozenset(map(str, cast("dict[Any, Any]", names) if isinstance(names, dict) else ()))


def _foreign(memo: Any) -> str:
    """Show a memo that another handler keeps as it is; a dict as plain lines."""
    if isinstance(memo, str):
        return memo
    if isinstance(memo, dict):
        return render_memo(cast("dict[str, Any]", memo), len, 20_000)
    return json.dumps(memo, ensure_ascii=False, default=str)
