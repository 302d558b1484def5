"""Mistakes in how large a partition's jobs are after one that outlived its deadline, or its memory."""

from mutants.mutant import Mutant

PART_SIZE = "core/part_size.py"
TESTS = "core/test_part_size.py::"
PARTS = "service/jobs/test_jobs_in_parts.py::"

MUTANTS = (
    Mutant(
        "a job that outlived its deadline is tried again as it was",
        PART_SIZE,
        "max(least // 2, 1)",
        "max(least, 1)",
        TESTS + "test_after_a_job_that_did_not_end_in_time_the_next_one_reads_half_and_half_again",
    ),
    Mutant(
        "an end that has nothing to do with its size makes a job smaller",
        PART_SIZE,
        "if not _is_too_large(before, reason) or not read.bytes:",
        "if not read.bytes:",
        TESTS + "test_no_other_end_makes_a_job_smaller_and_none_forgets_that_it_is",
    ),
    Mutant(
        "beside deletes that are read anyway a job gets no smaller",
        PART_SIZE,
        "MAX_JOB_BYTES if allowed is None else allowed",
        "MAX_JOB_BYTES",
        TESTS + "test_what_is_read_whatever_is_allowed_makes_the_data_beside_it_less_all_the_same",
    ),
    Mutant(
        "jobs of two files are allowed less with each failure, until nothing is",
        PART_SIZE,
        "if read.is_least:",
        "if read.bytes < 2:",
        TESTS + "test_a_job_of_two_files_is_made_no_smaller",
    ),
    Mutant(
        "a partition whose jobs are small has small ones for ever",
        PART_SIZE,
        "if grown >= FORGOTTEN_AFTER or ",
        "if ",
        TESTS + "test_a_part_is_forgotten_after_four_weeks_however_small_it_was",
    ),
    Mutant(
        "a success lets a partition wait that waited before",
        PART_SIZE,
        "until_ms=now_ms, failures=0)",
        "failures=0)",
        TESTS + "test_a_success_keeps_the_size_and_holds_nothing_back",
    ),
    Mutant(
        "the planner does not know that a larger job failed",
        "core/planner/job_size.py",
        " | in_parts(view.quarantined.get(key), now_ms)",
        "",
        TESTS + "test_a_partition_is_finished_in_the_end_whatever_its_jobs_may_read_before_their_deadline",
    ),
    Mutant(
        "another end of a job forgets that larger ones failed",
        "core/partition_backoff.py",
        "after_failure(before, refusal.reason, read, now_ms)",
        "after_failure(None, refusal.reason, read, now_ms)",
        TESTS + "test_a_writer_that_comes_back_meanwhile_lets_no_job_grow",
    ),
    Mutant(
        "the rest of a partition is tried in one piece after each success",
        "service/topics/holds.py",
        "kept = after_success(before, self._now_ms())",
        "kept = None",
        PARTS + "test_the_next_job_reads_half_and_the_rest_goes_on_in_such_parts",
    ),
    Mutant(
        "nobody writes down how much a failed job was to read",
        "service/jobs/beginning_compactions.py",
        "refusal, rest_ms, read)",
        "refusal, rest_ms)",
        PARTS + "test_the_next_job_reads_half_and_the_rest_goes_on_in_such_parts",
    ),
    Mutant(
        "a hold may have a size with which nobody can count",
        "service/topics/holds.py",
        "hold.failures, *part)",
        "hold.failures)",
        "service/topics/test_holds_of_others.py::test_a_number_beyond_all_bounds_holds_its_table_and_makes_nothing_fail",
    ),
    Mutant(
        "a part of what was too large for a cluster runs on the daemon's machine",
        "core/planner/plan.py",
        "if key is not None and in_parts(",
        "if False and in_parts(",
        TESTS + "test_a_part_runs_where_the_whole_would",
    ),
    Mutant(
        "a job that a cluster has not begun is made smaller",
        "iceberg/compaction/spark_executor.py",
        "slack_s=SLACK_S, has_begun=False)",
        "slack_s=SLACK_S)",
        "iceberg/compaction/test_spark_away.py::test_a_job_that_spark_never_answers_is_given_up_and_is_not_too_large",
    ),
    Mutant(
        "each delete file counts as one that could be left out",
        "core/model/jobs.py",
        "self.data_files + min(self.delete_files, 1)",
        "self.data_files + self.delete_files",
        TESTS + "test_a_part_stays_what_one_data_file_takes_however_many_deletes_are_read_with_it",
    ),
    Mutant(
        "a job that somebody killed once is made smaller",
        PART_SIZE,
        "reason in KILLS and last_failure(before) in KILLS",
        "reason in KILLS",
        TESTS + "test_a_job_that_is_killed_twice_in_a_row_is_made_smaller_and_no_other_that_is_killed",
    ),
    Mutant(
        "whatever failed before, a job that is killed is made smaller",
        PART_SIZE,
        "reason in KILLS and last_failure(before) in KILLS",
        'reason in KILLS and last_failure(before) != ""',
        TESTS + "test_a_job_that_is_killed_twice_in_a_row_is_made_smaller_and_no_other_that_is_killed",
    ),
    Mutant(
        "an outage ends a row of jobs that are killed",
        "core/partition_backoff.py",
        "why += FAILED_BEFORE + failed_as",
        "pass",
        TESTS + "test_a_job_that_is_killed_twice_in_a_row_is_made_smaller_and_no_other_that_is_killed",
    ),
    Mutant(
        "small jobs that are killed leave crumbs",
        PART_SIZE,
        "return part if least <= LEAST_KILLED_BYTES else ",
        "return ",
        TESTS + "test_who_fills_a_machine_is_no_small_job",
    ),
    Mutant(
        "a job that is killed is made as small as one that is too large",
        PART_SIZE,
        "max(least // 2, LEAST_KILLED_BYTES)",
        "least // 2",
        TESTS + "test_who_fills_a_machine_is_no_small_job",
    ),
    Mutant(
        "a job that reads more than any is allowed stays as it is",
        PART_SIZE,
        "MAX_JOB_BYTES if allowed is None",
        "read.bytes if allowed is None",
        TESTS + "test_a_job_that_reads_more_than_any_is_allowed_is_made_smaller_too",
    ),
    Mutant(
        "how much a partition's jobs may read is forgotten a week after the last one",
        "service/topics/holds.py",
        "if owns(hold.uuid) and allowed_bytes(hold.part, now_ms) is None",
        "if owns(hold.uuid)",
        "service/topics/test_told_holds.py::"
        "test_a_size_is_kept_as_long_as_it_says_something_however_long_its_wait_is_over",
    ),
    Mutant(
        "each job that goes well in parts is heard as a new hold",
        "service/topics/holds.py",
        "is_held=hold.holds(self._now_ms())",
        "is_held=True",
        "service/topics/test_holds_of_others.py::test_a_job_that_goes_well_in_parts_begins_no_hold_anywhere",
    ),
)
