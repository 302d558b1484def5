"""Mistakes in the proof of a compaction: what was written, held against what was read."""

from mutants.mutant import Mutant

PROOF = "iceberg/compaction/proof.py"
SNAPSHOT = "iceberg/compaction/replace_snapshot.py"
DELETES = "iceberg/manifests/deletes.py"
CHOICE = "iceberg/compaction/choice.py"
EXECUTOR = "iceberg/compaction/test_executor.py::"
OF_DELETES = "iceberg/manifests/test_deletes.py::"
BY_VALUES = "iceberg/compaction/test_equality_deletes.py::"

MUTANTS = (
    # Files that a table names twice
    Mutant(
        "deletes leave that name a file of another partition, too",
        "iceberg/compaction/binding.py",
        "if not choice.applicable:\n        return None\n    named",
        "if True:\n        return None\n    named",
        "iceberg/compaction/test_files_named_twice.py::test_a_file_of_two_partitions_stays_where_deletes_name_it[two]",
    ),
    Mutant(
        "a file leaves another partition than the job's",
        "iceberg/compaction/replace_snapshot.py",
        "if key == self.job.partition:",
        "if True:",
        "iceberg/compaction/test_files_named_twice.py::test_a_file_of_two_partitions_leaves_the_jobs_alone",
    ),
    Mutant(
        "a file of two partitions leaves one where deletes name it",
        "iceberg/compaction/replace_snapshot.py",
        "elif self.job.delete_files:",
        "elif False:",
        "iceberg/compaction/test_files_named_twice.py::test_a_file_in_the_tables_own_folder_that_is_of_two_partitions_is_found_by_the_commit",
    ),
    Mutant(
        "more files leave a manifest than were replaced",
        "iceberg/compaction/replace_snapshot.py",
        "if one.deleted_files_count != leaving.total():",
        "if False:",
        "iceberg/compaction/test_files_named_twice.py::test_no_other_number_of_files_leaves_a_manifest_than_was_found_in_it",
    ),
    Mutant(
        "rows that differ are committed",
        PROOF,
        "if rewrite.hash_read != rewrite.hash_written:",
        "if False:",
        "iceberg/compaction/test_proof.py::test_sums_that_do_not_agree_commit_nothing[hash]",
    ),
    Mutant(
        "fewer rows than the manifests know are committed",
        PROOF,
        "if rewrite.rows_read != known:",
        "if False:",
        ("iceberg/compaction/test_proof.py::test_sums_that_do_not_agree_commit_nothing[a row left out]"),
    ),
    Mutant(
        "a rewrite without its files is committed",
        PROOF,
        "if not expected == rewrite.rows_written == listed:",
        "if not expected == rewrite.rows_written:",
        "iceberg/compaction/test_proof.py::test_sums_that_do_not_agree_commit_nothing[files]",
    ),
    Mutant(
        "merged deletes that differ are committed",
        PROOF,
        "if merged.hash_read != merged.hash_written:",
        "if False:",
        ("iceberg/compaction/test_proof.py::test_sums_that_do_not_agree_commit_nothing[hash of deletes]"),
    ),
    Mutant(
        "fewer deletes than were read are committed",
        PROOF,
        "if not merged.positions_read == merged.positions_written == listed:",
        "if False:",
        ("iceberg/compaction/test_proof.py::test_sums_that_do_not_agree_commit_nothing[deletes read]"),
    ),
    Mutant(
        "deletes on data of another spec are merged",
        DELETES,
        'if delete.spec_id == spec_id and normalised(delete.referenced_data_file or "") not in others',
        "if delete.spec_id == spec_id",
        OF_DELETES + "test_what_names_data_of_another_spec_is_not_merged",
    ),
    Mutant(
        "merged deletes do not apply to the youngest data",
        SNAPSHOT,
        "deleted_at = max(",
        "deleted_at = min(",
        "iceberg/compaction/test_delete_files.py::test_data_that_came_between_two_deletes_stays_without_its_rows",
    ),
    Mutant(
        "equality deletes leave while they apply to data that stays",
        DELETES,
        "if (delete.spec_id, delete.partition) != (spec_id, partition) or staying.may_be_named_by(delete):",
        "if (delete.spec_id, delete.partition) != (spec_id, partition):",
        OF_DELETES + "test_equality_deletes_are_over_once_no_older_data_of_their_partition_is_left",
    ),
    Mutant(
        "equality deletes leave that apply to data of another spec",
        DELETES,
        "number >= delete.sequence_number for of, number in",
        "True for of, number in",
        OF_DELETES + "test_deletes_that_apply_everywhere_stay_while_any_spec_has_older_data",
    ),
    Mutant(
        "a job of a partition takes out the equality deletes that apply everywhere",
        DELETES,
        "if (delete.spec_id, delete.partition) != (spec_id, partition) or",
        "if delete.spec_id != spec_id or",
        "iceberg/manifests/test_deletes.py::test_equality_deletes_are_over_once_no_older_data_of_their_partition_is_left",
    ),
    Mutant(
        "a key is null where a partition says its value and the column was dropped",
        "iceberg/compaction/rewrite.py",
        "if isinstance(one.transform, IdentityTransform)",
        "if isinstance(one.transform, IdentityTransform) and one.source_id in metadata.schema().field_ids",
        "iceberg/compaction/test_equality_scope.py::test_a_partition_says_the_value_of_a_key_that_its_files_lack_also_once_the_column_is_dropped",
    ),
    Mutant(
        "of equality deletes the spec with the most is taken, though these must stay",
        CHOICE,
        "if take.merges_deletes else ()), *convertible]",
        "if take.merges_deletes else ()), *converts]",
        "iceberg/compaction/test_equality_scope.py::test_deletes_that_must_stay_do_not_keep_those_of_another_spec",
    ),
    Mutant(
        "keys are compared with what a file holds, where Java compares them with its partition's value",
        "iceberg/compaction/equality_keys.py",
        "if column.field_id not in constants:",
        "if True:",
        "iceberg/compaction/test_equality_scope.py::test_keys_by_a_column_whose_rows_say_another_value_than_their_partition_are_refused",
    ),
    Mutant(
        "equality deletes by a fixed length are applied, of which Java finds the last key",
        "iceberg/compaction/key_columns.py",
        "if isinstance(of, FixedType):",
        "if False:",
        "iceberg/compaction/test_equality_scope.py::test_keys_of_a_fixed_length_are_refused",
    ),
    Mutant(
        "equality deletes by UUIDs are applied, over which Java passes",
        "iceberg/compaction/key_columns.py",
        "if isinstance(of, UUIDType):",
        "if False:",
        "iceberg/compaction/test_equality_scope.py::test_keys_that_are_uuids_are_refused",
    ),
    Mutant(
        "equality deletes without ids are read by the table's names",
        "iceberg/compaction/equality_keys.py",
        "if self._mapping is not None and not source.has_ids:",
        "if False:",
        "iceberg/compaction/test_equality_scope.py::test_a_delete_file_without_ids_is_read_by_the_order_of_its_columns_or_not_at_all",
    ),
    Mutant(
        "equality deletes leave of which nothing was written for files that stay",
        SNAPSHOT,
        "rest = unsaid if is_said and job.converts_equality else staying",
        "rest = unsaid if is_said else staying",
        BY_VALUES + "test_a_merge_of_position_deletes_leaves_equality_deletes_to_what_they_apply_to",
    ),
    Mutant(
        "of equality deletes that apply everywhere those of a dropped partition field are left out",
        "iceberg/manifests/live.py",
        "if all(isinstance(field.transform, VoidTransform) for field in spec.fields)",
        "if not spec.fields",
        "iceberg/manifests/test_live.py::"
        "test_equality_deletes_of_a_spec_that_divides_nothing_come_with_every_partition",
    ),
    Mutant(
        "equality deletes of one partition apply everywhere once a field of their spec is dropped",
        "iceberg/manifests/live.py",
        "if all(isinstance(field.transform, VoidTransform) for field in spec.fields)",
        "if not spec.fields or any(isinstance(field.transform, VoidTransform) for field in spec.fields)",
        "iceberg/manifests/test_live.py::"
        "test_equality_deletes_of_a_spec_that_divides_nothing_come_with_every_partition",
    ),
    Mutant(
        "a rollback to before equality deletes that apply everywhere does not stand against a commit",
        "iceberg/manifests/live.py",
        "manifest.partition_spec_id in everywhere",
        "manifest.partition_spec_id in ()",
        BY_VALUES + "test_a_rollback_to_before_deletes_that_apply_everywhere_refuses_the_commit",
    ),
    Mutant(
        "equality deletes that both engines passed over are not missed",
        "iceberg/compaction/row_sums.py",
        "if left := [one.path for one in younger if one.identity not in asked]:",
        "if left := set():",
        "iceberg/compaction/test_proof_mutants.py::test_a_mutant_of_equality_deletes_in_pieces_is_found",
    ),
    Mutant(
        "a merged manifest takes the place of others that hold another number of files",
        SNAPSHOT,
        "if one.existing_files_count == live_entries(group):",
        "if True:",
        "iceberg/compaction/test_merged_manifests.py::test_manifests_whose_list_counts_other_files_stay_where_they_are",
    ),
    Mutant(
        "files are lost where manifests are merged",
        SNAPSHOT,
        "            for manifest in group\n",
        "            for manifest in group[1:]\n",
        "iceberg/compaction/test_merged_manifests.py::test_every_file_is_there_as_it_was_in_fewer_manifests",
    ),
    Mutant(
        "files that left since manifests were merged come back",
        SNAPSHOT,
        "if listed.issuperset(some):",
        "if True:",
        "iceberg/compaction/test_merged_manifests.py::test_what_left_while_manifests_were_merged_does_not_come_back",
    ),
    Mutant(
        "one of two copies of a manifest is lost where the other is merged",
        "iceberg/manifests/merging.py",
        "if times[one.manifest_path] == 1 and live_entries([one])",
        "if live_entries([one])",
        "iceberg/compaction/test_merged_manifests.py::test_a_manifest_that_is_listed_twice_stays_twice",
    ),
    Mutant(
        "manifests of two specs become one",
        "iceberg/manifests/merging.py",
        "alike.setdefault((manifest.partition_spec_id, manifest.content), [])",
        "alike.setdefault((0, manifest.content), [])",
        "iceberg/manifests/test_merging.py::test_what_is_merged_is_alike_small_and_many",
    ),
    Mutant(
        "files of another job are committed",
        PROOF,
        "if rewrite.job_id != job.job_id:",
        "if False:",
        "iceberg/compaction/test_proof.py::test_sums_that_do_not_agree_commit_nothing[job]",
    ),
    Mutant(
        "footers have extremes of UUIDs, which not all readers order alike",
        "parquet/output.py",
        "for path, field_id in paths if not isinstance(written.find_type(field_id), UUIDType)",
        "for path, field_id in paths",
        "iceberg/compaction/test_bounds.py::test_no_footer_has_extremes_of_uuids",
    ),
    Mutant(
        "values that are no number are not told",
        "parquet/statistics.py",
        "result.nan_value_counts[field_id] = nans",
        "pass",
        "iceberg/compaction/test_bounds.py::test_a_delete_by_bounds_takes_no_row_that_has_no_number",
    ),
    Mutant(
        "the proof believes the footers that it is to prove",
        "iceberg/compaction/row_sums.py",
        "connection.execute(\"SET disabled_optimizers = 'statistics_propagation'\")",
        "pass",
        "iceberg/compaction/test_row_sums.py::test_bounds_of_floats_are_judged_by_the_values_that_are_numbers",
    ),
    Mutant(
        "a manifest of UUIDs has bounds in an order that not all readers have",
        "iceberg/manifests/writing.py",
        "if not all(uuids.has_one_order for uuids in self._uuids.values()):",
        "if False:",
        ("iceberg/manifests/test_summaries.py::test_no_reader_passes_over_a_manifest_of_uuids_that_it_needs"),
    ),
    Mutant(
        "a manifest with both zeros has the bounds of one",
        "iceberg/manifests/writing.py",
        "(minus if low == zero else low)",
        "low",
        ("iceberg/manifests/test_summaries.py::test_no_reader_passes_over_a_manifest_of_zeros_that_it_needs"),
    ),
)
