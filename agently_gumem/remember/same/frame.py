"""One sentence with something changed in it, told from the same in other words."""

import re
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import chain

from agently_gumem import dates, numerals
from agently_gumem.remember.same.amounts import measured
from agently_gumem.remember.same.moments import plain
from agently_gumem.remember.same.persons import RELATIVE_CJK, RELATIVES
from agently_gumem.text import CJK, fold, words

# From this share of equal words on, two sentences are one frame with something changed in it.
_FRAME = 0.5
# So many Chinese characters more, or one word of English, tell the same at greater length.
_MORE = 2

_HAN = "[\u4e00-\u9fff]"
_DO = "[吃喝看听玩打穿用读]"
# One word for those that memories use for the same, applied in this order.
_SYNONYMS = (
    ("不(?:太|怎么|很)?(?:喜欢|爱)", "讨厌"),
    (f"喜爱|偏爱|偏好|热爱|钟爱|爱好|更?喜欢|爱(?={_DO})", "好"),
    (f"不好(?={_DO})|厌恶|反感", "讨厌"),
    ("想要|希望|打算|计划|准备|考虑|想|请(?=用)", "要"),
    ("购买|购置|入手", "买"),
    ("居住|家住|家在|住在|定居", "住"),
    ("使用|采用", "用"),
    (f"(?<![得收感看听做遇迟达])[到去](?={_HAN}{{2,4}}(?:旅|出差|玩|度假|留学|开会))|前往", "去"),
    ("旅游|出游|游玩", "旅行"),
    ("回复|答复|回应", "回答"),
    ("天天|每日", "每天"),
    ("恐惧|惧怕|(?<!害)怕", "害怕"),
    ("小孩|子女|宝宝", "孩子"),
    ("名叫|叫做|名字是|名字叫|名为", "叫"),
    ("上班|任职|就职|供职", "工作"),
    ("学习|在学", "学"),
    ("乘坐|搭乘|乘|搭", "坐"),
    ("大夫", "医生"),
    ("月租(?:金|费)?", "每月房租"),
    ("(?<=学)[弹打]", ""),
    ("戒(?=[烟酒糖])|戒掉", "停止"),
    ("[抽吸]烟", "烟"),
    ("开(?:着|的是)?(?:一[辆台部])?(?=[^会始发车门店心机])|(?:汽|轿|座驾|爱)车", "车"),
    ("星期|礼拜", "周"),
    ("从来|一直|已经|平时|通常|经常|目前|现在|当前|最近|正在|非常|特别|比较|总是|从(?=不)", ""),
    ("都|很|会|的|了|[对有育是在吃]|一[辆台双只个位]", ""),
    (r"\b(?:likes?|loves?|enjoys?|prefers?|is fond of)\b", "like"),
    (r"\b(?:wants?|hopes?|wishes|plans?|intends?|would like)\b", "want"),
    (r"['’]s\b", ""),
    (r"\b(?:lives|resides|is living|home is)\b", "lives"),
    (r"\b(?:is called|is named|name is)\b", "called"),
    (r"\b(?:really|always|currently|usually|often|generally|very|also|every time)\b", ""),
)
# What joins the items of a list, whose order tells nothing.
_JOINS = frozenset({"and", "or", "和", "、", "与", ","})
_ARTICLES = frozenset({"the", "a", "an"})
# "Rex is my dog", "my dog is Rex": both sides are one.
_LINKS = frozenset({"is", "are", "was", "were", "是"})
# So many words beside what was exchanged may belong to the first and the last item of a list.
_BESIDE = 6
_NUMERALS = re.compile(f"[{numerals.CHINESE}]+")


def reframed(a: str, b: str) -> bool:
    """Tell whether two texts are one sentence with words changed in it, or with parts exchanged."""
    one, other = _ordered(a), _ordered(b)
    mine, theirs = ([unit for unit in units if unit not in _JOINS] for units in (one, other))
    if sorted(mine) != sorted(theirs):
        return _one_change(a, b)
    same = _listed(one, other) or _moved(*_middle(mine, theirs)) or _linked(mine, theirs)
    # "From Oslo to Paris", "from Paris to Oslo". Told in another order it is no exchange: the items
    # of a list, a part that moved as a whole ("on Fridays the user swims"), both sides of an "is".
    return mine != theirs and not same


def _one_change(a: str, b: str) -> bool:
    """Tell whether one sentence is the other with some words changed, added or left out.

    A paraphrase rebuilds the sentence; a changed word in the same frame tells another thing
    ("the report by Friday", "the slides by Friday").
    """
    one, other = _units(a), _units(b)
    return _changed(one, other) or _changed(other, one)


_MOST = 60_000  # words of one by words of the other: over that, comparing would take too long


def _changed(one: list[str], other: list[str]) -> bool:
    if len(one) * len(other) > _MOST:
        return True
    codes = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    changes = [code for code in codes if code[0] != "equal"]
    equal = sum(code[2] - code[1] for code in codes if code[0] == "equal")
    if len({code[0] for code in changes}) != 1 or equal < _FRAME * min(len(one), len(other)):
        return False
    pieces = [(one[i:j], other[k:m]) for _, i, j, k, m in changes]
    if changes[0][0] != "replace" and _is_small([*chain(*chain(*pieces))]):
        return False
    return any(words("".join(mine) + " " + "".join(theirs)) for mine, theirs in pieces)


def _is_small(more: list[str]) -> bool:
    """Tell whether what is left out is a word of English, or about one of Chinese."""
    latin = [unit for unit in more if not CJK.match(unit)]
    return len(words(" ".join(latin))) <= 1 and len(more) - len(latin) <= _MORE


def _ordered(text: str) -> list[str]:
    """Split as for a frame, but with every word that tells who does what to whom."""
    text = re.sub("[,，、]", " , ", dates.normal(text))
    units = (words(unit, stop=False) or [unit] for unit in _units(text, whole=True))
    return [unit for unit in chain(*units) if unit not in _ARTICLES]


def _ends(one: list[str], other: list[str]) -> tuple[int, int]:
    """Count the units that two sequences share at their start, and then at their end."""
    most = min(len(one), len(other))
    start = next((i for i in range(most) if one[i] != other[i]), most)
    most -= start
    end = next((i for i in range(most) if one[-1 - i] != other[-1 - i]), most)
    return start, end


def _middle(one: list[str], other: list[str]) -> tuple[list[str], list[str]]:
    start, end = _ends(one, other)
    return one[start : len(one) - end], other[start : len(other) - end]


def _moved(one: list[str], other: list[str]) -> bool:
    """Tell whether a part of several words changed places with what stood beside it."""
    cuts = range(1, len(one))
    return len(one) > 2 and any(one[cut:] + one[:cut] == other for cut in cuts)


def _linked(one: list[str], other: list[str]) -> bool:
    links = [i for i, unit in enumerate(one) if unit in _LINKS]
    return any([*one[i + 1 :], one[i], *one[:i]] == other for i in links)


def _listed(one: list[str], other: list[str]) -> bool:
    """Tell whether what differs is a list, once with its items in another order."""
    start, end = _ends(one, other)
    for left in range(start, max(start - _BESIDE, 0) - 1, -1):
        for right in range(end, max(end - _BESIDE, 0) - 1, -1):
            mine, theirs = (_items(units[left : len(units) - right]) for units in (one, other))
            if len(mine) > 1 and mine == theirs:
                return True
    return False


def _items(units: list[str]) -> list[list[str]]:
    items: list[list[str]] = [[]]
    for unit in units:
        if unit in _JOINS:
            items.append([])
        else:
            items[-1].append(unit)
    return sorted(item for item in items if item)


def _units(text: str, *, whole: bool = False) -> list[str]:
    """Split into words and single CJK characters, equal things written the same.

    Args:
        text: A text.
        whole: Keep the words that are left out elsewhere, and commas.
    """
    text = fold(measured(plain(text)))
    for pattern, word in _synonyms():
        if word or not whole:
            text = pattern.sub(word, text)
    text = RELATIVE_CJK.sub(lambda m: f" {RELATIVES[m.group()]} ", text)
    text = _NUMERALS.sub(lambda m: str(numerals.number_word(m.group()) or m.group()), text)
    found = re.findall(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+|,", text)
    return found if whole else [unit for unit in found if unit != ","]


@lru_cache(maxsize=1)
def _synonyms() -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern), word) for pattern, word in _SYNONYMS]
