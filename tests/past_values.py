"""Forty values that were corrected, as people say it: twenty English ones, then twenty Chinese."""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Changed:
    """A value, its correction, and what is asked about it at present and of the past."""

    said: str
    fact: str
    reply: str
    corrected: str
    now_fact: str
    confirmed: str
    present: str
    past: str
    old: str
    new: str


_LINES = Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
CHANGED = [Changed(**json.loads(line)) for line in _LINES]
ENGLISH, CHINESE = CHANGED[:20], CHANGED[20:]
