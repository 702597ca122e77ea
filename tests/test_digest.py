"""From messages to Facts, Topics, Summaries and memo: real requests, real store, no agent."""

import json
import threading
from datetime import datetime, timezone

import chromadb
import pytest
from e2e import agent_of, hooked, swept
from pydantic import BaseModel

from agently_gumem import ConfigError, GUMem, ModelError, NotFound, StoreError, estimate_tokens
from agently_gumem.recall.memo import render_memo
from agently_gumem.remember.reconcile import reconcile
from agently_gumem.testing import Reply, RuleModel, ScriptedModel

DAY = datetime(2024, 5, 1, 9, tzinfo=timezone.utc)


def stages(model):
    """The memory's requests by stage."""
    return [r.memory_stage for r in model.memory_requests]


def tell(user, *texts, session_id="chat", digest=True, **fields):
    """Add messages of the user, and digest them."""
    return user.add_messages(
        [{"content": t, **fields} for t in texts], session_id=session_id, digest=digest
    )


def said(request):
    """The user's messages of an extract request."""
    return [m for m in request.data["NEW MESSAGES"] if m["role"] == "user"]


def known(request):
    """Known facts by their text."""
    return {k["content"]: k["ref"] for k in request.data["KNOWN FACTS"]}


def script(*answers):
    """Answer the extract requests one after the other; Summaries and memo with nothing."""
    waiting = list(answers)

    def answer(request):
        if request.memory_stage != "extract":
            return {"summaries": [], "same_topics": [], "memo": []}
        following = waiting.pop(0) if waiting else {"facts": [], "memo": []}
        return following(request) if callable(following) else following

    return answer


def copying(topic="things", **more):
    """Answer with each message of the user as a Fact."""

    def answer(request):
        facts = [
            {"ref": f"f{i}", "content": m["text"], "sources": [m["ref"]], "topic": topic, **more}
            for i, m in enumerate(said(request), 1)
        ]
        return {"facts": facts, "memo": []}

    return answer


# --- requests and their size


def test_one_request_as_a_rule_and_a_second_with_four_new_facts(use):
    """Three Facts of a topic ask nothing more; with the fourth its Summary is asked for."""
    with use(RuleModel()) as model, GUMem() as gumem:
        user = gumem.user("alice")
        tell(user, "I like oolong tea.", "I like green tea.", "I like white tea.")
        assert stages(model) == ["extract"]
        tell(user, "I like black tea.")
        assert stages(model) == ["extract", "extract", "summarize"]
        assert len(user.summaries()) == 1
        tell(user, "I like herbal tea.")
        assert stages(model)[3:] == ["extract"]


def test_a_refused_summary_is_asked_for_again_only_when_its_facts_change(use):
    """A model whose Summary says more than its Facts does not cost a request a digest."""
    invented = {"summaries": [{"topic": "tea", "content": "User drank 99 cups.", "facts": ["k1"]}]}
    rules = RuleModel()

    def answer(request):
        return invented if request.memory_stage == "summarize" else rules.memory(request)

    with use(ScriptedModel(memory=answer)) as model, GUMem() as gumem:
        user = gumem.user("alice")
        tell(user, "I like oolong tea.", "I like green tea.", "I like white tea.")
        tell(user, "I like black tea.")
        tell(user, "Good morning!")
        assert stages(model).count("summarize") == 1
        tell(user, "I like herbal tea.")
        assert stages(model).count("summarize") == 2
        assert user.summaries() == []


def test_a_fact_that_is_a_copied_text_is_no_fact(use):
    """A Fact is one sentence; an answer that copies the message would fill later requests."""
    long = "I like tea and " * 60
    drafted = {"facts": [{"content": long.replace("I ", "User "), "sources": ["m1"]}]}
    with use(ScriptedModel(memory=drafted)), GUMem() as gumem:
        user = gumem.user("alice")
        tell(user, long, digest=False)
        assert user.digest().dropped["too_long"] == 1
        assert user.facts() == []


def test_an_empty_digest_asks_nothing(use):
    """Where nothing waits no model is asked, and our own prompt can't become a memory."""
    with use(RuleModel()) as model, GUMem() as gumem:
        assert gumem.user("alice").digest().messages == 0
        assert model.requests == []


def test_an_answer_that_holds_nothing_is_no_failure(use):
    """Small talk becomes processed; the report tells no change, and nothing is stored."""
    with use(ScriptedModel()), GUMem() as gumem:
        user = gumem.user("alice")
        tell(user, "Good morning!", digest=False)
        report = user.digest()
        assert (report.messages, report.new, report.memo_changed, report.error) == (1, 0, False, "")
        assert user.facts() == []
        assert user.memo == {}
        assert user.messages()[0].status == "processed"


def test_a_request_does_not_grow_with_what_is_known(use):
    """With five hundred Facts known a request is hardly longer than with forty."""
    places = [
        f"{a}{b}"
        for a in ("Nor", "Wes", "Eas", "Sou", "Mid")
        for b in (
            "burg",
            "ham",
            "ville",
            "stad",
            "field",
            "ford",
            "mouth",
            "bridge",
            "wick",
            "dale",
        )
    ]
    texts = [f"I visited {p} in {year}." for p in places for year in range(2010, 2020)]
    with use(ScriptedModel(memory=copying("travel"))) as model, GUMem() as gumem:
        user = gumem.user("alice")
        for start, end in ((0, 40), (40, 500)):
            model.memory = script(*[copying(f"travel {i}") for i in range(20)])
            tell(user, *texts[start:end])
            tell(user, "I visited Norburg and I want to go to Westham again.")
        asked = [r for r in model.memory_requests if r.memory_stage == "extract"]
        probes = [r for r in asked if len(r.data["NEW MESSAGES"]) == 1]
        assert len(user.facts()) == 501
    few, many = probes
    for request in asked:
        assert len(request.data["KNOWN FACTS"]) <= 20
        assert len(request.data["TOPICS"][0]) <= 20
    assert len(many.data["KNOWN FACTS"]) >= 10
    assert estimate_tokens(many.text) <= 1.1 * estimate_tokens(few.text)


def test_a_request_is_bounded_also_where_facts_and_topics_are_long(use):
    """Rules, schema, memo, Topics and known Facts come to 1,600 tokens at most."""
    texts = [f"I once walked to the village of Norburg{n}, {'far ' * 80}away." for n in range(30)]
    topics = [f"walks to the far villages of the north, part {n}" for n in range(30)]
    with use(ScriptedModel()) as model, GUMem() as gumem:
        model.memory = script(*[copying(topic) for topic in topics])
        for text in texts:
            tell(gumem.user("alice"), text)
        head, _, _ = model.memory_requests[-1].text.partition("# NEW MESSAGES")
        assert model.memory_requests[-1].data["KNOWN FACTS"]
    assert estimate_tokens(head) <= 1_300


def test_the_nearest_known_fact_is_shown_however_long(use):
    """A Chinese sentence may be longer than all known Facts together are meant to be."""
    long = "用户养的猫叫小白，" + "它喜欢在窗台上晒太阳，" * 33
    with use(ScriptedModel(memory=script(copying()))) as model, GUMem() as gumem:
        user = gumem.user("alice")
        tell(user, long)
        tell(user, "小白今天又在窗台上晒太阳。")
        assert list(known(model.memory_requests[-1])) == [user.facts()[0].content]
    assert estimate_tokens(long) > 320


def test_others_are_served_while_facts_are_compared(use, monkeypatch):
    """A comparison takes its time in the pool: another user's turn does not wait for it."""
    begun, served = threading.Event(), threading.Event()
    outcomes = []

    def held(*asked):
        begun.set()
        outcomes.append(served.wait(20))
        return reconcile(*asked)

    monkeypatch.setattr("agently_gumem.remember.digest.reconcile", held)
    with use(ScriptedModel(memory=copying())), GUMem() as gumem:
        alice, bob = gumem.user("alice"), gumem.user("bob")
        digest = threading.Thread(target=tell, args=(alice, "I play the oboe at weekends."))
        digest.start()
        assert begun.wait(20)
        bob.add_messages({"content": "I row."})
        alice.add_messages({"content": "I ski."})
        served.set()
        digest.join(20)
        assert outcomes == [True]
        assert [f.content for f in alice.facts()] == ["I play the oboe at weekends."]
        assert [m.status for m in alice.messages()] == ["processed", "pending"]


def test_what_is_over_the_limit_waits_as_chunked(use):
    """More than 6,000 tokens go in requests that each keep the limit; the rest is marked."""
    long = "I keep a diary about my garden and its many plants. " * 100
    with use(ScriptedModel()) as model, GUMem() as gumem:
        user = gumem.user("alice")
        tell(user, *[f"{n}: {long}" for n in range(10)], digest=False)
        model.hold("memory")
        with model_thread(user.digest) as waiting:
            model.wait_for(1, "memory")
            shown = len(model.memory_requests[0].data["NEW MESSAGES"])
            assert len(user.messages(status="chunked")) == 10 - shown
            model.release("memory")
            report = waiting()
        assert report.messages == 10
        sizes = [
            sum(estimate_tokens(m["text"]) for m in r.data["NEW MESSAGES"])
            for r in model.memory_requests
        ]
        assert len(sizes) == 3
        assert max(sizes) <= 6_000
        assert {m.status for m in user.messages()} == {"processed"}


class model_thread:  # noqa: N801  # reads as a function
    """Run a call on a thread while the block runs; calling it waits for its result."""

    def __init__(self, call):
        import concurrent.futures

        self._pool = concurrent.futures.ThreadPoolExecutor(1)
        self._future = self._pool.submit(call)

    def __enter__(self):
        return self._future.result

    def __exit__(self, *_):
        self._pool.shutdown()


def test_one_message_over_the_limit_is_cut_and_kept_whole(use):
    """A single huge message is digested by its beginning; the store has all of it."""
    huge = "我喜欢爬山。" + "今天天气不错，" * 3_000
    with use(RuleModel()) as model, GUMem() as gumem:
        user = gumem.user("alice")
        tell(user, huge)
        assert estimate_tokens(model.memory_requests[0].data["NEW MESSAGES"][0]["text"]) <= 6_000
        assert user.messages()[0].content == huge
        assert any("爬山" in f.content for f in user.facts())


# --- what is kept once


def test_the_same_text_twice_is_one_fact_with_two_sources(use):
    """Said in two sessions it is one Fact with both as sources and both sessions."""
    with use(ScriptedModel(memory=copying())), GUMem() as gumem:
        user = gumem.user("alice")
        (one,) = tell(user, "I play the oboe.", session_id="a")
        (two,) = tell(user, "I play the oboe.", session_id="b")
        (fact,) = user.facts(validity=None)
        assert fact.source_message_ids == [one.id, two.id]
        assert fact.session_ids == ["a", "b"]


def test_like_hate_like_again_ends_with_like(use):
    """Each change of mind supersedes the one before; the last stands, the past is kept."""
    with use(RuleModel()), GUMem() as gumem:
        user = gumem.user("alice")
        for day, text in enumerate(("I like jazz.", "I hate jazz.", "I like jazz."), 1):
            tell(user, text, timestamp=DAY.replace(day=day))
        (active,) = user.facts()
        assert "like" in active.content
        past = [f for f in user.facts(validity=None) if f.validity == "deprecated"]
        assert len(past) == 2
        assert all(f.superseded_by and f.valid_to for f in past)
        shown = user.query("Which music do I like, jazz?").formatted_context
        assert "likes jazz" in shown
        assert "hates jazz" not in shown


def test_a_correction_replaces_fact_summary_and_memo(use):
    """After "not 500 but 800" no Fact, Summary, memo or context tells the old value."""
    with use(RuleModel()), GUMem() as gumem:
        user = gumem.user("alice")
        tell(
            user,
            "My running shoe budget is 500 dollars.",
            "I like running shoes with wide running toes.",
            "I like blue running shoes.",
            "I own two pairs of running shoes.",
            "I always buy running shoes in spring.",
        )
        assert any("500" in s.content for s in user.summaries())
        assert "500" in json.dumps(user.memo)
        tell(user, "Actually, my running shoe budget is 800 dollars now.")
        assert "800" in json.dumps(user.memo)
        assert "500" not in json.dumps(user.memo)
        budgets = [f.content for f in user.facts() if "budget" in f.content]
        assert len(budgets) == 1
        assert "800" in budgets[0]
        assert not any("500" in s.content for s in user.summaries())
        shown = user.query("What is my running shoe budget?").formatted_context
        assert "800" in shown
        assert "500 dollars" not in shown


def test_a_verdict_on_what_was_not_given_is_refused_with_its_patch(use):
    """Replacing k9 counts for nothing, and the memo that rests on that Fact stays as it was."""

    def good(request):
        (m,) = said(request)
        return {
            "facts": [{"ref": "f1", "content": m["text"], "sources": [m["ref"]], "topic": "pets"}],
            "memo": [{"key": "constraints", "value": [m["text"]], "facts": ["f1"]}],
        }

    def bad(request):
        answer = good(request)
        answer["facts"][0]["replaces"] = ["k9"]
        return answer

    with use(ScriptedModel(memory=script(good, bad))), GUMem() as gumem:
        user = gumem.user("alice")
        tell(user, "I never eat shellfish.")
        tell(user, "I never eat walnuts.", digest=False)
        report = user.digest()
        assert report.dropped["verdict"] == 1
        assert report.dropped["memo_patch"] == 1
        assert user.memo == {"constraints": ["I never eat shellfish."]}
        assert len(user.facts()) == 2


def test_an_unrelated_verdict_retires_nothing(use):
    """A true Fact is not superseded by one that has nothing in common with it."""

    def second(request):
        (m,) = said(request)
        facts = [{"content": m["text"], "sources": [m["ref"]], "topic": "work",
                  "replaces": list(known(request).values())}]  # fmt: skip
        return {"facts": facts, "memo": []}

    with use(ScriptedModel(memory=script(copying("music"), second))), GUMem() as gumem:
        user = gumem.user("alice")
        tell(user, "I play the oboe.")
        tell(user, "I have a dentist appointment on Friday.")
        assert len(user.facts()) == 2


# --- topics, Summaries, sources


def test_a_big_topic_is_summarised_for_new_facts_only(use):
    """Fifty Facts of a topic, or ones that a Summary left out, don't ask for one at each digest."""

    def answer(request):
        if request.memory_stage == "extract":
            return copying("travel")(request)
        first = request.data["FACTS"][0]
        told = {"topic": "travel", "content": first["content"], "facts": [first["ref"]]}
        return {"summaries": [told], "same_topics": []}

    with use(ScriptedModel(memory=answer)) as model, GUMem() as gumem:
        user = gumem.user("alice")
        tell(user, *[f"I visited place number {n} in my long life." for n in range(50)])
        for n in range(3):
            tell(user, f"I visited town number {n} in spring.")
        assert stages(model).count("summarize") == 1
        tell(user, "I visited town number 4 in winter.")
        assert stages(model).count("summarize") == 2


def test_topics_stay_few(use):
    """Case, order and meaning of a name don't make another Topic; aliases remember the names."""
    names = ("running shoes", "Running Shoes", "shoes running", "running shoe", "car insurance")
    answers = [copying(name) for name in names]
    with use(ScriptedModel(memory=script(*answers))), GUMem() as gumem:
        user = gumem.user("alice")
        for n, _ in enumerate(names):
            tell(user, f"I own item number {n} of the big catalogue.")
        topics = user.topics()
        assert [t.name for t in topics] == ["car insurance", "running shoes"]
        assert len(user.facts(topic="Running Shoes")) == 4
        assert topics[1].aliases


def test_the_summary_request_can_merge_topics(use):
    """Two names that the model calls one become one Topic, with its Facts and Summaries."""
    answers = iter([copying("tea")] * 4 + [copying("Asian tea")])
    texts = [f"I like tea number {n}." for n in range(4)]

    def answer(request):
        if request.memory_stage == "summarize":
            told = [f["ref"] for f in request.data["FACTS"]]
            return {
                "summaries": [{"topic": "tea", "content": "User likes tea.", "facts": told}],
                "same_topics": [{"keep": "tea", "other": "Asian tea"}],
            }
        return next(answers)(request)

    with use(ScriptedModel(memory=answer)), GUMem() as gumem:
        user = gumem.user("alice")
        for text in texts[:3]:
            tell(user, text)
        next(answers)
        tell(user, "I like matcha from Uji.")
        tell(user, texts[3], digest=False)
        answers = iter([copying("tea")])
        user.digest()
        (topic,) = user.topics()
        assert topic.name == "tea"
        assert topic.aliases == ["Asian tea"]
        assert len(user.facts(topic="tea")) == 5


def test_a_summary_has_the_fields_of_the_documents(use):
    """A Summary names its Facts, times, evidence and anchors, and what is new is active."""
    with use(RuleModel()), GUMem() as gumem:
        user = gumem.user("alice")
        tell(
            user,
            *[f"I like tea from {p}." for p in ("Assam", "Uji", "Fujian")],
            timestamp=DAY,
            digest=False,
        )
        user.add_actions(
            {"content": "saved: tea from Nepal", "event_type": "save", "anchors": {"sku": "N1"},
             "timestamp": DAY.replace(day=3)},
            session_id="chat",
        )  # fmt: skip
        user.digest()
        (summary,) = user.summaries()
        facts = {f.id for f in user.facts()}
        assert set(summary.source_facts) <= facts
        assert len(summary.source_facts) == 4
        assert summary.time.event_start == DAY
        assert summary.time.event_end == DAY.replace(day=3)
        assert (summary.validity, summary.memory_status) == ("active", "active")
        assert (summary.decay_factor, summary.retrieval_boost) == (0.0, 1.0)
        assert summary.topic == user.topics()[0].name
        assert summary.anchors == {"sku": "N1"}
        assert {e["layer"] for e in summary.evidence} == {"fact", "action"}
        assert "Uji" in summary.content


def test_explain_walks_from_any_record_to_its_source(use):
    """Message, Fact, Summary and Topic lead to each other; a stranger's id to an error."""
    with use(RuleModel()), GUMem() as gumem:
        user = gumem.user("alice")
        stored = tell(user, *[f"I like tea from {p}." for p in ("Assam", "Uji", "Fujian", "Kenya")])
        fact, summary, topic = user.facts()[0], user.summaries()[0], user.topics()[0]
        ids = {m.id for m in stored}
        for record in (summary.id, topic.id):
            chain = user.explain(record)
            assert {m.id for m in chain["messages"]} == ids
            assert len(chain["facts"]) == 4
            assert chain["topic"].id == topic.id
        chain = user.explain(fact.id)
        assert [m.id for m in chain["messages"]] == fact.source_message_ids
        assert [s.id for s in chain["summaries"]] == [summary.id]
        assert user.explain(stored[0].id)["facts"][0].source_message_ids == [stored[0].id]
        with pytest.raises(NotFound, match="bob"):
            gumem.user("bob").explain(fact.id)


# --- the memo


class Style(BaseModel):
    """How to answer."""

    tone: str = ""
    language: str = ""


class Rules(BaseModel):
    """A developer's own memo."""

    style: Style = Style()
    diet: list[str] = []


def styled(request):
    """Fill the nested memo from one message."""
    (m,) = said(request)
    return {
        "facts": [{"ref": "f1", "content": m["text"], "sources": [m["ref"]], "topic": "style"}],
        "memo": [
            {"key": "style", "value": {"tone": "brief", "language": "German"}, "facts": ["f1"]}
        ],
    }


def test_the_memo_has_the_developers_own_schema(use):
    """A nested pydantic model is shown to the model, validated, and read as plain data."""
    with use(ScriptedModel(memory=script(styled))) as model, GUMem(memo=Rules) as gumem:
        user = gumem.user("alice")
        tell(user, "Be brief and answer in German.")
        assert user.memo == {"style": {"tone": "brief", "language": "German"}}
        schema = json.dumps(model.memory_requests[0].data["MEMO SCHEMA"][0])
        assert "tone" in schema
        assert "diet" in schema
        assert "brief" in user.query("anything").formatted_context


def test_an_agently_dict_is_a_schema(use):
    """Agently's own output notation works as a memo."""
    schema = {
        "name": (str, "how to call the user"),
        "diet": [(str, "one limit")],
        "contact": {"email_allowed": (bool, "may we write")},
    }
    with use(RuleModel()) as model, GUMem(memo=schema) as gumem:
        user = gumem.user("alice")
        tell(user, "Call me Xiao Hang.", "I am allergic to peanuts.")
        assert "Xiao Hang" in json.dumps(user.memo)
        assert set(user.memo) <= set(schema)
        assert "how to call the user" in model.memory_requests[0].text


BROKEN = [
    {"key": "no_such_key", "value": ["I never eat nuts."], "facts": ["f1"]},
    {"key": "diet", "value": {"not": "a list"}, "facts": ["f1"]},
    {"key": "diet", "value": ["Never more than 1500 calories."], "facts": ["f1"]},
    {"key": "diet", "value": ["I never eat nuts."], "facts": []},
    {"key": "diet", "value": ["I never eat nuts."], "facts": ["f7"]},
    {"key": "style", "value": None, "facts": ["f1"]},
]


@pytest.mark.parametrize("patch", BROKEN)
def test_a_broken_patch_keeps_the_good_memo(use, patch):
    """A patch that is unknown, of another shape, or says more than its Facts changes nothing."""

    def second(request):
        return {**copying()(request), "memo": [patch]}

    with use(ScriptedModel(memory=script(styled, second))), GUMem(memo=Rules) as gumem:
        user = gumem.user("alice")
        tell(user, "Be brief and answer in German.")
        good = user.memo
        tell(user, "I never eat nuts.")
        assert user.memo == good
        assert len(user.facts()) == 2


def test_the_memo_stays_within_its_tokens(use):
    """A hundred standing wishes don't make the memo longer than its bound."""
    texts = [f"I never eat dish number {n} of the old cookbook." for n in range(100)]

    def greedy(request):
        answer = copying("food")(request)
        shown = [f["content"] for f in answer["facts"]]
        refs = [f["ref"] for f in answer["facts"]]
        answer["memo"] = [{"key": "constraints", "value": shown, "facts": refs}]
        return answer

    with use(ScriptedModel(memory=script(*[greedy] * 5))), GUMem() as gumem:
        user = gumem.user("alice")
        for start in range(0, 100, 20):
            tell(user, *texts[start : start + 20])
            assert estimate_tokens(render_memo(user.memo, estimate_tokens, 10_000)) <= 300
        assert texts[-1] in user.memo["constraints"]


def test_the_memo_is_rebuilt_on_demand_and_after_a_new_schema(use, tmp_path):
    """`rebuild_memo()` writes it from Facts alone; another schema is filled at the next digest."""
    with use(RuleModel()) as model:
        with GUMem(tmp_path) as gumem:
            user = gumem.user("alice")
            tell(user, "Call me Xiao Hang.", "I am allergic to peanuts.", "请用中文回答我。")
            before = user.memo
            rebuilt = user.rebuild_memo()
            assert stages(model)[-1] == "memo"
            assert sorted(map(str, rebuilt)) == sorted(map(str, before))
            assert "peanuts" in json.dumps(rebuilt)
        schema = {"nickname": (str, "how to call the user"), "allergies": [(str, "one allergy")]}
        with GUMem(tmp_path, memo=schema) as gumem:
            user = gumem.user("alice")
            assert user.memo == {}
            tell(user, "I was born in Ljubljana.")
            assert set(user.memo) <= set(schema)
            assert "peanuts" in json.dumps(user.memo)


def test_a_rebuild_that_fails_leaves_the_memo(use):
    """Without a valid answer the good memo stays, and the caller is told."""
    with use(ScriptedModel(memory=script(styled))) as model, GUMem(memo=Rules) as gumem:
        user = gumem.user("alice")
        tell(user, "Be brief and answer in German.")
        good = user.memo
        model.memory = "no json here"
        with pytest.raises(ModelError):
            user.rebuild_memo()
        model.memory = Reply("down", status=503)
        with pytest.raises(ModelError):
            user.rebuild_memo()
        assert user.memo == good


# --- the developer's words


def test_instruct_templates_and_language_reach_the_model(use, tmp_path):
    """Own rules, an own template and a language stand in the request."""
    (tmp_path / "summarize.jinja").write_text("gumem.summarize\n# ALL TOPICS\n{{ names }}\nmine")
    with (
        use(RuleModel()) as model,
        GUMem(
            instruct="Remember every ship's name.", language="French", templates=tmp_path
        ) as gumem,
    ):
        tell(gumem.user("alice"), *[f"I like tea from {p}." for p in ("A1", "B2", "C3", "D4")])
        first, second = model.memory_requests
    assert "Remember every ship's name." in first.text
    assert "French" in first.text
    assert "mine" in second.text


def test_a_template_with_an_unknown_variable_is_refused_by_name(tmp_path):
    """A slip in a template is a ConfigError when the memory is opened, and names the variable."""
    (tmp_path / "extract.jinja").write_text("gumem.extract {{ mesages }}")
    with pytest.raises(ConfigError, match="mesages"):
        GUMem(templates=tmp_path)
    (tmp_path / "extract.jinja").write_text("gumem.extract {% if %}")
    with pytest.raises(ConfigError, match="extract"):
        GUMem(templates=tmp_path)
    with pytest.raises(ConfigError, match="no folder"):
        GUMem(templates=tmp_path / "nowhere")


# --- accounts, secrets, crashes


def test_usage_and_events_tell_what_was_done(use):
    """Requests and tokens are counted by stage and user, failures as well; events say the rest."""
    with use(RuleModel()) as model, GUMem() as gumem, hooked("gumem.digested") as events:
        agent = agent_of(model)
        memory = gumem.attach(agent, user_id="bob", wait=10, when=lambda s: True)
        tell(gumem.user("alice"), *[f"I like tea from {p}." for p in ("Assam", "Uji", "Fujian")])
        agent.activate_session(session_id="s")
        agent.input("I like tea.").start()
        model.memory = Reply("down", status=500)
        agent.input("I like coffee.").start()
        assert gumem.flush(20)
        usage = gumem.usage()
        assert usage["requests"] == 3
        assert usage["failed"] == 1
        assert usage["stages"]["extract"]["requests"] == 3
        assert usage["tokens_in"] > 1_000
        assert gumem.usage("alice")["requests"] == 1
        assert gumem.usage(since=datetime.now(timezone.utc))["requests"] == 0
        assert [e.payload["messages"] for e in events] == [3, 2]
        assert "tea" not in json.dumps(events[0].payload)
        assert memory.status()["last_digest"]["error"] == "ModelError"


def test_secrets_are_in_no_request_of_the_memory(use):
    """A key, a card and an identity number are placeholders in whatever the model is asked."""
    secrets = ("sk-abcdefghijklmnopqrstuvwx123456", "4111 1111 1111 1111", "11010519491231002X")
    with use(RuleModel()) as model, GUMem() as gumem:
        user = gumem.user("alice")
        tell(user, *[f"I like my number {s} a lot." for s in secrets])
        user.rebuild_memo()
        sent = json.dumps([r.body for r in model.requests], ensure_ascii=False)
        kept = str(user.messages()) + str(user.facts()) + str(user.memo)
    for secret in secrets:
        assert secret not in sent
        assert secret not in kept
    assert "[secret]" in sent


def test_an_answer_can_bring_no_secret_in(use):
    """What the model makes up that looks like a key is not stored as a Fact."""
    made_up = "sk-zyxwvutsrqponmlkjihgfedc654321"

    def answer(request):
        (m,) = said(request)
        facts = [{"content": f"The key is {made_up}", "sources": [m["ref"]], "entities": [made_up]}]
        return {"facts": facts, "memo": []}

    with use(ScriptedModel(memory=script(answer))), GUMem() as gumem:
        user = gumem.user("alice")
        tell(user, "My key is sk-abcdefghijklmnopqrstuvwx123456")
        assert made_up not in str(user.facts())


class FailsOnce:
    """A real Chroma client that fails at one chosen write, and is well after that."""

    def __init__(self, client):
        self._client = client
        self.fail_in = -1

    def __getattr__(self, name):
        return getattr(self._client, name)

    def get_or_create_collection(self, *args, **kwargs):
        """Open a real collection behind the fault."""
        return _Collection(self, self._client.get_or_create_collection(*args, **kwargs))


class _Collection:
    def __init__(self, owner, collection):
        self._owner, self._collection = owner, collection

    def __getattr__(self, name):
        return getattr(self._collection, name)

    def upsert(self, **rows):
        self._owner.fail_in -= 1
        if self._owner.fail_in == -1:
            raise OSError("disk gone")
        return self._collection.upsert(**rows)


def test_a_crash_between_answer_and_write_is_resumed(use, tmp_path):
    """Nothing of an answer that could not be written is there; the next digest has it once."""
    client = FailsOnce(chromadb.PersistentClient(str(tmp_path)))
    with use(RuleModel()) as model, GUMem(client=client) as gumem:
        user = gumem.user("alice")
        tell(user, "My dog is called Biscuit.", "I never eat nuts.", digest=False)
        client.fail_in = 0
        with pytest.raises(StoreError, match="disk gone"):
            user.digest()
        assert user.facts() == []
        assert user.memo == {}
        assert {m.status for m in user.messages()} == {"pending"}
        assert user.digest().new == 2
        assert stages(model) == ["extract", "extract"]
        assert len(user.facts(validity=None)) == 2


def test_a_crash_before_the_summary_is_made_up_later(use, tmp_path):
    """Facts and memo stand when the Summary's write fails; the next digest writes it."""
    client = FailsOnce(chromadb.PersistentClient(str(tmp_path)))
    with use(RuleModel()), GUMem(client=client) as gumem:
        user = gumem.user("alice")
        tell(user, *[f"I like tea from {p}." for p in ("A1", "B2", "C3", "D4")], digest=False)
        client.fail_in = 1
        with pytest.raises(StoreError, match="disk gone"):
            user.digest()
        assert len(user.facts()) == 4
        assert user.summaries() == []
        assert user.digest().summaries == 1


def test_an_embedder_that_fails_once_loses_nothing(use):
    """A failing embedding function fails the digest, not the messages."""
    down = []

    def embed(texts):
        if down:
            raise RuntimeError("embedder down")
        return [[1.0, float(len(t)), float(sum(map(ord, t)) % 97)] for t in texts]

    with (
        use(ScriptedModel(memory=script(copying(), copying()))),
        GUMem(embedding_function=embed) as gumem,
    ):
        user = gumem.user("alice")
        tell(user, "I play the oboe at weekends.", digest=False)
        user.messages()
        down.append(True)
        user.add_messages({"content": "I play the cello on Mondays."})
        assert "cello" in user.query("Who plays the cello?").formatted_context
        down.clear()
        assert user.digest().messages == 2
        assert gumem.status()["errors"]["embedder"] > 0


def test_two_gumems_on_one_path_one_after_the_other(use, tmp_path):
    """What the first one left pending or known, the second one digests and knows."""
    with use(RuleModel()):
        with GUMem(tmp_path) as gumem:
            tell(gumem.user("alice"), "My dog is called Biscuit.")
            tell(gumem.user("alice"), "I never eat nuts.", digest=False)
        with GUMem(tmp_path) as gumem:
            user = gumem.user("alice")
            assert len(user.facts()) == 1
            assert gumem.sweep() == swept(users=1, messages=1)
            assert len(user.facts()) == 2
            assert gumem.sweep()["users"] == 0
        with GUMem(tmp_path) as gumem:
            shown = gumem.user("alice").query("What is my dog called?").formatted_context
            assert "Biscuit" in shown
            assert "nuts" in shown


def test_another_roles_word_about_itself_is_not_the_users(use):
    """Beside a user, a seller who says "I" tells of the seller; alone, a patient is the user."""

    def answer(request):
        lines = request.data["NEW MESSAGES"]
        facts = [{"content": m["text"], "sources": [m["ref"]]} for m in lines]
        return {"facts": facts, "memo": []}

    with use(ScriptedModel(memory=answer)), GUMem() as gumem:
        seller = {"role": "seller", "content": "I live in Utrecht and only take cash."}
        buyer = {"role": "user", "content": "I want to see the bike on Friday."}
        market, clinic = gumem.user("alice"), gumem.user("bob")
        market.add_messages([seller, buyer], digest=True)
        clinic.add_messages({"role": "patient", "content": "I live in Utrecht."}, digest=True)
        assert [f.subject for f in market.facts()] == ["seller", "user"]
        assert [f.subject for f in clinic.facts()] == ["user"]
