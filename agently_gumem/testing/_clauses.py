"""From a message to the clauses in it that state something about who says them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agently_gumem.testing import _patterns as say
from agently_gumem.testing._brief import Brief
from agently_gumem.testing._rewrite import expand, first_person, singular
from agently_gumem.text import CJK, is_chinese

_SENTENCE = re.compile(r"[^.!?。！？;；\n]+(?:\.(?=\S)[^.!?。！？;；\n]*)*[.!?。！？;；]*")
_ABBREVIATION = re.compile(r"\b(Dr|Mr|Mrs|Ms|St|vs|No|Prof)\.")
_EARLY = 7
"""Within so many characters a Chinese clause has its subject, a time before it included."""
_DOT = "\u2024"
_CLAUSE_EN = re.compile(
    r",\s+|\s+(?:and|but|so)\s+(?=(?:(?:honestly|also|then|now)\s+)?"
    r"(?:I|I'm|my|never|always|please|do not|no|keep|use|avoid|call me)\b)"
)
_CLAUSE_ZH = re.compile(r"[，,]\s*|(?<=[\u4e00-\u9fff])、(?=不要|别)|\s+(?=我)")
_TAKEN_OUT = re.compile(r"\[[a-z]+(?:-[a-z]+)?\]")
_SELF = re.compile(r"\b(?:I|my|me)\b|我")
_QUOTED = re.compile(r"[“\"「『]([^”\"」』]+)[”\"」』]")


@dataclass(frozen=True)
class Clause:
    """A part of a sentence that states something, and what kind of Fact it would be."""

    text: str
    kind: str
    follows: bool
    """Whether it has no subject of its own, after another of its sentence."""


def whole_quotes(text: str) -> str:
    """Keep somebody's words in one sentence: the ends of their own sentences become commas."""

    def joined(match: re.Match[str]) -> str:
        said = match.group()
        return re.sub(r"[.!?。！？;；]+", ",", said) if _of_self(said) else said

    return _QUOTED.sub(joined, text)


def _of_self(quoted: str) -> bool:
    """Tell quoted words of somebody about themselves: whoever quotes them may be another."""
    return _SELF.search(quoted) is not None


def sentences(text: str) -> list[str]:
    """Split a text at the ends of its sentences, decimals and abbreviations whole."""
    guarded = _ABBREVIATION.sub(lambda m: m.group(1) + _DOT, text)
    found = (m.group().strip().replace(_DOT, ".") for m in _SENTENCE.finditer(guarded))
    return [s for s in found if s.strip(".!?。！？;； ")]


def clauses(sentence: str, brief: Brief) -> list[Clause]:
    """Give the clauses of a sentence that state something, what has no head joined to them."""
    body, asked = _body(sentence, brief)
    if not body:
        return []
    chinese = is_chinese(body)
    splitter = _CLAUSE_ZH if chinese else _CLAUSE_EN
    pieces = [p.strip() for p in splitter.split(body) if p and p.strip()]
    asking = {len(pieces) - 1} if asked and brief.questions else set[int]()
    return list(_Reader(brief, chinese).read(pieces, asking))


def _body(sentence: str, brief: Brief) -> tuple[str, bool]:
    """Bring a sentence into the form that is read, and tell whether it asks."""
    asked = sentence.rstrip().endswith(("?", "？"))
    body = say.LEAD.sub("", singular(expand(sentence.strip().rstrip(".!?。！？;； "))))
    if brief.hypotheticals and say.HYPOTHETICAL.search(body):
        return "", asked
    if not brief.quotations:
        body = _own_words(body)
    elif say.REPORTED.search(body) or any(_of_self(quoted) for quoted in _QUOTED.findall(body)):
        return "", asked
    return say.LEAD.sub("", body).strip(), asked


def _own_words(body: str) -> str:
    """Take quoted words for the speaker's own, as who does not mind the quotation does."""
    quoted = _QUOTED.search(body)
    return say.REPORTED_LEAD.sub("", quoted.group(1) if quoted else body)


@dataclass(frozen=True)
class _Reader:
    """Reads the pieces of one sentence."""

    brief: Brief
    chinese: bool

    def read(self, pieces: Sequence[str], asking: set[int]) -> Iterator[Clause]:
        """Give what is stated; a condition goes behind what it is the condition of."""
        found: list[Clause] = []
        before: list[str] = []
        joint = "，" if self.chinese else ", "
        for place, piece in enumerate(pieces):
            clause = self._bare(piece)
            if place + 1 < len(pieces) and self._opens(clause):
                before.append(clause[0].lower() + clause[1:])
                continue
            if place in asking or self._skipped(clause):
                continue
            kind = self._kind(clause, bool(found)) or self._bid(clause, before)
            if kind:
                own = bool(re.match(r"我|I\b|my\b", clause, re.IGNORECASE))
                text = joint.join([*before, clause] if self.chinese else [clause, *before])
                found.append(Clause(text, kind, bool(found) and not own))
                before = []
            elif self._others(clause):
                break
            elif found and not self._small(clause):
                last = found[-1]
                found[-1] = Clause(last.text + joint + clause, last.kind, last.follows)
        yield from found

    def _skipped(self, clause: str) -> bool:
        """Tell a part that says nothing, or asks, or of which something was taken out."""
        asks = self.brief.questions and self._asks(clause)
        return not clause or asks or _TAKEN_OUT.search(clause) is not None

    def _opens(self, clause: str) -> bool:
        """Tell a part that only says of what, or when, the next one speaks."""
        return bool((say.TOPIC_ZH if self.chinese else say.CONDITION).search(clause))

    def _bid(self, clause: str, before: Sequence[str]) -> str:
        """Tell a standing request: what to do whenever something is the case."""
        standing = any(map(say.WHENEVER.search, before)) and " " in clause
        return "preference" if standing and not (self._others(clause) or self._asks(clause)) else ""

    def _bare(self, piece: str) -> str:
        clause = say.LEAD.sub("", piece)
        if self.brief.others:
            return clause
        if self.chinese:
            return say.OTHER_ZH.sub("我", clause, count=1)
        return first_person(say.OTHER.sub("I", clause, count=1))

    def _kind(self, clause: str, inside: bool) -> str:
        bare = say.HEDGE_LEAD.sub("", clause)
        if self._others(bare):
            return ""
        if self.brief.one_time and say.ONE_TIME.search(bare):
            return ""
        if self._small(bare):
            return ""
        found = _kind_zh(bare, inside) if self.chinese else _kind_en(bare)
        return found or ("" if self.brief.small_talk else "fact")

    def _asks(self, clause: str) -> bool:
        return bool((say.QUESTION_ZH if self.chinese else say.QUESTION).search(clause))

    def _small(self, clause: str) -> bool:
        pattern = say.SMALL_TALK_ZH if self.chinese else say.SMALL_TALK
        return self.brief.small_talk and bool(pattern.search(clause))

    def _others(self, clause: str) -> bool:
        if not self.brief.others:
            return False
        if self.chinese:
            return bool(say.NOT_ME_ZH.search(clause) or say.OTHERS_ZH.search(clause))
        return bool(say.OTHERS.search(clause) or re.match(r"(he|she|they|you)\b", clause, re.I))


def _kind_en(bare: str) -> str:
    if " " in bare and say.IMPERATIVE.search(bare):
        return "constraint" if say.FORBIDS.search(bare) else "preference"
    if say.ABOUT_ME.search(bare):
        return _kind(bare)
    if say.BOUND.search(bare) or say.HEADLESS.search(bare):
        return "constraint"
    return "plan" if say.APPOINTMENT.search(bare) else ""


def _kind_zh(bare: str, inside: bool) -> str:
    if not CJK.search(bare):
        return ""
    if say.IMPERATIVE_ZH.search(bare):
        strict = say.FORBIDS.search(bare) and not bare.startswith("最好")
        return "constraint" if strict else "preference"
    mine = bare.find("我", 0, _EARLY)
    if mine >= 0 and len(bare) > mine + 2:
        if say.FORBIDS.search(bare[:mine]):
            return "constraint"
        plan = say.PLAN.search(bare[:mine])
        return "plan" if plan else _kind(bare[mine:])
    if say.HAPPENED_ZH.search(bare) or (say.HABIT_ZH.search(bare) and not inside):
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
