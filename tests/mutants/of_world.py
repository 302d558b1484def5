"""Mistakes in what the daemon knows of the world around it: holds, the ledger's age, other tables, events, barriers."""

from mutants.mutant import Mutant

LAST_LOOK = "service/last_look.py"
HOLDS = "service/holds.py"
AGE = "service/ledger_age.py"
SEARCH = "service/survey.py"
LOOKING = "iceberg/looking.py"
BARRIER = "service/barrier.py"
FOLLOW = "service/follow.py"
INTAKE = "service/intake.py"
LAYERS = "service/test_layers.py::"

MUTANTS = (
    # Holds
    Mutant(
        "a hold is told as lifted",
        HOLDS,
        "None if value is None else value.encode()",
        "None",
        "service/test_holds.py::test_what_one_holds_the_other_holds_and_what_one_lifts_is_lifted",
    ),
    Mutant(
        "a hold that was lost on the topic is not told again",
        HOLDS,
        "            if reading.is_whole:\n                self._ledger.tell_again(but=reading.records.keys())\n",
        "",
        "service/test_holds.py::test_a_topic_that_was_lost_is_told_what_the_ledgers_know",
    ),
    Mutant(
        "what could not be told yet is lifted by what stands there",
        HOLDS,
        'if key not in waiting and not key.endswith(f"/{SUFFIX}"):',
        'if not key.endswith(f"/{SUFFIX}"):',
        "service/test_holds.py::test_a_halt_that_could_not_be_told_holds_here_and_is_told_later",
    ),
    Mutant(
        "what only a newer version understands holds nothing back",
        HOLDS,
        "return _of_a_newer_version(key, value, err)",
        "raise",
        "service/test_holds.py::test_what_only_a_newer_version_can_read_holds_its_table_until_it_is_lifted",
    ),
    Mutant(
        "a record under another table's key is believed",
        HOLDS,
        "if hold.key != key:",
        "if False:",
        "service/test_holds.py::test_a_record_under_another_tables_key_holds_nothing",
    ),
    # The ledger's age
    Mutant(
        "a ledger that was put back from a backup is believed",
        AGE,
        "        if acts > known:\n",
        "        if False:\n",
        LAYERS + "test_a_ledger_is_held_against_the_count_on_the_topic",
    ),
    Mutant(
        "a second process on a copy of the ledger is not noticed",
        AGE,
        "if self._counted is not None and acts >= self._counted:",
        "if False:",
        LAYERS + "test_a_ledger_is_held_against_the_count_on_the_topic",
    ),
    Mutant(
        "a forged count is taken over",
        AGE,
        "if acts is None or acts > known + MOST_BETWEEN:",
        "if acts is None:",
        LAYERS + "test_a_ledger_is_held_against_the_count_on_the_topic",
    ),
    # The catalog's tables
    *(
        Mutant(breaks, file, text, change, "service/test_survey.py::" + finder)
        for breaks, file, text, change, finder in (
            (
                "one look makes a table gone",
                SEARCH,
                "elif missed_s is None:",
                "elif False:",
                "test_a_table_counts_as_gone_only_after_two_looks_that_saw_everything",
            ),
            (
                "a catalog that shows nothing makes tables gone",
                SEARCH,
                "is_whole = bool(look.uuids & self._waiting)",
                "is_whole = True",
                "test_a_table_counts_as_gone_only_after_two_looks_that_saw_everything",
            ),
            (
                "a namespace that cannot be listed makes tables gone",
                SEARCH,
                "for name, why in listing.unlisted.items()",
                "for name, why in ()",
                "test_a_table_counts_as_gone_only_after_two_looks_that_saw_everything",
            ),
            (
                "a table that cannot be read makes others gone",
                SEARCH,
                "for name, why in {**unread, **silent}.items()",
                "for name, why in ()",
                "test_a_table_counts_as_gone_only_after_two_looks_that_saw_everything",
            ),
            (
                "the second look is at the list of the first",
                SEARCH,
                "look.listed_s >= missed_s and look.began_s",
                "look.began_s",
                "test_the_second_look_is_at_a_list_that_is_younger_than_the_first",
            ),
            (
                "a table that was found is gone",
                SEARCH,
                "if uuid in look.uuids:",
                "if False:",
                "test_a_table_that_shows_up_again_is_not_gone",
            ),
            (
                "files go though a name was not looked at",
                SEARCH,
                "if any(one not in self._looked_at for one in names):",
                "if False:",
                "test_a_new_name_is_looked_at_alone_and_counts_until_then",
            ),
            (
                "a list without the table itself is the whole",
                SEARCH,
                "if name not in names or not self._is_whole or ",
                "if not self._is_whole or ",
                "test_a_file_may_go_only_if_every_name_was_looked_at_after_it_was_marked",
            ),
            (
                "a namespace without an answer keeps no file waiting",
                SEARCH,
                "or not self._is_whole or self.monotonic_s()",
                "or self.monotonic_s()",
                "test_a_namespace_without_an_answer_keeps_files_waiting",
            ),
            (
                "a look by a clock that was set since counts by its time",
                SEARCH,
                "else min(self._ahead_ms, now)",
                "else self._ahead_ms",
                "test_a_clock_that_is_set_makes_no_look_younger_than_a_mark_that_came_after_it",
            ),
            (
                "a clock that is set during a look is not noticed",
                SEARCH,
                "self._look.ahead_ms = min(self._look.ahead_ms, self._now_ahead_ms())",
                "pass",
                "test_a_clock_that_is_set_forward_and_back_during_a_look_is_noticed",
            ),
            (
                "what was looked at by a doubted clock counts",
                SEARCH,
                "self._looked_at.clear()",
                "pass",
                "test_nothing_is_looked_at_by_a_clock_that_is_doubted_and_what_was_is_forgotten",
            ),
            (
                "a name that is silent by now counts as looked at",
                SEARCH,
                "self._looked_at.pop(name, None)",
                "pass",
                "test_a_name_that_was_known_and_is_silent_now_counts_as_not_looked_at",
            ),
            (
                "one silent name keeps files waiting for ever",
                SEARCH,
                "is_over = now_s >= until_s and now_s",
                "is_over = False and now_s",
                "test_a_name_without_an_answer_keeps_files_waiting_for_a_day_and_is_asked_ever_more_rarely",
            ),
            (
                "all names are looked at without a pause",
                SEARCH,
                "and now_s >= self._next_s",
                "and True",
                "test_all_are_looked_at_again_where_files_wait_for_it_and_not_too_often",
            ),
            (
                "a catalog that does not answer is asked for every name",
                LOOKING,
                "and in_a_row < SILENT_AT_ONCE",
                "and True",
                "test_a_catalog_that_does_not_answer_is_not_asked_for_every_name",
            ),
            (
                "what was not asked for counts as silent, and as looked at after a day",
                LOOKING,
                "        if tries[name]:",
                "        if True:",
                "test_a_look_that_is_stopped_knows_nothing_of_the_rest",
            ),
            (
                "a token that is over counts as a refusal of the table",
                LOOKING,
                "and not isinstance(err.__cause__, _LOCKED_OUT)",
                "",
                "test_a_token_that_is_over_is_no_word_on_a_table",
            ),
            (
                "a table that a replica does not have yet counts as dropped",
                LOOKING,
                "if _is_gone(is_listed, name):",
                "if True:",
                "test_what_is_missing_and_not_listed_any_more_is_gone",
            ),
            (
                "one refusal is enough for ever",
                SEARCH,
                "inf if is_twice else PATIENCE_S if name in silent else TWICE_S",
                "inf if is_twice else PATIENCE_S if name in silent else 0.0",
                "test_an_answer_that_passes_does_not_hide_a_second_entry",
            ),
            (
                "a catalog that finds nothing passes all names over",
                SEARCH,
                "and now_s - self._found_s <= ALIVE_S",
                "",
                "test_what_was_never_asked_for_never_counts_as_looked_at",
            ),
            (
                "an old list counts as the newest",
                SEARCH,
                "or self.monotonic_s() > self._listed_until_s:\n            return None",
                "or False:\n            return None",
                "test_a_list_that_is_old_is_not_the_newest",
            ),
            (
                "a file that was marked after the list goes by it",
                SEARCH,
                "min([self._listed_s, *(self._looked_at[one] for one in names)])",
                "min(self._looked_at[one] for one in names)",
                "test_a_file_that_was_marked_after_the_list_waits_for_another",
            ),
            (
                "any halt settles a second entry",
                SEARCH,
                "if halt is not None and halt.startswith(Reason.TWO_ENTRIES):",
                "if halt is not None:",
                "test_a_table_that_is_halted_for_something_else_keeps_its_second_entry_unseen",
            ),
            (
                "a name that was looked at before its table was known is never held against it",
                "service/deletions.py",
                "if seen_ms is not None and not self.survey.compare_names(name, uuid):",
                "if False:",
                "test_deletion_waits_for_a_name_that_was_this_table_when_it_was_looked_at",
            ),
        )
    ),
    # Damaged manifests
    Mutant(
        "a length below zero leads the decoder out of its bytes",
        "iceberg/manifests/avro.py",
        "        self._expect(n)\n        self._skip(n)",
        "        self._skip(n)",
        "iceberg/manifests/test_avro.py::test_a_length_that_leads_out_of_its_block_is_refused[-20-briefly]",
    ),
    Mutant(
        "entries that end before their block does are believed",
        "iceberg/manifests/avro.py",
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
    # Namespaces without an answer
    Mutant(
        "a namespace without an answer hides all others",
        "iceberg/listing.py",
        "if in_a_row >= SILENT_IN_A_ROW:",
        "if True:",
        "service/test_namespaces.py::test_a_namespace_without_an_answer_hides_no_table_of_others",
    ),
    Mutant(
        "a namespace without an answer is asked in every list",
        "iceberg/listing.py",
        "if breaker.left_s > 0:",
        "if False:",
        "service/test_namespaces.py::test_a_namespace_without_an_answer_hides_no_table_of_others",
    ),
    Mutant(
        "a list that failed is asked for again at once",
        "service/catalog_poller.py",
        "except BaseException:",
        "except ZeroDivisionError:",
        "service/test_namespaces.py::test_a_list_that_fails_is_not_asked_for_again_at_once",
    ),
    # The barrier
    Mutant(
        "a table that refuses us counts as an outage",
        BARRIER,
        "isinstance(err, Unavailable) and not isinstance(err, Unreadable | Refused)",
        "isinstance(err, Unavailable)",
        "service/test_barrier.py::test_a_table_that_refuses_us_is_no_outage",
    ),
    Mutant(
        "a table that fails is tried again in every round",
        BARRIER,
        "FIRST_PAUSE_S * 2 ** min(failures - 1, 20)",
        "FIRST_PAUSE_S",
        "service/test_barrier.py::test_pauses_grow_and_end_with_success",
    ),
    Mutant(
        "a table that fails is not set aside",
        BARRIER,
        "            self.put_aside(key, is_away=False)\n",
        "",
        "service/test_barrier.py::test_pauses_grow_and_end_with_success",
    ),
    # What is announced, and what is believed of it
    Mutant(
        "our own commits are not announced",
        "service/announcer.py",
        "self.events.publish(event)",
        "pass",
        "service/test_path.py::test_our_own_commit_is_announced",
    ),
    Mutant(
        "what an event said is never held against the table",
        FOLLOW,
        "if not self._catalog.is_true(loaded, recorded[0]):",
        "if False:",
        "authority/test_control_topic.py::test_an_event_that_lies_about_a_real_snapshot_is_taken_back_and_costs_no_scan",
    ),
    Mutant(
        "two entries of one table expire each other's files",
        FOLLOW,
        "if name in listed and known in listed:",
        "if False:",
        "authority/test_two_entries.py::test_a_table_with_two_entries_is_halted_and_both_keep_their_rows",
    ),
    Mutant(
        "a table that was not found once is gone",
        FOLLOW,
        "if self._monotonic_s() - since_s < GONE_AFTER_S:",
        "if False:",
        LAYERS + "test_a_table_that_is_not_found_is_gone_only_minutes_later",
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
        "service/test_bad_input.py::test_an_event_under_another_key_is_refused",
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
        LAYERS + "test_an_intent_lasts_no_longer_than_the_daemon_allows",
    ),
    Mutant(
        "messages that could not be saved before a commit are lost",
        LAST_LOOK,
        "            self.events.undo(messages)\n",
        "            pass\n",
        LAYERS + "test_what_stands_against_a_swap_is_seen_by_the_last_look[a_mistake-unavailable]",
    ),
    Mutant(
        "a counter that moved while we were wrong never alarms again",
        "core/state.py",
        "was_right = before.head == head and all(",
        "was_right = all(",
        "core/test_state.py::test_equal_totals_at_another_head_do_not_say_that_we_were_right",
    ),
)
