"""What a GUMem shares among its users: the services, and the users that are in memory."""

import asyncio
import concurrent.futures
import logging
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from agently_gumem.config import Limits, RecallConfig
from agently_gumem.errors import Closed, ConfigError
from agently_gumem.events import Events
from agently_gumem.model import Usage
from agently_gumem.scope import Scope, Services
from agently_gumem.troubles import Troubles
from agently_gumem.worker import Worker

_log = logging.getLogger("agently_gumem")
# Seconds that `flush` waits for hooks of events.
HOOKS_WITHIN = 2.0
_OFF = frozenset({"1", "true", "yes", "on"})


class OpenSession(Protocol):
    """A session that somebody uses: while it is open, no other session's digest takes from it."""

    user_id: str
    space: str
    session_id: str
    ended: bool

    async def note_end(self) -> None:
        """Note that it is left; never raises."""
        ...

    async def catch_up(self) -> None:
        """Journal what Agently holds and the journal lacks; never raises."""
        ...

    async def let_go(self, scope: Scope, *, whole: bool) -> None:
        """Take what was forgotten out of what Agently holds; under the user's journal lock."""
        ...


def switched_off() -> bool:
    """Tell whether GUMEM_OFF turns memory off; read at each use, so that it can be flipped."""
    return os.environ.get("GUMEM_OFF", "").strip().lower() in _OFF


def checked_name(value: object, what: str) -> str:
    """Check the id of a user, a space or a session.

    Raises:
        ConfigError: It is no string, empty, or can't be written as UTF-8.
    """
    if not isinstance(value, str):
        raise ConfigError(f"{what} must be a string, not {type(value).__name__} {value!r}")
    if not value.strip():
        raise ConfigError(f"{what} must not be empty: {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{what}={value!r} holds a lone surrogate") from error
    if "\x00" in value:
        raise ConfigError(f"{what}={value!r} holds a NUL")
    return value


class Engine:
    """The services, opened once, and the scopes in memory, the least recently used going first."""

    def __init__(self, open_services: Callable[[], Services], limits: Limits) -> None:
        self.worker = Worker()
        self.usage = Usage()
        self.limits = limits
        self.recall = RecallConfig()
        self._sessions: dict[tuple[str, str, str], weakref.WeakSet[OpenSession]] = {}
        self._sessions_lock = threading.Lock()
        self.timers: dict[tuple[str, str, str], asyncio.TimerHandle] = {}
        self.digests: set[asyncio.Task[Any]] = set()
        self.endings: set[concurrent.futures.Future[Any]] = set()
        self.events = Events()
        self.troubles = Troubles()
        self.closed = False
        self._open = open_services
        self._services: Services | None = None
        self._agents: weakref.WeakValueDictionary[tuple[str, str], Any] = (
            weakref.WeakValueDictionary()
        )
        self._scopes: OrderedDict[tuple[str, str], Scope] = OrderedDict()
        self._sizes: dict[tuple[str, str], int] = {}
        self._bytes = 0

    def check(self) -> None:
        """Refuse use after close.

        Raises:
            Closed: It was closed.
        """
        if self.closed:
            raise Closed("this GUMem is closed: open a new one")

    @property
    def services(self) -> Services:
        """The services; the store is opened at first use.

        Raises:
            Closed: After `close`.
        """
        self.check()
        if self._services is None:
            self._services = self._open()
        return self._services

    @asynccontextmanager
    async def use(self, user_id: str, space: str) -> AsyncGenerator[Scope, None]:
        """Hold a user's scope, loaded; while it is held it is not evicted.

        Raises:
            StoreError: The store can't be read.
        """
        scope = self._scopes.get((user_id, space))
        if scope is None:
            scope = Scope(self.services, user_id, space)
            scope.is_open = lambda session_id: self.is_open(user_id, space, session_id)
            self._scopes[(user_id, space)] = scope
        self._scopes.move_to_end((user_id, space))
        scope.in_use += 1
        try:
            yield await scope.ready()
        finally:
            scope.in_use -= 1
            self._weigh((user_id, space), scope)
            self._evict()

    def is_open(self, user_id: str, space: str, session_id: str) -> bool:
        """Tell whether somebody in this process has the session open."""
        with self._sessions_lock:
            held = list(self._sessions.get((user_id, space, session_id), ()))
        return any(not session.ended for session in held)

    def opened(self, session: "OpenSession") -> None:
        """Keep a session in mind, from any thread, as long as somebody holds it."""
        key = (session.user_id, session.space, session.session_id)
        with self._sessions_lock:
            held = self._sessions.setdefault(key, weakref.WeakSet())
            held.add(session)
            weakref.finalize(session, self._forget, key)

    def sessions(self) -> "list[OpenSession]":
        """List the sessions that somebody holds."""
        with self._sessions_lock:
            return [session for held in self._sessions.values() for session in held]

    def _forget(self, key: tuple[str, str, str]) -> None:
        """Drop the entry of a session that nobody holds any more."""
        # No lock: a finalizer can run in the middle of any call, also of one that holds it.
        held = self._sessions.get(key)
        if held is not None and not len(held):
            self._sessions.pop(key, None)

    def served_by(self, user_id: str, space: str, agent: Any) -> None:
        """Remember which agent serves a user: a digest beside any agent asks with its settings."""
        self._agents[(user_id, space)] = agent

    def agent_of(self, user_id: str, space: str) -> Any | None:
        """Return the agent that served a user last, while it lives; None: Agently's own."""
        return self._agents.get((user_id, space))

    def loaded(self) -> list[Scope]:
        """List the scopes in memory."""
        return list(self._scopes.values())

    def ending(self, future: "concurrent.futures.Future[Any]") -> None:
        """Keep what a session does at its end, so that `flush` can wait for it."""
        self.endings.add(future)
        future.add_done_callback(self.endings.discard)

    def failed(self, what: str, error: Exception, whose: Mapping[str, str]) -> None:
        """Log a failure, emit it, and keep it for `status()`; by its kind, never its text."""
        _log.warning("memory %s failed: %s", what, type(error).__name__)
        _log.debug("memory %s failed", what, exc_info=error)
        self.troubles.note(what, error)
        told = {**whose, "what": what, "error": type(error).__name__}
        self.events.tell("failed", told, warning=True)

    async def told(self, within: float = HOOKS_WITHIN) -> None:
        """Wait until events are delivered; not for ever, since a hook may be who waits."""
        await self.events.told(within)

    def shut(self) -> None:
        """Close the store and end the worker; nothing may be under way any more."""
        self.closed = True
        for timer in self.timers.values():
            timer.cancel()
        self.worker.close()
        self.events.close()
        if self._services is not None:
            self._services.store.close()
        self._scopes.clear()

    def _weigh(self, key: tuple[str, str], scope: Scope) -> None:
        """Keep the sum of bytes current, at the cost of the one scope that changed."""
        if self._scopes.get(key) is scope:
            size = scope.index.nbytes
            self._bytes += size - self._sizes.get(key, 0)
            self._sizes[key] = size

    def _evict(self) -> None:
        """Let go of the least recently used scopes past the limit of bytes."""
        gone: list[tuple[str, str]] = []
        newest = next(reversed(self._scopes), None)  # was just used, and stays
        for key, scope in self._scopes.items():  # read only as far as needed: there are thousands
            if self._bytes <= self.limits.index_bytes or key == newest:
                break
            if scope.in_use == 0:
                gone.append(key)
                self._bytes -= self._sizes.pop(key, 0)
        for key in gone:
            del self._scopes[key]
