"""How recall reads a question, and spreads the first places of what it found."""

import json
from dataclasses import dataclass
from datetime import date, datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from cputime import spent
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem.recall.index import UserIndex
from agently_gumem.recall.question import asks, names_in, read_question, tells_when
from agently_gumem.recall.spread import PLACES, SAME_SESSION, spread
from agently_gumem.recall.talk import pairs, session_best, turns_of
from agently_gumem.records import Message

NOW = datetime(2026, 6, 10, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "speakers", "bare", "named"),
    [
        ("What did Caroline research?", ["Caroline", "Melanie"], "What did research?", "Caroline"),
        ("What is Melanie's pottery like?", ["Melanie"], "What is pottery like?", "Melanie"),
        ("What did Ann Lee say?", ["Ann Lee"], "What did say?", "Ann Lee"),
        ("Where does Ann live?", ["Ann Lee"], "Where does live?", "Ann Lee"),
        ("Where does alice live?", ["alice"], "Where does live?", "alice"),
        ("小航喜欢喝什么茶？", ["小航", "小美"], "喜欢喝什么茶？", "小航"),
        ("When will it rain, will we know?", ["Will"], "When will it rain, will we know?", None),
        ("Is Annabel here?", ["Ann"], "Is Annabel here?", None),
        ("Caroline?", ["Caroline"], "Caroline?", "Caroline"),
        ("The shoes, are they wet?", ["The Assistant"], "The shoes, are they wet?", None),
        ("Will I need a coat in May?", ["Will S", "May C"], "Will I need a coat in May?", None),
        ("What does May drink?", ["May Chen"], "What does drink?", "May Chen"),
        ("Which tea suits A.* then?", ["A.*"], "Which tea suits then?", "A.*"),
        ("Which tea suits (x) most?", ["(x)"], "Which tea suits most?", "(x)"),
        ("What do I drink?", [], "What do I drink?", None),
    ],
)
def test_the_names_of_those_who_speak_are_no_content(text, speakers, bare, named):
    """A speaker is told apart from what is asked; a word that only looks like a name stays."""
    question = read_question(text, speakers, NOW)
    assert question.bare == bare
    assert question.speakers == ({named} if named else frozenset())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Where does Heathcliff work?", ["Heathcliff"]),
        ("Please help\nRecommend a dinner for me", []),
        ("1. Recommend a dinner for me\n2. Explain why it is good", []),
        ("Send it to me as PDF please", []),
        ("WHERE DOES HEATHCLIFF WORK NOW", []),
        ("Where Does My Uncle Work These Days", []),
        ("What did I plan for Monday in May?", []),
    ],
)
def test_what_is_written_as_a_name(text, names):
    """A capital tells a name only where other words have none and nothing opens there."""
    assert names_in(text) == names


@pytest.mark.parametrize("text", ["1" * 20_000, "一" * 20_000, "May " * 9_000, "last " * 9_000])
def test_reading_takes_no_longer_than_the_text(text):
    """What is read of a text is bounded, whatever repeats in it."""
    assert (
        spent(read_question, text, ["Ann"], NOW) + spent(tells_when, text) + spent(asks, text) < 1
    )


def test_a_name_that_is_everywhere_is_no_content():
    """A name that every other record holds tells none from another; a rare one does."""
    question = read_question("Did Rex meet Caroline there?", (), NOW, {"carolin"}.__contains__)
    assert question.bare == "Did Rex meet there?"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("When did I move?", True),
        ("And when is the meeting?", True),
        ("How long have I lived here?", True),
        ("What date is the exam?", True),
        ("我什么时候搬家的？", True),
        ("哪天考试", True),
        ("What do I eat when it is hot?", False),
        ("What is my budget?", False),
        ("What year of school is my son in?", False),
        ("What year was my son born?", True),
        ("我的预算是多少", False),
    ],
)
def test_a_question_for_a_time_is_told(text, asked):
    """The word asks for a time where it opens the question, not in a clause."""
    assert read_question(text, (), NOW).asks_when is asked


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("What did we do last week?", (date(2026, 6, 1), date(2026, 6, 7))),
        ("上周我们聊了什么", (date(2026, 6, 1), date(2026, 6, 7))),
        ("What happened yesterday?", (date(2026, 6, 9), date(2026, 6, 9))),
        ("What did I plan for May 2026?", (date(2026, 5, 1), date(2026, 5, 31))),
        ("2026年5月我去了哪里", (date(2026, 5, 1), date(2026, 5, 31))),
    ],
)
def test_the_days_of_a_question_count_from_its_moment(text, span):
    """Date words give the days that they mean when they are asked."""
    assert span in read_question(text, (), NOW).days


@pytest.mark.parametrize("text", ["Is it blue?", "真的吗？", 'He said "why?"', "Really? 😊?"])
def test_a_turn_that_asks(text):
    """A question mark at the end makes a question, in both scripts."""
    assert asks(text)
    assert not asks(text + " I think so.")


@pytest.mark.parametrize(
    "text",
    [
        "I went yesterday",
        "上周去的",
        "in May 2023",
        "三月五号",
        "最近很忙",
        "Tuesdays at 9:30",
        "LAST WEEK",
    ],
)
def test_a_text_that_tells_a_time(text):
    """Dates and words for them are seen in both languages."""
    assert tells_when(text)
    assert not tells_when("I may march on, it is 42, wide")


@dataclass(frozen=True)
class Item:
    """Something ranked."""

    score: float
    source_message_ids: tuple[str, ...]


ITEMS = st.lists(
    st.builds(
        Item,
        st.floats(-1, 3, width=16),
        st.lists(st.sampled_from("abcdefgh"), max_size=3).map(tuple),
    ),
    max_size=30,
).map(lambda items: sorted(items, key=lambda item: -item.score))


@given(ITEMS)
def test_spreading_keeps_every_item_and_the_best_first(items):
    """Nothing is lost or added, and the best stays the first."""
    found = spread(items, {"a": "s1", "b": "s1", "c": "s2", "d": "s2"}.get)
    assert sorted(map(id, found)) == sorted(map(id, items))
    assert not items or found[0].score == items[0].score


def test_another_conversation_comes_before_a_third_line_of_one():
    """Of items of nearly equal use, the first places go to several sessions."""
    items = [Item(1.0 - i / 100, (f"a{i}",)) for i in range(PLACES)] + [Item(0.85, ("b",))]
    found = spread(items, lambda message: message[0])
    assert found.index(items[-1]) == 2
    far = Item(0.99 - 4 * SAME_SESSION - 0.1, ("b",))
    assert spread([*items[:-1], far], lambda message: message[0])[-1] == far


def test_what_was_cited_comes_later():
    """An item whose every source was cited already waits behind one that brings another."""
    items = [Item(1.0, ("a",)), Item(0.95, ("a",)), Item(0.9, ("b",))]
    assert [i.source_message_ids for i in spread(items, lambda _: None)] == [("a",), ("b",), ("a",)]


def message(number, content="x", role="user", session="s", **fields):
    """Make the message number so-and-so."""
    return Message(
        id=f"m{number}", content=content, role=role, session_id=session, sequence=number, **fields
    )


def index_of(messages, seed=0):
    """Build an index with random unit vectors."""
    vectors = np.random.default_rng(seed).normal(size=(len(messages), 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = UserIndex(8)
    index.put(messages, list(vectors))
    return index


@pytest.mark.parametrize(
    ("messages", "talk"),
    [
        ([message(1, "I like tea"), message(2, "I like rain")], False),
        ([message(1, "Do you?"), message(2, "I like rain")], True),
        ([message(1), message(2, role="assistant")], True),
        ([message(1, speaker="Ann"), message(2, speaker="Bob")], True),
        ([message(1), message(2, session="t", role="assistant")], False),
    ],
)
def test_a_talk_has_several_voices_or_a_question(messages, talk):
    """A list of statements is no talk: there a neighbour says nothing of a turn."""
    assert turns_of(index_of(messages)).talk.tolist() == [talk] * len(messages)


def test_a_pair_is_the_cosine_of_both_vectors_together():
    """What a turn and the one before it mean together is the cosine of their sum."""
    said = [message(i, role=("user", "assistant")[i % 2]) for i in range(6)]
    index = index_of(said)
    question = np.eye(8, dtype=np.float32)[0]
    found = pairs(index.cosine(question[None])[0], turns_of(index))
    for i in range(1, 6):
        both = index.vector(f"m{i}") + index.vector(f"m{i - 1}")
        assert found[i] == pytest.approx(both @ question / np.linalg.norm(both), abs=2e-3)
    assert found[0] == pytest.approx(index.vector("m0") @ question, abs=2e-3)


@given(st.integers(0, 1_000), st.lists(st.integers(0, 7), max_size=8))
def test_neighbours_are_compared_anew_after_a_change(seed, changed):
    """Cosines of neighbours are those of the present vectors, whatever was replaced or dropped."""
    said = [message(i, role=("user", "assistant")[i % 2]) for i in range(8)]
    index = index_of(said, seed)
    turns_of(index)
    fresh = np.random.default_rng(seed + 1).normal(size=(8, 8)).astype(np.float32)
    for i in changed:
        if i % 3:
            index.put([said[i]], [fresh[i] / np.linalg.norm(fresh[i])])
        else:
            index.drop([f"m{i}"])
        turns_of(index)
    kept = [i for i in range(8) if index.get(f"m{i}") is not None]
    again = UserIndex(8)
    again.put([said[i] for i in kept], [index.vector(f"m{i}") for i in kept])
    np.testing.assert_allclose(turns_of(index).pair, turns_of(again).pair, atol=1e-3)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-1, 1, width=16)), max_size=20))
def test_a_session_counts_by_its_three_best(drawn):
    """The prior of a session is the mean of its three best turns, never below nothing."""
    drawn.sort(key=lambda pair: pair[0])
    sessions = np.array([s for s, _ in drawn], np.int64)
    values = np.array([v for _, v in drawn], np.float32)
    wanted = [
        max(0.0, sum(sorted(values[sessions == s].tolist())[-3:]) / 3) for s in sessions.tolist()
    ]
    np.testing.assert_allclose(session_best(values, sessions), wanted, atol=1e-6)


_OF_PAST = [
    json.loads(line)
    for line in Path(__file__).with_name("past_questions.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("asked", _OF_PAST, ids=lambda asked: asked["text"])
def test_a_question_about_the_past_is_told_from_a_plan(asked):
    """The word "before" ends a plan as often as it asks for what was; "used" is also a car's."""
    at = datetime(2026, 11, 30, 12, tzinfo=timezone.utc)
    assert read_question(asked["text"], [], at).asks_past == asked["past"]


def test_what_only_says_that_the_past_is_meant_is_not_searched_for():
    """No record of then holds the word."""
    assert read_question("我以前穿多大码？", [], NOW).bare == "我穿多大码？"
    assert read_question("What did I previously drink?", [], NOW).bare == "What did I drink?"
    assert read_question("What did I like before?", [], NOW).bare == "What did I like before?"
    assert read_question("以前？", [], NOW).bare == "以前？"


@pytest.mark.parametrize("part", ["吃饭之前", "is used to ", "before ", "was ", "换过", "remind "])
def test_a_long_text_is_read_in_little_time(part):
    """Whatever it repeats."""
    assert spent(read_question, part * 2_000, [], NOW) < 1
