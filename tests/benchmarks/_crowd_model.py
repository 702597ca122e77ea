"""A slow model in a process of its own, whose answers follow rules: `_crowd_model.py SECONDS`.

One loop serves all connections, so that hundreds wait at once and none waits for a thread. Prints
its port; ends when its input does.
"""

import asyncio
import json
import sys
import time
from typing import Any

from agently_gumem.testing import Request, RuleModel

RULES = RuleModel()
QUEUE = 1024


async def _read(reader: asyncio.StreamReader) -> dict[str, Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = head.partition("content-length:")[2].split("\r\n")[0]
    return json.loads(await reader.readexactly(int(length)))


def _chunk(**value: Any) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def _body(request: Request, text: str) -> tuple[str, bytes]:
    """Write an answer as an OpenAI-compatible server does, streamed where that is asked for."""
    shown = {"id": "c", "created": 0, "model": "rules"}
    if not request.body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": text}}
        whole = {**shown, "object": "chat.completion"}
        whole["choices"] = [{**choice, "finish_reason": "stop"}]
        return "application/json", json.dumps(whole).encode()
    shown["object"] = "chat.completion.chunk"
    said = {"index": 0, "delta": {"role": "assistant", "content": text}}
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    parts = (_chunk(**shown, choices=[said]), _chunk(**shown, choices=[end]), b"data: [DONE]\n\n")
    return "text/event-stream", b"".join(parts)


class Slow:
    """Answers each request so many seconds after it came."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one request of one connection."""
        try:
            began = time.monotonic()
            request = Request(await _read(reader))
            kind, body = _body(request, RULES.reply_to(request).whole)
            await asyncio.sleep(max(0.0, self._seconds - (time.monotonic() - began)))
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            return  # the client went away
        finally:
            writer.close()


async def main() -> None:
    """Serve until the input ends."""
    slow = Slow(float(sys.argv[1]))
    server = await asyncio.start_server(slow.serve, "127.0.0.1", 0, backlog=QUEUE)
    async with server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)
    for error in RULES.errors:
        print(f"the rules broke: {type(error).__name__}: {error}", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main())
