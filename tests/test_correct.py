"""An operator corrects a Fact: a message of its own, one write, no model."""

import itertools
import threading
from datetime import datetime, timedelta, timezone

import pytest
from e2e import agent_of

from agently_gumem import ConfigError, Fact, GUMem, NotFound, Topic
from agently_gumem.remember.summarize import due
from agently_gumem.testing import RuleModel, ScriptedModel

DAY = datetime(2026, 5, 1, 9, tzinfo=timezone.utc)
OLD, NEW = "User wears shoe size 42", "User wears shoe size 43"
ASKED = "What shoe size do I wear?"


def answer(request):
    """Make a Fact of each statement, a memo of them, and a Summary of all."""
    if request.memory_stage == "summarize":
        facts = request.data["FACTS"]
        text = "; ".join(f["content"] for f in facts)
        told = {"topic": "life", "content": text, "facts": [f["ref"] for f in facts]}
        return {"summaries": [told], "same_topics": []}
    if request.memory_stage == "memo":
        facts = request.data["FACTS"]
        value, refs = [f["content"] for f in facts], [f["ref"] for f in facts]
        return {"memo": [{"key": "constraints", "value": value, "facts": refs}]}
    facts = [
        {
            "ref": f"f{place}",
            "content": message["text"].replace("I wear", "User wears").rstrip("."),
            "sources": [message["ref"]],
            "topic": "life",
        }
        for place, message in enumerate(request.data["NEW MESSAGES"], 1)
        if message["role"] == "user"
    ]
    told = {"value": [f["content"] for f in facts], "facts": [f["ref"] for f in facts]}
    return {"facts": facts, "memo": [{"key": "constraints", **told}] if facts else []}


@pytest.fixture
def model(use):
    """A scripted model that Agently's own settings point to."""
    with ScriptedModel(memory=answer) as server:
        yield use(server)


@pytest.fixture
def user(model):
    """A user with one Fact, in a memo and in a Summary."""
    with GUMem(limits={"summary_after": 1}) as gumem:
        user = gumem.user("alice")
        said = {"content": "I wear shoe size 42.", "timestamp": DAY, "anchors": {"order": "A-1"}}
        user.add_messages([said, {"content": "Noted, 42.", "role": "assistant"}], digest=True)
        yield user


def test_a_correction_takes_the_old_value_out_of_everything(model, user):
    """At once and without a model: Fact, turns, Summary and memo; the next digest rebuilds."""
    (old,) = user.facts()
    assert "42" in str(user.memo)
    assert len(user.summaries()) == 1
    assert "42" in user.query(ASKED).formatted_context
    asked = len(model.memory_requests)
    fact = user.correct(old.id, NEW, reason="measured in the shop")
    assert len(model.memory_requests) == asked
    assert [f.content for f in user.facts()] == [NEW]
    assert user.memo == {}
    assert user.summaries() == []
    assert [t.name for t in user.topics()] == ["life"]
    shown = user.query(ASKED).formatted_context
    assert NEW in shown
    assert "42" not in shown
    user.digest()
    assert user.memo["constraints"] == [NEW]
    (summary,) = user.summaries()
    assert summary.source_facts == [fact.id]
    assert "42" not in user.query(ASKED).formatted_context


def test_a_correction_is_a_message_that_the_new_fact_cites(user):
    """By whom, when and why stands in it and in the history of both Facts."""
    (old,) = user.facts()
    before = datetime.now(timezone.utc)
    fact = user.correct(old.id, NEW, reason="measured in the shop", by="ann@shop")
    (message,) = user.messages(event_type="correction")
    assert fact.source_message_ids == [message.id]
    assert (message.role, message.content, message.status) == ("operator", NEW, "processed")
    told = {"corrects": old.id, "reason": "measured in the shop", "by": "ann@shop"}
    assert message.metadata == told
    assert before <= message.timestamp <= datetime.now(timezone.utc)
    (gone,) = user.facts(validity="deprecated")
    assert (gone.id, gone.superseded_by, gone.valid_to) == (old.id, fact.id, fact.valid_from)
    for record, what in ((gone, "corrected"), (fact, "created")):
        change = record.changes[-1]
        assert (change.what, change.actor, change.by) == (what, "ann@shop", [message.id])
        assert change.reason == "measured in the shop"
    assert (fact.kind, fact.topic, fact.anchors) == (old.kind, "life", {"order": "A-1"})
    (summary,) = user.summaries(validity="deprecated")
    assert (summary.changes[-1].what, summary.changes[-1].actor) == ("superseded", "ann@shop")


def test_the_past_of_a_correction_stays_answerable(user):
    """Both values, each with its time."""
    user.correct(user.facts()[0].id, NEW)
    today = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    shown = user.query("What shoe size did I wear before?").formatted_context
    assert f"2026-05-01 to {today}: {OLD}; since {today}: {NEW}" in shown
    assert OLD in user.query(ASKED, as_of=DAY + timedelta(days=1)).formatted_context


def test_what_cannot_be_corrected_is_said(user):
    """No such Fact, no text, the same text, a secret, a superseded Fact: its successor is named."""
    (old,) = user.facts()
    with pytest.raises(NotFound, match="nothing-here"):
        user.correct("nothing-here", NEW)
    for text in ("", "  ", OLD, OLD.upper(), "x" * 501, "The card is 4111 1111 1111 1111"):
        with pytest.raises(ConfigError, match="new_content"):
            user.correct(old.id, text)
    for given in ({"reason": None}, {"by": " "}):
        with pytest.raises(ConfigError, match=next(iter(given))):
            user.correct(old.id, NEW, **given)
    assert user.messages(event_type="correction") == []
    fact = user.correct(old.id, NEW)
    with pytest.raises(ConfigError, match=fact.id):
        user.correct(old.id, "User wears shoe size 44")
    with pytest.raises(NotFound):
        user.correct(user.messages()[0].id, NEW)


def test_a_value_that_comes_back_is_a_fact_of_its_own(user):
    """A, B, C, A, D: four superseded Facts in one chain, each with its time and cause."""
    chain = [user.facts()[0]]
    for size in (43, 44, 42, 45):
        text = f"User wears shoe size {size}"
        chain.append(user.correct(chain[-1].id, text, reason=f"now {size}"))
    assert [f.content for f in user.facts()] == ["User wears shoe size 45"]
    stored = {f.id: f for f in user.facts(validity=None)}
    assert len(stored) == len(chain) == 5
    for earlier, later in itertools.pairwise(chain):
        held = stored[earlier.id]
        assert (held.superseded_by, held.valid_to) == (later.id, stored[later.id].valid_from)
        assert held.changes[-1].reason == stored[later.id].changes[0].reason
    shown = user.query("What shoe size did I wear before?", max_tokens=2_000).formatted_context
    for earlier, later in itertools.pairwise(chain):
        assert any(
            line.index(earlier.content) < line.rindex(later.content)
            for line in shown.splitlines()
            if earlier.content in line and later.content in line
        )


def test_what_is_known_already_is_joined(model, user):
    """Corrected to what another Fact says, that one stays, with one source more."""
    user.add_messages({"content": "I wear wide shoes.", "timestamp": DAY}, digest=True)
    wide = next(f for f in user.facts() if "wide" in f.content)
    old = next(f for f in user.facts() if "42" in f.content)
    fact = user.correct(old.id, wide.content)
    assert fact.id == wide.id
    assert len(fact.source_message_ids) == 2
    assert [f.id for f in user.facts()] == [wide.id]
    assert user.facts(validity="deprecated")[0].superseded_by == wide.id


def test_a_digest_that_is_under_way_does_not_bring_the_old_value_back(model, user):
    """The model was asked before the correction: what its answer says of the old value is void."""
    (old,) = user.facts()
    user.add_messages({"content": "I wear shoe size 42.", "timestamp": DAY + timedelta(days=1)})
    model.hold("memory")
    count = len(model.memory_requests)
    digest = threading.Thread(target=user.digest)
    digest.start()
    assert model.wait_for(count + 1, "memory")[-1].memory_stage == "extract"
    fact = user.correct(old.id, NEW)
    model.release()
    digest.join()
    assert [f.id for f in user.facts()] == [fact.id]
    assert not user.messages(status="pending")
    assert "42" not in str(user.memo)
    assert "42" not in user.query(ASKED).formatted_context


def test_a_correction_is_no_part_of_a_session(use):
    """Agently's history is compared with what is stored of the session, and not with it."""
    with use(RuleModel("Noted.")) as model, GUMem() as gumem:
        agent = agent_of(model)
        gumem.attach(agent, user_id="alice")
        agent.activate_session(session_id="s")
        agent.input("I live in Leeds.").start()
        user = gumem.user("alice")
        user.digest()
        (old,) = user.facts()
        user.correct(old.id, "User lives in Bristol")
        agent.input("I drink oolong tea.").start()
        said = [m.content for m in user.messages("s")]
        assert said == ["I live in Leeds.", "Noted.", "I drink oolong tea.", "Noted."]
        assert {m.session_id for m in user.messages()} == {"s", "gumem.corrections"}


def test_what_is_kept_under_a_label_is_in_no_summary():
    """Every reader of the user sees a Summary: such a Fact neither counts nor is shown for one."""
    topic = Topic(id="t", user_id="u", name="life", updated_at=DAY)
    facts = [
        Fact(
            id=f"f{n}", user_id="u", content=f"Fact {n}", topic="life", source_message_ids=["m"],
            access=["health"] if n < 2 else [], created_at=DAY, updated_at=DAY,
        )
        for n in range(4)
    ]  # fmt: skip
    assert due([topic], facts, [], enough=3) == []
    (entry,) = due([topic], facts, [], enough=2)
    assert entry.fact_ids == {"f2", "f3"}


def test_corrections_at_once_wait_for_each_other(use):
    """Of one Fact the first counts, and each other one is told which took its place."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        said = [{"content": "I live in Berlin."}, {"content": "My dog is called Biscuit."}]
        user.add_messages(said, digest=True)
        home, dog = sorted(user.facts(), key=lambda f: "Biscuit" in f.content)
        told: list[str] = []

        def correct(fact_id, text):
            try:
                told.append(user.correct(fact_id, text).content)
            except ConfigError as error:
                told.append(str(error))

        texts = [(home.id, f"User lives in Hamburg {i}") for i in range(4)]
        texts += [(dog.id, "User's dog is called Toffee")]
        threads = [threading.Thread(target=correct, args=given) for given in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(told) == 5
        assert sum("is deprecated, not active: correct " in text for text in told) == 3
        (kept,) = [text for text in told if text.startswith("User lives in Hamburg")]
        assert {f.content for f in user.facts()} == {kept, "User's dog is called Toffee"}


def test_forgetting_a_correction_does_not_bring_the_old_value_back(use):
    """What it had replaced is no present value: neither its Fact nor the turn that said it."""
    with use(RuleModel()), GUMem() as gumem:
        user = gumem.user("alice")
        user.add_messages({"role": "user", "content": "I live in Berlin."}, digest=True)
        (fact,) = user.facts()
        moved = user.correct(fact.id, "The user lives in Hamburg.")
        user.forget(fact_ids=[moved.id])
        told = user.query("Where do I live?").formatted_context
        assert "Berlin" not in told
        assert "Hamburg" not in told
        assert "Berlin" in user.query("Where did I live before?").formatted_context
