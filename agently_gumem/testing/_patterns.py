"""The words by which a statement about the speaker is told from all else, in two languages."""

import re


def _any(pattern: str) -> re.Pattern[str]:
    """Compile a pattern that is written over several lines."""
    return re.compile("".join(line.strip() for line in pattern.splitlines()), re.IGNORECASE)


PERSONS = (
    "friend|colleague|neighbou?r|boss|manager|brother|sister|mother|father|mom|mum|dad|wife|"
    "husband|partner|girlfriend|boyfriend|son|daughter|cousin|uncle|aunt|roommate|teammate|grandma|"
    "grandpa|grandmother|grandfather|kids?|teacher|landlord|client|customer|doctor|flatmate"
)
PERSONS_ZH = (
    "朋友|同事|邻居|老板|领导|妈妈|爸爸|妈|爸|"
    "哥哥?|姐姐?|弟弟?|妹妹?|老婆|老公|妻子|丈夫|儿子|女儿|室友|同学|爷爷|奶奶|外公|外婆|客户|房东|老师|男友|女友|"
    "男朋友|女朋友|表[哥姐弟妹]|舅舅|叔叔|阿姨|邻座"
)
WEEKDAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"

# A sentence with one of these says nothing about the speaker as such.
HYPOTHETICAL = _any(
    r"""^if\b(?!.*\bask\b)|\bif i (were|was|had|could|won)\b|^(suppose|supposing|imagine|pretend
    |let us (say|assume|pretend)|assume|assuming|what if|say i)\b|\bi wish\b|\bi would have\b
    |如果|假如|要是|假设|倘若|万一|想象一下|假装|设想|就当我|就算我|比方说|比如我"""
)
REPORTED = _any(
    rf"""\b(he|she|they|someone|somebody|people|everyone|{PERSONS}) (always |once |just |used to
    |keeps? )*(said|says?|saying|told|claims?|goes|wrote|writes|replied|texted)\b
    |^(?!i\b)\w+ (said|says|told me|claims)\b|\baccording to\b|\b(said|says?|wrote|goes|replied
    |reads):
    |(他|她|他们|她们|有人|人家|网上|{PERSONS_ZH})(们|以前|老|总|常|就|也|跟我|对我|一直)*(说|回复?我?[：:]|告诉我|写道)
    |据说|听说|俗话说|回我[：:]|歌词|台词"""
)
# What stands behind is somebody's text to work on.
GIVEN = _any(
    r"""^\W*(please |can you |could you )?(translate|proofread|correct|rephrase|rewrite|summari[sz]e
    |shorten|improve|edit|fix|check)\b[^:：\n]{0,40}[:：]
    |^\W*(请|麻烦|帮我|帮忙|给我)*(把|将)?(翻译|润色|改写|校对|总结|缩写|精简|修改)[^:：\n]{0,12}[:：]"""
)
REPORTED_LEAD = _any(r"^.*?(?:said|says?|wrote|goes|说|回我|写道)\s*(?:[:：,，]|that\b)\s*")
JOKE = _any(
    r"\b(just kidding|only kidding|kidding|joking|just a joke|jk)\b|开玩笑|逗你|骗你的|说笑"
)
OTHER = _any(rf"\bmy (?:\w+ )?(?:{PERSONS})\b(?!'s)|^(?:he|she)\b")
OTHER_ZH = _any(rf"^我(?:的)?(?:一个|那个)?(?:{PERSONS_ZH})|^[他她]")
OTHERS = _any(
    rf"""^(?:\w+ ){{0,2}}my (?:\w+ )?(?:{PERSONS})(?:'s \w+)? (?!(?:'s )?(?:name|birthday)\b
    |is (?:called|named)\b|and i\b)\w+"""
)
OTHERS_ZH = _any(
    rf"^(我(的)?(一个|那个)?|[^我]{{1,5}}|)({PERSONS_ZH})(?!.{{0,2}}(叫|生日|名字))(?!.{{0,4}}我)"
)
QUESTION = _any(
    r"""^(what|how|why|when|where|who|which|whose|can|could|would|will|should|shall|do|does|did
    |is|are
    |was|were|am|have|has|may|might) (you|i|we|it|there|the|this|that|they|my|your|he|she)\b
    |^(what|how|why|who|which)\b|^(any|anything|got any) \w+|\bright$|^can i\b"""
)
QUESTION_ZH = _any(
    r"""(吗|呢|么)$|^(什么|怎么|为什么|哪|请问|有没有|能不能|可不可以|是否|多少|谁|你(能|可以|会|觉得|知道))
    |(是什么|怎么样|多少|哪里|哪儿|哪个|哪些|还记得|记不记得|有什么|是不是|好不好|要不要|吧？$)"""
)
CORRECTION = _any(
    r"""\b(actually|correction|no longer|any ?more|instead|not true|changed|i was wrong|i meant
    |rather than
    |from now on|these days)\b|\bnow\b|\bnot\b.{1,40}\bbut\b|, not\b|^(\w+,? )?no\b[,. ]
    |其实|改成|改为|换成|不是.{1,20}(而)?是|现在|更正|不再|不对|说错了|记错了|已经不"""
)
HEDGE = _any(
    r"""\b(maybe|perhaps|probably|possibly|might|i think|i guess|i suppose|i believe|not sure)\b
    |也许|(?<!不)可能(?!性)|大概(?!\s*\d)|好像|或许|说不定|估计|我觉得|我猜|我想可能"""
)
CONFIRM = _any(
    r"""^\W*(yes|yeah|yep|right|correct|exactly|that is (right|correct|true)|indeed|sure is)\b
    |^\W*(对的?|是的|没错|正确|嗯，?对|是这样)(?=[，,。.！!\s]|$)"""
)

SMALL_TALK = _any(
    r"""^my (head|eyes|brain|bad|god|goodness)\b|^i (see|understand|agree|know|guess so|mean|wonder
    |think so|hope|wish|appreciate|told|said|asked
    |forgot|got it|have (a|another|one more) (question|request)|need (your |some )?(help|advice)
    |(just )?(want|would like) (to (know|ask|see|hear)|you|a (recommendation|suggestion)|some (help
    |advice))
    |do not (know|care|mind|understand|get it|think)|did not (mean|say|ask|know)
    |can not (believe|tell|remember|wait|see|find|open|hear)
    |meant\b|am saying\b|(just |already |always )?knew\b|(dis)?agree\b|won\b|lost (the|my|a) bet
    |(can|could) (now |finally |already )?(read|see|hear|open|log)
    |(get|got|have) (an? |the )?(error|warning|message|blank)|(love|like|hate|enjoy) (it|that|this
    |these|those|the idea)(?=$|,|\s(a lot|so much|too|one|idea|already))
    |(deleted|removed|closed|opened|rebooted|reinstalled|pasted|copied)
    |(have |just |already |also |only |really )*(keep (forgetting|asking|getting|seeing)|tried|try
    |talked|clicked|restarted|typed|checked|looked|read|saw|found|heard|thought|mentioned|noticed
    |pressed|asked|guessed|figured|changed (jobs|it|my mind)|will (see|check|try|think|look|let you
    |come back|be (right )?back|get back)|(am |was )?(look|read|wonder|ask|check|talk|think)ing (at
    |about|whether|if|it)|need to (go|run|think))\b
    |am (fine|ok|okay|good|great|well|ready|back|here|done|sorry|glad|happy|impressed
    |amazed|surprised|confused|curious|wondering
    |asking|not sure
    |just (saying|asking|kidding|curious)|joking|kidding))\b"""
)
SMALL_TALK_ZH = _any(
    r"""^(谢谢|多谢|感谢|你好|您好|好的|好吧|行|嗯|哈|再见|没问题|知道了|明白|早上好|晚上好|辛苦)
    |^我(也)?(知道|明白|看看|想想|想问|想知道|想了解|不知道|不确定|不明白|同意|理解|懂|说|问|很好|没事|回来了)
    |^(我)?(再|先|也|还)*(想问|问)(下|一下|问|个)|晚安|(明天|回头|改天|下次|回)(再)?(聊|见|说)|^我(是说|的意思)|^我(也|都|又)?(好像|在想|不清楚|没看懂|删|关|重启|重装|刷新|复制|粘贴|一点|一按|点了)
    |^我(也|很|好|挺|真)?(喜欢|爱|讨厌)(这个|那个|它|这首|这句)|报错|^点错|^(搞|弄|说)?错了
    |^(其他的|别的|剩下的)?我(也|再|先|都|还)*(想想|看看|考虑|问问|试试|可以|行|没意见|换工作|没事)|记不住|来着$
    |^我(就|早|都|也)?(知道|不信|不同意|同意|猜到|打赌)
    |^(请问|请(您|你)?(稍|推荐|告诉|帮|介绍|解释|列|翻译|总结|说|看|查|问|继续)|不要紧|不用谢|不用了|不客气|帮我|给我|别急|别担心)"""
)
ONE_TIME = _any(
    r"""^(please |pls |can you |could you |just )*(scroll|zoom|open|close|click|sort|print|calculate
    |multiply|divide|add|find|book|order|search|look (it |that )?up|next|go back|undo|redo|repeat
    |read|send|put|take|try again|use the (code|coupon|link))\b
    |\b(code|pin|otp|token|cursor|captcha)\b.{0,20}\d{4}|验证码|令牌|口令
    |\bin (cups|grams|ounces|miles|kilomet(re|er)s|celsius|fahrenheit)$
    |\bi mean$
    |^第.{1,3}不要
    |^(往|再)?[上下]?翻|^(再|帮|替|给我)[乘除加减查看找]
    |^(please )?(do not (worry|be|forget|mention)|never mind|keep (going|up|it up)|use (it
    |this|that)\b
    |please (tell|show|give|recommend|help|find|summari[sz]e|explain|list|translate|check|wait
    |write|look|continue|go|suggest|let)\b)"""
)
IMPERATIVE = _any(
    r"""^(please (?=\w)|call me|always|never|use|keep|do not|avoid|from now on|remember( that)? i
    |let us (just |always |please )?(use|keep|go with|stick|stay|do)\b
    |no [a-z]+,? (please|thanks)$
    |no (?!,)\w+ (on|after|before|in|during)\b
    |(answer|reply|respond|write|speak|talk|address)( to)?( me)? (in|with|as|briefly)\b)"""
)
IMPERATIVE_ZH = _any(
    r"^(叫我|称呼我|请|不要|别|以后|每次|用|总是|永远|务必|记得|记住|一律|始终|尽量|回答|最好|千万|可以叫我)"
)
FORBIDS = _any(r"\b(never|do not|no|avoid|must)\b|不要|别|禁止|千万|不能|必须|务必|绝不")
LIMIT = _any(
    r"""\b(must|never|can ?not|allerg\w*|vegetarian|vegan|halal|kosher|gluten|lactose|budget
    |at most|below|under \D{0,3}\d
    |no more than|maximum|only (eat|drink|use|have|accept|work|fly|take)|have to|not allowed
    |unable to|do not (eat|drink|fly|drive)|no \w+ may|may not|must not
    |nothing (that|after|before|over|with|above|below)
    |within \D{0,3}\d|up to \D{0,3}\d)\b
    |预算|不能|必须|不要|以内|以下|不超过|最多|至少|过敏|只能|只(吃|喝|要|用|接受|在)|别|禁止|千万|绝不|从不|不吃|不喝|素食|吃素|忌口|不可以"""
)
PLAN = _any(
    rf"""\b(will|going to|plan(s|ning)? (to|on|for)|tomorrow|next (week|month|year|{WEEKDAYS})
    |booked|intend|about to|tonight|in \d+ (days|weeks)
    |am (flying|travell?ing|moving|visiting|leaving|arranging|organi[sz]ing|preparing
    |looking for|training for|saving for)
    |(want|would like|need) to (buy|visit|learn|travel|go|book|get|find|move|try))\b
    |打算|计划|准备|下周|下个?月|明天|后天|要去|会去|订了|预订|预定|想买|想去|想学|正在|在找|想找"""
)
LIKING = _any(
    r"""\b(like|love|prefer|enjoy|hate|dislike|adore|favou?rite|fond of|fan of|would rather
    |can not stand|detest|want)\b
    |喜欢|偏好|偏爱|热爱|讨厌|最爱|爱(吃|喝|看|听|玩|用|穿|好)|想要|希望|最好|宁愿|习惯|受不了|钟爱|合我(胃口|心意|意)|对我的?胃口|是我的菜|(的时候|每次).{0,4}(都|就)给我|倾向|默认|爱(?!人|心|情)"""
)
IDENTITY = _any(
    r"""^my .+ (is|are) |^i am (an? |from |called |named |the |\d+ years|in |based|married|single)
    |^i (live|work|study|teach|come from|was born|grew up|moved|speak|have|own)\b|^(born|based) in
    |^我(?:现在|目前|已经|其实)?(叫|是|姓|住|来自|出生|搬|有|家|今年)|^我在.+(工作|上班|上学|读书|住)|^我的.+(是|叫|有)|^(今年)?\d+岁"""
)
ABOUT_ME = _any(
    r"^(?!.*\byou\b)(.{0,40}\b)?(i|my)\b|^(on|in|at|since|until|after|before|every)\b.*\b(i|my)\b"
)
# A limit on whatever is looked for: it has to stay below 800.
BOUND = _any(
    r"""^(it|they|that|everything|anything|all of it) (has to|have to|must|should|can ?not)\b.*\b(
    below|under|over|above|at most|at least|less than|more than|within|max|minimum|before
    |after)\b"""
)
APPOINTMENT = _any(
    r"^(?:the |a |an )?(?:dentist|doctor|vet|hairdresser|interview|appointment|meeting|exam|flight"
    rf"|trip|wedding|deadline|holidays?)\b.*\b(?:tomorrow|tonight|next|on (?:{WEEKDAYS})|in \d+)"
)
WHENEVER = _any(r"^(when|whenever|every time|each time) (you|it|i|there)\b")
TOPIC_ZH = _any(r"(嘛|的话)$")
CONDITION = _any(r"^(for|when|whenever|with|at|during|on|in|as long as|unless)\b")
SPECIAL = {
    "health": _any(
        r"""\b(diagnosed|diabet\w+|depress(?:ion|ed)|cancer|asthma|hiv|insulin|metformin|pregnan\w+
        |chemotherapy|epilep\w+|bipolar|anxiety disorder|antidepressants?|surgery|medication)\b
        |糖尿病|二甲双胍|抑郁|癌|哮喘|高血压|怀孕|化疗|癫痫|胰岛素|手术|确诊|查出"""
    ),
    "sex": _any(r"\b(gay|lesbian|bisexual|transgender|queer)\b|同性恋|双性恋|出柜|跨性别"),
    "faith": _any(
        r"""\b(catholic|protestant|muslim|jewish|buddhist|hindu|atheist|christian|mass every|church
        every|pray)\b|信(佛|教|基督|天主)|基督徒|穆斯林|做礼拜|天主教|佛教徒"""
    ),
    "politics": _any(
        r"""\b(i (always |usually )?voted?|party member|union member|democrat|republican
        |labour party|communist|conservative party)\b|党员|投票给|入党|工会会员"""
    ),
    "origin": _any(r"\b(ethnic\w*|my ethnicity|roma|kurdish)\b|回族|维吾尔|藏族|少数民族|民族是"),
}
"""Kind of what is told of a person -> the words by which a plain reader sees it."""
HEADLESS = _any(
    r"""^(?!(he|she|they|it|you|this|that|there|your|his|her)\b)(.*\b(budget|must|can ?not
    |never|at most|maximum|allergic|defaults? to)\b
    |no \w+ (on|after|before|in)\b)"""
)
NOT_ME_ZH = _any(r"^(你|您|他|她|它|[这那](?!.{0,5}我)|大家|人们|有些人|咱)")
# In Chinese who speaks is often left out: a thing that happened to whom if not to the speaker.
HAPPENED_ZH = _any(
    r"^(昨天|昨晚|前天|今天|今早|刚刚?|终于|最近|上周.?|上个月|去年|.{1,3}前)+.{0,4}(拿到|买|搬|换|收到|订|签|养|开始|辞|入职"
    r"|毕业|结婚|跑完|考|报|升|领|装)"
)
HABIT_ZH = _any(r"^(主要|平时|一般|经常|通常|每天|每周|常)")

LEAD = _any(
    r"""^(?:(?:well|also|and|but|so|oh|ok|okay|hi|hello|hey|thanks|thank you|by the way|sorry|pls
    |no(?!\s+(?!no\b|wait\b|i\b|my\b|actually\b)\w)|wait|yes|yeah|yep|actually|correction|besides
    |anyway|honestly|guess what|heads up|fyi|btw
    |(?:a |one |another |last )?(?:quick |small |more |last )?(?:thing|note|one)(?: before i
    \s\w+)?(?=:)
    |one more thing|quick one|funny
    |(?:please )?(?:note|remember|keep in mind|mind) that(?= (?:i|my)\b)|just so you know|look
    |plus|then|because)\b[\s,:!-]*)+
    |^(?:(?:其实|另外|还有|对了|更正|不对|嗯|哦|那么|然后|而且|并且|但是|不过|但|所以|因为|等等|等下|早啊|早上好|先说一句|哎|哎呀|哇|哈+|好奇怪|还有件事|还有|记一下|跟你说一声|跟你说|告诉你个事|说一下|说下|不好意思|抱歉|你好|您好|谢谢|是的|对的?|没错|不是的?|啊)[\s，,：:、!！]*)+"""
)
HEDGE_LEAD = _any(
    r"""^(?:maybe|perhaps|probably|possibly|i (?:think|guess|suppose
    |believe)(?: that)?)\b[\s,]*|^(?:我觉得|我猜|也许|或许|可能|说不定)[，,]?"""
)

EVENTS: dict[str, tuple[str, str, str]] = {
    "filter": ("筛选", "filtered", "behavior"),
    "save": ("收藏", "saved", "action"),
    "view": ("浏览", "viewed", "behavior"),
    "dwell": ("停留", "dwelled on", "behavior"),
    "skip": ("跳过", "skipped", "action"),
    "search": ("搜索", "searched for", "behavior"),
    "reject": ("拒绝", "rejected", "action"),
    "confirm": ("确认", "confirmed", "action"),
    "complete": ("完成", "completed", "action"),
    "click": ("点击", "clicked", "behavior"),
}
"""Event -> its Chinese verb, its English past, the kind of its Fact."""
_VERBS = "|".join([*EVENTS, *(zh for zh, _, _ in EVENTS.values())])
EVENT_LINE = _any(
    rf"""^(?:用户|(?:the )?user )?({_VERBS}|filtered|saved|skipped|viewed|rejected|confirmed
    |completed)(?:了|ed|es|s)?\s*[:：]\s*(.+)$"""
)
EVENT_VERB = _any(
    rf"""^(?:用户|(?:the )?user )?(dwelled on|searched for|{_VERBS})(?:了|p?ed|es|ied|d|s)?(?:\s+
    |[:：]\s*|(?=[\u4e00-\u9fff0-9“]))(.+)$"""
)
_SCREEN = _any(
    r"tab|tooltip|panel|hover|scroll|focus|blur|zoom|modal|popup|toast|menu_|_menu|cursor"
)
_NOISE_WORDS = """
stage scroll hover expand collapse sort focus blur resize mousemove heartbeat page_view
"""
_NOISE = frozenset(_NOISE_WORDS.split())


def is_screen(event: str) -> bool:
    """Tell an event that is state of the screen."""
    return event in _NOISE or _SCREEN.search(event) is not None
