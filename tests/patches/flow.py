"""Stages of a TriggerFlow."""

from patches._patch import Patch

FLOW = "tests/test_flow_chunks.py::"

PATCHES: list[Patch] = [
    Patch(
        "flow: a stage on its own",
        "remember/digest.py",
        "    waiting = [m for m in waiting if scope.stage_of(m) == stage]\n",
        "",
        FLOW + "test_a_stage_is_its_chunks_own_work",
    ),
    Patch(
        "flow: where stages end is stored",
        "scope.py",
        'self._cut(told.get("session", ""), told.get("ends", ()))',
        "pass",
        FLOW + "test_stages_that_waited_are_digested_apart",
    ),
    Patch(
        "flow: visits are counted",
        "flow/_stage.py",
        "self.name, visit.number, *failed])",
        "self.name, *failed])",
        FLOW + "test_a_loop_marks_each_visit_of_its_stage",
    ),
    Patch(
        "flow: a resumed visit is the same",
        "flow/_data.py",
        "if kept != _DONE and (run, key) not in self._live:",
        "if kept is None and (run, key) not in self._live:",
        FLOW + "test_a_chunk_that_pauses_in_its_stage_marks_when_it_ends",
    ),
    Patch(
        "flow: two visits at once",
        "flow/_data.py",
        "if kept != _DONE and (run, key) not in self._live:",
        "if kept != _DONE:",
        FLOW + "test_two_visits_at_once_are_two",
    ),
    Patch(
        "flow: marked once from a save",
        "flow/_stage.py",
        "key = json.dumps([run_id, self.name, visit.number, *failed])",
        "key = json.dumps([id(self), *failed])",
        FLOW + "test_a_chunk_that_runs_again_from_a_save_marks_once",
    ),
    Patch(
        "flow: a pause keeps open",
        "flow/_stage.py",
        "            self.keep_open()\n        elif",
        "            pass\n        elif",
        FLOW + "test_a_chunk_that_pauses_in_its_stage_marks_when_it_ends",
    ),
    Patch(
        "flow: failed is told apart",
        "session.py",
        "{**(end.outcome or {}), **failed}",
        "{**(end.outcome or {})}",
        FLOW + "test_a_stage_that_raises_is_marked_as_failed_and_raises_on",
    ),
    Patch(
        "flow: nothing of ours ends it",
        "flow/_stage.py",
        "            yield from steps\n        except Exception as error:",
        "            yield from steps\n        except ZeroDivisionError as error:",
        FLOW + "test_no_memory_fails_a_flow",
    ),
    Patch(
        "flow: a loop is not held up",
        "flow/_stage.py",
        "wait=not in_a_loop()",
        "wait=True",
        FLOW + "test_a_plain_stage_inside_a_loop_waits_for_no_digest",
    ),
    Patch(
        "flow: cancelled",
        "flow/_stage.py",
        "                memory.end_stage_beside(end)",
        "                pass",
        FLOW + "test_a_stage_that_is_cancelled_is_marked_beside",
    ),
    Patch(
        "flow: remembered once",
        "flow/_chunks.py",
        'return message.model_copy(update={"id": f"flow-{own[:32]}"})',
        "return message",
        FLOW + "test_what_is_remembered_twice_in_one_visit_is_kept_once",
    ),
    Patch(
        "3 flow: cancelled as it begins",
        "flow/_stage.py",
        "            visits.end(visit)\n            raise\n",
        "            raise\n",
        "tests/test_flow_chunks.py::test_a_stage_that_is_cancelled_while_it_begins_is_no_visit",
    ),
    Patch(
        "3 flow: a state that was changed",
        "flow/_stage.py",
        "        if all(place is None or type(place) is int for place in places):\n",
        "        if places is not None:\n",
        "tests/test_flow_chunks.py::"
        "test_a_state_that_was_changed_outside_costs_its_stage_and_no_flow",
    ),
]
