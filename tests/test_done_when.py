"""The whole job, end to end; `pytest -s` prints the figures."""

import json
import shutil
import textwrap
import threading

import forked
import pytest
from agently import Agently
from e2e import agent_of, own_settings, say, swept

from agently_gumem import (
    GUMem,
    Message,
    SessionEnd,
    StageBoundary,
    WindowExceeds,
    estimate_tokens,
)
from agently_gumem.remember.ground import ground_fact
from agently_gumem.testing import Reply, RuleModel, ScriptedModel


def child(code, *args):
    """Run code in another process; what it prints is JSON."""
    done = forked.run(textwrap.dedent(code), *args)
    assert done.returncode == 0, done.stderr[-1500:]
    told = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(told[-1]) if told else None


def by_stage(model, stage):
    """The memory's requests of one stage."""
    return [r for r in model.memory_requests if r.memory_stage == stage]


# --- a hundred short sessions


def telling(request):
    """Answer extracts with the user's own words, and Summaries with the Facts' own."""
    if request.memory_stage == "extract":
        said = [m for m in request.data["NEW MESSAGES"] if m["role"] == "user"]
        facts = [{"content": m["text"], "sources": [m["ref"]], "topic": "life"} for m in said]
        return {"facts": facts, "memo": []}
    facts = request.data.get("FACTS", [])[-4:]
    text = ". ".join(f["content"].rstrip(".") for f in facts)
    told = {"topic": "life", "content": text, "facts": [f["ref"] for f in facts]}
    return {"summaries": [told], "same_topics": []}


def planted(session):
    """Two statements of one session."""
    kept = f"I keep {session + 100} stamps in album A{session}."
    return [kept, f"I lent book B{session} to Ann."]


SESSIONS = 100
EVERYTHING = sorted(text for n in range(SESSIONS) for text in planted(n))


def test_a_hundred_closed_sessions_of_two_turns_become_memory():
    """Each session that is switched away from is digested: all Facts, one request a session."""
    with ScriptedModel(memory=telling) as model, GUMem() as gumem:
        agent = agent_of(model)
        gumem.attach(agent, user_id="alice", wait=0)
        for n in range(SESSIONS):
            agent.activate_session(session_id=f"s{n}")
            if n % 10 == 0:
                for text in planted(n):
                    agent.input(text).start()
            else:
                say(agent.activated_session, *[(text, "ok") for text in planted(n)])
        agent.deactivate_session()
        assert gumem.flush(60)
        assert sorted(f.content for f in gumem.user("alice").facts()) == EVERYTHING
        assert len(by_stage(model, "extract")) <= SESSIONS
        assert gumem.usage()["failed"] == 0


LEFT_ALONE = """
import os, sys
from agently import Agently
from agently_gumem import GUMem

gumem = GUMem(sys.argv[1])
for n in range(int(sys.argv[2])):
    agent = Agently.create_agent()
    gumem.attach(agent, user_id="alice")
    agent.activate_session(session_id=f"s{n}")
    for text in (f"I keep {n + 100} stamps in album A{n}.", f"I lent book B{n} to Ann."):
        agent.activated_session.add_chat_history({"role": "user", "content": text})
        agent.activated_session.add_chat_history({"role": "assistant", "content": "ok"})
os._exit(0)
"""


@pytest.fixture
def agently():
    """Let a test set Agently's own model settings, and restore them."""
    with own_settings():
        yield Agently


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory):
    """A store that a process left behind, which died with a hundred sessions open."""
    path = tmp_path_factory.mktemp("left") / "store"
    child(LEFT_ALONE, path, SESSIONS)
    return path


@pytest.mark.parametrize("how", ["sweep", "next session"])
def test_a_hundred_sessions_left_alone_become_memory(how, left_alone, tmp_path, agently):
    """A process that dies leaves all pending; a sweep, or the next session, takes all of it."""
    path = shutil.copytree(left_alone, tmp_path / "store")
    limits = {"summary_after": 1_000}
    with ScriptedModel(memory=telling) as model, GUMem(path, limits=limits) as gumem:
        user = gumem.user("alice")
        assert len(user.messages(status="pending")) == 4 * SESSIONS
        if how == "sweep":
            agently.set_settings("OpenAICompatible", model.settings)
            assert gumem.sweep() == swept(users=1, messages=4 * SESSIONS)
        else:
            agent = agent_of(model)
            gumem.attach(agent, user_id="alice")
            agent.activate_session(session_id="next")
            agent.input("hello").start()
            assert gumem.flush(60)
        assert [t for t in EVERYTHING if t not in {f.content for f in user.facts()}] == []
        assert len(by_stage(model, "extract")) <= SESSIONS


# --- a stage


@pytest.mark.parametrize("wait", [0, 10])
def test_a_stage_has_its_own_three_turns_and_none_of_the_next(wait):
    """Facts of a marked stage cite all its turns, also where the digest ends after the next one."""
    stage = ["I want a trail shoe.", "My size is 43.", "My budget is 700 yuan."]
    with ScriptedModel(memory=telling) as model, GUMem() as gumem:
        agent = agent_of(model)
        memory = gumem.attach(agent, user_id="alice", when=StageBoundary(), wait=wait)
        agent.activate_session(session_id="shop")
        for text in stage:
            agent.input(text).start()
        if not wait:
            model.hold("memory")
        assert memory.mark_stage("requirements", key="r1")
        agent.input("Now compare two models of 2024.").start()
        model.release()
        assert memory.flush(10)
        user = gumem.user("alice")
        words = {m.id: m.content for m in user.messages()}
        cited = {words[i] for f in user.facts() for i in f.source_message_ids}
        assert cited == set(stage)
        shown = [m["text"] for m in model.memory_requests[0].data["NEW MESSAGES"]]
        assert "Now compare two models of 2024." not in shown


# --- standing preferences

STANDING = {
    "en": (
        [
            "Please call me Captain.",
            "Always answer in short sentences.",
            "I never eat shellfish.",
            "I prefer metric units.",
            "I am allergic to peanuts.",
            "My budget is at most 800 dollars.",
            "I only fly in daylight.",
            "Please never use emojis.",
            "I always want a source for each claim.",
            "I cannot work on Sundays.",
        ],
        ["captain", "short sentences", "shellfish", "metric", "peanuts", "800", "daylight",
         "emojis", "source", "sundays"],
        "What is the boiling point of tungsten?",
    ),
    "zh": (
        [
            "请叫我小航。",
            "以后用中文回答我。",
            "我不吃香菜。",
            "我对花生过敏。",
            "我喜欢简短的回答。",
            "我的预算不超过800元。",
            "回答不要用表情符号。",
            "我只在周末有空。",
            "我习惯用公制单位。",
            "我从不坐飞机。",
        ],
        ["小航", "中文", "香菜", "花生", "简短", "800", "表情符号", "周末", "公制", "飞机"],
        "钨的熔点是多少？",
    ),
}  # fmt: skip


@pytest.mark.parametrize("language", STANDING)
def test_ten_standing_preferences_reach_an_unrelated_question(language):
    """What was wished for in session one stands in the request of session two, ten of ten."""
    wishes, keys, question = STANDING[language]
    with RuleModel() as model, GUMem() as gumem:
        agent = agent_of(model)
        gumem.attach(agent, user_id="alice", when=SessionEnd())
        agent.activate_session(session_id="one")
        for wish in wishes:
            agent.input(wish).start()
        agent.activate_session(session_id="two")
        assert gumem.flush(30)
        context = gumem.user("alice").query(question)
        agent.input(question).start()
        section = model.chat_requests[-1].memo_section
        assert [k for k in keys if k not in section.lower()] == []
        assert [item.layer for item in context.items] == ["memo"]
        assert context.abstained
        assert context.formatted_context == section


def test_nothing_is_recalled_where_nothing_is_known():
    """Without a memo a question that nothing answers gets no section at all."""
    with RuleModel() as model, GUMem() as gumem:
        agent = agent_of(model)
        gumem.attach(agent, user_id="alice")
        agent.activate_session(session_id="one")
        agent.input("Good morning!").start()
        agent.activate_session(session_id="two")
        assert gumem.flush(30)
        agent.input("What is the boiling point of tungsten?").start()
        assert [r.memo_section for r in model.chat_requests] == [None, None]


# --- sixty turns, two languages, two sessions, two processes

ENGLISH = [
    ("My dentist is Dr. Alvarez.", "Which dentist do I go to?", "Alvarez"),
    ("I drive a blue Skoda Octavia.", "What car do I have?", "Skoda"),
    ("I am allergic to peanuts.", "Which nuts do I have an allergy to?", "peanuts"),
    ("My dog is called Biscuit.", "What name does my dog have?", "Biscuit"),
    ("I work at Siemens as a turbine engineer.", "At which company is my job?", "Siemens"),
    ("My favourite drink is oolong tea.", "What do I like to drink most?", "oolong"),
    ("I was born in Ljubljana.", "What is my place of birth?", "Ljubljana"),
    ("I play the cello in an orchestra.", "Which musical instrument do I play?", "cello"),
    ("My sister is called Ingrid.", "What name does my sister have?", "Ingrid"),
    ("I always take the night train to Vienna.", "How do I travel to Vienna?", "night train"),
    ("I am reading a novel called Middlemarch.", "Which book am I reading?", "Middlemarch"),
    ("My shoe size is 44.", "What size of shoes do I wear?", "44"),
    ("I am learning Portuguese.", "Which language do I study?", "Portuguese"),
    ("My wedding anniversary is on 12 June.", "When is my wedding day?", "12 June"),
    ("I hate cilantro in my soup.", "Which herb do I dislike?", "cilantro"),
]
CHINESE = [
    ("我女儿叫林小雨。", "我的孩子叫什么名字？", "林小雨"),
    ("我的跑鞋预算是800元。", "买跑鞋我打算花多少钱？", "800"),
    ("我住在杭州西湖区。", "我家在哪个城市？", "杭州"),
    ("我在腾讯做产品经理。", "我的职业是什么？", "产品经理"),
    ("我喜欢喝龙井茶。", "我爱喝哪种茶？", "龙井"),
    ("我的猫叫团团。", "我家猫咪的名字是什么？", "团团"),
    ("我每周三晚上打羽毛球。", "羽毛球我一般哪天打？", "周三"),
    ("我不吃香菜。", "点菜时有什么我不能吃？", "香菜"),
    ("我毕业于浙江大学。", "我是哪所大学毕业的？", "浙江大学"),
    ("我有一辆银色的自行车。", "我的自行车是什么颜色的？", "银色"),
    ("我的生日是3月8日。", "我哪天过生日？", "3月8日"),
    ("我正在学习弹古筝。", "我在学什么乐器？", "古筝"),
    ("我最喜欢的作家是余华。", "我喜欢看哪位作家的书？", "余华"),
    ("我对花粉过敏。", "春天我会对什么过敏？", "花粉"),
    ("我计划去成都旅游。", "我想去哪里旅行？", "成都"),
]
PLANTED = [fact for pair in zip(ENGLISH, CHINESE, strict=True) for fact in pair]
CLAIM = "My running club meets at 6:30."
CORRECTION = "Actually, my running club meets at 8:45 now."
TURN_TOKENS = 40


def conversation():
    """Write the sixty turns: a fact, small talk, a fact, ...; a claim and its correction."""
    told = [fact for fact, _, _ in PLANTED]
    talk = [
        f"What is the weather like on planet {n}?" if n % 2 else f"第{n}号行星的天气怎么样？"
        for n in range(28)
    ]
    talk.insert(4, CLAIM)
    talk.insert(20, CORRECTION)
    return [text for pair in zip(told, talk, strict=True) for text in pair]


TURNS = conversation()


def answered(question):
    """Answer so that each turn, question and answer, is of the same length."""
    return "Noted" + "." * (4 * (TURN_TOKENS - estimate_tokens(question)) - 5)


SECOND = """
import json, sys
from agently import Agently
from agently_gumem import GUMem, Manual

path, settings, questions = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
with GUMem(path) as gumem:
    user = gumem.user("alice")
    stored, facts = user.messages(), user.facts(validity=None)
    for n, question in enumerate(questions):
        agent = Agently.create_agent()
        agent.set_settings("OpenAICompatible", settings)
        gumem.attach(agent, user_id="alice", when=Manual())
        agent.activate_session(session_id=f"ask-{n}")
        agent.input(question).start()
    dump = lambda rows: [r.model_dump(mode="json") for r in rows]
    print()
    print(json.dumps({"messages": dump(stored), "facts": dump(facts)}))
"""


def converse(gumem, model, *, during=lambda turn: None, turn=None):
    """Hold the conversation in two sessions, with a stage mark at turn 15."""
    agent = agent_of(model)
    when = WindowExceeds(messages=12) | StageBoundary() | SessionEnd()
    memory = gumem.attach(agent, user_id="alice", when=when, wait=10)
    for number, text in enumerate(TURNS, 1):
        if number in (1, 31):
            agent.activate_session(session_id=f"session {number}")
        during(number)
        (turn or (lambda a, t: a.input(t).start()))(agent, text)
        if number == 15:
            memory.mark_stage("introduction", key="intro")
    agent.deactivate_session()
    assert gumem.flush(30)


def size(request):
    """Tokens of a whole request."""
    return sum(estimate_tokens(str(m["content"])) for m in request.messages)


def test_sixty_turns_then_a_second_process(tmp_path):
    """Nothing lost, doubled or made up; requests stay short; what is asked for is recalled."""
    with RuleModel(lambda r: answered(r.question)) as model:
        rules, down = model.memory, threading.Event()
        model.memory = lambda r: Reply("down", status=500) if down.is_set() else rules(r)

        def during(number):
            (down.set if 20 <= number < 28 else down.clear)()

        with GUMem(tmp_path) as gumem:
            converse(gumem, model, during=during)
            assert gumem.usage()["failed"] >= 1
            user = gumem.user("alice")
            assert user.messages(status="pending") == []
        chats = model.chat_requests
        assert len(chats) == 60
        before, after = (max(map(size, chats[a:b])) for a, b in ((20, 40), (40, 60)))
        sections = [estimate_tokens(r.memo_section or "") for r in chats]
        questions = [q for _, q, _ in PLANTED] + ["At what time does my running club meet?"]
        second = child(SECOND, tmp_path, json.dumps(model.settings), json.dumps(questions))
        asked = [r.memo_section or "" for r in model.chat_requests[60:]]

    sections += [estimate_tokens(section) for section in asked]
    missed = [
        question
        for (_, question, key), section in zip(PLANTED, asked, strict=False)
        if key not in section
    ]
    facts = [f for f in second["facts"] if f["validity"] == "active"]
    print(
        f"\nlongest request: turns 20-40 {before} tokens, turns 40-60 {after} "
        f"({after / before:.2f}); memo section at most {max(sections)} tokens; "
        f"recalled {30 - len(missed)} of 30; missed {missed}; {len(facts)} active facts of "
        f"{len(second['facts'])}; memory requests {len(model.memory_requests)}, "
        f"{len(by_stage(model, 'extract'))} of them extracts"
    )
    assert [(m["role"], m["content"]) for m in second["messages"]] == [
        said for text in TURNS for said in (("user", text), ("assistant", answered(text)))
    ]
    held = {m["id"]: Message.model_validate(m) for m in second["messages"]}
    for fact in second["facts"]:
        sources = [held[i] for i in fact["source_message_ids"]]
        assert ground_fact(fact["content"], sources).ok, fact
    for text, _, key in PLANTED:
        telling_it = [f for f in facts if key in f["content"]]
        assert telling_it, text
        assert any(held[i].content == text for f in telling_it for i in f["source_message_ids"])
    assert "8:45" in asked[30]
    assert "6:30" not in asked[30]
    assert after <= 1.3 * before
    assert max(sections) <= 800
    assert len(missed) <= 3


def test_references_shifted_by_one_are_dropped_and_counted(tmp_path):
    """Where the model cites the message after each source, no Fact is stored and all are told."""
    proposed = []

    def shifted(request):
        answer = rules(request)
        for fact in answer.get("facts", []):
            fact["sources"] = [f"m{int(s[1:]) + 1}" for s in fact["sources"]]
            proposed.append(fact["content"])
        return answer

    with RuleModel() as model, GUMem(tmp_path) as gumem:
        rules, model.memory = model.memory, shifted
        converse(gumem, model, turn=lambda a, t: say(a.activated_session, (t, answered(t))))
        agent = agent_of(model)
        status = gumem.attach(agent, user_id="alice")
        agent.activate_session(session_id="session 31")
        dropped = status.status()["dropped"]
        user = gumem.user("alice")
        print(f"\nproposed {len(proposed)}, dropped {dropped}")
        assert user.facts(validity=None) == []
        assert user.memo == {}
        assert len(proposed) >= 30
        reasons = {k: n for k, n in dropped.items() if k != "memo_patch"}
        assert sum(reasons.values()) == len(proposed)
        assert {m.status for m in user.messages()} == {"processed"}
        assert len(user.messages()) == 120
