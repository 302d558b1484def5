"""Mistakes in the swap of a compaction: the committer, the snapshot that it sends, the fate of a job."""

from mutants.mutant import Mutant

COMMITTER = "iceberg/compaction/committer.py"
PROOF = "iceberg/compaction/proof.py"
COMMIT_CHECKS = "iceberg/compaction/commit_checks.py"
SNAPSHOT = "iceberg/compaction/replace_snapshot.py"
DELETES = "iceberg/manifests/deletes.py"
OUTCOME = "iceberg/compaction/commit_outcome.py"
BINDING = "iceberg/compaction/binding.py"
CHOICE = "iceberg/compaction/choice.py"
CONFLICTS = "iceberg/compaction/test_commit_conflicts.py::"
CHECKS = "iceberg/compaction/test_commit_checks.py::"
OF_THE_OUTCOME = "iceberg/compaction/test_commit_outcome.py::"
REQUEST = "iceberg/compaction/test_replace_snapshot.py::"
TWICE = "iceberg/compaction/test_files_named_twice.py::"
OF_THE_PROOF = "iceberg/compaction/test_proof.py::"
OF_DELETES = "iceberg/manifests/test_deletes.py::"
BY_VALUES = "iceberg/compaction/test_equality_deletes.py::"

MUTANTS = (
    # Files that a table names twice
    Mutant(
        "a file leaves another partition than the job's",
        SNAPSHOT,
        "if key == self.job.partition:",
        "if True:",
        TWICE + "test_a_file_of_two_partitions_leaves_the_jobs_alone",
    ),
    Mutant(
        "a file of two partitions leaves one where deletes name it",
        SNAPSHOT,
        "elif self.job.delete_files:",
        "elif False:",
        TWICE + "test_a_file_of_two_partitions_stays_where_deletes_name_it",
    ),
    Mutant(
        "more files leave a manifest than were replaced",
        SNAPSHOT,
        "if one.deleted_files_count != leaving.total():",
        "if False:",
        TWICE + "test_no_other_number_of_files_leaves_a_manifest_than_was_found_in_it",
    ),
    # What is written against what was read
    Mutant(
        "rows that differ are committed",
        PROOF,
        "if rewrite.hash_read != rewrite.hash_written:",
        "if False:",
        OF_THE_PROOF + "test_sums_that_do_not_agree_commit_nothing[hash]",
    ),
    Mutant(
        "fewer rows than the manifests know are committed",
        PROOF,
        "if rewrite.rows_read != known:",
        "if False:",
        OF_THE_PROOF + "test_sums_that_do_not_agree_commit_nothing[a row left out]",
    ),
    Mutant(
        "a rewrite without its files is committed",
        PROOF,
        "if not expected == rewrite.rows_written == listed:",
        "if not expected == rewrite.rows_written:",
        OF_THE_PROOF + "test_sums_that_do_not_agree_commit_nothing[files]",
    ),
    Mutant(
        "merged deletes that differ are committed",
        PROOF,
        "if merged.hash_read != merged.hash_written:",
        "if False:",
        OF_THE_PROOF + "test_sums_that_do_not_agree_commit_nothing[hash of deletes]",
    ),
    Mutant(
        "fewer deletes than were read are committed",
        PROOF,
        "if not merged.positions_read == merged.positions_written == listed:",
        "if False:",
        OF_THE_PROOF + "test_sums_that_do_not_agree_commit_nothing[deletes read]",
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
        "if listed.issuperset(paths):",
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
        OF_THE_PROOF + "test_sums_that_do_not_agree_commit_nothing[job]",
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
        "self._duckdb.execute(\"SET disabled_optimizers = 'statistics_propagation'\")",
        "pass",
        "iceberg/compaction/test_row_sums.py::test_bounds_of_floats_are_judged_by_the_values_that_are_numbers",
    ),
    Mutant(
        "a manifest of UUIDs has bounds in an order that not all readers have",
        "iceberg/manifests/writing.py",
        "if not all(uuids.has_one_order for uuids in self._uuids.values()):",
        "if False:",
        "iceberg/manifests/test_summaries.py::test_no_reader_passes_over_a_manifest_of_uuids_that_it_needs",
    ),
    Mutant(
        "a manifest with both zeros has the bounds of one",
        "iceberg/manifests/writing.py",
        "(minus if low == zero else low)",
        "low",
        "iceberg/manifests/test_summaries.py::test_no_reader_passes_over_a_manifest_of_zeros_that_it_needs",
    ),
    # The table as the commit finds it
    Mutant(
        "files in an old schema are committed under a new one",
        COMMIT_CHECKS,
        "if rewrite.schema_id is not None and metadata.current_schema_id != rewrite.schema_id:",
        "if False:",
        CONFLICTS + "test_whoever_was_faster_in_our_partition_wins[before the commit-schema change]",
    ),
    Mutant(
        "rows that came during the rewrite are lost",
        COMMIT_CHECKS,
        "if came or left:",
        "if False:",
        CONFLICTS + "test_whoever_was_faster_in_our_partition_wins[before the commit-overwrite]",
    ),
    Mutant(
        "another table of that name is committed to",
        COMMITTER,
        "if str(table.metadata.table_uuid) != self.job.table.uuid:",
        "if False:",
        CHECKS + "test_a_table_that_is_gone_or_another_one",
    ),
    Mutant(
        "files that are gone are committed",
        COMMITTER,
        "            check_files(self.rewrite, table.io)\n",
        "",
        CHECKS + "test_what_was_written_and_is_gone_or_cut_is_not_committed",
    ),
    Mutant(
        "files that are cut are committed",
        COMMIT_CHECKS,
        "if size != file.size_bytes:",
        "if False:",
        CHECKS + "test_what_was_written_and_is_gone_or_cut_is_not_committed[cut]",
    ),
    Mutant(
        "nobody is asked before the swap",
        COMMITTER,
        "            self._ask(table)\n",
        "",
        CHECKS + "test_it_is_asked_again_after_every_lost_race",
    ),
    Mutant(
        "who cannot say allows the swap",
        COMMITTER,
        "raise RefusalError(Reason.UNAVAILABLE, why) from err",
        "return",
        CHECKS + "test_who_cannot_say_does_not_allow",
    ),
    # After a request
    Mutant(
        "a 404 after a request means that the table is gone",
        COMMITTER,
        "believes=not self.was_sent)",
        "believes=True)",
        OF_THE_OUTCOME + "test_not_found_after_a_request_is_no_answer",
    ),
    Mutant(
        "where nobody can look, a request counts as failed",
        COMMITTER,
        "        if self.asserted_head_id is not None:\n            return self._unknown(refusal.why)\n",
        "",
        OF_THE_OUTCOME + "test_without_a_way_to_look_the_end_is_unknown",
    ),
    Mutant(
        "nobody remembers that a request was sent",
        COMMITTER,
        "self.asserted_head_id, self.was_sent = base.current_snapshot_id, True",
        "self.asserted_head_id, self.was_sent = base.current_snapshot_id, False",
        OF_THE_OUTCOME + "test_a_catalog_that_forbids_is_believed",
    ),
    Mutant(
        "nobody remembers on which head a request was sent",
        COMMITTER,
        "self.asserted_head_id, self.was_sent = base.current_snapshot_id, True",
        "self.asserted_head_id, self.was_sent = None, True",
        OF_THE_OUTCOME + "test_a_request_whose_end_is_not_known_leaves_everything",
    ),
    Mutant(
        "a refusal of a second copy is believed, and the manifests of the first are removed",
        COMMITTER,
        """        if done or self._is_older(table.metadata):
            return done
        self.asserted_head_id = None
        raise RefusalError(Reason.REFUSED""",
        """        self.asserted_head_id = None
        raise RefusalError(Reason.REFUSED""",
        OF_THE_OUTCOME + "test_an_answer_that_is_lost_after_the_commit_landed[error4]",
    ),
    Mutant(
        "a commit is done because a proxy says so",
        COMMITTER,
        "if any(one.snapshot_id == self.snapshot.snapshot_id for one in answer.metadata.snapshots):",
        "if True:",
        OF_THE_OUTCOME + "test_done_is_what_the_answer_shows",
    ),
    Mutant(
        "a commit that landed is made once more",
        COMMITTER,
        "        if done := landed(table.metadata, self.job):\n            return self._done(table, done)\n",
        "",
        OF_THE_OUTCOME + "test_committing_twice_changes_nothing",
    ),
    Mutant(
        "a commit whose snapshot has expired counts as lost, and its live files as leftovers",
        COMMITTER,
        "if not any(entry.path in ours for entry in live):",
        "if True:",
        OF_THE_OUTCOME + "test_a_commit_whose_snapshot_was_expired_before_anyone_looked",
    ),
    # The snapshot
    Mutant(
        "deleted rows come back in files that the job leaves alone",
        SNAPSHOT,
        "return not (unsaid if is_said else staying).may_be_named_by(entry)",
        "return True",
        REQUEST + "test_deletes_that_apply_to_files_that_stay_stay",
    ),
    Mutant(
        "a sequence number is used twice after a commit on another branch",
        SNAPSHOT,
        "if found != self.next_sequence_number:",
        "if False:",
        REQUEST + "test_what_is_asserted",
    ),
    Mutant(
        "history runs backwards",
        SNAPSHOT,
        "timestamp_ms=max(self.now_ms - BEHIND_MS, head.timestamp_ms, metadata.last_updated_ms + 1)",
        "timestamp_ms=self.now_ms",
        REQUEST + "test_history_does_not_run_backwards_and_main_keeps_what_it_states",
    ),
    *(
        Mutant(
            f"a commit wipes main's {name}",
            SNAPSHOT,
            f"{name}=ref.{name} if ref else None",
            f"{name}=None",
            REQUEST + "test_history_does_not_run_backwards_and_main_keeps_what_it_states",
        )
        for name in ("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep")
    ),
    Mutant(
        "a commit replaces a head that it has not seen",
        SNAPSHOT,
        "            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=snapshot.parent_snapshot_id),\n",
        "",
        REQUEST + "test_what_is_asserted",
    ),
    Mutant(
        "a commit goes to another table of that name",
        SNAPSHOT,
        "            AssertTableUUID(uuid=metadata.table_uuid),\n",
        "",
        REQUEST + "test_what_is_asserted",
    ),
    Mutant(
        "a schema that changes in the race is not noticed",
        SNAPSHOT,
        "            AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),\n",
        "",
        REQUEST + "test_what_is_asserted",
    ),
    Mutant(
        "deletes that came after the rewrite began do not apply to its files",
        SNAPSHOT,
        "data, rewrite.files, job.base_sequence_number)",
        "data, rewrite.files, table.metadata.next_sequence_number())",
        REQUEST + "test_new_files_keep_the_starting_sequence_number",
    ),
    Mutant(
        "deleted files come back",
        SNAPSHOT,
        "if entry.status == ManifestEntryStatus.DELETED:\n                    continue",
        "if False:\n                    continue",
        CONFLICTS + "test_what_happens_elsewhere_does_not_stop_us[before the commit-compaction elsewhere]",
    ),
    # The fate of a job
    Mutant(
        "a commit that landed is not found in the history",
        OUTCOME,
        "if snapshot.summary is not None and snapshot.summary.get(JOB_ID) == job.job_id:",
        "if False:",
        OF_THE_OUTCOME + "test_committing_twice_changes_nothing",
    ),
    Mutant(
        "live files of an expired commit count as a crash's leftovers",
        OUTCOME,
        'if any(f"/isotherm-{job.job_id}-" in entry.path for entry in live):',
        "if False:",
        OF_THE_OUTCOME + "test_a_commit_whose_snapshot_was_expired_before_anyone_looked",
    ),
    Mutant(
        "another table under the name says what became of a job",
        OUTCOME,
        "if loaded.table.uuid == uuid:",
        "if True:",
        OF_THE_OUTCOME + "test_another_table_under_the_name_says_nothing_of_a_job",
    ),
    Mutant(
        "a commit that landed is settled as failed by a replica that lags",
        OUTCOME,
        "if may_land and all(",
        "if False and all(",
        OF_THE_OUTCOME + "test_a_replica_that_lags_does_not_make_a_landed_commit_a_failed_one",
    ),
    Mutant(
        "a commit that landed is failed by a replica that lags",
        COMMITTER,
        "return (last_sequence_number(metadata) or 0) < self.asserted_number",
        "return False",
        OF_THE_OUTCOME + "test_a_replica_that_lags_does_not_make_a_landed_commit_a_failed_one",
    ),
    Mutant(
        "a request that may still land counts as lost",
        OUTCOME,
        "if head_id != asserted_head_id or any(strangers(job, live)):",
        "if True:",
        OF_THE_OUTCOME + "test_a_request_whose_end_is_not_known_leaves_everything",
    ),
    Mutant(
        "a request that cannot land any more is waited for without end",
        OUTCOME,
        "if head_id != asserted_head_id or any(strangers(job, live)):",
        "if False:",
        OF_THE_OUTCOME + "test_a_request_whose_end_is_not_known_can_no_longer_land_once_the_head_moved",
    ),
    Mutant(
        "one copy of a file is rewritten, and both leave",
        BINDING,
        "torn = [identity for identity, count in taken.items() if copies[identity] != count]",
        "torn = list[tuple[str, int | None]]()",
        TWICE + "test_a_job_that_would_rewrite_one_copy_of_two_is_refused",
    ),
    Mutant(
        "deletes on a file with two ages are merged into one file",
        BINDING,
        "torn += [file.identity for file in named if copies[file.identity] > 1]",
        "torn += []",
        TWICE + "test_deletes_on_a_file_with_two_ages_are_not_merged",
    ),
    Mutant(
        "a file that was added again meanwhile leaves with its copy",
        OUTCOME,
        "return came | {identity for identity, _ in here - read},",
        "return came,",
        TWICE + "test_a_file_that_is_added_again_meanwhile_refuses_the_commit",
    ),
    Mutant(
        "rows of a copy that a rollback took back stay",
        OUTCOME,
        "left | {identity for identity, _ in read - here}",
        "left",
        TWICE + "test_a_copy_that_a_rollback_takes_back_refuses_the_commit",
    ),
    Mutant(
        "deletes stay applied to a file that left and was added again",
        OUTCOME,
        "return file.identity, file.sequence_number",
        "return file.identity, 0",
        TWICE + "test_a_file_that_left_and_was_added_again_refuses_the_commit",
    ),
    Mutant(
        "main moves while somebody wants to fast-forward it to a branch",
        "iceberg/unpublished.py",
        "if is_young and _goes_on_from(head_id, parents, ref.snapshot_id, passed):",
        "if False:",
        "iceberg/test_unpublished.py::test_a_branch_that_goes_on_from_the_head_waits_for_a_day",
    ),
    Mutant(
        "what was staged while a job ran cannot be published",
        COMMIT_CHECKS,
        "if why := unpublished(metadata, now_ms):",
        "if not (why := 'x'):",
        "iceberg/compaction/test_audits.py::test_what_is_looked_at_first_can_be_published",
    ),
    Mutant(
        "deletes leave by what a lost attempt knew",
        SNAPSHOT,
        "which = manifest.manifest_path, frozenset(leaving)",
        "which = manifest.manifest_path, frozenset()",
        "iceberg/compaction/test_lost_attempts.py::"
        "test_deletes_stay_that_a_rollback_gives_something_to_apply_to_in_the_race",
    ),
    Mutant(
        "what a store did not send is zeros, and zeros are keys",
        "iceberg/compaction/local_copy.py",
        """raise OSError(errno.EIO, f"the store's answer ends {left_bytes} bytes early")""",
        "break",
        "iceberg/compaction/test_local_copy.py::test_an_answer_that_ends_early_is_no_hole",
    ),
    Mutant(
        "deletes that no reader applies are applied",
        "iceberg/compaction/deleted_rows.py",
        "if path in spellings and set(spellings[path]) != {name}:",
        "if False:",
        "iceberg/compaction/test_deleted_rows.py::"
        "test_deletes_that_spell_a_path_in_another_way_are_neither_applied_nor_dropped",
    ),
    Mutant(
        "deletes on a file of another partition leave as if it were gone",
        BINDING,
        "    if not missing:\n",
        "    if True:\n",
        "iceberg/compaction/test_deletes_elsewhere.py::test_the_partition_in_which_it_lies_is_not_compacted",
    ),
    Mutant(
        "a writer's clock has to be as far as ours",
        "iceberg/compaction/replace_snapshot.py",
        "timestamp_ms=max(self.now_ms - BEHIND_MS, head",
        "timestamp_ms=max(self.now_ms, head",
        "iceberg/compaction/test_replace_snapshot.py::test_no_writers_clock_has_to_be_as_far_as_ours",
    ),
    Mutant(
        "what was read by another name mapping is committed",
        "iceberg/compaction/commit_checks.py",
        "if name_mapping_of(metadata) != rewrite.name_mapping:",
        "if False:",
        "iceberg/compaction/test_commit_conflicts.py::test_what_was_read_by_another_name_mapping_is_not_committed",
    ),
)
