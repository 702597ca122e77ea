"""What no library can reach: where what was forgotten may still be, and since when (pure)."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agently_gumem.records import Outside
from agently_gumem.records.account import Recipient

if TYPE_CHECKING:
    from agently_gumem.remember.forgetting.decide import Plan


def outside(plan: "Plan", told: Sequence[Recipient], store: str, *, served: bool) -> list[Outside]:
    """List the places outside the store where what a plan forgets was sent, or may be.

    Args:
        plan: What went.
        told: Who received what of the user, as it was known before anything went.
        store: Kind of the store: embedded, memory or server.
        served: An agent served the user, and so sent what was said to its own model.
    """
    if plan.nothing:
        return []
    asked = [r for r in told if r.kind == "model"]
    sent = [_sent(r) for r in told if r.kind != "model"]
    return [*_models(plan, asked, served), *sent, *_files(plan, store)]


def _sent(told: Recipient) -> Outside:
    return Outside(
        kind="webhook" if told.kind == "webhook" else "export",
        where=told.where,
        what=f"{told.what}: {told.count} times, of all that was known then",
        first=told.first,
        last=told.last,
    )


def _files(plan: "Plan", kind: str) -> list[Outside]:
    """Tell of files: what the application saved, copies of the store, and those of a server."""
    found: list[Outside] = []
    if any(m.event_type == "message" for m in _messages(plan)):
        where = "files that the application saved of its Agently sessions"
        what = "history and memo; loaded again, they lose it at the next turn"
        found.append(Outside(kind="session file", where=where, what=what))
    if kind != "memory":
        where = "copies of the store's folder"
        found.append(Outside(kind="backup", where=where, what="all records of their time"))
    if kind == "server":
        where = "the folder of the Chroma server"
        what = "bytes of deleted rows; erasure of forget(erase=True) says what its operator runs"
        found.append(Outside(kind="server files", where=where, what=what))
    return found


def _messages(plan: "Plan") -> list[Any]:
    return [*plan.messages, *(old for old, _ in plan.cut.values())]


def _models(plan: "Plan", asked: Sequence[Recipient], served: bool) -> list[Outside]:
    """Tell of the models: that of the digests, and that of the chat itself."""
    digested = [m for m in _messages(plan) if m.status == "processed" or m.attempts]
    times = sorted(f.created_at for f in plan.facts)
    found: list[Outside] = []
    if digested or plan.facts:
        seen = [t for r in asked for t in (r.first, r.last) if t is not None]
        first, last = _span([*times, *seen])
        found.append(
            Outside(
                kind="model provider",
                where=asked[0].where if asked else "the model of the memory's requests",
                what=f"{len(digested)} messages and {len(plan.facts)} Facts, in digests",
                first=first,
                last=last,
            )
        )
    spoken = [m for m in _messages(plan) if m.role == "user" and m.event_type == "message"]
    if spoken and served:
        first, last = _span([m.timestamp for m in spoken if m.timestamp is not None])
        found.append(
            Outside(
                kind="model provider",
                where="the model that the agent talks with",
                what=f"{len(spoken)} messages of the user, as part of its chats",
                first=first,
                last=last,
            )
        )
    return found


def _span(times: list[datetime]) -> tuple[datetime | None, datetime | None]:
    return min(times, default=None), max(times, default=None)
