"""Hooks: functions and webhooks of the application, asked at points of the memory's work."""

from agently_gumem.hooks.deliveries import Deliveries, Delivery
from agently_gumem.hooks.events import CHANGES, DROP, POINTS, TURN_POINTS, HookEvent
from agently_gumem.hooks.registry import Hooks
from agently_gumem.hooks.rounds import Hook, OnFailure, Round, Whose
from agently_gumem.hooks.webhooks import verify_signature

__all__ = [
    "CHANGES",
    "DROP",
    "POINTS",
    "TURN_POINTS",
    "Deliveries",
    "Delivery",
    "Hook",
    "HookEvent",
    "Hooks",
    "OnFailure",
    "Round",
    "Whose",
    "verify_signature",
]
