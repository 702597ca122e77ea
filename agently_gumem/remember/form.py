"""How what was said compares with what is stored: its form after selection, what is passed by."""

from collections.abc import Iterable

from agently_gumem.records import APART, Message
from agently_gumem.remember.align import Said, StoredForm
from agently_gumem.scope import Scope

# Characters of a message that may be said again and again without meaning the same.
SHORT = 24
# No text of a message: none is stored with a NUL.
_CHANGED = "\x00changed "
_DROPPED = "\x00dropped "


def form_of(scope: Scope) -> StoredForm:
    """Say how messages of a history compare with those of a scope."""
    return StoredForm(
        form=lambda s: selected(scope, s),
        passed_over=lambda before, s: (
            s.text.startswith(_DROPPED)
            or skip_id(scope, before, s) in scope.passed_over
            or forgotten(scope, before, s)
        ),
        changed=lambda s: _changed(s.role, _hash(scope, s)),
        stored=lambda s: s if s.text.startswith(_CHANGED) else compared(scope, s),
    )


def selected(scope: Scope, message: Said) -> Said:
    """Return a message with its text after selection; a mark stands before one that is dropped.

    Under whatever policy it was stored: a policy may change while a history waits to be restored.
    """
    selection = scope.services.select(message.text)
    form = compared(scope, Said(message.role, selection.text))
    return Said(form.role, _DROPPED + form.text) if selection.drop else form


def compared(scope: Scope, told: Said) -> Said:
    """Return a text that passed a policy without all that any policy takes out."""
    return Said(told.role, scope.services.compare(told.text).text)


def stored_form(message: Message) -> Said:
    """Return what a stored message compares with: its text, or what stands for a changed one."""
    return _changed(message.role, message.said) if message.said else _plain(message)


def _plain(message: Message) -> Said:
    return Said(message.role, message.content)


def stored_forms(
    scope: Scope, session_id: str, messages: Iterable[Message]
) -> list[tuple[str, Said]]:
    """List what a session's messages compare with, in their order: ids and forms.

    A message whose text was changed is known by what was said and by its text as it is. One that
    was forgotten stands in its place, under the id of its mark, and is known by a keyed hash: so
    the order of a restored history is known around it.
    """
    found: list[tuple[int, str, Said]] = []
    for message in messages:
        if message.event_type in APART:
            continue
        if message.said:
            found.append((message.sequence, message.id, stored_form(message)))
        found.append((message.sequence, message.id, _plain(message)))
    own = scope.services.ids.of("session", scope.key, session_id)
    for tomb_id, tomb in scope.tombs.items():
        if tomb.get("session") == own and not tomb.get("cut"):
            form = _changed(tomb.get("role", ""), tomb["said"])
            found.append((tomb.get("sequence", 0), tomb_id, form))
    return [(record_id, form) for _, record_id, form in sorted(found, key=lambda f: f[0])]


def _changed(role: str, said: str) -> Said:
    return Said(role, _CHANGED + said)


def said_id(scope: Scope, form: Said) -> str:
    """Return the keyed hash by which a message is known whose text was changed since."""
    return scope.said_id(form.role, form.text)


def _hash(scope: Scope, form: Said) -> str:
    """Return the same of a form, which needs no comparing."""
    return scope.services.ids.of("said", scope.key, form.role, form.text)


def forgotten(scope: Scope, before: Said | None, form: Said) -> bool:
    """Tell whether a message of a history was forgotten: it is not taken up again."""
    return bool(scope.gone) and (
        skip_id(scope, before, form) in scope.gone or _hash(scope, form) in scope.gone
    )


def skip_id(scope: Scope, before: Said | None, form: Said) -> str:
    """Return the keyed hash of a message that was passed over.

    Of the user, not of a session: a history can be restored under another session's name. A short
    one ("yes", 好的) is said often, and counts only after the same message as then.
    """
    told = [form.role, form.text.removeprefix(_DROPPED)]
    if len(told[1]) <= SHORT and before is not None:
        told += [before.role, before.text.removeprefix(_DROPPED)]
    return scope.services.ids.of("skip", scope.key, *told)
