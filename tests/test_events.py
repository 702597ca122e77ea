"""What happens is told: each kind once, with counts and no text, and it holds up nobody."""

import json
import logging
import threading
import time
from datetime import datetime, timedelta, timezone
from importlib import import_module

import pytest
from agently import Agently
from e2e import agent_of, attached, hooked

from agently_gumem import EveryNTurns, GUMem, StoreError
from agently_gumem.events import MOST_WAITING, Events
from agently_gumem.testing import Reply, RuleModel, ScriptedModel

pytestmark = pytest.mark.host

KINDS = ("journaled", "triggered", "digested", "recalled", "failed", "forgotten")
NAMES = [f"gumem.{kind}" for kind in KINDS]
TELL = "My dog is called Biscuit."
WAIT = 20.0


def told(events, kind):
    """Give the payloads of one kind."""
    return [e.payload for e in events if e.event_type == f"gumem.{kind}"]


def test_a_turn_its_digest_and_a_forgetting_are_told_with_counts_and_no_text():
    """Each step once, in its order, for whom it was, with times, requests and tokens."""
    with RuleModel("Noted.") as model, GUMem() as gumem, hooked(*NAMES) as events:
        agent = agent_of(model)
        attached(gumem, agent, "s", when=EveryNTurns(1), wait=20)
        agent.input(TELL).start()
        gumem.user("alice").forget(matching="Biscuit")
        gumem.flush(20)
        whose = {"user_id": "alice", "space": "default", "session_id": "s"}
        assert [e.event_type.removeprefix("gumem.") for e in events] == [
            "recalled",
            "journaled",
            "triggered",
            "digested",
            "forgotten",
        ]
        recalled, journaled, triggered, digested, forgotten = [e.payload for e in events]
        for payload in (recalled, journaled, triggered, digested):
            assert {k: payload[k] for k in whose} == whose
        assert recalled["items"] == {}
        assert recalled["tokens"] == 0
        assert recalled["seconds"] > 0
        assert (journaled["messages"], journaled["pending"]) == (2, 2)
        assert (triggered["turns"], triggered["digest"]) == (1, True)
        assert (digested["messages"], digested["new"], digested["requests"]) == (2, 1, 1)
        assert digested["tokens_in"] > 500
        assert digested["tokens_out"] > 0
        assert digested["seconds"] > 0
        assert (forgotten["messages"], forgotten["facts"], forgotten["by"]) == (1, 1, "call")
        assert "Biscuit" not in json.dumps([e.payload for e in events])


def test_what_is_recalled_is_counted_by_layer():
    """A question that finds something says how much of each layer, and how many tokens."""
    with RuleModel() as model, GUMem() as gumem, hooked("gumem.recalled") as events:
        agent = agent_of(model)
        attached(gumem, agent, "s", when=EveryNTurns(1), wait=20)
        agent.input(TELL).start()
        agent.activate_session(session_id="t")
        agent.input("What is my dog called?").start()
        gumem.flush(20)
        last = told(events, "recalled")[-1]
        assert last["items"] == {"memo": 1, "turn": 1}
        assert last["tokens"] > 10
        assert last["abstained"] is False


def test_a_failure_is_told_as_one_of_its_kind():
    """A model that is down fails the digest: what, and by which error; never a text."""
    with (
        ScriptedModel("Noted.", memory=Reply("down", status=500)) as model,
        GUMem() as gumem,
        hooked("gumem.failed", "gumem.digested") as events,
    ):
        agent = agent_of(model)
        attached(gumem, agent, "s", when=EveryNTurns(1), wait=20)
        agent.input(TELL).start()
        gumem.flush(20)
        assert [e.event_type for e in events] == ["gumem.failed"]
        assert events[0].payload == {
            "user_id": "alice",
            "space": "default",
            "session_id": "s",
            "what": "digest",
            "error": "ModelError",
        }
        assert events[0].level == "WARNING"


def test_a_digest_that_fails_in_a_sweep_is_told_once(use):
    """For whom it was, as any other; the sweep counts it."""
    use(ScriptedModel(memory=Reply("down", status=500)))
    with GUMem() as gumem, hooked("gumem.failed") as events:
        gumem.user("alice").add_messages({"content": TELL})
        assert gumem.sweep()["failed"] == 1
        gumem.flush(20)
        assert [(e.payload["user_id"], e.payload["what"]) for e in events] == [("alice", "digest")]
        assert gumem.status()["errors"]["sweep"] == 1


async def _refuse(*_):
    raise StoreError("the disk is full")


def test_a_user_for_whom_a_sweep_fails_is_named(monkeypatch):
    """What went wrong beside a digest is told as one of whom it was, too."""
    import_module("agently_gumem.remember.digest")  # its own `expire` stays as it is
    monkeypatch.setattr("agently_gumem.remember.forgetting.retention.expire", _refuse)
    past = datetime.now(timezone.utc) - timedelta(days=1)
    with GUMem() as gumem, hooked("gumem.failed") as events:
        gumem.user("alice").add_messages({"content": TELL, "expires_at": past})
        assert gumem.sweep()["failed"] == 1
        gumem.flush(20)
        whose = {"user_id": "alice", "space": "default"}
        assert events[0].payload == {**whose, "what": "sweep", "error": "StoreError"}


def test_a_session_whose_user_can_not_be_told_is_told_once():
    """The application's function raised: there is no memory for that session, which is said."""

    def fail(_session_id):
        raise KeyError("alice@example.org")

    with GUMem() as gumem, hooked("gumem.failed") as events:
        agent = Agently.create_agent()
        memory = gumem.attach(agent, user_id=fail)
        agent.activate_session(session_id="monday")
        assert memory.status()["active"] is memory.status()["active"] is False
        gumem.flush(20)
        assert [e.payload for e in events] == [
            {
                "user_id": "",
                "space": "default",
                "session_id": "monday",
                "what": "user_id",
                "error": "KeyError",
            }
        ]


def test_what_expires_is_told_as_forgotten():
    """A lifetime that has passed tells the same event, with what made it go."""
    past = datetime.now(timezone.utc) - timedelta(days=1)
    with GUMem() as gumem, hooked("gumem.forgotten") as events:
        gumem.user("alice").add_messages({"content": TELL, "expires_at": past})
        gumem.sweep()
        gumem.flush(20)
        assert [(e.payload["by"], e.payload["messages"]) for e in events] == [("retention", 1)]


def test_each_event_is_a_line_of_the_log_without_names(caplog):
    """Standard logging has them all at DEBUG, and neither whose they are nor what was said."""
    caplog.set_level(logging.DEBUG, logger="agently_gumem.events")
    with GUMem() as gumem:
        gumem.user("alice@example.org").add_messages({"content": TELL})
    lines = [r.getMessage() for r in caplog.records if r.name == "agently_gumem.events"]
    assert lines == ["gumem.journaled {'messages': 1, 'pending': 1}"]


def test_a_hook_that_blocks_holds_up_no_turn_and_what_it_misses_is_counted():
    """Turns, recalls and digests go on beside it; past a bound its events are left out."""
    gate, blocked = threading.Event(), threading.Event()

    def hook(_event):
        blocked.set()
        gate.wait(60)

    center = Agently.event_center
    newer = hasattr(center, "create_emitter")
    args = (hook,) if newer else ("data", hook)
    center.register_hook(*args, hook_name="blocks", **({"event_types": NAMES} if newer else {}))
    try:
        with RuleModel("Noted.") as model, GUMem() as gumem:
            agent = agent_of(model)
            memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=WAIT)
            asked = time.monotonic()
            assert agent.input(TELL).start() == "Noted."
            assert blocked.wait(20)
            for _ in range(MOST_WAITING + 10):
                gumem._engine.events.tell("recalled", {})
            assert agent.input("What is my dog called?").start() == "Noted."
            assert memory.status()["facts"] == 1
            assert gumem.status()["events_left_out"]["recalled"] >= 10
            assert time.monotonic() - asked < WAIT  # it is no part of what a turn waits for
            gate.set()
    finally:
        gate.set()
        center.unregister_hook(*(("blocks",) if newer else ("data", "blocks")))


def test_the_end_of_the_process_ends_the_events():
    """What was told before the end is heard, and nothing after it."""
    with hooked("gumem.journaled") as events:
        told_by = Events()
        told_by.tell("journaled", {"messages": 1})
        told_by.close()
        told_by.tell("journaled", {"messages": 2})
        told_by._told.result(20)
        assert [e.payload for e in events] == [{"messages": 1}]
