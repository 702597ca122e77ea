"""What the end-to-end tests share: agents on a scripted model, the ways in, ten planted facts."""

import contextlib
import json
import warnings
from types import SimpleNamespace

from agently import Agently
from agently.core import Session

from agently_gumem import GUMem
from agently_gumem.versions import has_agent_handlers, register_execution

STRATEGY = "compress_with_memo"
# What the installed version of Agently has: 4.0.8 knows no handlers of an agent and one name for
# what a strategy does.
LEVELS = ["agent", "session"] if has_agent_handlers(Agently.create_agent()) else ["session"]
METHODS = [
    m for m in ("register_execution_handlers", "register_resize_handler") if m in dir(Session)
]

# What was said in session one, the question of session two, and what its answer must hold. No
# answer stands in its question, nor in another one.
PLANTED = [
    ("My dentist is Dr. Alvarez.", "Who is my dentist?", "Alvarez"),
    ("My car is a blue Skoda Octavia.", "Which car do I own?", "Skoda"),
    ("I am allergic to peanuts.", "What am I allergic to?", "peanuts"),
    ("My dog is called Biscuit.", "What is my dog called?", "Biscuit"),
    ("I work at Siemens as a turbine engineer.", "Where do I work?", "Siemens"),
    ("My favourite drink is oolong tea.", "What is my favourite drink?", "oolong"),
    ("I was born in Ljubljana.", "In which city was I born?", "Ljubljana"),
    ("我女儿叫林小雨。", "我女儿叫什么名字？", "林小雨"),
    ("我的跑鞋预算是800元。", "我的跑鞋预算是多少？", "800"),
    ("我对花生过敏的事要写在菜单上。", "菜单上要写什么？", "花生"),
]


def swept(**counts):
    """Say what a sweep returns that did nothing else."""
    return {"users": 0, "messages": 0, "failed": 0, "forgotten": 0, "erased": 0, **counts}


@contextlib.contextmanager
def own_settings():
    """Restore afterwards which model Agently's own settings name."""
    names = ("base_url", "model", "model_type", "api_key")
    keys = [f"plugins.ModelRequester.OpenAICompatible.{name}" for name in names]
    kept = {key: Agently.settings.get(key) for key in keys}
    try:
        yield
    finally:
        for key, value in kept.items():
            if value is None:
                Agently.settings.delete(key)
            else:
                Agently.settings.set(key, value)


class AnyRequest:
    """What a request is known by: any object that can be referred to weakly."""


def agent_of(model):
    """Create an agent whose own settings point to the model; nothing global changes."""
    agent = Agently.create_agent()
    agent.set_settings("OpenAICompatible", model.settings)
    return agent


def say(session, *turns):
    """Add whole turns to a real Agently session, whose handlers run, without a request."""
    for asked, answered in turns:
        session.add_chat_history({"role": "user", "content": asked})
        session.add_chat_history({"role": "assistant", "content": answered})


def pairs(messages):
    """Read messages, ours or Agently's, as role and content."""
    return [(m.role, m.content) for m in messages]


def register(session, handler, name=STRATEGY, *, method=METHODS[0]):
    """Register an execution handler by the given method, deprecated or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        getattr(session, method)(name, handler)


def handled_before(agent, session_id, analysis, execution=None, *, level=LEVELS[0]):
    """Give an agent the handlers of an application; or its session, where only that takes any."""
    if level == "agent":
        agent.register_session_analysis_handler(analysis)
        if execution is not None:
            agent.register_session_resize_handler("own", execution)
        return
    agent.activate_session(session_id=session_id)
    agent.activated_session.register_analysis_handler(analysis)
    if execution is not None:
        register_execution(agent.activated_session, "own", execution)


@contextlib.contextmanager
def on_event(hook, *kinds):
    """Hook events of ours while the block runs; no kind named: of all kinds."""
    center, name = Agently.event_center, f"e2e-{id(hook)}"

    async def on_data(event):  # before 4.0.9
        kind = event.content["type"] if event.module_name == "GUMem" else ""
        if kind and (not kinds or kind in kinds):
            payload = event.content["data"]
            await hook(SimpleNamespace(event_type=kind, payload=payload, level=event.level))

    if hasattr(center, "create_emitter"):
        center.register_hook(hook, event_types=list(kinds), hook_name=name)
        leave = (name,)
    else:
        center.register_hook("data", on_data, hook_name=name)
        leave = ("data", name)
    try:
        yield
    finally:
        center.unregister_hook(*leave)


@contextlib.contextmanager
def hooked(*kinds):
    """Collect events of Agently's centre while the block runs; none named: of all kinds."""
    events = []

    async def keep(event):
        events.append(event)

    with on_event(keep, *kinds):
        yield events


def fact_answer(request):
    """Answer an extract request with one Fact a message of the user: its own words."""
    if request.memory_stage != "extract":
        return {"summaries": [], "same_topics": [], "memo": []}
    said = [m for m in request.data["NEW MESSAGES"] if m["role"] == "user"]
    return {"facts": [{"content": m["text"], "sources": [m["ref"]]} for m in said], "memo": []}


# -- the ways in: (gumem, agent, session id) -> the session's memory -----------------------------


def attached(gumem, agent, session_id, **options):
    """The one line."""
    memory = gumem.attach(agent, user_id="alice", **options)
    agent.activate_session(session_id=session_id)
    return memory.session()


def seeded(gumem, agent, session_id, *, method=METHODS[0], **options):
    """The seed's own lines, with its two functions swapped for ours."""
    agent.activate_session(session_id=session_id)
    session = agent.activated_session
    memory = gumem.session("alice", session_id, agent=agent, **options)
    session.register_analysis_handler(memory.analysis_handler)
    register(session, memory.execution_handler, method=method)
    return memory


def executing(gumem, agent, session_id, **options):
    """Our execution handler alone, beside a developer's analysis that asks for it."""
    agent.activate_session(session_id=session_id)
    session = agent.activated_session
    memory = gumem.session("alice", session_id, agent=agent, **options)

    async def analyse(full, window, memo, settings):
        return STRATEGY if len(window) > 6 or len(full) < 3 else None

    session.register_analysis_handler(analyse)
    register_execution(session, STRATEGY, memory.execution_handler)
    return memory


def analysing(gumem, agent, session_id, **options):
    """Our analysis handler alone, beside a developer's execution with a memo of its own."""
    agent.activate_session(session_id=session_id)
    session = agent.activated_session
    memory = gumem.session("alice", session_id, agent=agent, **options)

    async def execute(full, window, memo, settings):
        return None, list(window)[-2:], "Developer's own memo."

    session.register_analysis_handler(memory.analysis_handler)
    register_execution(session, STRATEGY, execute)
    return memory


def chained(gumem, agent, session_id, **options):
    """Attach beside a handler that was there before."""

    async def before(full, window, memo, settings):
        return None

    handled_before(agent, session_id, before)
    return attached(gumem, agent, session_id, **options)


def old_memo_json(session_id):
    """A session as the seed's handler left it: a dict memo, and nothing of ours."""
    return json.dumps(
        {
            "id": session_id,
            "auto_resize": True,
            "full_context": [],
            "context_window": [],
            "memo": {"preferences": {"tone": "formal"}, "facts": ["uses a Dvorak keyboard"]},
            "session_settings": {},
        }
    )


def inherited(gumem, agent, session_id, **options):
    """Attach on a session that is loaded from JSON and holds an old handler's dict memo."""
    memory = attached(gumem, agent, session_id, **options)
    agent.activated_session.load_json_session(old_memo_json(session_id))
    return memory


WAYS = [attached, seeded, executing, analysing, chained, inherited]


def fresh(**options):
    """Open a store in memory."""
    return GUMem(**options)
