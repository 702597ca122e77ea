"""What a tool returned is remembered; a model looks up, keeps and forgets by itself."""

import asyncio
from typing import Any

from _model import chat_model
from agently import Agently

from agently_gumem import GUMem
from agently_gumem.testing import Request


def shoe_price(model: str) -> dict[str, str]:
    """Tell the price of a running shoe in the shop."""
    return {"model": model, "price": "649 yuan"}


def offer(agent: Any, tools: list[Any]) -> None:
    """Offer tools for every question, on any version of Agently."""
    if not hasattr(agent, "use_actions"):
        agent.use_tools(tools)
        return
    try:
        agent.use_actions(tools, always=True)
    except TypeError:  # before 4.1.4 they are always for every question
        agent.use_actions(tools)


def stand_in(request: Request) -> Any:
    """Decide and answer in place of a model: call the tool once, then say what it returned."""
    text = str(request.body["messages"][-1]["content"])
    if "649 yuan" in text and "[CHAT SESSION MEMO]" not in text:
        said = "The Trail X costs 649 yuan."
        plans = "execution_commands" in text
        done = {"next_action": "response", "response": said, "execution_commands": []}
        return done if plans else said
    if "execution_commands" in text or "tool_command" in text:
        given = {"model": "Trail X"}
        command = {"purpose": "price", "tool_name": "shoe_price", "action_id": "shoe_price"}
        command |= {"tool_kwargs": given, "action_input": given, "todo_suggestion": "answer"}
        return {
            "use_tool": True,
            "tool_command": command,
            "next_action": "execute",
            "execution_commands": [command],
        }
    return "The Trail X costs 649 yuan."


with chat_model(stand_in) as (settings, _), GUMem() as gumem:
    agent = Agently.create_agent()
    agent.set_settings("OpenAICompatible", settings)
    memory = gumem.attach(agent, user_id="alice")
    offer(agent, [shoe_price])
    agent.activate_session(session_id="monday")
    print(agent.input("I run in the park. What does the Trail X cost?").start())
    memory.digest()

    for message in memory.user.messages():
        print(f"{message.event_type}, {message.role}: {message.content}")
    for fact in memory.user.facts():
        print(f"{fact.kind}: {fact.content}")

    # The same functions that an agent is given with `offer(agent, memory.actions())`.
    recall_memory, remember, forget_memory = memory.user.actions()
    found = asyncio.run(recall_memory("What is the price of the Trail X?"))["found"]
    print("found:", found[0])
    asked = asyncio.run(forget_memory(found[0].split(":")[0]))
    print("would forget:", asked["would_forget"])
    memory.user.add_messages({"role": "user", "content": "Yes, forget that."})
    print("forgotten:", asyncio.run(forget_memory(code=asked["code"]))["forgotten"])
