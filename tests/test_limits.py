"""How much the memory asks of the model, in which order, and how it goes on by itself."""

import asyncio
import contextlib
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from e2e import agent_of, fact_answer, hooked, say
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem import ConfigError, EveryNTurns, GUMem, LimitReached, Limits, ModelError
from agently_gumem.budget import Budget, Permit
from agently_gumem.budget.clock import Clock
from agently_gumem.budget.decide import (
    LONGEST_HOLD,
    LONGEST_TOLD,
    Allowance,
    Holds,
    Rate,
    Turns,
    retry_after,
)
from agently_gumem.budget.own import COUNTS_FOR, WITHIN
from agently_gumem.scope import Outdated
from agently_gumem.testing import Reply, ScriptedModel

NOON = datetime(2026, 5, 1, 12, tzinfo=timezone.utc)


class ManualClock(Clock):
    """Time that passes when the test says so; what is due then runs on the loop that set it."""

    def __init__(self):
        self._passed = 0.0
        self._timers = {}
        self._number = itertools.count()
        self._lock = threading.Lock()

    def seconds(self):
        """Return what has passed."""
        return self._passed

    def today(self):
        """Return noon, and what has passed."""
        return NOON + timedelta(seconds=self._passed)

    def later(self, seconds, call):
        """Keep what is to be called."""
        timer = _Timer(self, self._passed + seconds, call, asyncio.get_running_loop())
        with self._lock:
            self._timers[timer] = None
        return timer

    @contextlib.contextmanager
    def held(self):
        """Let what is due run only afterwards."""
        kept, self._timers = self._timers, {}
        yield
        self._timers = {**kept, **self._timers}
        self.advance(0)

    def advance(self, seconds):
        """Let so much time pass."""
        with self._lock:
            self._passed += seconds
            due = [t for t in self._timers if t.at <= self._passed]
            for timer in due:
                del self._timers[timer]
        for timer in sorted(due, key=lambda t: t.at):
            timer.loop.call_soon_threadsafe(timer.call)

    def drop(self, timer):
        """Forget a timer."""
        with self._lock:
            self._timers.pop(timer, None)


class _Timer:
    def __init__(self, clock, at, call, loop):
        self.clock, self.at, self.call, self.loop = clock, at, call, loop

    def cancel(self):
        self.clock.drop(self)


@pytest.fixture
def clock():
    """Time of the test's own."""
    return ManualClock()


@pytest.fixture
def opened(clock):
    """Open memories on the test's clock; close them at the end."""
    held = []

    def open_with(client=None, **limits):
        gumem = GUMem(client=client, limits=limits)
        gumem._engine.budget.clock = clock
        held.append(gumem)
        return gumem

    yield open_with
    for gumem in held:
        gumem.close(0)


def talk(gumem, model, user_id, *texts, session_id="s"):
    """Say something to a user's own agent; a digest behind it starts after each turn."""
    agent = agent_of(model)
    memory = gumem.attach(agent, user_id=user_id, when=EveryNTurns(1), wait=0)
    agent.activate_session(session_id=session_id)
    for text in texts:
        say(agent.activated_session, (text, "Noted."))
    return memory


def asked(model):
    """List what the memory asked about: the first message of each request."""
    return [
        r.data["NEW MESSAGES"][0]["text"]
        for r in model.memory_requests
        if r.memory_stage == "extract"
    ]


def reached(gumem, ready):
    """Wait on the memory's own loop, turn by turn of it, until something is so."""

    async def look():
        while not ready():  # noqa: ASYNC110  # nothing tells it but the loop itself
            await asyncio.sleep(0)

    gumem.worker.submit(lambda: asyncio.wait_for(look(), 60)).result()


# --- what decides


@given(
    st.integers(1, 4),
    st.lists(st.integers(0, 50), max_size=30),
)
def test_no_minute_has_more_requests_than_its_limit_and_none_waits_longer(limit, gaps):
    """In any 60 seconds at most `limit` begin; one that waits begins the moment another leaves."""
    rate, now, sent = Rate(limit), 0.0, []
    for gap in gaps:
        now += gap
        ready = rate.ready_at(now)
        recent = [moment for moment in sent if moment > now - 60.0]
        assert (ready <= now) == (len(recent) < limit)
        now = ready
        assert sum(moment > now - 60.0 for moment in sent) < limit
        rate.take(now)
        sent.append(now)
    assert Rate(None).ready_at(now) == now


def test_a_request_that_was_counted_and_not_sent_is_given_back():
    """It leaves its place in the minute to another."""
    rate = Rate(1)
    rate.take(5.0)
    assert rate.ready_at(6.0) == 65.0
    rate.give_back(5.0)
    assert rate.ready_at(6.0) == 6.0


@given(st.lists(st.one_of(st.none(), st.sampled_from("abcd"))))
def test_users_take_turns(steps):
    """Each user's own are in order, and nobody is served twice while another waits."""
    turns, held, number = Turns(), {}, 0
    since = {}
    for step in steps:
        if step is not None:
            number += 1
            turns.push(step, (step, number))
            if step not in held:
                held[step], since[step] = [], number
            held[step].append(number)
        elif held:
            user, item = turns.pop()
            assert user == min(held, key=lambda u: since[u])
            assert item == held[user].pop(0)
            number += 1
            since[user] = number
            if not held[user]:
                del held[user]
        assert len(turns) == sum(map(len, held.values()))


@given(st.integers(1, 100), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30_000))))
def test_a_user_waits_for_the_next_day_once_its_tokens_are_used(limit, uses):
    """Only what was spent today counts, and only the user's own."""
    allowance, at, spent = Allowance(limit), NOON, {}
    for tokens, seconds in uses:
        at += timedelta(seconds=seconds)
        allowance.spend("alice", tokens, at)
        spent[at.date()] = spent.get(at.date(), 0) + tokens
        wait = allowance.wait("alice", at)
        assert (wait > 0) == (spent[at.date()] >= limit)
        if wait:
            free = at + timedelta(seconds=wait)
            assert (free.hour, free.minute, free.second) == (0, 0, 0)
            assert allowance.wait("alice", free) == 0
        assert allowance.wait("bob", at) == 0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0),
        ("7", 7),
        (" 120 ", 120),
        (format_datetime(NOON + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOON - timedelta(days=3), usegmt=True), 0),
        ("999999999999999999999999", LONGEST_TOLD),
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("²", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header, seconds):
    """Nonsense is as good as none; a week is cut to a day."""
    assert retry_after(header, NOON) == seconds


@given(st.text())
def test_no_header_breaks_the_reading(header):
    """Whatever a server sends, it is a bounded number of seconds or none."""
    told = retry_after(header, NOON)
    assert told is None or 0 <= told <= LONGEST_TOLD


@given(st.lists(st.tuples(st.floats(0, 200), st.one_of(st.none(), st.floats(0, 500))), max_size=20))
def test_what_a_model_said_is_never_shortened(refusals):
    """Not by a request that was on its way beside it; without a header it waits ever longer."""
    holds, now, until = Holds(), 0.0, 0.0
    for gap, told in refusals:
        now += gap
        held = holds.refuse("m", told, now)
        assert held >= max(until, now)
        assert held <= max(until, now + (LONGEST_HOLD if told is None else told))
        assert holds.ready_at("other", now) == now
        until = held
    holds.answered("m", now)
    assert holds.ready_at("m", now) == max(now, until)
    later = max(now, until) + 1
    holds.answered("m", later)
    assert holds.refuse("m", None, later) == later + 2


def test_a_wrong_limit_is_named():
    """Zero is no way to turn memory off."""
    for name in ("concurrent", "requests_per_minute", "tokens_per_user_day"):
        with pytest.raises(ConfigError, match=name):
            GUMem(limits={name: 0})


@given(
    st.integers(1, 3),
    st.one_of(st.none(), st.integers(1, 3)),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), min_size=1, max_size=6),
)
def test_all_that_waits_goes_on_within_the_limits(concurrent, rate, backlogs):
    """Whatever comes together: never more at once, nor in a minute, and each ends by itself."""
    asyncio.run(_simulate(concurrent, rate, backlogs))


def nothing():
    """Let a request go on."""


async def _simulate(concurrent, rate, backlogs):
    clock = ManualClock()
    budget = Budget(Limits(concurrent=concurrent, requests_per_minute=rate), clock)
    busy, sent, left = 0, [], {}

    async def digest(key, permit):
        nonlocal busy
        try:
            with budget.behind(permit):
                while left[key]:
                    async with budget.slot(key[0], "m", nothing):
                        busy += 1
                        assert busy <= concurrent
                        sent.append(clock.seconds())
                        await asyncio.sleep(0)
                        busy -= 1
                        left[key] -= 1
        except LimitReached as error:
            budget.wait(key, error, lambda permit: start(key, permit))

    tasks = set()

    def start(key, permit):
        task = asyncio.ensure_future(digest(key, permit))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    for number, (user, size) in enumerate(backlogs):
        left[user, "default", str(number)] = size
        start((user, "default", str(number)), Permit())
    for _ in range(sum(left.values()) + 2):
        while tasks:
            await asyncio.wait(set(tasks))
        clock.advance(60)
        await asyncio.sleep(0)
    assert not any(left.values())
    assert budget.status() == {"requests": 0, "waiting_requests": 0, "waiting_digests": 0}
    if rate is not None:
        for moment in sent:
            assert sum(moment <= other < moment + 60 for other in sent) <= rate


def test_a_request_that_is_decided_against_counts_nothing(clock):
    """Something was forgotten while it waited for its slot: the next one is sent in its place."""

    def decide():
        raise Outdated

    async def work():
        budget = Budget(Limits(requests_per_minute=1), clock)
        with pytest.raises(Outdated):
            async with budget.slot("ann", "m", decide):
                pytest.fail("it was sent")
        assert budget.status()["requests"] == 0
        async with budget.slot("ann", "m", nothing):
            pass

    asyncio.run(work())


def test_who_comes_when_the_minute_is_over_does_not_pass_those_that_wait(clock):
    """Also in the moment before the timer lets them in."""

    async def work():
        budget, went_on = Budget(Limits(requests_per_minute=1), clock), []
        async with budget.slot("ann", "m", nothing):
            pass
        with pytest.raises(LimitReached) as caught:
            async with budget.slot("bea", "m", nothing):
                pass
        budget.wait(("bea", "default", "s"), caught.value, went_on.append)
        with clock.held():
            clock.advance(60)
            with pytest.raises(LimitReached):
                async with budget.slot("cleo", "m", nothing):
                    pass
            assert not went_on
        await asyncio.sleep(0)
        assert len(went_on) == 1

    asyncio.run(work())


# --- requests a minute


def test_over_the_requests_a_minute_messages_wait_and_go_on_by_themselves(opened, clock):
    """No failure, no attempt, nothing under way; the minute over, what waits is digested."""
    with ScriptedModel(memory=fact_answer) as model:
        gumem = opened(requests_per_minute=2)
        memories = [talk(gumem, model, name, f"I am {name}.") for name in ("ann", "bea", "cleo")]
        assert gumem.flush(60)
        waiting = [m for m in memories if m.status()["pending"]]
        assert len(waiting) == 1
        status = waiting[0].status()
        assert status["waiting_for"] == {
            "limit": "requests_per_minute",
            "until": (NOON + timedelta(seconds=60)).isoformat(),
        }
        assert (status["errors"], status["failed"], status["next_attempt_in_turns"]) == ({}, [], 0)
        assert not status["digest_running"]
        user = gumem.user(status["user_id"])
        assert user.status()["waiting_for"] == status["waiting_for"]
        assert [m.attempts for m in user.messages()] == [0, 0]
        assert gumem.status()["limits"]["waiting_digests"] == 1
        clock.advance(59.9)
        assert gumem.flush(60)
        assert len(model.memory_requests) == 2
        clock.advance(0.2)
        model.wait_for(3, "memory", timeout=60)
        assert gumem.flush(60)
        assert [m.status()["pending"] for m in memories] == [0, 0, 0]
        assert waiting[0].status()["waiting_for"] is None


def test_a_huge_backlog_holds_up_nobody(opened, clock):
    """One request a minute: who has had a turn goes behind those that wait, with all its rest."""
    with ScriptedModel(memory=fact_answer) as model:
        gumem = opened(requests_per_minute=1, digest_messages=2)
        user = gumem.user("ann")
        user.add_messages([{"content": f"ann {i}"} for i in range(8)], session_id="old")
        talk(gumem, model, "ann", "ann says")
        assert gumem.flush(60)
        for name in ("bea", "cleo"):
            talk(gumem, model, name, f"{name} says")
            assert gumem.flush(60)
        for count in range(2, 6):
            clock.advance(60)
            model.wait_for(count, "memory", timeout=60)
            assert gumem.flush(60)
        who = [text.split()[0] for text in asked(model)]
        assert who == ["ann", "ann", "bea", "cleo", "ann"]


def test_a_digest_that_somebody_waits_for_says_when_it_can_be_had(opened):
    """It raises, sends nothing, and its messages wait; a sweep counts it as no failure."""
    with ScriptedModel(memory=fact_answer) as model:
        gumem = opened(requests_per_minute=1)
        talk(gumem, model, "ann", "I am Ann.")
        assert gumem.flush(60)
        agent = agent_of(model)
        memory = gumem.attach(agent, user_id="bea", wait=0)
        agent.activate_session(session_id="s")
        say(agent.activated_session, ("I am Bea.", "Noted."))
        with pytest.raises(LimitReached, match="requests_per_minute=") as caught:
            memory.digest()
        assert isinstance(caught.value, ModelError)
        assert (caught.value.limit, caught.value.seconds) == ("requests_per_minute", 60)
        assert not caught.value.answered
        assert memory.status()["pending"] == 2
        agent.deactivate_session()
        assert gumem.flush(60)
        assert gumem.sweep()["failed"] == 0
        assert len(model.memory_requests) == 1


def without_summaries(request):
    """Find the Facts, and have nothing to tell in a Summary."""
    if request.memory_stage == "extract":
        return fact_answer(request)
    return {"summaries": [], "same_topics": []}


def test_summaries_wait_for_the_limit_as_well(opened, clock):
    """What is new is stored; the Summary follows by itself."""
    with ScriptedModel(memory=without_summaries) as model:
        gumem = opened(requests_per_minute=1, summary_after=1)
        with hooked("gumem.failed") as events:
            memory = talk(gumem, model, "ann", "I am Ann.")
            assert gumem.flush(60)
        status = memory.status()
        assert (status["facts"], status["pending"], status["errors"]) == (1, 0, {})
        assert events == []  # to wait is no failure
        assert status["last_digest"]["error"] == "LimitReached"
        assert status["waiting_for"]["limit"] == "requests_per_minute"
        clock.advance(60)
        model.wait_for(2, "memory", timeout=60)
        assert gumem.flush(60)
        assert [r.memory_stage for r in model.memory_requests] == ["extract", "summarize"]


def test_what_waits_asks_nothing_once_memory_is_switched_off(opened, clock, monkeypatch):
    """Its time comes all the same, and serves the next who may ask."""
    with ScriptedModel(memory=without_summaries) as model:
        gumem = opened(requests_per_minute=1, summary_after=1)
        memory = talk(gumem, model, "ann", "I am Ann.")
        assert gumem.flush(60)
        monkeypatch.setenv("GUMEM_OFF", "1")
        clock.advance(60)
        reached(gumem, lambda: gumem._engine.budget.status()["waiting_digests"] == 0)
        assert gumem.flush(60)
        monkeypatch.delenv("GUMEM_OFF")
        assert len(model.memory_requests) == 1
        memory.digest()
        assert [r.memory_stage for r in model.memory_requests] == ["extract", "summarize"]


def test_a_model_that_runs_wild_is_given_up_also_within_a_limit(opened):
    """An answer that is not valid counts, where its correction may not be asked for."""
    with ScriptedModel(memory="no JSON") as model:
        gumem = opened(requests_per_minute=1)
        memory = talk(gumem, model, "ann", "I am Ann.")
        assert gumem.flush(60)
        assert [m.attempts for m in gumem.user("ann").messages()] == [1, 1]
        assert memory.status()["errors"] == {"digest": 1}


def test_a_permit_that_is_not_used_serves_the_next(opened, clock):
    """Who has nothing to ask any more, when its time comes, holds up nobody."""
    with ScriptedModel(memory=fact_answer) as model:
        gumem = opened(requests_per_minute=1)
        for name in ("ann", "bea", "cleo"):
            talk(gumem, model, name, f"I am {name}.")
            assert gumem.flush(60)
        gumem.user("bea").pause()
        clock.advance(60)
        model.wait_for(2, "memory", timeout=60)
        assert gumem.flush(60)
        assert asked(model) == ["I am ann.", "I am cleo."]


def test_closing_waits_for_no_limit_and_nothing_is_lost(opened, client):
    """What waited is in the store: the next one that is opened digests it."""
    with ScriptedModel(memory=fact_answer) as model:
        gumem = opened(client, requests_per_minute=1)
        for name in ("ann", "bea"):
            talk(gumem, model, name, f"I am {name}.")
            assert gumem.flush(60)
        gumem.close()
        assert len(model.memory_requests) == 1
        again = opened(client)
        talk(again, model, "bea", "I am back.")
        model.wait_for(2, "memory", timeout=60)
        assert again.flush(60)
        assert again.user("bea").status()["pending"] == 0


@pytest.fixture
def client(tmp_path):
    """A store that outlives a memory."""
    import chromadb

    return chromadb.PersistentClient(str(tmp_path))


# --- concurrent


def test_no_more_requests_are_under_way_than_allowed(opened):
    """The rest wait for a slot; forgotten meanwhile, a text never goes out."""
    with ScriptedModel(memory=fact_answer) as model, ThreadPoolExecutor(6) as pool:
        gumem = opened(concurrent=2)
        names = [f"user{i}" for i in range(6)]
        model.hold("memory")
        for name in names:
            talk(gumem, model, name, f"I am {name}.")
        model.wait_for(2, "memory", timeout=60)
        reached(gumem, lambda: gumem._engine.budget.status()["waiting_requests"] == 4)
        waiting = [n for n in names if n not in " ".join(asked(model))]
        assert gumem.user(waiting[0]).status()["waiting_for"] == {
            "limit": "concurrent",
            "until": None,
        }
        gumem.user(waiting[1]).forget(everything=True)
        ended = pool.submit(gumem.flush, 60)
        model.release("memory")
        assert ended.result()
        assert len(model.memory_requests) == 5
        assert waiting[1] not in " ".join(asked(model))
        times = sorted((r.started, r.ended) for r in model.memory_requests)
        for began, _ in times:
            assert sum(a <= began < b for a, b in times) <= 2


# --- a model that refuses

REFUSALS = {
    "429 in seconds": Reply("later", status=429, headers={"Retry-After": "30"}),
    "503 in seconds": Reply("later", status=503, headers={"Retry-After": "30"}),
    "429 at a time": Reply(
        "later",
        status=429,
        headers={"Retry-After": format_datetime(NOON + timedelta(seconds=30), usegmt=True)},
    ),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_model_that_asks_to_wait_is_left_alone_by_all_users(kind, opened, clock):
    """Not one request before the time it named; then all go on. Another model is asked."""
    refusing = threading.Event()
    refusing.set()

    def answer(request):
        return REFUSALS[kind] if refusing.is_set() else fact_answer(request)

    with ScriptedModel(memory=answer) as model, ScriptedModel(memory=fact_answer) as other:
        gumem = opened()
        with hooked("gumem.failed") as events:
            first = talk(gumem, model, "ann", "I am Ann.")
            assert gumem.flush(60)
        assert [e.payload["error"] for e in events] == ["LimitReached"]
        second = talk(gumem, model, "bea", "I am Bea.")
        talk(gumem, other, "cleo", "I am Cleo.")
        assert gumem.flush(60)
        assert len(model.memory_requests) == len(other.memory_requests) == 1
        until = (NOON + timedelta(seconds=30)).isoformat()
        for memory in (first, second):
            status = memory.status()
            assert status["waiting_for"] == {"limit": "model", "until": until}
            assert (status["pending"], status["failed"]) == (2, [])
            assert status["next_attempt_in_turns"] == 0
        assert first.status()["errors"] == {"refused": 1}
        assert second.status()["errors"] == {}
        with pytest.raises(LimitReached) as caught:
            second.digest()
        assert (caught.value.limit, caught.value.seconds) == ("model", 30)
        refusing.clear()
        clock.advance(29.5)
        assert gumem.flush(60)
        assert len(model.memory_requests) == 1
        clock.advance(0.5)
        model.wait_for(3, "memory", timeout=60)
        assert gumem.flush(60)
        assert first.status()["pending"] == second.status()["pending"] == 0


def test_a_refusal_is_told_and_waiting_is_not(opened):
    """Who was refused is told of as a failed digest; who only waits has not failed."""
    with ScriptedModel(memory=REFUSALS["429 in seconds"]) as model:
        gumem = opened()
        with hooked("gumem.failed") as events:
            for name in ("ann", "bea"):
                talk(gumem, model, name, f"I am {name}.")
                assert gumem.flush(60)
        told = [tuple(e.payload[k] for k in ("what", "error", "user_id")) for e in events]
        assert told == [("digest", "LimitReached", "ann")]


def test_a_model_that_does_not_say_how_long_is_asked_ever_less(opened, clock):
    """2 and 4 seconds; its attempts are not counted against the messages."""
    with ScriptedModel(memory=Reply("later", status=429)) as model:
        gumem = opened()
        memory = talk(gumem, model, "ann", "I am Ann.")
        for count, seconds in enumerate((2, 4, 8), 2):
            assert gumem.flush(60)
            now = clock.today()
            until = memory.status()["waiting_for"]["until"]
            assert until == (now + timedelta(seconds=seconds)).isoformat()
            clock.advance(seconds)
            model.wait_for(count, "memory", timeout=60)
        assert gumem.flush(60)
        assert [m.attempts for m in gumem.user("ann").messages()] == [0, 0]


# --- tokens of a day


def test_a_user_whose_tokens_are_used_waits_for_tomorrow(opened, clock):
    """Others do not; a refused request costs nothing."""
    with ScriptedModel(memory=fact_answer) as model:
        gumem = opened(tokens_per_user_day=1)
        memory = talk(gumem, model, "ann", "I am Ann.")
        assert gumem.flush(60)
        say(memory._host.agent.activated_session, ("I live in Oslo.", "Noted."))
        talk(gumem, model, "bea", "I am Bea.")
        assert gumem.flush(60)
        assert sorted(asked(model)) == ["I am Ann.", "I am Bea."]
        assert memory.status()["waiting_for"] == {
            "limit": "tokens_per_user_day",
            "until": datetime(2026, 5, 2, tzinfo=timezone.utc).isoformat(),
        }
        clock.advance(12 * 3600)
        model.wait_for(3, "memory", timeout=60)
        assert gumem.flush(60)
        assert memory.status()["pending"] == 0


def test_a_request_that_the_server_refused_spends_no_tokens(opened, clock):
    """It has not worked."""
    replies = iter([Reply("no", status=429, headers={"Retry-After": "1"})])
    with ScriptedModel(memory=lambda r: next(replies, None) or fact_answer(r)) as model:
        gumem = opened(tokens_per_user_day=1)
        memory = talk(gumem, model, "ann", "I am Ann.")
        assert gumem.flush(60)
        clock.advance(1)
        model.wait_for(2, "memory", timeout=60)
        assert gumem.flush(60)
        assert memory.status()["pending"] == 0


# --- the user's own requests go first


class Crossing:
    """A user's turn that is held at the model, and another session of that user beside it."""

    def __init__(self, gumem, model, hold):
        self.agent = agent_of(model)
        gumem.attach(self.agent, user_id="ann", when=EveryNTurns(100))
        self.agent.activate_session(session_id="first")
        self.pool = ThreadPoolExecutor(1)
        self.turn = self.pool.submit(self.agent.input("Slow?").start)
        model.wait_for(1, "chat", timeout=60)
        self.hold = hold

    def land(self):
        """Let it be answered; say how that failed, where it did."""
        self.hold.set()
        self.pool.shutdown()
        return self.turn.exception()


@pytest.mark.parametrize("ends", ["answered", "failed", "the bound"])
def test_the_memory_waits_for_the_users_own_turn_but_not_for_ever(ends, opened, clock):
    """Until it is answered, or has failed, or ten seconds have passed; not a digest by hand."""
    hold = threading.Event()
    status = 500 if ends == "failed" else 200
    with ScriptedModel(Reply("ok", wait=hold, status=status), memory=fact_answer) as model:
        gumem = opened()
        own = Crossing(gumem, model, hold)
        memory = talk(gumem, model, "ann", "I am Ann.", session_id="second")
        waiting = {"limit": "own_turn", "until": None}
        budget = gumem._engine.budget
        reached(gumem, lambda: budget.waiting_for("ann", "default") == waiting)
        talk(gumem, model, "bea", "I am Bea.")
        model.wait_for(1, "memory", timeout=60)
        assert asked(model) == ["I am Bea."]
        assert memory.status()["waiting_for"] == waiting
        if ends == "the bound":
            clock.advance(WITHIN)
        else:
            own.land()
        model.wait_for(2, "memory", timeout=60)
        assert (own.land() is not None) == (ends == "failed")
        assert gumem.flush(60)
        assert asked(model) == ["I am Bea.", "I am Ann."]


def test_a_digest_by_hand_waits_for_no_turn(opened):
    """A turn may itself wait for it."""
    hold = threading.Event()
    with ScriptedModel(Reply("ok", wait=hold), memory=fact_answer) as model:
        gumem = opened()
        own = Crossing(gumem, model, hold)
        user = gumem.user("ann")
        user.add_messages({"content": "I am Ann."})
        gumem._engine.served_by("ann", "default", own.agent)
        with ThreadPoolExecutor(1) as pool:
            digest = pool.submit(user.digest)
            try:
                assert digest.result(60).messages == 1
            finally:
                own.land()


def test_a_turn_without_an_end_counts_no_longer(clock):
    """A generator that was left early is forgotten after a minute."""

    async def work():
        budget = Budget(Limits(), clock)
        await asyncio.to_thread(lambda: asyncio.run(_begin(budget)))
        assert not budget.own.under_way("ann")  # its task is done
        budget.own.begin("ann", clock)
        assert budget.own.under_way("ann")
        assert not budget.own.under_way("bea")
        clock.advance(COUNTS_FOR)
        assert not budget.own.under_way("ann")

    asyncio.run(work())


def test_the_rounds_of_one_question_are_one_turn(clock):
    """Each request for tools begins anew; the answer ends them all, and no other question."""
    own = Budget(Limits(), clock).own
    session = object()
    for asked in ("Which shoe?", "Which shoe?", "And the price?"):
        own.begin("ann", session, asked)
    own.end("ann", session)
    assert own.under_way("ann")
    own.end("ann", session)
    assert not own.under_way("ann")


async def _begin(budget):
    budget.own.begin("ann", budget)
