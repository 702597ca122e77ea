"""A flow of three stages for many users on one flow object, and a process that stops between them.

`python tests/workflows.py FOLDER USERS MODEL` runs the first stage of every user, saves the paused
executions, says so, and waits to be killed.
"""

import asyncio
import concurrent.futures
import importlib
import inspect
import json
import sys
from pathlib import Path

import pytest
from agently import Agently, TriggerFlow
from e2e import agent_of

from agently_gumem import GUMem, Stage, StageBoundary, stage_chunk

HAS_PAUSES = hasattr(TriggerFlow(name="probe").create_execution(), "save")
CLOSES = "auto_close" in inspect.signature(TriggerFlow.create_execution).parameters
SECRET = "the sentence of an exception"  # noqa: S105  # a text that must not be kept

needs_pauses = pytest.mark.skipif(not HAS_PAUSES, reason="this Agently can't save an execution")


class Endpoint:
    """A model that runs in another process."""

    def __init__(self, settings):
        self.settings = settings


def attached_to(gumem, agent, user, session_id, **options):
    """Attach an agent for a user, and activate a session of it."""
    memory = gumem.attach(agent, user_id=user, **options)
    agent.activate_session(session_id=session_id)
    return memory.session()


def kind_of(user):
    """Say how a user runs: in a session, failing once, without a session, not waiting."""
    return ("session", "fails", "bare", "hurried")[int(user[1:]) % 4]


def is_alone(user):
    """Say whether a user's execution runs in a thread of its own; the others share a loop."""
    return int(user[1:]) // 4 % 2 == 1


def said(user, stage):
    """Give what a user says in a stage: no two say the same."""
    return f"I am {user}, and in stage {stage} I chose colour {user}{stage}."


def remembered(memory, user, stage):
    """Give what an agent without a session leaves to the application to remember."""
    return [{"content": said(user, stage)}], memory.session_id


def say_now(data, stage):
    """Talk to the agent of this execution, in a plain chunk."""
    agent, memory, user = (data.require_resource(n) for n in ("agent", "memory", "user"))
    agent.input(said(user, stage)).start()
    if agent.activated_session is None:
        memory.user.add_messages(*remembered(memory, user, stage))


async def say(data, stage):
    """Talk to the agent of this execution, in an async chunk."""
    agent, memory, user = (data.require_resource(n) for n in ("agent", "memory", "user"))
    await agent.input(said(user, stage)).async_start()
    if agent.activated_session is None:
        await memory.user.async_add_messages(*remembered(memory, user, stage))


@stage_chunk("one")
async def first(data):
    """Async, as a decorated chunk."""
    await say(data, "one")
    return data.value


@stage_chunk("two")
def second(data):
    """Plain, as a decorated chunk; raises where the execution's resources say so."""
    say_now(data, "two")
    if data.get_resource("fails"):
        raise LookupError(SECRET)
    return data.value


async def third(data):
    """Async, with a stage inside it, in a sub-flow."""
    async with Stage(data, "three") as stage:
        await say(data, "three")
        stage.outcome = {"chosen": "three"}
    return data.value


async def pause_one(data):
    """Wait for somebody after the first stage."""
    return await data.async_pause_for(type="ok", resume_event="Two", interrupt_id="one")


async def pause_two(data):
    """Wait for somebody after the second stage."""
    return await data.async_pause_for(type="ok", resume_event="Three", interrupt_id="two")


CAPTURE = {
    "input": "value",
    "resources": {name: f"resources.{name}" for name in ("agent", "memory", "user", "run_id")},
}


def finish(process):
    """End a flow on the versions that wait for its end, and warn of it on the later ones."""
    if not CLOSES:
        process.end()


def three_stages():
    """Build the flow; its third stage is a sub-flow."""
    inner = TriggerFlow(name="inner")
    finish(inner.to(third))
    flow = TriggerFlow(name="three stages")
    flow.to(first).to(pause_one)
    flow.when("Two").to(second).to(pause_two)
    finish(flow.when("Three").to_sub_flow(inner, capture=CAPTURE))
    return flow


def execution_of(flow, resources):
    """Create an execution that nobody closes but the test."""
    more = {"auto_close": False} if CLOSES else {}
    return flow.create_execution(runtime_resources=resources, **more)


def resources_of(gumem, model, user):
    """Make what one user's execution needs: an agent, a memory, an id of the run."""
    agent = agent_of(model)
    options = {"when": StageBoundary(), "wait": 0 if kind_of(user) == "hurried" else 30.0}
    if kind_of(user) == "bare":
        memory = gumem.session(user, "flow", **options)
    else:
        memory = attached_to(gumem, agent, user, "flow", **options)
    return {"agent": agent, "memory": memory, "user": user, "run_id": f"run of {user}"}


def each(executions, step):
    """Take a step of each execution at once: on one loop, or in a thread with a loop of its own."""

    async def on_one_loop(users):
        return await asyncio.gather(
            *(step(executions[u], u) for u in users), return_exceptions=True
        )

    alone = [u for u in executions if is_alone(u)]
    rest = [u for u in executions if not is_alone(u)]
    with concurrent.futures.ThreadPoolExecutor(max(1, len(alone))) as pool:
        futures = [pool.submit(asyncio.run, on_one_loop([u])) for u in alone]
        done = dict(zip(rest, asyncio.run(on_one_loop(rest)), strict=True))
        return done | {u: f.result()[0] for u, f in zip(alone, futures, strict=True)}


def begin(execution, value):
    """Start an execution, and wait until it pauses or has nothing more to do."""
    return execution.async_start(value, **({} if CLOSES else {"wait_for_result": False}))


def started(executions):
    """Run the first stage of all."""
    return each(executions, begin)


def continued(executions, interrupt):
    """Run the next stage of all."""
    return each(executions, lambda ex, user: ex.async_continue_with(interrupt, user))


def loaded(flow, states, resources):
    """Load saved executions into new ones of a flow that was built the same way."""
    executions = {}
    for user, state in states.items():
        executions[user] = execution_of(flow, resources[user])
        executions[user].load(json.loads(json.dumps(state)), runtime_resources=resources[user])
    return executions


def saved(executions):
    """Save paused executions as plain data."""
    return {user: execution.save() for user, execution in executions.items()}


def main(folder, count, settings):
    """Run the first stage of every user, save, and wait for the end."""
    users = [f"u{i:02}" for i in range(int(count))]
    model, flow = Endpoint(json.loads(settings)), three_stages()
    Agently.set_settings("OpenAICompatible", model.settings)  # for memories without an agent
    gumem = GUMem(Path(folder) / "store")
    executions = {u: execution_of(flow, resources_of(gumem, model, u)) for u in users}
    failed = {u: e for u, e in started(executions).items() if isinstance(e, Exception)}
    (Path(folder) / "states.json").write_text(json.dumps(saved(executions)), "utf-8")
    print("saved", failed, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    # A saved execution names the modules of its handlers, and `__main__` is another one elsewhere.
    importlib.import_module("workflows").main(*sys.argv[1:])
