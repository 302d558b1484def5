"""Mistakes in what is announced and believed, and in what keeps one bad table from the others: barriers, manifests."""

from mutants.mutant import Mutant

LAST_LOOK = "service/jobs/last_look.py"
BARRIER = "service/tables/failing_tables.py"
FOLLOW = "service/tables/confirm_heads.py"
MISSING = "service/tables/missing_tables.py"
OF_REFUSED = "service/tables/test_refused_tables.py::"
INTAKE = "service/topics/events_to_state.py"
LAYERS = "service/jobs/test_layers.py::"

MUTANTS = (
    Mutant(
        "a value that fits into no row ends the daemon",
        "store/database.py",
        "if not isinstance(err, sqlite3.OperationalError):",
        "if isinstance(err, sqlite3.IntegrityError | OverflowError):",
        "service/tables/test_one_bad_table.py::test_a_value_that_fits_into_no_row_is_the_trouble_of_its_table",
    ),
    # Damaged manifests
    Mutant(
        "a length below zero leads the decoder out of its bytes",
        "clients/manifests/avro.py",
        "        self._expect(n)\n        self._skip(n)",
        "        self._skip(n)",
        "iceberg/manifests/test_avro.py::test_a_length_that_leads_out_of_its_block_is_refused[-20-briefly]",
    ),
    Mutant(
        "entries that end before their block does are believed",
        "clients/manifests/avro.py",
        "if decoder.tell() != len(block):",
        "if decoder.tell() > len(block):",
        "iceberg/manifests/test_damaged.py::test_a_block_that_goes_on_behind_its_entries_is_refused",
    ),
    Mutant(
        "columns that end elsewhere than their bytes are believed",
        "iceberg/manifests/columns.py",
        "if len(marks) != fillers or marks.null_count or pc.unique(marks).to_pylist() != [mark]:",
        "if False:",
        "iceberg/manifests/test_damaged.py::test_columns_are_as_many_as_announced",
    ),
    # The barrier
    Mutant(
        "what is found out beside the loop counts as an outage",
        BARRIER,
        "is_away and not isinstance(err, NotYetKnown | StoreAway | TableSilent)",
        "is_away and not isinstance(err, StoreAway | TableSilent)",
        "service/tables/test_failing_tables.py::test_a_table_that_refuses_us_or_is_not_known_yet_is_no_outage",
    ),
    Mutant(
        "a table whose metadata comes slowly is a catalog that is away",
        "iceberg/catalog.py",
        "            if not reading.location:",
        "            if reading.location:",
        "iceberg/test_slow_tables.py::"
        "test_a_table_whose_metadata_comes_too_slowly_is_set_aside_with_its_size_and_rate",
    ),
    Mutant(
        "a catalog that hangs about one table is away",
        "iceberg/catalog_breaker.py",
        "if table is not None and is_time_out(err) and self._is_table_alone(table):",
        "if False:",
        "service/tables/test_hanging_tables.py::"
        "test_tables_that_hang_keep_no_other_from_being_looked_at_after_a_start",
    ),
    Mutant(
        "a table that comes too slowly is waited for again by whatever else asks for it",
        "service/jobs/unfinished_operations.py",
        "                self.barrier.put_aside(one)\n",
        "                pass\n",
        "service/tables/test_slow_loop.py::"
        "test_a_table_that_comes_too_slowly_is_waited_for_once_though_an_operation_of_it_is_open",
    ),
    Mutant(
        "a loop that begins something with a slow table is stuck",
        "service/rounds/rounds.py",
        "        self.health.ticked_at_s = self.monotonic_s()  # what comes next may load the table again\n",
        "",
        "service/tables/test_slow_loop.py::test_a_loop_that_waits_for_slow_tables_is_alive_whatever_it_begins",
    ),
    Mutant(
        "one turn of the loop waits for a slow table in each part of a round",
        "service/loop.py",
        "if self.monotonic_s() - began_s >= budget_s:",
        "if False:",
        "service/tables/test_slow_loop.py::test_events_are_taken_in_between_the_parts_of_a_round_that_took_long",
    ),
    Mutant(
        "tables that hang are a catalog that is away where no other table is asked for",
        "iceberg/unanswered_tables.py",
        "if comes(witness):",
        "if False:",
        "service/tables/test_hanging_tables.py::"
        "test_a_catalog_that_hangs_about_some_tables_is_not_away_where_no_other_is_asked_for",
    ),
    Mutant(
        "a look that goes well ends the alert for an expiry that fails",
        BARRIER,
        "self._over(name)\n        was_outage",
        "self.forget(name)\n        was_outage",
        "service/tables/test_failing_tables.py::test_a_table_fails_until_nothing_of_it_does",
    ),
    Mutant(
        "one answer that says nothing of a table is all that there is to be found of it",
        "service/rounds/rounds.py",
        "self.barrier.is_settled(name)",
        "self.barrier.makes_no_sense(name)",
        "service/topics/test_restored_ledgers.py::"
        "test_a_lost_ledger_is_noticed_though_the_table_with_our_work_is_not_shown_at_first",
    ),
    Mutant(
        "each try of a table that is not shown takes away that it fails",
        "telemetry/table_metrics.py",
        "self._series.forget(what.table.name, self.failing)",
        "self._series.forget(what.table.name)",
        "service/tables/test_refused_tables.py::"
        "test_that_a_table_fails_stands_until_it_does_not_however_often_it_is_asked_for",
    ),
    Mutant(
        "each plan of a table at rest takes away that it fails",
        "telemetry/table_metrics.py",
        "self._series.rest(name, self.failing, self._quarantine.files, self._quarantine.bytes)",
        "self._series.rest(name, self._quarantine.files, self._quarantine.bytes)",
        "telemetry/test_metrics.py::test_that_a_table_fails_stays_while_it_rests_and_goes_with_it",
    ),
    Mutant(
        "the barrier does not know which tables are left out of the policies",
        "service/wiring.py",
        "Barrier(self.listen, self.monotonic_s, self.policies.has_policy)",
        "Barrier(self.listen, self.monotonic_s)",
        "service/tables/test_one_bad_table.py::"
        "test_a_table_that_is_left_out_of_the_policies_is_reported_as_failing_no_more",
    ),
    Mutant(
        "a table that is left out of the policies fails for ever",
        BARRIER,
        "if not (failed.name.startswith(ALL) or self.is_maintained(failed.name)):",
        "if False:",
        "service/tables/test_failing_tables.py::test_a_table_that_is_left_out_of_the_policies_fails_no_more",
    ),
    Mutant(
        "a table that failed since the start fails for ever under its old name",
        "service/tables/moved_tables.py",
        "failing := self.barrier.failing",
        "failing := ()",
        "service/tables/test_refused_tables.py::test_a_table_that_failed_since_the_start_and_is_renamed_fails_no_more",
    ),
    Mutant(
        "after an outage of 500s each table waits for an hour",
        BARRIER,
        "may_be_over = may_be_over or is_away",
        "may_be_over = is_away",
        "service/tables/test_failing_tables.py::"
        "test_an_answer_that_says_nothing_is_over_with_the_outage_and_is_none_by_itself",
    ),
    Mutant(
        "of a table that a server fails at for ever nobody is told",
        "service/tables/confirm_heads.py",
        "except (Refused, NoWord) as err:\n            if self._is_of",
        "except Refused as err:\n            if self._is_of",
        "service/tables/test_not_found.py::"
        "test_a_mistake_in_the_server_or_a_token_that_is_over_is_no_missing_right_and_is_told_after_an_hour",
    ),
    Mutant(
        "a table that refuses us counts as an outage",
        BARRIER,
        "isinstance(err, Unavailable) and not isinstance(err, Unreadable | Refused | NoWord)",
        "isinstance(err, Unavailable)",
        "service/tables/test_failing_tables.py::test_a_table_that_refuses_us_or_is_not_known_yet_is_no_outage",
    ),
    Mutant(
        "a table that fails is tried again in every round",
        BARRIER,
        "FIRST_PAUSE_S * 2 ** min(known.failures, 20)",
        "FIRST_PAUSE_S",
        "service/tables/test_failing_tables.py::test_pauses_grow_and_end_with_success",
    ),
    Mutant(
        "a table that fails is not set aside",
        BARRIER,
        "            self.put_aside(key, is_away=False)\n",
        "",
        "service/tables/test_failing_tables.py::test_pauses_grow_and_end_with_success",
    ),
    # What is announced, and what is believed of it
    Mutant(
        "our own commits are not announced",
        "service/topics/announcer.py",
        "self.events.publish(self._recorded_event(row.state.table, recorded[0]))",
        "pass",
        "service/test_path.py::test_our_own_commit_is_announced",
    ),
    Mutant(
        "a message says that it comes from who committed, whoever announces it",
        "contract/events.py",
        "source = event.announced_by or event.writer",
        "source = event.writer",
        "contract/test_events.py::test_the_source_of_a_message_is_who_announces_and_only_else_who_committed",
    ),
    Mutant(
        "what an event said is never held against the table",
        FOLLOW,
        "for number, is_true in verdicts if not is_true",
        "for number, is_true in verdicts if False",
        "authority/test_control_topic.py::test_an_event_that_lies_about_a_real_snapshot_is_taken_back_and_costs_no_scan",
    ),
    Mutant(
        "two entries of one table expire each other's files",
        FOLLOW,
        "if name in listing.names and known in listing.names:",
        "if False:",
        "authority/test_two_entries.py::test_a_table_with_two_entries_is_halted_and_both_keep_their_rows",
    ),
    Mutant(
        "a copy in a folder of its own is told as a second entry",
        "service/tables/two_names.py",
        "if folder(second.location) == folder(known.location):",
        "if True:",
        "authority/test_two_entries.py::"
        "test_of_two_tables_of_one_uuid_in_different_folders_none_is_changed_or_deleted_from",
    ),
    Mutant(
        "an answer about another table counts hours later as the first of two",
        FOLLOW,
        "            self._two_names.own(name)\n",
        "",
        "service/tables/test_two_names.py::test_answers_about_another_table_that_come_hours_apart_halt_nobody",
    ),
    Mutant(
        "a table is halted as a second entry without another look",
        FOLLOW,
        "if lies.uuid == table.uuid:",
        "if True:",
        "service/tables/test_two_names.py::test_a_table_is_asked_for_once_more_before_it_is_halted_as_a_second_entry",
    ),
    Mutant(
        "a table that was not found once is gone",
        "service/tables/missing_tables.py",
        "if listing is None or now_s - since_s < _GONE_AFTER_S[answer]:",
        "if listing is None:",
        "service/tables/test_not_found.py::test_a_table_that_is_not_found_is_gone_only_minutes_later",
    ),
    Mutant(
        "a ledger that is ahead of the fold after a crash is not noticed",
        INTAKE,
        "if event.sequence_number > row.state.sequence_number:\n                #",
        "if False:\n                #",
        LAYERS + "test_a_ledger_that_was_saved_when_the_fold_was_not_leads_to_a_look",
    ),
    Mutant(
        "an event under another table's key is taken",
        INTAKE,
        "if event is not None and key != event.table_uuid.encode():",
        "if False:",
        "service/topics/test_bad_input.py::test_an_event_under_another_key_is_refused",
    ),
    Mutant(
        "an event that moves the totals is believed",
        INTAKE,
        "return None if applied.drifted else applied",
        "return applied",
        LAYERS + "test_an_event_that_moves_the_totals_leads_to_a_look_and_changes_nothing",
    ),
    Mutant(
        "an intent holds a partition for as long as its writer likes",
        INTAKE,
        "expires_at_ms = min(intent.expires_at_ms, now_ms + self.intent_timeout_ms)",
        "expires_at_ms = intent.expires_at_ms",
        "service/jobs/test_last_look.py::test_an_intent_lasts_no_longer_than_the_daemon_allows",
    ),
    Mutant(
        "messages that could not be saved before a commit are lost",
        LAST_LOOK,
        "            self.events.undo(messages)\n",
        "            pass\n",
        "service/jobs/test_last_look.py::test_what_stands_against_a_swap_is_seen_by_the_last_look[a_mistake-unavailable]",
    ),
    Mutant(
        "a counter that moved while we were wrong never alarms again",
        "core/state.py",
        "was_right = before.head == head and all(",
        "was_right = all(",
        ("core/test_summary_totals.py::test_equal_totals_at_another_head_do_not_say_that_we_were_right"),
    ),
    Mutant(
        "a list never comes to its end where very many namespaces are dead",
        "iceberg/list_tables.py",
        "if breaker.left_s > 0 or lost_s >= SILENCE_S:",
        "if breaker.left_s > 0:",
        "service/tables/test_listing.py::test_however_many_namespaces_are_dead_a_list_comes_to_its_end_and_each_is_asked_in_turn",
    ),
    Mutant(
        "namespaces that were silent are asked before those that answer",
        "iceberg/list_tables.py",
        "silent[one][0].left_s if one in silent",
        "silent[one][0].left_s if False",
        "service/tables/test_listing.py::test_however_many_namespaces_are_dead_a_list_comes_to_its_end_and_each_is_asked_in_turn",
    ),
    Mutant(
        "a table that was never read and is dropped is asked for until the next start",
        MISSING,
        "is_gone = answer is TableMissing or not (newest is None or newest.hides(name))",
        "is_gone = answer is TableMissing",
        OF_REFUSED + "test_a_table_that_was_never_read_and_is_dropped_is_asked_for_no_more",
    ),
    Mutant(
        "a table that is listed and was never shown is told by nobody",
        MISSING,
        "return answer is not TableMissing and newest is not None and name in newest.names",
        "return False",
        OF_REFUSED + "test_a_table_that_is_listed_and_was_never_shown_is_told_after_an_hour",
    ),
    Mutant(
        "a table that another daemon has by now is asked for, and told as failing, by the one before",
        FOLLOW,
        "if self._is_of_others(name) or self._is_gone_by_now(name, err):",
        "if self._is_gone_by_now(name, err):",
        OF_REFUSED + "test_a_table_that_another_daemon_has_by_now_is_its_to_ask_for",
    ),
    Mutant(
        "work of a table that is left out of the policies fails for a day",
        BARRIER,
        " or not self.is_maintained(table):",
        ":",
        "service/tables/test_failing_tables.py::"
        "test_work_of_a_table_that_is_left_out_of_the_policies_fails_no_more_with_the_next_round",
    ),
)
