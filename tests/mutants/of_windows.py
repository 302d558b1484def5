"""Mistakes in windows that writers grant."""

from mutants.mutant import Mutant

GRANTED = "core/planner/granted.py"
LAWS = "core/planner/test_granted.py::"
BOOK = "service/jobs/granted_windows.py"
WINDOWS = "service/rounds/windows.py"
SERVICE = "service/jobs/test_granted_windows.py::"
INGEST = "isotherm_ingest/batches/windows.py"
DRIVER = "ingest/batches/test_windows.py::"
AUDIT = "audit/test_granted_windows.py::"

MUTANTS = (
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
        SERVICE + "test_what_ends_a_window_ends_its_job",
    ),
    Mutant(
        "an intent for another partition ends no window",
        "service/jobs/compactions.py",
        "        self.windows.disturb(one.uuid for one in taken.touched)\n",
        "",
        SERVICE + "test_what_ends_a_window_ends_its_job",
    ),
    Mutant(
        "what is announced after the grant, and was committed before it, ends the window",
        BOOK,
        "if window is not None and window.is_open:",
        "if window is not None:",
        SERVICE + "test_an_event_from_before_the_grant_that_comes_after_it_ends_nothing",
    ),
    Mutant(
        "the head is another than the writer knows",
        WINDOWS,
        "            return WindowEnd.OTHER_HEAD\n",
        "            pass\n",
        SERVICE + "test_where_the_head_is_another_than_the_writer_knows_the_window_is_closed",
    ),
    Mutant(
        "a late grant is used",
        WINDOWS,
        "            return WindowEnd.LATE\n",
        "            pass\n",
        SERVICE + "test_a_grant_that_comes_late_is_closed_at_once",
    ),
    Mutant(
        "one of two writers is enough",
        BOOK,
        "return self.writers <= self.granted.keys()",
        "return bool(self.granted)",
        SERVICE + "test_two_writers_must_both_grant",
    ),
    Mutant(
        "a job goes on when its window is over",
        WINDOWS,
        "        self.compactions.cancel_window(window.window_id, refusal)\n",
        "",
        SERVICE + "test_a_job_that_is_too_slow_is_cancelled_when_its_window_is_over",
    ),
    Mutant(
        "a writer that takes its window back is not heard",
        BOOK,
        "window.end = window.end or WindowEnd.TAKEN_BACK",
        "pass",
        SERVICE + "test_what_ends_a_window_ends_its_job",
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
)
