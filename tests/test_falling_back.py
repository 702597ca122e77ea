"""When the memory's model fails: the chat goes on, nothing is lost, and it is told."""

import json
import logging
import re
import time
from itertools import pairwise

import chromadb
import pytest
from dead import Dead
from e2e import PLANTED, agent_of, attached, fact_answer, hooked, on_event, say

from agently_gumem import EveryNTurns, GUMem, Limits, Manual, ModelError
from agently_gumem.testing import Reply, RuleModel, ScriptedModel

pytestmark = pytest.mark.host

TELL = "My dog is called Biscuit."


@pytest.fixture
def gumem():
    """A store in memory whose own requests end soon."""
    with GUMem(limits=Limits(request_timeout=20)) as gumem:
        yield gumem


def answering(*answers, then=fact_answer):
    """Answer memory requests one after the other, and in a good way after the last."""
    left = iter(answers)
    return lambda request: next(left, None) or (then(request) if callable(then) else then)


def fact(content, *sources, **more):
    """Write a Fact as a model does."""
    return {"content": content, "sources": list(sources), **more}


# --- each way to fail

OUTAGES = {
    "status 500": Reply("broken", status=500),
    "dropped": Reply(drop=True),
    "cut off": Reply('{"facts": [{"content": "My dog', cut=True),
}
NO_ANSWERS = {
    "prose": "I would rather talk about the weather.",
    "nothing": "",
    "empty object": "{}",
    "null": "null",
    "a list": "[1, 2]",
    "facts are null": '{"facts": null, "memo": null}',
    "facts are text": '{"facts": "none"}',
    "half JSON": '{"facts": [{"content": ',
}


@pytest.mark.parametrize("kind", [*OUTAGES, *NO_ANSWERS])
def test_a_model_that_fails_costs_no_turn_and_no_message(kind, gumem):
    """The turn is answered, its messages wait, it is told, and the next digest takes them up."""
    broken = [True]
    bad = {**OUTAGES, **NO_ANSWERS}[kind]
    reply = bad if isinstance(bad, Reply) else Reply(bad)
    with ScriptedModel("Noted.", memory=lambda r: reply if broken[0] else fact_answer(r)) as model:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=20)
        with hooked("gumem.failed") as events:
            assert agent.input(TELL).start() == "Noted."
            gumem.flush(20)
        assert [(e.payload["error"], e.payload["session_id"]) for e in events] == [
            ("ModelError", "s")
        ]
        status = memory.status()
        assert status["pending"] == 2
        assert status["failed"] == []
        assert status["errors"] == {"digest": 1}
        assert status["last_error"]["error"] == "ModelError"
        assert status["last_digest"]["error"] == "ModelError"
        assert TELL not in json.dumps(status)
        with pytest.raises(ModelError) as caught:
            memory.digest()
        assert caught.value.answered is (kind in NO_ANSWERS)
        assert TELL not in str(caught.value)
        # What was said is recalled from the journal all the same.
        agent.activate_session(session_id="t")
        agent.input("What is my dog called?").start()
        assert "Biscuit" in model.chat_requests[-1].memo_section
        broken[0] = False
        memory.digest()
        assert [f.content for f in gumem.user("alice").facts(session_id="s")] == [TELL]
        assert memory.status()["pending"] == 0


@pytest.mark.parametrize("level", ["session", "user"])
def test_a_store_that_is_down_is_told_by_status(level):
    """Status answers with what it knows without the store, and counts what it could not ask."""
    client = Dead(chromadb.EphemeralClient())
    with GUMem(client=client, namespace=f"down-{level}") as gumem:
        client.failing = True
        asked = gumem.session("alice", "s") if level == "session" else gumem.user("alice")
        told = asked.status()
        assert told["pending"] is None
        assert told["errors"]["status"] == 1
        assert told["last_error"]["error"] == "StoreError"
        client.failing = False
        whole = asked.status()
        assert told.keys() == whole.keys()
        assert whole["pending"] == 0


def test_a_model_that_is_down_costs_no_turn_and_no_message(gumem):
    """A port on which nobody listens is an outage, whatever it is asked."""
    with ScriptedModel("Noted.") as gone:
        nowhere = gone.settings
    settings = {"OpenAICompatible": nowhere}
    with (
        ScriptedModel("Noted.") as model,
        GUMem(model_settings=settings, limits={"request_timeout": 5}) as gumem,
    ):
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=20)
        assert agent.input(TELL).start() == "Noted."
        assert memory.status()["errors"] == {"digest": 1}
        assert memory.status()["pending"] == 2
        assert model.memory_requests == []


def test_a_model_that_is_too_slow_is_left_behind():
    """An answer past `request_timeout` is an outage, and the digest ends by itself."""
    with (
        ScriptedModel("Noted.", memory=fact_answer) as model,
        GUMem(limits={"request_timeout": 0.3}) as gumem,
    ):
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=20)
        model.hold("memory")
        began = time.monotonic()
        assert agent.input(TELL).start() == "Noted."
        assert time.monotonic() - began < 10
        assert memory.status()["last_error"]["error"] == "ModelError"
        assert memory.status()["pending"] == 2
        assert gumem.usage()["failed"] == 1


def test_a_hung_model_costs_one_turn_its_wait_and_no_other():
    """A digest that a turn has waited for is not waited for again."""
    with (
        ScriptedModel("Noted.", memory=fact_answer) as model,
        GUMem(limits={"request_timeout": 60}) as gumem,
    ):
        agent = agent_of(model)
        memory = gumem.attach(agent, user_id="alice", when=EveryNTurns(1), wait=3)
        agent.activate_session(session_id="warm")
        agent.input("Hello there.").start()
        assert memory.flush(20)
        model.hold("memory")
        spent = []
        for told, _, _ in PLANTED[:4]:
            began = time.monotonic()
            assert agent.input(told).start() == "Noted."
            spent.append(time.monotonic() - began)
        assert spent[0] >= 3
        assert sum(spent[1:]) < 3 + 3
        assert memory.status()["digest_running"] is True
        assert len(model.memory_requests) == 2
        assert memory.flush(0.01) is False
        model.release("memory")
        assert memory.flush(20) is True


def test_with_no_wait_no_turn_waits(gumem):
    """wait=0 leaves every digest behind the turn."""
    with ScriptedModel("Noted.", memory=fact_answer) as model:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=0)
        model.hold("memory")
        for told, _, _ in PLANTED[:3]:
            assert agent.input(told).start() == "Noted."
        assert len(gumem.user("alice").messages()) == 6
        model.release("memory")
        assert memory.flush(20)


def test_closing_beside_a_hung_model_is_bounded(tmp_path):
    """close(timeout) gives up on the digest; what waited is taken up by the next process."""
    with ScriptedModel("Noted.", memory=fact_answer) as model:
        gumem = GUMem(tmp_path)
        agent = agent_of(model)
        attached(gumem, agent, "s", when=EveryNTurns(1), wait=0)
        model.hold("memory")
        agent.input(TELL).start()
        model.wait_for(1, "memory")
        began = time.monotonic()
        gumem.close(timeout=0.2)
        assert time.monotonic() - began < 8
        model.release("memory")
        with GUMem(tmp_path) as gumem:
            assert {m.status for m in gumem.user("alice").messages()} == {"pending"}
            other = agent_of(model)
            attached(gumem, other, "next")
            other.input("Hello again.").start()
            assert gumem.flush(20)
            assert [f.content for f in gumem.user("alice").facts(session_id="s")] == [TELL]


def test_after_a_failure_the_next_attempt_waits_longer_each_time(gumem):
    """2, 4, 8, 16, 32 and again 32 turns; a success ends it."""
    broken = [True]

    def memory_model(request):
        return Reply("x", status=500) if broken[0] else fact_answer(request)

    with ScriptedModel("Noted.", memory=memory_model) as model:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=30)
        attempts = []
        for turn in range(1, 97):
            before = memory.status()["errors"].get("digest", 0)
            say(agent.activated_session, (f"My lucky number is {turn}.", "Noted."))
            if memory.status()["errors"].get("digest", 0) > before:
                attempts.append(turn)
        assert [b - a for a, b in pairwise(attempts)] == [2, 4, 8, 16, 32, 32]
        assert memory.status()["next_attempt_in_turns"] == 31
        broken[0] = False
        memory.digest()
        assert memory.status()["next_attempt_in_turns"] == 0
        assert memory.status()["pending"] == 0
        said = len(model.memory_requests)
        say(agent.activated_session, ("My cat is called Minka.", "Noted."))
        assert len(model.memory_requests) > said


def test_an_outage_never_makes_a_message_failed(gumem):
    """However often the model is down, what waits keeps waiting."""
    with ScriptedModel("Noted.", memory=Reply("x", status=503)) as model:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=Manual())
        say(agent.activated_session, (TELL, "Noted."))
        for _ in range(7):
            with pytest.raises(ModelError):
                memory.digest()
        assert memory.status()["pending"] == 2
        assert memory.status()["failed"] == []


def test_five_answers_in_vain_make_a_message_failed_until_it_is_asked_for(gumem):
    """Given up after five answered digests, listed, recallable, and taken up on request."""
    broken = [True]

    def answer(request):
        return "prose" if broken[0] else fact_answer(request)

    with ScriptedModel("Noted.", memory=answer) as model:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=Manual())
        say(agent.activated_session, (TELL, "Noted."))
        for attempt in range(5):
            assert memory.status()["failed"] == [], attempt
            with pytest.raises(ModelError):
                memory.digest()
        ids = [m.id for m in gumem.user("alice").messages()]
        assert memory.status()["failed"] == ids
        assert memory.status()["pending"] == 0
        assert memory.digest().messages == 0
        assert "Biscuit" in gumem.user("alice").query("What is my dog called?").formatted_context
        broken[0] = False
        assert memory.digest().messages == 0
        report = memory.digest(retry_failed=True)
        assert (report.messages, report.new) == (2, 1)
        assert memory.status()["failed"] == []


def test_an_empty_answer_is_a_success(gumem):
    """`{"facts": []}` says that there is nothing to keep: one request, and all is processed."""
    with ScriptedModel("Noted.", memory={"facts": []}) as model:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=20)
        with hooked("gumem.failed", "gumem.digested") as events:
            agent.input("Hello there.").start()
            gumem.flush(20)
        assert [e.event_type for e in events] == ["gumem.digested"]
        assert len(model.memory_requests) == 1
        assert {m.status for m in gumem.user("alice").messages()} == {"processed"}
        assert memory.status()["errors"] == {}


def test_an_invalid_answer_is_asked_for_again_once(gumem):
    """The second request says what was wrong, and its answer counts."""
    with ScriptedModel("Noted.", memory=answering("prose")) as model:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=20)
        agent.input(TELL).start()
        first, second = model.memory_requests
        assert "# CORRECTION" in second.text
        assert "# CORRECTION" not in first.text
        assert memory.status()["facts"] == 1
        assert memory.status()["errors"] == {}


# --- answers that must not be believed


def test_facts_that_their_source_does_not_hold_are_dropped_and_counted(gumem):
    """References that do not exist, invented values and nulls go; what holds stays."""
    answer = {
        "facts": [
            fact("User's dog is called Biscuit", "m1"),
            fact("User's dog is called Rex", "m1"),
            fact("User paid 900 euros for the dog", "m1"),
            fact("User's dog is called Biscuit and is well", "m9"),
            fact("User's dog is called Biscuit indeed", "m1", "m77"),
            {"content": None, "sources": ["m1"]},
            {"content": "User has a dog", "sources": None},
            {"content": "User has a dog", "sources": []},
            None,
            "a text",
        ],
        "memo": [
            {"key": "constraints", "value": ["User's dog is called Rex"], "facts": ["f2"]},
            {"key": "no_such_key", "value": "x", "facts": ["f1"]},
            {"key": None, "value": None, "facts": None},
        ],
    }
    with ScriptedModel("Noted.", memory=answer) as model:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=20)
        agent.input(TELL).start()
        assert [f.content for f in gumem.user("alice").facts()] == ["User's dog is called Biscuit"]
        dropped = memory.status()["dropped"]
        assert dropped["reference"] == 2
        assert dropped["malformed"] == 6
        assert sum(n for reason, n in dropped.items() if reason != "memo_patch") == 10
        assert dropped["memo_patch"] >= 1
        assert gumem.user("alice").memo == {}
        assert memory.status()["errors"] == {}


def test_a_hundred_facts_of_one_message_are_not_believed(gumem):
    """A model that runs wild is bounded by `facts_per_message`, and counted."""
    many = [fact(f"User's dog is called Biscuit{'.' * n}", "m1") for n in range(1, 101)]
    words = [fact(f"User's dog {'really ' * n}is called Biscuit", "m1") for n in range(100)]
    with ScriptedModel("Noted.", memory={"facts": [*many, *words]}) as model:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=30)
        agent.input(TELL).start()
        assert len(gumem.user("alice").facts()) <= Limits().facts_per_message
        assert memory.status()["dropped"]["too_many"] >= 100
        assert memory.status()["pending"] == 0


@pytest.mark.parametrize(
    "text",
    [
        r'{"facts": [{"content": "User likes caf\u00e9s and \u8336", "sources": ["m1"]}]}',
        r'{"facts": [{"content": "User likes caf\xe9s\ud83d", "sources": ["m1"]}]}',
        r'{"facts": [{"content": "User likes \u00zz tea", "sources": ["m1"]}]}',
        'So {here}: ```json\n{"facts": [{"content": "User likes tea", "sources": ["m1"]}]}\n```',
    ],
)
def test_odd_escapes_and_prose_around_an_answer_lose_nothing(text, gumem):
    """A Fact, or a failure that is told and leaves the message waiting; never a silent loss."""
    with ScriptedModel("Noted.", memory=Reply(text)) as model:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=20)
        assert agent.input("I like cafés, 茶 and tea.").start() == "Noted."
        status = memory.status()
        if status["errors"]:
            assert status["errors"] == {"digest": 1}
            assert status["pending"] == 2
        else:
            assert status["facts"] + sum(status["dropped"].values()) >= 1
        for found in gumem.user("alice").facts():
            found.content.encode()


def test_the_last_good_memo_stays_while_the_model_fails(tmp_path):
    """An outage changes neither the memo of the store, nor that of the session, nor the request."""
    with GUMem(tmp_path) as gumem, RuleModel("Noted.") as model:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=20)
        agent.input("I am allergic to peanuts.").start()
        good, shown = memory.memo, agent.activated_session.memo
        assert good["constraints"]
        model.memory = "prose"
        agent.input("I am allergic to lactose.").start()
        assert memory.status()["errors"] == {"digest": 1}
        assert memory.memo == good
        assert agent.activated_session.memo == shown
        agent.input("What may I not eat?").start()
        assert "peanuts" in model.chat_requests[-1].memo_section
        del agent, memory
    with GUMem(tmp_path) as gumem:
        assert gumem.user("alice").memo == good


# --- what must not be told


SECRETS = {
    "key": "sk-proj-9vK2mQ7xR4tZ8bN1cW5yH3pL6dF0gJ2aS4eU7iO9",
    "card": "4111 1111 1111 1111",
    "identity": "11010519491231002X",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_reaches_no_file_no_log_no_event_and_no_request(kind, tmp_path, caplog):
    """What is not for memory stands neither in Chroma's files nor anywhere that we write to."""
    secret = SECRETS[kind]
    plain = re.sub(r"\s", "", secret)
    caplog.set_level(logging.INFO)
    kinds = ["gumem.digested", "gumem.failed"]
    with RuleModel("Noted.") as model, hooked(*kinds) as events:
        with GUMem(tmp_path) as gumem:
            agent = agent_of(model)
            memory = gumem.attach(agent, user_id="alice", when=EveryNTurns(1), wait=20)
            agent.activate_session(session_id="s")
            agent.input(f"My dog is called Biscuit. Keep this: {secret}").start()
            agent.activate_session(session_id="t")
            memory.mark_stage("paid", outcome={"with": secret})
            gumem.user("alice").add_messages(
                {"content": f"Again {secret}.", "speaker": secret, "metadata": {"a": secret}}
            )
            model.memory = "prose"
            gumem.user("alice").pause()
            gumem.user("alice").resume()
            with pytest.raises(ModelError) as caught:
                memory.session("s").digest()
            assert caught.value.answered
            told = json.dumps([gumem.status(), memory.status(), gumem.usage()], default=str)
        asked = "".join(json.dumps(r.body, ensure_ascii=False) for r in model.memory_requests)
        seen = "".join(str(e) for e in events)
    files = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    logs = "".join(
        r.getMessage() + str(r.exc_info or "") for r in caplog.records if "gumem" in r.name
    )
    for form in {secret, plain}:
        assert form not in asked
        assert form not in seen
        assert form not in told
        assert form not in logs
        assert form.encode() not in files
        assert form.encode("utf-16-le") not in files
    assert b"Biscuit" in files
    assert events


def test_a_failure_is_told_by_kind_and_never_by_what_was_said(caplog):
    """Logs from INFO up and events hold the kind of an error, and no word of the user."""
    caplog.set_level(logging.INFO, logger="agently_gumem")
    bad = {"facts": [{"content": "zebra", "sources": ["m1"], "confidence": "zebra"}]}
    with (
        ScriptedModel("Noted.", memory=answering(bad, then="prose zebra")) as model,
        hooked("gumem.failed", "gumem.digested") as events,
        GUMem() as gumem,
    ):
        agent = agent_of(model)
        attached(gumem, agent, "s", when=EveryNTurns(1), wait=20)
        agent.input("My code word is zebra.").start()
        gumem.flush(20)
        assert "zebra" not in str([e.payload for e in events])
        assert "zebra" not in "".join(r.getMessage() for r in caplog.records)
        assert events


def test_a_hook_that_fails_or_asks_the_memory_harms_nothing(gumem):
    """Hooks of the application run beside the memory's own loop, and may use the memory."""
    seen = []

    async def hook(event):
        seen.append(len(gumem.user("alice").messages()))
        raise ZeroDivisionError

    with (
        on_event(hook, "gumem.digested"),
        ScriptedModel("Noted.", memory=fact_answer) as model,
    ):
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=20)
        assert agent.input(TELL).start() == "Noted."
        assert memory.flush(20)
        assert memory.status()["facts"] == 1
        assert seen == [2]
