"""Mistakes in windows that writers grant."""

from mutants.mutant import Mutant

GRANTED = "core/planner/granted.py"
LAWS = "core/planner/test_granted.py::"
BOOK = "service/jobs/granted_windows.py"
WINDOWS = "service/rounds/asking_windows.py"
ASKING = "service/windows/test_asking.py::"
GRANTING = "service/windows/test_granting.py::"
ENDING = "service/windows/test_ending.py::"
INGEST = "isotherm_ingest/batches/windows.py"
DRIVER = "ingest/batches/test_windows.py::"
AUDIT = "audit/test_granted_windows.py::"

MUTANTS = (
    Mutant(
        "the audit passes over intents that follow each other",
        "audit/intents.py",
        "if not any(story.holds(key, at_ms, cap_ms) for story in stories):",
        "if not held_by.holds(key, at_ms, cap_ms):",
        "audit/test_cold_only.py::test_an_open_intent_makes_its_partitions_hot",
    ),
    Mutant(
        "a window that is over counts",
        "core/model/windows.py",
        "now_ms < self.until_ms\n            and ",
        "",
        LAWS + "test_outside_of_its_window_what_is_hot_stays_so",
    ),
    Mutant(
        "a window goes on though somebody has written",
        "core/model/windows.py",
        "and foreign_commits == self.foreign_commits",
        "",
        LAWS + "test_outside_of_its_window_what_is_hot_stays_so",
    ),
    Mutant(
        "a window is of all partitions",
        "core/model/windows.py",
        "and (self.partitions is None or key in self.partitions)",
        "",
        LAWS + "test_outside_of_its_window_what_is_hot_stays_so",
    ),
    Mutant(
        "an intent is passed over in a window",
        "core/planner/coldness.py",
        "return intent_rule, grant_rule",
        "return (grant_rule,)",
        LAWS + "test_an_intent_is_heard_in_a_window_too",
    ),
    Mutant(
        "a window is asked for beside a writer that grants none",
        GRANTED,
        "if not word.grants or word.is_unreadable:",
        "if False:",
        LAWS + "test_beside_a_writer_that_grants_none_nobody_is_asked",
    ),
    Mutant(
        "a job is longer than its window",
        GRANTED,
        "    if job_ms(size_bytes) <= left_ms:\n",
        "    if True:\n",
        LAWS + "test_what_does_not_fit_into_the_rest_of_a_window_waits",
    ),
    Mutant(
        "a request goes out when the window is over",
        BOOK,
        "        if left_ms <= 0:\n            return ()\n",
        "        until_ms += 10**9\n",
        ENDING + "test_what_ends_a_window_ends_its_job",
    ),
    Mutant(
        "an intent for another partition ends no window",
        "service/jobs/compactions.py",
        "        self.windows.disturb(one.uuid for one in taken.touched)\n",
        "",
        ENDING + "test_what_ends_a_window_ends_its_job",
    ),
    Mutant(
        "what is announced after the grant, and was committed before it, ends the window",
        BOOK,
        "if window is not None and window.is_open:",
        "if window is not None:",
        GRANTING + "test_an_event_from_before_the_grant_that_comes_after_it_ends_nothing",
    ),
    Mutant(
        "the head is another than the writer knows",
        WINDOWS,
        "            return WindowEnd.OTHER_HEAD\n",
        "            pass\n",
        GRANTING + "test_where_the_head_is_another_than_the_writer_knows_the_window_is_closed",
    ),
    Mutant(
        "a late grant is used",
        WINDOWS,
        "            return WindowEnd.LATE\n",
        "            pass\n",
        GRANTING + "test_a_grant_that_comes_late_is_closed_at_once",
    ),
    Mutant(
        "one of two writers is enough",
        BOOK,
        "return self.writers <= self.granted.keys()",
        "return bool(self.granted)",
        GRANTING + "test_two_writers_must_both_grant",
    ),
    Mutant(
        "a job goes on when its window is over",
        WINDOWS,
        "        self.compactions.cancel_window(window.window_id, refusal)\n",
        "",
        ENDING + "test_a_job_that_is_too_slow_is_cancelled_when_its_window_is_over",
    ),
    Mutant(
        "a writer that takes its window back is not heard",
        BOOK,
        "window.end = window.end or WindowEnd.TAKEN_BACK",
        "pass",
        ENDING + "test_what_ends_a_window_ends_its_job",
    ),
    Mutant(
        "a table in a window takes part in batches",
        "isotherm_ingest/batches/table_state.py",
        " or now_s < self.window_until_s",
        "",
        DRIVER + "test_a_table_for_which_a_window_is_asked_is_left_alone_and_catches_up",
    ),
    Mutant(
        "a table is left alone for as long as is asked",
        INGEST,
        "length_s = min(request.length_ms / 1000, self._longest_s)",
        "length_s = request.length_ms / 1000",
        DRIVER + "test_no_window_is_longer_than_what_is_allowed",
    ),
    Mutant(
        "a table is left alone again and again",
        INGEST,
        "self._rests_until_s[uuid] = now_s + REST * took_s",
        "self._rests_until_s[uuid] = now_s",
        DRIVER + "test_a_table_is_left_alone_for_a_tenth_of_the_time_at_most",
    ),
    Mutant(
        "a window that the daemon has closed goes on",
        INGEST,
        "                    self._closed(event, wanted)\n",
        "                    pass\n",
        DRIVER + "test_a_window_that_is_closed_ends_at_once",
    ),
    Mutant(
        "a table that is not in step is left alone for the daemon",
        INGEST,
        "        return is_well and not state.lacks_below(front)\n",
        "        return True\n",
        DRIVER + "test_a_table_that_is_not_in_step_is_not_left_alone",
    ),
    Mutant(
        "the audit believes in a window that was closed",
        "audit/granted_windows.py",
        "case WindowClosed() if at_ms - one.at_ms > MARGIN_MS:",
        "case WindowClosed() if False:",
        AUDIT + "test_what_no_window_covers_is_a_breach",
    ),
    Mutant(
        "the audit does not see who wrote in a window",
        "audit/granted_windows.py",
        "        if other.is_write:\n",
        "        if False:\n",
        AUDIT + "test_whoever_writes_in_a_window_ends_it",
    ),
    Mutant(
        "a grant that is shorter than half of what was asked for is always late",
        "service/jobs/granted_windows.py",
        "        return 2 * (self.ends_s - now_s) < self.lasts_s\n",
        "        return 2 * (self.ends_s - now_s) < self.length_s\n",
        GRANTING + "test_a_grant_that_is_much_shorter_than_what_was_asked_for_is_used",
    ),
    Mutant(
        "a grant that comes in vain is answered as often as it is said",
        "service/jobs/granted_windows.py",
        "                del self._void[one.window_id]\n",
        "",
        GRANTING + "test_one_that_is_granted_too_late_is_told_once_however_often_it_says_so",
    ),
    Mutant(
        "what is said again of a window that was closed is answered",
        "service/jobs/granted_windows.py",
        "        if not window.granted:  # else",
        "        if True:  # else",
        GRANTING + "test_what_is_said_again_of_a_window_that_was_closed_is_not_answered",
    ),
    Mutant(
        "all tables are asked for at once, whatever there is room for",
        "service/rounds/asking_windows.py",
        "            if self._room() <= 0:\n",
        "            if False:\n",
        ASKING + "test_no_more_tables_are_asked_for_than_there_are_slots_and_each_has_its_turn",
    ),
    Mutant(
        "a writer is asked for what no budget lets begin",
        "service/rounds/asking_windows.py",
        "if left is None or one.bytes <= left",
        "",
        ASKING + "test_nobody_is_asked_for_what_the_rest_of_a_budget_does_not_let_begin",
    ),
    Mutant(
        "a writer waits for a slot until its window is half over",
        "service/rounds/asking_windows.py",
        "                self._close(window, WindowEnd.NO_SLOT)\n",
        "                pass\n",
        GRANTING + "test_a_window_in_which_nothing_finds_a_slot_is_closed_soon",
    ),
    Mutant(
        "a rollback and a commit in a window look as if nobody had written",
        "service/tables/confirm_heads.py",
        "        self._disturb([uuid])  # one commit less",
        "        pass  # one commit less",
        ENDING + "test_what_ends_a_window_ends_its_job[True-a_rollback_and_a_commit-disturbed]",
    ),
    Mutant(
        "a writer that never answers is asked as often as at first",
        "service/rounds/asking_windows.py",
        " * 2**times",
        "",
        ASKING + "test_writers_that_never_answer_are_asked_ever_more_rarely",
    ),
    Mutant(
        "the event of any ingest stands for another one's that has not come",
        "core/planner/granted.py",
        "word.at_ms > spoke_ms.get(word.writer, -1)",
        "word.at_ms > (max(spoke_ms.values()) if word.writer.startswith(UNHEARD) else -1)",
        "core/planner/test_granted.py::test_an_ingest_whose_event_has_not_come_yet_counts_until_that_ingest_has_spoken",
    ),
    Mutant(
        "a driver looks at every table though the catalog is away",
        "isotherm_ingest/batches/windows.py",
        "            return False, False\n",
        "            return False, True\n",
        "ingest/batches/test_windows.py::test_where_the_catalog_is_away_no_more_than_one_table_is_waited_for",
    ),
    Mutant(
        "what is said later takes a grant back",
        "audit/granted_windows.py",
        "            found.setdefault(one.event.writer, one)\n",
        "            found[one.event.writer] = one\n",
        "audit/test_granted_windows.py::test_what_a_writer_says_later_takes_nothing_back",
    ),
    Mutant(
        "a window is longer than what was asked for",
        "audit/granted_windows.py",
        "min(one.event.length_ms, asked_ms)",
        "one.event.length_ms",
        "audit/test_granted_windows.py::test_a_window_is_what_was_asked_for_and_then_granted_by_each",
    ),
    Mutant(
        "a daemon that is too busy to ask again holds it against the writers",
        "service/rounds/asking_windows.py",
        "end is WindowEnd.UNANSWERED and window.tries >= MOST_TRIES",
        "end is WindowEnd.UNANSWERED",
        ASKING + "test_a_daemon_that_is_too_busy_to_ask_again_does_not_hold_it_against_the_writers",
    ),
    Mutant(
        "a table whose turn did not come waits until it is written to again",
        WINDOWS,
        "self._waiting |= {",
        "self._waiting = {",
        ASKING + "test_a_table_that_was_passed_over_has_its_turn_though_nobody_writes_to_it",
    ),
)
