"""Who received what of a user's memory: models, webhooks, exports."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from agently_gumem.model import REQUESTER, Use, named
from agently_gumem.records.account import Recipient
from agently_gumem.scope import Scope

EXPORT = "export"


def recipients(scope: Scope, usage: Iterable[Use], agent: Any | None) -> list[Recipient]:
    """List who received what: requests of this process, deliveries of all that are known."""
    where = _model(scope.services.model.settings, agent)
    sent = scope.services.hooks.deliveries(scope.user_id, scope.space)
    outgoing = [
        Recipient(
            kind="export" if d.hook == EXPORT and not d.url else "webhook",
            where=d.url or "a file, or the text that the application asked for",
            what=d.resource,
            count=d.count,
            first=d.first,
            last=d.last,
        )
        for d in sent
    ]
    return [*_requests([u for u in usage if u.user_id == scope.user_id], where), *outgoing]


def _requests(uses: Sequence[Use], where: str) -> list[Recipient]:
    """Sum requests by model and stage; `where` names the model where a request does not."""
    by_stage: dict[tuple[str, str], list[Use]] = {}
    for use in uses:
        by_stage.setdefault((use.where or where, use.stage), []).append(use)
    return [
        Recipient(
            kind="model",
            where=asked,
            what=stage,
            count=len(held),
            first=held[0].time,
            last=held[-1].time,
            failed=sum(not u.ok for u in held),
        )
        for (asked, stage), held in by_stage.items()
    ]


def _model(own: Mapping[str, Any], agent: Any | None) -> str:
    """Name the model that the memory's requests go to: address and name, never a key."""
    given: Any = own.get("OpenAICompatible") or {}
    settings: Any = getattr(agent, "settings", None)
    address, name = (str(_setting(k, given, settings) or "") for k in ("base_url", "model"))
    return named(address, name) or "the model of the application's Agently settings"


def _setting(name: str, given: Any, settings: Any) -> Any:
    if isinstance(given, Mapping) and name in given:
        return cast("Mapping[str, Any]", given)[name]
    return settings.get(f"{REQUESTER}.{name}") if settings is not None else None
