"""What happens, told to Agently's event center: kinds, counts and reasons, never a user's text."""

import logging
from typing import Any

_log = logging.getLogger("agently_gumem")


async def emit(kind: str, payload: dict[str, Any], *, warning: bool = False) -> None:
    """Emit one event as `gumem.<kind>`.

    Agently's own `error` level raises what it emits, so a failure is a warning here. An event that
    can't be delivered is logged and changes nothing.
    """
    try:
        from agently import Agently  # the host is loaded when it is used

        emitter = Agently.event_center.create_emitter("GUMem")
        await emitter.async_emit(
            f"gumem.{kind}",
            level="WARNING" if warning else "DEBUG",
            message=kind,
            payload=payload,
        )
    except Exception as error:  # noqa: BLE001  # hooks of the application run in there
        _log.warning("event gumem.%s was not delivered: %s", kind, type(error).__name__)
