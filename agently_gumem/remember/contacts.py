"""Where addresses and telephone numbers stand in a text; looked for only where a policy asks.

Numbers are those of Google's libphonenumber (the `phonenumbers` package): its metadata says which
numbers a country has, and an order number or a date is none.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

Span = tuple[int, int]

_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+/-])[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9])"
)
_NO_MAILBOX = re.compile(r"(?:git|ssh)@|.*\.(?:png|jpe?g|gif|svg|webp)$", re.IGNORECASE)
_URL = re.compile(r"://[^\s/?]*$")
# Seven digits or more with little between them: the finder itself is slow on long text.
_NUMBER = re.compile(r"[+(]{0,2}\d(?:[\s()./-]{0,3}\d){6,24}")
_AROUND = 24
# What a number is called that is as long as those of a country.
_NO_PHONE = re.compile(
    r"(?:order|invoice|meeting|会议|订单|发票|学|工|单|编|upc|isbn|routing|id)\s?(?:number|no\.?|id|号码?|#)?"
    r"\s?[:：=#]?\s?$",
    re.IGNORECASE,
)


def find_emails(text: str) -> Iterator[Span]:
    """Yield every address; in the name of a picture, or before the host of a URL, is none."""
    for match in _EMAIL.finditer(text):
        in_url = _URL.search(text[max(0, match.start() - 64) : match.start()])
        if not in_url and not _NO_MAILBOX.match(match.group()):
            yield match.span()


def find_phones(text: str, regions: Iterable[str]) -> Iterator[Span]:
    """Yield every telephone number that is valid by its + code, or in one of the regions."""
    codes = tuple(regions) or ("ZZ",)
    for stretch in _NUMBER.finditer(text):
        start = max(0, stretch.start() - _AROUND)
        if _NO_PHONE.search(text[start : stretch.start()]):
            continue
        for first, last in _in_regions(text[start : stretch.end() + _AROUND], codes):
            yield start + first, start + last


@lru_cache(maxsize=1024)
def _in_regions(window: str, regions: tuple[str, ...]) -> tuple[Span, ...]:
    """Ask the library, half a millisecond for each; the same numbers come again and again."""
    from phonenumbers import Leniency, PhoneNumberMatcher

    return tuple(
        (match.start, match.end)
        for region in regions
        for match in PhoneNumberMatcher(window, region, Leniency.VALID)
    )
