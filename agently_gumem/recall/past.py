"""Whether a question asks for what held before; "before" has other uses in both languages."""

import re
from collections.abc import Iterable
from datetime import datetime

from agently_gumem.dates import Span

_TENSE = r"\b(?:was|were|wasn['’]?t|weren['’]?t|did|didn['’]?t|had|hadn['’]?t|used)\b"
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b"
# What follows "before" in a plan: a time of day, a day to come, a meal.
_TO_COME = (
    rf"(?:the\s+|my\s+|our\s+)?(?:next|this\s+(?:week|month)|tomorrow|tonight|noon|midnight|bed|"
    rf"bedtime|lunch|dinner|breakfast|supper|{_WEEKDAY}|\d{{1,2}}(?::\d\d)?\s*(?:am|pm|a\.m|p\.m|"
    rf"o['’]clock)|\d{{1,2}}:\d\d)"
)
_THINGS = (
    "address|number|phone|job|email|city|place|apartment|flat|house|home|size|plan|budget|name|"
    "team|car|laptop|computer|employer|boss|manager|company|school|diet|schedule|deadline|"
    "hobby|routine|office|salary|doctor|dentist|bank|landlord|roommate|hotel|address(?:es)?"
)
_ENGLISH = re.compile(
    # No change is asked for with "the previous message": that is the conversation.
    r"\bprevious(?!\s+(?:message|answer|question|reply|response|turn|chat|conversation|step|page|"
    r"slide|paragraph|sentence|email)s?\b)(?:ly)?\b"
    r"|\bformer(?:ly)?\b|\boriginally\b|\binitially\b|\bat first\b|\bback then\b|\bin the past\b"
    r"|\bin those days\b|\bat (?:that|the) time[\s?.!,]*$|\bover time\b|\b(?:my|our) original\b"
    rf"|\b(?:my|our|his|her|their|user['’]s) (?:old|earlier|past|prior|ex-?) ?(?:{_THINGS})\b"
    r"|\bdid (?:\w+ ){1,3}use to\b|\b(?:did|have) (?:i|we|you|he|she|they) ever\b"
    r"|\bbefore[\s?.!,]*$|\bbefore (?:that|this|then|now|the (?:last|change|move|switch)|"
    r"(?:my|the|our) (?:current|new|present))\b"
    r"|\bbefore (?:i|we|you|he|she|it|they) (?:\w+ed|got|went|came|left|became|bought|had|was|were|"
    r"took|quit|met|sold|began|chose)\b"
    r"|\b(?:has|have|had|did) (?:\S+ ){1,6}(?:change|changed|switched|been changed)\b"
    r"|\blast (?:year|month|week|spring|summer|autumn|fall|winter|quarter)['’]s\b",
    re.IGNORECASE,
)
# Only with a past tense in the question: "what should I do before Friday?" is a plan.
_WITH_TENSE = re.compile(
    rf"\bbefore\s+(?!{_TO_COME})|\bprior to\s+(?!{_TO_COME})|\buntil\b|\bearlier\b(?! than\b)"
    r"|\blast (?:spring|summer|autumn|fall|winter|quarter|season)\b"
    r"|\bthen[\s?.!,]*$|\bonce\b(?!\s+(?:i|we|you|a|per|every)\b)",
    re.IGNORECASE,
)
_NO_CHANGE = re.compile(
    r"\b(?:minutes?|hours?|days?|weeks?|night|evening|morning)\s+before\b"
    r"|\b(?:remind|wake|call|alert|notify|text|ping)\b.*\bbefore\b|\b(?:an?|any|the)\s+earlier\s+"
    r"(?:flight|train|bus|time|slot|date|appointment|start)\b",
    re.IGNORECASE,
)
_TENSED = re.compile(_TENSE, re.IGNORECASE)
_USED_TO = re.compile(r"\bused to\b", re.IGNORECASE)
# "I am used to it", "a tool that is used to cut": no habit of the past.
_BEING = re.compile(
    r"(?:\b(?:am|is|are|was|were|be|been|being|get|gets|got|getting|become|can|could)\b|['’](?:m|re)"
    r"\b)(?:\W+\w+){0,3}\W*$",
    re.IGNORECASE,
)

# A day or a thing to come, behind which 之前 and 以前 set a term.
_TERM = (
    r"(?:[今明后]天|今晚|明早|晚上|早上|中午|下午|上午|傍晚|凌晨|半夜|月底|月初|年底|周末|周[一二三四五六日末]|星期[一二三四五六日天]"
    r"|礼拜[一二三四五六日天]|[\d一二三四五六七八九十两半](?:点|号|日|月|分|分钟|小时|天|周|刻|个月|个小时)?半?|几点|几号|吃饭|饭|吃药|药|早餐|午餐|晚餐|睡觉?|开会"
    r"|会议|开始|结束|出发|出门|上班|下班|上课|下课|放学|考试|面试|比赛|截止|登机|起飞|回家|到家|旅行|旅游|出差|手术|体检|付款|发货|提交"
    r"|交付|上线|发布|发版|生日|国庆节?|春节|圣诞节?|元旦|中秋节?|假期|婚礼|演讲|汇报|运动|跑步|洗澡|刷牙|喝酒|开车|离开|走|去|来)"
)
_CHANGED = re.compile("[换改搬变升调转]|跳槽|离职|辞职|结婚|毕业|分手|戒")
_NEAR = 40  # characters before a word that tell its use
_STANDARD = re.compile("(?:之前|以前)")
_BEFORE_TERM = re.compile(rf"{_TERM}(?:的)?$")
_CHINESE = re.compile(
    "从前|曾经?(?!孙|祖)|当时|当初|那时候?|那会儿|原先|早先|先前|起初|最初|一开始|小时候|原来的|原来那"
    "|(?:我们?|你们?|[他她它]们?|用户|您)原来(?!是这样)|原来(?=住|穿|用|叫|喜欢|定|预算|约|做|在|吃|开|养|是(?:什么|多少|谁|哪|几|怎))"
    "|(?:^|[我你他她它们您在，。、\\s])过去(?!吧|看|找|接|拿|要|了|后|之后|的路|多久|怎么)"
    "|旧(?:地址|手机|号码|电话|工作|公司|邮箱|尺码|计划|预算|家|房子|车|名字|方案|安排|版本|时间)"
    "|上一(?:任|份|部|家|版|台|辆|个(?:地址|手机|号码|工作|公司|计划|预算|城市|房子|名字))"
    "|前(?:任|公司|东家|雇主|单位|老板|男友|女友|妻|夫)|(?:换|搬|改|跳槽|离职|辞职|毕业|结婚|搬家)前(?!要|得|需)"
    "|[改变换搬]过(?!来|去)|怎么变的|变化|变更"
)


def asks_past(text: str, days: Iterable[Span], now: datetime) -> bool:
    """Tell whether a question asks for what held before, in either language.

    Args:
        text: The question, in the form that `dates.normal` gives.
        days: The days that it names.
        now: The moment of the question.
    """
    return (
        _in_english(text)
        or _in_chinese(text)
        or (_of_days_gone(days, now) and _tells_of_then(text))
    )


def _in_english(text: str) -> bool:
    if any(not _BEING.search(_left_of(text, m.start())) for m in _USED_TO.finditer(text)):
        return True
    tensed = _TENSED.search(text) is not None
    if not tensed and _NO_CHANGE.search(text):
        return False
    return _ENGLISH.search(text) is not None or (tensed and _WITH_TENSE.search(text) is not None)


def _in_chinese(text: str) -> bool:
    return _CHINESE.search(text) is not None or any(
        _is_past(text, m.start()) for m in _STANDARD.finditer(text)
    )


def _is_past(text: str, place: int) -> bool:
    """Tell 以前 and 之前 that mean the past from those that set a term: 吃饭之前, 周五之前."""
    clause = re.split("[，。！？、；,.!?;]", _left_of(text, place))[-1]
    if re.search(r"(?:19|20)\d\d年?$", clause):
        return not text[place + 2 :].startswith("要")
    return not _BEFORE_TERM.search(clause) or _CHANGED.search(clause) is not None


def _left_of(text: str, place: int) -> str:
    return text[max(0, place - _NEAR) : place]


def _of_days_gone(days: Iterable[Span], now: datetime) -> bool:
    spans = list(days)
    return bool(spans) and all(end < now.date() for _, end in spans)


def _tells_of_then(text: str) -> bool:
    """Tell whether the days that a question names are those that it asks about."""
    return _TENSED.search(text) is not None or re.search("[\u4e00-\u9fff]", text) is not None


_MARKS = re.compile(
    r"\b(?:previously|formerly|originally|initially|used to)\b"
    r"|以前|之前|从前|曾经|当初|原先|早先|先前",
    re.IGNORECASE,
)


def without_marks(text: str) -> str:
    """Take out the words that only say that the past is meant: no record of then holds them."""
    shorter = _MARKS.sub(" " if text.isascii() else "", text)
    return " ".join(shorter.split()) if shorter != text else text
