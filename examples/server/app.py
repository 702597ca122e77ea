"""A chat server that keeps nothing between requests: an agent a request, in any of its workers.

`run.py` starts it. The memory is on a Chroma server, so that it does not matter which worker gets
the next request; the last messages of a conversation are restored from it as well.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import chromadb
from agently import Agently
from fastapi import Cookie, Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from pydantic import BaseModel, Field

from agently_gumem import EveryNTurns, GUMem, Idle, StoreError

PAGE = Path(__file__).with_name("page.html")
SETTINGS = {
    "base_url": os.environ["GUMEM_BASE_URL"],
    "model": os.environ["GUMEM_MODEL"],
    "model_type": "chat",
    "api_key": os.environ.get("GUMEM_API_KEY") or "none",
}
RESTORED = 6


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the memory in this worker, once it runs: never before a fork."""
    host, _, port = os.environ["GUMEM_CHROMA"].partition(":")
    Agently.set_settings("OpenAICompatible", SETTINGS)
    gumem = GUMem(client=chromadb.HttpClient(host=host, port=int(port)))
    app.state.gumem = gumem
    yield
    await gumem.async_close()


app = FastAPI(lifespan=lifespan)


def user_of(user: Annotated[str, Cookie()] = "") -> str:
    """Say who asks. THIS IS A STUB: put your own login here, and never believe a bare cookie."""
    if not user.strip():
        raise HTTPException(401, "no user: the page sets the cookie `user`")
    return user


User = Annotated[str, Depends(user_of)]


class Asked(BaseModel):
    """One question in one conversation."""

    text: str = Field(min_length=1, max_length=8_000)
    session: str = Field(min_length=1, max_length=100)


@app.get("/")
def page() -> HTMLResponse:
    """The chat page."""
    return HTMLResponse(PAGE.read_text(encoding="utf-8"))


@app.post("/chat")
async def chat(asked: Asked, user: User, request: Request) -> StreamingResponse:
    """Answer as server-sent events: `delta` for each piece, then `done` or `error`."""
    agent = await _agent(request.app.state.gumem, user, asked.session)
    headers = {"X-Worker": str(os.getpid()), "Cache-Control": "no-store"}
    return StreamingResponse(
        _events(agent, asked.text), media_type="text/event-stream", headers=headers
    )


@app.get("/memory")
async def memory(user: User, request: Request) -> JSONResponse:
    """What is known of whoever asks: their memo, and how it stands."""
    known = request.app.state.gumem.user(user)
    try:
        memo = await known.async_get_memo()
    except StoreError as error:
        raise HTTPException(503, "memory can't be read now") from error
    status = await known.async_status()
    return JSONResponse({"memo": memo, "status": status, "worker": os.getpid()})


@app.get("/health")
def health(request: Request) -> JSONResponse:
    """How the memory of this worker stands: counts and kinds, nobody's text."""
    return JSONResponse({**request.app.state.gumem.status(), "worker": os.getpid()})


async def _agent(gumem: GUMem, user: str, session: str) -> Any:
    """Make an agent for one request, with the end of its conversation.

    The session is not ended with the request. So what makes a digest due is a number of turns,
    counted in the store over all workers, or that it is quiet; and no answer waits for it.
    """
    agent = Agently.create_agent()
    gumem.attach(agent, user_id=user, when=EveryNTurns(4) | Idle(5), wait=0)
    agent.activate_session(session_id=session)
    try:
        # What was said, and not what tools returned: a model takes no line of a tool without its
        # call.
        said = await gumem.user(user).async_messages(session, event_type="message", limit=RESTORED)
    except StoreError:
        said = []  # the chat goes on, without what was said before
    agent.activated_session.set_chat_history([{"role": m.role, "content": m.content} for m in said])
    return agent


async def _events(agent: Any, text: str) -> AsyncIterator[str]:
    try:
        async for delta in agent.input(text).get_async_generator(type="delta"):
            yield _event("delta", str(delta))
    except Exception as error:  # noqa: BLE001  # the model's: the page is told, the worker lives
        yield _event("error", type(error).__name__)
    else:
        yield _event("done", "")


def _event(kind: str, data: str) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
