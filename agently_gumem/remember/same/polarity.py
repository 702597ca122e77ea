"""Whether a sentence denies: the words of two languages that turn what is told around."""

import re

from agently_gumem.text import fold, words

# Where a text says that it is not so. What only looks like it is taken out first.
NEGATION = re.compile(
    r"\b(?:not|no|never|without|cannot|neither|nor|none|nothing|dislik\w*|hat(?:e|es|ed|ing)|"
    r"detest\w*|avoid\w*|refus\w*|reject\w*|declin(?:e|es|ed|ing)|turn(?:s|ed)? down|oppos\w+|"
    r"against|stop(?:s|ped|ping)?|quit(?:s|ting)?|gave up|giv(?:es?|en|ing) up|drop(?:s|ped) out|"
    r"cancel\w*|unsubscrib\w+|un(?:able|willing|interested|available|married|employed|happy|familiar|safe|comfortable|sure|"
    r"likely|paid|healthy|well)|incapable|impossible|disagree\w*|disapprov\w*|lack(?:s|ed|ing)?|missed|rarely|seldom|hardly|"
    r"(?:isn|don|doesn|didn|won|can|aren|wasn|weren|hasn|haven|couldn|shouldn|wouldn)t)\b"
    r"|n['’]t\b|\bnon-?(?=[a-z]{3})(?!e\b)|-free\b|\bex-(?=[a-z]{3})"
    r"|不|没|无|未|(?<![特分级区告性个识类差辨派])别(?![人的处墅称致])|讨厌|厌恶|反感|拒|避免|取消|停[止用掉了]"
    r"|反对|戒|禁|忌|辞职|离职|退订|退出|放弃|很少|并非|受够|缺席|缺乏"
)
NO_NEGATION = re.compile(
    r"\bno (?:more|less|later|fewer|earlier) than\b|\bnot (?:only|more than|less than|later than)\b"
    r"|\bcan(?:not|['’]t) wait\b|\bno (?:matter|problem|doubt)\b|\bnon-?stop\b|\bnone ?theless\b"
    r"|\b(?:bus|pit|tram) stops?\b|\bstops? (?:by|at|over)\b|\bavoidance\b"
    r"|不(?:耐|到(?=[\d一二两三四五六七八九十百千万])|满|足|超过|多于|少于|高于|低于|早于|晚于|仅|但|错|同|断|久|管|论|由|锈钢|得不|可或缺|动产|少)"
    r"|不过(?!敏)|差不多|了不起|对不起|没错|没关系|没问题|没准"
    r"|无(?:人机|人驾驶|线|限|论|锡|花果|名指|印良品|障碍|数|尽|比|患)|未(?:来|必)|免费"
    r"|戒指|钻戒|禁忌|拒绝症|而不是|而非"
)
# Words that deny something by themselves, each with a code: another sentence may say so with "not".
_AMBIVALENT: dict[str, str] = {
    r"\ballerg\w+|过敏": "allergy",
    r"\bintoleran\w+|不耐": "intolerance",
    r"\bvegetarian|吃素|素食": "vegetarian",
    r"\bvegan|纯素|全素": "vegan",
    r"\bafraid|\bfears?\b|害怕|恐[高惧飞]|怕": "fear",
    r"\bteetotal\w*|滴酒": "teetotal",
    r"\bsingle\b|单身": "single",
    r"\bunmarried\b|\bbachelor\b|未婚": "unmarried",
}
# Two poles of one thing: a text that names one does not say the same as one that names the other.
_POLES = tuple(
    (re.compile(one), re.compile(other))
    for one, other in (
        (
            r"\bturn(?:s|ed)? on\b|\benabl\w+|开启|打开|启用",
            r"\bturn(?:s|ed)? off\b|\bdisabl\w+|关闭|关掉|禁用",
        ),
        (r"\bpass(?:es|ed)?\b|及格|考过|通过", r"\bfail(?:s|ed)?\b|挂科|落榜"),
        (r"\bremembers?\b|记得", r"\bforg[eo]t\w*|忘"),
        (r"\bbuy\w*|\bbought\b|购买|[想要]买|买了", r"\bs(?:ell\w*|old)\b|卖"),
        (
            r"\blearn\w*|\bstud(?:y|ies|ying)\b|学习|在学|(?<![小中大同教科数化文医])学(?![校生院费历期位者])",
            r"\bteach\w*|\btaught\b|教(?!育|室|练|授)",
        ),
        (
            r"\bshort(?:er)?\b|\bbrief\w*|\bconcise\w*|简[短洁练]|精简",
            r"\blong(?:er)?\b|\bdetailed\b|\blengthy\b|详细|详尽|长篇",
        ),
        (r"\bformal\b|(?<!非)正式", r"\binformal\b|\bcasual\b|随意|非正式"),
        (r"\bborrow\w*|借[了来入]", r"\blen[dt]\w*|借[给出]"),
        (
            r"\bincreas\w+|\brais(?:e|es|ed)\b|增加|提高|上涨",
            r"\bdecreas\w+|\breduc\w+|\blower\w*|减少|降低|下降",
        ),
        (r"\barriv\w+|到达|抵达", r"\bdepart\w*|\bleav(?:e|es|ing)\b|出发|离开"),
        (r"\bsingle\b|单身|未婚", r"\bmarried\b|已婚|结婚了"),
        (r"\bwindow\b|靠窗", r"\baisle\b|过道"),
        (r"\bhot\b|热[水饮的]", r"\b(?:cold|iced)\b|冰[水饮的]|冷[水饮的]"),
        (r"\bindoors?\b|室内", r"\boutdoors?\b|户外|室外"),
        (r"\bonline\b|线上|网上", r"\boffline\b|\bin person\b|线下"),
        (r"\bstart(?:s|ed|ing)?\b|\bbeg[aiu]n\w*|开始", r"\b(?:finish\w*|end(?:s|ed))\b|结束|完成"),
    )
)
# What stands behind these in its clause is what is denied, or passed over.
_TURN = re.compile(NEGATION.pattern + r"|\b(?:over|rather than|instead of|than)\b|而不是|而非|比起")
_CLAUSE = re.compile(r"[,;.，；。！!]|\bbut\b|\band\b|但|却")


def contradict(a: str, b: str) -> bool:
    """Tell whether one of two texts denies what the other one does not.

    Both denying, they still contradict where each denies what the other one affirms: "tea, not
    coffee" and "coffee, not tea".
    """
    one, other = _plain(a), _plain(b)
    if _denies(one) != _denies(other):
        denied, plain = (a, b) if _denies(one) else (b, a)
        return not (denial_codes(fold(plain)) - denial_codes(fold(denied)))
    return _opposed(one, other) or _turned(fold(a), fold(b))


def _plain(text: str) -> str:
    return NO_NEGATION.sub(" ", fold(text))


def _denies(plain: str) -> bool:
    return NEGATION.search(plain) is not None


def denial_codes(folded: str) -> set[str]:
    """Collect codes of the words that deny something by themselves, such as vegetarian."""
    return {code for pattern, code in _AMBIVALENT.items() if re.search(pattern, folded)}


def _opposed(a: str, b: str) -> bool:
    """Tell whether two texts name opposite poles, neither naming both."""
    for one, other in _POLES:
        mine, theirs = ((bool(one.search(t)), bool(other.search(t))) for t in (a, b))
        if {mine, theirs} == {(True, False), (False, True)}:
            return True
    return False


def _turned(a: str, b: str) -> bool:
    mine, theirs = _sides(a), _sides(b)
    return bool(mine[0] & theirs[1]) and bool(mine[1] & theirs[0])


def _sides(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Split the terms of a text into what it affirms and what it denies or passes over."""
    affirmed: list[str] = []
    denied: list[str] = []
    for clause in _CLAUSE.split(text):
        match = _TURN.search(clause)
        affirmed += words(clause[: match.start()] if match else clause)
        denied += words(clause[match.end() :]) if match else []
    both = {*affirmed} & {*denied}
    return frozenset(affirmed) - both, frozenset(denied) - both
