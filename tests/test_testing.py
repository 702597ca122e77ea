"""The servers that stand in for a model: over HTTP, with a real agent, in both languages."""

import http.client
import json
import threading
from datetime import datetime, timezone

import pytest
from agently import Agently

from agently_gumem import ConfigError, GUMem
from agently_gumem.prompts import Prompts, TopicFacts
from agently_gumem.records import Fact, Memo, Message
from agently_gumem.testing import Reply, Request, RuleModel, ScriptedModel
from agently_gumem.testing._rewrite import first_person

pytestmark = pytest.mark.host

NOW = datetime(2024, 5, 1, 10, 0, tzinfo=timezone.utc)  # a Wednesday
PROMPTS = Prompts()


def agent_of(model):
    """Create an agent that talks to the server."""
    agent = Agently.create_agent()
    agent.set_settings("OpenAICompatible", model.settings)
    return agent


def known(content, kind="preference", topic="", **more):
    """Make a known Fact."""
    return Fact(
        id=content, user_id="u", content=content, kind=kind, topic=topic,
        source_message_ids=["x"], created_at=NOW, updated_at=NOW, **more,
    )  # fmt: skip


def as_message(value):
    """Take a text as a message of the user."""
    return Message(content=value) if isinstance(value, str) else Message(**value)


def ask(prompt):
    """Send a memory prompt as it is rendered, and read the validated answer."""
    model = RuleModel()
    text = f"[INSTRUCT]:\n{prompt.text}\n\n[OUTPUT REQUIREMENT]:\nData Format: JSON\n\n[OUTPUT]:"
    request = Request({"messages": [{"role": "user", "content": text}]})
    assert request.memory_stage == prompt.stage
    return prompt.answer.model_validate(json.loads(model.reply_to(request).whole))


def extract(*messages, facts=(), topics=(), memo=None, schema=None):
    """Ask the rules for what these messages hold."""
    shown = {f"m{i}": as_message(m) for i, m in enumerate(messages, 1)}
    candidates = {f"k{i}": f for i, f in enumerate(facts, 1)}
    schema = schema or Memo.model_json_schema()
    return ask(PROMPTS.extract(shown, candidates, list(topics), memo or {}, schema))


def contents(answer):
    """The sentences of the Facts."""
    return [f.content for f in answer.facts]


def memo_of(answer):
    """The keys that the answer writes."""
    return {p.key: p.value for p in answer.memo}


# --- the server


def test_an_agent_gets_the_answer_of_the_function():
    """A real agent reads the scripted answer, plainly and as a stream of deltas."""
    with ScriptedModel(lambda r: f"you said {r.question}") as model:
        agent = agent_of(model)
        assert agent.input("hi").start() == "you said hi"
        assert "".join(agent.input("again").get_generator(type="delta")) == "you said again"
        assert [r.question for r in model.requests] == ["hi", "again"]
        assert all(r.ended >= r.started and r.memory_stage is None for r in model.requests)


def test_a_request_without_streaming_gets_one_object():
    """The server answers a request that asks for no stream with a whole completion."""
    with ScriptedModel("好的") as model:
        connection = connect(model)
        post(connection, {"stream": False, "messages": []})
        answer = json.loads(connection.getresponse().read())
        connection.close()
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "好的"}


def test_the_memo_section_is_told_apart_from_the_question():
    """A request gives what stood in the memo section, and what the user asked."""
    with ScriptedModel() as model:
        agent = agent_of(model)
        agent.input("plain").start()
        agent.set_agent_prompt("CHAT SESSION MEMO", "- likes tea\n- lives in Berlin")
        agent.input("where?").instruct("be short").start()
        plain, asked = model.chat_requests
    assert plain.memo_section is None
    assert asked.memo_section == "- likes tea\n- lives in Berlin"
    assert asked.question == "where?"


@pytest.mark.parametrize(
    "reply",
    [Reply("no", status=500), Reply(drop=True)],
    ids=["status", "dropped"],
)
def test_a_failure_reaches_the_agent(reply, capfd):
    """An error status or a dropped connection fails the turn, with no traceback of ours."""
    with ScriptedModel(reply) as model:
        with pytest.raises(Exception):  # noqa: B017, PT011  # differs by version of Agently
            agent_of(model).input("hi").start()
        assert model.requests
    assert "_server.py" not in capfd.readouterr().err


def test_a_held_answer_arrives_after_release():
    """A held request is recorded at once and answered when the test lets go."""
    with ScriptedModel("late") as model:
        model.hold("chat")
        got = []
        turn = threading.Thread(target=lambda: got.append(agent_of(model).input("hi").start()))
        turn.start()
        assert model.wait_for(1)[0].ended is None
        model.release()
        turn.join(10)
    assert got == ["late"]


def test_stop_lets_go_of_what_waits():
    """A reply that waits for an event never set does not outlive the server."""
    with ScriptedModel(Reply("never", wait=threading.Event())) as model:
        connection = connect(model)
        post(connection, {"messages": []})
        model.wait_for(1)
    with pytest.raises(http.client.HTTPException):
        connection.getresponse()
    connection.close()


def connect(model):
    """Open a bare connection, without a client library."""
    return http.client.HTTPConnection(*model.url.split("/")[2].split(":"), timeout=10)


def post(connection, body):
    """Send a chat request over it."""
    raw = body if isinstance(body, bytes) else json.dumps(body)
    connection.request("POST", "/v1/chat/completions", raw)


def streamed(model):
    """Read a whole streamed answer."""
    connection = connect(model)
    post(connection, {"stream": True, "messages": [{"role": "user", "content": "hi"}]})
    try:
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_a_stream_has_deltas_usage_and_an_end():
    """A stream sends the given deltas, then the usage, then its end mark."""
    with ScriptedModel(Reply(chunks=["one ", "two"])) as model:
        events = [e.removeprefix("data: ") for e in streamed(model).strip().split("\n\n")]
    assert events.pop() == "[DONE]"
    *deltas, end = map(json.loads, events)
    assert [d["choices"][0]["delta"]["content"] for d in deltas] == ["one ", "two"]
    assert end["usage"]["total_tokens"] > 0


def test_a_stream_can_be_cut_off():
    """A cut stream ends without its end mark, as a lost connection does."""
    with (
        ScriptedModel(Reply(chunks=["one "], cut=True)) as model,
        pytest.raises(http.client.IncompleteRead, match="read"),
    ):
        streamed(model)


def test_a_client_that_goes_away_leaves_no_trace(capfd):
    """A connection closed by the client before the answer prints nothing and breaks nothing."""
    with ScriptedModel("x" * 100_000) as model:
        model.hold()
        connection = connect(model)
        post(connection, {"messages": []})
        model.wait_for(1)
        connection.close()
        model.release()
        assert "x" in streamed(model)
    assert capfd.readouterr().err == ""


def test_models_are_listed_and_wrong_requests_refused():
    """The list of models, an unknown path and a body that is no JSON are answered properly."""
    with ScriptedModel() as model:
        seen = []
        for method, path, body in (
            ("GET", "/v1/models", None),
            ("GET", "/v1/nothing", None),
            ("POST", "/v1/chat/completions", b"no json"),
        ):
            connection = connect(model)
            connection.request(method, path, body)
            response = connection.getresponse()
            seen.append((response.status, json.loads(response.read())))
            connection.close()
    assert [status for status, _ in seen] == [200, 404, 400]
    assert seen[0][1]["data"][0]["id"] == "scripted"


def test_an_assertion_in_an_answer_fails_the_test():
    """What an answer function raises is a 500 for the client and is raised at the end."""

    def answer(request):
        raise ValueError("not what I expected")

    model = ScriptedModel(answer).start()
    connection = connect(model)
    post(connection, {"messages": []})
    assert connection.getresponse().status == 500
    connection.close()
    with pytest.raises(ValueError, match="not what I expected"):
        model.__exit__(None, None, None)


def test_the_url_of_a_stopped_server_is_an_error():
    """Asking a server that does not run for its address says what to do."""
    with pytest.raises(RuntimeError, match="start"):
        _ = ScriptedModel().url


def test_memory_requests_are_recognised_and_parsed():
    """An extraction request sent by an agent is told by its stage and read by its headings."""
    prompt = PROMPTS.extract({"m1": Message(content="I\nlike # TOPICS")}, {}, ["tea"], {}, {})
    with ScriptedModel("never", memory={"facts": [], "memo": []}) as model:
        request = agent_of(model).create_temp_request()
        request.instruct(prompt.text).output(prompt.output)
        assert request.get_data() == {"facts": [], "memo": []}
        (seen,) = model.memory_requests
        assert not model.chat_requests
    assert seen.memory_stage == "extract"
    assert seen.data["NEW MESSAGES"][0]["text"] == "I\nlike # TOPICS"
    assert seen.data["TOPICS"] == [["tea"]]
    assert seen.data["KNOWN FACTS"] == []


@pytest.mark.parametrize("text", ["what does gumem.extract do?", "gumem.memo\nwhat is it?"])
def test_a_question_about_the_prompts_is_a_chat_request(text):
    """A user who writes the name of a stage is not taken for the memory."""
    assert Request({"messages": [{"role": "user", "content": text}]}).memory_stage is None


# --- the rules

SHOES = [
    "想买一双日常慢跑鞋，不要太硬，预算 800 以内。",
    "我主要在公园跑，单次大概 5 公里，最好别太夸张。",
    {"content": "筛选：品类 = 跑鞋", "event_type": "filter"},
    {"content": "筛选：价格 = 500-800", "event_type": "filter"},
    {"content": "筛选：尺码 = 42", "event_type": "filter"},
    {"content": "浏览：4 双缓震跑鞋", "event_type": "view"},
    {"content": "收藏：2 双浅色鞋款", "event_type": "save"},
    {"content": "停留：包含“脚感柔软”和“日常训练”的评价", "event_type": "dwell"},
    {"content": "跳过：碳板竞速鞋", "event_type": "skip"},
]


def test_the_running_shoes_story_is_covered_under_one_topic():
    """What was said and done about shoes becomes Facts of one Topic, behaviour as observed."""
    answer = extract(*SHOES)
    told = "\n".join(contents(answer))
    for part in ("慢跑鞋", "不要太硬", "800", "公园", "5 公里", "42", "缓震", "浅色", "碳板竞速鞋"):
        assert part in told
    assert {f.topic for f in answer.facts} == {"跑鞋"}
    assert {f.certainty for f in answer.facts if f.kind in ("behavior", "action")} == {"observed"}
    assert answer.facts[-1].content == "用户跳过了碳板竞速鞋"


STANDING_EN = [
    "Call me Xiao Hang.", "Please always answer in Chinese.", "Keep answers short.",
    "I'm vegetarian.", "I am allergic to peanuts.", "Never schedule meetings on Fridays.",
    "Use metric units.", "Don't use emoji.", "I prefer trains over planes.",
    "My favourite colour is green.",
]  # fmt: skip
STANDING_ZH = [
    "叫我小航。", "请用中文回答。", "不要用表情符号。", "我吃素。", "我对花生过敏。",
    "周五不要安排会议。", "以后回答简短一点。", "每次先给结论。", "我喜欢靠窗的座位。",
    "用公制单位。",
]  # fmt: skip


@pytest.mark.parametrize("said", [STANDING_EN, STANDING_ZH], ids=["english", "chinese"])
@pytest.mark.parametrize("joined", [True, False], ids=["one message", "ten messages"])
def test_standing_preferences_reach_the_memo(said, joined):
    """Ten standing wishes, at once or one by one, all become Facts and entries of the memo."""
    answer = extract(*([" ".join(said)] if joined else said))
    memo = memo_of(answer)
    assert len(answer.facts) == 10
    assert {f.kind for f in answer.facts} <= {"preference", "constraint", "identity"}
    assert sum(len(v) for v in memo.values()) == 10
    assert {ref for p in answer.memo for ref in p.facts} == {f.ref for f in answer.facts}


@pytest.mark.parametrize(
    "text",
    [
        "Hello, thank you!", "What is my budget?", "If I were rich I'd buy a yacht.",
        "I'm the king of France. Just kidding!", 'He said "I love durian".',
        "My friend likes durian.", "Please summarize this text.", "I see.",
        "谢谢你！", "今天天气怎么样？", "如果我有钱，我会买游艇。", "我是法国国王。开玩笑的！",
        "他说我喜欢榴莲。", "我朋友喜欢榴莲。", "请帮我总结一下。", "我的预算是多少？",
    ],
)  # fmt: skip
def test_what_says_nothing_about_the_speaker_gives_nothing(text):
    """Questions, greetings, jokes, quotations, others' traits and hypotheticals are no Facts."""
    assert contents(extract(text)) == []


@pytest.mark.parametrize(
    ("said", "content"),
    [
        ("I live in Berlin.", "User lives in Berlin"),
        ("I don't eat pork", "User does not eat pork"),
        ("I'd like a window seat and my size is 42", "User's size is 42"),
        ("我喜欢浅色跑鞋", "用户喜欢浅色跑鞋"),
        ("我的猫叫豆豆。", "用户的猫叫豆豆"),
        ("我住在柏林，有什么咖啡馆推荐？", "用户住在柏林"),
        ({"content": "I love hiking", "speaker": "Alice"}, "Alice loves hiking"),
    ],
)
def test_a_fact_is_written_in_the_third_person(said, content):
    """A statement keeps its names and numbers and gets the speaker as its subject."""
    assert content in contents(extract(said))


@pytest.mark.parametrize(
    ("claim", "yes"),
    [("So you live in Berlin, right?", "Yes, that's right."), ("您住在柏林对吗？", "对的。")],
)
def test_the_assistant_counts_only_when_confirmed(claim, yes):
    """An assistant's claim is a Fact of both messages when the user says yes, else nothing."""
    claimed = {"content": claim, "role": "assistant"}
    assert [f.sources for f in extract(claimed, yes).facts] == [["m1", "m2"]]
    assert contents(extract(claimed, "Thanks!")) == []


@pytest.mark.parametrize(
    ("said", "start", "shown"),
    [
        ("I'm going to Shanghai next Wednesday.", "2024-05-08", "next Wednesday (2024-05-08)"),
        ("I'm flying to Rome tomorrow.", "2024-05-02", "tomorrow (2024-05-02)"),
        ("我下周三要去北京。", "2024-05-08", "（2024-05-08）"),
        ("昨天我搬到了里斯本。", "2024-04-30", "（2024-04-30）"),
        ("I moved to Lyon last month.", "2024-04", "last month (2024-04)"),
        ("I'm moving to Lyon next month.", "2024-06", "(2024-06)"),
        ("I broke my arm last year.", "2023", "last year (2023)"),
        ("I'm meeting the architect in three weeks.", "2024-05-22", "(2024-05-22)"),
        ("Two days ago I handed in my notice.", "2024-04-29", "(2024-04-29)"),
        ("I signed the contract on Monday.", "2024-04-29", "on Monday (2024-04-29)"),
        ("我去年养了一只猫。", "2023", "（2023）"),
        ("我上个月换了工作。", "2024-04", "（2024-04）"),
        ("三周后我要见建筑师。", "2024-05-22", "（2024-05-22）"),
        ("我周一把合同签了。", "2024-04-29", "（2024-04-29）"),
    ],
)
def test_a_relative_date_needs_the_time_of_its_message(said, start, shown):
    """A relative date is resolved against its message, and left alone where there is no time."""
    (dated,) = extract({"content": said, "timestamp": NOW}).facts
    (undated,) = extract(said).facts
    assert (dated.start, undated.start) == (start, "")
    assert shown in dated.content
    assert "2024" not in undated.content


@pytest.mark.parametrize(
    ("said", "before"),
    [
        ("Actually my budget is 900 now.", "User's budget is 800"),
        ("I live in Munich, not Berlin.", "User lives in Berlin"),
        ("I no longer like coffee.", "User likes coffee"),
        ("预算改成 900 以内。", "用户预算 800 以内"),
        ("我现在住在慕尼黑。", "用户住在柏林"),
        ("我不喜欢咖啡。", "用户喜欢咖啡"),
    ],
)
def test_a_correction_replaces_the_known_fact_and_its_memo_entry(said, before):
    """A new value of the same thing replaces the old Fact and leaves the memo without it."""
    memo = {"constraints": [before, "User is vegan"]}
    answer = extract(said, facts=[known("User has a cat"), known(before)], memo=memo)
    (fact,) = answer.facts
    assert (fact.replaces, fact.same_as) == (["k2"], "")
    kept = memo_of(answer)["constraints"]
    assert before not in kept
    assert "User is vegan" in kept


def test_what_is_known_is_the_same_and_what_is_repeated_is_one():
    """A known statement is marked as the same; one said twice is one Fact of both messages."""
    answer = extract("I live in Berlin.", "I like tea.", "I like tea!", facts=[
        known("User lives in Berlin", "identity")
    ])  # fmt: skip
    home, tea = answer.facts
    assert (home.same_as, home.replaces) == ("k1", [])
    assert tea.sources == ["m2", "m3"]


def test_the_last_of_two_values_wins():
    """Of two values in one request only the later is a Fact."""
    assert contents(extract("My budget is 800.", "Sorry, my budget is 900.")) == [
        "User's budget is 900"
    ]
    assert contents(extract("I love jazz", "I hate jazz", "I love jazz")) == ["User loves jazz"]


@pytest.mark.parametrize("said", ["I think I prefer tea.", "也许我会搬去罗马。"])
def test_a_guess_is_inferred_and_stays_out_of_the_memo(said):
    """A hedged statement has low confidence and never enters the memo."""
    answer = extract(said)
    assert [(f.certainty, f.confidence) for f in answer.facts] == [("inferred", 0.4)]
    assert answer.memo == []


@pytest.mark.parametrize(
    ("asked", "answer", "content"),
    [
        ("Aisle or window?", "Window, please.", "User wants Window"),
        ("靠窗还是靠过道？", "靠窗。", "用户要靠窗"),
    ],
)
def test_a_bare_answer_to_this_or_that_is_a_wish(asked, answer, content):
    """What the user picks of two is a Fact of question and answer; another word is none."""
    question = {"content": asked, "role": "assistant"}
    (fact,) = extract(question, answer).facts
    assert (fact.content, fact.kind, fact.sources) == (content, "preference", ["m1", "m2"])
    assert contents(extract(question, "Hm.")) == []


@pytest.mark.parametrize(
    ("said", "held"),
    [
        ("We moved into a flat in Lyon.", ["User moved into a flat in Lyon"]),
        ("My sister and I are planning a trip to Rome.", ["User is planning a trip to Rome"]),
        ("我们住在苏州。", ["用户住在苏州"]),
        ("I fly to Rome and I rely on trains.", ["User flies to Rome", "User relies on trains"]),
        ("When you list prices, give them to me with VAT.",
         ["User says: give them to me with VAT, when you list prices"]),
        ("It has to stay below 800 euros.", ["User says: It has to stay below 800 euros"]),
        ("I teach maths, [special]", ["User teaches maths"]),
        ("my password is [secret] and I like tea", ["User likes tea"]),
    ],
)  # fmt: skip
def test_who_and_what_is_spoken_of(said, held):
    """We are the user, a condition stands behind, a limit needs no owner, a placeholder goes."""
    assert contents(extract(said)) == held


def test_what_is_clicked_once_is_stray_and_what_is_repeated_is_one_fact():
    """State of the screen and a stray click are nothing; a search made thrice is one Fact."""
    click = {"content": "logo", "event_type": "click"}
    search = {"content": "flights to Lisbon", "event_type": "search"}
    assert extract(click, {"content": "tab: reviews", "event_type": "tab_switch"}).facts == []
    assert [f.sources for f in extract(click, click).facts] == [["m1", "m2"]]
    assert [f.sources for f in extract(search, "hm", search, search).facts] == [["m1", "m3", "m4"]]


def test_only_the_user_speaks_for_the_user():
    """What another role says of itself is no Fact of the user's."""
    seller = {"content": "I live in Utrecht and I only take cash.", "role": "seller"}
    assert contents(extract("Is the bike still there?", seller)) == []


@pytest.mark.parametrize(
    ("said", "subject"),
    [
        ("I was diagnosed with asthma.", "health"),
        ("我是基督徒。", "faith"),
        ("I always voted Republican.", "politics"),
        ("我是回族。", "origin"),
        ("I came out as gay.", "sex"),
        ("I love this seat by the aisle.", ""),
        ("I'm allergic to nuts.", ""),
    ],
)
def test_what_is_special_is_named(said, subject):
    """Health, faith and the like are marked as the rules ask; a diet or an allergy is not."""
    assert [f.special for f in extract(said).facts] == [subject]


def test_a_topic_shown_is_used_again():
    """A Fact that shares a word with a topic of the request takes its name."""
    (fact,) = extract("My running shoes must be light.", topics=["travel", "running shoes"]).facts
    assert fact.topic == "running shoes"


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "home_city": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "diet": {"type": "array", "items": {"type": "string"}},
        "budget": {"type": "integer", "description": "money limit"},
        "style": {"$ref": "#/$defs/Style"},
    },
    "$defs": {"Style": {"type": "object", "properties": {"language": {"type": "string"}}}},
}


@pytest.mark.parametrize(
    ("said", "memo"),
    [
        (
            ["Call me Xiao Hang.", "I live in Berlin.", "I'm vegetarian.",
             "My budget is at most 800.", "Please answer in Chinese."],
            {"name": "Xiao Hang", "home_city": "Berlin", "diet": ["User is vegetarian"],
             "budget": 800, "style": {"language": "Chinese"}},
        ),
        (
            ["叫我小航。", "我住在柏林。", "我吃素。", "预算 800 以内。", "请用中文回答。"],
            {"name": "小航", "home_city": "柏林", "diet": ["用户吃素"],
             "budget": 800, "style": {"language": "中文"}},
        ),
    ],
    ids=["english", "chinese"],
)  # fmt: skip
def test_a_schema_of_the_application_is_filled(said, memo):
    """A memo of another shape is filled by the names and descriptions of its keys."""
    assert memo_of(extract(*said, schema=SCHEMA)) == memo


def test_summaries_tell_their_facts_and_same_topics_are_found():
    """A Summary holds what its Facts say; two names of the same words are one topic."""
    facts = {
        "k1": known("User likes light shoes", topic="shoes"),
        "k2": known("User's size is 42", topic="shoes"),
    }
    answer = ask(PROMPTS.summarize([TopicFacts("shoes", facts)], ["shoes", "shoe", "tea"]))
    (summary,) = answer.summaries
    assert summary.content == "User likes light shoes. User's size is 42."
    assert summary.facts == ["k1", "k2"]
    assert [(s.keep, s.other) for s in answer.same_topics] == [("shoes", "shoe")]


def test_the_memo_is_rebuilt_from_facts():
    """A rebuild takes what always matters, and no guess."""
    facts = {
        "k1": known("User wants to be called Xiao Hang"),
        "k2": known("Maybe User likes tea", certainty="inferred", confidence=0.4),
        "k3": known("User's budget is 800", "constraint"),
    }
    answer = ask(PROMPTS.memo(facts, Memo.model_json_schema()))
    assert memo_of(answer) == {
        "user_preferences": {"name": "User wants to be called Xiao Hang"},
        "constraints": ["User's budget is 800"],
    }
    assert [p.facts for p in answer.memo] == [["k1"], ["k3"]]


def test_a_rule_model_says_what_it_used_of_the_memo():
    """By default the chat answer recites the memo's lines that share a word with the question."""
    with RuleModel() as model:
        agent = agent_of(model)
        assert agent.input("Which tea?").start() == "OK. I used no memory."
        agent.set_agent_prompt("CHAT SESSION MEMO", "- User likes green tea\n- User has a cat")
        assert agent.input("Which tea?").start() == "OK. I remember: - User likes green tea"


def test_a_rule_model_answers_an_agent_s_memory_request():
    """Sent by a real agent, an extraction comes back as data with its sources."""
    prompt = PROMPTS.extract({"m1": Message(content="我叫小航。")}, {}, [], {}, {})
    with RuleModel("hi") as model:
        request = agent_of(model).create_temp_request()
        data = request.input(prompt.text).output(prompt.output).get_data()
        assert model.memory_requests
    assert [(f["content"], f["sources"]) for f in data["facts"]] == [("用户叫小航", ["m1"])]


@pytest.mark.parametrize(
    ("said", "own"),
    [
        ("I only flies business", "I only fly business"),
        ("I is vegan", "I am vegan"),
        ("I watches films", "I watch films"),
        ("I uses Vim", "I use Vim"),
        ("I has a cat", "I have a cat"),
        ("I have a cat", "I have a cat"),
    ],
)
def test_what_others_do_is_taken_for_ones_own_in_good_english(said, own):
    """A careless reader makes another's trait the speaker's, and still writes a sentence."""
    assert first_person(said) == own


def test_a_reply_is_a_text_or_a_dict():
    """A dict is sent as JSON, as where it stands alone; anything else is told at once."""
    model = ScriptedModel("Noted.", memory=Reply({"facts": [], "memo": []}))
    with model, GUMem(model_settings={"OpenAICompatible": model.settings}) as gumem:
        gumem.user("alice").add_messages({"content": "I live in Rome."}, digest=True)
        assert gumem.user("alice").messages()[0].status == "processed"
    with pytest.raises(ConfigError, match="not int"):
        Reply(5)
