"""A process that forks with a memory open: `python forks.py FOLDER embedded|server [PORT]`.

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
from exits import Letters, facts

from agently_gumem import Closed, EveryNTurns, GUMem
from agently_gumem.testing import ScriptedModel


def said(user):
    """Read what a user said."""
    return sorted(m.content for m in user.messages(role="user"))


def child(gumem, agent, model, folder):
    """Use what was inherited."""
    signal.alarm(30)  # one that hangs is ended
    told = {"refused": ""}
    model.start()  # the parent's server has no thread here
    agent.set_settings("OpenAICompatible", model.settings)
    try:
        gumem.user("alice").facts()
    except Closed as error:
        told["refused"] = str(error)
    told["answered"] = asyncio.run(agent.input("I drink juice.").async_start())
    told["closed"] = gumem.status()["closed"]
    with GUMem(folder / "other", embedding_function=Letters()) as other:
        other.user("bob").add_messages({"content": "I drink ink."})
        told["other"] = said(other.user("bob"))
    told["locked"] = [] if told["closed"] else said(gumem.user("alice"))
    if not told["closed"]:
        gumem.flush(20)
        told["recalled"] = "tea" in gumem.user("alice").query("tea").formatted_context
        told["facts"] = len(gumem.user("alice").facts())
        told["errors"] = gumem.status()["errors"]
    gumem.close()
    return told


def begun(folder, where):
    """Have a memory with a digest under way, and an agent."""
    if where[0] == "server":
        client = chromadb.HttpClient(host="127.0.0.1", port=int(where[1]))
        gumem = GUMem(client=client, embedding_function=Letters())
    else:
        gumem = GUMem(folder / "embedded", embedding_function=Letters())
    model = ScriptedModel("Noted.", memory=facts).start()
    agent = Agently.create_agent()
    agent.set_settings("OpenAICompatible", model.settings)
    gumem.attach(agent, user_id="alice", when=EveryNTurns(1), wait=0)
    agent.activate_session(session_id="s")
    model.hold("memory")
    asyncio.run(agent.input("I drink tea.").async_start())
    model.wait_for(1, "memory")
    return gumem, agent, model


def held(gumem):
    """Have a thread of the parent hold each lock that a child would wait for."""
    engine = gumem._engine
    locks = [engine._sessions_lock, gumem._embedder._lock, gumem.hooks._lock]
    locks += [gumem.hooks.sent._lock, gumem.worker._lock, gumem._closing._lock]
    locks += [engine.services.prompts._environment.cache._wlock]
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
    folder, where = Path(sys.argv[1]), sys.argv[2:]
    gumem, agent, model = begun(folder, where)
    let_go = held(gumem)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        fresh = ScriptedModel("Noted.", memory=facts)
        os.write(writing, json.dumps(child(gumem, agent, fresh, folder)).encode())
        os._exit(0)
    os.close(writing)
    let_go.set()
    with os.fdopen(reading) as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    model.release("memory")
    asyncio.run(agent.input("I drink milk.").async_start())
    gumem.flush(20)
    print(json.dumps({"child": json.loads(told), "parent": said(gumem.user("alice"))}))
    gumem.close()


if __name__ == "__main__":
    main()
