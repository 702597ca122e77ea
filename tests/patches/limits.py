"""How much the memory asks of the model, and in which order."""

from patches._patch import Patch

_TESTS = "tests/test_limits.py::"

PATCHES: list[Patch] = [
    Patch(
        "8 limits: requests a minute",
        "budget/decide.py",
        "return max(now, self.taken[0] + MINUTE)",
        "return now",
        f"{_TESTS}test_no_minute_has_more_requests_than_its_limit_and_none_waits_longer",
    ),
    Patch(
        "8 limits: no failure",
        "behind.py",
        "if error.refused:",
        "scope.backoff.failed()\n            if error.refused:",
        f"{_TESTS}test_over_the_requests_a_minute_messages_wait_and_go_on_by_themselves",
    ),
    Patch(
        "8 limits: goes on by itself",
        "budget/gate.py",
        "self.clock.later(max(0.0, at - self.clock.seconds()), self._ring)",
        "self.clock.later(1e9, self._ring)",
        f"{_TESTS}test_over_the_requests_a_minute_messages_wait_and_go_on_by_themselves",
    ),
    Patch(
        "8 limits: users in turn",
        "budget/decide.py",
        "popitem(last=False)",
        "popitem(last=True)",
        f"{_TESTS}test_users_take_turns",
    ),
    Patch(
        "8 limits: behind who waits",
        "budget/gate.py",
        "not let_in and self.limits.requests_per_minute and self._ready:",
        "False:",
        f"{_TESTS}test_who_comes_when_the_minute_is_over_does_not_pass_those_that_wait",
    ),
    Patch(
        "8 limits: a permit goes back",
        "budget/gate.py",
        "                self._rate.give_back(permit.moment)",
        "                pass",
        f"{_TESTS}test_a_permit_that_is_not_used_serves_the_next",
    ),
    Patch(
        "8 limits: summaries go on",
        "behind.py",
        "        if report.limited is not None:",
        "        if False:",
        f"{_TESTS}test_summaries_wait_for_the_limit_as_well",
    ),
    Patch(
        "8 limits: an answer counts",
        "model.py",
        "if kept is None and not (problems and isinstance(error, LimitReached)):",
        "if kept is None:",
        f"{_TESTS}test_a_model_that_runs_wild_is_given_up_also_within_a_limit",
    ),
    Patch(
        "8 limits: concurrent",
        "budget/gate.py",
        "if most is None or self._busy < most:",
        "if True:",
        f"{_TESTS}test_all_that_waits_goes_on_within_the_limits",
    ),
    Patch(
        "8 limits: what is not sent",
        "budget/gate.py",
        "            before()\n            if permit is None or permit.moment is None:\n"
        "                self._rate.take(self.clock.seconds())\n",
        "            if permit is None or permit.moment is None:\n"
        "                self._rate.take(self.clock.seconds())\n            before()\n",
        f"{_TESTS}test_a_request_that_is_decided_against_counts_nothing",
    ),
    Patch(
        "8 limits: forgotten meanwhile",
        "budget/gate.py",
        "            before()\n",
        "",
        f"{_TESTS}test_no_more_requests_are_under_way_than_allowed",
    ),
    Patch(
        "8 limits: a sweep goes on",
        "sweeping.py",
        "        except LimitReached:\n            continue",
        "        except LimitReached:\n            failed += 1",
        f"{_TESTS}test_a_digest_that_somebody_waits_for_says_when_it_can_be_had",
    ),
    Patch(
        "8 limits: Retry-After",
        "model.py",
        'self.retry_after = response.headers.get("retry-after")',
        "pass",
        f"{_TESTS}test_a_model_that_asks_to_wait_is_left_alone_by_all_users",
    ),
    Patch(
        "8 limits: an HTTP date",
        "budget/decide.py",
        "told = aware(parsedate_to_datetime(text))",
        "return None",
        f"{_TESTS}test_retry_after_is_seconds_or_a_date",
    ),
    Patch(
        "8 limits: all users of a model",
        "budget/decide.py",
        "return max(now, self.until.get(where, now))",
        "return now",
        f"{_TESTS}test_a_model_that_asks_to_wait_is_left_alone_by_all_users",
    ),
    Patch(
        "8 limits: ever longer",
        "budget/decide.py",
        "float(2**times)",
        "1.0",
        f"{_TESTS}test_a_model_that_does_not_say_how_long_is_asked_ever_less",
    ),
    Patch(
        "8 limits: tokens of a day",
        "model.py",
        "            self.budget.spend(user_id, sum(tokens))",
        "            pass",
        f"{_TESTS}test_a_user_whose_tokens_are_used_waits_for_tomorrow",
    ),
    Patch(
        "8 limits: refused costs nothing",
        "model.py",
        "if ok or heard.status < _BAD:",
        "if True:",
        f"{_TESTS}test_a_request_that_the_server_refused_spends_no_tokens",
    ),
    Patch(
        "8 limits: own requests first",
        "host.py",
        "        self._engine.budget.own.begin(memory.user_id, memory, recorded)\n",
        "",
        f"{_TESTS}test_the_memory_waits_for_the_users_own_turn_but_not_for_ever",
    ),
    Patch(
        "8 limits: not for ever",
        "budget/own.py",
        "timer = self._clock().later(WITHIN,",
        "timer = self._clock().later(100 * WITHIN,",
        f"{_TESTS}test_the_memory_waits_for_the_users_own_turn_but_not_for_ever",
    ),
    Patch(
        "8 limits: only one's own turn",
        "budget/gate.py",
        "        if permit is not None:\n            with self._noted",
        "        if True:\n            with self._noted",
        f"{_TESTS}test_a_digest_by_hand_waits_for_no_turn",
    ),
    Patch(
        "8 limits: a turn without end",
        "budget/own.py",
        "if t.began > oldest",
        "if True",
        f"{_TESTS}test_a_turn_without_an_end_counts_no_longer",
    ),
]
