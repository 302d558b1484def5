"""Mistakes in counting what manifests hold: how much is kept, how often it is read, how long it may take."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "what a schema of a megabyte means is kept for ever",
        "iceberg/manifests/reading.py",
        "return understand(avro.schema) if length <= KEPT_CHARS else understand.__wrapped__(avro.schema)",
        "return understand(avro.schema)",
        "iceberg/manifests/test_damaged.py::test_what_a_schema_means_is_kept_where_it_is_short",
    ),
    Mutant(
        "a schema of a million fields is resolved",
        "iceberg/manifests/reading.py",
        "if length > MAX_SCHEMA_CHARS:",
        "if False:",
        "iceberg/manifests/test_damaged.py::test_a_schema_that_no_table_needs_is_not_resolved",
    ),
    Mutant(
        "a partition value of a megabyte is kept wherever a key is",
        "iceberg/manifests/live.py",
        "if len(key) > MAX_KEY_CHARS:",
        "if False:",
        "authority/test_table_owner.py::test_a_partition_value_of_a_megabyte_sets_its_table_aside_and_no_other",
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
        "self._put(self._key(spec_id, fields, one.values), one, times)",
        "self._put(self._key(spec_id, fields, one.values), one, 1)",
        "iceberg/manifests/test_counts.py::test_a_manifest_that_is_listed_a_thousand_times_is_read_once_and_counts_each_time",
    ),
    Mutant(
        "a table that takes too long to count is counted to its end",
        "service/reading_time.py",
        "if now_s >= until_s:",
        "if False:",
        "authority/test_table_owner.py::test_a_table_that_takes_too_long_to_count_is_set_aside_and_the_loop_counts_as_alive",
    ),
    Mutant(
        "a table that takes too long to count is counted again as soon as it has failed",
        "service/reading_time.py",
        "if now_s - began_s > CHEAP_S:",
        "if False:",
        "authority/test_table_owner.py::test_a_table_that_takes_too_long_to_count_is_set_aside_and_the_loop_counts_as_alive",
    ),
    Mutant(
        "commits that take long to read are read as soon as they come",
        "service/follow.py",
        "if row.state.head != loaded.head and self._is_put_off(Work.CATCHING_UP, uuid):",
        "if False:",
        "authority/test_table_owner.py::test_commits_that_take_long_to_read_get_a_tenth_of_the_time_and_are_all_seen",
    ),
    Mutant(
        "a loop that counts a large table is taken for a stuck one",
        "service/reading_time.py",
        "self.health.ticked_at_s = now_s",
        "pass",
        "service/test_reading_time.py::test_a_loop_that_reads_counts_as_alive_as_long_as_it_gets_on",
    ),
)
