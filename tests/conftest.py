"""What all tests share: how hard hypothesis tries, the order of files, a model beside any agent."""

import os

import pytest
from agently import Agently
from e2e import own_settings
from hypothesis import HealthCheck, settings

# Enough to find a broken law in seconds; `HYPOTHESIS_PROFILE=thorough` looks longer.
settings.register_profile(
    "fast",
    max_examples=30,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("fast"), max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


# Agently makes a TLS context for each request, and the tests' own are not over TLS: to read no
# certificates for it saves a quarter of a turn's CPU.
Agently.set_settings("OpenAICompatible", {"client_options": {"verify": False}})


# Files that take longest begin, so that all workers end together.
SLOW = (
    "test_done_when",
    "test_processes",
    "test_server",
    "test_flow",
    "test_forget_whole",
    "test_forget_everywhere",
    "test_erase",
    "test_ways_in",
    "test_examples",
    "test_agently_traps",
    "test_falling_back",
)


def pytest_collection_modifyitems(items):
    """Order whole files, the slow ones first; within a file nothing moves."""
    items.sort(key=lambda item: SLOW.index(n) if (n := item.path.stem) in SLOW else len(SLOW))


@pytest.fixture
def use():
    """Point Agently's own settings to a server, for memory without an agent; then restore them."""

    def point(model):
        Agently.set_settings("OpenAICompatible", model.start().settings)
        return model

    with own_settings():
        yield point
