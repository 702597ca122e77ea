"""What is forgotten is gone at once, everywhere, and does not come back: the whole way."""

import json
import subprocess
import sys
import threading
import time

import bytesearch
import pytest
from agently import Agently
from chromaserver import Server
from e2e import agent_of, attached, fact_answer, hooked, pairs, say, seeded
from hookbench import Receiver

from agently_gumem import ConfigError, EveryNTurns, GUMem, Manual, NotFound
from agently_gumem.testing import RuleModel, ScriptedModel
from agently_gumem.versions import register_execution

TOLD = "My dentist is Dr. Horakova."
NAME = "Horakova"
STAYS = "My cat is called Pixel."


def echo(request):
    """Answer as an assistant does that repeats what it was told, and what it recalls."""
    told = NAME in f"{request.question} {request.memo_section}"
    return f"I see: your dentist is Dr. {NAME}. Well." if told else "Noted."


def everywhere(user, agent=None):
    """Collect all that a user's memory and an agent's session hold, as one text."""
    told = [m.model_dump_json() for m in user.messages()]
    told += [f.model_dump_json() for f in user.facts(validity=None)]
    told += [s.model_dump_json() for s in user.summaries(validity=None)]
    told += [t.model_dump_json() for t in user.topics()]
    told += [json.dumps(user.memo, ensure_ascii=False), json.dumps(user.status(), default=str)]
    context = user.query("Who is my dentist?", max_tokens=4_000, memo_tokens=2_000)
    told.append(context.model_dump_json(exclude={"query"}))
    if agent is not None:
        for session in agent.sessions.values():
            told.append(session.get_json_session())
        told.append(str(agent.agent_prompt.get("chat_history")))
    return "\n".join(told)


def asked_of(requests):
    """Collect all that requests carried."""
    return "\n".join(json.dumps(r.messages, ensure_ascii=False) for r in requests)


WAYS = {
    "message": lambda user: {
        "message_ids": [m.id for m in user.messages(role="user") if NAME in m.content]
    },
    "fact": lambda user: {"fact_ids": [f.id for f in user.facts() if NAME in f.content]},
    "session": lambda user: {"session_id": "monday"},
    "matching": lambda user: {"matching": NAME.lower()},
    "user": lambda user: {"everything": True},
}
CASES = [
    (way, digested)
    for way in WAYS
    for digested in (False, True)
    if (way, digested) != ("fact", False)
]


@pytest.mark.parametrize(("way", "digested"), CASES)
def test_it_is_gone_from_an_open_session_and_does_not_come_back(way, digested, tmp_path):
    """Control, forgetting, the old session JSON, ten turns more: nothing of it is anywhere."""
    more = 10 if way == "message" else 3
    with RuleModel() as memory_model, ScriptedModel(echo) as model:
        own = {"OpenAICompatible": memory_model.settings}
        with GUMem(tmp_path, shards=2, model_settings=own) as gumem:
            agent = agent_of(model)
            memory = attached(gumem, agent, "monday", when=Manual())
            for said in (STAYS, TOLD, "What a day."):
                agent.input(said).start()
            if digested:
                memory.digest()
            agent.input("Tell me about my dentist.").start()
            user = gumem.user("alice")
            saved = agent.activated_session.get_json_session()
            assert NAME in everywhere(user, agent)  # the control
            assert NAME in saved
            report = user.forget(**WAYS[way](user), reason="asked for")
            assert NAME not in report.model_dump_json()
            assert NAME not in everywhere(user, agent)
            if way not in ("session", "user"):
                assert any(STAYS in m.content for m in user.messages())
                assert any(STAYS in m.content for m in agent.activated_session.full_context)

            before = len(model.requests), len(memory_model.requests)
            agent.activated_session.load_json_session(saved)
            for turn in range(more):
                agent.input(f"Tell me something nice, number {turn + 20}.").start()
            memory.digest()
            agent.activate_session(session_id="tuesday")
            agent.activated_session.set_chat_history(json.loads(saved)["full_context"])
            agent.input("Who is my dentist?").start()
            memory.digest()
            assert NAME not in everywhere(user, agent)
            assert NAME not in asked_of(model.requests[before[0] :])
            assert NAME not in asked_of(memory_model.requests[before[1] :])
            held = [m.content for m in user.messages() if m.role == "user"]
            assert sum("number 20" in text for text in held) == 1
            if way not in ("session", "user"):
                own = [m.content for m in user.messages("monday") if m.role == "user"]
                assert sum(STAYS in text for text in own) == 1


def test_a_digest_that_is_running_is_decided_anew(tmp_path):
    """The model was asked about it, and its answer comes after: nothing of it is kept."""
    with ScriptedModel(memory=fact_answer) as model:
        own = {"OpenAICompatible": model.settings}
        with GUMem(tmp_path, shards=2, model_settings=own) as gumem:
            user = gumem.user("alice")
            user.add_messages([{"content": TOLD}, {"content": STAYS}], session_id="s")
            model.hold("memory")
            digest = threading.Thread(target=user.digest)
            digest.start()
            model.wait_for(1, "memory")
            began = time.monotonic()
            report = user.forget(matching=NAME)
            assert time.monotonic() - began < 5  # it waits for no model
            model.release("memory")
            digest.join(20)
            assert not digest.is_alive()
            assert len(report.messages) == 1
            assert [f.content for f in user.facts()] == [STAYS]
            assert [m.status for m in user.messages()] == ["processed"]
            assert NAME not in everywhere(user)
            asked = model.memory_requests
            assert NAME in asked_of(asked[:1])
            assert NAME not in asked_of(asked[1:])
            assert any(STAYS in r.text for r in asked[1:])


def summing_up(request):
    """Keep each message as a Fact, the Facts as a Summary, and all of them in the memo."""
    known = request.data.get("FACTS") or request.data.get("KNOWN FACTS", [])
    refs, told = [f["ref"] for f in known], [f["content"] for f in known]
    if request.memory_stage == "extract":
        return fact_answer(request)
    if request.memory_stage == "memo":
        value = [{"fact": line, "confidence": 1.0} for line in told]
        return {"memo": [{"key": "stable_facts", "value": value, "facts": refs}]}
    name = request.data["TOPICS"][0]["topic"]
    draft = {"topic": name, "content": " ".join(told), "facts": refs, "confidence": 1.0}
    return {"summaries": [draft], "same_topics": []}


@pytest.mark.parametrize("stage", ["summarize", "memo"])
def test_a_summary_and_a_memo_under_way_are_decided_anew(stage, tmp_path):
    """Each of the requests of a digest may be waiting when something is forgotten."""
    with ScriptedModel(memory=summing_up) as model:
        own = {"OpenAICompatible": model.settings}
        with GUMem(tmp_path, shards=2, model_settings=own, limits={"summary_after": 2}) as gumem:
            user = gumem.user("alice")
            user.add_messages([{"content": TOLD}, {"content": STAYS}, {"content": "I run."}])
            if stage == "memo":
                user.digest()
                assert NAME in user.summaries()[0].content
            seen = len(model.memory_requests)
            arrived = threading.Event()

            def answer(request):
                if request.memory_stage == stage and not arrived.is_set():
                    arrived.set()
                    assert forgotten.wait(20)
                return summing_up(request)

            forgotten = threading.Event()
            model.memory = answer
            work = user.rebuild_memo if stage == "memo" else user.digest
            digest = threading.Thread(target=work)
            digest.start()
            assert arrived.wait(20)
            user.forget(matching=NAME)
            forgotten.set()
            digest.join(20)
            assert not digest.is_alive()
            assert NAME not in everywhere(user)
            stages = [r.memory_stage for r in model.memory_requests[seen:]]
            assert stages.count(stage) == 2
            assert NAME not in asked_of(model.memory_requests[-1:])
            if stage == "memo":
                assert STAYS in json.dumps(user.memo)
            else:
                assert STAYS in user.summaries()[0].content


def test_a_second_memory_on_the_same_path_knows_it_at_once(tmp_path):
    """Its index, its digest under way, and its open session; whoever writes last."""
    with ScriptedModel("Noted.", memory=fact_answer) as model:
        own = {"OpenAICompatible": model.settings}
        one = GUMem(tmp_path, shards=2, model_settings=own)
        two = GUMem(tmp_path, shards=2, model_settings=own)
        with one, two:
            agent = agent_of(model)
            memory = attached(one, agent, "monday", when=Manual())
            agent.input(TOLD).start()
            agent.input(STAYS).start()
            assert NAME in everywhere(two.user("alice"))
            model.hold("memory")
            digest = threading.Thread(target=memory.digest)
            digest.start()
            model.wait_for(1, "memory")
            two.user("alice").forget(matching=NAME)
            assert NAME not in everywhere(one.user("alice"))
            model.release("memory")
            digest.join(20)
            assert not digest.is_alive()
            asked = len(model.chat_requests)
            agent.input("What do you know of me?").start()
            assert NAME not in asked_of(model.chat_requests[asked:])
            for user in (one.user("alice"), two.user("alice")):
                assert NAME not in everywhere(user, agent)
                assert [f.content for f in user.facts()] == [STAYS]


def test_two_processes_on_a_server_leave_nothing(tmp_path):
    """One digests what the other forgets; the writer that comes late finds the marks."""
    with Server(tmp_path) as server, ScriptedModel(memory=fact_answer) as model:
        own = {"OpenAICompatible": model.settings}
        with GUMem(client=server.client(), model_settings=own) as gumem:
            user = gumem.user("alice")
            user.add_messages([{"content": TOLD}, {"content": STAYS}], session_id="s")
            model.hold("memory")
            digest = threading.Thread(target=user.digest)
            digest.start()
            model.wait_for(1, "memory")
            told = subprocess.run(
                [sys.executable, "-c", _FORGET, str(server.port), NAME],
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            assert json.loads(told.stdout)["messages"] == 1
            model.release("memory")
            digest.join(20)
            assert not digest.is_alive()
            assert NAME not in everywhere(user)
            assert [f.content for f in user.facts()] == [STAYS]
        with GUMem(client=server.client(), model_settings=own) as gumem:
            assert NAME not in everywhere(gumem.user("alice"))


_FORGET = """
import json, sys
import chromadb
from agently_gumem import GUMem
with GUMem(client=chromadb.HttpClient(host="127.0.0.1", port=int(sys.argv[1]))) as gumem:
    report = gumem.user("alice").forget(matching=sys.argv[2])
    print(json.dumps({"messages": len(report.messages)}))
"""


def test_erasing_takes_the_bytes_and_the_vector_out_of_every_file(tmp_path):
    """They are found first; afterwards only keyed hashes are left of it."""
    with RuleModel() as model:
        own = {"OpenAICompatible": model.settings}
        with GUMem(tmp_path, shards=2, model_settings=own) as gumem:
            user = gumem.user("carol@example.org")
            user.add_messages([{"content": TOLD}, {"content": STAYS}], session_id="s")
            user.digest()
            gumem.user("bob").add_messages([{"content": "I live in Potsdam."}])
            texts = [TOLD, NAME, NAME.lower()]
            vectors = gumem._engine.services.embedder.embed([TOLD])
            found = bytesearch.find(tmp_path, texts, list(vectors))
            assert {h.what for h in found} >= {TOLD, NAME}
            assert any(h.kind.startswith("float") for h in found)
            report = user.forget(
                fact_ids=[f.id for f in user.facts() if NAME in f.content], erase=True
            )
            assert report.erased
            assert report.erasure["integrity"] == "ok"
            assert bytesearch.find(tmp_path, texts, list(vectors)) == []
            assert [f.content for f in user.facts()] == ["User's cat is called Pixel"]
            report = user.forget(everything=True, erase=True)
            assert report.erased
            gone = [STAYS, "Pixel", "carol@example.org"]
            assert bytesearch.find(tmp_path, gone) == []
            assert user.messages() == []
            assert [m.content for m in gumem.user("bob").messages()] == ["I live in Potsdam."]
        assert bytesearch.find(tmp_path, [*texts, *gone], list(vectors)) == []


@pytest.mark.host
def test_an_agent_that_registers_its_own_handlers_loses_it_too(tmp_path):
    """Without `attach` the window, the whole history and the held memo are cleaned as well."""
    with RuleModel() as rules, ScriptedModel(echo) as model:
        own = {"OpenAICompatible": rules.settings}
        with GUMem(tmp_path, shards=2, model_settings=own) as gumem:
            agent = agent_of(model)
            when = EveryNTurns(2)
            memory = seeded(gumem, agent, "monday", when=when, wait=20)
            for said in (TOLD, STAYS, "What a day.", "And what a night."):
                agent.input(said).start()
            session = agent.activated_session
            assert NAME in session.memo
            gumem.user("alice").forget(matching=NAME)
            assert NAME not in session.get_json_session()
            assert STAYS in json.dumps([m.content for m in session.full_context])
            agent.input("Who is my dentist?").start()
            assert NAME not in asked_of(model.requests[-1:])
            assert memory.status()["errors"] == {}


@pytest.mark.host
def test_a_memo_kept_as_a_dict_is_pruned_in_the_session(tmp_path):
    """Also to nothing, and also where a session that was saved before is loaded."""
    with RuleModel() as rules, ScriptedModel("Noted.") as model:
        own = {"OpenAICompatible": rules.settings}
        with GUMem(tmp_path, shards=2, model_settings=own) as gumem:
            agent = agent_of(model)
            options = {"when": EveryNTurns(1), "wait": 20, "session_memo": "dict"}
            attached(gumem, agent, "monday", **options)
            agent.input(TOLD).start()
            session = agent.activated_session
            saved = session.get_json_session()
            assert NAME in json.dumps(session.memo)
            gumem.user("alice").forget(everything=True)
            assert not session.memo
            session.load_json_session(saved)
            agent.input("Hello again.").start()
            assert NAME not in session.get_json_session()
            assert NAME not in asked_of(model.requests[-1:])
            assert not gumem.user("alice").messages(event_type="imported_memo")


@pytest.mark.host
@pytest.mark.parametrize("given", [{"matching": NAME}, {"everything": True}])
def test_a_turn_on_its_way_keeps_its_place(given, tmp_path):
    """The history became shorter while the model was answering: the turn is journaled once."""
    with ScriptedModel("Noted.") as model, GUMem(tmp_path, shards=2) as gumem:
        agent = agent_of(model)
        attached(gumem, agent, "monday", when=Manual())
        agent.input(TOLD).start()
        agent.input(STAYS).start()
        model.hold("chat")
        turn = threading.Thread(target=lambda: agent.input("I play chess.").start())
        turn.start()
        model.wait_for(3, "chat")
        gumem.user("alice").forget(**given)
        model.release("chat")
        turn.join(20)
        assert not turn.is_alive()
        user = gumem.user("alice")
        told = [m.content for m in user.messages(role="user")]
        assert told == [*([] if "everything" in given else [STAYS]), "I play chess."]
        assert all(m.timestamp is not None for m in user.messages())
        assert pairs(user.messages()) == [
            (m.role, m.content.removeprefix("[input]:\n"))
            for m in agent.activated_session.full_context
        ]


@pytest.mark.host
def test_it_is_told_and_a_live_turn_may_say_it_again(tmp_path):
    """An event with counts; the same words said anew are remembered, since they are new."""
    with ScriptedModel("Noted.") as model, GUMem(tmp_path, shards=2) as gumem:
        agent = agent_of(model)
        attached(gumem, agent, "monday", when=Manual())
        agent.input(TOLD).start()
        user = gumem.user("alice")
        with hooked("gumem.forgotten") as events:
            report = user.forget(message_ids=user.messages()[0].id)
            gumem.flush()
        assert [(e.payload["messages"], e.payload["facts"]) for e in events] == [(1, 0)]
        assert NAME not in str(events[0].payload)
        assert len(report.messages) == 1
        agent.input(TOLD).start()
        assert [m.content for m in user.messages(role="user")] == [TOLD]
        assert TOLD in "".join(m.content for m in agent.activated_session.full_context)


@pytest.mark.host
def test_what_is_allowed_comes_in_again_with_the_next_history():
    """It is not brought back by itself."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        given = [{"id": "m-1", "content": TOLD}, {"id": "m-2", "content": STAYS}]
        user.add_messages(given, session_id="s")
        user.forget(message_ids="m-1")
        assert [m.id for m in user.add_messages(given, session_id="s")] == ["m-2"]
        assert user.allow("m-1")
        assert not user.allow("m-1")
        assert [m.id for m in user.messages()] == ["m-2"]
        user.add_messages(given, session_id="s")
        assert {m.id for m in user.messages()} == {"m-1", "m-2"}


def test_it_works_while_paused_and_where_memory_is_off(monkeypatch):
    """It is a right; pausing outlives it."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        user.add_messages([{"content": TOLD}, {"content": STAYS}])
        user.pause()
        assert len(user.forget(matching=NAME).messages) == 1
        monkeypatch.setenv("GUMEM_OFF", "1")
        assert len(user.forget(everything=True).messages) == 1
        monkeypatch.delenv("GUMEM_OFF")
        assert user.messages() == []
        assert user.status()["paused"]


def test_another_space_and_another_user_keep_theirs():
    """All of a user is all in one space."""
    with GUMem() as gumem:
        users = [gumem.user("alice"), gumem.user("alice", space="work"), gumem.user("bob")]
        for user in users:
            user.add_messages([{"id": "m-1", "content": TOLD}])
        users[0].forget(everything=True)
        assert [len(user.messages()) for user in users] == [0, 1, 1]
        assert not users[1].allow("m-1")


def test_what_can_not_be_reached_is_named():
    """The model, the saved sessions, copies; on nothing forgotten, nothing."""
    with RuleModel() as model:
        own = {"OpenAICompatible": model.settings}
        with GUMem(model_settings=own) as gumem:
            user = gumem.user("alice")
            user.add_messages([{"content": TOLD}])
            user.digest()
            report = user.forget(matching=NAME)
            kinds = {o.kind for o in report.outside}
            assert kinds == {"model provider", "session file"}
            sent = next(o for o in report.outside if o.kind == "model provider")
            assert model.url in sent.where
            assert sent.first is not None
            assert NAME not in report.model_dump_json()
            assert user.forget(matching=NAME).outside == []


def test_who_was_sent_something_is_named_also_where_everything_goes():
    """Webhooks and exports, how often and when; nothing of that is left in the store."""
    receiver = Receiver()
    with RuleModel() as model, GUMem(model_settings={"OpenAICompatible": model.settings}) as gumem:
        gumem.hooks.add("message.before_add", receiver.url)
        user = gumem.user("alice")
        user.add_messages([{"content": TOLD}])
        user.export()
        report = user.forget(everything=True)
        told = {o.kind: o for o in report.outside if o.kind in ("webhook", "export")}
        assert (told["webhook"].where, told["webhook"].what[:10]) == (receiver.url, "message: 1")
        assert told["webhook"].first <= told["webhook"].last <= report.at
        assert told["export"].what.startswith("export: 1")
        assert gumem.hooks.deliveries("alice") == []
        assert user.report().recipients == []
    receiver.close()


def test_what_has_expired_is_forgotten_at_the_next_digest():
    """A message with a lifetime goes with its Facts, and a history does not bring it back."""
    policy = {"retention": [{"layer": "message", "older_than": "P30D"}]}
    with (
        RuleModel() as model,
        GUMem(privacy=policy, model_settings={"OpenAICompatible": model.settings}) as gumem,
    ):
        user = gumem.user("alice")
        user.add_messages(
            [
                {"id": "a", "content": TOLD, "expires_at": "2020-01-01T00:00:00Z"},
                {"id": "b", "content": STAYS, "timestamp": "2020-01-01T00:00:00Z"},
                {"id": "c", "content": "I run."},
            ]
        )
        user.digest()
        assert [m.id for m in user.messages()] == ["c"]
        assert user.add_messages([{"id": "a", "content": TOLD}]) == []


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({}, "what to forget"),
        ({"message_ids": 7}, "message_ids"),
        ({"message_ids": [""]}, "message_ids"),
        ({"before": "yesterday"}, "before="),
        ({"matching": "a"}, "matching="),
        ({"session_id": ""}, "session_id"),
        ({"matching": "Alvarez", "reason": 3}, "reason="),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_is_forgotten(given, match):
    """With the parameter's name."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        user.add_messages([{"content": TOLD}])
        with pytest.raises(ConfigError, match=match):
            user.forget(**given)
        with pytest.raises(NotFound, match="no-such"):
            user.forget(message_ids=[user.messages()[0].id, "no-such"])
        assert len(user.messages()) == 1


def test_an_old_export_brings_nothing_back(tmp_path):
    """Neither by its ids nor by its texts; what stays in it is known already."""
    with RuleModel() as model:
        own = {"OpenAICompatible": model.settings}
        with GUMem(tmp_path, shards=2, model_settings=own) as gumem:
            user = gumem.user("alice")
            user.add_messages(
                [
                    {"content": f"{TOLD} I like green tea."},
                    {"content": STAYS},
                    {"content": TOLD},
                ]
            )
            user.digest()
            exported = user.export()
            assert NAME in exported
            named = [f.id for f in user.facts() if NAME in f.content]
            user.forget(fact_ids=named)
            held = sorted(m.content for m in user.messages())
            assert held == [STAYS, "[forgotten] I like green tea."]
            user.import_(exported)
            assert NAME not in everywhere(user)
            assert sorted(m.content for m in user.messages()) == held
            assert NAME not in user.export()
            user.forget(everything=True)
            user.import_(exported)
            assert user.messages() == []
            assert user.facts(validity=None) == []
            assert user.topics() == []
            assert user.memo == {}


def test_what_a_late_writer_brings_back_goes_at_the_next_load(tmp_path):
    """It is refused by its marks, and deleted: whoever wrote it knew it from before."""
    with RuleModel() as model:
        own = {"OpenAICompatible": model.settings}
        with GUMem(tmp_path, shards=2, model_settings=own) as gumem:
            user = gumem.user("alice")
            user.add_messages([{"content": f"{TOLD} I like green tea."}, {"content": STAYS}])
            user.digest()
            fact = next(f for f in user.facts() if NAME in f.content)

            rows = gumem._engine.services.store.scope("alice", "default")
            known = rows.load()
            user.forget(fact_ids=fact.id)
            rows.write(known)
        with GUMem(tmp_path, shards=2, model_settings=own) as gumem:
            user = gumem.user("alice")
            assert NAME not in everywhere(user)
            contents = [f.content for f in user.facts()]
            assert contents == ["User likes green tea", "User's cat is called Pixel"]
            rows = gumem._engine.services.store.scope("alice", "default").load()
            assert not any(NAME in row.document for row in rows)
            assert gumem.sweep()["failed"] == 0
        assert bytesearch.find(tmp_path, [NAME]) == []


def test_a_large_user_whose_old_turns_are_past_the_index_is_forgotten_whole(tmp_path):
    """What the index leaves out is in the store, and goes as well."""
    with ScriptedModel() as model:
        options = {
            "model_settings": {"OpenAICompatible": model.settings},
            "limits": {"index_records": 100},
        }
        with GUMem(tmp_path, shards=2, **options) as gumem:
            user = gumem.user("alice")
            user.add_messages([{"content": f"{TOLD} {i}"} for i in range(5)], session_id="a")
            user.add_messages([{"content": f"Tea number {i}."} for i in range(110)], session_id="b")
            user.digest()
        with GUMem(tmp_path, shards=2, **options) as gumem:
            user = gumem.user("alice")
            assert len(user.messages()) == 100
            report = user.forget(session_id="a")
            assert len(report.messages) == 5
            rows = gumem._engine.services.store.scope("alice", "default").load()
            assert not any(NAME in row.document for row in rows)
            assert sum(row.layer == "message" for row in rows) == 110


def test_a_message_that_was_cut_is_known_in_both_its_forms(tmp_path):
    """A session saved before and one saved after are restored: nothing is new, nothing is back."""
    with RuleModel() as rules, ScriptedModel("Noted.") as model:
        own = {"OpenAICompatible": rules.settings}
        with GUMem(tmp_path, shards=2, model_settings=own) as gumem:
            agent = agent_of(model)
            memory = attached(gumem, agent, "monday", when=Manual())
            agent.input(f"{TOLD} I like green tea.").start()
            agent.input(STAYS).start()
            memory.digest()
            session = agent.activated_session
            before = session.get_json_session()
            user = gumem.user("alice")
            user.forget(fact_ids=[f.id for f in user.facts() if NAME in f.content])
            after = session.get_json_session()
            held = pairs(user.messages())
            assert ("user", "[forgotten] I like green tea.") in held
            for saved in (before, after):
                other = agent_of(model)
                attached(gumem, other, "monday", when=Manual())
                other.activated_session.load_json_session(saved)
                other.input("Which tea do I like?").start()
                held += [("user", "Which tea do I like?"), ("assistant", "Noted.")]
                assert pairs(user.messages()) == held
                assert NAME not in everywhere(user, other)
                assert NAME not in asked_of(model.requests[-1:])
                user.forget(message_ids=[m.id for m in user.messages()][-2:])
                held = held[:-2]
            assert pairs(user.messages()) == held


@pytest.mark.host
def test_without_an_agent_the_handlers_clean_what_they_are_given(tmp_path):
    """A session whose handlers run on their own loses it at its next message, memo and all."""
    with RuleModel() as rules:
        own = {"OpenAICompatible": rules.settings}
        with GUMem(tmp_path, shards=2, model_settings=own) as gumem:
            agent = Agently.create_agent()
            agent.activate_session(session_id="monday")
            session = agent.activated_session
            memory = gumem.session("alice", "monday", when=EveryNTurns(1), wait=20)
            session.register_analysis_handler(memory.analysis_handler)
            register_execution(session, "compress_with_memo", memory.execution_handler)
            say(session, (TOLD, "Noted."), (STAYS, "A cat!"))
            assert NAME in json.dumps(session.memo)
            gumem.user("alice").forget(matching=NAME)
            say(session, ("I run.", "Well done."))
            assert NAME not in session.get_json_session()
            assert (STAYS in session.get_json_session()) is True
            assert [m.content for m in gumem.user("alice").messages(role="user")] == [
                STAYS,
                "I run.",
            ]


def test_turns_digests_and_forgetting_beside_each_other_lose_and_leave_nothing(tmp_path):
    """Whatever overlaps: what is forgotten last is nowhere, and all the rest is stored once."""
    with ScriptedModel(memory=fact_answer) as model:
        own = {"OpenAICompatible": model.settings}
        with GUMem(tmp_path, shards=2, model_settings=own) as gumem:
            user = gumem.user("alice")
            told = [f"I own {n} kites." for n in range(10, 22)]

            def talk():
                for n, line in enumerate(told):
                    user.add_messages({"content": line, "id": f"k-{n}"}, session_id="s")
                    user.add_messages({"content": TOLD, "id": f"d-{n}"}, session_id="s")

            def digest():
                while talking.is_alive():
                    user.digest()

            talking = threading.Thread(target=talk)
            digesting = threading.Thread(target=digest)
            talking.start()
            digesting.start()
            while talking.is_alive():
                user.forget(matching=NAME)
            digesting.join(30)
            assert not digesting.is_alive()
            user.forget(matching=NAME)
            user.digest()
            assert NAME not in everywhere(user)
            assert sorted(m.content for m in user.messages()) == told
            assert sorted(f.content for f in user.facts()) == told
            assert {m.status for m in user.messages()} == {"processed"}


def test_what_was_said_in_chinese_goes_with_what_repeats_it():
    """Names without a capital, and a number in the other way of writing it."""
    with RuleModel() as model:
        own = {"OpenAICompatible": model.settings}
        with GUMem(model_settings=own) as gumem:
            user = gumem.user("alice")
            said = [
                ("user", "我女儿叫林小雨。我喜欢浅色跑鞋。"),
                ("assistant", "好的，林小雨这个名字真好听。跑鞋我记住了。"),
                ("user", "我的预算是800元。"),
                ("assistant", "明白，预算八百元以内。"),
                ("assistant", "林小雨六岁就可以慢跑了。"),
            ]
            user.add_messages([{"role": r, "content": c} for r, c in said])
            user.digest()
            for word in ("林小雨", "800"):
                user.forget(fact_ids=[f.id for f in user.facts() if word in f.content])
            assert pairs(user.messages()) == [
                ("user", "[forgotten]我喜欢浅色跑鞋。"),
                ("assistant", "[forgotten]跑鞋我记住了。"),
            ]
            assert [f.content for f in user.facts()] == ["用户喜欢浅色跑鞋"]
            assert user.memo == {"user_preferences": {"浅色跑鞋": "用户喜欢浅色跑鞋"}}
            assert [t.name for t in user.topics()] == ["浅色跑鞋"]
