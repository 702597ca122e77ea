"""Names of two sentences compared, in one language and across two."""

import re
from functools import lru_cache

from agently_gumem import dates
from agently_gumem.remember import specifics as sp
from agently_gumem.remember.same.lexicon import known_names
from agently_gumem.remember.same.pinyin import heard, sounds
from agently_gumem.text import STOP_WORDS, fold, is_chinese, words

_TITLE = re.compile(r"\b(Dr|Mr|Mrs|Ms|Prof|St)\.")
_LATIN = re.compile(r"[^\W_\u3400-\u9fff]+(?:['’&.+/-][^\W_\u3400-\u9fff]+)*")
# A word that opens a sentence is a name where the sentence is about it.
_OPENING = re.compile(r"(?:^|[.!?]\s+)([A-Z][\w-]+)(?=,| (?:is|was|has|lives|works)\b|['’]s\b)")
# Short forms that are common words, and no names, in Chinese.
_SHORT_FORMS = {
    "dslr": "单反", "tv": "电视", "pc": "电脑", "ceo": "首席执行官|总裁", "phd": "博士",
    "suv": "越野", "ac": "空调", "hr": "人事|人力", "ai": "人工智能", "id": "身份证", "gp": "医生",
    "mri": "核磁", "pe": "体育", "bbq": "烧烤", "ev": "电动", "ram": "内存", "cpu": "处理器",
    "gpu": "显卡", "ssd": "硬盘",
}  # fmt: skip

_HAN = "[\u4e00-\u9fff]"
_SURNAME = (
    "[王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶"
    "程苏魏吕丁任沈姚卢姜崔钟谭陆汪范金石廖贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾"
    "毛郝龚邵万钱严覃武戴莫孔向汤]"
)
# Where a Chinese sentence, which has no capitals, puts a name.
_PLACES = (
    rf"(?:叫做?|名字[是叫]|名为|姓名[是为])({_HAN}{{2,3}})(?=[，。,.;；！!\s]|$|是|的|今|在)",
    rf"^({_HAN}{{2,4}}?)是(?:用户|我)(?:养?的|家|最)",
    "(?:经理|领导|老板|上司|主管|同事|朋友|室友|邻居|老师|妻子|丈夫|儿子|女儿)是"
    rf"({_SURNAME}{_HAN}{{1,2}})(?=[，。,.]|$)",
    rf"在({_HAN}{{2,6}}?)(?:工作|上班|任职|就职|供职|实习|当|做|担任|读书|上学|念书|读|举行|举办|召开)",
    "(?:就读于|毕业于|任职于|就职于|来自|定居|搬到|搬去|住在|家在|出生于|出生在)"
    rf"({_HAN}{{2,8}})",
    rf"是({_HAN}{{2,6}}?)的(?:员工|职员|工程师|学生|老师|粉丝|产品经理|经理|程序员|设计师)",
    rf"({_SURNAME}{_HAN}{{1,2}})(?:的(?:歌|音乐|电影|书|小说|作品|画|戏)|唱歌|演的)",
    rf"(?:去|到|飞|前往)({_HAN}{{2,4}}?)(?:旅[游行]|出差|玩|度假|留学|开会|上大学)",
    rf"({_SURNAME}(?:老师|医生|总(?!是)|教授|先生|女士|经理|律师|阿姨|师傅))",
)
# What stands there and is no name.
_NO_NAME = re.compile(
    "什么|用户|公司|医院|学校|大学|银行|家里|这里|那里|城市|郊区|国外|国内|海外|线上|周末|自己|一家|一个"
)


def names_differ(a: str, b: str) -> bool:
    """Tell whether one text names what the other one does not hold."""
    a, b = (_TITLE.sub(r"\1", text) for text in (a, b))
    if known_names(a) != known_names(b):
        return True
    if is_chinese(a) != is_chinese(b):
        return _differ_across(*((b, a) if is_chinese(a) else (a, b)))
    return _districts_differ(a, b) or not (_holds(a, b) and _holds(b, a))


def named(text: str) -> bool:
    """Tell whether a text holds a name that another language can be compared by."""
    return bool(known_names(text) or _latin_names(text))


def _holds(a: str, b: str) -> bool:
    """Tell whether a text holds the names of another one in its language."""
    latin, stems = {_bare(token) for token in _LATIN.findall(b)}, {*words(b)}
    return (
        all(_bare(name) in latin for name in sp.names(a))
        and all({*words(name)} <= stems for name in _opening(a))
        and all(_stands(name, b) for name in _chinese_names(a))
    )


def _bare(name: str) -> str:
    return re.sub(r"['’]s?$", "", fold(name))


def _opening(text: str) -> list[str]:
    found = _OPENING.findall(text)
    return [w for w in found if fold(w) not in STOP_WORDS and not dates.weekdays(w)]


@lru_cache(maxsize=1)
def _places() -> list[re.Pattern[str]]:
    return [re.compile(pattern) for pattern in _PLACES]


def _chinese_names(text: str) -> list[str]:
    found = [match.group(1) for pattern in _places() for match in pattern.finditer(text)]
    return [name for name in found if not _NO_NAME.search(name)]


def _stands(name: str, text: str) -> bool:
    """Tell whether a name stands in a text, of a long one most."""
    if name in text:
        return True
    pairs = [name[i : i + 2] for i in range(len(name) - 1)]
    return len(name) > 3 and sum(pair in text for pair in pairs) * 2 >= len(pairs)


def _districts_differ(a: str, b: str) -> bool:
    mine, theirs = (set(sp.PLACE.findall(text)) for text in (a, b))
    return bool(mine and theirs and mine != theirs)


def _differ_across(english: str, chinese: str) -> bool:
    """Compare by letters and by sound; a name that neither settles differs."""
    letters = re.sub(r"[^a-z]", "", fold(english).replace("ü", "u"))
    own = (re.sub(r"[^a-z]", "", fold(token)) for token in _LATIN.findall(chinese))
    strange = (name for name in _chinese_names(chinese) if not known_names(name))
    return not (
        all(token in letters for token in own)
        and all(_told(name, chinese) for name in _latin_names(english))
        and all(_spelt(name, letters) for name in strange)
    )


def _spelt(name: str, letters: str) -> bool:
    """Find the sound of a Chinese name among letters, the family name before or behind."""
    found = [sounds(order) for order in (name, name[1:] + name[:1])]
    return any(sound in letters or sound.replace("u", "v") in letters for sound in found)


def _latin_names(text: str) -> list[str]:
    """Join names that stand side by side, "Li Wei"; those of the lexicon have their codes."""
    runs: list[str] = []
    for name in dict.fromkeys([*sp.names(text), *_opening(text)]):
        bare = re.sub(r"['’]s$", "", name)
        if runs and re.search(rf"{re.escape(runs[-1])} {re.escape(bare)}\b", text):
            runs[-1] = f"{runs[-1]} {bare}"
        else:
            runs.append(bare)
    return [run for run in runs if not known_names(run)]


def _told(name: str, chinese: str) -> bool:
    """Find a Latin name in a Chinese text: as it is, as a common word, or by its sound."""
    folded, parts = fold(chinese), name.split()
    return (
        fold(name) in folded
        or re.search(_SHORT_FORMS.get(fold(name), "(?!)"), folded) is not None
        or all(fold(part) in folded or heard(part, chinese) for part in parts)
        or heard(name, chinese)
        or heard(" ".join(reversed(parts)), chinese)
    )
