"""Forget, and allow again what was forgotten."""

import re
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from agently_gumem.engine import OpenSession, checked_name
from agently_gumem.errors import ConfigError
from agently_gumem.govern.beyond import outside
from agently_gumem.govern.part import UserPart
from agently_gumem.govern.recipients import recipients
from agently_gumem.records import ForgetReport, aware, now
from agently_gumem.scope import Scope
from agently_gumem.text import clear_caches
from agently_gumem.worker import awaitable, blocking

if TYPE_CHECKING:
    from agently_gumem.remember.forgetting.choice import Choice
    from agently_gumem.remember.forgetting.decide import Plan

Ids = str | Iterable[str]


class Forgetting(UserPart):
    """The part of a user's memory that lets go.

    It works while memory is paused, and where GUMEM_OFF is set: it is a right.
    """

    async def _forget(
        self,
        *,
        message_ids: Ids = (),
        fact_ids: Ids = (),
        summary_ids: Ids = (),
        session_id: str | None = None,
        before: datetime | None = None,
        matching: str | re.Pattern[str] | None = None,
        everything: bool = False,
        erase: bool = False,
        reason: str = "",
    ) -> ForgetReport:
        """Forget what is named, and all that rests on nothing else; it does not come back.

        Several ways of naming are taken together. No model is asked: what was made from it is
        gone or pruned at once, and written anew by the next digest.

        Args:
            message_ids: Messages; an id, or several.
            fact_ids: Facts, and what says them in their messages.
            summary_ids: Summaries; their Facts stay.
            session_id: All messages of a session.
            before: Messages that were said before; where that is not known, stored before.
            matching: Whatever holds this text as whole words, Chinese anywhere; or a pattern.
            everything: All of the user in this space.
            erase: Take the bytes out of the store's files too, now and not at the next sweep.
            reason: Noted with the marks that keep it from coming back; left out where it says what
                is forgotten.

        Returns:
            What went, what was cut, what stays, and what no library can reach.

        Raises:
            ConfigError: Nothing is named, or a parameter is of another kind.
            NotFound: An id is of no record; nothing was forgotten.
            StoreError: Nothing was forgotten; or it was, and its bytes are still in the files. The
                call can be repeated, and `sweep()` erases.
        """
        # The stages load half of the package's patterns, and a turn needs none of them.
        from agently_gumem.remember.forgetting import run
        from agently_gumem.remember.forgetting.choice import Choice
        from agently_gumem.remember.forgetting.matching import holder

        choice = Choice(
            _ids(message_ids, "message_ids"),
            _ids(fact_ids, "fact_ids"),
            _ids(summary_ids, "summary_ids"),
            None if session_id is None else checked_name(session_id, "session_id"),
            _moment(before),
            None if matching is None else holder(matching),
        )
        if not everything and choice == Choice():
            raise ConfigError(
                "forget takes what to forget: message_ids, fact_ids, summary_ids, session_id, "
                "before, matching, or everything=True"
            )
        told_why = _text(reason)
        async with self._use() as scope:
            clean = await scope.services.worker.thread(scope.services.select, told_why)
            why = run.Why("operator", clean.text)
            await self._catch_up(choice, everything=everything)
            also = self._let_go(scope, choice, everything=everything)
            agent = self._agent_of()
            told = recipients(scope, self._engine.usage.entries, agent)
            if everything:
                plan = await run.forget_all(scope, why, also)
            else:
                plan = await run.forget(scope, choice.wanted, why, also)
            left = outside(plan, told, scope.services.store.kind, served=agent is not None)
            report = run.reported(plan, now()).model_copy(update={"outside": left})
            return await self._finished(scope, report, erase)

    async def _allow(self, record_id: str) -> bool:
        """Let in again what was forgotten, where it comes again; it is not brought back.

        Args:
            record_id: Of a message, with the Facts that fell with it, or of a Fact or Summary.

        Returns:
            Whether it was refused until now.

        Raises:
            StoreError: It is still refused.
        """
        checked_name(record_id, "record_id")
        async with self._use() as scope, scope.journal_lock:
            own = {scope.tomb(record_id), scope.tomb(f"cut {record_id}")} & scope.tombs.keys()
            if not own:
                return False
            fallen = {i for i, tomb in scope.tombs.items() if own & set(tomb.get("of", ()))}
            held = scope.index.messages.get(record_id)
            await scope.unbury(sorted(own | fallen))
            if held is not None:  # what is left of it is a message of its own from now on
                await scope.write([held.model_copy(update={"said": ""})])
            return True

    def _agent_of(self) -> Any | None:
        return self._engine.agent_of(self.user_id, self.space)

    def _sessions(self) -> list[OpenSession]:
        whose = (self.user_id, self.space)
        return [s for s in self._engine.sessions() if (s.user_id, s.space) == whose]

    async def _catch_up(self, choice: "Choice", *, everything: bool) -> None:
        """Journal what open sessions hold first, where all of a session goes: also the rest."""
        for session in self._sessions():
            if everything or session.session_id == choice.session_id:
                await session.catch_up()

    def _let_go(
        self, scope: Scope, choice: "Choice", *, everything: bool
    ) -> "Callable[[Plan], Awaitable[None]]":
        async def from_sessions(_plan: "Plan") -> None:
            for session in self._sessions():
                whole = everything or session.session_id == choice.session_id
                await session.let_go(scope, whole=whole)

        return from_sessions

    async def _finished(self, scope: Scope, report: ForgetReport, erase: bool) -> ForgetReport:
        """Empty the caches, take the bytes out of the files where that is asked for, and tell."""
        clear_caches()
        scope.services.embedder.forget()
        if erase:
            erased = await self.worker.alone(scope.services.store.erase)
            done = {**erased.document(), "complete": erased.complete}
            told = {"erased": erased.complete, "erasure": done}
            report = report.model_copy(update=told)
        told = {"by": "call", **report.counts(), "erased": report.erased}
        scope.tell("forgotten", told)
        return report

    forget, async_forget = blocking(_forget), awaitable(_forget)
    allow, async_allow = blocking(_allow), awaitable(_allow)


def _ids(given: object, what: str) -> tuple[str, ...]:
    """Take one id or several, each once.

    Raises:
        ConfigError: It is something else.
    """
    if isinstance(given, str):
        return (checked_name(given, what),)
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise ConfigError(f"{what} takes an id or a list of them, not {type(given).__name__}")
    listed = cast("Iterable[object]", given)
    return tuple(dict.fromkeys(checked_name(one, what) for one in listed))


def _moment(before: object) -> datetime | None:
    if before is not None and not isinstance(before, datetime):
        raise ConfigError(f"before= takes a datetime, not {before!r}")
    return None if before is None else aware(before)


def _text(reason: object) -> str:
    if not isinstance(reason, str):
        raise ConfigError(f"reason= takes a text, not {type(reason).__name__}")
    return reason
