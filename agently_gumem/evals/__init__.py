"""How well a model remembers: labelled dialogues, run through the public interface.

`python -m agently_gumem.evals` runs them on any OpenAI-compatible model, or without one on
`RuleModel`. The labels never reach the model.
"""

from agently_gumem.evals._dialogues import Dialogue, Label, Said, load
from agently_gumem.evals._run import Result, evaluate
from agently_gumem.evals._score import Score, Scores, judge
from agently_gumem.evals._table import as_json, table

__all__ = [
    "Dialogue",
    "Label",
    "Result",
    "Said",
    "Score",
    "Scores",
    "as_json",
    "evaluate",
    "judge",
    "load",
    "table",
]
