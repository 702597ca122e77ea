"""Several processes on one Chroma server: none loses, doubles or undoes what another one did."""

import contextlib
import itertools
import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from chromaserver import Server
from e2e import fact_answer
from peer import Peer

from agently_gumem import GUMem, UserMemory
from agently_gumem.embedder import BundledEmbedder
from agently_gumem.testing import RuleModel, ScriptedModel

NAMES = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests here; each has a user of its own."""
    with Server(tmp_path_factory.mktemp("chroma")) as server:
        yield server


@pytest.fixture
def user() -> str:
    """A user that no other test has."""
    return f"user-{next(NAMES)}"


class Wording:
    """A model that says the same Fact in other words each time that it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, request):
        """Answer a memory request."""
        if request.memory_stage != "extract":
            return {"summaries": [], "same_topics": [], "memo": []}
        self.asked += 1
        said = [m for m in request.data["NEW MESSAGES"] if m["role"] == "user"]
        told = [f"{m['text'].rstrip('.')}, told {'again ' * self.asked}by the user." for m in said]
        facts = [{"content": t, "sources": [m["ref"]]} for t, m in zip(told, said, strict=True)]
        return {"facts": facts, "memo": []}


@contextlib.contextmanager
def two(server: Server, memory: Any, answer: Any = None, **limits: float) -> Iterator[Any]:
    """Start two processes whose memories ask one model; `limits` are theirs."""
    with ScriptedModel(answer, memory=memory) as model:
        own = {"model_settings": {"OpenAICompatible": model.settings}, "limits": limits}
        with Peer(server.port, **own) as one, Peer(server.port, **own) as other:
            yield model, one, other


SAID = ["My dog is called Biscuit.", "I live in Ljubljana."]


def test_two_processes_digest_the_same_user_at_once(server, user):
    """One asks the model, the other waits for its turn and finds nothing left to do."""
    with two(server, Wording()) as (model, one, other):
        one.ask("tell", user, SAID)
        model.hold("memory")
        one.ask("start", "digest", user)
        model.wait_for(1, "memory")
        other.ask("start", "digest", user)
        other.wait_until(user, digest_turn="waiting")
        assert one.ask("status", user)["digest_turn"] == "held"
        assert "Biscuit" in other.ask("query", user, "What is my dog called?")
        model.release("memory")
        done = [one.ask("join", "digest"), other.ask("join", "digest")]
        assert [d["messages"] for d in done] == [2, 0]
        assert len(model.memory_requests) == 1
        assert one.ask("facts", user) == other.ask("facts", user)
        assert len(one.ask("facts", user)) == 2


def test_a_process_that_stopped_in_the_middle_writes_nothing_once_it_is_overtaken(server, user):
    """Its turn went to another one; what it had decided, it decides anew and finds done."""
    with two(server, Wording(), turn_seconds=0.6) as (model, one, other):
        one.ask("tell", user, SAID)
        model.hold("memory")
        one.ask("start", "digest", user)
        model.wait_for(1, "memory")
        one.freeze()
        other.ask("start", "digest", user)
        model.wait_for(2, "memory")
        model.release("memory")
        assert other.ask("join", "digest")["messages"] == 2
        told = other.ask("facts", user)
        one.thaw()
        assert one.ask("join", "digest") == {"messages": 0, "new": 0, "error": ""}
        assert one.ask("facts", user) == other.ask("facts", user) == told
        assert len(told) == 2
        assert one.ask("status", user)["errors"] == {"turn": 1}


def test_the_turn_of_a_process_that_died_is_taken_over(server, user):
    """A crash in the middle of a digest loses nothing and holds up nobody for long."""
    with two(server, Wording(), turn_seconds=0.6) as (model, one, other):
        one.ask("tell", user, SAID)
        model.hold("memory")
        one.ask("start", "digest", user)
        model.wait_for(1, "memory")
        one.kill()
        model.release("memory")
        assert other.ask("digest", user)["messages"] == 2
        assert len(other.ask("facts", user)) == 2


def test_a_living_digest_keeps_its_turn_however_long_the_model_takes(server, user):
    """It shows that it lives; who waits does not take that for dead."""
    with two(server, Wording(), turn_seconds=0.3) as (model, one, other):
        one.ask("tell", user, SAID)
        model.hold("memory")
        one.ask("start", "digest", user)
        model.wait_for(1, "memory")
        rows = Watching(server, user)
        other.ask("start", "digest", user)
        rows.wait_for_beats(6)
        model.release("memory")
        assert one.ask("join", "digest")["messages"] == 2
        assert other.ask("join", "digest")["messages"] == 0
        assert rows.epoch == 2


class Watching:
    """Reads the turn of a user's digests as the store has it."""

    def __init__(self, server: Server, user: str) -> None:
        self._gumem = GUMem(client=server.client())
        self._rows = self._gumem._engine.services.store.scope(user, "default")

    def wait_for_beats(self, count: int, within: float = 20.0) -> None:
        """Wait until the holder has shown so often that it lives."""
        until = time.monotonic() + within
        while self._rows.standing("digest").beat < count:
            assert time.monotonic() < until

    @property
    def epoch(self) -> int:
        """How many have had the turn."""
        return self._rows.standing("digest").epoch


THREE = "My dentist is Dr. Alvarez! My dog is called Biscuit! I like tea!"


def sentences(request):
    """Answer with a Fact for each sentence."""
    answer = fact_answer(request)
    drafts = answer.pop("facts", [])
    parts = [(part, d["sources"]) for d in drafts for part in d["content"].split("! ")]
    facts = [{"content": f"{part.rstrip('!')}.", "sources": told} for part, told in parts]
    return {**answer, "facts": facts} if drafts else answer


def left(contents: list[str]) -> list[str]:
    """Take out of messages what stands for that which was cut."""
    return [content.replace("[forgotten] ", "") for content in contents]


def test_two_processes_forget_at_once(server, user):
    """Each takes another sentence out of one message: neither comes back by the other's write."""
    with two(server, sentences) as (_, one, other):
        one.ask("tell", user, [THREE])
        one.ask("digest", user)
        assert len(other.ask("facts", user)) == 3
        for peer, name in ((one, "Alvarez"), (other, "Biscuit")):
            peer.begin("forget", user, name)
        assert [len(peer.result()) for peer in (one, other)] == [1, 1]
        for peer in (one, other):
            assert left(peer.ask("messages", user)) == ["I like tea!"]
            assert peer.ask("facts", user) == ["I like tea."]


class Slow(BundledEmbedder):
    """The bundled embedder, which holds one call up when it is told to."""

    def __init__(self) -> None:
        self.text = "no such text"
        self.arrived, self.go = threading.Event(), threading.Event()

    def __call__(self, input):
        """Embed; the text that is waited for, when it may."""
        if any(self.text in text for text in input):
            self.arrived.set()
            assert self.go.wait(30)
        return super().__call__(input)


def test_two_processes_forget_one_after_the_other_decided(server, user):
    """What one had decided to keep of a message the other cut meanwhile; so it decides anew."""
    slow = Slow()
    with (
        two(server, sentences) as (_, peer, _),
        GUMem(client=server.client(), embedding_function=slow) as gumem,
    ):
        peer.ask("tell", user, [THREE])
        peer.ask("digest", user)
        mine = gumem.user(user)
        slow.text = "Biscuit! I like tea"
        chosen = {"fact_ids": [fact_of(mine, "Alvarez")]}
        forgets = threading.Thread(target=mine.forget, kwargs=chosen)
        forgets.start()
        assert slow.arrived.wait(20)
        peer.ask("forget", user, "Biscuit")
        slow.go.set()
        forgets.join(20)
        assert not forgets.is_alive()
        assert left([m.content for m in mine.messages()]) == ["I like tea!"]
        assert left(peer.ask("messages", user)) == ["I like tea!"]
        assert peer.ask("facts", user) == ["I like tea."]


def test_what_is_read_of_changes_is_what_a_whole_reading_finds(server, user, use):
    """After each kind of write, by whoever reads only what changed and whoever reads all."""
    use(RuleModel())
    with contextlib.ExitStack() as stack:
        gumems = [stack.enter_context(GUMem(client=server.client())) for _ in range(3)]
        one, changes, whole = (gumem.user(user) for gumem in gumems)
        steps = [
            lambda: one.add_messages([{"content": t} for t in LIKES]),
            one.digest,
            lambda: one.correct(fact_of(one, "tea"), "The user likes coffee."),
            lambda: one.add_messages({"content": "I am allergic to nuts."}, digest=True),
            lambda: one.forget(matching="chess"),
            one.rebuild_memo,
            one.pause,
            one.resume,
            lambda: one.add_messages({"content": "I live in Koper."}),
            lambda: one.forget(everything=True),
            lambda: one.add_messages({"content": "I row."}),
        ]
        for step in steps:
            step()
            for scope in gumems[2]._engine.loaded():
                scope._revision = None
            assert known(changes) == known(whole) == known(one)
        assert [m.content for m in changes.messages()] == ["I row."]


LIKES = ["I like tea.", "I like chess.", "I like rowing.", "I like Bach.", "I like mountains."]


def fact_of(memory: UserMemory, word: str) -> str:
    """Find the id of the active Fact that says a word."""
    (fact,) = [f for f in memory.facts() if word in f.content]
    return fact.id


def known(memory: UserMemory) -> list[Any]:
    """Give all that a memory knows, in an order of its own."""
    records = [memory.messages(), memory.facts(validity=None), memory.summaries(), memory.topics()]
    held = [sorted(r.model_dump_json() for r in layer) for layer in records]
    found = memory.query("What do I like?").formatted_context
    return [*held, memory.memo, memory.status()["paused"], found]


def test_what_changed_elsewhere_is_read_and_nothing_else(server, user):
    """One row for a message; none where nothing was written."""
    with GUMem(client=server.client()) as gumem, Peer(server.port) as peer:
        mine = gumem.user(user)
        mine.add_messages([{"content": f"I row on lake number {n}."} for n in range(40)])
        assert peer.ask("measure", user, "Where do I row?")["rows"] == 40
        mine.add_messages({"content": "I row on the Drava."})
        told = peer.ask("measure", user, "Do I row on the Drava?")
        assert "Drava" in told["text"]
        assert (told["rows"], told["calls"]) == (1, 2)
        told = peer.ask("measure", user, "Where do I row?")
        assert (told["rows"], told["calls"]) == (0, 1)


def moving(request):
    """Answer with one Fact a message, which replaces all that is known."""
    answer = fact_answer(request)
    for fact in answer.get("facts", ()):
        fact["replaces"] = [known["ref"] for known in request.data["KNOWN FACTS"]]
    return answer


def test_a_correction_in_one_process_holds_against_a_digest_in_another(server, user):
    """The digest had the old value before it: it asks again, and replaces the corrected one."""
    with two(server, moving) as (model, one, other):
        one.ask("tell", user, ["I live in Ljubljana."])
        one.ask("digest", user)
        other.ask("facts", user)
        one.ask("tell", user, ["I live in Koper now."])
        model.hold("memory")
        one.ask("start", "digest", user)
        model.wait_for(2, "memory")
        other.ask("correct", user, "I live in Ljubljana.", "I live in Maribor.")
        model.release("memory")
        assert one.ask("join", "digest")["messages"] == 1
        assert "Maribor" in model.memory_requests[-1].text
        assert one.ask("facts", user) == other.ask("facts", user) == ["I live in Koper now."]


TURNS = 30
THINGS = ("lamp", "chair", "kettle", "violin", "anchor", "ladder", "mirror", "candle", "oar", "rug")


def test_a_stateless_server(server, user):
    """An agent a request, six messages restored, two processes in turn: each message once.

    What one process was told the other recalls at its next query, at the cost of what changed.
    """
    counted = itertools.count(1)
    with two(server, Wording(), lambda _: f"Noted, number {next(counted)}.") as (model, one, other):
        history: list[dict[str, str]] = []
        read: list[tuple[int, int]] = []
        for number in range(TURNS):
            here, there = (one, other) if number % 2 else (other, one)
            thing = THINGS[number % 10]
            text = f"My {thing} of shelf {number} was made by {maker(number)}."
            answer = here.ask("turn", user, model.settings, history[-6:], text)
            history += [said("user", text), said("assistant", answer)]
            asked = f"Who made the {thing} of shelf {number}?"
            recalled = there.ask("measure", user, asked)
            assert maker(number) in recalled["text"]
            read.append((recalled["calls"], recalled["rows"]))
        stored = one.ask("messages", user)
        assert stored == other.ask("messages", user)
        assert stored == [m["content"] for m in history]
        first = one.ask("query", user, "Who made the candle of shelf 7?")
        assert maker(7) in first
        # Two messages of a turn, or what a digest changed, in two calls, however much is stored;
        # tests/benchmarks/stateless.py measures the CPU time of it.
        assert {calls for calls, _ in read} == {2}
        assert max(rows for _, rows in read) <= 25
        assert sorted(rows for _, rows in read)[TURNS // 2] == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_opens_the_server_anew(server, user):
    """What it inherited connects anew, sees what is stored, and the parent sees its writes."""
    with GUMem(client=server.client()) as gumem:
        gumem.user(user).add_messages({"content": "I live in Ljubljana."})
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            told = "nothing"
            try:
                told = gumem.user(user).messages()[0].content
                gumem.user(user).add_messages({"content": "I like tea."})
                gumem.close(0)
            finally:
                os.write(writing, told.encode())
                os._exit(0)
        os.close(writing)
        ready, _, _ = select.select([reading], [], [], 30)
        told = os.read(reading, 1000).decode() if ready else "hung"
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert told == "I live in Ljubljana."
        assert [m.content for m in gumem.user(user).messages()] == [told, "I like tea."]


def said(role: str, content: str) -> dict[str, str]:
    """Return a message of Agently's history."""
    return {"role": role, "content": content}


def maker(number: int) -> str:
    """Return a name that no other turn has."""
    return f"{'BCDFGHKLMN'[number % 10]}{'aeiou'[number // 10]}rov{'aeiou'[number % 5]}k"
