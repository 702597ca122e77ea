"""From actions to Facts, end to end: fields, habits, decisions; real store, real requests."""

from contextlib import ExitStack
from datetime import datetime, timedelta, timezone

import pytest

from agently_gumem import Action, GUMem
from agently_gumem.testing import RuleModel, ScriptedModel

NOON = datetime(2026, 5, 6, 12, tzinfo=timezone.utc)


def silent(request):
    """Answer with nothing: what is found then is found in code."""
    return {"facts": [], "memo": [], "summaries": [], "same_topics": []}


def act(user, *texts, kind="filter", day=0, digest=True, **fields):
    """Add events a minute apart, and digest them."""
    start = NOON + timedelta(days=day)
    actions = [
        {"event_type": kind, "content": t, "timestamp": start + timedelta(minutes=i), **fields}
        for i, t in enumerate(texts)
    ]
    return user.add_actions(actions, session_id=f"day{day}", digest=digest)


def told(user, kind):
    """The active Facts of a kind: content -> Fact."""
    return {f.content: f for f in user.facts(kind=kind)}


@pytest.fixture
def open_with():
    """Open a memory on a model."""
    with ExitStack() as stack:

        def enter(answer=silent, **options):
            model = ScriptedModel(memory=answer) if answer is not RuleModel else RuleModel()
            settings = {"OpenAICompatible": stack.enter_context(model).settings}
            return stack.enter_context(GUMem(model_settings=settings, **options))

        yield enter


def test_each_field_of_an_action_is_kept(open_with):
    """Device, app, platform, entities, anchors, page, metadata and the log's id."""
    user = open_with().user("alice")
    action = Action(
        content="view: Pegasus 41", event_type="view", timestamp=NOON, log_id="log-7",
        device_id="d1", app="shop", platform="ios", page="shop/item",
        anchors={"item": "I-9"}, entities=["Pegasus 41"], metadata={"source": "ad"},
    )  # fmt: skip
    (stored,) = user.add_actions([action, action])[:1]
    assert len(user.messages()) == 1  # the same event again is the same message
    assert (stored.id, stored.page, stored.anchors) == ("log-7", "shop/item", {"item": "I-9"})
    assert stored.metadata == {
        "source": "ad", "device_id": "d1", "app": "shop", "platform": "ios",
        "entities": ["Pegasus 41"],
    }  # fmt: skip


def test_a_habit_forms_with_the_third_event_over_sessions_and_grows_in_its_place(open_with):
    """All its sources, a count, one id, its old text gone: also with no word of the model."""
    user = open_with().user("alice")
    first = act(user, "筛选：价格 = 500-800", "筛选：尺码 = 42")
    second = act(user, "筛选：价格=500-800", day=1)
    assert told(user, "behavior") == {}
    third = act(user, "筛选：价格 = 500 - 800", day=2, anchors={"list": "L1"}, entities=["跑鞋"])
    (fact,) = user.facts(kind="behavior")
    assert fact.content == "用户反复筛选价格 500-800（3 次）"
    assert fact.source_message_ids == [first[0].id, second[0].id, third[0].id]
    assert (fact.count, fact.certainty, fact.confidence) == (3, "observed", pytest.approx(0.8))
    assert (fact.session_ids, fact.entities) == (["day0", "day1", "day2"], ["跑鞋"])
    assert fact.anchors == {"list": "L1"}
    assert fact.time_range.start == NOON
    assert fact.time_range.end == NOON + timedelta(days=2)
    act(user, *["筛选：价格 = 500-800"] * 9, day=3)
    (grown,) = user.facts(kind="behavior", validity=None)
    assert (grown.id, grown.count, len(grown.source_message_ids)) == (fact.id, 12, 12)
    assert grown.content == "用户反复筛选价格 500-800（12 次）"
    assert grown.confidence > fact.confidence
    assert [c.what for c in grown.changes] == ["created", "joined"]
    found = user.query("平时看什么价格的？").formatted_context
    assert "500-800（12 次）" in found
    assert "（3 次）" not in found


def test_fewer_make_no_habit_and_a_burst_is_one_event(open_with):
    """The threshold is set by Limits; five reports within seconds are one event."""
    user = open_with(limits={"behaviour_after": 2}).user("alice")
    burst = [
        {"event_type": "search", "content": "flights to Lisbon", "log_id": f"l{i}",
         "timestamp": NOON + timedelta(seconds=i)}
        for i in range(5)
    ]  # fmt: skip
    user.add_actions(burst, digest=True)
    assert user.facts() == []
    act(user, "search: flights to Lisbon", kind="search", day=1)
    (fact,) = user.facts()
    assert (fact.count, len(fact.source_message_ids)) == (2, 6)
    assert fact.content == "User repeatedly searched for flights to Lisbon (2 times)"


def test_the_same_event_of_the_log_counts_once(open_with):
    """An application that sends its log again makes no habit of one event."""
    user = open_with().user("alice")
    for day in range(4):
        user.add_actions(
            {"event_type": "filter", "content": "price = 500-800", "log_id": "one",
             "timestamp": NOON + timedelta(days=day)},
            digest=True,
        )  # fmt: skip
    assert user.facts() == []


def test_noise_makes_nothing(open_with):
    """Scrolling and hovering are not stored, however often."""
    user = open_with().user("alice")
    for kind in ("scroll", "hover", "cursor_move"):
        act(user, *["item list"] * 5, kind=kind)
    assert user.messages() == []


def test_a_habit_stays_after_its_events_were_read_by_another_process(open_with, tmp_path):
    """What was counted before counts on in a new process, on the same Fact."""
    path = tmp_path / "store"
    with ScriptedModel(memory=silent) as model:
        settings = {"OpenAICompatible": model.settings}
        with GUMem(path, model_settings=settings) as gumem:
            act(gumem.user("alice"), *["size = 42"] * 3)
            (before,) = gumem.user("alice").facts()
        with GUMem(path, model_settings=settings) as gumem:
            user = gumem.user("alice")
            act(user, "size = 42", day=1)
            (after,) = user.facts()
    assert (after.id, after.count) == (before.id, 4)


def test_decisions_are_kept_one_each_with_time_and_anchors(open_with):
    """What the model leaves out is told in code; what only was looked at is not."""
    user = open_with().user("alice")
    act(user, "booking of Hotel Adler", kind="confirm", anchors={"booking": "B-1"})
    act(user, "拒绝：把会改到周五", kind="reject", day=1, entities=["季度会"])
    act(user, "浏览：跑鞋", kind="view", day=2)
    found = told(user, "action")
    assert set(found) == {"User confirmed booking of Hotel Adler", "用户拒绝了把会改到周五"}
    booking = found["User confirmed booking of Hotel Adler"]
    assert (booking.anchors, booking.certainty) == ({"booking": "B-1"}, "observed")
    assert booking.time_range.start == NOON
    assert found["用户拒绝了把会改到周五"].entities == ["季度会"]
    act(user, "booking of Hotel Adler", kind="confirm", day=3)
    (again,) = (f for f in user.facts(kind="action") if "Adler" in f.content)
    assert (again.id, len(again.source_message_ids)) == (booking.id, 2)


def test_a_decision_that_the_model_tells_is_not_told_twice(open_with):
    """The model's own Fact of it stands, dated by its event."""
    user = open_with(RuleModel).user("alice")
    act(user, "收藏：2 双浅色鞋款", kind="save")
    (fact,) = user.facts()
    assert (fact.kind, fact.certainty, fact.time_range.start) == ("action", "observed", NOON)


def habitual(request):
    """Claim a habit from each event, as an eager model does."""
    messages = request.data.get("NEW MESSAGES", [])
    facts = [
        {"content": f"User often uses {m['text']}", "kind": "behavior", "sources": [m["ref"]]}
        for m in messages
    ]
    facts += [
        {"content": f"User filtered by {m['text']}", "kind": "behavior", "sources": [m["ref"]]}
        for m in messages
    ]
    return {**silent(request), "facts": facts}


def test_a_model_that_calls_one_event_a_habit_is_refused(open_with):
    """A habit, "often", needs its events; what was done once is an action."""
    user = open_with(habitual).user("alice")
    act(user, "size = 42")
    assert user.status()["dropped"]["too_little_evidence"] == 1
    (fact,) = user.facts()
    assert (fact.content, fact.kind) == ("User filtered by size = 42", "action")


def grouped(request):
    """Write one behaviour of all events, under a topic."""
    refs = [m["ref"] for m in request.data.get("NEW MESSAGES", [])]
    fact = {"content": "User often filters by size = 42", "kind": "behavior", "sources": refs}
    return {**silent(request), "facts": [{**fact, "topic": "shoes"}]}


def test_the_models_word_for_a_habit_becomes_the_counted_one(open_with):
    """One Fact, not two: with its topic, the count and every source."""
    user = open_with(grouped).user("alice")
    act(user, *["size = 42"] * 10)
    (fact,) = user.facts()
    assert fact.content == "User repeatedly filtered by size 42 (10 times)"
    assert (fact.count, fact.topic, len(fact.source_message_ids)) == (10, "shoes", 10)
    assert [t.name for t in user.topics()] == ["shoes"]


def test_the_page_names_the_topic_where_nothing_else_does(open_with):
    """A Fact that code makes has a place among the Topics, too."""
    user = open_with().user("alice")
    act(user, *["size = 42"] * 3, page="shop/shoes")
    (fact,) = user.facts()
    assert fact.topic == "shop/shoes"
    assert [t.name for t in user.topics()] == ["shop/shoes"]


def test_users_are_apart(open_with):
    """Two users' events make no habit of either."""
    gumem = open_with()
    for name in ("alice", "bob"):
        act(gumem.user(name), *["size = 42"] * 2)
    assert gumem.user("alice").facts() == gumem.user("bob").facts() == []


def test_a_habit_is_forgotten_with_its_events(open_with):
    """Below the threshold it goes; above it the count tells what is left."""
    user = open_with().user("alice")
    stored = act(user, *["size = 42"] * 4)
    user.forget(message_ids=[stored[0].id])
    (fact,) = user.facts()
    assert (fact.count, fact.content) == (3, "User repeatedly filtered by size 42 (3 times)")
    user.forget(message_ids=[stored[1].id])
    assert user.facts() == []


def test_a_forgotten_habit_does_not_come_back_by_itself(open_with):
    """The next event of the same does not bring the forgotten ones back."""
    user = open_with().user("alice")
    act(user, *["size = 42"] * 3)
    (fact,) = user.facts()
    user.forget(fact_ids=[fact.id])
    act(user, "size = 42", day=1)
    assert user.facts() == []


def claiming(request):
    """Write what the assistant claims as a Fact, citing it and the answer to it."""
    refs = [m["ref"] for m in request.data.get("NEW MESSAGES", [])]
    fact = {"content": "用户对猫毛过敏，住在北方。", "sources": refs, "topic": "life"}
    return {**silent(request), "facts": [fact]}


@pytest.mark.parametrize(
    ("answer", "kept"), [("对的。", 1), ("不是", 0), ("你怎么知道的？", 0), ("帮我订机票", 0)]
)
def test_what_only_the_assistant_said_is_a_fact_when_the_user_confirms_it(answer, kept, open_with):
    """Its own nearness to the claim is no support, whatever the model cites."""
    user = open_with(claiming).user("alice")
    claim = {"role": "assistant", "content": "您对猫毛过敏，住在北方。"}
    user.add_messages([claim, {"role": "user", "content": answer}], digest=True)
    assert len(user.facts()) == kept


def test_a_summary_and_a_memo_tell_a_habit_without_its_count(open_with):
    """The count grows with each event; what was said of it before must not be wrong then."""

    def tell(request):
        if request.memory_stage != "summarize":
            return silent(request)
        lines = request.data["FACTS"]
        told = " ".join(line["content"] for line in lines)
        refs = [line["ref"] for line in lines]
        topic = request.data["TOPICS"][0]["topic"]
        return {"summaries": [{"topic": topic, "content": told, "facts": refs}], "same_topics": []}

    user = open_with(tell, limits={"summary_after": 2}).user("alice")
    act(user, *["filter: size = 42"] * 3, page="shop")
    act(user, *["筛选：价格 = 500-800"] * 3, page="shop", day=1)
    assert {f.count for f in user.facts(kind="behavior")} == {3}
    (summary,) = user.summaries()
    assert "User repeatedly filtered by size 42 用户反复筛选价格 500-800" in summary.content
    act(user, "filter: size = 42", page="shop", day=2)
    found = user.query("Which size?").formatted_context
    assert "3 times" not in found
    assert "4 times" in found or "repeatedly filtered by size 42" in found
