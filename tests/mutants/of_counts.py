"""Mistakes in counting what manifests hold: how much is kept, how often it is read, how long it may take."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "what nobody has confirmed leaves the journal where it is large",
        "store/fold/journal.py",
        "(place >= on_faith and kept_bytes > JOURNAL_BYTES)",
        "kept_bytes > JOURNAL_BYTES",
        "store/test_fold.py::"
        "test_of_wide_commits_a_journal_keeps_fewer_but_all_that_nobody_has_confirmed[5-kept2]",
    ),
    Mutant(
        "wide commits are taken on faith as long as narrow ones",
        "service/topics/events_to_state.py",
        "return believed_bytes > JOURNAL_BYTES",
        "return False",
        "histories/test_found.py::test_of_wide_commits_fewer_are_taken_on_faith",
    ),
    Mutant(
        "a file has as many bytes as its manifest says",
        "iceberg/manifests/live.py",
        "if not 0 <= size_bytes <= MAX_FILE_BYTES:",
        "if False:",
        "iceberg/manifests/test_hostile.py::test_a_size_that_no_file_has_is_not_believed",
    ),
    Mutant(
        "confirming a head takes as long as it takes",
        "iceberg/confirmed_changes.py",
        "snapshot_ids, threads, go_on)",
        "snapshot_ids, threads, lambda: None)",
        "iceberg/test_confirmed_changes.py::test_a_head_is_confirmed_in_as_much_time_as_there_is",
    ),
    Mutant(
        "all files of a partition are in memory, however many",
        "iceberg/manifests/live.py",
        "if len(found) > MOST_LIVE:",
        "if False:",
        "iceberg/manifests/test_hostile.py::test_a_partition_of_more_files_than_fit_in_memory_is_not_compacted[3]",
    ),
    Mutant(
        "a snapshot may name a million manifests that it added",
        "iceberg/values.py",
        "if len(added) > MOST_ADDED:",
        "if False:",
        "iceberg/manifests/test_hostile.py::"
        "test_a_snapshot_that_adds_more_manifests_than_a_commit_makes_is_not_read",
    ),
    Mutant(
        "a type in a manifest's schema takes as much memory as it says",
        "iceberg/manifests/columns.py",
        "if not 0 <= size <= MOST_FILLER_BYTES:",
        "if not 0 <= size:",
        "iceberg/manifests/test_hostile.py::test_a_type_that_is_as_large_as_the_memory_is_not_read_in_columns",
    ),
    Mutant(
        "files are held as often as a list names their manifest",
        "iceberg/manifests/live.py",
        "if times[path] > MOST_TIMES:",
        "if False:",
        "iceberg/manifests/test_hostile.py::test_a_manifest_that_a_list_names_again_and_again_is_not_held_as_often",
    ),
    Mutant(
        "a location of a megabyte is held wherever a file is named",
        "iceberg/manifests/live.py",
        "if max(map(len, texts)) > MAX_PATH_CHARS or",
        "if False or",
        "iceberg/manifests/test_hostile.py::test_a_location_that_no_store_takes_is_not_held",
    ),
    Mutant(
        "what a schema of a megabyte means is kept for ever",
        "clients/manifests/reading.py",
        "return understand(avro.schema) if length <= KEPT_CHARS else understand.__wrapped__(avro.schema)",
        "return understand(avro.schema)",
        "iceberg/manifests/test_damaged.py::test_what_a_schema_means_is_kept_where_it_is_short",
    ),
    Mutant(
        "a schema of a million fields is resolved",
        "clients/manifests/reading.py",
        "if length > MAX_SCHEMA_CHARS:",
        "if False:",
        "iceberg/manifests/test_damaged.py::test_a_schema_that_no_table_needs_is_not_resolved",
    ),
    Mutant(
        "a partition value of a megabyte is kept wherever a key is",
        "iceberg/manifests/partition_values.py",
        "if len(key) > MAX_KEY_CHARS:",
        "if False:",
        "authority/test_table_names_and_values.py::test_a_partition_value_of_a_megabyte_sets_its_table_aside_and_no_other",
    ),
    Mutant(
        "partition values that are packed well fill the memory",
        "iceberg/manifests/counts.py",
        "if self._chars > MAX_KEYS_CHARS:",
        "if False:",
        "iceberg/manifests/test_counts.py::test_all_partition_values_together_have_a_limit",
    ),
    Mutant(
        "a manifest that a list names twice counts once",
        "iceberg/manifests/counts.py",
        "self._put(self._key(spec_id, field_ids, one.values), one, times)",
        "self._put(self._key(spec_id, field_ids, one.values), one, 1)",
        "iceberg/manifests/test_counts.py::test_a_manifest_that_is_listed_a_thousand_times_is_read_once_and_counts_each_time",
    ),
    Mutant(
        "a table that takes too long to count is counted to its end",
        "service/tables/reading_time.py",
        "if now_s >= until_s:",
        "if False:",
        "authority/test_tables_that_take_long.py::test_a_table_that_takes_too_long_to_count_is_set_aside_and_the_loop_counts_as_alive",
    ),
    Mutant(
        "a table that takes too long to count is counted again as soon as it has failed",
        "service/tables/reading_time.py",
        "if now_s - began_s > CHEAP_S:",
        "if False:",
        "authority/test_tables_that_take_long.py::test_a_table_that_takes_too_long_to_count_is_set_aside_and_the_loop_counts_as_alive",
    ),
    Mutant(
        "commits that take long to read are read as soon as they come",
        "service/tables/confirm_heads.py",
        "if row.state.head != loaded.head and self._is_put_off(Work.CATCHING_UP, uuid):",
        "if False:",
        "authority/test_tables_that_take_long.py::test_commits_that_take_long_to_read_get_a_tenth_of_the_time_and_are_all_seen",
    ),
    Mutant(
        "a loop that counts a large table is taken for a stuck one",
        "service/tables/reading_time.py",
        "self.health.ticked_at_s = now_s",
        "pass",
        "service/tables/test_reading_time.py::test_a_loop_that_reads_counts_as_alive_as_long_as_it_gets_on",
    ),
)
