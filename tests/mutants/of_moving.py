"""Mistakes in what is moved from an older partition spec into the current one."""

from mutants.mutant import Mutant

PLANNER = "core/planner/moving.py"
DIVISION = "iceberg/compaction/division.py"
MOVABLE = "iceberg/compaction/movable.py"
CHECKS = "iceberg/compaction/commit_checks.py"
VERDICTS = "core/planner/test_moving.py::"
FILES = "iceberg/compaction/test_moving.py::"
JOBS = "service/jobs/test_moves.py::"

MUTANTS = (
    Mutant(
        "whatever the policy says, old specs are moved",
        PLANNER,
        "policy.compact.output_spec is OutputSpec.OWN or view.outputs is None",
        "view.outputs is None",
        VERDICTS + "test_by_default_it_stays",
    ),
    Mutant(
        "a simulation moves into partitions of which it knows nothing",
        PLANNER,
        " or view.outputs is None:",
        ":",
        VERDICTS + "test_a_simulation_moves_nothing",
    ),
    Mutant(
        "rows go into a partition to which somebody writes",
        PLANNER,
        "    asked = partition or NO_PARTITION\n",
        "    asked = NO_PARTITION\n",
        VERDICTS + "test_a_day_to_which_somebody_writes_keeps_its_hours",
    ),
    Mutant(
        "rows without a value go into a partition that is not there",
        PLANNER,
        "if partition is None and time_span(key, around.fields) is None:",
        "if False:",
        VERDICTS + "test_a_partition_without_a_time_must_be_there",
    ),
    Mutant(
        "a move begins beside a compaction of where it goes",
        PLANNER,
        "        if output in flying:\n",
        "        if False:\n",
        VERDICTS + "test_a_job_of_the_day_keeps_its_hours_and_they_keep_the_day",
    ),
    Mutant(
        "a day is compacted while rows are moved into it",
        PLANNER,
        "tuple(_after(one, moving, now_ms) for one in decisions) if moving else decisions",
        "decisions",
        VERDICTS + "test_a_day_into_which_rows_are_moved_is_compacted_after_that",
    ),
    Mutant(
        "where the key tells no time, all rows are due",
        PLANNER,
        "replace(take, before_ms=before_ms)",
        "take",
        VERDICTS + "test_where_a_key_tells_no_time_the_rows_before_one_are_due",
    ),
    Mutant(
        "rows without a region are taken for a table that was not divided",
        "core/older_specs.py",
        "facts.has_undivided and bool(current)",
        "bool(current)",
        "core/test_older_specs.py::test_a_partition_of_an_older_spec_has_a_field_that_is_gone",
    ),
    Mutant(
        "files with rows of today are moved",
        MOVABLE,
        "told.last_ms >= before_ms",
        "told.first_ms >= before_ms",
        FILES + "test_files_with_rows_of_a_time_that_is_not_over_stay",
    ),
    Mutant(
        "a job writes into any number of partitions",
        MOVABLE,
        "elif len(named | set(outputs)) <= MAX_OUTPUTS:",
        "elif True:",
        FILES + "test_a_job_names_no_more_partitions_than_it_may_write",
    ),
    Mutant(
        "a row goes wherever its time is",
        DIVISION,
        "if number not in self.named:",
        "if False:",
        FILES + "test_a_row_of_a_partition_that_is_not_named_ends_the_job",
    ),
    Mutant(
        "what a file says of an identity partition takes the place of what readers find",
        DIVISION,
        "if not _is_all(rows.column(place), value):",
        "if False:",
        FILES + "test_files_that_say_another_value_than_their_partition_stay",
    ),
    Mutant(
        "nobody looks where the rows of a file lie",
        DIVISION,
        "nulls = {**file.null_value_counts, column: file.rows if key == WITHOUT_VALUE else 0}",
        "return file",
        FILES + "test_what_storage_gives_back_must_lie_in_its_partition",
    ),
    Mutant(
        "a file is listed in another partition than its rows",
        CHECKS,
        "if (elsewhere := lies_elsewhere(file, fields)) is not None:",
        "if (elsewhere := None) is not None:",
        FILES + "test_a_file_that_lies_elsewhere_is_never_committed",
    ),
    Mutant(
        "a file is committed into a partition that nobody judged",
        CHECKS,
        "if file.partition not in outputs:",
        "if False:",
        FILES + "test_a_file_that_lies_elsewhere_is_never_committed",
    ),
    Mutant(
        "equality deletes take away rows that they did not apply to",
        CHECKS,
        "if is_in_them and entry.sequence_number > job.base_sequence_number:",
        "if False:",
        FILES + "test_equality_deletes_that_come_where_rows_go_refuse_the_commit",
    ),
    Mutant(
        "equality deletes of before refuse each commit",
        CHECKS,
        "if is_in_them and entry.sequence_number > job.base_sequence_number:",
        "if is_in_them:",
        FILES + "test_equality_deletes_that_come_where_rows_go_refuse_the_commit",
    ),
    Mutant(
        "files are written in a spec that is the current one no more",
        CHECKS,
        "if metadata.default_spec_id != job.output_spec_id:",
        "if False:",
        FILES + "test_another_spec_meanwhile_refuses_the_commit",
    ),
    Mutant(
        "what was moved is listed in the older spec",
        "iceberg/compaction/replaced_manifests.py",
        "data_spec_id = job.spec_id if job.output_spec_id is None else job.output_spec_id",
        "data_spec_id = job.spec_id",
        FILES + "test_what_was_moved_is_never_moved_again",
    ),
    Mutant(
        "nobody knows a commit by files in other partitions",
        "iceberg/compaction/commit_outcome.py",
        "live_files_of(metadata, table.io, head, job.touched, is_stopped=is_stopped)",
        "live_files_of(metadata, table.io, head, [job.partition], is_stopped=is_stopped)",
        FILES + "test_a_commit_whose_snapshot_has_gone_is_known_by_its_files",
    ),
    Mutant(
        "the last look asks only about the partition that is read",
        "service/jobs/last_look.py",
        "self.verdicts.why_output_hot(row, job, resolved.policy) or ",
        "",
        JOBS + "test_an_intent_on_a_day_ends_what_would_go_there",
    ),
    Mutant(
        "files are read before anybody asks where their rows go",
        "service/jobs/compactions.py",
        "if bound.job.outputs and (hot := self.last_look.hot(bound.job)) is not None:",
        "if (hot := None) is not None:",
        JOBS + "test_where_files_go_is_asked_before_anything_is_read",
    ),
    Mutant(
        "a writer in a day does not end the job that writes there",
        "service/jobs/compactions.py",
        "return (operation.partition,) if running is None else running[1].touched",
        "return (operation.partition,)",
        JOBS + "test_a_writer_in_a_day_ends_the_job_that_runs",
    ),
    Mutant(
        "a move shares a commit with a compaction of where it goes",
        "service/jobs/ended_rewrites.py",
        "other.partition not in partitions | outputs and partitions.isdisjoint(other.outputs)",
        "other.partition not in partitions",
        "service/jobs/test_ended_rewrites.py::test_a_move_and_a_compaction_of_where_it_goes_have_commits_of_their_own",
    ),
    Mutant(
        "a cluster says where files lie",
        "iceberg/compaction/spark_answer.py",
        "if not {file.partition for file in found.files} <= may_lie_in:",
        "if False:",
        "iceberg/compaction/test_spark_answer.py::test_files_of_other_partitions_are_none_of_the_job_s",
    ),
    Mutant(
        "rows are moved from where a writer looks for them who replaces them by key",
        "iceberg/compaction/commit_checks.py",
        "if (by := upserted_by(metadata)) is not None:",
        "if (by := None) is not None:",
        FILES + "test_rows_stay_where_a_writer_looks_for_them_who_replaces_them_by_key",
    ),
    Mutant(
        "nobody asks whether rows that are moved are replaced by key",
        "iceberg/partition_fields.py",
        'if any(said.get(name, "0") != "0"',
        'if False and any(said.get(name, "0") != "0"',
        FILES + "test_rows_stay_where_a_writer_looks_for_them_who_replaces_them_by_key",
    ),
    Mutant(
        "a job that fails in its own spec is begun every minute, because a move is refused in between",
        "core/partition_backoff.py",
        "failures = failures if is_of_move else 0",
        "failures = 0",
        "core/test_partition_backoff.py::"
        "test_that_nothing_can_be_moved_neither_forgets_failures_nor_lengthens_the_waits_of_others",
    ),
    Mutant(
        "where moves fail, nothing is compacted in its own spec either",
        "core/planner/moving.py",
        "if quarantine.failures >= QUARANTINE_FAILURES:",
        "if False:",
        "core/planner/test_moving.py::test_after_three_failures_it_is_compacted_in_its_own_spec",
    ),
    Mutant(
        "what cannot be moved is never compacted again",
        "core/planner/held.py",
        " or quarantine.is_of_move:",
        ":",
        "service/jobs/test_moves.py::test_what_stays_in_an_older_spec_is_compacted_in_it",
    ),
    Mutant(
        "what cannot be moved is bound for it again and again",
        "core/planner/moving.py",
        "if not quarantine.is_of_move or quarantine.until_ms <= now_ms:",
        "if True:",
        "service/jobs/test_moves.py::test_what_stays_in_an_older_spec_is_compacted_in_it",
    ),
)
