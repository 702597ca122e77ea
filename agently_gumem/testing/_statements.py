"""From messages to statements: what each tells about who speaks, or what was done."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agently_gumem.testing import _patterns as say
from agently_gumem.testing._brief import Brief
from agently_gumem.testing._clauses import Clause, clauses, sentences, whole_quotes
from agently_gumem.testing._rewrite import expand, third_person
from agently_gumem.text import fold, is_chinese

_YOU = re.compile(
    r"^(?:[^:：,，]*?[:：,，]\s*"
    r"|(?:i (?:see|understand|believe|think|note|take it|have noted)(?: that)?"
    r"|so|then|ok|okay|got it|noted)[\s,]*)*?"
    r"(?=(?:you|your|do you|are you|is your)\b|(?:你|您))",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"[,，]?\s*(?:(?:is (?:that|this) )?(?:right|correct)|(?:对|是)(?:吗|吧|不对|不是)?|吗|吧)?"
    r"[?？.。!！\s]*$",
    re.IGNORECASE,
)
_OPTIONS = re.compile(r"^(?:.*[,，:：]\s*)?(.+?)(?:,?\s+or\s+|还是)(.+?)[?？]$", re.IGNORECASE)
_COURTESY = re.compile(r"(?:[,，]?\s*(?:please|谢谢|吧|的))+$|^the\s+", re.IGNORECASE)
_SECONDS = re.compile(r"\b\d\s*s(?:ec(?:ond)?s?)?\b|(?<!\d)\d\s*秒")
_CALL = re.compile(r"(\w[\w.-]*)\((.*?)\) returned (.*)", re.DOTALL)
_LONGEST_CALL = 300
Line = Mapping[str, Any]


_IMPORTED = ("imported_memo", "imported_memory")


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
    special: str = ""
    replaces: list[str] = field(default_factory=list[str])


def statements(messages: Sequence[Line], brief: Brief) -> list[Statement]:
    """Read every message for what it says about its speaker, jokes taken back."""
    done = Counter(_deed(m) for m in messages if m.get("event"))
    found: list[Statement] = []
    for place, message in enumerate(messages):
        if message.get("event") == "tool_call" and brief.tools:
            found += _returned(message)
            continue
        if message.get("event") == "memory_note" and brief.notes:
            continue
        if message.get("event"):
            if not _stray(message, done, brief):
                found += _event(message, str(message.get("text", "")))
            continue
        if message.get("role", "user") != "user":
            continue
        said = _told(messages, place, brief)
        if brief.jokes and not said and say.JOKE.search(str(message.get("text", ""))):
            _take_back(found, messages, place)
        found += said
    return found


def _told(messages: Sequence[Line], place: int, brief: Brief) -> list[Statement]:
    """Read one message of the user: what it confirms or chooses of the one before, what it says."""
    nothing: Line = {}
    message, before = messages[place], messages[place - 1] if place else nothing
    text = str(message.get("text", ""))
    said = list(_said(message, text, brief))
    if before.get("role") != "assistant" or before.get("session") != message.get("session"):
        return said
    if brief.confirmed and say.CONFIRM.search(expand(text)):
        return _confirmed(before, message, brief) + said
    return _chosen(before, message) + said


def _take_back(found: list[Statement], messages: Sequence[Line], place: int) -> None:
    earlier = [m for m in messages[:place] if m.get("role", "user") == "user"]
    if earlier:
        ref = str(earlier[-1].get("ref", ""))
        found[:] = [s for s in found if ref not in s.sources]


def _said(message: Line, text: str, brief: Brief) -> Iterator[Statement]:
    kept: list[list[Statement]] = []
    if brief.quotations and say.GIVEN.search(text):
        return
    for sentence in sentences(whole_quotes(text)):
        line = say.EVENT_LINE.match(sentence.rstrip("。."))
        if line:
            kept.append(_event(message, sentence))
        elif brief.jokes and say.JOKE.search(sentence):
            kept = kept[:-1]
        else:
            kept.append([_state(message, c, sentence, brief) for c in clauses(sentence, brief)])
    for group in kept:
        yield from group


def _state(message: Line, clause: Clause, sentence: str, brief: Brief) -> Statement:
    hedged = bool(say.HEDGE.search(clause.text))
    speaker = str(message.get("speaker", ""))
    special = next((k for k, p in say.SPECIAL.items() if p.search(clause.text)), "")
    return Statement(
        clause=clause.text,
        content=third_person(clause.text, speaker, hedged=hedged and brief.guesses),
        kind=clause.kind,
        sources=_ref(message),
        subject=speaker or "user",
        certainty="inferred" if hedged and brief.guesses else "stated",
        time=str(message.get("time", "")),
        session=str(message.get("session", "")),
        corrects=bool(say.CORRECTION.search(expand(sentence))),
        follows=clause.follows,
        special=special if brief.special else "",
    )


def _ref(message: Line) -> list[str]:
    """Cite a message; one without a reference can't be cited."""
    return [str(message["ref"])] if message.get("ref") else []


def _deed(message: Line) -> tuple[str, str]:
    return str(message.get("event", "")), fold(str(message.get("text", "")))


def _stray(message: Line, done: Counter[tuple[str, str]], brief: Brief) -> bool:
    """Tell state of the screen, and what was clicked or looked at once in passing."""
    event, text = _deed(message)
    if say.is_screen(event):
        return brief.screen
    passing = event == "click" or (event in ("dwell", "view") and bool(_SECONDS.search(text)))
    return brief.clicks and passing and done[_deed(message)] == 1


def _event(message: Line, text: str) -> list[Statement]:
    event = str(message.get("event", ""))
    text = text.strip().rstrip("。.")
    if not text:
        return []
    chinese = is_chinese(text)
    who = str(message.get("speaker", "")) or ("用户" if chinese else "User")
    kind, content = _done(event, text, who, chinese)
    if event in _IMPORTED:
        kind, content = "fact", text
    return [
        Statement(
            clause=text,
            content=content,
            kind=kind,
            sources=_ref(message),
            subject=str(message.get("speaker", "")) or "user",
            certainty="stated" if event in _IMPORTED else "observed",
            time=str(message.get("time", "")),
            session=str(message.get("session", "")),
            event=True,
        )
    ]


def _returned(message: Line) -> list[Statement]:
    """Tell what a tool returned; a call that failed did nothing."""
    call = _CALL.match(str(message.get("text", "")))
    if call is None:
        return []
    name, given, result = (part.strip() for part in call.groups())
    told = f"The tool {name} with {given} returned {result}" if given else f"{name}: {result}"
    return [
        Statement(
            clause=told,
            content=told if len(told) <= _LONGEST_CALL else told[: _LONGEST_CALL - 1] + "…",
            kind="action",
            sources=_ref(message),
            certainty="observed",
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


def _confirmed(before: Line, message: Line, brief: Brief) -> list[Statement]:
    """Take what the assistant said of the user, now that the user says yes."""
    found: list[Statement] = []
    for sentence in sentences(str(before.get("text", ""))):
        said = expand(sentence)
        lead = _YOU.match(said)
        if lead is None:
            continue
        mine = _as_mine(_TAIL.sub("", said[lead.end() :]))
        for clause in clauses(mine, brief):
            statement = _state({**message, "ref": before.get("ref")}, clause, mine, brief)
            statement.sources += _ref(message)
            found.append(statement)
    return found


def _chosen(before: Line, message: Line) -> list[Statement]:
    """Take a bare answer to "this or that?" for what the user wants."""
    asked = sentences(str(before.get("text", "")))
    options = _OPTIONS.match(asked[-1]) if asked else None
    first = (sentences(str(message.get("text", ""))) or [""])[0].rstrip(".!。！ ")
    answer = _COURTESY.sub("", first).strip()
    if not options or not any(fold(answer) == fold(o.strip()) for o in options.groups()):
        return []
    clause = Clause(f"我要{answer}" if is_chinese(answer) else f"I want {answer}", "preference",
                    follows=False)  # fmt: skip
    statement = _state(message, clause, first, Brief())
    statement.sources = [*_ref(before), *_ref(message)]
    return [statement]


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
