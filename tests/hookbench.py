"""Hooks asked on a registry alone, and an HTTP server on loopback for webhooks."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agently_gumem.hooks import Hooks
from agently_gumem.worker import Worker


class Bench:
    """A registry on a worker of its own, with what it told and noted.

    `whose` and `data` are what it is asked about where a test says nothing else.
    """

    def __init__(self, whose, data):
        self.worker = Worker()
        self.whose, self.data = whose, data
        self.told, self.noted = [], []
        self.hooks = Hooks(
            self.worker, lambda kind, payload, warning=False: self.told.append(payload)
        )

    def ask(self, how, data, point, clean=lambda value: value, whose=None):
        """Ask the hooks of a point once."""

        async def work():
            def note(what, error):
                self.noted.append((what, error))

            return await getattr(self.hooks.round(point, note, clean), how)(
                data, whose or self.whose
            )

        return self.worker.run(work)

    def change(self, data=None, point="fact.before_add", **more):
        """Ask for changes of one record."""
        return self.ask("change", data or self.data, point, **more)

    def reasons(self):
        """Why hooks failed, as it was emitted."""
        return [payload["reason"] for payload in self.told]


class Receiver:
    """What a webhook posts to: keeps each request, and answers as the test says, in order."""

    def __init__(self, *answers):
        self.answers = list(answers) or [{}]
        self.requests = []
        self.hold = threading.Event()
        self.hold.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                receiver.serve(self)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self):
        """Where it listens."""
        return f"http://127.0.0.1:{self.server.server_port}/hook"

    def serve(self, handler):
        """Keep one request and answer it."""
        body = handler.rfile.read(int(handler.headers["content-length"]))
        self.requests.append((handler.path, dict(handler.headers.items()), body))
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        answer = answer(json.loads(body)) if callable(answer) else answer
        self.hold.wait(10)
        if answer is None:  # hang up without a word
            handler.close_connection = True
            return
        status, headers, raw = answer if isinstance(answer, tuple) else (200, {}, answer)
        raw = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(raw)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        try:
            handler.wfile.write(raw)
        except OSError:
            handler.close_connection = True

    def close(self):
        """Let go of what waits, and close the port."""
        self.hold.set()
        self.server.shutdown()
        self.server.server_close()
