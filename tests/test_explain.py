"""Where things come from, and what became of them: `explain` and `history`."""

from datetime import datetime, timedelta, timezone

import pytest
from e2e import agent_of, attached
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem import ConfigError, GUMem, NotFound
from agently_gumem.govern.chain import explained, told_chain, versions
from agently_gumem.govern.history import history_of, history_of_forgotten
from agently_gumem.govern.shown import View, labels_of
from agently_gumem.recall.index import UserIndex
from agently_gumem.records import Fact, Message, Summary, Topic
from agently_gumem.testing import RuleModel, ScriptedModel

DAY = datetime(2024, 5, 1, 9, tzinfo=timezone.utc)


def fact(fact_id, content, *, sources=("m1",), day=0, successor="", **more):
    """Make a Fact that holds since a day."""
    since = DAY + timedelta(days=day)
    ended = {"validity": "deprecated", "superseded_by": successor} if successor else {}
    return Fact(
        id=fact_id,
        user_id="alice",
        content=content,
        source_message_ids=list(sources),
        valid_from=since,
        created_at=since,
        updated_at=since,
        **{**ended, **more},
    )


def message(message_id, content, sequence=1, **more):
    """Make a message."""
    return Message(
        id=message_id, session_id="s", content=content, sequence=sequence, timestamp=DAY, **more
    )


def view_of(*records, access=()):
    """Put records without vectors into an index."""
    index = UserIndex(4)
    index.put(list(records), [None] * len(records))
    return View(index, frozenset(access))


def replacing():
    """Answer each digest with the one message as a Fact that replaces what is known."""

    def answer(request):
        if request.memory_stage != "extract":
            return {"summaries": [], "same_topics": [], "memo": []}
        text, ref = (
            request.data["NEW MESSAGES"][-1]["text"],
            request.data["NEW MESSAGES"][-1]["ref"],
        )
        known = [k["ref"] for k in request.data["KNOWN FACTS"]]
        draft = {"ref": "f1", "content": text, "sources": [ref], "topic": "city"}
        return {"facts": [{**draft, "replaces": known}], "memo": []}

    return answer


# --- chains


CITIES = ["Bonn", "Lyon", "Riga", "Bonn", "Turin", "Oslo"]


def test_a_chain_of_five_changes_with_a_value_that_comes_back_explains_all_five(use):
    """From any of its Facts, each change stands with its dates, its message and its successor."""
    use(ScriptedModel(memory=replacing()))
    with GUMem() as gumem:
        user = gumem.user("alice")
        for day, city in enumerate(CITIES):
            told = {"content": f"I live in {city}.", "timestamp": DAY + timedelta(days=day)}
            user.add_messages(told, digest=True)
        facts = user.facts(validity=None)
        assert len(facts) == 6
        assert len(user.facts()) == 1
        for one in facts:
            chain = user.explain(one.id)["chain"]
            assert [link["fact"].content for link in chain] == [f"I live in {c}." for c in CITIES]
            assert [m.content for link in chain for m in link["messages"]] == [
                f"I live in {c}." for c in CITIES
            ]
            starts = [DAY + timedelta(days=day) for day in range(6)]
            assert [link["since"] for link in chain] == starts
            assert [link["until"] for link in chain] == [*starts[1:], None]
            following = [link["fact"].id for link in chain[1:]]
            assert [link["replaced_by"] for link in chain] == [*following, ""]
        history = user.history(facts[0])
        ends = [e for e in history if e.what == "superseded"]
        assert [e.content for e in ends] == [f"I live in {c}." for c in CITIES[:5]]
        assert [e.by for e in ends] == [[m.id] for m in user.messages()[1:]]
        assert [e.what for e in history].count("created") == 6
        assert history == sorted(history, key=lambda e: e.at)


@given(st.permutations(range(7)), st.integers(0, 6))
def test_a_chain_is_in_order_from_whichever_of_its_facts_it_is_asked(order, asked):
    """The order of the store and the place of entry play no part."""
    facts = [fact(f"f{i}", f"v{i}", successor=f"f{i + 1}" if i < 6 else "") for i in range(7)]
    view = view_of(*(facts[i] for i in order))
    assert [f.id for f in versions(view, [facts[asked]])] == [f"f{i}" for i in range(7)]


def test_a_circle_of_facts_ends():
    """A store that something else damaged is explained all the same."""
    view = view_of(fact("a", "x", successor="b"), fact("b", "y", successor="a", day=1))
    assert [f.id for f in versions(view, [view.index.facts["b"]])] == ["a", "b"]


def test_two_facts_with_one_successor_stand_before_it():
    """A correction that replaces two Facts has both behind it."""
    view = view_of(
        fact("a", "x", successor="c", day=1), fact("b", "y", successor="c"), fact("c", "z", day=2)
    )
    assert [f.id for f in versions(view, [view.index.facts["a"]])] == ["b", "a", "c"]


# --- explain


def test_a_topic_explains_down_to_its_messages(use):
    """Topic -> Summary -> Facts -> messages, with texts, times and speakers."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        teas = ["I like oolong tea.", "I like green tea.", "I like white tea.", "I like black tea."]
        told = [{"content": t, "timestamp": DAY, "speaker": "Ann"} for t in teas]
        user.add_messages(told, digest=True)
        (topic,) = user.topics()
        behind = user.explain(topic)
        assert behind["topic"] == topic
        assert behind["summaries"] == user.summaries()
        assert {f.id for f in behind["facts"]} == {f.id for f in user.facts()}
        shown = [(m.content, m.timestamp, m.speaker) for m in behind["messages"]]
        assert shown == [(t, DAY, "Ann") for t in teas]
        (summary,) = behind["summaries"]
        assert [m.content for m in user.explain(summary)["messages"]] == teas


def test_the_evidence_of_a_summary_is_read_with_its_records():
    """What it names beside its Facts is told; what is gone is not."""
    click = message("m2", "saved: oolong", 2, event_type="save")
    summary = Summary(
        id="s1",
        user_id="alice",
        content="Tea.",
        topic="tea",
        source_facts=["f1"],
        evidence=[
            {"layer": "fact", "id": "f1"},
            {"layer": "action", "id": "m2", "event_type": "save"},
            {"layer": "action", "id": "gone", "event_type": "save"},
        ],
        created_at=DAY,
        updated_at=DAY,
    )
    view = view_of(message("m1", "I like tea"), click, fact("f1", "User likes tea"), summary)
    told = explained(view, summary)["evidence"]
    assert [(e["layer"], e["record"].id) for e in told] == [("fact", "f1"), ("action", "m2")]
    assert told[1]["event_type"] == "save"


def test_a_recall_explains_all_that_its_text_held(use):
    """Each item with its layer, score and parts, and what stands behind it; the memo by key."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        user.add_messages({"content": "I'm vegetarian."}, digest=True)
        user.add_messages({"content": "My shoe size is 42."}, digest=True)
        user.add_messages({"content": "The marathon in Riga starts at nine."})
        context = user.query("When does the marathon start?", floor=0.0)
        told = user.explain(context)
        assert told["query"] == "When does the marathon start?"
        assert [i["id"] for i in told["items"]] == [i.id for i in context.items]
        memo, *rest = told["items"]
        assert memo["layer"] == "memo"
        assert {k: [f.content for f in v] for k, v in memo["keys"].items()} == {
            "constraints": ["User is vegetarian"],
            "stable_facts": ["User's shoe size is 42"],
        }
        assert rest
        for shown, item in zip(rest, context.items[1:], strict=True):
            assert shown["found"]
            assert (shown["score"], shown["parts"], shown["text"]) == (
                item.score,
                item.parts,
                item.text,
            )
            assert shown["messages"]


def test_a_recall_of_several_spaces_is_explained_in_them(use):
    """A record of another space is found where that is named, else said to be missing."""
    use(RuleModel())
    with GUMem() as gumem:
        home, work = gumem.user("alice", space="home"), gumem.user("alice", space="work")
        home.add_messages({"id": "m", "content": "My dog is called Biscuit."})
        work.add_messages({"id": "m", "content": "My turtle is called Shelly."})
        context = work.query(
            "What are my dog and my turtle called?", read_spaces=["home"], floor=0.0
        )
        told = work.explain(context, read_spaces=["home"])["items"]
        assert {(i["space"], i["messages"][0].content) for i in told} == {
            ("home", "My dog is called Biscuit."),
            ("work", "My turtle is called Shelly."),
        }
        alone = work.explain(context)["items"]
        assert {i["found"] for i in alone} == {True, False}
        assert all("text" not in i and i["facts"] == [] for i in alone if not i["found"])


def test_a_key_of_the_memo_explains_itself(use):
    """`memo` and `memo:<key>` have the Facts that they rest on, and a history."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        user.add_messages({"content": "I'm vegetarian."}, digest=True)
        for name in ("memo", "memo:constraints"):
            told = user.explain(name)
            assert [f.content for f in told["facts"]] == ["User is vegetarian"]
            assert [m.content for m in told["messages"]] == ["I'm vegetarian."]
            assert [e.what for e in user.history(name)] == ["created", "written"]
        assert user.history("memo:constraints")[-1].by == [user.messages()[0].id]
        for name in ("memo:other", "memos"):
            with pytest.raises(NotFound, match=name):
                user.explain(name)
            with pytest.raises(NotFound, match=name):
                user.history(name)


# --- access


def labelled():
    """Two messages and Facts of one Topic, one of each under a label, and a Summary of both."""
    return [
        message("m1", "I like tea"),
        message("m2", "I have asthma", 2, access=["care"]),
        fact("f1", "User likes tea", topic="me"),
        fact("f2", "User has asthma", sources=["m1", "m2"], topic="me", access=["care"]),
        Topic(id="t1", user_id="alice", name="me", updated_at=DAY),
        Summary(
            id="s1",
            user_id="alice",
            content="Tea and asthma.",
            topic="me",
            source_facts=["f1", "f2"],
            created_at=DAY,
            updated_at=DAY,
        ),
    ]


@pytest.mark.parametrize("access", [(), ("billing",)])
def test_what_carries_a_label_is_not_explained_without_it(access):
    """Neither itself, nor behind another record, nor in a Summary or history of it."""
    view = view_of(*labelled(), access=access)
    assert view.get("f2") is None
    assert view.get("m2") is None
    told = explained(view, view.index.topics["t1"])
    assert [f.id for f in told["facts"]] == ["f1"]
    assert told["summaries"] == []
    assert [m.id for m in explained(view, view.index.messages["m1"])["messages"]] == ["m1"]
    assert [e.id for e in history_of(view, view.index.messages["m1"])] == ["m1", "f1"]
    assert [link["fact"].id for link in told_chain(view, view.index.facts.values())] == ["f1"]


def test_a_label_that_is_named_shows_what_carries_it():
    """One of several is enough."""
    view = view_of(*labelled(), access=("billing", "care"))
    told = explained(view, view.index.topics["t1"])
    assert [f.id for f in told["facts"]] == ["f1", "f2"]
    assert [s.id for s in told["summaries"]] == ["s1"]
    assert [m.id for m in told["messages"]] == ["m1", "m2"]


def test_labels_are_named_in_the_call(use):
    """`access` takes one label or several; without it the record is not there."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        (told,) = user.add_messages({"content": "The code is blue.", "access": ["care"]})
        for call in (user.explain, user.history):
            with pytest.raises(NotFound, match="access"):
                call(told.id)
            with pytest.raises(NotFound):
                call(told.id, access="ca")
            assert call(told.id, access="care")
            assert call(told.id, access=["x", "care"])
            for wrong in (3, [3], None):
                with pytest.raises(ConfigError, match="access="):
                    call(told.id, access=wrong)


@given(st.lists(st.text(max_size=3)))
def test_labels_are_taken_as_they_are(labels):
    """A list is a set of labels, a text is one."""
    assert labels_of(labels) == frozenset(labels)
    for label in labels:
        assert labels_of(label) == {label}


# --- history


def test_a_store_that_was_written_before_changes_were_noted_still_explains():
    """Creation and supersession follow from dates and pointers."""
    view = view_of(
        message("m1", "I live in Bonn"),
        message("m2", "I live in Lyon", 2),
        fact("f1", "Bonn", successor="f2", valid_to=DAY + timedelta(days=3)),
        fact("f2", "Lyon", sources=["m2"], day=3),
        fact("f3", "void", validity="invalid", day=5),
    )
    told = [(e.what, e.id, e.by, e.replaced_by) for e in history_of(view, view.index.facts["f2"])]
    assert sorted(told) == [
        ("created", "f1", ["m1"], ""),
        ("created", "f2", ["m2"], ""),
        ("superseded", "f1", ["m2"], "f2"),
    ]
    assert [e.what for e in history_of(view, view.index.facts["f3"])] == ["created", "retired"]


def test_a_second_saying_is_a_change_of_its_own(use):
    """The same thing said twice: created by the first message, joined by the second."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        first, second = (
            user.add_messages({"content": "I like oolong tea."}, session_id=s, digest=True)[0]
            for s in ("a", "b")
        )
        (one,) = user.facts()
        told = [(e.what, e.by) for e in user.history(one)]
        assert told == [("created", [first.id]), ("joined", [second.id])]
        cited = user.history(second)
        assert [(e.what, e.layer) for e in cited] == [("said", "message"), ("cited", "fact")]
        assert cited[0].actor == "user"
        assert [e.what for e in user.history(user.topics()[0])] == ["created", "updated"]


def test_what_was_forgotten_has_a_history_without_its_text():
    """When, by whom and why; nothing else is known of it."""
    tomb = {"layer": "fact", "at": DAY.isoformat(), "by": "operator", "reason": "asked for"}
    told = history_of_forgotten("fact-1", tomb)
    assert (told.layer, told.at, told.what, told.actor) == ("fact", DAY, "forgotten", "operator")
    assert (told.reason, told.content) == ("asked for", "")
    assert history_of_forgotten("x", {}).at is None
    assert history_of_forgotten("x", {"at": "yesterday"}).at is None


def test_a_turn_of_an_agent_is_explained(use):
    """What was said through Agently is found behind the Fact that came of it."""
    with RuleModel() as model, GUMem() as gumem:
        use(model)
        agent = agent_of(model)
        memory = attached(gumem, agent, "s")
        agent.input("My shoe size is 42.").start()
        memory.digest()
        (one,) = memory.user.facts()
        (said,) = memory.user.explain(one)["messages"]
        assert (said.role, said.content) == ("user", "My shoe size is 42.")
        assert said.timestamp is not None
        assert memory.user.history(said)[0].at == said.timestamp


@pytest.mark.parametrize("call", ["explain", "history"])
def test_what_is_no_record_is_an_error_that_says_so(call):
    """A wrong type, and the record of another user."""
    with GUMem() as gumem:
        (told,) = gumem.user("bob").add_messages({"content": "I like tea."})
        user = gumem.user("alice")
        with pytest.raises(ConfigError, match=f"{call} takes a record or its id, not int"):
            getattr(user, call)(3)
        with pytest.raises(NotFound, match="'alice'"):
            getattr(user, call)(told.id)
