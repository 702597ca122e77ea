"""Who received what of a user's memory: models, webhooks, exports."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from agently_gumem.model import Use
from agently_gumem.records.account import Recipient
from agently_gumem.scope import Scope

EXPORT = "export"
_REQUESTER = "plugins.ModelRequester.OpenAICompatible"


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
    address = _setting("base_url", given, settings)
    name = _setting("model", given, settings)
    told = [_without_credentials(str(address)) if address else "", str(name or "")]
    return " ".join(filter(None, told)) or "the model of the application's Agently settings"


def _setting(name: str, given: Any, settings: Any) -> Any:
    if isinstance(given, Mapping) and name in given:
        return cast("Mapping[str, Any]", given)[name]
    return settings.get(f"{_REQUESTER}.{name}") if settings is not None else None


def _without_credentials(url: str) -> str:
    """Leave out of an address what may stand for a password in it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
