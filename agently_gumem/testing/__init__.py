"""Test an agent without a model: a chat server on loopback that answers what you say.

`ScriptedModel` speaks the OpenAI chat interface over HTTP, so an agent runs as it does in
production: nothing is patched. `RuleModel` also answers the memory's own requests, by plain rules
from the text of the request alone: what the prompt does not carry, it can't know.
"""

from agently_gumem.testing._reply import Reply
from agently_gumem.testing._request import Request, Stage
from agently_gumem.testing._rules import RuleModel
from agently_gumem.testing._scripted import Answer, ScriptedModel

__all__ = ["Answer", "Reply", "Request", "RuleModel", "ScriptedModel", "Stage"]
