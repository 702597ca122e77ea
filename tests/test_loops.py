"""Loops and threads: wherever an application calls from, the memory is the same."""

import asyncio
import concurrent.futures
import contextlib
import json
import logging
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pytest
from chromaserver import Server
from e2e import AnyRequest, agent_of, attached, fact_answer
from letters import Letters
from spawned import added

from agently_gumem import (
    Closed,
    EveryNTurns,
    GUMem,
    Limits,
    Manual,
    closing,
    host,
    scope,
    turns,
    worker,
)
from agently_gumem.errors import AFTER_A_FORK
from agently_gumem.flights import Flights
from agently_gumem.testing import ScriptedModel
from agently_gumem.threads import Lane, Overdue, Patience, run_alone
from agently_gumem.worker import Worker

pytestmark = pytest.mark.host

AGENTLY = tuple(int(part) for part in version("agently").split(".")[:3])
letters = Letters()


@pytest.fixture
def model():
    """A model that finds each message worth a Fact."""
    with ScriptedModel("Noted.", memory=fact_answer) as scripted:
        yield scripted


@pytest.fixture
def gumem():
    """A memory without an embedder that loads anything."""
    with GUMem(embedding_function=letters) as opened:
        yield opened


class Hang:
    """What a test lets hang until its end, and how it knows that somebody does."""

    def __init__(self) -> None:
        self.began, self.go = threading.Semaphore(0), threading.Event()

    def __call__(self, *_) -> None:
        """Hang."""
        self.began.release()
        assert self.go.wait(60)


@pytest.fixture
def hang():
    """Something that hangs until the test is over."""
    made = Hang()
    yield made
    made.go.set()


def said(user):
    """Read what a user said."""
    return sorted(m.content for m in user.messages(role="user"))


# --- from wherever it is called


def plain(agent, text):
    """Ask in a plain call."""
    return agent.input(text).start()


def threaded(agent, text):
    """Ask in a thread that ends with it."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(plain, agent, text).result(30)


def ran(agent, text):
    """Ask on a loop that ends with it."""
    return asyncio.run(_awaited(agent, text))


def blocking(agent, text):
    """Ask in a plain call in the middle of a running loop."""

    async def inside():
        return plain(agent, text)

    return asyncio.run(inside())


def on_uvloop(agent, text):
    """Ask on a loop of another make."""
    import uvloop

    loop = uvloop.new_event_loop()
    try:
        return loop.run_until_complete(_awaited(agent, text))
    finally:
        loop.close()


async def _awaited(agent, text):
    return await agent.input(text).async_start()


def test_one_agent_is_asked_from_everywhere_in_turn(model, gumem):
    """No lock or connection of ours belongs to the loop or the thread of the first call."""
    agent = agent_of(model)
    memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=10)
    ways = [plain, threaded, ran, blocking]
    ways += [on_uvloop] if sys.platform != "win32" else []
    texts = [f"I drink tea {n}." for n in range(2 * len(ways))]
    for way, text in zip([*ways, *ways], texts, strict=True):
        assert way(agent, text) == "Noted."
    assert said(gumem.user("alice")) == sorted(texts)
    assert memory.status()["facts"] == len(texts)
    assert gumem.status()["errors"] == {}
    assert "tea 3" in model.chat_requests[-1].memo_section


def test_many_threads_and_loops_share_one_user(gumem):
    """Locks are waited for on the worker's loop alone: each call runs on a loop of its own."""
    user = gumem.user("alice")
    together = threading.Barrier(8)

    def add(n):
        together.wait(20)
        message = {"content": f"I drink tea {n}."}
        if n % 2:
            return user.add_messages(message)
        return asyncio.run(user.async_add_messages(message))

    for _ in range(2):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(add, range(8)))
    assert len(said(user)) == 16


async def test_the_plain_form_works_inside_a_running_loop_and_beside_the_other(gumem):
    """A test's or a notebook's loop: the plain call blocks it, the awaited one does not."""
    user = gumem.user("alice")
    user.add_messages({"content": "I drink tea."})
    beside = asyncio.ensure_future(user.async_facts())
    assert (await user.async_query("tea")).formatted_context == user.query("tea").formatted_context
    assert await beside == []


def test_what_ends_after_its_loop_disturbs_nobody(gumem, caplog):
    """The loop that waited is closed: the answer has nowhere to go, and nothing is reported."""
    started, finish = threading.Event(), threading.Event()

    async def work():
        started.set()
        await gumem.worker.thread(finish.wait, 20)
        raise ValueError

    async def leave():
        task = asyncio.ensure_future(gumem.worker.arun(work))
        await asyncio.get_running_loop().run_in_executor(None, started.wait)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    finish.set()
    assert gumem.flush(10)
    gumem.close()
    assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []


# --- what the user's own turn keeps


@pytest.mark.parametrize("when", ["journal", "digest"])
def test_a_cancelled_turn_cancels_nothing_of_the_memory(when, model, gumem, hang):
    """What was said is stored, and its digest goes on."""
    if when == "journal":
        if AGENTLY < (4, 1, 4, 2):
            pytest.skip("its handlers hold the caller's loop: nothing is cancelled meanwhile")
        gumem.hooks.add("message.before_add", hang, timeout=60)
    agent = agent_of(model)
    memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=3)
    model.hold("memory")

    async def turn():
        task = asyncio.ensure_future(_awaited(agent, "I drink tea."))
        loop = asyncio.get_running_loop()
        if when == "journal":
            await loop.run_in_executor(None, hang.began.acquire)
        else:
            await loop.run_in_executor(None, model.wait_for, 1, "memory")
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(turn())
    model.release("memory")
    hang.go.set()

    async def journaled():
        async with gumem._engine.use("alice", "default") as held, held.journal_lock:
            return

    gumem.worker.run(journaled)
    assert gumem.flush(20)
    if when == "digest":
        assert memory.status()["facts"] == 1
    assert gumem.status()["errors"] == {}
    assert said(gumem.user("alice")) == ["I drink tea."]


@pytest.mark.skipif(AGENTLY < (4, 1, 4), reason="this version knows no limits of a run")
@pytest.mark.parametrize("awaited", [False, True])
def test_the_users_own_limit_is_not_spent(awaited, model, gumem):
    """A turn that may ask once asks once, and its digest, in no context of it, asks too."""
    agent = agent_of(model)
    memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=10)
    for n in range(2):
        turn = agent.input(f"I drink tea {n}.").create_execution(limits={"max_model_requests": 1})
        answer = asyncio.run(turn.async_start()) if awaited else turn.start()
        assert answer == "Noted."
    assert len(model.memory_requests) == 2
    assert memory.status()["errors"] == {}


# --- many users at once, and one of whom something hangs


def test_no_digest_waits_for_another_users(model, use):
    """Forty users' requests are at the model at the same time, and each answer is its user's."""
    users = 40
    free = {"concurrent": None} if "concurrent" in Limits.model_fields else {}
    use(model)
    with GUMem(embedding_function=letters, limits=free) as gumem:
        model.hold("memory")
        running = []
        for n in range(users):
            user = gumem.user(f"user {n}")
            user.add_messages({"content": f"I drink tea {n}."})
            running.append(gumem.worker.submit(user._digest))
        model.wait_for(users, "memory", timeout=60)
        assert not any(digest.done() for digest in running)
        model.release("memory")
        for digest in running:
            assert digest.result(60).new == 1
        for n in range(users):
            facts = gumem.user(f"user {n}").facts()
            assert [f.content for f in facts] == [f"I drink tea {n}."]
        assert not [t for t in threading.enumerate() if t.name == "gumem-model"]


def embedder_that_hangs(hang):
    """Embed, but for one user."""

    class Own(Letters):
        def __call__(self, texts):
            if any("hang" in text for text in texts):
                hang()
            return super().__call__(texts)

    return Own()


@pytest.mark.parametrize("what", ["embedder", "trigger", "hook"])
def test_what_hangs_for_one_user_holds_up_nobody_else(what, model, hang, monkeypatch):
    """However often it does: his own turns go on in bounded time too, and lose nothing."""
    monkeypatch.setattr(scope, "EMBED_WITHIN", -0.9)
    monkeypatch.setattr(turns, "CALLBACK_WITHIN", 0.1)
    monkeypatch.setattr(turns, "TURN_WITHIN", 5)
    monkeypatch.setattr(host, "RECALL_WITHIN", 5)
    function = embedder_that_hangs(hang) if what == "embedder" else letters
    with GUMem(embedding_function=function) as gumem:

        def asked(state):
            if state.session_id == "alice":
                hang()
            return False

        def looked(event):
            if event.user_id == "alice":
                hang()

        if what == "hook":
            gumem.hooks.add("message.before_add", looked, timeout=0.1)
        agents = {}
        for name in ("alice", "bob"):
            agents[name] = agent = agent_of(model)
            gumem.attach(agent, user_id=name, when=asked if what == "trigger" else Manual())
            agent.activate_session(session_id=name)
        for n in range(6):
            assert agents["alice"].input(f"I hang {n}.").start() == "Noted."
        assert hang.began.acquire(timeout=10)
        assert agents["bob"].input("I drink tea.").start() == "Noted."
        assert gumem.user("bob").status()["errors"] == {}
        assert len(said(gumem.user("alice"))) == 6
        hanging = [t for t in threading.enumerate() if t.name.startswith("gumem-")]
        assert len(hanging) < 12
        hang.go.set()


def test_a_store_that_hangs_holds_no_turn_for_long(model, gumem, hang, monkeypatch):
    """The turn is answered without its journal, which is made up for when the store is back."""
    agent = agent_of(model)
    memory = attached(gumem, agent, "s", when=Manual())
    assert agent.input("I drink tea.").start() == "Noted."
    gate, shut = gumem._engine.services.store._gate, threading.Event()

    def hold():
        with gate.shut():
            shut.set()
            hang()

    holder = threading.Thread(target=hold)
    holder.start()
    assert shut.wait(20)
    with monkeypatch.context() as impatient:
        impatient.setattr(turns, "TURN_WITHIN", 0.1)
        impatient.setattr(host, "RECALL_WITHIN", 0.1)
        for n in range(4):
            assert agent.input(f"I drink milk {n}.").start() == "Noted."
    hang.go.set()
    holder.join(20)
    assert agent.input("I drink water.").start() == "Noted."
    assert memory.flush(20)
    stored = [m.content for m in memory.user.messages(role="user")]
    assert stored == ["I drink tea.", *(f"I drink milk {n}." for n in range(4)), "I drink water."]


# --- processes


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A Chroma server."""
    with Server(tmp_path_factory.mktemp("served")) as started:
        yield started


@pytest.fixture(scope="module")
def forked(server, tmp_path_factory):
    """What the child of a fork found, and its parent after it; see `forks.py`."""
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    script = Path(__file__).with_name("forks.py")
    folder = str(tmp_path_factory.mktemp("forked"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), folder, str(server.port)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(script.parents[1])},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_fork_on_an_embedded_path_is_closed_and_says_so(forked):
    """Its agent answers without memory, its status tells, and the parent goes on."""
    assert forked["child"]["embedded"] == {
        "refused": f"this GUMem belongs to the parent process: {AFTER_A_FORK}",
        "answered": "Noted.",
        "closed": True,
    }
    assert forked["parent"]["embedded"] == ["I drink milk.", "I drink tea."]


def test_a_fork_of_a_process_that_used_chroma_opens_no_other(forked):
    """Chroma would hang there, at the first index that it reads."""
    own, embedded, memory = forked["child"]["own"]
    assert own == memory
    assert "forked from one that had used Chroma" in own
    assert "in use by process" in embedded or embedded == own


def test_a_fork_on_a_server_opens_anew(forked):
    """Whatever thread, lock or connection the parent had, its agents remember in the child too."""
    assert forked["child"]["server"] == {
        "refused": "",
        "answered": "Noted.",
        "closed": False,
        "said": ["I drink juice.", "I drink tea."],
        "recalled": True,
        "turn": "waiting",  # the parent digests this user
        "facts": ["I drink cocoa."],
        "errors": {},
    }
    assert forked["parent"]["server"] == ["I drink juice.", "I drink milk.", "I drink tea."]


def test_a_session_goes_over_to_a_spawned_process_by_its_ref(server):
    """The reference is plain data; the memory itself says that it does not go."""
    with GUMem(client=server.client(), embedding_function=letters) as gumem:
        memory = gumem.session("carol", "s")
        memory.user.add_messages({"content": "I drink tea."}, "s")
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            seen = pool.apply(added, (server.port, memory.ref()))
        assert seen == ["I drink tea.", "I drink milk."]
        assert said(memory.user) == ["I drink milk.", "I drink tea."]
        for thing in (gumem, memory, memory.user):
            with pytest.raises(TypeError, match=r"session\.ref\(\)"):
                pickle.dumps(thing)


# --- the threads themselves


def test_a_lane_makes_threads_as_they_are_needed_and_no_more():
    """Those that are free are used again, and what comes while all are taken waits."""
    lane, together = Lane("lane", 3), threading.Barrier(4)
    busy = [lane.submit(together.wait, 20) for _ in range(3)]
    waits = lane.submit(threading.current_thread)
    assert not waits.done()
    assert not lane.idle(0)
    places = {together.wait(20), *(b.result(20) for b in busy)}
    assert places == {0, 1, 2, 3}
    assert waits.result(20).daemon
    names = {lane.submit(threading.current_thread).result(20).name for _ in range(9)}
    assert names <= {"lane_0", "lane_1", "lane_2"}
    assert lane.idle(20)
    lane.shutdown()
    with pytest.raises(RuntimeError, match="closed"):
        lane.submit(int)


def test_a_lane_that_is_closed_drops_what_waits(hang):
    """Whoever waits for it is told, and what runs ends as it may."""
    lane = Lane("lane", 1)
    runs = lane.submit(hang)
    assert hang.began.acquire(timeout=20)
    waits = lane.submit(int)
    lane.shutdown()
    assert waits.cancelled()
    hang.go.set()
    assert runs.result(20) is None


def test_a_lane_that_nobody_holds_ends_its_threads():
    """A memory that is dropped without a close leaves no thread behind."""
    lane = Lane("dropped", 2)
    thread = lane.submit(threading.current_thread).result(20)
    del lane
    thread.join(20)
    assert not thread.is_alive()


def test_a_loop_of_its_own_looks_names_up_in_daemon_threads():
    """The interpreter's end does not wait for a name server, and its executors are not needed."""

    async def look_up():
        return await asyncio.get_running_loop().run_in_executor(None, threading.current_thread)

    assert run_alone(look_up()).daemon


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_what_is_on_its_way_in_the_parent_is_not_so_in_the_child():
    """A turn of the parent never lands in the child, where it would keep another user out."""
    flights, request = Flights(), AnyRequest()

    async def take_off(name):
        flights.take_off(request, (name, "default"))
        await asyncio.sleep(0)

    asyncio.run(take_off("alice"))
    child = os.fork()
    if child == 0:
        asyncio.run(take_off("bob"))
        os._exit(bool(flights.overlapping()))
    assert os.waitpid(child, 0)[1] == 0
    asyncio.run(take_off("bob"))
    assert flights.overlapping()


def test_who_waited_in_vain_waits_less_for_a_while():
    """Of one owner; until something succeeds, or the while is over, however often it fails."""
    now = [0.0]
    patience = Patience(2.0, 60.0, clock=lambda: now[0])
    assert patience.of("alice", 30.0) == 30.0
    patience.lose("alice")
    assert (patience.of("alice", 30.0), patience.of("alice", 1.0)) == (2.0, 1.0)
    assert patience.of("bob", 30.0) == 30.0
    now[0] = 59.0
    patience.lose("alice")
    now[0] = 61.0
    assert patience.of("alice", 30.0) == 30.0
    patience.lose("alice")
    patience.regain("alice")
    assert patience.of("alice", 30.0) == 30.0


async def test_a_step_that_hangs_costs_the_next_turn_little(monkeypatch):
    """After one was given up, the next are waited for `IMPATIENT` seconds; a success ends that."""
    monkeypatch.setattr("agently_gumem.worker.IMPATIENT", 0.05)
    worker = Worker()

    async def hang():
        await asyncio.wrap_future(hanging)

    async def answer():
        return "here"

    hanging = concurrent.futures.Future()
    try:
        for owner in ("alice", "bob"):
            with pytest.raises(TimeoutError, match=r"within 0\.07 s"):
                await worker.within(0.07, owner, hang)
        with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
            await worker.within(30, "alice", hang)
        assert await worker.within(30, "bob", answer) == "here"
        with pytest.raises(TimeoutError, match=r"within 0\.06 s"):
            await worker.within(0.06, "bob", hang)
        hanging.set_result(None)
    finally:
        worker.close()


def test_what_is_overdue_is_counted_until_it_ends():
    """Of one owner, and in all."""
    lane, overdue, hang = Lane("lane", 4), Overdue(each=1, most=2), Hang()
    for owner in ("alice", "bob"):
        overdue.check(owner)
        overdue.add(owner, lane.submit(hang))
        with pytest.raises(TimeoutError):
            overdue.check(owner)
    with pytest.raises(TimeoutError):
        overdue.check("carol")
    hang.go.set()
    assert lane.idle(20)
    for owner in ("alice", "bob", "carol"):
        overdue.check(owner)


async def test_a_function_that_hangs_is_left_behind_and_refused_then(hang):
    """Two of one owner; another owner's are called all the same."""
    made = Worker()
    for _ in range(2):
        with pytest.raises(TimeoutError, match="no answer within"):
            await made.arun(made.apart, 0.05, "alice", hang)
    with pytest.raises(TimeoutError, match="have not ended"):
        await made.arun(made.apart, 5, "alice", int)
    assert await made.arun(made.apart, 5, "bob", int) == 0
    hang.go.set()
    made.close()
    assert worker.CALLBACK_WITHIN < closing.STOP_WITHIN + 1


def test_use_after_the_loop_of_the_application_has_ended(gumem):
    """Each `asyncio.run` is a new one, and none of them is the memory's."""
    user = gumem.user("alice")
    for n in range(3):
        asyncio.run(user.async_add_messages({"content": f"I drink tea {n}."}))
    assert len(said(user)) == 3
    gumem.close()
    with pytest.raises(Closed):
        asyncio.run(user.async_facts())
