"""Forty values that were corrected, as people say it, in two languages."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Changed:
    """A value, its correction, and what is asked about it at present and of the past."""

    said: str
    fact: str
    reply: str
    corrected: str
    now_fact: str
    confirmed: str
    present: str
    past: str
    old: str
    new: str


def _changed(rows):
    return [Changed(*row) for row in rows]


ENGLISH = _changed(
    [
        ("I wear shoe size 42.", "User wears shoe size 42", "Size 42, noted.",
         "Not 42, I measured again: my shoe size is 43.", "User wears shoe size 43",
         "Right, 43 instead of 42.", "What shoe size do I wear?",
         "What shoe size did I wear before?", "42", "43"),
        ("I live in Leeds.", "User lives in Leeds", "Leeds is lovely.",
         "I moved from Leeds to Bristol last weekend.", "User moved from Leeds to Bristol",
         "Goodbye Leeds, hello Bristol!", "Which city do I live in?",
         "Which city did I live in previously?", "Leeds", "Bristol"),
        ("My budget for the bike is 800 euros.", "User's budget for the bike is 800 euros",
         "800 euros it is.", "Change the bike budget from 800 to 1200 euros.",
         "User changed the budget for the bike from 800 to 1200 euros",
         "The budget went from 800 to 1200 euros.", "How much is my bike budget?",
         "What was my bike budget originally?", "800", "1200"),
        ("I work as a nurse.", "User works as a nurse", "Nurses are heroes.",
         "I quit being a nurse, I am a paramedic now.", "User works as a paramedic",
         "A paramedic, great!", "What do I work as?", "What did I use to work as?",
         "nurse", "paramedic"),
        ("My cat is called Pixel.", "User's cat is called Pixel", "Pixel is a fine name.",
         "Sorry, the cat is called Waffle, not Pixel.", "User's cat is called Waffle",
         "Waffle, got it.", "What is my cat called?", "What was the cat called before?",
         "Pixel", "Waffle"),
        ("I eat vegetarian.", "User eats vegetarian", "Vegetarian, understood.",
         "I switched from vegetarian to pescatarian food.", "User eats pescatarian",
         "No longer vegetarian, then.", "What diet do I follow?",
         "What diet did I follow in the past?", "vegetarian", "pescatarian"),
        ("My phone is a Nokia 3310.", "User's phone is a Nokia 3310",
         "The Nokia 3310, a classic!", "My phone is a Fairphone 5 these days.",
         "User's phone is a Fairphone 5", "A Fairphone 5 is repairable.", "Which phone do I have?",
         "Which phone did I have before the Fairphone?", "Nokia", "Fairphone"),
        ("Our team meeting is on Tuesday.", "User's team meeting is on Tuesday",
         "Tuesday, fine.", "The team meeting moved from Tuesday to Thursday.",
         "User's team meeting moved from Tuesday to Thursday", "Thursday instead of Tuesday.",
         "On which day is my team meeting?", "On which day was my team meeting before?",
         "Tuesday", "Thursday"),
        ("My favourite team is Arsenal.", "User's favourite team is Arsenal", "Go Arsenal!",
         "I support Everton now instead of Arsenal.",
         "User's favourite team is Everton instead of Arsenal", "Everton it is.",
         "What is my favourite team?", "What was my previous favourite team?",
         "Arsenal", "Everton"),
        ("The deadline for my thesis is May 20.", "The deadline for User's thesis is May 20",
         "May 20 is soon.", "The thesis deadline is not May 20 but June 9.",
         "The deadline for User's thesis is June 9", "June 9, more time.",
         "When is my thesis deadline?", "When was my thesis deadline originally?",
         "May 20", "June 9"),
        ("My address is 12 Elm Street.", "User's address is 12 Elm Street", "12 Elm Street.",
         "My address changed, it is 7 Oak Lane.", "User's address is 7 Oak Lane",
         "7 Oak Lane, saved.", "What is my address?", "What was my old address?",
         "Elm Street", "Oak Lane"),
        ("My gym is FitBox.", "User's gym is FitBox", "FitBox is good.",
         "I left FitBox for IronHall.", "User's gym is IronHall", "IronHall then.",
         "Which gym do I go to?", "Which gym did I go to earlier?", "FitBox", "IronHall"),
        ("My dentist is Dr. Alvarez.", "User's dentist is Dr. Alvarez", "Dr. Alvarez, noted.",
         "My dentist is Dr. Brandt since Alvarez retired.", "User's dentist is Dr. Brandt",
         "Dr. Brandt, noted.", "Who is my dentist?", "Who was my former dentist?",
         "Alvarez", "Brandt"),
        ("I drink espresso in the morning.", "User drinks espresso in the morning",
         "Espresso wakes you up.", "I drink matcha in the morning, no more espresso.",
         "User drinks matcha in the morning", "Matcha is gentle.",
         "What do I drink in the morning?", "What did I use to drink in the morning?",
         "espresso", "matcha"),
        ("My car is a Skoda Octavia.", "User's car is a Skoda Octavia", "A Skoda, solid.",
         "I sold the Skoda and drive a Renault Zoe.", "User's car is a Renault Zoe",
         "The Zoe is electric.", "What car do I drive?", "What car did I drive in the past?",
         "Skoda", "Renault"),
        ("My manager is Ms. Okafor.", "User's manager is Ms. Okafor", "Ms. Okafor, okay.",
         "My manager is Mr. Lindqvist now.", "User's manager is Mr. Lindqvist",
         "Mr. Lindqvist, okay.", "Who is my manager?", "Who was my manager before?",
         "Okafor", "Lindqvist"),
        ("I prefer aisle seats on flights.", "User prefers aisle seats on flights",
         "Aisle, sure.", "On flights I prefer window seats after all.",
         "User prefers window seats on flights", "Window, sure.",
         "Which seat do I prefer on flights?", "Which seat did I prefer on flights earlier?",
         "aisle", "window"),
        ("My wifi plan costs 29 euros a month.", "User's wifi plan costs 29 euros a month",
         "29 euros is fair.", "The wifi plan went up to 35 euros a month.",
         "User's wifi plan costs 35 euros a month", "35 euros, oh well.",
         "How much is my wifi plan?", "How much was my wifi plan previously?", "29", "35"),
        ("I am learning Portuguese.", "User is learning Portuguese", "Boa sorte!",
         "I dropped Portuguese, I am learning Finnish.", "User is learning Finnish",
         "Onnea!", "Which language am I learning?", "Which language was I learning before?",
         "Portuguese", "Finnish"),
        ("Our wedding is in Venice.", "User's wedding is in Venice", "Venice, romantic!",
         "The wedding is in Porto, Venice was too expensive.", "User's wedding is in Porto",
         "Porto is romantic too.", "Where is my wedding?",
         "Where was my wedding planned originally?", "Venice", "Porto"),
    ]
)  # fmt: skip

CHINESE = _changed(
    [
        ("我穿41码的鞋。", "用户穿41码的鞋", "好的，41码。", "不是41码，我重新量了，是44码的鞋。", "用户穿44码的鞋",
         "改成44码，不是41码了。", "我穿多大码的鞋？", "我以前穿多大码的鞋？", "41", "44"),
        ("我住在上海。", "用户住在上海", "上海很繁华。", "我不住上海了，搬到了杭州。", "用户从上海搬到了杭州",
         "离开上海，去杭州啦。", "我住在哪个城市？", "我之前住在哪个城市？", "上海", "杭州"),
        ("我的相机预算是5000元。", "用户的相机预算是5000元", "预算5000元，记下了。", "相机预算从5000元改到6800元。",
         "用户的相机预算从5000元改到6800元", "预算由5000元改为6800元。", "我的相机预算是多少？",
         "我的相机预算原来是多少？", "5000", "6800"),
        ("我在银行当柜员。", "用户的工作是银行柜员", "柜员很辛苦。", "我辞掉了柜员，现在是数据分析师。", "用户的工作是数据分析师",
         "数据分析师，不错。", "我的工作是什么？", "我从前做什么工作？", "柜员", "数据分析师"),
        ("我的狗叫豆豆。", "用户的狗叫豆豆", "豆豆真可爱。", "说错了，狗叫团子，不是豆豆。", "用户的狗叫团子",
         "团子，记住了。", "我的狗叫什么名字？", "我的狗以前叫什么名字？", "豆豆", "团子"),
        ("我吃素。", "用户吃素食", "素食很健康。", "我不吃素食了，改成低碳饮食。", "用户的饮食是低碳饮食",
         "好，低碳饮食。", "我现在是什么饮食？", "我曾经是什么饮食？", "素食", "低碳"),
        ("我的手机是小米。", "用户的手机是小米", "小米性价比高。", "我把手机从小米换成了华为。", "用户的手机从小米换成了华为",
         "华为也好用。", "我用什么手机？", "换成华为之前我用什么手机？", "小米", "华为"),
        ("组会在周二开。", "用户的组会在周二开", "周二开组会。", "组会从周二改到周四开了。", "用户的组会从周二改到周四开",
         "周四开组会，不在周二了。", "我的组会在周几？", "我的组会原来在周几？", "周二", "周四"),
        ("我最喜欢的球队是国安。", "用户最喜欢的球队是国安", "国安加油！", "我现在最喜欢的球队是申花，不再是国安。",
         "用户最喜欢的球队是申花", "申花加油！", "我最喜欢的球队是哪支？", "我过去最喜欢的球队是哪支？", "国安", "申花"),
        ("论文的截止日期是5月20日。", "用户论文的截止日期是5月20日", "5月20日截止。", "论文的截止日期推迟到6月9日。",
         "用户论文的截止日期是6月9日", "6月9日，时间多了。", "我的论文截止日期是哪天？", "我的论文截止日期原先是哪天？",
         "5月20日", "6月9日"),
        ("我的地址是人民路12号。", "用户的地址是人民路12号", "人民路12号。", "地址变了，现在是建设街7号。",
         "用户的地址是建设街7号", "建设街7号。", "我的地址是什么？", "我的旧地址是什么？", "人民路", "建设街"),
        ("我在乐刻健身。", "用户在乐刻健身", "乐刻不错。", "我不去乐刻了，在超级猩猩健身。", "用户在超级猩猩健身",
         "超级猩猩也好。", "我在哪里健身？", "我当时在哪里健身？", "乐刻", "超级猩猩"),
        ("我的牙医是王医生。", "用户的牙医是王医生", "王医生，好的。", "王医生退休了，我的牙医换成李医生。",
         "用户的牙医是李医生", "李医生，好的。", "我的牙医是谁？", "我以前的牙医是谁？", "王医生", "李医生"),
        ("我早上喝美式咖啡。", "用户早上喝美式咖啡", "美式提神。", "我早上改喝乌龙茶了。", "用户早上喝乌龙茶",
         "乌龙茶清香。", "我早上喝什么？", "我以前早上喝什么？", "美式", "乌龙"),
        ("我开一辆朗逸。", "用户开一辆朗逸", "朗逸省心。", "朗逸卖了，我开一辆海豚。", "用户开一辆海豚",
         "海豚是电车。", "我开什么车？", "我之前开什么车？", "朗逸", "海豚"),
        ("我的领导是赵敏。", "用户的领导是赵敏", "赵敏，好的。", "我的领导现在是钱伟。", "用户的领导是钱伟",
         "钱伟，好的。", "我的领导是谁？", "我的前任领导是谁，以前那位？", "赵敏", "钱伟"),
        ("坐飞机我喜欢靠过道的座位。", "用户坐飞机喜欢靠过道的座位", "靠过道。", "坐飞机我还是喜欢靠窗的座位。",
         "用户坐飞机喜欢靠窗的座位", "靠窗。", "坐飞机我喜欢什么座位？", "坐飞机我从前喜欢什么座位？", "过道", "靠窗"),
        ("宽带每月99元。", "用户的宽带每月99元", "99元可以。", "宽带涨到每月129元了。", "用户的宽带每月129元",
         "129元，有点贵。", "我的宽带每月多少钱？", "我的宽带之前每月多少钱？", "99", "129"),
        ("我在学法语。", "用户在学法语", "加油！", "法语不学了，我在学日语。", "用户在学日语",
         "日语加油！", "我在学什么语言？", "我当初在学什么语言？", "法语", "日语"),
        ("婚礼定在三亚。", "用户的婚礼定在三亚", "三亚很浪漫。", "婚礼改到大理办，三亚太贵。", "用户的婚礼在大理办",
         "大理也浪漫。", "我的婚礼在哪里办？", "我的婚礼最初定在哪里？", "三亚", "大理"),
    ]
)  # fmt: skip
