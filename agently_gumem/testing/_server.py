"""The HTTP side: a chat server on loopback that survives what clients do to it."""

import json
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, cast

from agently_gumem.testing._reply import Reply
from agently_gumem.testing._request import Request
from agently_gumem.text import estimate_tokens

MODEL = "scripted"


class App(Protocol):
    """What answers behind the server."""

    def take(self, body: dict[str, Any], headers: Mapping[str, str]) -> Request:
        """Record a request."""
        ...

    def reply_to(self, request: Request) -> Reply:
        """Decide on the answer."""
        ...

    def pause(self, request: Request, reply: Reply) -> bool:
        """Wait as the reply says; False where the server stopped meanwhile."""
        ...

    def done(self, request: Request) -> None:
        """Note that the answer was sent, or could not be."""
        ...


class Server(ThreadingHTTPServer):
    """A server on a free port of 127.0.0.1, a daemon thread a connection."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, app: App) -> None:
        self.app = app
        self._idle = threading.Condition()
        self._open: set[Any] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        """Bind without the reverse look-up of the host's name, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Count the connection, then serve it on its own thread."""
        with self._idle:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close the connection and count it out."""
        super().shutdown_request(request)
        with self._idle:
            self._open.discard(request)
            self._idle.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay quiet about a client that went away; anything else is a bug and is shown."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def wait_idle(self, timeout: float) -> None:
        """Wait until no connection is served, at most `timeout` seconds."""
        with self._idle:
            self._idle.wait_for(lambda: not self._open, timeout)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, format: str, *args: Any) -> None:  # the base's name
        """Print nothing."""

    def handle(self) -> None:
        """Serve one request; a client that drops the connection is none of our errors."""
        with suppress(OSError):
            self.handle_one_request()

    def finish(self) -> None:
        """Flush what is left, to whoever is still there."""
        with suppress(OSError):
            super().finish()

    def do_GET(self) -> None:
        """Answer the list of models."""
        if self.path.rstrip("/").endswith("/models"):
            self._json(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]}, {})
        else:
            self._json(404, _error(f"no such path: {self.path}", 404), {})

    def do_POST(self) -> None:
        """Answer a chat request."""
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if not self.path.rstrip("/").endswith("/chat/completions"):
            self._json(404, _error(f"no such path: {self.path}", 404), {})
            return
        try:
            body = json.loads(raw)
        except ValueError:
            self._json(400, _error("the body is no JSON", 400), {})
            return
        app = cast("Server", self.server).app
        request = app.take(cast("dict[str, Any]", body), dict(self.headers.items()))
        try:
            self._send(request, app.reply_to(request), app.pause)
        finally:
            app.done(request)

    def _send(
        self, request: Request, reply: Reply, pause: Callable[[Request, Reply], bool]
    ) -> None:
        streamed = bool(request.body.get("stream")) and reply.status == 200 and not reply.drop
        if streamed:
            self._stream(request, reply, pause)
            return
        if not pause(request, reply) or reply.drop:
            return
        if reply.status != 200:
            error = _error(reply.whole or f"scripted status {reply.status}", reply.status)
            self._json(reply.status, error, reply.headers)
            return
        message = {"role": "assistant", "content": reply.whole}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = _envelope(request, "chat.completion", [choice], _usage(request, reply))
        self._json(200, whole, reply.headers, cut=reply.cut)

    def _json(
        self, status: int, body: Mapping[str, Any], headers: Mapping[str, str], cut: bool = False
    ) -> None:
        raw = json.dumps(body, ensure_ascii=False).encode()
        self._head(status, "application/json", {"Content-Length": str(len(raw)), **headers})
        self.wfile.write(raw[: len(raw) // 2] if cut else raw)

    def _head(self, status: int, kind: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Connection": "close", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(
        self, request: Request, reply: Reply, pause: Callable[[Request, Reply], bool]
    ) -> None:
        pieces = reply.pieces
        stall = min(reply.wait_after, len(pieces))
        if stall == 0 and not pause(request, reply):
            return
        self._head(200, "text/event-stream", {"Transfer-Encoding": "chunked", **reply.headers})
        for place, piece in enumerate(pieces):
            if place and place == stall and not pause(request, reply):
                return
            choice = {"index": 0, "delta": {"role": "assistant", "content": piece}}
            self._event(_envelope(request, "chat.completion.chunk", [choice]))
        if stall and stall == len(pieces) and not pause(request, reply):
            return
        if reply.cut:
            return
        end: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": "stop"}
        self._event(_envelope(request, "chat.completion.chunk", [end], _usage(request, reply)))
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, value: Mapping[str, Any]) -> None:
        self._chunk(f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode())

    def _chunk(self, raw: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self.wfile.flush()


def _error(message: str, status: int) -> dict[str, Any]:
    return {"error": {"message": message, "type": "scripted_error", "code": status}}


def _usage(request: Request, reply: Reply) -> dict[str, int]:
    asked = sum(estimate_tokens(str(m.get("content", ""))) for m in request.messages)
    answered = estimate_tokens(reply.whole)
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
    }


def _envelope(
    request: Request, kind: str, choices: list[dict[str, Any]], usage: dict[str, int] | None = None
) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": f"chatcmpl-{request.index}",
        "object": kind,
        "created": int(time.time()),
        "model": str(request.body.get("model", MODEL)),
        "choices": choices,
    }
    return {**shown, "usage": usage} if usage else shown
