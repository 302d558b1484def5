"""Mistakes in what the daemon does around all that: expiries, deletions, marks, dead stores, many messages."""

from mutants.mutant import Mutant

EXPIRIES = "service/jobs/expiries.py"
DELETIONS = "service/jobs/deletions.py"
MARKS = "store/ledger/deletions.py"
LAYERS = "service/jobs/test_layers.py::"

MUTANTS = (
    Mutant(
        "of each table all its metadata is kept, however much it is",
        "service/tables/kept_tables.py",
        "if sum(self._large.values()) <= self._others_bytes:",
        "if True:",
        "service/tables/test_kept_tables.py::"
        "test_of_tables_with_much_metadata_so_many_are_kept_as_fit[of others the largest goes first]",
    ),
    Mutant(
        "all that an owner wrote into the properties of a table is read with each of its events",
        "iceberg/values.py",
        "return {name: said[name][:MOST_TEXT] for name in PROPERTIES_OF_USE if name in said}",
        "return dict(said)",
        "authority/test_table_metadata.py::test_of_its_properties_those_are_kept_by_which_a_table_is_maintained",
    ),
    Mutant(
        "a table is measured between the last look and the swap",
        "service/tables/confirm_heads.py",
        "        self.kept.keep(self._catalog.light(loaded))\n",
        "        self.kept.keep(self._catalog.light(loaded))\n        self.kept.measure()\n",
        "service/tables/test_kept_tables.py::test_between_the_last_look_and_the_swap_no_table_is_measured",
    ),
    Mutant(
        "what is kept of tables is measured by nobody",
        "service/tables/confirm_heads.py",
        "            self.kept.measure()\n",
        "",
        "service/tables/test_kept_tables.py::"
        "test_tables_that_are_too_large_to_be_kept_are_followed_and_compacted_all_the_same",
    ),
    Mutant(
        "refs and statistics are kept between two looks",
        "iceberg/catalog.py",
        "model_copy(update=left | {name: [] for name in OF_CONFIRMATIONS})",
        "model_copy(update=left)",
        "service/tables/test_kept_tables.py::"
        "test_what_is_kept_of_a_table_is_measured_without_what_only_a_confirmation_needs",
    ),
    Mutant(
        "work begins that the broker would not let us commit",
        "service/rounds/rounds.py",
        "if self._may_begin and self._is_ruled and self.owned.ask_again():",
        "if self._may_begin and self._is_ruled:",
        "service/jobs/test_table_ownership.py::test_nothing_is_begun_that_could_not_be_committed[count]",
    ),
    # Dead stores
    Mutant(
        "operations left open in dead buckets take the loop's time",
        "service/jobs/unfinished_operations.py",
        "if self.barrier.is_away or self.monotonic_s() >= deadline_s:",
        "if self.barrier.is_away:",
        "service/tables/test_no_answers.py::test_what_was_left_open_in_dead_buckets_costs_a_turn_of_the_loop_one_time_out",
    ),
    Mutant(
        "an operation that cannot be read keeps all others open",
        "service/jobs/unfinished_operations.py",
        "for job_id, name in self.ledger.open_jobs().items()",
        "for job_id, name in ((one.job_id, one.table.name) for one, _ in self.ledger.unfinished())",
        "service/tables/test_one_bad_table.py::test_an_operation_that_cannot_be_read_keeps_no_other_from_being_settled[no JSON]",
    ),
    Mutant(
        "tables in dead buckets that a source names take the loop's time",
        "service/topics/relay.py",
        "if now_s >= deadline_s or not self._may_ask():",
        "if False:",
        "service/topics/test_relay_slow_tables.py::"
        "test_between_two_rounds_stores_that_do_not_answer_cost_one_share_and_keep_no_other_table_waiting",
    ),
    Mutant(
        "tables in dead buckets that a source names cost a time-out in each turn of the loop",
        "service/topics/relay.py",
        "return not self._lost.is_used_up and",
        "return True and",
        "service/topics/test_relay_slow_tables.py::"
        "test_between_two_rounds_stores_that_do_not_answer_cost_one_share_and_keep_no_other_table_waiting",
    ),
    Mutant(
        "a table for which the loop has waited is waited for each time that a source names it",
        "service/topics/relay.py",
        "if self.barrier.is_aside(name)]:",
        "if False]:",
        "service/topics/test_relay_unreadable_tables.py::"
        "test_what_a_round_has_set_aside_is_let_go_and_the_round_finds_it[damaged]",
    ),
    Mutant(
        "a table that hangs is asked for again and again because a source has named it",
        "service/topics/relay.py",
        "if isinstance(err, StoreAway | TableSilent | TooLong):",
        "if False:",
        "service/topics/test_relay_slow_tables.py::"
        "test_a_table_for_which_the_loop_waits_in_vain_is_let_go_at_once_and_a_round_asks_for_it",
    ),
    Mutant(
        "a flood for one table takes the loop's time",
        "service/topics/relay.py",
        "if self.monotonic_s() >= deadline_s:\n                return",
        "if False:\n                return",
        "service/topics/test_relay.py::test_many_snapshots_of_one_table_are_announced_in_turns_and_others_are_not_kept_waiting",
    ),
    Mutant(
        "a mistake of ours at one table keeps what sources name of the others waiting",
        "service/topics/relay.py",
        '                self._try_later(name, f"{type(err).__name__}: {err}\\n{trace}")\n',
        "                raise\n",
        "service/topics/test_relay_unreadable_tables.py::test_a_mistake_of_ours_at_one_table_keeps_no_other_waiting",
    ),
    Mutant(
        "a snapshot whose files are refused keeps what sources name of the others waiting",
        "service/topics/relay.py",
        "            raise Unreadable(str(err)) from err\n",
        "            raise\n",
        "service/topics/test_relay_unreadable_tables.py::test_a_snapshot_whose_files_cannot_be_read_keeps_no_other_table_waiting",
    ),
    Mutant(
        "while enough waits of what sources name, the group takes it for one that has died",
        "service/topics/relay.py",
        "        self._hear(wanted=not is_away and self._has_room())\n",
        "        if not is_away and self._has_room():\n            self._hear(wanted=True)\n",
        "service/topics/test_relay_catalog_away.py::test_the_sources_are_asked_in_each_turn_whatever_waits",
    ),
    Mutant(
        "what sources name is acknowledged before it is announced",
        "service/topics/relay_progress.py",
        "min((*self._open[part], following))",
        "following",
        "service/topics/test_relay.py::test_many_snapshots_of_one_table_are_announced_in_turns_and_others_are_not_kept_waiting",
    ),
    Mutant(
        "tables that cannot be read keep what sources name of the others from being acknowledged",
        "service/topics/relay.py",
        "tries + 1)\n        self._progress.done(place for place, _ in self._waiting[name])\n",
        "tries + 1)\n",
        "service/topics/test_relay_unreadable_tables.py::test_tables_that_cannot_be_read_keep_nothing_from_being_acknowledged",
    ),
    Mutant(
        "tables in dead buckets keep new messages of the sources from being heard",
        "service/topics/relay.py",
        "return len(self._waiting) < MAX_WAITING and all(behind)",
        "return not self._ready() and len(self._waiting) < MAX_WAITING",
        "service/topics/test_relay_unreadable_tables.py::"
        "test_what_sources_name_is_heard_though_tables_that_cannot_be_read_are_tried_all_the_time",
    ),
    Mutant(
        "a namespace that hangs keeps new messages of the sources from being heard",
        "service/topics/relay.py",
        "name in self._put_off or self.barrier.doubt(name) for name",
        "name in self._put_off for name",
        "service/topics/test_relay_slow_tables.py::test_a_namespace_that_hangs_keeps_no_other_table_from_being_heard",
    ),
    Mutant(
        "tables of a namespace that hangs stand before all others that sources name",
        "service/topics/relay.py",
        "key=lambda name: (self.barrier.doubt(name), since[name])",
        "key=lambda name: since[name]",
        "service/topics/test_relay_slow_tables.py::test_a_namespace_that_hangs_keeps_no_other_table_from_being_heard",
    ),
    Mutant(
        "tables that come slowly take the loop's time, each time that a source names them",
        "service/topics/relay.py",
        "(self._lost.came if came else self._lost.add)(now_s - began_s)",
        "came or self._lost.add(now_s - began_s)",
        "service/topics/test_relay_slow_tables.py::test_tables_that_answer_slowly_cost_a_share_of_a_round_too",
    ),
    Mutant(
        "tables that are announced wait for those of their namespace that hang",
        "service/rounds/rounds.py",
        "is_silent = self.barrier.doubt(row.state.table.name) is Doubt.ITSELF",
        "is_silent = self.barrier.doubt(row.state.table.name) is not Doubt.NONE",
        "service/tables/test_hanging_tables.py::"
        "test_nobody_is_asked_for_an_announced_table_because_another_of_its_namespace_hangs",
    ),
    Mutant(
        "tables that come slowly, and are new, make one round of hours",
        "service/rounds/rounds.py",
        "        self._lost.came(self.monotonic_s() - began_s)\n",
        "",
        "service/tables/test_hanging_tables.py::test_new_tables_that_come_slowly_do_not_make_one_round",
    ),
    Mutant(
        "a namespace that begins to hang costs a round for each of its tables before others are asked for",
        "service/tables/failing_tables.py",
        "if isinstance(err, StoreAway | TableSilent):",
        "if isinstance(err, StoreAway):",
        "service/tables/test_hanging_tables.py::"
        "test_a_namespace_that_begins_to_hang_keeps_no_other_waiting_for_all_its_tables",
    ),
    Mutant(
        "a slow table with a second entry has the loop count as stuck, for ever",
        "service/tables/confirm_heads.py",
        "        self.reading_time.tick()  # another table was loaded just before\n",
        "",
        "service/tables/test_slow_loop.py::test_a_slow_table_with_a_second_entry_is_halted_and_the_loop_lives",
    ),
    Mutant(
        "a dead-letter topic that is away stops everything else",
        "kafka/dead_letter_topic.py",
        "(broker or Broker()).beside()",
        "(broker or Broker())",
        "kafka/test_broker.py::"
        "test_dead_letters_are_not_waited_for_where_the_broker_was_silent_or_their_topic_was",
    ),
    Mutant(
        "dead letters are waited for where the broker was silent a moment ago",
        "kafka/broker.py",
        "return max(self._breaker.left_s, above_s)",
        "return self._breaker.left_s",
        "kafka/test_broker.py::"
        "test_dead_letters_are_not_waited_for_where_the_broker_was_silent_or_their_topic_was",
    ),
    # Expiries
    Mutant(
        "an expiry that died counts as done, and its files as unreachable",
        EXPIRIES,
        "if wanted and not set(wanted) & set(loaded.snapshots):",
        "if wanted:",
        "service/jobs/test_failed_expiries.py::test_an_expiry_that_died_before_its_request_marks_nothing",
    ),
    Mutant(
        "an expiry whose end nobody knows counts as done",
        EXPIRIES,
        "if outcome.kind is OutcomeKind.DONE:",
        "if outcome.kind is not OutcomeKind.FAILED:",
        "service/jobs/test_expiry_outcomes.py::test_an_expiry_whose_end_nobody_knows_confirms_no_mark",
    ),
    Mutant(
        "expired files have no grace",
        EXPIRIES,
        "together_ms(operation.table.uuid, self.now_ms(), self._grace_ms(operation))",
        "self.now_ms()",
        "service/jobs/test_deletions.py::test_files_go_after_their_grace_and_not_before",
    ),
    Mutant(
        "an expiry is judged by the table as it was minutes ago",
        EXPIRIES,
        "        self.follower.confirm_loaded(loaded)\n",
        "",
        "service/jobs/test_expiry_outcomes.py::test_an_expiry_is_judged_by_what_the_policy_keeps_at_the_moment_of_its_request",
    ),
    Mutant(
        "an expiry takes what the policy keeps by now",
        "service/jobs/outdated_expiries.py",
        "staying = set(snapshots) - set(going)",
        "staying = set()",
        "service/jobs/test_expiry_outcomes.py::test_an_expiry_is_judged_by_what_the_policy_keeps_at_the_moment_of_its_request",
    ),
    Mutant(
        "files go though a tag was dropped with their snapshot",
        EXPIRIES,
        "        elif lost:\n",
        "        elif False:\n",
        "service/jobs/test_expiry_outcomes.py::test_where_an_expiry_may_have_dropped_a_tag_no_file_goes",
    ),
    Mutant(
        "another table under the name settles an expiry",
        EXPIRIES,
        "        if loaded.table.uuid != operation.table.uuid:\n            return False\n        if wanted",
        "        if wanted",
        "service/jobs/test_expiry_outcomes.py::test_another_table_under_the_name_says_nothing_of_an_expiry",
    ),
    Mutant(
        "an expiry of a table that moved away goes on",
        EXPIRIES,
        "if (moved := self.owned.moved(uuid, tenure)) is not None:",
        "if (moved := None) is not None:",
        "service/topics/test_holds.py::test_no_expiry_for_somebody_elses_table",
    ),
    Mutant(
        "an expiry goes out uncounted",
        EXPIRIES,
        "return self.owned.act()",
        "return None",
        LAYERS + "test_whatever_cannot_be_undone_is_counted_first",
    ),
    # Deletions
    Mutant(
        "nothing holds all deletions back but the clock",
        DELETIONS,
        "return self.ledger.deletions_held() or self.clocks.trouble()",
        "return self.clocks.trouble()",
        LAYERS + "test_each_thing_that_the_daemon_knows_keeps_the_files_of_a_table",
    ),
    Mutant(
        "a clock that is wrong does not hold all deletions back",
        DELETIONS,
        "return self.ledger.deletions_held() or self.clocks.trouble()",
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
            ("the clock", "            clock=self.clocks.trouble(),\n"),
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
        "if loaded.table.uuid != uuid or self.clocks.check(loaded) is not None:",
        "if self.clocks.check(loaded) is not None:",
        LAYERS + "test_files_are_held_against_their_own_table_and_its_stores_clock",
    ),
    Mutant(
        "files go though the store's clock differs",
        DELETIONS,
        "if loaded.table.uuid != uuid or self.clocks.check(loaded) is not None:",
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
        "service/jobs/neighbours.py",
        "for one, is_claim in _others(places, mine, home):",
        "for one, is_claim in ():",
        LAYERS + "test_a_file_in_another_tables_folder_stays_however_that_is_spelled",
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
        "any number of files is asked for in one text",
        MARKS,
        "while some := list(islice(left, ASKED_AT_ONCE)):",
        "while some := list(left):",
        "store/test_marks.py::test_any_number_of_files_is_asked_for_in_texts_that_sqlite_takes",
    ),
    Mutant(
        "a table's home is where it was seen last",
        "store/ledger/places.py",
        "MIN(number)",
        "MAX(number)",
        "store/test_places.py::test_the_home_of_a_table_is_where_it_was_seen_first",
    ),
    Mutant(
        "a table may have any number of places",
        "store/ledger/places.py",
        "stay = bisect_right(chars, MOST_PLACES_CHARS) - 1",
        "stay = len(rows)",
        "store/test_places.py::test_the_places_of_a_table_have_a_bound_and_those_of_before_stay",
    ),
    Mutant(
        "a table goes on where its place is not known for good",
        "service/survey/whereabouts.py",
        "        raise Unreadable(why)",
        "        return",
        "authority/test_table_places.py::"
        "test_a_table_that_lies_elsewhere_at_each_look_is_set_aside_and_costs_the_others_little",
    ),
    Mutant(
        "a folder may be longer than any path",
        "contract/paths.py",
        "if len(place) > MOST_PLACE_CHARS",
        "if len(place) > 10**9",
        "contract/test_paths.py::test_a_folder_that_is_longer_than_any_path_is_named",
    ),
    Mutant(
        "the newest place of a table is its first",
        "store/ledger/places.py",
        "location GLOB ? ORDER BY number",
        "location GLOB ? ORDER BY number DESC",
        "store/test_places.py::test_the_first_place_stays_the_first",
    ),
    Mutant(
        "what came after the first account is told apart by the writers' clocks",
        "store/ledger/accounts.py",
        "was_there = oldest is None or (not is_later and place < oldest)",
        "was_there = oldest is None or at_ms < oldest[1]",
        "service/topics/test_lost_stores.py::test_a_snapshot_by_a_clock_that_is_behind_is_announced_though_the_fold_is_lost",
    ),
    Mutant(
        "a fold is believed beside a ledger that is older",
        "service/topics/ledger_age.py",
        "if not ledger.is_known(uuid, head):",
        "if False:",
        "service/topics/test_lost_stores.py::test_what_was_found_and_not_announced_yet_is_announced_though_an_older_ledger_was_put_back",
    ),
    # Messages by the hundred
    Mutant(
        "verdicts wait for as long as messages do",
        "service/topics/consumer.py",
        " or self.monotonic_s() - self._since_s >= VERDICTS_WITHIN_S",
        "",
        "service/topics/test_batches.py::test_verdicts_are_made_now_and_then_however_many_messages_wait",
    ),
    Mutant(
        "each wait of a table is held against all of its waits",
        "service/topics/holds.py",
        "return self._ledger.hold_under(key)",
        "return {one.key: one for one in self._ledger.holds(key.partition('/')[0])}.get(key)",
        "service/topics/test_told_holds.py::test_the_waits_of_a_table_cost_as_much_as_there_are_of_them_and_an_event_of_it_nothing",
    ),
    Mutant(
        "a thread that is not given ends all commits for ever",
        "iceberg/asking.py",
        "            asker.end.set_exception(NotBegunError(str(err)))\n            asker.happened.put(None)\n",
        "            raise\n",
        "iceberg/test_beside_the_loop.py::test_a_thread_that_the_system_does_not_give_ends_one_piece_of_work_and_no_other",
    ),
)
