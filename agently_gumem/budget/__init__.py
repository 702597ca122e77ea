"""When the memory may ask the model: `decide` is pure, `gate` waits, `own` lets turns go first."""

from agently_gumem.budget.gate import Budget, Key, Permit

__all__ = ["Budget", "Key", "Permit"]
