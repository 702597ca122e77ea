"""Make the bytes of deleted rows go from the files of an embedded Chroma.

Deleting a row leaves its text in the queue, in free pages and in the full-text index, and its
vector in the index file. The queue is emptied through Chroma; the files are cleaned by a process
of their own (`python -m agently_gumem.erase PATH`): SQLite's locks belong to a process, and a
second SQLite in Chroma's own would break them.
"""

from agently_gumem.erase.eraser import KEEPER, Eraser
from agently_gumem.erase.gate import Gate
from agently_gumem.erase.report import Erased

__all__ = ["KEEPER", "Erased", "Eraser", "Gate"]
