"""The conversation of the cost benchmark: 40 turns, 30 planted facts, and what a model says.

The scripted model is an ideal one: it finds each planted fact wherever the words that state it
stand in a request, whoever sends it, and nothing else. So what is compared is what each memory
asks, how often and with how many tokens, not how well a model reads.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agently_gumem.testing import Request


@dataclass(frozen=True)
class Planted:
    """A fact as it is said, as a model writes it, and what it is asked by."""

    said: str
    fact: str
    topic: str
    question: str
    keys: tuple[str, ...]
    """What a text must hold to carry the fact."""
    kind: str = "fact"
    memo: str = ""
    """The key of the memo to which it belongs, where it always matters."""

    def within(self, text: str) -> bool:
        """Tell whether a text carries it."""
        folded = text.casefold()
        return all(key.casefold() in folded for key in self.keys)


def _p(said: str, fact: str, topic: str, question: str, keys: str, **more: str) -> Planted:
    return Planted(said, fact, topic, question, tuple(keys.split("|")), **more)


PLANTED = (
    _p(
        "My name is Ada Okafor.",
        "User's name is Ada Okafor",
        "about the user",
        "What is my name?",
        "Ada|Okafor",
        kind="identity",
        memo="stable_facts",
    ),
    _p(
        "I live in Lisbon, near the river.",
        "User lives in Lisbon, near the river",
        "about the user",
        "In which city do I live?",
        "Lisbon",
        memo="stable_facts",
    ),
    _p(
        "Please keep your answers short.",
        "User wants short answers",
        "answers",
        "How long do I want your answers to be?",
        "short|answers",
        kind="preference",
        memo="user_preferences",
    ),
    _p(
        "I am vegetarian.",
        "User is vegetarian",
        "food",
        "What diet do I follow?",
        "vegetarian",
        kind="constraint",
        memo="constraints",
    ),
    _p(
        "I can't eat peanuts.",
        "User can't eat peanuts",
        "food",
        "Which nuts must I avoid?",
        "peanuts",
        kind="constraint",
        memo="constraints",
    ),
    _p(
        "My favourite restaurant is Taberna Azul.",
        "User's favourite restaurant is Taberna Azul",
        "food",
        "What is my favourite restaurant?",
        "Taberna Azul",
        kind="preference",
    ),
    _p(
        "I drink my coffee without sugar.",
        "User drinks coffee without sugar",
        "food",
        "How do I take my coffee?",
        "coffee|without sugar",
        kind="preference",
    ),
    _p(
        "I am planning a trip to Kyoto in April.",
        "User is planning a trip to Kyoto in April",
        "travel",
        "Where do I want to travel in April?",
        "Kyoto|April",
        kind="plan",
    ),
    _p(
        "My budget for hotels is 120 euros a night.",
        "User's budget for hotels is 120 euros a night",
        "travel",
        "What is my hotel budget a night?",
        "hotels|120 euros",
        kind="constraint",
        memo="constraints",
    ),
    _p(
        "I never fly before nine in the morning.",
        "User never flies before nine in the morning",
        "travel",
        "At what hour is the earliest flight that I take?",
        "before nine",
        kind="constraint",
        memo="constraints",
    ),
    _p(
        "I prefer window seats on trains.",
        "User prefers window seats on trains",
        "travel",
        "Which seats do I like on trains?",
        "window seats",
        kind="preference",
    ),
    _p(
        "My sister Noemi is coming along on the trip.",
        "User's sister Noemi is coming along on the trip",
        "travel",
        "Who is coming along on the trip?",
        "Noemi|trip",
    ),
    _p(
        "I work as a structural engineer.",
        "User works as a structural engineer",
        "work",
        "What is my job?",
        "structural engineer",
        memo="stable_facts",
    ),
    _p(
        "My company is called Ponte Forte.",
        "User's company is called Ponte Forte",
        "work",
        "What is my company called?",
        "Ponte Forte",
    ),
    _p(
        "I have a team meeting every Tuesday at ten.",
        "User has a team meeting every Tuesday at ten",
        "work",
        "When is my team meeting?",
        "meeting|Tuesday",
    ),
    _p(
        "Our deadline for the bridge report is 14 March.",
        "User's deadline for the bridge report is 14 March",
        "work",
        "When is the bridge report due?",
        "bridge report|14 March",
        kind="plan",
    ),
    _p(
        "My boss Henrik reads everything twice.",
        "User's boss Henrik reads everything twice",
        "work",
        "What is my boss called?",
        "boss|Henrik",
    ),
    _p(
        "I run ten kilometres on Sundays.",
        "User runs ten kilometres on Sundays",
        "sport",
        "How far do I run on Sundays?",
        "ten kilometres|Sundays",
        kind="behavior",
    ),
    _p(
        "My running shoes are size 42.",
        "User's running shoes are size 42",
        "sport",
        "What size are my running shoes?",
        "shoes|42",
    ),
    _p(
        "I want to finish the Porto half marathon under two hours.",
        "User wants to finish the Porto half marathon under two hours",
        "sport",
        "What is my goal for the half marathon?",
        "half marathon|two hours",
        kind="plan",
    ),
    _p(
        "My left knee hurts after long descents.",
        "User's left knee hurts after long descents",
        "sport",
        "Which knee gives me trouble?",
        "left knee",
    ),
    _p(
        "I have a dog named Biscuit.",
        "User has a dog named Biscuit",
        "family and pets",
        "What is my dog called?",
        "dog|Biscuit",
    ),
    _p(
        "My daughter Ines turns seven in June.",
        "User's daughter Ines turns seven in June",
        "family and pets",
        "How old will my daughter be in June?",
        "Ines|seven",
    ),
    _p(
        "My husband Tomas plays the cello.",
        "User's husband Tomas plays the cello",
        "family and pets",
        "Which instrument does my husband play?",
        "Tomas|cello",
    ),
    _p(
        "We moved into a flat on the fourth floor last autumn.",
        "User moved into a flat on the fourth floor last autumn",
        "home",
        "On which floor is my flat?",
        "flat|fourth floor",
    ),
    _p(
        "The lift in our building is out of order.",
        "The lift in user's building is out of order",
        "home",
        "What is wrong with the lift in our building?",
        "lift|out of order",
    ),
    _p(
        "I want to paint the kitchen green.",
        "User wants to paint the kitchen green",
        "home",
        "What colour do I want for the kitchen?",
        "kitchen|green",
        kind="plan",
    ),
    _p(
        "I like detective novels by Fred Vargas.",
        "User likes detective novels by Fred Vargas",
        "books and music",
        "Which novels do I like?",
        "novels|Vargas",
        kind="preference",
    ),
    _p(
        "I am learning to play the ukulele.",
        "User is learning to play the ukulele",
        "books and music",
        "Which instrument am I learning?",
        "ukulele",
        kind="behavior",
    ),
    _p(
        "I listen to fado when I cook.",
        "User listens to fado when cooking",
        "books and music",
        "What do I listen to when I cook?",
        "fado",
        kind="preference",
    ),
)

# 40 turns: a number is the next planted fact, a text is small talk or a question.
_PLAN = (
    "Hello! Nice to meet you.",
    *(1, 1, 1),
    "How does this work, exactly?",
    *(1, 1, 1, 1),
    "Ha, that is funny.",
    *(1, 1, 1, 1, 1),
    "What would you do in my place?",
    "Thanks, that helps a lot.",
    *(1, 1, 1, 1, 1),
    "Give me a moment, the phone rings.",
    *(1, 1, 1, 1),
    "Good morning again!",
    *(1, 1, 1),
    "Is it going to rain today, you think?",
    *(1, 1, 1),
    "Which of these ideas do you like best?",
    *(1, 1, 1),
    "That is all for now, thank you.",
)


def turns() -> list[str]:
    """Return what the user says, turn by turn."""
    planted = iter(PLANTED)
    return [part if isinstance(part, str) else next(planted).said for part in _PLAN]


_OPENINGS = (
    "Thank you",
    "Good to know",
    "I see",
    "All right",
    "Fine",
    "Understood",
    "Noted",
    "Well",
)
_MIDDLES = (
    "I will keep it in mind from here on",
    "that changes what I would suggest next",
    "we can come back to it whenever you like",
    "it helps me to see the whole picture",
    "I had not expected that, to be honest",
)
_CLOSINGS = ("What else is on your mind?", "Shall we go on?", "Tell me more, if you like.")


def reply(place: int, question: str) -> str:
    """Answer a chat request as an assistant does: each time in other words, repeating nothing."""
    opening = "That depends" if question.endswith("?") else _OPENINGS[place % len(_OPENINGS)]
    middle, closing = _MIDDLES[place % len(_MIDDLES)], _CLOSINGS[place % len(_CLOSINGS)]
    return f"{opening}; {middle}. {closing}"


def found_in(text: str) -> list[Planted]:
    """Find the planted facts whose own words stand in a text, as said or as written down.

    Some memories send YAML, which folds lines and doubles quotes.
    """
    plain = " ".join(text.split()).replace("''", "'")
    return [p for p in PLANTED if p.said in plain or p.fact in plain]


# -- what the model answers to each memory ---------------------------------------------------------


def for_us(request: Request) -> dict[str, Any]:
    """Answer the requests of agently-gumem from their text."""
    if request.memory_stage == "summarize":
        return _summaries(request)
    lines = request.data.get("NEW MESSAGES", [])
    facts: list[dict[str, Any]] = []
    for line in lines:
        for planted in PLANTED:
            if line["role"] == "user" and planted.said in line["text"]:
                facts.append(_draft(f"f{len(facts) + 1}", planted, line["ref"]))
    return {"facts": facts, "memo": _memo(request, facts)}


def _draft(ref: str, planted: Planted, source: str) -> dict[str, Any]:
    return {
        "ref": ref,
        "content": planted.fact,
        "kind": planted.kind,
        "topic": planted.topic,
        "subject": "user",
        "sources": [source],
        "certainty": "stated",
        "confidence": 1.0,
    }


def _memo(request: Request, facts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add what always matters to the memo that the request shows."""
    held: dict[str, Any] = (request.data.get("MEMO") or [{}])[0]
    patches: list[dict[str, Any]] = []
    for key in ("user_preferences", "constraints", "stable_facts"):
        new = [(f, p) for f in facts for p in PLANTED if p.fact == f["content"] and p.memo == key]
        if not new:
            continue
        value: Any = held.get(key) or ({} if key == "user_preferences" else [])
        for _, planted in new:
            if key == "user_preferences":
                value = {**value, planted.topic: planted.fact}
            else:
                value = [*value, planted.fact if key == "constraints" else {"fact": planted.fact}]
        patches.append({"key": key, "value": value, "facts": [f["ref"] for f, _ in new]})
    return patches


def _summaries(request: Request) -> dict[str, Any]:
    facts = request.data.get("FACTS", [])
    made: list[dict[str, Any]] = []
    for line in request.data.get("TOPICS", []):
        own = [f for f in facts if f.get("topic") == line["topic"]]
        content = ". ".join(f["content"] for f in own) + "."
        refs = [f["ref"] for f in own]
        made.append({"topic": line["topic"], "content": content, "facts": refs})
    return {"summaries": made, "same_topics": []}


def for_example(request: Request) -> dict[str, Any]:
    """Answer the memo request of Agently's example: what was known and what is new, merged."""
    found = found_in(request.text)
    kept = {p.topic + str(i): p.fact for i, p in enumerate(found) if p.kind == "preference"}
    rest = [{"fact": p.fact, "confidence": 1.0} for p in found if p.kind != "preference"]
    return {"user_preferences": kept, "stable_facts": rest}


def for_agently_memory(request: Request) -> dict[str, Any]:
    """Answer the two requests of AgentlyMemory: extract from a turn, select for a question."""
    if "offered_context_blocks" in request.text:
        return {"selected_keys": _selected(request.text)}
    memories = [
        {
            "scope": "GLOBAL_MEMORY",
            "summary": p.fact,
            "body": {"summary": p.fact},
            "tags": [p.topic],
            "importance": 0.8,
        }
        for p in found_in(request.text)
    ]
    return {"memories": memories}


def _selected(text: str) -> list[str]:
    """Choose the blocks that carry what the intent asks for; without such, none."""
    asked = [p for p in PLANTED if p.question in text]
    offered = re.findall(r"\{'block_key': '([^']+)'(.*?)\}", text)
    return [key for key, block in offered if any(p.within(block) for p in asked)]


def for_mem0(request: Request) -> dict[str, Any]:
    """Answer mem0's extraction: the facts of the new messages alone."""
    text = request.text.partition("## New Messages")[2].partition("## Observation Date")[0]
    memory = [
        {"id": str(i), "text": p.fact, "attributed_to": "user"}
        for i, p in enumerate(found_in(text))
    ]
    return {"memory": memory}


def whole_text(request: Request) -> str:
    """Return all that a request sends to the model, as text."""
    return "\n".join(_texts(request.messages))


def _texts(messages: Iterable[dict[str, Any]]) -> list[str]:
    held = (m.get("content") for m in messages)
    return [c if isinstance(c, str) else json.dumps(c, ensure_ascii=False) for c in held]
