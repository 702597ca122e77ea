"""Every way to ask an agent: what the model gets, what is kept, and what the caller gets back.

`PATHS` is a table; docs/call_paths.md is the same table in words. Each path is run on an agent
with memory and on the same agent without one, against the same script.
"""

import asyncio
import concurrent.futures
import json
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path as File
from typing import Any

import pytest
from agently import Agently
from e2e import AnyRequest, agent_of, fact_answer, pairs, register, say

from agently_gumem import EveryNTurns, GUMem, Manual, WindowExceeds
from agently_gumem.flights import RECORDED_WITHIN, Flights
from agently_gumem.testing import Reply, ScriptedModel

pytestmark = [
    pytest.mark.host,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # older versions use their own
]
AGENTLY = tuple(int(part) for part in version("agently").split("."))
ID = re.compile(r"(?<=agent-)[0-9a-f]+|(?<=act_call_)[0-9a-f]+")
PAGE = File(__file__).parent.parent / "docs" / "call_paths.md"

KNOWN = "My dog is called Biscuit."
ASKED = "What is my dog called?"
NEXT = "And how old is my dog?"
ANSWER = "It is called Biscuit."
ONCE = (("user", ASKED), ("assistant", ANSWER))
TOOL = ("tool", "weather(city=Ghent) returned sunny in Ghent")
WITH_TOOL = (ONCE[0], TOOL, ONCE[1])
DOG = {"name": "Biscuit", "kind": "dog"}
DOG_KEPT = (("user", ASKED), ("assistant", "name: Biscuit\nkind: dog"))
OUTPUT = {"name": (str, "its name"), "kind": (str, "what it is")}
Said = tuple[tuple[str, str], ...]


# --- the ways to ask: (agent, model) -> what the caller gets


def start(agent, model):
    """Block for the answer."""
    return agent.input(ASKED).start()


def async_start(agent, model):
    """Await the answer."""
    return asyncio.run(_awaited(lambda: agent.input(ASKED).async_start()))


async def _awaited(ask):
    return await ask()


def start_inside_a_loop(agent, model):
    """Block for the answer on a running loop."""

    async def inside():
        return start(agent, model)

    return asyncio.run(inside())


def get_generator(agent, model):
    """Iterate over the deltas."""
    return list(agent.input(ASKED).get_generator(type="delta"))


def get_async_generator(agent, model):
    """Iterate over the deltas on a loop."""

    async def read():
        return [d async for d in agent.input(ASKED).get_async_generator(type="delta")]

    return asyncio.run(read())


def _whole(items):
    """Read the fields of a structured stream; newer versions put news of the run between them."""
    return [(i.path, i.value) for i in items if i.path in OUTPUT and i.is_complete]


def instant(agent, model):
    """Iterate over the fields of a structured answer as they come."""
    return _whole(agent.input(ASKED).output(OUTPUT).get_generator(type="instant"))


def async_instant(agent, model):
    """Do the same on a loop."""

    async def read():
        stream = agent.input(ASKED).output(OUTPUT).get_async_generator(type="instant")
        return _whole([item async for item in stream])

    return asyncio.run(read())


def get_response(agent, model):
    """Read one response three times."""
    response = agent.input(ASKED).get_response()
    return response.get_text(), response.get_data(), response.get_text()


def create_execution(agent, model):
    """Run a turn as an execution of its own."""
    return agent.input(ASKED).create_execution().start()


def agent_request(agent, model):
    """Ask the agent's own request."""
    return agent.request.input(ASKED).get_data()


def create_request(agent, model):
    """Ask a request that inherits the agent's prompt and handlers."""
    return agent.create_request().input(ASKED).get_data()


def create_temp_request(agent, model):
    """Ask a request that inherits neither."""
    return agent.create_temp_request().input(ASKED).get_data()


def structured(agent, model):
    """Ask for an object."""
    return agent.input(ASKED).output(OUTPUT).start()


def ensure_keys(agent, model):
    """Ask for an object that must have some keys."""
    return agent.input(ASKED).output(OUTPUT).start(ensure_keys=list(OUTPUT), max_retries=3)


def with_an_action(agent, model):
    """Ask an agent that has a tool, which the model calls."""

    def weather(city: str) -> str:
        """Say the weather of a city."""
        return f"sunny in {city}"

    agent.tool_func(weather)
    agent.use_tools(["weather"])
    return agent.input(ASKED).start()


def closed_early(agent, model):
    """Leave a stream after its first delta."""
    stream = agent.input(ASKED).get_generator(type="delta")
    first = next(stream)
    stream.close()
    return first


def closed_early_async(agent, model):
    """Leave a stream on a loop."""

    async def read():
        stream = agent.input(ASKED).get_async_generator(type="delta")
        first = await stream.__anext__()
        await stream.aclose()
        return first

    return asyncio.run(read())


def stalled(agent, model):
    """Wait for the rest of a stream that stalls after its first delta."""
    got = []
    for delta in agent.input(ASKED).get_generator(type="delta"):
        got.append(delta)
        model.release("chat")
    return got


def cancelled(agent, model):
    """Cancel the task that waits for the model."""

    async def ask():
        seen = len(model.chat_requests)
        model.hold("chat")
        task = asyncio.ensure_future(agent.input(ASKED).async_start())
        await asyncio.to_thread(model.wait_for, seen + 1, "chat")
        task.cancel()
        return await task

    return asyncio.run(ask())


# --- the table


@dataclass(frozen=True)
class Path:
    """A way to ask, and what has to come of it."""

    name: str
    ask: Callable[[Any, ScriptedModel], Any]
    replies: Sequence[Any] = (ANSWER,)
    kept: Said = ONCE
    by_version: Sequence[tuple[tuple[int, ...], tuple[int, ...], Said]] = ()
    """(from, before) -> what is kept there instead."""
    settings: dict[str, Any] = field(default_factory=dict)
    needs: str = ""
    """A method that the agent must have."""
    asks_model: int | None = None
    """Which requests carry the memory's section: the last so many; None: each."""
    held: bool = False
    """The model holds its answers back, after the deltas that a reply sends before."""
    hangs_on: tuple[int, ...] = ()
    """A version on which it never ends, with memory or without."""

    def kept_here(self) -> Said:
        """Say what is kept on the version that is installed."""
        here = (kept for lo, hi, kept in self.by_version if lo <= AGENTLY < hi)
        return next(here, self.kept)


def _plan(request):
    """Answer a request that decides about a tool: call it once, then answer."""
    call = {
        "purpose": "weather",
        "action_id": "weather",
        "action_input": {"city": "Ghent"},
        "tool_name": "weather",
        "tool_kwargs": {"city": "Ghent"},
        "todo_suggestion": "answer",
    }
    answer = "It is three." if NEXT in request.text else ANSWER
    if "next_action" not in request.text and "use_tool" not in request.text:
        return answer
    if answer != ANSWER or "sunny in Ghent" in request.text:
        return {"next_action": "response", "execution_commands": [], "response": answer}
    commands = {"execution_commands": [call], "tool_commands": [call], "tool_command": call}
    return {"next_action": "execute", "response": None, "use_tool": True, **commands}


NO_JSON, WRONG = "I can't say.", {"colour": "brown"}
NOTHING: Said = ()
QUESTION: Said = (("user", ASKED),)
# These read a generator that is closed to its end, behind the caller or before they let it go.
READ_TO_ITS_END = (4, 1, 3) <= AGENTLY < (4, 1, 4, 2)
IMPATIENT = {
    "timeout": {"connect": 5.0, "read": 0.2, "write": 5.0, "pool": 5.0},
    "stream_idle_timeout": 0.2,
    "request_retry": {"max_attempts": 1},
}
ONE_TRY = {"request_retry": {"max_attempts": 1}}
BROKEN = [Reply("no", status=status) for status in (400, 429, 500)]

PATHS = [
    Path("start", start),
    Path("start inside a loop", start_inside_a_loop),
    Path("async_start", async_start),
    Path("get_generator", get_generator),
    Path("get_async_generator", get_async_generator),
    Path("instant stream", instant, (DOG,), DOG_KEPT),
    Path("instant stream, async", async_instant, (DOG,), DOG_KEPT),
    Path("get_response, read three times", get_response),
    Path("create_execution", create_execution, needs="create_execution"),
    Path("agent.request", agent_request),
    Path("create_request", create_request),
    Path("create_temp_request", create_temp_request, kept=NOTHING, asks_model=0),
    Path("structured output", structured, (DOG,), DOG_KEPT),
    Path("ensure_keys: no JSON, then good", ensure_keys, (NO_JSON, DOG), DOG_KEPT),
    Path("ensure_keys: wrong keys, then good", ensure_keys, (WRONG, DOG), DOG_KEPT),
    Path("ensure_keys: wrong, no JSON, good", ensure_keys, (WRONG, NO_JSON, DOG), DOG_KEPT),
    Path(
        "ensure_keys: half, half, good",
        ensure_keys,
        ({"name": "B"}, {"kind": "cat"}, DOG),
        DOG_KEPT,
    ),
    Path(
        "ensure_keys: never good",
        ensure_keys,
        (WRONG,) * 4,
        (("user", ASKED), ("assistant", "colour: brown")),
    ),
    Path("an action", with_an_action, _plan, WITH_TOOL, asks_model=1),
    Path(
        "a generator closed early",
        closed_early,
        (ANSWER if READ_TO_ITS_END else Reply(ANSWER, wait_after=1),),
        kept=NOTHING,
        by_version=(((4, 1, 3), (4, 1, 4, 2), ONCE),),
        held=not READ_TO_ITS_END,  # the rest comes once it is closed
    ),
    Path(
        "an async generator closed early",
        closed_early_async,
        (Reply(ANSWER, wait_after=1),),
        kept=NOTHING,
        held=True,  # else it may have been read to its end by then
    ),
    Path("a stream that stalls", stalled, (Reply(ANSWER, wait_after=1),), held=True),
    Path(
        "a stream that stalls past its time limit",
        start,
        (Reply(ANSWER, wait_after=1),) * 2,
        NOTHING,
        settings=IMPATIENT,
        held=True,
        hangs_on=(4, 1, 2),
    ),
    Path(
        "a task that is cancelled",
        cancelled,
        kept=NOTHING,
        by_version=(((4, 1, 2), (4, 1, 3), (("user", ASKED), ("assistant", "None"))),),
    ),
    *(Path(f"status {r.status}", start, (r,) * 2, NOTHING) for r in BROKEN),
    Path("status 500, async", async_start, (BROKEN[2],) * 2, NOTHING),
    Path("a status in a stream", get_generator, (BROKEN[2],) * 2, NOTHING),
    Path("a dropped connection", start, (Reply(drop=True),) * 2, NOTHING, settings=ONE_TRY),
    Path(
        "a dropped connection, async",
        async_start,
        (Reply(drop=True),) * 2,
        NOTHING,
        settings=ONE_TRY,
    ),
    Path(
        "an answer cut in the middle",
        start,
        (Reply(chunks=["It is ", "called"], cut=True),) * 2,
        NOTHING,
        settings=ONE_TRY,
    ),
    Path("an empty answer", start, ("",), QUESTION),
]


# --- the body


def script(path):
    """Make the answers of a path, then those of the turn after it."""
    if callable(path.replies):
        return path.replies
    left = iter(path.replies)

    def answer(request):
        return "It is three." if request.question == NEXT else next(left)

    return answer


def outcome(path, agent, model):
    """Say what the caller gets: a value, or the kind of an exception."""
    if path.held:
        model.hold("chat")
    try:
        return "value", path.ask(agent, model)
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # its kind is what is compared
        return "raised", type(error).__qualname__
    finally:
        model.release("chat")


def read(requests):
    """Read what Agently itself puts into requests: history, question, and nothing of ours."""
    return [
        ([(m["role"], m["content"]) for m in r.messages[:-1]], ID.sub("(id)", r.question))
        for r in requests
    ]


def of_agent(model, path):
    """Create an agent with the settings of a path."""
    agent = agent_of(model)
    agent.set_settings("OpenAICompatible", {**model.settings, **path.settings})
    return agent


def without_memory(path):
    """Run a path and the turn after it on an agent without memory."""
    with ScriptedModel(script(path)) as model:
        agent = of_agent(model, path)
        agent.set_settings("session.input_keys", ["input"])
        agent.activate_session(session_id="s")
        got = outcome(path, agent, model)
        again = agent.input(NEXT).start()
        return got, again, read(model.chat_requests)


def remembering(gumem, agent, **options):
    """Give an agent memory: alice's in session "s", which is active then, bob's in "t"."""
    options = {"when": Manual(), **options}
    if hasattr(agent, "register_session_analysis_handler"):
        users = {"s": "alice", "t": "bob"}
        memory = gumem.attach(agent, user_id=users.__getitem__, **options)
        agent.activate_session(session_id="s")
        return memory
    for user_id, session_id in (("bob", "t"), ("alice", "s")):
        agent.activate_session(session_id=session_id)
        memory = gumem.session(user_id, session_id, agent=agent, **options)
        agent.activated_session.register_analysis_handler(memory.analysis_handler)
        register(agent.activated_session, memory.execution_handler)
    return memory


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_a_call_path(path):
    """The caller gets what he gets without memory; each turn is kept once, and nothing else."""
    if path.needs and not hasattr(Agently.create_agent(), path.needs):
        pytest.skip(f"this version has no {path.needs}")
    if path.hangs_on and AGENTLY[: len(path.hangs_on)] == path.hangs_on:
        pytest.skip("on this version the time limit does not end it, without memory either")
    plain = without_memory(path)
    with ScriptedModel(script(path), memory=fact_answer) as model, GUMem() as gumem:
        agent = of_agent(model, path)
        user = gumem.user("alice")
        user.add_messages({"content": KNOWN}, "x")
        memory = remembering(gumem, agent)
        got = outcome(path, agent, model)
        asked = model.chat_requests
        again = agent.input(NEXT).start()
        assert (got, again, read(model.chat_requests)) == plain
        shown = [KNOWN in (r.memo_section or "") for r in asked]
        carried = len(asked) if path.asks_model is None else path.asks_model
        assert shown[len(shown) - carried :] == [True] * carried
        assert KNOWN in model.chat_requests[-1].memo_section
        kept = [*path.kept_here(), ("user", NEXT), ("assistant", "It is three.")]
        assert pairs(user.messages("s")) == kept
        memory.digest()
        digested = [m["text"] for m in model.memory_requests[0].data["NEW MESSAGES"]]
        assert digested == [KNOWN, *(text for _, text in kept)]
        assert memory.status()["errors"] == {}
        assert_settled(gumem, agent, memory)
        memory.detach()


def assert_settled(gumem, agent, memory):
    """Nothing of a turn is left under way: another user of the same agent is served at once."""
    agent.activate_session(session_id="t")
    agent.input(NEXT).start()
    assert memory.status().get("overlapping", "") == ""
    assert pairs(gumem.user("bob").messages("t")) == [("user", NEXT), ("assistant", "It is three.")]


# --- turns at the same time


def at_once(agent, model, texts, *, threads):
    """Ask so many questions at once, each on its way before any is answered."""
    model.hold("chat")
    seen = len(model.chat_requests)
    turns = [agent.create_request() for _ in texts]
    if threads:
        with concurrent.futures.ThreadPoolExecutor(len(texts)) as pool:
            asked = [pool.submit(t.input(q).get_data) for t, q in zip(turns, texts, strict=True)]
            model.wait_for(seen + len(texts), "chat", timeout=60)
            model.release("chat")
            return [future.result(60) for future in asked]

    async def ask():
        asked = [t.input(q).async_get_data() for t, q in zip(turns, texts, strict=True)]
        together = asyncio.gather(*asked)
        await asyncio.to_thread(model.wait_for, seen + len(texts), "chat", timeout=60)
        model.release("chat")
        return await together

    return asyncio.run(ask())


def assert_no_gap(session):
    """What the window shows is the end of the history, whole."""
    full = [m.content for m in session.full_context]
    window = [m.content for m in session.context_window]
    assert window
    assert full[-len(window) :] == window


@pytest.mark.parametrize("threads", [False, True], ids=["tasks", "threads"])
def test_turns_of_one_session_at_once_are_each_kept_once(threads):
    """Nothing is lost, doubled, or dropped by a window that was replaced meanwhile."""
    count = 6
    texts = [f"My code word number {n} is zebra{n}." for n in range(count)]
    with (
        ScriptedModel(lambda r: f"Noted: {r.question}", memory=fact_answer) as model,
        GUMem() as gumem,
    ):
        agent = agent_of(model)
        when = EveryNTurns(2) | WindowExceeds(messages=4)
        memory = remembering(gumem, agent, when=when, keep=2, wait=10)
        for _ in range(2):
            answers = at_once(agent, model, texts, threads=threads)
            assert answers == [f"Noted: {text}" for text in texts]
            assert_no_gap(agent.activated_session)
        agent.input("What was the last code word?").start()
        stored = [m.content for m in gumem.user("alice").messages("s")]
        said = [*texts, *texts, "What was the last code word?"]
        assert sorted(stored) == sorted([*said, *(f"Noted: {text}" for text in said)])
        # What stands in the window, and what has left it, is all that was said.
        full = [m.content for m in agent.activated_session.full_context]
        assert len(full) == len(stored)
        window = [m.content for m in agent.activated_session.context_window]
        assert window[-1] == "Noted: What was the last code word?"
        assert len(window) <= 4
        memory.digest()
        digested = [
            m["text"]
            for r in model.memory_requests
            if r.memory_stage == "extract"
            for m in r.data["NEW MESSAGES"]
        ]
        assert sorted(digested) == sorted(stored)
        assert gumem.status()["errors"] == {}


def test_the_window_is_cut_where_agently_holds_it():
    """No list is handed back that would replace what another turn adds before it is taken over."""
    with ScriptedModel(memory=fact_answer) as model, GUMem() as gumem:
        agent = agent_of(model)
        agent.activate_session(session_id="s")
        when = WindowExceeds(messages=4)
        memory = gumem.session("alice", "s", agent=agent, when=when, keep=2)
        session = agent.activated_session
        say(session, *((f"My code word is zebra{n}.", "Noted.") for n in range(3)))
        held = session._full_context, session._context_window, session.memo
        given = (*held, session.session_settings)
        assert asyncio.run(memory.analysis_handler(*given)) == "compress_with_memo"
        assert asyncio.run(memory.execution_handler(*given))[:2] == (None, None)
        assert pairs(session.context_window) == [
            ("user", "My code word is zebra2."),
            ("assistant", "Noted."),
        ]
        assert len(session.full_context) == 6


def test_a_task_cancelled_while_it_waits_for_our_digest_has_kept_its_turn():
    """The turn was answered and journaled; the caller's giving up undoes neither."""
    with ScriptedModel(ANSWER, memory=fact_answer) as model, GUMem() as gumem:
        agent = agent_of(model)
        memory = remembering(gumem, agent, when=EveryNTurns(1), wait=30)
        running: concurrent.futures.Future[Any] = concurrent.futures.Future()

        async def ask():
            running.set_result((asyncio.get_running_loop(), asyncio.current_task()))
            return await agent.input(ASKED).async_start()

        model.hold("memory")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            turn = pool.submit(asyncio.run, ask())
            loop, task = running.result(10)
            model.wait_for(1, "memory")
            loop.call_soon_threadsafe(task.cancel)
            model.release("memory")
            concurrent.futures.wait([turn], timeout=30)
        assert turn.done()
        agent.input(NEXT).start()
        kept = [*ONCE, ("user", NEXT), ("assistant", ANSWER)]
        assert pairs(gumem.user("alice").messages("s")) == kept
        assert memory.flush(20)
        assert {m.status for m in gumem.user("alice").messages("s")} == {"processed"}
        assert gumem.status()["errors"] == {}


RETRIED = [path for path in PATHS if path.name.startswith("ensure_keys")][:-1]


@pytest.mark.parametrize("path", RETRIED, ids=lambda path: path.name)
def test_failed_attempts_stay_out_when_their_history_is_restored(path):
    """Another agent that is given the whole history, attempts and all, adds its own turn only."""
    with ScriptedModel(script(path), memory=fact_answer) as model, GUMem() as gumem:
        agent = agent_of(model)
        remembering(gumem, agent)
        outcome(path, agent, model)
        history = [{"role": m.role, "content": m.content} for m in full_of(agent)]
        other = agent_of(model)
        remembering(gumem, other)
        other.set_chat_history(history)
        other.input(NEXT).start()
        kept = [*DOG_KEPT, ("user", NEXT), ("assistant", "It is three.")]
        assert pairs(gumem.user("alice").messages("s")) == kept


def full_of(agent):
    """Return all that Agently holds of the active session."""
    return list(agent.activated_session.full_context)


# --- turns of two users on one agent

BOBS = "My cat is called Tiger."
HIS = "What is my cat called?"


def two_users(gumem):
    """Store what each of them has said before."""
    gumem.user("alice").add_messages({"content": KNOWN}, "x")
    gumem.user("bob").add_messages({"content": BOBS}, "x")


def by_question(request):
    """Answer each question with itself."""
    return f"Noted: {request.question}"


def of_session(gumem, user_id, session_id):
    """Read what is kept of a user's session."""
    return pairs(gumem.user(user_id).messages(session_id))


def assert_apart(requests):
    """No request of one user carries what the other has said."""
    for request in requests:
        other = KNOWN if "cat" in request.question else BOBS
        assert other not in json.dumps(request.messages)


def assert_bob_is_served(agent, gumem, model):
    """His next turn is recalled for, and kept."""
    before = of_session(gumem, "bob", "t")
    agent.activate_session(session_id="t")
    agent.input(HIS).start()
    assert BOBS in model.chat_requests[-1].memo_section
    kept = of_session(gumem, "bob", "t")[len(before) :]
    assert kept == [("user", HIS), ("assistant", f"Noted: {HIS}")]


def test_two_tasks_that_activate_and_ask_at_once_are_told_apart():
    """Each activates its session; both ask while the later one is active: neither is recalled."""
    with ScriptedModel(by_question, memory=fact_answer) as model, GUMem() as gumem:
        two_users(gumem)
        agent = agent_of(model)
        remembering(gumem, agent)

        async def ask(session_id, question, activated, other):
            agent.activate_session(session_id=session_id)
            activated.set()
            await other.wait()
            return await agent.create_request().input(question).async_get_data()

        async def both():
            hers, his = asyncio.Event(), asyncio.Event()
            return await asyncio.gather(ask("s", ASKED, hers, his), ask("t", HIS, his, hers))

        model.hold("chat")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answers = pool.submit(asyncio.run, both())
            model.wait_for(2, "chat")
            model.release("chat")
            assert answers.result(60) == [f"Noted: {ASKED}", f"Noted: {HIS}"]
        assert_apart(model.chat_requests)
        assert of_session(gumem, "alice", "s") == []
        assert of_session(gumem, "bob", "t") == []
        assert_bob_is_served(agent, gumem, model)


def test_a_stream_left_open_while_another_user_asks_is_not_kept():
    """Its answer lands in the other user's history: neither turn is kept, the next one is."""
    rest = threading.Event()

    def answer(request):
        if request.question == ASKED:
            return Reply(by_question(request), wait=rest, wait_after=1)
        return by_question(request)

    with ScriptedModel(answer, memory=fact_answer) as model, GUMem() as gumem:
        two_users(gumem)
        agent = agent_of(model)
        remembering(gumem, agent)
        agent.activate_session(session_id="s")
        stream = agent.input(ASKED).get_generator(type="delta")
        first = next(stream)
        agent.activate_session(session_id="t")
        assert agent.create_request().input(HIS).get_data() == f"Noted: {HIS}"
        rest.set()
        assert first + "".join(stream) == f"Noted: {ASKED}"
        assert_apart(model.chat_requests)
        assert of_session(gumem, "alice", "s") == []
        assert of_session(gumem, "bob", "t") == []
        assert_bob_is_served(agent, gumem, model)


OVER = [
    path
    for path in PATHS
    if path.name
    in (
        "an async generator closed early",
        "a task that is cancelled",
        "status 500",
        "status 500, async",
        "ensure_keys: wrong, no JSON, good",
        "an action",
    )
]


@pytest.mark.parametrize("path", OVER, ids=lambda path: path.name)
def test_another_user_who_asks_right_after_is_served(path):
    """A turn that failed, was left or took several requests is over: it overlaps with nobody's."""
    replies = script(path)

    def answer(request):
        if HIS not in request.text:
            return replies(request)
        plan = "next_action" in request.text or "use_tool" in request.text
        done = {"next_action": "response", "execution_commands": [], "response": f"Noted: {HIS}"}
        return done if plan else f"Noted: {HIS}"

    with ScriptedModel(answer, memory=fact_answer) as model, GUMem() as gumem:
        two_users(gumem)
        agent = of_agent(model, path)
        memory = remembering(gumem, agent)
        outcome(path, agent, model)
        assert_bob_is_served(agent, gumem, model)
        assert memory.status().get("overlapping", "") == ""
        assert of_session(gumem, "alice", "s") == list(path.kept_here())


async def test_a_flight_is_over_when_its_record_can_come_no_more():
    """A request that was answered and never recorded overlaps only with what may be its record."""
    now = [100.0]
    flights = Flights(clock=lambda: now[0])
    alice, bob = ("alice", "default"), ("bob", "default")

    async def carry(owner, asked):
        request = AnyRequest()

        async def take_off():
            flights.take_off(request, owner, asked)

        await asyncio.create_task(take_off())
        await asyncio.sleep(0)  # what waits for the end of that task runs
        return request

    hers = await carry(alice, "tea?")
    his = await carry(bob, "cake?")
    assert flights.overlapping() == ""
    assert flights.strayed(bob, "tea?")  # hers, late, in his session
    assert not flights.strayed(bob, "cake?")
    flights.land(his)
    his = await carry(bob, "tea?")
    assert "two users" in flights.overlapping()  # nobody could tell whose that is
    flights.approach(hers)
    now[0] += RECORDED_WITHIN + 1
    assert "two users" in flights.overlapping()  # however long it takes to record it
    flights.land(hers)
    assert flights.overlapping() == ""
    hers = await carry(alice, "tea?")
    his = await carry(bob, "tea?")
    assert "two users" in flights.overlapping()
    del hers, his  # nobody can ask for the answer any more
    assert flights.overlapping() == ""
    flying = AnyRequest()
    flights.take_off(flying, alice, "tea?")  # still carried
    his = await carry(bob, "cake?")
    assert "two users" in flights.overlapping()
    flights.land(flying)
    flights.land(his)
    assert flights.overlapping() == ""


async def test_a_request_that_failed_is_over_at_once():
    """Nothing is recorded of it any more, also where the next user asks the same."""
    flights, hers, his = Flights(), AnyRequest(), AnyRequest()

    async def fail():
        flights.take_off(hers, ("alice", "default"), "tea?")
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await asyncio.create_task(fail())
    await asyncio.sleep(0)  # what waits for the end of that task runs
    flights.take_off(his, ("bob", "default"), "tea?")
    assert flights.overlapping() == ""


@pytest.mark.parametrize("way", ["async_get_data", "async_get_text"])
async def test_a_failed_request_keeps_no_other_user_out(way, monkeypatch):
    """Agently asks handlers of an answer also where there is none: nothing will be recorded.

    The very same question of the next user, in the same task, is journaled then.
    """
    monkeypatch.setattr("agently_gumem.flights.RECORDED_WITHIN", 0.0)
    broken = iter([BROKEN[2]] * 2)
    with ScriptedModel(lambda _: next(broken, "Noted.")) as model, GUMem() as gumem:
        agent = agent_of(model)
        memory = gumem.attach(agent, user_id=lambda session_id: session_id, when=Manual())
        agent.activate_session(session_id="alice")
        with pytest.raises(Exception, match="500"):
            await getattr(agent.create_request().input("I drink oolong."), way)()
        agent.activate_session(session_id="bob")
        await getattr(agent.create_request().input("I drink oolong."), way)()
        assert (await memory.async_status())["overlapping"] == ""
        told = await gumem.user("bob").async_messages(role="user")
        assert [m.content for m in told] == ["I drink oolong."]
        assert await gumem.user("alice").async_messages() == []


async def test_an_answer_whose_record_was_broken_off_is_over():
    """Another handler raised before the end was noted: the task that recorded it is done."""
    flights, hers, his = Flights(), AnyRequest(), AnyRequest()

    async def take_off():
        flights.take_off(hers, ("alice", "default"), "tea?")

    async def record():
        flights.approach(hers)
        raise ConnectionError

    await asyncio.create_task(take_off())
    with pytest.raises(ConnectionError):
        await asyncio.create_task(record())
    await asyncio.sleep(0)  # what waits for the end of that task runs
    flights.take_off(his, ("bob", "default"), "tea?")
    assert flights.overlapping() == ""


async def test_each_of_two_alike_lands_by_itself():
    """A question that is asked twice at once is under way until both are recorded."""
    flights, first, second, his = Flights(), AnyRequest(), AnyRequest(), AnyRequest()
    alice, bob = ("alice", "default"), ("bob", "default")

    async def take_off(request):
        flights.take_off(request, alice, "tea?")

    for request in (first, second):
        await asyncio.create_task(take_off(request))
    await asyncio.sleep(0)
    flights.land(first)
    flights.take_off(his, bob, "tea?")
    assert "two users" in flights.overlapping()
    flights.land(second)
    flights.land(his)
    assert flights.overlapping() == ""


# --- the page


def test_the_page_tells_what_is_tested():
    """docs/call_paths.md has a row for each path, in this order, with what is kept."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ")
    ]
    told = [(row[0], row[2]) for row in rows if row[0] in {path.name for path in PATHS}]
    assert told == [(path.name, in_words(path)) for path in PATHS]


def in_words(path):
    """Say in the page's words what is kept of a turn."""
    words = _of(path.kept)
    for lo, before, kept in path.by_version:
        words += f"; {'.'.join(map(str, lo))} to below {'.'.join(map(str, before))}: {_of(kept)}"
    return words


def _of(kept):
    if not kept:
        return "nothing"
    answer = dict(kept).get("assistant")
    return "question" if answer is None else f"question, answer {answer.splitlines()!r}"
