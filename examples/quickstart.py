"""Remember in one session, know in the next."""

from _model import chat_model
from agently import Agently

from agently_gumem import GUMem

with chat_model() as (settings, _), GUMem() as gumem:  # GUMem("./gumem-data") keeps it on disk
    agent = Agently.create_agent()
    agent.set_settings("OpenAICompatible", settings)
    memory = gumem.attach(agent, user_id="alice")

    agent.activate_session(session_id="monday")
    print(agent.input("I am allergic to peanuts, and I prefer short answers.").start())
    memory.digest()  # by itself: when the window is full, the session ends, or it is quiet

    agent.activate_session(session_id="tuesday")
    print(agent.input("Can I eat this peanut cake?").start())
    print(memory.memo)
