"""When memory is digested and what leaves the window: laws, then real agents over HTTP."""

import concurrent.futures
import functools
import itertools

import chromadb
import pytest
from e2e import agent_of, fact_answer, hooked, say
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem import (
    ConfigError,
    EveryNTurns,
    GUMem,
    Idle,
    Manual,
    SessionEnd,
    StageBoundary,
    StoreError,
    TriggerState,
    WindowExceeds,
)
from agently_gumem.testing import Reply, ScriptedModel
from agently_gumem.triggers import window_of

# --- laws

small = st.integers(min_value=0, max_value=20)
limits = st.integers(min_value=1, max_value=20)
states = st.builds(
    TriggerState,
    messages=small,
    chars=small,
    tokens=small,
    turns=small,
    pending=small,
    stage=st.sampled_from([None, "a", "b"]),
    ended=st.booleans(),
    idle_minutes=st.floats(min_value=0, max_value=20),
)
leaves = st.one_of(
    st.builds(WindowExceeds, messages=limits),
    st.builds(WindowExceeds, chars=limits, tokens=limits),
    st.builds(EveryNTurns, limits),
    st.builds(StageBoundary, st.sampled_from(["a", "b"])),
    st.just(StageBoundary()),
    st.just(SessionEnd()),
    st.builds(Idle, st.floats(min_value=0.1, max_value=20)),
    st.just(Manual()),
)
triggers = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a | b, inner, inner), st.builds(lambda a, b: a & b, inner, inner)
    ),
    max_leaves=6,
)


@given(triggers, triggers, states)
def test_or_is_any_and_and_is_all(one, other, state):
    """`a | b` fires when either does, `a & b` when both do, in any order and nesting."""
    assert (one | other)(state) == (one(state) or other(state)) == (other | one)(state)
    assert (one & other)(state) == (one(state) and other(state)) == (other & one)(state)


@given(triggers, st.booleans(), states)
def test_a_function_combines_from_both_sides(trigger, answer, state):
    """A plain function stands on either side of `|` and `&`."""

    def asked(_):
        return answer

    assert (asked | trigger)(state) == (trigger | asked)(state) == (answer or trigger(state))
    assert (asked & trigger)(state) == (trigger & asked)(state) == (answer and trigger(state))


roles = st.lists(st.sampled_from(["user", "assistant", "tool", "system"]), max_size=24)
whole_turns = st.integers(min_value=0, max_value=12).map(lambda n: ["user", "assistant"] * n)


@st.composite
def windows(draw, of=roles):
    """Draw roles, sizes and a limit with its `keep`."""
    shown = draw(of)
    pairs = st.tuples(st.integers(0, 9), st.integers(0, 9))
    sizes = draw(st.lists(pairs, min_size=len(shown), max_size=len(shown)))
    messages = draw(st.one_of(st.none(), st.integers(3, 20)))
    chars = draw(st.one_of(st.none(), st.integers(1, 60)))
    tokens = draw(st.one_of(st.none() if messages or chars else st.nothing(), st.integers(1, 60)))
    keep = draw(st.integers(1, (messages or 12) - 2))
    return shown, sizes, window_of(WindowExceeds(messages, chars, tokens), keep)


def opens(shown, place):
    """Say whether a turn begins at a place."""
    return place == 0 or (shown[place] == "user" and shown[place - 1] != "user")


def over(limit, shown, sizes):
    """Say which limits a window is over: (limit, size of what stands from a place on)."""
    held = (
        (limit.chars, lambda s: sum(c for c, _ in sizes[s:])),
        (limit.tokens, lambda s: sum(t for _, t in sizes[s:])),
    )
    return [(most, size) for most, size in held if most is not None and size(0) > most]


@given(windows())
def test_a_cut_is_between_turns_and_no_larger_than_its_rule(drawn):
    """A cut is at a turn's first message, spares the newest turn, and each turn had to leave."""
    shown, sizes, window = drawn
    cut = window.cut(shown, sizes)
    limit = window.limit
    many = limit.messages is not None and len(shown) > limit.messages
    sized = over(limit, shown, sizes)
    if not many and not sized:
        assert cut == 0
        return
    starts = [i for i in range(len(shown)) if opens(shown, i)]
    assert cut in starts
    assert cut <= starts[-1]
    for start in (s for s in starts if s < cut):  # stopping earlier would have broken a rule
        following = next(s for s in starts if s > start)
        assert (many and len(shown) - following >= window.keep) or any(
            size(start) > most // 2 for most, size in sized
        )


@given(windows(whole_turns))
def test_after_a_cut_the_window_is_within_its_limit(drawn):
    """One cut is enough: what stays is within every limit, or is the newest turn alone."""
    shown, sizes, window = drawn
    cut = window.cut(shown, sizes)
    kept, held = shown[cut:], sizes[cut:]
    limit = window.limit
    assert limit.messages is None or len(kept) <= limit.messages
    assert len(kept) <= 2 or not over(limit, kept, held)  # two messages are one turn
    assert len(kept) <= 2 or window.cut(kept, held) == 0


@given(st.integers(3, 30), st.integers(1, 30))
def test_keep_must_leave_something_to_cut(messages, keep):
    """`keep` above `messages` - 2 is refused; what is taken is rounded up to whole turns."""
    if keep > messages - 2:
        with pytest.raises(ConfigError, match="keep"):
            window_of(WindowExceeds(messages), keep)
        return
    shown = ["user", "assistant"] * messages
    stays = len(shown) - window_of(WindowExceeds(messages), keep).cut(shown, [(1, 1)] * len(shown))
    assert stays == keep + keep % 2


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: WindowExceeds(tokens=-1),
        lambda: WindowExceeds(messages=0),
        lambda: WindowExceeds(chars="9"),
        lambda: EveryNTurns(0),
        lambda: Idle(0),
        lambda: StageBoundary(["plan", "order"]),
        lambda: StageBoundary(""),
        lambda: SessionEnd() | "often",
        lambda: Manual() & SessionEnd,
    ],
)
def test_a_wrong_trigger_is_refused(wrong):
    """A limit that can't hold, or something that is no trigger, is a ConfigError at once."""
    with pytest.raises(ConfigError):
        wrong()


# --- end to end


class Flaky:
    """A real Chroma client whose writes fail while `failing` is set."""

    def __init__(self, client):
        self._client = client
        self.failing = False

    def __getattr__(self, name):
        return getattr(self._client, name)

    def get_or_create_collection(self, *args, **kwargs):
        """Open a real collection behind the fault."""
        return FlakyCollection(self, self._client.get_or_create_collection(*args, **kwargs))


class FlakyCollection:
    """A real collection whose writes fail as its client says."""

    def __init__(self, owner, collection):
        self._owner = owner
        self._collection = collection

    def __getattr__(self, name):
        return getattr(self._collection, name)

    def upsert(self, **rows):
        """Write, or fail as a full disk does."""
        if self._owner.failing:
            raise OSError("no space left on device")
        return self._collection.upsert(**rows)


def start(gumem, model, **options):
    """Attach an agent and open its session."""
    agent = agent_of(model)
    memory = gumem.attach(agent, user_id="alice", wait=10, **options)
    agent.activate_session(session_id="chat")
    return agent, memory


def turns(agent, *questions):
    """Ask one after the other."""
    for question in questions:
        agent.input(question).start()


def window(agent):
    """The words of the window, labels off."""
    held = agent.activated_session.context_window
    return [m.content.removeprefix("[input]:\n") for m in held]


def digested(model):
    """How many messages each digest was given."""
    asked = [r for r in model.memory_requests if r.memory_stage == "extract"]
    return [len(r.data["NEW MESSAGES"]) for r in asked]


SAID = [f"I own {n} red bicycles." for n in range(10, 30)]


def test_the_window_is_cut_by_messages():
    """Strictly more messages than the limit digest all that waits and leave `keep`."""
    with ScriptedModel(memory=fact_answer) as model, GUMem() as gumem:
        agent, _ = start(gumem, model, when=WindowExceeds(messages=6), keep=2)
        turns(agent, *SAID[:3])
        assert len(window(agent)) == 6
        assert digested(model) == []
        turns(agent, SAID[3])
        assert window(agent) == [SAID[3], "ok"]
        assert digested(model) == [8]
        assert len(gumem.user("alice").facts()) == 4


def test_the_window_is_cut_by_characters():
    """A character limit cuts to half of it, by what was said and not by labels."""
    with ScriptedModel(memory=fact_answer) as model, GUMem() as gumem:
        agent, _ = start(gumem, model, when=WindowExceeds(chars=3 * len(SAID[0] + "ok")))
        turns(agent, *SAID[:3])
        assert len(window(agent)) == 6
        turns(agent, SAID[3])
        assert window(agent) == [SAID[3], "ok"]
        assert digested(model) == [8]


def test_the_window_is_cut_by_tokens_of_the_callers_counter():
    """A token limit counts with `count_tokens`; a turn that alone is too long stays."""
    with ScriptedModel() as model, GUMem(count_tokens=lambda t: len(t.split())) as gumem:
        agent, _ = start(gumem, model, when=WindowExceeds(tokens=20))
        turns(agent, *SAID[:3])
        assert len(window(agent)) == 6
        turns(agent, SAID[3])
        assert window(agent) == [SAID[3], "ok"]
        turns(agent, "long " * 50)
        assert len(window(agent)) == 2
        assert digested(model) == [8, 2]


def test_every_n_turns_digests_and_leaves_the_window():
    """A digest on turns takes nothing out of a window that is within its limit."""
    with ScriptedModel() as model, GUMem() as gumem:
        agent, _ = start(gumem, model, when=EveryNTurns(2))
        turns(agent, *SAID[:5])
        assert digested(model) == [4, 4]
        assert len(window(agent)) == 10


def test_manual_never_digests_and_still_trims():
    """Nothing is asked of the model until `digest()`; the default limit trims all the same."""
    with ScriptedModel(memory=fact_answer) as model, GUMem() as gumem:
        agent, memory = start(gumem, model, when=Manual())
        turns(agent, *SAID[:7])
        assert window(agent) == [SAID[5], "ok", SAID[6], "ok"]
        assert digested(model) == []
        assert memory.digest().messages == 14
        assert digested(model) == [14]


def test_a_stage_mark_decides_at_once():
    """The Facts are there when `mark_stage` returns; another stage's name decides nothing."""
    with ScriptedModel(memory=fact_answer) as model, GUMem() as gumem:
        agent, memory = start(gumem, model, when=StageBoundary("requirements"))
        turns(agent, *SAID[:2])
        assert memory.mark_stage("small talk")
        assert digested(model) == []
        assert memory.mark_stage("requirements", outcome={"decision": "go"})
        assert digested(model) == [5]
        assert len(window(agent)) == 4
        stored = gumem.user("alice").messages(event_type="stage")
        assert [m.content for m in stored] == ['requirements: {"decision": "go"}']
        assert "requirements" in model.memory_requests[-1].text


def test_a_key_marks_once_also_in_a_new_process(tmp_path):
    """A mark with the same key does nothing more, at once, later, or after a restart."""
    with ScriptedModel() as model:
        with GUMem(tmp_path) as gumem:
            agent, memory = start(gumem, model, when=StageBoundary())
            turns(agent, SAID[0])
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                mark = functools.partial(memory.mark_stage, "done", key="k-1")
                marked = [f.result() for f in [pool.submit(mark) for _ in range(4)]]
            assert sorted(marked) == [False, False, False, True]
            assert not memory.mark_stage("done", key="k-1")
            assert memory.mark_stage("done", key="k-2")
        with GUMem(tmp_path) as gumem:
            agent, memory = start(gumem, model, when=StageBoundary())
            assert not memory.mark_stage("done", key="k-1")
            assert memory.mark_stage("done", key="k-3")


def test_a_mark_that_was_not_stored_can_be_made_again(tmp_path):
    """While the store fails nothing is marked, and the stage's code does not see it."""
    client = Flaky(chromadb.PersistentClient(str(tmp_path)))
    with ScriptedModel() as model, GUMem(client=client) as gumem:
        agent, memory = start(gumem, model, when=StageBoundary())
        turns(agent, SAID[0])
        client.failing = True
        assert not memory.mark_stage("done", key="k")
        client.failing = False
        assert memory.mark_stage("done", key="k")
        assert digested(model) == [2]


@pytest.mark.host
@pytest.mark.parametrize("how", ["deactivate", "switch", "close"])
def test_the_end_of_a_session_digests_it(how, tmp_path):
    """Deactivated, switched away from or closed: two turns become Facts."""
    with ScriptedModel(memory=fact_answer) as model:
        gumem = GUMem(tmp_path)
        agent, memory = start(gumem, model, when=SessionEnd())
        turns(agent, *SAID[:2])
        held = memory.session()
        if how == "deactivate":
            agent.deactivate_session()
        elif how == "switch":
            agent.activate_session(session_id="next")
        else:
            gumem.close()
        assert how == "close" or held.flush(10)
        assert digested(model) == [4]
        gumem.close()
        with GUMem(tmp_path) as again:
            assert len(again.user("alice").facts()) == 2


@pytest.mark.host
def test_activating_the_same_session_again_is_no_end():
    """`activate_session` with the id that is active digests nothing."""
    with ScriptedModel() as model, GUMem() as gumem:
        agent, memory = start(gumem, model, when=SessionEnd())
        turns(agent, SAID[0])
        agent.activate_session(session_id="chat")
        assert memory.flush(10)
        assert digested(model) == []
        agent.deactivate_session()
        assert gumem.flush(10)
        agent.activate_session(session_id="chat")
        turns(agent, SAID[1])
        agent.deactivate_session()
        assert gumem.flush(10)
        assert digested(model) == [2, 2]


@pytest.mark.host
def test_an_idle_session_is_digested():
    """When no turn comes for a while, what waits is digested, and an event says so."""
    with (
        ScriptedModel(memory=fact_answer) as model,
        GUMem() as gumem,
        hooked("gumem.digested") as events,
    ):
        agent, _ = start(gumem, model, when=Idle(0.0002))
        turns(agent, SAID[0])
        model.wait_for(1, "memory")
        assert gumem.flush(10)
        assert [e.payload["messages"] for e in events] == [2]
        assert [f.content for f in gumem.user("alice").facts()] == [SAID[0]]


def test_two_idle_times_fire_each_at_its_own():
    """`Idle(a) & Idle(b)` fires at the longer one."""
    with ScriptedModel() as model, GUMem() as gumem:
        agent, _ = start(gumem, model, when=Idle(0.0002) & Idle(0.0004))
        turns(agent, SAID[0])
        assert len(model.wait_for(1, "memory", timeout=5)) == 1


def test_a_combination_waits_for_both():
    """`&` digests only where both parts hold, while the window is still cut at its limit."""
    with ScriptedModel() as model, GUMem() as gumem:
        agent, _ = start(gumem, model, when=EveryNTurns(5) & SessionEnd())
        turns(agent, *SAID[:4])
        agent.activate_session(session_id="next")
        assert gumem.flush(10)
        assert digested(model) == []
        agent.activate_session(session_id="chat")
        turns(agent, SAID[4])
        assert digested(model) == []
        agent.deactivate_session()
        assert gumem.flush(10)
        assert digested(model) == [10]


def test_a_function_sees_the_state_of_its_moment():
    """A function is asked with what the window and the journal hold, also at the end."""
    seen = []

    def when(state):
        seen.append(state)
        return state.ended and state.messages >= 4

    with ScriptedModel() as model, GUMem() as gumem:
        agent, memory = start(gumem, model, when=when)
        turns(agent, *SAID[:2])
        memory.mark_stage("half")
        agent.deactivate_session()
        assert gumem.flush(10)
        assert digested(model) == [4]
    shown = [(s.messages, s.turns, s.pending, s.stage, s.ended) for s in seen[:4]]
    assert shown == [
        (2, 1, 2, None, False),
        (4, 2, 4, None, False),
        (4, 2, 4, "half", False),
        (4, 2, 4, None, True),
    ]
    assert seen[0].chars == len(SAID[0] + "ok")
    assert seen[0].session_id == "chat"


@pytest.mark.host
def test_a_function_that_raises_is_told_and_never_reaches_the_turn():
    """The turn is answered and journaled, the window is trimmed, and `status()` counts it."""

    def when(state):
        raise ZeroDivisionError("mine")

    with ScriptedModel() as model, GUMem() as gumem, hooked("gumem.failed") as events:
        agent, memory = start(gumem, model, when=when)
        turns(agent, *SAID[:7])
        assert len(window(agent)) == 4
        assert memory.mark_stage("done")
        assert gumem.flush(10)
        assert memory.status()["messages"] == 14
        assert gumem.status()["errors"]["trigger"] == 8
        assert memory.status()["last_error"]["error"] == "ZeroDivisionError"
        assert {e.payload["what"] for e in events} == {"trigger"}
        assert digested(model) == []


def test_a_failing_model_still_trims():
    """The window is cut while the model is down; its messages wait and are taken up later."""
    down = True

    def memory_model(request):
        return Reply("down", status=500) if down else fact_answer(request)

    with ScriptedModel(memory=memory_model) as model, GUMem() as gumem:
        agent, memory = start(gumem, model, when=WindowExceeds(messages=6), keep=2)
        turns(agent, *SAID[:4])
        assert window(agent) == [SAID[3], "ok"]
        status = memory.status()
        assert status["pending"] == 8
        assert status["next_attempt_in_turns"] == 2
        down = False
        turns(agent, *SAID[4:7])
        assert window(agent) == [SAID[6], "ok"]
        assert memory.status()["pending"] == 0
        assert len(gumem.user("alice").facts()) == 7


def test_a_failing_store_never_trims(tmp_path):
    """What is not confirmed as stored stays in the window; afterwards nothing is missing."""
    client = Flaky(chromadb.PersistentClient(str(tmp_path)))
    with ScriptedModel() as model, GUMem(client=client) as gumem:
        agent, memory = start(gumem, model, when=WindowExceeds(messages=4), keep=2)
        turns(agent, SAID[0])
        client.failing = True
        turns(agent, *SAID[1:5])
        assert len(window(agent)) == 10
        assert gumem.status()["errors"]["analysis"] >= 4
        with pytest.raises(StoreError, match="no space"):
            memory.digest()
        client.failing = False
        turns(agent, SAID[5])
        assert window(agent) == [SAID[5], "ok"]
        held = [m.content for m in gumem.user("alice").messages(role="user")]
        assert held == SAID[:6]


FIRES = {
    "window": WindowExceeds(messages=6),
    "turns": EveryNTurns(4),
    "stage": StageBoundary(),
    "end": SessionEnd(),
    "idle": Idle(0.0002),
    "manual": Manual(),
    "both": EveryNTurns(4) & WindowExceeds(messages=6),
    "function": lambda state: state.pending >= 8,
}


@pytest.mark.host
@pytest.mark.parametrize("name", FIRES)
def test_a_loaded_session_fires_as_if_it_had_gone_on(name, tmp_path):
    """A session that was saved as JSON and loaded in a new process counts and trims on."""
    with ScriptedModel(memory=fact_answer) as model:
        with GUMem(tmp_path) as gumem:
            agent, _ = start(gumem, model, when=Manual())
            say(agent.activated_session, *[(text, "ok") for text in SAID[:3]])
            saved = agent.activated_session.get_json_session()
        with GUMem(tmp_path) as gumem:
            agent, memory = start(gumem, model, when=FIRES[name], keep=2)
            agent.activated_session.load_json_session(saved)
            assert len(window(agent)) == 6
            turns(agent, SAID[3])
            assert len(window(agent)) == (2 if name in ("window", "both") else 8)
            if name == "stage":
                memory.mark_stage("done")
            elif name == "end":
                agent.deactivate_session()
            elif name == "manual":
                assert digested(model) == []
                memory.digest()
            elif name == "idle":
                model.wait_for(1, "memory")
            assert gumem.flush(10)
            assert digested(model) == [8]
            assert [f.content for f in gumem.user("alice").facts()] == SAID[:4]


def test_the_history_keeps_its_beginning_between_cuts():
    """From one request to the next the history only grows, but for one cut in several turns."""
    with ScriptedModel() as model, GUMem() as gumem:
        agent, _ = start(gumem, model, when=WindowExceeds(messages=8), keep=2)
        turns(agent, *SAID[:14])
        histories = [[m["content"] for m in r.messages[:-1]] for r in model.chat_requests]
    cuts = 0
    for before, after in itertools.pairwise(histories):
        if after[: len(before)] != before:
            cuts += 1
            assert len(after) == 2
            assert before[-1] != after[-1] or len(before) > 2
    assert cuts == 3
    assert max(len(h) for h in histories) == 8
