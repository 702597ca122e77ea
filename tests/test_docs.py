"""Every example of the README and the docs runs, without a network and without a key."""

import inspect
from pathlib import Path

import pytest
from agently import Agently, TriggerFlow
from agently.core import Session
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from agently_gumem import GUMem
from agently_gumem.testing import RuleModel

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("README*.md"), *ROOT.glob("docs/*.md")])
# What this page says of versions has to hold on each of them.
ON_EACH_VERSION = {"compatibility.md": [pytest.mark.host]}
NAME = "OpenAICompatible"


@pytest.fixture
def model():
    """Stand in for the model that an application has configured, for Agently as a whole."""
    before = Agently.settings.get(NAME)
    with RuleModel() as model:
        Agently.set_settings(NAME, model.settings)
        yield model
    Agently.settings.delete(NAME)
    Agently.settings.set(NAME, before)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Run in a folder that is thrown away."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GUMEM_OFF", raising=False)
    return tmp_path


def for_this_version(page, folder):
    """Return the page as a reader on 4.0.8 types it, where one method has its older name."""
    if hasattr(Session, "register_resize_handler"):
        return page
    text = page.read_text(encoding="utf-8")
    written = folder / page.name
    written.write_text(
        text.replace(".register_resize_handler(", ".register_execution_handlers("), "utf-8"
    )
    return written


def run(page):
    """Run the blocks of a page in their order, in one namespace; say how many there were."""
    document = Sybil(parsers=[PythonCodeBlockParser()]).parse(page)
    examples = list(document.examples())
    try:
        for example in examples:
            example.evaluate()
    finally:
        for value in document.namespace.values():
            if isinstance(value, GUMem):
                value.close()
        document.namespace.clear()
    return len(examples)


def _plugins():
    found = "SessionMemory" in Agently.plugin_manager.get_plugin_list()
    return "" if found else "this version of Agently has no such plugins"


def _kinds_of_events():
    found = hasattr(Agently.event_center, "create_emitter")
    return "" if found else "this version of Agently has no kinds of events but its own"


def _closing_of_flows():
    found = "auto_close" in inspect.signature(TriggerFlow.create_execution).parameters
    return "" if found else "this version of Agently closes no execution by itself"


# What a page needs that not every version has: why its examples don't run, where they don't.
NEEDS = {"plugin.md": _plugins, "events.md": _kinds_of_events, "workflows.md": _closing_of_flows}


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=ON_EACH_VERSION.get(p.name, []), id=p.name) for p in PAGES]
)
def test_the_examples_of_a_page_run(page, folder):
    """A reader who copies the blocks of a page, from its first to its last, sees them work."""
    if (why := NEEDS.get(page.name, lambda: "")()) != "":
        pytest.skip(why)
    blocks = page.read_text(encoding="utf-8").count("\n```python\n")
    assert run(for_this_version(page, folder)) == blocks
