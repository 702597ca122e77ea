"""Does the source hold what the Fact says."""

from datetime import datetime, timezone
from pathlib import Path

import pytest
from cputime import spent
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem.records import Message
from agently_gumem.remember.ground import ground_fact, holds
from agently_gumem.remember.stance import misread
from agently_gumem.remember.timing import ground_time

NOW = datetime(2026, 5, 6, 10, tzinfo=timezone.utc)  # a Wednesday


def said(content: str, role: str = "user", sequence: int = 0, at: datetime | None = NOW) -> Message:
    """Build a message."""
    return Message(content=content, role=role, sequence=sequence, timestamp=at)


SHOES = [
    ("用户正在寻找日常慢跑鞋。", ["想买一双日常慢跑鞋，不要太硬，预算 800 以内。"]),
    ("用户预算大多在 800 以内。", ["筛选：价格 = 500-800"]),
    ("用户预算大多在 800 以内。", ["想买一双日常慢跑鞋，不要太硬，预算 800 以内。"]),
    ("用户常看 42 码。", ["筛选：尺码 = 42"]),
    ("用户偏好缓震、脚感不硬的跑鞋。", ["浏览：4 双缓震跑鞋"]),
    (
        "用户偏好缓震、脚感不硬的跑鞋。",
        ["停留：包含“脚感柔软”和“日常训练”的评价", "筛选：品类 = 跑鞋"],
    ),
    ("用户更关注公园 5 公里慢跑场景。", ["我主要在公园跑，单次大概 5 公里，最好别太夸张。"]),
    ("用户对浅色、外观不夸张的鞋款更感兴趣。", ["收藏：2 双浅色鞋款", "最好别太夸张。"]),
    ("用户当前不倾向碳板竞速鞋。", ["跳过：碳板竞速鞋"]),
]


@pytest.mark.parametrize(("fact", "sources"), SHOES)
def test_facts_of_the_shop_stand_in_what_the_user_did(fact: str, sources: list[str]) -> None:
    """Terse behaviour events support the facts that people draw from them."""
    events = [said(text).model_copy(update={"event_type": "action"}) for text in sources]
    assert ground_fact(fact, events).ok


@pytest.mark.parametrize(
    ("fact", "source"),
    [
        ("User's budget is 1,000 yuan.", "my budget is 1k"),
        ("User's budget is 800.", "预算八百，budget for shoes"),
        ("User has two cats.", "I have 2 cats"),
        ("用户买了两双鞋。", "我买了2双鞋"),
        ("User travels to Shanghai on 2026-05-13.", "I travel to Shanghai next Wednesday"),
        ("用户2026年5月13日去上海。", "我下周三去上海"),
        ("User moved in 2025.", "I moved last year"),
        ("User's exam is on 2026-05-03.", "my exam is on May 3"),
        ("用户5月3日考试。", "exam on May 3, 考试"),
        ("User has a meeting at 15:00.", "meeting at 3 pm please"),
        ('User calls the dog "Biscuit Boy".', "my dog is called Biscuit Boy"),
        ("User works with Anna Schmidt.", "Anna Schmidt works with me"),
        ("User's order is ORD-2024-77.", "where is my order ord-2024-77?"),
        ("用户的酒店预算是每晚五百元以内。", "酒店每晚控制在500元以内"),
        ("User's phone number is 138-0013-8000.", "call 13800138000, my phone"),
        ("User visits Caroline's studio.", "I visit the studio of Caroline"),
    ],
)
def test_what_the_source_says_in_other_writing_holds(fact: str, source: str) -> None:
    """Numbers, dates, times and names match across writing and languages."""
    assert ground_fact(fact, [said(source)]).ok


@pytest.mark.parametrize(
    ("fact", "source", "reason"),
    [
        ("User's budget is 900 yuan.", "my budget is 800 yuan", "number"),
        ("用户预算九百元。", "预算 800 元", "number"),
        ("User's order is ORD-2024-78.", "where is my order ORD-2024-77?", "number"),
        ("User travels on 2026-05-14.", "I travel next Wednesday", "date"),
        ("User was born on 2025-03-15.", "I was born last year", "date"),
        ("User meets Anna on Tuesday.", "I meet Anna on 2026-05-13", "date"),
        ("The meeting is at 4 pm.", "the meeting is at 3 pm", "date"),
        ("User works with Anna.", "I work with Hannah", "name"),
        ('User said "never again".', "I said it was fine", "quotation"),
        ("User plays the violin in an orchestra.", "I need a new laptop for work", "support"),
        ("用户喜欢弹钢琴。", "今天天气很冷", "support"),
    ],
)
def test_what_the_source_does_not_say_is_refused(fact: str, source: str, reason: str) -> None:
    """A Fact that says more than its source is refused with the kind of what is missing."""
    assert ground_fact(fact, [said(source)]).reason == reason


def test_no_date_follows_without_a_time() -> None:
    """An undated message resolves no date word."""
    assert ground_fact("User travels on 2026-05-07.", [said("I travel tomorrow", at=None)]).reason


def test_speakers_need_no_other_source() -> None:
    """The name of somebody who speaks in the session is known."""
    source = [said("I love my new pottery class")]
    assert not ground_fact("Every week, Melanie loves her pottery class.", source).ok
    assert ground_fact("Now, Melanie loves her pottery class.", source, speakers=["Melanie"]).ok


def test_given_entities_are_checked_where_capitals_say_nothing() -> None:
    """A Chinese name has no capitals: the model's entities name it."""
    source = [said("我住在北京海淀区")]
    assert ground_fact("用户住在北京朝阳区。", source, entities=["朝阳区"]).reason == "name"
    assert ground_fact("用户住在北京海淀区。", source, entities=["海淀区", "上海"]).ok


def test_similarity_supports_what_words_do_not() -> None:
    """A Fact in another language than its source has the embedder's word for it."""
    source = [said("我对海鲜过敏")]
    assert ground_fact("User is allergic to shellfish.", source).reason == "support"
    assert ground_fact("User is allergic to shellfish.", source, similarity=0.8).ok


def test_what_only_the_assistant_said_is_no_fact() -> None:
    """The assistant's claims are no source about the user."""
    claim = said("You live in Berlin, right?", "assistant", 1)
    assert ground_fact("User lives in Berlin.", [claim]).reason == "assistant"
    assert ground_fact("User lives in Berlin.", [claim, said("what?", sequence=2)]).reason == "name"


@pytest.mark.parametrize(
    "yes", ["Yes, that's right.", "Exactly!", "right", "对，没错", "是的", "嗯"]
)
def test_a_plain_yes_makes_it_the_users(yes: str) -> None:
    """What the user confirms afterwards counts."""
    claim = said("So the user lives in Berlin with 2 cats?", "assistant", 1)
    assert ground_fact("User lives in Berlin with two cats.", [claim, said(yes, sequence=2)]).ok
    assert not ground_fact("User lives in Berlin.", [claim, said(yes, sequence=0)]).ok


@pytest.mark.parametrize(
    "answer",
    ["yes but no", "Right now I am busy", "对花生过敏", "可以吗？", "好的，但是不对"],
)
def test_half_a_yes_confirms_nothing(answer: str) -> None:
    """A second thought, or a word that only looks like a yes, is no confirmation."""
    claim = said("So you live in Berlin?", "assistant", 1)
    assert not ground_fact("User lives in Berlin.", [claim, said(answer, sequence=2)]).ok


def in_session(id_: str, content: str, role: str, sequence: int, session: str = "s1") -> Message:
    """Build a message with its place."""
    fields = {"id": id_, "session_id": session}
    return said(content, role, sequence).model_copy(update=fields)


@pytest.mark.parametrize(("sequence", "session"), [(6, "s1"), (3, "s1"), (2, "s2"), (1, "s1")])
def test_a_later_yes_answers_something_else(sequence: int, session: str) -> None:
    """Only the message that directly follows in the same session confirms."""
    claim = in_session("a", "You live in Paris.", "assistant", 1)
    answer = in_session("b", "Yes", "user", sequence, session)
    assert not ground_fact("User lives in Paris.", [claim, answer]).ok
    assert ground_time("2026-05-07", [answer, claim]) is None


def test_the_caller_may_know_what_follows() -> None:
    """With other sessions in between, the map tells the answer; it never reaches across them."""
    claim = in_session("a", "You live in Paris since 2020-03-01.", "assistant", 1)
    cited = [claim, in_session("b", "Yes", "user", 9)]
    assert ground_fact("User lives in Paris.", cited, following={"a": "b"}).ok
    assert ground_time("2020-03-01", cited, following={"a": "b"}) is not None
    assert not ground_fact("User lives in Paris.", cited, following={"a": "c"}).ok
    assert not ground_fact("User lives in Paris.", cited, following={}).ok
    elsewhere = [claim, in_session("b", "Yes", "user", 2, "s2")]
    assert not ground_fact("User lives in Paris.", elsewhere, following={"a": "b"}).ok


def test_an_event_confirms_nothing_and_a_system_text_is_not_confirmed() -> None:
    """A yes is said, and it answers one who talks."""
    claim = in_session("a", "You live in Paris.", "assistant", 1)
    event = in_session("b", "ok", "user", 2).model_copy(update={"event_type": "click"})
    assert not ground_fact("User lives in Paris.", [claim, event]).ok
    rule = in_session("a", "The user lives in Paris.", "system", 1)
    assert not ground_fact("User lives in Paris.", [rule, in_session("b", "Yes", "user", 2)]).ok


@pytest.mark.parametrize(
    "role",
    [
        *("assistant", "Assistant", "ASSISTANT ", "ai", "AI", "bot", "model", "agent", "tool"),
        *("function", "system", "developer", "助手"),
    ],
)
def test_what_a_machine_says_is_no_source(role: str) -> None:
    """However the role is written; a name of the speaker makes it no person."""
    claim = said("The user lives in Paris.", role)
    assert ground_fact("User lives in Paris.", [claim]).reason == "assistant"
    named = claim.model_copy(update={"speaker": "Ada", "event_type": "Message"})
    assert ground_fact("User lives in Paris.", [named]).reason == "assistant"


@pytest.mark.parametrize("role", ["user", "User", "human", "customer", "用户", "patient", "Ada"])
def test_what_a_person_says_is_a_source(role: str) -> None:
    """An application has its own words for people."""
    assert ground_fact("User lives in Paris.", [said("I live in Paris", role)]).ok


@pytest.mark.parametrize(
    ("role", "event"),
    [("system", "imported_memo"), ("system", "stage"), ("tool", "tool_call"), ("bot", "click")],
)
def test_what_was_done_is_a_source_whoever_reports_it(role: str, event: str) -> None:
    """Events tell what happened."""
    told = said("The user lives in Paris.", role).model_copy(update={"event_type": event})
    assert ground_fact("User lives in Paris.", [told]).ok


def test_summary_holds_only_what_its_facts_hold() -> None:
    """A text about Facts may use their numbers and names, and no others."""
    facts = ["用户预算在 800 以内。", "用户常看 42 码。", "User works at Shopify."]
    assert holds("用户预算 800 元以内，尺码 42。", facts).ok
    assert holds("用户预算 900 元以内。", facts).reason == "number"
    assert holds("The user works at Google.", facts).reason == "name"


@pytest.mark.parametrize(
    ("value", "text", "kept"),
    [
        ("2026-05-13", "下周三去上海", "2026-05-13"),
        ("2026-05-13T15:00", "next Wednesday at 3 pm", "2026-05-13T15:00"),
        ("2026-05-13T09:00:00Z", "next Wednesday", "2026-05-13"),
        ("2025", "I moved last year", "2025-01-01"),
        ("2026-05-20", "on May 20", "2026-05-20"),
        ("2026-03-15", "sometime soon", None),
        ("2026-05-14", "next Wednesday", None),
        ("soon", "tomorrow", None),
        ("", "tomorrow", None),
    ],
)
def test_only_a_time_that_follows_is_kept(value: str, text: str, kept: str | None) -> None:
    """The model's date stays where the message says it; the hour only where it says that too."""
    expected = datetime.fromisoformat(kept).replace(tzinfo=timezone.utc) if kept else None
    assert ground_time(value, [said(text)]) == expected


def test_undated_message_gives_no_time() -> None:
    """A date word without the time of its message is no date; a full date needs none."""
    assert ground_time("2026-05-07", [said("tomorrow", at=None)]) is None
    assert ground_time("2026-05-07", [said("on 2026-05-07", at=None)]) is not None


def test_a_long_word_is_read_at_once() -> None:
    """Letters without a digit behind them are no identifier, however many they are."""
    word = "a" * 400
    assert ground_fact(f"User types {word}.", [said(f"I type {word}")]).ok


def test_an_identifier_of_many_parts_needs_its_source() -> None:
    """Parts in any number are one identifier, compared whole."""
    source = [said("my key is aa-bb-cc-dd-ee-ff-gg-hh-ii-jj-kk-7")]
    assert ground_fact("User's key is aa-bb-cc-dd-ee-ff-gg-hh-ii-jj-kk-7.", source).ok
    assert ground_fact("User's key is aa-bb-cc-dd-ee-ff-gg-hh-ii-jj-kk-8.", source).reason


STANCES = [
    tuple(part.strip() for part in line.split("|"))
    for line in (Path(__file__).parent / "stances.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
# False Facts that pass: another verb for the same, a subject of many words, a quoted relation.
LET_THROUGH = {
    ("我戒烟了。", "用户抽烟。"),
    ("Everyone in my team drinks tea.", "User drinks tea"),
    ('In the movie he says: "I am your father".', "User is a father"),
}


@pytest.mark.parametrize(("message", "fact", "reason"), STANCES)
def test_only_what_a_speaker_claims_in_earnest_is_a_fact(
    message: str, fact: str, reason: str
) -> None:
    """Denied, of another, imagined, quoted or joked: refused with its kind; what is true stays."""
    verdict = ground_fact(fact, [said(message)], similarity=0.9)
    expected = "" if (message, fact) in LET_THROUGH else reason
    assert verdict.reason == expected


def test_a_fact_that_one_message_claims_stays_though_another_denies_it() -> None:
    """The clauses that support it decide; one of them is enough."""
    both = [said("I don't like tea."), said("I like tea now.", sequence=1)]
    assert ground_fact("User likes tea", both).ok
    assert ground_fact("User likes tea", both[:1]).reason == "negation"


def test_a_speaker_is_the_subject_of_a_fact_as_the_user_is() -> None:
    """Where several speak, a Fact begins with a name: what a relative does is not theirs."""
    source = [said("My brother plays the cello.").model_copy(update={"speaker": "Melanie"})]
    assert ground_fact("Melanie plays the cello", source).reason == "subject"
    assert ground_fact("Melanie's brother plays the cello", source).ok


def test_an_event_has_no_stance() -> None:
    """What was done is not said by anybody: skipping is told by its event."""
    skipped = said("跳过：碳板竞速鞋").model_copy(update={"event_type": "skip"})
    assert ground_fact("用户当前不倾向碳板竞速鞋。", [skipped]).ok


@pytest.mark.parametrize(
    ("claim", "answer"),
    [
        ("So you live in Berlin?", "No."),
        ("So you live in Berlin?", "not really"),
        ("So you live in Berlin?", "不是"),
        ("你住在柏林，对吗？", "对，但是下个月搬走，不算住了"),
        ("So you live in Berlin?", "Yes? Who told you that?"),
        ("So you live in Berlin?", "Yes, until last year."),
        ("So you live in Berlin?", "Yeah, I used to."),
        ("So you live in Berlin?", "是的，以前是"),
        ("Do you live in Berlin or in Paris?", "Yes."),
        ("你住在柏林还是巴黎？", "是的"),
        ("So you live in Berlin?", "Why do you ask?"),
        ("So you live in Berlin?", "maybe"),
    ],
)
def test_what_is_no_plain_yes_confirms_nothing(claim: str, answer: str) -> None:
    """A no, a second thought, a question back, a yes to two things at once."""
    cited = [said(claim, "assistant", 1), said(answer, sequence=2)]
    fact = "用户住在柏林。" if "柏林" in claim else "User lives in Berlin."
    assert not ground_fact(fact, cited).ok


@pytest.mark.parametrize(
    ("claim", "answer"),
    [
        ("So you live in Berlin?", "Yes, and I like it."),
        ("So you live in Berlin?", "是的，没错"),
        ("You live in Berlin, more or less, right?", "Exactly!"),
    ],
)
def test_a_yes_with_more_behind_it_confirms(claim: str, answer: str) -> None:
    """What follows a yes may go on with something else."""
    cited = [said(claim, "assistant", 1), said(answer, sequence=2)]
    assert ground_fact("User lives in Berlin.", cited, similarity=0.9).ok


def test_what_the_assistant_denied_is_not_confirmed_as_true() -> None:
    """A yes to "you don't eat meat" is no liking of meat."""
    cited = [said("So you don't eat meat.", "assistant", 1), said("Right.", sequence=2)]
    assert ground_fact("User does not eat meat", cited).ok
    assert ground_fact("User eats meat", cited).reason == "negation"


@given(
    st.text(
        alphabet="不没我妈他喜欢吃茶。，“”'\" if I were not my brother like tea,.n't", max_size=60
    ),
    st.text(alphabet="用户不喜欢吃茶User doesn't like tea", max_size=40),
)
def test_no_text_breaks_the_stance(message: str, fact: str) -> None:
    """Whatever stands there, there is a verdict; a plain statement beside it stays one."""
    assert isinstance(misread(fact, [message, ""]), str)
    assert misread("User likes tea", ["I like tea", message]) in ("", "joke", "quotation")


@pytest.mark.parametrize(
    "piece", ["I don't like tea, ", "我不喜欢茶，", "if I were ", "“我说", "my brother ", "not "]
)
def test_the_stance_takes_time_in_proportion(piece: str) -> None:
    """No repetition makes a long message slow."""
    misread("User likes tea", [piece])
    half, whole = (_cpu((piece * length)[:length]) for length in (10_000, 20_000))
    assert whole < 3.5 * half + 0.05


def _cpu(text: str) -> float:
    return spent(misread, "User likes tea and coffee", [text])
