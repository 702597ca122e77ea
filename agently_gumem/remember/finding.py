"""Where in a text what a policy acts on stands: by its form, and by what is said (pure).

Holds a third of the package's patterns, and is loaded with the first text that is selected.
"""

from collections.abc import Iterator
from typing import cast

from agently_gumem.privacy import Category, PrivacyPolicy, Treatment
from agently_gumem.remember._lexicon import Words, lexicon
from agently_gumem.remember._numbers import find_numbers
from agently_gumem.remember._secrets import find_secrets
from agently_gumem.remember.contacts import find_emails, find_phones
from agently_gumem.remember.special import statements

Found = tuple[int, int, str]
"""Start, end, category."""


def with_a_form(shadow: str, policy: PrivacyPolicy) -> Iterator[Found]:
    """Find what has a form of its own: secrets, numbers, addresses."""
    yield from ((*span, "secret") for span in find_secrets(shadow))
    yield from find_numbers(shadow)
    if _acts(policy.emails):
        yield from ((*span, "email") for span in find_emails(shadow))
    if _acts(policy.phones):
        spans = find_phones(shadow, policy.phone_regions)
        yield from ((*span, "phone") for span in spans)


def special(shadow: str, policy: PrivacyPolicy) -> Iterator[Found]:
    """Find the clauses that tell something special of somebody."""
    given: Words = tuple((c, tuple(w)) for c, w in policy.special_words.items())
    words = lexicon(given, tuple(policy.harmless_words))
    for start, end, category in statements(shadow, words):
        if _acts(policy.treatment(cast("Category", category))):
            yield start, end, category


def _acts(treatment: Treatment) -> bool:
    return treatment.action != "keep" or treatment.limited
