"""Where secrets, cards, identity and account numbers stand in a text: patterns and checksums.

Every pattern is linear: it starts only where the character before can't belong to it, and what
repeats is bounded or can't match in two ways.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

Found = tuple[int, int, str]
"""Start, end, kind."""

_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?!-----END)[A-Za-z0-9+/=\s:,.\\-])*(?:-----END [A-Z0-9 ]{0,40}-----)?"
)
# Beside those of detect-secrets, whose patterns for these are narrow, or quadratic on long text.
_KEYS = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"sk-(?=[A-Za-z0-9_-]*[0-9A-Z]|[A-Za-z0-9_]{20})[A-Za-z0-9_-]{16,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)?"
    r"|AIza[A-Za-z0-9_-]{35}|(?:github_pat|gsk|hf|npm|whsec|xai|dop_v1)[_-][A-Za-z0-9_]{20,}"
    r"|[rsp]k_(?:live|test)_[A-Za-z0-9]{16,}|LTAI[A-Za-z0-9]{12,24}|AKID[A-Za-z0-9]{13,40})"
)
_BEARER = re.compile(
    r"(?<![A-Za-z])(?:bearer|authorization:\s?basic)\s+((?=[^\s\d]{0,200}\d)[A-Za-z0-9._~+/=-]{12,})",
    re.IGNORECASE,
)
# Words after which any value is a secret, and those that need a value with a digit in it.
_STRONG = (
    r"(?<![A-Za-z])(?:pass(?:word|wd|code|phrase)|pwd|api[ _-]?key|"
    r"secret[ _-]?(?:access[ _-]?)?key|private[ _-]?key)|密码|口令|密钥|私钥|通行码"
)
_WEAK = (
    r"(?<![A-Za-z])(?:secret|(?:access|auth|refresh|api|client|session)[ _-]?(?:key|token|secret)|"
    r"token|pin(?:[ _-]?code)?|cv[vc]2?|(?:verification|security|recovery|one[ -]time)[ _-]?code|"
    r"otp)|验证码|动态码|安全码|令牌"
)
_FOR = r"(?:\s(?:for|to|of|on|at)(?:\s[a-z0-9'-]{1,20}){1,4}?)?"
_ASSIGN = "[\"']?\\s{0,3}(?:[:=：]|=>|->)\\s{0,3}"
_IS = r"\s?(?:'s|\sis(?: now)?|\sare|\swas|是|为|改成了?|改为|设为|设成)\s?[:：]?\s?"
_VALUE = r"(?:[\"'“「]([^\"'”」\n]{3,100})[\"'”」]|([!-~]{3,200}))"
_DIGITAL = (
    r"(?:[\"'“「](?=[^\"'”」\n]{0,99}\d)([^\"'”」\n]{3,100})[\"'”」]"
    r"|((?=[!-~]{0,199}\d)[!-~]{3,200}))"
)
_ASSIGNED = re.compile(rf"(?:{_STRONG}){_FOR}{_ASSIGN}{_VALUE}", re.IGNORECASE)
_TOLD = re.compile(
    rf"(?:(?:{_STRONG})(?:{_FOR}{_IS}|\s)|(?:{_WEAK}){_FOR}(?:{_ASSIGN}|{_IS})){_DIGITAL}",
    re.IGNORECASE,
)
_TAIL = ".,;!?)]}>\"'"
_SHORT_NUMBER = 4

_DIGIT_RUN = re.compile(r"(?<!\d)\d(?:[ .-]{0,2}\d){12,}(?:[ -]?[Xx](?![A-Za-z]))?")
_GROUP = re.compile(r"\d+[Xx]?|[Xx]")
# Issuer prefixes and lengths of ISO/IEC 7812 ranges in use: a Luhn sum alone passes one in ten.
_CARD = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}"
    r"|3[47]\d{13}|6(?:011|5\d\d|4[4-9]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}"
    r"|62\d{14,17}|(?:5018|5020|5038|6304|6759|676[13])\d{8,15}"
)
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d\d(?:[ -]?[A-Za-z0-9]){11,30}")
_MAX_GROUPS = 19

# Where the words before it say what a number is, no checksum is asked for: a slip of the pen in
# somebody's number leaves it theirs.
_LINK = r"(?:\s?(?:number|no\.?|num|#|号码?|账?号))?\s?(?:is|was|是|为)?\s?[:：=#]?\s?"
_TOLD_NUMBERS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(rf"(?<![A-Za-z])(?:{words}){_LINK}({number})(?![A-Za-z0-9])", re.IGNORECASE))
    for kind, words, number in (
        ("id-number", "身份证|identity card|id card|national id", r"\d(?:[ -]?\d){8,16}[\dXx]"),
        ("id-number", r"ssn|social security", r"\d{3}[ -]?\d\d[ -]?\d{4}"),
        (
            "id-number",
            r"护照|passport|driver'?s licen[cs]e|pesel|bsn|steuer-?id|nhs|personnummer",
            r"(?=[A-Z0-9 ]{0,12}\d{3})[A-Z0-9](?: ?[A-Z0-9]){6,11}",
        ),
        ("card", r"(?:credit|debit|bank)? ?card|信用卡|银行卡|储蓄卡|卡", r"\d(?:[ -]?\d){12,18}"),
        (
            "bank-account",
            "(?:bank )?account (?:number|no)|bank account|iban|银行账户|银行账|银行帐|收款账",
            r"\d(?:[ -]?\d){7,20}",
        ),
    )
)  # fmt: skip


def find(text: str) -> Iterator[Found]:
    """Yield every place that is not for memory; places may overlap."""
    yield from ((m.start(), m.end(), "secret") for m in _PEM.finditer(text))
    yield from ((m.start(), m.end(), "secret") for m in _KEYS.finditer(text))
    yield from ((m.start(1), m.end(1), "secret") for m in _BEARER.finditer(text))
    yield from _provider_keys(text)
    yield from _told_secrets(text)
    for kind, pattern in _TOLD_NUMBERS:
        yield from ((m.start(1), m.end(1), kind) for m in pattern.finditer(text))
    yield from _digit_runs(text)
    yield from _ibans(text)
    for pattern, valid in _checked():
        yield from (
            (m.start(), m.end(), "id-number") for m in pattern.finditer(text) if valid(m.group())
        )


def _told_secrets(text: str) -> Iterator[Found]:
    for pattern in (_ASSIGNED, _TOLD):
        for match in pattern.finditer(text):
            group = 1 if match.group(1) else 2
            start, value = match.start(group), match.group(group).rstrip(_TAIL)
            counted = value.isdecimal() and match.group()[:5].lower() == "token"
            if _is_secret(value) and not counted:
                yield start, start + len(value), "secret"


def _is_secret(value: str) -> bool:
    """Leave out placeholders, and what is a plain short number or a remark."""
    if value.startswith(("[", "${", "<", "{{", "*")) or "](" in value:
        return False
    return len(value) >= _SHORT_NUMBER or (len(value) > 2 and not value.isalpha())


def _digit_runs(text: str) -> Iterator[Found]:
    """Look at every stretch of whole groups in a run: a card may stand beside another number."""
    for run in _DIGIT_RUN.finditer(text):
        groups = [(m.start(), m.end()) for m in _GROUP.finditer(text, run.start(), run.end())]
        first = 0
        while first < len(groups):
            last, kind = _longest(text, groups, first)
            if kind:
                yield groups[first][0], groups[last][1], kind
            first = last + 1


def _longest(text: str, groups: list[tuple[int, int]], first: int) -> tuple[int, str]:
    number, best = "", (first, "")
    spelled = len(groups) <= _MAX_GROUPS  # one digit at a time, and nothing else
    if not spelled and groups[first][1] - groups[first][0] < _SHORT_NUMBER:
        return best
    for last in range(first, min(first + _MAX_GROUPS, len(groups))):
        number += text[slice(*groups[last])]
        if len(number) > 19:
            break
        size = groups[first][1] - groups[first][0]
        kind = _kind(
            number, size in (4, 6) or last == first or (spelled and size == 1)
        )  # as cards are printed
        best = (last, kind) if kind else best
    return best


def _kind(number: str, printed: bool) -> str:
    """Tell the kind of a number; `printed` is False for a row of prices and the like."""
    if len(number) == 18 and _numbers().resident(number):
        return "id-number"
    if printed and number.isdecimal() and _CARD.fullmatch(number) and _numbers().luhn(number):
        return "card"
    return ""


def _ibans(text: str) -> Iterator[Found]:
    for match in _IBAN.finditer(text):
        number = match.group()
        for end in range(len(number), 14, -1):
            whole = end == len(number) or not number[end].isalnum() or not number[end - 1].isalnum()
            if whole and number[end - 1].isalnum() and _numbers().iban(number[:end]):
                yield match.start(), match.start() + end, "bank-account"
                break


class _Numbers:
    """The checksums of python-stdnum."""

    def __init__(self) -> None:
        from stdnum import iban, luhn
        from stdnum.cn import ric

        self.luhn: Callable[[str], bool] = luhn.is_valid
        self.iban: Callable[[str], bool] = iban.is_valid
        self.resident: Callable[[str], bool] = ric.is_valid


@lru_cache(maxsize=1)
def _numbers() -> _Numbers:
    return _Numbers()


@lru_cache(maxsize=1)
def _checked() -> tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...]:
    """Pair forms that ordinary numbers do not have with their checks."""
    from stdnum.es import dni, nie
    from stdnum.fi import hetu
    from stdnum.fr import nir
    from stdnum.it import codicefiscale
    from stdnum.se import personnummer
    from stdnum.us import ssn

    forms: tuple[tuple[str, Callable[[str], bool]], ...] = (
        (r"\d{3}-\d\d-\d{4}", ssn.is_valid),
        (r"\d{8}-?[A-Z]", dni.is_valid),
        (r"[XYZ]-?\d{7}-?[A-Z]", nie.is_valid),
        (r"\d{6}[-+A]\d{3}[0-9A-Y]", hetu.is_valid),
        (r"(?:\d\d)?\d{6}[-+]\d{4}", personnummer.is_valid),
        (r"[12] ?\d\d ?\d\d ?\d[\dAB] ?\d{3} ?\d{3} ?\d\d", nir.is_valid),
        (r"[A-Z]{6}\d\d[A-Z]\d\d[A-Z]\d{3}[A-Z]", codicefiscale.is_valid),
    )
    return tuple(
        (re.compile(rf"(?<![A-Za-z0-9-]){form}(?![A-Za-z0-9-])"), valid) for form, valid in forms
    )


@lru_cache(maxsize=1)
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Take the patterns of those plugins that match plain text in linear time.

    The patterns, not `analyze_string`: where a pattern has groups that gives only the group
    ("ghp" of a GitHub token). Its scanning API needs settings that are global to the process.
    """
    from detect_secrets.plugins import (
        aws,
        azure_storage_key,
        discord,
        github_token,
        gitlab_token,
        mailchimp,
        pypi_token,
        sendgrid,
        slack,
        square_oauth,
        stripe,
        telegram_token,
        twilio,
    )

    # The abstract property of the base class hides from a checker that it is a sequence.
    detectors: tuple[Any, ...] = (
        aws.AWSKeyDetector, azure_storage_key.AzureStorageKeyDetector,
        discord.DiscordBotTokenDetector, github_token.GitHubTokenDetector,
        gitlab_token.GitLabTokenDetector, mailchimp.MailchimpDetector,
        pypi_token.PypiTokenDetector, sendgrid.SendGridDetector, slack.SlackDetector,
        square_oauth.SquareOAuthDetector, stripe.StripeDetector,
        telegram_token.TelegramBotTokenDetector, twilio.TwilioKeyDetector,
    )  # fmt: skip
    return tuple(pattern for detector in detectors for pattern in detector.denylist)


_URL_PASSWORD = re.compile(r"://[^:/?#\[\]@\s]{0,200}:([^:/?#\[\]@\s]{1,200})@")


def _provider_keys(text: str) -> Iterator[Found]:
    for pattern in _patterns():
        yield from ((m.start(), m.end(), "secret") for m in pattern.finditer(text))
    yield from ((m.start(1), m.end(1), "secret") for m in _URL_PASSWORD.finditer(text))
