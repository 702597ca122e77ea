"""Every example of the README and the docs runs, without a network and without a key."""

from pathlib import Path

import pytest
from agently import Agently
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from agently_gumem import GUMem
from agently_gumem.testing import RuleModel

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("README*.md"), *ROOT.glob("docs/*.md")])
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


@pytest.mark.usefixtures("model", "folder")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page):
    """A reader who copies the blocks of a page, from its first to its last, sees them work."""
    if page.name == "plugin.md" and "SessionMemory" not in Agently.plugin_manager.get_plugin_list():
        pytest.skip("this version of Agently has no such plugins")
    assert run(page) == page.read_text(encoding="utf-8").count("\n```python\n")
