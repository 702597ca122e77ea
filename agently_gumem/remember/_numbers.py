"""Where numbers of cards, accounts and people stand in a text: forms, and python-stdnum's checks.

A form that no ordinary number has counts by its checksum alone; one that is only digits, whose
checksum one number in ten or so passes by chance, needs a word beside it that says what it is.
Every pattern is linear: it starts only where the character before can't belong to it, and what
repeats is bounded or can't match in two ways.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from importlib import import_module

Found = tuple[int, int, str]
"""Start, end, kind."""
Check = Callable[[str], bool]

_GAP = r"[\s.-]{0,3}"
# Less than that is in none of them.
_SIX_DIGITS = re.compile(r"\d(?:[\s./()-]{0,3}[A-Za-z]?\d){5}")
_DIGIT_RUN = re.compile(rf"(?<!\d)\d(?:{_GAP}\d){{12,}}(?:[ -]?[Xx](?![A-Za-z]))?")
_GROUP = re.compile(r"\d+[Xx]?|[Xx]")
# Issuer prefixes and lengths of ISO/IEC 7812 ranges in use: a Luhn sum alone passes one in ten.
_CARD = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}"
    r"|3[47]\d{13}|6(?:011|5\d\d|4[4-9]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|35(?:2[89]"
    r"|[3-8]\d)\d{12}"
    r"|62\d{14,17}|(?:5018|5020|5038|6304|6759|676[13])\d{8,15}"
)
# What a number is called that passes the sum by chance, right before it.
_NO_CARD = re.compile(
    r"(?:order|invoice|tracking|shipment|ticket|imei|isbn|utm|订单|运单|快递单?|物流|流水|发票"
    r"|工单)"
    r"(?:[\s_]?(?:number|no\.?|id|#|号码?|编号))?[\"']?\s?(?:is|was|是|为|[:：=#])?\s?[\"']?$",
    re.IGNORECASE,
)
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d\d(?:[ -]?[A-Za-z0-9]){11,30}")
_MAX_GROUPS = 19
_MIN_GROUP = 4

# Where the words before it say what a number is, no checksum is asked for: a slip of the pen in
# somebody's number leaves it theirs.
_LINK = (
    r"(?:\s?(?:number|no\.?|num|#|[号號][码碼]?|字[号號]|账?号))?"
    r"\s?(?:['’]s|is|was|ist|es|är|er|é|是|为)?\s?[:：=#]?\s?[\"']?"
)
_TOLD: tuple[tuple[str, str, str], ...] = (
    (
        "id-number",
        "身[份分][证證]|证件|居民证|identity card|id card|national id|id no",
        r"\d(?:[ -]?\d){8,16}[\dXx]",
    ),
    ("id-number", "ssn|social security|itin", r"\d{3}[ -]?\d\d[ -]?\d{4}"),
    ("id-number", "national insurance|nino|(?-i:NI)", r"[A-Z]{2}(?: ?\d\d){3} ?[A-D]"),
    (
        "id-number",
        "[护護]照|passport|driver['’]?s licen[cs]e|driving licen[cs]e|驾驶证|驾照|pesel|bsn|"
        "steuer-?id|nhs|personnummer|dni|nie|codice fiscale|通行证|社保|医保卡",
        r"(?=[A-Z0-9 ]{0,12}\d{3})[A-Z0-9](?: ?[A-Z0-9]){6,17}",
    ),
    ("id-number", "台胞证|回乡证|居住证", r"[A-Z]?\d{8,18}"),
    ("id-number", "hkid|香港身[份分][证證]|香港id", r"[A-Z]{1,2}\d{6}\s?(?:\([0-9A]\)|[0-9A])"),
    ("id-number", "[台臺][湾灣]身[份分][证證]|身[份分][证證]", r"[A-Z][0-9A-D]\d{8}"),
    ("id-number", "澳[门門]身[份分][证證]", r"[1578]/?\d{6}/?\(?\d\)?"),
    (
        "card",
        "(?:(?:credit|debit|bank)[ _]?)?card|信用卡|[银銀]行卡|储蓄卡|工资卡|卡",
        r"\d(?:[ -]?\d){12,18}",
    ),
    (
        "bank-account",
        r"(?:bank )?account (?:number|no\b\.?)|bank account|iban|银行账户|银行账|银行帐|收款账|"
        "对公账户|对公账|收款账户",
        r"\d(?:[ -]?\d){7,20}",
    ),
    ("bank-account", "[账帐帳][号號户戶]|户头", r"\d(?:[ -]?\d){11,20}"),
    ("bank-account", r"sort ?code[^\n]{0,24}account", r"\d{8}"),
)
_TOLD_NUMBERS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(rf"(?<![A-Za-z_])(?:{words}){_LINK}({number})(?![A-Za-z0-9])", re.IGNORECASE))
    for kind, words, number in _TOLD
)
# The same the other way round: "... is my national insurance number".
_TOLD_AFTER: tuple[re.Pattern[str], ...] = tuple(
    re.compile(
        rf"(?<![A-Za-z0-9-])({number})\s?(?:is|was|是)\s?"
        rf"(?:my|his|her|our|their|the|[我他她]的?)?\s?(?:{words})(?![A-Za-z])",
        re.IGNORECASE,
    )
    for kind, words, number in _TOLD
    if kind == "id-number"
)

# Form, module of python-stdnum.
_FORMS: tuple[tuple[str, str], ...] = (
    (r"\d{3}-\d\d-\d{4}", "us.ssn"),
    (r"9\d\d-\d\d-\d{4}", "us.itin"),
    (r"\d{8}-?[A-Z]", "es.dni"),
    (r"[XYZ]-?\d{7}-?[A-Z]", "es.nie"),
    (r"\d{6}[-+A-FU-Y]\d{3}[0-9A-Y]", "fi.hetu"),
    (r"[12] ?\d\d ?\d\d ?\d[\dAB] ?\d{3} ?\d{3} ?\d\d", "fr.nir"),
    (r"(?i:[A-Z]{6}\d\d[A-Z]\d\d[A-Z]\d{3}[A-Z])", "it.codicefiscale"),
    (r"756\.?\d{4}\.?\d{4}\.?\d\d", "ch.ssn"),
    (r"\d\d\.\d\d\.\d\d-\d{3}\.\d\d", "be.nn"),
    (r"\d{6}-[1-4]\d{6}", "kr.rrn"),
    (r"\d{3}\.\d{3}\.\d{3}-\d\d", "br.cpf"),
    (r"\d{6}/\d{4}", "cz.rc"),
)
_DIGITS = r"\d(?:[ .-]?\d)"
# Words, form, module: the number stands near the word, before or behind it.
_CUED: tuple[tuple[str, str, str], ...] = (
    ("身份证|证件|居民证", r"\d{15}|\d{6} \d{8} \d{3}[\dXx]", "cn.ric"),
    ("nhs", _DIGITS + "{9}", "gb.nhs"),
    ("steuer|tax id|idnr", _DIGITS + "{10}", "de.idnr"),
    ("sécu|nir|insee|numéro de s", r"[12](?: ?[\dAB]){14}", "fr.nir"),
    ("dni|nif", r"\d{8}[ -]?[A-Z]", "es.dni"),
    ("nie", r"[XYZ][ -]?\d{7}[ -]?[A-Z]", "es.nie"),
    ("bsn|burgerservice|sofi", _DIGITS + "{7,8}", "nl.bsn"),
    ("personn(?:umme)?r|personal number", r"(?:\d\d)?\d{6}[-+ ]?\d{4}", "se.personnummer"),
    ("pesel", _DIGITS + "{10}", "pl.pesel"),
    ("hetu|henkilö", r"\d{6} ?[-+A-FU-Y] ?\d{3}[0-9A-Y]", "fi.hetu"),
    ("rijksregister|registre national|nationaal nummer|niss", _DIGITS + "{10}", "be.nn"),
    ("nif|contribuinte", _DIGITS + "{8}", "pt.nif"),
    ("cartão de cidadão|cidad", r"\d{8} ?\d ?[A-Z0-9]{2}\d", "pt.cc"),
    ("cpr", r"\d{6}[- ]?\d{4}", "dk.cpr"),
    ("fødselsn|fodselsn|personn(?:umme)?r", r"\d{6} ?\d{5}", "no.fodselsnummer"),
    ("ahv|avs|oasi", r"756(?:[ .-]?\d){10}", "ch.ssn"),
    ("sv-?n|sozialversicherung|versicherungsn", _DIGITS + "{9}", "at.vnr"),
    ("pps", r"\d{7}[A-Z]{1,2}", "ie.pps"),
    ("amka", _DIGITS + "{10}", "gr.amka"),
    ("rodné|rodne", r"\d{6}/?\d{3,4}", "cz.rc"),
    ("cnp", _DIGITS + "{12}", "ro.cnp"),
    ("egn|егн", _DIGITS + "{9}", "bg.egn"),
    ("oib", _DIGITS + "{10}", "hr.oib"),
    ("emšo|emso", _DIGITS + "{12}", "si.emso"),
    ("isikukood", _DIGITS + "{10}", "ee.ik"),
    ("asmens kod", _DIGITS + "{10}", "lt.asmens"),
    ("cpf", _DIGITS + "{10}", "br.cpf"),
    ("aadhaar", _DIGITS + "{11}", "in_.aadhaar"),
    (r"pan(?: card| number| no)", r"[A-Z]{5}\d{4}[A-Z]", "in_.pan"),
    ("주민", r"\d{6}-?\d{7}", "kr.rrn"),
)
_BEFORE, _BEHIND = 24, 44
_ORDER_YEARS = range(11, 36)
_SE_FORM = re.compile(r"(?<![A-Za-z0-9-])(?:(?:19|20)?(\d\d))\d{4}[-+]\d{4}(?![A-Za-z0-9-])")


def find_numbers(text: str) -> Iterator[Found]:
    """Yield every number of a card, an account or a person; places may overlap."""
    if _SIX_DIGITS.search(text) is None:
        return
    yield from _digit_runs(text)
    yield from _ibans(text)
    for pattern, module in _forms():
        yield from (
            (m.start(), m.end(), "id-number")
            for m in pattern.finditer(text)
            if _valid(module, m.group())
        )
    yield from _births(text)
    yield from _cued(text)
    # Last: of two kinds for one number, that of a checksum stands.
    for kind, pattern in _TOLD_NUMBERS:
        yield from ((m.start(1), m.end(1), kind) for m in pattern.finditer(text))
    for pattern in _TOLD_AFTER:
        yield from ((m.start(1), m.end(1), "id-number") for m in pattern.finditer(text))


def _digit_runs(text: str) -> Iterator[Found]:
    """Look at every stretch of whole groups in a run: a card may stand beside another number."""
    for run in _DIGIT_RUN.finditer(text):
        groups = [(m.start(), m.end()) for m in _GROUP.finditer(text, run.start(), run.end())]
        first = 0
        while first < len(groups):
            last, kind = _longest(text, groups, first)
            if kind and not (kind == "card" and _is_no_card(text, groups[first][0])):
                yield groups[first][0], groups[last][1], kind
            first = last + 1


def _is_no_card(text: str, start: int) -> bool:
    return _NO_CARD.search(text[max(0, start - 32) : start]) is not None


def _longest(text: str, groups: list[tuple[int, int]], first: int) -> tuple[int, str]:
    number, best = "", (first, "")
    spelled = len(groups) <= _MAX_GROUPS  # one digit at a time, and nothing else
    if not spelled and groups[first][1] - groups[first][0] < _MIN_GROUP:
        return best
    for last in range(first, min(first + _MAX_GROUPS, len(groups))):
        number += text[slice(*groups[last])]
        if len(number) > 19:
            break
        size = groups[first][1] - groups[first][0]
        # As cards are printed.
        kind = _kind(number, size in (4, 6) or last == first or (spelled and size == 1))
        best = (last, kind) if kind else best
    return best


def _kind(number: str, printed: bool) -> str:
    """Tell the kind of a number; `printed` is False for a row of prices and the like."""
    if len(number) == 18 and _valid("cn.ric", number):
        return "id-number"
    if printed and number.isdecimal() and _CARD.fullmatch(number) and _valid("luhn", number):
        return "card"
    return ""


def _ibans(text: str) -> Iterator[Found]:
    for match in _IBAN.finditer(text):
        number = match.group()
        for end in range(len(number), 14, -1):
            whole = end == len(number) or not number[end].isalnum() or not number[end - 1].isalnum()
            if whole and number[end - 1].isalnum() and _valid("iban", number[:end]):
                yield match.start(), match.start() + end, "bank-account"
                break


def _births(text: str) -> Iterator[Found]:
    """Find Swedish numbers: a date and a check digit, as numbers of orders have them by chance.

    Those carry a date of these years. The years are fixed: what a text becomes must not depend on
    the day on which it is looked at.
    """
    for match in _SE_FORM.finditer(text):
        if int(match.group(1)) not in _ORDER_YEARS and _valid("se.personnummer", match.group()):
            yield match.start(), match.end(), "id-number"


def _cued(text: str) -> Iterator[Found]:
    any_cue, rows = _cues()
    if any_cue.search(text) is None:
        return
    for cue, form, module in rows:
        for word in cue.finditer(text):
            near = form.finditer(text, max(0, word.start() - _BEFORE), word.end() + _BEHIND)
            for match in near:
                whole = not text[match.end() : match.end() + 1].isalnum()
                if whole and _valid(module, match.group()):
                    yield match.start(), match.end(), "id-number"


@lru_cache(maxsize=1)
def _forms() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple(
        (re.compile(rf"(?<![A-Za-z0-9-]){form}(?![A-Za-z0-9-])"), module) for form, module in _FORMS
    )


@lru_cache(maxsize=1)
def _cues() -> tuple[re.Pattern[str], tuple[tuple[re.Pattern[str], re.Pattern[str], str], ...]]:
    """Give a pattern of all words together, and each word's own with its form and module."""
    rows = tuple(
        (
            re.compile(_word(words), re.IGNORECASE),
            re.compile(rf"(?<![A-Za-z0-9-])(?:{form})(?![A-Za-z0-9])", re.IGNORECASE),
            module,
        )
        for words, form, module in _CUED
    )
    return re.compile("|".join(_word(words) for words, _, _ in _CUED), re.IGNORECASE), rows


def _word(words: str) -> str:
    return rf"(?<![A-Za-z])(?:{words})"


def _valid(module: str, number: str) -> bool:
    return _check(module)(number)


@lru_cache(maxsize=64)
def _check(module: str) -> Check:
    """Load a check of python-stdnum at its first use."""
    import stdnum

    check: Check = import_module(f"{stdnum.__name__}.{module}").is_valid
    return partial(_checked, check)


def _checked(check: Check, number: str) -> bool:
    return check(number.replace(" ", ""))
