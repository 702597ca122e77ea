"""What a request's own text asks for: a rule that does not stand there is not obeyed."""

from dataclasses import dataclass, fields

_WORDS = {
    "small_talk": "small talk",
    "questions": "questions",
    "screen": "state of the screen",
    "clicks": "stray clicks",
    "one_time": "one-time",
    "jokes": "jokes",
    "quotations": "quotations",
    "hypotheticals": "hypotheticals",
    "others": "other people",
    "guesses": "guess",
    "confirmed": "says yes",
    "relative": "relative date",
    "corrected": "correction",
    "same": "same_as",
    "special": '"special"',
    "tools": 'event "tool_call" is what a tool returned',
    "notes": 'event "memory_note"',
}


@dataclass(frozen=True)
class Brief:
    """Which rules stand in the instructions of a request.

    Each names what a careful reader does, or leaves out; without it, a careless one does as the
    words alone suggest: a joke is a statement, a guess is sure, an old value stays.
    """

    small_talk: bool = True
    questions: bool = True
    screen: bool = True
    clicks: bool = True
    one_time: bool = True
    jokes: bool = True
    quotations: bool = True
    hypotheticals: bool = True
    others: bool = True
    guesses: bool = True
    confirmed: bool = True
    relative: bool = True
    corrected: bool = True
    same: bool = True
    special: bool = True
    tools: bool = True
    notes: bool = True


def read(instructions: str) -> Brief:
    """Read which rules stand in the instructions of a request."""
    text = " ".join(instructions.lower().split())
    return Brief(**{field.name: _WORDS[field.name] in text for field in fields(Brief)})
