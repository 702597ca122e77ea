"""Where keys, tokens and passwords stand in a text: the patterns of detect-secrets, and our own.

Every pattern is linear: it starts only where the character before can't belong to it, and what
repeats is bounded or can't match in two ways.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

Span = tuple[int, int]

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
    r"(?<![A-Za-z])(?:bearer"
    r"|authorization:\s?basic)\s+((?=[^\s\d]{0,200}\d)[A-Za-z0-9._~+/=-]{12,})",
    re.IGNORECASE,
)
# Words after which any value is a secret, and those that need a value with a digit in it.
_LATIN = (
    r"(?<![A-Za-z])(?:pass(?:word|wd|code|phrase)|pwd|api[ _-]?key|"
    r"secret[ _-]?(?:access[ _-]?)?key|private[ _-]?key)"
)
_HAN = r"密[码碼]|口令|密钥|私钥|通行码"
_STRONG = rf"{_LATIN}|{_HAN}"
_CODE = (
    r"(?<![A-Za-z])(?:(?:verification|security|recovery|backup|one[ -]time|login|door|gate"
    r"|alarm|locker|safe|"
    r"entry|garage|lock|unlock|2fa|access|entrance|lockbox|combination)[ _-]?code|otp)"
    r"|[验驗][证證][码碼]|动态码|校验码|安全码|激活码"
)
_WEAK = (
    r"(?<![A-Za-z])(?:secret|(?:access|auth|refresh|api|client|session|app)[ _-]?(?:key|token"
    r"|secret)|"
    rf"token|pin(?:[ _-]?code)?|cv[vc]2?)|令牌|{_CODE}"
)
_FOR = r"(?:\s(?:for|to|of|on|at)(?:\s[a-z0-9'-]{1,20}){1,4}?)?"
_ASSIGN = "[\"']?\\s{0,3}(?:[:=：]|=>|->)\\s{0,3}"
_IS = (
    r"\s?(?:我们?|已经|刚)?(?:['’]s|\sthey (?:sent|texted|gave) (?:me )?(?:is|was)|"
    r"\sis(?: now| still)?|\sare|\swas|(?:[都就还]|一直)?是|为|改成了?|改为|换成了?|设为|设成了?|"
    r"设的是)\s?[:：]?\s?"
)
_QUOTED = r"[\"'“「]([^\"'”」\n]{3,100})[\"'”」]"
_VALUE = rf"(?:{_QUOTED}|([!-~]{{3,200}}))"
_DIGITAL = (
    r"(?:[\"'“「](?=[^\"'”」\n]{0,99}\d)([^\"'”」\n]{3,100})[\"'”」]"
    r"|((?=[!-~]{0,199}\d)[!-~]{3,200}))"
)
_TOLD: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:{_STRONG}){_FOR}{_ASSIGN}{_VALUE}",
        rf"(?:{_LATIN}){_FOR}{_IS}{_QUOTED}()",
        rf"(?:{_HAN}){_IS}{_VALUE}",
        rf"(?:(?:{_STRONG})(?:{_FOR}{_IS}|\s)|(?:{_WEAK}){_FOR}(?:{_ASSIGN}|{_IS}))\s?{_DIGITAL}",
        rf"(?:{_CODE})\s{_DIGITAL}",
        r"(?<![A-Za-z])cv[vc]2?\s()(\d{3,4})(?!\d)",
        r"(?<![\w-])()((?:[A-Z]-)?\d{4,8})\sis your\s(?:[\w'-]{1,20}\s){0,4}(?:code|otp"
        r"|pin)(?![a-z])",
        r"(?<![A-Za-z])code\s()(\d{4,8})\s(?:to|for)\s(?:log|sign|verif|confirm|authent|unlock)",
        r"(?<![!-~])()((?=[!-~]{0,63}\d)[!-~]{6,64})\s(?:as|is)\s(?:my|the|our|his|her"
        r"|your)\s(?:[a-z-]{1,12}\s){0,2}?"
        r"(?:password|passcode|passphrase|pin)(?![a-z])",
        r"密[码碼]分别[是为]\s?[!-~]{1,60}\s?[和、/]\s?()([!-~]{4,100})",
        r"(?:(?:recovery|seed|secret|backup)\s(?:phrase|words)|mnemonic|助记词)(?:\sis|\sare"
        r"|是)?\s?[:：]?\s?[\"']?"
        r"()([a-z]{3,8}(?:[ ,]{1,2}[a-z]{3,8}){11,23})",
        r"(?<![A-Za-z])(?:my|the|control|sim|card|bank|atm|phone|door|app|his|her"
        r"|our)\spin\s()(\d{4,8})(?![\d-])",
        r"(?<![A-Za-z])pass\s?[:=]\s?()((?=[!-~]{0,63}\d)[!-~]{4,64})",
        r"(?:[验驗][证證][码碼]|动态码"
        r"|校验码)[了是到为：:，, ]{0,3}()(\d{4,8})(?![\d位张个次年天秒分])",
        r"authorization\W{1,4}(?:token|apikey)\s()((?=[!-~]{0,99}\d)[!-~]{12,200})",
        r"(?<![A-Za-z])redis-cli\s[^\n]{0,80}?-a\s()([!-~]{3,100})",
        r"(?:密码|口令|验证码|动态码|校验码)()((?=[!-~]{0,30}\d)[A-Za-z0-9!@#$%^&*_.-]{6,64})",
        r"(?<![A-Za-z])(?:mysql|mysqldump|mariadb)\s[^\n]{0,80}?\s-p()([^\s\"']{3,100})",
        r"(?<![A-Za-z])(?:sshpass|curl)\s[^\n]{0,80}?-[pu]\s?(?:[\w.@-]{1,60}:)?()"
        r"((?=[^\s\"']{0,99}\d)[^\s\"'/:]{6,100})(?=\s)",
    )
)
# One of these is in each of them.
_TRIGGER = re.compile(
    r"pass|pwd|key|code|secret|token|pin|cv[vc]|otp|phrase|words|mnemonic|mysql|maria|curl|redis|"
    r"authorization|[密证證验校态动全活门][码碼]|口令|[密私]钥|令牌|助记词",
    re.IGNORECASE,
)
# What stands behind a name in a program, a form or a complaint, and is no value.
_EXPRESSION = re.compile(
    r"(?:[A-Za-z_][\w.]*[\[(]|[a-z_]+(?:\.[a-z_]+)+$|(?:os|self|this|process|settings|config"
    r"|env|args|req|request|secrets|cfg|"
    r"options|params|vault|data|user|form|ctx|state)[.\[(]|[A-Z]{2,}_[A-Z_]+$)"
)
_VARIABLE = re.compile(r"\$[A-Z][A-Z_]+")
_ORDINARY_WORDS = """
    string text true false none null undefined required optional varchar bytes secret password
    value key token wrong incorrect invalid changed forgotten missing empty expired reset
    unknown hidden redacted confidential xxxx xxxxx xxxxxx xxxxxxxx your_key your-key
    your_api_key your-api-key changeme example and but the input field keyring masked n/a todo
    tbd later soon
"""
_ORDINARY = frozenset(_ORDINARY_WORDS.split())
_TAIL = ".,;!?)]}>\"'"
_SHORT_NUMBER = 4
_URL_PASSWORD = re.compile(r"://[^:/?#\[\]@\s]{0,200}:([^:/\[\]@\s]{1,200})@")


def find_secrets(text: str) -> Iterator[Span]:
    """Yield every secret; places may overlap."""
    yield from (m.span() for m in _PEM.finditer(text))
    yield from (m.span() for m in _KEYS.finditer(text))
    yield from (m.span(1) for m in _BEARER.finditer(text))
    for pattern in _patterns():
        yield from (m.span() for m in pattern.finditer(text))
    yield from (m.span(1) for m in _URL_PASSWORD.finditer(text))
    if _TRIGGER.search(text):
        yield from _told_secrets(text)


def _told_secrets(text: str) -> Iterator[Span]:
    for pattern in _TOLD:
        for match in pattern.finditer(text):
            group = 1 if match.group(1) else 2
            start, value = match.start(group), match.group(group).rstrip(_TAIL)
            counted = value.isdecimal() and match.group()[:5].lower() == "token"
            if _is_secret(value) and not counted:
                yield start, start + len(value)


def _is_secret(value: str) -> bool:
    """Leave out placeholders, programs, and what is a plain short number or a remark."""
    if value.startswith(("[", "${", "<", "{{", "*", "$(", "%")) or "](" in value:
        return False
    if value.lower() in _ORDINARY or _EXPRESSION.match(value) or _VARIABLE.fullmatch(value):
        return False
    return len(value) >= _SHORT_NUMBER or (len(value) > 2 and not value.isalpha())


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
