"""Mistakes in what holds a table back: halts and pauses, on this daemon and on the topic, and the ledger's age."""

from mutants.mutant import Mutant

LAYERS = "service/jobs/test_layers.py::"
HOLDS = "service/topics/holds.py"
AGE = "service/topics/ledger_age.py"

MUTANTS = (
    Mutant(
        "a damaged row that holds deletions back stops all tables",
        "store/ledger/ledger.py",
        '        except StoreError as err:\n            return f"why it was held back cannot be read: {err}"\n',
        "        except ZeroDivisionError:\n            return None\n",
        "service/topics/test_damaged_holds.py::"
        "test_a_damaged_row_that_holds_deletions_back_stops_nothing_else_and_can_be_lifted[True-no JSON]",
    ),
    Mutant(
        "a hold whose row is damaged stays for ever, whatever the topic says of it",
        "service/topics/holds.py",
        "known = self._known(key)",
        "known = self._ledger.hold_under(key)",
        "service/topics/test_damaged_holds.py::test_a_damaged_hold_is_mended_from_the_topic[no JSON-it is lifted]",
    ),
    # Holds
    Mutant(
        "a wait that is no JSON ends the daemon",
        "store/ledger/holds.py",
        "CASE WHEN json_valid(value) THEN ",
        "CASE WHEN TRUE THEN ",
        "store/test_holds.py::test_a_wait_that_cannot_be_read_keeps_no_other_from_being_lifted[no JSON]",
    ),
    Mutant(
        "a record on the topic with halts that cannot be kept ends the daemon",
        "service/topics/holds.py",
        "self._take_or_reject(key, value)",
        "self._take(key, value)",
        "service/topics/test_holds_of_others.py::test_half_a_surrogate_pair_is_one_rejected_record_and_every_other_counts",
    ),
    Mutant(
        "a hold may have a number with which nobody can count",
        "service/topics/holds.py",
        "hold = _within_bounds(from_json(Hold, value.decode()))",
        "hold = from_json(Hold, value.decode())",
        "service/topics/test_holds_of_others.py::test_a_number_beyond_all_bounds_holds_its_table_and_makes_nothing_fail",
    ),
    Mutant(
        "a mistake of ours in a round ends the daemon",
        "service/tables/failing_tables.py",
        "            self._failed(name, what, name, err)\n            return False\n",
        "            raise\n",
        "service/test_own_mistakes.py::test_a_mistake_of_ours_in_any_part_of_a_turn_ends_no_daemon_and_is_over_with_it",
    ),
    Mutant(
        "work begins though what is held back was not read",
        "service/rounds/rounds.py",
        "        self._may_begin = False\n",
        "        self._may_begin = True\n",
        "service/test_own_mistakes.py::test_nothing_begins_while_our_own_mistake_keeps_us_from_reading_what_is_held_back",
    ),
    Mutant(
        "a hold on one partition has its whole table decided again",
        "service/wiring.py",
        "self.fold.touch(hold.uuid, None if hold.partition is None else [hold.partition])",
        "self.fold.touch(hold.uuid, None)",
        "service/topics/test_holds.py::test_what_is_held_of_one_partition_has_no_other_decided_again",
    ),
    Mutant(
        "a hold is told as lifted",
        HOLDS,
        "self._topic.write(key, value)",
        "self._topic.write(key, None)",
        "service/topics/test_holds_of_others.py::test_what_one_holds_the_other_holds_and_what_one_lifts_is_lifted",
    ),
    Mutant(
        "a hold that was lost on the topic is not told again",
        HOLDS,
        "            if reading.is_whole:\n                self._ledger.tell_again(but=reading.records.keys())\n",
        "",
        "service/topics/test_holds_of_others.py::test_a_topic_that_was_lost_is_told_what_the_ledgers_know",
    ),
    Mutant(
        "what could not be told yet is lifted by what stands there",
        HOLDS,
        'if key not in waiting and not key.endswith(f"/{SUFFIX}"):',
        'if not key.endswith(f"/{SUFFIX}"):',
        "service/topics/test_holds_of_others.py::test_a_halt_that_could_not_be_told_holds_here_and_is_told_later",
    ),
    Mutant(
        "what only a newer version understands holds nothing back",
        HOLDS,
        "return _of_a_newer_version(key, value, err)",
        "raise",
        "service/topics/test_holds_of_others.py::test_what_only_a_newer_version_can_read_holds_its_table_until_it_is_lifted",
    ),
    Mutant(
        "a record under another table's key is believed",
        HOLDS,
        "if hold.key != key:",
        "if False:",
        "service/topics/test_holds_of_others.py::test_a_record_under_another_tables_key_holds_nothing",
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
    Mutant(
        "a name that is no text any more is no damage",
        "store/database.py",
        "is_said = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or str(error).startswith(_NO_UTF_8)",
        "is_said = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)",
        "store/test_damage.py::test_a_fold_with_a_name_that_is_no_text_is_made_again_at_the_start_after",
    ),
    Mutant(
        "a thorough look reads no texts",
        "store/database.py",
        "        _read_texts(connection, path, values)\n",
        "        pass\n",
        "store/test_damage.py::test_a_ledger_with_a_key_that_is_no_text_waits_for_a_person_who_is_told_the_row[places-location]",
    ),
    Mutant(
        "a journal whose text is none ends the daemon",
        "store/fold/journal.py",
        "CAST(prior AS BLOB)",
        "prior",
        "service/tables/test_damaged_rows.py::test_a_row_that_cannot_be_read_costs_its_table_a_scan_and_no_other_anything[journal prior is no text]",
    ),
)
