"""A model that follows plain rules instead of weights."""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from agently_gumem.testing._brief import Brief, read
from agently_gumem.testing._dates import resolve
from agently_gumem.testing._frames import conflicts, plain
from agently_gumem.testing._memos import Entry, patch
from agently_gumem.testing._request import Request
from agently_gumem.testing._scripted import Answer, ScriptedModel
from agently_gumem.testing._statements import Statement, statements
from agently_gumem.testing._topics import name_topics
from agently_gumem.text import is_chinese, words

_SENTENCES = 4
_NAME = re.compile(r"(?<!^)(?<![.!?] )\b[A-Z][a-z]+(?: [A-Z][a-z]+)*\b")
Known = Mapping[str, Any]


class RuleModel(ScriptedModel):
    """A `ScriptedModel` whose memory answers follow rules, from the request's text alone.

    It reads English and Chinese statements of a speaker about themselves, behaviour events,
    corrections, relative dates, and fills a memo of any schema. It is deterministic and knows
    nothing but the request: a test with it checks what the prompt carries. It says nothing of how
    well a real model does.

    Args:
        answer: As for `ScriptedModel`; None answers with the lines of the memo section that share
            a word with the question.
    """

    def __init__(self, answer: Answer | None = None) -> None:
        super().__init__(recite if answer is None else answer, memory=by_rules)


def recite(request: Request) -> str:
    """Answer a chat request with what its memo section holds about the question."""
    asked = set(words(request.question))
    lines = [line.strip() for line in (request.memo_section or "").splitlines()]
    used = [line for line in lines if asked & set(words(line))]
    if is_chinese(request.question):
        return "好的。" + ("我记得：" + "；".join(used) if used else "我没有用到记忆。")
    return "OK. " + ("I remember: " + "; ".join(used) if used else "I used no memory.")


def by_rules(request: Request) -> dict[str, Any]:
    """Answer a memory request of any stage."""
    if request.memory_stage == "summarize":
        return _summarize(request.data)
    if request.memory_stage == "memo":
        return _memo(request.data)
    return _extract(request.data, read(request.instructions))


def _first(data: Mapping[str, list[Any]], heading: str) -> Any:
    lines = data.get(heading) or [{}]
    return lines[0]


def _extract(data: Mapping[str, list[Any]], brief: Brief) -> dict[str, Any]:
    known: list[Known] = data.get("KNOWN FACTS", [])
    found = statements(data.get("NEW MESSAGES", []), brief)
    if brief.relative:
        found = _dated(found)
    found = _joined(_latest(found) if brief.corrected else found)
    for statement in found:
        _judge(statement, known, brief)
    name_topics(found, list(_first(data, "TOPICS") or []), known)
    facts = [_fact(f"f{place}", s) for place, s in enumerate(found, 1)]
    gone = {ref for s in found for ref in s.replaces}
    fresh = [_entry(f) for f in facts]
    kept = [_entry(k) for k in known if str(k.get("ref")) not in gone]
    lost = [_entry(k) for k in known if str(k.get("ref")) in gone]
    memo = patch(_first(data, "MEMO SCHEMA"), _first(data, "MEMO"), fresh, kept, lost)
    return {"facts": facts, "memo": memo}


def _dated(found: list[Statement]) -> list[Statement]:
    for s in found:
        s.content, s.start, s.end = resolve(s.content, s.time, plan=s.kind == "plan")
    return found


def _joined(found: Sequence[Statement]) -> list[Statement]:
    """Make equal statements one, its sources together."""
    joined: dict[tuple[str, str, str], Statement] = {}
    for s in found:
        first = joined.setdefault((s.subject, s.certainty, plain(s.content)), s)
        first.sources = list(dict.fromkeys([*first.sources, *s.sources]))
    return list(joined.values())


def _latest(found: Sequence[Statement]) -> list[Statement]:
    """Leave out what a later statement of the same request makes untrue."""
    return [
        s
        for place, s in enumerate(found)
        if not any(_overrules(later, s) for later in found[place + 1 :])
    ]


def _overrules(later: Statement, earlier: Statement) -> bool:
    if later.event or earlier.event or later.subject != earlier.subject:
        return False
    if (later.kind == "plan") != (earlier.kind == "plan"):
        return False
    if later.certainty == "inferred" and earlier.certainty != "inferred":
        return False
    return conflicts(later.content, earlier.content, corrects=later.corrects)


def _judge(statement: Statement, known: Sequence[Known], brief: Brief) -> None:
    """Compare with the known Facts of the same subject: the same, or no longer true."""
    for fact in known:
        content, ref = str(fact.get("content", "")), str(fact.get("ref", ""))
        if str(fact.get("subject", "user")) != statement.subject:
            continue
        if plain(content) == plain(statement.content):
            statement.same_as = ref if brief.same else ""
        elif not brief.corrected or _unlike(statement, fact):
            continue
        elif conflicts(statement.content, content, corrects=statement.corrects):
            statement.replaces.append(ref)
        else:
            continue
        statement.topic = statement.topic or str(fact.get("topic", ""))


def _unlike(statement: Statement, fact: Known) -> bool:
    """A plan makes no present fact untrue, nor the reverse; a guess and a deed make nothing so."""
    if statement.event or statement.certainty == "inferred":
        return True
    kinds = (statement.kind, str(fact.get("kind", "")))
    return kinds.count("plan") == 1 or fact.get("certainty") == "observed"


def _fact(ref: str, s: Statement) -> dict[str, Any]:
    return {
        "ref": ref,
        "content": s.content,
        "kind": s.kind,
        "topic": s.topic,
        "subject": s.subject,
        "sources": s.sources,
        "entities": [n for n in dict.fromkeys(_NAME.findall(s.content)) if "User" not in n],
        "labels": [],
        "certainty": s.certainty,
        "confidence": 0.4 if s.certainty == "inferred" else 1.0,
        "start": s.start,
        "end": s.end,
        "same_as": s.same_as,
        "special": s.special,
        "replaces": s.replaces,
    }


def _entry(fact: Known) -> Entry:
    return Entry(
        ref=str(fact.get("ref", "")),
        content=str(fact.get("content", "")),
        kind=str(fact.get("kind", "fact")),
        topic=str(fact.get("topic", "")),
        certainty=str(fact.get("certainty", "stated")),
    )


def _summarize(data: Mapping[str, list[Any]]) -> dict[str, Any]:
    summaries: list[dict[str, Any]] = []
    for line in data.get("TOPICS", []):
        facts = [f for f in data.get("FACTS", []) if f.get("topic") == line.get("topic")]
        if facts:
            summaries.append(
                {
                    "topic": line["topic"],
                    "content": _told([str(f["content"]) for f in facts]),
                    "facts": [f["ref"] for f in facts],
                    "labels": [],
                    "entities": [],
                    "confidence": 1.0,
                }
            )
    names: list[str] = list(_first(data, "ALL TOPICS") or [])
    same = [
        {"keep": keep, "other": other}
        for keep, other in combinations(names, 2)
        if set(words(keep)) and set(words(keep)) == set(words(other))
    ]
    return {"summaries": summaries, "same_topics": same}


def _told(contents: Sequence[str]) -> str:
    """Join sentences into at most four, the subject that they share said once in each."""
    chinese = is_chinese("".join(contents))
    size = -(-len(contents) // _SENTENCES)
    groups = [contents[i : i + size] for i in range(0, len(contents), size)]
    joint, stop, between = ("；", "。", "") if chinese else ("; ", ".", " ")
    subject = "用户" if chinese else "User "
    told: list[str] = []
    for group in groups:
        rest = [c.rstrip(".。").removeprefix(subject) for c in group[1:]]
        told.append(joint.join([group[0].rstrip(".。"), *rest]) + stop)
    return between.join(told)


def _memo(data: Mapping[str, list[Any]]) -> dict[str, Any]:
    facts = [_entry(f) for f in data.get("FACTS", [])]
    return {"memo": patch(_first(data, "MEMO SCHEMA"), {}, facts)}
