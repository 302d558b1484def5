"""Mistakes in the look before a file goes: `reachability`, `remover`."""

from mutants.mutant import Mutant

EXPIRY = "iceberg/test_expiry.py::"
REACHED = "iceberg/manifests/test_numbers.py::"

MUTANTS = (
    Mutant(
        "any number of lists wait for the first",
        "iceberg/threads.py",
        "while room.acquire() and not stop.is_set():",
        "while not stop.is_set():",
        "iceberg/test_threads.py::"
        "test_no_more_is_begun_than_twice_as_many_as_may_be_at_once_before_it_is_taken",
    ),
    Mutant(
        "one table's work that never ends keeps that of all others waiting",
        "iceberg/threads.py",
        "if now_s - self._began_s > self._patience.allowed_s(self._whose):",
        "if False:",
        "iceberg/test_beside_the_loop.py::test_work_that_gets_on_and_on_is_given_up_all_the_same",
    ),
    Mutant(
        "the proof of a table that needs four hours is broken off for ever",
        "iceberg/patience.py",
        "= min(2 * took_s, MOST_EVER_S)",
        "= took_s",
        "iceberg/test_patience.py::test_work_that_takes_long_ends_at_last",
    ),
    Mutant(
        "a search that takes long has another name each time, and is broken off for ever",
        "iceberg/maintainer.py",
        '            f"{search.uuid} {search.cause}",\n',
        "",
        "iceberg/test_patience.py::test_each_kind_of_work_is_known_by_its_table_when_it_is_begun_again",
    ),
    Mutant(
        "a list that many snapshots name is read for each",
        "iceberg/manifests/snapshot_files.py",
        "lists = list(dict.fromkeys(one.manifest_list for one in snapshots))",
        "lists = [one.manifest_list for one in snapshots]",
        REACHED + "test_a_list_that_all_snapshots_name_is_read_once",
    ),
    Mutant(
        "the manifests of a question may fill the memory",
        "iceberg/manifests/snapshot_files.py",
        "if len(found) + len(known) > MOST_NAMED:",
        "if False:",
        REACHED + "test_lists_that_name_too_many_manifests_together_prove_nothing",
    ),
    # reachability: what an expiry leaves without a reader
    Mutant(
        "an expiry after a rewrite of the manifests holds each path of the table",
        "iceberg/manifests/reachability.py",
        "if (name := normalised(path)) not in needed)",
        "if (name := normalised(path)))",
        "iceberg/manifests/test_reachability.py::"
        "test_after_a_rewrite_of_all_manifests_no_path_of_the_table_is_held",
    ),
    Mutant(
        "what was only carried over into a manifest counts as gone",
        "iceberg/manifests/snapshot_files.py",
        "if entry.status != ManifestEntryStatus.DELETED",
        "if entry.status == ManifestEntryStatus.ADDED",
        REACHED + "test_a_file_goes_only_when_no_manifest_that_stays_names_it",
    ),
    # reachability: what reaches a marked file
    Mutant(
        "statistics files that are in use go",
        "iceberg/manifests/reachability.py",
        "    named += [path for _, path in _statistics(metadata)]\n",
        "",
        EXPIRY + "test_statistics_of_snapshots_that_stay_stay",
    ),
    Mutant(
        "a file under another spelling is not found",
        "iceberg/manifests/snapshot_files.py",
        "for path in taken_for(location) if path in wanted}",
        "for path in (location,) if path in wanted}",
        "iceberg/test_remover.py::test_a_file_that_is_registered_again_stays",
    ),
    Mutant(
        "a file goes that a snapshot names by a location that is not plain",
        "iceberg/manifests/snapshot_files.py",
        "for path in taken_for(location) if path in wanted}",
        "for path in (normalised(location),) if path in wanted}",
        ("iceberg/test_remover.py::test_a_file_that_is_registered_again_under_a_name_that_means_it_stays"),
    ),
    Mutant(
        "a manifest that was cut off is a proof",
        "iceberg/manifests/snapshot_files.py",
        "if len(manifest.data) < least:",
        "if False:",
        ("iceberg/test_remover.py::test_a_manifest_that_is_shorter_than_its_list_says_proves_nothing"),
    ),
    Mutant(
        "manifests that a snapshot needs go",
        "iceberg/manifests/reachability.py",
        "        yield among(manifests, wanted)\n",
        "",
        REACHED + "test_manifests_and_lists_are_reached_as_files_are",
    ),
    Mutant(
        "manifest lists that a snapshot needs go",
        "iceberg/manifests/reachability.py",
        "named = [snapshot.manifest_list for snapshot in metadata.snapshots]",
        "named = list[str]()",
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
        "going = [path for path in found[Finding.GO] if path not in blocked]",
        "going = [path for path in (*found[Finding.GO], *found[Finding.WAIT]) if path not in blocked]",
        "iceberg/test_remover.py::test_gc_disabled_in_the_grace_keeps_everything",
    ),
    Mutant(
        "files go that nothing may delete",
        "iceberg/remover.py",
        "going = [path for path in found[Finding.GO] if path not in blocked]",
        "going = [path for path in (*found[Finding.GO], *found[Finding.KEEP]) if path not in blocked]",
        "iceberg/test_remover.py::test_files_of_another_table_stay_whoever_names_them",
    ),
    Mutant(
        "a file that could not be deleted counts as gone",
        "iceberg/remover.py",
        'return f"{type(err).__name__}: {err}"',
        "return None",
        "iceberg/test_remover.py::test_a_file_that_cannot_be_deleted_waits_alone",
    ),
    Mutant(
        "a look that took minutes is good enough",
        "iceberg/remover.py",
        "if clock_s() - looked_s < LOOK_IS_GOOD_FOR_S / 2:",
        "if True:",
        "iceberg/test_remover.py::test_a_look_that_takes_long_is_taken_again_and_then_given_up",
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
        "service/jobs/expiries.py",
        "and may_land and is_young",
        "and False and is_young",
        "service/jobs/test_unfinished_expiries.py::test_an_expiry_whose_answer_was_lost_keeps_no_other_waiting_once_the_table_has_gone_on",
    ),
    Mutant(
        "an expiry that landed is settled as failed by a replica that lags",
        "service/jobs/expiries.py",
        "operation.asserted_head_id in loaded.ancestors()[1:]",
        "operation.asserted_head_id not in (None, loaded.head)",
        "service/jobs/test_unfinished_expiries.py::test_an_expiry_that_landed_is_not_settled_as_failed_by_a_replica_that_lags",
    ),
    Mutant(
        "an expiry whose answer was lost keeps the others waiting for a day",
        "service/jobs/expiries.py",
        "and may_land and is_young",
        "and is_young",
        "service/jobs/test_unfinished_expiries.py::test_an_expiry_whose_answer_was_lost_keeps_no_other_waiting_once_the_table_has_gone_on",
    ),
    Mutant(
        "an expiry goes by what was known of a table that must be scanned again",
        "service/jobs/outdated_expiries.py",
        "if not row.is_trusted:",
        "if False:",
        "service/jobs/test_slow_commits.py::test_an_expiry_of_a_table_whose_scan_is_put_off_is_not_sent",
    ),
    Mutant(
        "an expiry that was given up, and goes on, is settled as failed",
        "service/jobs/expiries.py",
        "not has_gone_on or self.maintainer.is_expiring(operation.job_id)",
        "not has_gone_on",
        "service/jobs/test_slow_commits.py::test_an_expiry_that_was_given_up_and_goes_on_afterwards_leaves_no_files",
    ),
    Mutant(
        "of two jobs of one program the newest place counts alone",
        "core/planner/expirable.py",
        "found[number] = others[-1] if others else None",
        "found[number] = None",
        "service/jobs/test_places_of_writers.py::test_two_flink_jobs_of_one_program_each_find_their_place",
    ),
    Mutant(
        "what shows that there are two jobs is forgotten",
        "core/planner/expirable.py",
        "place: place if witness is None else witness",
        "place: place",
        "service/jobs/test_places_of_writers.py::test_two_flink_jobs_of_one_program_each_find_their_place",
    ),
)
