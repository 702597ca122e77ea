"""A flow of two stages for two users on one flow object: each stage becomes Facts of its own."""

import asyncio

from _model import chat_model
from agently import Agently, TriggerFlow

from agently_gumem import GUMem, StageBoundary, stage_chunk


@stage_chunk("requirements")
async def requirements(data):
    agent, wish = data.require_resource("agent"), data.value
    await agent.input(wish).async_start()
    return wish


@stage_chunk("decision", outcome=lambda choice: {"chosen": choice})
async def decision(data):
    agent, choice = data.require_resource("agent"), data.require_resource("choice")
    await agent.input(f"I decided on {choice}.").async_start()
    return choice


flow = TriggerFlow(name="shoes")
flow.to(requirements).to(decision)


async def run(gumem, settings, user, wish, choice):
    agent = Agently.create_agent()
    agent.set_settings("OpenAICompatible", settings)
    memory = gumem.attach(agent, user_id=user, when=StageBoundary())
    agent.activate_session(session_id="shoes")
    resources = {"agent": agent, "memory": memory, "choice": choice, "run_id": f"{user}-1"}
    execution = flow.create_execution(auto_close=False, runtime_resources=resources)
    await execution.async_start(wish)
    await execution.async_close()
    await memory.async_flush()
    return memory.user


async def main():
    wishes = {
        "alice": ("My shoe size is 42.", "the blue trail shoes"),
        "bob": ("My shoe size is 39.", "the white road shoes"),
    }
    with chat_model() as (settings, _), GUMem() as gumem:
        users = await asyncio.gather(*(run(gumem, settings, u, *w) for u, w in wishes.items()))
        for user in users:
            stages = [m.content for m in await user.async_messages(event_type="stage")]
            facts = [f.content for f in await user.async_facts()]
            print(f"{user.user_id}: {facts} {stages}")


asyncio.run(main())
