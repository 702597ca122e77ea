"""GUMem: opens the store, owns the worker, hands out users and sessions."""

import asyncio
import functools
import math
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agently_gumem.agent import ATTACHED, BOUND, AgentMemory, Existing, UserOf, vacate
from agently_gumem.closing import Closing
from agently_gumem.config import Limits, RecallConfig
from agently_gumem.embedder import Embedder
from agently_gumem.engine import Engine, checked_name, switched_off
from agently_gumem.errors import ConfigError
from agently_gumem.hooks import Hooks
from agently_gumem.host import Host
from agently_gumem.memo_schema import MemoSchema
from agently_gumem.model import Model
from agently_gumem.opening import Opened, open_client, reopened
from agently_gumem.options import SessionOptions
from agently_gumem.plugin import Mode, mode_name, register
from agently_gumem.privacy import PrivacyPolicy
from agently_gumem.prompts import Prompts
from agently_gumem.records import Memo, as_record
from agently_gumem.remember.select import Selector
from agently_gumem.scope import Services
from agently_gumem.session import MemorySession
from agently_gumem.store import Store
from agently_gumem.sweeping import sweep
from agently_gumem.text import estimate_tokens, words
from agently_gumem.tool_calls import RecordActions
from agently_gumem.triggers import Idle, SessionEnd, TriggerState, WindowExceeds
from agently_gumem.turns import SessionTurns
from agently_gumem.user import UserMemory
from agently_gumem.worker import Worker, awaitable, blocking

_DAY = 86_400.0
WHEN = WindowExceeds(messages=12) | SessionEnd() | Idle(10)


class GUMem:
    """Long-term memory for the sessions of Agently agents, kept in Chroma.

    Args:
        path: A folder for an embedded store; one process at a time.
        client: An open chromadb client instead (`HttpClient`, `CloudClient`). With neither the
            memory lives as long as this object.
        embedding_function: Anything with the shape of a Chroma embedding function; None is the
            bundled multilingual one.
        memo: Schema of the memo: a pydantic model class or an Agently output dict.
        recall: Defaults of every recall: a RecallConfig or a dict of its fields.
        privacy: What may be remembered: a PrivacyPolicy or a dict of its fields.
        limits: Bounds of cost: a Limits or a dict of its fields.
        model_settings: Agently settings for the memory's own requests alone, such as
            `{"OpenAICompatible": {"model": "a-cheaper-one"}}`.
        templates: A folder whose templates come before ours.
        instruct: The developer's own rules for what is remembered.
        language: "source" keeps the language of what was said; else the name of a language.
        count_tokens: Counts the tokens of a text; None estimates.
        shards: Collections that users are spread over; counts only when the store is made.
        namespace: Prefix of the collections' names.

    Raises:
        ConfigError: A parameter is wrong.
        StoreError: The store can't be opened.
        EmbedderMismatch: The store was made with another embedder.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        client: Any = None,
        embedding_function: Callable[..., Any] | None = None,
        memo: type[BaseModel] | Mapping[str, Any] = Memo,
        recall: RecallConfig | Mapping[str, Any] | None = None,
        privacy: PrivacyPolicy | Mapping[str, Any] | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        model_settings: Mapping[str, Any] | None = None,
        templates: str | os.PathLike[str] | None = None,
        instruct: str | None = None,
        language: str = "source",
        count_tokens: Callable[[str], int] | None = None,
        shards: int = 16,
        namespace: str = "gumem",
    ) -> None:
        bounds = as_record(Limits, limits, "limits")
        policy = as_record(PrivacyPolicy, privacy, "privacy")
        self._select = select = Selector(policy)
        schema = MemoSchema(memo)
        prompts = Prompts(
            Path(templates) if templates is not None else None,
            instruct or "",
            checked_name(language, "language"),
        )
        if model_settings is not None and not isinstance(model_settings, Mapping):
            raise ConfigError(f"model_settings={model_settings!r} is no dict of Agently settings")
        if count_tokens is not None and not callable(count_tokens):
            raise ConfigError(f"count_tokens={count_tokens!r} can't be called")
        self._embedder = embedder = Embedder(embedding_function)
        count = _whole(count_tokens) if count_tokens is not None else estimate_tokens

        def open_services() -> Services:
            store = Store(
                self._opened(path, client, bounds.store_timeout),
                namespace=checked_name(namespace, "namespace"),
                shards=shards,
                embedder=embedder.name,
                dimension=embedder.dimension,
            )
            model = Model(
                model_settings or {},
                bounds.request_timeout,
                bounds.answer_tokens,
                count,
                self._engine.usage,
                self._engine.budget,
            )
            return Services(
                store=store,
                embedder=embedder,
                worker=self._engine.worker,
                model=model,
                prompts=prompts,
                schema=schema,
                limits=bounds,
                select=select,
                compare=Selector(policy.strictest()),
                count_tokens=count,
                memo_tokens=self._engine.recall.memo_tokens,
                hooks=self._hooks,
                privacy=policy,
                tell=self._engine.events.tell,
            )

        self._engine = Engine(open_services, bounds)
        self._hooks = Hooks(self._engine.worker, self._engine.events.tell)
        self._closing = Closing(self._engine, self._flush, self._hooks.aclose)
        self._engine.renewals += [
            embedder.renew,
            prompts.renew,
            self._hooks.renew,
            self._closing.renew,
            self._engine.events.renew,
            self._engine.budget.renew,
        ]
        self._engine.recall = as_record(RecallConfig, recall, "recall")
        if not switched_off():
            _ = self._engine.services

    def _opened(self, path: Any, client: Any, timeout: float) -> Opened:
        """Open the store; in a forked child a server is connected to anew."""
        if self._engine.forked and client is not None:
            return reopened(client, timeout)
        return open_client(path, client, timeout=timeout)

    @property
    def worker(self) -> Worker:
        """Where its methods run."""
        return self._engine.worker

    @property
    def hooks(self) -> Hooks:
        """Functions and webhooks of the application, asked at points of the memory's work."""
        return self._hooks

    def user(self, user_id: str, *, space: str = "default") -> UserMemory:
        """Return a user's memory in a space.

        Raises:
            ConfigError: `user_id` or `space` is no text, or empty.
        """
        self._engine.check()
        return UserMemory(self._engine, user_id, space)

    def session(
        self,
        user_id: str,
        session_id: str,
        *,
        agent: Any = None,
        space: str = "default",
        when: Callable[[TriggerState], bool] = WHEN,
        keep: int = 4,
        strategy: str = "compress_with_memo",
        wait: float = 2.0,
        remember: bool = True,
        session_memo: str = "text",
        record_actions: RecordActions = True,
    ) -> MemorySession:
        """Return one session's memory, whose two handlers you register yourself.

        Args:
            user_id: Whose memory it is.
            session_id: The session: its key on the agent, or its id.
            agent: The agent that it runs on: with it, every request carries its question's own
                context from the first turn on. Without it only the memo of the last digest does.
            space: A part of the user's memory that others do not see.
            when: When to digest: a trigger, or any function of a TriggerState.
            keep: Messages that stay in the window after a cut, rounded up to whole turns.
            strategy: The name under which the execution handler is registered.
            wait: Seconds that a turn waits for its digest at most; 0: not at all.
            remember: False reads and writes nothing.
            session_memo: What Agently holds between requests: the memo as "text", or the "dict".
            record_actions: Which calls of tools are journaled: True, False, names, or a function of
                a name and its arguments that returns a bool.

        Raises:
            ConfigError: A parameter is wrong.
        """
        options = SessionOptions.make(
            when=when,
            keep=keep,
            strategy=strategy,
            wait=wait,
            remember=remember,
            session_memo=session_memo,
            record_actions=record_actions,
        )
        user = self.user(user_id, space=space)
        if agent is None:
            return MemorySession(self._engine, user, session_id, options)
        if getattr(agent, ATTACHED, None) is not None:
            raise ConfigError("this agent is attached: use its memory.session(session_id) instead")
        with self._engine.agents_lock:
            bound = _Bound.of(agent, self._engine)
            memory = MemorySession(self._engine, user, session_id, options, bound.host)
            bound.add(memory)
        self._preload(options)
        return memory

    def attach(
        self,
        agent: Any,
        *,
        user_id: UserOf,
        existing: Existing = "chain",
        space: str = "default",
        when: Callable[[TriggerState], bool] = WHEN,
        keep: int = 4,
        strategy: str = "compress_with_memo",
        wait: float = 2.0,
        remember: bool = True,
        session_memo: str = "text",
        record_actions: RecordActions = True,
    ) -> AgentMemory:
        """Give memory to every session of an agent, present and later ones.

        Args:
            agent: An Agently agent; one agent a user is the way to serve several at once.
            user_id: Whose memory it is: a text, or a function of the session id.
            existing: An analysis handler that is there already is kept and asked too ("chain"),
                replaced, or an error.
            space: A part of the user's memory that others do not see.
            when: When to digest: a trigger, or any function of a TriggerState.
            keep: Messages that stay in the window after a cut, rounded up to whole turns.
            strategy: The name under which the execution handler is registered.
            wait: Seconds that a turn waits for its digest at most; 0: not at all.
            remember: False reads and writes nothing.
            session_memo: What Agently holds between requests: the memo as "text", or the "dict".
            record_actions: Which calls of tools are journaled: True, False, names, or a function of
                a name and its arguments that returns a bool.

        Raises:
            ConfigError: A parameter is wrong, or the agent has a memory already.
        """
        self._engine.check()
        if existing not in ("chain", "replace", "error"):
            raise ConfigError(f'existing={existing!r} is none of "chain", "replace", "error"')
        options = SessionOptions.make(
            when=when,
            keep=keep,
            strategy=strategy,
            wait=wait,
            remember=remember,
            session_memo=session_memo,
            record_actions=record_actions,
        )
        with self._engine.agents_lock:
            memory = AgentMemory(
                self._engine,
                agent,
                user_id=user_id,
                space=space,
                options=options,
                existing=existing,
            )
        self._preload(options)
        return memory

    def register(
        self,
        *,
        mode: str = "GUMem",
        user_id: UserOf | None = None,
        space: str = "default",
        when: Callable[[TriggerState], bool] = WHEN,
        keep: int = 4,
        wait: float = 2.0,
        remember: bool = True,
        session_memo: str = "text",
        record_actions: RecordActions = True,
    ) -> None:
        """Register a mode for `session.use_memory(mode="GUMem")`; Agently 4.1.3.9 or later.

        Registering again serves sessions from their next `use_memory` on. Settings stay untouched.

        Args:
            mode: The mode's name, one for all agents of this process.
            user_id: Whose memory it is where no settings say so (`agent.set_settings(
                "GUMem.user_id", "alice")`): a text, or a function of the session id. Without
                either a session has no memory, and `status()` says so.
            space: A part of the user's memory that others do not see.
            when: When to digest: a trigger, or any function of a TriggerState.
            keep: Messages that stay in the window after a cut, rounded up to whole turns.
            wait: Seconds that a turn waits for its digest at most; 0: not at all.
            remember: False reads and writes nothing.
            session_memo: What Agently holds between requests: the memo as "text", or the "dict".
            record_actions: Which calls of tools are journaled: True, False, names, or a function of
                a name and its arguments that returns a bool.

        Raises:
            ConfigError: A parameter is wrong, the mode is another's, or Agently is older.
        """
        self._engine.check()
        options = SessionOptions.make(
            when=when,
            keep=keep,
            strategy=mode_name(mode),
            wait=wait,
            remember=remember,
            session_memo=session_memo,
            record_actions=record_actions,
        )
        whose = (
            user_id if user_id is None or callable(user_id) else checked_name(user_id, "user_id")
        )
        space = checked_name(space, "space")
        preload = functools.partial(self._preload, options)
        register(Mode(mode, self._engine, whose, space, options, preload))

    def open(self, ref: Mapping[str, str], *, agent: Any = None, **options: Any) -> MemorySession:
        """Return the session that a `MemorySession.ref()` names.

        Raises:
            ConfigError: It is no such reference.
        """
        if set(ref) != {"user_id", "space", "session_id"}:
            raise ConfigError(f"a ref has user_id, space and session_id, not {sorted(ref)}")
        return self.session(
            ref["user_id"], ref["session_id"], space=ref["space"], agent=agent, **options
        )

    def usage(self, user_id: str | None = None, since: datetime | None = None) -> dict[str, Any]:
        """Sum the memory's own requests and tokens in this process, in all and by stage."""
        return self._engine.usage.report(user_id, since)

    def status(self) -> dict[str, Any]:
        """Say how the memory stands: counts and kinds, never a user's text; also when closed."""
        engine = self._engine
        off, closed = switched_off(), engine.gone
        # A closed one asks nobody: in a forked child a lock may be held by a thread that is not.
        stands = not (off or closed)
        scopes = engine.loaded() if stands else []
        counts: dict[str, int] = dict(engine.troubles.counts)
        for scope in scopes:
            for what, number in dict(scope.troubles.counts).items():  # the worker adds to it
                counts[what] = counts.get(what, 0) + number
        latest = [t.last for t in (engine.troubles, *(s.troubles for s in scopes)) if t.last]
        return {
            "off": off,
            "closed": closed,
            "store": engine.services.store.told() if stands else None,
            "users_in_memory": len({s.user_id for s in scopes}),
            "index_bytes": sum(s.index.nbytes for s in scopes),
            "digests_running": len(engine.digests),
            "events_left_out": dict(engine.events.left_out),
            "limits": engine.budget.status() if stands else None,
            "errors": counts,
            "last_error": max(latest, key=lambda e: e["at"], default=None),
        }

    async def async_status(self) -> dict[str, Any]:
        """Return `status()`; nothing in it waits."""
        return self.status()

    def _preload(self, options: SessionOptions) -> None:
        """Load what the first turn needs before it comes: the embedder's weights take a second."""
        if options.remember and not switched_off():
            self._embedder.preload(
                lambda: words("load"),
                lambda: self._select("load"),
                lambda: import_module("agently_gumem.remember.digest"),
            )

    async def _sweep(self) -> dict[str, int]:
        """Forget what has expired, digest what waits for any user, and erase what was deleted.

        What waits is digested in sessions that nobody has open in this process. The bytes of all
        that was deleted or cut since the last time go from the files of an embedded store.

        Returns:
            Users whose messages waited, messages digested, users where something failed, records
            that had expired, and 1 where the files were cleaned.
        """
        return await sweep(self._engine)

    async def _flush(self, timeout: float | None = None) -> bool:
        """Wait for digests that are under way; tell whether all ended within `timeout` seconds.

        Raises:
            ConfigError: `timeout` is no number.
        """
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + _seconds(timeout)
        engine = self._engine
        while engine.digests or engine.endings:
            rest = None if deadline is None else deadline - loop.time()
            if rest is not None and rest <= 0:
                return False
            endings = [asyncio.wrap_future(f) for f in list(engine.endings)]
            waiting: set[Any] = {*engine.digests, *endings}
            if waiting:
                await asyncio.wait(waiting, timeout=rest, return_when=asyncio.FIRST_COMPLETED)
        await engine.told()
        return True

    def close(self, timeout: float = 10.0) -> None:
        """End all sessions, wait for their digests at most `timeout` seconds, close the store.

        What could not be digested stays pending and is taken up later. It ends at most eight
        seconds after `timeout`, whatever hangs: a model, an embedder, a hook, the store. Called in
        a hook or a trigger it waits for no digest. Safe to call twice; who comes second waits.

        Raises:
            ConfigError: `timeout` is no number; nothing was closed.
        """
        self._closing.close(_seconds(timeout))

    async def async_close(self, timeout: float = 10.0) -> None:
        """Close without blocking the caller's loop."""
        await self._closing.aclose(_seconds(timeout))

    sweep, async_sweep = blocking(_sweep), awaitable(_sweep)
    flush, async_flush = blocking(_flush), awaitable(_flush)

    def __reduce__(self) -> Any:
        return self._engine.__reduce__()

    def __enter__(self) -> "GUMem":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> "GUMem":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.async_close()


class _Bound:
    """The sessions of one agent whose handlers the developer registers."""

    def __init__(self, agent: Any, engine: Engine) -> None:
        self.engine = engine
        self.agent = agent
        self._memories: dict[str, MemorySession] = {}
        self.host = Host(agent, engine, self._resolve, self._release)
        self.host.install()

    @classmethod
    def of(cls, agent: Any, engine: Engine) -> "_Bound":
        """Return the agent's, made at the first session."""
        held = getattr(agent, BOUND, None)
        if not isinstance(held, _Bound) or held.engine is not engine:
            vacate(agent)
            held = cls(agent, engine)
            setattr(agent, BOUND, held)
        return held

    def add(self, memory: MemorySession) -> None:
        """Serve one more session."""
        self._memories[memory.session_id] = memory

    def _release(self, memory: SessionTurns) -> None:
        """Give the agent back as it was when the last of its sessions is detached."""
        with self.engine.agents_lock:
            self._memories = {k: m for k, m in self._memories.items() if m is not memory}
            if not self._memories and getattr(self.agent, BOUND, None) is self:
                self.host.remove()
                delattr(self.agent, BOUND)

    def _resolve(self, key: str, session: Any) -> MemorySession | None:
        return self._memories.get(key) or self._memories.get(str(session.id))


def _seconds(timeout: object) -> float:
    """Check a time to wait; a day at most.

    Raises:
        ConfigError: It is no number.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout != timeout:
        raise ConfigError(f"timeout={timeout!r} takes seconds, such as 10.0")
    return min(float(timeout), _DAY)


def _whole(count: Callable[[str], Any]) -> Callable[[str], int]:
    """Let a counter that divides, and gives no whole number, count up to one."""
    return lambda text: math.ceil(count(text))
