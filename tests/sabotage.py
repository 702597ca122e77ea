"""Break the package on purpose, one small patch at a time: a named test must go red for each.

`python tests/sabotage.py [words]` copies the package and its tests, applies one patch to a copy,
and runs the test that is named for it. Prints a table; exits with 1 where a patch went unseen.
"""

import concurrent.futures
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Patch:
    """One way to break what the memory promises, by the point that it belongs to."""

    point: str
    file: str
    old: str
    new: str
    test: str


PATCHES: list[Patch] = [
    Patch(
        "2 ways in: each question",
        "host.py",
        "        _set_section(prompt, text)\n\n\ndef _held",
        "        pass\n\n\ndef _held",
        "tests/test_ways_in.py::test_the_section_is_this_questions_own",
    ),
    Patch(
        "2 ways in: input keys",
        "host.py",
        'self.agent.set_settings("session.input_keys", ["input"])',
        "pass",
        "tests/test_ways_in.py::test_the_recorded_question_is_the_users_own_text",
    ),
    Patch(
        "2 ways in: session handler",
        "host.py",
        "            self._bind_again(bound)\n",
        "",
        "tests/test_ways_in.py::test_our_session_level_handler_survives_switching",
    ),
    Patch(
        "3 triggers: stage at once",
        "turns.py",
        "        state = replace(state, **happened)\n",
        "",
        "tests/test_triggers.py::test_a_stage_mark_decides_at_once",
    ),
    Patch(
        "3 trimming: between turns",
        "triggers.py",
        'return roles[index] == "user" and roles[index - 1] != "user"',
        "return True",
        "tests/test_triggers.py::test_a_cut_is_between_turns_and_no_larger_than_its_rule",
    ),
    Patch(
        "3 trimming: an instruction stays",
        "turns.py",
        "lead = next((i for i, r in enumerate(roles) if r not in journaling.INSTRUCTIONS), 0)",
        "lead = 0",
        "tests/test_hardening.py::"
        "test_an_instruction_stays_first_in_the_window_and_a_pause_cuts_nothing",
    ),
    Patch(
        "4 journal: alignment",
        "remember/align.py",
        "        if found is None:\n            break\n",
        "        break\n",
        "tests/test_journal.py::test_an_agent_a_request_stores_twenty_four_for_twenty_four",
    ),
    Patch(
        "4 journal: identical messages",
        "remember/journal.py",
        "mirror.nonce, before, message.role, content",
        '"", "", message.role, content',
        "tests/test_journal.py::test_repeated_identical_messages_are_each_kept",
    ),
    Patch(
        "5 select",
        "remember/journal.py",
        "        content = selection.text\n        before =",
        "        content = message.text\n        before =",
        "tests/test_falling_back.py::test_a_secret_reaches_no_file_no_log_no_event_and_no_request",
    ),
    Patch(
        "6 digest: grounding",
        "remember/extract.py",
        'return "" if verdict.ok else verdict.reason',
        'return ""',
        "tests/test_falling_back.py::"
        "test_facts_that_their_source_does_not_hold_are_dropped_and_counted",
    ),
    Patch(
        "6 digest: verdicts",
        "remember/digest.py",
        "ref: None if ref in done.refused else facts.get(fact_id)",
        "ref: facts.get(fact_id)",
        "tests/test_digest.py::test_a_verdict_on_what_was_not_given_is_refused_with_its_patch",
    ),
    Patch(
        "6 digest: bounded request",
        "prompts.py",
        "if taken and size > tokens:",
        "if taken and size > 10**9:",
        "tests/test_digest.py::test_a_request_is_bounded_also_where_facts_and_topics_are_long",
    ),
    Patch(
        "6 digest: memo prune",
        "remember/memo.py",
        "    if not held:\n        return None\n    behind",
        "    if not held:\n        return whole\n    behind",
        "tests/test_memo.py::test_a_paraphrase_leaves_with_its_only_fact",
    ),
    Patch(
        "7 recall: floor",
        "recall/rank.py",
        "FLOOR if config.floor is None else config.floor",
        "0.0 if config.floor is None else config.floor",
        "tests/test_done_when.py::test_nothing_is_recalled_where_nothing_is_known",
    ),
    Patch(
        "7 recall: names of speakers",
        "recall/question.py",
        "            bare = shorter\n    if common",
        "            pass\n    if common",
        "tests/test_question.py::test_the_names_of_those_who_speak_are_no_content",
    ),
    Patch(
        "7 recall: the turn before",
        "recall/talk.py",
        "(cosine + before) / turns.pair",
        "cosine",
        "tests/test_question.py::test_a_pair_is_the_cosine_of_both_vectors_together",
    ),
    Patch(
        "7 recall: spread",
        "recall/spread.py",
        "again = min(sessions[belongs[id(item)]], MOST_SAME)",
        "again = 0",
        "tests/test_question.py::test_another_conversation_comes_before_a_third_line_of_one",
    ),
    Patch(
        "7 recall: near misses",
        "remember/reconcile.py",
        "differs(proposal.fact.content, target.content, near)",
        '""',
        "tests/test_reconcile.py",
    ),
    Patch(
        "7 recall: the window",
        "recall/validity.py",
        "message.id not in self._hidden\n",
        "True\n",
        "tests/test_rank.py::test_what_the_window_holds_is_not_recalled",
    ),
    Patch(
        "7 recall: an old value",
        "recall/validity.py",
        "            or self._repeats_old_value(message)\n",
        "",
        "tests/test_rank.py::test_an_old_value_does_not_come_back_through_a_reply_that_repeats_it",
    ),
    Patch(
        "8 falling back: border",
        "turns.py",
        "            await self.failed(what, error)\n            return otherwise",
        "            raise",
        "tests/test_agently_traps.py::test_a_broken_store_never_reaches_the_user",
    ),
    Patch(
        "8 falling back: one wait",
        "behind.py",
        "or task is self._waited",
        "",
        "tests/test_falling_back.py::test_a_hung_model_costs_one_turn_its_wait_and_no_other",
    ),
    Patch(
        "8 falling back: backoff",
        "troubles.py",
        "min(2**self.failures, 32)",
        "0",
        "tests/test_falling_back.py::test_after_a_failure_the_next_attempt_waits_longer_each_time",
    ),
    Patch(
        "9 whose: scope of a read",
        "store.py",
        'where={"scope": {"$eq": self.key}}',
        'where={"user_id": {"$eq": self.user_id}}',
        "tests/test_whose.py::test_two_spaces_of_a_user_are_two_memories",
    ),
    Patch(
        "9 whose: pause",
        "remember/journal.py",
        "            await pass_over(scope, head, aligned.start)\n",
        "",
        "tests/test_whose.py::test_what_is_said_while_paused_never_comes_in",
    ),
    Patch(
        "9 whose: overlapping users",
        "flights.py",
        "if len({f.owner for f in self._flights}) > 1:",
        "if False:",
        "tests/test_agently_traps.py::"
        "test_overlapping_turns_of_two_users_are_neither_kept_nor_recalled",
    ),
]


TARGETS = "tests/test_evals.py::test_the_targets_hold_on_rule_model"
EXTRACT = (ROOT / "agently_gumem/templates/extract.jinja").read_text(encoding="utf-8")
PATCHES += [
    Patch(
        "11 privacy: what the model flags",
        "remember/treated.py",
        '{"content": SPECIAL, "said": said,',
        '{"said": said,',
        "tests/test_kept_out.py::test_what_the_model_finds_to_be_special_loses_its_text",
    ),
    Patch(
        "11 privacy: another policy",
        "gumem.py",
        "compare=Selector(policy.strictest()),",
        "compare=select,",
        "tests/test_kept_out.py::test_a_history_of_another_policy_is_the_same_history",
    ),
    Patch(
        "11 privacy: keys and numbers",
        "remember/journal.py",
        '    clean["metadata"] = cleaner.data(_plain(message))\n',
        "",
        "tests/test_kept_out.py::test_nothing_beside_a_text_carries_what_is_not_for_memory",
    ),
    Patch(
        "11 privacy: labels",
        "records/lifetime.py",
        "return named.issuperset(record.access)",
        "return True",
        "tests/test_kept_out.py::test_what_a_policy_keeps_has_a_label_and_a_lifetime",
    ),
    Patch(
        "12 actions: enough evidence",
        "remember/acting.py",
        "least = self.scope.services.limits.behaviour_after",
        "least = 1",
        "tests/test_actions.py::test_fewer_make_no_habit_and_a_burst_is_one_event",
    ),
    Patch(
        "13 past: questions",
        "recall/past.py",
        "    return (\n        _in_english(text)",
        "    return False and (\n        _in_english(text)",
        "tests/test_past.py::test_a_question_about_the_past_is_told_both_with_their_dates",
    ),
    Patch(
        "14 forgetting: marks",
        "scope.py",
        "return bool(self.tombs) and self.tomb(record_id) in self.tombs",
        "return False",
        "tests/test_forget_everywhere.py::test_an_old_export_brings_nothing_back",
    ),
    Patch(
        "14 forgetting: a digest under way",
        "scope.py",
        "        if generation != self.generation:\n            raise Outdated",
        "        if False:\n            raise Outdated",
        "tests/test_forget_everywhere.py::test_a_digest_that_is_running_is_decided_anew",
    ),
    Patch(
        "14 forgetting: open sessions",
        "turns.py",
        "await self._sieve.take_out(scope, held, self._mirror_of(held.settings), whole=whole)",
        "pass",
        "tests/test_forget_everywhere.py::"
        "test_it_is_gone_from_an_open_session_and_does_not_come_back",
    ),
    Patch(
        "14 forgetting: bytes",
        "erase/database.py",
        "values ('optimize')",
        "values ('integrity-check')",
        "tests/test_erase.py",
    ),
    Patch(
        "15 hooks: signature",
        "hooks/webhooks.py",
        "    good = hmac.compare_digest(",
        "    good = True or hmac.compare_digest(",
        "tests/test_webhooks.py::test_what_was_not_signed_is_refused_and_nothing_raises",
    ),
    Patch(
        "10 evaluation: references",
        "prompts.py",
        'shown: dict[str, Any] = {"ref": ref, "session": session}',
        'shown: dict[str, Any] = {"session": session}',
        TARGETS,
    ),
    Patch(
        "10 evaluation: times",
        "prompts.py",
        '        shown["time"] = message.timestamp.isoformat(timespec="minutes")\n'
        '        shown["day"] = message.timestamp.strftime("%A")\n',
        "        pass\n",
        TARGETS,
    ),
    Patch(
        "10 evaluation: roles",
        "prompts.py",
        '    shown["role"] = message.role\n',
        "",
        TARGETS,
    ),
    Patch(
        "10 evaluation: known Facts",
        "templates/extract.jinja",
        "{% for line in known %}\n{{ line }}\n{% endfor %}\n",
        "",
        TARGETS,
    ),
    Patch(
        "10 evaluation: the rules",
        "templates/extract.jinja",
        EXTRACT[EXTRACT.index("Keep: ") : EXTRACT.index("{% if instruct %}")],
        "",
        TARGETS,
    ),
]


def copy_of(folder: Path) -> Path:
    """Copy what a test run needs."""
    target = folder / "copy"
    for name in ("agently_gumem", "tests", "examples", "docs"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "README.zh.md"):
        shutil.copy(ROOT / name, target / name)
    return target


def run(folder: Path, tests: list[str]) -> subprocess.CompletedProcess[str]:
    """Run tests against the copy in a folder, which comes first on the path."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", *tests]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def sabotage(patch: Patch) -> str:
    """Apply one patch to a copy and say what its test made of it."""
    with tempfile.TemporaryDirectory() as folder:
        target = copy_of(Path(folder))
        path = target / "agently_gumem" / patch.file
        text = path.read_text(encoding="utf-8")
        if text.count(patch.old) != 1:
            return f"the patch no longer fits: {text.count(patch.old)} places"
        path.write_text(text.replace(patch.old, patch.new), encoding="utf-8")
        done = run(target, [patch.test])
    seen = {0: "UNSEEN: the test stays green", 1: "red"}
    return seen.get(done.returncode, f"the test did not run: {done.stdout[-300:]}")


def main() -> int:
    """Run all patches, or those whose point or file holds one of the words given."""
    words = sys.argv[1:]
    chosen = [p for p in PATCHES if not words or any(w in f"{p.point} {p.file}" for w in words)]
    with tempfile.TemporaryDirectory() as folder:
        clean = run(copy_of(Path(folder)), sorted({p.test for p in chosen}))
    if clean.returncode != 0:
        print(clean.stdout[-3000:], clean.stderr[-1000:])
        print("the tests are red without any patch")
        return 1
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(sabotage, chosen))
    for patch, result in zip(chosen, results, strict=True):
        print(f"{result:<10} {patch.point:<28} {patch.file:<24} {patch.test.split('::')[-1]}")
    unseen = sum(result != "red" for result in results)
    print(f"{len(results) - unseen} passed, {unseen} failed")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
