"""Stages of an Agently TriggerFlow: what a chunk does is remembered, and digested, on its own.

What is of one user (memory, run, visits) is looked up in the execution's `data` when a chunk runs:
the handlers of a flow are shared by all its executions. What goes wrong here never ends a flow: it
is logged, and counted in `status()` where there is a memory to count it.
"""

from agently_gumem.flow._chunks import recall_chunk, remember_chunk, stage_chunk
from agently_gumem.flow._stage import Stage

__all__ = ["Stage", "recall_chunk", "remember_chunk", "stage_chunk"]
