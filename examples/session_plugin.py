"""Memory by Agently's own switch for plugins: `session.use_memory(mode="GUMem")`, 4.1.3.9 or later.

The mode is registered once. Whose memory it is stands in the settings of each user's agent.
"""

from _model import chat_model
from agently import Agently

from agently_gumem import GUMem

with chat_model() as (settings, _), GUMem() as gumem:
    gumem.register()

    def agent_for(user_id, session_id):
        agent = Agently.create_agent()
        agent.set_settings("OpenAICompatible", settings)
        agent.set_settings("GUMem.user_id", user_id)
        agent.activate_session(session_id=session_id)
        agent.activated_session.use_memory(mode="GUMem")
        return agent

    agent = agent_for("ada", "monday")
    agent.input("I never fly before nine in the morning.").start()
    agent.input("My budget for hotels is 120 euros a night.").start()
    agent.deactivate_session()  # the session ends: its digest starts, behind the chat
    gumem.flush()
    print("Facts:", [fact.content for fact in gumem.user("ada").facts()])

    agent = agent_for("ada", "tuesday")
    print("Ada:", agent.input("Which hotels fit my budget?").start())
    agent = agent_for("bob", "tuesday")
    print("Bob:", agent.input("Which hotels fit my budget?").start())
    memory = agent.activated_session.memory.memory
    print("Bob's session:", memory.status()["messages"], "messages, memo", memory.memo)
