"""Long-term memory for Agently agents: facts with sources, topics, summaries, a structured memo."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agently_gumem.agent import AgentMemory
    from agently_gumem.config import Limits, RecallConfig
    from agently_gumem.errors import (
        Closed,
        ConfigError,
        EmbedderError,
        EmbedderMismatch,
        GUMemError,
        HookError,
        LimitReached,
        ModelError,
        NotFound,
        StoreError,
        StoreLocked,
    )
    from agently_gumem.flow import Stage, recall_chunk, remember_chunk, stage_chunk
    from agently_gumem.gumem import GUMem
    from agently_gumem.hooks import DROP, HookEvent, Hooks, verify_signature
    from agently_gumem.privacy import PrivacyPolicy, Retention, Treatment
    from agently_gumem.records import (
        Action,
        ContextItem,
        Fact,
        ForgetReport,
        Memo,
        MemoryContext,
        Message,
        Outside,
        StableFact,
        Summary,
        Topic,
    )
    from agently_gumem.records.account import HistoryEntry, ImportReport, UserReport
    from agently_gumem.remember.job import DigestReport
    from agently_gumem.session import MemorySession
    from agently_gumem.text import estimate_tokens
    from agently_gumem.triggers import (
        EveryNTurns,
        Idle,
        Manual,
        SessionEnd,
        StageBoundary,
        Trigger,
        TriggerState,
        WindowExceeds,
    )
    from agently_gumem.user import UserMemory

__version__ = "0.1.0"

__all__ = [
    "DROP",
    "Action",
    "AgentMemory",
    "Closed",
    "ConfigError",
    "ContextItem",
    "DigestReport",
    "EmbedderError",
    "EmbedderMismatch",
    "EveryNTurns",
    "Fact",
    "ForgetReport",
    "GUMem",
    "GUMemError",
    "HistoryEntry",
    "HookError",
    "HookEvent",
    "Hooks",
    "Idle",
    "ImportReport",
    "LimitReached",
    "Limits",
    "Manual",
    "Memo",
    "MemoryContext",
    "MemorySession",
    "Message",
    "ModelError",
    "NotFound",
    "Outside",
    "PrivacyPolicy",
    "RecallConfig",
    "Retention",
    "SessionEnd",
    "StableFact",
    "Stage",
    "StageBoundary",
    "StoreError",
    "StoreLocked",
    "Summary",
    "Topic",
    "Treatment",
    "Trigger",
    "TriggerState",
    "UserMemory",
    "UserReport",
    "WindowExceeds",
    "__version__",
    "estimate_tokens",
    "recall_chunk",
    "remember_chunk",
    "stage_chunk",
    "verify_signature",
]

# Where each name lives, loaded when it is first asked for: numpy and the records take 0.3 s of CPU,
# and an application that only names this package, or is switched off, need not pay for them.
_HOMES = {
    "agent": "AgentMemory",
    "config": "Limits RecallConfig",
    "errors": (
        "Closed ConfigError EmbedderError EmbedderMismatch GUMemError HookError LimitReached "
        "ModelError NotFound StoreError StoreLocked"
    ),
    "flow": "Stage recall_chunk remember_chunk stage_chunk",
    "gumem": "GUMem",
    "hooks": "DROP HookEvent Hooks verify_signature",
    "privacy": "PrivacyPolicy Retention Treatment",
    "records": (
        "Action ContextItem Fact ForgetReport Memo MemoryContext Message Outside StableFact "
        "Summary Topic"
    ),
    "records.account": "HistoryEntry ImportReport UserReport",
    "remember.job": "DigestReport",
    "session": "MemorySession",
    "text": "estimate_tokens",
    "triggers": (
        "EveryNTurns Idle Manual SessionEnd StageBoundary Trigger TriggerState WindowExceeds"
    ),
    "user": "UserMemory",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
