"""The worker and the embedder: what runs where, and what a bad embedder can't do."""

import asyncio
import contextvars
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem import Closed, ConfigError
from agently_gumem.embedder import PIECE_CHARS, Embedder
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
