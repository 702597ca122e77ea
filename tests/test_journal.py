"""Each message once, none missing: real sessions against what is stored in Chroma."""

import contextlib
import json
import textwrap
from datetime import datetime, timezone

import chromadb
import forked
import pytest
from agently import Agently
from e2e import agent_of, fact_answer, handled_before, pairs, say
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem import ConfigError, GUMem, Manual
from agently_gumem.testing import Reply, RuleModel, ScriptedModel

pytestmark = pytest.mark.host

WHEN = Manual()


def cheap(texts):
    """Embed in no time: the journal does not look at vectors."""
    return [[1.0, float(len(t) % 7), float(sum(map(ord, t)) % 11), 1.0] for t in texts]


def open_agent(gumem, session_id="chat", *, model=None, user="alice"):
    """Attach a new agent and open a session on it, as a new process would."""
    agent = agent_of(model) if model else Agently.create_agent()
    memory = gumem.attach(agent, user_id=user, when=WHEN)
    agent.activate_session(session_id=session_id)
    return agent, memory


def held(gumem, user="alice", **filters):
    """Read what is stored, in its order."""
    return pairs(gumem.user(user).messages(**filters))


def history(*turns):
    """Write turns as a restored history."""
    roles = ("user", "assistant")
    return [{"role": r, "content": c} for t in turns for r, c in zip(roles, t, strict=True)]


def said(*turns):
    """Write turns as they are stored."""
    return [(m["role"], m["content"]) for m in history(*turns)]


TURNS = [(f"question {n}", f"answer {n}") for n in range(20)]


@pytest.fixture
def gumem():
    """Open a store in memory with a cheap embedder."""
    with GUMem(embedding_function=cheap) as opened:
        yield opened


def stored_texts(path):
    """Read the messages with a Chroma client of our own."""
    client = chromadb.PersistentClient(str(path))
    rows = []
    for collection in client.list_collections():
        name = getattr(collection, "name", collection)
        got = client.get_collection(name).get(where={"layer": "message"})
        rows += [json.loads(document) for document in got["documents"]]
    return [(r["role"], r["content"]) for r in sorted(rows, key=lambda r: r["sequence"])]


def test_a_turn_is_in_chroma_before_the_handler_returns(tmp_path):
    """A handler that is asked after ours finds the turn with another Chroma client."""
    found = []

    async def after(full, window, memo, session_settings):
        if full and full[-1].role == "assistant":
            found.append(stored_texts(tmp_path))

    client = chromadb.PersistentClient(str(tmp_path))
    with ScriptedModel(lambda r: f"re: {r.question}") as model, GUMem(client=client) as gumem:
        agent = agent_of(model)
        handled_before(agent, "chat", after)
        gumem.attach(agent, user_id="alice", when=WHEN)
        agent.activate_session(session_id="chat")
        agent.input("one").start()
        agent.input("two").start()
    one, two = ("one", "re: one"), ("two", "re: two")
    assert found == [said(one), said(one, two)]
    with GUMem(client=client) as gumem:
        assert held(gumem) == said(one, two)


def test_another_session_recalls_a_turn_at_once():
    """What one session just said, another session of that user has in its next request."""
    with ScriptedModel() as model, GUMem() as gumem:
        agent, _ = open_agent(gumem, "one", model=model)
        agent.input("My locker code word is marmalade.").start()
        other, _ = open_agent(gumem, "two", model=model)
        other.input("What is my locker code word?").start()
        assert "marmalade" in model.chat_requests[-1].memo_section
        stranger, _ = open_agent(gumem, "three", model=model, user="bob")
        stranger.input("What is my locker code word?").start()
        assert model.chat_requests[-1].memo_section is None


def test_journaling_twice_adds_nothing(gumem):
    """A second look at the same history, by a stage mark or a digest, stores nothing more."""
    agent, memory = open_agent(gumem)
    say(agent.activated_session, *TURNS[:2])
    memory.mark_stage("one")
    memory.mark_stage("two")
    assert held(gumem) == said(*TURNS[:2])


def test_a_restored_history_of_the_last_twenty_adds_only_what_is_new(gumem):
    """A new agent with the last twenty messages and one more turn stores that turn alone."""
    agent, _ = open_agent(gumem)
    say(agent.activated_session, *TURNS[:15])
    agent, _ = open_agent(gumem)
    agent.set_chat_history(history(*TURNS[5:15]))
    say(agent.activated_session, TURNS[15])
    assert held(gumem) == said(*TURNS[:16])


def test_a_history_that_was_never_seen_is_stored_whole(gumem):
    """A restored history of another application is stored once, at the first turn."""
    for new in TURNS[3:5]:
        agent, _ = open_agent(gumem)
        agent.set_chat_history(history(*TURNS[:3]))
        say(agent.activated_session, new)
    assert held(gumem) == said(*TURNS[:5])


def test_the_same_words_after_a_reset_are_said_again(gumem):
    """`reset_chat_history` makes nothing known: the same words are new messages."""
    agent, _ = open_agent(gumem)
    session = agent.activated_session
    say(session, ("hi", "hello"), ("yes", "ok"))
    agent.reset_chat_history()
    say(session, ("hi", "hello"), ("yes", "ok"))
    assert held(gumem) == said(*[("hi", "hello"), ("yes", "ok")] * 2)


def test_repeated_identical_messages_are_each_kept(gumem):
    """Ten times the same words are ten turns, also after a restart."""
    agent, _ = open_agent(gumem)
    say(agent.activated_session, *[("yes", "ok")] * 5)
    agent, _ = open_agent(gumem)
    agent.set_chat_history(history(*[("yes", "ok")] * 3))
    say(agent.activated_session, *[("yes", "ok")] * 5)
    assert held(gumem) == said(*[("yes", "ok")] * 10)


def test_a_session_goes_on_from_json_and_from_an_old_snapshot(gumem):
    """Continued elsewhere from JSON, and once more from an older one: only what is new."""
    agent, _ = open_agent(gumem)
    say(agent.activated_session, *TURNS[:3])
    old = agent.activated_session.get_json_session()
    say(agent.activated_session, *TURNS[3:5])
    new = agent.activated_session.get_json_session()
    for saved, turn in ((new, TURNS[5]), (old, TURNS[6]), (new, TURNS[7])):
        agent, _ = open_agent(gumem)
        agent.activated_session.load_json_session(saved)
        say(agent.activated_session, turn)
    assert held(gumem) == said(*TURNS[:8])


def test_an_agent_a_request_stores_twenty_four_for_twenty_four():
    """A server that builds an agent a request and restores the last six messages."""
    turns = [("yes", "ok"), ("a", "b"), ("yes", "ok"), ("c", "d")] * 3
    with ScriptedModel(lambda r: dict(turns)[r.question]) as model, GUMem() as gumem:
        for place, (question, _) in enumerate(turns):
            agent, _ = open_agent(gumem, model=model)
            agent.set_chat_history(history(*turns[max(0, place - 3) : place]))
            agent.input(question).start()
        assert held(gumem) == said(*turns)


def test_two_agents_that_say_the_same_words_keep_both(gumem):
    """Two processes go on from one snapshot with the same three turns: six are six."""
    start, _ = open_agent(gumem)
    say(start.activated_session, TURNS[0])
    saved = start.activated_session.get_json_session()
    agents = [open_agent(gumem)[0] for _ in range(2)]
    for agent in agents:
        agent.activated_session.load_json_session(saved)
    for _ in range(3):
        for agent in agents:
            say(agent.activated_session, ("yes", "ok"))
    assert held(gumem) == said(TURNS[0], *[("yes", "ok")] * 6)


def test_a_turn_that_was_rolled_back_and_asked_anew_is_kept_twice(gumem):
    """`set_chat_history` without the last turn loses nothing, and doubles nothing."""
    agent, memory = open_agent(gumem)
    session = agent.activated_session
    say(session, TURNS[0], ("draft?", "first"))
    agent.set_chat_history(history(TURNS[0]))
    memory.mark_stage("rolled back")
    assert held(gumem) == said(TURNS[0], ("draft?", "first"))
    say(session, ("draft?", "second"), TURNS[1])
    assert held(gumem) == said(TURNS[0], ("draft?", "first"), ("draft?", "second"), TURNS[1])


def test_a_history_put_onto_a_running_session_is_known(gumem):
    """A cached agent whose history is brought up to what another one said doubles nothing."""
    agent, memory = open_agent(gumem)
    say(agent.activated_session, TURNS[0])
    other, _ = open_agent(gumem)
    other.set_chat_history(history(TURNS[0]))
    say(other.activated_session, TURNS[1])
    agent.set_chat_history(history(*TURNS[:2]))
    say(agent.activated_session, TURNS[2])
    agent.reset_chat_history()
    memory.mark_stage("empty")
    agent.set_chat_history(history(*TURNS[:3]))
    say(agent.activated_session, TURNS[3])
    assert held(gumem) == said(*TURNS[:4])


def test_blank_messages_do_not_break_the_alignment(gumem):
    """A blank message is not stored, and what follows it in a restored history is known."""
    turns = [("one", "1"), ("  ", "say something"), ("two", "2"), ("three", "")]
    agent, _ = open_agent(gumem)
    say(agent.activated_session, *turns)
    agent, _ = open_agent(gumem)
    agent.set_chat_history(history(*turns))
    say(agent.activated_session, ("four", "4"))
    whole = [m for m in said(*turns, ("four", "4")) if m[1].strip()]
    assert held(gumem) == whole


def test_list_content_and_unknown_roles_are_kept_once(gumem):
    """Parts become text with a placeholder; a tool's role stays, an instruction is no turn."""
    shown = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {}}]
    restored = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": shown},
        {"role": "tool", "content": "a cat"},
        {"role": "assistant", "content": "A cat."},
    ]
    for turn in TURNS[:2]:
        agent, _ = open_agent(gumem)
        agent.set_chat_history(restored)
        say(agent.activated_session, turn)
    assert held(gumem) == [
        ("user", "What is this?\n(image_url)"),
        ("tool", "a cat"),
        ("assistant", "A cat."),
        *said(*TURNS[:2]),
    ]


def test_an_instruction_before_each_restored_history_doubles_nothing(gumem):
    """A system line with the day's date in it is new each time, and what follows is known."""
    for day, turn in enumerate(TURNS[:3]):
        agent, _ = open_agent(gumem)
        dated = {"role": "system", "content": f"Today is day {day}."}
        agent.set_chat_history([dated, *history(*TURNS[:day])])
        say(agent.activated_session, turn)
    assert held(gumem) == said(*TURNS[:3])


def test_secrets_do_not_break_the_alignment(gumem):
    """A restored history holds the secret, the store its placeholder: still known."""
    turns = [("my key is sk-abcdefghijklmnopqrstuvwx123456", "I won't keep it"), TURNS[0]]
    for new in TURNS[1:3]:
        agent, _ = open_agent(gumem)
        agent.set_chat_history(history(*turns))
        say(agent.activated_session, new)
        turns.append(new)
    stored = held(gumem)
    assert len(stored) == 8
    assert "sk-abc" not in str(stored)


def test_attempts_of_a_structured_answer_leave_one_turn():
    """A retried structured answer is one turn: what the failed attempt recorded is not kept."""
    answers = iter(["no json at all", {"city": "Rome"}])
    with ScriptedModel(lambda r: next(answers)) as model, GUMem() as gumem:
        agent, _ = open_agent(gumem, model=model)
        got = (
            agent.input("Which city?")
            .output({"city": (str,)})
            .start(ensure_keys=["city"], max_retries=2)
        )
        assert got == {"city": "Rome"}
        stored = held(gumem)
    assert len(stored) == 2
    assert stored[0] == ("user", "Which city?")
    assert "Rome" in stored[1][1]


def test_an_attempt_that_is_taken_back_while_it_is_digested_stays_away():
    """The digest that has it under way is decided anew, without it."""
    with ScriptedModel(memory=fact_answer) as model, GUMem() as gumem:
        agent, memory = open_agent(gumem, model=model)
        say(agent.activated_session, ("Which city?", "None"))
        model.hold("memory")
        digesting = gumem.worker.submit(memory.session()._digest)
        model.wait_for(1, "memory", timeout=60)
        say(agent.activated_session, ("Which city?", "Rome"))
        assert held(gumem) == said(("Which city?", "Rome"))
        model.release("memory")
        digesting.result(60)
        assert held(gumem) == said(("Which city?", "Rome"))


# --- time


def test_live_turns_have_a_time_and_restored_ones_have_none():
    """A question and its answer carry when they came, a restored history has no time."""
    began = datetime.now(timezone.utc)
    with ScriptedModel() as model, GUMem() as gumem:
        agent, _ = open_agent(gumem, model=model)
        agent.set_chat_history(history(*TURNS[:3]))
        agent.input("now").start()
        times = [m.timestamp for m in gumem.user("alice").messages()]
    assert times[:6] == [None] * 6
    assert began <= times[6] <= times[7] <= datetime.now(timezone.utc)


def test_a_request_that_failed_dates_nothing_else():
    """Neither a history restored after it nor the next question gets a failed request's time."""
    replies = iter([Reply("down", status=500)] * 4)
    down = True
    with ScriptedModel(lambda r: next(replies) if down else "ok") as model, GUMem() as gumem:
        agent, _ = open_agent(gumem, model=model)
        with pytest.raises(Exception, match="500"):
            agent.input("lost").start()
        with pytest.raises(Exception, match="500"):
            agent.input("lost again").start()
        between = datetime.now(timezone.utc)
        down = False
        agent.set_chat_history(history(*TURNS[:2]))
        agent.input("now").start()
        stored = gumem.user("alice").messages()
    assert pairs(stored) == said(*TURNS[:2], ("now", "ok"))
    assert [m.timestamp for m in stored[:4]] == [None] * 4
    assert stored[4].timestamp > between


def test_only_a_dated_message_resolves_a_relative_date():
    """The word tomorrow in a live turn becomes a date; in a restored one it stays a word."""
    with RuleModel() as model, GUMem() as gumem:
        agent, memory = open_agent(gumem, model=model)
        agent.set_chat_history(
            history(("I am flying to Oslo tomorrow.", "Noted."), ("I am in Bonn.", "Fine."))
        )
        agent.input("I am visiting Prague tomorrow.").start()
        memory.digest()
        facts = {
            c: f for f in gumem.user("alice").facts() for c in ("Oslo", "Prague") if c in f.content
        }
    assert facts["Oslo"].time_range is None
    assert "tomorrow" in facts["Oslo"].content
    assert facts["Prague"].time_range.start > datetime.now(timezone.utc)


# --- what the application gives


def test_added_messages_are_recallable_and_land_on_themselves():
    """With an id or a time a message that comes again is the same; without, it is said again."""
    when = datetime(2024, 5, 1, 9, tzinfo=timezone.utc)
    with GUMem() as gumem:
        user = gumem.user("alice")
        given = [
            {"content": "My tailor is Mr. Sato.", "id": "crm-7"},
            {"content": "The suit is grey.", "timestamp": when},
            {"content": "The suit is grey.", "timestamp": when},
            {"content": "Thanks.", "role": "assistant", "speaker": "Mia"},
        ]
        first = user.add_messages(given, session_id="import")
        again = user.add_messages(given, session_id="import")
        assert [m.id for m in first[:3]] == [m.id for m in again[:3]]
        assert len({m.id for m in first}) == 4
        assert first[3].id != again[3].id
        assert [m.timestamp for m in first] == [None, when, when, None]
        assert len(user.messages(session_id="import")) == 5
        assert first[0].id == "crm-7"
        assert "Sato" in user.query("Who is my tailor?", session_id="other").formatted_context
        assert gumem.user("bob").query("Who is my tailor?").formatted_context == ""


def test_an_id_of_one_user_is_no_id_of_another():
    """Two users may give the same id; each has a message of their own."""
    with GUMem(embedding_function=cheap) as gumem:
        for name in ("alice", "bob"):
            gumem.user(name).add_messages({"content": f"I am {name}.", "id": "1"})
        assert [held(gumem, n) for n in ("alice", "bob")] == [
            [("user", "I am alice.")],
            [("user", "I am bob.")],
        ]


def test_actions_are_kept_and_noise_is_not():
    """What the user did is kept with its fields; the state of the screen is not."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        stored = user.add_actions(
            [
                {
                    "content": "Saved: Ridgeback 3 trail shoes",
                    "event_type": "save",
                    "log_id": "log-1",
                    "page": "shoes",
                    "anchors": {"sku": "R3"},
                    "device_id": "d1",
                },
                {"content": "Scrolled the list", "event_type": "scroll"},
                {"content": "hovered over a card"},
                {"content": " ", "event_type": "save"},
            ],
            session_id="shop",
        )
        assert [(m.id, m.event_type, m.page, m.anchors) for m in stored] == [
            ("log-1", "save", "shoes", {"sku": "R3"})
        ]
        assert stored[0].metadata == {"device_id": "d1"}
        assert user.messages(event_type="save") == stored
        assert "Ridgeback" in user.query("Which trail shoes did I save?").formatted_context


def test_no_field_of_a_record_keeps_a_secret(tmp_path):
    """Page, anchors and metadata are selected as the text is, before anything is stored."""
    secret = "sk-" + "abcdefghijklmnopqrstuvwx123456"
    with GUMem(tmp_path, embedding_function=cheap) as gumem:
        user = gumem.user("alice")
        user.add_actions(
            {
                "content": f"pasted {secret}",
                "event_type": "paste",
                "page": f"/login?key={secret}",
                "anchors": {"token": secret},
                "metadata": {"deep": [{"key": secret}]},
            }
        )
        gumem.session("alice", "s").mark_stage("login", outcome={"key": secret})
        shown = str(user.messages())
    assert secret not in shown
    assert shown.count("[secret]") >= 5
    assert all(secret.encode() not in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())


@pytest.mark.parametrize("wrong", [{"text": "x"}, {"content": 7}, "hello", 3])
def test_a_wrong_record_is_refused_by_name(gumem, wrong):
    """An unknown field or another type is a ConfigError and nothing is stored."""
    with pytest.raises((ConfigError, TypeError)):
        gumem.user("alice").add_messages([{"content": "fine"}, wrong])
    assert held(gumem) == []


# --- another process

CHILD = """
import json, sys, warnings
from agently import Agently
from agently_gumem import GUMem, Manual

path, saved, turns = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
with GUMem(path) as gumem:
    agent = Agently.create_agent()
    gumem.attach(agent, user_id="alice", when=Manual())
    agent.activate_session(session_id="chat")
    agent.activated_session.load_json_session(saved)
    for question, answer in turns:
        agent.activated_session.add_chat_history({"role": "user", "content": question})
        agent.activated_session.add_chat_history({"role": "assistant", "content": answer})
"""


def test_another_process_continues_the_session(tmp_path):
    """A process that loads the saved session adds its turns; back here only ours are added."""
    with GUMem(tmp_path) as gumem:
        agent, _ = open_agent(gumem)
        say(agent.activated_session, TURNS[0], ("yes", "ok"))
        saved = agent.activated_session.get_json_session()
    more = [("yes", "ok"), TURNS[1]]
    args = [str(tmp_path), saved, json.dumps(more)]
    done = forked.run(textwrap.dedent(CHILD), *args)
    assert done.returncode == 0, done.stderr
    with GUMem(tmp_path) as gumem:
        agent, _ = open_agent(gumem)
        agent.activated_session.load_json_session(saved)
        say(agent.activated_session, ("yes", "ok"))
        assert held(gumem) == said(TURNS[0], ("yes", "ok"), *more, ("yes", "ok"))


# --- the law

word = st.sampled_from(["yes", "no", "hi"])
count = st.integers(min_value=0, max_value=4)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("say"), word),
        st.tuples(st.just("say"), word),
        st.tuples(st.just("look"), st.none()),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.just("keep"), st.none()),
        st.tuples(st.just("from_kept"), st.none()),
        st.tuples(st.just("restart_last"), count),
        st.tuples(st.just("set_last"), count),
        st.tuples(st.just("roll_back"), st.none()),
        st.tuples(st.just("reset"), st.none()),
    ),
    max_size=14,
)


class Life:
    """A conversation that goes through agents, snapshots and restored histories."""

    def __init__(self, gumem, user):
        self.gumem, self.user, self.truth = gumem, user, []
        self.kept = None
        self.renew()

    @property
    def session(self):
        """The session as it stands."""
        return self.agent.activated_session

    def renew(self, saved=None):
        """Go on with a new agent, from JSON where it is given."""
        self.agent, self.memory = open_agent(self.gumem, user=self.user)
        if saved is not None:
            self.session.load_json_session(saved)

    def do(self, name, value):
        """Do one operation."""
        last = history(*self.truth)[-2 * value :] if isinstance(value, int) and value else []
        if name == "say":
            say(self.session, (value, "ok"))
            self.truth.append((value, "ok"))
        elif name == "look":
            self.memory.mark_stage("look")
        elif name == "restart":
            self.renew(self.session.get_json_session())
        elif name == "keep":
            self.kept = self.session.get_json_session()
        elif name == "from_kept":
            self.renew(self.kept)
        elif name == "restart_last":
            self.renew()
            self.agent.set_chat_history(last)
        elif name == "set_last":
            self.agent.set_chat_history(last)
        elif name == "roll_back":
            self.agent.set_chat_history(list(self.session.full_context)[:-2])
        else:
            self.agent.reset_chat_history()


@pytest.fixture(scope="module")
def shared():
    """Open one store for all examples; each has a user of its own."""
    with GUMem(embedding_function=cheap) as opened:
        opened.made = 0
        yield opened


@given(steps=operations)
def test_each_message_is_stored_once_and_none_is_missing(shared, steps):
    """Whatever is restored, rolled back, reset or repeated: what was said, in its order."""
    shared.made += 1
    life = Life(shared, f"user-{shared.made}")
    for name, value in steps:
        life.do(name, value)
    say(life.session, ("end", "ok"))
    with contextlib.suppress(ConfigError):
        life.memory.mark_stage("look")
    assert held(shared, life.user) == said(*life.truth, ("end", "ok"))
