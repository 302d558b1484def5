"""Mistakes in what the daemon does around all that: compactions, expiries, deletions, marks."""

from mutants.mutant import Mutant

COMPACTIONS = "service/compactions.py"
EXPIRIES = "service/expiries.py"
DELETIONS = "service/deletions.py"
MARKS = "store/ledger/deletions.py"
LAYERS = "service/test_layers.py::"

MUTANTS = (
    # Compactions
    Mutant(
        "an end that nobody knows is cleaned up as a failure",
        COMPACTIONS,
        "elif outcome.kind is OutcomeKind.FAILED:",
        "else:",
        "service/test_deletions.py::test_files_of_an_unknown_commit_are_not_cleaned_up",
    ),
    Mutant(
        "after a mismatch the table goes on",
        COMPACTIONS,
        "if refusal.reason is Reason.MISMATCH:",
        "if False:",
        "service/test_deletions.py::test_a_mismatch_halts_the_table",
    ),
    Mutant(
        "a job is committed though the topic cannot be read to its end",
        COMPACTIONS,
        "        if messages is None:\n",
        "        if False:\n",
        "service/test_path.py::test_nothing_is_rewritten_while_the_topic_cannot_be_read_to_its_end",
    ),
    Mutant(
        "a job is committed though what is held back cannot be read",
        COMPACTIONS,
        "if not self.holds.refresh(DRAIN_TIMEOUT_S):",
        "if False:",
        LAYERS + "test_what_stands_against_a_swap_is_seen_by_the_last_look[holds_unread-topic]",
    ),
    Mutant(
        "a job is committed to a table that was halted meanwhile",
        COMPACTIONS,
        "stopped = self.holds.stops(job.table.uuid)",
        "stopped = None",
        "service/test_holds.py::test_what_happens_while_a_job_runs_is_seen_by_the_last_look[halt]",
    ),
    Mutant(
        "a job is committed to a hot partition",
        COMPACTIONS,
        "return None if hot is None else Refusal(Reason.HOT, hot)",
        "return None",
        LAYERS + "test_what_stands_against_a_swap_is_seen_by_the_last_look[an_intent-hot]",
    ),
    Mutant(
        "a job is committed though the policy says no by now",
        COMPACTIONS,
        "if not resolved.policy.compact.enabled:",
        "if False:",
        "service/test_setbacks.py::test_a_compaction_is_not_committed_after_the_policy_said_no",
    ),
    Mutant(
        "a job is committed while the clock is wrong",
        COMPACTIONS,
        "if (doubt := self.deletions.clock_trouble()) is not None:",
        "if (doubt := None) is not None:",
        LAYERS + "test_what_stands_against_a_swap_is_seen_by_the_last_look[a_wrong_clock-clock]",
    ),
    Mutant(
        "a job is committed by a daemon that the group has put out",
        COMPACTIONS,
        "if (moved := why_moved(self.events, uuid, self._tenures.get(job.job_id))) is not None:",
        "if (moved := None) is not None:",
        "service/test_holds.py::test_what_happens_while_a_job_runs_is_seen_by_the_last_look[stranger]",
    ),
    Mutant(
        "a job goes on though another daemon had its table meanwhile",
        "service/ownership.py",
        "return tenure is not None and events.tenure(uuid) == tenure",
        "return events.tenure(uuid) is not None",
        "service/test_holds.py::test_what_happens_while_a_job_runs_is_seen_by_the_last_look[came-back]",
    ),
    Mutant(
        "the broker is not asked whether we are still in the group",
        "service/ownership.py",
        "stranger = events.check_in()",
        "stranger = None",
        "service/test_holds.py::test_what_happens_while_a_job_runs_is_seen_by_the_last_look[stranger]",
    ),
    Mutant(
        "a request goes out that the ledger does not know of",
        COMPACTIONS,
        "operation = replace(self._running[job.job_id][0], asserted_head_id=loaded.head)",
        "operation = self._running[job.job_id][0]",
        "service/test_deletions.py::test_a_lost_answer_and_then_not_found_deletes_nothing",
    ),
    Mutant(
        "a request for a swap goes out uncounted",
        COMPACTIONS,
        "self.holds.act()",
        "pass",
        "service/test_deletions.py::test_an_act_is_counted_before_the_request_goes_out",
    ),
    Mutant(
        "an event on one table cancels the jobs of another",
        COMPACTIONS,
        "if operation.job_id != but and operation.table.uuid == one.uuid and hit:",
        "if operation.job_id != but and hit:",
        LAYERS + "test_a_job_is_cancelled_by_what_touches_its_table_and_by_nothing_else",
    ),
    # Holds
    Mutant(
        "a record on the topic with halts that cannot be kept ends the daemon",
        "service/holds.py",
        "self._take_or_reject(key, value)",
        "self._take(key, value)",
        "service/test_holds.py::test_half_a_surrogate_pair_is_one_rejected_record_and_every_other_counts",
    ),
    Mutant(
        "a hold may have a number with which nobody can count",
        "service/holds.py",
        "hold = _within_bounds(from_json(Hold, value.decode()))",
        "hold = from_json(Hold, value.decode())",
        "service/test_holds.py::test_a_number_beyond_all_bounds_holds_its_table_and_makes_nothing_fail",
    ),
    Mutant(
        "a mistake of ours in a round ends the daemon",
        "service/barrier.py",
        "            self._failed(name, what, name, err)\n            return False\n",
        "            raise\n",
        "service/test_barrier.py::test_a_mistake_of_ours_in_any_part_of_a_turn_ends_no_daemon_and_is_over_with_it",
    ),
    Mutant(
        "work begins though what is held back was not read",
        "service/rounds.py",
        "        self._may_begin = False\n",
        "        self._may_begin = True\n",
        "service/test_barrier.py::test_nothing_begins_while_our_own_mistake_keeps_us_from_reading_what_is_held_back",
    ),
    # Policies
    Mutant(
        "a table whose own policy file is broken falls to a general one",
        "core/policy/rulebook.py",
        "if any(matches(pattern, table) for pattern in self.unruled):",
        "if False:",
        "service/test_policy_folder.py::test_a_file_that_never_was_good_leaves_its_tables_alone_at_every_start",
    ),
    Mutant(
        "a policy file of which nothing can be read leaves no table alone",
        "core/policy/rulebook.py",
        "return self.has_unknown and not any(",
        "return False and not any(",
        "service/test_policy_folder.py::test_a_file_that_never_was_good_leaves_its_tables_alone_at_every_start",
    ),
    Mutant(
        "the policy of an earlier version is forgotten, and its tables with it",
        "service/policy_folder.py",
        "dict(sorted((self._lost | {name: held.text for name, held in self._held.items()}).items()))",
        "dict(sorted({name: held.text for name, held in self._held.items()}.items()))",
        "service/test_policy_folder.py::"
        "test_what_another_version_understood_leaves_its_tables_alone_at_every_start_and_holds_after_a_downgrade",
    ),
    Mutant(
        "work begins under a folder that is still being filled",
        "service/policy_folder.py",
        "return bool(known) and self._calm < 2 and not self._is_as_known(looks, known)",
        "return False",
        "service/test_policy_reload.py::test_nothing_begins_after_a_restart_before_the_folder_has_settled",
    ),
    Mutant(
        "work begins under policies of before a restart though the folder is another by now",
        "service/rounds.py",
        "if self._may_begin and self._is_ruled:",
        "if self._may_begin:",
        "service/test_policy_reload.py::test_a_policy_that_was_changed_while_the_daemon_was_down_is_waited_for",
    ),
    # Dead stores
    Mutant(
        "operations left open in dead buckets take the loop's time",
        "service/settling.py",
        "if self.barrier.is_away or self.monotonic_s() >= deadline_s:",
        "if self.barrier.is_away:",
        "service/test_barrier.py::test_what_was_left_open_in_dead_buckets_costs_a_turn_of_the_loop_one_time_out",
    ),
    Mutant(
        "tables in dead buckets that no policy matches take the loop's time",
        "service/survey.py",
        "if self.monotonic_s() >= deadline_s:",
        "if False:",
        "service/test_barrier.py::"
        "test_tables_in_dead_buckets_that_no_policy_matches_cost_a_turn_of_the_loop_one_time_out",
    ),
    Mutant(
        "tables in dead buckets that a source names take the loop's time",
        "service/relay.py",
        "if self.monotonic_s() >= deadline_s:",
        "if False:",
        "service/test_relay.py::"
        "test_stores_that_do_not_answer_cost_a_turn_one_time_out_and_keep_no_other_table_waiting",
    ),
    Mutant(
        "a mistake of ours at one table keeps what sources name of the others waiting",
        "service/relay.py",
        '                self._try_later(name, f"{type(err).__name__}: {err}\\n{trace}")\n',
        "                raise\n",
        "service/test_relay.py::test_a_mistake_of_ours_at_one_table_keeps_no_other_waiting",
    ),
    # Expiries
    Mutant(
        "an expiry that died counts as done, and its files as unreachable",
        EXPIRIES,
        "if wanted and not set(wanted) & set(loaded.snapshots):",
        "if wanted:",
        "service/test_deletions.py::test_an_expiry_that_died_before_its_request_marks_nothing",
    ),
    Mutant(
        "an expiry whose end nobody knows counts as done",
        EXPIRIES,
        "if outcome.kind is OutcomeKind.DONE:",
        "if outcome.kind is not OutcomeKind.FAILED:",
        LAYERS + "test_an_expiry_whose_end_nobody_knows_confirms_no_mark",
    ),
    Mutant(
        "expired files have no grace",
        EXPIRIES,
        "together_ms(operation.table.uuid, self.now_ms(), self._grace_ms(operation))",
        "self.now_ms()",
        "service/test_deletions.py::test_files_go_after_their_grace_and_not_before",
    ),
    Mutant(
        "an expiry is judged by the table as it was minutes ago",
        EXPIRIES,
        "            self.follower.confirm_loaded(loaded)\n",
        "",
        LAYERS + "test_an_expiry_is_judged_by_what_the_policy_keeps_at_the_moment_of_its_request",
    ),
    Mutant(
        "an expiry takes what the policy keeps by now",
        EXPIRIES,
        "staying = set(reading.snapshots) - set(going)",
        "staying = set()",
        LAYERS + "test_an_expiry_is_judged_by_what_the_policy_keeps_at_the_moment_of_its_request",
    ),
    Mutant(
        "files go though a tag was dropped with their snapshot",
        EXPIRIES,
        "        elif lost:\n",
        "        elif False:\n",
        LAYERS + "test_where_an_expiry_may_have_dropped_a_tag_no_file_goes",
    ),
    Mutant(
        "another table under the name settles an expiry",
        EXPIRIES,
        "        if loaded.table.uuid != operation.table.uuid:\n            return False\n        if wanted",
        "        if wanted",
        LAYERS + "test_another_table_under_the_name_says_nothing_of_an_expiry",
    ),
    Mutant(
        "an expiry of a table that moved away goes on",
        EXPIRIES,
        "if (moved := why_moved(self.events, uuid, tenure)) is not None:",
        "if (moved := None) is not None:",
        "service/test_holds.py::test_no_expiry_for_somebody_elses_table",
    ),
    Mutant(
        "an expiry goes out uncounted",
        EXPIRIES,
        "self.holds.act()",
        "pass",
        LAYERS + "test_whatever_cannot_be_undone_is_counted_first",
    ),
    # Deletions
    Mutant(
        "nothing holds all deletions back but the clock",
        DELETIONS,
        "return self.ledger.deletions_held() or self.clock_trouble()",
        "return self.clock_trouble()",
        LAYERS + "test_each_thing_that_the_daemon_knows_keeps_the_files_of_a_table",
    ),
    Mutant(
        "a clock that is wrong does not hold all deletions back",
        DELETIONS,
        "return self.ledger.deletions_held() or self.clock_trouble()",
        "return self.ledger.deletions_held()",
        LAYERS + "test_each_thing_that_the_daemon_knows_keeps_the_files_of_a_table",
    ),
    *(
        Mutant(
            f"whether files may go is judged without {what}",
            DELETIONS,
            text,
            "",
            LAYERS + "test_each_thing_that_the_daemon_knows_keeps_the_files_of_a_table",
        )
        for what, text in (
            ("the ledger's age", "            ledger=self.ledger.deletions_held(),\n"),
            ("the clock", "            clock=self.clock_trouble(),\n"),
            (
                "its owner",
                '            owner=None if self.events.owns(uuid) else "another daemon maintains the table",\n',
            ),
            ("halts and pauses", "            held=None if stopped is None else str(stopped),\n"),
        )
    ),
    Mutant(
        "whether files may go is judged without whether the policy expires",
        DELETIONS,
        "            may_expire=resolved is not None and resolved.policy.expire.enabled,\n",
        "",
        LAYERS + "test_a_policy_that_expires_no_more_keeps_what_expiries_left",
    ),
    Mutant(
        "whether a request was sent is not asked before files go at once",
        DELETIONS,
        "if may_go_at_once(path, job.job_id, was_sent=was_sent)]",
        "if may_go_at_once(path, job.job_id, was_sent=False)]",
        LAYERS + "test_what_a_request_may_have_named_waits_for_its_grace",
    ),
    Mutant(
        "what a failed job wrote has no grace",
        DELETIONS,
        "due_at_ms=now_ms + LEFTOVER_GRACE_MS",
        "due_at_ms=now_ms",
        LAYERS + "test_what_a_request_may_have_named_waits_for_its_grace",
    ),
    Mutant(
        "leftovers are looked for in another table of that name",
        DELETIONS,
        "if loaded is None or loaded.table.uuid != job.table.uuid:",
        "if loaded is None:",
        LAYERS + "test_a_job_leaves_nothing_to_delete_in_another_table_of_its_name",
    ),
    Mutant(
        "marked files are held against another table of that name",
        DELETIONS,
        "if loaded.table.uuid != uuid or self.check_clock(loaded) is not None:",
        "if self.check_clock(loaded) is not None:",
        LAYERS + "test_files_are_held_against_their_own_table_and_its_stores_clock",
    ),
    Mutant(
        "files go though the store's clock differs",
        DELETIONS,
        "if loaded.table.uuid != uuid or self.check_clock(loaded) is not None:",
        "if loaded.table.uuid != uuid:",
        LAYERS + "test_files_are_held_against_their_own_table_and_its_stores_clock",
    ),
    Mutant(
        "a daemon that the group has put out deletes",
        DELETIONS,
        "if not waiting or self.events.check_in() is not None:",
        "if not waiting:",
        LAYERS + "test_files_are_held_against_their_own_table_and_its_stores_clock[out of the group]",
    ),
    Mutant(
        "no other table holds files back",
        DELETIONS,
        "for one in _others(places, mine, home)",
        "for one in ()",
        LAYERS + "test_a_file_in_another_tables_folder_stays",
    ),
    Mutant(
        "deleting goes on after a table moved away or was halted",
        DELETIONS,
        "                self.maintainer.stop_sweep(uuid)\n        swept_now",
        "                pass\n        swept_now",
        LAYERS + "test_deleting_stops_when_the_table_is_held_or_moves_away",
    ),
    Mutant(
        "a sweep goes out uncounted",
        DELETIONS,
        "self.holds.act()",
        "pass",
        LAYERS + "test_whatever_cannot_be_undone_is_counted_first",
    ),
    # Marks in the ledger
    Mutant(
        "files go before they are due",
        MARKS,
        '"AND due_at_ms <= ? AND cause IN',
        '"AND due_at_ms <= ? + 9e12 AND cause IN',
        "store/test_pruning.py::test_marks_are_confirmed_and_dropped_a_slice_at_a_time",
    ),
    Mutant(
        "files of an expiry that is not confirmed go",
        MARKS,
        "looks FROM deletions WHERE state = 'waiting' AND uuid = ? \"",
        "looks FROM deletions WHERE state <> 'deleted' AND uuid = ? \"",
        "store/test_pruning.py::test_only_what_is_confirmed_is_due",
    ),
    Mutant(
        "files of a cause that is held back go",
        MARKS,
        "AND cause IN (SELECT value FROM json_each(?))",
        "AND ? <> ''",
        "store/test_pruning.py::test_only_what_is_confirmed_is_due",
    ),
    Mutant(
        "the newest place of a table is its first",
        MARKS,
        "FROM places ORDER BY number",
        "FROM places ORDER BY number DESC",
        "store/test_places.py::test_the_first_place_stays_the_first",
    ),
)
