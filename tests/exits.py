"""Ends of the interpreter, each in a fork of its own: `python exits.py FOLDER SCENARIO...`.

Prints JSON: for each scenario its exit code, its seconds from the first request of the memory to
its end, and what it said on standard error.
"""

import atexit
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import chromadb
from agently import Agently
from letters import Letters

from agently_gumem import EveryNTurns, GUMem
from agently_gumem.testing import ScriptedModel


def facts(request):
    """Find one Fact in what is said."""
    said = [m for m in request.data["NEW MESSAGES"] if m["role"] == "user"]
    return {"facts": [{"content": m["text"], "sources": [m["ref"]]} for m in said], "memo": []}


def begun(folder, **options):
    """Have a turn whose digest waits at the model."""
    model = ScriptedModel("Noted.", memory=facts).start()
    model.hold("memory")
    gumem = GUMem(folder, embedding_function=Letters(), **options)
    agent = Agently.create_agent()
    agent.set_settings("OpenAICompatible", model.settings)
    gumem.attach(agent, user_id="alice", when=EveryNTurns(1), wait=0)
    agent.activate_session(session_id="s")
    assert agent.input("I drink tea.").start() == "Noted."
    model.wait_for(1, "memory")
    return gumem, agent, model


def left(folder):
    """Nobody closes."""
    begun(folder)


def hanging(folder):
    """Nobody closes, and functions of the application never come back."""
    gumem, _, _ = begun(folder)
    hangs, for_ever = threading.Semaphore(0), threading.Event()

    def hang(*_):
        hangs.release()
        for_ever.wait()

    gumem.worker.submit(gumem.worker.apart, 5, None, hang)
    gumem.hooks.add("message.before_add", hang, timeout=600)
    gumem.worker.submit(gumem.user("bob")._add_messages, {"content": "I drink ink."})
    hangs.acquire()
    hangs.acquire()


def terminated(folder):
    """The system asks it to end, and a handler closes."""
    gumem, _, _ = begun(folder)

    def handle(*_):
        gumem.close(timeout=0.5)
        sys.exit(0)

    signal.signal(signal.SIGTERM, handle)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    threading.Event().wait()


def threaded(folder):
    """The main thread ends, and with it all executors; another goes on, and closes."""
    gumem, _, model = begun(folder)
    main = threading.main_thread()

    def go_on():
        main.join()
        model.release("memory")
        gumem.close()

    threading.Thread(target=go_on).start()


def at_exit(folder):
    """It is closed when the interpreter already ends."""
    gumem, _, _ = begun(folder)
    atexit.register(gumem.close, 1.0)


def run(folder, name):
    """Fork, and tell how the child ended."""
    said = folder / f"{name}.txt"
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        with said.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        signal.alarm(40)  # one that does not end is ended
        globals()[name](folder / name)
        return None
    _, status = os.waitpid(child, 0)
    seconds = time.monotonic() - began
    code = os.waitstatus_to_exitcode(status)
    return {"code": code, "seconds": seconds, "said": said.read_text()}


def main():
    """Run all; a child falls through to its interpreter's end."""
    assert chromadb.__version__
    folder, ended = Path(sys.argv[1]), {}
    for name in sys.argv[2:]:
        if (how := run(folder, name)) is None:
            return
        ended[name] = how
    print(json.dumps(ended))


if __name__ == "__main__":
    main()
