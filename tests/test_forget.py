"""What rests on what, and how it goes: decisions, marks, and restored histories."""

import itertools
import re
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest
from agently import Agently
from e2e import pairs, say
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem import ConfigError, GUMem, Manual, NotFound
from agently_gumem.config import Limits
from agently_gumem.memo_schema import MemoSchema
from agently_gumem.privacy import PrivacyPolicy
from agently_gumem.records import Fact, Memo, MemoState, Message, Summary, Topic
from agently_gumem.records.placeholders import EMPTIED
from agently_gumem.remember.forgetting.choice import Choice, expired, older
from agently_gumem.remember.forgetting.decide import Terms, decide
from agently_gumem.remember.forgetting.matching import holder
from agently_gumem.remember.forgetting.plan import Records, Wanted
from agently_gumem.remember.forgetting.traces import (
    Held,
    Statement,
    Traces,
    clauses,
    sentences,
    without,
)
from agently_gumem.remember.memo import MemoRules
from agently_gumem.text import estimate_tokens

NOW = datetime(2026, 5, 1, 12, tzinfo=timezone.utc)
RULES = MemoRules(MemoSchema(Memo), estimate_tokens, 500)


def message(n, content, role="user", session="s", **more):
    """Make the nth message."""
    return Message(
        id=f"m{n}",
        user_id="u",
        session_id=session,
        role=role,
        content=content,
        sequence=n,
        timestamp=NOW + timedelta(minutes=n),
        status="processed",
        **more,
    )


def fact(name, content, *sources, **more):
    """Make a Fact of the given name."""
    given = {"session_ids": ["s"], "topic": "t", "created_at": NOW, "updated_at": NOW, **more}
    return Fact(
        id=name,
        user_id="u",
        content=content,
        source_message_ids=[f"m{i}" for i in sources],
        **given,
    )


def records(*held, memo=None):
    """Put records together."""

    def of(kind):
        return {r.id: r for r in held if isinstance(r, kind)}

    return Records(of(Message), of(Fact), of(Summary), of(Topic), memo)


def forgotten(held, *, holds=None, emptied=(), **ids):
    """Decide over records."""
    wanted = Wanted(
        **{k: frozenset(v) for k, v in ids.items()}, holds=holds, emptied=frozenset(emptied)
    )
    return decide(held, wanted, Terms(RULES, NOW))


def ids(plan):
    """Name what goes."""
    return {r.id for r in [*plan.messages, *plan.facts]} | {*plan.summaries, *plan.topics}


def changed(plan):
    """Return what is written anew, by id."""
    return {r.id: r for r in plan.changed}


# --- what rests on what


def test_a_fact_goes_with_its_only_message_and_stays_on_another():
    """What rests on nothing else goes; what still has a source that says it stays with that."""
    held = records(
        message(1, "I live in Berlin."),
        message(2, "Berlin is where I live, you know."),
        message(3, "I have a dog."),
        fact("f1", "User lives in Berlin", 1, 2),
        fact("f2", "User has a dog", 3),
    )
    plan = forgotten(held, messages=["m1", "m3"])
    assert ids(plan) == {"m1", "m3", "f2"}
    assert plan.kept == ["f1"]
    kept = changed(plan)["f1"]
    assert kept.source_message_ids == ["m2"]
    assert [(c.what, c.actor) for c in kept.changes] == [("cut", "operator")]


def test_a_fact_goes_where_only_the_lost_message_says_it():
    """A source that confirms without saying it holds nothing up."""
    held = records(
        message(1, "My sister is Ingrid Solheim."),
        message(2, "She visits me often."),
        fact("f1", "User's sister is Ingrid Solheim", 1, 2),
    )
    assert ids(forgotten(held, messages=["m1"])) == {"m1", "f1"}


def test_what_the_assistant_said_is_no_fact_once_its_confirmation_is_gone():
    """The user's yes is what made the claim a Fact."""
    held = records(
        message(1, "So you work for Siemens?", role="assistant"),
        message(2, "Yes, that's right."),
        fact("f1", "User works for Siemens", 1, 2),
    )
    assert "f1" in ids(forgotten(held, messages=["m2"]))
    assert "f1" in ids(forgotten(held, messages=["m1"]))


def test_a_fact_that_is_forgotten_takes_what_says_it_along():
    """A message of nothing else goes; of several Facts it loses the sentences of this one."""
    held = records(
        message(1, "My dentist is Dr. Alvarez. I like green tea."),
        message(2, "Dr. Alvarez is my dentist."),
        fact("f1", "User's dentist is Dr. Alvarez", 1, 2),
        fact("f2", "User likes green tea", 1),
    )
    plan = forgotten(held, facts=["f1"])
    assert ids(plan) == {"f1", "m2"}
    assert {i: after.content for i, (_, after) in plan.cut.items()} == {
        "m1": f"{EMPTIED} I like green tea."
    }
    assert "f2" not in changed(plan)


@pytest.mark.parametrize(
    ("text", "gone", "stays", "left"),
    [
        (
            "Use Berlin for Europe, Toronto for Americas, and avoid Friday meetings.",
            "User uses Berlin for Europe",
            "User uses Toronto for Americas",
            f"{EMPTIED} Toronto for Americas, and avoid Friday meetings.",
        ),
        (
            "我住在上海，女儿叫林小雨。",
            "用户的女儿叫林小雨",
            "用户住在上海",
            f"我住在上海，{EMPTIED}",
        ),
        (
            "我的预算是800元。我喜欢浅色。",
            "用户的预算是800元",
            "用户喜欢浅色",
            f"{EMPTIED}我喜欢浅色。",
        ),
        (
            "I moved from Shanghai to Hangzhou.",
            "User lived in Shanghai",
            "User lives in Hangzhou",
            EMPTIED,
        ),
        ("不是四十二，是四十三", "用户穿42码", "用户穿43码", EMPTIED),
    ],
)
def test_a_message_with_two_facts_loses_only_the_parts_of_one(text, gone, stays, left):
    """Sentence by sentence, else clause by clause; where they can't be told apart, all of it."""
    held = records(
        message(1, text),
        fact("f1", gone, 1),
        fact("f2", stays, 1),
    )
    plan = forgotten(held, facts=["f1"])
    assert ids(plan) == {"f1"}
    assert plan.cut["m1"][1].content == left


def test_the_other_values_of_a_chain_stay_and_point_past_the_gap():
    """A -> B -> C without B is A -> C; the message that brought C no longer names B."""
    old = {"validity": "deprecated", "valid_to": NOW}
    held = records(
        message(1, "I wear size 41."),
        message(2, "I wear size 42 now."),
        message(3, "Not 42, it is 43. Thanks."),
        fact("a", "User wears size 41", 1, superseded_by="b", **old),
        fact("b", "User wears size 42", 2, superseded_by="c", **old),
        fact("c", "User wears size 43", 3),
    )
    plan = forgotten(held, facts=["b"])
    assert ids(plan) == {"b", "m2"}
    assert changed(plan)["a"].superseded_by == "c"
    assert changed(plan)["a"].validity == "deprecated"
    assert "42" not in plan.cut["m3"][1].content
    end = forgotten(held, facts=["c"])
    assert changed(end)["b"].superseded_by == ""
    assert changed(end)["b"].validity == "deprecated"


def test_a_summary_of_a_forgotten_fact_goes_and_one_that_is_named_leaves_its_facts():
    """Both are written anew by the next digest."""
    held = records(
        message(1, "I live in Berlin."),
        message(2, "I work in Potsdam."),
        fact("f1", "User lives in Berlin", 1),
        fact("f2", "User works in Potsdam", 2),
        Topic(id="t1", user_id="u", name="t", updated_at=NOW),
        summary("s1", "User lives in Berlin and works in Potsdam.", "f1", "f2"),
        summary("s2", "User works in Potsdam.", "f2", validity="deprecated"),
    )
    plan = forgotten(held, facts=["f1"])
    assert ids(plan) == {"f1", "m1", "s1"}
    assert plan.bare == ["t1"]
    plan = forgotten(held, summaries=["s1"])
    assert ids(plan) == {"s1"}
    assert plan.bare == ["t1"]


def summary(name, content, *facts, **more):
    """Make a Summary."""
    return Summary(
        id=name,
        user_id="u",
        content=content,
        topic="t",
        source_facts=list(facts),
        created_at=NOW,
        updated_at=NOW,
        **more,
    )


def test_a_topic_goes_with_its_last_fact_and_else_loses_the_name():
    """A name that only the forgotten Fact explains does not stay in a Topic."""
    held = records(
        message(1, "My dentist is Dr. Alvarez."),
        message(2, "My dentist is in Baker Street."),
        message(3, "I like tea."),
        fact("f1", "User's dentist is Dr. Alvarez", 1, topic="Alvarez dentist"),
        fact("f2", "User's dentist is in Baker Street", 2, topic="Alvarez dentist"),
        fact("f3", "User likes tea", 3, topic="tea"),
        Topic(
            id="t1", user_id="u", name="Alvarez dentist", aliases=["Dr. Alvarez"], updated_at=NOW
        ),
        Topic(id="t2", user_id="u", name="tea", updated_at=NOW),
    )
    plan = forgotten(held, facts=["f1", "f3"])
    assert "t2" in ids(plan)
    assert (changed(plan)["t1"].name, changed(plan)["t1"].aliases) == ("dentist", [])
    assert changed(plan)["f2"].topic == "dentist"


def test_the_memo_loses_what_rested_on_it_and_waits_for_its_rebuild():
    """Entries of other Facts stay; the digest after this one writes the memo anew."""
    memo = MemoState(
        user_id="u",
        value={
            "constraints": ["User is vegetarian", "Budget below 800 yuan"],
            "user_preferences": {"address": "call me Xiao Hang"},
            "stable_facts": [{"fact": "Dentist: Dr. Alvarez", "confidence": 1.0}],
        },
        facts={"constraints": ["f1", "f2"], "user_preferences": ["f3"], "stable_facts": ["f4"]},
        schema_digest=RULES.schema.digest,
        updated_at=NOW,
    )
    held = records(
        message(1, "I am vegetarian."),
        message(2, "My budget is 800 yuan."),
        message(3, "Call me Xiao Hang."),
        message(4, "My dentist is Dr. Alvarez."),
        fact("f1", "User is vegetarian", 1),
        fact("f2", "User's budget is below 800 yuan", 2),
        fact("f3", "User wants to be called Xiao Hang", 3),
        fact("f4", "User's dentist is Dr. Alvarez", 4),
        memo=memo,
    )
    plan = forgotten(held, messages=["m2", "m4"])
    assert plan.memo_keys == ["constraints", "stable_facts"]
    assert plan.memo.value == {
        "constraints": ["User is vegetarian"],
        "user_preferences": {"address": "call me Xiao Hang"},
    }
    assert plan.memo.schema_digest == ""
    assert forgotten(held, messages=[]).nothing


def test_a_memo_key_that_names_other_facts_loses_the_text_all_the_same():
    """What the model said a key rests on is no proof that nothing else stands in it."""
    memo = MemoState(
        user_id="u",
        value={"stable_facts": [{"fact": "Dentist Alvarez", "confidence": 1.0}]},
        facts={"stable_facts": ["f2"]},
        schema_digest=RULES.schema.digest,
        updated_at=NOW,
    )
    held = records(
        message(1, "My dentist is Dr. Alvarez."),
        message(2, "I like tea."),
        fact("f1", "User's dentist is Dr. Alvarez", 1),
        fact("f2", "User likes tea", 2),
        memo=memo,
    )
    assert forgotten(held, facts=["f1"]).memo.value == {}


def test_the_assistant_does_not_repeat_it_and_a_person_may():
    """Echoes lose their sentences in any session; another message of the user is another source."""
    held = records(
        message(1, "My dentist is Dr. Alvarez."),
        message(2, "Noted: Dr. Alvarez is your dentist. Anything else?", role="assistant"),
        message(3, "How is Dr. Alvarez?", role="assistant", session="t"),
        message(4, "A dentist should be seen twice a year.", role="assistant", session="t"),
        message(5, "Nice weather today.", role="assistant", session="t"),
        fact("f1", "User's dentist is Dr. Alvarez", 1),
    )
    plan = forgotten(held, facts=["f1"])
    assert ids(plan) == {"f1", "m1", "m3"}
    assert plan.cut["m2"][1].content == f"{EMPTIED} Anything else?"
    assert set(plan.echoes) == {"m2", "m3"}
    said = records(*held.messages.values(), *held.facts.values(), message(6, "I go to Alvarez."))
    plan = forgotten(said, facts=["f1"])
    assert "m6" not in ids(plan) | plan.cut.keys()


@pytest.mark.parametrize(
    ("said", "echoed", "harmless"),
    [
        ("我女儿叫林小雨。", "林小雨几岁了？", "你有几个孩子？"),
        ("我的跑鞋预算是800元。", "八百以内的有三款。", "跑鞋要合脚。"),
        ("I have 17 parrots.", "17 parrots eat a lot.", "There are 17 ways to do it."),
        ("My code name is XK-42.", "XK-42 it is.", "42 is a number."),
        ("We call our boat 'Sea Biscuit'.", "Sea Biscuit sails well.", "The sea is calm."),
        (
            "I am allergic to peanuts and shellfish.",
            "Peanuts and shellfish are out.",
            "Fish is fine.",
        ),
        ("Can you recommend a hotel?", "", "I can recommend a hotel nearby."),
    ],
)
def test_an_echo_is_known_by_what_only_the_statement_says(said, echoed, harmless):
    """Names, numbers with their company, quotations, or most words; nothing of less."""
    held = [message(1, said), message(2, "Fine.", role="assistant")]
    held += [
        message(3, echoed or "Fine.", role="assistant"),
        message(4, harmless, role="assistant"),
    ]
    plan = forgotten(records(*held), messages=["m1"])
    assert ("m3" in ids(plan) | plan.cut.keys()) == bool(echoed)
    assert "m4" not in ids(plan) | plan.cut.keys()


def test_a_habit_goes_where_too_few_events_are_left_and_else_counts_less():
    """What was seen three times, and then twice, is none any more; it may grow again."""
    events = [message(i, "filter: price = 500-800", event_type="filter") for i in (1, 2, 3, 4)]
    habit = fact(
        "h", "User repeatedly filtered by price 500-800 (4 times)", 1, 2, 3, 4,
        kind="behavior", count=4, certainty="observed",
    )  # fmt: skip
    plan = forgotten(records(*events, habit), messages=["m1"])
    assert changed(plan)["h"].count == 3
    assert changed(plan)["h"].content == "User repeatedly filtered by price 500-800 (3 times)"
    plan = forgotten(records(*events, habit), messages=["m1", "m2"])
    assert ids(plan) == {"m1", "m2", "h"}
    assert plan.regrow == {"h"}


def test_anchors_and_evidence_of_a_lost_message_go_with_it():
    """A kept Fact names no order that only the lost message was about."""
    held = records(
        message(1, "I like green tea.", anchors={"order": "A-100"}),
        message(2, "Green tea is what I like.", anchors={"shop": "B-7"}),
        fact("f1", "User likes green tea", 1, 2, anchors={"order": "A-100", "shop": "B-7"}),
        summary("s1", "User likes green tea.", "f1", evidence=[{"layer": "action", "id": "m1"}]),
    )
    plan = forgotten(held, messages=["m1"])
    assert changed(plan)["f1"].anchors == {"shop": "B-7"}
    assert changed(plan)["s1"].evidence == []


# --- matching


@pytest.mark.parametrize(
    ("wanted", "text", "held"),
    [
        ("Alvarez", "my dentist, ALVAREZ!", True),
        ("art", "a smart cart", False),
        ("Dr. Alvarez", "dr.  alvarez", True),
        ("林小雨", "我女儿林小雨六岁", True),
        ("A-100", "order a-100.", True),
        ("A-100", "order A-1000", False),
        (re.compile(r"\d{4}"), "in 2024", True),
    ],
)
def test_a_text_is_matched_as_whole_words_and_chinese_anywhere(wanted, text, held):
    """Whatever its case and width; a pattern is searched for as it is."""
    assert holder(wanted)(text) is held


@pytest.mark.parametrize(
    "wanted", ["", "a", "ab", "我", re.compile(""), re.compile("a*"), 7, b"abc"]
)
def test_a_text_that_stands_everywhere_is_refused(wanted):
    """It would forget all that there is."""
    with pytest.raises(ConfigError, match="matching="):
        holder(wanted)


def test_matching_reaches_every_place():
    """Messages of whoever, anchors, metadata, Facts, Summaries, Topics, labels and the memo."""
    memo = MemoState(
        user_id="u",
        value={"user_preferences": {"Zdenka": "call first", "tone": "short"}},
        facts={"user_preferences": ["f2"]},
        schema_digest=RULES.schema.digest,
        updated_at=NOW,
    )
    held = records(
        message(1, "Zdenka called."),
        message(2, "She is fine.", anchors={"contact": "zdenka"}),
        message(3, "So is he.", metadata={"who": ["Zdenka H."]}),
        message(4, "I like tea."),
        message(5, "Give Zdenka my best.", role="assistant"),
        fact("f1", "User knows Zdenka", 4),
        fact("f2", "User likes tea", 4, labels=["zdenka", "drinks"], topic="Zdenka tea"),
        Topic(id="t1", user_id="u", name="Zdenka tea", updated_at=NOW),
        summary("s1", "Tea.", "f2", labels=["Zdenka"]),
        memo=memo,
    )
    plan = forgotten(held, holds=holder("zdenka"))
    assert {"m1", "m2", "m3", "m5", "f1", "s1"} <= ids(plan)
    stays = [*held.messages.values(), *held.facts.values(), *held.topics.values()]
    stays = [changed(plan).get(r.id, r) for r in stays if r.id not in ids(plan)]
    stays = [plan.cut[r.id][1] if r.id in plan.cut else r for r in stays]
    assert stays
    assert not any("zdenka" in r.model_dump_json().lower() for r in stays)
    assert plan.memo.value == {"user_preferences": {"tone": "short"}}


@given(
    st.lists(st.sampled_from("ab.!? ,;\n。！？，和但是and\"'"), max_size=40).map("".join),
)
def test_a_text_is_cut_at_its_sentences_and_clauses_and_loses_nothing(text):
    """Joined, the parts are the text; cutting what is not there changes nothing."""
    assert "".join(sentences(text)) == text
    assert "".join(clauses(text)) == text
    nothing = Traces([Statement("Quixotic zebra 4711")], Held())
    assert without(text, nothing, Traces((), Held())) is None


# --- what is chosen


def test_ids_that_are_not_there_are_named_and_nothing_is_chosen():
    """All of them, with the layer."""
    held = records(message(1, "Hello."))
    with pytest.raises(NotFound, match=r"'m8', 'm9'"):
        Choice(message_ids=("m8", "m1", "m9")).wanted(held)
    with pytest.raises(NotFound, match="fact 'm1'"):
        Choice(fact_ids=("m1",)).wanted(held)


def test_before_goes_by_the_time_said_then_stored_then_the_order():
    """One without any time is as old as the next that has one."""
    hour = timedelta(hours=1)
    held = [
        Message(id="a", content="x"),
        Message(id="b", content="x", timestamp=NOW - hour),
        Message(id="c", content="x", stored_at=NOW - hour),
        Message(id="d", content="x"),
        Message(id="e", content="x", timestamp=NOW + hour, stored_at=NOW - hour),
        Message(id="f", content="x"),
    ]
    assert older(held, NOW) == {"a", "b", "c"}


def test_what_is_only_old_loses_its_text_and_its_facts_stay():
    """A lifetime takes all that rests on it along; an age takes the text."""
    long_ago = {"timestamp": NOW - timedelta(days=40)}
    held = records(
        message(1, "I like tea.").model_copy(update=long_ago),
        message(2, "What a day.").model_copy(update=long_ago),
        message(3, "My code is 77123.", expires_at=NOW),
        message(4, "I will call Bob."),
        fact("f1", "User likes tea", 1),
        fact("f3", "User's code is 77123", 3),
        fact("f4", "User will call Bob", 4, kind="plan", created_at=NOW - timedelta(days=8)),
    )
    policy = PrivacyPolicy(
        retention=[
            {"layer": "message", "older_than": "P30D"},
            {"kind": "plan", "older_than": "P7D"},
        ]
    )
    plan = decide(held, expired(held, policy, NOW), Terms(RULES, NOW))
    assert ids(plan) == {"m2", "m3", "f3", "f4", "m4"}
    assert plan.cut["m1"][1].content == EMPTIED
    after = records(
        *(plan.cut.get(m.id, (m, m))[1] for m in held.messages.values() if m.id not in ids(plan)),
        *(f for f in held.facts.values() if f.id not in ids(plan)),
    )
    assert decide(after, expired(after, policy, NOW), Terms(RULES, NOW)).nothing


# --- restored histories


ASKED = [
    "I like oolong tea in the morning.",
    "Yes.",
    "好的",
    "我住在上海静安区。",
    "Is it late?",
    "Yes.",
]
ANSWERED = ["Fine.", "Glad to hear of that one.", "不客气", "Well then."]
TURN = st.tuples(st.sampled_from(ASKED), st.sampled_from(ANSWERED))


@given(
    turns=st.lists(TURN, min_size=1, max_size=6),
    gone=st.sets(st.integers(0, 11), max_size=5),
    twice=st.sets(st.integers(0, 11), max_size=3),
    start=st.integers(0, 5),
    again=st.booleans(),
)
def test_a_restored_history_brings_back_nothing_and_each_of_the_rest_once(
    turns, gone, twice, start, again, shelf
):
    """Whatever is forgotten, in two goes, and wherever the restored history begins."""
    gumem, agents = shelf
    user_id = f"user-{next(agents)}"
    user = gumem.user(user_id)
    agent = Agently.create_agent()
    memory = gumem.attach(agent, user_id=user_id, when=Manual())
    agent.activate_session(session_id="s")
    say(agent.activated_session, *turns)
    history = pairs(agent.activated_session.full_context)
    stored = user.messages()
    assert pairs(stored) == history
    for picked in (gone, twice - gone):
        ids = [stored[i].id for i in picked if i < len(stored)]
        left = {m.id for m in user.messages()}
        if chosen := [i for i in ids if i in left]:
            user.forget(message_ids=chosen)
    rest = pairs(user.messages())
    assert Counter(rest) == Counter(history) - Counter(
        history[i] for i in gone | twice if i < len(history)
    )
    assert pairs(agent.activated_session.full_context) == rest
    assert pairs(agent.activated_session.context_window) == rest
    memory.detach()

    other = agent if again else Agently.create_agent()
    gumem.attach(other, user_id=user_id, when=Manual())
    other.activate_session(session_id="s")
    shown = [{"role": r, "content": c} for r, c in history[2 * min(start, len(turns) - 1) :]]
    other.activated_session.set_chat_history(shown)
    assert pairs(user.messages()) == rest
    say(other.activated_session, ("I said: yes.", "Well then."))
    live = [("user", "I said: yes."), ("assistant", "Well then.")]
    assert pairs(user.messages()) == [*rest, *live]
    held = pairs(other.activated_session.full_context)
    assert held[-2:] == live
    assert not Counter(held) - Counter([*rest, *live])


@pytest.fixture(scope="module")
def shelf():
    """One store in memory for all examples, and a number for each user."""
    with GUMem(limits=Limits(request_timeout=5)) as gumem:
        yield gumem, itertools.count()
