"""One user's index: upsert, drop, growth, words and vectors."""

from datetime import datetime, timezone

import bm25s
import numpy as np
import pytest
from cputime import spent
from hypothesis import given, settings
from hypothesis import strategies as st

from agently_gumem.errors import ConfigError
from agently_gumem.recall.index import TURN, UserIndex
from agently_gumem.recall.lexical import K1, B
from agently_gumem.records import Fact, Message, Summary, Topic
from agently_gumem.text import words

WHEN = datetime(2026, 5, 1, tzinfo=timezone.utc)
RANDOM = np.random.default_rng(7)


def message(name, content="hello there", **fields):
    """Make a Message."""
    return Message(id=name, content=content, **fields)


def fact(name, content="User likes tea", sources=("m1",), **fields):
    """Make a Fact."""
    return Fact(
        id=name,
        user_id="u",
        content=content,
        source_message_ids=list(sources),
        created_at=WHEN,
        updated_at=WHEN,
        **fields,
    )


def unit(dimension=8):
    """Make a random unit vector."""
    vector = RANDOM.standard_normal(dimension).astype(np.float32)
    return vector / np.linalg.norm(vector)


def index_of(*texts):
    """Make an index of messages without vectors."""
    index = UserIndex(8)
    records = [message(f"m{i}", text, sequence=i) for i, text in enumerate(texts)]
    index.put(records, [None] * len(records))
    return index


TEXTS = (
    "I ran ten miles in my new running shoes",
    "My dog Biscuit ran away, and my dog came back",
    "我的预算在 800 以内",
    "预算不够，换便宜的跑鞋",
    "The budget is 800 for the shoes",
)


@pytest.mark.parametrize(
    "query", ["dog ran", "running shoes budget 800", "预算 跑鞋", "shoes 预算"]
)
def test_bm25_equals_that_of_a_library(query):
    """What grows and shrinks a record at a time scores as `bm25s` scores the whole."""
    library = bm25s.BM25(method="lucene", k1=K1, b=B)
    library.index([words(text) for text in TEXTS], show_progress=False)
    match = index_of(*TEXTS).match(query)
    terms = [term for term in dict.fromkeys(words(query)) if term in library.vocab_dict]
    score = match.gain.sum(axis=0) / (K1 + 1)
    assert np.allclose(score, library.get_scores(terms), atol=1e-5)


def test_words_are_scored_absolutely():
    """A query whose words are unknown scores nothing; one that a text holds whole covers all."""
    index = index_of(*TEXTS)
    assert index.match("capital of Mongolia").score.max() == 0
    assert index.match("dog Biscuit").coverage.max() == pytest.approx(1.0)
    assert index.match("Biscuit of Mongolia").coverage.max() < 0.6


def test_a_record_put_again_replaces_the_first_and_keeps_its_vector():
    """Putting an id again changes text, words and links; None keeps the vector."""
    index = UserIndex(8)
    vector = unit()
    index.put([message("m1", "old apples")], [vector])
    index.put([message("m1", "new pears", status="processed")], [None])
    assert len(index) == 1
    assert index.get("m1").status == "processed"
    assert index.match("apples").score.max() == 0
    assert index.match("pears").score.max() > 0
    assert np.allclose(index.vector("m1"), vector, atol=1e-3)


def test_a_dropped_record_is_gone_from_every_reading():
    """Nothing of a dropped record is found, and its row is used again without its vector."""
    index = UserIndex(8)
    index.put([message("m1"), fact("f1", sources=["m1"])], [unit(), unit()])
    index.drop(["m1", "f1", "unknown"])
    assert index.get("m1") is None
    assert index.vector("f1") is None
    assert (dict(index.messages), dict(index.facts), index.citing("m1")) == ({}, {}, [])
    index.put([message("m2", "other words")], [None])
    assert np.all(index.vector("m2") == 0)
    assert index.match("tea").score.max() == 0


def test_each_layer_is_read_apart():
    """Messages, Facts, Summaries and Topics have a mapping each."""
    index = UserIndex(8)
    summary = Summary(
        id="s1",
        user_id="u",
        content="tea",
        topic="drinks",
        source_facts=["f1"],
        created_at=WHEN,
        updated_at=WHEN,
    )
    topic = Topic(id="t1", user_id="u", name="drinks", updated_at=WHEN)
    index.put([message("m1"), fact("f1"), summary, topic], [None] * 4)
    layers = (index.messages, index.facts, index.summaries, index.topics)
    assert [list(layer) for layer in layers] == [["m1"], ["f1"], ["s1"], ["t1"]]


def test_messages_stand_in_sequence_whatever_the_order_of_putting():
    """A message that is put late stands where its sequence says."""
    index = UserIndex(8)
    index.put([message(f"m{i}", sequence=i) for i in (3, 1)], [None, None])
    index.put([message("m2", sequence=2)], [None])
    assert list(index.messages) == ["m1", "m2", "m3"]


def test_turns_are_grouped_by_session():
    """Rows of turns stand session by session, each in its own order."""
    index = UserIndex(8)
    turns = [message(f"m{i}", sequence=i, session_id="ab"[i % 2]) for i in range(6)]
    index.put(turns, [None] * 6)
    ids = [index.record_at(row).id for row in index.rows(TURN).tolist()]
    assert ids == ["m0", "m2", "m4", "m1", "m3", "m5"]


@pytest.mark.parametrize("vectors", [[], [np.ones(3, np.float32)]])
def test_wrong_vectors_are_an_error(vectors):
    """A vector too few, or of another dimension, is refused and nothing is put."""
    index = UserIndex(8)
    with pytest.raises(ConfigError):
        index.put([message("m1")], vectors)
    assert len(index) == 0


def test_cosine_is_that_of_numpy_within_half_precision():
    """The widened dot product equals the plain one, negative and tiny numbers included."""
    index = UserIndex(8)
    vectors = np.stack([*(unit() for _ in range(600)), np.full(8, 1e-7, np.float32)])
    index.put([message(f"m{i}", sequence=i) for i in range(601)], vectors)
    queries = np.stack([unit(), unit()])
    plain = queries @ vectors.astype(np.float16).astype(np.float32).T
    assert np.allclose(index.cosine(queries), plain, atol=1e-5)


steps = st.lists(
    st.tuples(st.sampled_from(["put", "drop"]), st.integers(0, 5), st.sampled_from(TEXTS)),
    max_size=30,
)


@settings(max_examples=50, deadline=None)
@given(steps)
def test_any_history_leaves_what_a_fresh_index_of_the_rest_holds(history):
    """Puts and drops in any order leave the scores of an index built from what remains."""
    index, left = UserIndex(8), {}
    for action, number, text in history:
        name = f"m{number}"
        if action == "put":
            left[name] = message(name, text, sequence=number)
            index.put([left[name]], [None])
        else:
            left.pop(name, None)
            index.drop([name])
    fresh = UserIndex(8)
    fresh.put(list(left.values()), [None] * len(left))
    assert dict(index.messages) == dict(fresh.messages)
    for name in left:
        one, two = (i.match("dog shoes 预算") for i in (index, fresh))
        assert one.score[index.row_of(name)] == pytest.approx(two.score[fresh.row_of(name)])


def test_ten_thousand_records_are_put_one_by_one_and_searched_fast():
    """A put costs its own size, and a search of 10,000 records a few milliseconds."""
    index = UserIndex(512)
    vectors = RANDOM.standard_normal((10_000, 512)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    names = [f"word{i}" for i in range(2_000)]
    for i in range(10_000):
        text = " ".join(names[int(x) % 2_000] for x in RANDOM.zipf(1.4, 12))
        index.put([message(f"m{i}", text, sequence=i)], [vectors[i]])

    def search(n: int) -> None:
        near = index.cosine(vectors[n : n + 1])[0]
        index.match("word1 word2 word77")
        assert index.record_at(int(near.argmax())).id == f"m{n}"

    assert sum(spent(search, n) for n in range(10)) / 10 < 0.05
    assert 10_000 * 512 * 2 < index.nbytes < 100 * 2**20
