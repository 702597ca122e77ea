"""What a stage is: one chunk's own work, marked once a visit; and how it fails without harm."""

import asyncio
import functools
import threading

import chromadb
import pytest
import workflows
from agently import TriggerFlow
from dead import Dead
from e2e import agent_of, fact_answer
from workflows import CLOSES, HAS_PAUSES, attached_to, finish

from agently_gumem import (
    ConfigError,
    GUMem,
    Manual,
    Stage,
    StageBoundary,
    recall_chunk,
    remember_chunk,
    stage_chunk,
)
from agently_gumem.flow._data import visits, write
from agently_gumem.testing import Reply, ScriptedModel

pytestmark = pytest.mark.host


def run(flow, value="x", **resources):
    """Run a flow to its end, with what it needs where its version of Agently keeps it."""
    if hasattr(flow, "update_runtime_resources"):
        return flow.start(value, runtime_resources=resources)
    execution = flow.create_execution()
    for name, held in resources.items():
        execution.set_runtime_data(name, held)
    return execution.start(value)


def held(data, name):
    """Read a resource in any version."""
    return data.get_resource(name) if hasattr(data, "get_resource") else data.get_runtime_data(name)


def flow_of(*chunks):
    """Build a flow of chunks one after the other."""
    flow = process = TriggerFlow(name="f")
    for chunk in chunks:
        process = process.to(chunk)
    finish(process)
    return flow


def talk(text):
    """Make a plain chunk that says something."""

    def chunk(data):
        held(data, "agent").input(text).start()
        return data.value

    chunk.__name__ = f"say_{text.split()[-1].strip('.')}"
    return chunk


@pytest.fixture
def model():
    """Answer the agent, and find one Fact in each message of the user."""
    with ScriptedModel("Noted.", memory=fact_answer) as model:
        yield model


def start(gumem, model, **options):
    """Attach one agent to one session."""
    agent = agent_of(model)
    memory = attached_to(
        gumem, agent, "alice", "s", **{"when": StageBoundary(), "wait": 20.0, **options}
    )
    return agent, memory


def digested(model):
    """List what each digest was shown of the user."""
    return [
        [m["text"] for m in r.data["NEW MESSAGES"] if m["role"] == "user"]
        for r in model.memory_requests
        if r.memory_stage == "extract"
    ]


def outcomes(memory):
    """List what stages left as decided."""
    return [m.content for m in memory.user.messages(event_type="stage")]


def test_a_stage_is_its_chunks_own_work(model):
    """What was said before a stage and after it goes into no digest of it."""
    flow = flow_of(
        talk("I own a bike."),
        stage_chunk("one")(talk("I own a car.")),
        talk("I own a boat."),
        stage_chunk("two")(talk("I own a kite.")),
    )
    with GUMem() as gumem:
        agent, memory = start(gumem, model)
        run(flow, agent=agent, memory=memory)
        assert digested(model) == [
            ["I own a bike."],
            ["I own a car."],
            ["I own a boat."],
            ["I own a kite."],
        ]


def test_a_stage_of_several_chunks_is_what_was_said_since_the_mark_before(model):
    """`since="mark"` takes in what chunks before it said."""
    flow = flow_of(
        talk("I own a bike."),
        stage_chunk("one", since="mark")(talk("I own a car.")),
    )
    with GUMem() as gumem:
        agent, memory = start(gumem, model)
        run(flow, agent=agent, memory=memory)
        assert digested(model) == [["I own a bike.", "I own a car."]]


def test_stages_that_waited_are_digested_apart(model, tmp_path, use):
    """After an outage, and in a new process, a Fact of a stage rests on its own messages."""
    flow = flow_of(
        *(stage_chunk(t.split()[-1])(talk(t)) for t in ("I own a car.", "I own a kite."))
    )
    model.memory = Reply("down", status=500)
    with GUMem(tmp_path) as gumem:
        agent, memory = start(gumem, model)
        run(flow, agent=agent, memory=memory)
        gumem.flush(10)
        assert memory.status()["pending"] == 4
    model.memory, seen = fact_answer, len(digested(model))
    use(model)
    with GUMem(tmp_path) as gumem:
        gumem.user("alice").digest()
        assert digested(model)[seen:] == [["I own a car."], ["I own a kite."]]


def test_a_stage_that_no_trigger_asks_for_is_marked_and_waits(model):
    """`when=` decides: without a trigger on stages nothing is digested at their end."""
    with GUMem() as gumem:
        agent, memory = start(gumem, model, when=Manual())
        run(flow_of(stage_chunk("one")(talk("I own a car."))), agent=agent, memory=memory)
        assert digested(model) == []
        assert memory.digest().messages == 2


def test_an_outcome_is_remembered_and_its_fact_cites_it(model):
    """What a stage decided is a message; a Fact that tells of it rests on that message."""

    def decided(request):
        told = [m for m in request.data["NEW MESSAGES"] if "chosen" in m["text"]]
        facts = [{"content": "Plan B was chosen.", "sources": [m["ref"]]} for m in told]
        return {"facts": facts, "memo": []} if request.memory_stage == "extract" else {}

    model.memory = decided
    chunk = stage_chunk("plan", outcome=lambda value: {"chosen": f"Plan {value}"})
    with GUMem() as gumem:
        agent, memory = start(gumem, model)
        run(flow_of(chunk(talk("Which plan is best?"))), "B", agent=agent, memory=memory)
        (fact,) = memory.user.facts()
        (outcome,) = memory.user.messages(event_type="stage")
        assert outcome.content == 'plan: {"chosen": "Plan B"}'
        assert fact.source_message_ids == [outcome.id]


def test_an_outcome_that_can_not_be_had_leaves_the_mark(model):
    """The application's function raises, or gives no mapping: the stage is digested."""
    flow = flow_of(
        stage_chunk("one", outcome=lambda value: 1 / 0)(talk("I own a car.")),
        stage_chunk("two", outcome=lambda value: "none")(talk("I own a kite.")),
    )
    with GUMem() as gumem:
        agent, memory = start(gumem, model)
        run(flow, agent=agent, memory=memory)
        assert digested(model) == [["I own a car."], ["I own a kite."]]
        assert outcomes(memory) == []
        assert memory.status()["errors"] == {"stage": 2}


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_stage_that_raises_is_marked_as_failed_and_raises_on(kind, model):
    """The exception is the same one; its kind is kept, never its text."""
    own = KeyError("my secret")

    def plain(data):
        held(data, "agent").input("I own a car.").start()
        raise own

    async def other(data):
        async with Stage(data, "one"):
            await held(data, "agent").input("I own a car.").async_start()
            raise own

    flow = flow_of(stage_chunk("one")(plain) if kind == "plain" else other)
    with GUMem() as gumem:
        agent, memory = start(gumem, model)
        with pytest.raises(KeyError) as caught:
            run(flow, agent=agent, memory=memory)
        assert caught.value is own
        assert outcomes(memory) == ['one: {"failed": "KeyError"}']
        assert digested(model) == [["I own a car."]]


def test_a_loop_marks_each_visit_of_its_stage(model):
    """The same chunk, visited three times in one run, ends its stage three times."""
    flow, turns = TriggerFlow(name="loop"), []

    @stage_chunk("round", outcome=lambda value: {"round": value})
    async def work(data):
        turns.append(data.value)
        await held(data, "agent").input(f"I own {data.value} cars.").async_start()
        return data.value

    async def again(data):
        if data.value < 3:
            await data.async_emit("Again", data.value + 1)
        return data.value

    flow.to(work).to(again)
    flow.when("Again").to(work)
    if not CLOSES:
        flow.when("Again").to(lambda data: data.value).end()
    with GUMem() as gumem:
        agent, memory = start(gumem, model)
        run(flow, 1, agent=agent, memory=memory, run_id="r")
        assert len(turns) >= 2
        assert outcomes(memory) == [f'round: {{"round": {n}}}' for n in turns]


@pytest.mark.skipif(not HAS_PAUSES, reason="this Agently can't save an execution")
def test_a_chunk_that_runs_again_from_a_save_marks_once(model):
    """Loaded twice from the same save, the stage after the pause is marked and told once."""

    async def wait(data):
        return await data.async_pause_for(type="ok", resume_event="Go", interrupt_id="i")

    @stage_chunk("late", outcome=lambda value: {"value": value})
    async def late(data):
        return data.value

    flow = TriggerFlow(name="resumed")
    flow.to(stage_chunk("early")(talk("I own a car."))).to(wait)
    finish(flow.when("Go").to(late))

    async def resume(state, resources):
        execution = workflows.execution_of(flow, resources)
        execution.load(state, runtime_resources=resources)
        await execution.async_continue_with("i", "go")

    async def all_of_it(resources):
        execution = workflows.execution_of(flow, resources)
        await workflows.begin(execution, "x")
        state = execution.save()
        await resume(state, resources)
        await resume(state, resources)

    with GUMem() as gumem:
        agent, memory = start(gumem, model)
        asyncio.run(all_of_it({"agent": agent, "memory": memory}))
        assert outcomes(memory) == ['late: {"value": "go"}']
        assert digested(model) == [["I own a car."], []]


def test_a_chunk_that_pauses_in_its_stage_marks_when_it_ends(model):
    """`resume_to="self"` runs the chunk again: one visit, one mark, both parts in one digest."""
    runs = []

    @stage_chunk("ask")
    async def ask(data):
        runs.append(data.is_resume)
        await held(data, "agent").input(f"I own {len(runs)} cars.").async_start()
        if not data.is_resume:
            return await data.async_pause_for(type="ok", resume_to="self", interrupt_id="i")
        return data.value

    flow = TriggerFlow(name="self")
    finish(flow.to(ask))
    if not _can_resume_to_self(flow):
        pytest.skip("this Agently can't resume a chunk itself")

    async def all_of_it(resources):
        execution = workflows.execution_of(flow, resources)
        await workflows.begin(execution, "x")
        assert digested(model) == []
        loaded = workflows.execution_of(flow, resources)
        loaded.load(execution.save(), runtime_resources=resources)
        await loaded.async_continue_with("i", "go")

    with GUMem() as gumem:
        agent, memory = start(gumem, model)
        asyncio.run(all_of_it({"agent": agent, "memory": memory}))
        assert runs == [False, True]
        assert digested(model) == [["I own 1 cars.", "I own 2 cars."]]


def _can_resume_to_self(flow):
    execution = flow.create_execution()
    pause = getattr(execution, "async_pause_for", None)
    return pause is not None and "resume_to" in pause.__code__.co_varnames


def test_branches_have_an_agent_each_and_the_stage_ends_after_the_join(model):
    """Two agents at once, two sessions; one chunk behind them ends the stage of both."""

    async def left(data):
        await held(data, "left_agent").input("I own a car.").async_start()

    async def right(data):
        await held(data, "right_agent").input("I own a kite.").async_start()

    def both(data):
        return [held(data, "left"), held(data, "right")]

    @stage_chunk("research", memory=both, since="mark", outcome=lambda value: {"done": True})
    def join(data):
        return "joined"

    flow = TriggerFlow(name="fork")
    finish(flow.batch(("left", left), ("right", right)).to(join))
    with GUMem() as gumem:
        agents = {name: agent_of(model) for name in ("left", "right")}
        memories = {
            name: attached_to(gumem, agents[name], "alice", name, when=StageBoundary(), wait=20.0)
            for name in agents
        }
        run(flow, left_agent=agents["left"], right_agent=agents["right"], **memories)
        assert sorted(digested(model)) == [["I own a car."], ["I own a kite."]]
        assert outcomes(memories["left"]) == ['research: {"done": true}']
        assert gumem.status()["errors"] == {}


def test_two_visits_at_once_are_two(model):
    """One decorated chunk in two branches at once takes neither for a resumed one."""
    meeting = threading.Barrier(2, timeout=10)

    @stage_chunk("item", outcome=lambda value: {"item": value})
    def item(data):
        meeting.wait()
        return data.value

    flow = TriggerFlow(name="each")
    finish(flow.for_each().to(item).end_for_each())
    with GUMem() as gumem:
        agent, memory = start(gumem, model)
        run(flow, ["a", "b"], agent=agent, memory=memory)
        assert sorted(outcomes(memory)) == ['item: {"item": "a"}', 'item: {"item": "b"}']


class Callable:
    """A handler that is an object."""

    def __call__(self, data):
        """Say something."""
        return talk("I own a car.")(data)

    def method(self, data):
        """Say something else."""
        return talk("I own a kite.")(data)


def test_a_handler_may_be_an_object_a_partial_or_a_method(model):
    """What Agently itself refuses, having no name, works as a stage."""
    plain = functools.partial(lambda text, data: talk(text)(data), "I own a boat.")
    flow = flow_of(
        stage_chunk("one")(Callable()),
        stage_chunk("two")(plain),
        stage_chunk("three")(Callable().method),
    )
    with GUMem() as gumem:
        agent, memory = start(gumem, model)
        run(flow, agent=agent, memory=memory)
        assert [d[0][6:] for d in digested(model)] == ["a car.", "a boat.", "a kite."]


# --- what goes wrong


def three_kinds(ended, **stage):
    """Build a flow with each kind of chunk."""

    def end(data):
        ended.append(data.value)
        return data.value

    return flow_of(
        recall_chunk(),
        stage_chunk("one", **stage)(talk("I own a car.")),
        remember_chunk(digest=True),
        end,
    )


@pytest.mark.parametrize("what", ["store", "model", "closed", "missing", "wrong", "raises"])
def test_no_memory_fails_a_flow(what, model, caplog):
    """A dead store or model, a closed memory, none, a wrong one: the flow ends as it would."""
    client = Dead(chromadb.EphemeralClient())
    gumem = GUMem(client=client, namespace=f"dead-{what}")
    agent, memory = start(gumem, model)
    given = {"missing": None, "wrong": "no memory"}.get(what, memory)
    if what == "model":
        model.memory = Reply("down", status=500)
    if what == "closed":
        gumem.close()
    client.failing = what == "store"
    memory_of = {"memory": given} if given is not None else {}
    ended = []
    stage = {"memory": lambda data: 1 / 0} if what == "raises" else {}
    run(three_kinds(ended, **stage), agent=agent, **memory_of)
    assert ended == ["x"]
    assert model.chat_requests[-1].question == "I own a car."
    told = [r for r in caplog.records if r.name == "agently_gumem" and r.levelname == "WARNING"]
    assert told
    assert not any("I own" in r.getMessage() for r in told)
    client.failing = False
    gumem.close()


def test_a_digest_that_hangs_holds_a_stage_no_longer_than_its_wait(model):
    """With `wait=0` the flow ends while the model still thinks; the digest ends behind it."""
    with GUMem() as gumem:
        agent, memory = start(gumem, model, wait=0)
        model.hold("memory")
        run(flow_of(stage_chunk("one")(talk("I own a car."))), agent=agent, memory=memory)
        model.wait_for(1, "memory")
        assert memory.status()["digest_running"]
        model.release("memory")
        assert gumem.flush(20)
        assert [f.content for f in memory.user.facts()] == ["I own a car."]


async def test_a_plain_stage_inside_a_loop_waits_for_no_digest(model):
    """`with` in an async chunk would hold up the flow's loop: it marks, and goes on."""
    running = []

    async def chunk(data):
        with Stage(data, "one") as stage:
            stage.outcome = {"plan": "B"}
        running.append(memory.status()["digest_running"])

    async with GUMem() as gumem:
        _, memory = start(gumem, model, wait=60)
        model.hold("memory")
        # What held up the loop until the digest ends would find it ended: nobody else lets it go.
        held_up = threading.Timer(20, model.release)
        held_up.start()
        flow = flow_of(chunk)
        if hasattr(flow, "update_runtime_resources"):
            await flow.async_start("x", runtime_resources={"memory": memory})
        else:
            execution = flow.create_execution()
            await execution.async_set_runtime_data("memory", memory)
            await execution.async_start("x")
        held_up.cancel()
        model.release()
        assert running == [True]


async def test_a_stage_that_is_cancelled_is_marked_beside(model):
    """Nothing is awaited in a cancelled task; mark and digest are made behind it."""
    async with GUMem() as gumem:
        agent, memory = start(gumem, model)
        entered = asyncio.Event()

        async def chunk(data):
            async with Stage(data, "one"):
                await held(data, "agent").input("I own a car.").async_start()
                entered.set()
                await asyncio.Event().wait()

        execution = _with(flow_of(chunk), agent=agent, memory=memory)
        task = asyncio.create_task(execution.async_start("x"))
        await asyncio.wait_for(entered.wait(), 10)
        task.cancel()
        await asyncio.wait({task}, timeout=10)
        model.wait_for(1, "memory")
        assert await gumem.async_flush(20)
        kept = await memory.user.async_messages(event_type="stage")
        assert [m.content for m in kept] == ['one: {"failed": "CancelledError"}']


async def test_a_stage_that_is_cancelled_while_it_begins_is_no_visit(model):
    """The next chunk that enters it is the first visit again, as after a load."""
    gate = threading.Event()

    async def block():
        gate.wait(20)

    async with GUMem() as gumem:
        agent, memory = start(gumem, model)
        reached, before = asyncio.Event(), set(visits._live)

        async def chunk(data):
            gumem.worker.submit(block)
            reached.set()
            async with Stage(data, "one"):
                pytest.fail("it began")

        execution = _with(flow_of(chunk), agent=agent, memory=memory)
        task = asyncio.create_task(execution.async_start("x"))
        await asyncio.wait_for(reached.wait(), 10)
        task.cancel()
        await asyncio.wait({task}, timeout=10)
        gate.set()
        assert visits._live == before


@pytest.mark.parametrize("kept", ["5", "x", '["a"]', "{}", "[true]"])
def test_a_state_that_was_changed_outside_costs_its_stage_and_no_flow(kept, model, caplog):
    """It is said, and the stage is marked as one whose beginning is not known."""
    with GUMem() as gumem:
        agent, memory = start(gumem, model)

        def chunk(data):
            visit = visits.begin(data, "one")
            visits.end(visit)
            write(data, visit.key, kept).now()
            with Stage(data, "one"):
                held(data, "agent").input("I own a car.").start()
            return data.value

        run(flow_of(chunk), agent=agent, memory=memory)
        assert "was changed" in caplog.text
        assert memory.status()["errors"] == {}
        assert digested(model) == [["I own a car."]]


def _with(flow, **resources):
    if hasattr(flow, "update_runtime_resources"):
        return flow.create_execution(runtime_resources=resources)
    execution = flow.create_execution()
    execution._runtime_data.update(resources)
    return execution


def test_an_agent_without_a_session_is_told_of_and_works(model, caplog):
    """Nothing of it can be remembered by itself: the flow runs, and the log says what to do."""
    with GUMem() as gumem:
        agent = agent_of(model)
        memory = gumem.attach(agent, user_id="alice", when=StageBoundary())
        run(flow_of(stage_chunk("one")(talk("I own a car."))), agent=agent, memory=memory)
        assert "activate_session" in caplog.text
        assert gumem.user("alice").messages() == []


# --- flows whose agents have no session


def test_a_flow_without_sessions_recalls_and_remembers(model, use):
    """The question's memory reaches the chunk behind it; what is said is kept, its Facts made."""
    seen = []

    async def answer(data):
        state = data.state if hasattr(data, "state") else None
        seen.append(state.get("recalled") if state else data.get_runtime_data("recalled"))
        return data.value

    use(model)
    flow = flow_of(recall_chunk(), answer, remember_chunk(digest=True))
    with GUMem() as gumem:
        alice, bob = gumem.user("alice"), gumem.user("bob")
        alice.add_messages({"content": "My dog is called Biscuit."})
        run(flow, "What is my dog called?", memory=alice)
        run(flow, "What is my dog called?", memory=bob)
        assert "Biscuit" in seen[0]
        assert seen[1] == ""
        assert [m.content for m in bob.messages()] == ["What is my dog called?"]
        assert bob.messages()[0].status == "processed"


@pytest.mark.parametrize("to", ["value", "resource"])
def test_what_is_recalled_goes_where_it_is_asked_for(to, model):
    """As the value, or whole as a live resource."""
    seen = []

    def look(data):
        seen.append(data.value if to == "value" else held(data, "found").formatted_context)
        return data.value

    recall = recall_chunk(memory=lambda data: held(data, "who"), to=to, key="found", max_tokens=200)
    with GUMem() as gumem:
        alice = gumem.user("alice")
        alice.add_messages({"content": "My dog is called Biscuit."})
        run(flow_of(recall, look), "What is my dog called?", who=alice)
        assert "Biscuit" in seen[0]


def test_a_question_that_can_not_be_had_is_counted():
    """The application's function raises: the flow goes on, and the memory tells of it."""
    with GUMem() as gumem:
        alice = gumem.user("alice")
        run(flow_of(recall_chunk(query=lambda data: data.value["no"])), {"q": "?"}, memory=alice)
        assert gumem.status()["errors"] == {"recall": 1}


def test_what_is_remembered_twice_in_one_visit_is_kept_once(model):
    """The id of a message is its place in the run: two runs keep it twice, one run once."""
    flow = flow_of(remember_chunk(messages=lambda data: ["I own a car.", {"content": data.value}]))
    with GUMem() as gumem:
        alice = gumem.user("alice")
        for run_id in ("one", "one", "two"):
            run(flow, "I own a kite.", memory=alice, run_id=run_id)
        assert len(alice.messages()) == 4


def test_remembering_can_be_a_stage(model):
    """Composed, a flow without sessions has stages too: digested at once, marked once."""
    chunk = stage_chunk("told")(remember_chunk())
    with GUMem() as gumem:
        memory = gumem.session("alice", "flow", agent=agent_of(model), when=StageBoundary())
        for text in ("I own a car.", "I own a kite."):
            run(flow_of(chunk), text, memory=memory)
        assert digested(model) == [["I own a car."], ["I own a kite."]]


async def _is_async(data):
    return data


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: stage_chunk(""), "name must not be empty"),
        (lambda: stage_chunk(3), "name must be a string"),
        (lambda: stage_chunk("one", memory=3), "memory must be a string"),
        (lambda: stage_chunk("one", memory=_is_async), "memory= takes a plain function"),
        (lambda: stage_chunk("one", run_id=""), "run_id must not be empty"),
        (lambda: stage_chunk("one", since="start"), "since='start' is neither"),
        (lambda: stage_chunk("one", outcome={}), "outcome= takes a function"),
        (lambda: stage_chunk("one")("two"), "decorates a function of data, not 'two'"),
        (lambda: recall_chunk(to="memo"), "to='memo' is none of"),
        (lambda: recall_chunk(query="text"), "query= takes a plain function of data, not 'text'"),
        (lambda: recall_chunk(query=_is_async), "query= takes a plain function"),
        (lambda: remember_chunk(messages="text"), "messages= takes a plain function"),
        (lambda: recall_chunk(max_token=3), "max_token"),
        (lambda: remember_chunk(session_id=""), "session_id must not be empty"),
    ],
)
def test_a_wrong_parameter_is_told_when_the_flow_is_defined(make, says):
    """Never in a run, where it would end somebody's flow."""
    with pytest.raises(ConfigError, match=says):
        make()


def test_a_failed_mark_takes_an_exception(model):
    """`mark_stage(failed=...)` keeps its kind; anything else is refused."""
    with GUMem() as gumem:
        _, memory = start(gumem, model)
        assert memory.mark_stage("plan", failed=TimeoutError("of alice"), outcome={"step": 2})
        assert outcomes(memory) == ['plan: {"step": 2, "failed": "TimeoutError"}']
        with pytest.raises(ConfigError, match="failed= takes the exception, not str"):
            memory.mark_stage("plan", failed="no")
