"""One BLAS thread for small products: on whichever thread they run, and no longer than they do."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from agently_gumem.blas import one_thread
from agently_gumem.embedder import BundledEmbedder


def threads() -> set[int]:
    """Return what the process's BLAS libraries are set to."""
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    """Have two threads to begin with, also where there is one core."""
    if not threads():
        pytest.skip("this BLAS has no threads that can be set")
    with threadpool_limits(limits=2, user_api="blas"):
        assert threads() == {2}
        yield


@pytest.fixture(name="one")
def _one() -> Iterator[ThreadPoolExecutor]:
    """A thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture(name="other")
def _other() -> Iterator[ThreadPoolExecutor]:
    """Another one."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_a_thread_is_held_to_one_after_another_thread_embedded(one: ThreadPoolExecutor):
    """Who came first, and who set a limit before, owns nothing."""
    assert BundledEmbedder()(["first"])
    assert threads() == {2}

    def inside() -> set[int]:
        with one_thread():
            return threads()

    assert one.submit(inside).result() == {1}
    assert threads() == {2}
    assert inside() == {1}
    assert threads() == {2}


def test_an_embedding_beside_leaves_the_limit_where_it_is(one: ThreadPoolExecutor):
    """The embedder sets a limit of its own inside ours, and takes back no more than that."""
    with one_thread():
        assert one.submit(BundledEmbedder(), ["beside"]).result()
        assert threads() == {1}
    assert threads() == {2}


def test_the_last_that_goes_lifts_it(one: ThreadPoolExecutor, other: ThreadPoolExecutor):
    """Threads overlap in any order; one of them may hold it twice."""
    first, second = ExitStack(), ExitStack()
    one.submit(first.enter_context, one_thread()).result()
    other.submit(second.enter_context, one_thread()).result()
    with one_thread(), one_thread():
        one.submit(first.close).result()
        assert threads() == {1}
    assert threads() == {1}
    other.submit(second.close).result()
    assert threads() == {2}


def test_a_failure_inside_lifts_it():
    """What is computed may raise."""
    with pytest.raises(ZeroDivisionError), one_thread():
        _ = 1 / 0
    assert threads() == {2}
