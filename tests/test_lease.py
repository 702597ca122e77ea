"""Turns: one at a time in a process and among processes; and what tells others what changed."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import chromadb
import pytest
from chromaserver import Server
from hypothesis import example, given
from hypothesis import strategies as st

from agently_gumem import GUMem, StoreError
from agently_gumem.lease import FairLock, Lease, Turn, Watch
from agently_gumem.opening import open_client
from agently_gumem.revision import MOST_WRITERS, Log, key_of, news, of_others, without_old
from agently_gumem.store import Row, Standing, Store
from agently_gumem.worker import Worker


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A Chroma server."""
    with Server(tmp_path_factory.mktemp("chroma")) as server:
        yield server


@pytest.fixture
def rows(server, request):
    """The rows of a user, opened twice, as two processes do."""
    opened = [
        _store(server.client(), request.node.name.replace("[", "_").rstrip("]")) for _ in range(2)
    ]
    yield [store.scope("alice", "default") for store in opened]
    for store in opened:
        store.close()


@pytest.fixture
def worker():
    """A worker that is closed at the end."""
    made = Worker()
    yield made
    made.close()


def _store(client, name):
    options = {"shards": 1, "embedder": "e", "dimension": 2}
    return Store(open_client(None, client), namespace=name[:60].strip("_"), **options)


# --- the lease


def test_of_all_who_race_for_a_turn_one_at_a_time_has_it(rows, worker):
    """Each gets it, none while another one has it, and no epoch is given twice."""
    inside, epochs = [], []

    async def one(lease):
        for _ in range(2):
            await lease.acquire()
            inside.append(1)
            epochs.append(lease.epoch)
            assert len(inside) == 1
            assert rows[0].look({"digest": lease.epoch})[1] == frozenset()
            inside.pop()
            await lease.release()

    async def race():
        leases = [Lease(rows[i % 2], "digest", 600.0, worker) for i in range(4)]
        await asyncio.wait_for(asyncio.gather(*map(one, leases)), 40)

    worker.run(race)
    assert epochs == list(range(1, 9))
    assert len(rows[0]._turns("digest")) <= 5


def test_who_comes_after_its_epoch_is_over_does_not_get_it(rows):
    """Its row was taken out again, so that `add` makes it; a higher one says that it is over."""
    one, two = rows
    for epoch in range(1, 8):
        assert one.take_turn("digest", epoch, "one").epoch == epoch
        one.end_turn("digest", epoch)
    assert 2 not in one._turns("digest")
    assert two.take_turn("digest", 2, "late") == Standing(7, "one", 0, True)


def test_the_first_of_two_who_add_the_same_epoch_has_it(rows):
    """Both are told the same."""
    one, two = rows
    assert one.take_turn("digest", 1, "one") == two.take_turn("digest", 1, "two")
    assert one.standing("digest") == Standing(1, "one", 0, False)
    assert one.standing("other") is None


def test_what_rests_on_a_turn_that_was_taken_over_is_not_written(rows):
    """Whether the next holder's row is the next one, or a later one after which all are gone."""
    one, two = rows
    one.take_turn("digest", 1, "one")
    row = Row("memo", "memo", "{}", {})
    assert one.write([row], turns={"digest": 1}) == frozenset()
    assert one.keep_turn("digest", 1, 1)
    for epoch in range(2, 8):
        two.take_turn("digest", epoch, "two")
        assert one.write([Row("memo", "memo", '"late"', {})], turns={"digest": 1}) == {"digest"}
        assert one.replace([("memo", "memo")], [], {"digest": 1}) == {"digest"}
        assert not one.keep_turn("digest", 1, 2)
    assert [r.document for r in two.load()] == ["{}"]
    assert two.write([row], turns={"digest": 7}) == frozenset()


def test_who_gives_up_while_it_takes_a_turn_leaves_it_free(rows, worker):
    """The store has given it by then, or will: nobody waits until it counts as dead."""
    taking, go_on = threading.Event(), threading.Event()

    class Slow:
        """Rows of which one turn is taken slowly."""

        def __getattr__(self, name):
            return getattr(rows[0], name)

        def take_turn(self, *args):
            taken = rows[0].take_turn(*args)
            taking.set()
            go_on.wait(20)
            return taken

    async def give_up():
        task = asyncio.ensure_future(Lease(Slow(), "digest", 600.0, worker).acquire())
        await asyncio.to_thread(taking.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        other = Lease(rows[1], "digest", 600.0, worker)
        await asyncio.wait_for(other.acquire(), 20)
        await other.release()

    worker.run(give_up)


class Slow:
    """A worker on which a turn is taken, before or after `go_on`, and its caller hears of it late.

    Args:
        worker: Does the work.
        go_on: For what the thread waits before it takes the turn; None: the caller waits after it.
    """

    def __init__(self, worker, go_on=None):
        self._worker, self._go_on, self.taking = worker, go_on, threading.Event()
        self.spawn = worker.spawn

    async def thread(self, fn, *args):
        """Run it; what takes a turn slowly."""
        if fn.__name__ != "take":
            return await self._worker.thread(fn, *args)
        if self._go_on is not None:
            return await self._worker.thread(self._when_told, fn)
        await self._worker.thread(fn)
        self.taking.set()
        return await asyncio.Event().wait()

    def _when_told(self, fn):
        self.taking.set()
        self._go_on.wait(20)
        return fn()


@pytest.mark.parametrize("go_on", [threading.Event(), None], ids=["before", "after"])
def test_who_closes_while_it_takes_a_turn_leaves_it_free(go_on, rows):
    """Nobody in another process waits until a process that was closed counts as dead."""
    closed = Worker()
    slow = Slow(closed, go_on)
    waiting = closed.submit(Lease(rows[0], "digest", 600.0, slow).acquire)
    assert slow.taking.wait(20)
    if go_on is not None:
        waiting.add_done_callback(lambda _: go_on.set())
    closed.close(20.0, lambda: None)
    assert rows[1].standing("digest").free


def test_a_late_sign_of_life_brings_no_turn_back(rows):
    """A holder that was taken over, and whose row is gone, makes no new one by its beat."""
    one, two = rows
    for epoch in range(1, 8):
        one.take_turn("digest", epoch, "one")
    one.keep_turn("digest", 1, 9)
    one.end_turn("digest", 1)
    assert two.standing("digest") == Standing(7, "one", 0, False)


@given(
    st.lists(st.tuples(st.integers(1, 2), st.integers(0, 2), st.floats(0, 3)), max_size=12),
    st.floats(0.5, 4),
)
def test_a_turn_is_over_when_its_beat_stood_still_for_its_time(seen, seconds):
    """By the clock of who watches, and from the moment at which it first saw that beat."""
    watch, moment, since, last = Watch(seconds), 100.0, 100.0, None
    for epoch, beat, passed in seen:
        moment += passed
        if (epoch, beat) != last:
            last, since = (epoch, beat), moment
        assert watch.is_over(Standing(epoch, "h", beat, False), moment) == (
            moment - since >= seconds
        )
        assert watch.is_over(Standing(epoch, "h", beat, True), moment)


def test_who_waits_for_a_turn_holds_up_nobody(rows, worker):
    """The loop goes on, and a wait that is cancelled leaves the lock to the next."""
    held = Lease(rows[0], "digest", 20.0, worker)
    turn = Turn(rows[1], "digest", Lease(rows[1], "digest", 20.0, worker))

    async def scene():
        await held.acquire()
        first = worker.spawn(turn.__aenter__())
        while turn.state != "waiting":  # noqa: ASYNC110  # a state has no event to wait for
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait({first})
        assert turn.state == "free"
        await held.release()
        async with turn:
            assert turn.state == "held"
            turn.lose()
            assert (turn.state, turn.lost) == ("lost", True)
        return turn.state

    assert worker.run(scene) == "free"


def test_a_holder_that_learns_of_its_loss_by_its_beat_writes_nothing_either(rows, worker):
    """The beat ends, and what it knows is no way round the look before a write."""
    one, two = rows
    lease = Lease(one, "digest", 0.1, worker)

    async def scene():
        await lease.acquire()
        epoch = lease.epoch
        two.take_turn("digest", epoch + 1, "two")
        await asyncio.wait({lease._beats}, timeout=20)
        assert lease._beats.done()
        written = one.write([Row("memo", "memo", "{}", {})], turns={"digest": lease.epoch})
        await lease.release()
        return written

    assert worker.run(scene) == {"digest"}
    assert two.standing("digest").holder == "two"


# --- the lock of one process


def test_a_lock_orders_tasks_of_several_loops_by_their_coming():
    """Two memories of one process run on two loops."""
    lock, got, workers = FairLock(), [], [Worker(), Worker()]

    async def enter(number):
        await lock.acquire()
        got.append(number)
        lock.release()

    async def come(number, came):
        task = asyncio.ensure_future(enter(number))
        await asyncio.sleep(0)  # it stands in the queue
        came.set()
        await task

    workers[0].run(lock.acquire)
    futures = []
    for number in range(6):
        came = threading.Event()
        futures.append(workers[number % 2].submit(come, number, came))
        assert came.wait(10)
    lock.release()
    for future in futures:
        future.result(10)
    assert got == list(range(6))
    for made in workers:
        made.close()


@pytest.mark.parametrize("given_before", [True, False])
def test_a_cancelled_wait_passes_the_lock_on(given_before):
    """Also where it was given the lock in the moment in which it was cancelled."""

    async def scene():
        lock = FairLock()
        await lock.acquire()
        first, second = (asyncio.ensure_future(lock.acquire()) for _ in range(2))
        await asyncio.sleep(0)
        if given_before:
            lock.release()
        first.cancel()
        if not given_before:
            lock.release()
        await asyncio.wait_for(second, 10)
        assert first.cancelled() or given_before

    asyncio.run(scene())


def test_two_memories_on_one_path_take_turns(tmp_path):
    """They are one process: a lock orders them, whichever store they opened."""
    with GUMem(tmp_path) as one, GUMem(tmp_path) as two, GUMem() as apart:
        turns = []
        for gumem in (one, two, apart):
            store = gumem._engine.services.store
            turns.append(Turn(store.scope("alice", "default"), "digest"))

        async def scene():
            async with turns[0]:
                waits = asyncio.ensure_future(turns[1].__aenter__())
                async with turns[2]:
                    await asyncio.sleep(0)
                assert not waits.done()
            await asyncio.wait_for(waits, 10)
            await turns[1].__aexit__()

        one.worker.run(scene)


# --- what others are told

writes = st.lists(
    st.tuples(
        st.sampled_from("ABC"),
        st.sampled_from(["write", "write", "burst", "delete", "read", "read", "clear"]),
        st.lists(st.integers(0, 99), min_size=1, max_size=4),
        st.booleans(),
    ),
    max_size=20,
)
_BURST = 20


@example([("A", "write", [1], False), ("B", "clear", [2], False), ("A", "read", [0], False)])
@given(writes)
def test_whoever_reads_what_it_is_told_to_read_knows_all(steps):
    """Against a whole reading after each step, whatever was written, deleted and cleared."""
    store, revision, logs, number = {}, {}, {}, 0
    seen, known, ground_since = {}, {}, False
    for writer, what, rows, ground in steps:
        if what == "read":
            found = of_others(revision, key_of("R"))
            told = news(known, found)
            if told.whole:
                seen = dict(store)
            for row in told.rows:
                seen[row] = store[row]
            assert seen == store
            assert told.ground or not ground_since
            known, ground_since = found, False
            continue
        log = logs.setdefault(writer, Log())
        for place in range(_BURST if what == "burst" else 1):
            number += 1
            ids = [f"r{i + place}" for i in rows]
            if what == "delete":
                for row in ids:
                    store.pop(row, None)
            else:
                store |= dict.fromkeys(ids, number)
            log.add(number, None if what == "delete" else ids, ground=ground)
        ground_since |= ground
        revision[key_of(writer)] = log.value()
        if what == "clear":
            others = of_others(revision, key_of(writer))
            gone = {k: None for k in others if k.startswith("w_")}
            revision = {k: v for k, v in revision.items() if k not in gone}
            revision["cleared"] = str(number)
    assert len(json_of(logs)) < 40_000


def json_of(logs):
    """Return all that writers tell: it is bounded, however much they wrote."""
    return "".join(log.value() for log in logs.values())


def test_values_of_writers_that_are_gone_do_not_pile_up(rows):
    """A process leaves one value behind; past a number they go, and nothing is missed."""
    one, two = rows
    assert without_old({f"w_{i}": "" for i in range(MOST_WRITERS - 1)}, "t") == {}
    others = [_store(one.store._client, one.store._namespace) for _ in range(MOST_WRITERS + 2)]
    for number, store in enumerate(others):
        scope = store.scope("alice", "default")
        scope.revision()
        scope.write([Row("memo", f"m{number}", "{}", {})])
    known = two.revision()
    assert 1 <= len(known) <= MOST_WRITERS + 1
    assert "cleared" in known
    assert len(two.load()) == len(others)


def test_a_value_of_an_older_version_has_all_read_anew():
    """It is a bare number."""
    assert news({"w_a": 3}, {"w_a": 4}).whole
    assert news({}, {"w_a": 4}).whole
    assert news({"w_a": 4}, {"w_a": 4}).nothing


# --- a server that is lost


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no signals here")
def test_a_server_that_hangs_holds_up_no_call_for_ever(tmp_path):
    """Chroma's client has no bound of its own; a client with one keeps it."""
    with Server(tmp_path) as server:
        client = server.client()
        with (
            ThreadPoolExecutor(1) as pool,
            GUMem(client=client, limits={"store_timeout": 0.5}) as gumem,
        ):
            user = gumem.user("alice")
            user.add_messages({"content": "I live in Berlin."})
            os.kill(server._process.pid, signal.SIGSTOP)
            try:
                asked = pool.submit(user.query, "Where do I live?")
                with pytest.raises(StoreError, match="ReadTimeout"):
                    asked.result(20)
            finally:
                os.kill(server._process.pid, signal.SIGCONT)
            assert "Berlin" in user.query("Where do I live?").formatted_context
        own = chromadb.HttpClient(host="127.0.0.1", port=server.port)
        own._server._session.timeout = 7.0
        open_client(None, own, timeout=1.0)
        assert own._server._session.timeout.read == 7.0
