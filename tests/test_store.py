"""The store: scoped rows in Chroma, written whole, and told apart."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromaserver import Server
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem import ConfigError, EmbedderMismatch, GUMem, StoreError
from agently_gumem.ids import Ids
from agently_gumem.opening import open_client
from agently_gumem.store import Row, Store

DIMENSION = 8


def make(path: Path | None, **options: object) -> Store:
    """Open a store of small vectors."""
    known = {"namespace": "t", "shards": 4, "embedder": "e", "dimension": DIMENSION}
    return Store(open_client(path, None), **{**known, **options})


def row(name: str, text: str = "{}", **fields: str | int | float) -> Row:
    """Make a message row."""
    return Row("message", name, text, fields, np.ones(DIMENSION, np.float32))


def test_rows_come_back_as_they_were_written(tmp_path: Path):
    """Document, fields and vector survive a reopening."""
    store = make(tmp_path)
    store.scope("alice", "default").write([row("m1", '{"x": "中文"}', session_id="s", sequence=3)])
    store.close()
    again = make(tmp_path)
    (found,) = again.scope("alice", "default").load()
    again.close()
    assert (found.id, found.layer, found.document) == ("m1", "message", '{"x": "中文"}')
    assert (found.fields["session_id"], found.fields["sequence"]) == ("s", 3)
    assert found.vector is not None
    assert found.vector.tolist() == pytest.approx([1.0] * DIMENSION)


@pytest.mark.parametrize(
    "other", ["$ne", "bob@example.com", "王 小明", 'it\'s "x"', "😀", "a" * 3000]
)
def test_a_scope_reads_only_its_own_rows(other: str):
    """The same record id of two users, or two spaces, is two rows."""
    store = make(None)
    store.scope("alice", "default").write([row("m1", '"alice"')])
    store.scope(other, "default").write([row("m1", '"other"')])
    store.scope("alice", "work").write([row("m1", '"work"')])
    assert [r.document for r in store.scope("alice", "default").load()] == ['"alice"']
    assert [r.document for r in store.scope(other, "default").load()] == ['"other"']
    assert [r.document for r in store.scope("alice", "work").load()] == ['"work"']
    store.close()


def test_a_field_that_a_new_row_does_not_name_is_reset(tmp_path: Path):
    """Chroma's upsert merges metadata; an old status must not live on."""
    store = make(tmp_path)
    scope = store.scope("alice", "default")
    scope.write([row("m1", status="pending")])
    scope.write([row("m1")])
    assert scope.load()[0].fields["status"] == ""
    store.close()


def test_more_rows_than_a_batch_are_all_written():
    """A large import is split at Chroma's largest batch."""
    store = make(None)
    store._batch = 3
    scope = store.scope("alice", "default")
    scope.write([row(f"m{i}") for i in range(10)])
    assert len(scope.load()) == 10
    scope.delete("message", ["m0", "m1"])
    assert len(scope.load()) == 8
    store.close()


@pytest.mark.parametrize(("what", "value"), [("embedder", "other"), ("dimension", 16)])
def test_another_embedder_or_dimension_is_refused_at_open(tmp_path: Path, what: str, value: object):
    """A mismatch is a clear error, never a silent fallback."""
    make(tmp_path).close()
    with pytest.raises(EmbedderMismatch, match=what):
        make(tmp_path, **{what: value})


def test_the_number_of_shards_is_fixed_when_the_store_is_made(tmp_path: Path):
    """A user is found again whatever the next process asks for."""
    make(tmp_path, shards=4).close()
    again = make(tmp_path, shards=9)
    assert again.shards == 4
    again.close()


def test_two_stores_in_memory_are_apart():
    """Chroma's in-memory clients share one database; ours do not share rows."""
    one, two = make(None), make(None)
    one.scope("alice", "default").write([row("m1")])
    assert two.scope("alice", "default").load() == []
    one.close()
    two.close()


def test_pending_scopes_are_listed_for_a_sweep(tmp_path: Path):
    """Who has messages waiting is known without loading everybody."""
    store = make(tmp_path)
    store.scope("alice", "default").write([row("m1", status="pending")])
    store.scope("bob", "work").write([row("m1", status="chunked")])
    store.scope("carol", "default").write([row("m1", status="processed")])
    assert sorted(store.pending()) == [("alice", "default"), ("bob", "work")]
    store.close()


@given(st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
def test_an_id_tells_its_parts_apart(a: list[str], b: list[str]):
    """No text runs over from one part of an id into the next."""
    ids = Ids(b"key")
    assert (ids.of("k", *a) == ids.of("k", *b)) == (a == b)
    assert Ids(b"other").of("k", *a) != ids.of("k", *a)


def test_a_caller_s_client_stays_open(tmp_path: Path):
    """What we did not open we do not close."""
    client = chromadb.PersistentClient(str(tmp_path))
    with GUMem(client=client) as gumem:
        gumem.user("alice").add_messages([{"content": "I live in Berlin."}])
    assert client.heartbeat()
    assert any(c.name.startswith("gumem-") for c in client.list_collections())
    client.close()


def test_a_server_is_seen_by_another_process_at_its_next_query(tmp_path: Path):
    """What one writer adds, another one that has the user loaded finds."""
    with Server(tmp_path) as server:
        one, two = GUMem(client=server.client()), GUMem(client=server.client())
        assert two.user("alice").messages() == []
        one.user("alice").add_messages([{"content": "I live in Berlin."}])
        assert [m.content for m in two.user("alice").messages()] == ["I live in Berlin."]
        two.user("alice").add_messages([{"content": "I work in Potsdam."}])
        assert len(one.user("alice").messages()) == 2
        one.close()
        two.close()


def test_two_memories_on_one_path_of_one_process_see_each_other(tmp_path: Path):
    """A notebook cell that is run again opens a second one beside the first."""
    one, two = GUMem(tmp_path), GUMem(tmp_path)
    assert one.user("alice").messages() == two.user("alice").messages() == []
    one.user("alice").add_messages([{"content": "I live in Berlin."}])
    assert len(two.user("alice").messages()) == 1
    two.user("alice").add_messages([{"content": "I work in Potsdam."}])
    assert len(one.user("alice").messages()) == 2
    two.close()
    one.user("alice").add_messages([{"content": "I moved."}])
    assert len(one.user("alice").messages()) == 3
    one.close()


def _open(path: Path | None, client: Any = None) -> Store:
    opened = open_client(path, client)
    return Store(opened, namespace="t", shards=1, embedder="e", dimension=DIMENSION)


def _write(store: Store, user: str, name: str) -> None:
    store.scope(user, "default").write([row(name)])


def _rows_of(store: Store, user: str) -> list[str]:
    return sorted(found.id for found in store.scope(user, "default").load())


@pytest.mark.parametrize("given", [False, True])
def test_one_folder_is_one_database_however_its_path_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool
):
    """Chroma would keep an index for each spelling, and each would overwrite the other's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("memory", target_is_directory=True)
    client = chromadb.PersistentClient("memory") if given else None
    stores = [_open(None if given else Path("memory"), client=client)]
    stores += [_open(path) for path in (tmp_path / "memory", Path("link"))]
    for n in range(30):
        for place, store in enumerate(stores):
            _write(store, f"user-{place}", f"{n}")
    for store in stores:
        assert store.shared
        for place in range(3):
            assert len(_rows_of(store, f"user-{place}")) == 30
    for store in stores:
        store.close()


def test_many_threads_open_and_close_one_folder_at_once(tmp_path: Path):
    """Each has a whole database, and finds its own rows there."""
    (tmp_path / "memory").mkdir()
    (tmp_path / "link").symlink_to("memory", target_is_directory=True)
    together, found = threading.Barrier(4), list[list[str]]()

    def use(user: str, path: Path) -> None:
        for name in ("a", "b"):
            together.wait(60)
            store = _open(path)
            _write(store, user, name)
            found.append(_rows_of(store, user))
            store.close()

    with ThreadPoolExecutor(4) as pool:
        used = [pool.submit(use, f"{n}", tmp_path / ("memory", "link")[n % 2]) for n in range(4)]
        for one in used:
            one.result()
    assert sorted(found) == [["a"]] * 4 + [["a", "b"]] * 4


def test_a_client_under_another_name_of_an_open_folder_is_refused(tmp_path: Path):
    """What can't be one database is said, before anything is overwritten."""
    store = _open(tmp_path)
    (tmp_path / "sub").mkdir()
    other = chromadb.PersistentClient(str(tmp_path / "sub" / ".."))
    with pytest.raises(ConfigError, match="Use one spelling"):
        _open(None, client=other)
    store.close()
    _open(None, client=other).close()


def test_one_spelling_of_two_folders_is_two_databases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The current folder may change while a memory is open, and after."""
    stores = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        stores.append(_open(Path("memory")))
        _write(stores[-1], "alice", name)
    for n in range(60):  # so many that Chroma writes an index out, by its path
        _write(stores[0], "bob", f"{n}")
    assert [_rows_of(store, "alice") for store in stores] == [["a"], ["b"]]
    for store in stores:
        store.close()
    again = _open(tmp_path / "a" / "memory")
    assert (_rows_of(again, "alice"), len(_rows_of(again, "bob"))) == (["a"], 60)
    again.close()


def test_a_link_that_leads_elsewhere_now_is_the_other_folder(tmp_path: Path):
    """And the folder that it led to keeps its rows."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / "now").unlink(missing_ok=True)
        (tmp_path / "now").symlink_to(name, target_is_directory=True)
        store = _open(tmp_path / "now")
        _write(store, "alice", name)
        store.close()
    for name in ("one", "two"):
        store = _open(tmp_path / name)
        assert _rows_of(store, "alice") == [name]
        store.close()


def test_the_name_of_a_client_counts_while_it_leads_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Chroma follows it at every call: where it leads elsewhere, that is said before any."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "a")
    client = chromadb.PersistentClient("of-a-client")
    given = _open(None, client=client)
    _write(given, "alice", "a")
    monkeypatch.chdir(tmp_path / "b")
    use: list[Callable[[], Any]] = [
        lambda: _rows_of(given, "alice"),
        lambda: _write(given, "alice", "b"),
        lambda: given.dirty,
        given.erase,
        lambda: _open(tmp_path / "a" / "of-a-client"),
    ]
    for call in use:
        with pytest.raises(StoreError, match="whole path"):
            call()
    with pytest.raises(ConfigError, match="database is not there"):
        _open(None, client=client)
    monkeypatch.chdir(tmp_path / "a")
    _write(given, "alice", "b")
    beside = _open(tmp_path / "a" / "of-a-client")
    assert given.shared
    beside.close()
    given.close()
    monkeypatch.chdir(tmp_path / "b")
    client.close()
    after = _open(tmp_path / "a" / "of-a-client")
    assert _rows_of(after, "alice") == ["a", "b"]
    after.close()
    assert list((tmp_path / "b").iterdir()) == []


def test_a_client_that_leads_to_another_database_now_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It would write rows into one and vectors into the other; a new one leads there."""
    # As where the system does not say which files are open.
    monkeypatch.setattr("agently_gumem.opening._is_open", Path.exists)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        _open(Path("of-a-client")).close()
    monkeypatch.chdir(tmp_path / "a")
    client = chromadb.PersistentClient("of-a-client")
    _open(None, client=client).close()
    monkeypatch.chdir(tmp_path / "b")
    with pytest.raises(ConfigError, match="database is not there"):
        _open(None, client=client)
    client.close()
    client = chromadb.PersistentClient("of-a-client")
    store = _open(None, client=client)
    _write(store, "alice", "b")
    store.close()
    client.close()
    after = _open(tmp_path / "b" / "of-a-client")
    assert _rows_of(after, "alice") == ["b"]
    after.close()


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="the system names no open files")
def test_a_client_that_led_elsewhere_before_it_was_given_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also at its first memory, and where another database stands at the new place."""
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        _open(Path("of-a-client")).close()
    client = chromadb.PersistentClient("of-a-client")
    monkeypatch.chdir(tmp_path / "b")
    before = {p: p.stat().st_mtime_ns for p in sorted((tmp_path / "b").rglob("*"))}
    with pytest.raises(ConfigError, match="database is not there"):
        _open(None, client=client)
    assert {p: p.stat().st_mtime_ns for p in sorted((tmp_path / "b").rglob("*"))} == before
    monkeypatch.chdir(tmp_path / "a")
    _open(None, client=client).close()
    client.close()


def test_a_client_that_leads_to_no_database_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also one that no memory had before."""
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path)
    client = chromadb.PersistentClient("of-a-client")
    monkeypatch.chdir(tmp_path / "b")
    with pytest.raises(ConfigError, match="database is not there"):
        _open(None, client=client)
    client.close()
    assert list((tmp_path / "b").iterdir()) == []
