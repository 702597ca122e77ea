"""The plugin of Agently 4.1.3.9 and later: memory for a session by `use_memory(mode="GUMem")`.

Agently hands a plugin its session, and calls it before a request on some paths, after a turn on
all. So the question's own context is put in by what is set on the session's agent (`host`), as
`attach` does it, and the turn is journaled after it. No context source is given to Agently: one
costs a model request a turn, and fails the turn where it is long.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, ClassVar

from agently_gumem.agent import ATTACHED, BOUND, UserOf, refusal, vacate
from agently_gumem.engine import Engine, checked_name, switched_off
from agently_gumem.errors import ConfigError, NotFound
from agently_gumem.held import Held, is_ours
from agently_gumem.host import Host
from agently_gumem.options import SessionOptions
from agently_gumem.session import MemorySession
from agently_gumem.turns import SessionTurns
from agently_gumem.user import UserMemory
from agently_gumem.versions import put_memo

KIND = "SessionMemory"
# What an agent gives to its sessions so that they fetch its store; the older name up to 4.1.4.1.
_PROVIDERS = ("_memory_store_provider", "_workspace_provider")
_ANOTHERS = "the session is another user's: activate a session for each user"
_log = logging.getLogger("agently_gumem")


@dataclass(frozen=True)
class Mode:
    """What a registered mode gives to each session that uses it."""

    name: str
    engine: Engine
    user_id: UserOf | None
    """Whose memory it is where no settings say so."""
    space: str
    options: SessionOptions
    preload: Callable[[], None]


class SessionPlugin:
    """The memory of one session, as Agently makes it at `session.use_memory(mode=...)`.

    Whose memory it is say the session's settings ("<mode>.user_id"; what the session does not say
    says its agent, then Agently as a whole), or what was given to `GUMem.register`. It is asked for
    at each turn until it is known. A session stays one user's: where the settings name another one
    later, nothing is read, and once a turn was answered so, its memory is off for good. Found on
    the session as `session.memory`.

    Raises:
        ConfigError: The agent has a memory by another way already, or by another open GUMem.
        Closed: The GUMem was closed.
    """

    name: ClassVar[str]
    mode: ClassVar[Mode]
    DEFAULT_SETTINGS: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        *,
        session: Any,
        plugin_manager: Any,
        settings: Any,
        memory_store: Any = None,
        workspace: Any = None,
    ) -> None:
        self.mode.engine.check()
        self.session = session
        self.plugin_manager = plugin_manager
        self.settings = settings
        self.memory_store = memory_store
        self.workspace = workspace
        self.off = False
        """Detached, or it was called again, and another object serves the session."""
        self._lock = threading.RLock()  # a user_id of the application may ask for `status`
        self._pid = os.getpid()
        self._memory: MemorySession | None = None
        self._owner: str | None = None
        """Whose the session is; empty where two users have spoken in it."""
        self._why = ""
        self._refused = ""
        self._said = ""
        agent = agent_of(session)
        with self.mode.engine.agents_lock:
            self._on_agent = _OnAgent.of(agent, self.mode.engine) if agent is not None else None
        self._host = self._on_agent.host if self._on_agent is not None else None
        key = self._host.key_of(session) if self._host is not None else None
        self._key = key if key is not None else str(session.id)
        self._take_over(getattr(session, "memory", None))
        if self._host is None:
            self._without_agent()
        self.mode.preload()

    # -- what an application asks ----------------------------------------------------------------

    @property
    def memory(self) -> MemorySession:
        """The session's memory: marks, digest, recall, memo.

        Raises:
            NotFound: It is not known whose it is, or it was detached.
        """
        memory = self.serving()
        if memory is None:
            raise NotFound(f"no memory for session {self._key!r}: {self._why}")
        return memory

    def status(self) -> dict[str, Any]:
        """Say how the session's memory stands; without a user only that, and why."""
        memory = self.serving()
        return {**self._standing(memory), **(memory.status() if memory is not None else {})}

    async def async_status(self) -> dict[str, Any]:
        """Await `status`."""
        memory = self.serving()
        told = self._standing(memory)
        return {**told, **(await memory.async_status() if memory is not None else {})}

    def detach(self) -> None:
        """Stop reading and writing for this session; with the last one its agent is as before.

        The session keeps the memo that it holds in its requests; a new one has none.
        """
        self.switch_off("it was detached")
        if self._memory is not None:
            self._memory.detach()
        elif self._on_agent is not None:
            self._on_agent.let_go()

    # -- what Agently calls ----------------------------------------------------------------------

    def bind_memory_store(self, memory_store: Any) -> None:
        """Keep Agently's own store (4.1.4.2 and later); nothing is written to it."""
        self.memory_store = memory_store

    def bind_workspace(self, workspace: Any) -> None:
        """Keep Agently's workspace (up to 4.1.4.1); nothing is written to it."""
        self.workspace = workspace

    def create_context_source(self, **_: Any) -> None:
        """Give none: the agent's prefix handler brings the context, without a request more."""

    async def prepare_request(self, **_: Any) -> dict[str, Any]:
        """Do nothing: the same handler serves the paths on which this is called, too."""
        return {}

    async def after_turn(self, **_: Any) -> dict[str, Any]:
        """Journal the turn, and digest and cut where that is due; never raises."""
        memory = self.serving()
        if memory is not None:
            await memory.guarded("turn", self._turn(memory), None)
            return {}
        await self._say_why()
        if self._memory is not None and not self.off:
            self._owner = ""  # what two users said stands in one history now
            self.detach()
            self._why = _ANOTHERS
        return {}

    # -- inside ----------------------------------------------------------------------------------

    def switch_off(self, why: str) -> None:
        """Serve no more; what is set on the agent stays."""
        self.off, self._why = True, why

    def serving(self) -> MemorySession | None:
        """Return its memory, as long as its user is known and is who the settings name."""
        memory = self.resolved()
        if memory is not None and self._named() not in (None, memory.user_id):
            self._why = _ANOTHERS
            self._drop_memo()
            return None
        return memory

    def resolved(self) -> MemorySession | None:
        """Return its memory, made once its user is known; also while the settings name another."""
        with self._alone:
            if self.off:
                return None
            if self._memory is None:
                self._memory = self._made()
            return self._memory

    @property
    def _alone(self) -> threading.RLock:
        """The lock; in a forked child a new one: who held it in the parent does not run there."""
        if self._pid != os.getpid():
            self._lock, self._pid = threading.RLock(), os.getpid()
        return self._lock

    async def _turn(self, memory: MemorySession) -> None:
        session = self.session
        # A handler of the developer's own decides on window and memo, beside the journal.
        memory.executes = session._analysis_handler == session._default_analysis_handler
        # Agently's own lists, not its copies: what was forgotten is taken out of them in place.
        held = Held(session.session_settings, session._full_context, session._context_window)
        due = await memory.turn_recorded(held, session.memo)
        if due is not None and memory.executes:
            await session.async_run_resize_strategy(due)
            if self._host is not None:
                self._host.refresh(memory, session.memo)

    async def _analysis(self, full: Any, window: Any, memo: Any, settings: Any) -> str | None:
        """Serve a session that no agent calls `after_turn` for, whichever plugin it has by now."""
        plugin = self.session.memory
        memory = plugin.serving() if isinstance(plugin, SessionPlugin) else None
        return await memory.analysis_handler(full, window, memo, settings) if memory else None

    def _without_agent(self) -> None:
        """Go by what the session itself offers, and say what is missing."""
        _log.warning(
            "the agent of a session is not known: its requests carry the memo of the last digest, "
            "not each question's own context; for that use attach or gumem.session(agent=...)"
        )
        if self.session._analysis_handler == self.session._default_analysis_handler:
            self.session.register_analysis_handler(self._analysis)

    def _take_over(self, before: Any) -> None:
        """Go on with the memory of an earlier `use_memory`; that of another mode ends."""
        if not isinstance(before, SessionPlugin):
            return
        self._owner = before._owner
        if before.off:
            return
        if before.mode is self.mode and before._host is self._host:
            before.switch_off("use_memory was called again")
            self._memory = before._memory
        else:
            before.detach()

    def _drop_memo(self) -> None:
        """Take out what the session holds of its own user's memory: another one asks in it now."""
        session = self.session
        if is_ours(session.memo, session.session_settings):
            put_memo(session, None)

    def _made(self) -> MemorySession | None:
        mode = self.mode
        try:
            name = self._user_id()
            if name is None:
                return None
            if self._owner not in (None, name):
                self._why = _ANOTHERS
                self._drop_memo()
                return None
            user = UserMemory(mode.engine, name, mode.space)
            memory = MemorySession(mode.engine, user, self._key, mode.options, self._host)
        except Exception as error:  # noqa: BLE001  # the application's own function
            self._why = self._refused = refusal(error)
            return None
        self._owner = name
        self.session.register_resize_handler(mode.options.strategy, memory.execution_handler)
        return memory

    def _named(self) -> Any:
        """Return the user that the settings name: the session's, its agent's, or Agently's own."""
        return self.settings.get(f"{self.name}.user_id", None)

    def _user_id(self) -> str | None:
        """Read whose memory it is: the settings say it, else what the mode was registered with."""
        if (named := self._named()) is not None:
            return named
        if self._refused:
            self._why = self._refused
            return None
        given = self.mode.user_id
        if given is None:
            self._why = (
                f'no user is known: agent.set_settings("{self.name}.user_id", ...), or give '
                "user_id to GUMem.register"
            )
        return given(self._key) if callable(given) else given

    def _standing(self, memory: MemorySession | None) -> dict[str, Any]:
        return {
            "mode": self.name,
            "session_id": self._key,
            "agent_known": self._host is not None,
            "active": False,
            "off_because": self._why if memory is None else "",
        }

    async def _say_why(self) -> None:
        """Say once that there is no memory for this session, and why."""
        if self._said == self._why or self.off or switched_off():
            return
        self._said = self._why
        _log.warning("a session of mode %s has no memory: %s", self.name, self._why)
        engine = self.mode.engine
        engine.troubles.note("user_id", NotFound(self._why))
        engine.events.tell("failed", {"what": "user_id", "error": "NotFound"}, warning=True)


class _OnAgent:
    """What is set on one agent for those of its sessions that use a mode of one GUMem."""

    def __init__(self, agent: Any, engine: Engine) -> None:
        self.engine = engine
        self.agent = agent
        self.host = Host(agent, engine, self._memory_of, self._release)
        self.host.install()

    @classmethod
    def of(cls, agent: Any, engine: Engine) -> "_OnAgent":
        """Return the agent's, made at the first session.

        Raises:
            ConfigError: The agent has a memory by another way, or by another open GUMem.
        """
        held = getattr(agent, BOUND, None)
        if isinstance(held, cls) and held.engine is engine:
            return held
        if getattr(agent, ATTACHED, None) is not None:
            raise ConfigError(
                "this agent is attached, and its sessions have memory by that: leave use_memory "
                "out, or detach() it first"
            )
        vacate(agent)
        held = cls(agent, engine)
        setattr(agent, BOUND, held)
        return held

    def let_go(self) -> None:
        """Give the agent back as it was when no session of it has a plugin of ours any more."""
        with self.engine.agents_lock:
            in_use = any(not plugin.off for plugin in self._plugins())
            if not in_use and getattr(self.agent, BOUND, None) is self:
                self.host.remove()
                delattr(self.agent, BOUND)

    def _plugins(self) -> Iterator[SessionPlugin]:
        return filter(None, map(self._plugin_of, list(self.agent.sessions.values())))

    def _plugin_of(self, session: Any) -> SessionPlugin | None:
        """Ask the session itself: a plugin can be replaced, and a session made anew."""
        plugin = getattr(session, "memory", None)
        ours = isinstance(plugin, SessionPlugin) and plugin.mode.engine is self.engine
        return plugin if ours else None

    def _memory_of(self, _key: str, session: Any) -> MemorySession | None:
        plugin = self._plugin_of(session)
        if plugin is None:
            return None
        # One that is being left was its user's to the end, also where the settings name the next.
        active = session is self.agent.activated_session
        return plugin.serving() if active else plugin.resolved()

    def _release(self, memory: SessionTurns) -> None:
        """Follow `MemorySession.detach`."""
        for plugin in self._plugins():
            if plugin.resolved() is memory:
                plugin.switch_off("it was detached")
        self.let_go()


def agent_of(session: Any) -> Any | None:
    """Return the agent that a session belongs to, or None.

    A Session does not name its agent; the function by which it fetches the agent's store closes
    over it. What is found there counts only where it has this very session.
    """
    for name in _PROVIDERS:
        closed_over = getattr(getattr(session, name, None), "__closure__", None) or ()
        for cell in closed_over:
            agent = cell.cell_contents
            if any(own is session for own in getattr(agent, "sessions", {}).values()):
                return agent
    return None


def mode_name(mode: object) -> str:
    """Check the name of a mode, which stands in paths of settings.

    Raises:
        ConfigError: It is no text, or holds a dot or a slash.
    """
    name = checked_name(mode, "mode")
    if "." in name or "/" in name:
        raise ConfigError(f"mode={name!r} must hold no dot and no slash: it is a key of settings")
    return name


def register(mode: Mode) -> None:
    """Register a mode on Agently's plugin manager, which is one for all agents.

    Raises:
        ConfigError: Agently has no such plugins yet, or the mode is somebody else's.
    """
    from agently import Agently  # the host is loaded when it is used

    manager: Any = Agently.plugin_manager
    if KIND not in manager.get_plugin_list():
        raise ConfigError(
            f"register needs Agently 4.1.3.9 or later, and this is {version('agently')}: use "
            "gumem.attach(agent, user_id=...) instead"
        )
    if mode.name in manager.get_plugin_list(KIND):
        _check_free(mode, manager.get_plugin(KIND, mode.name))
    # Agently writes a plugin's defaults over what was set before, so that is what they are.
    before = manager.settings.get(f"plugins.{KIND}.{mode.name}", None)
    space = {"name": mode.name, "mode": mode, "DEFAULT_SETTINGS": dict(before or {})}
    manager.register(KIND, type("SessionPlugin", (SessionPlugin,), space), activate=False)


def _check_free(mode: Mode, registered: Any) -> None:
    """Refuse a mode that is another plugin's, or another GUMem's that is still open."""
    if not isinstance(registered, type) or not issubclass(registered, SessionPlugin):
        raise ConfigError(f"mode={mode.name!r} is another plugin's name: choose another mode")
    engine = registered.mode.engine
    if engine is not mode.engine and not engine.closed:
        raise ConfigError(
            f"mode={mode.name!r} is registered by another GUMem that is open: close it, or choose "
            "another mode"
        )
