"""Mistakes in what is told of how far a rewrite is."""

from mutants.mutant import Mutant

PROGRESS = "service/jobs/job_progress.py"
TESTS = "service/jobs/test_job_progress.py::"

MUTANTS = (
    Mutant(
        "each turn of the loop tells how far rewrites are",
        PROGRESS,
        "if now_s < self._next_s:",
        "if False:",
        TESTS + "test_the_metrics_have_the_sums_of_a_table_every_few_seconds_and_its_end",
    ),
    Mutant(
        "a table of which no rewrite runs any more has one in its metrics for ever",
        PROGRESS,
        "yield from (RewritesRun(table, 0) for table in over)",
        "pass",
        TESTS + "test_the_metrics_have_the_sums_of_a_table_every_few_seconds_and_its_end",
    ),
    Mutant(
        "a job that takes long is in the log every few seconds",
        PROGRESS,
        "one.log_at_s = now_s + LOGGED_EVERY_S",
        "pass",
        TESTS + "test_a_job_that_takes_long_is_in_the_log_once_a_minute",
    ),
    Mutant(
        "a job of which nobody knows how far it is has read nothing",
        PROGRESS,
        "share = None if far.unknown else share_of(",
        "share = share_of(",
        TESTS + "test_of_a_job_that_does_not_say_how_far_it_is_the_log_says_why",
    ),
    Mutant(
        "what is passed through counts for nothing once rows are written",
        "iceberg/compaction/counters.py",
        "self._rows_passed + self._rows_written,",
        "self._rows_written,",
        "iceberg/compaction/test_counters.py::test_who_shares_the_memory_sees_what_was_read_and_written",
    ),
    Mutant(
        "the series of rewrites stay when they are over",
        "telemetry/job_metrics.py",
        "self._drop(metric, what.table.name, word)",
        "pass",
        "telemetry/test_metrics.py::test_how_far_rewrites_are_is_shown_while_they_run",
    ),
    Mutant(
        "the time for which a job waited counts as time in which it read",
        PROGRESS,
        "self._seen[job.job_id].reads_since_s = now_s",
        "pass",
        TESTS + "test_the_time_for_which_a_job_waited_says_nothing_of_its_pace",
    ),
)
