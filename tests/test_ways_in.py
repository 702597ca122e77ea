"""Every way in, over real HTTP: what reaches the model, what is kept, what is undone."""

import asyncio
import json

import pytest
from agently import Agently
from e2e import (
    LEVELS,
    METHODS,
    PLANTED,
    WAYS,
    agent_of,
    analysing,
    attached,
    executing,
    fact_answer,
    handled_before,
    old_memo_json,
    pairs,
    register,
    say,
    seeded,
)

from agently_gumem import ConfigError, EveryNTurns, GUMem, Manual, NotFound, WindowExceeds
from agently_gumem.remember.align import said
from agently_gumem.testing import Reply, RuleModel, ScriptedModel

pytestmark = pytest.mark.host


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


@pytest.fixture
def known(gumem):
    """A store that knows of alice's tea, as a message and nothing more."""
    gumem.user("alice").add_messages({"content": "I drink oolong tea."}, "earlier")
    return gumem


def last(model):
    """The last request of the chat itself."""
    return model.chat_requests[-1]


# --- what reaches the model


# `attached` is what `chained` and `inherited` rest on.
@pytest.mark.parametrize("way", [way for way in WAYS if way is not attached])
def test_each_turn_of_a_second_session_carries_what_its_question_needs(way, model, gumem):
    """Ten questions, ten answers that stand in no window: each in its own request, from turn 1."""
    agent = agent_of(model)
    memory = way(gumem, agent, "one")
    agent.input(PLANTED[0][0]).start()
    say(agent.activated_session, *[(told, "Noted.") for told, _, _ in PLANTED[1:]])
    memory.digest()
    before = len(model.chat_requests)
    agent = agent_of(model)
    way(gumem, agent, "two")
    for _, asked, _ in PLANTED:
        assert agent.input(asked).start() == "Noted."
    assert gumem.status()["errors"] == {}
    requests = model.chat_requests[before:]
    assert [r.question for r in requests] == [asked for _, asked, _ in PLANTED]
    for request, (_, asked, answer) in zip(requests, PLANTED, strict=True):
        assert answer in (request.memo_section or ""), (asked, request.memo_section)
        assert answer not in json.dumps(request.messages[:-1], ensure_ascii=False)


@pytest.mark.parametrize("method", METHODS)
def test_the_seed_pattern_keeps_turns_trims_and_recalls(method, model, gumem):
    """The seed's lines with our two functions digest, cut the window and keep every turn."""
    agent = agent_of(model)
    memory = seeded(gumem, agent, "s", method=method, when=WindowExceeds(messages=6))
    for told, _, _ in PLANTED[:5]:
        agent.input(told).start()
    window = agent.activated_session.context_window
    assert len(agent.activated_session.full_context) == 10
    assert len(window) <= 6
    assert window[0].role == "user"
    assert len(gumem.user("alice").messages("s")) == 10
    assert memory.flush(10)
    assert gumem.user("alice").facts()
    agent.input("Who is my dentist?").start()
    assert "Alvarez" in last(model).memo_section


def test_without_an_agent_the_session_holds_the_context_of_the_last_question(gumem):
    """A session that was made without its agent says what is missing, and still remembers."""
    with RuleModel("Noted.") as model:
        settings = Agently.settings.get("OpenAICompatible", {})
        assert settings.get("base_url") != model.url
        agent = agent_of(model)
        agent.set_settings("session.input_keys", ["input"])
        agent.activate_session(session_id="s")
        memory = GUMem.session(gumem, "alice", "s", when=WindowExceeds(messages=3), keep=1)
        assert len(memory.status()["limits"]) == 3
        agent.activated_session.register_analysis_handler(memory.analysis_handler)
        register(agent.activated_session, memory.execution_handler)
        agent.input("I drink oolong tea.").start()
        agent.input("Do I drink oolong?").start()
        assert "oolong tea" in agent.activated_session.memo
        assert len(gumem.user("alice").messages("s")) == 4


def test_execution_alone_journals_what_a_developers_analysis_passed_by(model, gumem):
    """A developer's own analysis that names our strategy now and then loses no turn."""
    agent = agent_of(model)
    executing(gumem, agent, "s", when=WindowExceeds(messages=6))
    for told, _, _ in PLANTED[:6]:
        agent.input(told).start()
    stored = pairs(gumem.user("alice").messages("s"))
    asked = [told for told, _, _ in PLANTED[:6]]
    assert [c for r, c in stored if r == "user"] == asked[: len(stored) // 2]
    shown = json.dumps([m.model_dump() for m in agent.activated_session.context_window])
    assert all(told in shown or ("user", told) in stored for told in asked)


def test_analysis_alone_leaves_memo_and_window_to_the_developers_handler(model, known):
    """Both memos reach the model, the developer's window stands, and each turn is journaled."""
    agent = agent_of(model)
    analysing(known, agent, "s", when=WindowExceeds(messages=4), keep=2)
    for told, _, _ in PLANTED[:4]:
        agent.input(told).start()
    assert agent.activated_session.memo == "Developer's own memo."
    assert len(known.user("alice").messages("s")) == 8
    agent.input("What tea do I drink?").start()
    assert "Developer's own memo." in last(model).memo_section
    assert "oolong" in last(model).memo_section
    assert not known.user("alice").messages(event_type="imported_memo")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("existing", ["chain", "replace"])
def test_a_handler_that_was_there_is_kept_and_asked_or_replaced(existing, level, model, known):
    """`existing` decides whether an earlier analysis handler goes on being asked."""
    agent = agent_of(model)
    calls = []

    async def before(full, window, memo, settings):
        calls.append(len(full))

    handled_before(agent, "s", before, level=level)
    known.attach(agent, user_id="alice", existing=existing)
    agent.activate_session(session_id="s")
    agent.input("What tea do I drink?").start()
    assert calls == ([1, 2] if existing == "chain" else [])
    assert "oolong" in last(model).memo_section
    assert len(known.user("alice").messages("s")) == 2


def test_a_handler_that_was_there_may_name_its_own_strategy(model, known):
    """A chained handler's answer decides on memo and window, and ours journals all the same."""
    agent = agent_of(model)

    async def before(full, window, memo, settings):
        return "own" if window[-1].role == "assistant" else None

    async def own(full, window, memo, settings):
        return None, window[-2:], "own memo"

    handled_before(agent, "s", before, own)
    attached(known, agent, "s")
    agent.input("Hello there.").start()
    agent.input("What tea do I drink?").start()
    assert "own memo" in last(model).memo_section
    assert "oolong" in last(model).memo_section
    assert len(agent.activated_session.context_window) == 2
    assert len(known.user("alice").messages("s")) == 4


@pytest.mark.parametrize("level", LEVELS)
def test_a_handler_that_was_there_can_be_an_error(level, model, gumem):
    """existing="error" refuses an agent that has a handler, and leaves the agent as it was."""
    agent = agent_of(model)

    async def before(full, window, memo, settings):
        return None

    agent.activate_session(session_id="s")
    handled_before(agent, "s", before, level=level)
    with pytest.raises(ConfigError, match="chain"):
        gumem.attach(agent, user_id="alice", existing="error")
    assert agent.settings.get("session.input_keys") is None
    with pytest.raises(ConfigError, match="sometimes"):
        gumem.attach(agent, user_id="alice", existing="sometimes")
    gumem.attach(agent, user_id="alice", existing="chain")


def test_an_old_dict_memo_is_taken_over_once_shown_and_then_replaced(tmp_path):
    """A memo of the app's earlier handler is shown from turn 1, becomes memory once, and goes."""
    with RuleModel("Noted.") as model:
        with GUMem(tmp_path) as gumem:
            agent = agent_of(model)
            memory = attached(gumem, agent, "s", when=EveryNTurns(1))
            agent.activated_session.load_json_session(old_memo_json("s"))
            agent.input("My dog is called Biscuit.").start()
            assert "Dvorak" in last(model).memo_section
            assert memory.flush(10)
            agent.input("My car is a Skoda.").start()
            assert memory.flush(10)
            taken = gumem.user("alice").messages(event_type="imported_memo")
            assert len(taken) == 1
            assert isinstance(agent.activated_session.memo, str)
            saved = agent.activated_session.get_json_session()
        with GUMem(tmp_path) as gumem:
            agent = agent_of(model)
            attached(gumem, agent, "s")
            agent.activated_session.load_json_session(saved)
            agent.input("Which keyboard do I use?").start()
            assert last(model).memo_section.count("Dvorak") == 1
            user = gumem.user("alice")
            assert [m.id for m in user.messages(event_type="imported_memo")] == [taken[0].id]
            assert len(user.messages(event_type="message")) == 6


def test_an_old_memo_is_also_taken_over_by_the_seed_pattern(gumem):
    """The two handlers alone take over the dict memo that the seed's own handler left."""
    with RuleModel("Noted.") as model:
        agent = agent_of(model)
        seeded(gumem, agent, "s", when=EveryNTurns(1))
        agent.activated_session.load_json_session(old_memo_json("s"))
        agent.input("My dog is called Biscuit.").start()
        assert "formal" in last(model).memo_section
        assert len(gumem.user("alice").messages(event_type="imported_memo")) == 1


def test_the_memo_can_be_kept_as_a_dict(gumem):
    """session_memo="dict" keeps the structured memo on the session, and the model reads text."""
    with RuleModel("Noted.") as model:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1), session_memo="dict", wait=10)
        agent.input("I am allergic to peanuts.").start()
        assert agent.activated_session.memo == memory.memo
        assert memory.memo["constraints"] == ["User is allergic to peanuts"]
        agent.input("What may I not eat?").start()
        assert "constraints:" in last(model).memo_section
        assert "User is allergic to peanuts" in last(model).memo_section
        json.loads(agent.activated_session.get_json_session())


def test_nothing_known_means_no_section(model, gumem):
    """The first question of a new user is sent as it is."""
    agent = agent_of(model)
    attached(gumem, agent, "s")
    agent.input("Hello there.").start()
    assert last(model).memo_section is None
    assert last(model).text == "Hello there."


def test_the_section_is_this_questions_own(model, gumem):
    """Each request carries its question's context, and nothing of the one before."""
    user = gumem.user("alice")
    user.add_messages({"content": "I drink oolong tea."}, "x")
    user.add_messages({"content": "My car is a Skoda."}, "y")
    agent = agent_of(model)
    attached(gumem, agent, "s")
    agent.input("Which tea do I drink?").start()
    assert "oolong" in last(model).memo_section
    assert "Skoda" not in last(model).memo_section
    agent.input("Which car is mine?").start()
    assert "Skoda" in last(model).memo_section
    assert "oolong" not in last(model).memo_section
    agent.input("How high is the Eiffel tower?").start()
    assert last(model).memo_section is None


# --- how a turn can be asked


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


@pytest.mark.parametrize("ask", [_sync, _asynchronous, _generator, _async_generator])
@pytest.mark.parametrize("way", [attached, seeded])
def test_every_way_to_ask_is_remembered_and_recalls(ask, way, model, known):
    """Plain, awaited and streamed turns carry memory and are journaled once."""
    agent = agent_of(model)
    way(known, agent, "s")
    assert ask(agent, "Which tea do I drink?") == "Noted."
    assert "oolong" in last(model).memo_section
    assert ask(agent, "And my dog is called Biscuit.") == "Noted."
    stored = pairs(known.user("alice").messages("s"))
    assert stored == [
        ("user", "Which tea do I drink?"),
        ("assistant", "Noted."),
        ("user", "And my dog is called Biscuit."),
        ("assistant", "Noted."),
    ]


def test_a_request_of_the_agent_recalls_too(model, known):
    """`agent.request` takes the same section."""
    agent = agent_of(model)
    attached(known, agent, "s")
    agent.request.input("Which tea do I drink?").start()
    assert "oolong" in last(model).memo_section


def test_the_recorded_question_is_the_users_own_text(model, known):
    """Neither a label, nor the section, nor the system prompt is kept as said by the user."""
    agent = agent_of(model)
    agent.set_agent_prompt("system", "You are a tea expert.")
    attached(known, agent, "s")
    agent.input("Which tea do I drink?").instruct("Answer in one word.").start()
    agent.input("And how hot?").start()
    stored = known.user("alice").messages("s", role="user")
    assert [m.content for m in stored] == ["Which tea do I drink?", "And how hot?"]
    held = [said(m).text for m in agent.activated_session.full_context]
    whole = [str(m.content) for m in agent.activated_session.full_context]
    assert held[::2] == ["Which tea do I drink?", "And how hot?"]
    assert not any("one word" in text or "assistant:" in text for text in whole)
    assert len(json.dumps(last(model).messages)) < 1500


def test_input_keys_of_the_user_stand(model, gumem):
    """What the user set is neither overwritten nor taken away by detach."""
    agent = agent_of(model)
    agent.set_settings("session.input_keys", ["input", "info"])
    before = agent.settings.get("session.input_keys")
    memory = gumem.attach(agent, user_id="alice")
    assert agent.settings.get("session.input_keys") == before
    memory.detach()
    assert agent.settings.get("session.input_keys") == before


def test_a_structured_turn_is_kept_with_its_answer(gumem):
    """An answer of `.output()` is journaled as its text, and read from a dict of the input too."""
    with ScriptedModel({"city": "Ghent"}) as model:
        agent = agent_of(model)
        attached(gumem, agent, "s")
        asked = {"question": "Where do I live?", "lang": "en"}
        assert agent.input(asked).output({"city": (str, "a city")}).start() == {"city": "Ghent"}
        stored = gumem.user("alice").messages("s")
        assert [m.role for m in stored] == ["user", "assistant"]
        assert "Where do I live?" in stored[0].content
        assert "Ghent" in stored[1].content
        assert "OUTPUT REQUIREMENT" not in stored[0].content


def test_a_dict_as_input_is_the_question(model, known):
    """Recall reads a question that is no plain text."""
    agent = agent_of(model)
    attached(known, agent, "s")
    agent.input({"question": "Which tea do I drink?"}).start()
    assert "oolong" in last(model).memo_section


def test_failed_attempts_of_a_structured_turn_are_left_out(gumem):
    """Retries leave "None" twins in Agently's history, and none of them in memory."""
    answers = iter(["no json", "still none", '{"city": "Ghent"}', '{"city": "Bruges"}'])
    with ScriptedModel(lambda _: next(answers)) as model:
        agent = agent_of(model)
        attached(gumem, agent, "s")
        turn = agent.input("Where do I live?").output({"city": (str, "a city")})
        assert turn.start(ensure_keys=["city"], max_retries=3) == {"city": "Ghent"}
        turn = agent.input("And where next?").output({"city": (str, "a city")})
        assert turn.start(ensure_keys=["city"], max_retries=3) == {"city": "Bruges"}
        stored = gumem.user("alice").messages("s")
        assert [m.role for m in stored] == ["user", "assistant"] * 2
        assert not [m for m in stored if m.content == "None"]
        assert "Ghent" in stored[1].content
        assert "Bruges" in stored[3].content


def test_none_can_be_an_answer(gumem):
    """A genuine "None" beside no twin of its question is kept."""
    with ScriptedModel("None") as model:
        agent = agent_of(model)
        attached(gumem, agent, "s")
        agent.input("Which allergies have I told you of?").start()
        agent.input("And which pets?").start()
        stored = pairs(gumem.user("alice").messages("s"))
        assert [c for r, c in stored if r == "assistant"] == ["None", "None"]


# --- turns that go wrong


def test_an_empty_reply_loses_nothing(gumem):
    """A question that got no text is kept as soon as the next turn is answered."""
    answers = iter(["", "Noted."])
    with ScriptedModel(lambda _: Reply(next(answers))) as model:
        agent = agent_of(model)
        attached(gumem, agent, "s")
        agent.input("My dog is called Biscuit.").start()
        agent.input("And my car is a Skoda.").start()
        stored = [m.content for m in gumem.user("alice").messages("s", role="user")]
        assert stored == ["My dog is called Biscuit.", "And my car is a Skoda."]
        assert gumem.status()["errors"] == {}


def test_a_turn_that_fails_is_agentlys_own_and_keeps_nothing(gumem):
    """Status 500 reaches the caller as without memory, nothing is kept, the next turn is fine."""
    answers = iter([Reply("broken", status=500)] * 2 + [Reply("Noted.")])
    with ScriptedModel(lambda _: next(answers)) as model:
        plain = agent_of(model)
        with ScriptedModel(Reply("broken", status=500)) as other:
            plain.set_settings("OpenAICompatible", other.settings)
            with pytest.raises(Exception, match="500") as without:
                plain.input("hi").start()
        agent = agent_of(model)
        attached(gumem, agent, "s")
        with pytest.raises(Exception, match="500") as caught:
            agent.input("My dog is called Biscuit.").start()
        assert type(caught.value) is type(without.value)
        assert gumem.user("alice").messages() == []
        assert agent.input("My car is a Skoda.").start() == "Noted."
        assert [m.content for m in gumem.user("alice").messages(role="user")] == [
            "My car is a Skoda."
        ]


def test_a_generator_closed_early_leaves_the_next_turn_whole(model, known):
    """A stream that the caller left is not kept, and does not stand in the way of what follows."""
    agent = agent_of(model)
    attached(known, agent, "s")
    stream = agent.input("Which tea do I drink?").get_generator(type="delta")
    next(iter(stream))
    stream.close()
    agent.input("My dog is called Biscuit.").start()
    stored = pairs(known.user("alice").messages("s"))
    assert ("user", "My dog is called Biscuit.") in stored
    assert stored[-1] == ("assistant", "Noted.")
    assert known.status()["errors"] == {}


async def test_a_cancelled_turn_leaves_the_next_one_whole(model, known):
    """A turn that is cancelled while the model thinks keeps nothing and breaks nothing."""
    agent = agent_of(model)
    attached(known, agent, "s")
    model.hold("chat")
    turn = asyncio.ensure_future(agent.input("Which tea do I drink?").async_start())
    await asyncio.to_thread(model.wait_for, 1, "chat")
    turn.cancel()
    with pytest.raises(BaseException):  # noqa: B017, PT011  # differs by version
        await turn
    model.release("chat")
    await agent.input("My dog is called Biscuit.").async_start()
    stored = pairs(await known.user("alice").async_messages("s", role="user"))
    assert stored[-1] == ("user", "My dog is called Biscuit.")
    assert (await known.async_status())["errors"] == {}


def test_a_failed_turn_of_one_user_does_not_overlap_with_the_next_users(gumem):
    """A turn that failed is taken for over: two users in turn are not two at once."""
    answers = iter([Reply("broken", status=500)] * 2 + [Reply("Noted.")] * 4)
    with ScriptedModel(lambda r: next(answers) if r.question == "Fail." else "Noted.") as model:
        agent = agent_of(model)
        memory = gumem.attach(agent, user_id=lambda session_id: session_id)

        async def chat():
            agent.activate_session(session_id="alice")
            with pytest.raises(Exception, match="500"):
                await agent.input("Fail.").async_start()
            agent.activate_session(session_id="bob")
            await agent.input("My car is a Skoda.").async_start()

        asyncio.run(chat())
        assert memory.status()["overlapping"] == ""
        told = gumem.user("bob").messages(role="user")
        assert [m.content for m in told] == ["My car is a Skoda."]


# --- sessions


def test_switching_sessions_and_back_keeps_both(model, known):
    """Sessions of one attached agent share the user's memory and keep their own turns."""
    agent = agent_of(model)
    memory = known.attach(agent, user_id="alice")
    for session_id in ("a", "b", "a", "b"):
        agent.activate_session(session_id=session_id)
        agent.input(f"Which tea do I drink in {session_id}?").start()
        assert "oolong" in last(model).memo_section
    assert len(known.user("alice").messages("a")) == 4
    assert len(known.user("alice").messages("b")) == 4
    assert memory.session("a").session_id == "a"
    assert memory.session().session_id == "b"
    agent.deactivate_session()
    with pytest.raises(NotFound, match="activate_session"):
        memory.session()
    with pytest.raises(NotFound, match="'z'"):
        memory.session("z")


def test_our_session_level_handler_survives_switching(model, known):
    """Activating a session wipes its own analysis handler in Agently: ours is bound again."""
    agent = agent_of(model)
    seeded(known, agent, "a")
    agent.input("My dog is called Biscuit.").start()
    agent.activate_session(session_id="other")
    agent.input("Not remembered here.").start()
    agent.activate_session(session_id="a")
    agent.activate_session(session_id="a")
    agent.input("Which tea do I drink?").start()
    assert "oolong" in last(model).memo_section
    stored = known.user("alice").messages("a", role="user")
    assert [m.content for m in stored] == ["My dog is called Biscuit.", "Which tea do I drink?"]
    assert not known.user("alice").messages("other")


def test_attach_twice_is_an_error_that_says_so(model, gumem):
    """A second attach, also of another GUMem, is refused and changes nothing."""
    agent = agent_of(model)
    attached(gumem, agent, "s")
    with pytest.raises(ConfigError, match="detach"):
        gumem.attach(agent, user_id="bob")
    with GUMem() as other, pytest.raises(ConfigError, match="detach"):
        other.attach(agent, user_id="alice")
    agent.input("My car is a Skoda.").start()
    assert len(gumem.user("alice").messages("s")) == 2
    assert gumem.user("bob").messages() == []


def test_detach_gives_the_agent_back_as_it_was(model, known):
    """Handlers, prefixes, input keys and methods are what they were, and turns are left alone."""
    agent = agent_of(model)

    async def of_agent(full, window, memo, settings):
        return None

    async def of_session(full, window, memo, settings):
        calls.append(len(full))

    calls = []
    if "agent" in LEVELS:
        handled_before(agent, "own", of_agent)
    handled_before(agent, "own", of_session, level="session")
    agent.activate_session(session_id="plain")
    agent.sessions["own"].register_analysis_handler(of_session)
    before = {
        "prefixes": list(agent.extension_handlers.get("request_prefixes", [])),
        "keys": agent.settings.get("session.input_keys"),
        "methods": {n for n in ("activate_session", "deactivate_session") if n in vars(agent)},
        "handlers": [
            getattr(s._analysis_handler, "__wrapped__", s._analysis_handler)
            for s in agent.sessions.values()
        ],
    }
    memory = known.attach(agent, user_id="alice")
    agent.input("Which tea do I drink?").start()
    memory.detach()
    memory.detach()
    after = {
        "prefixes": list(agent.extension_handlers.get("request_prefixes", [])),
        "keys": agent.settings.get("session.input_keys"),
        "methods": {n for n in ("activate_session", "deactivate_session") if n in vars(agent)},
        "handlers": [
            getattr(s._analysis_handler, "__wrapped__", s._analysis_handler)
            for s in agent.sessions.values()
        ],
    }
    assert after == before
    assert memory.status()["attached"] is False
    agent.input("Which tea do I drink now?").start()
    assert last(model).memo_section is None
    assert len(known.user("alice").messages("plain")) == 2


def test_detach_and_attach_again_remembers_once(model, known):
    """An agent that is attached anew goes on, and takes up what was said meanwhile once."""
    agent = agent_of(model)
    memory = known.attach(agent, user_id="alice")
    agent.activate_session(session_id="s")
    agent.input("My dog is called Biscuit.").start()
    memory.detach()
    known.attach(agent, user_id="alice")
    agent.input("Which tea do I drink?").start()
    assert "oolong" in last(model).memo_section
    stored = known.user("alice").messages("s", role="user")
    assert [m.content for m in stored] == ["My dog is called Biscuit.", "Which tea do I drink?"]


def test_a_detached_session_of_the_seed_pattern_is_inert(model, known):
    """`MemorySession.detach` stops reading and writing though its handlers stay registered."""
    agent = agent_of(model)
    memory = seeded(known, agent, "s")
    memory.detach()
    agent.input("Which tea do I drink?").start()
    assert last(model).memo_section is None
    assert known.user("alice").messages("s") == []
    assert memory.status()["active"] is False


def test_a_session_goes_on_in_another_process_without_a_double(model, tmp_path):
    """A session that was saved and loaded keeps each message once, and goes on trimming."""
    with GUMem(tmp_path) as gumem:
        agent = agent_of(model)
        attached(gumem, agent, "s", when=WindowExceeds(messages=6))
        for told, _, _ in PLANTED[:3]:
            agent.input(told).start()
        saved = agent.activated_session.get_json_session()
    with GUMem(tmp_path) as gumem:
        agent = agent_of(model)
        attached(gumem, agent, "s", when=WindowExceeds(messages=6))
        agent.activated_session.load_json_session(saved)
        agent.input("And my cat is called Minka.").start()
        stored = [m.content for m in gumem.user("alice").messages("s", role="user")]
        assert stored == [*(told for told, _, _ in PLANTED[:3]), "And my cat is called Minka."]
        assert len(agent.activated_session.context_window) == 4


def test_a_reference_opens_the_same_session(model, known):
    """`ref()` is plain data that `open` takes; anything else is refused."""
    agent = agent_of(model)
    memory = attached(known, agent, "s", when=Manual())
    agent.input("My dog is called Biscuit.").start()
    ref = json.loads(json.dumps(memory.ref()))
    assert known.open(ref).status()["messages"] == 2
    with pytest.raises(ConfigError, match="user_id"):
        known.open({"user": "alice"})


def test_the_methods_of_the_active_session_are_the_agents(model, known):
    """What attach returns digests, recalls, marks and tells for the active session."""
    agent = agent_of(model)
    memory = known.attach(agent, user_id="alice", when=Manual())
    agent.activate_session(session_id="s")
    agent.input("My dog is called Biscuit.").start()
    assert memory.mark_stage("intro", key="1") is True
    assert memory.mark_stage("intro", key="1") is False
    assert memory.digest().new == 2
    assert memory.flush(1) is True
    assert "Biscuit" in known.user("alice").facts()[-1].content
    assert "oolong" in memory.recall("Which tea do I drink?").formatted_context
    assert memory.ref() == {"user_id": "alice", "space": "default", "session_id": "s"}
    assert memory.user.user_id == "alice"
    assert memory.status()["pending"] == 0


def test_history_that_the_application_sets_is_journaled_without_a_date(model, known):
    """Turns set as history have no time, those that are seen to arrive have one."""
    agent = agent_of(model)
    attached(known, agent, "s")
    old = [("user", "My cat is called Minka."), ("assistant", "Nice.")]
    agent.activated_session.set_chat_history([{"role": r, "content": c} for r, c in old])
    say(agent.activated_session, ("My dog is called Biscuit.", "Noted."))
    stored = known.user("alice").messages("s")
    assert pairs(stored) == [*old, ("user", "My dog is called Biscuit."), ("assistant", "Noted.")]
    assert [m.timestamp is None for m in stored] == [True, True, False, False]


def test_the_user_of_the_agent_is_known_without_an_active_session(model, known):
    """After a session was left, its user can be read; what is the session's own says so."""
    agent = agent_of(model)
    memory = known.attach(agent, user_id="alice", when=Manual())
    assert memory.status()["session_id"] is None
    agent.activate_session(session_id="s")
    agent.input("My dog is called Biscuit.").start()
    during = memory.status()
    agent.deactivate_session()
    assert known.flush(10)
    after = memory.status()
    assert (during["active"], during["session_id"]) == (True, "s")
    assert (after["active"], after["session_id"], after["user_id"]) == (False, None, "alice")
    assert (during["pending"], after["pending"]) == (2, 3)
    assert asyncio.run(memory.async_status()) == after
    assert [m.content for m in memory.user.messages()][1] == "My dog is called Biscuit."
    assert memory.memo == {}
    with pytest.raises(NotFound, match=r"gumem\.flush\(\)"):
        memory.flush()
    with pytest.raises(NotFound, match="activate_session"):
        memory.digest()


def test_a_function_of_the_session_needs_one(model, gumem):
    """Where a function tells the user, nobody is known before a session is active."""
    agent = agent_of(model)
    memory = gumem.attach(agent, user_id=lambda session_id: session_id, when=Manual())
    with pytest.raises(NotFound, match="no session is active"):
        _ = memory.user
    assert memory.status()["user_id"] is None
    assert memory.status()["pending"] is None
    agent.activate_session(session_id="bob")
    assert memory.user.user_id == memory.status()["user_id"] == "bob"


@pytest.mark.parametrize("thing", ["x", None, Agently])
def test_what_is_no_agent_is_not_attached(thing, gumem):
    """The error says where an agent comes from."""
    with pytest.raises(ConfigError, match=r"made by Agently\.create_agent\(\), not one of type"):
        gumem.attach(thing, user_id="alice")
