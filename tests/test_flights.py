"""Whose a request of a shared agent is, however late its answer, and whoever asked without memory.

What one of them said comes into nobody else's memory.
"""

import asyncio
import json

import pytest
from e2e import AnyRequest, agent_of, attached

from agently_gumem import GUMem, Manual
from agently_gumem.flights import FORGOTTEN_AFTER, RECORDED_WITHIN, Flights
from agently_gumem.testing import ScriptedModel

pytestmark = pytest.mark.host

HERS, HIS = "What is my code word, Alice's?", "What is my code word, Bob's?"
HIS_NEXT = "Which animal is my code word?"
USERS = {"s": "alice", "t": "bob"}


@pytest.fixture
def gumem():
    """A store in memory, in which two users have said something before."""
    with GUMem() as gumem:
        gumem.user("alice").add_messages({"content": "My code word is giraffe."}, "a")
        gumem.user("bob").add_messages({"content": "My code word is zebra."}, "b")
        yield gumem


@pytest.fixture
def model():
    """A model that repeats the question."""
    with ScriptedModel(lambda request: f"Noted: {request.question}") as model:
        yield model


def shared(gumem, model):
    """Give an agent memory that is each session's own user's; session "?" has none."""
    agent = agent_of(model)
    return agent, gumem.attach(agent, user_id=USERS.__getitem__, when=Manual())


def said(gumem, user_id):
    """Read what a user's memory has got on the agent."""
    return [m.content for s in USERS for m in gumem.user(user_id).messages(s)]


def assert_bob_is_served(agent, gumem, model):
    """His next turn is recalled for, and kept."""
    agent.activate_session(session_id="t")
    agent.input(HIS_NEXT).start()
    assert "zebra" in model.chat_requests[-1].memo_section
    assert said(gumem, "bob")[-2:] == [HIS_NEXT, f"Noted: {HIS_NEXT}"]
    assert not [text for text in said(gumem, "bob") if HERS in text]


def also_on_another(agent, gumem, model):
    """Activate her session, and then one of another agent that has memory as well."""
    agent.activate_session(session_id="s")
    attached(gumem, agent_of(model), "own")


def in_one_without_memory(agent, _gumem, _model):
    """Activate a session whose user is not known."""
    agent.activate_session(session_id="?")


@pytest.mark.parametrize("begin", [also_on_another, in_one_without_memory])
def test_who_activated_a_session_does_not_ask_as_another_ones_user(begin, gumem, model):
    """Whatever its task did beside that: another one's session that is active by then is his."""
    agent, memory = shared(gumem, model)

    async def ask():
        begin(agent, gumem, model)

        async def his():
            agent.activate_session(session_id="t")

        await asyncio.create_task(his())
        await agent.create_request().input(HERS).async_get_data()

    asyncio.run(ask())
    assert model.chat_requests[-1].memo_section is None
    assert said(gumem, "alice") == said(gumem, "bob") == []
    assert memory.status()["overlapping"] == ""
    assert_bob_is_served(agent, gumem, model)


@pytest.mark.parametrize("session_id", ["?", None])
def test_what_is_asked_without_memory_is_kept_in_nobody_elses(session_id, gumem, model):
    """Its answer comes while another one's session is active: Agently records it there."""
    agent, _ = shared(gumem, model)
    if session_id is not None:
        agent.activate_session(session_id=session_id)

    async def ask():
        model.hold("chat")
        asking = asyncio.create_task(agent.create_request().input(HERS).async_get_data())
        await asyncio.to_thread(model.wait_for, 1, "chat")
        agent.activate_session(session_id="t")
        model.release("chat")
        await asking

    asyncio.run(ask())
    assert HERS in json.dumps([m.content for m in agent.activated_session.full_context])
    assert said(gumem, "bob") == []
    assert_bob_is_served(agent, gumem, model)


def test_an_agent_of_one_user_is_that_users_whoever_asks(gumem, model):
    """What is asked beside its sessions turns no memory off: nobody else can be meant."""
    agent = agent_of(model)
    gumem.attach(agent, user_id="bob", when=Manual())

    async def ask():
        model.hold("chat")
        asking = asyncio.create_task(agent.create_request().input("Any news?").async_get_data())
        await asyncio.to_thread(model.wait_for, 1, "chat")
        agent.activate_session(session_id="t")
        his = asyncio.create_task(agent.create_request().input(HIS).async_get_data())
        await asyncio.to_thread(model.wait_for, 2, "chat")
        model.release("chat")
        await asyncio.gather(asking, his)

    asyncio.run(ask())
    assert "zebra" in model.chat_requests[1].memo_section
    assert HIS in said(gumem, "bob")


@pytest.mark.parametrize("his_turn", ["none yet", "answered", "the same question"])
def test_a_stream_whose_reader_pauses_is_nobody_elses(his_turn, gumem, model, monkeypatch):
    """It keeps nobody's memory off for long; when its record comes after all, it is known."""
    monkeypatch.setattr("agently_gumem.flights.RECORDED_WITHIN", -1.0)
    agent, memory = shared(gumem, model)
    his = HERS if his_turn == "the same question" else HIS

    async def read(paused, go_on):
        agent.activate_session(session_id="s")
        async for _ in agent.create_request().input(HERS).get_async_generator(type="delta"):
            if not paused.is_set():
                paused.set()
                await go_on.wait()

    async def both():
        paused, go_on = asyncio.Event(), asyncio.Event()
        reading = asyncio.create_task(read(paused, go_on))
        await paused.wait()
        flights = memory._host._flights
        while not all(f.late() for f in flights._flights):  # noqa: ASYNC110  # no event tells it
            await asyncio.sleep(0)
        agent.activate_session(session_id="t")
        if his_turn != "none yet":
            await agent.create_request().input(his).async_get_data()
            assert "zebra" in model.chat_requests[-1].memo_section
        go_on.set()
        await reading

    asyncio.run(both())
    kept = [] if his_turn == "none yet" else [his, f"Noted: {his}"]
    assert said(gumem, "bob") == kept
    assert said(gumem, "alice") == []
    assert memory.status()["overlapping"] == ""


async def test_a_record_that_comes_late_is_its_askers():
    """After any time, as long as somebody holds the request; memory is not off until then."""
    now = [100.0]
    flights, alice, bob = Flights(clock=lambda: now[0]), ("alice", ""), ("bob", "")

    async def carry(owner, asked, *, ends=True):
        request, done = AnyRequest(), asyncio.Event()

        async def take_off():
            flights.take_off(request, owner, asked)
            if not ends:
                await done.wait()

        task = asyncio.create_task(take_off())
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # what waits for the end of that task runs
        return request, done, task

    for ends, passed in ((True, RECORDED_WITHIN), (False, FORGOTTEN_AFTER)):
        hers, done, task = await carry(alice, "tea?", ends=ends)
        now[0] += passed + 1
        his, *_ = await carry(bob, "cake?")
        assert flights.overlapping() == ""
        flights.approach(hers)
        assert flights.overlapping() == ""
        assert flights.strayed(bob, "tea?")
        assert not flights.strayed(bob, "cake?")
        assert not flights.strayed(alice, "tea?")
        flights.land(hers)
        flights.land(his)
        done.set()
        await task
    hers, *_ = await carry(alice, "tea?")
    now[0] += RECORDED_WITHIN + 1
    his, *_ = await carry(bob, "tea?")
    assert flights.overlapping() == ""
    flights.approach(hers)
    assert "two users" in flights.overlapping()  # nobody could tell the two apart
    flights.land(hers)
    flights.land(his)
    assert flights.overlapping() == ""
    left, *_ = await carry(alice, "tea?")
    now[0] += RECORDED_WITHIN + 1
    del left  # nobody can ask for the answer any more
    assert flights.overlapping() == ""
    assert flights._flights == []
