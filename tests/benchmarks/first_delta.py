"""How much later the first delta of a streamed answer comes with memory than without.

`python tests/benchmarks/first_delta.py` asks an agent with memory and one without in turn, each a
new question, streamed over HTTP from a scripted model on loopback, and prints the medians of the
time from the call to the first delta, in wall and CPU milliseconds of the process (the server
included, which is the same for both). `--records` are messages of the user that are stored already.
"""

import tempfile
import time
from argparse import Namespace
from importlib.metadata import version
from typing import Any

from _report import arguments, median, percentile, publish
from agently import Agently

from agently_gumem import GUMem, Manual
from agently_gumem.testing import ScriptedModel

THINGS = ("dog", "car", "tea", "desk", "city", "shoe", "song", "bike", "lamp", "book")
KINDS = ("blue", "old", "small", "loud", "warm", "round", "cheap", "heavy", "new", "plain")
# Turns of one session, so that requests carry a history, but a short one on both sides.
TURNS = 5


def _options() -> Namespace:
    parser = arguments(__doc__ or "")
    parser.add_argument("--records", type=int, nargs="+", default=[0, 500])
    parser.add_argument("--questions", type=int, default=50, help="of each agent")
    parser.add_argument("--warm", type=int, default=5, help="questions before, not counted")
    return parser.parse_args()


def remember(gumem: GUMem, records: int) -> None:
    """Store so many messages of the user."""
    said = [
        f"Number {n}: my {KINDS[n % 10]} {THINGS[n // 10 % 10]} is from shop {n}."
        for n in range(records)
    ]
    if said:
        gumem.user("alice").add_messages([{"content": text} for text in said], "before")


def first_delta(agent: Any, question: str) -> tuple[float, float]:
    """Return the wall and CPU milliseconds until the first delta; read the rest of the stream."""
    wall, cpu = time.perf_counter(), time.process_time()
    stream = agent.input(question).get_generator(type="delta")
    next(stream)
    told = (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000
    for _ in stream:
        pass
    return told


def ask_in_turn(agents: dict[str, Any], options: Namespace) -> dict[str, list[tuple[float, float]]]:
    """Ask all agents each question before the next one."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in agents}
    for n in range(options.warm + options.questions):
        question = f"Where is my {KINDS[n % 10]} {THINGS[n // 7 % 10]} from, asked {n} times?"
        for name in sorted(agents, reverse=bool(n % 2)):
            if n % TURNS == 0:
                agents[name].activate_session(session_id=f"s{n}")
            figures = first_delta(agents[name], question)
            if n >= options.warm:
                taken[name].append(figures)
    return taken


def agent_of(model: ScriptedModel) -> Any:
    """Create an agent of the scripted model, which records its questions as asked."""
    agent = Agently.create_agent()
    agent.set_settings("OpenAICompatible", model.settings)
    agent.set_settings("session.input_keys", ["input"])
    return agent


def measure(records: int, options: Namespace) -> list[dict[str, Any]]:
    """Measure with so many records of the user; one row each way, and the difference."""
    with (
        ScriptedModel("It is from a shop, I think.") as model,
        tempfile.TemporaryDirectory() as folder,
        GUMem(folder) as gumem,
    ):
        remember(gumem, records)
        agents = {"without": agent_of(model), "with": agent_of(model)}
        memory = gumem.attach(agents["with"], user_id="alice", when=Manual())
        taken = ask_in_turn(agents, options)
        errors = memory.status()["errors"]
    rows: list[dict[str, Any]] = []
    for name in ("without", "with"):
        wall, cpu = ([t[i] for t in taken[name]] for i in (0, 1))
        rows.append(
            {
                "Agently": version("agently"),
                "records": records,
                "memory": name,
                "wall ms": median(wall),
                "wall p90": percentile(wall, 0.9),
                "CPU ms": median(cpu),
            }
        )
    gap = {key: rows[1][key] - rows[0][key] for key in ("wall ms", "wall p90", "CPU ms")}
    rows.append({**rows[0], "memory": "difference", **gap})
    if errors:
        raise SystemExit(f"the memory failed: {errors}")
    return rows


def main() -> None:
    """Measure each number of records, and print the table."""
    options = _options()
    rows = [row for records in options.records for row in measure(records, options)]
    publish("first_delta", {"Time to the first delta, medians": rows}, options.json)


if __name__ == "__main__":
    main()
