"""Whose memory it is: nobody else's, whatever the ids look like, and nobody's when it is off."""

import asyncio
import gc
import itertools
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from agently import Agently
from e2e import AnyRequest, agent_of, attached, fact_answer, pairs, say, seeded, swept

from agently_gumem import ConfigError, EveryNTurns, GUMem, NotFound
from agently_gumem.flights import Flights
from agently_gumem.host import Host
from agently_gumem.testing import RuleModel, ScriptedModel

pytestmark = pytest.mark.host

IDS = [
    "alice@example.com",
    "用户 小航",
    "a b",
    "a  b",
    'O\'Neil "quoted"',
    "$ne",
    '{"$ne": ""}',
    "x" * 3000,
    "🦊🦊",
    "Alice",
    "alice",
    "alice ",
    "../alice",
    "alice/default",
    "%",
    "é",
    "e\u0301",
]


@pytest.fixture
def model():
    """A chat model that adds nothing, and a memory model that keeps the user's own words."""
    with ScriptedModel("Noted.", memory=fact_answer) as model:
        yield model


@pytest.fixture
def gumem():
    """A store in memory, all users in one shard, so that only the scope keeps them apart."""
    with GUMem(shards=1) as gumem:
        yield gumem


def word(place):
    """A word that only one user says."""
    return f"zebra{place}"


# --- two users, two spaces


def test_users_of_any_name_never_see_each_other(model, tmp_path):
    """Whatever an id looks like, it is one user: in listings, queries, requests and digests."""
    agents = {}
    with GUMem(tmp_path, shards=1) as gumem:
        for place, name in enumerate(IDS):
            gumem.user(name).add_messages({"content": f"My code word is {word(place)}."}, "s")
        for place, name in enumerate(IDS):
            user = gumem.user(name)
            assert [m.content for m in user.messages()] == [f"My code word is {word(place)}."]
            shown = user.query("What is my code word?").formatted_context
            assert word(place) in shown
            assert shown.count("zebra") == 1
    with GUMem(tmp_path) as gumem:
        for place, name in enumerate(IDS[:6]):
            agents[name] = agent = agent_of(model)
            gumem.attach(agent, user_id=name)
            agent.activate_session(session_id="s")
            agent.input("What is my code word?").start()
            section = model.chat_requests[-1].memo_section
            assert word(place) in section
            assert section.count("zebra") == 1
            assert {m.user_id for m in gumem.user(name).messages()} == {name}


def test_two_spaces_of_a_user_are_two_memories(gumem):
    """A space is seen by nobody, unless the caller of a recall names it."""
    work, home = gumem.user("alice", space="work"), gumem.user("alice", space="home")
    work.add_messages({"content": "My code word is zebra."}, "s")
    home.add_messages({"content": "My code word is giraffe."}, "s")
    assert "giraffe" not in work.query("What is my code word?").formatted_context
    assert gumem.user("alice").query("What is my code word?").formatted_context == ""
    both = work.query("What is my code word?", recall_config={"read_spaces": ["home"]})
    assert "zebra" in both.formatted_context
    assert "giraffe" in both.formatted_context
    assert gumem.user("bob", space="work").query("code word?").formatted_context == ""
    assert [m.content for m in home.messages()] == ["My code word is giraffe."]


def test_spaces_read_together_keep_their_records_apart(gumem):
    """Ids and sessions that two spaces share are not taken for one."""
    own, work = gumem.user("alice"), gumem.user("alice", space="work")
    own.add_messages([{"id": "1", "content": "My cat is called Tom."}])
    work.add_messages([{"id": "1", "content": "The invoice goes to Ghent."}])
    both = {"read_spaces": ["work"]}
    for _ in range(2):
        assert "Tom" in own.query("What is my cat called?", recall_config=both).formatted_context
        found = own.query("Where does the invoice go?", recall_config=both)
        assert "Ghent" in found.formatted_context
        work.add_messages([{"content": "The printer is on the third floor."}])
    assert "Ghent" not in own.query("Where does the invoice go?").formatted_context


def test_a_counter_that_divides_bounds_the_text(tmp_path):
    """A `count_tokens` that gives no whole number is counted up."""
    with GUMem(tmp_path, count_tokens=lambda text: len(text) / 4) as gumem:
        user = gumem.user("alice")
        user.add_messages([{"content": f"I like tea number {i}."} for i in range(20)])
        context = user.query("Which tea do I like?", recall_config={"max_tokens": 80})
        assert 0 < context.tokens <= 80


def test_user_and_space_do_not_run_into_each_other(gumem):
    """("a", "bc") and ("ab", "c") are two."""
    gumem.user("a", space="bc").add_messages({"content": "My code word is zebra."})
    for user, space in itertools.product(["ab", "a", "abc"], ["c", "b", "default"]):
        assert gumem.user(user, space=space).messages() == []


def test_a_digest_shows_the_model_nothing_of_another_user(gumem):
    """Candidates, topics and the memo of a memory request are the user's own."""
    with RuleModel("Noted.") as model:
        agents = {}
        for name, tea in (("alice", "oolong"), ("bob", "sencha")):
            agents[name] = agent = agent_of(model)
            gumem.attach(agent, user_id=name, when=EveryNTurns(1), wait=10)
            agent.activate_session(session_id="s")
            agent.input(f"My favourite drink is {tea} tea.").start()
        for name, mine, other in (("alice", "oolong", "sencha"), ("bob", "sencha", "oolong")):
            before = len(model.memory_requests)
            agents[name].input("I drink tea every day.").start()
            asked = model.memory_requests[before].text
            assert mine in asked
            assert other not in asked
            assert other not in json.dumps(gumem.user(name).memo)
            assert not [f for f in gumem.user(name).facts() if other in f.content]


def test_a_record_of_one_user_does_not_exist_for_another(gumem):
    """An id that another user's listing gave is no key to the record."""
    (message,) = gumem.user("alice").add_messages({"content": "My code word is zebra."})
    assert gumem.user("alice").explain(message.id)["messages"]
    with pytest.raises(NotFound, match="bob"):
        gumem.user("bob").explain(message.id)
    gumem.user("bob").add_messages({"id": message.id, "content": "Mine is giraffe."})
    assert [m.content for m in gumem.user("alice").messages()] == ["My code word is zebra."]
    assert [m.content for m in gumem.user("bob").messages()] == ["Mine is giraffe."]


# --- what is no id


@pytest.mark.parametrize("bad", ["", "  ", None, 7, b"alice", ["a"], "a\ud800", "a\x00b"])
def test_what_is_no_id_is_refused_by_name(bad, model, gumem):
    """An empty id, another type, a lone surrogate: a ConfigError that shows the value."""
    agent = agent_of(model)
    for use, what in (
        (lambda: gumem.user(bad), "user_id"),
        (lambda: gumem.user("alice", space=bad), "space"),
        (lambda: gumem.session("alice", bad), "session_id"),
        (lambda: gumem.session(bad, "s"), "user_id"),
        (lambda: gumem.attach(agent, user_id=bad), "user_id"),
        (lambda: gumem.attach(agent, user_id="alice", space=bad), "space"),
        (lambda: gumem.user("alice").add_messages({"content": "x"}, bad), "session_id"),
    ):
        with pytest.raises(ConfigError, match=what) as caught:
            use()
        assert repr(bad) in str(caught.value)
        str(caught.value).encode()
    gumem.attach(agent, user_id="alice")


@pytest.mark.parametrize("bad", [None, "", 3, "raise"])
def test_a_user_function_that_fails_turns_one_session_off(bad, model, gumem):
    """A bad answer for one session is told, keeps nothing there, and harms no other session."""

    def user_of(session_id):
        if session_id != "bad":
            return "alice"
        if bad == "raise":
            raise LookupError(session_id)
        return bad

    agent = agent_of(model)
    memory = gumem.attach(agent, user_id=user_of)
    agent.activate_session(session_id="bad")
    assert agent.input("My code word is zebra.").start() == "Noted."
    assert agent.input("What is my code word?").start() == "Noted."
    assert model.chat_requests[-1].memo_section is None
    assert list(memory.status()["refused_sessions"]) == ["bad"]
    with pytest.raises(NotFound, match="bad"):
        memory.session()
    agent.activate_session(session_id="good")
    agent.input("My code word is giraffe.").start()
    assert [m.content for m in gumem.user("alice").messages(role="user")] == [
        "My code word is giraffe."
    ]


# --- off


@pytest.mark.parametrize("way", [attached, seeded])
def test_without_remember_nothing_is_read_or_written(way, model, gumem):
    """remember=False: no section, no message, no memory request, and the memo stays."""
    gumem.user("alice").add_messages({"content": "I drink oolong tea."}, "x")
    agent = agent_of(model)
    memory = way(gumem, agent, "s", remember=False, when=EveryNTurns(1))
    agent.input("Which tea do I drink?").start()
    assert memory.mark_stage("end", outcome={"a": 1}) is False
    assert memory.digest().messages == 0
    assert memory.recall("Which tea do I drink?").formatted_context == ""
    assert model.chat_requests[-1].memo_section is None
    assert model.memory_requests == []
    assert len(gumem.user("alice").messages()) == 1
    assert memory.status()["active"] is False


def test_what_is_said_while_paused_never_comes_in(model, tmp_path):
    """A pause holds across restarts, and a saved history does not bring in what was said in it."""
    with GUMem(tmp_path) as gumem:
        agent = agent_of(model)
        attached(gumem, agent, "s")
        agent.input("I drink oolong tea.").start()
        gumem.user("alice").pause()
        agent.input("My secret is plum.").start()
        saved = agent.activated_session.get_json_session()
    with GUMem(tmp_path) as gumem:
        user = gumem.user("alice")
        agent = agent_of(model)
        memory = attached(gumem, agent, "s")
        agent.activated_session.load_json_session(saved)
        assert agent.input("Another secret is persimmon.").start() == "Noted."
        assert model.chat_requests[-1].memo_section is None
        assert memory.status()["paused"] is True
        assert user.query("Which tea do I drink?").formatted_context == ""
        assert user.add_messages({"content": "My secret is kiwi."}) == []
        assert user.digest().messages == 0
        saved = agent.activated_session.get_json_session()
        user.resume()
        agent.input("My dog is called Biscuit.").start()
    with GUMem(tmp_path) as gumem:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s")
        agent.activated_session.load_json_session(saved)
        agent.input("My car is a Skoda.").start()
        agent.activate_session(session_id="t")
        agent.activated_session.load_json_session(saved)
        said = [m.content for m in gumem.user("alice").messages("s", role="user")]
        assert said == ["I drink oolong tea.", "My dog is called Biscuit.", "My car is a Skoda."]
        agent.activate_session(session_id="s")
        memory.digest()
        assert memory.flush(20)  # what an earlier process left is digested beside it
        assert gumem.user("alice").messages(status="pending") == []
    assert model.memory_requests
    assert not [r for r in model.memory_requests if "plum" in r.text or "persimmon" in r.text]


def test_a_switch_turns_memory_off_and_leaves_the_chat(model, gumem, monkeypatch):
    """GUMEM_OFF=1: every request is, to the byte, that of an agent without memory."""
    monkeypatch.setenv("GUMEM_OFF", "1")
    agent, plain = agent_of(model), agent_of(model)
    plain.set_settings("session.input_keys", ["input"])
    memory = attached(gumem, agent, "s", when=EveryNTurns(1))
    plain.activate_session(session_id="s")
    for text in ("I drink oolong tea.", "Which tea do I drink?", "我喜欢什么茶？"):
        agent.input(text).start()
        plain.input(text).start()
        with_us, without = model.chat_requests[-2:]
        assert json.dumps(with_us.body) == json.dumps(without.body)
    assert model.memory_requests == []
    assert gumem.status()["off"] is True
    assert gumem.sweep() == swept()
    assert gumem.user("alice").memo == {}
    assert gumem.user("alice").add_messages({"content": "x"}) == []
    assert memory.mark_stage("end") is False
    with GUMem() as other:
        assert other.user("alice").messages() == []
    monkeypatch.delenv("GUMEM_OFF")
    agent.input("My dog is called Biscuit.").start()
    assert "Biscuit" in json.dumps(pairs(gumem.user("alice").messages()))


@pytest.mark.parametrize("way", [attached, seeded])
def test_a_switch_in_the_middle_holds_back_the_memo_as_well(way, gumem, monkeypatch):
    """What Agently holds between requests is not sent while memory is off; then it is again."""
    with RuleModel("Noted.") as model:
        agent = agent_of(model)
        way(gumem, agent, "s", when=EveryNTurns(1), wait=10)
        agent.input("I am allergic to peanuts.").start()
        assert "peanuts" in agent.activated_session.memo
        monkeypatch.setenv("GUMEM_OFF", "1")
        agent.input("Say hello.").start()
        assert model.chat_requests[-1].memo_section is None
        monkeypatch.delenv("GUMEM_OFF")
        agent.input("Say hello again.").start()
        assert "peanuts" in model.chat_requests[-1].memo_section


def test_with_memory_off_the_store_is_not_even_opened(monkeypatch):
    """GUMEM_OFF=1 also helps where the store itself is what is broken."""
    monkeypatch.setenv("GUMEM_OFF", "1")
    with GUMem("/dev/null/no-such-place") as off:
        user = off.user("alice")
        assert user.query("x").formatted_context == ""
        assert user.facts() == user.topics() == user.summaries() == user.messages() == []
        assert user.digest().messages == 0
        assert user.rebuild_memo() == {}


# --- speakers


def test_speakers_of_a_group_keep_their_names(gumem):
    """Each Fact of a group is its speaker's, and the request names them."""
    with RuleModel("Noted.") as model:
        agent = agent_of(model)
        memory = gumem.attach(agent, user_id="team")
        agent.activate_session(session_id="room")
        user = gumem.user("team")
        stored = user.add_messages(
            [
                {"content": "I am allergic to peanuts.", "speaker": "Mina"},
                {"content": "My favourite drink is oolong tea.", "speaker": "Jonas"},
                {"content": "我喜欢爬山。", "speaker": "小航"},
            ],
            "room",
        )
        assert [m.speaker for m in stored] == ["Mina", "Jonas", "小航"]
        agent.input("Who is allergic to peanuts?").start()
        assert "Mina" in model.chat_requests[-1].memo_section
        assert memory.digest().new >= 3
        subjects = {f.subject: f.content for f in user.facts()}
        assert "peanuts" in subjects["Mina"]
        assert "oolong" in subjects["Jonas"]
        assert "爬山" in subjects["小航"]
        asked = model.memory_requests[0].data["NEW MESSAGES"]
        assert [m.get("speaker") for m in asked[:3]] == ["Mina", "Jonas", "小航"]
        assert [f.content for f in user.facts(subject="mina")] == [subjects["Mina"]]


def test_the_same_words_of_two_speakers_are_two_messages(gumem):
    """Mina's tea is not Jonas's."""
    user = gumem.user("team")
    when = "2024-05-01T10:00:00Z"
    said = [
        {"content": "I like tea.", "speaker": name, "timestamp": when} for name in ("Mina", "Jonas")
    ]
    user.add_messages(said, "room")
    user.add_messages(said, "room")
    assert [(m.speaker, m.content) for m in user.messages()] == [
        ("Mina", "I like tea."),
        ("Jonas", "I like tea."),
    ]


def test_two_sessions_of_one_user_share_what_is_known(model, gumem):
    """Long-term memory is the user's; what is recent is the session's."""
    agent = agent_of(model)
    attached(gumem, agent, "one")
    say(agent.activated_session, ("My dog is called Biscuit.", "Noted."))
    other = agent_of(model)
    memory = attached(gumem, other, "two")
    other.input("What is my dog called?").start()
    assert "Biscuit" in model.chat_requests[-1].memo_section
    context = memory.recall("What is my dog called?")
    assert not [m for m in context.short_term_context if m.session_id != "two"]


def test_a_user_who_is_paused_is_so_also_while_all_is_read_anew(gumem):
    """It is read in a thread: nobody finds the user's switches half read meanwhile."""
    user = gumem.user("alice")
    first, _ = user.add_messages([{"content": "I drink tea."}, {"content": "I live in Oslo."}])
    user.forget(message_ids=[first.id])
    user.pause()
    seen = []

    async def read_anew():
        async with gumem._engine.use("alice", "default") as scope:

            class Rows(list):
                def __iter__(self):
                    for row in super().__iter__():
                        seen.append((scope.paused, len(scope.tombs)))
                        yield row

            scope._take(Rows(scope.rows.load()))

    gumem.worker.run(read_anew)
    assert set(seen) == {(True, 1)}


async def test_overlapping_users_are_seen_from_all_threads():
    """What one thread notes is not lost because another one looks at the same time."""
    flights, over, requests = Flights(), threading.Event(), (AnyRequest(), AnyRequest())

    def look():
        while not over.is_set():
            flights.overlapping()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(2000):
            for request, owner in zip(requests, (("alice", ""), ("bob", "")), strict=True):
                flights.take_off(request, owner, owner[0])
            assert flights.overlapping()
            for request in requests:
                flights.land(request)
            assert not flights.overlapping()
    finally:
        over.set()
        looking.join()
        sys.setswitchinterval(before)


async def test_an_error_that_nobody_takes_is_still_reported():
    """A task that carried a question and failed is told of by its loop, as without memory."""
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))

    async def ask():
        Flights().take_off(AnyRequest(), ("alice", ""), "Hello?")
        raise ValueError

    task = asyncio.create_task(ask())
    await asyncio.wait({task})
    del task
    gc.collect()
    assert [type(context["exception"]) for context in told] == [ValueError]


def at_once(*works):
    """Do several things at the same time, each in a thread of its own; give what they return."""
    ready = threading.Barrier(len(works))

    def begin(work):
        ready.wait(20)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return [f.result(20) for f in [pool.submit(begin, work) for work in works]]


def test_sessions_that_other_threads_activate_break_no_look_at_an_agent(gumem):
    """Agently keeps an agent's sessions in a dict, which grows meanwhile."""
    agent = Agently.create_agent()
    host = Host(agent, gumem._engine, lambda _key, _session: None)

    class Looked:
        """A session; while it is looked at another thread activates one."""

        @property
        def session_settings(self):
            later = {"session_id": "later"}
            activating = threading.Thread(target=agent.activate_session, kwargs=later)
            activating.start()
            activating.join()

    agent.sessions["first"] = Looked()
    agent.activate_session(session_id="mine")
    mine = agent.activated_session
    assert host.session_of(mine.session_settings) is mine
    assert list(agent.sessions) == ["first", "mine", "later"]


def test_threads_that_ask_first_for_a_session_share_its_memory(gumem):
    """Two first turns at once: one memory, and one that is open."""
    both = threading.Barrier(2)

    def user_of(_session_id):
        both.wait(20)
        return "alice"

    agent = Agently.create_agent()
    memory = gumem.attach(agent, user_id=user_of)
    agent.activate_session(session_id="monday")
    one, other = at_once(memory.session, memory.session)
    assert one is other
    assert [m for m in gumem._engine.sessions() if not m.ended] == [one]


def test_threads_that_bind_sessions_of_an_agent_share_what_is_set_on_it(gumem, monkeypatch):
    """Else each would see the turns of its own users alone, and none that overlap."""
    came, lock = threading.Semaphore(0), gumem._engine.agents_lock
    install = Host.install

    class Noting:
        """The lock, which notes who comes."""

        def __enter__(self):
            came.release()
            lock.acquire()

        def __exit__(self, *_):
            lock.release()

    def when_both_have_come(host):
        assert all(came.acquire(timeout=20) for _ in range(2))
        came.release(2)
        install(host)

    monkeypatch.setattr(gumem._engine, "agents_lock", Noting())
    monkeypatch.setattr(Host, "install", when_both_have_come)
    agent = Agently.create_agent()
    alice, bob = at_once(
        lambda: gumem.session("alice", "a", agent=agent),
        lambda: gumem.session("bob", "b", agent=agent),
    )
    assert alice.host is bob.host
