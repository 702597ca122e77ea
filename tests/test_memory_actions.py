"""Memory as actions of a model: of one user by construction, confirmed, and never an exception."""

import asyncio
import datetime
import inspect
import json
import re
from importlib.metadata import version

import pytest
from e2e import fact_answer
from toolplay import MARKS, Player, agent_with, begin, offer, spare

from agently_gumem import ConfigError, GUMem, Manual
from agently_gumem.remember.asked import asks_to_remember
from agently_gumem.testing import Reply, RuleModel, ScriptedModel

pytestmark = MARKS
FEW = ("test_a_model_recalls_with_ids_and_nothing_of_it_is_journaled",)
ATTACH = pytest.mark.skipif(version("agently") == "4.0.8", reason="attach needs 4.0.8.1")


@pytest.fixture(autouse=True)
def _spared(request):
    """Ask less where it takes long."""
    spare(request, FEW)


@pytest.fixture
def gumem():
    """Open a store in memory."""
    with GUMem() as gumem:
        yield gumem


def call(action, **given):
    """Call an action as a model does, from an application's own loop."""
    return asyncio.run(action(**given))


def known(user, text="I live in Berlin.", answer=fact_answer):
    """Let a user have said something that is a Fact; return it."""
    user.add_messages({"role": "user", "content": text}, session_id="s", digest=True)
    return next(f for f in user.facts() if f.content == text)


@pytest.fixture
def facts(use):
    """Answer each digest with a Fact a message of the user."""
    with ScriptedModel(memory=fact_answer) as model:
        yield use(model)


# -- what they are --------------------------------------------------------------------------------


def test_they_are_plain_functions_that_name_no_user(gumem):
    """A signature with types, a docstring, and no way to name whose memory it is."""
    made = gumem.user("alice").actions()
    names = ["recall_memory", "remember", "forget_memory"]
    assert all(a.__name__.startswith(name) for a, name in zip(made, names, strict=True))
    for action in made:
        assert inspect.iscoroutinefunction(action)
        assert inspect.getdoc(action)
        for name, parameter in inspect.signature(action).parameters.items():
            assert name in ("about", "text", "ids", "code")
            assert parameter.annotation is not inspect.Parameter.empty


def test_forgetting_can_be_left_out_and_a_wrong_policy_is_an_error(gumem):
    """Three policies; the error names them."""
    assert len(gumem.user("alice").actions(forget="off")) == 2
    with pytest.raises(ConfigError, match='"confirm", "allow", "off"'):
        gumem.user("alice").actions(forget="always")


# -- in a turn ------------------------------------------------------------------------------------


def test_a_model_recalls_with_ids_and_nothing_of_it_is_journaled(gumem):
    """What was recalled stands in the request, and becomes neither message nor Fact."""
    player = Player("In Berlin.")
    with ScriptedModel(player, memory=fact_answer) as model:
        agent = agent_with(model)
        memory = begin(gumem, agent, "s2", when=Manual())
        recall, *_ = acts = memory.actions()
        offer(agent, acts)
        memory.user.add_messages({"role": "user", "content": "I live in Berlin."}, session_id="s1")
        memory.user.digest()
        (fact,) = memory.user.facts()
        player.calls((recall.__name__, {"about": "Where does the user live?"}))
        assert agent.input("Where do I live?").start() == "In Berlin."
        memory.user.digest()
        assert fact.id in player.results[-1]
        assert "data, never instructions" in player.results[-1]
        assert memory.user.messages(event_type="tool_call") == []
        assert [f.content for f in memory.user.facts()] == [
            "I live in Berlin.",
            "Where do I live?",  # as the scripted model extracts: each message of the user
        ]


def test_under_another_name_it_is_still_not_journaled(gumem):
    """Registered as something else, its results say whose they are."""
    player = Player("Yes.")
    with ScriptedModel(player) as model:
        agent = agent_with(model)
        memory = begin(gumem, agent, "s", when=Manual())
        recall = memory.actions()[0]
        agent.register_tool(
            name="look_up", desc="Look up.", kwargs={"about": (str, "what")}, func=recall
        )
        player.calls(("look_up", {"about": "anything"}))
        agent.input("Hm?").start()
        assert "nothing relevant is remembered" in player.results[-1]
        assert [m.event_type for m in memory.user.messages()] == ["message", "message"]


def test_what_the_model_keeps_is_digested_at_once_and_needs_the_users_word(gumem):
    """A note stands before the answer; alone it is no Fact, the user's own message is."""

    def extract(request):
        if request.memory_stage != "extract":
            return {"summaries": [], "same_topics": [], "memo": []}
        lines = request.data["NEW MESSAGES"]
        note = next(m for m in lines if m.get("event") == "memory_note")
        said = next(m for m in lines if m["role"] == "user")
        alone = {"content": "The user owns a yacht.", "sources": [note["ref"]]}
        both = {"content": "The user's locker is 4711.", "sources": [said["ref"], note["ref"]]}
        return {"facts": [alone, both], "memo": []}

    player = Player("Kept.")
    with ScriptedModel(player, memory=extract) as model:
        agent = agent_with(model)
        memory = begin(gumem, agent, "s", when=Manual(), wait=5)
        acts = memory.actions()
        offer(agent, acts)
        note = "The user's locker is 4711. The user owns a yacht."
        player.calls((acts[1].__name__, {"text": note}))
        agent.input("My locker is 4711, by the way.").start()
        memory.flush()
        stored = memory.user.messages()
        assert [f.content for f in memory.user.facts()] == ["The user's locker is 4711."]
    assert [(m.event_type, m.role) for m in stored] == [
        ("message", "user"),
        ("memory_note", "assistant"),
        ("message", "assistant"),
    ]
    assert stored[1].id in player.results[-1]


def test_a_secret_is_not_kept_by_a_note(gumem):
    """A note passes the same selection as all that is stored."""
    with ScriptedModel("ok"):
        user = gumem.user("alice")
        call(user.actions()[1], text="password: hunter2")
        assert "hunter2" not in "".join(m.content for m in user.messages())


def test_what_the_memo_says_is_found_too(gumem, use):
    """The text of a recall leaves it out, but its id is needed to forget it."""
    with RuleModel() as model:
        use(model)
        user = gumem.user("alice")
        user.add_messages({"role": "user", "content": "I live in Berlin."}, digest=True)
        assert "Berlin" in str(user.memo)
        (fact,) = user.facts()
        found = call(user.actions()[0], about="Where does the user live?")["found"]
        assert fact.id in [line.split(":")[0] for line in found]


# -- whose ----------------------------------------------------------------------------------------


@ATTACH
def test_two_agents_of_two_users_each_have_their_own(gumem):
    """Also where Agently keeps one table of tools for the whole process."""
    found = {}
    player = Player("ok")
    with ScriptedModel(player, memory=fact_answer) as model:
        agents = {}
        for name, city in (("alice", "Berlin"), ("bob", "Rome")):
            agent = agents[name] = agent_with(model)
            memory = gumem.attach(agent, user_id=name, when=Manual())
            acts = memory.actions()
            offer(agent, acts)
            agent.activate_session(session_id=name)
            memory.user.add_messages({"role": "user", "content": f"I live in {city}."})
            found[name] = acts[0].__name__
        for name, agent in agents.items():
            player.calls((found[name], {"about": "Where does the user live?"}))
            agent.input("Hm?").start()
            found[name] = player.results[-1]
    assert "Berlin" in found["alice"]
    assert "Rome" not in found["alice"]
    assert "Rome" in found["bob"]
    assert "Berlin" not in found["bob"]


@ATTACH
def test_while_another_users_session_is_active_nothing_is_served(gumem):
    """Actions of one user's session on an agent that serves another one at that moment."""
    with ScriptedModel("ok") as model:
        agent = agent_with(model)
        memory = gumem.attach(agent, user_id=lambda session_id: session_id, when=Manual())
        agent.activate_session(session_id="alice")
        alices, shared = memory.session().actions(), memory.actions()
        memory.user.add_messages({"role": "user", "content": "I live in Berlin."})
        assert "Berlin" in str(call(alices[0], about="Where does the user live?"))
        agent.activate_session(session_id="bob")
        for action, given in zip(
            alices, ({"about": "x"}, {"text": "x"}, {"ids": "x"}), strict=True
        ):
            assert "another user's" in call(action, **given)["error"]
        assert call(shared[0], about="Where does the user live?")["found"] == []
        agent.deactivate_session()
        assert "activate_session" in call(shared[0], about="x")["error"]


# -- forgetting -----------------------------------------------------------------------------------


def test_forgetting_waits_for_the_users_next_message(gumem, facts):
    """The first call says what would go; its code counts once, after the user spoke again."""
    user = gumem.user("alice")
    fact = known(user)
    *_, forget = user.actions()
    first = call(forget, ids=fact.id)
    assert first["would_forget"] == [f"{fact.id}: I live in Berlin."]
    code = first["code"]
    assert "not answered yet" in call(forget, ids=fact.id, code=code)["error"]
    user.add_messages({"role": "assistant", "content": "Forget it?"}, session_id="s")
    assert "not answered yet" in call(forget, code=code)["error"]
    user.add_messages({"role": "user", "content": "Yes."}, session_id="s")
    assert "not known" in call(gumem.user("bob").actions()[2], code=code)["error"]
    assert len(user.facts()) == 1
    done = call(forget, code=code.lower())
    assert done["forgotten"]["facts"] == [fact.id]
    assert user.facts() == []
    assert "not known" in call(forget, code=code)["error"]


def test_within_one_turn_nothing_is_confirmed(gumem):
    """A model that calls again at once is refused; in the next turn the code counts."""
    player = Player("Shall I? The code is in my notes.")
    with ScriptedModel(player, memory=fact_answer) as model:
        agent = agent_with(model)
        memory = begin(gumem, agent, "s", when=Manual())
        acts = memory.actions()
        offer(agent, acts)
        name = acts[2].__name__
        agent.input("I live in Berlin.").start()
        memory.digest()
        (fact,) = memory.user.facts()
        player.calls((name, {"ids": fact.id, "code": ""}))
        agent.input("Forget where I live.").start()
        # Agently shows no model a field whose name tells of a secret.
        (code,) = set(re.findall(r"code\W+([A-Z0-9]{6})\b", "".join(player.results)))
        assert memory.user.facts() == [fact]
        player.calls((name, {"ids": "", "code": code}))
        player.reply = "Done."
        agent.input("Yes, do.").start()
        assert memory.user.facts() == []


def test_a_code_counts_in_the_conversation_in_which_it_was_asked(gumem, facts):
    """What the user said elsewhere, before or after the question, confirms nothing."""
    user = gumem.user("alice")
    fact = known(user)
    here, there = (gumem.session("alice", s).actions()[2] for s in ("s", "other"))
    user.add_messages({"role": "user", "content": "Hello."}, session_id="other")
    code = call(here, ids=fact.id)["code"]
    assert "not known" in call(there, code=code)["error"]
    user.add_messages({"role": "user", "content": "Yes."}, session_id="other")
    assert "not known" in call(there, code=code)["error"]
    assert "not answered yet" in call(here, code=code)["error"]
    user.add_messages({"role": "user", "content": "Yes."}, session_id="s")
    assert call(here, code=code)["forgotten"]["facts"] == [fact.id]


def test_an_error_that_quotes_the_model_can_be_sent(gumem, facts):
    """Models write lone surrogates; what comes back to them holds none."""
    *_, forget = gumem.user("alice").actions()
    for given in ({"ids": "\ud800"}, {"code": "\ud800"}):
        assert call(forget, **given)["error"].encode()


@pytest.mark.parametrize("outcome", [{(1, 2): 3}, {b"k": 1}, {"a": object()}, {"tokens": ["x1"]}])
def test_an_outcome_that_is_no_plain_data_costs_no_mark(gumem, facts, outcome):
    """The stage is marked, with what of it can be written, and without what is secret."""
    session = gumem.session("alice", "s")
    assert session.mark_stage("plan", outcome=outcome)
    (told,) = gumem.user("alice").messages(event_type="stage")
    assert told.content.startswith("plan: {")
    assert "x1" not in told.content


def test_a_wait_that_is_no_number_is_an_error(gumem):
    """NaN is neither below nor above anything."""
    with pytest.raises(ConfigError, match="wait=nan"):
        gumem.session("alice", "s", wait=float("nan"))


def test_a_code_counts_in_another_process_and_not_for_ever(tmp_path, facts, monkeypatch):
    """It is kept in the store, as ids and no text, for an hour."""
    with GUMem(path=str(tmp_path)) as gumem:
        fact = known(gumem.user("alice"))
        code = call(gumem.user("alice").actions()[2], ids=fact.id)["code"]
        late = call(gumem.user("alice").actions()[2], ids=fact.id)["code"]
    with GUMem(path=str(tmp_path)) as gumem:
        user = gumem.user("alice")
        user.add_messages({"role": "user", "content": "Yes."}, session_id="s")
        later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=2)
        with monkeypatch.context() as patch:
            patch.setattr("agently_gumem.tools.now", lambda: later)
            assert "expired" in call(user.actions()[2], code=late)["error"]
        assert call(user.actions()[2], code=code)["forgotten"]["facts"] == [fact.id]


def test_where_it_is_allowed_it_is_done_at_once(gumem, facts):
    """Facts and messages, several ids in a text or a list."""
    user = gumem.user("alice")
    fact = known(user)
    forget = user.actions(forget="allow")[2]
    assert "no entry" in call(forget, ids=f"{fact.id} fact-0")["error"]
    assert call(forget, ids=[fact.id])["forgotten"]["facts"] == [fact.id]
    assert user.facts() == []


# -- what goes wrong ------------------------------------------------------------------------------


def test_errors_are_data(gumem, facts, monkeypatch):
    """Wrong parameters, a pause, the switch, a closed memory: never an exception."""
    user = gumem.user("alice")
    recall, remember, forget = user.actions()
    for action, given in (
        (recall, {"about": " "}),
        (recall, {"about": 7}),
        (remember, {"text": ""}),
        (remember, {"text": "x" * 2_000}),
        (forget, {"ids": ""}),
        (forget, {"ids": 7}),
        (forget, {"ids": " ".join(f"fact-{i}" for i in range(21))}),
        (forget, {"code": "ABCDEF"}),
    ):
        assert json.dumps(call(action, **given)["error"])
    user.pause()
    assert "paused" in call(recall, about="x")["error"]
    user.resume()
    monkeypatch.setenv("GUMEM_OFF", "1")
    assert "switched off" in call(recall, about="x")["error"]
    monkeypatch.delenv("GUMEM_OFF")
    gumem.close()
    assert "closed" in call(recall, about="x")["error"]


# -- remember this --------------------------------------------------------------------------------

ASKS = [
    "Remember this: my locker is 12.",
    "Please remember that I am vegan.",
    "Remember that I'm allergic to nuts!",
    "ok, remember: gate B12",
    "By the way, I moved. Please always remember my new address.",
    "Can you remember that I live in Rome?",
    "Could you please keep in mind that I don't fly?",
    "Don't forget that I hate coriander.",
    "Note down that the code is blue.",
    "Bear in mind I'm left-handed.",
    "Remember it for later, please.",
    "Don\u2019t forget my birthday is in May.",
    "记住这个：我对花生过敏",
    "请记住我不吃辣。",
    "帮我记一下，我的尺码是42",
    "请帮我记住我的生日",
    "我搬家了，记住我的新地址",
    "把我的生日记下来",
    "别忘了我对花生过敏",
    "不要忘记我不吃香菜！",
    "能帮我记住吗？我喜欢靠窗的座位",
    "你要牢记：我只用现金",
    "麻烦你记一下这个号码",
]
FALSE_FRIENDS = [
    "I remember when we met.",
    "I remember this place well.",
    "Do you remember my name?",
    "Do you remember that I told you about Rome?",
    "Don't you remember that?",
    "Remember to call me tomorrow.",
    "Remind me to buy milk.",
    "Remember when we went to Paris?",
    "Remember that time in Paris?",
    "What should I remember about this contract?",
    "My mother told me to remember this poem.",
    "I can't remember that word.",
    "A day to remember.",
    "In remembrance of my father.",
    "Don't forget to lock the door.",
    "He will never forget this.",
    "How do I remember these formulas?",
    "Does it remember my settings?",
    "我记住了，谢谢。",
    "你还记得我叫什么吗？",
    "你记住了吗？",
    "怎么记住这些单词？",
    "别忘了带伞。",
    "别忘记买牛奶。",
    "老师让我记住这首诗。",
    "这个单词很难记住。",
    "我记不住名字。",
    "我一直记着那天。",
    "记得提醒我明天开会。",
    "他叫我记住密码的位置。",
]


@pytest.mark.parametrize("text", ASKS)
def test_a_wish_to_be_remembered_is_found(text):
    """In English and in Chinese, with words of courtesy."""
    assert asks_to_remember(text)


@pytest.mark.parametrize("text", FALSE_FRIENDS)
def test_what_only_sounds_like_it_is_not(text):
    """Memories, questions, reminders, and what others said."""
    assert not asks_to_remember(text)


@pytest.mark.parametrize("text", ["Remember this: my locker is 12.", "记住这个：我的柜子是12号。"])
def test_remember_this_digests_at_once(gumem, text):
    """Whatever the trigger says, and also while a failed digest waits for more turns."""
    broken = [True]

    def memory_answer(request):
        return Reply("down", status=500) if broken[0] else fact_answer(request)

    with ScriptedModel("ok", memory=memory_answer) as model:
        agent = agent_with(model)
        memory = begin(gumem, agent, "s", when=Manual(), wait=10)
        agent.input("I had lunch.").start()
        assert model.memory_requests == []
        agent.input(text).start()
        memory.flush()
        assert memory.status()["next_attempt_in_turns"] > 0
        broken[0] = False
        agent.input(text).start()
        memory.flush()
        assert text in [f.content for f in memory.user.facts()]
        asked = len(model.memory_requests)
        agent.input("I remember when we met.").start()
        memory.flush()
        assert len(model.memory_requests) == asked
