"""What a Fact is about and what value it gives: the key by which two of them can conflict."""

import re
from dataclasses import dataclass

from agently_gumem.text import fold, is_chinese, words


@dataclass(frozen=True)
class Frame:
    """An attribute that has one value at a time."""

    key: str
    value: str


_VALUE = r"(?P<v>[^,，。(（]+)"
_FRAMES = tuple(
    (key, re.compile(pattern, re.IGNORECASE))
    for key, pattern in (
        ("name", rf"\bname is {_VALUE}|wants to be called {_VALUE.replace('?P<v>', '?P<w>')}"),
        ("name", rf"(?:希望被称为|用户叫|名字是|名字叫|用户姓){_VALUE}"),
        ("home", rf"\b(?:lives?|moved|relocated|moving|based)\b.*?\b(?:in|to)\s+{_VALUE}"),
        ("home", rf"(?:住在|搬到了?|搬去了?|现居|定居在?){_VALUE}"),
        ("work", rf"\bworks? (?:at|for)\s+{_VALUE}"),
        ("work", r"在(?P<v>[^，。（]+?)(?:工作|上班)"),
        ("job", rf"\bworks? as an? {_VALUE}"),
        ("language", r"\b(?:answer|reply|respond|speak|write)\w*\b.*?\bin (?P<v>\w+)"),
        (
            "language",
            r"用(?P<v>\w{1,4}[文语])(?:来)?(?:回答|回复|交流|沟通)|说(?P<w>\w{1,4}[文语])",
        ),
        ("age", r"\bis (?P<v>\d+) years old|今年(?P<w>\d+)岁"),
    )
)
_BUDGET = re.compile(r"\b(?:([a-z]+) )?budget\b(?: for (?:the |a |my )?([a-z]+))?", re.IGNORECASE)
_BUDGET_ZH = re.compile(r"([\u4e00-\u9fff]*)预算")
_NUMBER = re.compile(r"\d[\d,.]*\d|\d")
_HAS = re.compile(rf"^(?:maybe )?\w+'s (?P<k>[^,]+?) (?:is|are)(?: now)? {_VALUE}", re.IGNORECASE)
_HAS_ZH = re.compile(
    r"^用户(?:的|现在的)?(?P<k>[^，是不也就都]{2,12}?)(?:现在)?是(?P<v>[^，。（]+)"
)
_BEST_ZH = re.compile(r"最喜欢的(?P<k>[^，是]+)是(?P<v>[^，。（]+)")
_TRAIL = re.compile(
    r"(?:\s+(?:now|instead|anymore|today|yesterday|tomorrow|(?:last|next|this) \w+|in \d{4}))+$"
    r"|[了吧]$",
    re.IGNORECASE,
)
_NO_MODIFIER = {"my", "the", "a", "s", "total", "new", "our", "their", "user", "now"}
_NEGATION = re.compile(
    r"\b(?:not|never|no|hates?|dislikes?|detests?|without|nor)\b|不|讨厌|别|没|受不了|戒",
    re.IGNORECASE,
)
_POLAR_WORDS = """
like love prefer enjoy hate dislik detest adore anymor longer realli ani wast actual
want 喜欢 讨厌 不喜 再喜 其实 现在 户喜 户不 户讨 户现 户其 不再 很喜 欢吃 欢喝 还喜 已经 经不
"""
_POLAR_ZH = re.compile(
    r"用户|很|非常|特别|真的|其实|现在|已经|不再|再也|还是|还|最|也|不|没|别|戒|喜欢|讨厌|受不了|爱|了$|的$"
)
_POLAR = frozenset(_POLAR_WORDS.split())

CONCEPTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "name",
        "称呼",
        r"\bname\b|called\b|被称为|名字|用户叫|用户姓",
        "name call address nickname 称呼 名字 姓名",
    ),
    (
        "answers",
        "回答方式",
        r"\b(?:answers?|reply|replies|respond|emojis?|units?|tone|language)\b|回答|回复|表情|语气|单位|用\w{1,3}[文语]",
        "answer reply language style tone format unit 回答 回复 语言 风格 格式 单位",
    ),
    (
        "food",
        "饮食",
        r"\b(?:vegetarian|vegan|allerg\w+|eats?|food|diet|halal|kosher|gluten|peanuts?|meat|drinks?)\b|素食|吃|过敏|忌口|喝|菜",
        "food diet dietary eat allergy meal restriction 饮食 忌口 过敏",
    ),
    (
        "home",
        "居住",
        r"\b(?:lives?|moved|relocated|based|grew up|born)\b|住|搬|家在|来自|出生",
        "home city live location residence place town 城市 居住 住址 地点",
    ),
    (
        "work",
        "工作",
        r"\b(?:works?|job|company|engineer|teacher|manager|developer|designer|doctor|nurse)\b|工作|上班|公司|职业|工程师|老师|医生|设计师|程序员",
        "work job occupation profession company employer role 工作 职业 公司",
    ),
    ("meetings", "会议", r"\bmeetings?\b|会议|开会", "meeting schedule calendar 会议 日程"),
    ("budget", "预算", r"\bbudget\b|预算", "budget price limit cost money 预算 价格"),
    (
        "travel",
        "出行",
        r"\b(?:fly|flying|travel\w*|trips?|trains?|flights?|visit\w*)\b|出差|旅行|旅游|飞|火车|机票|要去",
        "travel trip flight 出行 旅行",
    ),
)
"""English name, Chinese name, how it is recognised, and the words by which a memo may call it."""


def frame(content: str) -> Frame | None:
    """Find the attribute and the value that a Fact's sentence gives."""
    for key, pattern in _FRAMES:
        found = pattern.search(content)
        if found:
            value = next(v for v in found.groupdict().values() if v)
            return Frame(key, _TRAIL.sub("", value.strip()))
    return _budget(content) or _owned(content)


def _budget(content: str) -> Frame | None:
    numbers = _NUMBER.findall(content)
    english, chinese = _BUDGET.search(content), _BUDGET_ZH.search(content)
    if not numbers or not (english or chinese):
        return None
    if english:
        names = [n.lower() for n in english.groups() if n and n.lower() not in _NO_MODIFIER]
    else:
        before = chinese.group(1) if chinese else ""
        names = [n for n in [re.sub("用户|希望|要求|其实|现在|的|把|总", "", before)] if n]
    number = numbers[-1] if re.search(r"\bto\b|改|而?是", content) else numbers[0]
    return Frame(" ".join(["budget", *names]), number)


def _owned(content: str) -> Frame | None:
    for pattern in (_BEST_ZH, _HAS_ZH, _HAS):
        found = pattern.match(content) if pattern is not _BEST_ZH else pattern.search(content)
        if found:
            key = re.sub(r"\b(?:new|current|now)\b", "", found.group("k").lower()).strip()
            return Frame("my " + key.replace("favourite", "favorite"), found.group("v").strip())
    return None


def concept(content: str) -> int | None:
    """Find the everyday field that a sentence belongs to, as an index of `CONCEPTS`."""
    for place, (_, _, pattern, _) in enumerate(CONCEPTS):
        if re.search(pattern, content, re.IGNORECASE):
            return place
    return None


def plain(content: str) -> str:
    """Bring a sentence to the form in which equal ones are equal, its resolved date left out."""
    return fold(re.sub(r"\s*[(（][^()（）]*[)）]\s*$", "", content)).rstrip(".。!！")


def conflicts(new: str, old: str, *, corrects: bool) -> bool:
    """Tell whether a new sentence makes an old one untrue."""
    if plain(new) == plain(old):
        return False
    mine, theirs = frame(new), frame(old)
    if mine and theirs:
        return mine.key == theirs.key and fold(mine.value) != fold(theirs.value)
    left, right = _matter(new), _matter(old)
    turned = bool(_NEGATION.search(new)) != bool(_NEGATION.search(old))
    if turned and left and (left == right or (corrects and (left <= right or right <= left))):
        return True
    return corrects and not (mine or theirs) and len(left & right) >= max(1, len(right) // 2)


def _matter(content: str) -> set[str]:
    bare = _POLAR_ZH.sub(" ", plain(content)) if is_chinese(content) else plain(content)
    return {w for w in words(bare) if w not in _POLAR}
