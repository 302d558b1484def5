"""Mistakes in expiry: `iceberg.expiry`, and what no branch or tag reaches."""

from mutants.mutant import Mutant

EXPIRY = "iceberg/test_expiry.py::"
ASTRAY = "service/jobs/test_astray.py::"
READERS = "service/jobs/test_expiries_beside_readers.py::"

MUTANTS = (
    Mutant(
        "a branch that is used again in the race is dropped all the same",
        "iceberg/expiry.py",
        "refs=list(over), ",
        "refs=[], ",
        "iceberg/test_refs_past_their_age.py::test_one_that_is_used_again_meanwhile_is_not_dropped",
    ),
    Mutant(
        "main is past its age",
        "iceberg/refs.py",
        "if age_ms is not None and is_aged and name != MAIN_BRANCH and len(name) <= LONGEST_NAME:",
        "if age_ms is not None and is_aged:",
        "iceberg/test_refs_past_their_age.py::test_what_one_does_not_state_the_table_may_and_main_never_goes",
    ),
    Mutant(
        "an age that is no age drops what states it",
        "iceberg/refs.py",
        "is_aged = age_ms is not None and age_ms > 0 and ref.snapshot_id in made_ms",
        "is_aged = age_ms is not None and ref.snapshot_id in made_ms",
        "iceberg/test_refs_past_their_age.py::test_what_one_does_not_state_the_table_may_and_main_never_goes",
    ),
    Mutant(
        "an answer that is lost counts as done where only tags were to go",
        "iceberg/expiry.py",
        "        return not self.going and bool(set(self.dropped) & set(metadata.refs))",
        "        return False",
        "iceberg/test_refs_past_their_age.py::test_a_lost_answer_is_looked_up",
    ),
    Mutant(
        "a version of the metadata may have any file read whole",
        "iceberg/lost_refs.py",
        "if not is_plain(location) or not location.endswith(METADATA_NAMES):",
        "if False:",
        "iceberg/test_expiry_on_rest.py::"
        "test_a_version_that_names_another_file_as_one_of_before_has_it_not_opened",
    ),
    Mutant(
        "what was the newest a moment ago goes, because it is old",
        "core/planner/expirable.py",
        "max(one.committed_at_ms, later.committed_at_ms, at_ms)",
        "max(one.committed_at_ms, at_ms)",
        "core/planner/test_expiry.py::test_what_was_the_newest_until_a_moment_ago_stays_however_old_it_is",
    ),
    Mutant(
        "what main left for a branch goes by the branch's own commits",
        "core/planner/expirable.py",
        "max(one.committed_at_ms, later.committed_at_ms, at_ms)",
        "max(one.committed_at_ms, later.committed_at_ms)",
        "core/planner/test_expiry.py::test_what_main_left_when_a_branch_was_published_counts_from_then",
    ),
    Mutant(
        "what came with a branch goes by its own commits",
        "core/planner/expirable.py",
        "published_ms = accumulate(known_ms, max)",
        "published_ms = known_ms",
        "core/planner/test_expiry.py::test_what_main_left_when_a_branch_was_published_counts_from_then",
    ),
    Mutant(
        "when a branch was published is not asked",
        "iceberg/snapshots.py",
        "if made.get(after.snapshot_id) != (before.snapshot_id, after.timestamp_ms)",
        "if False",
        "iceberg/test_expiry.py::test_when_main_left_what_it_was_is_known_where_a_branch_was_published",
    ),
    Mutant(
        "what stays forgets a parent that goes",
        "iceberg/snapshot_log.py",
        'update={"snapshots": kept, "last_updated_ms": next_ms(base_metadata)}',
        'update={"last_updated_ms": next_ms(base_metadata)}',
        "iceberg/test_snapshot_log.py::test_a_snapshot_keeps_the_name_of_a_parent_that_goes",
    ),
    # What no branch or tag reaches
    Mutant(
        "what a rollback left goes at once, so that it cannot be taken back",
        "store/fold/tables.py",
        "max(s.since_ms, now_ms)",
        "s.since_ms",
        ASTRAY + "test_what_a_rollback_left_goes_once_it_has_been_left_for_long_enough",
    ),
    Mutant(
        "what was the newest once more between two looks counts from the first time",
        "store/fold/tables.py",
        "if 0 < s.left_at_ms <= now_ms + SKEW_MS",
        "if False",
        ASTRAY + "test_what_was_the_newest_once_more_between_two_looks_counts_from_then",
    ),
    Mutant(
        "a rollback that was taken back still counts",
        "store/fold/tables.py",
        "gone = known.keys() - {one.snapshot_id for one in astray}",
        "gone = known.keys() - known.keys()",
        ASTRAY + "test_a_rollback_that_is_taken_back_has_lost_nothing",
    ),
    Mutant(
        "what another branch has in its history counts as reached by nothing",
        "iceberg/snapshots.py",
        "            heads.append(ref.snapshot_id)\n",
        "            reached.add(ref.snapshot_id)\n",
        ASTRAY + "test_what_a_branch_has_in_its_history_or_a_tag_names_is_not_astray",
    ),
    Mutant(
        "what was staged goes as soon as anything else",
        "core/planner/expirable.py",
        "STAGED_FOR_MS if one.is_staged else 0",
        "0",
        ASTRAY + "test_what_was_staged_and_never_published_goes_after_a_day_and_no_sooner",
    ),
    Mutant(
        "the base of a job goes once a rollback has left it",
        "core/planner/expirable.py",
        "        and one.snapshot_id not in bases\n",
        "",
        "core/planner/test_expiry.py::test_the_base_of_a_job_that_a_rollback_left_stays",
    ),
    Mutant(
        "a writer's newest place goes with what a rollback left",
        "core/planner/expirable.py",
        "            not one.token\n",
        "            True\n",
        "core/planner/test_expiry.py::test_what_no_branch_or_tag_reaches_goes_by_age_alone",
    ),
    Mutant(
        "an open intent keeps the snapshots alone that came after it",
        "core/planner/expirable.py",
        "min(open_ms) - LOOKED_BEFORE_MS",
        "min(open_ms)",
        "core/planner/test_expiry.py::test_what_a_writer_with_an_open_intent_may_have_begun_on_stays_with_all_that_came_after_it",
    ),
    Mutant(
        "what was the head when a writer began may go",
        "core/planner/expirable.py",
        "return next((number for number, at_ms in enumerate(left_ms) if at_ms > began_ms), 0)",
        "return next((number for number, at_ms in enumerate(left_ms) if at_ms > began_ms), 0) + 1",
        "core/planner/test_expiry.py::test_what_a_writer_with_an_open_intent_may_have_begun_on_stays_with_all_that_came_after_it",
    ),
    Mutant(
        "what a renewal says of the beginning is not heard",
        "store/fold/writers.py",
        "intent.at_ms if intent.since_ms is None else intent.since_ms",
        "intent.at_ms",
        "service/jobs/test_expiries_beside_upserts.py::test_and_where_a_renewal_is_the_first_that_is_heard_of_it",
    ),
    Mutant(
        "a renewal forgets when its intent was opened",
        "store/fold/writers.py",
        "min(said_ms, _intent_of(uuid, *row).at_ms)",
        "said_ms",
        "service/jobs/test_expiries_beside_upserts.py::test_what_an_upsert_began_on_stays_while_it_renews_its_intent",
    ),
    Mutant(
        "all that a snapshot that is astray shares with its parent is marked",
        "iceberg/manifests/reachability.py",
        "            or snapshot.snapshot_id in parents\n",
        "",
        ASTRAY + "test_what_a_rollback_left_goes_once_it_has_been_left_for_long_enough",
    ),
    Mutant(
        "the files of what was cherry-picked are marked",
        "iceberg/manifests/reachability.py",
        "            or _picked_from(snapshot) in going\n",
        "",
        ASTRAY + "test_files_of_a_staged_snapshot_that_was_published_stay",
    ),
    # iceberg.expiry
    Mutant(
        "only a catalog that forbids has refused an expiry",
        "iceberg/expiry.py",
        "if not is_refusal(err) and not is_busy(err):",
        "if type(err).__name__ != 'ForbiddenError':",
        "iceberg/test_refused_expiries.py::"
        "test_an_expiry_that_a_catalog_refuses_has_failed_whichever_catalog_it_is",
    ),
    Mutant(
        "a catalog that names no version of before has dropped no tag",
        "iceberg/lost_refs.py",
        """        log = _versions_since(io, landed, base, is_stopped)
    except Exception:  # noqa: BLE001 (a version that nobody can read shows nothing)
        return None
""",
        """        log = _versions_since(io, landed, base, is_stopped)
    except Exception:
        return ()
""",
        "iceberg/test_expiry_on_rest.py::"
        "test_where_a_server_keeps_no_metadata_log_nobody_can_say_which_tags_it_dropped",
    ),
    Mutant(
        "nobody is told that the files of an expiry stay",
        "service/jobs/expiries.py",
        'outcome = replace(outcome, why=f"{outcome.why}; {UNSEEN_VERSIONS}")',
        "pass",
        "service/jobs/test_expiry_outcomes.py::test_where_an_expiry_may_have_dropped_a_tag_no_file_goes",
    ),
    Mutant(
        "no place of ingest is kept",
        "iceberg/expiry.py",
        "return (SetPropertiesUpdate(updates=tokens), *removals)",
        "return removals",
        EXPIRY + "test_the_newest_token_of_each_pipeline_is_kept_as_a_property",
    ),
    Mutant(
        "the oldest place of ingest is kept",
        "iceberg/kept_tokens.py",
        "tokens.setdefault(name, kept)",
        "tokens[name] = kept",
        EXPIRY + "test_the_newest_token_of_each_pipeline_is_kept_as_a_property",
    ),
    Mutant(
        "a sink's place is kept, and the way to it is not",
        "core/planner/expirable.py",
        "if number >= needed_from else",
        "if number == needed_from else",
        "service/jobs/test_places_of_writers.py::test_a_writer_that_stood_still_finds_its_place",
    ),
    Mutant(
        "the history goes without which Flink's sink fails",
        "core/planner/expirable.py",
        "if view.facts.whole_until_ms > now_ms:",
        "if False:",
        "core/planner/test_expiry.py::"
        "test_all_of_a_history_stays_that_flinks_sink_needs_whole_and_goes_two_weeks_after_its_last_commit",
    ),
    Mutant(
        "nobody looks again when Flink's sink needs the whole history no more",
        "core/planner/expiry.py",
        "        view.facts.whole_until_ms,\n",
        "",
        "core/planner/test_expiry.py::"
        "test_all_of_a_history_stays_that_flinks_sink_needs_whole_and_goes_two_weeks_after_its_last_commit",
    ),
    Mutant(
        "no table is told to have a history that Flink's sink needs whole",
        "iceberg/values.py",
        "        whole_until_ms=whole_until_ms(metadata),\n",
        "",
        "iceberg/test_whole_history.py::test_the_facts_of_a_table_say_it",
    ),
    Mutant(
        "Flink's upserts count where they brought vectors alone",
        "iceberg/whole_history.py",
        "for name in (ADDED_VECTORS, ADDED_EQUALITY_DELETES)",
        "for name in (ADDED_VECTORS,)",
        "iceberg/test_whole_history.py::"
        "test_a_history_in_which_flink_upserts_is_needed_for_two_weeks_after_its_last_commit[added-equality-delete-files]",
    ),
    Mutant(
        "a history that was cut keeps all that is left",
        "iceberg/whole_history.py",
        "        before = _Line(is_whole=True) if at is None else found.get(at, _CUT)\n",
        "        before = _Line(is_whole=True)\n",
        "iceberg/test_whole_history.py::test_a_history_that_was_cut_before_need_not_be_kept",
    ),
    Mutant(
        "an optimizer that runs in Flink or Spark is taken for these",
        "iceberg/other_rewriters.py",
        'if said.get("snapshot.producer") == "OPTIMIZE":',
        "if False:",
        "iceberg/test_other_rewriters.py::test_a_rewriter_is_known_by_what_it_writes_into_the_summary",
    ),
    Mutant(
        "what several branches keep is what one of them does",
        "core/planner/expirable.py",
        "counts[parent] = max(counts.get(parent, 0), count - 1)",
        "counts[parent] = count - 1",
        "core/planner/test_kept_by_refs.py::test_refs_keep_together_what_each_of_them_keeps",
    ),
    Mutant(
        "what lies in a circle is as good as gone",
        "core/planner/expirable.py",
        "return kept | dict.fromkeys(parents.keys() - set(newest_first), FOREVER_MS)",
        "return kept",
        "core/planner/test_kept_by_refs.py::test_what_lies_in_a_circle_stays",
    ),
    Mutant(
        "a writer's clock says which version of a table is newer",
        "iceberg/expiry.py",
        "    if number != others:\n",
        "    if False:\n",
        (
            "iceberg/test_lagging_replicas.py::"
            "test_of_two_versions_the_later_one_has_the_higher_sequence_number"
        ),
    ),
    Mutant(
        "a version that names ours before it is told by its writer's clock to be older",
        "iceberg/expiry.py",
        "if version.metadata_location == other.metadata_location or _names(version, other):",
        "if version.metadata_location == other.metadata_location:",
        (
            "iceberg/test_lagging_replicas.py::"
            "test_a_property_that_a_slow_clock_has_set_is_no_replica_that_lags"
        ),
    ),
    Mutant(
        "an older version whose writer's clock was ahead counts as the newer one",
        "iceberg/expiry.py",
        "return _names(other, version) or version",
        "return version",
        (
            "iceberg/test_lagging_replicas.py::"
            "test_a_replica_that_lags_is_one_though_its_writers_clock_was_ahead"
        ),
    ),
    Mutant(
        "the metadata that an expiry leaves is as old as this machine's clock says",
        "iceberg/snapshot_log.py",
        "max(base_metadata.last_updated_ms + 1, log[-1].timestamp_ms if log else 0)",
        "base_metadata.last_updated_ms",
        "iceberg/test_snapshot_log.py::test_metadata_of_a_machine_that_is_behind_its_writers_is_not_older_than_their_commits[expiry]",
    ),
    Mutant(
        "the metadata that a compaction leaves is as old as this machine's clock says",
        "iceberg/compaction/replace_snapshot.py",
        "metadata.last_updated_ms + 1)",
        "metadata.last_updated_ms)",
        "iceberg/test_snapshot_log.py::test_metadata_of_a_machine_that_is_behind_its_writers_is_not_older_than_their_commits[compaction]",
    ),
    Mutant(
        "what branches and keep_last have just freed is long overdue",
        "core/planner/expiry.py",
        "max(at_ms, freed_ms.get(snapshot_id, 0))",
        "at_ms",
        ("core/planner/test_expiry.py::test_what_something_else_kept_until_now_is_not_overdue[the newest]"),
    ),
    Mutant(
        "a tag that comes between look and commit is dropped",
        "iceberg/expiry.py",
        "staying = set(self.snapshot_ids) - set(still_going(base_metadata, self.snapshot_ids, self.at_ms))",
        "staying = set()",
        "iceberg/test_expiry_leaves_what_refs_need.py::test_a_tag_that_comes_in_between_is_not_dropped",
    ),
    Mutant(
        "what a rollback made the head is expired",
        "iceberg/expiry.py",
        "if self.head_id not in {head_id, *_behind(base_metadata)}:",
        "if False:",
        EXPIRY + "test_a_rollback_behind_the_head_that_was_seen_wins",
    ),
    Mutant(
        "a snapshot with a name is expired",
        "iceberg/expiry.py",
        "one in behind and one not in named and kept.get(one, 0) <= now_ms",
        "one in behind",
        "iceberg/test_expiry_leaves_what_refs_need.py::test_the_head_what_is_named_and_what_is_on_no_way_to_main_do_not_go",
    ),
    Mutant(
        "a snapshot that is not behind main is expired",
        "iceberg/expiry.py",
        "one in behind and one not in named and kept.get(one, 0) <= now_ms",
        "one not in named and kept.get(one, 0) <= now_ms",
        "iceberg/test_expiry_leaves_what_refs_need.py::test_the_head_what_is_named_and_what_is_on_no_way_to_main_do_not_go",
    ),
    Mutant(
        "what a branch keeps of its history is expired",
        "iceberg/expiry.py",
        "one in behind and one not in named and kept.get(one, 0) <= now_ms",
        "one in behind and one not in named",
        "iceberg/test_expiry_leaves_what_refs_need.py::test_a_branch_keeps_of_its_history_what_it_states",
    ),
    Mutant(
        "a lost answer counts as done",
        "iceberg/expiry.py",
        "if str(table.metadata.table_uuid) == self.uuid and not self._left(table.metadata):",
        "if str(table.metadata.table_uuid) == self.uuid:",
        EXPIRY + "test_after_a_lost_answer_a_look_says_what_came_of_it",
    ),
    Mutant(
        "after a request nobody says that one was sent",
        "iceberg/expiry.py",
        "        self.base, self.dropped = table, tuple(over)\n",
        "        self.dropped = tuple(over)\n",
        EXPIRY + "test_after_a_lost_answer_a_look_says_what_came_of_it",
    ),
    Mutant(
        "of the log of snapshots only the entries of those that go are gone",
        "iceberg/snapshot_log.py",
        "log[begins:]",
        "log",
        "iceberg/test_snapshot_log.py::test_no_time_gets_another_snapshot_than_it_had",
    ),
    Mutant(
        "an expiry is done because a proxy says so",
        "iceberg/expiry.py",
        "        if self._left(landed):\n",
        "        if False:\n",
        EXPIRY + "test_done_is_what_the_answer_shows",
    ),
    Mutant(
        "another table of that name is expired",
        "iceberg/expiry.py",
        "if str(metadata.table_uuid) != self.uuid:",
        "if False:",
        EXPIRY + "test_nothing_expires_from_another_table_of_that_name_or_under_gc_disabled",
    ),
    Mutant(
        "a table with gc.enabled=false is expired",
        "iceberg/expiry.py",
        "if not is_gc_enabled(metadata.properties):",
        "if False:",
        EXPIRY + "test_nothing_expires_from_another_table_of_that_name_or_under_gc_disabled",
    ),
    Mutant(
        "nobody is asked before the request",
        "iceberg/expiry.py",
        "if (against := self.may_send(table)) is not None:",
        "if (against := None) is not None:",
        EXPIRY + "test_who_may_not_mark_sends_nothing",
    ),
    Mutant(
        "a refused second copy counts as failed, and its marks are dropped",
        "iceberg/expiry.py",
        "if staying and self.base and not staying & {one.snapshot_id for one in metadata.snapshots}:",
        "if False:",
        "iceberg/test_lagging_replicas.py::test_a_refusal_of_a_second_copy_is_looked_into",
    ),
    Mutant(
        "a rollback on a REST catalog loses the branch",
        "iceberg/expiry.py",
        "return (uuid, *seen)",
        "return (uuid,)",
        (
            "iceberg/test_expiry_on_rest.py::"
            "test_a_rest_catalog_is_asked_to_refuse_where_a_ref_that_we_saw_has_moved"
        ),
    ),
    Mutant(
        "a REST catalog is sent a list of snapshots, which older servers refuse",
        "iceberg/expiry.py",
        "parts = [[one] for one in going] if is_rest else [list(going)]",
        "parts = [list(going)]",
        "iceberg/test_expiry_on_rest.py::test_a_rest_catalog_is_sent_one_snapshot_an_update",
    ),
    Mutant(
        "files of a tag that a REST catalog dropped go",
        "iceberg/lost_refs.py",
        "if wanted := _wanted(version, going, landed.last_updated_ms, location):",
        "if wanted := ():",
        ("iceberg/test_expiry_on_rest.py::test_a_tag_that_a_rest_catalog_dropped_with_its_snapshot_is_named"),
    ),
    Mutant(
        "files go though nobody can say whether a tag was dropped",
        "iceberg/lost_refs.py",
        """            return None
        if not {""",
        """            return ()
        if not {""",
        ("iceberg/test_expiry_on_rest.py::test_a_tag_that_a_rest_catalog_dropped_with_its_snapshot_is_named"),
    ),
    Mutant(
        "an expiry loses its marks before its end is saved",
        "service/jobs/operations.py",
        "        with self.ledger.transaction():\n            if settle_marks",
        "        if True:\n            if settle_marks",
        "service/jobs/test_expiry_outcomes.py::"
        "test_where_the_end_of_an_expiry_that_landed_is_not_saved_it_is_known_afterwards[a tag was lost]",
    ),
    Mutant(
        "a schedule has a table expired twice in a night",
        "core/planner/expiry.py",
        "late if late >= 1 else min(late, most)",
        "late",
        "core/planner/test_schedules.py::test_nor_is_it_late_by_a_schedule_while_it_rests",
    ),
    Mutant(
        "schemas that fill metadata.json have a table expired again and again",
        "core/planner/expiry.py",
        "min(size / limit, going * WORTH_WHERE_LARGE / total, fair)",
        "min(size / limit, going * WORTH_WHERE_LARGE / total)",
        "core/planner/test_expiry.py::"
        "test_large_metadata_that_schemas_make_is_no_reason_to_expire_a_few_again_and_again",
    ),
    Mutant(
        "what a reader has not read expires",
        "core/planner/expirable.py",
        "elif reader is not None and number >= reader.needs_from:",
        "elif False:",
        READERS + "test_what_it_has_not_read_stays_until_it_has",
    ),
    Mutant(
        "the fastest reader counts",
        "core/planner/expirable.py",
        "reader = min((one for one in readers if one.is_kept), default=None)",
        "reader = max((one for one in readers if one.is_kept), default=None)",
        READERS + "test_the_slowest_of_several_counts",
    ),
    Mutant(
        "a reader that is gone keeps its snapshots for ever",
        "core/planner/expirable.py",
        "number >= 0 and behind_ms < expire.max_reader_lag and not is_too_large",
        "number >= 0 and not is_too_large",
        READERS + "test_one_that_is_too_far_behind_is_let_go_and_told",
    ),
    Mutant(
        "snapshots expire though nobody knows who reads them",
        "core/planner/expiry.py",
        "return replace(decision, verdict=Verdict.WAITING, why=why, wake=Wake(at_ms=now_ms))",
        "return decision",
        READERS + "test_more_readers_than_anybody_counts_stop_expiry_and_say_so",
    ),
    Mutant(
        "readers are not asked for once more before the request",
        "service/jobs/expiries.py",
        "if not (self.holds.refresh(DRAIN_TIMEOUT_S) and self.readers.refresh(DRAIN_TIMEOUT_S)):",
        "if not self.holds.refresh(DRAIN_TIMEOUT_S):",
        READERS + "test_one_that_registers_after_it_was_planned_keeps_what_it_needs",
    ),
    Mutant(
        "a rewrite makes a reader late that has read everything",
        "core/planner/expirable.py",
        "wrote_ms[number + 1] if came.is_rewrite else left_ms[number]",
        "left_ms[number]",
        "core/planner/test_readers.py::"
        "test_who_has_read_everything_is_not_late_whatever_is_rewritten_behind_it",
    ),
    Mutant(
        "the verdict is made again a moment too early",
        "core/planner/expirable.py",
        "behind_ms < expire.max_reader_lag",
        "behind_ms <= expire.max_reader_lag",
        "core/planner/test_readers.py::test_it_is_late_from_when_something_came_that_it_has_not_read",
    ),
    Mutant(
        "a rollback lets readers go",
        "core/planner/expirable.py",
        "and (needed_from is None or one.sequence_number < needed_from)",
        "",
        "core/planner/test_readers.py::test_after_a_rollback_it_needs_what_was_left_and_where_the_two_part",
    ),
    Mutant(
        "a topic of readers that was lost takes them with it",
        "service/topics/readers.py",
        "        if not reading.records and doubt is None:\n            return True\n",
        "        if reading.is_whole:\n            self.ledger.forget_positions(self.ledger.position_keys())\n",
        READERS + "test_a_topic_that_was_lost_takes_no_reader_with_it",
    ),
    Mutant(
        "of a checkpoint the batch counts that has only begun",
        "iceberg/spark_checkpoint.py",
        'f"{folder}/commits/"',
        'f"{folder}/offsets/"',
        "iceberg/test_spark_checkpoint.py::test_the_last_batch_that_is_done_says_it",
    ),
    Mutant(
        "a tag whose owner has just made its age longer is dropped",
        "iceberg/expiry.py",
        "if over and self._over(self.catalog.load_table(self.name)) != over:",
        "if False:",
        "iceberg/test_refs_past_their_age.py::test_one_whose_owner_makes_its_age_longer_meanwhile_is_not_dropped[OnRest-at the last look]",
    ),
    Mutant(
        "a tag whose age becomes longer in the race is dropped",
        "iceberg/expiry.py",
        "if young := set(self.refs) - _past_their_age(base_metadata, self.at_ms):",
        "if young := set():",
        "iceberg/test_refs_past_their_age.py::test_one_whose_owner_makes_its_age_longer_meanwhile_is_not_dropped[FaultyCatalog-in the race]",
    ),
    Mutant(
        "tags that are still there are said to be dropped",
        "iceberg/expiry.py",
        "[name for name in self.dropped if name not in landed.refs]",
        "list(self.dropped)",
        "iceberg/test_refs_past_their_age.py::test_what_another_has_made_again_meanwhile_is_not_said_to_be_dropped",
    ),
    Mutant(
        "an age that is for ever does not fit into the stores",
        "iceberg/refs.py",
        "        return min(by_ref, MOST_STATED)\n",
        "        return by_ref\n",
        "iceberg/test_refs_past_their_age.py::test_an_age_that_is_for_ever_is_a_time_that_the_stores_can_keep",
    ),
    Mutant(
        "an expiry of tags alone whose end nobody knows keeps the next waiting for a day",
        "service/jobs/expiries.py",
        "        if wanted and operation.base_metadata and may_land and is_young:",
        "        if operation.base_metadata and may_land and is_young:",
        "service/jobs/test_unfinished_expiries.py::test_where_the_daemon_died_while_tags_alone_were_dropped_the_next_expiry_is_not_kept_waiting",
    ),
    Mutant(
        "Flink's history is needed from its last upsert on alone",
        "iceberg/whole_history.py",
        "    newest_ms = max(before.newest_ms or 0, snapshot.timestamp_ms)\n",
        "    newest_ms = snapshot.timestamp_ms if _is_upsert(snapshot) else before.newest_ms\n",
        "iceberg/test_whole_history.py::test_a_history_in_which_flink_upserts_is_needed_for_two_weeks_after_its_last_commit[added-dvs]",
    ),
    Mutant(
        "a sink of Flink that has only inserted so far loses its history",
        "iceberg/whole_history.py",
        "and (keyed or one.is_upserted)",
        "and one.is_upserted",
        "iceberg/test_whole_history.py::test_a_sink_that_knows_its_rows_by_keys_and_has_only_inserted_may_upsert_next[identifier fields]",
    ),
    Mutant(
        "an upsert of Flink that came after the plan keeps nothing",
        "iceberg/expiry.py",
        "        behind.clear()\n",
        "        pass\n",
        "iceberg/test_whole_history.py::test_an_upsert_that_came_after_the_plan_keeps_what_was_to_go",
    ),
    Mutant(
        "what main shares with a branch into which Flink upserts goes",
        "iceberg/whole_history.py",
        "for ref in metadata.refs.values() if",
        "for ref in () if",
        "iceberg/test_whole_history.py::test_a_sink_that_upserts_into_a_branch_needs_what_main_shares_with_it",
    ),
)
