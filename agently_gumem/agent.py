"""The one-line way in: memory for every session of an agent."""

import secrets
from collections.abc import Callable
from typing import Any, Literal, cast

from agently_gumem.engine import Engine, checked_name
from agently_gumem.errors import ConfigError, NotFound
from agently_gumem.flights import Owner
from agently_gumem.host import Host
from agently_gumem.options import SessionOptions
from agently_gumem.records import MemoryContext
from agently_gumem.remember.job import DigestReport
from agently_gumem.session import UNTOLD, MemorySession
from agently_gumem.tools import Action, ForgetPolicy, actions
from agently_gumem.turns import NOTHING, Handled
from agently_gumem.user import UserMemory
from agently_gumem.versions import (
    agent_analysis,
    has_agent_handlers,
    is_agent,
    lists_of,
    mend_doubles,
    own_analysis,
    put_analysis,
    register_execution,
)

Existing = Literal["chain", "replace", "error"]
UserOf = str | Callable[[str], str]
ATTACHED = "_gumem_attached"
BOUND = "_gumem_host"


class AgentMemory:
    """The memory of an agent's sessions; made by `GUMem.attach`.

    Besides its own methods it has those of MemorySession, for the active session. What Agently
    answers while no session is active is not remembered.
    """

    def __init__(
        self,
        engine: Engine,
        agent: Any,
        *,
        user_id: UserOf,
        space: str,
        options: SessionOptions,
        existing: Existing,
    ) -> None:
        self._engine = engine
        self._agent = agent
        self._user_id = user_id if callable(user_id) else checked_name(user_id, "user_id")
        self._space = checked_name(space, "space")
        self._options = options
        self._sessions: dict[str, tuple[Any, MemorySession]] = {}
        self._refused: dict[str, str] = {}
        self._host = Host(
            agent, engine, self._resolve, on_activate=self._bind_later, owner=self._owner
        )
        self._existing: Existing = existing
        self._before: dict[int, tuple[Any, Any]] = {}
        self._bound: dict[int, Any] = {}
        self._agent_before: Any = None
        self._attach()

    def session(self, session_id: str | None = None) -> MemorySession:
        """Return the memory of one of the agent's sessions; None: of the active one.

        Raises:
            NotFound: There is no such session, or none is active, or its user is not known.
        """
        sessions: dict[str, Any] = self._agent.sessions
        if session_id is None:
            active = self._agent.activated_session
            key = self._host.key_of(active) if active is not None else None
            if key is None:
                raise NotFound("no session is active: call agent.activate_session(session_id=...)")
        else:
            key = session_id
            if key not in sessions:
                raise NotFound(f"the agent has no session {session_id!r}: {sorted(sessions)}")
        memory = self._resolve(key, sessions[key])
        if memory is None:
            raise NotFound(f"no memory for session {key!r}: {self._refused.get(key)}")
        return memory

    def detach(self) -> None:
        """Undo `attach`; what Agently can't take out is left inert.

        An open session keeps the memo that it holds in its requests; a new one has none.
        """
        if getattr(self._agent, ATTACHED, None) is not self:
            return
        delattr(self._agent, ATTACHED)
        self._host.remove()
        self._give_back()
        for _, memory in self._sessions.values():
            memory.detach()

    def status(self) -> dict[str, Any]:
        """Say how memory stands on this agent; never a user's text.

        With an active session this holds all of `MemorySession.status`. Without one, `session_id`
        is None and `active` False; the counts are then those of the user's `UserMemory.status`,
        over all sessions, and None where `user_id` is a function.
        """
        told, of = self._standing()
        return {**UNTOLD, **told, **(of.status() if of is not None else {})}

    async def async_status(self) -> dict[str, Any]:
        """Await `status`."""
        told, of = self._standing()
        return {**UNTOLD, **told, **(await of.async_status() if of is not None else {})}

    # -- the active session's own methods --------------------------------------------------------

    @property
    def user(self) -> UserMemory:
        """The user of the agent; where `user_id` is a function, of the active session."""
        return self._one_user() or self.session().user

    @property
    def memo(self) -> dict[str, Any]:
        """The memo of that user."""
        return self.user.memo

    def mark_stage(self, name: str, **options: Any) -> bool:
        """Mark a stage of the active session as ended; see `MemorySession.mark_stage`."""
        return self.session().mark_stage(name, **options)

    async def async_mark_stage(self, name: str, **options: Any) -> bool:
        """Await `mark_stage`."""
        return await self.session().async_mark_stage(name, **options)

    def end(self) -> None:
        """Note that the active session has ended; see `MemorySession.end`."""
        self.session().end()

    async def async_end(self) -> None:
        """Await `end`."""
        await self.session().async_end()

    def digest(self, *, retry_failed: bool = False) -> DigestReport:
        """Digest the active session now; see `MemorySession.digest`."""
        return self.session().digest(retry_failed=retry_failed)

    async def async_digest(self, *, retry_failed: bool = False) -> DigestReport:
        """Await `digest`."""
        return await self.session().async_digest(retry_failed=retry_failed)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait for the active session's digests; see `MemorySession.flush`.

        Raises:
            NotFound: No session is active; `GUMem.flush` waits for those of all sessions.
        """
        return self._flushed().flush(timeout)

    async def async_flush(self, timeout: float | None = None) -> bool:
        """Await `flush`."""
        return await self._flushed().async_flush(timeout)

    def recall(self, query: str, **config: Any) -> MemoryContext:
        """Recall for the active session; see `MemorySession.recall`."""
        return self.session().recall(query, **config)

    async def async_recall(self, query: str, **config: Any) -> MemoryContext:
        """Await `recall`."""
        return await self.session().async_recall(query, **config)

    def actions(self, *, forget: ForgetPolicy = "confirm") -> list[Action]:
        """Return `recall_memory`, `remember` and `forget_memory` for the agent's `use_actions`.

        Each call is of the user of the session that is active then; see `UserMemory.actions`.

        Raises:
            ConfigError: `forget` is none of "confirm", "allow", "off".
        """
        return actions(lambda: self.session().owner(), secrets.token_hex(8), self._engine, forget)

    def ref(self) -> dict[str, str]:
        """Return what names the active session's memory."""
        return self.session().ref()

    # -- inside ----------------------------------------------------------------------------------

    def _one_user(self) -> UserMemory | None:
        """Return the user of all sessions; None where a function tells it for each."""
        if callable(self._user_id):
            return None
        return UserMemory(self._engine, self._user_id, self._space)

    def _owner(self) -> Owner | None:
        return None if callable(self._user_id) else (self._user_id, self._space)

    def _flushed(self) -> MemorySession:
        if self._agent.activated_session is None:
            raise NotFound(
                "no session is active: gumem.flush() waits for the digests of all sessions"
            )
        return self.session()

    def _standing(self) -> tuple[dict[str, Any], MemorySession | UserMemory | None]:
        """Say how the agent stands, and whose status says the rest."""
        active = self._agent.activated_session
        key = self._host.key_of(active) if active is not None else None
        memory = self._resolve(key, active) if key is not None else None
        told: dict[str, Any] = {
            "attached": getattr(self._agent, ATTACHED, None) is self,
            "overlapping": self._host.overlapping(),
            "refused_sessions": dict(self._refused),
            "active": False,
            "closed": self._engine.gone,
            "user_id": None if callable(self._user_id) else self._user_id,
            "space": self._space,
            "session_id": None,
        }
        return told, memory or self._one_user()

    def _attach(self) -> None:
        agent = self._agent
        if not is_agent(agent):
            raise ConfigError(
                "attach takes an agent made by Agently.create_agent(), not one of type "
                f"{type(agent).__name__}"
            )
        if getattr(agent, ATTACHED, None) is not None:
            raise ConfigError("this agent has a memory already: detach() it before another attach")
        vacate(agent)
        self._agent_before = agent_analysis(agent)
        for session in list(agent.sessions.values()):
            self._note_before(session)
        if self._existing == "error" and (self._agent_before is not None or self._before):
            raise ConfigError(
                'the agent has an analysis handler already: use existing="chain" to keep it and '
                'ask it too, or existing="replace"'
            )
        setattr(agent, ATTACHED, self)
        self._give()
        self._host.install()

    def _note_before(self, session: Any) -> None:
        """Note a handler of a session's own; one that the agent gave it is none."""
        handler = own_analysis(session)
        if handler is not None and handler != self._agent_before:
            self._before[id(session)] = (session, handler)

    def _give(self) -> None:
        """Register our two handlers: at the agent, or at each session where that knows none."""
        if has_agent_handlers(self._agent):
            self._agent.register_session_analysis_handler(self._analysis)
            self._agent.register_session_resize_handler(self._options.strategy, self._execution)
            return
        for session in list(self._agent.sessions.values()):
            self._bind(session)

    def _bind(self, session: Any) -> None:
        mend_doubles(*lists_of(session))
        session.register_analysis_handler(self._analysis)
        register_execution(session, self._options.strategy, self._execution)
        self._bound[id(session)] = session

    def _bind_later(self, session: Any) -> None:
        """Bind a session that is activated, as an agent's own handlers are bound anew each time."""
        if has_agent_handlers(self._agent):
            return
        if id(session) not in self._bound:
            self._note_before(session)
        self._bind(session)

    def _give_back(self) -> None:
        """Give the agent, or each session, the analysis handler that was there before."""
        if has_agent_handlers(self._agent):
            self._agent.register_session_analysis_handler(self._agent_before)
        for session in self._bound.values():
            put_analysis(session, None)
        for session, handler in self._before.values():
            put_analysis(session, handler)

    def _resolve(self, key: str, session: Any) -> MemorySession | None:
        """Return the memory of a session; one whose user is not known has none."""
        held = self._sessions.get(key)
        if held is not None and held[0] is session:
            return held[1]
        if key in self._refused:
            return None
        try:
            name = self._user_id(key) if callable(self._user_id) else self._user_id
            user = UserMemory(self._engine, name, self._space)
            memory = MemorySession(self._engine, user, key, self._options, self._host)
        except Exception as error:  # noqa: BLE001  # the application's own function
            self._refused[key] = refusal(error)
            whose = {"user_id": "", "space": self._space, "session_id": key}
            self._engine.failed("user_id", error, whose)
            return None
        if held is not None and self._sessions.get(key) is held:
            del self._sessions[key]  # of a session that was made anew
        known, first = self._sessions.setdefault(key, (session, memory))
        memory.ended = first is not memory  # another thread was first: nobody has this one open
        return first if known is session else None

    def _memory_for(self, settings: Any) -> MemorySession | None:
        session = self._host.session_of(settings)
        return self._host.memory_of(session) if session is not None else None

    async def _analysis(self, full: Any, window: Any, memo: Any, settings: Any) -> str | None:
        """Serve all sessions of the agent: ours first, then the one that was there before."""
        memory = self._memory_for(settings)
        ours: str | None = None
        if memory is not None:
            memory.executes = True
            ours = await memory.analysis_handler(full, window, memo, settings)
        if self._existing == "chain" and (theirs := self._handler_before(settings)) is not None:
            answer = theirs(full, window, memo, settings)
            answer = await answer if hasattr(answer, "__await__") else answer
            # Theirs decides what is done with memo and window; ours has journaled already.
            return cast("str | None", answer) if answer is not None else ours
        return ours

    def _handler_before(self, settings: Any) -> Any | None:
        session = self._host.session_of(settings)
        held = self._before.get(id(session)) if session is not None else None
        return held[1] if held is not None else self._agent_before

    async def _execution(self, full: Any, window: Any, memo: Any, settings: Any) -> Handled:
        memory = self._memory_for(settings)
        if memory is None:
            return NOTHING
        return await memory.execution_handler(full, window, memo, settings)


def refusal(error: Exception) -> str:
    """Say why it is not known whose a session is: what was given stands in no status."""
    if isinstance(error, ConfigError):
        return "user_id of the session must be a text that is not empty (ConfigError)"
    return f"user_id of the session: {type(error).__name__}"


def vacate(agent: Any) -> None:
    """Take what a closed GUMem has left on an agent off it.

    Raises:
        ConfigError: Sessions of the agent have a memory, by a GUMem that is open.
    """
    held = getattr(agent, BOUND, None)
    if held is None:
        return
    if not held.engine.closed:
        raise ConfigError(
            "sessions of this agent have a memory by GUMem.session(agent=...) or use_memory: "
            "detach() them first"
        )
    held.host.remove()
    delattr(agent, BOUND)
