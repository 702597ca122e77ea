"""What a GUMem shares among its users: the services, and the users that are in memory."""

import asyncio
import atexit
import concurrent.futures
import logging
import os
import secrets
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, Protocol

from agently_gumem.budget import Budget
from agently_gumem.config import Limits, RecallConfig
from agently_gumem.errors import AFTER_A_FORK, Closed, ConfigError
from agently_gumem.events import Events
from agently_gumem.model import Usage
from agently_gumem.scope import Scope, Services
from agently_gumem.troubles import Troubles
from agently_gumem.worker import Worker

_log = logging.getLogger("agently_gumem")
# Seconds that `flush` waits for hooks of events.
HOOKS_WITHIN = 2.0
# Seconds in which everything is stopped and the store closed, whatever hangs: a write that is
# under way takes some milliseconds, on a busy disk a second or two.
STOP_WITHIN = 5.0
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
        self.budget = Budget(limits)
        self.recall = RecallConfig()
        self._sessions: dict[tuple[str, str, str], weakref.WeakSet[OpenSession]] = {}
        self._sessions_lock = threading.RLock()
        self.agents_lock = threading.RLock()
        """Held while something is set on an agent, or taken off: by one thread at a time."""
        self.timers: dict[tuple[str, str, str], asyncio.TimerHandle] = {}
        self.digests: set[asyncio.Task[Any]] = set()
        self.endings: set[concurrent.futures.Future[Any]] = set()
        self.events = Events()
        self.troubles = Troubles()
        self.closed = False
        self.closing = False
        """Digests that have not started wait for the next process."""
        self.renewals: list[Callable[[], None]] = []
        """What begins anew in a forked child."""
        self.forked = False
        """Whether this is a forked child, in which it opens the store anew."""
        self._inherited: list[Any] = []
        self._told_gone = False
        self._open = open_services
        self.nonce = secrets.token_hex(8)
        self.own_actions: set[str] = set()
        """Names under which the memory's own actions were handed out."""
        self._services: Services | None = None
        self._agents: weakref.WeakValueDictionary[tuple[str, str], Any] = (
            weakref.WeakValueDictionary()
        )
        self._scopes: OrderedDict[tuple[str, str], Scope] = OrderedDict()
        self._sizes: dict[tuple[str, str], int] = {}
        self._bytes = 0
        _engines.add(self)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a memory does not go over to another process: send session.ref(), and open it there "
            "with GUMem(client=...).open(ref)"
        )

    @property
    def gone(self) -> bool:
        """Whether nothing can be read or written any more: closed, or a parent process's."""
        return self.closed or self.worker.inherited

    def check(self) -> None:
        """Refuse use after close, and in a forked child.

        Raises:
            Closed: It was closed, or belongs to the parent process.
        """
        if self.closed:
            raise Closed("this GUMem is closed: open a new one")
        if self.worker.inherited:
            raise Closed(f"this GUMem belongs to the parent process: {AFTER_A_FORK}")

    def say_gone(self) -> None:
        """Log once that turns go on without memory."""
        if not self._told_gone:
            self._told_gone = True
            why = "closed" if self.closed else "its parent process's"
            _log.warning("this memory is %s: the agent's turns go on without it", why)

    @property
    def services(self) -> Services:
        """The services; the store is opened at first use.

        Raises:
            Closed: After `close`.
        """
        self.check()
        if self._services is None:
            self._services = self._open()
            _at_exit_too()
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

    def shut(self, within: float) -> None:
        """Cancel what is under way, close the store and end the worker, in so many seconds."""
        self.closing = self.closed = True
        self.budget.close()
        store = self._services.store if self._services is not None else None
        self.worker.close(within, store.close if store is not None else None)
        self.events.close()
        self.timers.clear()
        self._scopes.clear()

    def renew(self) -> None:
        """In a forked child: begin anew on a server; a store in this process is the parent's.

        No thread came along, a lock may be held by one, and a connection belongs to the parent.
        """
        if self.closed or (self._services is not None and self._services.store.kind != "server"):
            return
        # What is the parent's is neither used nor finalised here.
        self._inherited += [self._services, self._scopes]
        self._services, self.forked, self.closing = None, True, False
        self._sessions_lock, self.agents_lock = threading.RLock(), threading.RLock()
        self.timers, self.digests, self.endings = {}, set(), set()
        self._scopes, self._sizes, self._bytes = OrderedDict(), {}, 0
        for renew in self.renewals:
            renew()
        self.worker.renew()

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


_engines: "weakref.WeakSet[Engine]" = weakref.WeakSet()


def _renew_all() -> None:
    for engine in list(_engines):
        engine.renew()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_all)


@lru_cache(maxsize=1)
def _at_exit_too() -> None:
    """Stop at the interpreter's end what nobody closed.

    Registered when a store is opened, so that it comes before what Chroma, and after what the
    application that opened it, may have to do there.
    """
    atexit.register(_leave)


def _leave() -> None:
    """End without a digest: what waits is in the store; only a write under way is waited for."""
    until = time.monotonic() + STOP_WITHIN
    for engine in list(_engines):
        if not engine.gone:
            engine.shut(max(0.0, until - time.monotonic()))
