"""The words of two languages by which a claim is told from what only looks like one.

Kinds: whom a sentence is about, what is imagined, joked or quoted, liking, and denial.
"""

import re

from agently_gumem.remember.same.polarity import NEGATION

QUOTES = re.compile(
    r"[“\"「『]([^“”\"「」『』\n]{2,200})[”\"」』]|(?<!\w)['‘]([^'‘’\n]{2,120})['’](?!\w)"
)
# -- whom a sentence is about

_PERSON = (
    "brothers?|sisters?|mother|mom|mum|father|dad|parents|wife|husband|spouse|daughters?|sons?"
    "|kids?|"
    "child(?:ren)?|nephews?|nieces?|friends?|boss|manager|colleagues?|co-?workers?|partner|"
    "girlfriend|boyfriend|grand(?:ma|pa|mother|father|parents|son|daughter)|cousins?|aunt|uncle|"
    "roommates?|flatmates?|neighbou?rs?|teacher|doctor|fianc[eé]e?|ex|in-laws?"
)
_PERSON_CN = (
    "妈妈?|爸爸?|母亲|父亲|爸妈|父母|哥哥?|姐姐?|弟弟?|妹妹?|妻子|老婆|太太|媳妇|丈夫|老公|儿子"
    "|女儿|"
    "孩子|闺女|侄子|外甥女?|侄女|朋友|闺蜜|哥们|老板|领导|经理|上司|同事|女朋友|男朋友|女友|男友"
    "|对象|"
    "爷爷|奶奶|外公|外婆|姥姥|姥爷|表[哥姐弟妹]|堂[哥姐弟妹]|叔叔|舅舅|阿姨|姑姑|室友|舍友|同学"
    "|邻居|老师|"
    "岳母|岳父|婆婆|公公|前任"
)
OTHER = re.compile(
    rf"^(?:and|so|well|also|oh|yes|no)?\s*(?:(?:my|our|his|her|their|a|the)\s+(?:\w+\s+){{0,2}}?"
    rf"(?:{_PERSON})(?:-in-law)?(?P<own>['’]s\s+)?(?:\s+(?!and\b)[a-z]+ly)?|he|she|they|someone|somebody|"
    rf"everyone|everybody)(?:\b|(?<=\s))(?!\s+and\s+i\b)\s*"
)
OTHER_CN = re.compile(
    rf"^(?:[嗯哦啊]|其实|另外|还有)?[,，]?(?:(?:我们?|咱们?|他|她)的?(?:一个|那个)?(?:{_PERSON_CN})"
    rf"(?![和跟与]我)(?P<own>的)?|他们?|她们?|有人|别人|大家)"
)
MINE = re.compile(r"\b(?:i|i['’](?:m|ve|d|ll)|we|we['’](?:re|ve|d|ll)|me|us|both)\b|(?<!^)我|咱")
TOO = re.compile(
    r"^\W*(?:so|neither|nor) (?:am|do|did|have|can|would|was) i\b|\b(?:me|i am|i do|i['’]m) (?:too"
    r"|as well|either)\b"
    r"|\bsame (?:here|with me|for me)\b|我[也们]|一样"
)
OF_USER = re.compile(r"^(?:the )?user(?P<own>['’]s)?\b\s*|^用户(?P<ownc>的)?")
# A trade is no other person: "User is a teacher".
TRADES = re.compile(
    r"(?<!['’]s )\b(?:boss|manager|teacher|doctor)\b|(?<!的)(?:老板|领导|经理|老师)"
)
OTHERS_IN_FACT = re.compile(
    rf"\b(?:{_PERSON}|family|relatives?|household)\b|{_PERSON_CN}|家人|家里|亲戚"
)
LIGHT = re.compile(
    r"\b(?:is|are|am|was|were|be|been|has|have|had|does|do|did|also|now|currently|really|very|just|"
    r"already|still|always|turned|turns|a|an|the|years? old|aged?)\b"
    r"|今年|现在|目前|已经|当前|真的|非常|特别|很|也|都|是|了|的|有|一[个位名]"
)
REPORTED = re.compile(
    r"^(?:(?:always )?(?:says?|said|thinks?|told (?:me|us)|claims?)(?: that)?\s+(?:he|she|they)\s+"
    r"|(?:说|觉得|认为)(?:他|她)们?(?:自己)?)"
)

# -- what is only imagined, and what was not meant

IMAGINED = re.compile(
    r"\bif (?:i|we) (?:were|was|had|could|won|got|ever|became|lived|owned)\b|\bwere i\b|"
    r"\bhad i\b|^\W*(?:suppose|imagine|let['’]?s (?:say|pretend|assume)|pretend|what if|say i)\b|"
    r"\bi (?:really )?wish(?:ed)?\b|\bin (?:a|my) (?:dream|next life|parallel)\b"
    r"|(?:如果|要是|假如|假设|倘若|若)(?:有一天|哪天|将来)?(?:我们?|咱们?)(?:真|也|能|会|要)?(?:是"
    r"|有|能|会|中|当|变|"
    r"成|发财|住在|生在)|假设|假想|设想|想象一下|恨不得|.{0,12}就好了|该多好|下辈子"
)
SUPPOSED = re.compile(
    r"\b(?:would|could|if|wish\w*|dream\w*|imagin\w*|hypothe\w*|hope\w*)\b|如果|要是|假如|假设"
    r"|希望|想|梦"
)
JOKE = re.compile(
    r"(?<!not )(?<!n['’]t )\b(?:just|only|i['’]?m|totally)? ?(?:kidding|joking)\b(?! aside)|\bjk\b"
    r"|\bjust a joke\b|"
    r"(?<![不没别])(?:开(?:个|了个)?玩笑)(?!的?人)(?:的|啦|呢|哈)?|逗你|骗你的|说着玩"
)
NOT_A_JOKE = re.compile(
    r"\b(?:not|no|n['’]t) (?:kidding|joking|a joke)|没开玩笑|不是(?:在)?开玩笑|别开玩笑|喜欢开玩笑"
)
FIRST_PERSON = re.compile(r"\b(?:i|i['’]m|i['’]ve|i['’]d|my|me)\b|[我俺]")
I_SAID = re.compile(
    rf"\b(?:i|me|my name|called?|named?|titled?)\b[^.!?]{{0,30}}$"
    rf"|我(?!们?的?(?:{_PERSON_CN}))[^。！？]{{0,12}}$|(?:叫|名为|称为?|标题是?)\W*$"
)
SAYS = re.compile(
    r"\b(?:says?|said|told|goes|wrote|writes|shout\w*|asked|replied|lyrics?|line|quotes?|sings?"
    r"|sang)\b[^.!?]{0,30}$"
    r"|[说讲唱喊写问道][^。！？]{0,6}$|台词|歌词|书里|名言|俗话"
)

# -- liking

LIKE = re.compile(
    r"\b(?:likes?|liked|loves?|loved|enjoy(?:s|ed)?|adores?|fond of|prefers?|preferred|into"
    r"|fan of)\b|\bfavou?rites?\b"
    r"|喜欢|喜爱|热爱|爱(?=[吃喝看听玩打穿用读上去做跑])|偏爱|偏好|最爱|钟爱"
)
DISLIKE = re.compile(
    r"\b(?:hat(?:e|es|ed)|dislik\w+|detest\w*|loath\w*|can(?:no|['’])?t (?:stand|bear)|sick of"
    r"|fed up with)\b"
    r"|讨厌|厌恶|反感|受不了|受够|嫌弃|不(?:太|怎么|是很|是特别|大)?(?:喜欢|爱|偏好)"
)
# Of two things one is weighed against the other: which one is denied is not told by a word.
COMPARES = re.compile(
    r"\b(?:than|over|instead|rather|as (?:much|well|good)|more|less|compared|unlike|not just)\b|比"
    r"|更|而不是|而非|不如|没有.{1,12}那么|与其"
)
DENIES_TOO = re.compile(
    r"\bfree (?:of|from)\b|\bexcept\b|\bother than\b|\bunless\b|除了|以外|除非|免于"
)
# Words that deny inside another word: dairy-free, not-so-great.
COMPOUND = re.compile(r"\b\w+-free\b|\bnot-so-\w+|\bnon-?\w+|\bno-\w+")
AFFIRMS = re.compile(
    r"\b(?:do not|don['’]?t|never) forget\b|\bcan(?:no|['’])?t (?:help|wait|live without"
    r"|do without|get enough|resist)\b"
    r"|\bcould(?: not|n['’]t) (?:be (?:happier|better)|agree more|live without)\b|\bno wonder\b"
    r"|\bwhy not\b"
    r"|\bwouldn['’]t miss\b|\bnever miss\b|\bnothing (?:like|beats|better)\b|\bif not\b"
    r"|\bwhether or not\b|\bno one .{0,20} more than i\b"
    r"|别忘|不要忘|不能没有|少不了|离不开|免不了|忍不住|不得不|无不|非.{1,8}不可|不光|不止|不只"
    r"|不仅|说不定|不知不觉|"
    r"好不容易|不妨|要不|不一会|不久|不小心|不愧"
)


_FORMS = """
went go gone go ate eat eaten eat bought buy drank drink saw see seen see met meet took take taken
take got get drove drive flew fly slept sleep spoke speak wrote write ran run swam swim sold sell
made make gave give came come wore wear won win lost lose paid pay kept keep
"""
PRESENT: dict[str, str] = dict(zip(_FORMS.split()[::2], _FORMS.split()[1::2], strict=True))
"""Forms of verbs that no stemmer brings together -> the one that goes with "did not"."""
NEGATING = re.compile(
    NEGATION.pattern + r"|\b(?:do|does|did|is|are|was|were|ca|wo|have|has|should|would|could)\b"
    r"|不[会要想能该]?|没有?"
)
