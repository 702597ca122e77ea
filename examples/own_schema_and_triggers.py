"""A memo in your own schema, your own rules for it, and your own mix of triggers."""

import json

from _model import chat_model
from agently import Agently
from pydantic import BaseModel, ConfigDict, Field

from agently_gumem import EveryNTurns, GUMem, StageBoundary, TriggerState


class Food(BaseModel):
    """How the user eats."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    likes: list[str] = Field(default_factory=list)
    """Food that the user likes."""
    constraints: list[str] = Field(default_factory=list)
    """What the user never eats, and allergies."""


class TripMemo(BaseModel):
    """What a travel agent always needs to know."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    food: Food = Field(default_factory=Food)
    limits: list[str] = Field(default_factory=list)
    """Budget, and times or places that are not possible."""
    preferences: dict[str, str] = Field(default_factory=dict)
    """Long-term preferences, one short key each."""


def much_waits(state: TriggerState) -> bool:
    """Say yes when more than eight messages wait: any function of a TriggerState is a trigger."""
    return state.pending > 8


when = EveryNTurns(3) | StageBoundary("requirements") | much_waits
rules = "Keep what matters for planning trips. Prices are in euros."

with chat_model() as (settings, _), GUMem(memo=TripMemo, instruct=rules) as gumem:
    agent = Agently.create_agent()
    agent.set_settings("OpenAICompatible", settings)
    memory = gumem.attach(agent, user_id="alice", when=when)
    agent.activate_session(session_id="lisbon")

    agent.input("I love seafood, and I am allergic to peanuts.").start()
    agent.input("My budget is 900 euros. I prefer trains to planes.").start()
    print("waiting after two turns:", memory.status()["pending"])

    # The third turn would have fired EveryNTurns(3); the end of a stage decides at once.
    memory.mark_stage("requirements", key="trip-1", outcome={"city": "Lisbon", "days": 4})
    memory.flush()
    print("waiting after the stage:", memory.status()["pending"])
    print(json.dumps(memory.memo, ensure_ascii=False, indent=2))

    for turn in ("What about the hotel?", "I never stay in hostels.", "And which museums?"):
        agent.input(turn).start()
    memory.flush()
    print("waiting after three more turns:", memory.status()["pending"])
    print(json.dumps(memory.memo, ensure_ascii=False, indent=2))
