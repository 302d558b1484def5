"""Mistakes where a table's manifests are made fewer, and in how they are written."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "of a table without its first partition spec manifests are never rewritten",
        "iceberg/compaction/replaced_manifests.py",
        "            if job.is_on_manifests:\n",
        "            if False:\n",
        "service/jobs/test_manifest_rewrites.py::test_so_they_do_where_the_first_spec_is_gone",
    ),
    Mutant(
        "manifests that were written before an upgrade are listed after it",
        "iceberg/compaction/one_commit.py",
        "if self.snapshot.is_of_another_format(table.metadata):",
        "if False:",
        "iceberg/compaction/test_manifests_of_before_an_upgrade.py::test_what_was_written_before_an_upgrade_is_not_used_after_it[False-manifests]",
    ),
    Mutant(
        "what version 1 does not say of an entry is taken for another entry",
        "iceberg/manifests/which_are_rewritten.py",
        "    if isinstance(value, Enum):\n        return value.value\n",
        "",
        "iceberg/compaction/test_manifests_of_before_an_upgrade.py::test_a_table_that_was_upgraded_has_its_manifests_rewritten[0]",
    ),
    Mutant(
        "a table that was just upgraded to version 3 is due for what is not done",
        "iceberg/manifests/which_are_rewritten.py",
        "    small = _alike(with_ids(metadata, held)).values()\n",
        "    small = _alike(held).values()\n",
        "iceberg/manifests/test_which_are_rewritten.py::test_one_whose_rows_get_their_ids_from_the_next_commit_is_neither_needless_nor_rewritten",
    ),
    Mutant(
        "a stop while manifests are read is a crash",
        "service/jobs/manifest_rewrites.py",
        "        if self._running is not None and self._running.operation.sent_at_ms is None:\n            self._give_up(self._running, stopped)\n",
        "",
        "service/jobs/test_slow_manifest_rewrites.py::test_where_the_daemon_stops_it_was_stopped_and_what_it_wrote_is_marked",
    ),
    Mutant(
        "what a rewrite of manifests wrote before it was given up stays for good",
        "service/jobs/manifest_rewrites.py",
        "            self.deletions.mark_leftovers(running.job, written)\n",
        "",
        "service/jobs/test_slow_manifest_rewrites.py::test_one_that_takes_too_long_has_failed_and_sends_nothing_afterwards",
    ),
    Mutant(
        "a rewrite of manifests that takes too long has an unknown end though nothing was sent",
        "service/jobs/manifest_rewrites.py",
        "if isinstance(result, TimeoutError) and running.operation.sent_at_ms is None:",
        "if False:",
        "service/jobs/test_slow_manifest_rewrites.py::test_one_that_takes_too_long_has_failed_and_sends_nothing_afterwards",
    ),
    Mutant(
        "the reading of manifests counts as time for which others waited",
        "service/jobs/manifest_rewrites.py",
        "        self.operations.goes_on(Action.REWRITE_MANIFESTS)\n",
        "",
        "service/jobs/test_manifest_rewrites.py::test_one_that_is_refused_after_long_reading_holds_up_no_other",
    ),
    Mutant(
        "work that says that it goes on is given up all the same",
        "iceberg/asking.py",
        "        self.heard_s = self._clock_s()\n        return self._is_given_up\n",
        "        return self._is_given_up\n",
        "iceberg/test_asking.py::test_work_that_says_that_it_goes_on_takes_as_long_as_it_takes_and_hears_when_nobody_wants_it",
    ),
    Mutant(
        "one manifest that cannot be read keeps all others from being rewritten",
        "iceberg/compaction/replaced_manifests.py",
        "        if isinstance(one, str) and self.rewrites:",
        "        if False:",
        "iceberg/compaction/test_rewritten_manifests.py::test_manifests_that_are_damaged_stay_and_are_named_and_all_others_become_one",
    ),
    Mutant(
        "two partition fields of one type are written so that Java cannot read them",
        "clients/manifests/named_types.py",
        "            return schema if times == 1 else",
        "            return schema if True else",
        "clients/test_named_types.py::test_what_we_write_names_each_type_apart_and_all_read_it[uuid]",
    ),
    Mutant(
        "two partition fields of one type as Java writes them cannot be read",
        "clients/manifests/named_types.py",
        "            return schema if is_named_apart else known.get(schema, schema)",
        "            return schema",
        "clients/test_named_types.py::test_what_java_writes_is_understood[uuid]",
    ),
    Mutant(
        "the manifests of one table are read on and on while others wait",
        "service/jobs/manifest_rewrites.py",
        "            if took_ms > READ_FOR_MS:",
        "            if False:",
        "service/jobs/test_slow_manifest_rewrites.py::test_one_that_goes_on_and_on_gives_way_to_other_tables",
    ),
    Mutant(
        "the manifests of a table that is held back are read to the end",
        "service/jobs/manifest_rewrites.py",
        "        elif (stopped := self.holds.stops(uuid)) is not None:\n            self._give_up(running, stopped)\n",
        "",
        "service/jobs/test_slow_manifest_rewrites.py::test_where_its_table_is_held_back_it_ends_at_once[pause]",
    ),
)
