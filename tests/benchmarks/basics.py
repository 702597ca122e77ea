"""What the everyday calls cost, in CPU time of the whole process.

`python tests/benchmarks/basics.py` prints a table. The chat turns run on a scripted model over
loopback HTTP; the same agent without memory is measured in the same run, since the server is part
of the process.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from agently import Agently

from agently_gumem import EveryNTurns, GUMem, Manual
from agently_gumem.testing import RuleModel, ScriptedModel

RECORDS = 700


def cpu(call: Callable[[], Any]) -> float:
    """Return the CPU milliseconds of one call, all threads of the process."""
    began = time.process_time()
    call()
    return (time.process_time() - began) * 1000


def median(call: Callable[[int], Any], times: int) -> float:
    """Return the median CPU milliseconds of distinct calls."""
    return statistics.median(cpu(lambda i=i: call(i)) for i in range(times))


def import_ms() -> float:
    """Return the CPU milliseconds of `import agently_gumem`, above an interpreter with pydantic."""
    code = (
        "import time, numpy, pydantic, jinja2; t = time.process_time(); import agently_gumem;"
        "print((time.process_time() - t) * 1000)"
    )
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(5)
    ]
    return statistics.median(runs)


def turns(memory: bool, path: str) -> float:
    """Return the median CPU milliseconds of a chat turn."""
    with ScriptedModel("fine") as model, GUMem(path) as gumem:
        agent = Agently.create_agent()
        agent.set_settings("OpenAICompatible", model.settings)
        agent.set_settings("session.input_keys", ["input"])
        if memory:
            gumem.attach(agent, user_id="turns", when=Manual())
        agent.activate_session(session_id="one")
        for i in range(3):
            agent.input(f"warm up {i}").start()
        return median(lambda i: agent.input(f"question number {i} of many").start(), 20)


def main() -> None:
    """Measure, and print the table."""
    rows: list[tuple[str, float]] = [("import, beside numpy, pydantic, jinja2", import_ms())]
    with tempfile.TemporaryDirectory() as folder:
        rows.append(("a chat turn without memory", turns(False, f"{folder}/a")))
        rows.append(("a chat turn with memory", turns(True, f"{folder}/b")))
        with GUMem(f"{folder}/c") as gumem:
            user = gumem.user("alice")
            texts = [
                f"In week {i} I walked {i} km with friend{i} near lake {i}." for i in range(RECORDS)
            ]
            user.add_messages([{"content": t} for t in texts])
            call = median(lambda i: user.query(f"How far did I walk with friend{i}?"), 30)
            rows.append((f"one recall, {RECORDS} records, embedding included", call))
            journal = median(
                lambda i: user.add_messages([{"content": f"New walk of {i} miles."}]), 30
            )
            rows.append(("one message stored", journal))
        with GUMem(f"{folder}/c") as gumem:
            user = gumem.user("alice")
            gumem.user("nobody").query("warm the embedder and the store")
            rows.append(
                (
                    f"cold load of {RECORDS} records, with one recall",
                    cpu(lambda: user.query("walk")),
                )
            )
        with RuleModel() as model, GUMem(f"{folder}/d") as gumem:
            agent = Agently.create_agent()
            agent.set_settings("OpenAICompatible", model.settings)
            memory = gumem.attach(agent, user_id="d", when=EveryNTurns(1), wait=30)
            agent.activate_session(session_id="one")
            call = median(lambda i: agent.input(f"I like tea number {i}.").start(), 10)
            rows.append(("a chat turn with its digest (rule model)", call))
            memory.flush()
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value:8.1f} ms CPU")


if __name__ == "__main__":
    main()
