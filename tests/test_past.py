"""What held before is never told as what holds, and stays answerable with its dates."""

import itertools
from datetime import datetime, timedelta, timezone

import pytest
from agently import Agently
from e2e import agent_of, own_settings
from past_values import CHINESE, ENGLISH

from agently_gumem import GUMem, WindowExceeds
from agently_gumem.testing import RuleModel, ScriptedModel

MARCH = datetime(2026, 3, 1, 9, tzinfo=timezone.utc)
MAY = datetime(2026, 5, 2, 9, tzinfo=timezone.utc)
# So many corrected values has each user: a digest shows 20 known Facts.
EACH = 5


def drafts(values):
    """Answer extracts from a table: each statement is a Fact, each correction replaces its one."""
    first = {v.said: v for v in values}
    second = {v.corrected: v for v in values}

    def answer(request):
        if request.memory_stage == "summarize":
            return told_together(request)
        known = {k["content"]: k["ref"] for k in request.data["KNOWN FACTS"]}
        facts = []
        for message in request.data["NEW MESSAGES"]:
            value = first.get(message["text"]) or second.get(message["text"])
            if value is None:
                continue
            later = message["text"] in second
            facts.append(
                {
                    "ref": f"f{len(facts) + 1}",
                    "content": value.now_fact if later else value.fact,
                    "sources": [message["ref"]],
                    "topic": "life",
                    "replaces": [known[value.fact]] if later else [],
                }
            )
        memo = {
            "key": "constraints",
            "value": [fact["content"] for fact in facts],
            "facts": [fact["ref"] for fact in facts],
        }
        return {"facts": facts, "memo": [memo]}

    return answer


def told_together(request):
    """Answer with one Summary of all Facts shown."""
    facts = request.data["FACTS"]
    text = "; ".join(fact["content"] for fact in facts)
    told = {"topic": "life", "content": text, "facts": [fact["ref"] for fact in facts]}
    return {"summaries": [told], "same_topics": []}


def turns(values, corrected, day):
    """Give what was said in one session, each with the assistant's reply to it."""
    for number, value in enumerate(values):
        at = day + timedelta(minutes=number)
        said, reply = (value.corrected, value.confirmed) if corrected else (value.said, value.reply)
        yield {"role": "user", "content": said, "timestamp": at}
        yield {"role": "assistant", "content": reply, "timestamp": at}


USERS = [values[i : i + EACH] for values in (ENGLISH, CHINESE) for i in range(0, 20, EACH)]


@pytest.fixture(scope="module")
def settings():
    """Restore Agently's own settings, which digests beside an agent use."""
    with own_settings():
        yield Agently.set_settings


@pytest.fixture(scope="module")
def asked(settings):
    """Ask each of the forty questions of the present and of the past, through Agently."""
    requests = {}
    with ScriptedModel(memory=drafts([*ENGLISH, *CHINESE])) as model, GUMem() as gumem:
        settings("OpenAICompatible", model.settings)
        for number, values in enumerate(USERS):
            user = gumem.user(f"u{number}")
            for corrected, day in ((False, MARCH), (True, MAY)):
                user.add_messages(list(turns(values, corrected, day)), f"s{corrected}")
                user.digest()
            told = {fact.content for fact in user.facts()}
            assert told == {value.now_fact for value in values}
            assert len(user.facts(validity=None)) == 2 * EACH
            assert len(user.summaries(validity=None)) == 2
            assert user.memo["constraints"]
            agent = agent_of(model)
            gumem.attach(agent, user_id=user.user_id, when=WindowExceeds(messages=100))
            for value, tense in itertools.product(values, ("present", "past")):
                agent.activate_session(session_id=f"{tense} {value.new}")
                agent.input(getattr(value, tense)).start()
                requests[tense, value.new] = model.chat_requests[-1].text
            at = MARCH + timedelta(days=20)
            for value in values:
                then = user.query(value.present, as_of=at)
                requests["as_of", value.new] = then.formatted_context
    return requests


@pytest.mark.parametrize("value", [*ENGLISH, *CHINESE], ids=lambda v: v.new)
def test_a_question_about_the_present_is_told_the_new_value_alone(asked, value):
    """The old string is nowhere in the request: Facts, turns, Summaries, memo."""
    request = asked["present", value.new]
    assert value.present in request
    assert value.new in request
    assert value.old not in request


@pytest.mark.parametrize("value", [*ENGLISH, *CHINESE], ids=lambda v: v.new)
@pytest.mark.parametrize("how", ["past", "as_of"])
def test_a_question_about_the_past_is_told_both_with_their_dates(asked, value, how):
    """What held, from when to when, and what took its place, since when."""
    lines = asked[how, value.new].splitlines()
    (line,) = [x for x in lines if value.fact in x and value.new in x]
    assert line.index(value.fact) < line.rindex(value.now_fact)
    assert line.count("2026-03-01") == 1
    assert line.count("2026-05-02") == 2
    chinese = value in CHINESE
    assert ("2026-03-01 至 2026-05-02：" if chinese else "2026-03-01 to 2026-05-02: ") in line
    assert ("2026-05-02 起：" if chinese else "since 2026-05-02: ") in line


@pytest.mark.parametrize(
    ("first", "second", "asked", "past", "old", "new"),
    [
        ("I live in Leeds.", "I live in Bristol now, not in Leeds.", "Where do I live?",
         "Where did I live before?", "Leeds", "Bristol"),
        ("我住在上海。", "我不住上海了，现在住在杭州。", "我住在哪里？",
         "我以前住在哪里？", "上海", "杭州"),
    ],
)  # fmt: skip
def test_a_correction_in_the_chat_is_all_that_is_told_afterwards(
    use, first, second, asked, past, old, new
):
    """Live turns, one digest each, replies that repeat the old value, a session of its own."""
    with use(RuleModel(f"{old}, noted.")) as model, GUMem() as gumem:
        agent = agent_of(model)
        gumem.attach(agent, user_id="alice")
        user = gumem.user("alice")
        for text in (first, second):
            agent.activate_session(session_id=text)
            agent.input(text).start()
            user.digest()
        (fact,) = user.facts()
        assert new in fact.content
        assert len(user.facts(validity=None)) == 2
        for number, question in enumerate((asked, past)):
            agent.activate_session(session_id=f"ask {number}")
            agent.input(question).start()
            section = model.chat_requests[-1].memo_section
            assert new in section
            assert (old in section) == (question == past)
