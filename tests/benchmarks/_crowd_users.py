"""The users of the crowd, in a process of their own: reads its sizes as JSON, prints figures.

`_crowd_users.py '{"users": 20, "turns": 20, "url": ..., "path": ..., "memory": true}'`
"""

import asyncio
import json
import logging
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agently import Agently

from agently_gumem import GUMem

# The same words of every user, but for the value: whoever mixes users up answers with another's.
VALUE = "My parking bay is number {}."
QUESTION = "Which parking bay is mine?"
SMALL_TALK = (
    "I like oolong tea in the morning.",
    "The weather in Oslo was grey again.",
    "I am reading a novel about lighthouses.",
    "My sister visits next month.",
    "I cycle to the office.",
    "The printer on our floor is broken.",
    "I prefer window seats on trains.",
    "We painted the kitchen green.",
)
# The value is told early, so that it has left the window long before the question.
TOLD_AT = 2


@dataclass
class Crowd:
    """What all users share, and what is measured."""

    turns: int
    settings: Mapping[str, Any]
    gumem: GUMem | None
    seconds: list[float] = field(default_factory=list[float])
    right: int = 0
    wrong: list[str] = field(default_factory=list[str])
    agents: list[Any] = field(default_factory=list[Any])

    async def talk(self, number: int) -> None:
        """Talk as one user: small talk, the value, more of it, the question."""
        agent = Agently.create_agent()
        self.agents.append(agent)
        agent.set_settings("OpenAICompatible", dict(self.settings))
        # Else Agently records the whole prompt as what the user said, and each turn doubles.
        agent.set_settings("session.input_keys", ["input"])
        if self.gumem is not None:
            self.gumem.attach(agent, user_id=f"user-{number}")
        agent.activate_session(session_id=f"session-{number}")
        value = str(1000 + number)
        for turn in range(self.turns):
            said = SMALL_TALK[turn % len(SMALL_TALK)]
            if turn == TOLD_AT:
                said = VALUE.format(value)
            if turn == self.turns - 1:
                said = QUESTION
            began = time.perf_counter()
            answer = await agent.input(said).async_start()
            self.seconds.append(time.perf_counter() - began)
        if _numbers(answer) == {value}:
            self.right += 1
        else:
            self.wrong.append(f"{value}: {answer}")


def _numbers(text: str) -> set[str]:
    """Name the values that an answer holds."""
    return {w.strip(".,;:") for w in text.split() if w.strip(".,;:").isdigit() and len(w) > 3}


def _opened(asked: Mapping[str, Any]) -> GUMem | None:
    if not asked["memory"]:
        return None
    return GUMem(path=asked["path"], limits=asked["limits"])


def _stored(gumem: GUMem | None, users: int) -> dict[str, Any]:
    """Count what is in the store and what it cost, once all digests have ended."""
    if gumem is None:
        return {}
    flushed = gumem.flush(600)
    each = [len(gumem.user(f"user-{n}").messages()) for n in range(users)]
    used, status = gumem.usage(), gumem.status()
    return {
        "flushed": flushed,
        "rows": sum(each),
        "fewest_rows": min(each),
        "most_rows": max(each),
        "requests": used["requests"],
        "failed": used["failed"],
        "digests": used["stages"].get("extract", {}).get("requests", 0),
        "errors": status["errors"],
        "index_mb": status["index_bytes"] / 2**20,
    }


def main() -> None:
    """Run it, and print what was measured as one line of JSON."""
    asked = json.loads(sys.argv[1])
    logging.disable(logging.CRITICAL)  # Agently tells each request on the screen
    settings = {
        "base_url": asked["url"],
        "model": "rules",
        "model_type": "chat",
        "api_key": "none",
        # The model is on plain HTTP. Else each request reads all certificates again: 17 ms of CPU
        # and 0.8 MB while it is under way, of Agently's own and of ours alike.
        "client_options": {"verify": False},
    }
    gumem = _opened(asked)
    crowd = Crowd(asked["turns"], settings, gumem)

    async def all_of_them() -> None:
        await asyncio.gather(*(crowd.talk(n) for n in range(asked["users"])))

    began, cpu = time.perf_counter(), time.process_time()
    asyncio.run(all_of_them())
    talked = time.perf_counter() - began
    told = _stored(gumem, asked["users"])
    turns = asked["users"] * asked["turns"]
    figures = {
        **told,
        "right": crowd.right,
        "wrong": crowd.wrong[:5],
        "talk_seconds": talked,
        "seconds": time.perf_counter() - began,
        "cpu_ms_a_turn": (time.process_time() - cpu) * 1000 / turns,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "turns": crowd.seconds,
    }
    print(json.dumps(figures), flush=True)
    if gumem is not None:
        gumem.close()


if __name__ == "__main__":
    main()
