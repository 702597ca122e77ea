"""A model that calls tools, on any version of Agently, and an agent that offers them."""

from collections import deque
from importlib.metadata import version

import pytest
from e2e import agent_of, attached, seeded

# On 4.1.2 the loop around tools waits ten seconds before it ends, with and without a memory.
WAITS = version("agently") == "4.1.2"
# Agently 4.1.2 warns of its own use of its own flow.
MARKS = [
    pytest.mark.host,
    pytest.mark.filterwarnings("ignore:TriggerFlow:DeprecationWarning"),
]
_TOOL_TURNS = {"agent_with", "kept_with"}


def spare(request, few):
    """Skip a test that asks an agent with tools where each question takes ten seconds."""
    asks = _TOOL_TURNS & set(request.function.__code__.co_names)
    if WAITS and asks and request.function.__name__ not in few:
        pytest.skip("each question takes ten seconds on this version; a few tests ask")


# What stands in a request that asks which tools to call, on one version or another.
_PLANS = ("execution_commands", "tool_command", "action_calls")


def is_plan(request):
    """Tell a request that asks which tools to call from one that asks for the answer."""
    return any(word in str(request.body["messages"][-1]["content"]) for word in _PLANS)


class Player:
    """Answers a chat: to each question the calls that were set for it, then the reply.

    Calls are pairs of a tool's name and its arguments. `results` are the texts of the requests in
    which the model saw what the tools returned.
    """

    def __init__(self, reply="Done."):
        self.reply = reply
        self.rounds = deque()
        self.results = []

    def calls(self, *calls):
        """Call these tools for the next question."""
        self.rounds.append(calls)
        return self

    def __call__(self, request):
        """Answer a chat request."""
        text = str(request.body["messages"][-1]["content"])
        if not is_plan(request):
            self.results.append(text)
            return self.reply
        if not self.rounds:
            self.results.append(text)
            return {
                "use_tool": False,
                "next_action": "response",
                "response": self.reply,
                "execution_commands": [],
            }
        commands = [self._command(name, given) for name, given in self.rounds.popleft()]
        return {
            "use_tool": True,
            "tool_command": commands[0],
            "next_action": "execute",
            "execution_commands": commands,
        }

    @staticmethod
    def _command(name, given):
        return {
            "purpose": f"use {name}",
            "tool_name": name,
            "action_id": name,
            "tool_kwargs": given,
            "action_input": given,
            "todo_suggestion": "answer",
        }


def offer(agent, tools):
    """Offer tools to the model for every later question."""
    if not hasattr(agent, "use_actions"):
        return agent.use_tools(list(tools))
    try:
        return agent.use_actions(list(tools), always=True)
    except TypeError:
        return agent.use_actions(list(tools))


def agent_with(model, *tools):
    """Create an agent on the model that offers tools."""
    agent = agent_of(model)
    offer(agent, tools)
    return agent


def begin(gumem, agent, session_id, **options):
    """Give a session memory: by the one line where there is it, else by the two handlers."""
    way = attached if hasattr(agent, "register_session_analysis_handler") else seeded
    return way(gumem, agent, session_id, **options)
