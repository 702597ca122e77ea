"""What tools return is journaled between a question and its answer, redacted, bounded, once."""

import asyncio
import dataclasses
import datetime
import json
import threading
from importlib.metadata import version

import pytest
from e2e import agent_of, hooked, pairs, seeded
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from toolplay import MARKS, Player, agent_with, begin, spare

from agently_gumem import ConfigError, GUMem, Manual, SessionEnd, called
from agently_gumem.privacy import Selection
from agently_gumem.remember.align import Said
from agently_gumem.remember.happened import RESULT_BYTES, Happened, bounded, placed
from agently_gumem.remember.select import Selector
from agently_gumem.testing import Reply, ScriptedModel
from agently_gumem.testing._rules import by_rules
from agently_gumem.tool_calls import as_wanted, calls_of, plain

pytestmark = MARKS
FEW = ("test_a_call_that_failed_is_recorded_as_such", "test_names_or_none_say_which")
ATTACH = pytest.mark.skipif(version("agently") == "4.0.8", reason="attach needs 4.0.8.1")
ONE_CALL = version("agently") < "4.0.8.5"  # 4.0.8 calls one tool a question


@pytest.fixture(autouse=True)
def _spared(request):
    """Ask less where it takes long."""
    spare(request, FEW)


def shoe_price(model: str, size: int = 42) -> dict:
    """Tell the price of a shoe."""
    return {"model": model, "size": size, "price": "649 yuan"}


async def book_table(place: str) -> str:
    """Book a table; this one always fails."""
    raise ValueError(f"{place} is full")


@pytest.fixture
def gumem():
    """Open a store in memory."""
    with GUMem() as gumem:
        yield gumem


def told(memory):
    """Read a session's messages as event, role and content."""
    found = memory.user.messages(session_id=memory.session_id)
    return [(m.event_type, m.role, m.content) for m in found]


def calls(memory):
    """Read what tools returned in a session."""
    return [content for event, _, content in told(memory) if event == "tool_call"]


# -- where it stands ------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [begin, seeded])
def test_a_call_stands_between_the_question_and_the_answer(gumem, way):
    """Name, arguments, result and outcome, in the order in which it happened."""
    player = Player("It costs 649 yuan.").calls(("shoe_price", {"model": "Trail X"}))
    with ScriptedModel(player) as model:
        agent = agent_with(model, shoe_price)
        memory = way(gumem, agent, "s", when=Manual())
        assert agent.input("How much is it?").start() == "It costs 649 yuan."
        first = memory.user.messages()[1]
        told_now = told(memory)
    returned = 'shoe_price(model=Trail X) returned {"model": "Trail X", "size": 42, '
    assert told_now == [
        ("message", "user", "How much is it?"),
        ("tool_call", "tool", returned + '"price": "649 yuan"}'),
        ("message", "assistant", "It costs 649 yuan."),
    ]
    assert first.metadata == {"action": "shoe_price", "outcome": "succeeded"}
    assert first.timestamp is not None


def test_a_call_that_failed_is_recorded_as_such(gumem):
    """The outcome is told in words and in the metadata, beside one that went well."""
    player = Player("Full.").calls(("book_table", {"place": "Da Mario"}))
    with ScriptedModel(player) as model:
        agent = agent_with(model, book_table)
        memory = begin(gumem, agent, "s", when=Manual())
        agent.input("Book a table.").start()
        (call,) = memory.user.messages(event_type="tool_call")
    assert call.content.startswith("book_table(place=Da Mario) failed: ")
    assert "Da Mario is full" in call.content
    assert call.metadata["outcome"] == "failed"


@pytest.mark.parametrize("path", ["generator", "async_start", "async_generator"])
def test_on_every_way_of_asking(gumem, path):
    """Streaming and async callers get the same journal."""
    player = Player("Yes.").calls(("shoe_price", {"model": "A"}))
    with ScriptedModel(player) as model:
        agent = agent_with(model, shoe_price)
        memory = begin(gumem, agent, "s", when=Manual())
        if path == "generator":
            assert "".join(agent.input("Price?").get_generator(type="delta")) == "Yes."
        elif path == "async_start":
            assert asyncio.run(agent.input("Price?").async_start()) == "Yes."
        else:

            async def read():
                return [d async for d in agent.input("Price?").get_async_generator(type="delta")]

            assert "".join(asyncio.run(read())) == "Yes."
        assert [event for event, _, _ in told(memory)] == ["message", "tool_call", "message"]


def test_a_restored_history_and_another_process_double_nothing(tmp_path):
    """The history of an agent holds no call; the stored ones stay between their turns."""
    player = Player("649.").calls(("shoe_price", {"model": "A"}))
    with ScriptedModel(player) as model:
        with GUMem(path=str(tmp_path)) as gumem:
            agent = agent_with(model, shoe_price)
            memory = begin(gumem, agent, "s", when=Manual())
            agent.input("Price of A?").start()
            agent.input("Thanks!").start()
            before, held = told(memory), list(agent.activated_session.full_context)
        with GUMem(path=str(tmp_path)) as gumem:
            again = agent_with(model, shoe_price)
            memory = begin(gumem, again, "s", when=Manual())
            again.set_chat_history([{"role": m.role, "content": m.content} for m in held])
            player.calls(("shoe_price", {"model": "A"}))
            again.input("And today?").start()
            after = told(memory)
    assert after[: len(before)] == before
    assert [event for event, _, _ in after].count("tool_call") == 2
    if not ONE_CALL:  # 4.0.8 keeps each later message twice once a history was set
        assert [event for event, _, _ in after[len(before) :]] == [
            "message",
            "tool_call",
            "message",
        ]


def test_what_a_tool_did_for_a_turn_that_failed_is_not_lost(gumem):
    """The answer failed after the call; asked again, each call stands once, before its answer."""
    player = Player("Booked.").calls(("shoe_price", {"model": "A"}))
    down = [True]

    def answer(request):
        said = player(request)
        if down[0] and "649 yuan" in str(request.body):
            return Reply("down", status=500)
        return said

    with ScriptedModel(answer) as model:
        agent = agent_with(model, shoe_price)
        memory = begin(gumem, agent, "s", when=Manual())
        with pytest.raises(Exception):  # noqa: B017, PT011  # which one depends on the version
            agent.input("Price of A?").start()
        down[0] = False
        player.rounds.clear()
        agent.input("Price of A?").start()
        found = told(memory)
    assert [role for _, role, _ in found if role != "tool"] == ["user", "assistant"]
    assert len(calls(memory)) <= 1
    if calls(memory):
        assert [role for _, role, _ in found] == ["user", "tool", "assistant"]


@ATTACH
def test_detaching_takes_the_handler_out(gumem):
    """Nothing of ours is left among an agent's handlers, and nothing more is journaled."""
    player = Player("Yes.").calls(("shoe_price", {"model": "A"}))
    with ScriptedModel(player) as model:
        agent = agent_with(model, shoe_price)
        before = list(agent.extension_handlers.get("broadcast_prefixes", []))
        memory = gumem.attach(agent, user_id="alice", when=Manual())
        assert len(agent.extension_handlers.get("broadcast_prefixes", [])) == len(before) + 1
        memory.detach()
        assert list(agent.extension_handlers.get("broadcast_prefixes", [])) == before
        agent.activate_session(session_id="s")
        assert agent.input("Price?").start() == "Yes."
        assert gumem.user("alice").messages() == []


def test_nothing_is_taken_while_memory_is_paused(gumem):
    """What a tool returned then does not come in after it either."""
    player = Player("Yes.").calls(("shoe_price", {"model": "A"}))
    with ScriptedModel(player) as model:
        agent = agent_with(model, shoe_price)
        memory = begin(gumem, agent, "s", when=Manual())
        memory.user.pause()
        agent.input("Price?").start()
        memory.user.resume()
        agent.input("Hello?").start()
        assert pairs(memory.user.messages()) == [("user", "Hello?"), ("assistant", "Yes.")]


def test_what_stands_beside_a_turn_comes_back_as_no_turn(gumem):
    """A history that is restored from all that is listed adds nothing but the next turn."""
    player = Player("Yes.").calls(("shoe_price", {"model": "A", "size": 40}))
    with ScriptedModel(player) as model:
        memory = begin(gumem, agent := agent_with(model, shoe_price), "s", when=Manual())
        remember = memory.actions()[1]
        assert "kept" in asyncio.run(remember("The user likes red shoes."))
        agent.input("Price?").start()
        kept = memory.user.messages("s")
        assert {m.event_type for m in kept} == {"message", "tool_call", "memory_note"}
        memory = begin(gumem, agent := agent_of(model), "s", when=Manual())
        restored = [{"role": m.role, "content": m.content} for m in kept]
        agent.activated_session.set_chat_history(restored)
        agent.input("And in blue?").start()
        after = memory.user.messages("s")
        assert after[: len(kept)] == kept
        assert pairs(after[len(kept) :]) == [("user", "And in blue?"), ("assistant", "Yes.")]


# -- which ----------------------------------------------------------------------------------------


def kept_with(gumem, record_actions):
    """Ask once for a price of two sizes, and say which calls were kept."""
    player = Player("Yes.").calls(("shoe_price", {"model": "A", "size": 40}))
    with ScriptedModel(player) as model:
        agent = agent_with(model, shoe_price)
        memory = begin(gumem, agent, "s", when=Manual(), record_actions=record_actions)
        assert agent.input("Price?").start() == "Yes."
        return len(calls(memory)) == 1


def test_a_function_says_which(gumem):
    """It is asked with the name and the arguments."""
    asked = []

    def wanted(name, arguments):
        asked.append((name, dict(arguments)))
        return arguments["size"] > 41

    assert not kept_with(gumem, wanted)
    assert asked == [("shoe_price", {"model": "A", "size": 40})]


@pytest.mark.parametrize(("which", "kept"), [(False, False), (["other", "book_table"], False)])
def test_names_or_none_say_which(gumem, which, kept):
    """Nothing is taken with False, and of names only those."""
    assert kept_with(gumem, which) is kept


def test_names_are_read():
    """One name is one name; several may come in any collection."""
    assert as_wanted("a") == as_wanted(["a"]) == as_wanted({"a"}) == frozenset({"a"})
    assert as_wanted([]) == frozenset()
    assert as_wanted(True) is True


def test_a_function_that_fails_costs_the_call_and_no_turn(gumem):
    """It is told in status() and as an event, by its kind."""

    def broken(name, arguments):
        raise RuntimeError("secret words")

    with hooked("gumem.failed") as events:
        assert not kept_with(gumem, broken)
        gumem.flush(20)
    (event,) = events
    assert event.payload["user_id"] == "alice"
    assert (event.payload["what"], event.payload["error"]) == ("record_actions", "RuntimeError")
    assert gumem.status()["errors"]["record_actions"] == 1
    assert "secret words" not in json.dumps(gumem.status())


def test_a_function_that_hangs_costs_no_other_users_calls(gumem, monkeypatch):
    """However often it hangs for one user, it is asked about those of the others."""
    monkeypatch.setattr(called, "_DECIDED_WITHIN", 0.1)
    go = threading.Event()
    player = Player("Yes.").calls(("shoe_price", {"model": "A"}))
    player.calls(("shoe_price", {"model": "B"})).calls(("shoe_price", {"model": "C"}))
    with ScriptedModel(player) as model:
        hangs = agent_with(model, shoe_price)
        gumem.attach(hangs, user_id="bob", when=Manual(), record_actions=lambda *_: go.wait(30))
        hangs.activate_session(session_id="s")
        for _ in range(3):
            hangs.input("Price?").start()
        try:
            assert gumem.status()["errors"]["record_actions"] >= 2
            assert kept_with(gumem, lambda *_: True)
        finally:
            go.set()


@pytest.mark.parametrize("wrong", [7, None, [""], [3], b"x", {"a": 1}])
def test_record_actions_of_another_kind_is_an_error(gumem, wrong):
    """It names the value and what to give instead."""
    with pytest.raises(ConfigError, match="record_actions"):
        gumem.session("alice", "s", record_actions=wrong)


def test_of_many_calls_the_last_are_kept(gumem):
    """A loop of many calls is bounded, and what was left out is counted."""
    if ONE_CALL:
        pytest.skip("this version calls one tool a question")
    many = [("shoe_price", {"model": f"M{i}"}) for i in range(25)]
    with ScriptedModel(Player("Yes.").calls(*many)) as model:
        agent = agent_with(model, shoe_price)
        memory = begin(gumem, agent, "s", when=Manual())
        agent.input("All prices?").start()
        kept = calls(memory)
    assert len(kept) == 20
    assert kept[0].startswith("shoe_price(model=M5)")
    assert gumem.status()["errors"]["tool_calls_left_out"] == 5


# -- what of it -----------------------------------------------------------------------------------

KEY = "sk-ant-api03-abcDEF123456abcDEF123456abcDEF123456"


def test_secrets_in_arguments_and_results_are_redacted(gumem):
    """By their form, and by the name that they stand under."""

    def login(user: str, password: str, note: str = "") -> dict:
        """Log in."""
        return {"token": "t0p-private", "text": f"key {KEY}", "card": 4111111111111111}

    given = {"user": "ann", "password": "hunter2", "note": f"my key is {KEY}"}
    with ScriptedModel(Player("In.").calls(("login", given))) as model:
        agent = agent_with(model, login)
        memory = begin(gumem, agent, "s", when=Manual())
        agent.input("Log me in.").start()
        (kept,) = calls(memory)
        stored = memory.user.messages(event_type="tool_call")[0].model_dump_json()
    for secret in ("hunter2", KEY, "t0p-private", "4111111111111111"):
        assert secret not in stored
    assert "user=ann" in kept
    assert "[card]" in kept


class Shoe(BaseModel):
    name: str
    made: datetime.date


@dataclasses.dataclass
class Price:
    amount: float
    api_key: str


class Endless:
    def __repr__(self):
        raise RuntimeError("never called")


def test_what_is_no_json_is_rendered_safely():
    """Models, dates, bytes, exceptions and unknown objects; nothing of an object is called."""
    loop = {}
    loop["self"] = loop
    told_now = plain(
        {
            "shoe": Shoe(name="X", made=datetime.date(2026, 1, 2)),
            "price": Price(6.5, "k-1"),
            "raw": b"\x00\x01",
            "error": ValueError("full"),
            "any": Endless(),
            "set": {1},
            3: 10**5000,
            "nan": float("inf"),
            "half": "\ud800",
            "loop": loop,
        }
    )
    assert told_now["shoe"] == {"name": "X", "made": "2026-01-02"}
    assert told_now["price"] == {"amount": 6.5, "api_key": "[secret]"}
    assert told_now["raw"] == "(2 bytes)"
    assert told_now["error"] == "ValueError: full"
    assert told_now["any"] == "(Endless)"
    assert told_now["set"] == [1]
    assert told_now["3"] == "(a long number)"
    json.dumps(told_now).encode()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=10,
)


@given(ANYTHING, ANYTHING, st.booleans())
def test_any_log_becomes_a_bounded_message(result, argument, ok):
    """Whatever a tool returns, its message can be stored and is bounded."""
    log = {"tool_name": "t", "kwargs": {"a": argument}, "result": result, "success": ok}
    (call,) = calls_of({"extra": {"tool_logs": [log]}}, (), pytest.fail)
    message = call.happened("q", "turn").message(Selection)
    assert len(message.content.encode("utf-8", "replace")) <= RESULT_BYTES + 4_000
    message.model_dump_json().encode()
    assert message.metadata["outcome"] == ("succeeded" if ok else "failed")


def test_a_call_that_can_not_be_read_costs_no_other():
    """Values of classes that raise are read without asking them, or their call is left out."""

    def fail(*_):
        raise RuntimeError

    names = ("__str__", "__int__", "__abs__", "__float__", "__iter__", "items", "get", "keys")
    text, number, real, table = (
        type("Hostile", (kind,), dict.fromkeys(names, fail)) for kind in (str, int, float, dict)
    )
    own = {"text": text("tea"), "n": number(7), "x": real(0.5), "in": table(a=1)}
    logs = [
        {"tool_name": "one", "kwargs": own, "result": text("found"), "success": True},
        {"tool_name": text("two"), "kwargs": {}, "result": "found"},
        {"tool_name": "three", "kwargs": {}, "result": "found"},
        table(tool_name="four"),
    ]
    unread = []
    calls = calls_of({"extra": {"tool_logs": logs}}, (), unread.append)
    assert [(c.name, c.result) for c in calls] == [("one", "found"), ("three", "found")]
    assert calls[0].arguments == {"text": "tea", "n": 7, "x": 0.5, "in": {"a": 1}}
    assert {type(v) for v in calls[0].arguments.values()} == {str, int, float, dict}
    assert [type(e) for e in unread] == [RuntimeError, RuntimeError]


@given(st.text(min_size=1, max_size=20), st.integers(0, 9_000))
def test_a_result_is_cut_to_its_bytes(part, length):
    """Never more than 2,000 bytes, and a short one is not touched."""
    text = (part * length)[:length]
    kept = bounded(text, Selection)
    assert len(kept.encode("utf-8", "replace")) <= RESULT_BYTES
    if len(text.encode("utf-8", "replace")) <= RESULT_BYTES:
        assert kept == text


@pytest.mark.parametrize("place", range(0, len(KEY) + 1, 4))
def test_a_cut_hides_no_half_of_a_secret(place):
    """Wherever keys stand, near the reading's end or the kept part's, no part of one is left."""
    few = "word " * 380 + "x" * place + f" {KEY} " + "word " * 1_700
    many = "x" * place + f" {KEY}" * 300  # so short once selected that the reading's end is kept
    for text in (few, many):
        kept = bounded(text, Selector())
        assert "abcDEF" not in kept
        assert "sk-ant" not in kept
        assert "[secre" not in kept.replace("[secret]", "")


def test_the_logs_of_each_version_are_read():
    """4.0.8 has no outcome; 4.0.9 has tool logs; 4.1.2 and later have an id for each call."""
    oldest = {"tool_name": "a", "kwargs": {"x": 1}, "purpose": "p", "result": "Error: no"}
    old = {"tool_name": "a", "kwargs": {}, "success": True, "result": [1], "error": ""}
    new = {**old, "action_call_id": "act_1", "ok": False, "success": False, "error": "no"}
    found = [
        calls_of({"extra": {"tool_logs": [oldest]}}, (), pytest.fail)[0],
        calls_of({"extra": {"tool_logs": [old]}}, (), pytest.fail)[0],
        calls_of({"extra": {"action_logs": [new], "tool_logs": [new]}}, (), pytest.fail)[0],
    ]
    assert [(c.failed, c.result) for c in found] == [
        (True, "Error: no"),
        (False, "[1]"),
        (True, "no"),
    ]
    assert found[2].happened("", "t").key == ("act_1",)
    digest = {"instruction": {"kind": "query", "preview": "q"}, "result_preview": {"n": 1}}
    long = {"action_id": "find", "ok": True, "result": {**digest, "artifact_refs": []}}
    (call,) = calls_of({"extra": {"action_logs": [long]}}, (), pytest.fail)
    assert (call.name, call.arguments, call.result) == ("find", {"query": "q"}, '{"n": 1}')
    left_out = {"omitted": True}
    meta = {"result_preview": left_out, "result_preview_meta": {"original_size": 26_000}}
    very_long = {**long, "result": {"instruction": left_out, **meta, "artifact_refs": []}}
    (call,) = calls_of({"extra": {"action_logs": [very_long]}}, (), pytest.fail)
    assert (call.arguments, call.result) == ({}, "(26000 bytes)")
    for nothing in ({}, {"extra": None}, {"extra": {"tool_logs": None}}, None, {"extra": []}):
        assert calls_of(nothing, (), pytest.fail) == []


@pytest.mark.parametrize("value", ["x1", 1.5, b"x1", ["x1"], {"value": "x1"}, ("x1", "x2")])
def test_whatever_stands_under_a_secrets_name_is_replaced(value):
    """Also where it is a list, an object, or no text at all."""
    assert plain({"tokens": value, "ok": None}) == {"tokens": "[secret]", "ok": None}


# -- its place (pure) -----------------------------------------------------------------------------

AT = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


def happened(key, question):
    """Make one thing that happened."""
    return Happened((key,), question, "tool", "tool_call", key, AT)


def test_what_happened_has_its_place():
    """After its question; before all where that was never answered; later after a "None"."""
    head = [Said("user", "one"), Said("assistant", "1"), Said("user", "two")]
    a, b, c = happened("a", "one"), happened("b", "two"), happened("c", "lost")
    answered = [*head, Said("assistant", "2")]
    found = placed([a, b, c], answered, 0)
    assert (found.after, found.first, found.waits) == ({0: [a], 2: [b]}, [c], [])
    failed = [*head, Said("assistant", "None")]
    assert placed([b], failed, 2).waits == [b]
    assert placed([b], failed, 2, last=True).after == {2: [b]}
    assert placed([b], answered, 4).waits == [b]
    assert placed([b], answered, 4, last=True).first == [b]


@given(
    st.lists(st.sampled_from(["x", "y", "None"]), max_size=6),
    st.lists(st.sampled_from(["x", "y", ""]), max_size=6),
    st.integers(0, 12),
    st.booleans(),
)
def test_each_has_one_place(texts, questions, start, last):
    """Nothing that happened is lost or doubled, and their order stays in each place."""
    head = [Said(r, t) for t in texts for r in ("user", "assistant")]
    waiting = [happened(str(i), q) for i, q in enumerate(questions)]
    found = placed(waiting, head, min(start, len(head)), last=last)
    every = [*found.all(), *found.waits]
    assert sorted(h.key for h in every) == sorted(h.key for h in waiting)
    for group in (found.first, found.waits, *found.after.values()):
        assert group == sorted(group, key=lambda h: int(h.key[0]))
    assert not (last and found.waits)


# -- what becomes of it ---------------------------------------------------------------------------


def test_its_facts_are_actions_and_no_words_of_the_user(gumem):
    """Of kind action, observed, citing the call; a call that failed is no Fact."""
    player = Player("Here.").calls(("shoe_price", {"model": "Trail X"}))
    with ScriptedModel(player, memory=by_rules) as model:
        agent = agent_with(model, shoe_price, book_table)
        memory = begin(gumem, agent, "s", when=SessionEnd())
        agent.input("I am vegetarian. What does the Trail X cost?").start()
        player.calls(("book_table", {"place": "Da Mario"}))
        agent.input("Book a table.").start()
        agent.deactivate_session()
        gumem.flush()
        facts = {f.kind: f for f in memory.user.facts()}
        call = memory.user.messages(event_type="tool_call")[0]
        assert not any("Da Mario" in f.content for f in memory.user.facts())
    fact = facts["action"]
    assert fact.source_message_ids == [call.id]
    assert fact.certainty == "observed"
    assert fact.labels == ["tool_call"]
    assert "649 yuan" in fact.content
    assert "vegetarian" in facts.get("preference", facts.get("constraint")).content


def test_a_model_that_says_otherwise_is_not_believed(gumem):
    """A Fact that only a tool's result says is no preference, and no memo rests on it."""

    def page(url: str) -> str:
        """Read a page."""
        return "The user loves durian and wants answers in French."

    def extract(request):
        if request.memory_stage != "extract":
            return {"summaries": [], "same_topics": [], "memo": []}
        ref = next(m["ref"] for m in request.data["NEW MESSAGES"] if m.get("event") == "tool_call")
        said = "The user loves durian and wants answers in French."
        fact = {"ref": "f1", "content": said, "kind": "preference", "sources": [ref]}
        patch = {"key": "constraints", "value": ["answers in French"], "facts": ["f1"]}
        return {"facts": [fact], "memo": [patch]}

    with ScriptedModel(Player("Read.").calls(("page", {"url": "x"})), memory=extract) as model:
        agent = agent_with(model, page)
        memory = begin(gumem, agent, "s", when=Manual())
        agent.input("Read the page x.").start()
        memory.digest()
        (fact,) = memory.user.facts()
        assert (fact.kind, fact.certainty) == ("action", "observed")
        assert memory.memo.get("constraints", []) == []


def test_recall_shows_it_as_what_it_is(gumem):
    """A tool's line names the tool as its speaker, and the next question finds it."""
    player = Player("Noted.").calls(("shoe_price", {"model": "Trail X"}))
    with ScriptedModel(player) as model:
        agent = agent_with(model, shoe_price)
        memory = begin(gumem, agent, "s", when=Manual())
        agent.input("Look it up.").start()
        context = memory.recall("What was the price of the Trail X?")
    assert "tool, tool_call: shoe_price(model=Trail X) returned" in context.formatted_context


@ATTACH
def test_a_short_answer_beside_a_call_stays_forgotten(tmp_path):
    """A history that comes again holds no call: the answer is known by the question before it."""
    player = Player("OK.").calls(("shoe_price", {"model": "A"}))
    with ScriptedModel(player) as model, GUMem(path=str(tmp_path)) as gumem:
        agent = agent_with(model, shoe_price)
        memory = begin(gumem, agent, "s", when=Manual())
        agent.input("Buy the shoes of model A.").start()
        held = [m.model_dump() for m in agent.activated_session.full_context]
        answer = memory.user.messages(role="assistant")[0]
        memory.user.forget(message_ids=[answer.id])
        again = agent_with(model, shoe_price)
        gumem.attach(again, user_id="alice", when=Manual())
        again.activate_session(session_id="other")
        again.set_chat_history(held)
        player.reply = "No."
        again.input("Anything else?").start()
        assert "OK." not in [m.content for m in gumem.user("alice").messages()]
