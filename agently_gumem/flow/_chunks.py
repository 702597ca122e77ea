"""Handlers of a flow: a stage, a recall, something to remember."""

import functools
import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

from agently_gumem.config import RecallConfig
from agently_gumem.engine import checked_name
from agently_gumem.errors import ConfigError
from agently_gumem.flow._data import (
    MemoryOf,
    RunOf,
    memories_of,
    run_of,
    user_of,
    visits,
    write,
)
from agently_gumem.flow._stage import MEMORY, RUN_ID, Outcome, Since, Stage, check, tell
from agently_gumem.flow._steps import arun
from agently_gumem.records import MemoryContext, Message, as_record
from agently_gumem.user import UserMemory
from agently_gumem.versions import put_resource

R = TypeVar("R")
Handler = TypeVar("Handler", bound=Callable[..., Any])
AsyncHandler = Callable[[Any], Awaitable[Any]]
To = Literal["state", "value", "resource"]


def stage_chunk(
    name: str,
    *,
    memory: MemoryOf = MEMORY,
    run_id: RunOf = RUN_ID,
    since: Since = "chunk",
    outcome: Outcome | None = None,
) -> Callable[[Handler], Handler]:
    """Make a chunk's handler, plain or async, a stage; see `Stage`.

    Args:
        name: The stage.
        memory: See `Stage`.
        run_id: See `Stage`.
        since: See `Stage`.
        outcome: A function of what the handler returned: what of it is remembered as decided.

    Raises:
        ConfigError: A parameter is wrong; at the definition, never in a flow.
    """
    check(name, memory, run_id, since)
    if outcome is not None and not callable(outcome):
        raise ConfigError(f"outcome= takes a function of the chunk's result, not {outcome!r}")

    def open_stage(args: Sequence[Any]) -> Stage:
        # Agently gives `data` alone; a method has itself before it.
        return Stage(args[-1], name, memory=memory, run_id=run_id, since=since)

    def decorate(handler: Handler) -> Handler:
        if not callable(handler):
            raise ConfigError(f"stage_chunk decorates a function of data, not {handler!r}")

        def chunk(*args: Any) -> Any:
            with open_stage(args) as stage:
                return stage.returns(handler(*args), outcome)

        async def async_chunk(*args: Any) -> Any:
            async with open_stage(args) as stage:
                return stage.returns(await handler(*args), outcome)

        made = async_chunk if _is_async(handler) else chunk
        return cast("Handler", _named(functools.update_wrapper(made, handler), handler, name))

    return decorate


def recall_chunk(
    *,
    memory: MemoryOf = MEMORY,
    query: Callable[[Any], Any] | None = None,
    to: To = "state",
    key: str = "recalled",
    name: str = "recall_chunk",
    **config: Any,
) -> AsyncHandler:
    """Make a handler that recalls for a flow whose agents have no session.

    Where nothing can be recalled the text is empty, and the flow goes on.

    Args:
        memory: Name of the runtime resource that is a UserMemory (or a MemorySession, or what
            `attach` returned), or a function of `data` that returns it.
        query: A function of `data` that returns the question; None: the value itself.
        to: Where what is recalled goes. "state": its text stands in the state, and the value
            passes through. "value": its text is the new value. "resource": the MemoryContext is a
            runtime resource, and the value passes through.
        key: Its name in the state or among the resources.
        name: The chunk's own name; distinct ones where one flow has several.
        config: Fields of RecallConfig.

    Raises:
        ConfigError: A parameter is wrong; at the definition, never in a flow.
    """
    check(name, memory, RUN_ID, "chunk")
    checked_name(key, "key")
    as_record(RecallConfig, config, "recall_chunk")
    _function(query, "query")
    if to not in ("state", "value", "resource"):
        raise ConfigError(f'to={to!r} is none of "state", "value", "resource"')

    async def recalled(data: Any, told: list[UserMemory]) -> MemoryContext:
        user, session = user_of(memories_of(data, memory)[0])
        told.append(user)
        asked = data.value if query is None else query(data)
        if not isinstance(asked, str):
            asked = json.dumps(asked, ensure_ascii=False, default=str)
        if session is not None:
            return await session.async_recall(asked, **config)
        return await user.async_query(asked, **config)

    async def chunk(data: Any) -> Any:
        work = functools.partial(recalled, data)
        context = await _guarded("recall", name, work, MemoryContext(query=""))
        if to == "resource":
            put_resource(data, key, context)
        elif to == "state":
            await write(data, key, context.formatted_context).later()
        return context.formatted_context if to == "value" else data.value

    return _named(chunk, None, name)


def remember_chunk(
    *,
    memory: MemoryOf = MEMORY,
    messages: Callable[[Any], Any] | None = None,
    session_id: str = "flow",
    run_id: RunOf = RUN_ID,
    digest: bool = False,
    name: str = "remember_chunk",
) -> AsyncHandler:
    """Make a handler that remembers messages of a flow whose agents have no session.

    A visit of it that runs again after a load stores nothing twice. The value passes through.

    Args:
        memory: Name of the runtime resource that is a UserMemory (or a MemorySession, or what
            `attach` returned), or a function of `data` that returns it.
        messages: A function of `data` that returns what `UserMemory.add_messages` takes, or a
            text of the user's; None: the value itself.
        session_id: The conversation that they belong to, where the memory is no session's.
        run_id: See `Stage`.
        digest: Turn what waits into Facts before the next chunk.
        name: The chunk's own name; distinct ones where one flow has several.

    Raises:
        ConfigError: A parameter is wrong; at the definition, never in a flow.
    """
    check(name, memory, run_id, "chunk")
    checked_name(session_id, "session_id")
    _function(messages, "messages")

    async def kept(data: Any, told: list[UserMemory]) -> None:
        user, session = user_of(memories_of(data, memory)[0])
        told.append(user)
        records = _messages(data.value if messages is None else messages(data))
        if session is not None and not session.active:
            return
        visit = visits.begin(data, name)
        try:
            run = await arun(run_of(data, run_id))
            placed = [_with_id(m, [run, name, visit.number, i]) for i, m in enumerate(records)]
            await user.async_add_messages(placed, session.session_id if session else session_id)
            await arun(visit.over(data))
        finally:
            visits.end(visit)
        if digest:
            await user.async_digest()

    async def chunk(data: Any) -> Any:
        await _guarded("remember", name, functools.partial(kept, data), None)
        return data.value

    return _named(chunk, None, name)


def _function(given: object, name: str) -> None:
    if given is not None and (not callable(given) or _is_async(given)):
        raise ConfigError(f"{name}= takes a plain function of data, not {given!r}")


def _messages(given: Any) -> list[Message]:
    """Take a text, a message, or several of them.

    Raises:
        ConfigError: It is something else, or a field is wrong.
    """
    if given is None:
        return []
    if isinstance(given, str | Mapping | Message):
        given = [given]
    if not isinstance(given, Sequence):
        raise ConfigError(f"remember_chunk takes texts and messages, not {type(given).__name__}")
    several = cast("Sequence[Any]", given)
    told = [{"content": one} if isinstance(one, str) else one for one in several]
    return [as_record(Message, one, "remember_chunk") for one in told]


def _with_id(message: Message, place: Sequence[Any]) -> Message:
    """Give a message the id of its place in the run, unless the application gave one."""
    if message.id:
        return message
    own = hashlib.sha256(json.dumps(place, ensure_ascii=False).encode()).hexdigest()
    return message.model_copy(update={"id": f"flow-{own[:32]}"})


async def _guarded(
    what: str, name: str, work: Callable[[list[UserMemory]], Awaitable[R]], otherwise: R
) -> R:
    """Do our own work inside a flow: the flow goes on whatever happens in it."""
    told: list[UserMemory] = []
    try:
        return await work(told)
    except Exception as error:  # noqa: BLE001  # the border to the user's flow
        tell(what, name, error, told)
        return otherwise


def _is_async(handler: Callable[..., Any]) -> bool:
    """Tell an async handler, also where it is a callable object or a partial."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004  # its own, async or not
    )


def _named(made: Handler, handler: Any, name: str) -> Handler:
    """Give a handler the name that Agently asks for: partials and callable objects have none."""
    made.__name__ = made.__qualname__ = getattr(handler, "__name__", name)
    return made
