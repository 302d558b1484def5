"""Mistakes in the quarantine of orphans: what is lost, written over, deleted too early, or moved where it must not be."""

from mutants.mutant import Mutant

RULES = "core/test_deletion.py::"
PLACES = "core/test_quarantine.py::"
MOVES = "clients/test_moving.py::"
STORE = "iceberg/test_quarantine.py::"
DAYS = "service/jobs/test_quarantine.py::"
LEDGER = "store/test_quarantine.py::"

MUTANTS = (
    Mutant(
        "a move takes another file in its way for a copy of its own",
        "clients/moving.py",
        "if not takes_over:",
        "if False:",
        MOVES + "test_a_file_of_other_content_is_not_written_over_unless_it_can_only_be_half_a_copy",
    ),
    Mutant(
        "half a copy counts as a whole one",
        "clients/moving.py",
        "if there is not None and target not in whole and not is_same(io, source, target, step):",
        "if False:",
        MOVES + "test_however_often_a_move_is_cut_off_nothing_is_lost",
    ),
    Mutant(
        "files of one size are the same",
        "clients/moving.py",
        "if chunk != second.read(CHUNK_BYTES):",
        "if False:",
        MOVES + "test_a_file_of_other_content_is_not_written_over_unless_it_can_only_be_half_a_copy",
    ),
    Mutant(
        "the original goes though the look at its table is old by then",
        "clients/moving.py",
        "    if not may_end():\n        return None\n",
        "",
        MOVES + "test_the_original_stays_where_it_must_not_go_any_more",
    ),
    Mutant(
        "what is moved on a disk is as old as before",
        "clients/moving.py",
        "os.utime(old)",
        "pass",
        MOVES + "test_what_was_moved_is_young",
    ),
    Mutant(
        "a name that programs read in two ways is moved",
        "clients/moving.py",
        "if not is_plain(one)",
        "if False",
        MOVES + "test_a_name_that_programs_read_in_two_ways_is_not_moved",
    ),
    Mutant(
        "through a link a file leaves its table's location",
        "iceberg/quarantine.py",
        "            _check_links(home, path, target)\n",
        "",
        DAYS + "test_through_a_link_nothing_is_moved_out_of_the_table",
    ),
    Mutant(
        "through a link a file comes back elsewhere",
        "iceberg/quarantine.py",
        "    _check_links(home, place, origin)\n",
        "",
        STORE + "test_through_a_link_nothing_comes_back",
    ),
    Mutant(
        "into a folder of another table orphans are moved",
        "iceberg/quarantine.py",
        "elif (other := held_by(self._targets[path], self.wanted.neighbours, is_found=True)) is not None:",
        "elif (other := None) is not None:",
        STORE + "test_into_a_folder_of_another_table_nothing_is_moved_and_from_there_nothing_goes",
    ),
    Mutant(
        "whoever puts files into the folder has them deleted, whatever they are",
        "iceberg/quarantine.py",
        'is_orphan_by_name(origin.removeprefix(home.rstrip("/") + "/"))',
        "True",
        DAYS + "test_what_others_put_into_the_folder_is_no_file_of_ours",
    ),
    Mutant(
        "what was half moved when the process ended does not come back",
        "iceberg/quarantine.py",
        "put_back(io, home, targets[path])",
        "pass",
        STORE + "test_what_was_moved_when_the_process_ended_and_named_since_is_put_back",
    ),
    Mutant(
        "a quarantine is one though the policy has none",
        "iceberg/quarantine.py",
        "if not wanted.to_quarantine or wanted.home is None:",
        "if wanted.home is None:",
        STORE + "test_by_a_policy_without_a_quarantine_an_orphan_goes_at_once",
    ),
    Mutant(
        "what the table needs where it was goes for good from its quarantine",
        "core/deletion.py",
        "        if mark.cause is Cause.QUARANTINED:\n            return Verdict(Finding.RESTORE",
        "        if False:\n            return Verdict(Finding.RESTORE",
        STORE + "test_what_the_table_names_again_is_put_back",
    ),
    Mutant(
        "what the table names in its quarantine is taken from there",
        "core/deletion.py",
        "if name_of(mark.path) in evidence.moved_names:",
        "if False:",
        STORE + "test_what_the_table_names_in_its_quarantine_stays_there",
    ),
    Mutant(
        "a file in quarantine goes before its time is over",
        "core/deletion.py",
        "if mark.path in evidence.young and mark.cause is Cause.QUARANTINED:",
        "if False:",
        RULES + "test_a_file_in_quarantine_goes_after_its_time_and_comes_back_where_it_is_needed",
    ),
    Mutant(
        "what lies in a quarantine is restored to another table's folder",
        "core/deletion.py",
        "for place in (mark.path, origin))",
        "for place in (mark.path,))",
        RULES + "test_where_another_table_lies_in_a_quarantine_or_where_its_files_were_they_wait",
    ),
    Mutant(
        "a file goes from anywhere in a quarantine",
        "core/quarantine.py",
        "if not place.startswith(top) or not job_id or not _is_of_a_table(below):",
        "if not place.startswith(top):",
        PLACES + "test_what_nothing_of_ours_has_moved_goes_nowhere",
    ),
    Mutant(
        "two searches share one folder",
        "core/quarantine.py",
        '{folder_in(home)}{job_id}/{below}"',
        '{folder_in(home)}job/{below}"',
        PLACES + "test_a_file_that_is_moved_twice_has_two_places",
    ),
    Mutant(
        "a longer time in quarantine counts for nothing that is there already",
        "service/jobs/quarantine.py",
        "self.ledger.not_over(sweep.uuid, places, before_ms) if places else frozenset()",
        "frozenset()",
        DAYS + "test_before_their_time_is_over_none_goes_and_a_longer_time_counts_at_once",
    ),
    Mutant(
        "a ledger that was lost forgets what is in quarantine",
        "service/jobs/quarantine.py",
        "self.ledger.adopt(uuid, operation.job_id, sizes,",
        "self.ledger.adopt(uuid, operation.job_id, {},",
        DAYS
        + "test_a_ledger_that_was_lost_finds_again_what_is_in_quarantine_and_keeps_it_for_the_whole_time",
    ),
    Mutant(
        "what is needed again waits until its time is over",
        "service/jobs/quarantine.py",
        "self.ledger.look_soon(uuid, found.needed_again, now_ms)",
        "pass",
        DAYS + "test_what_is_needed_again_is_put_back_soon_and_told",
    ),
    Mutant(
        "what a person has put back counts as being in quarantine still",
        "service/jobs/quarantine.py",
        "one.since_ms < operation.started_at_ms and one.place not in sizes",
        "False",
        DAYS + "test_what_a_person_has_put_back_is_left_alone_until_it_is_old_again",
    ),
    Mutant(
        "a search gives what it finds in quarantine a new time, each time",
        "store/ledger/quarantine.py",
        '"INSERT OR IGNORE INTO deletions',
        '"INSERT OR REPLACE INTO deletions',
        LEDGER + "test_what_a_search_finds_there_is_taken_over_only_if_nothing_is_known_of_it",
    ),
)
