"""The memo example of Agently's documentation, with only its two functions swapped for ours.

There, `analysis_handler` and `compress_with_memo` are the developer's own functions, and what they
write lives as long as the session. Here the lines that register them stay as they are.
"""

from _model import chat_model
from agently import Agently

from agently_gumem import GUMem, WindowExceeds

TURNS = (
    "My name is Ada Okafor, I live in Lisbon.",
    "I never fly before nine in the morning.",
    "My budget for hotels is 120 euros a night.",
    "I prefer window seats on trains.",
    "I am vegetarian.",
)

with chat_model() as (settings, _), GUMem() as gumem:
    agent = Agently.create_agent()
    agent.set_settings("OpenAICompatible", settings)
    agent.activate_session(session_id="memo_demo")
    session = agent.activated_session

    memory = gumem.session("alice", "memo_demo", agent=agent, when=WindowExceeds(messages=6))
    session.register_analysis_handler(memory.analysis_handler)
    # This is the line of the documentation; versions that warn about it have, with the same two
    # arguments, `register_resize_handler`.
    session.register_execution_handlers("compress_with_memo", memory.execution_handler)

    for turn in TURNS:
        agent.input(turn).start()
    memory.flush()
    print(f"{len(session.full_context)} messages said, {len(session.context_window)} in the window")
    print("memo:", memory.memo)

    # Another session of the same user: what was said in the first one is known from turn 1 on.
    agent.activate_session(session_id="memo_demo_2")
    session = agent.activated_session
    memory = gumem.session("alice", "memo_demo_2", agent=agent, when=WindowExceeds(messages=6))
    session.register_analysis_handler(memory.analysis_handler)
    session.register_execution_handlers("compress_with_memo", memory.execution_handler)
    print(agent.input("Which hotels fit my budget?").start())
