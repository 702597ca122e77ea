"""The demo and the examples, run as a reader runs them: each in a process of its own."""

import inspect
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forked
import pytest
from agently import Agently, TriggerFlow

from agently_gumem.testing import RuleModel

EXAMPLES = Path(__file__).parent.parent / "examples"
STORIES = EXAMPLES / "stories"
SECONDS = 120


def story_with(folder, name, **changes):
    """Write the Chinese story with some of its fields changed."""
    story = json.loads((STORIES / "running_shoes.json").read_text("utf-8"))
    path = folder / f"{name}.json"
    path.write_text(json.dumps(story | changes, ensure_ascii=False), "utf-8")
    return path


def run(script, folder, **settings):
    """Run a script in a folder of its own, without the caller's settings of the memory."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GUMEM_")}
    env = {**kept, "PYTHONIOENCODING": "utf-8", **settings}
    return forked.run(EXAMPLES / script, folder=folder, env=env, timeout=SECONDS)


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Every run by its name, two at a time."""
    folder = tmp_path_factory.mktemp("examples")
    missing = {"facts": [["慢跑"], ["no such Fact"]], "context": ["no such word"]}
    broken = story_with(folder, "broken", expect=missing)
    unreadable = folder / "unreadable.json"
    unreadable.write_text("{", "utf-8")
    with RuleModel() as model:
        named = {
            "GUMEM_BASE_URL": model.url,
            "GUMEM_MODEL": "some-model",
            "GUMEM_API_KEY": "key",
        }
        plans = {
            "demo": ("demo.py", {}),
            "english": ("demo.py", {"GUMEM_STORY": str(STORIES / "moving_house.json")}),
            "unreadable": ("demo.py", {"GUMEM_STORY": str(unreadable)}),
            "unnamed": ("demo.py", {"GUMEM_BASE_URL": model.url}),
            "own model": ("demo.py", {**named, "GUMEM_STORY": str(broken)}),
            "quickstart": ("quickstart.py", {}),
            "seed_dropin": ("seed_dropin.py", {}),
            "own_schema": ("own_schema_and_triggers.py", {}),
            "tools": ("tools.py", {}),
            "plugin": ("session_plugin.py", {}),
            "workflow": ("workflow.py", {}),
        }
        with ThreadPoolExecutor(2) as pool:
            runs = {n: pool.submit(run, s, folder, **more) for n, (s, more) in plans.items()}
            done = {name: future.result() for name, future in runs.items()}
    assert {r.body["model"] for r in model.requests} == {"some-model"}
    return done


def output(ended, name):
    """Return what a run printed, once it is known that it went well."""
    done = ended[name]
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def section(text, title):
    """Return what the demo printed under a heading that begins with a title."""
    found = re.search(rf"^== {re.escape(title)}[^\n]*\n(.*?)(?=^== |\Z)", text, re.M | re.S)
    assert found, text
    return found.group(1)


def test_the_demo_tells_the_story_from_messages_to_memo(ended):
    """Turns, the trigger and why, Facts with their sources, Topic, Summary and memo are shown."""
    text = output(ended, "demo")
    assert "no language model" in text
    first = section(text, "First session")
    assert "log   " in first
    assert "跳过：碳板竞速鞋" in first
    assert "user  我主要在公园跑" in first
    assert "trigger fired: EveryNTurns(n=2): 2 answered turns and 11 messages" in first
    assert "digested: 11 messages" in first
    facts = section(text, "Facts")
    assert re.search(r"42 .*\n +<- \d\d-\d\d 20:12 filter: 筛选：尺码 = 42", facts)
    assert re.search(r"800 以内 .*\n +<- .* user: 想买一双日常慢跑鞋", facts)
    assert "鞋" in section(text, "Topics")
    assert "浅色" in section(text, "Summaries")
    assert "800" in section(text, "Memo")


def test_a_second_process_reads_the_memory_in_its_request(ended):
    """The question about yesterday's shoes carries what the first session's log and chat said."""
    text = output(ended, "demo")
    assert "昨天看的鞋还有推荐吗？" in section(text, "Second session")
    first, second = re.findall(r"session, process (\d+)", text)
    assert first != second
    recalled = section(text, "CHAT SESSION MEMO, as the model's server received it")
    assert all(word in recalled for word in ("42", "500-800", "浅色", "碳板", "慢跑"))
    assert "MISSING" not in text
    assert "== Complete" in text


def test_the_demo_is_readable_in_a_terminal_and_in_a_file(ended):
    """No line is wider than a page, Chinese characters counted double, and there is no colour."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        from _page import WIDTH, columns
    finally:
        sys.path.remove(str(EXAMPLES))
    for name in ("demo", "english"):
        text = output(ended, name)
        assert "\033" not in text
        assert max(map(columns, text.splitlines())) <= WIDTH + 2  # punctuation may hang


def test_another_story_of_the_same_format(ended):
    """An English story works as well; there the end of a stage fires the trigger."""
    text = output(ended, "english")
    assert "trigger fired: StageBoundary(): the stage 'requirements' has ended" in text
    recalled = section(text, "CHAT SESSION MEMO")
    assert "balcony" in recalled
    assert "ground-floor" in recalled


def test_what_is_missing_fails_the_demo(ended):
    """A Fact or a word of the context that is not found is named, and the exit is not zero."""
    done = ended["own model"]
    assert done.returncode == 1
    assert "慢跑 found, no such Fact MISSING" in done.stdout
    assert "no such word MISSING" in done.stdout
    assert "== NOT COMPLETE" in done.stdout
    assert "marked MISSING" in done.stderr


@pytest.mark.parametrize(
    ("name", "says"), [("unreadable", "can't read the story"), ("unnamed", "GUMEM_MODEL")]
)
def test_a_wrong_setting_is_told_in_a_sentence(ended, name, says):
    """A story that can't be read, or a model without a name, ends the demo with a sentence."""
    done = ended[name]
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_any_model_by_its_address(ended):
    """With the three variables the demo talks to that model, and shows what its prompt held."""
    text = ended["own model"].stdout
    assert "some-model at http://127.0.0.1" in text
    assert "no language model" not in text
    assert "digested: 11 messages" in text
    assert "42" in section(text, "CHAT SESSION MEMO, as the prompt held it")


def test_quickstart(ended):
    """What one session said is known in the next."""
    text = output(ended, "quickstart")
    assert "I remember: - User is allergic to peanuts" in text
    assert "short answers" in text.splitlines()[-1]


def test_seed_dropin(ended):
    """Agently's own example with two functions swapped: the window is cut, session two recalls."""
    text = output(ended, "seed_dropin")
    assert "10 messages said, 6 in the window" in text
    assert "120 euros" in text.splitlines()[-1]
    assert text.splitlines()[-1].startswith("OK. I remember:")


def test_own_schema_and_triggers(ended):
    """The memo has the developer's nested schema; stage and turns fire, two turns don't."""
    text = output(ended, "own_schema")
    assert re.findall(r"waiting after .*: (\d+)", text) == ["4", "0", "0"]
    memos = [json.loads(m) for m in re.findall(r"^\{.*?^\}", text, re.M | re.S)]
    assert len(memos) == 2
    assert "peanuts" in str(memos[0]["food"]["constraints"])
    assert "900 euros" in str(memos[0]["limits"])
    assert "hostels" in str(memos[1])


def test_tools(ended):
    """A tool's result is a message and a Fact; the model's actions find and forget it."""
    text = output(ended, "tools")
    assert "tool_call, tool: shoe_price(model=Trail X) returned" in text
    assert "action: The tool shoe_price with model=Trail X returned" in text
    assert re.search(r"found: fact-\w+: .*649 yuan", text)
    assert re.search(r"forgotten: \{'facts': \['fact-", text)


def test_session_plugin(ended):
    """One user's next session knows, another user's does not; an older Agently is told so."""
    done = ended["plugin"]
    if "SessionMemory" not in Agently.plugin_manager.get_plugin_list():
        assert done.returncode == 1
        assert "register needs Agently 4.1.3.9 or later" in done.stderr
        return
    text = output(ended, "plugin")
    assert re.search(r"^Ada: .*120 euros", text, re.M)
    assert re.search(r"^Bob: .*no memory", text, re.M)
    assert "Bob's session: 2 messages, memo {}" in text


def test_workflow(ended):
    """Two users on one flow object: Facts of each stage, and what was decided, each their own."""
    if "auto_close" not in inspect.signature(TriggerFlow.create_execution).parameters:
        pytest.skip("this version of Agently closes no execution by itself")
    alice, bob = output(ended, "workflow").splitlines()[-2:]
    assert "42" in alice
    assert "trail" in alice
    assert "39" in bob
    assert "road" in bob
    assert "39" not in alice
    assert 'decision: {"chosen": "the white road shoes"}' in bob
