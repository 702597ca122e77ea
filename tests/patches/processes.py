"""Several processes: whose folder it is, whose turn, and what one knows of another's writes."""

from patches._patch import Patch

PATCHES: list[Patch] = [
    Patch(
        "9 folder: refused",
        "opening.py",
        "    ownership = own(folder)\n    try:\n",
        "    ownership = own(folder / 'other')\n    try:\n",
        "tests/test_ownership.py::"
        "test_the_second_process_is_told_who_has_the_folder_and_what_to_do",
    ),
    Patch(
        "9 folder: a caller's client",
        "opening.py",
        "False, key, folder, own(folder))",
        "False, key, folder, None)",
        "tests/test_ownership.py::test_a_client_of_the_callers_is_held_to_the_same",
    ),
    Patch(
        "9 folder: shared here",
        "ownership.py",
        "            if not taken.stores:\n",
        "            if taken.stores >= 0:\n",
        "tests/test_ownership.py::"
        "test_stores_of_one_process_share_the_folder_until_the_last_is_closed",
    ),
    Patch(
        "9 folder: dropped",
        "store.py",
        "            weakref.finalize(self, opened.ownership.release)\n",
        "            pass\n",
        "tests/test_ownership.py::test_a_store_that_is_refused_or_dropped_holds_nothing",
    ),
    Patch(
        "9 folder: fork",
        "ownership.py",
        "    os.register_at_fork(after_in_child=_folders.__init__)\n",
        "    pass\n",
        "tests/test_ownership.py::test_a_forked_child_neither_holds_nor_releases_its_parents_lock",
    ),
    Patch(
        "9 folder: the command",
        "erase/__main__.py",
        "        with owned(given.path, given.owner):\n",
        "        with owned(given.path / '..', given.owner):\n",
        "tests/test_ownership.py::test_the_command_that_erases_leaves_a_folder_alone_that_is_open",
    ),
    Patch(
        "9 folder: its own command",
        "erase/run.py",
        '"--owner", token_of(folder)]',
        '"--owner", ""]',
        "tests/test_ownership.py::test_the_command_that_erases_leaves_a_folder_alone_that_is_open",
    ),
    Patch(
        "9 turns: one digest",
        "scope.py",
        '        if self.services.store.kind != "server":\n            return None\n',
        "        return None\n",
        "tests/test_processes.py::test_two_processes_digest_the_same_user_at_once",
    ),
    Patch(
        "9 turns: fencing",
        "store.py",
        '        revision = self._row_id("revision", "")\n        with chroma("read a rev',
        "        pairs = {}\n"
        '        revision = self._row_id("revision", "")\n        with chroma("read a rev',
        "tests/test_processes.py::"
        "test_a_process_that_stopped_in_the_middle_writes_nothing_once_it_is_overtaken",
    ),
    Patch(
        "9 turns: late racer",
        "store.py",
        "        now = _standing(rows)\n",
        "        now = _standing({epoch: rows[epoch]})\n",
        "tests/test_lease.py::test_who_comes_after_its_epoch_is_over_does_not_get_it",
    ),
    Patch(
        "9 turns: the first of racers",
        "store.py",
        "            collection.add(\n",
        "            collection.upsert(\n",
        "tests/test_lease.py::test_the_first_of_two_who_add_the_same_epoch_has_it",
    ),
    Patch(
        "9 turns: a crash",
        "lease.py",
        "        return standing.free or moment - self._since >= self.seconds\n",
        "        return standing.free\n",
        "tests/test_lease.py::test_a_turn_is_over_when_its_beat_stood_still_for_its_time",
    ),
    Patch(
        "9 turns: a sign of life",
        "lease.py",
        "        self._beats = self._worker.spawn(self._beating(epoch))\n",
        "",
        "tests/test_processes.py::test_a_living_digest_keeps_its_turn_however_long_the_model_takes",
    ),
    Patch(
        "9 turns: given free",
        "lease.py",
        "            return\n        try:\n"
        "            await self._worker.thread(self._rows.end_turn, self._name, epoch)\n",
        "            return\n        try:\n            pass\n",
        "tests/test_lease.py::test_of_all_who_race_for_a_turn_one_at_a_time_has_it",
    ),
    Patch(
        "9 turns: cancelled wait",
        "lease.py",
        "            if not turn.cancel():  # it was given already\n"
        "                self.release()\n",
        "",
        "tests/test_lease.py::test_a_cancelled_wait_passes_the_lock_on",
    ),
    Patch(
        "9 turns: in one process",
        "lease.py",
        "            return self._locks.setdefault((scope, name), FairLock())\n",
        "            return FairLock()\n",
        "tests/test_lease.py::test_two_memories_on_one_path_take_turns",
    ),
    Patch(
        "9 forget: at once",
        "scope.py",
        "            if self.services.store.shared:\n                await self._refresh()\n"
        "            yield\n",
        "            yield\n",
        "tests/test_processes.py::test_two_processes_forget_one_after_the_other_decided",
    ),
    Patch(
        "9 correct: a digest elsewhere",
        "scope.py",
        "        self.generation += found.ground\n",
        "",
        "tests/test_processes.py::"
        "test_a_correction_in_one_process_holds_against_a_digest_in_another",
    ),
    Patch(
        "9 news: deleted rows",
        "store.py",
        "            also = [self._revision_row(None, telling)] if self.store.shared else []\n",
        "            also = [self._revision_row([], telling)] if self.store.shared else []\n",
        "tests/test_processes.py::test_what_is_read_of_changes_is_what_a_whole_reading_finds",
    ),
    Patch(
        "9 news: a writer's log",
        "revision.py",
        "            self.base = self.writes.popleft()[0]\n",
        "            self.writes.popleft()\n",
        "tests/test_lease.py::test_whoever_reads_what_it_is_told_to_read_knows_all",
    ),
    Patch(
        "9 news: cleared",
        "revision.py",
        "    whole = ground = found.get(CLEARED) != known.get(CLEARED)\n",
        "    whole = ground = False\n",
        "tests/test_lease.py::test_whoever_reads_what_it_is_told_to_read_knows_all",
    ),
    Patch(
        "9 news: old writers",
        "revision.py",
        "    if len(writers) < MOST_WRITERS:\n",
        "    if writers:\n",
        "tests/test_lease.py::test_values_of_writers_that_are_gone_do_not_pile_up",
    ),
    Patch(
        "9 stateless: not all is read",
        "scope.py",
        "        if found.whole or not await self._catch_up(found):\n",
        "        if not found.nothing:\n",
        "tests/test_processes.py::test_what_changed_elsewhere_is_read_and_nothing_else",
    ),
    Patch(
        "9 server: hangs",
        "opening.py",
        "        session.timeout = seconds\n",
        "        pass\n",
        "tests/test_lease.py::test_a_server_that_hangs_holds_up_no_call_for_ever",
    ),
    Patch(
        "9 turns: given up while taken",
        "lease.py",
        "            unwanted = self._got and self._given_up\n",
        "            unwanted = False\n",
        "tests/test_lease.py::test_who_gives_up_while_it_takes_a_turn_leaves_it_free",
    ),
    Patch(
        "9 turns: closed while taken",
        "lease.py",
        "            unwanted = self._got and self._given_up\n",
        "            unwanted = False\n",
        "tests/test_lease.py::test_who_closes_while_it_takes_a_turn_leaves_it_free",
    ),
    Patch(
        "9 turns: given up once taken",
        "lease.py",
        "                self._worker.spawn(self._give_on(epoch))\n",
        "                pass\n",
        "tests/test_lease.py::test_who_closes_while_it_takes_a_turn_leaves_it_free",
    ),
]
