"""One way to ask the model, through Agently: a prompt in, a validated answer out."""

import asyncio
import contextlib
import functools
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel

from agently_gumem.budget import Budget
from agently_gumem.errors import LimitReached, ModelError
from agently_gumem.prompts import Prompt, read_answer
from agently_gumem.records import aware, now
from agently_gumem.threads import left_behind, run_alone
from agently_gumem.versions import REQUEST_SETTINGS, is_unparsed, result_of

REQUESTER = "plugins.ModelRequester.OpenAICompatible"
"""Where Agently's settings name the model."""
# How Agently tells the status of an answer, before what the server said.
_STATUS = re.compile(r"Status Code: (\d{3})\b")
_BAD, _SLOW_DOWN, _NO_SERVICE = 400, 429, 503
R = TypeVar("R")
_CORRECTION = (
    "\n\n# CORRECTION\nThe answer before this one could not be used ({problems}). Answer again "
    "with one JSON object of exactly the structure that is asked for, and nothing else."
)


@dataclass(frozen=True)
class Use:
    """One model request of the memory."""

    time: datetime
    user_id: str
    stage: str
    tokens_in: int
    tokens_out: int
    seconds: float
    ok: bool
    where: str = ""
    """Address and name of the model that was asked; empty where that is not known."""


_spent: ContextVar[list[Use] | None] = ContextVar("spent", default=None)


@contextlib.contextmanager
def spending() -> Generator[list[Use], None, None]:
    """Give the list of the requests that the work inside makes, and grows with them."""
    spent: list[Use] = []
    token = _spent.set(spent)
    try:
        yield spent
    finally:
        _spent.reset(token)


@dataclass
class Usage:
    """The requests of this process, the newest ten thousand of them."""

    entries: deque[Use] = field(default_factory=lambda: deque[Use](maxlen=10_000))

    def report(self, user_id: str | None, since: datetime | None) -> dict[str, Any]:
        """Sum requests and tokens, in all and by stage."""
        total = _Sum()
        since = aware(since) if since is not None else None
        stages: dict[str, _Sum] = {}
        for use in list(self.entries):
            if user_id not in (None, use.user_id) or (since is not None and use.time < since):
                continue
            for part in (total, stages.setdefault(use.stage, _Sum())):
                part.add(use)
        return {**vars(total), "stages": {name: vars(part) for name, part in stages.items()}}


@dataclass
class _Sum:
    requests: int = 0
    failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def add(self, use: Use) -> None:
        self.requests += 1
        self.failed += not use.ok
        self.tokens_in += use.tokens_in
        self.tokens_out += use.tokens_out


@dataclass(frozen=True)
class Model:
    """Sends the memory's requests.

    Args:
        settings: Agently settings for these requests alone.
        timeout: Seconds that one request may take; it is left behind after that.
        answer_tokens: `max_tokens` to send, or None.
        count_tokens: Counts where the server sends no usage.
        usage: Where each request is noted.
        budget: When a request may be sent.
    """

    settings: Mapping[str, Any]
    timeout: float
    answer_tokens: int | None
    count_tokens: Callable[[str], int]
    usage: Usage
    budget: Budget

    async def ask(
        self,
        prompt: Prompt,
        user_id: str,
        agent: Any | None,
        before: Callable[[], None] = lambda: None,
    ) -> tuple[BaseModel, int]:
        """Ask once, and once more where the answer is not valid.

        Args:
            prompt: What is asked; the answer is an instance of its `answer`.
            user_id: For the account of use.
            agent: Its settings are inherited; None asks with Agently's own.
            before: Called before each request; what it raises passes through, and none is sent.

        Returns:
            The answer, and how many of its items were broken and left out.

        Raises:
            LimitReached: It may not be asked before some time has passed.
            ModelError: No answer (down, slow, refused), or none that is valid.
        """
        problems: list[str] = []
        kept: tuple[BaseModel, int] | None = None
        asked = _asked(self.settings, agent)
        for attempt in (1, 2):
            note = _CORRECTION.format(problems="; ".join(problems[:5])) if attempt > 1 else ""
            try:
                async with self.budget.slot(user_id, asked, before):
                    data = await self._request(prompt, prompt.text + note, user_id, agent, asked)
            except ModelError as error:
                # An answer that is not valid counts, also where its correction may not be asked
                # for: else a model that runs wild is asked about the same for ever.
                if kept is None and not (problems and isinstance(error, LimitReached)):
                    raise
                break  # what the first answer held is better than nothing
            answer, problems = read_answer(prompt.answer, data)
            if answer is not None and not problems:
                return answer, 0
            if answer is not None:
                kept = answer, len(problems)
        if kept is not None:
            return kept
        raise ModelError(
            f"the model gave no valid answer for {prompt.stage}: {'; '.join(problems[:3])}",
            answered=True,
        )

    async def _request(
        self, prompt: Prompt, text: str, user_id: str, agent: Any | None, asked: str
    ) -> Any:
        began = time.monotonic()
        heard = _Heard()
        send = functools.partial(self._send, prompt, text, agent, heard)
        # Agently reads an answer with a JSON5 parser in Python, 60 ms for a kilobyte of it: on the
        # worker's loop every user would wait for that. Left behind, a request ends with the
        # timeouts of its HTTP client.
        task = asyncio.wrap_future(left_behind(lambda: run_alone(send()), "gumem-model"))
        task.add_done_callback(_retrieve)
        # `wait_for` does not end a request on Agently 4.0.x, which swallows the cancellation: the
        # task is left behind instead, beside the timeouts of its HTTP client.
        done, _ = await asyncio.wait({task}, timeout=self.timeout)
        data, meta, failure = None, None, ""
        if not done:
            task.cancel()
            failure = f"no answer within {self.timeout:g} s"
        elif task.cancelled():
            failure = "the request was cancelled"
        elif (error := task.exception()) is not None:
            heard.status = heard.status or _status(error)
            failure = " ".join(filter(None, (type(error).__name__, str(heard.status or ""))))
        else:
            data, meta = task.result()
        self._note(prompt, text, user_id, began, data, meta, heard, ok=not failure)
        if not failure:
            self.budget.answered(asked)
            return data
        if heard.refused:
            raise self.budget.refused(asked, heard.retry_after)
        raise ModelError(f"the model did not answer for {prompt.stage}: {failure}")

    async def _send(
        self, prompt: Prompt, text: str, agent: Any | None, heard: "_Heard"
    ) -> tuple[Any, Any]:
        from agently import Agently  # the host is loaded when it is used

        request: Any = Agently.create_request() if agent is None else agent.create_temp_request()
        seconds = self.timeout
        ours: dict[str, Any] = {
            **REQUEST_SETTINGS,
            "timeout": {"connect": seconds, "read": seconds, "write": seconds, "pool": seconds},
        }
        if self.answer_tokens is not None:
            ours["request_options"] = {"max_tokens": self.answer_tokens}
        request.set_settings("OpenAICompatible", ours)
        for name, value in self.settings.items():
            request.set_settings(name, value)
        # No version says in its error what the headers of the answer were.
        hooks = {"event_hooks": {"response": [heard.take]}}
        request.set_settings("OpenAICompatible", {"client_options": hooks})
        heard.where = _where(request.settings)
        request.input(text).output(dict(prompt.output))
        result = result_of(request.get_response())
        try:
            data = await result.async_get_data()
        except ValueError as error:
            if not is_unparsed(error):
                raise
            return None, None
        return data, await result.async_get_meta()

    def _note(
        self,
        prompt: Prompt,
        text: str,
        user_id: str,
        began: float,
        data: Any,
        meta: Any,
        heard: "_Heard",
        *,
        ok: bool,
    ) -> None:
        told = _mapping(_mapping(meta).get("usage"))
        tokens_in = told.get("prompt_tokens") or self.count_tokens(text)
        tokens_out = told.get("completion_tokens") or self.count_tokens(str(data or ""))
        seconds = time.monotonic() - began
        tokens = int(tokens_in), int(tokens_out)
        if ok or heard.status < _BAD:
            # A server that answers with an error status has not worked.
            self.budget.spend(user_id, sum(tokens))
        use = Use(now(), user_id, prompt.stage, *tokens, seconds, ok, heard.where)
        self.usage.entries.append(use)
        if (spent := _spent.get()) is not None:
            spent.append(use)


@dataclass
class _Heard:
    """What a server answered, beside the answer itself."""

    where: str = ""
    status: int = 0
    """Of the last answer; 0 where there was none."""
    retry_after: str | None = None

    async def take(self, response: Any) -> None:
        """Note an answer (called by the HTTP client)."""
        self.status = int(response.status_code)
        self.retry_after = response.headers.get("retry-after")

    @property
    def refused(self) -> bool:
        """Whether the server wants to be left alone for a while."""
        told = self.status == _NO_SERVICE and self.retry_after is not None
        return told or self.status == _SLOW_DOWN


def named(address: str, name: str) -> str:
    """Name a model by address and name, without what may stand for a password in the address."""
    parts = urlsplit(address)
    shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    return " ".join(filter(None, (shown, name)))


def _where(settings: Any) -> str:
    """Name the model that a request of these settings goes to."""
    address, name = (str(settings.get(f"{REQUESTER}.{k}") or "") for k in ("base_url", "model"))
    return named(address, name)


def _asked(settings: Mapping[str, Any], agent: Any | None) -> str:
    """Name the model that a request will go to, before there is one."""
    # Agently is not loaded for it here, on the worker's loop: who has not loaded it has told it of
    # no model yet.
    inherited = agent if agent is not None else getattr(sys.modules.get("agently"), "Agently", None)
    kept: Any = getattr(inherited, "settings", None)

    def told(key: str) -> str:
        ours = (_mapping(settings.get(name)).get(key) for name in ("OpenAICompatible", REQUESTER))
        first = next(filter(None, (settings.get(f"{REQUESTER}.{key}"), *ours)), None)
        return str(first or (kept.get(f"{REQUESTER}.{key}") if kept is not None else "") or "")

    return named(told("base_url"), told("model"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _retrieve(task: "asyncio.Future[Any]") -> None:
    """Take the exception of a request that was left behind, so that nothing reports it again."""
    if not task.cancelled():
        task.exception()


def _status(error: BaseException) -> int:
    """Read the status out of a failure; its text, which can hold the user's words, goes nowhere."""
    seen: BaseException | None = error
    while seen is not None:
        if found := _STATUS.match(str(seen)):
            return int(found[1])
        seen = seen.__cause__ or seen.__context__
    return 0
