"""The SessionMemory plugin."""

from patches._patch import Patch

FILE = "plugin.py"
TESTS = "tests/test_plugin.py::"

PATCHES: list[Patch] = [
    Patch(
        "2 plugin: each question",
        FILE,
        "        self.host.install()\n",
        "",
        f"{TESTS}test_every_call_carries_its_own_context_for_one_request_and_is_journaled_once",
    ),
    Patch(
        "2 plugin: journal",
        FILE,
        '            await memory.guarded("turn", self._turn(memory), None)\n',
        "",
        f"{TESTS}test_every_call_carries_its_own_context_for_one_request_and_is_journaled_once",
    ),
    Patch(
        "2 plugin: as attach",
        FILE,
        "        if due is not None and memory.executes:\n",
        "        if False:\n",
        f"{TESTS}test_it_is_as_attach_is",
    ),
    Patch(
        "2 plugin: a handler of one's own",
        FILE,
        "memory.executes = session._analysis_handler == session._default_analysis_handler",
        "memory.executes = True",
        f"{TESTS}test_a_handler_of_the_developers_own_is_asked_and_nothing_is_lost",
    ),
    Patch(
        "2 plugin: the nearest setting",
        FILE,
        "        if (named := self._named()) is not None:\n            return named\n",
        "",
        f"{TESTS}test_the_nearest_setting_says_whose_memory_it_is",
    ),
    Patch(
        "2 plugin: said once",
        FILE,
        "if self._said == self._why or self.off",
        "if self.off",
        f"{TESTS}test_without_a_user_there_is_no_memory_and_it_is_said_once",
    ),
    Patch(
        "2 plugin: a function that fails",
        FILE,
        "        if self._refused:\n",
        "        if False:\n",
        f"{TESTS}test_a_user_id_that_fails_costs_its_session_the_memory_alone",
    ),
    Patch(
        "2 plugin: one user, reading",
        FILE,
        "if memory is not None and self._named() not in (None, memory.user_id):",
        "if False:",
        f"{TESTS}test_a_session_stays_one_users",
    ),
    Patch(
        "2 plugin: one user, later",
        FILE,
        '            self._owner = ""  # what two users said stands in one history now\n',
        "",
        f"{TESTS}test_a_session_stays_one_users",
    ),
    Patch(
        "2 plugin: one user, again",
        FILE,
        "            if self._owner not in (None, name):\n",
        "            if False:\n",
        f"{TESTS}test_a_session_stays_one_users",
    ),
    Patch(
        "2 plugin: left for another user",
        FILE,
        "return plugin.serving() if active else plugin.resolved()",
        "return plugin.serving()",
        f"{TESTS}test_a_session_that_is_left_for_another_users_ends_as_its_users",
    ),
    Patch(
        "2 plugin: another plugin's session",
        FILE,
        "        plugin = self._plugin_of(session)\n        if plugin is None:\n",
        '        found = getattr(session, "memory", None)\n'
        '        self.__dict__.setdefault("first", found)\n'
        "        plugin = self.first\n        if plugin is None:\n",
        f"{TESTS}test_another_plugin_takes_its_place_and_a_session_made_anew_has_none",
    ),
    Patch(
        "2 plugin: used again",
        FILE,
        "            self._memory = before._memory\n",
        "            pass\n",
        f"{TESTS}test_using_it_again_goes_on_and_another_mode_takes_over",
    ),
    Patch(
        "2 plugin: detach",
        FILE,
        "            self.host.remove()\n",
        "",
        f"{TESTS}test_detach_gives_the_agent_back",
    ),
    Patch(
        "2 plugin: without an agent",
        FILE,
        "            self.session.register_analysis_handler(self._analysis)\n",
        "            pass\n",
        f"{TESTS}test_a_session_without_an_agent_keeps_what_it_is_given_and_says_what_is_missing",
    ),
    Patch(
        "2 plugin: settings stay",
        FILE,
        '"DEFAULT_SETTINGS": dict(before or {})',
        '"DEFAULT_SETTINGS": {}',
        f"{TESTS}test_no_setting_of_the_application_is_overwritten",
    ),
    Patch(
        "2 plugin: one mode, one GUMem",
        FILE,
        "    if engine is not mode.engine and not engine.closed:\n",
        "    if False:\n",
        f"{TESTS}test_a_mode_belongs_to_one_open_gumem",
    ),
    Patch(
        "2 plugin: attached already",
        FILE,
        "        if getattr(agent, ATTACHED, None) is not None:\n",
        "        if False:\n",
        f"{TESTS}test_an_agent_has_memory_by_one_way",
    ),
    Patch(
        "2 plugin: handlers beside it",
        "gumem.py",
        "            vacate(agent)\n",
        "",
        f"{TESTS}test_an_agent_has_memory_by_one_way",
    ),
    Patch(
        "2 plugin: what a closed one left",
        "agent.py",
        "    held.host.remove()\n    delattr(agent, BOUND)\n",
        "    delattr(agent, BOUND)\n",
        f"{TESTS}test_an_agent_of_a_closed_gumem_can_be_used_by_the_next",
    ),
    Patch(
        "2 plugin: another's memo",
        "plugin.py",
        "            put_memo(session, None)\n",
        "            pass\n",
        f"{TESTS}test_the_memo_of_one_user_is_not_sent_for_the_next",
    ),
    Patch(
        "2 plugin: another's memo in this request",
        "host.py",
        "if held and (switched_off() or session.memo is None):",
        "if held and switched_off():",
        f"{TESTS}test_the_memo_of_one_user_is_not_sent_for_the_next",
    ),
    Patch(
        "2 plugin: each turn lands",
        "turns.py",
        "answered = answered or (bool(full)",
        "answered = (bool(full)",
        f"{TESTS}test_a_turn_is_over_also_where_the_next_question_is_recorded_first",
    ),
]
