"""Journal: what Agently holds becomes Messages, each once, before anything can leave the window."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError

from agently_gumem.errors import ConfigError
from agently_gumem.privacy import Selection
from agently_gumem.records import APART, Message, earliest, now, union
from agently_gumem.remember import hooking
from agently_gumem.remember.align import Aligned, Mirror, Said, StoredForm, align, left_out, said
from agently_gumem.remember.cleaning import Cleaner
from agently_gumem.remember.form import form_of, skip_id, stored_forms
from agently_gumem.remember.happened import Happened, Placed, placed
from agently_gumem.remember.select import is_noise
from agently_gumem.rows import flag_row, from_row
from agently_gumem.scope import Scope

IMPORTED_MEMO = "imported_memo"
K = TypeVar("K")
INSTRUCTIONS = frozenset({"system", "developer"})
_CLEANED = ("content", "role", "speaker", "event_type", "page", "anchors")


async def journal(
    scope: Scope,
    session_id: str,
    mirror: Mirror,
    full_context: Sequence[Any],
    waiting: list[Happened] | None = None,
    *,
    last: bool = False,
) -> list[Message]:
    """Store what of a session's history is not stored yet.

    The list is read under the lock: a turn that overlaps may have added to it meanwhile. A last
    question without an answer waits for it.

    Args:
        scope: The user.
        session_id: The session.
        mirror: What was handled of this Session object; moves on when the store has confirmed.
        full_context: Agently's own list.
        waiting: What happened between questions and answers; what was handled leaves it.
        last: No turn will follow: all of it is handled now.

    Returns:
        The messages that were new.

    Raises:
        StoreError: Nothing was stored; the next call takes it up.
    """
    async with scope.journal_lock:
        await scope.ready()
        history = [said(m) for m in list(full_context)]
        head = history[:-1] if _is_asked(history, mirror) else history
        blank = {i for i, m in enumerate(head) if _is_no_turn(m)}
        stored, form = await all_stored(scope, session_id, mirror, head), form_of(scope)
        gone = left_out(head, mirror.wanted, _restored(mirror, head, stored, form))
        gone |= _beside(scope, session_id, mirror, head)
        thread = scope.services.worker.thread
        aligned = await thread(align, mirror, head, stored, gone | blank, form)
        await _retract(scope, aligned, gone)
        among = placed(list(waiting or ()), head, aligned.start, last=last)
        if scope.paused:
            among = placed((), head, aligned.start)
            await pass_over(scope, head, aligned.start)
            new: dict[int | str, Message] = {}
        else:
            if not aligned.extends:
                gone |= await thread(_known_to_skip, form, mirror, head, aligned.start)
            # In the pool: looking for secrets in a long text takes its time.
            before = next((i for i, _ in reversed(_stored(scope, session_id))), "")
            turns = _Turns(scope, session_id, mirror, head, gone, before, among)
            new = await hooked(scope, await thread(turns.made, aligned.start))
            # What a policy or a hook drops now is not taken up later, under another policy either.
            dropped = {i for i in range(aligned.start, len(head)) if i not in new} - gone - blank
            passed = await thread(_skips, scope, head, dropped)
            if new or passed:
                flags = [flag_row("skip", skip) for skip in sorted(passed)]
                await hooking.write(scope, list(new.values()), flags)
                scope.passed_over |= passed
        ids = [*aligned.ids, *([None] * (len(head) - aligned.start))]
        for place, message in new.items():
            if isinstance(place, int):
                ids[place] = message.id
        _move_on(mirror, head, ids, history)
        _tell(scope, session_id, new.values())
        if waiting:
            handled = {h.key for h in among.all()}
            waiting[:] = [h for h in waiting if h.key not in handled]
        return list(new.values())


def _move_on(
    mirror: Mirror, head: list[Said], ids: list[str | None], history: Sequence[Said]
) -> None:
    """Note what was handled, now that the store has confirmed it; a question waits behind it."""
    mirror.seen, mirror.ids = head, ids
    mirror.live = {i: t for i, t in mirror.live.items() if i >= len(head)}
    mirror.asked = {i: q for i, q in mirror.asked.items() if i in mirror.live}
    if len(head) < len(history):
        if not mirror.arrived(len(head), history[-1]):
            mirror.live[len(head)] = now()
        mirror.asked.pop(len(head), None)


def _is_asked(history: Sequence[Said], mirror: Mirror) -> bool:
    """Tell whether the last message is a question that waits for its answer.

    One that is stored does not: its answer was forgotten.
    """
    last = len(history) - 1
    if last < 0 or history[last].role != "user":
        return False
    seen = mirror.seen or []
    return list(history) != list(seen[: last + 1]) or mirror.ids[last] is None


def _tell(scope: Scope, session_id: str, new: Collection[Message]) -> None:
    """Tell how many messages were stored."""
    if new:
        told = {"messages": len(new), "pending": len(scope.waiting())}
        scope.tell("journaled", told, session_id)


async def hooked(scope: Scope, made: Mapping[K, Message]) -> dict[K, Message]:
    """Ask hooks about new messages; what one changed is kept as its new text asks for."""
    kept = dict(await hooking.messages(scope, made))
    for key, message in list(kept.items()):
        if message is not made[key]:
            clean = await scope.services.worker.thread(cleaned, scope, message)
            if clean is None:
                del kept[key]
            else:
                kept[key] = message.model_copy(update=clean)
    scope.dropped.update(["hook"] * (len(made) - len(kept)))
    return kept


def _skips(scope: Scope, history: Sequence[Said], places: Collection[int]) -> set[str]:
    """Return the keyed hashes of messages that must not be taken up later."""
    form = form_of(scope).form
    return {
        skip_id(scope, form(history[i - 1]) if i else None, form(history[i])) for i in places
    } - scope.passed_over


async def import_memo(scope: Scope, session_id: str, text: str) -> None:
    """Take over a memo of an earlier handler, once, as a message of its own."""
    async with scope.journal_lock:
        await scope.ready()
        selection = scope.services.select(text)
        message_id = imported_id(scope, session_id, text)
        if scope.paused or message_id in scope.index.messages:
            return
        message = Message(
            id=message_id,
            user_id=scope.user_id,
            space=scope.space,
            session_id=session_id,
            role="system",
            content=selection.text,
            event_type=IMPORTED_MEMO,
            stored_at=now(),
            sequence=scope.next_sequence(),
            **kept_under(selection),
        )
        kept = {} if selection.drop else await hooked(scope, {message_id: message})
        # One that a hook drops is kept without its text: it was taken over, and is not again.
        gone = message.model_copy(update={"content": "", "status": "processed"})
        await hooking.write(scope, [kept.get(message_id, gone)])


def imported_id(scope: Scope, session_id: str, text: str) -> str:
    """Return the id that a memo has once it was taken over."""
    told = scope.services.compare(scope.services.select(text).text).text
    return scope.services.ids.of("msg", scope.key, session_id, IMPORTED_MEMO, told)


async def add(scope: Scope, session_id: str, messages: Sequence[Message]) -> list[Message]:
    """Store messages that the application gives; noise and empty ones are left out.

    With an id, or with a timestamp, a message that comes again lands on itself. While the user's
    memory is paused nothing is stored.
    """
    async with scope.journal_lock:
        await scope.ready()
        if scope.paused:
            return []
        placed: list[Message] = []
        times: dict[str, int] = {}
        call = Mirror().nonce
        own: dict[str, Message] = {}
        thread = scope.services.worker.thread
        for message in messages:
            if is_noise(message.event_type, message.content, scope.services.privacy):
                scope.dropped["noise"] += 1
                continue
            stored = await thread(_placed, scope, session_id, message, call, times)
            if stored is None:
                scope.dropped["selection"] += 1
                continue
            check(scope, stored)
            known_before = scope.index.messages.get(stored.id)
            placed.append(known_before or own.setdefault(stored.id, stored))
        known = scope.index.messages.keys() | scope.left_out
        fresh = [m for m in placed if m.id not in known and not scope.refuses(m.id)]
        made = {m.id: m for m in fresh}
        new = await hooked(scope, made) if made else {}
        if new:
            await hooking.write(scope, list(new.values()))
        _tell(scope, session_id, new.values())
        lost = made.keys() - new.keys()
        told = [new.get(m.id, m) for m in placed if m.id not in lost]
        return [m for m in told if not scope.refuses(m.id)]


def _placed(
    scope: Scope, session_id: str, message: Message, call: str, times: dict[str, int]
) -> Message | None:
    """Give a message its id, its place and its owner, and take out what must not be kept."""
    clean = cleaned(scope, message)
    if clean is None:
        return None
    when = message.timestamp.isoformat() if message.timestamp else call
    text = scope.services.compare(clean["content"]).text if message.timestamp else clean["content"]
    told = [session_id, *(clean[n] for n in ("role", "speaker", "event_type")), text, when]
    once = scope.services.ids.of("msg", scope.key, *told)
    times[once] = times.get(once, 0) + 1
    own = message.id or scope.services.ids.of("msg", scope.key, *told, str(times[once]))
    return message.model_copy(
        update={
            "id": own,
            "user_id": scope.user_id,
            "space": scope.space,
            "session_id": session_id,
            "status": "pending",
            "stored_at": now(),
            "attempts": 0,
            "sequence": scope.next_sequence(),
            **clean,
        }
    )


def cleaned(scope: Scope, message: Message) -> dict[str, Any] | None:
    """Select all that a message holds (in the pool); None where it is not for memory.

    What stands in its metadata counts as what stands in its text: it goes with it, and is shown
    to the same readers.
    """
    cleaner = Cleaner(scope.services.select)
    clean = {name: cleaner.data(getattr(message, name)) for name in _CLEANED}
    clean["metadata"] = cleaner.data(_plain(message))
    selection = cleaner.selection
    return None if selection.drop else {**clean, **kept_under(selection, message)}


def kept_under(selection: Selection, message: Message | None = None) -> dict[str, Any]:
    """Say under which labels, and until when, a message is kept."""
    given, ends = (message.access, message.expires_at) if message is not None else ((), None)
    limit = None if selection.lifetime is None else now() + selection.lifetime
    return {"access": union(given, selection.access), "expires_at": earliest([ends, limit])}


def check(scope: Scope, message: Message) -> None:
    """Refuse a message that could not be stored as itself.

    Raises:
        ConfigError: Its id is that of another record, or its metadata is no plain data.
    """
    held = scope.index.get(message.id)
    if held is not None and not isinstance(held, Message):
        raise ConfigError(f"the id {message.id!r} is that of a {type(held).__name__}")
    _written(message)


def _plain(message: Message) -> Any:
    """Return the metadata as it is stored: what is no text there may become one."""
    if not message.metadata:
        return message.metadata
    return json.loads(_written(message.model_copy(update={"content": ""})))["metadata"]


def _written(message: Message) -> str:
    """Write a message as it is stored.

    Raises:
        ConfigError: Its metadata is no plain data.
    """
    try:
        return message.model_dump_json()
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise ConfigError("metadata takes plain data: texts, numbers, lists, dicts") from error


def _stored(scope: Scope, session_id: str) -> list[tuple[str, Said]]:
    return stored_forms(scope, session_id, scope.messages_of(session_id))


async def all_stored(
    scope: Scope, session_id: str, mirror: Mirror, head: Sequence[Said]
) -> list[tuple[str, Said]]:
    """List what is stored of a session, also past what the index of a large user holds."""
    seen = mirror.seen
    if not scope.left_out or (seen is not None and list(head[: len(seen)]) == seen):
        return _stored(scope, session_id)
    rows = await scope.services.worker.thread(scope.rows.load)
    records = [from_row(row) for row in rows if row.layer == "message"]
    held = [r for r in records if isinstance(r, Message) and r.session_id == session_id]
    held = [m for m in held if not scope.refuses(m.id)]
    return stored_forms(scope, session_id, held)


def _restored(
    mirror: Mirror, head: Sequence[Said], stored: Sequence[tuple[str, Said]], form: StoredForm
) -> Callable[[int], bool | None]:
    """Say of a place in a restored history whether it is stored; None where it is not restored."""
    seen = mirror.seen
    if seen is not None and list(head[: len(seen)]) == seen:
        return lambda _: None
    held = {form.stored(s) for _, s in stored}

    def known(place: int) -> bool | None:
        live = mirror.arrived(place - 1, head[place - 1])
        return None if live else form.form(head[place]) in held

    return known


def _known_to_skip(form: StoredForm, mirror: Mirror, head: Sequence[Said], start: int) -> set[int]:
    """Find what of a restored history was passed over before, wherever it stands in it."""
    return {
        i
        for i in range(start, len(head))
        if not came_live(mirror, head, i)
        and form.passed_over(form.form(head[i - 1]) if i else None, form.form(head[i]))
    }


def came_live(mirror: Mirror, head: Sequence[Said], place: int) -> bool:
    """Tell whether a message was seen to arrive, or answers one that was."""
    if head[place].role == "user":
        return place in mirror.live
    return place in mirror.live or (place > 0 and mirror.arrived(place - 1, head[place - 1]))


async def pass_over(scope: Scope, history: Sequence[Said], start: int) -> None:
    """Keep no text, only a keyed hash, of what must not be taken up later, as while paused."""
    ids = _skips(scope, history, range(start, len(history)))
    if ids:
        await scope.write_flags([flag_row("skip", skip_id) for skip_id in sorted(ids)])
        scope.passed_over |= ids


def _is_no_turn(message: Said) -> bool:
    """Tell whether it is nothing that anybody said: empty, or an instruction to the model.

    An instruction that is put before each restored history, with the day's date in it, would
    otherwise be new each time, and an application's own prompt would become a memory.
    """
    return message.role in INSTRUCTIONS or is_noise("message", message.text)


def _beside(scope: Scope, session_id: str, mirror: Mirror, head: Sequence[Said]) -> set[int]:
    """Find what stands beside the turns of a session, as tool calls, and came back as one.

    An application that restores all that `messages()` lists brings it along: it is stored already,
    and what follows it is known behind it.
    """
    seen = mirror.seen
    if seen is not None and list(head[: len(seen)]) == seen:
        return set()
    own = scope.messages_of(session_id)
    beside = {Said(m.role, m.content) for m in own if m.event_type in APART}
    return {
        i
        for i, message in enumerate(head)
        if message in beside and not (i and mirror.arrived(i - 1, head[i - 1]))
    }


async def _retract(scope: Scope, aligned: Aligned, gone: set[int]) -> None:
    """Take back a failed attempt that was stored before its good twin came."""
    places = [i for i in sorted(gone) if i < aligned.start and aligned.ids[i] is not None]
    ids = [i for i in (aligned.ids[place] for place in places) if i is not None]
    ids = [i for i in ids if (m := scope.index.messages.get(i)) and m.status != "processed"]
    if ids:
        await scope.delete("message", ids)
        scope.generation += 1  # a digest that has them under way must not write them again
    for place in places:
        if aligned.ids[place] in ids:
            aligned.ids[place] = None


@dataclass
class _Turns:
    """Makes the new messages of a history, and what happened between them, in one order."""

    scope: Scope
    session_id: str
    mirror: Mirror
    head: Sequence[Said]
    gone: set[int]
    before: str
    """Id of the one stored before: each is chained to that and not to the one before it in the
    history, since after a reset or a rollback the same words are said anew."""
    among: Placed

    def made(self, start: int) -> dict[int | str, Message]:
        """Make them (in the pool): by their places, and by their ids where they have none."""
        new: dict[int | str, Message] = {}
        self._take(new, self.among.first)
        for place in range(start, len(self.head)):
            if place not in self.gone and (message := self._turn(place)) is not None:
                new[place] = message
            self._take(new, self.among.after.get(place, ()))
        return new

    def _turn(self, place: int) -> Message | None:
        message = self.head[place]
        if _is_no_turn(message):
            return None
        selection = self.scope.services.select(message.text)
        if selection.drop:
            self.scope.dropped["selection"] += 1
            return None
        told = (self.mirror.nonce, self.before, message.role, selection.text)
        self.before = self.scope.services.ids.of("msg", self.scope.key, self.session_id, *told)
        return Message(
            id=self.before,
            user_id=self.scope.user_id,
            space=self.scope.space,
            session_id=self.session_id,
            role=message.role,
            content=selection.text,
            timestamp=_moment(self.mirror, self.head, place),
            stored_at=now(),
            sequence=self.scope.next_sequence(),
            **kept_under(selection),
        )

    def _take(self, new: dict[int | str, Message], happened: Iterable[Happened]) -> None:
        scope = self.scope
        for one in happened:
            own = happened_id(scope, self.session_id, one)
            if own in new or own in scope.index.messages or scope.refuses(own):
                continue
            message = one.message(scope.services.select)
            if is_noise(message.event_type, message.content, scope.services.privacy):
                scope.dropped["noise"] += 1
            elif (clean := cleaned(scope, message)) is None:
                scope.dropped["selection"] += 1
            else:
                whose = {
                    "id": own,
                    "user_id": scope.user_id,
                    "space": scope.space,
                    "session_id": self.session_id,
                    "stored_at": now(),
                    "sequence": scope.next_sequence(),
                }
                new[own] = message.model_copy(update={**whose, **clean})


def happened_id(scope: Scope, session_id: str, one: Happened) -> str:
    """Return the id under which it is stored."""
    return scope.services.ids.of("msg", scope.key, session_id, one.event_type, *one.key)


def _moment(mirror: Mirror, head: Sequence[Said], place: int) -> datetime | None:
    """Say when a message came, where it was seen to come; restored history has no time."""
    if mirror.arrived(place, head[place]):
        return mirror.live[place]
    answers = place > 0 and mirror.arrived(place - 1, head[place - 1])
    return now() if answers and head[place].role != "user" else None
