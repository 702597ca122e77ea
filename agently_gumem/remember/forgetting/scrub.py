"""What of a session's history, as Agently holds it, was forgotten since or before."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from agently_gumem.remember.align import Mirror, Said, align, left_out
from agently_gumem.remember.form import forgotten, form_of
from agently_gumem.remember.journal import all_stored, came_live
from agently_gumem.scope import Scope


@dataclass(frozen=True)
class Scrubbed:
    """Places of a history whose messages were forgotten, and the texts of those that were cut."""

    gone: frozenset[int] = frozenset()
    texts: Mapping[int, str] = field(default_factory=dict[int, str])
    ids: Sequence[str | None] = ()
    """The stored ids of what is known, from the beginning on."""

    def __bool__(self) -> bool:
        return bool(self.gone or self.texts)


async def scrub(scope: Scope, session_id: str, mirror: Mirror, history: Sequence[Said]) -> Scrubbed:
    """Find what must not stand in a history any more; under the user's journal lock.

    A message is known by its place among those that are stored or were forgotten, and where the
    history was restored under another name, by a keyed hash. What was said live is never refused.
    """
    if not scope.tombs or not history:
        return Scrubbed()
    stored = await all_stored(scope, session_id, mirror, history)
    return await scope.services.worker.thread(_found, scope, mirror, history, stored)


def _found(
    scope: Scope, mirror: Mirror, history: Sequence[Said], stored: Sequence[tuple[str, Said]]
) -> Scrubbed:
    form = form_of(scope)
    ids = align(mirror, history, stored, left_out(history, mirror.wanted), form).ids
    gone: set[int] = set()
    texts: dict[int, str] = {}
    for place, message in enumerate(history):
        known = ids[place] if place < len(ids) else None
        if known is None:
            if _came_again(scope, mirror, history, place):
                gone.add(place)
        elif known in scope.tombs or scope.refuses(known):
            gone.add(place)
        elif scope.cut_tomb(known) is not None:
            held = scope.index.messages.get(known)
            if held is not None and held.content != message.text:
                texts[place] = held.content
    return Scrubbed(frozenset(gone), texts, ids)


def _came_again(scope: Scope, mirror: Mirror, history: Sequence[Said], place: int) -> bool:
    """Tell whether a message that is not stored was forgotten, and is no live turn."""
    if not scope.gone or came_live(mirror, history, place):
        return False
    form = form_of(scope).form
    before = form(history[place - 1]) if place else None
    return forgotten(scope, before, form(history[place]))


def all_but_live(mirror: Mirror, history: Sequence[Said]) -> Scrubbed:
    """Name all of a history but what was said since it was journaled."""
    live = {i for i in range(len(history)) if came_live(mirror, history, i)}
    return Scrubbed(frozenset(range(len(history))) - live)


def settle(mirror: Mirror, history: Sequence[Said], found: Scrubbed) -> None:
    """Bring what was handled of a history up to the history without what was forgotten."""
    kept = [i for i in range(len(found.ids)) if i not in found.gone]
    told = [Said(history[i].role, found.texts.get(i, history[i].text)) for i in kept]
    mirror.seen, mirror.ids = told, [found.ids[i] for i in kept]
    mirror.live = {_moved(i, found.gone): t for i, t in mirror.live.items() if i not in found.gone}
    mirror.asked = {
        _moved(i, found.gone): q for i, q in mirror.asked.items() if i not in found.gone
    }


def _moved(place: int, gone: Collection[int]) -> int:
    return place - sum(i < place for i in gone)
