"""Erasing: what was deleted stands in no byte of the store's files, and all else is as it was."""

import base64
import gzip
import json
import os
import shlex
import shutil
import sqlite3
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
import zstandard
from bytesearch import Hit, find
from chromaserver import Server
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem.erase import Gate
from agently_gumem.erase.index import index_of, scrub_index
from agently_gumem.erase.queue import take_up
from agently_gumem.erase.report import command_for
from agently_gumem.errors import StoreError
from agently_gumem.opening import open_client
from agently_gumem.store import Row, Store

DIMENSION = 32


def make(path: Path | None, client: Any = None, **options: Any) -> Store:
    """Open a store of small vectors."""
    known = {"namespace": "gumem", "shards": 3, "embedder": "e", "dimension": DIMENSION}
    return Store(open_client(path, client), **{**known, **options})


def vector_of(name: str) -> np.ndarray:
    """Make a vector for a name: always the same, and no two alike."""
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    made = draw.standard_normal(DIMENSION).astype(np.float32)
    return made / np.linalg.norm(made)


def text_of(name: str) -> str:
    """Make what a name's row says."""
    return f"the «secret» of {name} is 中文 {zlib.crc32(name.encode())}"


def row(name: str, layer: str = "message") -> Row:
    """Make a row whose text and vector are of its name."""
    told = json.dumps({"content": text_of(name)}, ensure_ascii=False)
    return Row(layer, name, told, {"status": "processed"}, vector_of(name))


def standing(path: Path, *names: str) -> list[Hit]:
    """Search the folder for texts and vectors of rows."""
    return find(path, [text_of(n) for n in names], [vector_of(n) for n in names])


def names_of(user: str, count: int) -> list[str]:
    """Name a user's rows."""
    return [f"{user}.{place}" for place in range(count)]


def intact(store: Store, users: dict[str, int]) -> None:
    """Check that users have all their rows, and that Chroma finds each by its vector."""
    for user, count in users.items():
        scope = store.scope(user, "default")
        found = {r.id: r for r in scope.load()}
        assert sorted(found) == sorted(names_of(user, count))
        for name, kept in found.items():
            assert kept.document == row(name).document
            assert kept.vector is not None
            assert np.allclose(kept.vector, vector_of(name), rtol=0, atol=1e-7)
        if not found:
            continue
        nearest = store.collection(scope.shard).query(
            query_embeddings=[vector_of(name) for name in found],
            where={"scope": {"$eq": scope.key}},
            n_results=1,
            include=["documents"],
        )
        assert [d[0] for d in nearest["documents"]] == [row(n).document for n in found]


def fill(store: Store, users: dict[str, int], at_once: int = 7) -> None:
    """Write the rows of users in turns, so that they stand beside each other in the files."""
    waiting = {user: names_of(user, count) for user, count in users.items()}
    while any(waiting.values()):
        for user, names in waiting.items():
            store.scope(user, "default").write([row(n) for n in names[:at_once]])
            waiting[user] = names[at_once:]


# --- the searcher ---------------------------------------------------------------------------------


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-le")


FORMS: dict[str, Callable[[str], bytes]] = {
    "utf-8": str.encode,
    "utf-16-le": _utf16,
    "utf-16-be": lambda text: text.encode("utf-16-be"),
    "json": lambda text: json.dumps({"a": text}).encode(),
    "base64": lambda text: base64.b64encode(text.encode()),
}
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": lambda raw: raw,
    "zlib ": zlib.compress,
    "gzip ": gzip.compress,
    "zstd ": zstandard.ZstdCompressor().compress,
    "gzip zlib ": lambda raw: gzip.compress(zlib.compress(raw)),
}


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("form", FORMS)
@given(before=st.binary(max_size=9), after=st.binary(max_size=9), lead=st.text(max_size=2))
def test_a_text_is_found_in_each_form(
    form: str, packed: str, before: bytes, after: bytes, lead: str, tmp_path_factory: Any
):
    """Wherever it begins, and whatever stands before it in the same string."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "f").write_bytes(before + PACKED[packed](FORMS[form](f"{lead}Größe 中文 42")) + after)
    assert Hit("f", f"{packed}{form}", "Größe 中文 42") in find(folder, ["Größe 中文 42"])
    assert find(folder, ["Größe 文中 42"]) == []


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@given(before=st.binary(max_size=20), start=st.integers(0, 47), length=st.integers(16, 64))
def test_sixteen_bytes_of_a_vector_are_found(
    dtype: str, packed: str, before: bytes, start: int, length: int, tmp_path_factory: Any
):
    """Any sixteen, at any place, and no others."""
    folder = tmp_path_factory.mktemp("vector")
    raw = vector_of("x").astype(dtype).tobytes()
    piece = raw[min(start, len(raw) - 16) :][:length]
    (folder / "f").write_bytes(PACKED[packed](before + piece + b"\0" * 40))
    vectors = [vector_of("y"), vector_of("x")]
    found = find(folder, vectors=vectors)
    assert Hit("f", f"{packed}{dtype}", "vector 1") in found
    # What does not compress stands plainly in the stream as well.
    assert {hit.what for hit in found} == {"vector 1"}
    assert find(folder, vectors=[vector_of("y"), vector_of("z")]) == []


# --- an embedded store ----------------------------------------------------------------------------


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("count", [1, 9, 120])
def test_rows_of_one_user_go_from_all_files(tmp_path: Path, count: int, reopened: bool):
    """Whether they are in the queue only, or in the index, beside other users' or alone."""
    users = {"alice": count, "bob": count, "carol": 3}
    store = make(tmp_path, shards=1)
    fill(store, users, at_once=1 + count // 9)
    gone = names_of("alice", count)
    assert {h.what for h in standing(tmp_path, gone[0])} == {text_of(gone[0]), "vector 0"}
    if reopened:
        store.close()
        store = make(tmp_path, shards=1)
    store.scope("alice", "default").forget([("message", n) for n in gone])
    assert standing(tmp_path, *gone), "the bytes outlive a deletion: that is why erase exists"
    erased = store.erase()
    assert (erased.kind, erased.integrity, erased.complete) == ("embedded", "ok", True)
    assert standing(tmp_path, *gone) == []
    others = {"bob": count, "carol": 3}
    intact(store, others)
    fill(store, {"erin": 80})  # Chroma writes the neighbours of deleted vectors anew
    assert standing(tmp_path, *gone) == []
    store.close()
    assert standing(tmp_path, *gone) == []
    store = make(tmp_path, shards=1)
    intact(store, {**others, "alice": 0, "erin": 80})
    fill(store, {"dora": 80})
    intact(store, {**others, "dora": 80})
    store.close()
    assert standing(tmp_path, *gone) == []


def test_a_user_goes_whole_from_several_collections(tmp_path: Path):
    """With the memo and the flags; what keeps a forgotten text from coming back stays."""
    users = {f"user-{n}": 30 for n in range(6)}
    store = make(tmp_path)
    fill(store, users)
    scope = store.scope("user-0", "default")
    flags = [Row("forgotten", "h1", "{}", {}), Row("skip", "h2", "{}", {})]
    scope.write([row("memo", "memo"), Row("state", "s", "{}", {}), *flags])
    store.scope("user-0", "work").write([row("elsewhere")])
    gone = [*names_of("user-0", 30), "memo"]
    assert standing(tmp_path, gone[3], "memo")
    assert scope.forget_all() == 31
    assert store.erase().complete
    assert standing(tmp_path, *gone) == []
    assert sorted(r.id for r in scope.load()) == ["h1", "h2", "s"]
    assert [r.id for r in store.scope("user-0", "work").load()] == ["elsewhere"]
    intact(store, {user: 30 for user in users if user != "user-0"})
    store.close()


def test_who_was_forgotten_leaves_no_name(tmp_path: Path):
    """Neither do the flags that stay, nor those that an older version wrote with a name."""
    store = make(tmp_path)
    scope = store.scope("alice@example.com", "my secret space")
    scope.write([row("m1"), Row("forgotten", "h", "{}", {})])
    _write_as_before(scope, "skip", "old")
    scope.write([Row("skip", "old", "{}", {})])
    names = ["alice@example.com", "my secret space"]
    assert {h.what for h in find(tmp_path, names)} == set(names)
    scope.forget_all()
    store.erase()
    store.close()
    assert find(tmp_path, names) == []


def _write_as_before(scope: Any, layer: str, name: str) -> None:
    fields = {**scope._fields(Row(layer, name, "{}", {})), "user_id": scope.user_id}
    fields["space"] = scope.space
    scope.store.write(scope.shard, [(scope._row_id(layer, name), Row(layer, name, "", {}), fields)])


def test_a_text_that_was_cut_goes_too(tmp_path: Path):
    """An update leaves the old text behind as a deletion does."""
    store = make(tmp_path)
    scope = store.scope("alice", "default")
    scope.write([row("m1"), row("m2")])
    store.erase()
    assert not store.dirty
    assert standing(tmp_path, "m1")
    scope.write([Row("message", "m1", '{"content": ""}', {}, vector_of("empty"))], dirty=True)
    assert store.dirty
    assert standing(tmp_path, "m1")
    assert store.erase_if_dirty() is not None
    assert standing(tmp_path, "m1") == []
    assert standing(tmp_path, "m2")
    store.close()


def test_no_piece_of_a_deleted_text_stays_in_the_full_text_index(tmp_path: Path):
    """Its three-letter pieces stay there with their places, and would give the text back."""
    store = make(tmp_path)
    scope = store.scope("alice", "default")
    # A piece whose first letter no other piece begins with is written out whole.
    scope.write([Row("message", "m1", "ʬ☃★", {}, vector_of("m1")), row("m2")])
    scope.delete("message", ["m1"])
    store.close()
    _sql(tmp_path, "vacuum")
    assert find(tmp_path, ["ʬ☃★"])
    store = make(tmp_path)
    store.erase()
    store.close()
    assert find(tmp_path, ["ʬ☃★"]) == []


def test_a_queue_that_chroma_was_told_to_keep_is_emptied(tmp_path: Path):
    """A database made before Chroma 0.5.6 keeps it, until somebody says otherwise."""
    make(tmp_path).close()
    _sql(
        tmp_path,
        "update embeddings_queue_config set config_json_str = "
        '\'{"automatically_purge":false,"_type":"EmbeddingsQueueConfigurationInternal"}\'',
    )
    store = make(tmp_path)
    fill(store, {"alice": 60, "bob": 60})
    scope = store.scope("alice", "default")
    scope.forget_all()
    assert store.erase().complete
    assert standing(tmp_path, *names_of("alice", 60)) == []
    fill(store, {"carol": 9})
    store.close()
    again = make(tmp_path)
    intact(again, {"alice": 0, "bob": 60, "carol": 9})
    again.close()


def _sql(path: Path, statement: str) -> list[Any]:
    """Run a statement on a store that nobody has open."""
    database = sqlite3.connect(path / "chroma.sqlite3", isolation_level=None)
    try:
        return database.execute(statement).fetchall()
    finally:
        database.close()


# --- the files of the index -----------------------------------------------------------------------


def foreign(folder: Path) -> list[tuple[str, int]]:
    """List what stands in files of an index and belongs to none of its elements: file, bytes."""
    found: dict[str, int] = {}
    for header in folder.rglob("header.bin"):
        elements, size = struct.unpack_from("<QQ", header.read_bytes(), 20)
        past = (header.parent / "data_level0.bin").read_bytes()[elements * size :]
        lengths = np.frombuffer((header.parent / "length.bin").read_bytes(), np.float32)
        wrong = lengths.view(np.uint32)[elements:] != 0
        told = lengths[:elements]
        off = (told != 0) & ~(np.abs(told - 1) < 1e-3)
        found[f"{header.parent.name}/data_level0.bin"] = len(past) - past.count(0)
        found[f"{header.parent.name}/length.bin"] = 4 * int(wrong.sum() + off.sum())
    return [(name, count) for name, count in found.items() if count]


def dirtied() -> None:
    """Leave free memory behind that holds text, of the sizes that an index asks for."""
    sizes = [400, 480, 1024, 2048, 100 * 144, 100 * (144 + 4 * (DIMENSION - 1))]
    held = [bytearray(b"what somebody said " * (size // 19)) for size in sizes * 40]
    held.clear()


@pytest.mark.parametrize("given", [False, True])
def test_no_memory_of_the_process_stands_in_the_files_of_an_index(tmp_path: Path, given: bool):
    """From the first row on, whatever is written, deleted, erased or opened anew."""

    def opened() -> Store:
        dirtied()
        client = chromadb.PersistentClient(str(tmp_path)) if given else None
        return make(None if given else tmp_path, client)

    store = opened()
    assert foreign(tmp_path) == []
    for count in (1, 48, 60, 200):
        fill(store, {f"user-{count}": count, "bob": count})
        assert foreign(tmp_path) == []
        store.scope("bob", "default").forget_all()
        assert foreign(tmp_path) == []
        store.close()
        store = opened()
        fill(store, {"carol": 3})
        assert foreign(tmp_path) == []
    store.erase()
    fill(store, {f"user-{n}": 2 for n in range(9)})
    assert foreign(tmp_path) == []
    intact(store, {"user-200": 200, "carol": 3, "user-8": 2})
    store.close()


def _marked(collection: Any) -> None:
    gone = {"scope": "", "layer": "gone", "user_id": "", "space": "", "record_id": ""}
    collection.upsert(
        ids=["mark"], embeddings=[[0.0] * DIMENSION], documents=["{}"], metadatas=[gone]
    )


def _without_rows(collection: Any) -> None:
    """Leave what a kill between the length of the vectors and the first row leaves."""
    _marked(collection)
    collection.delete(ids=["mark"])


def _written_out(collection: Any) -> None:
    _marked(collection)
    take_up(collection, 50)


def _interrupted(path: Path, at: Callable[[Any], None]) -> Path:
    """Make a store whose shard was left at some point of its making; give its index's folder."""
    store = make(path, shards=1)
    roots = set(path.iterdir())
    at(store.collection(0))
    store.close()
    (folder,) = set(path.iterdir()) - roots
    return folder


@pytest.mark.parametrize("interrupted", [_marked, _without_rows, _written_out])
@pytest.mark.parametrize("then", ["read", "write", "erase"])
def test_the_making_of_an_index_that_was_interrupted_is_finished(
    tmp_path: Path, interrupted: Callable[[Any], None], then: str
):
    """Also where nobody writes: at a mere read Chroma makes it anew."""
    folder = _interrupted(tmp_path, interrupted)
    with (folder / "data_level0.bin").open("r+b") as file:
        file.seek(-100, 2)
        file.write(b"what somebody said")
    dirtied()
    store = make(tmp_path, shards=1)
    if then == "read":
        assert store.scope("alice", "default").load() == []
    elif then == "write":
        fill(store, {"alice": 3})
        intact(store, {"alice": 3})
    else:
        store.erase()
    assert foreign(tmp_path) == []
    store.close()


@pytest.mark.parametrize("elements", [0, 1])
def test_a_kill_while_an_index_is_first_written_out_leaves_no_dead_collection(
    tmp_path: Path, elements: int
):
    """Chroma empties the list of ids first, and can't open a collection whose list is empty."""
    folder = _interrupted(tmp_path, _marked)
    with (folder / "header.bin").open("r+b") as file:
        file.seek(20)
        file.write(struct.pack("<Q", elements))
    (folder / "index_metadata.pickle").touch()
    store = make(tmp_path, shards=1)
    fill(store, {"alice": 60})
    intact(store, {"alice": 60})
    assert foreign(tmp_path) == []
    store.close()


def test_a_folder_that_is_deleted_and_made_anew_is_marked_anew(tmp_path: Path):
    """What this process marked in the one before says nothing of this one."""
    for _ in range(2):
        store = make(tmp_path / "memory", shards=1)
        fill(store, {"alice": 1})
        store.scope("alice", "default").forget_all()
        assert store.dirty
        store.close()
        shutil.rmtree(tmp_path / "memory")


def test_an_index_is_made_once(tmp_path: Path):
    """Whoever opens the store later, or a second time in the process, finds it made."""
    first = make(tmp_path, shards=1)
    fill(first, {"alice": 1})
    made = {h: h.read_bytes() for h in tmp_path.rglob("header.bin")}
    second = make(tmp_path, shards=1)
    fill(second, {"bob": 1})
    second.close()
    first.close()
    third = make(tmp_path, shards=1)
    fill(third, {"carol": 1})
    third.close()
    assert {h: h.read_bytes() for h in tmp_path.rglob("header.bin")} == made


def test_one_s_own_index_is_found_among_others(tmp_path: Path):
    """By a row of its own: another application may have written its index out after it."""
    for when, (name, rows) in enumerate([("own", b"a mark b"), ("other", b"keeper"), ("new", b"")]):
        (tmp_path / name).mkdir()
        told = tmp_path / name / "index_metadata.pickle"
        told.write_bytes(rows)
        os.utime(told, (when, when))
    (tmp_path / "of-somebody-else").mkdir()
    assert index_of(tmp_path, "mark") == tmp_path / "own"
    with pytest.raises(ValueError, match="names the row"):
        index_of(tmp_path, "another mark")


def test_the_files_of_another_application_stay_byte_for_byte(tmp_path: Path):
    """It may write them out at any moment, and its vectors may be of any length."""
    client = chromadb.PersistentClient(str(tmp_path))
    store = make(None, client)
    before = set(tmp_path.iterdir())
    vectors = np.stack([9 * vector_of(n) for n in names_of("app", 60)])
    for space, count in (("l2", 3), ("ip", 60), ("cosine", 60)):
        made = client.create_collection(
            f"gumem-notes-{space}",
            embedding_function=None,
            configuration={"hnsw": {"space": space, "sync_threshold": 50, "batch_size": 50}},
        )
        made.add(ids=names_of("app", count), embeddings=vectors[:count])
    files = [f for place in set(tmp_path.iterdir()) - before for f in place.iterdir()]
    assert len(files) == 3 * 4 + 2
    for file in files:  # memory of the process that it wrote there is its own affair
        if file.name == "data_level0.bin":
            with file.open("ab") as opened:
                opened.write(text_of("app").encode())
    theirs = {file: file.read_bytes() for file in files}
    fill(store, {"alice": 60, "bob": 2})
    store.scope("alice", "default").forget_all()
    store.erase()
    assert {file: file.read_bytes() for file in files} == theirs
    store.close()


def test_an_index_of_a_later_chroma_is_told_and_goes_on(tmp_path: Path, monkeypatch, caplog):
    """Nothing of an unknown form is overwritten; the memory works, and says what it can't do."""
    monkeypatch.setattr("agently_gumem.erase.index._VERSION", 2)
    (tmp_path / "of-somebody-else").mkdir()
    store = make(tmp_path, shards=1)
    fill(store, {"alice": 60})
    intact(store, {"alice": 60})
    store.close()
    assert {r.levelname for r in caplog.records if "new index" in r.getMessage()} == {"WARNING"}


def test_what_was_planted_in_the_files_of_an_index_goes(tmp_path: Path):
    """Past the last element, and in length.bin, as an older store has it."""
    store = make(tmp_path, shards=1)
    fill(store, {"bob": 55})
    store.close()
    left = text_of("left").encode()
    for header in tmp_path.rglob("header.bin"):
        elements, size = struct.unpack_from("<QQ", header.read_bytes(), 20)
        for name, at in (("data_level0.bin", elements * size + 3), ("length.bin", 8)):
            with (header.parent / name).open("r+b") as file:
                file.seek(at)
                file.write(left)
    files = {Path(hit.file).name for hit in standing(tmp_path, "left")}
    assert files == {"data_level0.bin", "length.bin"}
    store = make(tmp_path, shards=1)
    assert store.erase().zeroed >= 2 * len(left)
    assert standing(tmp_path, "left") == foreign(tmp_path) == []
    store.close()


def test_the_vector_of_a_row_that_was_only_deleted_goes(tmp_path: Path):
    """As an older version deleted: without overwriting it before."""
    store = make(tmp_path, shards=1)
    fill(store, {"alice": 60, "bob": 60})
    scope = store.scope("alice", "default")
    ids = [scope._row_id("message", n) for n in names_of("alice", 60)]
    store.collection(0).delete(ids=ids)
    store.erase()
    assert standing(tmp_path, *names_of("alice", 60)) == []
    store.close()
    again = make(tmp_path, shards=1)
    intact(again, {"bob": 60})
    again.close()


@pytest.mark.parametrize("header", [b"", b"\0" * 100, b"\x01" + b"\xff" * 99])
def test_an_index_of_another_form_is_left_alone(tmp_path: Path, header: bytes):
    """A later Chroma may keep its vectors otherwise: nothing of it is overwritten."""
    (tmp_path / "header.bin").write_bytes(header)
    (tmp_path / "length.bin").write_bytes(b"lengths")
    (tmp_path / "data_level0.bin").write_bytes(b"vectors")
    with pytest.raises(ValueError, match=r"header\.bin"):
        scrub_index(tmp_path)
    assert (tmp_path / "length.bin").read_bytes() == b"lengths"
    assert (tmp_path / "data_level0.bin").read_bytes() == b"vectors"


def test_the_folder_of_a_deleted_collection_is_told(tmp_path: Path):
    """Chroma leaves it, and it is not ours to remove."""
    client = chromadb.PersistentClient(str(tmp_path))
    other = client.create_collection("of-the-application")
    other.add(ids=["a"], embeddings=[[1.0, 2.0]])
    (folder,) = [p.name for p in tmp_path.iterdir() if p.is_dir()]
    client.delete_collection("of-the-application")
    store = make(None, client)
    fill(store, {"alice": 2})
    erased = store.erase()
    assert list(erased.left) == ([folder] if (tmp_path / folder).exists() else [])
    assert erased.complete == (not erased.left)
    store.close()
    client.close()


def test_of_very_many_shards_only_those_in_use_are_cleaned(tmp_path: Path):
    """The others are not there."""
    store = make(tmp_path, shards=99)
    fill(store, {"alice": 3, "bob": 3})
    store.scope("alice", "default").forget_all()
    assert len(store.erase().indexes) == 3
    assert standing(tmp_path, *names_of("alice", 3)) == []
    intact(store, {"bob": 3})
    store.close()


# --- the mark, and readers beside -----------------------------------------------------------------


@pytest.mark.parametrize("layer", ["message", "fact", "summary", "topic", "memo"])
def test_a_deletion_marks_the_store(tmp_path: Path, layer: str):
    """For whoever sweeps, in this process or the next."""
    store = make(tmp_path)
    scope = store.scope("alice", "default")
    scope.write([row("r1", layer), Row("mark", "x", "{}", {})])
    scope.delete("mark", ["x"])
    assert store.erase_if_dirty() is None
    scope.delete(layer, ["r1"])
    store.close()
    again = make(tmp_path)
    assert again.dirty
    assert again.erase_if_dirty() is not None
    assert again.erase_if_dirty() is None
    again.scope("alice", "default").delete(layer, ["r1"])
    assert again.dirty
    again.close()


def test_another_store_on_the_folder_reads_anew(tmp_path: Path):
    """Its revision changes, and it sees no row on its way out."""
    one, two = make(tmp_path), make(tmp_path)
    fill(one, {"alice": 3, "bob": 3})
    seen = two.scope("alice", "default").revision()
    one.scope("alice", "default").forget([("message", "alice.1"), ("message", "alice.1")])
    assert two.scope("alice", "default").revision() != seen
    assert {r.id for r in two.scope("alice", "default").load()} == {"alice.0", "alice.2"}
    assert one.erase().complete
    two.scope("bob", "default").delete("message", ["bob.0"])
    assert one.dirty
    assert two.erase().complete
    assert standing(tmp_path, "alice.1", "bob.0") == []
    one.close()
    two.close()


def test_a_deletion_that_was_interrupted_is_finished(tmp_path: Path):
    """A row that was overwritten and not deleted yet is nobody's, and goes."""
    store = make(tmp_path, shards=1)
    fill(store, {"alice": 2})
    scope = store.scope("alice", "default")
    store._set_dirty()
    gone = {**scope._fields(row("alice.0")), "scope": "", "layer": "gone"}
    store.write(0, [(scope._row_id("message", "alice.0"), Row("gone", "", "", {}), gone)])
    assert {r.id for r in scope.load()} == {"alice.1"}
    before = store.collection(0).count()
    store.erase()
    assert store.collection(0).count() == before - 1
    assert standing(tmp_path, "alice.0") == []
    store.close()


def test_turns_go_on_beside_an_erasure(tmp_path: Path):
    """Writes and reads of others wait, none fails, none is lost."""
    store = make(tmp_path)
    fill(store, {"alice": 120, "bob": 5})
    store.scope("alice", "default").forget_all()
    failed: list[BaseException] = []
    stop, begun = threading.Event(), threading.Barrier(4)
    written: dict[str, int] = {}

    def talk(user: str) -> None:
        scope = store.scope(user, "default")
        try:
            while not stop.is_set():
                scope.write([row(f"{user}.{written.get(user, 0)}")])
                written[user] = written.get(user, 0) + 1
                assert len(scope.load()) == written[user]
                if written[user] == 1:
                    begun.wait(60)
        except BaseException as error:  # noqa: BLE001  # told by the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=talk, args=(f"writer-{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    begun.wait(60)
    erased = [store.erase(), store.erase()]
    stop.set()
    for thread in threads:
        thread.join()
    assert failed == []
    assert [(e.integrity, len(e.indexes)) for e in erased] == [("ok", 3)] * 2
    assert min(written.values()) > 1
    store.close()
    assert standing(tmp_path, *names_of("alice", 120)) == []
    again = make(tmp_path)
    intact(again, {**written, "bob": 5})
    again.close()


def _held(call: Callable[[], object]) -> threading.Thread:
    """Start a call that is to be held up, and check that it is."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    return thread


def test_a_gate_holds_up_whoever_comes_while_it_is_shut():
    """And who shuts it waits for those who pass, and for another who shut it before."""
    gate, order = Gate(), list[str]()

    def pass_through() -> None:
        with gate.passing():
            order.append("passed")

    def shut() -> None:
        with gate.shut():
            order.append("shut")

    with pytest.raises(KeyError), gate.shut():
        raise KeyError
    with gate.shut():
        waiting = [_held(pass_through), _held(shut)]
        order.append("opened")
    for thread in waiting:
        thread.join()
    assert (order[0], sorted(order[1:])) == ("opened", ["passed", "shut"])
    with pytest.raises(KeyError), gate.passing():
        raise KeyError
    with gate.passing():
        pass_through()
        thread = _held(shut)
        order.append("left")
    thread.join()
    assert order[3:] == ["passed", "left", "shut"]


def test_a_store_writes_and_deletes_nothing_while_its_files_are_cleaned(tmp_path: Path):
    """Neither does another store of this process on the folder."""
    one, two = make(tmp_path), make(tmp_path)
    fill(one, {"alice": 2, "bob": 2})
    alice, bob = one.scope("alice", "default"), two.scope("bob", "default")
    with one._gate.shut():
        waiting = [
            _held(lambda: alice.write([row("alice.2")])),
            _held(lambda: bob.delete("message", ["bob.0"])),
        ]
        assert {r.id for r in alice.load()} == {"alice.0", "alice.1"}
        assert {r.id for r in bob.load()} == {"bob.0", "bob.1"}
    for thread in waiting:
        thread.join()
    assert {r.id for r in alice.load()} == {"alice.0", "alice.1", "alice.2"}
    assert {r.id for r in bob.load()} == {"bob.1"}
    one.close()
    two.close()


def test_a_store_that_became_empty_is_filled_again(tmp_path: Path):
    """Chroma makes a new index where it finds none with a row in it."""
    store = make(tmp_path, shards=1)
    fill(store, {"alice": 60})
    store.scope("alice", "default").forget_all()
    store.erase()
    store.close()
    for users in ({"bob": 20}, {"bob": 20, "carol": 60}):
        store = make(tmp_path, shards=1)
        fill(store, users)
        intact(store, {**users, "alice": 0})
        store.close()
    store = make(tmp_path, shards=1)
    intact(store, {"alice": 0, "bob": 20, "carol": 60})
    store.close()
    assert standing(tmp_path, *names_of("alice", 60)) == []


# --- when it fails --------------------------------------------------------------------------------


def test_a_process_that_takes_too_long_is_told(tmp_path: Path):
    """The rows stay deleted, the mark stays set, and the next one does it."""
    store = make(tmp_path)
    fill(store, {"alice": 3, "bob": 3})
    store.scope("alice", "default").forget_all()
    with pytest.raises(StoreError, match=r"more than 0\.001 s.*still in the files.*again"):
        store.erase(timeout=0.001)
    assert store.dirty
    assert standing(tmp_path, "alice.1")
    fill(store, {"carol": 3})
    assert store.erase_if_dirty() is not None
    assert standing(tmp_path, "alice.1") == []
    intact(store, {"bob": 3, "carol": 3})
    store.close()


def test_files_of_another_form_are_an_error_and_not_a_silence(tmp_path: Path):
    """What could not be cleaned is said, and the mark stays."""
    store = make(tmp_path, shards=1)
    fill(store, {"alice": 3})
    store.scope("alice", "default").forget_all()
    for header in tmp_path.rglob("header.bin"):
        header.write_bytes(b"another form")
    with pytest.raises(StoreError, match=r"header\.bin has 12 bytes.*call it again"):
        store._eraser._clean(60)
    assert store.dirty
    store.close()


def test_a_process_that_dies_half_way_harms_nothing(tmp_path: Path):
    """SQLite takes back what it began, when Chroma reads next."""
    store = make(tmp_path)
    fill(store, {"alice": 100, "bob": 100})
    store.scope("alice", "default").forget_all()
    died = subprocess.run([sys.executable, "-c", _DIES, str(tmp_path)], capture_output=True)
    assert died.returncode == 9, died.stderr
    assert (tmp_path / "chroma.sqlite3-journal").exists()
    intact(store, {"bob": 100})
    fill(store, {"carol": 3})
    assert store.erase().integrity == "ok"
    assert standing(tmp_path, *names_of("alice", 100)) == []
    intact(store, {"bob": 100, "carol": 3})
    store.close()


_DIES = """
import os, sqlite3, sys
from pathlib import Path
database = sqlite3.connect(Path(sys.argv[1]) / "chroma.sqlite3", isolation_level=None)
database.execute("pragma cache_size = 1")
database.execute("begin immediate")
database.execute("update embedding_metadata set string_value = 'x' where string_value is not null")
os._exit(9)
"""


def test_a_store_in_memory_has_no_file():
    """Its rows are gone once they are deleted."""
    store = make(None)
    fill(store, {"alice": 2, "bob": 2})
    store.scope("alice", "default").forget_all()
    assert store.dirty
    erased = store.erase()
    assert (erased.kind, erased.complete, erased.left) == ("memory", True, {})
    assert not store.dirty
    intact(store, {"alice": 0, "bob": 2})
    store.close()


def test_the_command_can_be_pasted_whatever_the_folder_is_called():
    """It is for people: a space or a quote in a name must not cut it."""
    told = shlex.split(command_for("/data/Ann's store", "two words"))
    assert told[3:] == ["/data/Ann's store", "--namespace", "two words"]
    assert command_for("/data", "gumem") == "python -m agently_gumem.erase /data"


def test_the_command_says_what_it_can_not_do(tmp_path: Path):
    """A folder without a store is an error, and makes none."""
    done = _command(tmp_path)
    assert done.returncode == 1
    assert "chroma.sqlite3" in done.stderr
    assert list(tmp_path.iterdir()) == []


def _command(path: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "agently_gumem.erase", str(path), *more]
    return subprocess.run(command, capture_output=True, text=True)


# --- a server -------------------------------------------------------------------------------------


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[], Server]]:
    """Start servers on one folder, one after the other; none outlives the test."""
    started: list[Server] = []

    def start() -> Server:
        started.append(Server(tmp_path))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def test_a_server_is_cleaned_by_what_its_operator_is_told(tmp_path: Path, serve: Any):
    """What is left is where it was said to be; the command, once the server stopped, ends it."""
    server = serve()
    store = make(None, server.client())
    fill(store, {"alice": 70, "bob": 70})
    gone = names_of("alice", 70)
    assert standing(tmp_path, *gone)
    store.scope("alice", "default").forget_all()
    erased = store.erase()
    assert erased.kind == "server"
    assert erased.command == "python -m agently_gumem.erase PATH"
    told = " ".join(erased.left)
    assert all(Path(hit.file).name in told for hit in standing(tmp_path, *gone))
    intact(store, {"bob": 70})
    store.close()
    server.stop()
    done = _command(tmp_path)
    assert (done.returncode, json.loads(done.stdout)["integrity"]) == (0, "ok"), done.stderr
    assert standing(tmp_path, *gone) == []
    again = make(None, serve().client())
    intact(again, {"alice": 0, "bob": 70})
    again.close()


def test_what_a_server_s_index_has_not_taken_up_is_told(tmp_path: Path, serve: Any):
    """Without the application's part the command says that something is left."""
    server = serve()
    store = make(None, server.client())
    fill(store, {"alice": 70, "bob": 3})
    store.scope("alice", "default").forget([("message", "alice.5")])
    server.stop()
    done = _command(tmp_path)
    assert done.returncode == 3
    assert any("embeddings_queue" in place for place in json.loads(done.stdout)["left"])
    server = serve()
    store = make(None, server.client())
    store.erase()
    server.stop()
    assert _command(tmp_path).returncode == 0
    assert standing(tmp_path, "alice.5") == []
