"""Mistakes at the edges: the two readers of a rewrite, keys that a catalog lends, and what people are told."""

from mutants.mutant import Mutant

SOURCE = "iceberg/compaction/source.py"
DELETED_ROWS = "iceberg/compaction/deleted_rows.py"
ROW_SUMS = "iceberg/compaction/row_sums.py"
CLIENT = "clients/catalog.py"
HEALTH = "service/health.py"
ROUNDS = "telemetry/round_metrics.py"
TABLES = "telemetry/table_metrics.py"
LAYOUTS = "iceberg/compaction/test_layouts.py::"
OF_DELETED_ROWS = "iceberg/compaction/test_deleted_rows.py::"
OF_THE_SUMS = "iceberg/compaction/test_row_sums.py::"
OF_THE_CLIENT = "clients/test_catalog.py::"
OF_TABLES = "clients/test_properties_of_tables.py::"
HTTP = "telemetry/test_http.py::"
ALERTS = "telemetry/test_metrics.py::test_what_an_alert_asks_for_is_what_was_seen"

IN_NO_FOLDER = "test_a_table_chooses_no_folder_of_this_machine_and_none_that_depends_on_it"
WHERE_IT_STARTED = "test_a_folder_that_a_table_names_is_none_of_those_in_which_a_daemon_was_started"

MUTANTS = (
    # What is read of a table
    Mutant(
        "a property of the catalog leaves snapshots out",
        CLIENT,
        "catalog.properties.pop(NEWEST, None)",
        "pass",
        OF_THE_CLIENT + "test_nobody_but_the_caller_leaves_snapshots_out",
    ),
    Mutant(
        "a table has its files written to a disk of the daemon's machine",
        "contract/paths.py",
        "if is_local(place) and not is_here:",
        "if False:",
        "contract/test_paths.py::" + IN_NO_FOLDER,
    ),
    Mutant(
        "a table that is moved to a disk of the daemon's machine has its files written there",
        "contract/paths.py",
        "is_here = is_local(location) and is_local(lies)",
        "is_here = is_local(location)",
        "contract/test_paths.py::test_a_table_is_not_moved_to_a_disk_of_this_machine",
    ),
    Mutant(
        "a location without a scheme is sought where the daemon was started",
        "contract/paths.py",
        "_BEGINNING.match(location)",
        "True",
        "contract/test_paths.py::" + IN_NO_FOLDER,
    ),
    Mutant(
        "a local file is not known by a name with x:// in it",
        "contract/paths.py",
        ' and location[:1] != "/")',
        ")",
        "contract/test_paths.py::test_a_name_that_is_not_plain_is_taken_for_the_file_that_is_left_of_it",
    ),
    Mutant(
        "dots are looked for behind the last x:// of a location only",
        "contract/paths.py",
        "parts = _parted(normalised(location))[1]",
        'parts = normalised(location).rpartition("://")[2]',
        "core/test_deletion.py::test_a_name_that_programs_may_read_in_two_ways_is_not_deleted",
    ),
    Mutant(
        "a table chooses the folder in which its expiry writes",
        "iceberg/expiry.py",
        "if why := misplaced_table(",
        "if not (why := 'x') and misplaced_table(",
        "authority/test_table_owner.py::" + WHERE_IT_STARTED,
    ),
    Mutant(
        "a table chooses the folder of the file that tells its store's time",
        "iceberg/maintainer.py",
        "if not isinstance(io, PyArrowFileIO) or misplaced_table(table.metadata):",
        "if not isinstance(io, PyArrowFileIO):",
        "iceberg/test_store_clock.py::"
        "test_a_table_that_is_moved_to_a_disk_of_the_daemons_machine_chooses_no_folder_for_it",
    ),
    # The reader that rewrites
    Mutant(
        "the last deleted position of a batch stays",
        DELETED_ROWS,
        "low, high = bisect_left(positions, start), bisect_left(positions, start + rows)",
        "low, high = bisect_left(positions, start), bisect_left(positions, start + rows - 1)",
        OF_DELETED_ROWS + "test_deletes_apply_by_path_position_and_sequence_number",
    ),
    Mutant(
        "a rewrite takes rows out of files that are younger than the delete",
        DELETED_ROWS,
        "older = pc.if_else(is_younger, None, paths)",
        "older = paths",
        OF_DELETED_ROWS + "test_deletes_apply_by_path_position_and_sequence_number",
    ),
    Mutant(
        "a data file is read that has other rows than its manifest says",
        SOURCE,
        "        if rows != file.rows:",
        "        if False:",
        "iceberg/compaction/test_failures.py::test_a_bad_input_file_is_named[other rows]",
    ),
    Mutant(
        "timestamps of 96 bits come to other days",
        SOURCE,
        'coerce_int96_timestamp_unit="us"',
        'coerce_int96_timestamp_unit="ns"',
        LAYOUTS + "test_timestamps_of_96_bits_keep_their_days",
    ),
    Mutant(
        "rows are read in the layout of Arrow's that they were written from",
        SOURCE,
        "if ARROW_SCHEMA not in (footer.metadata or {}):",
        "if True:",
        LAYOUTS + "test_a_layout_of_arrow_that_a_file_was_written_from_makes_no_difference",
    ),
    Mutant(
        "a batch is as large as its rows may be, however large those are",
        SOURCE,
        "rows = max(min(fitting, 2 * rows, BATCH_ROWS), 1)",
        "rows = BATCH_ROWS",
        "iceberg/compaction/test_source.py::test_rows_that_a_dictionary_makes_small_are_read_a_few_at_a_time",
    ),
    Mutant(
        "a rewrite that runs out of memory says that something unexpected went wrong",
        "iceberg/compaction/rewrite.py",
        "except MemoryError as err:",
        "except () as err:",
        "iceberg/compaction/test_failures.py::test_a_lack_of_memory_is_not_blamed_on_the_file",
    ),
    Mutant(
        "a store that refuses us makes its files corrupt",
        "iceberg/compaction/failures.py",
        ' or "AWS Error" in str(err):',
        ":",
        "iceberg/compaction/test_s3.py::"
        "test_a_store_that_finds_our_clock_wrong_is_said_to_refuse_and_work_goes_on_once_it_is_mended",
    ),
    # The reader that proves
    Mutant(
        "the proof takes rows out of files that are younger than the delete",
        ROW_SUMS,
        "if added <= sequence_number",
        "if True",
        OF_DELETED_ROWS + "test_deletes_apply_by_path_position_and_sequence_number",
    ),
    Mutant(
        "the proof takes another spelling of a path for another file",
        ROW_SUMS,
        "self._data.get(normalised(name), ())",
        "self._data.get(name, ())",
        OF_DELETED_ROWS + "test_deletes_apply_by_path_position_and_sequence_number",
    ),
    Mutant(
        "the proof believes the bounds that manifests will tell",
        ROW_SUMS,
        "if problem := claim.problem(rows, *found[4 * place : 4 * place + 4]):",
        "if problem := None:",
        OF_THE_SUMS + "test_bounds_of_floats_are_judged_by_the_values_that_are_numbers",
    ),
    Mutant(
        "the proof takes fields of a struct for one whose names differ by case only",
        "iceberg/compaction/row_hash.py",
        'inner = f"struct_extract_at({value}, {place + 1})"',
        """inner = f"struct_extract({value}, '{field.name}')\"""",
        "iceberg/compaction/test_projection.py::"
        "test_fields_whose_names_differ_by_case_only_are_told_apart_at_every_depth",
    ),
    Mutant(
        "the proof may open any file",
        ROW_SUMS,
        "SET enable_external_access = false",
        "SET enable_external_access = true",
        "iceberg/compaction/test_proof.py::test_the_proof_may_open_nothing_but_the_files_of_the_job",
    ),
    Mutant(
        "what geoparquet calls a geometry is one to the proof",
        ROW_SUMS,
        "SET enable_geoparquet_conversion = false",
        "SET enable_geoparquet_conversion = true",
        LAYOUTS + "test_what_geoparquet_calls_a_geometry_keeps_its_bytes",
    ),
    # What other writers say
    Mutant(
        "a foreign total of thousands of digits fails each compaction",
        "iceberg/compaction/replace_snapshot.py",
        'if NUMBER.fullmatch(before.get(total, "")):',
        'if before.get(total, "").isdigit():',
        "iceberg/compaction/test_replace_snapshot.py::"
        "test_a_total_of_another_writer_that_is_no_number_is_left_out_and_told_once",
    ),
    Mutant(
        "events that name large manifests are read together",
        "iceberg/announced_changes.py",
        "threads.each(lambda place: _read(*asked[place], go_on), places, at_once)",
        "threads.each(lambda place: _read(*asked[place], go_on), places, 48)",
        "iceberg/manifests/test_large.py::test_events_that_name_large_manifests_are_read_few_together",
    ),
    Mutant(
        "what librdkafka does not take is repeated with its value",
        "runtime/kafka_client.py",
        """why = why.replace(f'"{value}" ', "")""",
        "pass",
        "commands/test_kafka_properties.py::test_a_value_that_is_refused_is_not_repeated",
    ),
    # Lent keys, and who chooses code, hosts and keys
    Mutant(
        "a client of files is kept when the keys that it was lent were renewed",
        CLIENT,
        "key = (scheme, frozenset((name, str(value)) for name, value in properties.items()))",
        "key = (scheme, frozenset(properties))",
        OF_TABLES + "test_what_the_server_vends_for_a_table_is_what_its_files_are_read_with",
    ),
    Mutant(
        "the properties of a table of a REST catalog choose who reads its files",
        CLIENT,
        'bare = metadata.model_copy(update={"properties": {}})',
        "bare = metadata.model_copy()",
        OF_TABLES + "test_what_the_server_vends_for_a_table_is_what_its_files_are_read_with",
    ),
    Mutant(
        "the properties of a table of any other catalog choose who reads its files",
        CLIENT,
        "files = clients.of(EMPTY_DICT, location)",
        "files = load_file_io({**catalog.properties, **properties}, location)",
        OF_TABLES
        + "test_the_properties_of_a_table_reach_neither_the_client_of_its_files_nor_that_of_a_rewrite",
    ),
    Mutant(
        "the paths of a table choose the host that is asked for its files",
        "clients/name_nodes.py",
        "name_node(host) not in {*operators, *given}",
        "not host",
        "clients/test_name_nodes.py::"
        "test_a_manifest_list_on_another_host_sets_its_table_aside_and_nobody_asks_there",
    ),
    Mutant(
        "the properties of a table choose who reads its files in a rewrite",
        "iceberg/compaction/rewrite.py",
        "load_file_io(properties_with_retries(io_properties), metadata.location)",
        "load_file_io(properties_with_retries({**io_properties, **metadata.properties}), metadata.location)",
        OF_TABLES + "test_the_table_of_a_rewrite_chooses_no_code",
    ),
    Mutant(
        "a rewrite is not lent the keys with which the table is read",
        "iceberg/maintainer.py",
        "self._executor.start(job, described(table.metadata), plain_properties(table.io))",
        "self._executor.start(job, described(table.metadata), {})",
        OF_TABLES + "test_a_rewrite_gets_the_properties_with_which_the_table_is_read_here",
    ),
    Mutant(
        "a server's redirection sends a commit to another host",
        CLIENT,
        '"allow_redirects": False',
        '"allow_redirects": True',
        OF_THE_CLIENT + "test_a_catalog_that_redirects_a_request_to_change_something_is_not_followed",
    ),
    Mutant(
        "a server's configuration hides snapshots",
        CLIENT,
        'self.properties[SNAPSHOT_LOADING_MODE] = "all"',
        'self.properties.setdefault(SNAPSHOT_LOADING_MODE, "all")',
        OF_THE_CLIENT + "test_every_snapshot_is_asked_for_whatever_the_server_configures",
    ),
    # What an audit finds afterwards
    Mutant(
        "an audit lets a hot hour be rewritten because its day is over",
        "audit/promises.py",
        "return min(spans, key=lambda span: span[1] - span[0], default=None)",
        "return max(spans, key=lambda span: span[1] - span[0], default=None)",
        "audit/test_cold_only.py::test_of_several_times_of_a_partition_the_narrowest_counts",
    ),
    # What probes and alerts answer from
    Mutant(
        "a loop that is stuck counts as alive",
        HEALTH,
        "return now_s - self.ticked_at_s < TICK_LIMIT_S",
        "return True",
        HTTP + "test_a_loop_that_stands_still_is_not_ready_long_before_it_counts_as_stuck",
    ),
    Mutant(
        "a daemon is restarted because a catalog keeps it waiting for two minutes",
        HEALTH,
        "return now_s - self.ticked_at_s < TICK_LIMIT_S",
        "return now_s - self.ticked_at_s < SLOW_LIMIT_S",
        "service/test_hour_of_silence.py::test_the_loop_lives_through_an_hour_of_silence_and_then_goes_on",
    ),
    Mutant(
        "a loop that waits counts as ready",
        HEALTH,
        "stands_s < SLOW_LIMIT_S",
        "True",
        HTTP + "test_a_loop_that_stands_still_is_not_ready_long_before_it_counts_as_stuck",
    ),
    Mutant(
        "a daemon without a catalog counts as ready",
        HEALTH,
        '"the catalog does not answer": self.catalog_answers,',
        '"the catalog does not answer": True,',
        HTTP + "test_each_thing_that_a_daemon_needs_is_missed_by_name",
    ),
    Mutant(
        "a daemon without policies counts as ready",
        HEALTH,
        '"no policy is loaded": self.has_policies,',
        '"no policy is loaded": True,',
        HTTP + "test_each_thing_that_a_daemon_needs_is_missed_by_name",
    ),
    Mutant(
        "a daemon without tables counts as ready",
        HEALTH,
        '"the control topic is not assigned": self.is_assigned,',
        '"the control topic is not assigned": True,',
        HTTP + "test_each_thing_that_a_daemon_needs_is_missed_by_name",
    ),
    Mutant(
        "nobody is told that a round had to do without the catalog",
        ROUNDS,
        "self.away.labels(kind).set(kind in what.away)",
        "self.away.labels(kind).set(0)",
        ALERTS,
    ),
    Mutant(
        "nobody is told that deletions are held",
        ROUNDS,
        "self.deletions_held.set(what.deletions_held)",
        "self.deletions_held.set(0)",
        ALERTS,
    ),
    Mutant(
        "nobody is told of a lost ledger until the next round",
        ROUNDS,
        "                self.deletions_held.set(1)\n",
        "                pass\n",
        ALERTS,
    ),
    Mutant(
        "nobody is told of a store that does not answer",
        ROUNDS,
        "self.trouble.labels(what.kind).inc()",
        "self.trouble.labels(what.kind)",
        ALERTS,
    ),
    Mutant(
        "nobody is told that no round ends any more",
        ROUNDS,
        "self.last_round.set(self._now_ms() / 1000)",
        "self.last_round.set_to_current_time()",
        ALERTS,
    ),
    Mutant(
        "nobody is told that a table is halted",
        TABLES,
        "self._of(self.halted, what.table.name).set(1)",
        "self._of(self.halted, what.table.name).set(0)",
        ALERTS,
    ),
    Mutant(
        "a table that was halted is shown as if it were not",
        TABLES,
        "self._of(self.halted, name).set(what.halted)",
        "self._of(self.halted, name).set(0)",
        ALERTS,
    ),
    Mutant(
        "nobody is told that a table is set aside",
        TABLES,
        "self._of(self.failing, what.name).set(1)",
        "self._of(self.failing, what.name).set(0)",
        ALERTS,
    ),
    Mutant(
        "a table that has recovered is shown as set aside for ever",
        TABLES,
        "self._series.drop(self.failing, what.name)",
        "pass",
        ALERTS,
    ),
    Mutant(
        "nobody is told for how long something is due",
        TABLES,
        "(self._now_ms() - since_ms) / 1000",
        "0",
        ALERTS,
    ),
    Mutant(
        "nobody is told of quarantined partitions",
        TABLES,
        'self._of(self.partitions, name, "quarantined").set(what.quarantined)',
        'self._of(self.partitions, name, "quarantined").set(0)',
        ALERTS,
    ),
    Mutant(
        "nobody is told that a state drifted",
        "telemetry/healing_metrics.py",
        "self._of(self.drift, what.table.name).inc()",
        "self._of(self.drift, what.table.name)",
        ALERTS,
    ),
    Mutant(
        "nobody is told that events were lost",
        "telemetry/event_metrics.py",
        "self.events_lost.inc()",
        "pass",
        ALERTS,
    ),
    Mutant(
        "a batch of rejected messages counts as one",
        "telemetry/event_metrics.py",
        "self.events_rejected.inc(what.messages)",
        "self.events_rejected.inc()",
        ALERTS,
    ),
)
