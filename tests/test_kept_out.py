"""What is not for memory stays out of it: the store's files, requests, logs, events, listings."""

import itertools
import json
import logging
from datetime import timedelta

import bytesearch
import pytest
from detection.report import cases
from e2e import agent_of, attached, hooked, say

from agently_gumem import GUMem, Manual, NotFound, WindowExceeds
from agently_gumem.privacy import PrivacyPolicy
from agently_gumem.records import Message, now
from agently_gumem.remember.select import Selector
from agently_gumem.remember.treated import is_taken_out, kept_under, treatments
from agently_gumem.testing import RuleModel, ScriptedModel

select = Selector()


def detected(name, least=8):
    """Give the labelled texts whose every value is found, and those values."""
    found = [(c.text, [value for _, value in c.spans]) for c in cases(name) if c.spans]
    whole = [(text, values) for text, values in found if all(len(v) >= least for v in values)]
    return [(t, v) for t, v in whole if not any(value in select(t).text for value in v)]


def told(gumem, user):
    """Give all that a reader of a memory is shown, as one text."""
    shown = [*user.messages(), *user.facts(validity=None), *user.summaries(validity=None)]
    lines = [record.model_dump_json() for record in [*shown, *user.topics()]]
    lines += [user.export(), json.dumps(user.memo, ensure_ascii=False), json.dumps(gumem.status())]
    return "\n".join(lines)


def test_what_is_detected_reaches_nothing(use, tmp_path, caplog):
    """Secrets and numbers of people: not in the store, a log, an event or a request."""
    caplog.set_level(logging.DEBUG, logger="agently_gumem")
    texts = detected("first")
    values = [value for _, own in texts for value in own]
    assert len(values) > 100
    with hooked() as events, use(RuleModel()) as model, GUMem(tmp_path, shards=2) as gumem:
        user = gumem.user("alice")
        user.add_messages([{"content": text, "metadata": {"raw": text}} for text, _ in texts])
        user.add_actions(
            [{"content": f"search: {t}", "anchors": {"order": t}, "page": t} for t, _ in texts[:20]]
        )
        user.digest()
        for text, _ in texts[:20]:
            user.query(text)
        shown = told(gumem, user) + "\n".join(r.text for r in model.memory_requests)
        gumem.sweep()
    shown += caplog.text + repr(events)
    assert [value for value in values if value in shown] == []
    assert bytesearch.find(tmp_path, values) == []


def test_a_secret_in_a_turn_stays_in_the_turn(tmp_path):
    """The user's own request carries it to the model; the memory keeps a placeholder of it."""
    word = "hunter2-Zebra-77"
    with RuleModel() as model, GUMem(tmp_path, shards=2) as gumem:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s")
        agent.input(f"My wifi password is {word}, and I take size 42 shoes.").start()
        memory.digest()
        assert word in model.chat_requests[0].text
        assert not any(word in request.text for request in model.memory_requests)
        assert "[secret]" in memory.user.messages()[0].content
        assert any("42" in fact.content for fact in memory.user.facts())
        gumem.sweep()
    assert bytesearch.find(tmp_path, [word]) == []


def test_special_statements_are_neither_listed_nor_recalled_nor_exported(use, tmp_path):
    """By words alone, before anything is stored: the sentence that says it never comes in."""
    said = [c.text for c in cases("first_special") if c.special in select(c.text).special]
    assert len(said) > 30
    with use(RuleModel()) as model, GUMem(tmp_path, shards=2) as gumem:
        user = gumem.user("alice")
        user.add_messages([{"content": text} for text in said])
        user.digest()
        shown = told(gumem, user) + "\n".join(r.text for r in model.memory_requests)
        shown += "\n".join(user.query(text).formatted_context for text in said)
        gumem.sweep()
    assert [text for text in said if text in shown] == []
    assert bytesearch.find(tmp_path, said) == []


def flagging(subject):
    """Answer a digest with the one Fact of each message, of a subject that the model names."""

    def answer(request):
        lines = [json.loads(x) for x in request.text.splitlines() if x.startswith('{"ref":"m')]
        facts = [{"content": m["text"], "sources": [m["ref"]], "special": subject} for m in lines]
        return {"facts": facts, "memo": []}

    return answer


MISSED = "Dr. Okafor's ward has had me on the drip since Tuesday."


@pytest.mark.parametrize("subject", ["health", "faith"])
def test_what_the_model_finds_to_be_special_loses_its_text(use, tmp_path, subject):
    """Words miss it, extraction flags it: no Fact, and the text goes with the digest."""
    assert select(MISSED).text == MISSED
    with use(ScriptedModel(memory=flagging(subject))), GUMem(tmp_path, shards=2) as gumem:
        user = gumem.user("alice")
        user.add_messages({"content": MISSED, "timestamp": "2026-03-01T10:00:00Z"})
        assert bytesearch.find(tmp_path, [MISSED])
        report = user.digest()
        assert report.dropped["special"] == 1
        assert user.facts(validity=None) == []
        assert [m.content for m in user.messages()] == ["[special]"]
        assert MISSED not in user.query("Okafor").formatted_context + user.export()
        assert gumem.sweep()["erased"] == 1
        again = {"content": MISSED, "timestamp": "2026-03-01T10:00:00Z"}
        assert [m.content for m in user.add_messages(again)] == ["[special]"]
    assert bytesearch.find(tmp_path, [MISSED]) == []


def test_one_subject_that_is_not_for_memory_takes_the_text_out_whatever_else_is_kept(use):
    """Of two subjects in one message the stricter treatment holds, in either order."""
    keep = {"action": "keep", "lifetime": "P30D", "access": "care"}
    for subjects in (["health", "faith"], ["faith", "health"]):

        def answer(request, subjects=subjects):
            ref = request.data["NEW MESSAGES"][0]["ref"]
            return {
                "facts": [{"content": MISSED, "sources": [ref], "special": s} for s in subjects]
            }

        with (
            use(ScriptedModel(memory=answer)),
            GUMem(privacy={"special_categories": {"health": keep}}) as gumem,
        ):
            user = gumem.user("alice")
            user.add_messages({"content": MISSED, "page": "ward 7"})
            user.digest()
            (message,) = user.messages()
            assert (message.content, message.page, message.access) == ("[special]", "", [])


def test_of_what_a_draft_tells_the_strictest_treatment_holds():
    """The model names one subject, words find another one; of two kept ones both labels hold."""
    health = {"action": "keep", "lifetime": "P30D", "access": "care"}
    faith = {"action": "keep", "lifetime": "P7D", "access": "chaplain"}
    policy = PrivacyPolicy(special_categories={"health": health})
    assert treatments(policy, "") == []
    assert not is_taken_out(treatments(policy, " Health "))
    assert is_taken_out(treatments(policy, "health", {"faith": 1}))
    both = PrivacyPolicy(special_categories={"health": health, "faith": faith})
    message = Message(id="m", session_id="s", content="x")
    kept = kept_under(message, treatments(both, "faith", {"health": 1}))
    assert kept.access == ["care", "chaplain"]
    assert timedelta(days=6) < kept.expires_at - now() <= timedelta(days=7)


def test_what_a_policy_keeps_has_a_label_and_a_lifetime(use):
    """Kept health is shown to who names its label, is no part of the memo, and expires."""
    keep = {"action": "keep", "lifetime": "P30D", "access": "care"}
    with (
        use(ScriptedModel(memory=flagging("health"))),
        GUMem(privacy={"special_categories": {"health": keep}}) as gumem,
    ):
        user = gumem.user("alice")
        user.add_messages({"content": MISSED})
        user.digest()
        assert user.facts() == []
        assert user.messages() == []
        (fact,) = user.facts(access=["care"])
        (message,) = user.messages(access="care")
        assert fact.content == message.content == MISSED
        assert 29 < (fact.expires_at - fact.created_at).days <= 30
        assert "Okafor" not in user.query("Who is Okafor?").formatted_context
        assert "Okafor" in user.query("Who is Okafor?", access=("care",)).formatted_context


def test_the_memo_does_not_tell_what_is_kept_under_a_label(use):
    """The model was shown the Fact to compare with, and says it again behind another one."""
    keep = {"action": "keep", "lifetime": "P30D", "access": "care"}

    def answer(request):
        if request.memory_stage != "extract":
            return {"summaries": [], "same_topics": [], "memo": []}
        said = [{"fact": "Okafor ward drip"}, {"fact": "Takes size 42"}]
        facts = [
            {"content": line["text"], "sources": [line["ref"]]}
            | {"special": "health" if line["text"] == MISSED else ""}
            for line in request.data["NEW MESSAGES"]
        ]
        return {"facts": facts, "memo": [{"key": "stable_facts", "value": said, "facts": ["f1"]}]}

    with (
        use(ScriptedModel(memory=answer)),
        GUMem(privacy={"special_categories": {"health": keep}}) as gumem,
    ):
        user = gumem.user("alice")
        user.add_messages({"content": MISSED}, digest=True)
        assert user.memo == {}
        user.add_messages({"content": "I take size 42."}, digest=True)
        assert [f["fact"] for f in user.memo["stable_facts"]] == ["Takes size 42"]


def test_a_topic_under_which_everything_is_labelled_is_shown_with_the_label_alone(use):
    """Its name tells of what it holds; one with another Fact under it is everybody's."""
    keep = {"action": "keep", "lifetime": "P30D", "access": "care"}

    def answer(request):
        facts = []
        for line in request.data["NEW MESSAGES"]:
            special = "health" if line["text"] == MISSED else ""
            topic = "Okafor ward" if special else "shoes"
            facts.append(
                {"content": line["text"], "sources": [line["ref"]], "topic": topic}
                | {"special": special}
            )
        return {"facts": facts}

    with (
        use(ScriptedModel(memory=answer)),
        GUMem(privacy={"special_categories": {"health": keep}}) as gumem,
    ):
        user = gumem.user("alice")
        user.add_messages([{"content": MISSED}, {"content": "I take size 42."}], digest=True)
        assert [t.name for t in user.topics()] == ["shoes"]
        (ward, shoes) = user.topics(access=["care"])
        assert (ward.name, shoes.name) == ("Okafor ward", "shoes")
        assert "Okafor" not in user.export() + user.report().model_dump_json()
        assert "Okafor ward" in user.export(access="care")
        assert user.report(access="care").topics == [ward, shoes]
        with pytest.raises(NotFound):
            user.explain(ward)
        assert user.explain(ward, access="care")["topic"] == ward
        assert user.explain(shoes)["topic"] == shoes


CARD = "4539 5787 6362 1486"
DIGITS = CARD.replace(" ", "")


def carrying(request):
    """Answer with Facts whose names carry what no message holds."""
    if request.memory_stage != "extract":
        return {"summaries": [], "same_topics": [], "memo": []}
    facts = [
        {
            "content": line["text"],
            "sources": [line["ref"]],
            "topic": f"card {CARD}",
            "entities": [DIGITS, "shoes"],
            "labels": [f"card {DIGITS}", "[card]", "style"],
        }
        for line in request.data["NEW MESSAGES"]
    ]
    return {"facts": facts, "memo": []}


def test_nothing_beside_a_text_carries_what_is_not_for_memory(use, tmp_path, caplog):
    """Keys and numbers of metadata, names, roles, types, reasons, what the model names."""
    caplog.set_level(logging.DEBUG, logger="agently_gumem")
    words = {"password": "hunter2-Zebra-77", "pin": 4711}
    deep = [{CARD: int(DIGITS)}, {"raw": DIGITS.encode(), "set": {CARD}}, float(DIGITS)]
    with (
        hooked() as events,
        use(ScriptedModel(memory=carrying)) as model,
        GUMem(tmp_path, shards=2) as gumem,
    ):
        user = gumem.user("alice")
        (said,) = user.add_messages(
            {
                "content": "I take size 42.",
                "role": f"user {CARD}",
                "speaker": f"Bob {CARD}",
                "anchors": {f"visa {CARD}": "A-1"},
                "metadata": {**words, CARD: 1, DIGITS: 2, "deep": deep, "size": 42, "when": 1767e9},
            }
        )
        assert {said.metadata[name] for name in words} == {"[secret]"}
        assert (said.metadata["[card]"], said.metadata["[card] 2"]) == (1, 2)
        assert (said.metadata["size"], said.metadata["when"]) == (42, 1767e9)
        action = {"content": "paid", "event_type": f"pay {CARD}", "app": f"shop {CARD}"}
        user.add_actions({**action, "entities": [f"visa {CARD}"], "metadata": {CARD: DIGITS}})
        user.digest()
        shown = told(gumem, user)
        fact = user.facts()[0]
        assert (fact.topic, fact.entities, fact.labels) == ("general", ["shoes"], ["style"])
        user.correct(fact.id, "I take size 43.", reason=f"paid by {CARD}", by=f"desk {CARD}")
        user.forget(fact_ids=[user.facts()[0].id], reason=f"paid by {CARD}")
        shown += told(gumem, user) + "\n".join(r.text for r in model.memory_requests)
        gumem.sweep()
    shown += caplog.text + repr(events)
    values = [CARD, DIGITS, "hunter2-Zebra-77"]
    assert [value for value in values if value in shown] == []
    assert bytesearch.find(tmp_path, values) == []


def test_what_metadata_holds_counts_as_what_the_text_holds():
    """It drops the message, or puts it under its label and lifetime."""
    told = {"content": "Here you are.", "metadata": {"password": "hunter2-Zebra-77"}}
    with GUMem(privacy={"secrets": "drop"}) as gumem:
        assert gumem.user("alice").add_messages(told) == []
    keep = {"action": "keep", "lifetime": "P1D", "access": "ops"}
    with GUMem(privacy={"secrets": keep}) as gumem:
        user = gumem.user("alice")
        user.add_messages(told)
        assert user.messages() == []
        (message,) = user.messages(access="ops")
        assert (message.metadata, message.access) == (told["metadata"], ["ops"])
        assert message.expires_at is not None


TURNS = [
    ("Call me at +86 138-0013-8000 or mail bob@example.com.", "Noted."),
    ("I'm allergic to nuts.", "I'll remember."),
    ("password: hunter2-Zebra", "ok"),
    ("I have asthma.", "Sorry to hear."),
    ("My size is 42.", "Good."),
]
LABELLED = {"action": "keep", "lifetime": "P30D", "access": "care"}
POLICIES = {
    "default": {},
    "redact": {"phones": "redact", "emails": "redact", "allergies": "redact"},
    "drop": {"phones": "drop", "allergies": "drop", "secrets": "drop", "special": "drop"},
    "keep": {"special": LABELLED, "secrets": LABELLED},
    "words": {"special_words": {"health": ["size"]}},
}


@pytest.mark.parametrize(("first", "then"), sorted(itertools.permutations(POLICIES, 2)))
def test_a_history_of_another_policy_is_the_same_history(tmp_path, first, then):
    """Restored under a policy that takes out more or less, it adds only what is new."""
    whole = {"content": TURNS[0][0], "timestamp": "2026-01-01T00:00:00Z"}
    with RuleModel() as model, GUMem(tmp_path, shards=2, privacy=POLICIES[first]) as gumem:
        agent = agent_of(model)
        user = attached(gumem, agent, "s", when=Manual()).user
        say(agent.activated_session, *TURNS)
        user.add_messages(whole)
        before = [m.id for m in user.messages(access="care")]
        saved = agent.activated_session.get_json_session()
    with RuleModel() as model, GUMem(tmp_path, shards=2, privacy=POLICIES[then]) as gumem:
        agent = agent_of(model)
        user = attached(gumem, agent, "s", when=Manual()).user
        agent.activated_session.load_json_session(saved)
        say(agent.activated_session, ("And now?", "Now."))
        if first != "drop":
            user.add_messages(whole)
        after = user.messages(access="care")
    new = [m.content for m in after if m.id not in before]
    assert new == ["And now?", "Now."]


def test_what_was_forgotten_stays_forgotten_under_another_policy(tmp_path):
    """The marks do not depend on what a policy took out."""
    with RuleModel() as model, GUMem(tmp_path, shards=2) as gumem:
        agent = agent_of(model)
        user = attached(gumem, agent, "s", when=Manual()).user
        say(agent.activated_session, *TURNS)
        saved = agent.activated_session.get_json_session()
        user.forget(session_id="s", erase=True)
    with RuleModel() as model, GUMem(tmp_path, shards=2, privacy=POLICIES["redact"]) as gumem:
        agent = agent_of(model)
        user = attached(gumem, agent, "s", when=Manual()).user
        agent.activated_session.load_json_session(saved)
        say(agent.activated_session, ("And now?", "Now."))
        user.import_(saved)
        user.import_({**json.loads(saved), "id": "other"})
        assert [m.content for m in user.messages()] == ["And now?", "Now."]


def test_a_memo_of_before_is_kept_as_the_policy_says():
    """One that another handler wrote is shown to who may see what it holds."""
    with RuleModel() as model, GUMem(privacy=POLICIES["keep"]) as gumem:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=WindowExceeds(messages=6))
        agent.activated_session._memo = {"note": "The user said: I have asthma."}
        say(agent.activated_session, *[(f"Question {i}?", "ok") for i in range(4)])
        assert not any("asthma" in m.content for m in memory.user.messages())
        assert any("asthma" in m.content for m in memory.user.messages(access="care"))


def test_who_reads_names_all_the_labels():
    """Two labels are two reasons for not showing a record: one of them is not enough."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        user.add_messages({"content": "The ring is in the safe.", "access": ["home", "legal"]})
        assert user.messages() == user.messages(access="home") == []
        assert len(user.messages(access=["legal", "home", "care"])) == 1
        asked = "Where is the ring?"
        assert "safe" not in user.query(asked, access=("home",)).formatted_context
        assert "safe" in user.query(asked, access=("home", "legal")).formatted_context
