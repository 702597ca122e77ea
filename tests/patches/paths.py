"""Every call path, turns at the same time, two users on one agent."""

from patches._patch import Patch

TESTS = "tests/test_call_paths.py"
FLIGHTS = "tests/test_flights.py"
PATCHES: list[Patch] = [
    Patch(
        "4 paths: attempts by fields",
        "remember/align.py",
        "    return bool(held) and not held.issuperset(fields)\n",
        "    return False\n",
        f"{TESTS}::test_a_call_path[ensure_keys: wrong keys, then good]",
    ),
    Patch(
        "4 paths: the wanted fields",
        "host.py",
        "_held(session), _fields(prompt))",
        "_held(session))",
        f"{TESTS}::test_a_call_path[ensure_keys: half, half, good]",
    ),
    Patch(
        "4 paths: restored attempts",
        "remember/journal.py",
        "return None if live else form.form(head[place]) in held",
        "return None",
        f"{TESTS}::test_failed_attempts_stay_out_when_their_history_is_restored",
    ),
    Patch(
        "4 paths: memory on each path",
        "host.py",
        "        _set_section(prompt, text)\n\n\ndef _held",
        "        if prompt.get('output') is None:\n"
        "            _set_section(prompt, text)\n\n\ndef _held",
        f"{TESTS}::test_a_call_path[instant stream]",
    ),
    Patch(
        "4 paths: a failure is over",
        "flights.py",
        "(-1 if failed else RECORDED_WITHIN)",
        "RECORDED_WITHIN",
        f"{TESTS}::test_a_request_that_failed_is_over_at_once",
    ),
    Patch(
        "8 concurrent: window",
        "turns.py",
        "                del window[lead : lead + cut]\n            return None\n",
        "                return [*held[:lead], *held[lead + cut :]]\n            return None\n",
        f"{TESTS}::test_the_window_is_cut_where_agently_holds_it",
    ),
    Patch(
        "8 users: an answer ends one turn",
        "turns.py",
        "            self.host.turn_ended(self)\n",
        "            self.host.turn_ended(self)\n"
        "            self.host._flights.land(self.host._flights._flights[0].request())\n",
        "tests/test_agently_traps.py::test_an_answer_ends_only_its_own_of_two_turns_that_overlap",
    ),
    Patch(
        "8 users: recorded however late",
        "flights.py",
        "                flight.landing, flight.until = True, self._clock() + LANDED_WITHIN\n",
        "                pass\n",
        f"{TESTS}::test_a_flight_is_over_when_its_record_can_come_no_more",
    ),
    Patch(
        "8 users: a failed answer",
        "host.py",
        "            self._flights.fail(result.prompt)\n",
        "            self._flights.approach(result.prompt)\n",
        f"{TESTS}::test_a_failed_request_keeps_no_other_user_out[async_get_data]",
    ),
    Patch(
        "8 users: a record that was broken off",
        "flights.py",
        "                    task.add_done_callback(flight.recorded)\n",
        "                    pass\n",
        f"{TESTS}::test_an_answer_whose_record_was_broken_off_is_over",
    ),
    Patch(
        "8 users: told before it is recorded",
        "host.py",
        '        put_first_extension(self.agent, "finally", self._answered)\n',
        "",
        "tests/test_agently_traps.py::test_an_answer_ends_only_its_own_of_two_turns_that_overlap",
    ),
    Patch(
        "8 users: two alike",
        "flights.py",
        "earlier = [f for f in self._flights[:place] if not (f.done and _same(f, landed))]\n"
        "                self._flights = [*earlier, *self._flights[place + 1 :]]",
        "self._flights = [f for f in self._flights if not (f.done and _same(f, landed))]",
        f"{TESTS}::test_each_of_two_alike_lands_by_itself",
    ),
    Patch(
        "8 users: who activated",
        "host.py",
        "prompt, self._whose(asking), _recorded(prompt), active=self._whose(active)\n",
        "prompt, self._whose(active), _recorded(prompt)\n",
        f"{TESTS}::test_two_tasks_that_activate_and_ask_at_once_are_told_apart",
    ),
    Patch(
        "8 users: an open stream",
        "flights.py",
        "return answered and self.asked not in asked and asked not in self.asked",
        "return True",
        f"{TESTS}::test_a_stream_left_open_while_another_user_asks_is_not_kept",
    ),
    Patch(
        "8 users: over is over",
        "flights.py",
        "return answered and self.asked not in asked and asked not in self.asked",
        "return False",
        f"{TESTS}::test_another_user_who_asks_right_after_is_served",
    ),
    Patch(
        "8 users: activated on which agent",
        "host.py",
        "        held.pop(id(self.agent), None)\n",
        "        held.clear()\n",
        f"{FLIGHTS}::test_who_activated_a_session_does_not_ask_as_another_ones_user"
        "[also_on_another]",
    ),
    Patch(
        "8 users: activated without memory",
        "host.py",
        "asking = active if session is None or self.key_of(session) is None else session\n",
        "asking = session if session is not None and self.memory_of(session) else active\n",
        f"{FLIGHTS}::test_who_activated_a_session_does_not_ask_as_another_ones_user"
        "[in_one_without_memory]",
    ),
    Patch(
        "8 users: asked without memory",
        "host.py",
        "            self._take_off(prompt, session)\n",
        "            if session is not None and self.memory_of(session) is not None:\n"
        "                self._take_off(prompt, session)\n",
        f"{FLIGHTS}::test_what_is_asked_without_memory_is_kept_in_nobody_elses",
    ),
    Patch(
        "8 users: one user's agent",
        "host.py",
        'return self._owner_of_all() or ("", "")',
        'return ("", "")',
        f"{FLIGHTS}::test_an_agent_of_one_user_is_that_users_whoever_asks",
    ),
    Patch(
        "8 users: a reader that pauses",
        "flights.py",
        "        return self.request() is None and (self.done or self.late())\n",
        "        return self.late() or (self.done and self.request() is None)\n",
        f"{FLIGHTS}::test_a_stream_whose_reader_pauses_is_nobody_elses",
    ),
    Patch(
        "8 users: late and alike",
        "flights.py",
        "others = self._others(flight.owner) if was_late else []",
        "others = []",
        f"{FLIGHTS}::test_a_record_that_comes_late_is_its_askers",
    ),
    Patch(
        "8 users: a late record",
        "turns.py",
        "strayed = not mixed and self.host.strayed(self, asked)",
        "strayed = False",
        f"{FLIGHTS}::test_a_stream_whose_reader_pauses_is_nobody_elses",
    ),
    Patch(
        "8 users: sessions come meanwhile",
        "host.py",
        "return list(self.agent.sessions.items())",
        "return self.agent.sessions.items()",
        "tests/test_whose.py::test_sessions_that_other_threads_activate_break_no_look_at_an_agent",
    ),
    Patch(
        "8 users: one memory a session",
        "agent.py",
        "known, first = self._sessions.setdefault(key, (session, memory))",
        "known, first = self._sessions[key] = (session, memory)",
        "tests/test_whose.py::test_threads_that_ask_first_for_a_session_share_its_memory",
    ),
    Patch(
        "8 users: one host an agent",
        "gumem.py",
        "        with self._engine.agents_lock:\n            bound =",
        "        if True:\n            bound =",
        "tests/test_whose.py::test_threads_that_bind_sessions_of_an_agent_share_what_is_set_on_it",
    ),
    Patch(
        "4 paths: switched off in the middle",
        "host.py",
        "if held and (switched_off() or session.memo is None):",
        "if held and session.memo is None:",
        "tests/test_whose.py::test_a_switch_in_the_middle_holds_back_the_memo_as_well",
    ),
]
