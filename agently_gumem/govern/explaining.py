"""Say where a record comes from, and what became of it."""

from collections.abc import Iterable
from typing import Any, Protocol

from agently_gumem.engine import checked_name
from agently_gumem.errors import ConfigError, NotFound
from agently_gumem.govern.chain import MEMO, explained, explained_item, explained_memo
from agently_gumem.govern.gather import older_messages
from agently_gumem.govern.history import (
    history_of,
    history_of_forgotten,
    history_of_memo,
)
from agently_gumem.govern.part import UserPart
from agently_gumem.govern.shown import View, labels_of
from agently_gumem.records import ContextItem, MemoryContext
from agently_gumem.records.account import HistoryEntry
from agently_gumem.scope import Scope
from agently_gumem.worker import awaitable, blocking


class HasId(Protocol):
    """A record, whatever its layer."""

    @property
    def id(self) -> str:
        """Its id."""
        ...


class Explaining(UserPart):
    """The part of a user's memory that says where things come from."""

    async def _explain(
        self,
        record: str | HasId | MemoryContext,
        *,
        access: str | Iterable[str] = (),
        read_spaces: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Say where a record comes from: Topic, Summaries, Facts, messages.

        Args:
            record: A record or its id, `"memo"` or `"memo:<key>"`, or what a recall gave: then all
                that its text held.
            access: Labels; records that carry labels are shown only where all of theirs are named.
            read_spaces: The other spaces that a recall had read.

        Returns:
            What is behind it and above it: `topic`, `summaries`, `facts`, `messages`; `chain`, the
            versions of these Facts with their dates; `evidence` of a Summary. Of a recall:
            `query` and `items`, each with `layer`, `id`, `score`, `parts`, `found`, and these.

        Raises:
            ConfigError: It is none of these.
            NotFound: This user has no such record, or it is not shown without its label.
        """
        labels = labels_of(access)
        if isinstance(record, MemoryContext):
            return await self._explain_context(record, labels, list(read_spaces))
        record_id = _id_of(record, "explain")
        async with self._use() as scope:
            found = _behind(scope, await _view(scope, labels), record_id)
        if found is None:
            raise self._missing(record_id)
        return found

    async def _explain_context(
        self, context: MemoryContext, labels: frozenset[str], spaces: list[str]
    ) -> dict[str, Any]:
        behind: dict[str, dict[str, Any]] = {}
        names = [self.space, *(checked_name(name, "read_spaces") for name in spaces)]
        for space in dict.fromkeys(names):
            async with self._engine.use(self.user_id, space) as scope:
                view = await _view(scope, labels)
                for item in context.items:
                    own = item.id if space == self.space else item.id.removeprefix(f"{space}/")
                    found = None if item.id in behind else _item(scope, view, item, own)
                    if found is not None:
                        behind[item.id] = {"space": space, **found}
        items = [explained_item(item, behind.get(item.id)) for item in context.items]
        return {"query": context.query, "items": items}

    async def _history(
        self, record: str | HasId, *, access: str | Iterable[str] = ()
    ) -> list[HistoryEntry]:
        """List what became of a record: each change, when, by which message or by whom.

        Of a Fact with its earlier and later versions, of a Summary with those of its Topic. What
        was forgotten has one entry, without its text.

        Args:
            record: A record or its id, `"memo"` or `"memo:<key>"`.
            access: Labels; records that carry labels are shown only where all of theirs are named.

        Raises:
            ConfigError: It is neither.
            NotFound: This user has no such record, or it is not shown without its label.
        """
        record_id = _id_of(record, "history")
        labels = labels_of(access)
        async with self._use() as scope:
            view = await _view(scope, labels)
            held = view.get(record_id)
            if held is not None:
                return history_of(view, held)
            key, is_memo = _memo_key(record_id)
            if is_memo and scope.memo is not None and key in (None, *scope.memo.value):
                return history_of_memo(view, scope.memo, key)
            tomb = scope.tombs.get(scope.tomb(record_id))
            if tomb is not None:
                return [history_of_forgotten(record_id, tomb)]
        raise self._missing(record_id)

    def _missing(self, record_id: str) -> NotFound:
        return NotFound(
            f"no record {record_id!r} of user {self.user_id!r} in space {self.space!r} that may be "
            "shown; one with access labels is shown where `access` names all of them"
        )

    explain, async_explain = blocking(_explain), awaitable(_explain)
    history, async_history = blocking(_history), awaitable(_history)


def _id_of(record: object, what: str) -> str:
    record_id = getattr(record, "id", record)
    if not isinstance(record_id, str):
        raise ConfigError(f"{what} takes a record or its id, not {type(record).__name__}")
    return record_id


def _memo_key(record_id: str) -> tuple[str | None, bool]:
    """Read `memo` (all keys) or `memo:<key>`."""
    if record_id == MEMO.rstrip(":"):
        return None, True
    return record_id.removeprefix(MEMO), record_id.startswith(MEMO)


async def _view(scope: Scope, labels: frozenset[str]) -> View:
    return View(scope.index, labels, {m.id: m for m in await older_messages(scope)})


def _behind(scope: Scope, view: View, record_id: str) -> dict[str, Any] | None:
    held = view.get(record_id)
    if held is not None:
        return explained(view, held)
    key, is_memo = _memo_key(record_id)
    return explained_memo(view, scope.memo, key) if is_memo else None


def _item(scope: Scope, view: View, item: ContextItem, record_id: str) -> dict[str, Any] | None:
    if item.layer == "memo":
        return explained_memo(view, scope.memo, None)
    return _behind(scope, view, record_id)
