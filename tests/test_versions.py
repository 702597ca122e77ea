"""What differs between versions of Agently is not felt: these hold on every one of them."""

import asyncio

import pytest
from agently import Agently
from agently.core import Session
from agently.types.data import ChatMessage
from e2e import (
    LEVELS,
    STRATEGY,
    agent_of,
    attached,
    fact_answer,
    hooked,
    pairs,
    register,
    say,
    seeded,
)
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem import ConfigError, EveryNTurns, GUMem, Manual, WindowExceeds
from agently_gumem.events import Events
from agently_gumem.testing import ScriptedModel
from agently_gumem.versions import mend_doubles, own_analysis

pytestmark = pytest.mark.host

RESTORED = [("user", "My cat is called Minka."), ("assistant", "Nice.")]


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


def as_dicts(said):
    """Bring roles and texts to what Agently takes as a history."""
    return [{"role": role, "content": text} for role, text in said]


def texts(messages):
    """Read what Agently records: its label is not the user's."""
    return [m.content.removeprefix("[input]:\n") for m in messages]


# --- attach: one behaviour, whether the agent hands its handlers on or each session gets them


def test_sessions_that_were_there_and_later_ones_are_served_alike(model, gumem):
    """Present sessions, later ones and one that the application puts there itself remember."""
    agent = agent_of(model)
    agent.activate_session(session_id="before")
    memory = gumem.attach(agent, user_id="alice", when=WindowExceeds(messages=3), keep=1, wait=10)
    agent.sessions["made"] = Session(id="made", settings=agent.settings)
    for session_id in ("before", "later", "made"):
        agent.activate_session(session_id=session_id)
        agent.input(f"My dog is called Biscuit{session_id}.").start()
        agent.input("And my car is a Skoda.").start()
        session = agent.activated_session
        assert len(gumem.user("alice").messages(session_id)) == 4
        assert len(session.full_context) == 4
        assert len(session.context_window) == 2
        assert memory.session().status()["facts"] >= 2


def test_a_session_that_is_served_without_being_activated_again(model, gumem):
    """The active session, and one that is not active, have both handlers as soon as we attach."""
    agent = agent_of(model)
    for session_id in ("idle", "active"):
        agent.activate_session(session_id=session_id)
    memory = gumem.attach(agent, user_id="alice", when=WindowExceeds(messages=3), keep=1, wait=10)
    for session_id in ("idle", "active"):
        session = agent.sessions[session_id]
        say(session, ("My dog is called Biscuit.", "Noted."), ("My car is a Skoda.", "Noted."))
        assert len(memory.session(session_id).user.messages(session_id)) == 4
        assert len(session.context_window) == 2


def test_a_session_that_brings_its_own_handler_keeps_it(model, gumem):
    """Where handlers are a session's, that of a later session is asked too; else the agent wins."""
    agent = agent_of(model)
    gumem.attach(agent, user_id="alice")
    calls = []

    async def theirs(full, window, memo, settings):
        calls.append(len(full))

    agent.sessions["made"] = Session(id="made", settings=agent.settings)
    agent.sessions["made"].register_analysis_handler(theirs)
    agent.activate_session(session_id="made")
    agent.activate_session(session_id="made")
    agent.input("My dog is called Biscuit.").start()
    assert calls == ([] if "agent" in LEVELS else [1, 2])
    assert len(gumem.user("alice").messages("made")) == 2


def test_the_session_of_a_server_that_restores_before_it_activates(model, gumem):
    """A handler of ours serves a session whose history is set before its first turn."""
    agent = agent_of(model)
    attached(gumem, agent, "s")
    agent.set_chat_history(as_dicts(RESTORED))
    agent.input("Which cat do I have?").start()
    assert pairs(gumem.user("alice").messages("s"))[:2] == RESTORED
    assert texts(agent.activated_session.full_context) == [
        *(text for _, text in RESTORED),
        "Which cat do I have?",
        "Noted.",
    ]


def test_activating_again_binds_ours_again(model, gumem):
    """A handler that is registered after attach yields to ours when its session is activated."""
    agent = agent_of(model)
    attached(gumem, agent, "s")
    calls = []

    async def later(full, window, memo, settings):
        calls.append(len(full))

    agent.activated_session.register_analysis_handler(later)
    agent.input("My dog is called Biscuit.").start()
    assert calls == [1, 2]
    agent.activate_session(session_id="s")
    agent.input("My car is a Skoda.").start()
    assert calls == [1, 2]
    assert len(gumem.user("alice").messages("s")) == 4


def test_detach_leaves_every_session_without_a_handler_of_ours(model, gumem):
    """Sessions of before, of meanwhile and of after: what stood there stands there again."""
    agent = agent_of(model)
    agent.activate_session(session_id="before")
    memory = gumem.attach(agent, user_id="alice")
    agent.activate_session(session_id="meanwhile")
    agent.input("My dog is called Biscuit.").start()
    memory.detach()
    agent.activate_session(session_id="after")
    assert [own_analysis(s) for s in agent.sessions.values()] == [None] * 3
    agent.activate_session(session_id="meanwhile")
    agent.input("My car is a Skoda.").start()
    assert len(gumem.user("alice").messages("meanwhile")) == 2
    gumem.attach(agent, user_id="alice", existing="error")
    agent.input("My cat is called Minka.").start()
    assert len(gumem.user("alice").messages("meanwhile")) == 6


def test_a_refused_attach_changes_nothing(model, gumem):
    """existing="error" beside a handler leaves handlers and methods as they were."""
    agent = agent_of(model)

    async def theirs(full, window, memo, settings):
        return None

    agent.activate_session(session_id="s")
    agent.activated_session.register_analysis_handler(theirs)
    handler = agent.activated_session._analysis_handler
    with pytest.raises(ConfigError, match="chain"):
        gumem.attach(agent, user_id="alice", existing="error")
    agent.activate_session(session_id="t")
    assert own_analysis(agent.activated_session) is None
    assert agent.sessions["s"]._analysis_handler is handler


def test_a_strategy_that_the_application_runs_itself_digests(model, gumem):
    """A stage boundary by the session's own method, whatever its name, runs our strategy."""
    agent = agent_of(model)
    memory = attached(gumem, agent, "s", when=Manual(), wait=10)
    session = agent.activated_session
    run = getattr(session, "run_resize_strategy", None) or session.execute_strategy
    say(session, ("My dog is called Biscuit.", "Noted."))
    say(session, ("My car is a Skoda.", "Noted."))
    assert memory.status()["facts"] == 0
    run(STRATEGY)
    assert memory.status()["facts"] == 2


# --- what 4.0.8 records twice


@pytest.mark.parametrize("way", [attached, seeded])
@pytest.mark.parametrize("one_by_one", [True, False])
def test_after_a_history_was_set_each_message_is_there_once(way, one_by_one, model, gumem):
    """In the history, in the window, in the next request and in memory, whatever is added."""
    agent = agent_of(model)
    way(gumem, agent, "s", when=EveryNTurns(99))
    session = agent.activated_session
    session.set_chat_history(as_dicts(RESTORED))
    added = [("user", "My dog is called Biscuit."), ("assistant", "Noted.")]
    if one_by_one:
        say(session, ("My dog is called Biscuit.", "Noted."))
    else:
        session.add_chat_history(as_dicts(added))
    agent.input("My car is a Skoda.").start()
    wanted = [*RESTORED, *added, ("user", "My car is a Skoda."), ("assistant", "Noted.")]
    assert texts(session.full_context) == [text for _, text in wanted]
    assert texts(session.context_window) == [text for _, text in wanted]
    assert pairs(gumem.user("alice").messages("s")) == wanted
    asked = model.chat_requests[-1].messages
    assert [m["content"] for m in asked[:4]] == [text for _, text in wanted[:4]]
    assert len(asked) == 5


def test_without_an_agent_each_message_is_stored_once_too(model, gumem):
    """A session whose agent memory does not know gets the same."""
    agent = agent_of(model)
    agent.set_settings("session.input_keys", ["input"])
    agent.activate_session(session_id="s")
    session = agent.activated_session
    memory = gumem.session("alice", "s", when=WindowExceeds(messages=4), keep=1, wait=10)
    session.register_analysis_handler(memory.analysis_handler)
    register(session, memory.execution_handler)
    session.set_chat_history(as_dicts(RESTORED))
    for text in ("My dog is called Biscuit.", "My car is a Skoda."):
        agent.input(text).start()
    assert len(gumem.user("alice").messages("s")) == 6
    assert len(session.full_context) == 6
    assert len(session.context_window) == 2


@pytest.mark.parametrize("way", [attached, seeded])
def test_what_was_added_twice_before_memory_is_there_once_after(way, model, gumem):
    """Memory that comes to a session with a set history finds each message once."""
    agent = agent_of(model)
    agent.set_settings("session.input_keys", ["input"])
    agent.activate_session(session_id="s")
    agent.set_chat_history(as_dicts(RESTORED))
    agent.input("My dog is called Biscuit.").start()
    way(gumem, agent, "s")
    agent.input("My car is a Skoda.").start()
    wanted = ["My cat is called Minka.", "Nice.", "My dog is called Biscuit.", "Noted."]
    wanted += ["My car is a Skoda.", "Noted."]
    assert texts(agent.activated_session.full_context) == wanted
    assert [m.content for m in gumem.user("alice").messages("s")] == wanted
    # Agently joins messages of one role that follow on each other: the texts tell, not the number.
    asked = model.chat_requests[-1].messages
    assert [m["content"].removeprefix("[input]:\n") for m in asked[:4]] == wanted[:4]


def test_a_session_that_is_left_at_once_is_journaled_once(model, gumem):
    """A history that was set before attach, and a session that is left without a turn."""
    agent = agent_of(model)
    agent.activate_session(session_id="s")
    agent.set_chat_history(as_dicts(RESTORED))
    say(agent.activated_session, ("My dog is called Biscuit.", "Noted."))
    gumem.attach(agent, user_id="alice", when=Manual())
    agent.deactivate_session()
    assert gumem.flush(10)
    stored = [*RESTORED, ("user", "My dog is called Biscuit."), ("assistant", "Noted.")]
    assert pairs(gumem.user("alice").messages("s")) == stored


def test_the_same_words_said_twice_are_two_messages(model, gumem):
    """Only what Agently added twice is one: a user who repeats a sentence has said it twice."""
    agent = agent_of(model)
    attached(gumem, agent, "s")
    agent.set_chat_history(as_dicts([*RESTORED, *RESTORED]))
    agent.input("My cat is called Minka.").start()
    assert len(agent.activated_session.full_context) == 6
    assert len(gumem.user("alice").messages("s", role="user")) == 3


MESSAGES = st.lists(st.sampled_from(["a", "b"]), max_size=6)


@given(set_before=MESSAGES, added=st.lists(MESSAGES.filter(bool), max_size=4))
def test_mending_gives_what_two_lists_would_hold(set_before, added):
    """Of one list that each message was added to twice, what was said is left, in its order."""
    one = [ChatMessage(role="user", content=text) for text in set_before]
    expected = list(one)
    for texts_of_one in added:
        messages = [ChatMessage(role="user", content=text) for text in texts_of_one]
        expected.extend(messages)
        one.extend(messages)
        one.extend(messages)
    apart = list(one)
    mend_doubles(apart, list(apart))
    assert list(map(id, apart)) == list(map(id, one))
    mend_doubles(one, one)
    assert list(map(id, one)) == list(map(id, expected))
    mend_doubles(one, one)
    assert list(map(id, one)) == list(map(id, expected))


def test_the_levels_are_those_of_the_agent():
    """Every version takes a handler at the session; all but 4.0.8 at the agent too."""
    agent = Agently.create_agent()
    assert LEVELS[-1] == "session"
    assert ("agent" in LEVELS) == hasattr(agent, "register_session_resize_handler")


# --- events


@pytest.mark.parametrize("warning", [False, True])
def test_an_event_of_ours_reaches_the_hooks_of_agently(warning, caplog):
    """Whatever the centre takes: a kind, a payload and a level, and nothing is logged of it."""
    with hooked("gumem.digested") as events:
        told = Events()
        told.tell("digested", {"messages": 2}, warning=warning)
        told.tell("forgotten", {"facts": 1})
        asyncio.run(told.told(20))
        told.close()
    assert [(e.event_type, e.payload) for e in events] == [("gumem.digested", {"messages": 2})]
    assert events[0].level == ("WARNING" if warning else "DEBUG")
    assert [r for r in caplog.records if r.name == "agently_gumem"] == []
