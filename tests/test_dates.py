"""Date words in both languages, and dates as they are written."""

from collections.abc import Callable
from datetime import date, datetime, timezone

import pytest
from cputime import spent
from hypothesis import given, settings
from hypothesis import strategies as st

from agently_gumem.dates import Day, days_in, follows, resolve, weekdays, written
from agently_gumem.numerals import claimed, clocks, number_word, stated
from agently_gumem.remember.same import differs
from agently_gumem.remember.same.amounts import amounts
from agently_gumem.remember.specifics import Evidence, identifiers, missing, names, without_dates

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


@pytest.mark.parametrize("text", ["用户三四月去哪里？", "我五六月还是七八月出发?", "三四月三四号"])
def test_two_months_in_one_are_no_date(text: str) -> None:
    """三四月 is March or April: neither is read, and nothing breaks."""
    assert not [day for _, day in written(text) if day.month]
    assert days_in(text, NOW) == frozenset()


def test_the_year_beside_two_months_in_one_is_read() -> None:
    """Which month it is stays open, the year does not."""
    assert [day for _, day in written("2027年三四月")] == [Day(2027)]


@pytest.mark.parametrize(
    "text", ["May I ask you something?", "Thanks. May we go on?", "March on!", "“May the best win”"]
)
def test_words_that_open_a_sentence_are_no_months(text: str) -> None:
    """May and March have a capital there whatever they mean."""
    assert [*written(text)] == []


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("In May we flew to Rome.", Day(None, 5)),
        ("May 3 is fine", Day(None, 5, 3)),
        ("May the 3rd is fine", Day(None, 5)),
        ("in March on a boat", Day(None, 3)),
        ("on 3 March on a boat", Day(None, 3, 3)),
        ("May was cold", Day(None, 5)),
    ],
)
def test_a_month_is_read_where_a_sentence_goes_on(text: str, day: Day) -> None:
    """What stands behind a month makes it no word."""
    assert [found for _, found in written(text)] == [day]


DIGITS = "0123456789０９٣零〇一二两三四五六七八九十百千万亿"
MARKS = "年月日号周点半上下去明后前个天元公里% .,:-/'“”!?，。、$¥€@"
LATIN = "January |Feb|March on |May |Sept. |last |two |hundred |in | ago|km|kg| days|k|m |th |am|pm"
RUNS = ["20", "2026", "零" * 30, "亿" * 30, "1" * 30]
PIECES = st.sampled_from([*DIGITS, *MARKS, *LATIN.split("|"), *RUNS])


@given(st.lists(PIECES, max_size=12).map("".join), st.lists(PIECES, max_size=12).map("".join))
@settings(max_examples=150, deadline=None)
def test_no_text_breaks_what_reads_dates_and_numbers(a: str, b: str) -> None:
    """Whatever stands there is read, or not; the order of two texts makes no difference to it."""
    for text in (a, b):
        assert all(first <= last for first, last in days_in(text, NOW))
        assert all(0 <= start < end <= len(text) for (start, end), _ in written(text))
        assert all(0 <= day < 7 for day in weekdays(text))
        assert all(len(readings) > 0 for readings in claimed(text))
        assert stated(text) is not None
    assert bool(differs(a, b)) == bool(differs(b, a))
    assert differs(a, a) == ""


@pytest.mark.parametrize("digits", ["1" * 5_000, "零" * 5_000, "九" * 5_000, "亿" * 5_000])
def test_an_endless_number_is_none(digits: str) -> None:
    """Nobody reckons with it, and reading it does not fail."""
    assert number_word(digits) is None
    assert stated(f"User has {digits} cats.") is not None
    assert claimed(f"User has {digits} million cats.") is not None


def test_endless_numbers_are_compared_as_they_are_written() -> None:
    """An account number that differs in its last digit is another one."""
    number = "12" * 20
    assert differs(f"User's number is {number}.", f"User's number is {number[:-1]}3.") == "number"
    assert missing(f"It is {number}.", Evidence(((f"It is {number[:-1]}3.", NOW),))) == "number"
    assert not missing(f"It is {number}.", Evidence(((f"It is {number}.", NOW),)))


READERS: list[tuple[str, Callable[[str], object]]] = [
    ("May ", lambda text: [*written(text)]),
    ("1月", lambda text: days_in(text, NOW)),
    ("1月", without_dates),
    ("1:00 ", without_dates),
    ("last ", lambda text: resolve(text, NOW)),
    ("1", claimed),
    ("一", stated),
    ("1,111,", stated),
    ("two hundred hundred ", claimed),
    ("$1 ", amounts),
    ("1", identifiers),
    ("a", identifiers),
    ("a-", identifiers),
    ("a'", names),
    ("May 1, ", lambda text: missing("On 2031-07-09 at 3 pm.", Evidence(((text, NOW),)))),
]


@pytest.mark.parametrize(("piece", "read"), READERS)
def test_reading_takes_time_in_proportion_to_the_text(
    piece: str, read: Callable[[str], object]
) -> None:
    """No repetition makes a long text slow: twice the text takes about twice the time."""
    read(piece)
    half = min(_cpu(read, piece, 20_000) for _ in range(2))
    assert min(_cpu(read, piece, 40_000) for _ in range(2)) < 3 * half + 0.02


def _cpu(read: Callable[[str], object], piece: str, length: int) -> float:
    text = (piece * (length // len(piece) + 1))[:length]
    return spent(read, text)
