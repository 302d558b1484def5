"""Mistakes in what is done beside writers that append."""

from mutants.mutant import Mutant

MINOR = "core/planner/minor.py"
LAWS = "core/planner/test_minor.py::"
BESIDE = "iceberg/compaction/test_beside.py"

MUTANTS = (
    Mutant(
        "old files of a table without sequence numbers are merged beside its writers",
        "core/planner/plan.py",
        "    if view.facts.format_version < WITH_NUMBERS:\n",
        "    if False:\n",
        LAWS + "test_in_format_version_1_nothing_tells_which_files_came_first",
    ),
    Mutant(
        "a hot partition is compacted without proof",
        MINOR,
        "    if proved.is_hot:\n",
        "    if False:\n",
        LAWS + "test_what_is_missing_is_said",
    ),
    Mutant(
        "an intent is passed over",
        MINOR,
        'if hot is not None and hot.rule == "intent":',
        "if False:",
        LAWS + "test_an_intent_makes_it_hot",
    ),
    Mutant(
        "young files are taken too",
        MINOR,
        "if one.before_ms <= until_ms and",
        "if one.began_ms and",
        LAWS + "test_of_a_quarter_of_an_hour_of_which_a_part_is_young_all_of_it_waits",
    ),
    Mutant(
        "a file that came while this clock was behind is old once it is right",
        MINOR,
        "partition, margin = partition.as_of(now_ms), ",
        "margin = ",
        LAWS + "test_no_file_is_taken_that_came_within_the_margin",
    ),
    Mutant(
        "what came before such a file is as old as it seems",
        "core/partition_state.py",
        "written_before_ms=before.stamped_at_ms or before.last_write_at_ms,",
        "written_before_ms=before.last_write_at_ms,",
        LAWS + "test_no_file_is_taken_that_came_within_the_margin",
    ),
    Mutant(
        "a proof begins at a time that is not believed",
        "core/appends.py",
        "or (self.since_ms is None and not is_believed)",
        "",
        LAWS + "test_a_proof_does_not_begin_with_a_commit_that_a_clock_far_behind_has_heard_of",
    ),
    Mutant(
        "a partition is quiet because this clock was behind when it was written",
        "core/planner/coldness.py",
        "    partition = partition.as_of(now_ms)\n    for",
        "    for",
        "core/planner/test_coldness_rules.py::"
        "test_a_partition_is_as_quiet_as_the_last_writes_own_time_says_once_that_is_over",
    ),
    Mutant(
        "the partition of rows without a value is taken for the whole of its table",
        "core/planner/coldness.py",
        "key == UNPARTITIONED and not any(field.is_current for field in around.fields)",
        "key == UNPARTITIONED",
        "core/planner/test_coldness_rules.py::"
        "test_the_partition_of_rows_without_a_value_is_quiet_once_others_have_gone_by",
    ),
    Mutant(
        "an append that takes a file away is an append",
        "core/appends.py",
        "not delta.removed and not delta.deletes",
        "not delta.deletes",
        LAWS + "test_the_first_commit_that_is_no_append_ends_it_at_once[an append that takes a file away]",
    ),
    Mutant(
        "a delete file that came stands beside a job",
        "iceberg/compaction/commit_outcome.py",
        "and entry.kind is FileKind.DATA",
        "and bool(entry.kind)",
        f"{BESIDE}::test_beside_appends_only_what_was_appended_since_passes",
    ),
    Mutant(
        "whatever came stands beside a job that is not beside appends",
        "iceberg/compaction/commit_outcome.py",
        "        job.beside_appends\n        and entry",
        "        True\n        and entry",
        f"{BESIDE}::test_nothing_stands_beside_any_other_job",
    ),
    Mutant(
        "a job that is beside appends goes on beside anything else in its table",
        "service/jobs/cancelled_by_writers.py",
        "    if is_beside:\n",
        "    if is_beside and touched.is_append:\n",
        "service/jobs/test_minor.py::test_a_job_beside_appends_is_ended_by_anything_else_in_its_table",
    ),
    Mutant(
        "the audit passes over files that had only just come",
        "audit/minor_compaction.py",
        "other.sequence_number <= newest:",
        "other.sequence_number < 0:",
        "audit/test_minor_compaction.py::test_a_file_that_had_only_just_come_is_one",
    ),
)
