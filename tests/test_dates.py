"""Date words in both languages, and dates as they are written."""

from datetime import date, datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agently_gumem.dates import Day, follows, resolve, weekdays, written
from agently_gumem.numerals import claimed, clocks, stated

NOW = datetime(2026, 5, 6, 10, tzinfo=timezone.utc)  # a Wednesday


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("tomorrow", "2026-05-07", "2026-05-07"),
        ("I went yesterday", "2026-05-05", "2026-05-05"),
        ("the day after tomorrow", "2026-05-08", "2026-05-08"),
        ("next Wednesday", "2026-05-13", "2026-05-13"),
        ("last Friday", "2026-05-01", "2026-05-01"),
        ("next week", "2026-05-11", "2026-05-17"),
        ("last month", "2026-04-01", "2026-04-30"),
        ("last year", "2025-01-01", "2025-12-31"),
        ("in 3 days", "2026-05-09", "2026-05-09"),
        ("two weeks ago", "2026-04-22", "2026-04-22"),
        ("this weekend", "2026-05-09", "2026-05-10"),
        ("明天去上海", "2026-05-07", "2026-05-07"),
        ("大后天", "2026-05-09", "2026-05-09"),
        ("前天", "2026-05-04", "2026-05-04"),
        ("下周三出发", "2026-05-13", "2026-05-13"),
        ("上周五", "2026-05-01", "2026-05-01"),
        ("下下周日", "2026-05-24", "2026-05-24"),
        ("上个月", "2026-04-01", "2026-04-30"),
        ("本月二十号", "2026-05-20", "2026-05-20"),
        ("去年", "2025-01-01", "2025-12-31"),
        ("明年三月", "2027-03-01", "2027-03-31"),
        ("三天后", "2026-05-09", "2026-05-09"),
        ("两周前", "2026-04-22", "2026-04-22"),
    ],
)
def test_date_word_resolves(text: str, first: str, last: str) -> None:
    """A date word means the days that people mean by it."""
    assert (date.fromisoformat(first), date.fromisoformat(last)) in resolve(text, NOW)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("on 2026-05-03 at", Day(2026, 5, 3)),
        ("May 3, 2026", Day(2026, 5, 3)),
        ("3rd of May", Day(None, 5, 3)),
        ("8 May, 2023", Day(2023, 5, 8)),
        ("2026年5月3日", Day(2026, 5, 3)),
        ("五月三日", Day(None, 5, 3)),
        ("in May 2026", Day(2026, 5, None)),
    ],
)
def test_written_date_is_read(text: str, day: Day) -> None:
    """The usual ways to write a date are read, the fullest reading first."""
    assert [found for _, found in written(text)] == [day]


def test_words_that_look_like_months_are_none() -> None:
    """May and march in lower case, and durations, are no dates."""
    assert not [d for _, d in written("I may march for 3个月") if d.month]


def test_missing_year_follows_from_the_time_of_the_message() -> None:
    """Without a year it is the last or the next such day; without a time there is none."""
    assert follows(Day(2026, 5, 20), "5月20日", NOW)
    assert not follows(Day(2031, 5, 20), "5月20日", NOW)
    assert not follows(Day(2026, 5, 20), "5月20日", None)


def test_no_day_follows_from_a_year() -> None:
    """A date may not say more than the word that it rests on."""
    assert follows(Day(2025), "last year", NOW)
    assert not follows(Day(2025, 3, 4), "last year", NOW)


@given(st.text(alphabet="上下周月年前后三五十天ago in last 0123456789 week may-", max_size=30))
@settings(max_examples=60, deadline=None)
def test_no_text_breaks_the_resolver(text: str) -> None:
    """Whatever stands there, spans come back in order or not at all."""
    assert all(first <= last for first, last in resolve(text, NOW))
    assert all(0 <= day < 7 for day in weekdays(text))


def test_numbers_match_across_writing() -> None:
    """Each way to write a number is read as the same number."""
    for text, same in [("1,000", "１０００"), ("1k", "1000"), ("800元", "八百"), ("two", "两双"),
                       ("twenty-five", "25"), ("5 公里", "五公里"), ("3万", "30000")]:  # fmt: skip
        assert all(readings & stated(same) for readings in claimed(text)), text
        assert claimed(text), text


def test_words_with_a_numeral_in_them_claim_no_number() -> None:
    """一起, 千万 and a lone "one" are words."""
    assert claimed("千万别一起去，统一一下, one of them, 十分好") == []


def test_times_match_across_writing() -> None:
    """Three in the afternoon is 15:00; a bare three may be either."""
    same = [next(clocks(text))[1] for text in ("下午三点", "15:00", "3 pm", "3:00")]
    assert all(a & b for a in same for b in same)
    assert not next(clocks("3 am"))[1] & next(clocks("15点"))[1]
