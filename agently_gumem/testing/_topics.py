"""One name for the statements that are about one thing."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agently_gumem.testing._frames import CONCEPTS, concept
from agently_gumem.testing._statements import Statement
from agently_gumem.text import CJK, fold, is_chinese, words

_FILLER_WORDS = """
love prefer enjoy hate dislik want need maybe alway never assist call be thing filter
save view dwell skip search reject confirm complet click action say categori price size
brand favorit favourit number around light veri much realli great good best next week
day today tomorrow yesterday monday tuesday wednesday thursday friday saturday sunday go
bought buy look plan current first one two like use keep year old set team default
"""
_FILLER = frozenset(_FILLER_WORDS.split())
_PHRASE = 3
_FILLER_ZH = re.compile(
    r"用户|今年|要去|要|去|有|叫|希望|要求|被称为|不?喜欢|偏好|偏爱|热爱|讨厌|最爱|想要|想买|想去|想学|打算|计划|准备|正在|主要|平时|一般|经常|通常|每天|每周"
    r"|预算|以内|以下|不超过|最多|至少|必须|不能|不要|不再|最好|筛选|收藏|浏览|停留|跳过|搜索|拒绝|确认|完成|点击|品类|价格|尺码|品牌"
    r"|单次|大概|下周|明天|后天|昨天|今天|现在|其实|一双|一个|一件|包含|评价|日常|觉得|可能|也许|非常|比较|太|别|买|我|的|了|在|是|和|与|用|请"
    r"|公里|[一二两三四五六七八九十\d]\s*[双个件款条张只本次家]|[^\u3040-\u9fff]+"
)


def name_topics(
    found: Sequence[Statement], topics: Sequence[str], known: Sequence[Mapping[str, Any]]
) -> None:
    """Give every statement a topic: a known one that fits, else one name a cluster."""
    for group in _clusters(found):
        texts = [_shown(s) for s in group]
        terms = Counter(t for text in texts for t in set(_terms(text)))
        name = _known_name(terms, topics, known) or _new_name(texts, terms)
        for statement in group:
            statement.topic = statement.topic or name


def _shown(statement: Statement) -> str:
    """The sentence without a speaker's name, which names no topic."""
    return statement.content.replace(statement.subject, "", 1)


def _terms(text: str) -> list[str]:
    """The words that can name a thing; in Chinese the bigrams of what is left of the sentence."""
    return [
        t for piece in _pieces(text) for t in words(piece) if t not in _FILLER and not _counts(t)
    ]


def _pieces(text: str) -> list[str]:
    if is_chinese(text):
        return [p for p in _FILLER_ZH.split(text) if p]
    return [re.sub(r"^(?:maybe )?(?:\w+'s |user )", "", text, flags=re.IGNORECASE)]


def _counts(term: str) -> bool:
    return any(ch.isdigit() for ch in term)


def _clusters(found: Sequence[Statement]) -> list[list[Statement]]:
    """Join what shares a term, what continues a sentence, and a run of events."""
    groups: list[list[Statement]] = []
    for place, statement in enumerate(found):
        before = found[place - 1] if place else None
        linked = [g for g in groups if any(_linked(statement, other, before) for other in g)]
        joined = [s for g in linked for s in g] + [statement]
        groups = [g for g in groups if g not in linked] + [joined]
    return groups


def _linked(statement: Statement, other: Statement, before: Statement | None) -> bool:
    same_session = statement.session == other.session
    if (
        other is before
        and same_session
        and statement.sources == other.sources
        and statement.follows
    ):
        return True
    if other is before and same_session and statement.event and other.event:
        return True
    mine, theirs = _terms(_shown(statement)), _terms(_shown(other))
    return bool(set(mine) & set(theirs)) or (same_session and _tail(statement, other))


def _tail(one: Statement, other: Statement) -> bool:
    """Tell whether the head of one Chinese phrase, its last character, is part of the other's."""
    mine, theirs = ([p for p in _pieces(_shown(s)) if len(p) >= _PHRASE] for s in (one, other))
    if not (is_chinese(one.content) and is_chinese(other.content)):
        return False
    heads = ((p[-1], theirs) for p in mine), ((p[-1], mine) for p in theirs)
    return any(head in "".join(pieces) for pairs in heads for head, pieces in pairs)


def _known_name(
    terms: Counter[str], topics: Sequence[str], known: Sequence[Mapping[str, Any]]
) -> str:
    scores: Counter[str] = Counter()
    for topic in topics:
        scores[topic] += 2 * sum(terms[t] for t in set(words(topic)))
    for fact in known:
        if fact.get("topic"):
            shared = set(_terms(str(fact.get("content", "")))) & set(terms)
            scores[str(fact["topic"])] += len(shared)
    best = max(scores.values(), default=0)
    return next((name for name, score in scores.items() if score == best), "") if best else ""


def _new_name(texts: Sequence[str], terms: Counter[str]) -> str:
    chinese = is_chinese(texts[0])
    fields = Counter(c for c in map(concept, texts) if c is not None)
    field, count = fields.most_common(1)[0] if fields else (0, 0)
    common = [t for t, times in terms.most_common() if times > 1]
    if common and 2 * count <= len(texts):
        return common[0] if chinese and CJK.match(common[0]) else _phrase(texts, common)
    if count:
        return CONCEPTS[field][1 if chinese else 0]
    return _guess(texts[0], chinese)


def _phrase(texts: Sequence[str], common: Sequence[str]) -> str:
    """The words of the first text that stand for the terms shared, in their order."""
    seen: list[str] = []
    for word in re.findall(r"[A-Za-z][\w'-]*", texts[0]):
        stem = words(word)
        if stem and stem[0] in common[:2] and fold(word) not in seen:
            seen.append(fold(word))
    return " ".join(seen) or common[0]


def _guess(text: str, chinese: bool) -> str:
    if chinese:
        longest = max(_pieces(text), key=len, default="")
        return longest if 0 < len(longest) <= 4 else (longest[-2:] or "其他")
    shown = re.findall(r"[A-Za-z][\w'-]*", re.split(r"[,(]", _pieces(text)[0])[0])
    content = [fold(w) for w in shown if words(w) and words(w)[0] not in _FILLER]
    return " ".join(content[-2:]) or "other"
