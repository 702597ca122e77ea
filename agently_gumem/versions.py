"""What differs between versions of Agently, and its private names that memory has to touch.

A difference is found by what an object has, not by the number of a version. What Agently offers in
public on every version is called where it is used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Where Agently keeps an agent's own analysis handler; there is no public way to read it.
_AGENT_HANDLER = "_SessionExtension__session_analysis_handler"
_OF_AN_AGENT = ("sessions", "extension_handlers", "activate_session")
_UNPARSED = "<string>:"

REQUEST_SETTINGS: dict[str, Any] = {
    "stream": False,
    # Where 4.0.x looks for the text of an answer that is not streamed.
    "content_mapping": {"done": "choices[0].message.content"},
    # Before 4.1.4 there was no second attempt, and the setting does nothing.
    "request_retry": {"max_attempts": 1},
}
"""Agently settings of the memory's own requests."""


# -- an agent ------------------------------------------------------------------------------------


def is_agent(thing: Any) -> bool:
    """Tell whether it is an agent with sessions."""
    return all(hasattr(thing, name) for name in _OF_AN_AGENT)


def has_agent_handlers(agent: Any) -> bool:
    """Tell whether an agent hands its own handlers to its sessions; 4.0.8 knows none."""
    return hasattr(agent, "register_session_analysis_handler")


def agent_analysis(agent: Any) -> Any | None:
    """Return the analysis handler that an agent gives its sessions."""
    return getattr(agent, _AGENT_HANDLER, None)


def put_first_extension(agent: Any, kind: str, handler: Callable[..., Any]) -> None:
    """Put one of an agent's extension handlers before those that it has."""
    _set_extensions(agent, kind, [handler, *agent.extension_handlers.get(kind, [])])


def take_out_extension(agent: Any, kind: str, handler: Callable[..., Any]) -> None:
    """Take one of an agent's extension handlers out."""
    rest = [h for h in agent.extension_handlers.get(kind, []) if h != handler]
    _set_extensions(agent, kind, rest)


def _set_extensions(agent: Any, kind: str, handlers: list[Callable[..., Any]]) -> None:
    # `get` returns a copy and `set` merges on some versions: deleting first works on all.
    del agent.extension_handlers[kind]
    agent.extension_handlers.set(kind, handlers)


# -- a session -----------------------------------------------------------------------------------


def analysis_of(session: Any) -> Any:
    """Return a session's analysis handler, whosever it is."""
    return session._analysis_handler


def own_analysis(session: Any) -> Any | None:
    """Return a session's analysis handler where it is not Agently's own."""
    handler = session._analysis_handler
    return None if getattr(handler, "__name__", "") == "_default_analysis_handler" else handler


def put_analysis(session: Any, handler: Any | None) -> None:
    """Give a session back what `analysis_of` returned; None: Agently's own.

    Its public method takes no None on 4.0.8, and wraps what it was given before once more.
    """
    session._analysis_handler = session._default_analysis_handler if handler is None else handler


def register_execution(session: Any, strategy: str, handler: Callable[..., Any]) -> None:
    """Register what a strategy does; 4.0.8 has only the name that later versions call old."""
    register = getattr(session, "register_resize_handler", None)
    (register or session.register_execution_handlers)(strategy, handler)


def lists_of(session: Any) -> tuple[list[Any], list[Any]]:
    """Return the full context and the window themselves: Agently's properties give copies."""
    return session._full_context, session._context_window


def put_memo(session: Any, memo: Any) -> None:
    """Set what a session holds as its memo; a handler's None leaves it, and nothing else can."""
    session._memo = memo


def mend_doubles(full: Any, window: Any) -> None:
    """Take out in place what 4.0.8 adds twice.

    After its `set_chat_history` full context and window are one list, to which each later message,
    the same object, is added once for either. A later version has two lists and is left alone.
    """
    if full is not window:
        return
    known: set[int] = set()
    doubles: list[int] = []
    for place, message in enumerate(list(full)):
        if id(message) in known:
            doubles.append(place)
        known.add(id(message))
    for place in reversed(doubles):
        del full[place]


# -- the data of a flow's chunk --------------------------------------------------------------------


def read_state(data: Any, key: str) -> Any:
    """Read from an execution's own state; 4.0.8 calls it runtime data."""
    state = getattr(data, "state", None)
    return data.get_runtime_data(key) if state is None else state.get(key)


def state_setters(data: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return what sets the state, in the form that blocks and in the one that is awaited."""
    state = getattr(data, "state", None)
    if state is None:
        return data.set_runtime_data, data.async_set_runtime_data
    return state.set, state.async_set


def resource_of(data: Any, name: str) -> Any:
    """Read a runtime resource; 4.0.8 has none, and its runtime data holds live objects too."""
    get = getattr(data, "get_resource", None)
    return data.get_runtime_data(name) if get is None else get(name)


def put_resource(data: Any, name: str, value: Any) -> None:
    """Set a runtime resource for the chunks that follow."""
    put = getattr(data, "set_resource", None)
    if put is None:
        data.set_runtime_data(name, value, emit=False)
    else:
        put(name, value)


# -- a request -----------------------------------------------------------------------------------


def result_of(response: Any) -> Any:
    """Return what an answer is read from: a part of the response on some versions."""
    return getattr(response, "result", response)


def is_unparsed(error: ValueError) -> bool:
    """Tell an answer that is no JSON: 4.0.x raises what its parser says, later ones give None."""
    return str(error).startswith(_UNPARSED)


# -- events --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """An event as it is told."""

    kind: str
    message: str
    payload: dict[str, Any]
    warning: bool


async def emit(center: Any, told: Told) -> None:
    """Emit an event of ours to Agently's event center.

    Agently's own `error` level raises what it emits, so a failure is a warning. Before 4.0.9 the
    center knows no event but its own: a `data` event carries the kind as `type` and the payload as
    `data`.
    """
    level = "WARNING" if told.warning else "DEBUG"
    if hasattr(center, "create_emitter"):
        emitter = center.create_emitter("GUMem")
        await emitter.async_emit(told.kind, level=level, message=told.message, payload=told.payload)
        return
    content = {"type": told.kind, "data": told.payload}
    await center.async_emit("data", {"module_name": "GUMem", "level": level, "content": content})
