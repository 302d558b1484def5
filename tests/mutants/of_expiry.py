"""Mistakes in expiry and in the look before a file goes: `iceberg.expiry`, `reachability`, `remover`."""

from mutants.mutant import Mutant

EXPIRY = "iceberg/test_expiry.py::"
REACHED = "iceberg/manifests/test_numbers.py::"

MUTANTS = (
    # iceberg.expiry
    Mutant(
        "no place of ingest is kept",
        "iceberg/expiry.py",
        "return (SetPropertiesUpdate(updates=tokens), *removals)",
        "return removals",
        EXPIRY + "test_the_newest_token_of_each_pipeline_is_kept_as_a_property",
    ),
    Mutant(
        "the oldest place of ingest is kept",
        "iceberg/expiry.py",
        "tokens.setdefault(name, kept)",
        "tokens[name] = kept",
        EXPIRY + "test_the_newest_token_of_each_pipeline_is_kept_as_a_property",
    ),
    Mutant(
        "a sink's place is kept, and the way to it is not",
        "core/planner/retention.py",
        "elif number >= needed_from:",
        "elif number == needed_from:",
        "service/test_places_of_writers.py::test_a_writer_that_stood_still_finds_its_place",
    ),
    Mutant(
        "what several branches keep is what one of them does",
        "core/planner/retention.py",
        "counts[parent] = max(counts.get(parent, 0), count - 1)",
        "counts[parent] = count - 1",
        "core/planner/test_retention.py::test_refs_keep_together_what_each_of_them_keeps",
    ),
    Mutant(
        "what lies in a circle is as good as gone",
        "core/planner/retention.py",
        "return kept | dict.fromkeys(parents.keys() - set(newest_first), FOREVER_MS)",
        "return kept",
        "core/planner/test_retention.py::test_what_lies_in_a_circle_stays",
    ),
    Mutant(
        "a writer's clock says which version of a table is newer",
        "iceberg/expiry.py",
        "return last_sequence_number(metadata) or 0, metadata.last_updated_ms",
        "return 0, metadata.last_updated_ms",
        EXPIRY + "test_a_writer_whose_clock_is_behind_is_no_replica_that_lags",
    ),
    Mutant(
        "a tag that comes between look and commit is dropped",
        "iceberg/expiry.py",
        "staying = set(self.snapshot_ids) - set(still_going(base_metadata, self.snapshot_ids, self.at_ms))",
        "staying = set()",
        EXPIRY + "test_a_tag_that_comes_in_between_is_not_dropped",
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
        EXPIRY + "test_the_head_what_is_named_and_what_is_on_no_way_to_main_do_not_go",
    ),
    Mutant(
        "a snapshot that is not behind main is expired",
        "iceberg/expiry.py",
        "one in behind and one not in named and kept.get(one, 0) <= now_ms",
        "one not in named and kept.get(one, 0) <= now_ms",
        EXPIRY + "test_the_head_what_is_named_and_what_is_on_no_way_to_main_do_not_go",
    ),
    Mutant(
        "what a branch keeps of its history is expired",
        "iceberg/expiry.py",
        "one in behind and one not in named and kept.get(one, 0) <= now_ms",
        "one in behind and one not in named",
        EXPIRY + "test_a_branch_keeps_of_its_history_what_it_states",
    ),
    Mutant(
        "a lost answer counts as done",
        "iceberg/expiry.py",
        "if str(table.metadata.table_uuid) == self.uuid and not left:",
        "if str(table.metadata.table_uuid) == self.uuid:",
        EXPIRY + "test_after_a_lost_answer_a_look_says_what_came_of_it",
    ),
    Mutant(
        "after a request nobody says that one was sent",
        "iceberg/expiry.py",
        "self.base, self.base_age = table.metadata_location, _age(table.metadata)",
        "pass",
        EXPIRY + "test_after_a_lost_answer_a_look_says_what_came_of_it",
    ),
    Mutant(
        "an expiry is done because a proxy says so",
        "iceberg/expiry.py",
        "if {snapshot.snapshot_id for snapshot in landed.snapshots} & set(self.going):",
        "if False:",
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
        EXPIRY + "test_a_refusal_of_a_second_copy_is_looked_into",
    ),
    Mutant(
        "a rollback on a REST catalog loses the branch",
        "iceberg/expiry.py",
        "return (uuid, *seen)",
        "return (uuid,)",
        EXPIRY + "test_a_rest_catalog_is_asked_to_refuse_where_a_ref_that_we_saw_has_moved",
    ),
    Mutant(
        "files of a tag that a REST catalog dropped go",
        "iceberg/lost_refs.py",
        "if wanted := _wanted(version, going, landed.last_updated_ms, location):",
        "if wanted := ():",
        EXPIRY + "test_a_tag_that_a_rest_catalog_dropped_with_its_snapshot_is_named",
    ),
    Mutant(
        "files go though nobody can say whether a tag was dropped",
        "iceberg/lost_refs.py",
        """            return None
        if not {""",
        """            return ()
        if not {""",
        EXPIRY + "test_a_tag_that_a_rest_catalog_dropped_with_its_snapshot_is_named",
    ),
    # reachability: what an expiry leaves without a reader
    Mutant(
        "what was only carried over into a manifest counts as gone",
        "iceberg/manifests/reachability.py",
        "if entry.status != ManifestEntryStatus.DELETED:",
        "if entry.status == ManifestEntryStatus.ADDED:",
        REACHED + "test_a_file_goes_only_when_no_manifest_that_stays_names_it",
    ),
    # reachability: what reaches a marked file
    Mutant(
        "statistics files that are in use go",
        "iceberg/manifests/reachability.py",
        "    named |= {normalised(path) for _, path in _statistics(metadata)}\n",
        "",
        EXPIRY + "test_statistics_of_snapshots_that_stay_stay",
    ),
    Mutant(
        "a file under another spelling is not found",
        "iceberg/manifests/reachability.py",
        "{path for one in self._live(location, limit) if (path := normalised(one)) in wanted}",
        "{one for one in self._live(location, limit) if one in wanted}",
        EXPIRY + "test_a_file_that_is_registered_again_stays",
    ),
    Mutant(
        "manifests that a snapshot needs go",
        "iceberg/manifests/reachability.py",
        "        found |= wanted & manifests.keys()\n",
        "",
        REACHED + "test_manifests_and_lists_are_reached_as_files_are",
    ),
    Mutant(
        "manifest lists that a snapshot needs go",
        "iceberg/manifests/reachability.py",
        "named = {normalised(snapshot.manifest_list) for snapshot in metadata.snapshots}",
        "named = set()",
        REACHED + "test_manifests_and_lists_are_reached_as_files_are",
    ),
    Mutant(
        "a number that was used twice is taken for seen",
        "iceberg/manifests/reachability.py",
        "        or number != seen.sequence_number\n",
        "",
        REACHED + "test_what_is_not_sure_to_be_seen_is_read",
    ),
    Mutant(
        "a snapshot without a parent is taken for seen",
        "iceberg/manifests/reachability.py",
        "((one.sequence_number or 0) > number or one.parent_snapshot_id is None)",
        "(one.sequence_number or 0) > number",
        REACHED + "test_what_is_not_sure_to_be_seen_is_read",
    ),
    # remover
    Mutant(
        "files that must wait go",
        "iceberg/remover.py",
        "if verdict.finding is Finding.GO]",
        "if verdict.finding is not Finding.KEEP]",
        EXPIRY + "test_gc_disabled_in_the_grace_keeps_everything",
    ),
    Mutant(
        "files go that nothing may delete",
        "iceberg/remover.py",
        "if verdict.finding is Finding.GO]",
        "if verdict.finding is not Finding.WAIT]",
        EXPIRY + "test_files_of_another_table_stay_whoever_names_them",
    ),
    Mutant(
        "a file that could not be deleted counts as gone",
        "iceberg/remover.py",
        'return f"{type(err).__name__}: {err}"',
        "return None",
        EXPIRY + "test_a_file_that_cannot_be_deleted_waits_alone",
    ),
    Mutant(
        "a look that took minutes is good enough",
        "iceberg/remover.py",
        "if clock_s() - looked_s < LOOK_IS_GOOD_FOR_S / 2:",
        "if True:",
        EXPIRY + "test_a_look_that_takes_long_is_taken_again_and_then_given_up",
    ),
    Mutant(
        "nobody looks at what came while evidence was gathered",
        "iceberg/remover.py",
        "late |= more",
        "pass",
        REACHED + "test_what_comes_while_evidence_is_gathered_keeps_the_files",
    ),
    *(
        Mutant(
            f"files go though, while evidence was gathered, {what}",
            "iceberg/remover.py",
            text,
            change,
            REACHED + "test_what_comes_while_evidence_is_gathered_keeps_the_files",
        )
        for what, text, change in (
            ("the table was replaced", "if str(now.metadata.table_uuid) != wanted.uuid:", "if False:"),
            ("gc was disabled", "if not is_gc_enabled(now.metadata.properties):", "if False:"),
            ("their snapshots came back", "    if back:", "    if False:"),
            ("a snapshot took them", "if normalised(path) in found", "if False"),
        )
    ),
    Mutant(
        "files go though the history was cut back while evidence was gathered",
        "iceberg/remover.py",
        "if last is not None and was is not None and last < was:",
        "if False:",
        REACHED + "test_a_history_that_is_cut_back_while_it_is_looked_at_keeps_the_files",
    ),
    Mutant(
        "an expiry that may land yet is settled as failed",
        "service/expiries.py",
        "and not has_gone_on and self.now_ms()",
        "and False and self.now_ms()",
        "service/test_deletions_go_on.py::test_an_expiry_whose_answer_was_lost_keeps_no_other_waiting_once_the_table_has_gone_on",
    ),
    Mutant(
        "an expiry that landed is settled as failed by a replica that lags",
        "service/expiries.py",
        "operation.asserted_head_id in loaded.ancestors()[1:]",
        "operation.asserted_head_id not in (None, loaded.head)",
        "service/test_deletions_go_on.py::test_an_expiry_that_landed_is_not_settled_as_failed_by_a_replica_that_lags",
    ),
    Mutant(
        "an expiry whose answer was lost keeps the others waiting for a day",
        "service/expiries.py",
        "and not has_gone_on and self.now_ms()",
        "and self.now_ms()",
        "service/test_deletions_go_on.py::test_an_expiry_whose_answer_was_lost_keeps_no_other_waiting_once_the_table_has_gone_on",
    ),
)
