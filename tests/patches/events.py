"""What happens is told."""

from patches._patch import Patch

PATCHES: list[Patch] = [
    Patch(
        "10 events: each kind",
        "remember/journal.py",
        '        scope.tell("journaled", told, session_id)\n',
        "        pass\n",
        "tests/test_events.py::test_a_turn_its_digest_and_a_forgetting_are_told_with_counts_and_no_text",
    ),
    Patch(
        "10 events: no names in a log",
        "events.py",
        '_OWNER = ("user_id", "space", "session_id")',
        "_OWNER = ()",
        "tests/test_events.py::test_each_event_is_a_line_of_the_log_without_names",
    ),
    Patch(
        "10 events: a bound",
        "events.py",
        "if self._waiting.qsize() >= MOST_WAITING or not self._put(event):",
        "if not self._put(event):",
        "tests/test_events.py::test_a_hook_that_blocks_holds_up_no_turn_and_what_it_misses_is_counted",
    ),
    Patch(
        "10 events: a sweep tells once",
        "sweeping.py",
        "            if cause is error:\n",
        "            if True:\n",
        "tests/test_events.py::test_a_digest_that_fails_in_a_sweep_is_told_once",
    ),
    Patch(
        "10 events: no turn waits",
        "behind.py",
        "        await asyncio.wait({task}, timeout=self._wait_at_most)\n",
        "        await asyncio.wait({task}, timeout=self._wait_at_most)\n"
        "        await self._engine.told(self._wait_at_most)\n",
        "tests/test_events.py::test_a_hook_that_blocks_holds_up_no_turn_and_what_it_misses_is_counted",
    ),
    Patch(
        "10 events: whose sweep failed",
        "sweeping.py",
        'told = {"user_id": user_id, "space": space, "what"',
        'told = {"what"',
        "tests/test_events.py::test_a_user_for_whom_a_sweep_fails_is_named",
    ),
    Patch(
        "10 events: whose session failed",
        "agent.py",
        'self._engine.failed("user_id", error, whose)',
        'self._engine.troubles.note("user_id", error)',
        "tests/test_events.py::test_a_session_whose_user_can_not_be_told_is_told_once",
    ),
    Patch(
        "10 events: a function that fails",
        "called.py",
        'self._failed("record_actions", error)',
        'self._engine.troubles.note("record_actions", error)',
        "tests/test_tool_calls.py::test_a_function_that_fails_costs_the_call_and_no_turn",
    ),
]
