"""Whether a user asks to be remembered: "remember that ...", 记住这个 (pure)."""

import re

from agently_gumem.text import fold

# A request stands at the beginning of a sentence, after words of courtesy at most. "I remember
# when ...", "do you remember?" and "remember to call me" (a reminder) are none.
_START = r"(?:^|[.!?;\n。！？；，,]\s*|\b(?:and|so|but|also|ok|okay|yes|no|oh|well|hey)[,\s]+)"
_COURTESY = (
    r"(?:(?:please|pls|kindly|can you|could you|would you|will you|i want you to|i'd like you to|"
    r"i need you to|you should|you must|always|just|also|make sure (?:that )?you|be sure to|"
    r"try to|do)[,\s]+)*"
)
_WHAT = (
    r"(?:remember|memori[sz]e|keep in mind|bear in mind|note down|make a note|take note|"
    r"don't forget|do not forget|never forget)"
)
_OBJECT = (
    r"(?:\s*[:：,]\s*\S|\s+(?:this|that|it|these|those|the following|for (?:later|next time|the "
    r"future)|of (?:this|that|it)|i(?:'m|'ve|'d|'ll)?|my|me as|our|we|we're|please)\b)"
)
_ENGLISH = re.compile(_START + _COURTESY + _WHAT + _OBJECT)
# "Do you remember that ...?", "remember when we ...", "remember that time": what was, is asked for.
_ENGLISH_RECALL = re.compile(
    r"\b(?:do|did|don't|didn't|can't|if|whether) you (?:still |even |also )?remember\b"
    r"[^.!\n]*\?|\bremember (?:that|this|the) (?:time|day|night|one time|trip|guy|thing)\b"
    r"|\b(?:remember|forget) (?:me|my [^.!?\n]{1,40})\?"
)
_CHINESE = re.compile(
    r"(?:^|[。！？；，,.!?;：:\n\s])"
    r"(?:(?:请|麻烦|帮我|帮忙|给我|替我|你|您|要|得|一定|务必|千万|也|都|先|那|好的?|嗯|以后|顺便|"
    r"记得|能不能|可以|能|能否|可否|需要|希望你|我想让你|把[^。！？；，,\n]{1,30}))*\s*"
    r"(?:记住(?!了?[没么]|了吗)|记一下|记下来?(?!了)|记好(?!了)|记着|记牢|牢记"
    r"|(?:别|不要)忘记?(?:了(?!吗))?(?![了记带拿买去给吃喝打做关锁叫写寄发]|提醒))"
)
_CHINESE_TALK = re.compile(
    r"(?<![帮给替为])我(?:已经|总是|老是|还|也|都|一直|终于|才|就|会|要|得|想|没|没有|不|记不|能)*(?:记住|记下|记牢|牢记)"
    r"|(?:怎么|如何|怎样|为什么|你(?:还|都|能|会)?记住了?(?:吗|没|么))|难记住|容易记住|没记住|记不住|记得住"
    r"|(?:他|她|老师|妈妈|爸爸|医生|老板)[^。！？；，,]{0,6}(?:让|叫|要|说|告诉)[^。！？；，,]{0,4}(?:记住|记下)"
)


def asks_to_remember(text: str) -> bool:
    """Tell whether a message asks to keep something in mind, in English or in Chinese."""
    told = fold(text).replace("\u2019", "'")
    if any(not _is_recall(told, match) for match in _ENGLISH.finditer(told)):
        return True
    return any(not _is_talk(told, match) for match in _CHINESE.finditer(told))


def _is_recall(text: str, match: re.Match[str]) -> bool:
    end = _end(text, match.end(), "[.!?\n]")
    start = max(text.rfind(c, 0, match.start() + 1) for c in ".!?\n") + 1
    return _ENGLISH_RECALL.search(text, max(0, start), end) is not None


def _is_talk(text: str, match: re.Match[str]) -> bool:
    end = _end(text, match.end(), "[。！？；\n]")
    start = max(text.rfind(c, 0, match.start() + 1) for c in "。！？；，,\n") + 1
    asked = text[match.start() : end].rstrip("？? \n")
    whether = asked.endswith(("吗", "没", "没有", "么")) and not any(c in asked for c in "能可帮")
    return whether or _CHINESE_TALK.search(text, max(0, start), end) is not None


def _end(text: str, place: int, stops: str) -> int:
    found = re.compile(stops).search(text, place)
    return found.end() if found else len(text)
