"""Long-term memory for Agently agents: facts with sources, topics, summaries, a structured memo."""

from agently_gumem.agent import AgentMemory
from agently_gumem.config import Limits, RecallConfig
from agently_gumem.errors import (
    Closed,
    ConfigError,
    EmbedderError,
    EmbedderMismatch,
    GUMemError,
    ModelError,
    NotFound,
    StoreError,
)
from agently_gumem.gumem import GUMem
from agently_gumem.records import (
    Action,
    ContextItem,
    Fact,
    Memo,
    MemoryContext,
    Message,
    StableFact,
    Summary,
    Topic,
)
from agently_gumem.remember.digest import DigestReport
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
    "GUMem",
    "GUMemError",
    "Idle",
    "Limits",
    "Manual",
    "Memo",
    "MemoryContext",
    "MemorySession",
    "Message",
    "ModelError",
    "NotFound",
    "RecallConfig",
    "SessionEnd",
    "StableFact",
    "StageBoundary",
    "StoreError",
    "Summary",
    "Topic",
    "Trigger",
    "TriggerState",
    "UserMemory",
    "WindowExceeds",
    "__version__",
    "estimate_tokens",
]
