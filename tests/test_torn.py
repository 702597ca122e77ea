"""A kill while Chroma writes an index out: Chroma can't open it, and the memory loses nothing.

Chroma writes the vectors of an index, then empties its list of ids and writes that anew. Here a
folder of the list's name stops it in between, and the files are left as a kill would leave them.
"""

import os
import pickle
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.errors import InternalError
from chromaserver import Server

from agently_gumem import EmbedderMismatch, GUMem
from agently_gumem.erase.index import torn_indexes
from agently_gumem.erase.queue import take_up
from agently_gumem.errors import StoreError
from agently_gumem.opening import open_client
from agently_gumem.store import Row, Store

STARS = "When did we look at the stars with a telescope?"
LIST = "index_metadata.pickle"
HOBBIES = ("sailing", "chess", "pottery", "climbing", "gardening", "astronomy")

Leave = Callable[[Path], Any]


def _half(told: Path) -> None:
    told.write_bytes(told.read_bytes()[: told.stat().st_size // 2])


def _to_a_stop(told: Path) -> None:
    whole = told.read_bytes()
    told.write_bytes(whole[: whole.rindex(b".", 0, -1) + 1])


LEFT: dict[str, Leave] = {
    "the list of before": Path.exists,
    "an empty list": lambda told: told.write_bytes(b""),
    "half a list": _half,
    "a list that ends as a whole one does": _to_a_stop,
}


def say(gumem: GUMem, user: str, first: int, count: int) -> None:
    """Have a user say what is told apart by its number, ten messages at a time."""
    for start in range(first, first + count, 10):
        days = (
            (n, HOBBIES[n % len(HOBBIES)]) for n in range(start, min(start + 10, first + count))
        )
        gumem.user(user).add_messages(
            [{"content": f"On day {n} I went {hobby} with friends."} for n, hobby in days]
        )


def said(gumem: GUMem, user: str) -> list[str]:
    """Return what a user said, in its order."""
    return [message.content for message in gumem.user(user).messages()]


def vectors(gumem: GUMem, user: str) -> dict[str, np.ndarray]:
    """Read the vectors of a user's rows that have one, as they stand in the store."""
    rows = gumem._engine.services.store.scope(user, "default").load()
    return {row.id: row.vector for row in rows if row.vector is not None}


def tear(index: Path, fail: Callable[[], Any], left: Leave) -> None:
    """Stop Chroma between the vectors and the list of one index, and leave a list."""
    (index / LIST).rename(index / "aside")
    (index / LIST).mkdir()
    with pytest.raises((StoreError, InternalError)):
        fail()
    (index / LIST).rmdir()
    (index / "aside").rename(index / LIST)
    left(index / LIST)


def index_folders(folder: Path) -> set[Path]:
    """List the folders of indexes that were written out."""
    return {found.parent for found in folder.glob(f"*/{LIST}")}


def torn_again(folder: Path, shard: Path, left: Leave) -> None:
    """Tear a shard in the middle of what alice says."""
    with GUMem(folder, shards=1) as gumem:
        told = len(said(gumem, "alice"))  # Chroma reads its list once
        tear(shard, lambda: say(gumem, "alice", told, 100), left)


@pytest.fixture
def torn(tmp_path: Path) -> Callable[..., Path]:
    """Give what makes a store of two users whose shard is torn, so many times."""

    def make(left: Leave, times: int = 1) -> Path:
        with GUMem(tmp_path, shards=1) as gumem:
            roots = index_folders(tmp_path)
            say(gumem, "alice", 0, 30)
            say(gumem, "bob", 0, 30)
        (shard,) = index_folders(tmp_path) - roots
        for _ in range(times):
            torn_again(tmp_path, shard, left)
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("left", "times"), [*((left, 1) for left in list(LEFT)[:3]), (next(iter(LEFT)), 3)]
)
def test_a_torn_index_is_made_anew_and_every_user_has_all_it_said(
    torn: Callable[..., Path], left: str, times: int, caplog: pytest.LogCaptureFixture
):
    """Also what was said since the index was last written out, and whichever time it is torn."""
    folder = torn(LEFT[left], times)
    caplog.clear()
    with GUMem(folder, shards=1) as gumem:
        assert "embedded anew" in caplog.text
        for user, least in (("alice", 30 + 10 * times), ("bob", 30)):
            told = said(gumem, user)
            assert len(told) >= least
            assert [t.split()[2] for t in told] == [str(n) for n in range(len(told))]
        assert "astronomy" in gumem.user("bob").query(STARS).formatted_context
        whole = vectors(gumem, "alice") | vectors(gumem, "bob")
        assert all(abs(np.linalg.norm(vector) - 1) < 1e-6 for vector in whole.values())
    caplog.clear()
    with GUMem(folder, shards=1) as gumem:  # it is written out again, with all vectors
        again = vectors(gumem, "alice") | vectors(gumem, "bob")
        assert again.keys() == whole.keys()
        assert all(np.allclose(again[i], whole[i], atol=1e-6) for i in whole)
    assert caplog.text == ""


def test_what_holds_for_all_is_made_anew_too(tmp_path: Path):
    """The key that users are found by stands there, and the mark of what was deleted."""
    with GUMem(tmp_path, shards=1) as gumem:
        (root,) = index_folders(tmp_path)
        say(gumem, "alice", 0, 3)
        store = gumem._engine.services.store
        store._set_dirty()

        def fail() -> None:
            for n in range(100):
                store._root.upsert(ids=[f"{n}"], embeddings=[[0.0]], documents=["{}"])

        tear(root, fail, LEFT["the list of before"])
    with GUMem(tmp_path, shards=1) as gumem:
        assert len(said(gumem, "alice")) == 3
        assert gumem._engine.services.store.dirty


def _small(path: Path) -> Store:
    return Store(open_client(path, None), namespace="t", shards=1, embedder="e", dimension=2)


def _kept(store: Store) -> dict[str, bool]:
    """Tell of each row of a user whether its vector is whole."""
    rows = store.scope("alice", "default").load()
    return {row.id: row.vector is not None and bool(row.vector.any()) for row in rows}


def _write(store: Store, first: int, count: int) -> None:
    for n in range(first, first + count):
        row = Row("message", f"{n}", "{}", {}, np.array([0.6, 0.8], np.float32))
        store.scope("alice", "default").write([row])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Make a store of 70 rows; give the folder of its shard's index."""
    store = _small(tmp_path)
    roots = index_folders(tmp_path)
    _write(store, 0, 70)
    store.close()
    (shard,) = index_folders(tmp_path) - roots
    return shard


@pytest.mark.parametrize("left", [left for left in LEFT if left != "the list of before"])
def test_a_list_that_is_not_whole_is_seen_by_itself(small: Path, left: str):
    """Where nothing new stood in the index, the header counts no more than the list."""
    LEFT[left](small / LIST)
    store = _small(small.parent)
    assert set(_kept(store)) == {f"{n}" for n in range(70)}
    store.close()


def test_every_part_of_a_list_is_no_list(small: Path):
    """Wherever a kill cuts it; and the whole one is."""
    assert torn_indexes(small.parent) == []
    whole = (small / LIST).read_bytes()
    for length in range(len(whole)):
        (small / LIST).write_bytes(whole[:length])
        assert torn_indexes(small.parent) == [small]


def test_a_torn_index_that_was_copied_is_mended(small: Path):
    """In the order of their names the list comes after the header, as in an index that is whole."""
    store = _small(small.parent)
    links = (small / "link_lists.bin").read_bytes()
    _kept(store)
    tear(small, partial(_write, store, 70, 100), LEFT["the list of before"])
    store.close()
    (small / "link_lists.bin").write_bytes(links)
    for at, file in enumerate(sorted(small.iterdir())):
        os.utime(file, (at, at))
    copy = Path(shutil.copytree(small.parent, small.parent / "copy"))
    store = _small(copy)
    assert set(_kept(store)) > {f"{n}" for n in range(70)}
    store.close()


@pytest.mark.parametrize("told", [b"no pickle.", b"NNNs.", pickle.dumps([1]), pickle.dumps(Path())])
def test_a_file_of_the_name_of_a_list_that_is_none_is_left(tmp_path: Path, told: bytes):
    """Whatever another application, or a later Chroma, keeps in it."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "header.bin").touch()
    (tmp_path / "theirs" / LIST).write_bytes(told)
    os.utime(tmp_path / "theirs" / LIST, (1, 1))
    _small(tmp_path).close()
    assert (tmp_path / "theirs" / LIST).read_bytes() == told


def test_what_a_server_wrote_keeps_its_vectors(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Nothing marks its indexes as made; their vectors are read before any is given anew."""
    with Server(tmp_path) as server:
        opened = open_client(None, server.client())
        store = Store(opened, namespace="t", shards=1, embedder="e", dimension=2)
        _write(store, 0, 120)
        store.close()
    caplog.clear()
    store = _small(tmp_path)
    assert _kept(store) == {f"{n}": True for n in range(120)}
    store.close()
    assert caplog.text == ""


def test_a_kill_while_deletions_are_written_out_is_mended(small: Path):
    """The list still knows what the vectors have as deleted; nothing of that comes back."""
    store = _small(small.parent)
    rows, gone = store.scope("alice", "default"), list[str]()
    left = set(_kept(store))
    take_up(store.collection(0), 50)  # so that nothing new is to be written out

    def forget() -> None:
        for n in range(70):
            rows.delete("message", [f"{n}"])
            gone.append(f"{n}")

    tear(small, forget, LEFT["the list of before"])
    store.close()
    assert 0 < len(gone) < 69
    store = _small(small.parent)
    left -= set(gone)
    assert left >= set(_kept(store)) >= left - {f"{len(gone)}"}
    store.close()


def test_a_kill_in_the_mending_is_mended(small: Path):
    """Between the list that is taken out and the last vector, whichever was written."""
    (small / LIST).unlink()
    client = chromadb.PersistentClient(str(small.parent))
    rows = client.get_collection("t-000", embedding_function=None)
    first = [i for i in rows.get(include=[])["ids"] if i != "keeper"][:5]
    rows.upsert(ids=first, embeddings=[[1.0, 0.0]] * 5)
    client.close()
    store = _small(small.parent)
    assert set(_kept(store)) == {f"{n}" for n in range(70)}
    store.close()
    assert small in index_folders(small.parent)


def test_a_kill_right_after_the_mending_is_mended(small: Path):
    """When the index is next written out, before anybody read what was embedded anew."""
    for left in LEFT.values():
        (small / LIST).write_bytes(b"")
        for _ in range(2):
            store = _small(small.parent)
            assert {f"{n}" for n in range(70)} <= set(_kept(store))
            tear(small, partial(_write, store, 70, 100), left)
            store.close()


def test_an_index_of_another_application_is_left_as_it_is(tmp_path: Path):
    """It may have nothing to make its vectors from; the memory beside it works."""
    client = chromadb.PersistentClient(str(tmp_path))
    theirs = client.create_collection("t-notes", embedding_function=None)
    for n in range(0, 1_200, 100):
        theirs.add(ids=[f"{i}" for i in range(n, n + 100)], embeddings=[[1.0, 0.0]] * 100)
    (index,) = index_folders(tmp_path)
    client.close()
    (index / LIST).write_bytes(b"")
    store = _small(tmp_path)
    store.scope("alice", "default").write([Row("message", "m", "{}", {})])
    store.close()
    assert (index / LIST).read_bytes() == b""


def test_an_index_that_is_written_out_just_now_is_not_taken_for_torn(small: Path):
    """A second memory that opens the folder waits for the write that does it."""
    store = _small(small.parent)
    whole = (small / LIST).read_bytes()
    with ThreadPoolExecutor(1) as pool:
        with store.writing(0):
            (small / LIST).write_bytes(b"")
            opening = pool.submit(_small, small.parent)
            with pytest.raises(TimeoutError):
                opening.result(1)
            (small / LIST).write_bytes(whole)
        opening.result().close()
    assert _kept(store) == {f"{n}": True for n in range(70)}
    store.close()
    again = _small(small.parent)
    assert _kept(again) == {f"{n}": True for n in range(70)}
    again.close()


def test_an_index_that_is_read_just_now_is_not_taken_for_torn(small: Path):
    """Chroma writes one out as it reads it, too, which no gate holds up; so the first one looks."""
    store = _small(small.parent)
    whole = (small / LIST).read_bytes()
    (small / LIST).write_bytes(b"")
    _small(small.parent).close()
    (small / LIST).write_bytes(whole)
    store.close()
    store = _small(small.parent)
    assert _kept(store) == {f"{n}": True for n in range(70)}
    store.close()


def test_the_first_memory_of_a_namespace_mends_it(small: Path):
    """Whichever other one is open there, and whoever failed to open this one before."""
    beside = Store(
        open_client(small.parent, None), namespace="u", shards=1, embedder="e", dimension=2
    )
    with pytest.raises(EmbedderMismatch) as failed:
        Store(open_client(small.parent, None), namespace="t", shards=1, embedder="f", dimension=2)
    (small / LIST).write_bytes(b"")
    store = _small(small.parent)
    assert set(_kept(store)) == {f"{n}" for n in range(70)}
    store.close()
    beside.close()
    del failed


def test_a_server_is_mended_by_opening_its_folder_once(torn: Callable[..., Path]):
    """Its own process can't; the error says what its operator does."""
    folder = torn(LEFT["half a list"])
    with (
        Server(folder) as server,
        GUMem(client=server.client()) as gumem,
        pytest.raises(StoreError, match="open it once with GUMem"),
    ):
        said(gumem, "bob")
    GUMem(folder).close()
    with Server(folder) as server, GUMem(client=server.client()) as gumem:
        assert len(said(gumem, "bob")) == 30
        assert "astronomy" in gumem.user("bob").query(STARS).formatted_context


def test_an_answer_that_is_none_ends_no_opening(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """As where every Python of the machine says something as it starts."""
    (tmp_path / "says").mkdir()
    (tmp_path / "says" / "sitecustomize.py").write_text("print('welcome')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "says"))
    (small / LIST).write_bytes(b"")
    store = _small(small.parent)
    assert "could not be mended" in caplog.text
    assert set(_kept(store)) == {f"{n}" for n in range(70)}
    store.close()


def test_an_index_that_can_not_be_mended_is_said(
    torn: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Where no process can be started; what is stored stays as it is, for the next opening."""
    folder = torn(LEFT["an empty list"])
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "")
        with GUMem(folder, shards=1) as gumem:
            assert "could not be mended" in caplog.text
            with pytest.raises(StoreError, match="open it once with GUMem"):
                said(gumem, "bob")
    with GUMem(folder, shards=1) as gumem:
        assert len(said(gumem, "bob")) == 30
