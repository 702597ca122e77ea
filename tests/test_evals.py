"""The evaluation: its dialogues, its scores, and what RuleModel reads of a request."""

import json
import re
from datetime import datetime, timedelta, timezone

import pytest
from eval_sabotage import run, total
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem import ConfigError, Fact
from agently_gumem.evals import Score, as_json, judge, load, table
from agently_gumem.evals.__main__ import main
from agently_gumem.evals._dialogues import dialogue
from agently_gumem.prompts import Prompts
from agently_gumem.records import Memo, Message, TimeRange
from agently_gumem.testing import Reply, Request, RuleModel, ScriptedModel
from agently_gumem.testing._brief import Brief, read
from agently_gumem.testing._rules import by_rules

ALL = load()
TABLES = (
    "stable preference",
    "explicit fact",
    "long-lived constraint",
    "in-progress plan",
    "auditable action",
    "behavior pattern",
    "temporary UI state",
    "irrelevant clickstream",
    "sensitive information",
    "unverified inference",
    "one-time result",
    "model hallucination",
)
BESIDE = (
    "small talk",
    "correction",
    "later correction",
    "joke",
    "quotation",
    "hypothetical",
    "other people",
    "two speakers",
    "confirmation",
    "refusal",
    "relative date",
    "running shoes",
)
# One of each rule, the languages in turn; in both what the five parts of a request decide.
DECIDED = r"(?:running-shoes|later-correction|relative-date)-1|two-speakers-3|joke-2"
TURN = dict(zip((*TABLES, *BESIDE, "several facts"), ("en", "zh") * 13, strict=False))
SOME = [
    d
    for d in ALL
    if re.fullmatch(DECIDED, d.id[3:]) or (d.id.endswith("-1") and d.language == TURN[d.rule])
]


def chosen(*ids):
    """Take dialogues by their ids, without the language, in both languages."""
    return [d for d in ALL if d.id[3:] in ids]


def untrue(results):
    """What was invented, by dialogue."""
    return {r.dialogue.id: r.scores.invented for r in results if r.scores.invented}


# --- the dialogues


@pytest.mark.parametrize("rule", TABLES)
def test_each_row_of_both_tables_has_its_dialogues(rule):
    """What to remember, and what not: each row at least five times, in both languages."""
    mine = [d.language for d in ALL if d.rule == rule]
    assert (mine.count("en") >= 3, mine.count("zh") >= 3, len(mine) >= 5) == (True, True, True)


@pytest.mark.parametrize("rule", BESIDE)
def test_what_goes_wrong_easily_has_dialogues_in_both_languages(rule):
    """Corrections, jokes, quotations and their like stand in both languages."""
    assert {d.language for d in ALL if d.rule == rule} == {"en", "zh"}


def test_the_dialogues_are_many_and_each_is_its_own():
    """At least sixty a language; no id and no talk comes twice."""
    assert min(sum(d.language == name for d in ALL) for name in ("en", "zh")) >= 60
    assert len({d.id for d in ALL}) == len(ALL)
    assert len({tuple((s.text, s.role, s.event) for s in d.said) for d in ALL}) == len(ALL)


def test_what_a_label_asks_for_was_said():
    """A word of an expected Fact stands in its sources, or is one of several that may."""
    folded = {d.id: {s.number: s.text.casefold() for s in d.said} for d in ALL}
    lost = [
        (d.id, part)
        for d in ALL
        for label in d.facts
        for part in label.has
        if len(part) == 1
        and not any(
            part[0].casefold() in f"{folded[d.id][n]} {d.said[n - 1].event} {d.said[n - 1].speaker}"
            .casefold()
            for n in label.sources | label.may_cite
        )
    ]  # fmt: skip
    assert lost == []


def test_sessions_and_times_are_read():
    """Lines are a minute apart; another session begins at its own time, in the same zone."""
    talk = [["u", "one"], ["u:Anna", "two"], ["---", "2026-06-01T08:00"], ["!save", "three"]]
    one, two, three = dialogue({"id": "x", "rule": "r", "talk": talk}, "zh").said
    assert (two.at - one.at, two.speaker, two.role) == (timedelta(minutes=1), "Anna", "user")
    assert (three.session, three.number, three.event) == (2, 3, "save")
    assert three.at.isoformat() == "2026-06-01T08:00:00+08:00"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1"),
        ('{"id": "x", "rule": "r"}', "talk"),
        ('{"id": "x", "rule": "r", "talk": [], "fact": []}', "no field fact"),
        ('{"id": "x", "rule": "r", "talk": [], "facts": [{"has": ["a"], "from": [1]}]}', "[1]"),
        ('{"id": "x", "rule": "r", "talk": [], "facts": [{"has": []}]}', "without words"),
    ],
)
def test_a_line_that_is_no_dialogue_is_an_error(line, said, tmp_path):
    """A broken file is refused with its line, not skipped."""
    (tmp_path / "en.jsonl").write_text(line, encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(said)):
        load(tmp_path, language="en")


# --- the scores

AT = datetime(2026, 5, 6, 9, 30, tzinfo=timezone.utc)
TALK = {
    "id": "x",
    "rule": "r",
    "talk": [["u", "I fly to Rome tomorrow, my budget is 800."], ["u", "Maybe I'll sell the car."]],
    "facts": [
        {"has": ["rome"], "date": "2026-05-07", "from": [1], "kind": "plan"},
        {"has": ["budget", "800"], "not": ["not"], "from": [1], "may": [2]},
    ],
    "allowed": [{"has": ["car"], "guess": True}],
    "memo": ["800"],
    "not_memo": ["car"],
}
LABELLED = dialogue(TALK, "en")


def fact(content, sources=(1,), start=None, **more):
    """A Fact, and the numbers of its sources."""
    made = Fact(
        id=content, user_id="x", content=content, source_message_ids=[str(n) for n in sources],
        time_range=TimeRange(start=start) if start else None,
        created_at=AT, updated_at=AT, **more,
    )  # fmt: skip
    return made, frozenset(sources)


ROME = fact("User flies to Rome tomorrow (2026-05-07)", start=AT + timedelta(days=1), kind="plan")
BUDGET = fact("User's budget is 800")
CAR = fact("Maybe User will sell the car", (2,), certainty="inferred", confidence=0.4)
GOOD = {"constraints": ["User's budget is 800"]}


def test_what_is_right_is_counted_as_right():
    """Found, with date, sources, kind, language and memo; an allowed guess counts neither way."""
    scores = judge(LABELLED, [ROME, BUDGET, CAR], GOOD)
    assert scores.score == Score(
        dialogues=1, expected=2, found=2, language=3, language_of=3, dates=1, dates_of=1,
        sources=2, sources_of=2, kinds=1, kinds_of=1, memo=1, memo_of=1,
    )  # fmt: skip
    assert (scores.missed, scores.invented, scores.memo) == ((), (), ())


@pytest.mark.parametrize(
    ("got", "wrong"),
    [
        (fact("User's budget is 1800"), 1),
        (fact("User's budget is not 800"), 1),
        (fact("User flies to Rome (2026-05-08)"), 1),
        (fact("User flies to Rome tomorrow"), 1),
        (fact("User flies to Rome", start=AT), 1),
        (fact("User flies to Rome tomorrow", start=AT + timedelta(days=1)), 1),
        (fact("User will sell the car", (2,)), 1),
        (fact("User likes opera"), 0),
    ],
    ids=[
        "number",
        "polarity",
        "date",
        "word without date",
        "range",
        "only the range",
        "guess",
        "nobody said it",
    ],
)
def test_what_nobody_said_is_invented(got, wrong):
    """Another value, date or polarity of something expected is wrong, and invented as well."""
    scores = judge(LABELLED, [got], GOOD)
    assert (scores.score.found, scores.score.invented, scores.score.wrong) == (0, 1, wrong)
    assert scores.invented == (got[0].content,)


def test_a_fact_without_its_date_is_found_and_its_date_is_not():
    """Whoever leaves the date out says nothing wrong."""
    score = judge(LABELLED, [fact("User is flying to Rome")], GOOD).score
    assert (score.found, score.invented, score.dates, score.dates_of) == (1, 0, 0, 1)


@pytest.mark.parametrize(("sources", "right"), [((1,), 1), ((1, 2), 1), ((2,), 0)])
def test_sources_are_right_where_all_are_cited_and_no_stranger(sources, right):
    """What must be cited is, and nothing but what may be."""
    assert judge(LABELLED, [fact("User's budget is 800", sources)], GOOD).score.sources == right


def test_the_memo_is_held_to_both_lists():
    """What it must hold and doesn't is named, and what it must not hold with a minus."""
    scores = judge(LABELLED, [], {"stable_facts": ["User will sell the car"]})
    assert (scores.memo, scores.score.memo, scores.score.memo_of) == (("800", "-car"), 0, 1)
    silent = dialogue({"id": "y", "rule": "r", "talk": [["u", "hi"]]}, "en")
    assert judge(silent, [], {"constraints": []}).score.memo == 1
    assert judge(silent, [], GOOD).memo == ("-anything",)


def test_another_language_is_seen():
    """A Chinese Fact of an English dialogue did not keep the language."""
    score = judge(LABELLED, [fact("用户的 budget 预算是 800")], GOOD).score
    assert (score.language, score.language_of) == (0, 1)


@given(st.permutations([ROME, BUDGET, CAR, fact("User likes opera"), fact("User's budget is 90")]))
def test_the_order_of_facts_makes_no_difference(got):
    """Scores are sums over Facts."""
    score = judge(LABELLED, got, GOOD).score
    assert (score.found, score.invented, score.wrong) == (2, 2, 1)


# --- RuleModel on the dialogues


@pytest.fixture(scope="module")
def results():
    """One dialogue of each rule and language, run on RuleModel."""
    return run("nothing", SOME)


def test_the_targets_hold_on_rule_model(results):
    """At least .8 of what is expected is found, and nothing is invented."""
    score = total(results)
    assert untrue(results) == {}
    assert score.found >= 0.8 * score.expected > 25
    assert score.dates == score.dates_of > 4


def test_language_sources_and_memo_are_right(results):
    """Facts keep their language and name all their sources; the memo holds what always matters."""
    score = total(results)
    assert score.language == score.language_of > 30
    assert score.sources >= 0.95 * score.sources_of > 25
    assert score.memo >= 0.95 * score.memo_of > 10


def test_the_running_shoes_come_out_as_in_the_story(results):
    """What was said and done about shoes becomes the story's Facts, in both languages."""
    shoes = [r for r in results if r.dialogue.rule == "running shoes"]
    assert [(r.scores.missed, r.scores.invented) for r in shoes] == [((), ())] * 2


@pytest.mark.parametrize(
    ("part", "ids"),
    [
        ("references", ["explicit-fact-1", "stable-preference-2"]),
        ("times", ["relative-date-1", "relative-date-4"]),
        ("roles", ["two-speakers-3", "two-speakers-4"]),
        ("known", ["later-correction-1", "later-correction-3"]),
        ("rules", ["joke-2", "quotation-3", "hypothetical-1"]),
    ],
)
def test_what_the_request_does_not_say_is_not_known(part, ids):
    """Without a part of the request the same dialogues fail: the rules read it, not the labels."""
    whole = run("nothing", chosen(*ids))
    assert (untrue(whole), total(whole).found) == ({}, total(whole).expected)
    less = run(part, chosen(*ids))
    score = total(less)
    assert score.found < 0.5 * score.expected or score.invented > 0
    assert (score.found, score.invented) == (0, 0) if part == "references" else untrue(less)


# --- which rules it obeys


def asked(said, drop=""):
    """Extract what messages hold, with a phrase of the shipped rules taken out."""
    shown = {f"m{i}": Message(**m) for i, m in enumerate(said, 1)}
    text = Prompts().extract(shown, {}, [], {}, Memo.model_json_schema()).text
    pattern = r"\s+".join(map(re.escape, drop.split()))
    assert re.search(pattern, text)
    cut = re.sub(pattern, "", text) if drop else text
    return by_rules(Request({"messages": [{"role": "user", "content": cut}]}))["facts"]


def user(*texts):
    """Messages of the user."""
    return [{"content": text} for text in texts]


RULES = [
    ("small talk", user("Good to see you again.")),
    ("questions", user("Do I have to bring my passport?")),
    ("state of the screen", [{"content": "by price", "event_type": "sort"}]),
    ("stray clicks", [{"content": "logo", "event_type": "click"}]),
    ("one-time", user("Put my name on the door sign.")),
    ("jokes", user("I'm the king of France. Just kidding!")),
    ("quotations", user('The ad goes "I only drive electric", what a slogan.')),
    ("hypotheticals", user("要是有一百万，我就去云南买个院子。")),
    ("other people", user("我弟弟吃素。")),
]


@pytest.mark.parametrize(("phrase", "said"), RULES, ids=[phrase for phrase, _ in RULES])
def test_a_rule_is_obeyed_because_it_stands_in_the_request(phrase, said):
    """With the shipped rules nothing is written; without this one, something is."""
    assert asked(said) == []
    assert asked(said, phrase) != []


def test_a_guess_is_marked_because_a_rule_says_so():
    """Without the rule a guess becomes a statement."""
    said = user("Maybe I'll want a bigger car.")
    assert [f["certainty"] for f in asked(said)] == ["inferred"]
    assert [f["certainty"] for f in asked(said, "A guess is")] == ["stated"]


def test_a_yes_confirms_because_a_rule_says_so():
    """Without the rule the assistant's words stay the assistant's."""
    said = [{"content": "So you live in Ghent, right?", "role": "assistant"}, *user("Yes, right.")]
    assert [f["sources"] for f in asked(said)] == [["m1", "m2"]]
    assert asked(said, "says yes") == []


def test_a_date_is_resolved_because_a_rule_says_so():
    """Without the rule the words stay as they are."""
    said = [{"content": "I fly to Rome tomorrow.", "timestamp": AT}]
    assert [f["start"] for f in asked(said)] == ["2026-05-07"]
    assert [f["start"] for f in asked(said, "relative date")] == [""]


def test_the_shipped_rules_name_all_that_the_reader_knows():
    """A rule that is worded anew must still be read: no rule of the reader is without its words."""
    text = Prompts().extract({}, {}, [], {}, {}).text
    assert read(text) == Brief()
    assert True not in vars(read("")).values()


# --- the command


def test_the_command_prints_a_table_and_writes_json(capsys, tmp_path):
    """It runs without a model, and tells by rule what was found."""
    out = tmp_path / "out.json"
    given = ["--language", "zh", "--rule", "joke", "--limit", "2", "--json", str(out)]
    assert main(given) == 0
    head, _, line, _, sums = capsys.readouterr().out.splitlines()
    assert head.split()[:6] == ["rule", "dialogues", "expected", "found", "wrong", "invented"]
    assert (line.split()[0], sums.split()[:2]) == ("joke", ["all", "2"])
    told = json.loads(out.read_text("utf-8"))
    assert [d["id"] for d in told["dialogues"]] == ["zh-joke-1", "zh-joke-2"]
    assert told["all"]["requests"] == 2
    assert told["all"]["tokens"] > 1_000


def test_the_command_asks_the_server_that_is_named(monkeypatch, capsys):
    """Address, model and the key of an environment variable reach the server."""
    monkeypatch.setenv("EVAL_KEY", "secret-of-mine")
    with RuleModel() as model:
        named = ["--base-url", model.url, "--model", "some-model", "--api-key-env", "EVAL_KEY"]
        assert main([*named, "--rule", "joke", "--limit", "1"]) == 0
        (request,) = model.memory_requests
    assert request.body["model"] == "some-model"
    assert {k.lower(): v for k, v in request.headers.items()}["authorization"].endswith(
        "secret-of-mine"
    )
    assert "secret-of-mine" not in capsys.readouterr().out


def test_a_model_that_fails_is_told(capsys):
    """Dialogues that could not be run are named, and are in no sum."""
    with ScriptedModel(memory=Reply("no quota left", status=429)) as model:
        named = ["--base-url", model.url, "--model", "m", "--rule", "joke", "--limit", "1"]
        assert main(named) == 1
    told = capsys.readouterr()
    assert "en-joke-1: LimitReached" in told.err
    assert told.out.splitlines()[-1].split()[:2] == ["all", "0"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--rule", "no such"], "there are"),
        (["--model", "m"], "--base-url"),
        (["--base-url", "http://127.0.0.1:1/v1"], "--model"),
        (["--base-url", "http://127.0.0.1:1/v1", "--model", "m", "--api-key-env", "NO_SUCH"],
         "NO_SUCH"),
        (["--limit", "0"], "at least 1"),
        (["--dialogues", "nowhere"], "nowhere"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_said(given, said, capsys, monkeypatch):
    """What was wrong and what to do, in one line, and nothing is run."""
    monkeypatch.delenv("NO_SUCH", raising=False)
    assert main(given) == 2
    assert said in capsys.readouterr().err


def test_a_memory_that_is_switched_off_is_not_measured(capsys, monkeypatch):
    """Zeros would tell nothing: it says why, and runs nothing."""
    monkeypatch.setenv("GUMEM_OFF", "1")
    assert main(["--rule", "joke"]) == 2
    assert "GUMEM_OFF" in capsys.readouterr().err


def test_figures_and_table_agree(results):
    """The sums of the JSON are those of the rules, and stand in the table."""
    told = as_json(results)
    assert told["all"]["found"] == sum(rule["found"] for rule in told["rules"].values())
    line = table(results).splitlines()[-1].split()
    assert line[:4] == ["all", str(len(SOME)), str(told["all"]["expected"]),
                        str(told["all"]["found"])]  # fmt: skip
