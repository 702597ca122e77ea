"""Several processes on one Chroma server: none loses, doubles or undoes what another one did."""

import itertools
import statistics
import time
from collections.abc import Iterator

import pytest
from chromaserver import Server
from e2e import fact_answer
from peer import Peer

from agently_gumem import GUMem
from agently_gumem.testing import ScriptedModel

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
        if request.memory_stage != "extract":
            return {"summaries": [], "same_topics": [], "memo": []}
        self.asked += 1
        said = [m for m in request.data["NEW MESSAGES"] if m["role"] == "user"]
        told = [f"{m['text'].rstrip('.')}, told {'again ' * self.asked}by the user." for m in said]
        facts = [{"content": t, "sources": [m["ref"]]} for t, m in zip(told, said, strict=True)]
        return {"facts": facts, "memo": []}


def own(model: ScriptedModel, **limits: float) -> dict:
    """Say which model a peer's memory asks, and how long a turn lasts without a sign of life."""
    return {"model_settings": {"OpenAICompatible": model.settings}, "limits": limits}


SAID = ["My dog is called Biscuit.", "I live in Ljubljana."]


def test_two_processes_digest_the_same_user_at_once(server, user):
    """One asks the model, the other waits for its turn and finds nothing left to do."""
    with ScriptedModel(memory=Wording()) as model:
        with Peer(server.port, **own(model)) as one, Peer(server.port, **own(model)) as two:
            one.ask("tell", user, SAID)
            model.hold("memory")
            one.ask("start", "digest", user)
            model.wait_for(1, "memory")
            two.ask("start", "digest", user)
            two.wait_until(user, digest_turn="waiting")
            assert one.ask("status", user)["digest_turn"] == "held"
            assert "Biscuit" in two.ask("query", user, "What is my dog called?")
            model.release("memory")
            done = [one.ask("join", "digest"), two.ask("join", "digest")]
            assert [d["messages"] for d in done] == [2, 0]
            assert len(model.memory_requests) == 1
            assert one.ask("facts", user) == two.ask("facts", user)
            assert len(one.ask("facts", user)) == 2


def test_a_process_that_stopped_in_the_middle_writes_nothing_once_it_is_overtaken(server, user):
    """Its turn went to another one; what it had decided, it decides anew and finds done."""
    with ScriptedModel(memory=Wording()) as model:
        limits = own(model, turn_seconds=0.6)
        with Peer(server.port, **limits) as one, Peer(server.port, **limits) as two:
            one.ask("tell", user, SAID)
            model.hold("memory")
            one.ask("start", "digest", user)
            model.wait_for(1, "memory")
            one.freeze()
            two.ask("start", "digest", user)
            model.wait_for(2, "memory")
            model.release("memory")
            assert two.ask("join", "digest")["messages"] == 2
            told = two.ask("facts", user)
            one.thaw()
            assert one.ask("join", "digest") == {"messages": 0, "new": 0, "error": ""}
            assert one.ask("facts", user) == two.ask("facts", user) == told
            assert len(told) == 2
            assert one.ask("status", user)["errors"] == {"turn": 1}


def test_the_turn_of_a_process_that_died_is_taken_over(server, user):
    """A crash in the middle of a digest loses nothing and holds up nobody for long."""
    with ScriptedModel(memory=Wording()) as model:
        limits = own(model, turn_seconds=0.6)
        with Peer(server.port, **limits) as one, Peer(server.port, **limits) as two:
            one.ask("tell", user, SAID)
            model.hold("memory")
            one.ask("start", "digest", user)
            model.wait_for(1, "memory")
            one.kill()
            model.release("memory")
            assert two.ask("digest", user)["messages"] == 2
            assert len(two.ask("facts", user)) == 2


def test_a_living_digest_keeps_its_turn_however_long_the_model_takes(server, user):
    """It shows that it lives; who waits does not take that for dead."""
    with ScriptedModel(memory=Wording()) as model:
        limits = own(model, turn_seconds=0.3)
        with Peer(server.port, **limits) as one, Peer(server.port, **limits) as two:
            one.ask("tell", user, SAID)
            model.hold("memory")
            one.ask("start", "digest", user)
            model.wait_for(1, "memory")
            rows = Watching(server, user)
            two.ask("start", "digest", user)
            rows.wait_for_beats(6)
            model.release("memory")
            assert one.ask("join", "digest")["messages"] == 2
            assert two.ask("join", "digest")["messages"] == 0
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


def test_two_processes_forget_at_once(server, user):
    """Each takes another sentence out of one message: neither comes back by the other's write."""
    text = "My dentist is Dr. Alvarez. My dog is called Biscuit. I like tea."
    with Peer(server.port) as one, Peer(server.port) as two:
        one.ask("tell", user, [text, *(f"I row on lake number {i}." for i in range(20))])
        assert two.ask("messages", user)[0] == text
        for peer, name in ((one, "Alvarez"), (two, "Biscuit")):
            peer.begin("forget", user, name)
        for peer in (one, two):
            peer.result()
        for peer in (one, two):
            told = peer.ask("export", user)
            assert "Alvarez" not in told
            assert "Biscuit" not in told
            assert "lake number 7" in told


def moving(request):
    """Answer with one Fact a message, which replaces all that is known."""
    answer = fact_answer(request)
    for fact in answer.get("facts", ()):
        fact["replaces"] = [known["ref"] for known in request.data["KNOWN FACTS"]]
    return answer


def test_a_correction_in_one_process_holds_against_a_digest_in_another(server, user):
    """The digest had the old value before it: it asks again, and replaces the corrected one."""
    with ScriptedModel(memory=moving) as model:
        with Peer(server.port, **own(model)) as one, Peer(server.port, **own(model)) as two:
            one.ask("tell", user, ["I live in Ljubljana."])
            one.ask("digest", user)
            two.ask("facts", user)
            one.ask("tell", user, ["I live in Koper now."])
            model.hold("memory")
            one.ask("start", "digest", user)
            model.wait_for(2, "memory")
            two.ask("correct", user, "I live in Ljubljana.", "I live in Maribor.")
            model.release("memory")
            assert one.ask("join", "digest")["messages"] == 1
            assert "Maribor" in model.memory_requests[-1].text
            assert one.ask("facts", user) == two.ask("facts", user) == ["I live in Koper now."]


TURNS = 30
THINGS = [
    "lamp",
    "chair",
    "kettle",
    "violin",
    "anchor",
    "ladder",
    "mirror",
    "candle",
    "basket",
    "hammer",
]


def test_a_stateless_server(server, user):
    """An agent a request, six messages restored, two processes in turn: each message once.

    What one process was told the other recalls at its next query, at the cost of what changed.
    """
    with ScriptedModel(lambda request: f"Noted, number {len(model.chat_requests)}.") as model:
        options = own(model)
        with Peer(server.port, **options) as one, Peer(server.port, **options) as two:
            history: list[dict[str, str]] = []
            costs: list[float] = []
            for number in range(TURNS):
                here, there = (one, two) if number % 2 else (two, one)
                thing = THINGS[number % 10]
                text = f"My {thing} of shelf {number} was made by {maker(number)}."
                answer = here.ask("turn", user, model.settings, history[-6:], text)
                history += [said("user", text), said("assistant", answer)]
                asked = f"Who made the {thing} of shelf {number}?"
                recalled = there.ask("measure", user, asked)
                assert maker(number) in recalled["text"]
                costs.append(recalled["rest"])
            stored = one.ask("messages", user)
            assert stored == two.ask("messages", user)
            assert stored == [m["content"] for m in history]
            first = one.ask("query", user, "Who made the candle of shelf 7?")
            assert maker(7) in first
            assert statistics.median(costs[2:]) < 4.0, costs


def said(role: str, content: str) -> dict[str, str]:
    """Return a message of Agently's history."""
    return {"role": role, "content": content}


def maker(number: int) -> str:
    """Return a name that no other turn has."""
    return f"{'BCDFGHKLMN'[number % 10]}{'aeiou'[number // 10]}rov{'aeiou'[number % 5]}k"
