"""What is forgotten is gone at once, everywhere, and does not come back: the whole way, for real."""

import json
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import bytesearch
import chromadb
import pytest
from agently import Agently
from e2e import agent_of, attached, fact_answer, hooked, pairs, seeded

from agently_gumem import EveryNTurns, GUMem, Manual, RecallConfig, WindowExceeds
from agently_gumem.testing import RuleModel, ScriptedModel

SECRET = "My dentist is Dr. Horakova."
NAME = "Horakova"
STAYS = "My cat is called Pixel."


def echo(request):
    """Answer as an assistant does that repeats what it was told, and what it recalls."""
    told = NAME in f"{request.question} {request.memo_section}"
    return f"I see: your dentist is Dr. {NAME}. Well." if told else "Noted."


def everywhere(user, agent=None):
    """Collect all that a user's memory and an agent's session hold, as one text."""
    told = [m.model_dump_json() for m in user.messages()]
    told += [f.model_dump_json() for f in user.facts(validity=None)]
    told += [s.model_dump_json() for s in user.summaries(validity=None)]
    told += [t.model_dump_json() for t in user.topics()]
    told += [json.dumps(user.memo, ensure_ascii=False), json.dumps(user.status(), default=str)]
    context = user.query("Who is my dentist?", max_tokens=4_000, memo_tokens=2_000)
    told.append(context.model_dump_json(exclude={"query"}))
    if agent is not None:
        for session in agent.sessions.values():
            told.append(session.get_json_session())
        told.append(str(agent.agent_prompt.get("chat_history")))
    return "\n".join(told)


def asked_of(requests):
    """Collect all that requests carried."""
    return "\n".join(json.dumps(r.messages, ensure_ascii=False) for r in requests)


WAYS = {
    "message": lambda user: {
        "message_ids": [m.id for m in user.messages(role="user") if NAME in m.content]
    },
    "fact": lambda user: {"fact_ids": [f.id for f in user.facts() if NAME in f.content]},
    "session": lambda user: {"session_id": "monday"},
    "matching": lambda user: {"matching": NAME.lower()},
    "user": lambda user: {"everything": True},
}
CASES = [(way, digested) for way in WAYS for digested in (False, True) if (way, digested) != ("fact", False)]


@pytest.mark.parametrize(("way", "digested"), CASES)
def test_it_is_gone_from_an_open_session_and_does_not_come_back(way, digested, tmp_path):
    """Control, forgetting, the old session JSON, ten turns more: nothing of it is anywhere."""
    with RuleModel() as memory_model, ScriptedModel(echo) as model:
        own = {"OpenAICompatible": memory_model.settings}
        with GUMem(tmp_path, model_settings=own) as gumem:
            agent = agent_of(model)
            memory = attached(gumem, agent, "monday", when=Manual())
            for said in (STAYS, SECRET, "What a day."):
                agent.input(said).start()
            if digested:
                memory.digest()
            agent.input("Tell me about my dentist.").start()
            user = gumem.user("alice")
            saved = agent.activated_session.get_json_session()
            assert NAME in everywhere(user, agent)  # the control
            assert NAME in saved
            report = user.forget(**WAYS[way](user), reason="asked for")
            assert NAME not in report.model_dump_json()
            assert NAME not in everywhere(user, agent)
            if way not in ("session", "user"):
                assert any(STAYS in m.content for m in user.messages())
                assert any(STAYS in m.content for m in agent.activated_session.full_context)

            before = len(model.requests), len(memory_model.requests)
            agent.activated_session.load_json_session(saved)
            for turn in range(10):
                agent.input(f"Tell me something nice, number {turn + 20}.").start()
            memory.digest()
            agent.activate_session(session_id="tuesday")
            agent.activated_session.set_chat_history(json.loads(saved)["full_context"])
            agent.input("Who is my dentist?").start()
            memory.digest()
            assert NAME not in everywhere(user, agent)
            assert NAME not in asked_of(model.requests[before[0] :])
            assert NAME not in asked_of(memory_model.requests[before[1] :])
            held = [m.content for m in user.messages() if m.role == "user"]
            assert sum("number 20" in text for text in held) == 1
            if way not in ("session", "user"):
                own = [m.content for m in user.messages("monday") if m.role == "user"]
                assert sum(STAYS in text for text in own) == 1
