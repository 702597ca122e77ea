"""Does the source hold what the Fact says: decided in code, whatever the model claims."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from agently_gumem import dates, numerals
from agently_gumem.records import Message
from agently_gumem.remember.specifics import Evidence, clocks, missing, terms, without_dates
from agently_gumem.text import fold, words

SUPPORT_SHARE = 0.2
# One in a thousand pairs of unrelated facts, none above 0.59; for Facts in another language.
SUPPORT_SIMILARITY = 0.5
# Roles of a machine. Another role is the application's own word for a person ("patient", "seller").
_TALKS = frozenset({"assistant", "ai", "bot", "chatbot", "model", "agent", "助手"})
_MACHINES = _TALKS | {"system", "developer", "tool", "function", "系统"}
# A number weighs as much as this many words: "500-800" alone carries a budget.
_NUMBER_WEIGHT = 2

_YES = re.compile(
    r"(?:yes|yeah|yep|yup|exactly|absolutely|indeed|of course|definitely|that(?:'|’)?s (?:right|"
    r"correct|true)|that is (?:right|correct|true))\b"
    r"|(?:right|correct|sure|true|ok|okay|对|嗯|可以|正确|当然|行|没问题)(?=$|\s*[,.!;，。！；~])"
    r"|(?:对[的啊呀]|嗯嗯|是[的啊呀]|没错|好[的啊呀]|就是这样|当然可以|可以的)"
)
_BUT = re.compile(
    r"\b(?:but|however|except|actually|no|not|wrong|never)\b|n['’]t\b|[?？吗]|但|不(?!错)|可是|(?<![没不])错|没有"
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
        A verdict with the reason "assistant", "quotation", "date", "number", "name" or "support".
    """
    said = _said(sources, following)
    if not said:
        return Verdict(ok=False, reason="assistant")
    known = {*speakers, *(m.speaker for m in said if m.speaker)}
    evidence = Evidence(tuple((_text(m), m.timestamp) for m in said), tuple(sorted(known)))
    reason = missing(content, evidence, entities)
    if not reason and not _supported(content, evidence, similarity):
        reason = "support"
    return Verdict(ok=not reason, reason=reason)


def holds(text: str, evidence: Sequence[str]) -> Verdict:
    """Check that every number, date, identifier, quotation and name of a text is in its evidence.

    For Summaries and values of the memo, whose evidence are Facts.
    """
    reason = missing(text, Evidence(tuple((line, None) for line in evidence)))
    return Verdict(ok=not reason, reason=reason)


def ground_time(
    value: str, sources: Sequence[Message], *, following: Mapping[str, str] | None = None
) -> datetime | None:
    """Keep a date that the model gives only where it follows from the cited messages.

    Args:
        value: ISO date or time, such as "2026-05-13", "2026-05" or "2026-05-13T15:00".
        sources: The cited messages. An undated one resolves no date word.
        following: As for `ground_fact`.

    Returns:
        The date in the time zone of its message, with the time of day where the message holds
        that too; None where it does not follow: no date is ever invented.
    """
    parsed = _iso(value)
    if parsed is None:
        return None
    day, moment = parsed
    for message in _said(sources, following):
        text = dates.normal(_text(message))
        if dates.follows(day, text, message.timestamp):
            return _at(moment, message)
    return None


def _said(sources: Sequence[Message], following: Mapping[str, str] | None) -> list[Message]:
    """Take what people said or did, and what a person's answer to the assistant confirmed."""
    people = sorted((m for m in sources if _from_person(m)), key=lambda m: m.sequence)
    yes = [m for m in people if _is_told(m) and _confirms(m.content)]
    confirmed = [
        claim
        for claim in sources
        if _is_told(claim)
        and fold(claim.role) in _TALKS
        and any(_answers(answer, claim, following) for answer in yes)
    ]
    return [*people, *confirmed]


def _from_person(message: Message) -> bool:
    """Tell what a person said, or what was done, from what a machine said.

    An event (a search, a tool call, a stage, a memo that was taken over) tells what happened,
    whoever reports it; of what is told, only a person's word is a source about the user.
    """
    return not _is_told(message) or fold(message.role) not in _MACHINES


def _is_told(message: Message) -> bool:
    return fold(message.event_type) in ("", "message")


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


def _text(message: Message) -> str:
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


def _iso(value: str) -> tuple[dates.Day, datetime] | None:
    value = value.strip()
    match = re.fullmatch(r"(\d{4})(?:-(\d{2}))?", value)
    full = f"{value}-01" if match and match.group(2) else f"{value}-01-01" if match else value
    try:
        moment = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", full))
    except ValueError:
        return None
    parts = match.groups() if match else (moment.year, moment.month, moment.day)
    return dates.Day(*(int(part) if part else None for part in parts)), moment


def _at(moment: datetime, message: Message) -> datetime:
    """Drop a time of day that the message does not hold; place the rest in its time zone."""
    minutes = frozenset({moment.hour * 60 + moment.minute})
    if not any(minutes & stated for _, stated in clocks(message.content)):
        moment = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if moment.tzinfo is not None:
        return moment
    zone = message.timestamp.tzinfo if message.timestamp else None
    return moment.replace(tzinfo=zone or timezone.utc)
