"""Who a sentence is about: relatives and others by their part in a life."""

import re

from agently_gumem.text import CJK, fold

RELATIVES: dict[str, str] = {
    word: code
    for code, line in {
        "sister": "sister sisters 姐姐 妹妹 姐妹",
        "brother": "brother brothers 哥哥 弟弟 兄弟",
        "mother": "mother mom mum 母亲 妈妈",
        "father": "father dad 父亲 爸爸",
        "parents": "parents 父母 爸妈",
        "wife": "wife 妻子 老婆 太太 媳妇",
        "husband": "husband 丈夫 老公",
        "daughter": "daughter daughters 女儿",
        "son": "son sons 儿子",
        "child": "child kid kids children 孩子 小孩 子女",
        "nephew": "nephew 侄子 外甥",
        "niece": "niece 侄女",
        "friend": "friend friends 朋友",
        "boss": "manager boss supervisor 经理 领导 老板 上司 主管",
        "colleague": "colleague colleagues coworker coworkers co-worker co-workers 同事",
        "partner": "partner girlfriend boyfriend 女朋友 男朋友 女友 男友 对象",
        "in-law": "岳母 岳父 婆婆 公公",
        "grandparent": "grandmother grandma grandfather grandpa 奶奶 爷爷 外婆 外公",
        "cousin": "cousin cousins 表哥 表姐 表弟 表妹 堂哥 堂弟 堂姐 堂妹",
        "aunt": "aunt 阿姨 姑姑 姨妈",
        "uncle": "uncle 叔叔 舅舅 伯伯",
        "roommate": "roommate roommates flatmate 室友",
        "neighbour": "neighbour neighbor neighbours neighbors 邻居",
    }.items()
    for word in line.split()
}
RELATIVE_CJK = re.compile(
    "|".join(sorted((word for word in RELATIVES if CJK.match(word)), key=len, reverse=True))
)
# A manager by trade is nobody's boss.
_TRADES = re.compile(
    r"\b(?:product|project|account|sales|office|engineering|marketing) managers?\b"
    r"|(?:产品|项目|客户|销售|市场|大堂|总)经理"
)
_MARRIED = re.compile(r"\b(?:married to|spouse)\b|结婚|配偶|爱人")


def persons_differ(a: str, b: str) -> bool:
    """Tell whether others are spoken of; whom one is married to is wife or husband."""
    apart = _relatives(a) ^ _relatives(b)
    return bool(apart) and not (apart <= {"wife", "husband"} and _MARRIED.search(fold(f"{a} {b}")))


def _relatives(text: str) -> set[str]:
    text = _TRADES.sub(" ", text.lower())
    found = {*re.findall(r"[a-z]+(?:-workers?)?", text), *RELATIVE_CJK.findall(text)}
    return {RELATIVES[word] for word in found if word in RELATIVES}
