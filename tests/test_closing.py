"""Closing: in bounded time, from wherever it is called, and what is left of a memory after it."""

import asyncio
import contextlib
import dataclasses
import inspect
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from e2e import agent_of, attached, fact_answer
from letters import Letters

from agently_gumem import Closed, ConfigError, EveryNTurns, GUMem, Manual, closing
from agently_gumem.agent import AgentMemory
from agently_gumem.rows import flag_row
from agently_gumem.session import MemorySession
from agently_gumem.testing import ScriptedModel
from agently_gumem.user import UserMemory

pytestmark = pytest.mark.host


letters = Letters()


@pytest.fixture
def model():
    """A model that finds each message worth a Fact."""
    with ScriptedModel("Noted.", memory=fact_answer) as scripted:
        yield scripted


@pytest.fixture
def soon(monkeypatch):
    """Shorten each of the bounds of closing, and give the sum of them."""
    monkeypatch.setattr(closing, "STOP_WITHIN", 0.6)
    monkeypatch.setattr(closing, "_END_WITHIN", 0.2)
    monkeypatch.setattr(closing, "_HOOKS_WITHIN", 0.2)
    return 2.5


class Hang:
    """What a test lets hang until its end, and how it knows that somebody does."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()

    def __call__(self, *_) -> None:
        """Hang."""
        self.began.set()
        assert self.go.wait(60)


@pytest.fixture
def hang():
    """Something that hangs until the test is over."""
    made = Hang()
    yield made
    made.go.set()


# --- whatever hangs


def hanging_model(model, hang):
    """Begin a digest whose request is never answered."""
    gumem = GUMem(embedding_function=letters)
    model.hold("memory")
    agent = agent_of(model)
    attached(gumem, agent, "s", when=EveryNTurns(1), wait=0)
    agent.input("I drink tea.").start()
    model.wait_for(1, "memory")
    return gumem


def hanging_hook(model, hang):
    """Begin a digest that waits for a hook of the application."""
    gumem = GUMem(embedding_function=letters)
    gumem.hooks.add("fact.before_add", hang, timeout=60)
    agent = agent_of(model)
    attached(gumem, agent, "s", when=EveryNTurns(1), wait=0)
    agent.input("I drink tea.").start()
    assert hang.began.wait(20)
    return gumem


def hanging_trigger(model, hang):
    """Have a session that asks its trigger at its end, and gets no answer."""
    gumem = GUMem(embedding_function=letters)

    def when(state):
        if state.ended:
            hang()
        return False

    agent = agent_of(model)
    attached(gumem, agent, "s", when=when)
    agent.input("I drink tea.").start()
    agent.deactivate_session()
    assert hang.began.wait(20)
    return gumem


def hanging_embedder(model, hang):
    """Store what the application's embedder never comes back from."""

    def embed(texts):
        if any("tea" in t for t in texts):
            hang()
        return letters(texts)

    gumem = GUMem(embedding_function=embed)
    gumem.user("bob").add_messages({"content": "I drink milk."})
    _beside(lambda: gumem.user("alice").add_messages({"content": "I drink tea."}))
    assert hang.began.wait(20)
    return gumem


def hanging_store(model, hang):
    """Write while the gate of the store is shut, as it is while its files are cleaned."""
    gumem = GUMem(embedding_function=letters)
    gate = gumem._engine.services.store._gate

    def shut():
        with gate.shut():
            hang()

    _beside(shut)
    assert hang.began.wait(20)
    rows, writing = gumem._engine.services.store.scope("alice", "default"), threading.Event()

    def write():
        writing.set()
        rows.write([flag_row("state", "state", paused=False)])

    gumem.worker.submit(gumem.worker.storing, write)
    assert writing.wait(20)
    return gumem


def _beside(call):
    """Call in a thread; that the memory is closed meanwhile is what it is told."""

    def told():
        with contextlib.suppress(Closed):
            call()

    threading.Thread(target=told, daemon=True).start()


HANGING = [hanging_model, hanging_hook, hanging_trigger, hanging_embedder, hanging_store]


@pytest.mark.parametrize("begin", HANGING)
def test_it_ends_in_bounded_time_whatever_hangs(begin, model, hang, soon, caplog):
    """A model, a hook, a trigger, an embedder or the store: none holds it up."""
    gumem = begin(model, hang)
    before = gumem.status()
    began = time.monotonic()
    gumem.close(timeout=0.2)
    assert time.monotonic() - began < soon
    after = gumem.status()
    assert after.keys() == before.keys()
    assert (after["closed"], after["store"], after["limits"]) == (True, None, None)
    with pytest.raises(Closed):
        gumem.user("alice")
    left_open = "left open" in caplog.text
    assert left_open == (begin is hanging_store)


def test_a_write_that_is_under_way_is_waited_for(hang, tmp_path):
    """The store is not closed below it, and what it wrote is there."""
    gumem = GUMem(tmp_path, embedding_function=letters)
    user = gumem.user("alice")
    user.add_messages({"content": "I drink tea."})
    rows = gumem._engine.services.store.scope("alice", "default")
    (kept,) = (row for row in rows.load() if row.layer == "message")

    def write():
        hang()
        rows.write([dataclasses.replace(kept, id="late")])

    gumem.worker.submit(gumem.worker.storing, write)
    assert hang.began.wait(20)
    over = threading.Thread(target=gumem.close, kwargs={"timeout": 0})
    over.start()
    gumem.worker._thread.join(20)  # everything but the store has ended
    assert over.is_alive()
    hang.go.set()
    over.join(20)
    assert not over.is_alive()
    with GUMem(tmp_path, embedding_function=letters) as again:
        rows = again._engine.services.store.scope("alice", "default")
        assert "late" in {row.id for row in rows.load()}


def test_a_store_that_does_not_close_is_left(hang, soon, caplog, monkeypatch):
    """Its end is waited for no longer than that of anything else."""
    gumem = GUMem(embedding_function=letters)
    gumem.user("alice").add_messages({"content": "I drink tea."})
    store = gumem._engine.services.store
    close = store.close
    monkeypatch.setattr(store, "close", lambda: (hang(), close()))
    began = time.monotonic()
    gumem.close(timeout=0)
    assert time.monotonic() - began < soon
    assert "did not close in time" in caplog.text


# --- from wherever it is called


def test_who_closes_second_waits_for_the_first(model):
    """When any `close` has returned, the memory is closed and its digest is stored."""
    gumem = GUMem(embedding_function=letters)
    model.hold("memory")
    agent = agent_of(model)
    attached(gumem, agent, "s", when=EveryNTurns(1), wait=0)
    agent.input("I drink tea.").start()
    model.wait_for(1, "memory")
    seen = []

    def close():
        gumem.close()
        seen.append(gumem.status()["closed"])

    threads = [threading.Thread(target=close) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert seen == []
    model.release("memory")
    for thread in threads:
        thread.join(20)
    assert seen == [True] * 4
    gumem.close()
    assert gumem.usage()["requests"] == 1


@pytest.mark.parametrize("twin", [False, True])
def test_a_hook_of_a_digest_may_close(twin, model, tmp_path):
    """It waits for no digest, since the digest waits for it; what waited waits for the next."""
    gumem = GUMem(tmp_path, embedding_function=letters)
    closed = threading.Event()

    def plain(event):
        gumem.close()
        closed.set()

    async def awaited(event):
        await gumem.async_close()
        closed.set()

    gumem.hooks.add("fact.before_add", awaited if twin else plain, timeout=60)
    agent = agent_of(model)
    attached(gumem, agent, "s", when=EveryNTurns(1), wait=0)
    began = time.monotonic()
    agent.input("I drink tea.").start()
    assert closed.wait(20)
    assert time.monotonic() - began < 8
    with GUMem(tmp_path, embedding_function=letters) as again:
        assert [m.status for m in again.user("alice").messages()] == ["pending", "pending"]


def test_a_trigger_may_close_and_its_turn_goes_on(model):
    """A trigger is asked in a turn, which is answered all the same."""
    gumem = GUMem(embedding_function=letters)

    def when(state):
        gumem.close()
        return True

    agent = agent_of(model)
    attached(gumem, agent, "s", when=when)
    assert agent.input("I drink tea.").start() == "Noted."
    assert gumem.status()["closed"]


def test_it_can_be_closed_on_its_own_thread():
    """Where it can't wait for itself it says so by ending soon after."""
    gumem = GUMem(embedding_function=letters)
    gumem.user("alice").add_messages({"content": "I drink tea."})

    async def inside():
        gumem.close()

    with contextlib.suppress(Closed):
        gumem.worker.run(inside)
    gumem.close()
    assert gumem.status()["closed"]


def test_a_cancelled_caller_cancels_no_close(model, tmp_path):
    """Whoever awaited it may be gone; the digest that it waits for is stored."""
    gumem = GUMem(tmp_path, embedding_function=letters)
    model.hold("memory")
    agent = agent_of(model)
    attached(gumem, agent, "s", when=EveryNTurns(1), wait=0)
    agent.input("I drink tea.").start()
    model.wait_for(1, "memory")

    async def leave():
        task = asyncio.ensure_future(gumem.async_close())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    model.release("memory")
    gumem.close()
    with GUMem(tmp_path, embedding_function=letters) as again:
        assert [f.content for f in again.user("alice").facts()] == ["I drink tea."]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals here")
def test_a_signals_handler_closes_in_the_middle_of_a_close(model, soon):
    """It does not wait for what it interrupts, which goes on when it returns."""
    gumem = GUMem(embedding_function=letters)
    model.hold("memory")
    agent = agent_of(model)
    attached(gumem, agent, "s", when=EveryNTurns(1), wait=0)
    agent.input("I drink tea.").start()
    model.wait_for(1, "memory")
    handled = []

    def handle(number, frame):
        gumem.close(timeout=5)
        handled.append(number)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        main = threading.get_ident()
        timer = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGUSR1))
        timer.start()
        began = time.monotonic()
        gumem.close(timeout=0.5)
        timer.join()
        assert handled == [signal.SIGUSR1]
        assert time.monotonic() - began < soon + 0.5
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_memory_whose_thread_has_ended_says_so_and_closes():
    """Nobody waits for a loop that runs no more, neither who called before nor who calls after."""
    gumem = GUMem(embedding_function=letters)
    started = threading.Event()

    async def wait():
        started.set()
        await asyncio.Event().wait()

    told = []

    def waits():
        try:
            gumem.worker.run(wait)
        except Closed as error:
            told.append(str(error))

    waiting = threading.Thread(target=waits, daemon=True)
    waiting.start()
    assert started.wait(20)
    loop, thread = gumem.worker.loop, gumem.worker._thread
    loop.call_soon_threadsafe(asyncio.all_tasks(loop).pop().cancel)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(20)
    waiting.join(20)
    assert told == ["this GUMem was closed during the call"]
    with pytest.raises(Closed, match="has ended"):
        gumem.user("alice").facts()
    gumem.close()
    assert gumem.status()["closed"]


# --- after it


SAMPLES = {
    "query": "tea",
    "name": "choosing",
    "text": "tea",
    "user_id": "alice",
    "session_id": "s",
    "ref": {"user_id": "alice", "space": "default", "session_id": "s"},
    "record": "x",
    "value": "x",
}
# What tells, takes apart, or is called by the host, which gets nothing and goes on.
STILL = {
    GUMem: "usage status close",
    UserMemory: "status config recall note_failure",
    AgentMemory: "status ref detach session",
    MemorySession: (
        "status ref detach analysis_handler execution_handler context_for guarded failed note_end "
        "catch_up let_go prepare turn_recorded took owner note_failure end_stage begin_stage"
    ),
}


def uses(thing):
    """List the public methods of an object, and what each is called with."""
    for name, method in inspect.getmembers(type(thing), inspect.isfunction):
        if name.startswith("_") or name.removeprefix("async_") in STILL[type(thing)].split():
            continue
        needed = [
            p
            for p in list(inspect.signature(method).parameters.values())[1:]
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
        positional = [SAMPLES.get(p.name, "x") for p in needed if p.kind != p.KEYWORD_ONLY]
        keywords = {p.name: SAMPLES.get(p.name, "x") for p in needed if p.kind == p.KEYWORD_ONLY}
        yield name, getattr(thing, name), positional, keywords


def ended(method, positional, keywords):
    """Call a method, or await it."""
    answer = method(*positional, **keywords)
    return asyncio.run(answer) if inspect.isawaitable(answer) else answer


def test_each_public_method_says_that_it_is_closed(model):
    """Plain or awaited, of each of the four objects: one clear error, not another one."""
    gumem = GUMem(embedding_function=letters)
    agent = agent_of(model)
    memory = gumem.attach(agent, user_id="alice", when=Manual())
    agent.activate_session(session_id="s")
    things = [gumem, gumem.user("alice"), memory.session(), memory]
    gumem.close()
    seen = 0
    for thing in things:
        for name, method, positional, keywords in uses(thing):
            with pytest.raises(Closed, match="open a new one"):
                pytest.fail(f"{type(thing).__name__}.{name}: {ended(method, positional, keywords)}")
            seen += 1
        with pytest.raises(Closed, match="open a new one"):
            _ = thing.memo if not isinstance(thing, GUMem) else thing.user("alice")
    assert seen > 60
    assert {type(t) for t in things} == {GUMem, UserMemory, MemorySession, AgentMemory}


def test_what_stands_is_told_after_it(model):
    """Each status says that it is closed, without the counts, which are the store's to tell."""
    gumem = GUMem(embedding_function=letters)
    agent = agent_of(model)
    memory = gumem.attach(agent, user_id="alice", when=Manual())
    agent.activate_session(session_id="s")
    session = memory.session()
    assert not session.status()["closed"]
    gumem.close()
    agent.deactivate_session()
    for told in (
        session.status(),
        memory.status(),
        memory.user.status(),
        asyncio.run(memory.async_status()),
        asyncio.run(session.async_status()),
        asyncio.run(memory.user.async_status()),
    ):
        assert told["closed"]
        assert (told["user_id"], told.get("active", False)) == ("alice", False)
        assert told["pending"] is None


def test_turns_go_on_without_memory_and_it_is_said_once(model, caplog):
    """The agent answers as it did, nothing is raised, and the log is not filled."""
    gumem = GUMem(embedding_function=letters)
    agent = agent_of(model)
    memory = gumem.attach(agent, user_id="alice", when=EveryNTurns(1))
    agent.activate_session(session_id="s")
    assert agent.input("I drink tea.").start() == "Noted."
    gumem.close()
    caplog.clear()
    caplog.set_level(logging.INFO, "agently_gumem")
    before = len(model.memory_requests)
    assert agent.input("I drink milk.").start() == "Noted."
    assert asyncio.run(agent.input("I drink water.").async_start()) == "Noted."
    assert "".join(agent.input("I drink juice.").get_generator(type="delta")) == "Noted."
    agent.activate_session(session_id="t")
    assert agent.input("I drink soup.").start() == "Noted."
    agent.deactivate_session()
    said = [r.getMessage() for r in caplog.records if r.name == "agently_gumem"]
    assert said == ["this memory is closed: the agent's turns go on without it"]
    assert len(model.memory_requests) == before
    memory.detach()
    assert agent.input("I drink ink.").start() == "Noted."


# --- the interpreter's end


SCENARIOS = ["left", "hanging", "terminated", "threaded", "at_exit"]
NOISE = ("Traceback", "never retrieved", "was destroyed", "cannot schedule", "never awaited")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_interpreters_end_is_quiet_bounded_and_loses_nothing(tmp_path):
    """Closed or not, with a digest under way, something hanging, or its executors gone.

    One process loads what all of them need, and forks for each: a fork ends as any process does.
    """
    script = Path(__file__).with_name("exits.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), *SCENARIOS],
        capture_output=True,
        text=True,
        timeout=150,
        env={**os.environ, "PYTHONPATH": str(script.parents[1])},
    )
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout)
    assert set(ended) == set(SCENARIOS)
    for name, how in ended.items():
        assert how["code"] == 0, (name, how)
        assert not [sign for sign in NOISE if sign in how["said"]], (name, how["said"])
        assert how["seconds"] < 20, (name, how)
        with GUMem(tmp_path / name, embedding_function=letters) as gumem:
            user = gumem.user("alice")
            assert [m.content for m in user.messages()] == ["I drink tea.", "Noted."], name
            waits = {m.status for m in user.messages()}
            assert waits == ({"processed"} if name == "threaded" else {"pending"}), name


@pytest.mark.parametrize("timeout", ["x", None, float("nan"), True])
def test_a_time_that_is_none_closes_nothing(timeout):
    """What is no number of seconds is said, and the memory goes on; for ever is a day."""
    gumem = GUMem(embedding_function=letters)
    with pytest.raises(ConfigError, match="takes seconds"):
        gumem.close(timeout)
    if timeout is not None:
        with pytest.raises(ConfigError, match="takes seconds"):
            gumem.flush(timeout)
    assert gumem.user("alice").messages() == []
    gumem.close(float("inf"))
