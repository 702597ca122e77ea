"""Sweep: what has expired is forgotten, what waits is digested, what was deleted is erased."""

import logging
from collections.abc import Awaitable, Callable, Iterable

from agently_gumem.engine import Engine, switched_off
from agently_gumem.errors import LimitReached, StoreError
from agently_gumem.records import now
from agently_gumem.remember.job import Job, digest
from agently_gumem.scope import Scope

_log = logging.getLogger("agently_gumem")


class _ToldAsDigest(Exception):  # noqa: N818  # its cause is the error
    """A digest failed, whose event was emitted there."""


async def sweep(engine: Engine) -> dict[str, int]:
    """Go through the users of whom something waits or has expired; one fault holds up no other.

    Forgetting goes on where GUMEM_OFF is set: it is a right. Only digests do not.
    """
    done: dict[str, int] = {"users": 0, "messages": 0, "failed": 0, "forgotten": 0, "erased": 0}
    store = engine.services.store

    async def digested(scope: Scope) -> None:
        waiting = (m.id for m in scope.waiting() if not scope.is_open(m.session_id))
        agent = engine.agent_of(scope.user_id, scope.space)
        try:
            report = await digest(scope, Job(ids=frozenset(waiting), agent=agent))
        except LimitReached:
            raise
        except Exception as error:
            raise _ToldAsDigest from error
        done["messages"] += report.messages

    async def expired(scope: Scope) -> None:
        # Its stages load half of the package's patterns.
        from agently_gumem.remember.forgetting.retention import expire

        gone = await expire(scope, engine.services.privacy, now())
        done["forgotten"] += len(gone.messages) + len(gone.facts) + len(gone.summaries)

    due = await engine.worker.thread(_due, engine)
    done["failed"] += await _each(engine, due, expired)
    if not switched_off():
        waiting = await engine.worker.thread(store.pending)
        done["users"] = len(waiting)
        done["failed"] += await _each(engine, waiting, digested)
    done["erased"] = await _erased(engine)
    return done


async def _each(
    engine: Engine,
    whose: Iterable[tuple[str, str]],
    work: Callable[[Scope], Awaitable[None]],
) -> int:
    """Do one thing for each of some users; give the number of those where it failed."""
    failed = 0
    for user_id, space in whose:
        try:
            async with engine.use(user_id, space) as scope:
                await work(scope)
        except LimitReached:
            continue  # no failure: what is pending waits for the next digest
        except Exception as error:  # noqa: BLE001  # one user's fault holds up no other
            cause = error.__cause__ if isinstance(error, _ToldAsDigest) else error
            kind = type(cause).__name__
            engine.troubles.note("sweep", cause or error)
            if cause is error:
                told = {"user_id": user_id, "space": space, "what": "sweep", "error": kind}
                engine.events.tell("failed", told, warning=True)
            _log.warning("the sweep of a user failed: %s", kind)
            failed += 1
    return failed


def _due(engine: Engine) -> list[tuple[str, str]]:
    """List users and spaces of whom something may have expired; reads the store."""
    store, moment = engine.services.store, now()
    found = dict.fromkeys(store.expired(moment.timestamp()))
    for rule in engine.services.privacy.retention:
        layers = (rule.layer,) if rule.layer else ("message", "fact", "summary")
        before = (moment - rule.older_than).timestamp()
        found |= dict.fromkeys(store.aged(layers, before))
    return list(found)


async def _erased(engine: Engine) -> int:
    """Clean the files where something was deleted; what could not be cleaned is dirty still."""
    try:
        erased = await engine.worker.alone(engine.services.store.erase_if_dirty)
    except StoreError as error:
        engine.troubles.note("erase", error)
        _log.warning("the bytes of deleted records are not erased yet: %s", type(error).__name__)
        return 0
    return int(erased is not None)
