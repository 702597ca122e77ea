"""The LoCoMo data (snap-research/locomo), read as it ships, and brought into a memory.

Each dialogue is a user. The data is CC BY-NC 4.0 and stays where it is: its path is an argument.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from agently_gumem.testing import Request

_EVIDENCE = re.compile(r"D:?\s*(\d+)\s*:\s*(\d+)")  # some are "D8:6; D9:17", "D:11:26" or bare "D"


@dataclass(frozen=True)
class Turn:
    """One thing that was said."""

    key: str
    """Dialogue id of the data, such as D3:14."""
    session: str
    speaker: str
    text: str
    """With the caption of a shared image."""
    at: datetime


@dataclass(frozen=True)
class Question:
    """A question, and the turns that answer it."""

    text: str
    category: int
    """1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial."""
    gold: frozenset[str]


@dataclass(frozen=True)
class Dialogue:
    """One user's turns, the facts that ship with them, and the questions."""

    name: str
    turns: tuple[Turn, ...]
    facts: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Text, speaker, keys of the turns that it cites."""
    questions: tuple[Question, ...]

    def messages(self) -> list[dict[str, Any]]:
        """Return the turns as messages: both people speak for themselves."""
        return [
            {
                "role": "user",
                "session_id": turn.session,
                "speaker": turn.speaker,
                "content": turn.text,
                "timestamp": turn.at,
                "id": f"{self.name}/{turn.key}",
                "metadata": {"key": turn.key},
            }
            for turn in self.turns
        ]

    def answer(self, request: Request) -> dict[str, Any]:
        """Answer a memory request with the shipped facts of the turns in it; Summaries none."""
        if request.memory_stage != "extract":
            return {"summaries": [], "same_topics": []}
        refs: dict[str, str] = {}
        keys = {text: t.key for t in self.turns for text in (t.text, (t.speaker, t.text))}
        for line in request.data["NEW MESSAGES"]:
            who, text = line.get("speaker"), line["text"]
            refs[keys[(who, text) if who else text]] = line["ref"]
        facts = [
            {"content": text, "subject": who, "sources": [refs[k] for k in cited if k in refs]}
            for text, who, cited in self.facts
        ]
        return {"facts": [f for f in facts if f["sources"]], "memo": []}


def read(path: Path) -> list[Dialogue]:
    """Read all dialogues of a file."""
    return [_dialogue(raw) for raw in json.loads(path.read_text(encoding="utf-8"))]


def _dialogue(raw: dict[str, Any]) -> Dialogue:
    turns = tuple(_turns(raw["conversation"]))
    known = {turn.key for turn in turns}
    questions = [
        Question(q["question"], int(q["category"]), _keys(q.get("evidence", []), known))
        for q in raw["qa"]
    ]
    return Dialogue(
        str(raw["sample_id"]), turns, tuple(_facts(raw["observation"], known)), tuple(questions)
    )


def _turns(conversation: dict[str, Any]) -> Iterator[Turn]:
    numbers = sorted(int(k[8:]) for k in conversation if re.fullmatch(r"session_\d+", k))
    for number in numbers:
        name = f"session_{number}"
        at = _when(conversation[f"{name}_date_time"])
        for place, turn in enumerate(conversation[name]):
            caption = turn.get("blip_caption")
            text = turn["text"] + (f" [shares a photo: {caption}]" if caption else "")
            moment = at + timedelta(seconds=10 * place)
            yield Turn(turn["dia_id"], name, turn["speaker"], text.strip(), moment)


def _when(text: str) -> datetime:
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=timezone.utc)


def _keys(evidence: Any, known: set[str]) -> frozenset[str]:
    found = {f"D{int(a)}:{int(b)}" for a, b in _EVIDENCE.findall(str(evidence))}
    return frozenset(found & known)


def _facts(
    observation: dict[str, Any], known: set[str]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for session in observation.values():
        for speaker, said in session.items():
            for text, cited in said:
                yield text, speaker, tuple(sorted(_keys(cited, known)))
