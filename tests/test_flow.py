"""Stages of a TriggerFlow: a flow of three, for twenty users, over a process that is killed."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
import workflows
from e2e import fact_answer
from workflows import HAS_PAUSES, SECRET, kind_of, three_stages

from agently_gumem import GUMem
from agently_gumem.testing import Reply, ScriptedModel

pytestmark = pytest.mark.host

USERS = 20
CHOSE = re.compile(r"I am (u\d+), and in stage (\w+) ")


def stages_of(messages):
    """Name the users and stages that a request, or the sources of a Fact, tell of."""
    return {found for m in messages for found in CHOSE.findall(m)}


class Answers:
    """Answers the memory; of the users that hurry, the first digest waits until it is let go."""

    def __init__(self):
        self.let_go = threading.Event()
        self.asked = Counter()

    def __call__(self, request):
        """Hold the first stage of those that hurry."""
        if request.memory_stage != "extract":
            return fact_answer(request)
        told = stages_of(m["text"] for m in request.data["NEW MESSAGES"])
        self.asked.update([tuple(sorted(told))])
        held = all(kind_of(user) == "hurried" and stage == "one" for user, stage in told)
        if held and not self.let_go.is_set():
            return Reply(json.dumps(fact_answer(request)), wait=self.let_go)
        return fact_answer(request)


def killed_between_stages(folder, model):
    """Run the first stage of all in a process of its own, and kill it once it has saved."""
    child = subprocess.Popen(
        [sys.executable, workflows.__file__, str(folder), str(USERS), json.dumps(model.settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        lines = iter(child.stdout.readline, "")
        told = next((line for line in lines if line.startswith("saved")), "it ended early")
        assert told == "saved {}\n"
    finally:
        child.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
        child.communicate()
    return json.loads((Path(folder) / "states.json").read_text("utf-8"))


def second_stages(flow, states, resources):
    """Run the second stage of all; of some it raises at first, and runs again from the save."""
    for user, held in resources.items():
        held["fails"] = kind_of(user) == "fails"
    executions = workflows.loaded(flow, states, resources)
    ended = workflows.continued(executions, "one")
    again = {u for u in ended if kind_of(u) == "fails"}
    assert {u for u, e in ended.items() if isinstance(e, LookupError)} == again
    assert {u for u, e in ended.items() if isinstance(e, Exception)} == again
    for user in again:
        resources[user]["fails"] = False
    retried = workflows.loaded(flow, {u: states[u] for u in again}, resources)
    assert not any(isinstance(e, Exception) for e in workflows.continued(retried, "one").values())
    return executions | retried


@pytest.mark.skipif(not HAS_PAUSES, reason="this Agently can't save an execution")
def test_three_stages_of_twenty_users_over_a_kill(tmp_path, use):
    """Each stage of each user is digested once, alone, whatever happens around it."""
    answers = Answers()
    with ScriptedModel("Noted.", memory=answers) as model:
        use(model)  # for memories without an agent
        states = killed_between_stages(tmp_path, model)
        answers.let_go.set()
        flow = three_stages()
        with GUMem(tmp_path / "store") as gumem:
            resources = {u: workflows.resources_of(gumem, model, u) for u in states}
            states = workflows.saved(second_stages(flow, states, resources))
            ended = workflows.continued(workflows.loaded(flow, states, resources), "two")
            assert {u: e for u, e in ended.items() if isinstance(e, Exception)} == {}
            assert gumem.flush(30)
            assert gumem.status()["errors"] == {}
            check_requests(answers.asked)
            for user in states:
                check_user(gumem.user(user), user)


def check_requests(asked):
    """Each request of a digest told of one stage of one user; each stage was asked about once."""
    for told, times in asked.items():
        ((user, stage),) = told
        if kind_of(user) == "hurried" and stage == "one":
            # The process was killed before an answer came, perhaps before it asked.
            assert times in (1, 2), told
        else:
            attempts = kind_of(user) == "fails" and stage == "two"  # failed, then went well
            assert times == (2 if attempts else 1), told
    assert len(asked) == 3 * USERS


def check_user(memory, user):
    """Everything is processed; each Fact rests on messages of one stage, all the user's own."""
    messages = {m.id: m for m in memory.messages()}
    assert {m.status for m in messages.values()} == {"processed"}
    facts = memory.facts()
    told = [stages_of(messages[i].content for i in f.source_message_ids) for f in facts]
    assert sorted(map(sorted, told)) == [[(user, s)] for s in ("one", "three", "two")]
    outcomes = Counter(m.content for m in messages.values() if m.event_type == "stage")
    failed = {'two: {"failed": "LookupError"}': 1} if kind_of(user) == "fails" else {}
    assert outcomes == {'three: {"chosen": "three"}': 1, **failed}
    assert not any(SECRET in m.content for m in messages.values())
