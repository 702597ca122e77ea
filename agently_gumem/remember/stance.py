"""What a sentence claims in earnest of its speaker: not denied, not of others, not imagined (pure).

A Fact can hold every word of its message and still say what nobody said: "I don't like tea" is no
liking, "my son is 6" no age of the user's, "if I were rich" no wealth. Only what is sure is refused:
each check looks at the clauses that say what the Fact says, and one that supports it is enough.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from agently_gumem.dates import normal
from agently_gumem.remember.same.polarity import NEGATION, NO_NEGATION, denial_codes
from agently_gumem.text import CJK, fold, is_chinese, words

# A clause says what a Fact says where it holds so much of its words.
_SHARE = 0.5
_SENTENCE = re.compile(r"(?:[^.!?。！？;；\n]|\.(?=\S))+[.!?。！？;；\n]*")
_QUOTES = re.compile(
    r"[“\"「『]([^“”\"「」『』\n]{2,200})[”\"」』]|(?<!\w)['‘]([^'‘’\n]{2,120})['’](?!\w)"
)
_CLAUSE = re.compile(
    r"[,;，；、]\s*|\s+(?:but|while|whereas|although|though)\s+|(?:但是?|不过|可是|而(?!且|是|非))"
    r"|\s+and\s+(?=(?:i|we|he|she|they|my|his|her|our|their)\b)"
)

# -- whom a sentence is about

_PERSON = (
    "brothers?|sisters?|mother|mom|mum|father|dad|parents|wife|husband|spouse|daughters?|sons?|kids?|"
    "child(?:ren)?|nephews?|nieces?|friends?|boss|manager|colleagues?|co-?workers?|partner|"
    "girlfriend|boyfriend|grand(?:ma|pa|mother|father|parents|son|daughter)|cousins?|aunt|uncle|"
    "roommates?|flatmates?|neighbou?rs?|teacher|doctor|fianc[eé]e?|ex|in-laws?"
)
_PERSON_CN = (
    "妈妈?|爸爸?|母亲|父亲|爸妈|父母|哥哥?|姐姐?|弟弟?|妹妹?|妻子|老婆|太太|媳妇|丈夫|老公|儿子|女儿|"
    "孩子|闺女|侄子|外甥女?|侄女|朋友|闺蜜|哥们|老板|领导|经理|上司|同事|女朋友|男朋友|女友|男友|对象|"
    "爷爷|奶奶|外公|外婆|姥姥|姥爷|表[哥姐弟妹]|堂[哥姐弟妹]|叔叔|舅舅|阿姨|姑姑|室友|舍友|同学|邻居|老师|"
    "岳母|岳父|婆婆|公公|前任"
)
_OTHER = re.compile(
    rf"^(?:and|so|well|also|oh|yes|no)?\s*(?:(?:my|our|his|her|their|a|the)\s+(?:\w+\s+){{0,2}}?"
    rf"(?:{_PERSON})(?P<own>['’]s\s+)?(?:\s+(?!and\b)[a-z]+ly)?|he|she|they|someone|somebody|"
    rf"everyone|everybody)(?:\b|(?<=\s))(?!\s+and\s+i\b)\s*"
)
_OTHER_CN = re.compile(
    rf"^(?:[嗯哦啊]|其实|另外|还有)?[,，]?(?:(?:我们?|咱们?|他|她)的?(?:一个|那个)?(?:{_PERSON_CN})"
    rf"(?![和跟与]我)(?P<own>的)?|他们?|她们?|有人|别人|大家)"
)
_MINE = re.compile(
    r"\b(?:i|i['’](?:m|ve|d|ll)|we|we['’](?:re|ve|d|ll)|me|us|both)\b|(?<!^)我|咱"
)
_TOO = re.compile(
    r"^\W*(?:so|neither|nor) (?:am|do|did|have|can|would|was) i\b|\b(?:me|i am|i do|i['’]m) (?:too|as well|either)\b"
    r"|\bsame (?:here|with me|for me)\b|我[也们]|一样"
)
_OF_USER = re.compile(r"^(?:the )?user(?P<own>['’]s)?\b\s*|^用户(?P<ownc>的)?")
# A trade is no other person: "User is a teacher".
_TRADES = re.compile(r"(?<!['’]s )\b(?:boss|manager|teacher|doctor)\b|(?<!的)(?:老板|领导|经理|老师)")
_OTHERS_IN_FACT = re.compile(
    rf"\b(?:{_PERSON}|family|relatives?|household)\b|{_PERSON_CN}|家人|家里|亲戚"
)
_LIGHT = re.compile(
    r"\b(?:is|are|am|was|were|be|been|has|have|had|does|do|did|also|now|currently|really|very|just|"
    r"already|still|always|turned|turns|a|an|the|years? old|aged?)\b"
    r"|今年|现在|目前|已经|当前|真的|非常|特别|很|也|都|是|了|的|有|一[个位名]"
)
_REPORTED = re.compile(
    r"^(?:(?:always )?(?:says?|said|thinks?|told (?:me|us)|claims?)(?: that)?\s+(?:he|she|they)\s+"
    r"|(?:说|觉得|认为)(?:他|她)们?(?:自己)?)"
)

# -- what is only imagined, and what was not meant

_IMAGINED = re.compile(
    r"\bif (?:i|we) (?:were|was|had|could|won|got|ever|became|lived|owned)\b|\bwere i\b|"
    r"\bhad i\b|^\W*(?:suppose|imagine|let['’]?s (?:say|pretend|assume)|pretend|what if|say i)\b|"
    r"\bi (?:really )?wish(?:ed)?\b|\bin (?:a|my) (?:dream|next life|parallel)\b"
    r"|(?:如果|要是|假如|假设|倘若|若)(?:有一天|哪天|将来)?(?:我们?|咱们?)(?:真|也|能|会|要)?(?:是|有|能|会|中|当|变|"
    r"成|发财|住在|生在)|假设|假想|设想|想象一下|恨不得|.{0,12}就好了|该多好|下辈子"
)
_SUPPOSED = re.compile(
    r"\b(?:would|could|if|wish\w*|dream\w*|imagin\w*|hypothe\w*|hope\w*)\b|如果|要是|假如|假设|希望|想|梦"
)
_JOKE = re.compile(
    r"(?<!not )(?<!n['’]t )\b(?:just|only|i['’]?m|totally)? ?(?:kidding|joking)\b(?! aside)|\bjk\b|\bjust a joke\b|"
    r"(?<![不没别])(?:开(?:个|了个)?玩笑)(?!的?人)(?:的|啦|呢|哈)?|逗你|骗你的|说着玩"
)
_NOT_A_JOKE = re.compile(r"\b(?:not|no|n['’]t) (?:kidding|joking|a joke)|没开玩笑|不是(?:在)?开玩笑|别开玩笑|喜欢开玩笑")
_SELF = re.compile(r"\b(?:i|i['’]m|i['’]ve|i['’]d|my|me)\b|[我俺]")
_I_SAID = re.compile(
    rf"\b(?:i|me|my name|called?|named?|titled?)\b[^.!?]{{0,30}}$|我(?!们?的?(?:{_PERSON_CN}))[^。！？]{{0,12}}$|(?:叫|名为|称为?|标题是?)\W*$"
)
_SAYS = re.compile(
    r"\b(?:says?|said|told|goes|wrote|writes|shout\w*|asked|replied|lyrics?|line|quotes?|sings?|sang)\b[^.!?]{0,30}$"
    r"|[说讲唱喊写问道][^。！？]{0,6}$|台词|歌词|书里|名言|俗话"
)

# -- liking

_LIKE = re.compile(
    r"\b(?:likes?|liked|loves?|loved|enjoy(?:s|ed)?|adores?|fond of|prefers?|preferred|into|fan of)\b|\bfavou?rites?\b"
    r"|喜欢|喜爱|热爱|爱(?=[吃喝看听玩打穿用读上去做跑])|偏爱|偏好|最爱|钟爱"
)
_DISLIKE = re.compile(
    r"\b(?:hat(?:e|es|ed)|dislik\w+|detest\w*|loath\w*|can(?:no|['’])?t (?:stand|bear)|sick of|fed up with)\b"
    r"|讨厌|厌恶|反感|受不了|受够|嫌弃|不(?:太|怎么|是很|是特别|大)?(?:喜欢|爱|偏好)"
)
# Of two things one is weighed against the other: which one is denied is not told by a word.
_COMPARES = re.compile(
    r"\b(?:than|over|instead|rather|as (?:much|well|good)|more|less|compared|unlike|not just)\b|比|更|而不是|而非|不如|没有.{1,12}那么|与其"
)
_DENIES_TOO = re.compile(
    r"\bfree (?:of|from)\b|\bexcept\b|\bother than\b|\bunless\b|除了|以外|除非|免于"
)
_AFFIRMS = re.compile(
    r"\b(?:do not|don['’]?t|never) forget\b|\bcan(?:no|['’])?t (?:help|wait|live without|do without|get enough|resist)\b"
    r"|\bcould(?: not|n['’]t) (?:be (?:happier|better)|agree more|live without)\b|\bno wonder\b|\bwhy not\b"
    r"|\bwouldn['’]t miss\b|\bnever miss\b|\bnothing (?:beats|better)\b|\bif not\b|\bwhether or not\b|\bno one .{0,20} more than i\b"
    r"|别忘|不要忘|不能没有|少不了|离不开|免不了|忍不住|不得不|无不|非.{1,8}不可|不光|不止|不只|不仅|说不定|不知不觉|"
    r"好不容易|不妨|要不|不一会|不久|不小心|不愧"
)


@dataclass(frozen=True)
class _Clause:
    text: str
    """As it is compared: folded."""
    follows: str = ""
    """The clause after it."""


def misread(content: str, told: Sequence[str], names: Collection[str] = ()) -> str:
    """Say why no sentence of a text claims a Fact of its speaker in earnest.

    Args:
        content: The Fact.
        told: What its sources say, one text each, of people only.
        names: Names of those who speak: a Fact may begin with one in place of "User".

    Returns:
        "negation", "subject", "hypothetical", "quotation", "joke", or "" where nothing is wrong.
    """
    fact = fold(normal(content))
    texts = [normal(text) for text in told]
    checks: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("quotation", lambda: _only_quoted(fact, texts)),
        ("joke", lambda: _only_joked(fact, texts)),
        ("hypothetical", lambda: _only_imagined(fact, texts)),
        ("subject", lambda: _of_another(fact, texts, names)),
        ("negation", lambda: _denied(fact, texts)),
    )
    return next((reason for reason, wrong in checks if wrong()), "")


def _sentences(text: str) -> list[str]:
    return [fold(match.group()) for match in _SENTENCE.finditer(text)]


def _clauses(texts: Sequence[str]) -> list[_Clause]:
    found: list[_Clause] = []
    for text in texts:
        for sentence in _sentences(text):
            parts = [p.strip() for p in _CLAUSE.split(sentence) if p and p.strip()]
            following = [*parts[1:], ""]
            found += [_Clause(*pair) for pair in zip(parts, following, strict=False)]
    return found


@lru_cache(maxsize=512)
def _carried(text: str) -> frozenset[str]:
    """Collect what a sentence says, its subject and light words left out; numbers count."""
    bare = _LIGHT.sub(" ", _OF_USER.sub(" ", text))
    liked = _LIKE.sub(" ", _DISLIKE.sub(" ", bare))
    return frozenset(words(liked)) or frozenset(words(bare))


def _support(fact: str, text: str) -> float:
    wanted, said = _carried(fact), frozenset(words(text))
    held = sum(term in said or (CJK.match(term) is not None and term in text) for term in wanted)
    return held / len(wanted) if wanted else 0.0


def _best(fact: str, clauses: Sequence[_Clause]) -> list[_Clause]:
    """Find the clauses that say most of what a Fact says; none where they say too little."""
    numbers = {word for word in _carried(fact) if word.isdecimal()}
    naming = [c for c in clauses if numbers & {*words(c.text)}]
    clauses = naming or clauses
    shares = [_support(fact, c.text) for c in clauses]
    most = max(shares, default=0.0)
    return [c for c, s in zip(clauses, shares, strict=True) if s >= max(most, _SHARE)]


def _lost(fact: str, texts: Sequence[str], left: Sequence[str]) -> bool:
    """Tell whether a Fact is held by texts, and no more by what is left of them."""
    before = max((_support(fact, s) for t in texts for s in _sentences(t)), default=0.0)
    after = max((_support(fact, s) for t in left for s in _sentences(t)), default=0.0)
    return before >= _SHARE and after < min(before, _SHARE)


def _only_quoted(fact: str, texts: Sequence[str]) -> bool:
    """Tell whether a Fact stands in what somebody else is quoted with, in the first person."""
    if _others(fact) or not any(mark in text for text in texts for mark in "“\"「『'‘"):
        return False
    return _lost(fact, texts, [_QUOTES.sub(_unless_own, text) for text in texts])


def _unless_own(match: re.Match[str]) -> str:
    before = fold(match.string[max(0, match.start() - 40) : match.start()])
    quoted = fold(match.group())
    others = _SAYS.search(before) is not None and not _I_SAID.search(before)
    return " " if others and _SELF.search(quoted) else match.group()


def _only_joked(fact: str, texts: Sequence[str]) -> bool:
    left = [_after_joke(text) for text in texts]
    return left != list(texts) and _lost(fact, texts, left)


def _after_joke(text: str) -> str:
    """Take back what stands before "just kidding"."""
    folded = text.lower()
    last = [m for m in _JOKE.finditer(folded) if not _NOT_A_JOKE.search(folded[: m.end()][-24:])]
    return text[last[-1].end() :] if last and len(folded) == len(text) else text


def _only_imagined(fact: str, texts: Sequence[str]) -> bool:
    sentences = [s for text in texts for s in _sentences(text)]
    if _SUPPOSED.search(fact) or not any(_IMAGINED.search(s) for s in sentences):
        return False
    real = [s for s in sentences if not _IMAGINED.search(s)]
    return not real or _lost(fact, sentences, real)


def _of_another(fact: str, texts: Sequence[str], names: Collection[str]) -> bool:
    """Tell whether the clauses that say what a Fact says of the user say it of somebody else."""
    said, own = _said_of_user(fact, names)
    if not said or _others(fact):
        return False
    best = [c for c in _best(fact, _clauses(texts)) if c.text]
    return bool(best) and all(_about_another(c, said, own=own) for c in best)


def _others(fact: str) -> bool:
    return _OTHERS_IN_FACT.search(_TRADES.sub(" ", fact)) is not None


def _said_of_user(fact: str, names: Collection[str]) -> tuple[str, bool]:
    """Return what a Fact says of the user, and whether it is of something that is the user's."""
    match = _OF_USER.match(fact)
    if match:
        return fact[match.end() :].strip(), bool(match.group("own") or match.group("ownc"))
    for name in map(fold, names):
        if name and fact.startswith(name):
            rest = fact[len(name) :]
            own = rest.startswith(("'s", "’s", "的"))
            return rest.lstrip("'’s的 ") if own else rest.strip(), own
    return "", False


def _about_another(clause: _Clause, said: str, *, own: bool) -> bool:
    match = (_OTHER_CN if is_chinese(clause.text) else _OTHER).match(clause.text)
    if match is None or _TOO.search(clause.follows) or _TOO.search(clause.text):
        return False
    rest = clause.text[match.end() :]
    if _MINE.search(rest) or bool(match.group("own")) != own:
        return False
    mine, theirs = _head(said), _head(_REPORTED.sub("", rest))
    return bool(mine) and mine == theirs


def _head(text: str) -> str:
    """Return the first word that carries meaning; of Chinese the first two characters."""
    plain = _LIGHT.sub(" ", text).strip()
    found = words(plain)
    if not found or not CJK.match(found[0]):
        return found[0] if found else ""
    return plain[:2]


def _denied(fact: str, texts: Sequence[str]) -> bool:
    """Tell whether the clauses that say what a Fact says deny it, or affirm what it denies."""
    if _COMPARES.search(fact):
        return False
    clauses = _clauses(texts)
    best = _best(fact, clauses)
    if best:
        return all(_opposite(fact, clause.text) for clause in best)
    return _across(fact, clauses)


def _across(fact: str, clauses: Sequence[_Clause]) -> bool:
    """Compare liking alone where no words are shared: a Fact in another language."""
    mine = _liking(fact)
    if not mine or any(is_chinese(c.text) == is_chinese(fact) for c in clauses):
        return False
    theirs = {_liking(c.text) for c in clauses if not _COMPARES.search(c.text)} - {0}
    return theirs == {-mine}


def _opposite(fact: str, clause: str) -> bool:
    if _COMPARES.search(clause):
        return False
    mine, theirs = _liking(fact), _liking(clause)
    if mine and theirs:
        return mine != theirs
    denials = (_denials(fact), _denials(clause))
    if max(denials) > 1 or bool(denials[0]) == bool(denials[1]):
        return False
    if denial_codes(fact) != denial_codes(clause):
        return False
    return _same_head(fact, clause)


def _same_head(fact: str, clause: str) -> bool:
    """Ask for the same thing said: "no meetings on Fridays" does not deny "keeps Fridays free"."""
    said, _ = _said_of_user(fact, ())
    plain = _NEGATING.sub(" ", _plain(said or fact))
    head = _head(plain)
    head = _PRESENT.get(head, head)
    other = _NEGATING.sub(" ", _plain(clause))
    if CJK.match(head):
        return head in other
    return bool(head) and head in {_PRESENT.get(word, word) for word in words(other)}


_FORMS = """
went go gone go ate eat eaten eat bought buy drank drink saw see seen see met meet took take taken
take got get drove drive flew fly slept sleep spoke speak wrote write ran run swam swim sold sell
made make gave give came come wore wear won win lost lose paid pay kept keep
"""
_PRESENT = dict(zip(_FORMS.split()[::2], _FORMS.split()[1::2], strict=True))
"""Forms of verbs that no stemmer brings together -> the one that goes with "did not"."""
_NEGATING = re.compile(
    NEGATION.pattern + r"|\b(?:do|does|did|is|are|was|were|ca|wo|have|has|should|would|could)\b"
    r"|不[会要想能该]?|没有?"
)


def _plain(text: str) -> str:
    return NO_NEGATION.sub(" ", _AFFIRMS.sub(" ", text))


def _denials(text: str) -> int:
    """Count the words that turn a sentence around; two may turn it back, or not."""
    plain = _plain(text)
    return len(NEGATION.findall(plain)) + len(_DENIES_TOO.findall(plain))


def _liking(text: str) -> int:
    """Tell liking (1), disliking (-1), or neither, or both (0)."""
    plain = _plain(text)
    dislikes = len(_DISLIKE.findall(plain))
    likes = len(_LIKE.findall(_DISLIKE.sub(" ", plain)))
    if bool(dislikes) == bool(likes):
        return 0
    other = len(NEGATION.findall(_DISLIKE.sub(" ", plain)))
    if other > 1 or (dislikes and other):
        return 0
    return -1 if dislikes or other else 1

