"""Another process with a memory on the same server, as a second worker of an application is one.

The children are forked from a server that has everything loaded: a process costs milliseconds.
"""

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from multiprocessing import forkserver
from typing import Any

import chromadb
from agently import Agently

from agently_gumem import EveryNTurns, GUMem
from agently_gumem.embedder import Embedder
from agently_gumem.store import ScopedStore

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["peer_preload"])


_starting = threading.Lock()


def forking() -> None:
    """Start the server that forks, with the path of this process: it does not take that over."""
    with _starting:
        _started()


@functools.cache
def _started() -> None:
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    try:
        forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def _tell(gumem: GUMem, user: str, texts: list[str], session_id: str = "s") -> int:
    """Store what a user said."""
    told = [{"role": "user", "content": text} for text in texts]
    return len(gumem.user(user).add_messages(told, session_id=session_id))


def _digest(gumem: GUMem, user: str) -> dict[str, Any]:
    report = gumem.user(user).digest()
    return {"messages": report.messages, "new": report.new, "error": report.error}


def _facts(gumem: GUMem, user: str) -> list[str]:
    return sorted(f.content for f in gumem.user(user).facts() if f.validity == "active")


def _messages(gumem: GUMem, user: str) -> list[str]:
    return [m.content for m in gumem.user(user).messages()]


def _forget(gumem: GUMem, user: str, word: str) -> list[str]:
    """Forget the Facts that say a word, and so the sentences that say them."""
    ids = [f.id for f in gumem.user(user).facts() if word in f.content]
    return gumem.user(user).forget(fact_ids=ids).cut


def _correct(gumem: GUMem, user: str, old: str, new: str) -> str:
    (fact,) = [f for f in gumem.user(user).facts() if f.content == old]
    return gumem.user(user).correct(fact.id, new).content


def _query(gumem: GUMem, user: str, text: str) -> str:
    return gumem.user(user).query(text).formatted_context


def _status(gumem: GUMem, user: str) -> dict[str, Any]:
    return {**gumem.user(user).status(), "store": gumem.status()["store"]}


def _export(gumem: GUMem, user: str) -> str:
    return gumem.user(user).export()


def _turn(gumem: GUMem, user: str, settings: dict[str, Any], history: list[Any], text: str) -> str:
    """Answer one request as a stateless server does: a new agent, the end of its history restored.

    Its session is not ended: another request, perhaps in another process, goes on with it.
    """
    agent = Agently.create_agent()
    agent.set_settings("OpenAICompatible", settings)
    memory = gumem.attach(agent, user_id=user, when=EveryNTurns(5))
    agent.activate_session(session_id="chat")
    agent.activated_session.set_chat_history(history)
    answer = agent.input(text).start()
    memory.detach()
    return str(answer)


class _Spent:
    """CPU seconds of this process by part, in whatever thread they were spent."""

    def __init__(self) -> None:
        self.parts: Counter[str] = Counter()

    @contextlib.contextmanager
    def measured(self, owner: Any, name: str, part: str) -> Iterator[None]:
        """Count what a function takes while the block runs."""
        inner = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            began = time.thread_time()
            try:
                result = inner(*args, **kwargs)
            finally:
                self.parts[part] += time.thread_time() - began
                self.parts[f"calls of {part}"] += 1
            self.parts["rows"] += len(result) if name == "_read" else 0
            return result

        setattr(owner, name, counted)
        try:
            yield
        finally:
            setattr(owner, name, inner)


def _measure(gumem: GUMem, user: str, text: str) -> dict[str, Any]:
    """Recall, and say where the CPU went: milliseconds for embedding, store and the rest."""
    spent = _Spent()
    with (
        spent.measured(ScopedStore, "look", "store"),
        spent.measured(ScopedStore, "_read", "store"),
        spent.measured(Embedder, "embed", "embedding"),
    ):
        began = time.process_time()
        context = gumem.user(user).query(text).formatted_context
        whole = time.process_time() - began
    parts = {name: 1_000 * spent.parts[name] for name in ("store", "embedding")}
    rest = 1_000 * whole - sum(parts.values())
    counts = {"calls": spent.parts["calls of store"], "rows": spent.parts["rows"]}
    return {"text": context, "rest": rest, **counts, **parts}


def _reload(gumem: GUMem, user: str) -> None:
    """Forget what was read of a user, so that the next query reads all."""
    for scope in gumem._engine.loaded():
        if scope.user_id == user:
            scope._revision = None


_behind: dict[str, Future[Any]] = {}


def _start(gumem: GUMem, name: str, *args: Any) -> None:
    """Begin something that takes its time; the peer goes on answering meanwhile."""
    future = _behind[name] = Future()

    def run() -> None:
        try:
            future.set_result(_COMMANDS[name](gumem, *args))
        except Exception as error:  # noqa: BLE001  # whoever joins takes it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()


def _join(gumem: GUMem, name: str) -> Any:
    return _behind.pop(name).result(60)


_COMMANDS: dict[str, Callable[..., Any]] = {
    "tell": _tell,
    "digest": _digest,
    "facts": _facts,
    "messages": _messages,
    "forget": _forget,
    "correct": _correct,
    "query": _query,
    "status": _status,
    "export": _export,
    "turn": _turn,
    "measure": _measure,
    "reload": _reload,
    "start": _start,
    "join": _join,
}


def _serve(pipe: Any, port: int, options: dict[str, Any]) -> None:
    with GUMem(client=chromadb.HttpClient(host="127.0.0.1", port=port), **options) as gumem:
        pipe.send((None, "ready"))
        while (asked := pipe.recv()) is not None:
            name, args = asked
            try:
                pipe.send((None, _COMMANDS[name](gumem, *args)))
            except Exception as error:  # noqa: BLE001  # told to the test, which raises it
                pipe.send((f"{type(error).__name__}: {error}", None))


class Peer:
    """A process with a GUMem on a Chroma server; it does what it is asked, one thing at a time."""

    def __init__(self, port: int, **options: Any) -> None:
        forking()
        self._pipe, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=_serve, args=(theirs, port, options), daemon=True)
        self._process.start()
        theirs.close()
        assert self.result() == "ready"

    @property
    def pid(self) -> int:
        """Its number."""
        return int(self._process.pid or 0)

    def wait_until(self, user: str, within: float = 20.0, **status: Any) -> None:
        """Ask for the status of a user until it says so."""
        until = time.monotonic() + within
        while (told := self.ask("status", user)) | status != told:
            assert time.monotonic() < until, f"{told} is not {status}"

    def begin(self, name: str, *args: Any) -> None:
        """Ask for something without waiting for it."""
        self._pipe.send((name, args))

    def result(self, within: float = 60.0) -> Any:
        """Wait for what was asked."""
        assert self._pipe.poll(within), f"no answer of process {self.pid} in {within} s"
        failed, answer = self._pipe.recv()
        if failed:
            raise RuntimeError(failed)
        return answer

    def ask(self, name: str, *args: Any) -> Any:
        """Ask for something, and wait for it."""
        self.begin(name, *args)
        return self.result()

    def freeze(self) -> None:
        """Stop it in the middle of whatever it does, as a machine that is suspended."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.join(10)

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.is_alive():
            self.thaw()
            with contextlib.suppress(OSError):
                self._pipe.send(None)
            self._process.join(20)
            self.kill()
        self._pipe.close()
