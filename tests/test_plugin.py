"""`gumem.register()` and `session.use_memory(mode="GUMem")`, on each Agently that has it."""

import asyncio
import json
import logging
import re
import threading
import time
from importlib.metadata import version
from typing import ClassVar

import pytest
from agently import Agently
from agently.core import Session
from e2e import agent_of, attached, fact_answer, hooked, pairs
from toolplay import Player, agent_with

from agently_gumem import (
    Closed,
    ConfigError,
    EveryNTurns,
    GUMem,
    Manual,
    NotFound,
    SessionEnd,
    StageBoundary,
    WindowExceeds,
    host,
    turns,
)
from agently_gumem.plugin import KIND
from agently_gumem.testing import Reply, RuleModel, ScriptedModel

pytestmark = pytest.mark.host
SERVED = KIND in Agently.plugin_manager.get_plugin_list()
served = pytest.mark.skipif(not SERVED, reason=f"Agently {version('agently')} has no use_memory")
TEA = "Which tea do I drink?"
DOG = "My dog is called Biscuit."


@pytest.fixture
def model():
    """A chat model that adds nothing, and a memory model that keeps the user's own words."""
    with ScriptedModel("Noted.", memory=fact_answer) as model:
        yield model


@pytest.fixture
def gumem():
    """A store in memory that knows of alice's tea, as a message and nothing more."""
    with GUMem() as gumem:
        gumem.user("alice").add_messages({"content": "I drink oolong tea."}, "earlier")
        yield gumem


@pytest.fixture
def settings():
    """Take back afterwards what a test sets for Agently as a whole."""
    keys = []

    def put(key, value):
        keys.append(key)
        Agently.set_settings(key, value)

    yield put
    for key in keys:
        Agently.settings.delete(key)


def using(gumem, agent, session_id="s", *, mode="GUMem", user_id="alice", **options):
    """Register, and let one session of an agent use the mode; return the session."""
    gumem.register(mode=mode, user_id=user_id, **options)
    return agent.activate_session(session_id=session_id).activated_session.use_memory(mode=mode)


def last(model):
    """The last request of the chat itself."""
    return model.chat_requests[-1]


def told(gumem, user, session="s"):
    """What was stored of a user's session."""
    return pairs(gumem.user(user).messages(session))


def turn(text, answer="Noted."):
    """One turn, as it is stored."""
    return [("user", text), ("assistant", answer)]


@pytest.mark.skipif(SERVED, reason="this Agently has use_memory")
def test_an_older_agently_is_told_what_is_needed_and_what_to_use():
    """`register` names the version that it needs, the one that is there, and `attach`."""
    with GUMem() as gumem, pytest.raises(ConfigError) as raised:
        gumem.register()
    for part in ("4.1.3.9", version("agently"), "gumem.attach("):
        assert part in str(raised.value)


# --- what the model gets, and what is journaled


def _sync(agent, text):
    return agent.input(text).start()


def _asynchronous(agent, text):
    return asyncio.run(agent.input(text).async_start())


def _generator(agent, text):
    return "".join(agent.input(text).get_generator(type="delta"))


def _async_generator(agent, text):
    async def ask():
        return "".join([d async for d in agent.input(text).get_async_generator(type="delta")])

    return asyncio.run(ask())


def _response(agent, text):
    return agent.input(text).get_response().get_text()


def _request(agent, text):
    return agent.request.input(text).start()


def _created(agent, text):
    return agent.create_request().input(text).start()


def _execution(agent, text):
    return agent.create_execution().input(text).start()


PATHS = [
    _sync,
    _asynchronous,
    _generator,
    _async_generator,
    _response,
    _request,
    _created,
    _execution,
]


@served
@pytest.mark.parametrize("ask", PATHS)
def test_every_call_carries_its_own_context_for_one_request_and_is_journaled_once(
    ask, model, gumem
):
    """From the first turn on, by each way to ask; no request is added, none is doubled."""
    agent = agent_of(model)
    using(gumem, agent, when=Manual())
    assert ask(agent, TEA) == "Noted."
    assert "oolong" in last(model).memo_section
    assert "oolong" not in json.dumps(last(model).messages[:-1])
    assert ask(agent, DOG) == "Noted."
    assert len(model.requests) == 2
    assert told(gumem, "alice") == [*turn(TEA), *turn(DOG)]
    assert gumem.status()["errors"] == {}


# Two chats are not held in the same minute, as a rule.
TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?")


def _chat(model, gumem, way):
    """Five turns that digest and cut the window: requests, stored messages, window, memo."""
    agent = agent_of(model)
    way(gumem, agent)
    seen = len(model.requests)
    said = [DOG, "My car is a blue Skoda Octavia.", "I was born in Ljubljana."]
    for text in [*said, "What is my dog called?", "Which car do I own?"]:
        agent.input(text).start()
        assert gumem.flush(20)
    session = agent.activated_session
    bodies = [
        [{**m, "content": TIME.sub("(time)", m["content"])} for m in request.messages]
        for request in model.requests[seen:]
    ]
    assert len(session.full_context) == 10
    stored = [(m.role, m.content, m.status) for m in gumem.user("alice").messages("s")]
    facts = sorted(f.content for f in gumem.user("alice").facts())
    return bodies, stored, pairs(session.context_window), session.memo, facts


@served
def test_it_is_as_attach_is():
    """The same chat by both ways: requests, journal, window, memo and Facts are equal."""
    options = {"when": WindowExceeds(messages=4), "keep": 2, "wait": 20.0}
    with RuleModel("Noted.") as model:
        with GUMem() as gumem:
            by_plugin = _chat(model, gumem, lambda g, agent: using(g, agent, "s", **options))
        with GUMem() as gumem:
            by_attach = _chat(model, gumem, lambda g, agent: attached(g, agent, "s", **options))
    for mine, other in zip(by_plugin, by_attach, strict=True):
        assert mine == other
    bodies, stored, window, memo, facts = by_plugin
    assert len(window) < 10
    assert "Skoda" not in json.dumps(window)
    assert "Skoda" in bodies[-1][-1]["content"]
    assert ("user", DOG, "processed") in stored
    assert "Biscuit" in memo
    assert any("Biscuit" in fact for fact in facts)


@served
def test_a_large_memory_fails_no_turn(model):
    """More than six thousand characters of memory reach the model, on both paths."""
    with GUMem(recall={"max_tokens": 3_000, "floor": 0.0}) as gumem:
        texts = [f"My note {n} on oolong tea: {'steep it long ' * 28}{n}." for n in range(20)]
        gumem.user("alice").add_messages([{"content": text} for text in texts], "earlier")
        agent = agent_of(model)
        using(gumem, agent, when=Manual())
        for ask in (_sync, _request):
            assert ask(agent, TEA) == "Noted."
            assert len(last(model).memo_section) > 6_000
        assert len(model.requests) == 2


@served
@pytest.mark.parametrize("ask", [_asynchronous, _generator])
def test_a_failing_model_raises_as_before_and_leaves_nothing(ask, model, gumem):
    """The error is the same as without memory; the turn is in no journal; the next one works."""
    model.answer = Reply("out of order", status=500)
    with pytest.raises(Exception, match=r"500|settlement") as without:
        ask(agent_of(model), TEA)
    agent = agent_of(model)
    session = using(gumem, agent)
    with pytest.raises(without.type, match=r"500|settlement"):
        ask(agent, TEA)
    assert "oolong" in last(model).memo_section
    assert told(gumem, "alice") == []
    model.answer = "Noted."
    assert ask(agent, DOG) == "Noted."
    assert told(gumem, "alice") == turn(DOG)
    assert session.memory.status()["errors"] == {}


@served
def test_a_broken_store_never_reaches_the_turn(model, gumem, monkeypatch, caplog):
    """Recall, journal and digest fail; the chat goes on, and status and log say kinds alone."""
    agent = agent_of(model)
    using(gumem, agent)
    agent.input(DOG).start()
    gumem.close()
    with caplog.at_level(logging.INFO, "agently_gumem"):
        assert agent.input("My secret is plum.").start() == "Noted."
    assert "this memory is closed" in caplog.text
    assert "plum" not in caplog.text


@served
@pytest.mark.parametrize(("which", "kept"), [(True, 1), (False, 0)])
def test_it_is_said_which_calls_of_tools_are_journaled(which, kept, gumem):
    """`register(record_actions=)` is that of `attach`."""

    def shoe_price(model: str) -> str:
        """Tell the price of a shoe."""
        return "649 yuan"

    player = Player("Yes.").calls(("shoe_price", {"model": "A"}))
    with ScriptedModel(player) as model:
        agent = agent_with(model, shoe_price)
        using(gumem, agent, when=Manual(), record_actions=which)
        assert agent.input("Price?").start() == "Yes."
        stored = gumem.user("alice").messages("s")
    assert [m.event_type for m in stored].count("tool_call") == kept


@served
def test_a_store_that_hangs_holds_no_turn_for_long(model, gumem, monkeypatch):
    """The turn is answered without its journal, which is made up for when the store is back."""
    session = using(gumem, agent := agent_of(model), when=Manual())
    agent.input("I drink tea.").start()
    monkeypatch.setattr(turns, "TURN_WITHIN", 0.1)
    monkeypatch.setattr(host, "RECALL_WITHIN", 0.1)
    shut, go = threading.Event(), threading.Event()

    def hold():
        with gumem._engine.services.store._gate.shut():
            shut.set()
            assert go.wait(20)

    holding = threading.Thread(target=hold)
    holding.start()
    assert shut.wait(20)
    began = time.monotonic()
    agent.input("I drink milk.").start()
    assert time.monotonic() - began < 15
    go.set()
    holding.join()
    monkeypatch.undo()
    agent.input("I drink water.").start()
    said = session.memory.memory.user.messages("s", role="user")
    assert [m.content for m in said] == ["I drink tea.", "I drink milk.", "I drink water."]


@served
def test_off_by_the_environment_leaves_the_chat_as_it_is(model, gumem, monkeypatch):
    """GUMEM_OFF=1: nothing is recalled, stored or said."""
    agent = agent_of(model)
    using(gumem, agent)
    monkeypatch.setenv("GUMEM_OFF", "1")
    agent.input(TEA).start()
    assert last(model).memo_section is None
    monkeypatch.delenv("GUMEM_OFF")
    assert told(gumem, "alice") == []
    agent.input(TEA).start()
    assert "oolong" in last(model).memo_section


# --- whose memory


@served
@pytest.mark.parametrize(
    ("session", "agents", "whole", "given", "user"),
    [
        ("s", "a", "w", "r", "s"),
        (None, "a", "w", "r", "a"),
        (None, None, "w", "r", "w"),
        (None, None, None, "r", "r"),
        (None, None, None, lambda session_id: f"of-{session_id}", "of-s"),
    ],
)
def test_the_nearest_setting_says_whose_memory_it_is(
    session, agents, whole, given, user, gumem, settings
):
    """Session before agent before Agently as a whole before what was registered."""
    if whole is not None:
        settings("GUMem.user_id", whole)
    agent = Agently.create_agent()
    if agents is not None:
        agent.set_settings("GUMem.user_id", agents)
    own = agent.activate_session(session_id="s").activated_session
    if session is not None:
        own.settings.set("GUMem.user_id", session)
    gumem.register(user_id=given)
    own.use_memory(mode="GUMem")
    assert own.memory.memory.user_id == own.memory.status()["user_id"] == user


@served
def test_without_a_user_there_is_no_memory_and_it_is_said_once(model, gumem, caplog):
    """Turns go on; log, event and status say it; from the moment that it is known there is one."""
    agent = agent_of(model)
    session = using(gumem, agent, user_id=None)
    with caplog.at_level(logging.WARNING, "agently_gumem"), hooked("gumem.failed") as events:
        for text in (TEA, "And what else?"):
            assert agent.input(text).start() == "Noted."
            assert last(model).memo_section is None
        gumem.flush(20)
    assert len([r for r in caplog.records if "no user is known" in r.getMessage()]) == 1
    assert [e.payload["what"] for e in events] == ["user_id"]
    assert gumem.status()["errors"] == {"user_id": 1}
    status = asyncio.run(session.memory.async_status())
    assert status == session.memory.status()
    assert not status["active"]
    assert "GUMem.user_id" in status["off_because"]
    with pytest.raises(NotFound, match=r"GUMem\.user_id"):
        _ = session.memory.memory
    agent.set_settings("GUMem.user_id", "alice")
    agent.input(TEA).start()
    assert "oolong" in last(model).memo_section
    assert told(gumem, "alice")[-2:] == turn(TEA)


@served
@pytest.mark.parametrize("answer", [KeyError("who"), "", 7])
def test_a_user_id_that_fails_costs_its_session_the_memory_alone(answer, model, gumem):
    """A function that raises, or tells nobody, is asked once; a setting mends it."""
    asked = []

    def whose(session_id):
        asked.append(session_id)
        if isinstance(answer, Exception):
            raise answer
        return answer

    agent = agent_of(model)
    session = using(gumem, agent, user_id=whose)
    assert agent.input(TEA).start() == "Noted."
    assert agent.input(TEA).start() == "Noted."
    assert asked == ["s"]
    assert gumem.status()["errors"] == {"user_id": 1}
    kind = "KeyError" if isinstance(answer, Exception) else "ConfigError"
    assert kind in session.memory.status()["off_because"]
    agent.set_settings("GUMem.user_id", "alice")
    assert session.memory.memory.user_id == "alice"


@served
def test_a_session_stays_one_users(model, gumem):
    """Where the settings name another user nothing is read or kept, also not later."""
    agent = agent_of(model)
    agent.set_settings("GUMem.user_id", "alice")
    session = using(gumem, agent, user_id=None)
    agent.input(DOG).start()
    agent.set_settings("GUMem.user_id", "bob")
    agent.input(TEA).start()
    assert last(model).memo_section is None
    agent.set_settings("GUMem.user_id", "alice")
    agent.input(TEA).start()
    assert last(model).memo_section is None
    for user in ("bob", "alice"):
        agent.set_settings("GUMem.user_id", user)
        session.use_memory(mode="GUMem")
        agent.input("My cat is called Miso.").start()
        assert "another user" in session.memory.status()["off_because"]
    assert told(gumem, "alice") == turn(DOG)
    assert told(gumem, "bob") == []
    assert gumem.status()["errors"]["user_id"] >= 1


@served
def test_the_memo_of_one_user_is_not_sent_for_the_next(gumem):
    """What Agently holds of it in the session goes when the settings name another user."""
    with RuleModel("Noted.") as model:
        agent = agent_of(model)
        agent.set_settings("GUMem.user_id", "alice")
        session = using(gumem, agent, user_id=None, when=EveryNTurns(1), wait=20)
        agent.input("I live in Rome.").start()
        assert "Rome" in json.dumps(session.memo)
        agent.set_settings("GUMem.user_id", "bob")
        for _ in range(2):
            agent.input("Where do I live?").start()
            assert last(model).memo_section is None
        assert session.memo is None
        session.use_memory(mode="GUMem")
        agent.input("Where do I live?").start()
        assert last(model).memo_section is None
        assert "Rome" not in json.dumps(gumem.user("bob").memo)


@served
def test_a_session_that_is_left_for_another_users_ends_as_its_users(model, gumem):
    """The settings change before the session: the one that is left is digested all the same."""
    agent = agent_of(model)
    agent.set_settings("GUMem.user_id", "alice")
    using(gumem, agent, "hers", user_id=None, when=SessionEnd())
    agent.input(DOG).start()
    agent.set_settings("GUMem.user_id", "bob")
    agent.activate_session(session_id="his").activated_session.use_memory(mode="GUMem")
    agent.input("My car is a Skoda.").start()
    assert gumem.flush(20)
    assert DOG in [f.content for f in gumem.user("alice").facts()]
    assert told(gumem, "alice", "hers") == turn(DOG)
    assert told(gumem, "bob", "his") == turn("My car is a Skoda.")


@served
def test_two_users_sessions_of_one_agent_do_not_see_each_other(model, gumem):
    """Each session's user is asked for by its own id, and read and journaled apart."""
    agent = agent_of(model)
    gumem.register(user_id=lambda session_id: session_id)
    for name in ("alice", "bob", "plain"):
        session = agent.activate_session(session_id=name).activated_session
        if name != "plain":
            session.use_memory(mode="GUMem")
    seen = {}
    for name in ("alice", "bob", "plain", "alice"):
        agent.activate_session(session_id=name)
        agent.input(TEA).start()
        seen[name] = last(model).memo_section
    assert "oolong" in seen["alice"]
    assert "oolong" not in (seen["bob"] or "")
    assert seen["plain"] is None
    assert told(gumem, "alice", "alice") == turn(TEA) * 2
    assert told(gumem, "bob", "bob") == turn(TEA)
    assert gumem.status()["users_in_memory"] == 2


@served
def test_overlapping_turns_of_two_users_are_neither_kept_nor_recalled(model, gumem):
    """Agently mixes them into one history; the plugins of one agent know of each other."""
    agent = agent_of(model)
    gumem.register(user_id=lambda session_id: session_id)
    for name in ("bob", "alice"):
        agent.activate_session(session_id=name).activated_session.use_memory(mode="GUMem")

    async def chat():
        model.hold("chat")
        hers = asyncio.ensure_future(agent.input("My secret is plum.").async_start())
        await asyncio.to_thread(model.wait_for, 1, "chat")
        agent.activate_session(session_id="bob")
        his = asyncio.ensure_future(agent.input(TEA).async_start())
        await asyncio.to_thread(model.wait_for, 2, "chat")
        assert "two users" in agent.sessions["bob"].memory.status()["overlapping"]
        model.release("chat")
        await asyncio.gather(hers, his)

    asyncio.run(chat())
    assert model.chat_requests[1].memo_section is None
    assert told(gumem, "alice", "alice") == told(gumem, "bob", "bob") == []
    agent.activate_session(session_id="bob")
    agent.input(DOG).start()
    assert told(gumem, "bob", "bob") == turn(DOG)


@served
def test_a_turn_is_over_also_where_the_next_question_is_recorded_first(gumem):
    """A turn that overlaps with the next in its session is decided on all the same."""
    with ScriptedModel("Noted.", memory=fact_answer) as model:
        session = using(gumem, agent_of(model), when=EveryNTurns(1))
        for role, content in [*turn(DOG), ("user", TEA)]:
            session.add_chat_history({"role": role, "content": content})
        after = session.async_after_memory_turn(
            user_content=DOG, assistant_content="Noted.", result=None, settings=session.settings
        )
        asyncio.run(after)
        assert gumem.flush(20)
        assert DOG in [fact.content for fact in gumem.user("alice").facts()]


# --- sessions


@served
def test_it_survives_activating_switching_and_loading(model, gumem):
    """Whatever happens to the session, one memory serves it, and its export is plain JSON."""
    agent = agent_of(model)
    using(gumem, agent, when=WindowExceeds(messages=4), keep=2, wait=20.0)
    session = agent.activated_session
    for text in (DOG, "My car is a Skoda."):
        agent.activate_session(session_id="s")
        agent.input(text).start()
    agent.activate_session(session_id="elsewhere")
    agent.input("Nothing of this is kept.").start()
    agent.activate_session(session_id="s")
    agent.input("I was born in Ljubljana.").start()
    saved = session.get_json_session()
    assert json.loads(saved)["memo"] == session.memo
    session.load_json_session(saved)
    agent.input("What is my dog called?").start()
    assert "Biscuit" in last(model).memo_section
    assert len(session.context_window) <= 4
    expected = [DOG, "My car is a Skoda.", "I was born in Ljubljana.", "What is my dog called?"]
    assert [c for r, c in told(gumem, "alice") if r == "user"] == expected
    agent = agent_of(model)
    session = using(gumem, agent)
    session.load_json_session(saved)
    agent.input("And which car is mine?").start()
    assert "Skoda" in last(model).memo_section
    assert len(told(gumem, "alice")) == 10
    assert gumem.status()["errors"] == {}


@served
def test_its_memory_marks_stages_and_is_digested_at_once(model, gumem):
    """`session.memory.memory` is the MemorySession of the session."""
    agent = agent_of(model)
    session = using(gumem, agent, when=StageBoundary(), wait=20.0)
    agent.input(DOG).start()
    assert session.memory.memory.mark_stage("buying")
    assert DOG in [f.content for f in gumem.user("alice").facts()]
    assert "oolong" in session.memory.memory.recall(TEA).formatted_context


@served
def test_a_handler_of_the_developers_own_is_asked_and_nothing_is_lost(model, gumem):
    """Its analysis and its cut stand; the turns are journaled beside it."""
    agent = agent_of(model)
    session = using(gumem, agent, when=Manual())
    asked = []

    async def analyse(full, window, memo, settings):
        asked.append(len(full))
        return "own" if len(window) > 2 else None

    async def own(full, window, memo, settings):
        return None, window[-1:], "own memo"

    session.register_analysis_handler(analyse)
    session.register_resize_handler("own", own)
    for text in (DOG, "My car is a Skoda."):
        agent.input(text).start()
    agent.input(TEA).start()
    assert asked == [1, 2, 3, 4, 5, 6]
    assert "own memo" in last(model).memo_section
    assert "oolong" in last(model).memo_section
    assert told(gumem, "alice") == [*turn(DOG), *turn("My car is a Skoda."), *turn(TEA)]


class Plain:
    """Another SessionMemory plugin, which does nothing."""

    name = "PlainOfATest"
    DEFAULT_SETTINGS: ClassVar = {}
    memory_store = workspace = "none"

    def __init__(self, **_):
        pass

    def create_context_source(self, **_):
        """Give none."""

    async def prepare_request(self, **_):
        """Do nothing."""
        return {}

    async def after_turn(self, **_):
        """Do nothing."""
        return {}


@served
def test_another_plugin_takes_its_place_and_a_session_made_anew_has_none(model, gumem):
    """What the session itself says counts at each turn."""
    agent = agent_of(model)
    session = using(gumem, agent)
    agent.input(TEA).start()
    Agently.plugin_manager.register(KIND, Plain, activate=False)
    session.use_memory(mode="PlainOfATest")
    agent.input(TEA).start()
    assert last(model).memo_section is None
    del agent.sessions["s"]
    agent.activate_session(session_id="s")
    agent.input(TEA).start()
    assert last(model).memo_section is None
    assert told(gumem, "alice") == turn(TEA)


@served
def test_using_it_again_goes_on_and_another_mode_takes_over(model, gumem):
    """No message is doubled; options of a mode that is registered anew hold from then on."""
    agent = agent_of(model)
    session = using(gumem, agent)
    agent.input(TEA).start()
    memory = session.memory.memory
    session.use_memory(mode="GUMem")
    assert session.memory.memory is memory
    agent.input(DOG).start()
    assert told(gumem, "alice") == [*turn(TEA), *turn(DOG)]
    using(gumem, agent, remember=False)
    assert session.memory.memory is not memory
    agent.input("Not for memory.").start()
    assert last(model).memo_section is None
    assert told(gumem, "alice") == [*turn(TEA), *turn(DOG)]
    using(gumem, agent, mode="Work", space="work")
    agent.input("My badge is blue.").start()
    assert len(gumem.user("alice", space="work").messages("s")) == 8
    assert told(gumem, "alice") == [*turn(TEA), *turn(DOG)]


@served
def test_detach_gives_the_agent_back(model, gumem):
    """After the last session is detached nothing of ours is on the agent."""
    agent = agent_of(model)
    prefixes = agent.extension_handlers.get("request_prefixes", [])
    sessions = [using(gumem, agent, name) for name in ("one", "two")]
    assert "input" in agent.settings.get("session.input_keys")
    sessions[0].memory.detach()
    agent.input(TEA).start()
    assert "oolong" in last(model).memo_section
    sessions[1].memory.memory.detach()
    agent.input(TEA).start()
    assert last(model).memo_section is None
    assert agent.settings.get("session.input_keys") is None
    assert agent.extension_handlers.get("request_prefixes", []) == prefixes
    assert not sessions[1].memory.status()["active"]
    assert "detached" in sessions[1].memory.status()["off_because"]
    gumem.attach(agent, user_id="alice")


@served
def test_a_session_without_an_agent_keeps_what_it_is_given_and_says_what_is_missing(gumem, caplog):
    """Its memo is the context of the last question."""
    gumem.register(user_id="alice", when=WindowExceeds(messages=3), keep=1)
    session = Session(id="lone", plugin_manager=Agently.plugin_manager)
    with caplog.at_level(logging.WARNING, "agently_gumem"):
        session.use_memory(mode="GUMem")
    assert "not each question's own context" in caplog.text
    assert session.memory.status()["limits"]
    assert not session.memory.status()["agent_known"]
    session.use_memory(mode="GUMem")
    for text in (DOG, TEA):
        session.add_chat_history({"role": "user", "content": text})
        session.add_chat_history({"role": "assistant", "content": "Noted."})
    assert told(gumem, "alice", "lone") == [*turn(DOG), *turn(TEA)]
    assert "oolong" in session.memo


# --- registering


@served
def test_no_setting_of_the_application_is_overwritten(gumem, settings):
    """Neither what it set for the mode, nor which memory is Agently's own, at any registering."""
    settings(f"plugins.{KIND}.GUMem.shown", {"by": "the application"})
    settings("GUMem.user_id", "alice")
    before = Agently.settings.get("plugins", {}).get(KIND, {}).get("activate")
    for _ in range(2):
        gumem.register(user_id="bob")
        assert Agently.settings.get(f"plugins.{KIND}.GUMem.shown") == {"by": "the application"}
        assert Agently.settings.get("GUMem.user_id") == "alice"
        assert Agently.settings.get("plugins", {}).get(KIND, {}).get("activate") == before
    assert Agently.settings.get("session.input_keys") is None


@served
def test_a_mode_belongs_to_one_open_gumem(model, gumem):
    """Another one has to choose a name of its own until the first is closed."""
    gumem.register()
    with GUMem() as other:
        with pytest.raises(ConfigError, match="another GUMem"):
            other.register()
        other.register(mode="Other", user_id="alice")
        with pytest.raises(ConfigError, match="another plugin"):
            other.register(mode="AgentlyMemory")
        gumem.close()
        other.register(user_id="alice")
        agent = agent_of(model)
        agent.activate_session(session_id="s").activated_session.use_memory(mode="GUMem")
        agent.input(DOG).start()
        assert told(other, "alice") == turn(DOG)
    with pytest.raises(Closed):
        agent.activated_session.use_memory(mode="GUMem")
    with pytest.raises(Closed):
        other.register()


@served
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mode": "a.b"}, "a.b"),
        ({"mode": ""}, "mode"),
        ({"user_id": " "}, "user_id"),
        ({"user_id": 7}, "user_id"),
        ({"space": ""}, "space"),
        ({"wait": -1}, "wait"),
        ({"when": 3}, "when"),
    ],
)
def test_a_wrong_option_is_an_error_at_once(options, says, gumem):
    """It names the option; nothing is registered."""
    before = Agently.plugin_manager.get_plugin_list(KIND)
    with pytest.raises(ConfigError, match=says):
        gumem.register(**{"mode": "Wrong", **options})
    assert Agently.plugin_manager.get_plugin_list(KIND) == before


def _attach(gumem, agent):
    gumem.attach(agent, user_id="alice")


def _session(gumem, agent):
    gumem.session("alice", "s", agent=agent)


def _use(gumem, agent):
    using(gumem, agent)


def _use_of_another(gumem, agent):
    other = GUMem()
    try:
        using(other, agent, mode="Other")
    finally:
        other.close()


@served
@pytest.mark.parametrize(
    ("first", "second"),
    [(_attach, _use), (_session, _use), (_use, _attach), (_use, _session), (_use, _use_of_another)],
)
def test_an_agent_has_memory_by_one_way(first, second, model, gumem):
    """The second way is a clear error, and the first goes on with each message once."""
    agent = agent_of(model)
    agent.activate_session(session_id="s")
    first(gumem, agent)
    with pytest.raises(ConfigError, match="detach"):
        second(gumem, agent)
    agent.input(TEA).start()
    assert "oolong" in last(model).memo_section
    if first is not _session:
        assert told(gumem, "alice") == turn(TEA)


@served
def test_an_agent_of_a_closed_gumem_can_be_used_by_the_next(model):
    """What was set on the agent goes with it."""
    agent = agent_of(model)
    counts = []
    for _ in range(2):
        with GUMem() as gumem:
            using(gumem, agent)
            counts.append(len(agent.extension_handlers.get("request_prefixes", [])))
            agent.input(DOG).start()
            assert told(gumem, "alice")[-2:] == turn(DOG)
    assert counts[0] == counts[1]
    with GUMem() as gumem:
        gumem.attach(agent, user_id="alice")
