"""What a speaker says, as a sentence about the speaker."""

import re

from agently_gumem.testing import _patterns as say
from agently_gumem.text import is_chinese

_CONTRACTIONS = (
    (r"\bcan['’]t\b|\bcannot\b", "can not"),
    (r"\bwon['’]t\b", "will not"),
    (r"\b(I)m\b(?=\s)", r"\1 am"),
    (r"n['’]t\b", " not"),
    (r"\b(I|you|we|they)['’](?:m|re)\b", r"\1 am"),
    (r"\b(\w+)['’]ve\b", r"\1 have"),
    (r"\b(\w+)['’]ll\b", r"\1 will"),
    (r"\b(\w+)['’]d\b(?= (?:like|love|rather|prefer|go|be|have|never|also))", r"\1 would"),
    (r"\b(that|it|he|she|there|what)['’]s\b", r"\1 is"),
    (r"\blet['’]s\b", "let us"),
)
_ADVERBS = (
    "really|usually|always|never|often|mostly|mainly|also|still|just|actually|now|currently|"
    "strongly|only|absolutely|generally|sometimes|no longer|already|recently|probably|"
    "typically|normally|even|especially|simply|rarely|regularly|once|maybe"
)
_I = re.compile(rf"\bI\b((?: (?:{_ADVERBS}))*)(?: ([A-Za-z]+))?")
_FIXED_WORDS = """
can could must should may might will would shall had was did need went bought moved got
took made ate met saw left found broke grew knew thought told gave came became began
drank drove fell felt flew forgot kept lost paid ran read said sent slept sold spoke
spent stood swam taught wore won wrote built chose led sat set put cut hurt let quit
spread used meant dealt picked threw tore woke caught fought sought hid rode rose shook bore
"""
_FIXED = frozenset(_FIXED_WORDS.split())
_VERBS = frozenset(
    {"fly", "apply", "rely", "reply", "supply", "comply", "multiply", "need", "feed"}
)
"""Verbs that end as adverbs and past forms do."""
_SHAPES = {"am": "is", "have": "has", "do": "does", "are": "is"}
_BARE = {"is": "am", "has": "have", "does": "do", "goes": "go", "was": "was"}
_CALLED = re.compile(r"^(?:please )?call me\s+(.+)$", re.IGNORECASE)
_CALLED_ZH = re.compile(r"^(?:以后|请|可以|你|就)*(?:叫我|称呼我为?)\s*(.+?)(?:就好|就行|吧)?$")
_BID = re.compile(r"^(?:please\s+|let us\s+(?:just\s+|always\s+)?)?(.+)$", re.IGNORECASE)
_WISH_ZH = re.compile(
    r"^(?:请|最好|麻烦)+(?:您|你)?|^(?=不要|别|以后|每次|用|总是|永远|务必|记得|一律|始终|尽量|回答|千万|记住)"
)


def expand(text: str) -> str:
    """Write contractions out, so that one pattern and one Fact serves both forms."""
    for pattern, full in _CONTRACTIONS:
        text = re.sub(pattern, full, text, flags=re.IGNORECASE)
    return re.sub(r"\b(you|we|they) am\b", r"\1 are", text, flags=re.IGNORECASE)


def singular(text: str) -> str:
    """Write what a speaker says of "us" as said of the speaker alone."""
    for pattern, mine in (
        (r"\bmy (?:\w+ )?\w+ and i are\b", "I am"),
        (r"\bmy (?:\w+ )?\w+ and i\b", "I"),
        (r"\bwe are\b", "I am"),
        (r"\bwe were\b", "I was"),
        (r"\bwe\b", "I"),
        (r"\bours?\b", "my"),
        (r"(?<!let )\bus\b", "me"),
        (r"我们", "我"),
    ):
        text = re.sub(pattern, mine, text, flags=re.IGNORECASE)
    return text


def first_person(clause: str) -> str:
    """Write "I loves" as "I love": what was said of somebody else, taken for the speaker's own."""
    found = re.match(rf"I((?: (?:{_ADVERBS}))*) ([a-z]+s)\b", clause)
    if not found:
        return clause
    base = re.sub(r"ies$", "y", re.sub(r"(?<=ss|ch|sh)es$|(?<=x)es$|(?<!ie)s$", "", found[2]))
    verb = _BARE.get(found[2], base)
    return f"I{found[1]} {verb}{clause[found.end() :]}"


def third_person(clause: str, speaker: str = "", *, hedged: bool = False) -> str:
    """Write a clause about the speaker, names and numbers as they stand."""
    if is_chinese(clause):
        return _chinese(clause, speaker or "用户")
    bare = say.HEDGE_LEAD.sub("", clause)
    content = _english(bare, speaker or "User")
    lost = hedged and not say.HEDGE.search(content)
    return f"Maybe {content}" if lost else content


def _chinese(clause: str, who: str) -> str:
    called = _CALLED_ZH.match(clause)
    if called:
        return f"{who}希望被称为{called.group(1)}"
    if "我" in clause:
        return clause.replace("我", who)
    if say.IMPERATIVE_ZH.search(clause) and _WISH_ZH.match(clause):
        wish = _WISH_ZH.sub("", clause, count=1)
        hard = wish.startswith(("不要", "别")) and not clause.startswith("最好")
        return f"{who}要求{wish}" if hard else f"{who}希望{wish}"
    return who + clause


def _english(clause: str, who: str) -> str:
    called = _CALLED.match(clause)
    if called:
        return f"{who} wants to be called {called.group(1)}"
    if say.IMPERATIVE.search(clause) and not re.search(r"\bI\b", clause):
        return _bidding(clause, who)
    if not re.search(r"\b(?:I|my)\b", clause, re.IGNORECASE):
        return _of(clause, who)
    clause = re.sub(r"^i\b", "I", clause)
    clause = _I.sub(lambda m: _agree(who, m.group(1), m.group(2)), clause)
    clause = re.sub(r"^my\b", f"{who}'s", clause, flags=re.IGNORECASE)
    if who not in clause:
        clause = re.sub(r"\bmy\b", f"{who}'s", clause, count=1, flags=re.IGNORECASE)
    clause = re.sub(r"\bmyself\b", "themselves", clause)
    clause = re.sub(r"\bmine\b", "theirs", clause)
    clause = re.sub(r"\bmy\b", "their", clause, flags=re.IGNORECASE)
    clause = re.sub(r"\bme\b", "them", clause)
    return clause[0].upper() + clause[1:]


def _agree(who: str, adverbs: str, verb: str | None) -> str:
    if verb is None:
        return who + adverbs
    return f"{who}{adverbs} {_third(verb)}"


def _third(verb: str) -> str:
    low = verb.lower()
    if low in _SHAPES:
        return _SHAPES[low]
    if low in _FIXED or low in ("and", "or", "not"):
        return verb
    if low.endswith(("ed", "ing", "ly")) and low not in _VERBS:
        return verb
    if re.search(r"[^aeiou]y$", low):
        return verb[:-1] + "ies"
    return verb + ("es" if re.search(r"(?:s|x|z|ch|sh|o)$", low) else "s")


def _bidding(clause: str, who: str) -> str:
    found = _BID.match(clause)
    bid = found.group(1) if found else clause
    bid = bid[0].lower() + bid[1:] if not bid[:2].isupper() else bid
    bid = re.sub(r"\bme\b", "them", re.sub(r"\bmy\b", "their", bid))
    if bid.startswith("no "):
        return f"{who} wants {bid}"
    if bid.startswith("do not "):
        return f"{who} wants the assistant not to {bid[7:]}"
    return f"{who} wants the assistant to {bid}"


def _of(clause: str, who: str) -> str:
    """Write a clause without its subject, such as "budget is at most 800"."""
    clause = re.sub(r"^(?:the|a|an) ", "", clause, flags=re.IGNORECASE)
    if re.match(r"(?:budget|max|limit)", clause, re.IGNORECASE):
        return f"{who}'s {clause[0].lower()}{clause[1:]}"
    if re.match(r"(?:must|can|never|allergic)\b", clause, re.IGNORECASE):
        link = "is " if clause.lower().startswith("allergic") else ""
        return f"{who} {link}{clause[0].lower()}{clause[1:]}"
    return f"{who} says: {clause}"
