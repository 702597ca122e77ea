"""What a user does again and again, and what a user decided: read from events, in code (pure).

Events that did the same to the same thing are one group: its verb, and the attribute and value, or
the words, that it was done to. A group with enough distinct events is a habit, and becomes one Fact
that names them all. What was confirmed, rejected, saved, skipped or completed is kept one by one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from agently_gumem.dates import normal
from agently_gumem.records import TOLD, TOOL_CALL, Fact, Message
from agently_gumem.records.placeholders import holds_placeholder
from agently_gumem.remember.select import is_noise
from agently_gumem.text import CJK, fold, is_chinese, words

# The same within so little time is one event that was reported twice, or a double click.
BURST = timedelta(seconds=5)
_NO_ACTIONS = TOLD | {"", "stage", TOOL_CALL}
_LONGEST = 120  # characters of a thing; what is longer is a text, not a thing
_MOST_PARTS = 12  # attributes of one event that are read


@dataclass(frozen=True)
class Verb:
    """What can be done: in the words of both languages."""

    name: str
    words: str
    """Forms that an event may have, apart by spaces."""
    past: str
    chinese: str
    decides: bool = False
    """Whether each single one is worth keeping."""


_VERBS = (
    Verb("filter", "filter filters filtered 筛选", "filtered by", "筛选"),
    Verb("sort", "sort sorted 排序", "sorted by", "排序"),
    Verb("search", "search searched searches query 搜索 检索 查询", "searched for", "搜索"),
    Verb("view", "view viewed views browse browsed open opened visit visited 浏览 查看 打开 访问",
         "viewed", "浏览"),
    Verb("dwell", "dwell dwelled dwelt stay stayed 停留", "dwelled on", "停留"),
    Verb("click", "click clicked tap tapped 点击", "clicked", "点击"),
    Verb("choose", "choose chose chosen select selected pick picked 选择 选中", "chose", "选择"),
    Verb("compare", "compare compared 对比 比较", "compared", "对比"),
    Verb("play", "play played watch watched listen 播放 观看", "played", "播放"),
    Verb("share", "share shared 分享", "shared", "分享"),
    Verb("buy", "buy bought purchase purchased order ordered pay paid 购买 下单 支付",
         "bought", "购买"),
    Verb("save", "save saved favorite favorited favourite bookmark bookmarked star wishlist like "
         "liked 收藏 保存", "saved", "收藏", decides=True),
    Verb("skip", "skip skipped pass dismiss dismissed ignore ignored 跳过 忽略", "skipped", "跳过",
         decides=True),
    Verb("reject", "reject rejected decline declined deny denied refuse refused 拒绝 驳回",
         "rejected", "拒绝", decides=True),
    Verb("confirm", "confirm confirmed accept accepted approve approved 确认 同意 批准 接受",
         "confirmed", "确认", decides=True),
    Verb("complete", "complete completed finish finished done 完成", "completed", "完成",
         decides=True),
    Verb("cancel", "cancel cancelled canceled 取消", "cancelled", "取消", decides=True),
)  # fmt: skip
_BY_WORD = {word: verb for verb in _VERBS for word in verb.words.split()}
_LEADING = re.compile(
    rf"^(?:用户|(?:the )?user )?({'|'.join(sorted(_BY_WORD, key=len, reverse=True))})"
    r"(?:了|(?= (?:for|on|by)\b))?(?:\s*:\s*|\s+(?:(?:for|on|by)\s+)?|(?=[\u4e00-\u9fff\d“]))"
)
_ATTRIBUTE = re.compile(r"^\s*([^=:<>]{1,40}?)\s*[=:]\s*(\S[^=]*?)\s*$")
_COUNT = re.compile(
    r"^\d{1,4}\s*(?:[双个件款条台本张份部家只套]|items?\b|pairs? (?:of|in)\b|x\b)\s*"
)
_HABITUAL = re.compile(
    r"\b(?:often|usually|always|regularly|frequently|repeatedly|habitually|typically|every time|"
    r"tends? to|keeps? \w+ing|again and again|in the habit|frequent)\b"
    r"|经常|常(?=[看去买点搜吃喝听用选常])|总是|反复|频繁|习惯|一再|多次|老是|每次|往往"
)


@dataclass(frozen=True)
class Deed:
    """What one event did to one thing."""

    verb: str
    """A name of a verb, or the event type where it is another."""
    thing: str
    """As it is shown."""
    key: tuple[str, ...]
    """By which equal things are equal."""


@dataclass(frozen=True)
class Habit:
    """What was done to the same thing at least so often."""

    deed: Deed
    messages: tuple[Message, ...]
    """Every event of it, oldest first."""
    count: int
    """How many of them are distinct."""

    @property
    def content(self) -> str:
        """One sentence, in the language of the events."""
        verb = next((v for v in _VERBS if v.name == self.deed.verb), None)
        if is_chinese(self.deed.thing):
            done = verb.chinese if verb else self.deed.verb
            return f"用户反复{done}{self.deed.thing}（{self.count} 次）"
        done = verb.past if verb else self.deed.verb.replace("_", " ") + ":"
        return f"User repeatedly {done} {self.deed.thing} ({self.count} times)"

    @property
    def confidence(self) -> float:
        """How sure it is that it will be done again: the rule of succession, (n + 1) / (n + 2)."""
        return (self.count + 1) / (self.count + 2)


def is_action(message: Message) -> bool:
    """Tell an event of the user's from what was said, and from what is not for memory."""
    if fold(message.event_type) in _NO_ACTIONS or fold(message.role) != "user":
        return False
    return not is_noise(message.event_type, message.content)


def deeds(message: Message) -> list[Deed]:
    """Read what an event did to what; several attributes are several things.

    Where its text names nothing, its entities or the business objects that it is about do.
    """
    if not is_action(message) or holds_placeholder(message.content):
        return []
    text = " ".join(normal(message.content).split()).strip(" .。!！")
    verb, rest = _verb(message.event_type, text)
    things = [*_things(rest)] or [*_named(message)]
    found = [Deed(verb, shown, key) for shown, key in things[:_MOST_PARTS]]
    return list({deed.key: deed for deed in found}.values())


def _verb(event_type: str, text: str) -> tuple[str, str]:
    """Find the verb in the event type, or at the head of its text; give what follows it."""
    lower = text.lower()
    leading = _LEADING.match(lower) if len(lower) == len(text) else None
    rest = "" if lower in _BY_WORD else text[leading.end() :] if leading else text
    parts = re.split(r"[^a-z\u4e00-\u9fff]+", fold(event_type))
    for word in (fold(event_type), *parts):
        if word in _BY_WORD:
            same = leading is not None and _BY_WORD[leading.group(1)] is _BY_WORD[word]
            return _BY_WORD[word].name, rest if same or not rest else text
    if leading is not None:
        return _BY_WORD[leading.group(1)].name, rest
    return fold(event_type), text


def _things(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    parts = [p.strip() for p in re.split(r"[;|&\n]", text) if p.strip()]
    if text.count("=") > 1:
        parts = [p.strip() for part in parts for p in re.split(r",\s*(?=[^,=]+=)", part)]
    for part in parts:
        if not words(part) or len(part) > _LONGEST:
            continue
        attribute = _ATTRIBUTE.match(part)
        if attribute:
            name, value = attribute.groups()
            yield f"{name} {value}", ("=", fold(name), _value(value))
        else:
            yield part.strip(" \"'“”"), ("", *_words(_COUNT.sub("", part)))


def _value(text: str) -> str:
    """Write a value the same whatever stands around its numbers: "500 - 800 元" is "500-800元"."""
    return re.sub(r"\s+", "", fold(text)).replace("–", "-").replace("~", "-").strip("\"'“”")


def _words(text: str) -> tuple[str, ...]:
    """Compare the words of a thing in any order; of Chinese the text as it is."""
    folded = fold(text).strip(" \"'“”")
    return (folded,) if CJK.search(folded) else tuple(sorted(set(words(folded)))) or (folded,)


def entities(message: Message) -> list[str]:
    """Take the entities that an action was given with."""
    given: Any = message.metadata.get("entities")
    listed = cast("list[Any]", given) if isinstance(given, list) else []
    return [e for e in listed if isinstance(e, str) and words(e) and len(e) <= _LONGEST]


def _named(message: Message) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Name the things of an event whose text names none."""
    for entity in entities(message):
        yield entity, ("", *_words(entity))
    for kind, value in message.anchors.items():
        yield f"{kind} {value}", ("=", fold(kind), _value(value))


def habits(messages: Iterable[Message], least: int, within: Iterable[Message]) -> list[Habit]:
    """Find what was done at least so often, of what was done in some messages.

    Args:
        messages: Every event of the user, of all sessions, in their order.
        least: Distinct events that make a habit.
        within: The messages whose deeds are looked at.

    Returns:
        Habits, in the order of their first events.
    """
    wanted = {(deed.verb, deed.key) for message in within for deed in deeds(message)}
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[Deed, Message]]] = {}
    for message in messages if wanted else ():
        for deed in deeds(message):
            if (deed.verb, deed.key) in wanted:
                groups.setdefault((deed.verb, deed.key), []).append((deed, message))
    found: list[Habit] = []
    for group in groups.values():
        events = tuple({m.id: m for _, m in group}.values())
        count = len(distinct(events))
        if count >= least:
            found.append(Habit(group[0][0], events, count))
    return found


def distinct(messages: Sequence[Message]) -> list[Message]:
    """Leave out what came within seconds of an equal event: it is the same one."""
    timed = [(m.timestamp, m) for m in messages if m.timestamp is not None]
    kept: list[Message] = []
    before: datetime | None = None
    for moment, message in sorted(timed, key=lambda pair: pair[0]):
        if before is None or moment - before > BURST:
            kept.append(message)
        before = moment
    return [*kept, *(m for m in messages if m.timestamp is None)]


def of_habit(fact: Fact, habit: Habit, known: Mapping[str, Message]) -> bool:
    """Tell whether a Fact is that habit: a behaviour all of whose events did the same."""
    if fact.kind != "behavior" or fact.validity != "active" or fact.subject != "user":
        return False
    same = (habit.deed.verb, habit.deed.key)
    events = [known[i] for i in fact.source_message_ids if i in known]
    return bool(events) and all(
        any((deed.verb, deed.key) == same for deed in deeds(event)) for event in events
    )


def decision(message: Message) -> str:
    """Write the sentence of an event that decides something; empty where it is none."""
    verb = next((v for v in _VERBS if v.name == _decides(message)), None)
    found = deeds(message)
    if verb is None or not found:
        return ""
    thing = found[0].thing if len(found) == 1 else "; ".join(deed.thing for deed in found)
    if is_chinese(thing):
        return f"用户{verb.chinese}了{thing}"
    return f"User {verb.past} {thing}"


def _decides(message: Message) -> str:
    name, _ = _verb(message.event_type, " ".join(normal(message.content).split()))
    return name if any(v.name == name and v.decides for v in _VERBS) else ""


def claim(kind: str, content: str, sources: Sequence[Message], least: int) -> tuple[str, str]:
    """Hold a Fact that a model wrote to the evidence that a habit needs.

    Args:
        kind: Its kind.
        content: Its text.
        sources: The messages that it cites.
        least: Distinct events that make a habit.

    Returns:
        The kind that it may have, and why it is refused, or "".
    """
    events = [m for m in sources if is_action(m)]
    if not events:
        return ("fact" if kind == "behavior" else kind), ""
    enough = len(distinct(events)) >= least
    told = len(events) < len(sources)
    if not enough and not told and _HABITUAL.search(fold(content)):
        return kind, "too_little_evidence"
    return ("action" if kind == "behavior" and not enough else kind), ""
