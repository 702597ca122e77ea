"""When a Fact is: dates of a model held to the words, dates that words settle, what is due."""

import re
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem import GUMem
from agently_gumem.dates import days_in, mentions, normal, resolve, settled, written
from agently_gumem.records import Message, TimeRange
from agently_gumem.remember.timing import ground_time, told_time
from agently_gumem.testing import ScriptedModel

CHINA = timezone(timedelta(hours=8))
NOW = datetime(2026, 5, 6, 10, tzinfo=CHINA)  # a Wednesday
MOMENTS = st.dates(date(1950, 1, 1), date(2090, 1, 1)).map(
    lambda day: datetime(day.year, day.month, day.day, 10, tzinfo=CHINA)
)
PHRASES = Path(__file__).parent / "benchmarks" / "_date_phrases.txt"
# What a sentence does not tell by its words alone: names that are months or days, a question of
# people or of places, "the Tuesday after next".
NOT_READ = {
    "他叫明天，是我朋友。",
    "My sister is coming the Tuesday after next.",
    "I'm going skiing over New Year's.",
    "School begins on the first of September.",
    "Last summer I worked in Crete.",
    "I have a friend called April.",
    "My daughter May is five.",
    "我从一月开始健身。",
    "去年夏天我在青岛。",
    "他住二单元五号。",
    "我不喜欢星期一。",
}


def phrases():
    """The labelled sentences: text -> every span that it may mean."""
    lines = [x for x in PHRASES.read_text(encoding="utf-8").splitlines() if not x.startswith("#")]
    for line in lines:
        text, _, meant = line.partition("|")
        spans = (part.split("..") for part in re.split(r" or | and ", meant) if part.strip())
        yield (
            text.strip(),
            {tuple(date.fromisoformat(e.strip()) for e in (s[0], s[-1])) for s in spans},
        )


@pytest.mark.parametrize(("text", "meant"), [p for p in phrases() if p[0] not in NOT_READ])
def test_the_days_of_a_sentence_are_those_that_people_mean(text, meant):
    """Every labelled sentence gives days that it can mean, and no others."""
    found = days_in(normal(text), NOW)
    assert bool(found) == bool(meant)
    assert found <= meant


def test_what_is_not_read_is_known():
    """The sentences that are read wrongly are these; a new one of them would be seen."""
    wrong = {t for t, meant in phrases() if not days_in(normal(t), NOW) <= meant}
    missed = {t for t, meant in phrases() if meant and not days_in(normal(t), NOW)}
    assert wrong | missed == NOT_READ


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("国庆去成都", "2026-10-01", "2026-10-07"),
        ("明年春节回家", "2027-02-06", "2027-02-06"),
        ("at Easter", "2026-04-05", "2026-04-05"),
        ("on Thanksgiving", "2026-11-26", "2026-11-26"),
        ("next Christmas", "2026-12-25", "2026-12-25"),
        ("端午节", "2026-06-19", "2026-06-19"),
        ("中秋", "2026-09-25", "2026-09-25"),
        ("清明", "2026-04-05", "2026-04-05"),
        ("重阳节", "2026-10-18", "2026-10-18"),
    ],
)
def test_feasts_fall_on_their_days(text, first, last):
    """Lunar feasts and those that move are looked up, the years are those around the message."""
    assert (date.fromisoformat(first), date.fromisoformat(last)) in resolve(text, NOW)


@pytest.mark.parametrize(
    "text",
    [
        *("I bought a Christmas tree", "圣诞礼物很多", "every Christmas", "每年春节", "每周三健身"),
        *("every Friday", "on Fridays", "晚上周三见不到", "等一下周三", "晚上月亮"),
        *("3号楼", "二号线", "三日游", "at 12 May Street", "on the 5th floor", "in 2000 steps"),
    ],
)
def test_what_only_holds_a_date_word_is_none(text):
    """A word inside another one, a thing named after a day, what comes again: no date."""
    assert resolve(normal(text), NOW) - resolve("周三", NOW) - resolve("天气", NOW) == frozenset()
    assert not [d for _, d in written(normal(text)) if d.day and not d.year]


def test_the_weather_in_three_days_is_not_of_the_day_after_tomorrow():
    """三天后天气 holds 后天 across two words."""
    day = date(2026, 5, 9)
    assert resolve("三天后天气好", NOW) == {(day, day)}


@pytest.mark.parametrize(
    ("text", "ahead", "first", "last"),
    [
        ("I fly on May 20.", True, "2026-05-20", "2026-05-20"),
        ("The report is due by Friday.", True, None, "2026-05-08"),
        ("周五之前交报告", True, None, "2026-05-08"),
        ("I work there since last year", False, "2025-01-01", None),
        ("I'm away from May 20 to May 25", True, "2026-05-20", "2026-05-25"),
        ("5月20日到25日休假", True, "2026-05-20", "2026-05-25"),
        ("下个月去日本", True, "2026-06-01", "2026-06-30"),
        ("月底交房租", True, "2026-05-21", "2026-05-31"),
        ("我 5 月 21 号在维也纳做报告", False, "2026-05-21", "2026-05-21"),
        ("I met her on April 3", False, "2026-04-03", "2026-04-03"),
        ("Saturday, May 9, we move", True, "2026-05-09", "2026-05-09"),
    ],
)
def test_one_expression_settles_the_time(text, ahead, first, last):
    """A day, a range, an end alone or a beginning alone."""
    found = settled(normal(text), NOW, ahead=ahead)
    expected = (first and date.fromisoformat(first), last and date.fromisoformat(last))
    assert (found.first and found.first[0], found.last and found.last[1]) == expected


@pytest.mark.parametrize(
    "text",
    [
        "I fly next Friday.",  # the coming one, or the one after it
        "Not on Monday but on Tuesday.",
        "Saturday, May 10",  # a Sunday
        "sometime",
        "改天",
        "on November 2",  # the last one or the next one
    ],
)
def test_what_is_open_settles_nothing(text):
    """Two days, or none: no date is invented."""
    assert settled(normal(text), NOW, ahead="November" not in text) is None


def test_without_a_time_nothing_relative_is_settled():
    """A message of unknown time resolves no date word; a full date needs none."""
    assert settled("I fly tomorrow", None, ahead=True) is None
    assert settled("I fly on 2026-05-20", None, ahead=True).first[0] == date(2026, 5, 20)


@given(MOMENTS, st.integers(1, 60))
def test_counted_days_are_counted(moment, days):
    """In so many days, ago, 天后 and 天前 are that many days from the message, in its zone."""
    ahead, back = (moment.date() + timedelta(days=d) for d in (days, -days))
    assert resolve(f"in {days} days", moment) == {(ahead, ahead)} == resolve(f"{days}天后", moment)
    assert resolve(f"{days} days ago", moment) == {(back, back)} == resolve(f"{days}天前", moment)


@given(MOMENTS)
def test_weeks_and_months_lie_where_they_should(moment):
    """下周三 is the Wednesday of the next week; the next month follows this one without a gap."""
    (day, same), *more = resolve("下周三", moment)
    assert not more
    assert day == same
    assert day.weekday() == 2
    assert 1 <= (day - moment.date()).days <= 13
    ((_, end),), ((start, _),) = resolve("this month", moment), resolve("next month", moment)
    assert start - end == timedelta(days=1)
    assert resolve("下个月", moment) == resolve("next month", moment)


@given(
    st.text(alphabet="上下周月年前后底初末春节国庆三五天到至 to by next May-10/月日号", max_size=40)
)
def test_no_text_breaks_the_reader(text):
    """Places lie in the text, in order, and every span runs forward."""
    found = mentions(normal(text), NOW)
    assert all(a.end <= b.start for a, b in pairwise(found))
    assert all(first <= last for m in found for first, last in (*m.readings, *m.ends))
    settled(normal(text), NOW, ahead=True)


def said(content, at=NOW, **fields):
    """Build a message."""
    return Message(content=content, timestamp=at, **fields)


@pytest.mark.parametrize(
    ("value", "text", "kept"),
    [
        ("2026-06", "the lease ends next month", "2026-06-30"),
        ("2026", "this year", "2026-12-31"),
        ("2026-05-10", "this weekend", "2026-05-10"),
        ("2026-05-12", "this weekend", None),
    ],
)
def test_an_end_is_the_last_day_of_what_the_model_names(value, text, kept):
    """A month that ends something ends it on its last day."""
    expected = datetime.fromisoformat(kept).replace(tzinfo=CHINA) if kept else None
    assert ground_time(value, [said(text)], last=True) == expected


@pytest.mark.parametrize(
    ("fact", "text", "start", "end"),
    [
        ("User travels to Shanghai", "I travel to Shanghai tomorrow.", "2026-05-07", None),
        ("用户去上海", "我后天下午三点去上海。", "2026-05-08T15:00", None),
        ("User flies to Oslo", "I ate out yesterday. I fly to Oslo tomorrow.", "2026-05-07", None),
        ("User travels to Rome", "I decided yesterday to travel to Rome.", None, None),
        ("User hands in the report", "I have to hand in the report by Friday.", None, "2026-05-08"),
        ("User visits Peru", "I visit Peru in June or in July.", None, None),
        ("User moves on 2026-05-20", "I move on May 20, not on May 21.", "2026-05-20", None),
    ],
)  # fmt: skip
def test_a_plan_has_the_time_of_its_sentence(fact, text, start, end):
    """The words of the sentence that it is about settle the time, in the zone of the message."""
    read = [datetime.fromisoformat(x).replace(tzinfo=CHINA) if x else None for x in (start, end)]
    expected = TimeRange(start=read[0], end=read[1]) if start or end else None
    assert told_time(fact, [said(text)], plan=True) == expected


def test_only_its_own_words_date_what_is_no_plan():
    """A Fact that says no time has none from a sentence around it; one that does has that."""
    source = [said("I moved to Porto last year.")]
    assert told_time("User lives in Porto", source, plan=False) is None
    year = TimeRange(
        start=datetime(2025, 1, 1, tzinfo=CHINA), end=datetime(2025, 12, 31, tzinfo=CHINA)
    )
    assert told_time("User moved to Porto last year", source, plan=False) == year


PLANS = {
    "I see the dentist tomorrow.": ("User sees the dentist", "", "2026-05-07"),
    "我下周三去上海。": ("用户去上海", "2026-05-13", "2026-05-13"),
    "The lease ends next month.": ("User's lease ends", "2026-07-01", "2026-06-01"),
    "I hand in the report by Friday.": ("User hands in the report", "", "2026-05-08"),
    "I will learn to sail some day.": ("User will learn to sail", "2027-01-01", None),
}


def planning(request):
    """Answer with the plan of each message, with the date that the script gives."""
    facts = []
    for message in request.data.get("NEW MESSAGES", []):
        content, start, _ = PLANS[message["text"]]
        draft = {"content": content, "kind": "plan", "sources": [message["ref"]]}
        facts.append({**draft, "start": start, "topic": "plans"})
    return {"facts": facts, "memo": [], "summaries": [], "same_topics": []}


def test_plans_are_listed_by_when_they_are_due():
    """Model's dates are checked, missing ones come from the words; wrong or vague ones are none."""
    with ScriptedModel(memory=planning) as model:
        settings = {"OpenAICompatible": model.settings}
        with GUMem(model_settings=settings) as gumem:
            user = gumem.user("alice")
            for text in PLANS:
                user.add_messages({"content": text, "timestamp": NOW})
            user.add_messages(
                {"content": "I see the dentist tomorrow.", "timestamp": None}, session_id="old"
            )
            user.digest()
            due = user.facts(kind="plan", due_before=datetime(2026, 6, 1, tzinfo=CHINA))
            assert [f.content for f in due] == [
                "User sees the dentist",
                "User hands in the report",
                "用户去上海",
                "User's lease ends",
            ]
            told = {f.content: f.time_range for f in user.facts(kind="plan")}
            for content, _, day in PLANS.values():
                expected = datetime.fromisoformat(day).replace(tzinfo=CHINA) if day else None
                time = told[content]
                assert (time and (time.start or time.end)) == expected
            friday = datetime(2026, 5, 8, tzinfo=CHINA)
            assert user.facts(kind="plan", due_after=friday, due_before=NOW) == []
            # A naive time is read as UTC: Wednesday's midnight in China is Tuesday's there.
            naive = friday.replace(day=12, hour=16, tzinfo=None)
            later = user.facts(due_after=naive)
            assert [f.content for f in later] == ["用户去上海", "User's lease ends"]
            assert user.facts(kind="preference", due_before=NOW) == []
