"""What Agently does behind one's back, and what of it must not be felt: a test for each trap."""

import asyncio
import concurrent.futures
import json
import os
import select
import signal
import subprocess
import sys
import threading

import chromadb
import pytest
from e2e import PLANTED, agent_of, attached, fact_answer, pairs, say, seeded

from agently_gumem import (
    Closed,
    EveryNTurns,
    GUMem,
    GUMemError,
    Manual,
    SessionEnd,
    WindowExceeds,
)
from agently_gumem.embedder import BundledEmbedder
from agently_gumem.testing import Reply, RuleModel, ScriptedModel

pytestmark = pytest.mark.host

NASTY = "  I write ${input} and ${output} in my templates,\u2028 then {x}, ${ENV.HOME}.\n\n  - so"


@pytest.fixture
def model():
    """A chat model that adds nothing, and a memory model that keeps the user's own words."""
    with ScriptedModel("Noted.", memory=fact_answer) as model:
        yield model


@pytest.fixture
def gumem():
    """A store in memory."""
    with GUMem() as gumem:
        yield gumem


class Flaky(BundledEmbedder):
    """The real embedder, until it is broken."""

    broken = False

    def __call__(self, input):
        """Embed, or fail."""
        if self.broken:
            raise RuntimeError("the embedder is broken")
        return super().__call__(input)


# --- handlers


def test_a_handler_that_runs_twice_a_turn_counts_it_once(model, gumem):
    """Analysis runs after the question and after the answer: one turn, two messages, one digest."""
    agent = agent_of(model)
    memory = attached(gumem, agent, "s", when=EveryNTurns(2))
    for place, (told, _, _) in enumerate(PLANTED[:4], 1):
        agent.input(told).start()
        assert len(gumem.user("alice").messages()) == 2 * place
        assert memory.flush(10)
        asked = [r for r in model.memory_requests if r.memory_stage == "extract"]
        assert len(asked) == place // 2


@pytest.mark.parametrize("way", [attached, seeded])
def test_a_broken_embedder_never_reaches_the_user(way, model):
    """An embedder that raises costs vectors, not the answer and not what was said."""
    embedder = Flaky()
    with GUMem(embedding_function=embedder) as gumem:
        agent = agent_of(model)
        memory = way(gumem, agent, "s", when=EveryNTurns(1), wait=10)
        embedder.broken = True
        assert agent.input("My dog is called Biscuit.").start() == "Noted."
        assert "".join(agent.input("My car is a Skoda.").get_generator(type="delta")) == "Noted."
        assert memory.status()["messages"] == 4
        assert memory.status()["last_error"]["error"] == "EmbedderError"
        embedder.broken = False
        assert agent.input("My cat is called Minka.").start() == "Noted."
        assert len(gumem.user("alice").messages("s")) == 6


def test_a_broken_store_never_reaches_the_user(model):
    """Collections that vanish under us cost memory, not the answer, and status() tells."""
    client = chromadb.EphemeralClient()
    with GUMem(client=client, namespace="vanishing") as gumem:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1))
        agent.input("My dog is called Biscuit.").start()
        memory.flush(10)
        for collection in client.list_collections():
            name = getattr(collection, "name", collection)
            if name.startswith("vanishing"):
                client.delete_collection(name)
        assert agent.input("My car is a Skoda.").start() == "Noted."
        assert gumem.status()["errors"]["analysis"] >= 1
        assert gumem.status()["last_error"]["error"] == "StoreError"
        # The question itself must not be lost to Agently's own history.
        assert len(agent.activated_session.full_context) == 4


def test_the_lists_that_a_handler_gets_are_not_changed(model, gumem):
    """What Agently hands over is its live list: a cut is returned, never made in place."""
    agent = agent_of(model)
    memory = attached(gumem, agent, "s", when=WindowExceeds(messages=3), keep=1)
    session = agent.activated_session
    say(session, ("My dog is called Biscuit.", "Noted."))
    full, window = list(session.full_context), [*session.context_window, *session.context_window]
    before = list(window)
    given = (full, window, None, session.session_settings)
    assert asyncio.run(memory.analysis_handler(*given)) == "compress_with_memo"
    kept = asyncio.run(memory.execution_handler(*given))
    assert window == before
    assert kept[0] is None
    assert kept[1] == window[2:]


def test_a_trigger_that_raises_or_blocks_on_the_memory_harms_no_turn(model, gumem):
    """A developer's trigger may ask the memory itself, and may fail: the turn goes on."""
    agent = agent_of(model)
    seen = []

    def when(state):
        seen.append((state.turns, len(gumem.user("alice").messages())))
        raise ZeroDivisionError

    memory = attached(gumem, agent, "s", when=when)
    assert agent.input("My dog is called Biscuit.").start() == "Noted."
    assert seen == [(1, 2)]
    assert memory.status()["last_error"]["error"] == "ZeroDivisionError"


# --- what reaches the model


def test_the_text_survives_what_agently_does_to_a_prompt():
    """Indentation, `${input}`, U+2028 and a JSON round trip change nothing that was remembered."""
    with RuleModel("Noted.") as model, GUMem() as gumem:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=10)
        agent.input(NASTY).start()
        assert agent.activated_session.memo is None or isinstance(agent.activated_session.memo, str)
        saved = agent.activated_session.get_json_session()
        assert "\u2028" not in (agent.activated_session.memo or "")
        agent.activate_session(session_id="t")
        agent.input("What do I write in my templates?").start()
        section = model.chat_requests[-1].memo_section
        assert "input}" in section
        assert "[INPUT]" not in section
        assert "[OUTPUT]" not in section
        assert "{x}" in section
        assert memory.user.messages("s")[0].content.count("\u2028") == 0
        # Agently can't load its own user's U+2028: only what is ours must be free of it.
        loaded = json.loads(saved)["memo"]
        assert loaded is None or "\u2028" not in loaded


@pytest.mark.parametrize("when", [WindowExceeds(messages=4), WindowExceeds(chars=120)])
def test_the_window_always_begins_with_a_question(when, gumem):
    """A cut never leaves an answer first, for which Agently would invent a question."""
    answers = iter(["Noted.", "", "Noted.", "Noted.", "", "Noted.", "Noted.", "Noted."])
    with ScriptedModel(lambda _: next(answers)) as model:
        agent = agent_of(model)
        attached(gumem, agent, "s", when=when, keep=1)
        for told, _, _ in PLANTED[:8]:
            agent.input(told).start()
            window = agent.activated_session.context_window
            assert window[0].role == "user"
        assert len(window) < 8
        for request in model.chat_requests:
            assert request.messages[0]["role"] == "user"
            assert "CHAT HISTORY" not in json.dumps(request.messages)


def test_a_system_message_first_in_the_history_is_kept_out_of_harm(model, gumem):
    """A history that the application sets with a system message is journaled and can be cut."""
    agent = agent_of(model)
    attached(gumem, agent, "s", when=WindowExceeds(messages=3), keep=1)
    agent.activated_session.set_chat_history(
        [
            {"role": "system", "content": "You are a tea expert."},
            {"role": "user", "content": "My dog is called Biscuit."},
            {"role": "assistant", "content": "Noted."},
        ]
    )
    agent.input("My car is a Skoda.").start()
    agent.input("What is my dog called?").start()
    assert "Biscuit" in model.chat_requests[-1].memo_section
    assert gumem.status()["errors"] == {}


# --- requests of the memory


def test_a_digest_does_not_spend_the_users_own_limit(model, gumem):
    """A turn that may ask the model once still gets its digest, which runs in no context of it.

    Before 4.1.3.9 a turn has no limits.
    """
    agent = agent_of(model)
    memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=10)
    turn = agent.input("My dog is called Biscuit.")
    if hasattr(turn, "create_execution"):
        turn = turn.create_execution(limits={"max_model_requests": 1})
    assert turn.start() == "Noted."
    assert len(model.memory_requests) == 1
    assert memory.status()["errors"] == {}
    assert memory.status()["facts"] == 1


def test_settings_of_the_memorys_requests_do_not_leak(model):
    """A cheaper model without streaming is the memory's alone; the agent keeps its settings."""
    with GUMem(
        model_settings={"OpenAICompatible": {"model": "a-cheaper-one"}},
        limits={"answer_tokens": 99},
    ) as gumem:
        agent = agent_of(model)
        before = json.dumps(agent.settings.get(), default=str, sort_keys=True)
        memory = gumem.attach(agent, user_id="alice", when=EveryNTurns(1), wait=10)
        agent.activate_session(session_id="s")
        agent.input("My dog is called Biscuit.").start()
        agent.input("My car is a Skoda.").start()
        asked, answered = model.memory_requests[0].body, model.chat_requests[-1].body
        assert asked["model"] == "a-cheaper-one"
        assert (asked["stream"], asked["max_tokens"]) == (False, 99)
        assert answered["model"] != "a-cheaper-one"
        assert answered["stream"] is True
        assert "max_tokens" not in answered
        agent.deactivate_session()
        memory.detach()
        after = json.loads(json.dumps(agent.settings.get(), default=str, sort_keys=True))
        assert after["plugins"] == json.loads(before)["plugins"]


def test_a_digest_does_not_call_the_memory_again(model, gumem):
    """The memory's requests run no handler of the agent: nothing of them is recalled or kept."""
    agent = agent_of(model)
    agent.set_agent_prompt("system", "You are a tea expert.")
    memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=10)
    agent.input("My dog is called Biscuit.").start()
    request = model.memory_requests[0]
    assert "tea expert" not in json.dumps(request.messages)
    assert "CHAT SESSION MEMO" not in json.dumps(request.messages)
    assert memory.status()["messages"] == 2


# --- sessions


def test_a_loaded_session_of_another_id_keeps_its_place(model, gumem):
    """Loading a session changes its id, not the key by which the agent, and we, know it."""
    with GUMem() as other:
        agent = agent_of(model)
        attached(other, agent, "s1")
        agent.input("My dog is called Biscuit.").start()
        saved = agent.activated_session.get_json_session()
    agent = agent_of(model)
    attached(gumem, agent, "mine")
    agent.activated_session.load_json_session(saved)
    agent.input("My car is a Skoda.").start()
    assert len(gumem.user("alice").messages("mine")) == 4
    assert gumem.user("alice").messages("s1") == []


def test_the_session_json_stays_plain(gumem):
    """What is saved holds the memo as text, loads again, and no key or object of ours."""
    with RuleModel("Noted.") as model:
        agent = agent_of(model)
        attached(gumem, agent, "s", when=EveryNTurns(1), wait=10)
        agent.input("I am allergic to peanuts.").start()
        saved = agent.activated_session.get_json_session()
        assert "peanuts" in json.loads(saved)["memo"]
        other = agent_of(model)
        attached(gumem, other, "s")
        other.activated_session.load_json_session(saved)
        other.input("What may I not eat?").start()
        assert other.activated_session.memo == agent.activated_session.memo
        assert model.chat_requests[-1].memo_section.count("peanuts") <= 2


# --- many loops, many users


def test_turns_on_many_loops_and_threads_share_one_memory(model, gumem):
    """A new loop a turn, a thread a turn, a sync turn inside a loop: nothing is bound to one."""
    agent = agent_of(model)
    attached(gumem, agent, "s", when=EveryNTurns(2))

    async def asked(text):
        return await agent.input(text).async_start()

    async def inside(text):
        return agent.input(text).start()

    said = [told for told, _, _ in PLANTED[:8]]
    for text in said[:2]:
        assert asyncio.run(asked(text)) == "Noted."
    for text in said[2:4]:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            assert pool.submit(agent.input(text).start).result(30) == "Noted."
    for text in said[4:6]:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            assert pool.submit(asyncio.run, asked(text)).result(30) == "Noted."
    for text in said[6:]:
        assert asyncio.run(inside(text)) == "Noted."
    assert [m.content for m in gumem.user("alice").messages(role="user")] == said
    assert gumem.flush(20)
    assert gumem.status()["errors"] == {}


async def _overlap(agent, model):
    """Ask as alice, and as bob before alice has her answer."""
    model.hold("chat")
    agent.activate_session(session_id="alice")
    hers = asyncio.ensure_future(agent.input("My secret is plum.").async_start())
    seen = len(model.chat_requests)
    await asyncio.to_thread(model.wait_for, seen + 1, "chat")
    agent.activate_session(session_id="bob")
    his = asyncio.ensure_future(agent.input("Which tea do I drink?").async_start())
    await asyncio.to_thread(model.wait_for, seen + 2, "chat")
    return hers, his


def test_overlapping_turns_of_two_users_are_neither_kept_nor_recalled(model, tmp_path):
    """Agently mixes them into one history: nothing enters memory, also from a saved session."""
    with GUMem(tmp_path) as gumem:
        gumem.user("bob").add_messages({"content": "I drink oolong tea."}, "x")
        agent = agent_of(model)
        memory = gumem.attach(agent, user_id=lambda session_id: session_id, when=EveryNTurns(1))

        async def chat():
            hers, his = await _overlap(agent, model)
            assert "two users" in memory.status()["overlapping"]
            model.release("chat")
            await asyncio.gather(hers, his)

        asyncio.run(chat())
        assert model.chat_requests[1].memo_section is None
        assert gumem.user("alice").messages() == []
        assert len(gumem.user("bob").messages()) == 1
        assert memory.status()["overlapping"] == ""
        agent.activate_session(session_id="bob")
        agent.input("Which tea do I drink now?").start()
        assert "oolong" in model.chat_requests[-1].memo_section
        told = [m.content for m in gumem.user("bob").messages("bob")]
        assert told == ["Which tea do I drink now?", "Noted."]
        saved = agent.sessions["bob"].get_json_session()
        assert "plum" in saved
    with GUMem(tmp_path) as gumem:
        agent = agent_of(model)
        gumem.attach(agent, user_id=lambda session_id: session_id)
        agent.activate_session(session_id="bob")
        agent.activated_session.load_json_session(saved)
        agent.input("And my car is a Skoda.").start()
        assert "plum" not in json.dumps([m.content for m in gumem.user("bob").messages()])
    assert "plum" not in json.dumps([r.text for r in model.memory_requests])


async def test_an_answer_ends_only_its_own_of_two_turns_that_overlap(tmp_path, monkeypatch):
    """However often a history is looked at, the turn that is still on its way stays so.

    Until it is recorded, also where that begins later than an answer is waited for.
    """
    monkeypatch.setattr("agently_gumem.flights.RECORDED_WITHIN", 0.0)
    rest = threading.Event()

    def answer(request):
        if request.question == "Which tea do I drink?":
            rest.wait(20)
        return "Noted."

    with ScriptedModel(answer) as model, GUMem(tmp_path) as gumem:
        agent = agent_of(model)
        memory = gumem.attach(agent, user_id=lambda session_id: session_id, when=Manual())
        hers, his = await _overlap(agent, model)
        model.release("chat")
        await hers
        for _ in range(2):
            await agent.activated_session.async_resize()
        assert "two users" in memory.status()["overlapping"]
        rest.set()
        await his
        assert memory.status()["overlapping"] == ""
        assert gumem.user("alice").messages() == gumem.user("bob").messages() == []


def test_twenty_agents_at_once_stay_apart(model, gumem):
    """One agent a user, all at the same time: each one's words, and nobody else's."""
    agents = {f"u{n}": agent_of(model) for n in range(20)}
    for name, agent in agents.items():
        gumem.attach(agent, user_id=name, when=Manual())
        agent.activate_session(session_id="s")

    async def chat(name):
        await agents[name].input(f"My code word is zebra{name}.").async_start()
        await agents[name].input("What is my code word?").async_start()

    async def all_of_them():
        await asyncio.gather(*map(chat, agents))

    asyncio.run(all_of_them())
    for name in agents:
        said = [m.content for m in gumem.user(name).messages(role="user")]
        assert said == [f"My code word is zebra{name}.", "What is my code word?"]
    assert gumem.status()["errors"] == {}
    assert gumem.status()["users_in_memory"] == 20


def test_concurrent_turns_of_one_session_are_each_kept_once(model, gumem):
    """Turns of one user that overlap interleave in Agently, and are neither lost nor doubled."""
    agent = agent_of(model)
    attached(gumem, agent, "s", when=WindowExceeds(messages=4), keep=2)
    asked = [told for told, _, _ in PLANTED[:4]]

    async def chat():
        model.hold("chat")
        turns = []
        for place, text in enumerate(asked, 1):
            turns.append(asyncio.ensure_future(agent.input(text).async_start()))
            await asyncio.to_thread(model.wait_for, place, "chat")
        model.release("chat")
        await asyncio.gather(*turns)

    asyncio.run(chat())
    agent.input("And my cat is called Minka.").start()
    stored = pairs(gumem.user("alice").messages())
    assert sorted(c for r, c in stored if r == "user") == sorted(
        [*asked, "And my cat is called Minka."]
    )
    assert len(stored) == 10


def test_a_cancelled_turn_cancels_no_digest(model, gumem):
    """A caller that gives up while its turn waits for the digest leaves the digest running."""
    agent = agent_of(model)
    memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=30)
    model.hold("memory")
    running = threading.Event()
    held = {}

    def turn():
        async def ask():
            held["loop"], held["task"] = asyncio.get_running_loop(), asyncio.current_task()
            running.set()
            await agent.input("My dog is called Biscuit.").async_start()

        try:
            asyncio.run(ask())
        except BaseException as error:  # noqa: BLE001  # differs by version
            held["error"] = error

    thread = threading.Thread(target=turn)
    thread.start()
    assert running.wait(10)
    model.wait_for(1, "memory")
    held["loop"].call_soon_threadsafe(held["task"].cancel)
    model.release("memory")
    thread.join(30)
    assert not thread.is_alive()
    assert memory.flush(10)
    assert memory.status()["facts"] == 1


# --- the life of a GUMem


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told_at_once(model, tmp_path):
    """An inherited store would hang in the child: it is closed there, says so, and can be left."""
    with GUMem(tmp_path) as gumem:
        gumem.user("alice").add_messages({"content": "I drink oolong tea."})
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            told = "nothing"
            try:
                gumem.user("alice").query("Which tea?")
            except Closed as error:
                told = str(error)
            try:
                gumem.close()
                told += " closed"
            finally:
                os.write(writing, told.encode())
                os._exit(0)
        os.close(writing)
        ready, _, _ = select.select([reading], [], [], 20)
        told = os.read(reading, 1000).decode() if ready else "hung"
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert "parent" in told
        assert told.endswith("closed")
        assert "oolong" in gumem.user("alice").query("Which tea?").formatted_context


def test_a_blocking_call_on_the_memorys_own_thread_is_refused(gumem):
    """It would wait on itself, and everyone with it."""

    async def inside():
        return gumem.user("alice").facts()

    with pytest.raises(Closed, match="async_"):
        gumem.worker.run(inside)
    assert gumem.user("alice").facts() == []


def test_closed_is_closed_and_the_chat_goes_on(model):
    """Close twice is fine, use after it says so, and an agent that is still attached answers."""
    gumem = GUMem()
    agent = agent_of(model)
    memory = gumem.attach(agent, user_id="alice")
    agent.activate_session(session_id="s")
    agent.input("My dog is called Biscuit.").start()
    gumem.close()
    gumem.close()
    for use in (
        lambda: gumem.user("alice").query("dog"),
        lambda: gumem.user("alice").add_messages({"content": "x"}),
        gumem.sweep,
        lambda: memory.session().digest(),
    ):
        with pytest.raises(Closed, match="closed"):
            use()
    assert agent.input("My car is a Skoda.").start() == "Noted."
    agent.activate_session(session_id="t")
    assert agent.input("My cat is called Minka.").start() == "Noted."
    agent.deactivate_session()
    memory.detach()
    assert issubclass(Closed, GUMemError)


async def test_it_can_be_closed_from_a_loop(model):
    """`async with` opens and closes beside a running loop."""
    async with GUMem() as gumem:
        agent = agent_of(model)
        gumem.attach(agent, user_id="alice", when=SessionEnd())
        agent.activate_session(session_id="s")
        await agent.input("My dog is called Biscuit.").async_start()
    assert len(model.memory_requests) == 1
    with pytest.raises(Closed):
        await gumem.user("alice").async_query("dog")


EXIT = """
import sys
from agently import Agently
from agently_gumem import EveryNTurns, GUMem
from agently_gumem.testing import RuleModel

model = RuleModel("Noted.").start()
model.hold("memory")
gumem = GUMem(sys.argv[1])
agent = Agently.create_agent()
agent.set_settings("OpenAICompatible", model.settings)
gumem.attach(agent, user_id="alice", when=EveryNTurns(1), wait=0)
agent.activate_session(session_id="s")
print(agent.input("My dog is called Biscuit.").start())
model.wait_for(1, "memory")
"""


def test_an_exit_with_a_digest_under_way_is_quiet_and_loses_nothing(model, tmp_path):
    """The process ends at once without a traceback, and what waited is taken up later."""
    done = subprocess.run(
        [sys.executable, "-c", EXIT, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "Noted." in done.stdout
    for sign in ("Traceback", "never retrieved", "was destroyed"):
        assert sign not in done.stderr + done.stdout
    with GUMem(tmp_path) as gumem:
        user = gumem.user("alice")
        assert [m.status for m in user.messages()] == ["pending", "pending"]
        agent = agent_of(model)
        attached(gumem, agent, "next")
        agent.input("Hello again.").start()
        assert gumem.flush(20)
        assert [m.status for m in user.messages("s")] == ["processed", "processed"]
        assert len(user.facts()) == 1


def test_a_stream_that_ends_early_breaks_nothing(gumem):
    """A connection that dies in the middle of an answer is Agently's to report, and no more."""
    answers = iter([Reply(chunks=["half "], cut=True), Reply("Noted.")])
    with ScriptedModel(lambda _: next(answers, Reply("Noted."))) as model:
        agent = agent_of(model)
        attached(gumem, agent, "s")
        try:
            agent.input("My dog is called Biscuit.").start()
        except Exception as error:  # noqa: BLE001  # some versions keep the part instead
            ours = "gumem" in type(error).__module__
            assert not ours
        assert agent.input("My car is a Skoda.").start() == "Noted."
        stored = pairs(gumem.user("alice").messages())
        assert stored[-2:] == [("user", "My car is a Skoda."), ("assistant", "Noted.")]
        assert gumem.status()["errors"] == {}
