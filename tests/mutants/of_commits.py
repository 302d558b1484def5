"""Mistakes in the swap of a compaction: the committer, the snapshot that it sends, the fate of a job."""

from mutants.mutant import Mutant

COMMITTER = "iceberg/compaction/committer.py"
PROOF = "iceberg/compaction/proof.py"
COMMIT_CHECKS = "iceberg/compaction/commit_checks.py"
SNAPSHOT = "iceberg/compaction/replace_snapshot.py"
FATE = "iceberg/compaction/fate.py"
CONFLICTS = "iceberg/compaction/test_commit_conflicts.py::"
EXECUTOR = "iceberg/compaction/test_executor.py::"

MUTANTS = (
    # What is written against what was read
    Mutant(
        "rows that differ are committed",
        PROOF,
        "if rewrite.hash_read != rewrite.hash_written:",
        "if False:",
        EXECUTOR + "test_sums_that_do_not_agree_commit_nothing[hash]",
    ),
    Mutant(
        "fewer rows than the manifests know are committed",
        PROOF,
        "if rewrite.rows_read != known:",
        "if False:",
        EXECUTOR + "test_sums_that_do_not_agree_commit_nothing[a row left out]",
    ),
    Mutant(
        "a rewrite without its files is committed",
        PROOF,
        "if not expected == rewrite.rows_written == listed:",
        "if not expected == rewrite.rows_written:",
        EXECUTOR + "test_sums_that_do_not_agree_commit_nothing[files]",
    ),
    Mutant(
        "files of another job are committed",
        PROOF,
        "if rewrite.job_id != job.job_id:",
        "if False:",
        EXECUTOR + "test_sums_that_do_not_agree_commit_nothing[job]",
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
        "iceberg/manifests/test_live.py::test_no_reader_passes_over_a_manifest_of_uuids_that_it_needs",
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
        CONFLICTS + "test_a_table_that_is_gone_or_another_one",
    ),
    Mutant(
        "files that are gone are committed",
        COMMITTER,
        "            check_files(self.rewrite, table.io)\n",
        "",
        CONFLICTS + "test_what_was_written_and_is_gone_or_cut_is_not_committed",
    ),
    Mutant(
        "files that are cut are committed",
        COMMIT_CHECKS,
        "if size != file.size_bytes:",
        "if False:",
        CONFLICTS + "test_what_was_written_and_is_gone_or_cut_is_not_committed[cut]",
    ),
    Mutant(
        "nobody is asked before the swap",
        COMMITTER,
        "            self._ask(table)\n",
        "",
        CONFLICTS + "test_it_is_asked_again_after_every_lost_race",
    ),
    Mutant(
        "who cannot say allows the swap",
        COMMITTER,
        "raise RefusalError(Reason.UNAVAILABLE, why) from err",
        "return",
        CONFLICTS + "test_who_cannot_say_does_not_allow",
    ),
    # After a request
    Mutant(
        "a 404 after a request means that the table is gone",
        COMMITTER,
        "believes=not self.was_sent)",
        "believes=True)",
        CONFLICTS + "test_not_found_after_a_request_is_no_answer",
    ),
    Mutant(
        "where nobody can look, a request counts as failed",
        COMMITTER,
        "        if self.asserted_head_id is not None:\n            return self._unknown(refusal.why)\n",
        "",
        CONFLICTS + "test_without_a_way_to_look_the_end_is_unknown",
    ),
    Mutant(
        "nobody remembers that a request was sent",
        COMMITTER,
        "self.asserted_head_id, self.was_sent = base.current_snapshot_id, True",
        "self.asserted_head_id, self.was_sent = base.current_snapshot_id, False",
        CONFLICTS + "test_a_catalog_that_forbids_is_believed",
    ),
    Mutant(
        "nobody remembers on which head a request was sent",
        COMMITTER,
        "self.asserted_head_id, self.was_sent = base.current_snapshot_id, True",
        "self.asserted_head_id, self.was_sent = None, True",
        CONFLICTS + "test_a_request_whose_end_is_not_known_leaves_everything",
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
        CONFLICTS + "test_an_answer_that_is_lost_after_the_commit_landed[error4]",
    ),
    Mutant(
        "a commit is done because a proxy says so",
        COMMITTER,
        "if any(one.snapshot_id == self.snapshot.snapshot_id for one in answer.metadata.snapshots):",
        "if True:",
        CONFLICTS + "test_done_is_what_the_answer_shows",
    ),
    Mutant(
        "a commit that landed is made once more",
        COMMITTER,
        "        if done := landed(table.metadata, self.job):\n            return self._done(table, done)\n",
        "",
        CONFLICTS + "test_committing_twice_changes_nothing",
    ),
    Mutant(
        "a commit whose snapshot has expired counts as lost, and its live files as leftovers",
        COMMITTER,
        "if not any(entry.path in ours for entry in live):",
        "if True:",
        CONFLICTS + "test_a_commit_whose_snapshot_was_expired_before_anyone_looked",
    ),
    # The snapshot
    Mutant(
        "deleted rows come back in files that the job leaves alone",
        SNAPSHOT,
        "or (entry.kind is FileKind.POSITION_DELETES and not staying.may_be_named_by(entry))",
        "or entry.kind is FileKind.POSITION_DELETES",
        CONFLICTS + "test_deletes_that_apply_to_files_that_stay_stay",
    ),
    Mutant(
        "a sequence number is used twice after a commit on another branch",
        SNAPSHOT,
        "if found != self.next_sequence_number:",
        "if False:",
        CONFLICTS + "test_what_is_asserted",
    ),
    Mutant(
        "history runs backwards",
        SNAPSHOT,
        "timestamp_ms=max(self.now_ms, head.timestamp_ms, metadata.last_updated_ms)",
        "timestamp_ms=self.now_ms",
        CONFLICTS + "test_history_does_not_run_backwards_and_main_keeps_what_it_states",
    ),
    *(
        Mutant(
            f"a commit wipes main's {name}",
            SNAPSHOT,
            f"{name}=ref.{name} if ref else None",
            f"{name}=None",
            CONFLICTS + "test_history_does_not_run_backwards_and_main_keeps_what_it_states",
        )
        for name in ("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep")
    ),
    Mutant(
        "a commit replaces a head that it has not seen",
        SNAPSHOT,
        "            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=head.snapshot_id),\n",
        "",
        CONFLICTS + "test_what_is_asserted",
    ),
    Mutant(
        "a commit goes to another table of that name",
        SNAPSHOT,
        "            AssertTableUUID(uuid=metadata.table_uuid),\n",
        "",
        CONFLICTS + "test_what_is_asserted",
    ),
    Mutant(
        "a schema that changes in the race is not noticed",
        SNAPSHOT,
        "            AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),\n",
        "",
        CONFLICTS + "test_what_is_asserted",
    ),
    Mutant(
        "deletes that came after the rewrite began do not apply to its files",
        SNAPSHOT,
        "added(file, partition, self.snapshot_id, job.base_sequence_number)",
        "added(file, partition, self.snapshot_id, table.metadata.next_sequence_number())",
        CONFLICTS + "test_new_files_keep_the_starting_sequence_number",
    ),
    Mutant(
        "deleted files come back",
        SNAPSHOT,
        "                if entry.status != ManifestEntryStatus.DELETED\n",
        "",
        CONFLICTS + "test_what_happens_elsewhere_does_not_stop_us[before the commit-compaction elsewhere]",
    ),
    # The fate of a job
    Mutant(
        "a commit that landed is not found in the history",
        FATE,
        "if snapshot.summary is not None and snapshot.summary.get(JOB_ID) == job.job_id:",
        "if False:",
        CONFLICTS + "test_committing_twice_changes_nothing",
    ),
    Mutant(
        "live files of an expired commit count as a crash's leftovers",
        FATE,
        'if any(f"/isotherm-{job.job_id}-" in entry.path for entry in live):',
        "if False:",
        CONFLICTS + "test_a_commit_whose_snapshot_was_expired_before_anyone_looked",
    ),
    Mutant(
        "another table under the name says what became of a job",
        FATE,
        "if loaded.table.uuid == uuid:",
        "if True:",
        CONFLICTS + "test_another_table_under_the_name_says_nothing_of_a_job",
    ),
    Mutant(
        "a commit that landed is settled as failed by a replica that lags",
        FATE,
        "if may_land and all(",
        "if False and all(",
        CONFLICTS + "test_a_replica_that_lags_does_not_make_a_landed_commit_a_failed_one",
    ),
    Mutant(
        "a commit that landed is failed by a replica that lags",
        COMMITTER,
        "return (last_sequence_number(metadata) or 0) < self.asserted_number",
        "return False",
        CONFLICTS + "test_a_replica_that_lags_does_not_make_a_landed_commit_a_failed_one",
    ),
    Mutant(
        "a request that may still land counts as lost",
        FATE,
        "if head_id != asserted_head_id or any(strangers(job, live)):",
        "if True:",
        CONFLICTS + "test_a_request_whose_end_is_not_known_leaves_everything",
    ),
    Mutant(
        "a request that cannot land any more is waited for without end",
        FATE,
        "if head_id != asserted_head_id or any(strangers(job, live)):",
        "if False:",
        CONFLICTS + "test_a_request_whose_end_is_not_known_can_no_longer_land_once_the_head_moved",
    ),
)
