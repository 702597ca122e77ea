"""What is not for memory stays out of it: the store's files, requests, logs, events, listings."""

import json
import logging

import bytesearch
import pytest
from detection.report import cases
from e2e import agent_of, attached, hooked

from agently_gumem import GUMem
from agently_gumem.remember.select import Selector
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
    with hooked() as events, use(RuleModel()) as model, GUMem(tmp_path) as gumem:
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
    with RuleModel() as model, GUMem(tmp_path) as gumem:
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
    with use(RuleModel()) as model, GUMem(tmp_path) as gumem:
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
    with use(ScriptedModel(memory=flagging(subject))), GUMem(tmp_path) as gumem:
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
