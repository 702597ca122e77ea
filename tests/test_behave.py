"""What events did to what, what makes a habit, and what evidence a claimed one needs."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem.records import Fact, Message
from agently_gumem.remember.behave import (
    claim,
    decision,
    deeds,
    distinct,
    habits,
    is_action,
    of_habit,
)

NOON = datetime(2026, 5, 6, 12, tzinfo=timezone.utc)


def event(content, kind="filter", at=0, **fields):
    """Build an event, so many minutes after noon."""
    when = NOON + timedelta(minutes=at) if at is not None else None
    own = fields.pop("id", f"{kind}-{content}-{at}")
    return Message(id=own, content=content, event_type=kind, timestamp=when, **fields)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("filter", "筛选：价格 = 500-800"), ("filter", "筛选:价格=500 - 800")),
        (("filter", "filter: price = 500-800"), ("filter", "Price = 500–800")),
        (("filter", "price = 500-800"), ("filters", "filtered by price = 500-800")),
        (("search", "search Berlin hotels"), ("search", "searched for hotels in Berlin")),
        (("search", "搜索：成都素食餐厅"), ("action", "用户搜索了成都素食餐厅")),
        (("view", "浏览：4 双缓震跑鞋"), ("view", "浏览：6双缓震跑鞋")),
        (("choose", "city: Lisbon"), ("select", "selected city: Lisbon")),
        (("page.search", "Berlin hotels"), ("search", "“Berlin hotels”")),
    ],
)
def test_the_same_done_in_other_writing_is_the_same(one, other):
    """Verb, attribute and value, or the words in any order, tell what was done."""
    mine, theirs = (deeds(event(text, kind)) for kind, text in (one, other))
    assert mine
    assert [(d.verb, d.key) for d in mine] == [(d.verb, d.key) for d in theirs]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("filter", "price = 500-800"), ("filter", "price = 500-900")),
        (("filter", "price = 42"), ("filter", "size = 42")),
        (("save", "running shoes"), ("skip", "running shoes")),
        (("search", "搜索：成都餐厅"), ("search", "搜索：重庆餐厅")),
        (("checkout_step", "step 2"), ("tutorial_step", "step 2")),
    ],
)
def test_something_else_is_another_thing(one, other):
    """Another value, attribute or verb makes no habit together."""
    mine, theirs = ({(d.verb, d.key) for d in deeds(event(t, k))} for k, t in (one, other))
    assert mine.isdisjoint(theirs)


def test_an_event_of_several_attributes_does_several_things():
    """Each attribute counts for itself."""
    found = deeds(event("price = 500-800; size = 42, colour = light"))
    assert [d.thing for d in found] == ["price 500-800", "size 42", "colour light"]


def test_entities_and_objects_name_what_the_text_does_not():
    """A bare verb is about the entities or the business objects of its event."""
    named = event("view", "view", metadata={"entities": ["Nike Pegasus", 3]})
    assert [d.thing for d in deeds(named)] == ["Nike Pegasus"]
    anchored = event("view", "view", anchors={"order": "A-100"})
    assert [d.thing for d in deeds(anchored)] == ["order A-100"]


@pytest.mark.parametrize(
    ("content", "kind", "role"),
    [
        ("I filter by price", "message", "user"),
        ("checkout", "stage", "system"),
        ("a memo", "imported_memo", "system"),
        ("down", "scroll", "user"),
        ("price = 500", "tool_call", "tool"),
        ("[special]", "search", "user"),
        ("search [secret]", "search", "user"),
    ],
)
def test_what_was_said_hidden_or_noise_is_no_deed(content, kind, role):
    """Only what the user did, and what is kept of it, counts."""
    message = event(content, kind, role=role)
    assert deeds(message) == []
    assert not is_action(message) or "[" in content


def times(*minutes, content="price = 500-800", **fields):
    """The same event at several minutes."""
    return [event(content, at=m, **fields) for m in minutes]


def test_a_habit_names_all_its_events_and_counts_the_distinct_ones():
    """Three make one; a double click counts once, and is a source all the same."""
    events = [*times(0, 10), *times(20), *times(20.05)]
    (habit,) = habits([*events, event("size = 42")], 3, events[-1:])
    assert habit.count == 3
    assert [m.id for m in habit.messages] == [m.id for m in events]
    assert habit.content == "User repeatedly filtered by price 500-800 (3 times)"
    assert habit.confidence == pytest.approx(0.8)
    assert habits(events[:2], 3, events[:2]) == []
    assert habits(events, 5, events) == []


def test_a_habit_is_told_in_the_language_of_its_events():
    """Chinese events make a Chinese sentence."""
    events = times(0, 1, 2, 3, content="筛选：价格 = 500-800")
    assert [h.content for h in habits(events, 3, events)] == ["用户反复筛选价格 500-800（4 次）"]


def test_only_what_a_batch_touches_is_looked_at():
    """A digest is about its own messages, over the events of all."""
    events = [*times(0, 1, 2), *times(3, 4, 5, content="size = 42")]
    assert [h.deed.thing for h in habits(events, 3, events[-1:])] == ["size 42"]
    assert habits(events, 3, [event("colour = light", at=9)]) == []


@given(st.lists(st.integers(0, 120), max_size=12), st.integers(2, 5))
def test_more_events_never_count_less(seconds, least):
    """The count is between one and the number of events, in whatever order they come."""
    events = [event("price = 1", at=s / 60, id=str(i)) for i, s in enumerate(seconds)]
    counts = [len(distinct(events[:n])) for n in range(len(events) + 1)]
    assert all(n >= c >= min(n, 1) for n, c in enumerate(counts))
    assert len(distinct(events)) == len(distinct(events[::-1]))
    spread = [event("price = 1", at=i, id=str(i)) for i in range(len(seconds))]
    assert len(distinct(spread)) == len(spread)
    assert bool(habits(spread, least, spread)) == (len(spread) >= least)


@given(st.text(max_size=40), st.text(max_size=12))
def test_no_event_breaks_the_reader(content, kind):
    """Whatever an event says, it is read, or not."""
    for deed in deeds(event(content, kind)):
        assert deed.key
    decision(event(content, kind))


@pytest.mark.parametrize(
    ("kind", "content", "told"),
    [
        ("save", "收藏：2 双浅色鞋款", "用户收藏了2 双浅色鞋款"),
        ("skip", "跳过：碳板竞速鞋", "用户跳过了碳板竞速鞋"),
        ("confirm", "booking of Hotel Adler", "User confirmed booking of Hotel Adler"),
        ("rejected", "proposal: move to Friday", "User rejected proposal move to Friday"),
        ("tool.complete", "export of the report", "User completed export of the report"),
        ("action", "完成：报销单导出", "用户完成了报销单导出"),
        ("确认", "阿德勒酒店 3 晚预订", "用户确认了阿德勒酒店 3 晚预订"),
        ("filter", "price = 500-800", ""),
        ("view", "running shoes", ""),
        ("scroll", "saved position", ""),
        ("message", "save: I said", ""),
    ],
)
def test_a_decision_is_told_one_by_one(kind, content, told):
    """Confirmed, rejected, saved, skipped, completed; nothing else, and no noise."""
    assert decision(event(content, kind)) == told


@pytest.mark.parametrize(
    ("kind", "content", "count", "verdict"),
    [
        ("behavior", "User filtered by size 42", 1, ("action", "")),
        ("behavior", "User filtered by size 42", 3, ("behavior", "")),
        ("behavior", "User often looks at size 42", 2, ("behavior", "too_little_evidence")),
        ("preference", "用户经常看 42 码", 1, ("preference", "too_little_evidence")),
        ("preference", "用户经常看 42 码", 3, ("preference", "")),
        ("preference", "用户偏好 42 码", 1, ("preference", "")),
        ("fact", "User always picks the aisle", 0, ("fact", "")),
        ("behavior", "User runs in the park", 0, ("fact", "")),
    ],
)
def test_a_claimed_habit_needs_its_events(kind, content, count, verdict):
    """What a person says of themselves needs none; a statement is no observed behaviour."""
    sources = times(*range(count)) or [Message(content="I always pick the aisle")]
    assert claim(kind, content, sources, 3) == verdict


def test_a_fact_is_a_habit_where_all_its_events_are():
    """A behaviour that rests on something else is another Fact."""
    events = times(0, 1, 2)
    (habit,) = habits(events, 3, events)
    known = {m.id: m for m in [*events, event("size = 42")]}
    fact = Fact(
        id="f", user_id="u", content="x", kind="behavior", created_at=NOON, updated_at=NOON,
        source_message_ids=[m.id for m in events],
    )  # fmt: skip
    assert of_habit(fact, habit, known)
    assert not of_habit(fact.model_copy(update={"source_message_ids": [*known]}), habit, known)
    assert not of_habit(fact.model_copy(update={"kind": "action"}), habit, known)
    assert not of_habit(fact.model_copy(update={"validity": "deprecated"}), habit, known)
