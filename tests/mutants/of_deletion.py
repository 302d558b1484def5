"""Mistakes in what decides that a file may go: the rules, what daemon and clock say, and how locations are read."""

from mutants.mutant import Mutant

RULES = "core/test_deletion.py::"
BY_PLACE = "core/test_deletion_by_place.py::"
OBSTACLES = "core/test_deletion_obstacles.py::"
CLOCK = "core/test_clock_check.py::"

MUTANTS = (
    # core.deletion.judge, condition by condition
    Mutant(
        "files go though the table says gc.enabled=false",
        "core/deletion.py",
        "if not evidence.gc_enabled:",
        "if False:",
        RULES + "test_each_thing_that_the_table_shows_keeps_a_file",
    ),
    Mutant(
        "files go though their snapshot is back",
        "core/deletion.py",
        "back = set(expired) & set(evidence.snapshot_ids)",
        "back = set()",
        RULES + "test_each_thing_that_the_table_shows_keeps_a_file",
    ),
    Mutant(
        "files go though the history was cut back behind their mark",
        "core/deletion.py",
        "if last is not None and last < least:",
        "if False:",
        RULES + "test_each_thing_that_the_table_shows_keeps_a_file",
    ),
    Mutant(
        "files go by an older version of the table than was seen",
        "core/deletion.py",
        "least = max(evidence.seen_through, 0 if seen is None else seen.sequence_number)",
        "least = 0 if seen is None else seen.sequence_number",
        "service/jobs/test_unfinished_expiries.py::test_a_replica_that_lags_behind_what_was_seen_proves_nothing",
    ),
    Mutant(
        "files go that a snapshot reaches",
        "core/deletion.py",
        "if normalised(mark.path) in evidence.reached:",
        "if False:",
        RULES + "test_each_thing_that_the_table_shows_keeps_a_file",
    ),
    Mutant(
        "files go that a snapshot reaches under another spelling",
        "core/deletion.py",
        "if normalised(mark.path) in evidence.reached:",
        "if mark.path in evidence.reached:",
        RULES + "test_a_file_is_reached_under_any_spelling",
    ),
    Mutant(
        "a name goes that means another file to the store",
        "core/deletion.py",
        "    if not is_plain(mark.path):",
        "    if False:",
        RULES + "test_a_name_that_programs_may_read_in_two_ways_is_not_deleted",
    ),
    Mutant(
        "files are given up because nobody knows yet where the table lies",
        "core/deletion.py",
        "if not neighbours.own:",
        "if False:",
        BY_PLACE + "test_while_nobody_knows_where_a_table_lies_its_files_wait",
    ),
    Mutant(
        "files outside of the table's own folders go",
        "core/deletion.py",
        "    if own is None or origin is None or cluster(mark.path) != folders[own].cluster:",
        "    if False:",
        BY_PLACE + "test_only_the_two_folders_that_iceberg_makes_are_the_tables_own",
    ),
    Mutant(
        "files in another table's folder go",
        "core/deletion.py",
        "    if (other := next(filter(None, held), None)) is not None:",
        "    if False:",
        BY_PLACE + "test_a_file_under_another_known_tables_location_waits",
    ),
    Mutant(
        "two tables at one location delete each other's files",
        "core/deletion.py",
        "len(others) >= len(ours[own].of)",
        "len(others) > len(ours[own].of)",
        BY_PLACE + "test_a_file_under_another_known_tables_location_waits",
    ),
    Mutant(
        "all under a location counts as the table's own",
        "core/deletion.py",
        'return allowed | {f"{home.of}{part}/": home for part in ("data", "metadata")}',
        "return allowed | {home.of: home}",
        BY_PLACE + "test_only_the_two_folders_that_iceberg_makes_are_the_tables_own",
    ),
    Mutant(
        "a table with a slash in its namespace deletes in the folder of another namespace's table",
        "core/deletion.py",
        "all(level and not _DIVIDES.search(level) for level in levels)",
        "all(levels)",
        BY_PLACE + "test_no_text_that_an_owner_chooses_leads_to_a_folder_of_other_levels",
    ),
    Mutant(
        "a location that is spelled in no plain way keeps nothing",
        "service/jobs/neighbours.py",
        "update(map(folder, taken_for(one.location)))",
        "add(folder(one.location))",
        "service/jobs/test_layers.py::test_a_file_in_another_tables_folder_stays_however_that_is_spelled",
    ),
    Mutant(
        "a table that is called as a namespace is deletes in the folders of that namespace's tables",
        "service/jobs/neighbours.py",
        'if below.startswith(f"{name}."):',
        "if False:",
        "authority/test_named_folders.py::test_a_folder_that_is_named_for_a_table_is_entered_from_no_other",
    ),
    # core.deletion.may_go_at_once
    Mutant(
        "what a request has named goes at once",
        "core/deletion.py",
        "return is_of_job(path, job_id) and not was_sent and is_plain(path)",
        "return is_of_job(path, job_id) and is_plain(path)",
        RULES + "test_at_once_goes_only_what_no_request_named_under_a_name_of_the_job",
    ),
    Mutant(
        "at once goes what another job wrote",
        "core/deletion.py",
        "return is_of_job(path, job_id) and not was_sent and is_plain(path)",
        "return not was_sent and is_plain(path)",
        RULES + "test_at_once_goes_only_what_no_request_named_under_a_name_of_the_job",
    ),
    Mutant(
        "at once goes a name that means another file to the store",
        "core/deletion.py",
        "return is_of_job(path, job_id) and not was_sent and is_plain(path)",
        "return is_of_job(path, job_id) and not was_sent",
        RULES + "test_at_once_goes_only_what_no_request_named_under_a_name_of_the_job",
    ),
    Mutant(
        "at once goes what a job wrote whose id begins as this one's",
        "core/deletion.py",
        'for end in "-."',
        'for end in ("",)',
        RULES + "test_at_once_goes_only_what_no_request_named_under_a_name_of_the_job",
    ),
    # core.deletion: the rest
    Mutant(
        "gc.enabled=no is read as yes",
        "contract/properties.py",
        '.lower() == "true"',
        '.lower() != "false"',
        RULES + "test_gc_enabled_is_read_as_java_reads_it",
    ),
    Mutant(
        "a file that must wait is looked at in every round",
        "core/deletion.py",
        "min(FIRST_PAUSE_MS << min(looks, 20), LONGEST_PAUSE_MS)",
        "FIRST_PAUSE_MS",
        RULES + "test_a_file_that_waits_is_looked_at_ever_more_rarely_but_once_a_day",
    ),
    *(
        Mutant(
            f"files go though {against} stands against it",
            "core/deletion_obstacles.py",
            "(standing.ledger, standing.clock, standing.owner, standing.held)",
            left,
            OBSTACLES + "test_each_thing_that_the_daemon_knows_keeps_every_file",
        )
        for against, left in (
            ("the ledger", "(standing.clock, standing.owner, standing.held)"),
            ("the clock", "(standing.ledger, standing.owner, standing.held)"),
            ("another daemon", "(standing.ledger, standing.clock, standing.held)"),
            ("a halt", "(standing.ledger, standing.clock, standing.owner)"),
        )
    ),
    Mutant(
        "files of a table without a policy go",
        "core/deletion_obstacles.py",
        "if not standing.has_policy:",
        "if False:",
        OBSTACLES + "test_a_policy_that_stops_expiry_keeps_what_an_expiry_left_but_not_what_jobs_left",
    ),
    Mutant(
        "expired files go though the policy expires no more",
        "core/deletion_obstacles.py",
        "if cause is Cause.EXPIRED and not standing.may_expire:",
        "if False:",
        OBSTACLES + "test_a_policy_that_stops_expiry_keeps_what_an_expiry_left_but_not_what_jobs_left",
    ),
    # store.ledger.deletions
    Mutant(
        "an expiry that comes to nothing drops the marks of the one before",
        "store/ledger/deletions.py",
        "WHERE NOT {HAS_BEFORE} AND {some}",
        "WHERE {some}",
        "store/test_marks.py::test_an_expiry_that_comes_to_nothing_gives_back_what_it_marked_again",
    ),
    Mutant(
        "one damaged row keeps the marks of all tables from being settled",
        "store/ledger/deletions.py",
        "DELETE FROM deletions WHERE NOT {HAS_BEFORE} AND",
        "DELETE FROM deletions WHERE before IS NULL AND",
        "store/test_marks.py::test_what_cannot_be_read_of_a_file_keeps_no_other_from_being_given_back",
    ),
    Mutant(
        "a file goes by the grace of an expiry before the last one",
        "store/ledger/deletions.py",
        "SET state = 'waiting', due_at_ms = ?, before = NULL",
        "SET state = 'waiting', due_at_ms = MIN(?, COALESCE(json_extract(before, '$[6]'), 1 << 62)), before = NULL",
        "store/test_marks.py::test_an_expiry_that_lands_has_its_own_grace_for_what_it_marked_again",
    ),
    # core.paths
    Mutant(
        "one store under two names is two",
        "contract/paths.py",
        "same = _SAME_SCHEME.get(scheme, scheme)",
        "same = scheme",
        "contract/test_paths.py::test_one_file_has_one_normalised_name",
    ),
    Mutant(
        "file:/x and file:///x are two files",
        "contract/paths.py",
        'return "/" + rest.removeprefix("//localhost/").lstrip("/")',
        "return rest",
        "contract/test_paths.py::test_one_file_has_one_normalised_name",
    ),
    Mutant(
        "a path with .. in it counts as plain",
        "contract/paths.py",
        'all(part not in {"", ".", ".."} for part in parts)',
        'all(part not in {"", "."} for part in parts)',
        RULES + "test_a_name_that_programs_may_read_in_two_ways_is_not_deleted",
    ),
    Mutant(
        "a.parquet#b counts as plain, and a.parquet is deleted",
        "contract/paths.py",
        'for character in "?#\\\\")',
        'for character in "?\\\\")',
        RULES + "test_a_name_that_programs_may_read_in_two_ways_is_not_deleted",
    ),
    Mutant(
        "orders2 lies in the folder orders",
        "contract/paths.py",
        'return normalised(location).rstrip("/") + "/"',
        'return normalised(location).rstrip("/")',
        ("contract/test_paths.py::test_a_folder_holds_what_lies_in_it_at_any_depth_and_nothing_beside_it"),
    ),
    # core.clock_check
    Mutant(
        "a clock that is put back is believed",
        "core/clock_check.py",
        "if abs(jump_ms) < JUMP_MS:",
        "if jump_ms < JUMP_MS:",
        CLOCK + "test_a_jump_is_not_believed_for_an_hour",
    ),
    Mutant(
        "a clock is believed at once after a jump",
        "core/clock_check.py",
        "if self.jumped_at_s is not None and monotonic_s - self.jumped_at_s < CALM_S:",
        "if False:",
        CLOCK + "test_a_jump_is_not_believed_for_an_hour",
    ),
    Mutant(
        "small jumps do not add up",
        "core/clock_check.py",
        "jump_ms = max(jumps, key=abs)",
        "jump_ms = jumps[-1]",
        CLOCK + "test_small_jumps_add_up",
    ),
    Mutant(
        "a clock behind that of the catalog is believed",
        "core/clock_check.py",
        "            if abs(skew_ms) > SKEW_MS:\n",
        "            if skew_ms > SKEW_MS:\n",
        CLOCK + "test_a_clock_that_differs_from_anothers_is_not_believed_until_it_agrees",
    ),
    Mutant(
        "what was compared before a jump still counts",
        "core/clock_check.py",
        "return ClockCheck(((wall_ms, monotonic_s),), monotonic_s, jump_ms)",
        "return ClockCheck(((wall_ms, monotonic_s),), monotonic_s, jump_ms, self.skews)",
        CLOCK + "test_after_a_jump_every_other_clock_is_looked_at_again",
    ),
    Mutant(
        "a cluster with the same folders is the same cluster",
        "core/deletion.py",
        "if own is None or origin is None or cluster(mark.path) != folders[own].cluster:",
        "if own is None or origin is None:",
        "core/test_deletion_by_place.py::test_two_clusters_with_the_same_folders_are_two_places",
    ),
    Mutant(
        "of what the ledger forgets one page is given back each time",
        "store/ledger/ledger.py",
        "self.db.executescript(",
        "self.db.execute(",
        "store/test_pruning.py::test_the_room_of_what_is_forgotten_is_given_back_to_the_disk",
    ),
    Mutant(
        "a search for files that may go loads as many slow tables as there are",
        "service/jobs/deletions.py",
        "if began is not False or self.monotonic_s() >= until_s:",
        "if began is not False:",
        "service/jobs/test_deletions.py::"
        "test_tables_that_come_slowly_and_are_others_by_now_keep_the_loop_for_one_of_them",
    ),
)
