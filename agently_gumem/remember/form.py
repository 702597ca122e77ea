"""How what was said compares with what is stored: its form after selection, what is passed by."""

from agently_gumem.records import Message
from agently_gumem.remember.align import Said, StoredForm
from agently_gumem.scope import Scope

# Characters of a message that may be said again and again without meaning the same.
SHORT = 24
# No text of a message: none is stored with a NUL.
_CHANGED = "\x00changed "
_DROPPED = "\x00dropped"


def form_of(scope: Scope) -> StoredForm:
    """Say how messages of a history compare with those of a scope."""
    return StoredForm(
        form=lambda s: selected(scope, s),
        passed_over=lambda before, s: (
            s.text == _DROPPED or skip_id(scope, before, s) in scope.passed_over
        ),
        changed=lambda s: Said(s.role, _CHANGED + said_id(scope, s)),
    )


def selected(scope: Scope, message: Said) -> Said:
    """Return a message with its text after selection; a mark stands for one that is dropped."""
    selection = scope.services.select(message.text)
    return Said(message.role, _DROPPED if selection.drop else selection.text)


def stored_form(message: Message) -> Said:
    """Return what a stored message compares with: its text, or what stands for a changed one."""
    return Said(message.role, _CHANGED + message.said if message.said else message.content)


def said_id(scope: Scope, form: Said) -> str:
    """Return the keyed hash by which a message is known whose text was changed since."""
    return scope.services.ids.of("said", scope.key, form.role, form.text)


def skip_id(scope: Scope, before: Said | None, form: Said) -> str:
    """Return the keyed hash of a message that was passed over.

    Of the user, not of a session: a history can be restored under another session's name. A short
    one ("yes", 好的) is said often, and counts only after the same message as then.
    """
    told = [form.role, form.text]
    if len(form.text) <= SHORT and before is not None:
        told += [before.role, before.text]
    return scope.services.ids.of("skip", scope.key, *told)
