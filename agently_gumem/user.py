"""One user's memory, for code that has no Agently session at hand."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeVar, cast

from agently_gumem.config import RecallConfig
from agently_gumem.engine import checked_name, switched_off
from agently_gumem.errors import ConfigError, StoreError
from agently_gumem.govern.correcting import Correcting
from agently_gumem.govern.explaining import Explaining
from agently_gumem.govern.forgetting import Forgetting
from agently_gumem.govern.lifecycle import Governing
from agently_gumem.govern.listing import Listing
from agently_gumem.govern.moving import Moving
from agently_gumem.govern.reporting import Reporting
from agently_gumem.query import Asked, recall
from agently_gumem.records import NOTE, MemoryContext, Message, Record, as_record, now
from agently_gumem.records import Action as UserAction
from agently_gumem.records._base import named
from agently_gumem.remember import journal
from agently_gumem.remember.job import DigestReport, Job, digest, rebuild_memo
from agently_gumem.tools import Action, ForgetPolicy, Owner, actions, without_memo
from agently_gumem.worker import awaitable, blocking

RecordLike = Message | Mapping[str, Any]
ActionLike = UserAction | Mapping[str, Any]
ConfigLike = RecallConfig | Mapping[str, Any] | None
R = TypeVar("R", bound=Record)


_COUNTED = ("paused", "messages", "pending", "facts", "summaries", "topics", "waiting_for")
_UNTOLD: dict[str, Any] = {**dict.fromkeys((*_COUNTED, "digest_turn")), "failed": [], "dropped": {}}


class UserMemory(Listing, Forgetting, Correcting, Explaining, Governing, Reporting, Moving):
    """The memory of one user in one space; made by `GUMem.user`.

    Every method that waits has an `async_` twin with the same parameters.
    """

    # -- writing -------------------------------------------------------------------------------

    async def _add_messages(
        self,
        messages: Sequence[RecordLike] | RecordLike,
        session_id: str = "default",
        *,
        digest: bool = False,
    ) -> list[Message]:
        """Store messages; they can be recalled when it returns.

        Args:
            messages: Messages, or dicts of their fields; `content` is what counts. One that has
                an `id`, or a `timestamp`, and comes again is the same message.
            session_id: The conversation that they belong to.
            digest: Turn what waits into Facts before returning.

        Returns:
            The messages as stored: redacted, with their ids.

        Raises:
            ConfigError: A field is unknown or wrong.
            StoreError: Nothing was stored.
            ModelError: With `digest`: the messages are stored, the digest failed.
        """
        session_id = checked_name(session_id, "session_id")
        records = _listed(Message, messages, "add_messages")
        if switched_off():
            return []
        async with self._use() as scope:
            stored = await journal.add(scope, session_id, records)
        if digest:
            await self._digest()
        return stored

    async def _add_actions(
        self,
        actions: Sequence[ActionLike] | ActionLike,
        session_id: str = "default",
        *,
        digest: bool = False,
    ) -> list[Message]:
        """Store what the user did: searches, filters, saves, skips, business events.

        Args:
            actions: Actions, or dicts of their fields; `log_id` makes one that comes again the
                same.
            session_id: The session that they belong to.
            digest: Turn what waits into Facts before returning.

        Returns:
            The messages as stored; noise such as scrolling is left out.

        Raises:
            ConfigError: A field is unknown or wrong.
            StoreError: Nothing was stored.
            ModelError: With `digest`: the actions are stored, the digest failed.
        """
        records = [_message_of(action) for action in _listed(UserAction, actions, "add_actions")]
        return await self._add_messages(records, session_id, digest=digest)

    # -- reading -------------------------------------------------------------------------------

    async def _query(
        self,
        text: str,
        session_id: str | None = None,
        recall_config: ConfigLike = None,
        **config: Any,
    ) -> MemoryContext:
        """Recall what a question needs; no model is asked.

        Args:
            text: The question.
            session_id: The session that asks, for its recent messages.
            recall_config: Over the GUMem's own.
            config: Fields of RecallConfig, over both.

        Returns:
            The context; `formatted_context` is empty where nothing is known.

        Raises:
            ConfigError: A field of RecallConfig is unknown or wrong.
            StoreError: The store can't be read.
        """
        laid = self.config(recall_config)
        if config:
            laid = as_record(RecallConfig, {**laid.model_dump(), **config}, "query")
        return await self.recall(Asked(text, laid, session_id))

    async def recall(self, asked: Asked) -> MemoryContext:
        """Recall on the worker's loop; `query` is the form for callers."""
        if not isinstance(asked.text, str):
            raise ConfigError(f"query takes a text, not {asked.text!r}")
        if switched_off():
            return MemoryContext(query=asked.text)
        async with AsyncExitStack() as stack:
            names = [n for n in dict.fromkeys(asked.config.read_spaces) if n != self.space]
            scope = await stack.enter_async_context(self._use())
            beside = [
                await stack.enter_async_context(
                    self._engine.use(self.user_id, checked_name(name, "read_spaces"))
                )
                for name in names
            ]
            began = time.monotonic()
            context = await recall(scope, [s for s in beside if not s.paused], asked)
            told = {**_recalled(context), "seconds": time.monotonic() - began}
            scope.tell("recalled", told, asked.session_id or "")
            return context

    def note_failure(self, what: str, error: Exception) -> None:
        """Log, emit and count a failure of what was done for it inside somebody's flow."""
        self._engine.failed(what, error, {"user_id": self.user_id, "space": self.space})

    def config(self, given: ConfigLike) -> RecallConfig:
        """Lay a config, or a dict of some of its fields, over the GUMem's own.

        Raises:
            ConfigError: A field is unknown or wrong.
        """
        if given is None:
            return self._engine.recall
        if isinstance(given, RecallConfig):
            return given
        if not isinstance(given, Mapping):
            raise ConfigError(f"recall_config takes a RecallConfig or a dict, not {given!r}")
        whole = {**self._engine.recall.model_dump(), **given}
        return as_record(RecallConfig, whole, "recall_config")

    def actions(self, *, forget: ForgetPolicy = "confirm") -> list[Action]:
        """Return `recall_memory`, `remember` and `forget_memory` for an agent's `use_actions`.

        They are of this user and space, whatever a model asks for.

        Args:
            forget: "confirm": the first call of `forget_memory` returns what would go, and only one
                after the user's next message does it; "allow": it does it; "off": it is left out.

        Raises:
            ConfigError: `forget` is none of these.
        """
        name = f"{self.user_id}\x00{self.space}"
        return actions(self._owner, name, self._engine, forget)

    def _owner(self) -> Owner:
        return Owner(
            engine=self._engine,
            user_id=self.user_id,
            space=self.space,
            talk=None,
            refusal=lambda: "",
            recall=lambda query: self.recall(Asked(query, without_memo(self._engine.recall))),
            note=lambda text: self.keep_note(text, "default"),
            forget=self._forget,
        )

    async def keep_note(self, text: str, session_id: str) -> str:
        """Store what a model chose to keep; return its id, or "" where it is not for memory."""
        note = Message(role="assistant", content=text, event_type=NOTE, timestamp=now())
        async with self._use() as scope:
            return "".join(m.id for m in await journal.add(scope, session_id, [note]))

    def _agent(self) -> Any | None:
        return self._engine.agent_of(self.user_id, self.space)

    async def _get_memo(self) -> dict[str, Any]:
        """Return the memo in the developer's schema, as plain data; empty where there is none."""
        if switched_off():
            return {}
        async with self._use() as scope:
            return scope.services.schema.fitting(scope.memo.value) if scope.memo else {}

    @property
    def memo(self) -> dict[str, Any]:
        """The memo in the developer's schema, as plain data; empty where there is none."""
        return self.get_memo()

    def status(self) -> dict[str, Any]:
        """Say how this user's memory stands, over all sessions: counts, never a user's text.

        Counts are the store's to tell: they are None where it can't be read, where GUMEM_OFF is
        set, and after `close`.
        """
        return self._standing() if self._engine.gone else self.worker.run(self._status)

    async def async_status(self) -> dict[str, Any]:
        """Await `status`."""
        return self._standing() if self._engine.gone else await self.worker.arun(self._status)

    def _standing(self) -> dict[str, Any]:
        whose = {"user_id": self.user_id, "space": self.space, "closed": self._engine.gone}
        troubles = self._engine.troubles
        told = {"errors": dict(troubles.counts), "last_error": troubles.last}
        return {**whose, **_UNTOLD, **told}

    async def _status(self) -> dict[str, Any]:
        told = self._standing()
        if switched_off():
            return told
        try:
            return {**told, **await self._counts()}
        except StoreError as error:
            self.note_failure("status", error)
            return self._standing()

    async def _counts(self) -> dict[str, Any]:
        async with self._use() as scope:
            index = scope.index
            return {
                "paused": scope.paused,
                "messages": len(index.messages),
                "pending": len(scope.waiting()),
                "waiting_for": self._engine.budget.waiting_for(self.user_id, self.space),
                "failed": [m.id for m in index.messages.values() if m.status == "failed"],
                "facts": sum(f.validity == "active" for f in index.facts.values()),
                "summaries": sum(s.validity == "active" for s in index.summaries.values()),
                "topics": len(index.topics),
                "digest_turn": scope.digest_lock.state,
                "dropped": dict(scope.dropped),
                "errors": dict(scope.troubles.counts),
                "last_error": scope.troubles.last or self._engine.troubles.last,
            }

    # -- digesting and switching -----------------------------------------------------------------

    async def _digest(self, *, retry_failed: bool = False) -> DigestReport:
        """Turn all that waits into Facts, Summaries and memo now.

        Args:
            retry_failed: Take up messages again that were given up.

        Raises:
            ModelError: The model failed; what was not written waits for the next digest.
            StoreError: The store failed; the same holds.
        """
        if switched_off():
            return DigestReport()
        async with self._use() as scope:
            return await digest(scope, Job(agent=self._agent(), retry_failed=retry_failed))

    async def _rebuild_memo(self) -> dict[str, Any]:
        """Write the memo anew from active Facts alone, in one model request, and return it.

        Raises:
            ModelError: There was no valid answer; the memo stays as it was.
        """
        if switched_off():
            return {}
        async with self._use() as scope:
            await rebuild_memo(scope, self._agent())
        return await self._get_memo()

    async def _pause(self) -> None:
        """Stop remembering and recalling for this user, in every process, until `resume`.

        What is said meanwhile is never taken up; what was known stays stored, and the listings
        (`facts`, `messages`, `memo` and the like) stay readable.
        """
        async with self._use() as scope:
            await scope.set_paused(True)

    async def _resume(self) -> None:
        """Remember and recall again."""
        async with self._use() as scope:
            await scope.set_paused(False)

    add_messages, async_add_messages = blocking(_add_messages), awaitable(_add_messages)
    add_actions, async_add_actions = blocking(_add_actions), awaitable(_add_actions)
    query, async_query = blocking(_query), awaitable(_query)
    get_memo, async_get_memo = blocking(_get_memo), awaitable(_get_memo)
    digest, async_digest = blocking(_digest), awaitable(_digest)
    rebuild_memo, async_rebuild_memo = blocking(_rebuild_memo), awaitable(_rebuild_memo)
    pause, async_pause = blocking(_pause), awaitable(_pause)
    resume, async_resume = blocking(_resume), awaitable(_resume)


def _listed(kind: type[R], given: object, what: str) -> list[R]:
    """Take one record or several, each as a record or a dict of its fields.

    Raises:
        ConfigError: It is something else, or a field is unknown or wrong.
    """
    if isinstance(given, kind | Mapping):
        return [as_record(kind, cast("R | Mapping[str, Any]", given), what)]
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigError(
            f'{what} takes {named(kind)} or a dict such as {{"content": "..."}}, or a list of '
            f"them, not {type(given).__name__}"
        )
    return [as_record(kind, one, what) for one in cast("Iterable[Any]", given)]


def _recalled(context: MemoryContext) -> dict[str, Any]:
    """Count what was recalled."""
    layers = Counter(item.layer for item in context.items)
    return {"items": dict(layers), "tokens": context.tokens, "abstained": context.abstained}


def _message_of(action: UserAction) -> Message:
    """Bring a behaviour event to the form of a message."""
    told = {
        k: v
        for k, v in (
            ("device_id", action.device_id),
            ("app", action.app),
            ("platform", action.platform),
            ("entities", action.entities),
        )
        if v
    }
    return Message(
        id=action.log_id,
        role="user",
        content=action.content,
        timestamp=action.timestamp,
        event_type=action.event_type or "action",
        page=action.page,
        anchors=action.anchors,
        metadata={**action.metadata, **told},
    )
