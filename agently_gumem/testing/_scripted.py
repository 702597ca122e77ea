"""A model that says what the test says."""

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal, TypeVar

from agently_gumem.testing._reply import Reply, as_reply
from agently_gumem.testing._request import Request
from agently_gumem.testing._server import MODEL, Server

Answer = Callable[[Request], "str | dict[str, Any] | Reply"] | str | dict[str, Any] | Reply
View = Literal["all", "chat", "memory"]
M = TypeVar("M", bound="ScriptedModel")

_TICK = 0.02
_EMPTY: dict[str, dict[str, Any]] = {
    "extract": {"facts": [], "memo": []},
    "summarize": {"summaries": [], "same_topics": []},
    "memo": {"memo": []},
}


def nothing(request: Request) -> dict[str, Any]:
    """Answer a memory request with the valid answer that holds nothing."""
    return _EMPTY[request.memory_stage or "extract"]


class ScriptedModel:
    """An OpenAI-compatible chat server on loopback whose answers are yours.

    Args:
        answer: The answer to the chat requests: a text, a dict (sent as JSON), a `Reply`, or a
            function of the `Request` that returns one of these. None answers "ok".
        memory: The same for the memory's own requests; None finds nothing worth keeping.

    An exception in one of the functions is answered with status 500, kept in `errors`, and raised
    again when the `with` block ends, so that an assertion in there fails the test.

    Example:
        ```python
        with ScriptedModel("hello") as model:
            agent.set_settings("OpenAICompatible", model.settings)
            agent.input("hi").start()
            assert model.requests[0].question == "hi"
        ```
    """

    def __init__(self, answer: Answer | None = None, *, memory: Answer | None = None) -> None:
        self.answer: Answer = "ok" if answer is None else answer
        self.memory: Answer = nothing if memory is None else memory
        self.errors: list[Exception] = []
        self._requests: list[Request] = []
        self._changed = threading.Condition()
        self._gates: dict[str, threading.Event] = {}
        self._stopped = threading.Event()
        self._server: Server | None = None
        self.release()

    def __enter__(self: M) -> M:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if error is None and self.errors:
            raise self.errors[0]

    def start(self: M) -> M:
        """Open the port; on a running server it does nothing."""
        if self._server is None:
            self._stopped.clear()
            self._server = Server(self)
            threading.Thread(
                target=self._server.serve_forever,
                kwargs={"poll_interval": _TICK},
                name="scripted-model",
                daemon=True,
            ).start()
        return self

    def stop(self) -> None:
        """Let go of everything that waits, and close the port."""
        server, self._server = self._server, None
        self._stopped.set()
        if server is not None:
            server.shutdown()
            server.server_close()
            server.wait_idle(2.0)

    @property
    def url(self) -> str:
        """The base URL, with `/v1`.

        Raises:
            RuntimeError: The server is not running.
        """
        if self._server is None:
            raise RuntimeError(f"{type(self).__name__} is not running: use `with` or call start()")
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def settings(self) -> dict[str, Any]:
        """What `agent.set_settings("OpenAICompatible", ...)` takes."""
        return {"base_url": self.url, "model": MODEL, "model_type": "chat", "api_key": "none"}

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in the order of arrival."""
        with self._changed:
            return list(self._requests)

    @property
    def chat_requests(self) -> list[Request]:
        """The requests of the agent itself."""
        return [r for r in self.requests if r.memory_stage is None]

    @property
    def memory_requests(self) -> list[Request]:
        """The memory's own requests."""
        return [r for r in self.requests if r.memory_stage is not None]

    def hold(self, which: View = "all") -> None:
        """Hold answers back, all or those of one kind, until `release`; requests still arrive."""
        for name in ("chat", "memory") if which == "all" else (which,):
            self._gates[name] = threading.Event()

    def release(self, which: View = "all") -> None:
        """Send what was held, and hold no more."""
        for name in ("chat", "memory") if which == "all" else (which,):
            self._gates.setdefault(name, threading.Event()).set()

    def wait_for(self, count: int, which: View = "all", *, timeout: float = 10.0) -> list[Request]:
        """Wait until so many requests have arrived, instead of sleeping.

        Raises:
            TimeoutError: They did not arrive within `timeout` seconds.
        """
        views = {"all": "requests", "chat": "chat_requests", "memory": "memory_requests"}
        with self._changed:
            if self._changed.wait_for(lambda: len(getattr(self, views[which])) >= count, timeout):
                return list(getattr(self, views[which]))
            seen = len(getattr(self, views[which]))
        raise TimeoutError(f"{seen} of {count} requests ({which}) arrived within {timeout} s")

    def take(self, body: dict[str, Any], headers: Mapping[str, str]) -> Request:
        """Record a request (called by the server)."""
        with self._changed:
            request = Request(body, len(self._requests), headers, started=time.monotonic())
            self._requests.append(request)
            self._changed.notify_all()
        return request

    def reply_to(self, request: Request) -> Reply:
        """Decide on the answer (called by the server)."""
        chosen = self.answer if request.memory_stage is None else self.memory
        try:
            return as_reply(chosen(request) if callable(chosen) else chosen)
        except Exception as error:  # noqa: BLE001  # the user's function; raised again at the end
            self.errors.append(error)
            return Reply(f"{type(error).__name__}: {error}", status=500)

    def pause(self, request: Request, reply: Reply) -> bool:
        """Wait for the gate, the delay and the event (called by the server)."""
        gate = self._gates["chat" if request.memory_stage is None else "memory"]
        for event in (gate, reply.wait):
            while event is not None and not event.wait(_TICK):
                if self._stopped.is_set():
                    return False
        return not self._stopped.wait(reply.delay) if reply.delay else not self._stopped.is_set()

    def done(self, request: Request) -> None:
        """Note the end of an answer (called by the server)."""
        request.ended = time.monotonic()
