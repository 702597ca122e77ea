"""Faults that were found by trying to break the memory: each stays mended."""

import gc
import json
import shutil
import threading
import weakref
from datetime import datetime

import chromadb
import pytest
from e2e import agent_of, attached, swept

from agently_gumem import (
    ConfigError,
    EveryNTurns,
    GUMem,
    Idle,
    Manual,
    SessionEnd,
    StageBoundary,
    WindowExceeds,
)
from agently_gumem.testing import Reply, RuleModel, ScriptedModel


def drafted(**more):
    """Make an answer with one Fact that holds."""
    fact = {"ref": "f1", "content": "User's dog is called Biscuit", "sources": ["m1"], **more}
    return {"facts": [fact]}


@pytest.mark.parametrize("confidence", ["nan", "inf", -3, 7])
def test_a_confidence_that_is_no_share_blocks_nothing(use, confidence):
    """The Fact is stored with a confidence between 0 and 1."""
    with use(ScriptedModel(memory=drafted(confidence=confidence))), GUMem() as gumem:
        user = gumem.user("alice")
        user.add_messages({"content": "My dog is called Biscuit."}, digest=True)
        assert 0.0 <= user.facts()[0].confidence <= 1.0


def test_a_sweep_goes_on_past_a_user_that_fails(use):
    """One user's fault holds up no other."""

    def answer(request):
        return Reply(status=500) if "Rex" in request.text else drafted()

    with use(ScriptedModel(memory=answer)), GUMem() as gumem:
        gumem.user("alice").add_messages({"content": "My dog is called Rex."})
        gumem.user("bob").add_messages({"content": "My dog is called Biscuit."})
        assert gumem.sweep() == swept(users=2, messages=1, failed=1)


def test_a_text_that_the_embedder_refuses_is_stored_and_found_by_its_words():
    """What was said is kept whatever the embedder makes of it, and what comes after too."""

    def embed(texts):
        if any("poison" in t for t in texts):
            raise ValueError
        return [[1.0, float(len(t) % 7)] for t in texts]

    with GUMem(embedding_function=embed) as gumem:
        user = gumem.user("alice")
        user.add_messages([{"content": "My poison ring is silver."}, {"content": "I ski."}])
        assert len(user.messages()) == 2
        assert "poison ring" in user.query("Which poison ring?").formatted_context
        assert gumem.status()["errors"]["embedder"] > 0


def test_what_the_embedder_was_down_for_is_embedded_at_the_next_load(tmp_path):
    """Once; while it is down it is not asked for each text alone."""
    asked = []

    def embed(texts):
        asked.append(list(texts))
        if down:
            raise ValueError
        return [[1.0, float(len(t) % 7)] for t in texts]

    def told(text):
        return any(text in texts for texts in asked)

    down = False
    with GUMem(tmp_path, embedding_function=embed) as gumem:
        down = True
        gumem.user("alice").add_messages([{"content": f"I ski on day {i}."} for i in range(40)])
        assert len(asked) < 20
    down = False
    for again in (True, False):
        asked.clear()
        with GUMem(tmp_path, embedding_function=embed) as gumem:
            gumem.user("alice").messages()
            assert told("I ski on day 8.") is again


def test_texts_that_the_embedder_refuses_keep_no_other_from_its_vector():
    """The bad ones are found by halves; all others have their vectors at once."""
    good = set()

    def embed(texts):
        if any("poison" in t for t in texts):
            raise ValueError
        good.update(texts)
        return [[1.0, float(len(t) % 7)] for t in texts]

    with GUMem(embedding_function=embed) as gumem:
        texts = [f"I row on day {i}." for i in range(50)]
        poison = [f"My poison ring {i}." for i in range(3)]
        gumem.user("alice").add_messages([{"content": t} for t in [*texts, *poison, "I ski."]])
        assert good.issuperset([*texts, "I ski."])


class Picky:
    """An embedder that refuses what holds "poison", and all while it is down; it keeps count."""

    def __init__(self):
        self.calls = 0
        self.down = False
        self.good = set()

    def __call__(self, input):
        """Give vectors of two numbers."""
        self.calls += 1
        if self.down or any("poison" in text for text in input):
            raise ValueError
        self.good.update(input)
        return [[0.0 if "void" in text else 1.0, 0.0] for text in input]

    def take_calls(self):
        """Tell the calls since the last time."""
        calls, self.calls = self.calls, 0
        return calls


def test_two_refused_texts_among_many_leave_no_other_without_its_vector():
    """What is embedded between two refusals shows that the embedder is up."""
    embed = Picky()
    texts = [f"I row on day {i}." for i in range(64)]
    texts[20], texts[50] = "My poison ring.", "My poison cup."
    with GUMem(embedding_function=embed) as gumem:
        gumem.user("alice").messages()
        embed.take_calls()
        gumem.user("alice").add_messages([{"content": text} for text in texts])
        assert embed.good.issuperset(t for t in texts if "poison" not in t)
        assert embed.take_calls() <= 30


def test_a_refused_text_is_asked_for_three_times_and_holds_up_no_other(use, tmp_path):
    """A row of them takes more than one round; good ones behind it get theirs in the second."""
    embed = Picky()
    good = [f"I row on day {i}." for i in range(20)]
    poison = [f"My poison ring {i}." for i in range(12)]

    with (
        use(ScriptedModel(memory={"facts": []})),
        GUMem(tmp_path, embedding_function=embed) as gumem,
    ):
        user = gumem.user("alice")
        user.add_messages([{"content": text} for text in [*good, *poison]])
        spent = []
        for day in range(12):
            user.add_messages({"content": f"I ski on day {day}."})
            embed.take_calls()
            user.digest()
            spent.append(embed.take_calls())
            if day == 0:
                assert embed.good.issuperset(good)
        assert spent[0] > 0
        assert spent[-3:] == [0, 0, 0]
        user.add_messages({"content": "My poison ring 0."})
        assert embed.take_calls() == 0
        assert "poison ring 7" in user.query("Which poison ring 7?").formatted_context


def test_an_outage_is_no_refusal(use):
    """However often it is met, what was said gets its vector once the embedder is back."""
    embed = Picky()
    texts = [f"I row on day {i}." for i in range(20)]
    with use(ScriptedModel(memory={"facts": []})), GUMem(embedding_function=embed) as gumem:
        user = gumem.user("alice")
        user.messages()
        embed.down = True
        user.add_messages([{"content": text} for text in texts])
        for _ in range(6):
            embed.take_calls()
            user.digest()
            assert embed.take_calls() <= 24  # twice: what is missing, and the request's own texts
        embed.down = False
        user.digest()
        assert embed.good.issuperset(texts)


def test_a_text_whose_vector_is_zero_is_done(tmp_path):
    """It is not among those that wait for one; after a load it is asked for once."""
    for _ in range(2):
        with GUMem(tmp_path, embedding_function=Picky()) as gumem:
            user = gumem.user("alice")
            user.add_messages([{"id": "v", "content": "void"}, {"id": "s", "content": "I ski."}])
            (scope,) = gumem._engine.loaded()
            assert scope._bare == {}


def test_past_the_limit_of_bytes_the_users_that_came_first_are_let_go(tmp_path):
    """They are read again when they come back; who came last is still there."""
    loads = []

    class Counting:
        """A client that notes the reads of its collections."""

        def __init__(self, inner):
            self._inner = inner

        def __getattr__(self, name):
            return getattr(self._inner, name)

        def get_or_create_collection(self, *args, **named):
            return Counting(self._inner.get_or_create_collection(*args, **named))

        def get(self, **named):
            loads.append(named)
            return self._inner.get(**named)

    client = Counting(chromadb.PersistentClient(str(tmp_path)))
    with GUMem(client=client, limits={"index_bytes": 400_000}) as gumem:
        for number in range(12):
            gumem.user(f"user-{number}").add_messages({"content": f"I own {number} cats."})
        loads.clear()
        assert "11 cats" in gumem.user("user-11").messages()[0].content
        assert not loads
        assert "0 cats" in gumem.user("user-0").messages()[0].content
        assert len(loads) == 1


def test_closing_in_the_middle_of_a_turn_leaves_the_turn_whole():
    """The user gets the answer; what came too late is told as closed."""
    with ScriptedModel("Noted.") as model:
        gumem = GUMem()
        agent = agent_of(model)
        attached(gumem, agent, "s", when=Manual())
        model.hold("chat")
        answers = []
        turn = threading.Thread(target=lambda: answers.append(agent.input("Hello there.").start()))
        turn.start()
        model.wait_for(1, "chat")
        gumem.close()
        model.release("chat")
        turn.join(20)
        assert answers == ["Noted."]


@pytest.mark.parametrize("minutes", [0.0005, 30])
def test_agents_that_are_done_with_are_let_go(minutes):
    """No clock of a session keeps its agent: not after it rang, and not after the end."""
    with ScriptedModel("Noted.") as model, GUMem() as gumem:

        def chat():
            agent = agent_of(model)
            memory = gumem.attach(agent, user_id="alice", when=Idle(minutes), wait=0)
            agent.activate_session(session_id=f"s{id(agent)}")
            asked = len(model.memory_requests)
            agent.input("Hello there.").start()
            if minutes < 1:
                model.wait_for(asked + 1, "memory")
            memory.end()
            memory.detach()
            gumem.flush(20)
            return weakref.ref(memory)

        held = [chat() for _ in range(12)]
        gc.collect()
        assert gumem._engine.timers == {}
        assert sum(ref() is not None for ref in held) <= 6  # Agently itself keeps its last ones


def test_an_async_trigger_is_refused():
    """A coroutine is always true; it would fire at each turn."""

    async def when(state):
        return False

    with GUMem() as gumem, pytest.raises(ConfigError, match="async"):
        gumem.session("alice", "s", when=when)


def test_after_a_failure_stage_marks_wait_and_the_end_does_not():
    """An outage is not asked about at each mark; the end of a session is the last chance."""
    with ScriptedModel("Noted.", memory=Reply(status=500)) as model, GUMem() as gumem:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=StageBoundary() | SessionEnd(), wait=20)
        agent.input("My dog is called Biscuit.").start()
        for stage in ("one", "two", "three"):
            memory.mark_stage(stage)
        asked = len(model.memory_requests)
        memory.end()
        gumem.flush(20)
        assert len(model.memory_requests) > asked
        assert asked == len({r.text for r in model.memory_requests}) == 1


def test_while_paused_neither_outcome_nor_old_memo_nor_running_digest_is_kept():
    """A pause holds on every way in."""
    with ScriptedModel("Noted.", memory=drafted()) as model, GUMem() as gumem:
        agent = agent_of(model)
        memory = attached(gumem, agent, "s", when=EveryNTurns(1), wait=0)
        user = gumem.user("alice")
        model.hold("memory")
        agent.input("My dog is called Biscuit.").start()
        model.wait_for(1, "memory")
        user.pause()
        model.release("memory")
        gumem.flush(20)
        memory.mark_stage("plan", outcome={"choice": "red"})
        assert user.facts() == []
        assert [m.role for m in user.messages()] == ["user", "assistant"]


def test_an_instruction_stays_first_in_the_window_and_a_pause_cuts_nothing():
    """Only what the store holds may leave, and an application's own rule never does."""
    with ScriptedModel("Noted.") as model, GUMem() as gumem:
        agent = agent_of(model)
        attached(gumem, agent, "s", when=WindowExceeds(messages=6), keep=2)
        agent.set_chat_history([{"role": "system", "content": "Answer in rhyme."}])
        for n in range(6):
            agent.input(f"Question {n}?").start()
        window = agent.activated_session.context_window
        assert (window[0].role, window[0].content) == ("system", "Answer in rhyme.")
        assert len(window) <= 7
        gumem.user("alice").pause()
        for n in range(6):
            agent.input(f"Private {n}?").start()
        said = [m.content for m in agent.activated_session.context_window]
        assert all(any(f"Private {n}?" in text for text in said) for n in range(6))


def test_the_strictest_of_several_window_limits_cuts():
    """`when` may name more than one limit."""
    when = WindowExceeds(messages=100) | WindowExceeds(chars=60)
    with ScriptedModel("Noted.") as model, GUMem() as gumem:
        agent = agent_of(model)
        attached(gumem, agent, "s", when=when)
        for n in range(6):
            agent.input(f"What is the number of question {n}?").start()
        assert len(agent.activated_session.context_window) <= 4


def test_a_time_without_a_zone_is_taken_as_utc():
    """`as_of` and `since` compare with what is stored, whatever the caller's habit."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        user.add_messages({"content": "I ski in Lech.", "timestamp": "2026-05-01T10:00:00Z"})
        day = datetime(2026, 5, 2)  # noqa: DTZ001  # that is what is tested
        assert user.messages(since=day) == []
        asked = {"as_of": day}
        assert "Lech" in user.query("Where do I ski?", recall_config=asked).formatted_context


def test_a_message_can_t_take_the_place_of_a_fact_and_metadata_must_be_plain(use):
    """An id of another record, and an object in metadata, are refused by name."""
    with use(ScriptedModel(memory=drafted())), GUMem() as gumem:
        user = gumem.user("alice")
        user.add_messages({"content": "My dog is called Biscuit."}, digest=True)
        fact = user.facts()[0].id
        with pytest.raises(ConfigError, match=fact):
            user.add_messages({"content": "x", "id": fact})
        with pytest.raises(ConfigError, match="metadata"):
            user.add_messages({"content": "y", "metadata": {"x": object()}})
        user.add_messages({"content": "z", "metadata": {"x": None}})
        assert len(user.facts()) == 1


def test_one_row_that_can_t_be_read_leaves_the_rest(tmp_path):
    """A damaged row is counted, and the user goes on."""
    with GUMem(tmp_path) as gumem:
        user = gumem.user("alice")
        user.add_messages([{"content": "I ski in Lech."}, {"content": "I swim in Bregenz."}])
        rows = gumem._engine.services.store.scope("alice", "default")
        first = rows.load()[0]
        rows.write([type(first)(first.layer, first.id, json.dumps({"x": 1}), {}, first.vector)])
    with GUMem(tmp_path) as gumem:
        assert len(gumem.user("alice").messages()) == 1
        assert gumem.status()["errors"] == {"row": 1}


def test_a_store_whose_folder_was_made_anew_opens_again(tmp_path):
    """A closed store leaves no handle on files that are gone."""
    path = tmp_path / "store"
    for _ in range(2):
        with GUMem(path) as gumem:
            assert gumem.user("alice").messages() == []
            gumem.user("alice").add_messages({"content": "I ski in Lech."})
        shutil.rmtree(path)


def test_a_summary_that_fails_holds_back_no_fact(use):
    """Facts are stored first; prose for a Summary is told and not asked for at each digest."""
    rules = RuleModel()

    def answer(request):
        return "prose" if request.memory_stage == "summarize" else rules.memory(request)

    with use(ScriptedModel(memory=answer)) as model, GUMem() as gumem:
        user = gumem.user("alice")
        for kind in ("oolong", "green", "white", "black", "herbal"):
            user.add_messages({"content": f"I like {kind} tea."}, digest=True)
        stages = [r.memory_stage for r in model.memory_requests]
        assert len(user.facts()) == 5
        assert user.messages(status="pending") == []
        assert stages.count("summarize") == 4  # twice for each of two sets of Facts


def test_topics_that_share_nothing_are_not_merged_by_a_verdict(use):
    """The model's "same" counts only with some evidence."""
    rules = RuleModel()

    def answer(request):
        if request.memory_stage != "summarize":
            return rules.memory(request)
        return {"summaries": [], "same_topics": [{"keep": "tea", "other": "tax law"}]}

    with use(ScriptedModel(memory=answer)), GUMem() as gumem:
        user = gumem.user("alice")
        user.add_messages({"content": "I like tax law."}, digest=True)
        for kind in ("oolong", "green", "white", "black"):
            user.add_messages({"content": f"I like {kind} tea."}, digest=True)
        assert len(user.topics()) >= 2
