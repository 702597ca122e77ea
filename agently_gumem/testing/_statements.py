"""From messages to statements: what is said about the speaker, clause by clause."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agently_gumem.testing import _patterns as say
from agently_gumem.testing._rewrite import expand, third_person
from agently_gumem.text import CJK, is_chinese

_SENTENCE = re.compile(r"[^.!?。！？;；\n]+(?:\.(?=\S)[^.!?。！？;；\n]*)*[.!?。！？;；]*")
_ABBREVIATION = re.compile(r"\b(Dr|Mr|Mrs|Ms|St|vs|No|Prof)\.")
_EARLY = 7
"""Within so many characters a Chinese clause has its subject, a time before it included."""
_DOT = "\u2024"
_CLAUSE_EN = re.compile(
    r",\s+|\s+(?:and|but)\s+(?=(?:I|I'm|my|never|always|please|do not|keep|use|avoid|call me)\b)"
)
_CLAUSE_ZH = re.compile(r"[，,]\s*|(?<=[\u4e00-\u9fff])、(?=不要|别)")
_YOU = re.compile(
    r"^(?:so|then|ok|okay|got it|i see|noted)?[\s,]*"
    r"(?=(?:you|your|do you|are you|is your)\b|(?:你|您))",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"[,，]?\s*(?:(?:is that )?(?:right|correct)|(?:对|是)(?:吗|吧|不对|不是)?|吗|吧)?"
    r"[?？.。!！\s]*$",
    re.IGNORECASE,
)


@dataclass
class Statement:
    """One thing said or done, on its way to a Fact."""

    clause: str
    content: str
    kind: str
    sources: list[str]
    subject: str = "user"
    certainty: str = "stated"
    time: str = ""
    session: str = ""
    corrects: bool = False
    follows: bool = False
    """A clause without a subject of its own, after another of its sentence."""
    event: bool = False
    start: str = ""
    end: str = ""
    topic: str = ""
    same_as: str = ""
    replaces: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class _Clause:
    text: str
    kind: str
    follows: bool


def sentences(text: str) -> list[str]:
    """Split a text at the ends of its sentences, decimals and abbreviations whole."""
    guarded = _ABBREVIATION.sub(lambda m: m.group(1) + _DOT, text)
    found = (m.group().strip().replace(_DOT, ".") for m in _SENTENCE.finditer(guarded))
    return [s for s in found if s.strip(".!?。！？;； ")]


def statements(messages: Sequence[Mapping[str, Any]]) -> list[Statement]:
    """Read every message for what it says about its speaker, jokes taken back."""
    found: list[Statement] = []
    for place, message in enumerate(messages):
        text = str(message.get("text", ""))
        if message.get("event"):
            found += _event(message, text)
        elif message.get("role") == "user":
            said = list(_said(message, text))
            if not said and say.JOKE.search(text):
                _take_back(found, messages, place)
            before = messages[place - 1] if place else None
            if before and before.get("role") == "assistant" and say.CONFIRM.search(expand(text)):
                found += _confirmed(before, message)
            found += said
    return found


def _take_back(found: list[Statement], messages: Sequence[Mapping[str, Any]], place: int) -> None:
    earlier = [m for m in messages[:place] if m.get("role") == "user"]
    if earlier:
        ref = str(earlier[-1].get("ref", ""))
        found[:] = [s for s in found if ref not in s.sources]


def _said(message: Mapping[str, Any], text: str) -> Iterator[Statement]:
    kept: list[list[Statement]] = []
    for sentence in sentences(text):
        line = say.EVENT_LINE.match(sentence.rstrip("。."))
        if line:
            kept.append(list(_event(message, sentence)))
        elif say.JOKE.search(sentence):
            kept = kept[:-1]
        else:
            kept.append([_state(message, c, sentence) for c in _clauses(sentence)])
    for group in kept:
        yield from group


def _state(message: Mapping[str, Any], clause: _Clause, sentence: str) -> Statement:
    hedged = bool(say.HEDGE.search(clause.text))
    speaker = str(message.get("speaker", ""))
    return Statement(
        clause=clause.text,
        content=third_person(clause.text, speaker, hedged=hedged),
        kind=clause.kind,
        sources=[str(message.get("ref", ""))],
        subject=speaker or "user",
        certainty="inferred" if hedged else "stated",
        time=str(message.get("time", "")),
        session=str(message.get("session", "")),
        corrects=bool(say.CORRECTION.search(expand(sentence))),
        follows=clause.follows,
    )


def _event(message: Mapping[str, Any], text: str) -> list[Statement]:
    event = str(message.get("event", ""))
    text = text.strip().rstrip("。.")
    if event in say.NOISE or not text:
        return []
    chinese = is_chinese(text)
    who = str(message.get("speaker", "")) or ("用户" if chinese else "User")
    kind, content = _done(event, text, who, chinese)
    if event == "imported_memo":
        kind, content = "fact", text
    return [
        Statement(
            clause=text,
            content=content,
            kind=kind,
            sources=[str(message.get("ref", ""))],
            subject=str(message.get("speaker", "")) or "user",
            certainty="stated" if event == "imported_memo" else "observed",
            time=str(message.get("time", "")),
            session=str(message.get("session", "")),
            event=True,
        )
    ]


def _done(event: str, text: str, who: str, chinese: bool) -> tuple[str, str]:
    """Tell the kind of an event and write its sentence."""
    found = say.EVENT_VERB.match(text)
    verb, rest = (found.group(1).lower(), found.group(2)) if found else (event, text)
    for name, (zh, past, kind) in say.EVENTS.items():
        if verb in (name, zh) or past.startswith(verb.split()[0]):
            return kind, f"{who}{zh}了{rest}" if chinese else f"{who} {past} {rest}"
    return "action", f"{who}操作：{text}" if chinese else f"{who}'s action: {text}"


def _clauses(sentence: str) -> list[_Clause]:
    """Give the clauses of a sentence that state something, what has no head joined to them."""
    asked = sentence.rstrip().endswith(("?", "？"))
    body = say.LEAD.sub("", expand(sentence.strip().rstrip(".!?。！？;； ")))
    chinese = is_chinese(body)
    if (say.NOT_MEANT_ZH if chinese else say.NOT_MEANT).search(body):
        return []
    splitter, joint = (_CLAUSE_ZH, "，") if chinese else (_CLAUSE_EN, ", ")
    pieces = [p.strip() for p in splitter.split(body) if p and p.strip()]
    found: list[_Clause] = []
    for place, piece in enumerate(pieces):
        clause = say.LEAD.sub("", piece)
        if not clause or (asked and place == len(pieces) - 1) or _asks(clause, chinese):
            continue
        kind = _kind_zh(clause, bool(found)) if chinese else _kind_en(clause)
        if kind:
            own = bool(re.match(r"我|I\b|my\b", clause, re.IGNORECASE))
            found.append(_Clause(clause, kind, bool(found) and not own))
        elif found and not _small(clause, chinese) and not _others(clause, chinese):
            found[-1] = _Clause(found[-1].text + joint + clause, found[-1].kind, found[-1].follows)
        elif _others(clause, chinese):
            break
    return found


def _asks(clause: str, chinese: bool) -> bool:
    return bool((say.QUESTION_ZH if chinese else say.QUESTION).search(clause))


def _small(clause: str, chinese: bool) -> bool:
    return bool((say.SMALL_TALK_ZH if chinese else say.SMALL_TALK).search(clause))


def _others(clause: str, chinese: bool) -> bool:
    if chinese:
        return bool(say.NOT_ME_ZH.search(clause) or say.OTHERS_ZH.search(clause))
    return bool(say.OTHERS.search(clause) or re.match(r"(he|she|they|you)\b", clause, re.I))


def _kind_en(clause: str) -> str:
    bare = say.HEDGE_LEAD.sub("", clause)
    if _small(bare, False) or _others(bare, False) or say.ONE_TIME.search(bare):
        return ""
    if say.IMPERATIVE.search(bare):
        return "constraint" if say.FORBIDS.search(bare) else "preference"
    if say.ABOUT_ME.search(bare):
        return _kind(bare)
    return "constraint" if say.HEADLESS.search(bare) else ""


def _kind_zh(clause: str, inside: bool) -> str:
    bare = say.HEDGE_LEAD.sub("", clause)
    if _small(bare, True) or _others(bare, True) or not CJK.search(bare):
        return ""
    if say.IMPERATIVE_ZH.search(bare):
        strict = say.FORBIDS.search(bare) and not bare.startswith("最好")
        return "constraint" if strict else "preference"
    mine = bare.find("我", 0, _EARLY)
    if mine >= 0 and len(bare) > mine + 2:
        plan = say.PLAN.search(bare[:mine])
        return "plan" if plan else _kind(bare[mine:])
    if say.HABIT_ZH.search(bare) and not inside:
        return "fact"
    stated = (say.LIMIT, say.PLAN, say.LIKING, say.IDENTITY)
    return _kind(bare) if any(p.search(bare) for p in stated) else ""


def _kind(clause: str) -> str:
    for kind, pattern in (
        ("constraint", say.LIMIT),
        ("plan", say.PLAN),
        ("preference", say.LIKING),
        ("identity", say.IDENTITY),
    ):
        if pattern.search(clause):
            return kind
    return "fact"


def _confirmed(before: Mapping[str, Any], message: Mapping[str, Any]) -> list[Statement]:
    """Take what the assistant said of the user, now that the user says yes."""
    found: list[Statement] = []
    for sentence in sentences(str(before.get("text", ""))):
        said = expand(sentence)
        if not _YOU.match(said):
            continue
        mine = _as_mine(_TAIL.sub("", _YOU.sub("", said)))
        for clause in _clauses(mine):
            statement = _state({**message, "ref": str(before.get("ref", ""))}, clause, mine)
            statement.sources.append(str(message.get("ref", "")))
            found.append(statement)
    return found


def _as_mine(said: str) -> str:
    """Turn what was said to the user into what the user could have said."""
    for pattern, mine in (
        (r"^do you\b", "I"),
        (r"^are you\b", "I am"),
        (r"^is your (.+?) (?=\S+$)", r"my \1 is "),
        (r"\byou are\b", "I am"),
        (r"\byour\b", "my"),
        (r"\byou\b", "I"),
        (r"您|你", "我"),
    ):
        said = re.sub(pattern, mine, said, flags=re.IGNORECASE)
    return said
