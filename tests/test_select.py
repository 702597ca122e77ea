"""What may be remembered, what becomes a placeholder, and what a policy changes in that."""

import pickle
import subprocess
import sys
from datetime import timedelta

import pytest
from cputime import spent
from hypothesis import given, settings
from hypothesis import strategies as st

from agently_gumem.errors import ConfigError
from agently_gumem.privacy import KEEP, REDACT, PrivacyPolicy, Retention, Treatment
from agently_gumem.records import as_record
from agently_gumem.records.placeholders import PLACEHOLDERS
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

SPECIAL = [
    (
        "I have diabetes, so no sugar; my budget is 800.",
        "[special], so no sugar; my budget is 800.",
    ),
    ("我妈有糖尿病，预算800。想买42码的鞋", "[special]，预算800。想买42码的鞋"),
    ("My wife is Jewish and I like blue shoes.", "[special] and I like blue shoes."),
    ("他是中共党员。", "[special]。"),
    ("Size 42. I'm gay. Ships on Monday.", "Size 42. [special]. Ships on Monday."),
    ('{"note": "I was diagnosed with lupus", "size": 42}', '{"note": "[special]", "size": 42}'),
    ("我\u200b有抑\u200b郁症，别告诉别人", "[special]，别告诉别人"),
    ("We have hypertension, gout and asthma, and size 42", "[special], [special], and size 42"),
]

ORDINARY = [
    "I am allergic to peanuts and I don't eat pork.",
    "用户对海鲜过敏。",
    "User's wife is a doctor.",
    "头疼这个bug",
    "write to anna@example.org or call +86 138-0013-8000",
    "password = os.environ['DB_PASSWORD']",
    "order no. 4111111111111111 arrived",
    "order 260506-1234 and 260506-1235",
    "My dog has diabetes",
    "我家猫得了肾病",
    "我听不见你说话，麦克风坏了",
    "晒太阳了半天，我好困",
    "I use std::move in my code, and my screen has a crack",
    "I'm voting for option B",
    "老板让我头疼了一整天",
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


@pytest.mark.parametrize(("text", "kept"), SPECIAL)
def test_a_statement_of_a_special_kind_becomes_a_placeholder(text: str, kept: str) -> None:
    """Only the clause that says it goes; what stands beside it stays."""
    assert select(text).text == kept
    assert select(text).found == {"special": kept.count("[special]")}


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
    + ["password: ", "密码是", "[secret]", "4111", "[special]", "I have", "糖尿病", "我"]
    + [text for text, _ in SPECIAL]
    + ["my mail is anna@example.org", "电话 13800138000"]
)
EVERYTHING = PrivacyPolicy(
    emails=REDACT, phones=REDACT, allergies=REDACT, special_words={"health": ["zeta fog"]}
)


@given(
    st.lists(st.one_of(_PIECES, st.text(max_size=12)), max_size=5), st.sampled_from(["", " ", ":"])
)
@settings(max_examples=60, deadline=None)
def test_selecting_twice_changes_nothing_more(parts: list[str], joint: str) -> None:
    """What has been selected is stable, whatever the policy takes out."""
    for one in (select, Selector(EVERYTHING)):
        once = one(joint.join(parts)).text
        again = one(once)
        assert again.text == once
        assert not again.found


@given(st.lists(_PIECES, max_size=5), st.sampled_from([" ", "\n", "。"]))
@settings(max_examples=60, deadline=None)
def test_what_stays_is_a_part_of_the_text(parts: list[str], joint: str) -> None:
    """Between placeholders every character stands as it stood, in its order."""
    text = joint.join(parts)
    place = 0
    kept = select(text).text
    for mark in PLACEHOLDERS:
        kept = kept.replace(mark, "\0")
    whole = text
    for mark in PLACEHOLDERS:
        whole = whole.replace(mark, "\0")
    for piece in kept.split("\0"):
        found = whole.find(piece, place)
        assert found >= 0, (text, kept)
        place = found + len(piece)


@given(st.text(alphabet="abc XYZ中文，。\u200b１２-:", max_size=60))
@settings(max_examples=60, deadline=None)
def test_text_without_finds_is_untouched(text: str) -> None:
    """Normalising is for detection only."""
    selection = select(text)
    assert selection.found or selection.text == text


@pytest.mark.parametrize(
    "piece",
    [
        "eyJ",
        "sk-",
        "password is ",
        "://a:",
        "GB82 ",
        "-----BEGIN PRIVATE ",
        "bsn 123456782 ",
        "1 ",
        "4111 ",
        "my diabetes ",
        "我有糖尿病",
        "I have a cancer, ",
        "a cancer a ",
        "我",
        "a@b.",
        "password for a b c ",
        "mysql -p",
        "身份证 ",
        "curl -u a:b1 ",
        "is my pin ",
        "abandon ",
        "糖尿病",
        "pregnant ",
        "(1) 2-",
        "头疼",
    ],
)
def test_crafted_text_takes_linear_time(piece: str) -> None:
    """A long text made to trap a pattern is no trap."""
    select("warm up my diabetes 4111 1111 1111 1111")
    assert spent(select, piece * (100_000 // len(piece))) < 2


def test_many_numbers_take_linear_time_where_phones_are_looked_for() -> None:
    """Different ones, so that none is remembered."""
    every = Selector(EVERYTHING)
    every("warm up +49 30 901820")
    few, many = (
        spent(every, " x ".join(str(10**9 + 7919 * i * count) for i in range(count)))
        for count in (100, 400)
    )
    assert many < 8 * few + 0.5


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


def test_a_policy_extends_what_is_noise_and_wants_some_of_it() -> None:
    """Types of events are compared without their signs, and the built-in ones can be wanted."""
    policy = PrivacyPolicy(noise_events=["Ad-Shown"], wanted_events=["scroll"])
    assert is_noise("ad_shown", "banner 4", policy)
    assert not is_noise("ad_shown", "banner 4")
    assert is_noise("scroll", "to the end")
    assert not is_noise("scroll", "to the end", policy)
    assert is_noise("scroll", " ", policy)
    assert is_noise("stray_click", "body")
    assert is_noise("tool.token", "abc")


def test_drop_says_that_the_whole_message_goes() -> None:
    """And its text has the placeholder all the same."""
    selection = Selector(PrivacyPolicy(secrets="drop"))("password: hunter2")
    assert (selection.drop, selection.text) == (True, "password: [secret]")
    assert not Selector(PrivacyPolicy(secrets="drop"))("size 42").drop


def test_a_clause_of_two_categories_counts_for_both() -> None:
    """The strictest treatment of the two is the one that counts."""
    text = "My wife is Jewish with diabetes."
    both = select(text)
    assert (both.text, both.found) == ("[special].", {"special": 1})
    assert both.special == {"faith": 1, "health": 1}
    for category in ("faith", "health"):
        policy = PrivacyPolicy(special_categories={category: "drop"})
        assert Selector(policy)(text).drop


def test_contacts_go_where_a_policy_says_so() -> None:
    """By default an address and a number stay; under a policy their placeholders stand."""
    text = "写信到 anna@example.org，或打 13800138000"
    assert select(text).text == text
    assert Selector(EVERYTHING)(text).text == "写信到 [email]，或打 [phone]"
    assert Selector(PrivacyPolicy(phones="drop"))(text).drop


def test_what_is_kept_under_limits_tells_them() -> None:
    """The label of each kind and the shortest lifetime; the text stays."""
    policy = PrivacyPolicy(
        special_categories={"health": Treatment(action="keep", lifetime="P30D", access="care")},
        emails=Treatment(action="keep", lifetime=3_600),
    )
    text = "I have diabetes, write to anna@example.org"
    kept = Selector(policy)(text)
    assert (kept.text, kept.access, kept.lifetime) == (text, ("care",), timedelta(hours=1))
    assert (kept.special, kept.found) == ({"health": 1}, {})
    other = Selector(policy)("I'm gay and I have diabetes")
    assert other.text == "[special] and I have diabetes"
    assert other.special == {"sex": 1, "health": 1}
    plain = Selector(policy)("size 42")
    assert (plain.access, plain.lifetime, plain.special) == ((), None, {})


def test_allergies_stay_until_a_policy_takes_them_out() -> None:
    """A memory that forgets an allergy does harm; who wants it redacted says so."""
    text = "I am allergic to peanuts. 我对花生过敏。"
    assert select(text).text == text
    assert select(text).special == {}
    assert Selector(PrivacyPolicy(allergies="redact"))(text).text == "[special]. [special]。"


def test_words_of_a_policy_extend_and_narrow_the_lists() -> None:
    """A given word counts wherever it stands; a harmless phrase never does."""
    policy = PrivacyPolicy(
        special_words={"health": ["zeta fog", "丙型雾"]}, harmless_words=["diabetes camp"]
    )
    mine = Selector(policy)
    assert mine("Zeta-Fog again, size 42").text == "[special], size 42"
    assert mine("丙型雾又来了，尺码42").text == "[special]，尺码42"
    assert mine("I have a diabetes camp in July").text == "I have a diabetes camp in July"
    assert select("I have a diabetes camp in July").text == "[special]"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"special": "keep"}, "needs a lifetime and an access label"),
        ({"special": {"action": "keep", "lifetime": 60}}, "needs a lifetime and an access label"),
        ({"special_categories": {"health": "keep"}}, "special_categories.health: 'keep' needs"),
        ({"cards": "keep"}, "cards: 'keep' needs a lifetime"),
        ({"emails": {"action": "keep", "lifetime": 0}}, "longer than nothing"),
        ({"emails": {"action": "redact", "access": "x"}}, "are for what is kept"),
        ({"emails": "hide"}, "'redact', 'drop' or 'keep'"),
        ({"special_words": {"money": ["rich"]}}, "special_words.money"),
        ({"special_words": {"health": ["x"]}}, "too short"),
        ({"harmless_words": [" "]}, "too short"),
        ({"noise_events": ["--"]}, "names no type"),
        ({"noise_events": ["ad"], "wanted_events": ["AD"]}, "both name 'ad'"),
        ({"phone_regions": ["China"]}, "two letters, not 'China'"),
        ({"retention": [{"older_than": -1}]}, "longer than nothing"),
        ({"retention": [{"older_than": 9, "layer": "message", "kind": "plan"}]}, "kind is of fact"),
        ({"retention": [{"older_than": 9, "event_type": "a", "label": "b"}]}, "make two of it"),
        ({"secret": "redact"}, "secret: Extra inputs"),
    ],
)
def test_a_policy_is_checked_where_it_is_made(fields: dict[str, object], said: str) -> None:
    """A slip is a ConfigError that names the field, made directly or from a dict."""
    with pytest.raises(ConfigError, match=said):
        PrivacyPolicy(**fields)
    with pytest.raises(ConfigError, match=said):
        as_record(PrivacyPolicy, fields, "privacy")


def test_a_policy_survives_its_forms() -> None:
    """As JSON, as a dict and pickled inside a selector it is the same policy."""
    policy = PrivacyPolicy(
        special=Treatment(action="keep", lifetime="P7D", access="care"),
        id_numbers=Treatment(action="keep", lifetime=60),
        retention=[Retention(older_than="P90D", layer="fact", kind="plan")],
        noise_events={"ad"},
    )
    assert PrivacyPolicy.model_validate_json(policy.model_dump_json()) == policy
    assert as_record(PrivacyPolicy, policy.model_dump(), "privacy") == policy
    assert pickle.loads(pickle.dumps(Selector(policy))) == Selector(policy)  # noqa: S301
    assert policy.treatment("health").access == "care"
    assert policy.treatment("allergy") == KEEP


def test_libraries_load_at_the_first_text_that_needs_them() -> None:
    """Neither a plain text nor the default policy loads the finder of telephone numbers."""
    code = (
        "import sys; from agently_gumem.remember.select import Selector;"
        "names = ('stdnum', 'detect_secrets', 'phonenumbers');"
        "assert not [n for n in names if n in sys.modules];"
        "Selector()('card 4111 1111 1111 1111, call +49 30 901820');"
        "print([n for n in names if n in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "['stdnum', 'detect_secrets']"
