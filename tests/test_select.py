"""What may be remembered, and what becomes a placeholder."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agently_gumem.remember.select import Selector, is_noise

select = Selector()

SECRETS = [
    ("my key is sk-abc123DEF456ghi789JKL0, keep it", "my key is [secret], keep it"),
    ("AKIAIOSFODNN7EXAMPLE!", "[secret]!"),
    ("use ghp_abcdefghijklmnopqrstuvwxyz0123456789 now", "use [secret] now"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF123_-x", "[secret]"),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc==\n-----END RSA PRIVATE KEY-----\nhello",
        "[secret]\nhello",
    ),
    ("-----BEGIN PRIVATE KEY-----\nMIIEow", "[secret]"),
    ("password: hunter2", "password: [secret]"),
    ("My wifi password is hunter2.", "My wifi password is [secret]."),
    ("The password for the wifi is hunter2", "The password for the wifi is [secret]"),
    ("WiFi密码为abcd1234。", "WiFi密码为[secret]。"),
    ("密码是 hunter2，请记住", "密码是 [secret]，请记住"),
    ("口令：abc123", "口令：[secret]"),
    ("Authorization: Bearer abcdef1234567890xyz", "Authorization: Bearer [secret]"),
    ("postgres://bob:s3cret@db/x", "postgres://bob:[secret]@db/x"),
    ('{"password": "hunter2"}', '{"password": "[secret]"}'),
    ("my pin is 4821", "my pin is [secret]"),
]

NUMBERS = [
    ("card 4111 1111 1111 1111 thanks", "card [card] thanks"),
    ("4111-1111-1111-1111 and 123", "[card] and 123"),
    ("pay with 378282246310005", "pay with [card]"),
    ("卡号6222021234567890123", "卡号[card]"),
    ("身份证 11010519491231002X", "身份证 [id-number]"),
    ("身份证号是110101199001011234", "身份证号是[id-number]"),
    ("SSN 123-45-6789", "SSN [id-number]"),
    ("my ssn is 123456789", "my ssn is [id-number]"),
    ("DNI 12345678Z", "DNI [id-number]"),
    ("护照号 E12345678", "护照号 [id-number]"),
    ("GB82 WEST 1234 5698 7654 32 is mine", "[bank-account] is mine"),
    ("DE89370400440532013000", "[bank-account]"),
]

ORDINARY = [
    "the password is wrong",
    "I forgot my password yesterday, and the 2 systems lock me out",
    "secret: always add salt",
    "max token: 4096",
    "order 20260506123456789 of 2026-05-06, 1,299.00 paid",
    "订单号 20260506123456789012，电话 13800138000",
    "ISBN 978-3-16-148410-0, call +86 138-0013-8000 or 555-123-4567",
    "a plain number 123456789",
    "550e8400-e29b-41d4-a716-446655440000",
    "密码学很有趣，预算 500-800",
    "prices: 10 20 30 40 50 60 70 80 90 100",
    "scikit: sk-learn and task-based-work",
]


@pytest.mark.parametrize(("text", "kept"), SECRETS)
def test_secret_becomes_a_placeholder(text: str, kept: str) -> None:
    """A secret goes, the words around it stay."""
    assert select(text).text == kept
    assert dict(select(text).found) == {"secret": 1}


@pytest.mark.parametrize(("text", "kept"), NUMBERS)
def test_number_of_a_person_or_account_becomes_a_placeholder(text: str, kept: str) -> None:
    """Cards, identity numbers and accounts go, by checksum or by the words before them."""
    assert select(text).text == kept


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_numbers_and_words_survive(text: str) -> None:
    """Orders, phones, dates, prices and talk about passwords are left as they are."""
    assert select(text).text == text


def test_other_digits_and_unseen_characters_do_not_hide_a_number() -> None:
    """Full-width digits, zero-width characters and wide spaces within are seen through."""
    assert select("付款 ４１１１\u3000１１１１１１１１１１１１ 谢谢").text == "付款 [card] 谢谢"
    assert select("x\u200by 4111\u200b1111\u2060111111\u00ad11 ｚ").text == "x\u200by [card] ｚ"
    assert select("٤١١١١١١١١١١١١١١١").text == "[card]"


def test_several_kinds_are_counted() -> None:
    """The result says how many of each kind were taken out."""
    found = select("password: hunter2, card 4111111111111111, 密码是abc12345").found
    assert dict(found) == {"secret": 2, "card": 1}


_PIECES = st.sampled_from(
    [text for text, _ in SECRETS + NUMBERS]
    + ORDINARY
    + ["password: ", "密码是", "[secret]", "4111"]
)


@given(
    st.lists(st.one_of(_PIECES, st.text(max_size=12)), max_size=5), st.sampled_from(["", " ", ":"])
)
@settings(max_examples=60, deadline=None)
def test_selecting_twice_changes_nothing_more(parts: list[str], joint: str) -> None:
    """What has been selected is stable."""
    once = select(joint.join(parts)).text
    assert select(once).text == once


@given(st.text(alphabet="abc XYZ中文，。\u200b１２-:", max_size=60))
@settings(max_examples=60, deadline=None)
def test_text_without_finds_is_untouched(text: str) -> None:
    """Normalising is for detection only."""
    selection = select(text)
    assert selection.found or selection.text == text


@pytest.mark.parametrize(
    "piece", ["eyJ", "sk-", "password is ", "://a:", "GB82 ", "-----BEGIN PRIVATE "]
)
def test_crafted_text_takes_linear_time(piece: str) -> None:
    """A long text made to trap a pattern is no trap."""
    select("warm up")
    start = time.perf_counter()
    select(piece * (200_000 // len(piece)))
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize(
    ("event", "content", "noise"),
    [
        ("scroll", "to the end", True),
        ("mouse_move", "12,40", True),
        ("panel.expanded", "详情", True),
        ("action", "展开：侧栏", True),
        ("message", " \u200b\n", True),
        ("message", "scroll is a nice word", False),
        ("message", "ok", False),
        ("filter", "价格 = 500-800", False),
        ("save", "2 双浅色鞋款", False),
    ],
)
def test_state_of_the_screen_is_noise(event: str, content: str, noise: bool) -> None:
    """Scrolling, hovering and panels are noise; messages and choices are not."""
    assert is_noise(event, content) is noise
