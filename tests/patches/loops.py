"""Loops and threads, forks, and how a memory closes."""

from patches._patch import Patch

LOOPS, CLOSING = "tests/test_loops.py::", "tests/test_closing.py::"

PATCHES: list[Patch] = [
    Patch(
        "7 loops: a cancelled caller",
        "worker.py",
        "        done, _ = await asyncio.wait({waited}, timeout=seconds)\n"
        "        if not done:\n"
        '            raise TimeoutError(f"the memory',
        "        done = [await asyncio.wait_for(waited, seconds)]\n"
        "        if not done:\n"
        '            raise TimeoutError(f"the memory',
        "tests/test_worker.py::test_a_cancelled_caller_cancels_nothing_of_ours",
    ),
    Patch(
        "7 loops: the thread has ended",
        "worker.py",
        "                future.cancel()\n                if inspect",
        "                if inspect",
        f"{CLOSING}test_a_memory_whose_thread_has_ended_says_so_and_closes",
    ),
    Patch(
        "7 loops: daemon threads",
        "threads.py",
        "target=jobs.serve, name=name, daemon=True",
        "target=jobs.serve, name=name, daemon=False",
        f"{CLOSING}test_the_interpreters_end_is_quiet_bounded_and_loses_nothing",
    ),
    Patch(
        "7 loops: names of servers",
        "threads.py",
        'asyncio.get_running_loop().set_default_executor(Lane("gumem-resolve", 4))\n        return',
        "return",
        f"{LOOPS}test_a_loop_of_its_own_looks_names_up_in_daemon_threads",
    ),
    Patch(
        "7 loops: threads as needed",
        "threads.py",
        "jobs.threads < self._most",
        "jobs.threads < 1",
        f"{LOOPS}test_a_lane_makes_threads_as_they_are_needed_and_no_more",
    ),
    Patch(
        "7 loops: dropped without close",
        "threads.py",
        "        weakref.finalize(self, self._jobs.close).atexit = False\n",
        "        _ = weakref\n",
        f"{LOOPS}test_a_lane_that_nobody_holds_ends_its_threads",
    ),
    Patch(
        "7 closing: in a hook",
        "closing.py",
        "self._stop(0.0 if called_inside else timeout)",
        "self._stop(timeout)",
        f"{CLOSING}test_a_hook_of_a_digest_may_close",
    ),
    Patch(
        "7 closing: in a signal",
        "closing.py",
        "called_inside or self._closer == me or",
        "called_inside or",
        f"{CLOSING}test_a_signals_handler_closes_in_the_middle_of_a_close",
    ),
    Patch(
        "7 closing: the second waits",
        "closing.py",
        "                self._over.wait(timeout + _END_WITHIN + _HOOKS_WITHIN + STOP_WITHIN)\n",
        "                pass\n",
        f"{CLOSING}test_who_closes_second_waits_for_the_first",
    ),
    Patch(
        "7 closing: a write under way",
        "worker.py",
        "if not all(lane.idle(_rest(until)) for lane in (self._pool, self._writes, self._long)):",
        "if False:",
        f"{CLOSING}test_it_ends_in_bounded_time_whatever_hangs",
    ),
    Patch(
        "7 closing: a store that hangs",
        "worker.py",
        "            closing.result(_rest(until))\n",
        "            closing.result()\n",
        f"{CLOSING}test_a_store_that_does_not_close_is_left",
    ),
    Patch(
        "7 closing: said once",
        "engine.py",
        "        if not self._told_gone:\n",
        "        if True:\n",
        f"{CLOSING}test_turns_go_on_without_memory_and_it_is_said_once",
    ),
    Patch(
        "7 closing: a status that tells",
        "session.py",
        "return self._standing() if self._engine.gone else self.worker.run(self._status)",
        "return self.worker.run(self._status)",
        f"{CLOSING}test_what_stands_is_told_after_it",
    ),
    Patch(
        "7 fork: a worker anew",
        "engine.py",
        "            renew()\n        self.worker.renew()\n",
        "            renew()\n",
        f"{LOOPS}test_a_fork_on_a_server_opens_anew",
    ),
    Patch(
        "7 fork: a store of the child's own, in which Chroma hangs",
        "opening.py",
        "        self.lost = self.used",
        "        pass",
        f"{LOOPS}test_a_fork_of_a_process_that_used_chroma_opens_no_other",
    ),
    Patch(
        "7 fork: locks",
        "engine.py",
        "        for renew in self.renewals:\n            renew()\n",
        "",
        f"{LOOPS}test_a_fork_on_a_server_opens_anew",
    ),
    Patch(
        "7 fork: digests of the parent",
        "behind.py",
        "return task is not None and not task.done() and task in self._engine.digests",
        "return task is not None and not task.done()",
        f"{LOOPS}test_a_fork_on_a_server_opens_anew",
    ),
    Patch(
        "7 fork: turns of the parent",
        "flights.py",
        "self._lock, self._flights, self._pid = threading.RLock(), [], os.getpid()",
        "self._lock, self._pid = threading.RLock(), os.getpid()",
        f"{LOOPS}test_what_is_on_its_way_in_the_parent_is_not_so_in_the_child",
    ),
    Patch(
        "8 crowd: a store that hangs",
        "worker.py",
        "            self._patience.lose(owner)\n",
        "",
        f"{LOOPS}test_a_step_that_hangs_costs_the_next_turn_little",
    ),
    Patch(
        "8 crowd: a store that is only slow",
        "threads.py",
        "self._lost.setdefault(owner, now)",
        "self._lost[owner] = now",
        f"{LOOPS}test_who_waited_in_vain_waits_less_for_a_while",
    ),
    Patch(
        "8 crowd: what hangs is refused",
        "worker.py",
        "        self._hanging.check(owner)\n",
        "",
        f"{LOOPS}test_a_function_that_hangs_is_left_behind_and_refused_then",
    ),
    Patch(
        "8 crowd: an embedder that hangs",
        "scope.py",
        "        if embedder.bundled:\n",
        "        if embedder:\n",
        f"{LOOPS}test_what_hangs_for_one_user_holds_up_nobody_else",
    ),
    Patch(
        "8 crowd: no digest waits",
        "scope.py",
        '        self.digest_lock = Turn(self.rows, "digest", self._lease("digest", _DIGEST))\n',
        '        self.digest_lock = vars(services.store).setdefault("one", '
        'Turn(self.rows, "digest", self._lease("digest", _DIGEST)))\n',
        f"{LOOPS}test_no_digest_waits_for_another_users",
    ),
]
