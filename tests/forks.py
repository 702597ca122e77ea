"""A process that forks with memories open, embedded and served: `python forks.py FOLDER PORT`.

Prints JSON: what the child found, and what the parent has in the end.
"""

import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path

import chromadb
from agently import Agently
from exits import facts
from letters import Letters

from agently_gumem import Closed, EveryNTurns, GUMem, StoreError
from agently_gumem.testing import ScriptedModel


def said(user):
    """Read what a user said."""
    return sorted(m.content for m in user.messages(role="user"))


def used(gumem, agent, other):
    """Use what was inherited."""
    told = {"refused": ""}
    try:
        gumem.user("alice").facts()
    except Closed as error:
        told["refused"] = str(error)
    told["answered"] = asyncio.run(agent.input("I drink juice.").async_start())
    told["closed"] = gumem.status()["closed"]
    if not told["closed"]:
        user = gumem.user("alice")
        told["said"] = said(user)
        told["recalled"] = "tea" in user.query("tea").formatted_context
        told["turn"] = user.status()["digest_turn"]
        told["facts"] = digested(*other)
        told["errors"] = gumem.status()["errors"]
    gumem.close(0)
    return told


def digested(agent, memory):
    """Have another user's turn digested."""
    asyncio.run(agent.input("I drink cocoa.").async_start())
    memory.flush(20)
    return sorted(f.content for f in memory.user.facts())


def child(memories, folder):
    """Use both, and a store of its own."""
    signal.alarm(30)  # one that hangs is ended
    # The parent's server has no thread here.
    with ScriptedModel("Noted.", memory=facts) as model:
        for _, agent, (other, _) in memories.values():
            agent.set_settings("OpenAICompatible", model.settings)
            other.set_settings("OpenAICompatible", model.settings)
        told = {name: used(*memory) for name, memory in memories.items()}
    told["own"] = [refused(path) for path in (folder / "own", folder / "embedded", None)]
    return told


def refused(path):
    """Say why a store of the child's own can't be opened."""
    try:
        GUMem(path, embedding_function=Letters()).close()
    except StoreError as error:
        return str(error)
    return ""


def begun(gumem, model):
    """Have an agent with memory and a digest under way, and one of another user."""
    (agent, _), other = (attached(gumem, model, user_id) for user_id in ("alice", "bea"))
    asyncio.run(agent.input("I drink tea.").async_start())
    return gumem, agent, other


def attached(gumem, model, user_id):
    """Have an agent with memory."""
    agent = Agently.create_agent()
    agent.set_settings("OpenAICompatible", model.settings)
    memory = gumem.attach(agent, user_id=user_id, when=EveryNTurns(1), wait=0)
    agent.activate_session(session_id="s")
    return agent, memory


def held(gumem, agent):
    """Have a thread of the parent hold each lock that a child would wait for."""
    engine = gumem._engine
    locks = [engine._sessions_lock, gumem._embedder._lock, gumem.hooks._lock]
    locks += [gumem.hooks.sent._lock, gumem.worker._lock, gumem._closing._lock]
    locks += [engine.services.prompts._environment.cache._wlock]
    locks += [engine.budget.own._lock, agent._gumem_attached._host._flights._lock]
    locked, let_go = threading.Event(), threading.Event()

    def hold():
        for lock in locks:
            lock.acquire()
        locked.set()
        let_go.wait()
        for lock in locks:
            lock.release()

    threading.Thread(target=hold, daemon=True).start()
    locked.wait()
    return let_go


def main():
    """Fork in the middle of all this."""
    folder = Path(sys.argv[1])
    client = chromadb.HttpClient(host="127.0.0.1", port=int(sys.argv[2]))
    model = ScriptedModel("Noted.", memory=facts).start()
    model.hold("memory")
    memories = {
        "embedded": begun(GUMem(folder / "embedded", embedding_function=Letters()), model),
        "server": begun(
            # The parent's digest takes the only slot.
            GUMem(client=client, embedding_function=Letters(), limits={"concurrent": 1}),
            model,
        ),
    }
    model.wait_for(2, "memory")
    let_go = [held(gumem, agent) for gumem, agent, _ in memories.values()]
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, json.dumps(child(memories, folder)).encode())
        os._exit(0)
    os.close(writing)
    for event in let_go:
        event.set()
    with os.fdopen(reading) as pipe:
        told = {"child": json.loads(pipe.read() or "{}"), "parent": {}}
    os.waitpid(pid, 0)
    model.release("memory")
    for name, (gumem, agent, _) in memories.items():
        asyncio.run(agent.input("I drink milk.").async_start())
        gumem.flush(20)
        told["parent"][name] = said(gumem.user("alice"))
        gumem.close()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
