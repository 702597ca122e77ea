"""How a sentence says that something is of a person: subjects, verbs, and what makes it not so.

Each pattern that looks back ends at `$`, is tried on a bounded stretch, and allows a few words
between the verb and what it is about.
"""

import re

_KIN = (
    r"wife|husband|partner|spouse|boyfriend|girlfriend|fianc[eé]e?|mom|mum|mommy|mother|dad|daddy|"
    r"father|parents?|(?:step|half[ -])?(?:sister|brother)s?|siblings?|sons?|daughters?|kids?"
    r"|child|"
    r"children|baby|toddler|twins|grand(?:ma|mother|pa|father|parents?|son|daughter)|granny|nan|"
    r"uncle|aunt|auntie|cousins?|nephew|niece|friends?|boss|manager|colleague|co-?worker|"
    r"neighbou?r|(?:room|flat|class|team|house)mate|teacher|ex|(?:mother|father|brother|sister"
    r"|son|"
    r"daughter)-in-law|in-laws|family|user|customer|patient|guy|man|woman|girl|boy|tutor|coach"
)
_ZH_KIN = (
    "爸|妈|爷爷|奶奶|姥姥|姥爷|外公|外婆|公公|婆婆|岳父|岳母|父亲|母亲|父母|老婆|老公|妻子|丈夫"
    "|媳妇|"
    "太太|先生|爱人|对象|男友|女友|男朋友|女朋友|前任|前男友|前女友|儿子|女儿|孩子|宝宝|娃|闺女"
    "|哥|弟|"
    "姐|妹|叔|姨|舅|姑|伯|侄|外甥|孙|同事|朋友|室友|同学|老板|领导|邻居|闺蜜|家人|全家|家里"
    "|用户|客户|老师|"
    "小[王李张刘陈杨赵黄周吴徐孙马朱胡林郭何高罗]|老[王李张刘陈杨赵黄周吴徐孙马朱胡林郭何高罗]"
)
_NAME = r"(?-i:[A-Z][a-z]{2,15})"
_STOP = (
    r"about|regarding|into|against|articles?|books?|movies?|films?|documentar(?:y|ies)|novels?|"
    r"stor(?:y|ies)|papers?|essays?|research|researching|stud(?:y|ies|ying)|course|class|homework|"
    r"exam|thesis|report|news|podcasts?|apps?|startup|company|project|dataset|model|characters?|"
    r"questions?|software|website|clients?|charity|awareness|hero|museum|song|poem|series|episode|"
    r"translat\w*|explain\w*|server|code|like|between"
)
_WORDS = rf"(?:\W{{1,3}}(?!(?:{_STOP})\b)[\w'’]+)"

# Somebody is spoken of.
PERSON = re.compile(
    rf"(?<![A-Za-z])(?:i|i['’](?:m|ve|d)|me|my|mine|myself|we|we['’]\w+|our|us|he|his|him|she|her|"
    rf"hers|they|their|them|(?:he|she|they|you)['’]\w+|you|your|who|{_KIN})(?![A-Za-z])"
    rf"|{_NAME}['’]s\b|\b{_NAME}\s(?:is|was|has|had|got|takes?|took|came|went|goes|votes?|voted|"
    rf"converted|joined|suffers?|struggles?|prays?|believes?)\b"
    rf"|[我咱你您他她俺]|本人|{_ZH_KIN}",
    re.IGNORECASE,
)
# Words that are said of the one who has it, also where nobody is named: 确诊, "diagnosed with".
APPLIED = re.compile(
    rf"(?:(?:^|[,.]\s)\W*(?:diagnosed|living|struggling|recovering|suffering|recently|just|still|"
    rf"had|got|have|having|on|taking|doc\s(?:says?|said)|doctors?\s(?:says?|said|thinks?"
    rf"|told))\b{_WORDS}{{0,5}}\W*"
    r"|(?:确诊|查出|检查出|患有?|得了|得过|被?诊断|医生说|刚做|做完|做了|要做|得做|在吃|吃着|"
    r"吃了|在服|服用|有个|长了|切了|参加[过了]|[上下这明后今][^，。]{0,4}[做动])[^，。]{0,12})$",
    re.IGNORECASE,
)
HAS = re.compile(
    r"(?:(?:['’](?:ve|s|m|d|re)|(?<![A-Za-z])(?:have|has|had|having|got|gets?|getting|am|is|are"
    r"|was|were|"
    r"been|be|being|on|with|diagnosed|suffer\w*|struggl\w+|liv(?:e|es|ed|ing)|battl\w+|fight\w*|"
    r"fought|surviv\w+|beat|recover\w*|prescribed|needs?|needed|under(?:go\w*|went|gone)|through|"
    r"started|starts?|quit|stopped|stop|tak(?:e|es|ing|en)|took|swallow\w*|inject\w*|use[sd]?"
    r"|using|"
    r"died|dying|lost|treat\w*|caught|catch|develop\w*|manag\w+|control\w*|after|since|because of|"
    r"due to|from|for|of|my|his|her|their|our|your|doing|did|scheduled|goes?|going|went|booked|"
    r"smok\w+|addicted to|carry|carries|inherited|it['’]s|put \w+ on|of her|of his"
    r"|worried about my|"
    rf"hospitalized|clean|off|monitor\w*|do i|for my|feel\w*|abus\w+|fear\w*|hid\w*|mentioned"
    rf"|kept?|"
    r"joined|attend\w*|arrested|organi[sz]\w+|broke|tore))"
    rf"{_WORDS}{{0,4}}[\s\"“'‘(-]*"
    rf"|{_NAME}['’]s\s(?:\w+\s){{0,2}}"
    r"|(?:有|得了?|患|查出|确诊|诊断|染上?|犯|吃|喝|服|打|做|动|治|因为?|是|怀疑|戒|复发|住|靠"
    r"|装|放|看|挂|长|没|"
    r"遗传|死于|走于|受|说|被|把|刚|在|换|开了?|用|配了?|切|摔|落下|闹|闹过|为|一直|过|抗|带"
    r"|携带|控制|照顾)[^，。、]{0,8}"
    rf"|(?:{_ZH_KIN}|[我你您他她咱俺]|本人|自己)(?:的|这|那|们|最近|一直|老是?|又|也|都|去年"
    rf"|前年|今年|上个?月|当年|以前|年轻时|小时候){{0,3}})$",
    re.IGNORECASE,
)
# What follows a word where it is had: "depression since 2019", 糖尿病好几年了.
HAS_BEHIND = re.compile(
    r"(?:\s(?:runs?|ran) in (?:my|his|her|our|the)\b|\ssince\b|\s(?:is|was|are)\s(?:getting"
    r"|killing|"
    r"ruining|under control|back|in remission|worse|hereditary)|\s(?:came|comes?|keep|acting"
    r"|flare)\b|\smeds\b|"
    r"\smedication\b|\s(?:killed|took|ruined|nearly killed|has (?:been|made|ruined))\b)"
    r"|史|患者|好几年|很多年|多年|[一二三四五六七八九十两半几\d]+年|复发|又犯|晚期|早期|中期"
    r"|加重|发作|控制得|还没好|缠身|之后|后恢复|病人",
    re.IGNORECASE,
)
# Who is what: "my wife is ...", 我是 ....
IS = re.compile(
    rf"(?:(?<![A-Za-z])(?:(?P<they>they)|i|he|she|we|you|who|(?:{_KIN})(?:\s[\w'’]+){{0,3}}?"
    rf"|{_NAME}(?:\s{_NAME})?)"
    r"(?:\s(?:might|may|must|could|will|would|has|have|had|['’]ve|just|also|never|recently|always|"
    r"told me he|told me she|probably|now|only|both|all|still|actually|think|know|knew|says|said|"
    r"realized|realised|thinks|that|i|he|she)){0,4}"
    r"\s?(?:['’](?:m|s|re|ve been|d be)|\s(?:am|is|are|was|were|been|be|being|became|become"
    r"|becoming|"
    r"turned|raised|born|grew up|feel|feels|felt|got|went|stayed?|turns?|came|come|identif\w+"
    r"|vote[sd]?|"
    r"married|living|go(?:es)?|call\w*|consider\w*|part|have been|has been|had been|['’]ve been))"
    rf"(?:\W{{1,3}}(?!(?:{_STOP}|shoes?|in|at|by|near|for|from|looking|wearing|using|reading"
    rf"|making|"
    rf"learning|buying|eating|watching|afraid|interested|friends)\b)[\w'’]+){{0,5}}\W{{0,3}}"
    r"|(?<![A-Za-z])as an?\s(?:[\w-]+\s){0,3}"
    r"|(?:是|当|成了|成为|变成|信仰?|出身|属于|为|也是|来自|作为|身为|算|做|有|嫁给了?|娶了?"
    r"|入了?|都是)"
    r"(?:一?[个名位半]|[^，。\s]{0,6}))$",
    re.IGNORECASE,
)
# Said outright of the one who speaks or of theirs: no book or film is meant.
CLAIM = re.compile(
    rf"(?<![A-Za-z])(?:i|i['’]ve|i['’]m|we|my\s(?:{_KIN}))\s?(?:['’](?:m|ve|s)|\s?(?:have|had"
    rf"|has|am|"
    rf"is|was|got|take|takes|suffer|suffers))(?:{_WORDS}{{0,4}})\W*$"
    rf"|我[^，。]{{0,4}}(?:有|得了?|患|是|查出|确诊|怀)(?![^，。]{{0,9}}(?:文章|论文|书|片|小说"
    rf"|课|题|作业|新闻|研究|科普|故事))[^，。]{{0,6}}$"
    rf"|我(?:{_ZH_KIN})[^，。]{{0,4}}(?:有|得了?|患|是|查出|确诊|怀)[^，。]{{0,6}}$",
    re.IGNORECASE,
)
# A book, a film, a lesson, a product about it stands before the word.
FRAME = re.compile(
    r"(?<![A-Za-z])(?:articles?|movie|film|documentary|novel|story|stories|paper|essay"
    r"|research\w*|"
    r"stud(?:y|ies|ying)|course|class|homework|exam|thesis|news|podcast|dataset|series|episode|"
    r"protagonist|characters?|hero|poem|song|lyrics|screenplay|fiction|game|quiz|lecture|slides?|"
    r"presentation|campaign|fundraiser|donat\w+|charity|definition|word for|meaning of"
    r"|translat\w+|"
    r"history of|statistics|headline|blog post|newsletter)\b"
    r"|关于|文章|论文|小说|电影|电视剧|主角|男主|女主|纪录片|新闻|科普|研究|课题|作业|考试|翻译"
    r"|写一[篇个首]|写首|"
    r"解释|介绍|什么是|怎么预防|如何预防|市场|公益|药企|数据集|模型|游戏|角色|剧情|节目|剧本"
    r"|综艺|故事|历史|政策|法律|博物馆|旅游|攻略|单词|英文|游客|景区",
    re.IGNORECASE,
)
TASK = re.compile(
    r"\W*(?:please\s|can you\s|could you\s|help me\s)?(?:write|translate|draft|summari[sz]e"
    r"|explain|"
    r"define|compose|imagine|describe|list|compare|what (?:is|are|does|causes)|how (?:do|does|is)|"
    r"why (?:do|does|is)|which|generate|classify|proofread|rewrite)\b"
    r"|\s*(?:请|帮我|帮忙)?(?:写|翻译|解释|介绍|总结|生成|润色|列出|什么是|为什么)",
    re.IGNORECASE,
)
# What makes a thing of the word right behind it.
THING = re.compile(
    r"[\s-](?:apps?|research\w*|charity|awareness|market|clinics?|drugs?|dataset|data"
    r"|foundation|stud(?:y|ies)|"
    r"ward|nurse|specialist|conference|walk|fundraiser|chapter|class(?:es)?|course|screening"
    r"|model|"
    r"horoscope|season|movie|film|book|article|policy|rights|literature|law|museum|festival"
    r"|restaurants?|"
    r"food|cuisine|deli|style|architecture|temples?|cathedral|church|tour|school|art|music"
    r"|history|"
    r"jokes?|costume|theme|scene|quarter|bakery|market|shoes?|shirts?|dress|jacket|pants|jeans"
    r"|socks|"
    r"laces|bag|color|colour|car|cat|dog|coffee|tea|belt|friday|screen|hole|box|print|ink|leather|"
    r"insurance|charities|hospital|fans?|magazine|app|bars?|club|forum|server|table|tables|wine"
    r"|beer|keyboard|laptop|phone)\b"
    r"|(?:是什么|怎么|如何|筛查|量表|的?(?:文章|论文|书|电影|纪录片|小说|新闻|市场|研究|科普|餐厅|菜|饭馆"
    r"|舞|服饰|服装|风情|歌|自治|文化|节|特色|饭|音乐|"
    r"建筑|故事|剧|原因|定义|保险|险|药店|论坛|专家|医院|图标|主题|表情|笑话|牙膏|学院|画))",
    re.IGNORECASE,
)
# Time, doctors and medicine: what tells a complaint from a manner of speaking.
MEDICAL = re.compile(
    r"(?<![A-Za-z])(?:since|for (?:\w+ )?(?:days|weeks|months|years)|every (?:day|night|week"
    r"|morning|few)|"
    r"all the time|always|chronic|severe|terrible|doctors?|gp|hospital|clinic|er|medication"
    r"|pills?|"
    r"painkillers?|treatment|symptoms?|again and again|keep(?:s)? (?:getting|having)|lately"
    r"|constantly|"
    r"often|last night|diagnosed|prescri\w+|disorder|nights|mg|therapy|therapist"
    r"|specialist)(?![A-Za-z])"
    r"|最近|一直|总是|经常|老是|天天|每天|好几天|好久|几个月|半年|晚上|医生|医院|吃药|开了?药"
    r"|看病|半夜|反复|严重|半个月|"
    r"个星期|年了|[一二三四五六七八九十两几\d]天|常年|药|挂号|急诊|中医|体检|长期|好几",
    re.IGNORECASE,
)
THINGS = re.compile(
    r"(?<![A-Za-z])(?:bugs?|code|deploy\w*|projects?|deadlines?|servers?|clients?|meetings?"
    r"|boss|prices?|"
    r"noise|traffic|homework|build|release|gives? me|gave me|giving me|taxes|paperwork|config\w*|"
    r"merge|spreadsheets?|legacy|api|tests?)(?![A-Za-z])"
    r"|bug|代码|项目|作业|老板|领导|价格|服务器|甲方|客户|需求|接口|这事|选哪|账单|房价|工期"
    r"|加班|考试|预算|方案|作文|论文",
    re.IGNORECASE,
)
# What is behind a word that needs nobody to be named: 怀孕6周, 出轨了.
SELF = re.compile(r"了|[\d一二三四五六七八九十两几]+(?:周|个月|天|年)|(?:初|早|中|晚)期")
CHOSEN = re.compile(
    r"\s(?:supporter|voter|fan|member|activist|organi[sz]er|donor|volunteer|sympathi[sz]er"
    r"|guy)s?\b"
    r"|的?(?:支持者|党员|粉丝|选民|铁粉|拥护者|成员|志愿者)",
    re.IGNORECASE,
)
# Who is voted for, supported, joined.
CHOOSES = re.compile(
    r"(?:(?<![A-Za-z])(?:vot(?:e|es|ed|ing)(?:\sfor|\sagainst)?|support(?:s|ed|ing)?"
    r"|campaign\w*\sfor|"
    r"canvass\w*\sfor|members?\sof|joined|join|joining|back(?:s|ed|ing)?|donat\w+\sto"
    r"|volunteer\w*\sfor|"
    r"marched\s(?:for|against)|protest\w*\s(?:for|against)|work(?:s|ed)?\sfor|chair\w*)"
    r"\s(?:the\s|a\s|an\s|for\s)?(?:[\w'’-]+\s)?"
    r"|(?:投票?给?了?|投的是|支持|反对|加入了?|参加[过了]?|退出了?|属于|挺|拥护|组织[过了]?"
    r"|选了?)[^，。]{0,4})$",
    re.IGNORECASE,
)
# The text of somebody else that a task is about.
QUOTED = re.compile(
    r"\W*(?:please\s|can you\s)?(?:translate|proofread|rewrite|correct|summari[sz]e)\b|\s*(?:请"
    r"|帮我)?(?:翻译|润色|改写)",
    re.IGNORECASE,
)
# An animal, of whom nothing is a person's data.
PET = re.compile(
    r"(?<![A-Za-z])(?:dog|cat|pet|puppy|kitten|hamster|rabbit|horse|parrot)s?(?![A-Za-z])|[狗猫]|宠物|仓鼠|兔子",
    re.IGNORECASE,
)
# The animal is the one that has it, whatever stands before it: 我家猫得了.
PET_HAS = re.compile(
    r"(?:(?<![A-Za-z])(?:dog|cat|pet|puppy|kitten|horse)s?\s(?:has|have|had|is|was|got|gets|takes)\s"
    r"(?:[\w'’-]+\s){0,3}|(?:[狗猫]|宠物|仓鼠|兔子)[^，。我]{0,6})$",
    re.IGNORECASE,
)
# Said of anybody, or of what may come: 会头痛几天, "can cause headaches".
GENERAL = re.compile(
    r"(?:(?<![A-Za-z])(?:causes?|caused|prevents?|against|relieves?|cure\w*|may|might|could|can"
    r"|would)\s(?:[\w'’-]+\s){0,2}"
    r"|(?:会|可能|导致|引起|容易|避免|缓解|治疗?|预防)[^，。]{0,3})$",
    re.IGNORECASE,
)
