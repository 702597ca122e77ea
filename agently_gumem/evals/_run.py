"""Run dialogues through the public interface, as an application would."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from os import PathLike
from typing import Any

from agently_gumem.errors import ConfigError, GUMemError
from agently_gumem.evals._dialogues import Dialogue, Said
from agently_gumem.evals._score import Scores, judge
from agently_gumem.gumem import GUMem
from agently_gumem.user import UserMemory


@dataclass(frozen=True)
class Result:
    """What became of one dialogue."""

    dialogue: Dialogue
    scores: Scores | None
    """None where the dialogue could not be run."""
    error: str = ""
    """Why not: the kind of the error and its text."""


def evaluate(
    dialogues: Sequence[Dialogue],
    model_settings: Mapping[str, Any],
    *,
    templates: str | PathLike[str] | None = None,
    jobs: int = 4,
) -> Iterator[Result]:
    """Run each dialogue as a user of its own, in memory, and hold what became of it to its labels.

    Args:
        dialogues: As `load` gives them.
        model_settings: Agently settings of the model, as for `GUMem`.
        templates: A folder of templates that come before ours, as for `GUMem`.
        jobs: Dialogues that run at once.

    Yields:
        A result for each dialogue, in their order; one that the model failed holds its error.

    Raises:
        ConfigError: Memory is switched off by GUMEM_OFF: there is nothing to measure.
    """
    with (
        GUMem(model_settings=model_settings, templates=templates) as gumem,
        ThreadPoolExecutor(jobs) as pool,
    ):
        if gumem.status()["off"]:
            raise ConfigError("GUMEM_OFF is set: unset it, or nothing is remembered")
        yield from pool.map(partial(_run, gumem), dialogues)


def _run(gumem: GUMem, dialogue: Dialogue) -> Result:
    user = gumem.user(dialogue.id)
    try:
        for session, said in groupby(dialogue.said, key=lambda s: s.session):
            _play(user, f"{dialogue.id}-{session}", list(said))
            user.digest()
        scores = _judged(user, dialogue)
    except GUMemError as error:
        return Result(dialogue, None, f"{type(error).__name__}: {error}")
    usage = gumem.usage(dialogue.id)
    scores.score.requests = usage["requests"]
    scores.score.tokens = usage["tokens_in"] + usage["tokens_out"]
    return Result(dialogue, scores)


def _play(user: UserMemory, session_id: str, said: Sequence[Said]) -> None:
    """Add what was said and done, in its order."""
    for done, part in groupby(said, key=lambda s: bool(s.event)):
        add = user.add_actions if done else user.add_messages
        add([_record(user.user_id, one) for one in part], session_id)


def _record(prefix: str, said: Said) -> dict[str, Any]:
    shared = {"content": said.text, "timestamp": said.at}
    name = f"{prefix}-{said.number}"
    if said.event:
        return {**shared, "log_id": name, "event_type": said.event}
    return {**shared, "id": name, "role": said.role, "speaker": said.speaker}


def _judged(user: UserMemory, dialogue: Dialogue) -> Scores:
    numbers = {f"{dialogue.id}-{said.number}": said.number for said in dialogue.said}
    got = [(fact, frozenset(numbers[i] for i in fact.source_message_ids)) for fact in user.facts()]
    return judge(dialogue, got, user.memo)
