"""Mistakes in the swap of a compaction: the committer, the snapshot that it sends, the fate of a job."""

from mutants.mutant import Mutant

COMMITTER = "iceberg/compaction/one_commit.py"
COMMIT_CHECKS = "iceberg/compaction/commit_checks.py"
SNAPSHOT = "iceberg/compaction/replace_snapshot.py"
MANIFESTS = "iceberg/compaction/replaced_manifests.py"
OUTCOME = "iceberg/compaction/commit_outcome.py"
BINDING = "iceberg/compaction/binding.py"
CONFLICTS = "iceberg/compaction/test_commit_conflicts.py::"
HIVE = "clients/hive.py"
ON_HIVE = "iceberg/test_hive_commits.py::"
TWICE = "iceberg/compaction/test_files_named_twice.py::"

MUTANTS = (
    Mutant(
        "small files are fetched one after another",
        "iceberg/compaction/local_copy.py",
        "near if is_local(file.path) else _begun(pool, near)",
        "near",
        "iceberg/compaction/test_local_copy.py::test_small_files_are_fetched_before_it_is_their_turn",
    ),
    Mutant(
        "files that are fetched ahead have no limit together",
        "iceberg/compaction/local_copy.py",
        "sum(one.size_bytes for one in (*begun, file)) <= AHEAD_BYTES",
        "True",
        "iceberg/compaction/test_local_copy.py::test_no_more_is_fetched_ahead_than_a_disk_has_room_for",
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
        "if str(table.metadata.table_uuid) != self.swaps[0].job.table.uuid:",
        "if False:",
        "iceberg/compaction/test_commit_checks.py::test_a_table_that_is_gone_or_another_one",
    ),
    Mutant(
        "files that are gone are committed",
        COMMITTER,
        "                check_files(rewrite, table.io)\n",
        "",
        (
            "iceberg/compaction/test_commit_checks.py::"
            "test_what_was_written_and_is_gone_or_cut_is_not_committed"
        ),
    ),
    Mutant(
        "files that are cut are committed",
        COMMIT_CHECKS,
        "if size != file.size_bytes:",
        "if False:",
        (
            "iceberg/compaction/test_commit_checks.py::"
            "test_what_was_written_and_is_gone_or_cut_is_not_committed[cut]"
        ),
    ),
    Mutant(
        "nobody is asked before the swap",
        COMMITTER,
        "if self._drop(self._ask(table)):",
        "if False:",
        "iceberg/compaction/test_commit_checks.py::test_it_is_asked_again_after_every_lost_race",
    ),
    Mutant(
        "who cannot say allows the swap",
        COMMITTER,
        "raise RefusalError(Reason.UNAVAILABLE, why) from err",
        "return",
        "iceberg/compaction/test_commit_checks.py::test_who_cannot_say_does_not_allow",
    ),
    # After a request
    Mutant(
        "a 404 after a request means that the table is gone",
        COMMITTER,
        "believes=not self.was_sent)",
        "believes=True)",
        "iceberg/compaction/test_commit_outcome.py::test_not_found_after_a_request_is_no_answer",
    ),
    Mutant(
        "where nobody can look, a request counts as failed",
        COMMITTER,
        "        if self.asserted_head_id is not None:\n            return self._unknown(refusal.why)\n",
        "",
        "iceberg/compaction/test_commit_outcome.py::test_without_a_way_to_look_the_end_is_unknown",
    ),
    Mutant(
        "what landed without a folder counts as lost once its snapshot has expired",
        OUTCOME,
        "if any(is_of_job(entry.path, job.job_id) for entry in live):",
        'if any(f"/isotherm-{job.job_id}-" in entry.path for entry in live):',
        (
            "iceberg/compaction/test_commit_outcome.py::"
            "test_a_commit_whose_snapshot_was_expired_before_anyone_looked"
        ),
    ),
    Mutant(
        "a time-out of Glue's with status 400 is a refusal",
        "iceberg/commit_refusals.py",
        "if is_busy(err) or _UNSURE.search(code):",
        "if is_busy(err):",
        "iceberg/compaction/test_commit_refusals.py::test_what_only_may_be_a_refusal_is_none",
    ),
    Mutant(
        "what a database says at the end of a transaction is a refusal",
        "iceberg/commit_refusals.py",
        ' and getattr(err, "statement", None) is not None',
        "",
        "iceberg/compaction/test_commit_refusals.py::test_what_only_may_be_a_refusal_is_none",
    ),
    Mutant(
        "a job on a table that rests never ends where its request got no answer",
        OUTCOME,
        "    if may_land:\n        return None\n",
        "    return None\n",
        "iceberg/compaction/test_commit_outcome.py::"
        "test_a_request_of_which_nothing_is_heard_for_a_day_has_failed_though_its_table_rests",
    ),
    Mutant(
        "a request of a long job is given up as soon as it is sent",
        "service/jobs/compactions.py",
        "self.now_ms() - operation.unheard_since_ms < LATE_MS",
        "self.now_ms() - operation.started_at_ms < LATE_MS",
        "service/jobs/test_lost_answers.py::"
        "test_a_request_is_waited_for_from_when_it_was_sent_however_long_its_job_took",
    ),
    Mutant(
        "an expiry's request is given up as soon as it is sent",
        "service/jobs/expiries.py",
        "self.now_ms() - operation.unheard_since_ms < LATE_MS",
        "self.now_ms() - operation.started_at_ms < LATE_MS",
        "service/jobs/test_expiry_outcomes.py::test_an_expirys_request_is_waited_for_from_when_it_was_sent",
    ),
    Mutant(
        "nobody remembers that a request was sent",
        COMMITTER,
        "self.asserted_head_id, self.was_sent = base.current_snapshot_id, True",
        "self.asserted_head_id, self.was_sent = base.current_snapshot_id, False",
        "iceberg/compaction/test_commit_outcome.py::test_a_catalog_that_forbids_is_believed",
    ),
    Mutant(
        "nobody remembers on which head a request was sent",
        COMMITTER,
        "self.asserted_head_id, self.was_sent = base.current_snapshot_id, True",
        "self.asserted_head_id, self.was_sent = None, True",
        (
            "iceberg/compaction/test_commit_outcome.py::"
            "test_a_request_whose_end_is_not_known_leaves_everything"
        ),
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
        (
            "iceberg/compaction/test_commit_outcome.py::"
            "test_an_answer_that_is_lost_after_the_commit_landed[error4]"
        ),
    ),
    Mutant(
        "a commit is done because a proxy says so",
        COMMITTER,
        "if any(one.snapshot_id == self.snapshot.snapshot_id for one in answer.metadata.snapshots):",
        "if True:",
        "iceberg/compaction/test_commit_outcome.py::test_done_is_what_the_answer_shows",
    ),
    Mutant(
        "a commit that landed is made once more",
        COMMITTER,
        "        if done := landed(table.metadata, self.swaps[0].job):\n            return self._done(table, done)\n",
        "",
        "iceberg/compaction/test_commit_outcome.py::test_committing_twice_changes_nothing",
    ),
    Mutant(
        "a commit whose snapshot has expired counts as lost, and its live files as leftovers",
        COMMITTER,
        "if not any(entry.path in ours for entry in live):",
        "if True:",
        (
            "iceberg/compaction/test_commit_outcome.py::"
            "test_a_commit_whose_snapshot_was_expired_before_anyone_looked"
        ),
    ),
    Mutant(
        "the look for the fate of a job keeps the loop for as long as there are manifests",
        OUTCOME,
        ", is_stopped=is_stopped)",
        ")",
        (
            "iceberg/compaction/test_commit_outcome.py::"
            "test_the_look_for_the_fate_of_a_job_ends_between_two_manifests_where_it_takes_too_long"
        ),
    ),
    # The snapshot
    Mutant(
        "deleted rows come back in files that the job leaves alone",
        "iceberg/compaction/leaving_files.py",
        "return not (unsaid if is_said else staying).may_be_named_by(entry)",
        "return True",
        ("iceberg/compaction/test_replace_snapshot.py::test_deletes_that_apply_to_files_that_stay_stay"),
    ),
    Mutant(
        "a sequence number is used twice after a commit on another branch",
        "iceberg/compaction/assert_unmoved.py",
        "if found != self.next_sequence_number:",
        "if False:",
        "iceberg/compaction/test_replace_snapshot.py::test_what_is_asserted",
    ),
    Mutant(
        "history runs backwards",
        SNAPSHOT,
        "timestamp_ms=max(now_ms - BEHIND_MS, head.timestamp_ms, metadata.last_updated_ms + 1)",
        "timestamp_ms=now_ms - BEHIND_MS",
        (
            "iceberg/compaction/test_replace_snapshot.py::"
            "test_history_does_not_run_backwards_and_main_keeps_what_it_states"
        ),
    ),
    *(
        Mutant(
            f"a commit wipes main's {name}",
            SNAPSHOT,
            f"{name}=ref.{name} if ref else None",
            f"{name}=None",
            "iceberg/compaction/test_replace_snapshot.py::"
            "test_history_does_not_run_backwards_and_main_keeps_what_it_states",
        )
        for name in ("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep")
    ),
    Mutant(
        "a commit replaces a head that it has not seen",
        SNAPSHOT,
        "            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=snapshot.parent_snapshot_id),\n",
        "",
        "iceberg/compaction/test_replace_snapshot.py::test_what_is_asserted",
    ),
    Mutant(
        "a commit goes to another table of that name",
        SNAPSHOT,
        "            AssertTableUUID(uuid=metadata.table_uuid),\n",
        "",
        "iceberg/compaction/test_replace_snapshot.py::test_what_is_asserted",
    ),
    Mutant(
        "a schema that changes in the race is not noticed",
        SNAPSHOT,
        "            AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),\n",
        "",
        "iceberg/compaction/test_replace_snapshot.py::test_what_is_asserted",
    ),
    Mutant(
        "deletes that came after the rewrite began do not apply to its files",
        MANIFESTS,
        "number, order = job.base_sequence_number, rewrite.sort_order_id",
        "number, order = table.metadata.next_sequence_number(), rewrite.sort_order_id",
        ("iceberg/compaction/test_replace_snapshot.py::test_new_files_keep_the_starting_sequence_number"),
    ),
    Mutant(
        "deleted files come back",
        MANIFESTS,
        "if entry.status == ManifestEntryStatus.DELETED:\n                continue",
        "if False:\n                continue",
        CONFLICTS + "test_what_happens_elsewhere_does_not_stop_us[before the commit-compaction elsewhere]",
    ),
    # The fate of a job
    Mutant(
        "a commit that landed is not found in the history",
        OUTCOME,
        "if job.job_id in jobs_of(summary_of(snapshot)):",
        "if False:",
        "iceberg/compaction/test_commit_outcome.py::test_committing_twice_changes_nothing",
    ),
    Mutant(
        "another table under the name says what became of a job",
        OUTCOME,
        "if loaded.table.uuid == uuid:",
        "if True:",
        (
            "iceberg/compaction/test_commit_outcome.py::"
            "test_another_table_under_the_name_says_nothing_of_a_job"
        ),
    ),
    Mutant(
        "a commit that landed is settled as failed by a replica that lags",
        OUTCOME,
        "if may_land and all(",
        "if False and all(",
        (
            "iceberg/compaction/test_commit_outcome.py::"
            "test_a_replica_that_lags_does_not_make_a_landed_commit_a_failed_one"
        ),
    ),
    Mutant(
        "a commit that landed is failed by a replica that lags",
        COMMITTER,
        "return (last_sequence_number(metadata) or 0) < self.asserted_number",
        "return False",
        (
            "iceberg/compaction/test_commit_outcome.py::"
            "test_a_replica_that_lags_does_not_make_a_landed_commit_a_failed_one"
        ),
    ),
    Mutant(
        "a request that may still land counts as lost",
        OUTCOME,
        "if head_id != asserted_head_id:",
        "if True:",
        (
            "iceberg/compaction/test_commit_outcome.py::"
            "test_a_request_whose_end_is_not_known_leaves_everything"
        ),
    ),
    Mutant(
        "a request that cannot land any more is waited for without end",
        OUTCOME,
        "if head_id != asserted_head_id:",
        "if False:",
        (
            "iceberg/compaction/test_commit_outcome.py::"
            "test_a_request_whose_end_is_not_known_can_no_longer_land_once_the_head_moved"
        ),
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
        "came |= {identity for identity, *_ in here - read}",
        "pass",
        TWICE + "test_a_file_that_is_added_again_meanwhile_refuses_the_commit",
    ),
    Mutant(
        "rows of a copy that a rollback took back stay",
        OUTCOME,
        "left |= {identity for identity, *_ in read - here}",
        "pass",
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
        "if is_ahead and _goes_on_from_main(ref.snapshot_id, parents, known):",
        "if False:",
        "iceberg/test_unpublished.py::test_a_branch_that_goes_on_from_the_head_waits_for_a_day",
    ),
    Mutant(
        "what cannot be committed while somebody wants to publish is rewritten all the same",
        "core/planner/held.py",
        "return not_published(view, now_ms) or crowded(view, policy, now_ms)",
        "return crowded(view, policy, now_ms)",
        "service/jobs/test_unpublished.py::test_nothing_is_rewritten_before_a_branch_is_published_or_dropped[publish]",
    ),
    Mutant(
        "our own commits make metadata.json as large as they like",
        "core/planner/held.py",
        "return not_published(view, now_ms) or crowded(view, policy, now_ms)",
        "return not_published(view, now_ms)",
        "core/planner/test_plan.py::test_a_verdict_says_why_with_numbers",
    ),
    Mutant(
        "a batch each night meets a job that began a day after the one before",
        "core/planner/coldness.py",
        "needed_silent_ms, reason = _silence(partition, cold)",
        'needed_silent_ms, reason = cold.silent_for, ""',
        "core/planner/test_coldness_rules.py::"
        "test_where_writers_come_in_visits_a_job_begins_early_in_the_pause_between_them",
    ),
    Mutant(
        "a partition whose time is not over does not rest",
        "core/planner/rest.py",
        "is_over = span is not None and _end_ahead(key, around) is None",
        "is_over = True",
        "core/planner/test_rest.py::"
        "test_a_job_from_before_the_end_of_its_time_counts_until_the_stream_has_passed_that",
    ),
    Mutant(
        "schemas that fill metadata.json have nothing compacted",
        "core/planner/held.py",
        "own_bytes < limit // 2 or",
        "False or",
        "core/planner/test_plan.py::test_a_verdict_says_why_with_numbers",
    ),
    Mutant(
        "the audit lets a job beside any writer pass",
        "audit/promises.py",
        "is_silent or visit_is_over(key, before, silent_ms, rule.silent_for_ms) is not False",
        "True",
        "audit/test_cold_only.py::"
        "test_a_partition_to_which_somebody_comes_in_visits_need_not_be_behind_the_stream",
    ),
    Mutant(
        "a branch that an older one has passed is not seen",
        "iceberg/unpublished.py",
        "known |= dict.fromkeys(passed, goes_on)",
        "known |= dict.fromkeys(passed, False)",
        "iceberg/test_unpublished.py::test_of_branches_that_share_their_beginning_each_is_told",
    ),
    Mutant(
        "what was staged while a job ran cannot be published",
        COMMIT_CHECKS,
        "if why := waits_to_be_published(metadata, now_ms):",
        "if not (why := 'x'):",
        "iceberg/compaction/test_audits.py::test_what_is_looked_at_first_can_be_published",
    ),
    Mutant(
        "deletes leave by what a lost attempt knew",
        MANIFESTS,
        "which = *_which(manifest), frozenset(leaving)",
        "which = *_which(manifest), frozenset()",
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
        "a file of any length is copied to the disk of our stores",
        "iceberg/compaction/local_copy.py",
        "is_longer = most_bytes is not None and size_bytes > most_bytes",
        "is_longer = False",
        (
            "iceberg/compaction/test_local_copy.py::"
            "test_of_a_file_that_is_longer_than_its_manifest_says_nothing_is_copied"
        ),
    ),
    Mutant(
        "deletes that no reader applies are applied",
        "iceberg/compaction/deleted_rows.py",
        "if path in spellings and set(spellings[path]) != {name}:",
        "if False:",
        (
            "iceberg/compaction/test_deleted_rows.py::"
            "test_deletes_that_spell_a_path_in_another_way_are_neither_applied_nor_dropped"
        ),
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
        "timestamp_ms=max(now_ms - BEHIND_MS, head",
        "timestamp_ms=max(now_ms, head",
        ("iceberg/compaction/test_replace_snapshot.py::test_no_writers_clock_has_to_be_as_far_as_ours"),
    ),
    Mutant(
        "a commit that has lost races for a minute is judged by the time at which it began",
        "iceberg/compaction/one_commit.py",
        "made_at(updates, self.now_ms)",
        "updates",
        "iceberg/compaction/test_replace_snapshot.py::test_a_commit_is_as_old_as_its_last_look",
    ),
    Mutant(
        "what was read by another name mapping is committed",
        "iceberg/compaction/commit_checks.py",
        "if name_mapping_of(metadata) != rewrite.name_mapping:",
        "if False:",
        "iceberg/compaction/test_commit_conflicts.py::test_what_was_read_by_another_name_mapping_is_not_committed",
    ),
    # On a Hive metastore
    Mutant(
        "on Hive nobody asks before the swap whether the lock is still held",
        HIVE,
        'self._check_lock(self._lock_id, f"{dbname}.{tbl_name}")',
        "pass",
        ON_HIVE + "test_a_compaction_overwrites_no_commit_that_came_meanwhile_on_hive",
    ),
    Mutant(
        "a metastore that compares is not told with what",
        HIVE,
        "EXPECTED_KEY: METADATA_LOCATION,",
        "",
        ON_HIVE + "test_an_expiry_overwrites_no_commit_that_came_meanwhile_on_hive",
    ),
    Mutant(
        "on Hive a lost race is an answer that is lost",
        HIVE,
        "if MODIFIED not in str(err.message):",
        "if True:",
        ON_HIVE + "test_an_expiry_that_loses_every_race_on_hive_has_failed_and_changed_nothing",
    ),
    Mutant(
        "on Hive a lock that is gone hides why a commit was not made",
        HIVE,
        "with suppress(TException):",
        "with suppress():",
        ON_HIVE + "test_an_expiry_that_loses_every_race_on_hive_has_failed_and_changed_nothing",
    ),
    Mutant(
        "on Hive something is sent behind a swap that went out in part",
        HIVE,
        "if err.type != TTransportException.TIMED_OUT:",
        "if False:",
        ON_HIVE + "test_nothing_follows_a_swap_that_may_have_gone_out_in_part",
    ),
    Mutant(
        "the daemon's own absence is one of the writers",
        "core/partition_state.py",
        "pauses_after(before, commit.change.committed_at_ms)",
        "pauses_after(before, commit.at_ms)",
        "core/test_visits.py::test_what_the_daemon_did_not_hear_of_in_time_is_no_absence_of_its_writers",
    ),
    Mutant(
        "a stream that was down three times comes in visits",
        "core/visits.py",
        "end - one.came_ms > 2 * one.away_ms",
        "False",
        "core/test_visits.py::test_visits_are_known_by_the_absences_between_them",
    ),
    Mutant(
        "the pauses within a visit are forgotten with the absence that they were taken for",
        "core/visits.py",
        "_with(known[index - 1], max(one.away_ms, one.within_ms))",
        "known[index - 1]",
        "core/test_visits.py::test_visits_are_known_by_the_absences_between_them",
    ),
    Mutant(
        "many short absences push out the long ones",
        "core/visits.py",
        "known.index(least) if is_within else 0",
        "0",
        "core/test_visits.py::test_visits_are_known_by_the_absences_between_them",
    ),
    Mutant(
        "a partition that the stream is about to leave is looked at when its silence is over",
        "core/planner/coldness.py",
        "if behind_ms < least_ms:",
        "if behind_ms < needed_ms:",
        "core/planner/test_coldness_rules.py::"
        "test_a_partition_that_the_stream_is_within_is_not_looked_at_again_before_it_comes_to_its_end",
    ),
    # Manifests by partition
    Mutant(
        "a partition's entries are divided between two manifests",
        "iceberg/manifests/split_by_partition.py",
        "if not found or (is_new and len(found[-1]) >= size):",
        "if not found or len(found[-1]) >= size:",
        "iceberg/manifests/test_split_by_partition.py::test_no_partition_is_in_two_and_none_is_lost",
    ),
    Mutant(
        "what left while manifests were regrouped comes back",
        MANIFESTS,
        "if all(which in left and frozenset(left[which][1].items()) == files for which, files in key):",
        "if True:",
        "iceberg/compaction/test_regrouped_manifests.py::test_what_left_meanwhile_does_not_come_back",
    ),
    Mutant(
        "manifests that files leave are written anew as they are, for each partition again",
        MANIFESTS,
        "for group in alike(with_ids(table.metadata, (manifest for manifest, _ in left.values()))):",
        "for group in ():",
        "iceberg/compaction/test_regrouped_manifests.py::test_no_file_is_another_and_each_partition_is_in_one_manifest",
    ),
    Mutant(
        "all entries of manifests that are regrouped are held, however many columns they speak of",
        MANIFESTS,
        "if values > MOST_VALUES:",
        "if False:",
        "iceberg/compaction/test_commit_memory.py::"
        "test_manifests_are_regrouped_only_where_what_they_hold_has_room",
    ),
)
