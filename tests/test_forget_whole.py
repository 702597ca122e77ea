"""Forgetting, to the last byte: what stands beside texts, processes that die, and servers."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import bytesearch
import forked
import pytest
from chromaserver import Server
from e2e import agent_of, attached, pairs

from agently_gumem import GUMem, Manual
from agently_gumem.testing import RuleModel, ScriptedModel

NAME = "Horakova"
TOLD = f"My dentist is Dr. {NAME}."
TOPIC = f"Dr. {NAME} clinic"
TESTS = str(Path(__file__).parent)


def telling(request):
    """Keep each message as a Fact, with the name wherever a model can write one."""
    if request.memory_stage == "summarize":
        known = request.data["FACTS"]
        plain = [f for f in known if NAME not in f["content"]]
        told = {"content": f"They go to Dr. {NAME}.", "facts": [f["ref"] for f in plain]}
        return {"summaries": [{"topic": TOPIC, "confidence": 1.0, **told}], "same_topics": []}
    if request.memory_stage != "extract":
        return {"memo": []}
    said = [m for m in request.data["NEW MESSAGES"] if m["role"] == "user"]
    facts = [
        {
            "content": m["text"],
            "sources": [m["ref"]],
            "topic": TOPIC if "clinic" in m["text"] or NAME in m["text"] else "pets",
            "labels": [NAME.lower()] if "clinic" in m["text"] else [],
        }
        for m in said
    ]
    refs = [f"f{i}" for i, m in enumerate(said, 1) if "clinic" in m["text"]]
    value = {"dentist": NAME, "pet": "a cat"}
    patch = {"key": "user_preferences", "value": value, "facts": refs}
    return {"facts": facts, "memo": [patch] if refs else []}


SAID = [
    {
        "content": TOLD,
        "page": f"/doctors/{NAME}",
        "speaker": "Al",
        "anchors": {"doctor": NAME},
        "metadata": {"notes": [f"{NAME} at nine"]},
    },
    {"role": "assistant", "content": f"Dr. {NAME} is good. The tram stops there."},
    {"content": "The clinic opens at eight."},
    {"content": "The clinic closes at noon."},
    {"content": "My cat is called Pixel."},
]


def opened(path, model, **options):
    """Open a store whose memory asks the model."""
    own = {"OpenAICompatible": model.settings}
    options = {"shards": 2, "limits": {"summary_after": 3}, **options}
    return GUMem(path, model_settings=own, **options)


def shown(gumem, user):
    """Collect all that is shown of a user, in whatever way, as one text."""
    records = [
        *user.messages(),
        *user.facts(validity=None),
        *user.summaries(validity=None),
        *user.topics(),
    ]
    context = user.query("Who is my dentist?", max_tokens=4_000, memo_tokens=2_000)
    report = user.report()
    told = [r.model_dump_json() for r in records]
    told += [f"{user.history(r.id)} {user.explain(r.id)}" for r in records]
    told += [f"{user.explain(context)['items']}", context.model_dump_json(exclude={"query"})]
    told += [json.dumps(user.memo), report.model_dump_json(), report.to_html(), user.export()]
    told += [f"{gumem.status()} {gumem.usage()} {user.status()}"]
    return "\n".join(told)


WAYS = {
    "message": lambda user: {"message_ids": [m.id for m in user.messages() if NAME in m.content]},
    "fact": lambda user: {
        "fact_ids": [f.id for f in user.facts(validity=None) if NAME in f.content]
    },
    "session": lambda user: {"session_id": "s"},
    "before": lambda user: {
        "before": user.messages("s")[-1].stored_at.replace(microsecond=999_999)
    },
    "matching": lambda user: {"matching": NAME.lower()},
    "user": lambda user: {"everything": True},
}


@pytest.mark.parametrize("way", WAYS)
def test_what_stands_beside_the_texts_goes_too(way, tmp_path):
    """Names of Topics, labels, keys, metadata, and the reasons that operators gave."""
    with ScriptedModel(memory=telling) as model, opened(tmp_path, model) as gumem:
        user = gumem.user("alice")
        user.add_messages(SAID, session_id="s", digest=True)
        wrong = next(f for f in user.facts() if "eight" in f.content)
        user.correct(wrong.id, "The clinic opens at nine.", reason=f"told by {NAME} herself")
        vectors = list(gumem._engine.services.embedder.embed([TOLD]))
        assert NAME in user.export()
        assert {t.name for t in user.topics()} == {TOPIC, "pets"}
        assert {h.what for h in bytesearch.find(tmp_path, [NAME], vectors)} >= {NAME, "vector 0"}
        why = f"she no longer goes to {NAME.lower()}"
        report = user.forget(**WAYS[way](user), reason=why, erase=True)
        assert report.erased
        told = f"{shown(gumem, user)} {report.model_dump_json()}".casefold()
        assert NAME.casefold() not in told
        gone = [NAME, NAME.lower(), NAME.upper()]
        assert bytesearch.find(tmp_path, gone, vectors) == []
        if way in ("message", "fact", "matching"):
            kept = {f.content for f in user.facts()}
            assert kept >= {"The clinic closes at noon.", "My cat is called Pixel."}
    assert bytesearch.find(tmp_path, gone, vectors) == []


def test_a_reason_that_says_nothing_of_it_is_kept(tmp_path):
    """With the marks and in the history of the Facts that lost a source."""
    with RuleModel() as model, opened(tmp_path, model) as gumem:
        user = gumem.user("alice")
        user.add_messages([{"id": "a", "content": TOLD}, {"id": "b", "content": "I like tea."}])
        user.digest()
        user.forget(message_ids="a", reason="asked for by letter")
        user.forget(everything=True, reason="account closed")
        reasons = {f.reason for f in user.report().forgotten}
        assert reasons == {"asked for by letter", "account closed"}


def test_the_reason_of_a_correction_goes_with_what_it_brought(tmp_path):
    """The earlier value stays, and its history does not tell the later one."""
    with RuleModel() as model, opened(tmp_path, model) as gumem:
        user = gumem.user("alice")
        user.add_messages([{"content": "I live in Berlin."}], digest=True)
        (first,) = user.facts()
        moved = user.correct(first.id, "The user lives in Hamburg.", reason="moved to the harbour")
        assert "harbour" in str(user.history(first.id))
        user.forget(fact_ids=moved.id, erase=True)
        assert [f.content for f in user.facts(validity=None)] == [first.content]
        assert bytesearch.find(tmp_path, ["harbour", "Hamburg"]) == []


_DYING = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import chromadb.api.models.Collection as chroma
from test_forget_whole import NAME, SAID, WAYS, opened, telling
from agently_gumem.testing import ScriptedModel

with ScriptedModel(memory=telling) as model:
    user = opened(sys.argv[2], model).user("alice")
    user.add_messages(SAID, session_id="s", digest=True)
    user.add_messages({"content": "I run."}, session_id="t")
    chroma.Collection.delete = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    user.forget(**WAYS[sys.argv[3]](user))
"""


@pytest.mark.parametrize("way", ["fact", "user"])
def test_a_process_that_is_killed_between_marks_and_deletion_has_forgotten_all(way, tmp_path):
    """Topics, Summary, memo and echoes as well; a sweep alone takes the bytes out."""
    died = forked.run(_DYING, TESTS, tmp_path, way)
    assert died.returncode == -9, died.stderr
    assert bytesearch.find(tmp_path, [NAME])
    with RuleModel() as model, opened(tmp_path, model) as gumem:
        assert gumem.sweep()["erased"] == 1
        assert bytesearch.find(tmp_path, [NAME]) == []
        user = gumem.user("alice")
        assert NAME not in shown(gumem, user)
        told = [m.content for m in user.messages("s")]
        stay = ["[forgotten] The tram stops there.", *(m["content"] for m in SAID[2:])]
        assert told == ([] if way == "user" else stay)


def test_pausing_outlives_a_process_that_is_killed(tmp_path):
    """Who asked to be forgotten and not remembered is not remembered anew."""
    dying = _DYING.replace("    user.forget", "    user.pause()\n    user.forget")
    died = forked.run(dying, TESTS, tmp_path, "user")
    assert died.returncode == -9
    with GUMem(tmp_path, shards=2) as gumem:
        assert gumem.user("alice").status()["paused"]
        assert gumem.user("alice").messages() == []


def test_of_two_users_with_one_text_the_other_keeps_text_and_bytes(tmp_path):
    """Also in one shard; and a number goes without those that it is part of."""
    both = "My budget is 4200 yuan, my size is 42."
    with RuleModel() as model, opened(tmp_path, model, shards=1) as gumem:
        alice, bob = gumem.user("alice"), gumem.user("bob")
        for user, own in ((alice, "Quillfeather"), (bob, "Marrowbone")):
            user.add_messages([{"content": both}, {"content": f"My cat is called {own}."}])
            user.digest()
        size = next(f for f in alice.facts() if "size" in f.content)
        alice.forget(fact_ids=size.id, erase=True)
        assert any("4200" in f.content for f in alice.facts())
        assert "42." not in str(pairs(alice.messages()))
        before = bob.export().splitlines()[1:]
        assert alice.forget(everything=True, erase=True).erased
        assert bytesearch.find(tmp_path, ["Quillfeather"]) == []
        assert bytesearch.find(tmp_path, ["Marrowbone"])
        assert bytesearch.find(tmp_path, [both])
        assert bob.export().splitlines()[1:] == before
        assert both in bob.query("Which size do I wear?").formatted_context


def test_several_erasures_at_once_while_others_talk(tmp_path):
    """None fails, no turn is lost, and the database is whole."""
    with GUMem(tmp_path, shards=2) as gumem:
        alice, bob = gumem.user("alice"), gumem.user("bob")
        alice.add_messages([{"content": f"{TOLD} {n}"} for n in range(20)])
        done, failed, said = [], [], []
        over = threading.Event()

        def talk():
            while not over.is_set():
                try:
                    said.append(
                        bob.add_messages({"id": f"n{len(said)}", "content": "I row."})[0].id
                    )
                except Exception as error:  # noqa: BLE001  # it is what is tested
                    failed.append(error)

        def erase():
            done.append(alice.forget(everything=True, erase=True).erasure["integrity"])

        talking = threading.Thread(target=talk)
        erasing = [threading.Thread(target=erase) for _ in range(3)]
        for thread in (talking, *erasing):
            thread.start()
        for thread in erasing:
            thread.join(60)
        over.set()
        talking.join(60)
        assert done == ["ok"] * 3
        assert failed == []
        assert [m.id for m in bob.messages()] == said
        assert bytesearch.find(tmp_path, [NAME]) == []


def test_the_middle_of_a_long_session_goes_and_the_rest_is_there_once(tmp_path):
    """The whole history is restored, as it was, in the same session and in another."""
    with ScriptedModel("Noted.") as chat, GUMem(tmp_path, shards=2) as gumem:
        agent = agent_of(chat)
        attached(gumem, agent, "monday", when=Manual())
        for turn in range(20):
            agent.input(TOLD if turn == 10 else f"I own {turn + 10} kites.").start()
        user = gumem.user("alice")
        saved, exported = agent.activated_session.get_json_session(), user.export()
        user.forget(message_ids=[m.id for m in user.messages() if NAME in m.content], erase=True)
        held = pairs(user.messages())
        assert len(held) == 39
        for session in ("monday", "another"):
            other = agent_of(chat)
            attached(gumem, other, session, when=Manual())
            other.activated_session.load_json_session(saved)
            other.input(f"How are you on {session}?").start()
            assert NAME not in other.activated_session.get_json_session()
        for other in (user, gumem.user("alice", space="work"), gumem.user("bob")):
            other.import_(exported, as_user=True)
            assert NAME not in other.export()
        assert pairs(user.messages("monday"))[:39] == held
        assert len(user.messages("monday")) == 41
    assert bytesearch.find(tmp_path, [NAME]) == []


_SERVED = """
import sys
import chromadb
from agently_gumem import GUMem
with GUMem(client=chromadb.HttpClient(host="127.0.0.1", port=int(sys.argv[1]))) as gumem:
    user = gumem.user("alice")
    print(len(user.messages()), flush=True)
    sys.stdin.readline()
    user.add_messages({"content": "I row."}, session_id="s")
    print(user.export())
    print(user.query("Who is my dentist?").formatted_context)
"""


def test_another_process_on_a_server_shows_nothing_and_the_operator_ends_it(tmp_path):
    """It had all of it in memory; the command that the report names leaves no byte."""
    other = None
    with Server(tmp_path) as server:
        try:
            with GUMem(client=server.client()) as gumem:
                user = gumem.user("alice")
                user.add_messages([{"content": TOLD}, {"content": "I like tea."}], session_id="s")
                vectors = list(gumem._engine.services.embedder.embed([TOLD]))
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
                other = subprocess.Popen([sys.executable, "-c", _SERVED, str(server.port)], **pipes)
                assert other.stdout.readline() == "2\n"
                assert user.forget(matching=NAME, erase=True).erasure["kind"] == "server"
                told, _ = other.communicate("go on\n", timeout=60)
                assert "I row." in told
                assert NAME not in told
                assert NAME not in user.export()
                report = user.forget(matching="I row", erase=True)
        finally:
            if other is not None:
                other.kill()
                other.wait(10)
    assert report.erasure["left"]
    operator = report.erasure["command"].replace("PATH", str(tmp_path)).split()
    done = subprocess.run([sys.executable, *operator[1:]], capture_output=True, check=False)
    assert done.returncode == 0
    assert bytesearch.find(tmp_path, [NAME], vectors) == []


def test_what_was_kept_for_a_time_is_swept_with_its_bytes(tmp_path):
    """Special content that a policy keeps, under its label, until its lifetime is over."""
    health = {"action": "keep", "lifetime": 0.5, "access": "care"}
    policy = {"special_categories": {"health": health}}
    with GUMem(tmp_path, shards=2, privacy=policy) as gumem:
        user = gumem.user("alice")
        user.add_messages([{"content": "I have asthma."}, {"content": "I like tea."}])
        (kept,) = user.messages(access=["care"])[:1]
        assert bytesearch.find(tmp_path, ["asthma"])
        over = threading.Event()
        over.wait((kept.expires_at - kept.stored_at).total_seconds())
        swept = gumem.sweep()
        assert (swept["forgotten"], swept["erased"]) == (1, 1)
        assert [m.content for m in user.messages(access=["care"])] == ["I like tea."]
        assert bytesearch.find(tmp_path, ["asthma"]) == []


@pytest.mark.parametrize("valid", [True, False])
def test_a_digest_under_way_tells_no_hook_and_no_model_of_it_any_more(valid, tmp_path):
    """Its answer is shown to nobody, and where that was not valid it is not asked again with it."""
    arrived, forgotten = threading.Event(), threading.Event()

    def answer(request):
        if request.memory_stage == "extract" and not arrived.is_set():
            arrived.set()
            assert forgotten.wait(20)
            return telling(request) if valid else {"facts": "none"}
        return telling(request)

    told = []
    with ScriptedModel(memory=answer) as model, opened(tmp_path, model) as gumem:
        for point in ("fact.after_llm", "fact.before_add", "topic.before_add"):
            gumem.hooks.add(point, lambda event: told.append(str(event.data)))
        user = gumem.user("alice")
        user.add_messages([SAID[0], SAID[4]], session_id="s")
        digest = threading.Thread(target=user.digest)
        digest.start()
        assert arrived.wait(20)
        user.forget(matching=NAME)
        forgotten.set()
        digest.join(20)
        assert not digest.is_alive()
        assert "Pixel" in str(told)
        assert NAME not in str(told)
        assert [NAME in r.text for r in model.memory_requests] == [True, False]
        assert [f.content for f in user.facts()] == ["My cat is called Pixel."]
