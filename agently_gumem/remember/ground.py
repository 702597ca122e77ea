"""Does the source hold what the Fact says: decided in code, whatever the model claims."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from agently_gumem import dates, numerals
from agently_gumem.records import NOTE, Message
from agently_gumem.remember.same.lexicon import known_names
from agently_gumem.remember.specifics import Evidence, missing, terms, without_dates
from agently_gumem.remember.stance import misread
from agently_gumem.text import fold, is_chinese, words

SUPPORT_SHARE = 0.2
# One in a thousand pairs of unrelated facts, none above 0.59; for Facts in another language.
SUPPORT_SIMILARITY = 0.5
# Roles of a machine. Another role is the application's own word for a person ("patient", "seller").
_TALKS = frozenset({"assistant", "ai", "bot", "chatbot", "model", "agent", "助手"})
MACHINES = _TALKS | {"system", "developer", "tool", "function", "系统"}
# A number weighs as much as this many words: "500-800" alone carries a budget.
_NUMBER_WEIGHT = 2

_YES = re.compile(
    r"(?:yes|yeah|yep|yup|exactly|absolutely|indeed|of course|definitely|that(?:'|’)?s (?:right|"
    r"correct|true)|that is (?:right|correct|true))\b"
    r"|(?:right|correct|sure|true|ok|okay|对|嗯|可以|正确|当然|行|没问题)(?=$|\s*[,.!;，。！；~])"
    r"|(?:对[的啊呀]|嗯嗯|是[的啊呀]|没错|好[的啊呀]|就是这样|当然可以|可以的)"
)
_BUT = re.compile(
    r"\b(?:but|however|except|actually|no|not|wrong|never|used to|until|any ?more)\b|n['’]t\b"
    r"|[?？吗]"
    r"|但|不(?!错)|可是|(?<![没不])错|没有|以前|曾经|不过"
)
_EITHER = re.compile(
    r"\bor\b(?! (?:so|more|less)\b)[^.!?]*[?]|还是[^。！？]*[?？]|或者?[^。！？]*[?？]"
)


@dataclass(frozen=True)
class Verdict:
    """Whether a text stands in its sources; `reason` is a code word, never content."""

    ok: bool
    reason: str = ""


def ground_fact(
    content: str,
    sources: Sequence[Message],
    *,
    speakers: Collection[str] = (),
    entities: Sequence[str] = (),
    similarity: float | None = None,
    following: Mapping[str, str] | None = None,
) -> Verdict:
    """Check a Fact against the messages that it cites.

    Args:
        content: The Fact.
        sources: The cited messages.
        speakers: Names of those who speak in that session; they need no other source.
        entities: Names that the model found; those that stand in `content` are checked.
        similarity: Cosine of the Fact and its best message by the bundled embedder; None where
            it is not known.
        following: Id of an assistant's message -> id of the message that directly follows it in
            its session; None where only `sequence` tells.

    Returns:
        A verdict with the reason "assistant", "quotation", "date", "number", "name", "support", or
        one of `stance.misread`.
    """
    said = spoken(sources, following)
    if not said:
        return Verdict(ok=False, reason="assistant")
    known = {*speakers, *(m.speaker for m in said if m.speaker)}
    evidence = Evidence(tuple((text_of(m), m.timestamp) for m in said), tuple(sorted(known)))
    reason = missing(content, evidence, entities)
    if not reason and _lacks_known_name(content, evidence):
        reason = "name"
    if not reason and not _supported(content, evidence, similarity):
        reason = "support"
    if not reason and all(_is_told(m) for m in said):
        reason = misread(content, [m.content for m in said], known)
    return Verdict(ok=not reason, reason=reason)


def holds(text: str, evidence: Sequence[str]) -> Verdict:
    """Check that every number, date, identifier, quotation and name of a text is in its evidence.

    For Summaries and values of the memo, whose evidence are Facts.
    """
    reason = missing(text, Evidence(tuple((line, None) for line in evidence)))
    return Verdict(ok=not reason, reason=reason)


def _lacks_known_name(content: str, evidence: Evidence) -> bool:
    """Tell whether a Chinese text names a place, a people or a brand that its evidence lacks.

    Where there are no capitals, the names that are known in both languages are compared.
    """
    if not is_chinese(content):
        return False
    held = known_names("\n".join([*(text for text, _ in evidence.texts), *evidence.names]))
    return not known_names(content) <= held


def spoken(sources: Sequence[Message], following: Mapping[str, str] | None) -> list[Message]:
    """Take what people said or did, and what a person's answer to the assistant confirmed."""
    people = sorted((m for m in sources if _from_person(m)), key=lambda m: m.sequence)
    yes = [m for m in people if _is_told(m) and _confirms(m.content)]
    confirmed = [
        claim
        for claim in sources
        if _is_told(claim)
        and fold(claim.role) in _TALKS
        and not _leaves_open(claim.content)
        and any(_answers(answer, claim, following) for answer in yes)
    ]
    return [*people, *confirmed]


def _from_person(message: Message) -> bool:
    """Tell what a person said, or what was done, from what a machine said.

    An event (a search, a tool call, a stage, a memo that was taken over) tells what happened,
    whoever reports it; of what is told, only a person's word is a source about the user.
    """
    return not _is_told(message) or fold(message.role) not in MACHINES


def is_persons(message: Message) -> bool:
    """Tell what a person said from what a machine said, and from what only happened."""
    return _is_told(message) and fold(message.role) not in MACHINES


def _is_told(message: Message) -> bool:
    return fold(message.event_type) in ("", "message", NOTE)


def _answers(answer: Message, claim: Message, following: Mapping[str, str] | None) -> bool:
    """Tell whether a message directly follows another one in its session.

    A later "yes" answers something else. Sequences rise by one for each message of the user over
    all sessions: the next one of the same session surely follows, another may.
    """
    if answer.session_id != claim.session_id:
        return False
    if following is None:
        return answer.sequence - claim.sequence == 1
    return answer.sequence > claim.sequence and following.get(claim.id) == answer.id


def _confirms(text: str) -> bool:
    """Tell a plain yes from "yes, but": no second thought within the next forty characters."""
    folded = fold(text)
    match = _YES.match(folded)
    return match is not None and _BUT.search(folded[match.end() : match.end() + 40]) is None


def _leaves_open(claim: str) -> bool:
    """Tell a question of two answers, to which a yes says nothing: "in Paris or in Rome?"."""
    return _EITHER.search(fold(claim)) is not None


def text_of(message: Message) -> str:
    """Give what the model was shown of a message: its text, and of an event where and what."""
    event = "" if message.event_type == "message" else message.event_type
    return "\n".join(part for part in (message.content, event, message.page) if part)


def _supported(content: str, evidence: Evidence, similarity: float | None) -> bool:
    """Tell whether a Fact shares meaning with its sources, by words or by vectors.

    Thresholds from LoCoMo, five dialogues, 1,210 facts with their cited turn: of the facts whose
    specifics stand in it, 97.1 % share a fifth of their terms with it; of all facts, 36 % still
    pass with the next turn (which mostly tells of the same) and 6 % with any other turn.
    """
    plain = without_dates(dates.normal(content))
    counted = _NUMBER_WEIGHT * len(numerals.claimed(plain))  # they stand there: that was checked
    wanted = terms(numerals.blank(plain), leave_out=evidence.names)
    if not wanted or (similarity is not None and similarity >= SUPPORT_SIMILARITY):
        return True
    said = frozenset(words("\n".join(text for text, _ in evidence.texts)))
    held = counted + sum(term in said or _within(term, evidence) for term in wanted)
    return held >= SUPPORT_SHARE * (counted + len(wanted))


def _within(term: str, evidence: Evidence) -> bool:
    """Find a term that its neighbours cut differently there: 码 in 尺码."""
    return not term.isascii() and term in evidence.folded
