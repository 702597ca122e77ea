"""Forget what has expired, as digests and `sweep()` do."""

from datetime import datetime

from agently_gumem.privacy import PrivacyPolicy
from agently_gumem.records import ForgetReport, has_passed
from agently_gumem.remember.forgetting.choice import any_of, expired
from agently_gumem.remember.forgetting.plan import Wanted
from agently_gumem.remember.forgetting.run import Why, forget, read_all, reported
from agently_gumem.scope import Scope

RETENTION = Why(by="retention", reason="")


async def expire(scope: Scope, policy: PrivacyPolicy, now: datetime) -> ForgetReport:
    """Forget what of a user has expired at a moment; the marks keep it out of restored histories.

    Open sessions lose it at their next turn.

    Raises:
        StoreError: As `run.forget`.
    """
    await scope.ready()
    if not _may_be_due(scope, policy, now):
        return ForgetReport(at=now)
    wanted: Wanted = expired(await read_all(scope), policy, now)
    if not any_of(wanted):
        return ForgetReport(at=now)
    plan = await forget(scope, lambda records: expired(records, policy, now), RETENTION)
    report = reported(plan, now)
    scope.tell("forgotten", {"by": RETENTION.by, **report.counts(), "erased": report.erased})
    return report


def _may_be_due(scope: Scope, policy: PrivacyPolicy, now: datetime) -> bool:
    """Look at what is in memory first: mostly nothing has a lifetime."""
    if policy.retention or scope.left_out:
        return True
    index = scope.index
    held = (*index.messages.values(), *index.facts.values(), *index.summaries.values())
    return any(has_passed(r.expires_at, now) for r in held)
