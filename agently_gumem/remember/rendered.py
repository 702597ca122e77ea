"""What a user said, out of a prompt that Agently recorded whole (pure).

Without `session.input_keys` a session records the rendered prompt as the user's message: the
history before it, instructions, the input, and the form of the answer.
"""

_BEGIN, _END = "user:\n[", "\n[OUTPUT]:\nassistant:"
_INPUT, _FORM = "[INPUT]:\n", "\n[OUTPUT REQUIREMENT]:\n"


def input_of(text: str) -> str:
    """Return the input of a rendered prompt; any other text as it is.

    The input is the last section of its name, since the history that comes before it holds those
    of earlier prompts.
    """
    if not (text.startswith(_BEGIN) and text.endswith(_END)):
        return text
    body = text[: -len(_END)]
    start = body.rfind("\n" + _INPUT)
    if start < 0:
        return text
    said = body[start + 1 + len(_INPUT) :]
    form = said.rfind(_FORM)
    return (said if form < 0 else said[:form]).strip("\n")
