"""One Agently session of one user, as an application uses it."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agently_gumem.engine import checked_name
from agently_gumem.errors import ConfigError, StoreError
from agently_gumem.records import MemoryContext, Message, now
from agently_gumem.remember import journal as journaling
from agently_gumem.remember.job import DigestReport
from agently_gumem.scope import Scope
from agently_gumem.tool_calls import plain
from agently_gumem.tools import Action, ForgetPolicy, Owner, actions, without_memo
from agently_gumem.triggers import TriggerState
from agently_gumem.turns import SessionTurns
from agently_gumem.worker import awaitable, blocking


@dataclass(frozen=True)
class StageEnd:
    """A stage that has ended, as a mark tells it."""

    name: str
    key: str | None = None
    outcome: Mapping[str, Any] | None = None
    failed: BaseException | None = None
    since: int | None = None
    """What the user said up to this sequence was said before the stage; None: all since the mark
    before it is the stage's."""
    wait: bool = True
    """Wait for the digest, as long as a turn may."""


UNTOLD: dict[str, Any] = {
    **dict.fromkeys(("paused", "messages", "pending", "facts", "last_digest", "waiting_for")),
    "failed": [],
    "dropped": {},
    "digest_running": False,
    "next_attempt_in_turns": 0,
    "left_out_of_index": 0,
}
"""What `status` says of what can't be told now."""


class MemorySession(SessionTurns):
    """One session's memory; made by `GUMem.session` or by an attached agent.

    `analysis_handler` and `execution_handler` have Agently's signatures. Every method that waits
    has an `async_` twin with the same parameters.
    """

    @property
    def memo(self) -> dict[str, Any]:
        """The user's memo, as plain data of the developer's schema."""
        return self.user.memo

    async def _mark_stage(
        self,
        name: str,
        *,
        key: str | None = None,
        outcome: Mapping[str, Any] | None = None,
        failed: BaseException | None = None,
    ) -> bool:
        """Say that a stage of a workflow has ended; a trigger on it decides at once.

        Args:
            name: The stage.
            key: Marks once: a second mark with the same key does nothing, also in another process.
            outcome: What the stage decided; kept as a message of its own.
            failed: What ended the stage before its end; its kind is kept, never its text.

        Returns:
            Whether it was marked now. A digest that fails does not fail the stage.

        Raises:
            ConfigError: `name` or `key` is no text, `outcome` no mapping, or `failed` no exception.
        """
        checked_name(name, "name")
        if key is not None:
            checked_name(key, "key")
        if outcome is not None and not isinstance(outcome, Mapping):
            raise ConfigError(
                f'mark_stage takes an outcome such as {{"chosen": "A"}}, not '
                f"{type(outcome).__name__}"
            )
        if failed is not None and not isinstance(failed, BaseException):
            raise ConfigError(f"failed= takes the exception, not {type(failed).__name__}")
        return await self.end_stage(StageEnd(name, key, outcome, failed))

    async def begin_stage(self) -> int | None:
        """Say after which of the user's messages a stage begins; None where that can't be told.

        On the worker's loop; never raises.
        """

        async def work() -> int:
            async with self._use() as scope:
                await self._journal_now(scope)
                return scope.last_sequence

        return await self.guarded("stage", work(), None) if self.active else None

    async def end_stage(self, end: StageEnd) -> bool:
        """Mark a stage on the worker's loop; tell whether it was marked now. Never raises."""
        if not self.active:
            return False
        return await self.guarded("mark_stage", self._marked(end), False)

    def end_stage_beside(self, end: StageEnd) -> None:
        """Mark a stage without waiting for anything; `GUMem.flush` waits for it.

        Raises:
            Closed: The memory is closed.
        """
        self._engine.ending(self.worker.submit(self.end_stage, end))

    async def _marked(self, end: StageEnd) -> bool:
        async with self._use() as scope:
            mark = ""
            if end.key is not None:
                mark = scope.services.ids.of("mark", scope.key, self.session_id, end.key)
                if mark in scope.marks:
                    return False
                scope.marks.add(mark)  # before anything is awaited: two marks at once are one
            try:
                state = await self._note_stage(scope, end, mark)
            except BaseException:
                scope.marks.discard(mark)  # not marked: it can be marked again
                raise
            if state is not None:
                self._start_beside(scope, state)
        if end.wait:
            await self._digests.wait()
        return True

    async def _note_stage(self, scope: Scope, end: StageEnd, mark: str) -> TriggerState | None:
        """Store what a stage said and decided, and its mark; tell at which state it is digested."""
        await self._journal_now(scope)
        if end.outcome is not None or end.failed is not None:
            # A mark that broke off and is made again says its outcome once.
            own_id = scope.services.ids.of("outcome", mark) if mark else ""
            await self._keep_outcome(scope, end, own_id)
        fired = await self._fired(scope, stage=end.name)
        # A stage that is not digested at its mark goes in with the next one.
        ends = (end.since, scope.last_sequence) if fired is not None else ()
        cuts = [place for place in ends if place is not None]
        scope.cut(self.session_id, cuts)
        if mark:
            await scope.mark(mark, end.name, self.session_id, cuts)
        return fired

    async def _keep_outcome(self, scope: Scope, end: StageEnd, outcome_id: str) -> None:
        failed = {"failed": type(end.failed).__name__} if end.failed is not None else {}
        # As plain data: an outcome that can't be written costs no stage its mark.
        outcome = json.dumps(plain({**(end.outcome or {}), **failed}), ensure_ascii=False)
        said_so = Message(
            id=outcome_id,
            role="system",
            content=f"{end.name}: {outcome}",
            event_type="stage",
            timestamp=now(),
            page=end.name,
        )
        await journaling.add(scope, self.session_id, [said_so])

    async def _digest(self, *, retry_failed: bool = False) -> DigestReport:
        """Turn what waits of this session into Facts, Summaries and memo now.

        Args:
            retry_failed: Take up messages of the user again that were given up.

        Raises:
            ModelError: The model failed; what was not written waits for the next digest.
            StoreError: The store failed; the same holds.
        """
        if not self.active:
            return DigestReport()
        async with self._use() as scope:
            await self._journal_now(scope)
            return await self._digests.now(scope, retry_failed=retry_failed)

    async def _flush(self, timeout: float | None = None) -> bool:
        """Wait for digests of this session that are under way; tell whether they ended."""
        return await self._digests.flush(timeout)

    async def _recall(self, query: str, **config: Any) -> MemoryContext:
        """Recall what a question needs; what stands in this session's window is left out.

        Args:
            query: The question.
            config: Fields of RecallConfig.

        Raises:
            ConfigError: A field does not exist, or its value is wrong.
            StoreError: The store can't be read.
        """
        asked = self.user.config(config or None)
        return await self.context_for(query, self._window(), asked)

    def status(self) -> dict[str, Any]:
        """Say how this session's memory stands: counts, reasons, never a user's text.

        Counts are the store's to tell: they are None where it can't be read, after `close`, and
        while memory is off.
        """
        return self._standing() if self._engine.gone else self.worker.run(self._status)

    async def async_status(self) -> dict[str, Any]:
        """Await `status`."""
        return self._standing() if self._engine.gone else await self.worker.arun(self._status)

    def _standing(self) -> dict[str, Any]:
        troubles = self._engine.troubles
        return {
            **self.ref(),
            **UNTOLD,
            "digest_running": self._digests.running,
            "active": self.active,
            "closed": self._engine.gone,
            "limits": self._limits(),
            "errors": dict(troubles.counts),
            "last_error": troubles.last,
        }

    async def _status(self) -> dict[str, Any]:
        told = self._standing()
        if self.host is not None and (why := self.host.overlapping()):
            told["overlapping"] = why
        last = self._digests.last
        told["last_digest"] = last.payload() if last is not None else None
        if not self.active:
            return told
        try:
            return {**told, **await self._counts()}
        except StoreError as error:
            self.note_failure("status", error)
            return {**self._standing(), "last_digest": told["last_digest"]}

    async def _counts(self) -> dict[str, Any]:
        async with self._use() as scope:
            own = scope.messages_of(self.session_id)
            return {
                "paused": scope.paused,
                "messages": len(own),
                "pending": sum(m.status in ("pending", "chunked") for m in own),
                "failed": [m.id for m in own if m.status == "failed"],
                "facts": sum(f.validity == "active" for f in scope.index.facts.values()),
                "next_attempt_in_turns": scope.backoff.turns_left,
                "waiting_for": self._engine.budget.waiting_for(*self._digests.key),
                "dropped": dict(scope.dropped),
                "errors": dict(scope.troubles.counts + self._engine.troubles.counts),
                "last_error": scope.troubles.last or self._engine.troubles.last,
                "left_out_of_index": len(scope.left_out),
            }

    def actions(self, *, forget: ForgetPolicy = "confirm") -> list[Action]:
        """Return `recall_memory`, `remember` and `forget_memory` for an agent's `use_actions`.

        They are of this session's user and space, whatever a model asks for; see
        `UserMemory.actions`.

        Raises:
            ConfigError: `forget` is none of "confirm", "allow", "off".
        """
        return actions(self.owner, secrets.token_hex(8), self._engine, forget)

    def owner(self) -> Owner:
        """Say for the actions whose memory it is, and how it is reached."""
        return Owner(
            engine=self._engine,
            user_id=self.user_id,
            space=self.space,
            talk=self.session_id,
            refusal=self._refusal,
            recall=lambda query: self.context_for(
                query, self._window(), without_memo(self._engine.recall)
            ),
            note=self._note,
            forget=self.user.async_forget,
        )

    def ref(self) -> dict[str, str]:
        """Return what names it, for `GUMem.open`; plain data that can be saved."""
        return self._whose

    def detach(self) -> None:
        """Stop reading and writing; handlers that are still registered do nothing."""
        self._detached = True
        if self.host is not None:
            self.host.release(self)

    def _limits(self) -> list[str]:
        if self.host is not None:
            return []
        return [
            "no agent: what tools return is not journaled; give agent= to GUMem.session",
            "no agent: the request carries the memo of the last digest, not each question's own "
            "context; give agent= to GUMem.session",
            'no agent: session.input_keys is not set; set it to ["input"] on the agent',
        ]

    mark_stage, async_mark_stage = blocking(_mark_stage), awaitable(_mark_stage)
    digest, async_digest = blocking(_digest), awaitable(_digest)
    flush, async_flush = blocking(_flush), awaitable(_flush)
    recall, async_recall = blocking(_recall), awaitable(_recall)
