"""Mistakes in the two readers of a rewrite, and in what they read of a table."""

from mutants.mutant import Mutant

SORTED = "iceberg/compaction/sorting.py"
SOURCE = "iceberg/compaction/source.py"
DELETED_ROWS = "iceberg/compaction/deleted_rows.py"
ROW_SUMS = "iceberg/compaction/row_sums.py"
CLIENT = "clients/catalog.py"
EXECUTOR = "iceberg/compaction/test_process_executor.py::"
OF_THE_SUMS = "iceberg/compaction/test_row_sums.py::"
SORTING = "iceberg/compaction/test_sorting.py::"
OF_THE_CLIENT = "clients/test_catalog.py::"
WHERE_IT_STARTED = "test_a_folder_that_a_table_names_is_none_of_those_in_which_a_daemon_was_started"

MUTANTS = (
    Mutant(
        "the process of a job that was cancelled is left to the next one, and goes on with the first",
        "iceberg/compaction/process_executor.py",
        "if is_done and running.is_small",
        "if running.is_small",
        EXECUTOR + "test_a_job_that_is_cancelled_is_gone_at_once_and_leaves_nothing",
    ),
    Mutant(
        "three deleted rows have a large file rewritten, because others of its partition are half deleted",
        "iceberg/compaction/job_files.py",
        "named = heavy if heavy or has_dead else named",
        "pass",
        "iceberg/compaction/test_job_files.py::"
        "test_a_large_file_of_few_deleted_rows_stays_though_others_of_its_partition_have_many",
    ),
    Mutant(
        "a file stays of which deletes of several files name nobody knows how many rows",
        "iceberg/compaction/job_files.py",
        "least * entry.rows and entry.identity not in named_by_others",
        "least * entry.rows",
        "iceberg/compaction/test_job_files.py::test_what_deletes_of_several_files_may_name_does_not_stay",
    ),
    Mutant(
        "vectors that are too many stay where they name few rows",
        "core/planner/debt.py",
        "if applies and deletes - cheap == {DELETE_RATIO}",
        "if applies",
        "core/planner/test_file_selection.py::"
        "test_files_of_few_deleted_rows_stay_where_deleted_rows_are_what_is_due",
    ),
    Mutant(
        "a job for small files leaves deletes that are due behind it",
        "core/planner/debt.py",
        "(along if self.is_light and trigger.option == POSITION_DELETES else speaks)",
        "speaks",
        "core/planner/test_merged_deletes.py::"
        "test_a_job_for_small_files_takes_along_the_deletes_that_would_be_due_behind_it",
    ),
    Mutant(
        "a job of very many parts sorts what stays of them for each chunk",
        SORTED,
        "max(self._memory_bytes - rest.nbytes, rest.nbytes, 1)",
        "max(self._memory_bytes - rest.nbytes, 1)",
        SORTING + "test_a_merge_of_very_many_parts_sorts_a_row_about_as_often_as_one_of_few",
    ),
    Mutant(
        "what was sorted is one row group, whatever the table asks for",
        "parquet/output.py",
        "self._fitting(batch.slice(start, most - self._pending_rows))",
        "batch.slice(start, most - self._pending_rows)",
        "parquet/test_output.py::"
        "test_a_row_group_has_the_bytes_that_the_table_asks_for_however_many_rows_come_at_once",
    ),
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
        (
            "contract/test_paths.py::"
            "test_a_table_chooses_no_folder_of_this_machine_and_none_that_depends_on_it"
        ),
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
        (
            "contract/test_paths.py::"
            "test_a_table_chooses_no_folder_of_this_machine_and_none_that_depends_on_it"
        ),
    ),
    Mutant(
        "a local file is not known by a name with x:// in it",
        "contract/paths.py",
        ' and location[:1] != "/")',
        ")",
        ("contract/test_paths.py::test_a_name_that_is_not_plain_is_taken_for_the_file_that_is_left_of_it"),
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
        "authority/test_table_places.py::" + WHERE_IT_STARTED,
    ),
    Mutant(
        "a table chooses the folder of the file that tells its store's time",
        "iceberg/store_clock.py",
        "if not isinstance(io, PyArrowFileIO) or misplaced_table(table.metadata):",
        "if not isinstance(io, PyArrowFileIO):",
        "iceberg/test_store_clock.py::"
        "test_a_table_that_is_moved_to_a_disk_of_the_daemons_machine_chooses_no_folder_for_it",
    ),
    # The reader that rewrites
    Mutant(
        "the last deleted position of a batch stays",
        DELETED_ROWS,
        "low, high = bisect_left(positions, start), bisect_left(positions, end)",
        "low, high = bisect_left(positions, start), bisect_left(positions, end - 1)",
        ("iceberg/compaction/test_deleted_rows.py::test_deletes_apply_by_path_position_and_sequence_number"),
    ),
    Mutant(
        "a rewrite takes rows out of files that are younger than the delete",
        DELETED_ROWS,
        "older = pc.if_else(is_younger, None, paths)",
        "older = paths",
        ("iceberg/compaction/test_deleted_rows.py::test_deletes_apply_by_path_position_and_sequence_number"),
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
        "iceberg/compaction/test_layouts.py::test_timestamps_of_96_bits_keep_their_days",
    ),
    Mutant(
        "rows are read in the layout of Arrow's that they were written from",
        SOURCE,
        "if ARROW_SCHEMA not in (footer.metadata or {}):",
        "if True:",
        (
            "iceberg/compaction/test_layouts.py::"
            "test_a_layout_of_arrow_that_a_file_was_written_from_makes_no_difference"
        ),
    ),
    Mutant(
        "a batch is as large as its rows may be, however large those are",
        SOURCE,
        "rows = max(min(fitting, 2 * rows, BATCH_ROWS), 1)",
        "rows = BATCH_ROWS",
        (
            "iceberg/compaction/test_source.py::"
            "test_rows_that_a_dictionary_makes_small_are_read_a_few_at_a_time"
        ),
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
        ("iceberg/compaction/test_deleted_rows.py::test_deletes_apply_by_path_position_and_sequence_number"),
    ),
    Mutant(
        "the proof takes another spelling of a path for another file",
        ROW_SUMS,
        "self._data.get(normalised(name), ())",
        "self._data.get(name, ())",
        ("iceberg/compaction/test_deleted_rows.py::test_deletes_apply_by_path_position_and_sequence_number"),
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
        (
            "iceberg/compaction/test_projection.py::"
            "test_fields_whose_names_differ_by_case_only_are_told_apart_at_every_depth"
        ),
    ),
    Mutant(
        "the proof may open any file",
        ROW_SUMS,
        "SET enable_external_access = false",
        "SET enable_external_access = true",
        ("iceberg/compaction/test_proof.py::test_the_proof_may_open_nothing_but_the_files_of_the_job"),
    ),
    Mutant(
        "what geoparquet calls a geometry is one to the proof",
        ROW_SUMS,
        "SET enable_geoparquet_conversion = false",
        "SET enable_geoparquet_conversion = true",
        ("iceberg/compaction/test_layouts.py::test_what_geoparquet_calls_a_geometry_keeps_its_bytes"),
    ),
    # What other writers say
    Mutant(
        "a foreign total of thousands of digits fails each compaction",
        "iceberg/compaction/replace_summary.py",
        'if NUMBER.fullmatch(before.get(total, "")):',
        'if before.get(total, "").isdigit():',
        (
            "iceberg/compaction/test_replace_snapshot.py::"
            "test_a_total_of_another_writer_that_is_no_number_is_left_out_and_told_once"
        ),
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
    # The table's order
    Mutant(
        "nulls come where the order does not say",
        SORTED,
        "pc.xor(values.is_null(), not nulls_last)",
        "pc.xor(values.is_null(), nulls_last)",
        f"{SORTING}test_rows_come_in_the_order_of_iceberg_and_none_is_lost",
    ),
    Mutant(
        "-0 and 0 are the same to the order",
        SORTED,
        "return ordered_by_bits(values) if isinstance(key.source, (FloatType, DoubleType)) else values",
        "return values",
        f"{SORTING}test_minus_zero_comes_before_zero_and_nan_after_all_numbers",
    ),
    Mutant(
        "rows are given on before those that come before them",
        SORTED,
        "places, count = self._up_to(rows, firsts.slice(turns[-1], 1) if turns else None)",
        "places, count = self._up_to(rows, None)",
        f"{SORTING}test_parts_that_overlap_are_merged",
    ),
    Mutant(
        "an order that falls rises",
        SORTED,
        "if key.field.direction == SortDirection.DESC",
        "if False",
        f"{SORTING}test_rows_come_in_the_order_of_iceberg_and_none_is_lost",
    ),
    Mutant(
        "UUIDs are sorted by their bytes",
        SORTED,
        "if path is None or not isinstance(source, COMPARED):",
        "if path is None:",
        f"{SORTING}test_what_cannot_be_compared_as_iceberg_does_is_left_as_it_is[UUID]",
    ),
    Mutant(
        "what cannot be sorted is found out by each job",
        "core/planner/plan.py",
        "or _unsortable(take, policy, view.facts)",
        "or ''",
        "core/planner/test_plan.py::test_rows_that_cannot_be_sorted_as_the_policy_says_are_not_taken",
    ),
    Mutant(
        "deletes are not merged where data could not be sorted",
        "core/planner/plan.py",
        "facts.sortable is None or not take.rewrites_data",
        "facts.sortable is None",
        "core/planner/test_due_deletes.py::test_deletes_are_merged_whatever_data_is_to_be_sorted_by",
    ),
    Mutant(
        "of texts that begin alike nothing else is compared",
        "iceberg/compaction/curve.py",
        "return len(is_alike) if is_alike.all() else int(is_alike.argmin())",
        "return 0",
        "iceberg/compaction/test_curve.py::test_each_file_is_narrow_in_each_column_of_whatever_type",
    ),
    Mutant(
        "a sample holds whole rows",
        "iceberg/compaction/curve.py",
        "values.append(_ordered(values_at(rows, at).drop_null(), 0, SEEN_BYTES))",
        "values.append(_ordered(values_at(rows, at).drop_null(), 0, SEEN_BYTES))\n"
        "                    values_at.__dict__.setdefault('kept', []).append(rows)",
        "iceberg/compaction/test_curve.py::test_a_sample_of_large_rows_holds_their_keys_alone",
    ),
    Mutant(
        "a column of few values tells only the last bits of a place",
        "iceberg/compaction/curve.py",
        "ranks.append(rank * ((1 << bits) - 1) // (len(edges) + 1))",
        "ranks.append(rank)",
        "iceberg/compaction/test_curve.py::test_a_column_of_wide_numbers_does_not_decide_alone",
    ),
    Mutant(
        "rows without a value lie among the others",
        "iceberg/compaction/curve.py",
        "rank[values.is_null().to_numpy()] = 0",
        "pass",
        "iceberg/compaction/test_curve.py::test_rows_without_a_value_lie_together",
    ),
    Mutant(
        "a sample is of the first file alone",
        "iceberg/compaction/curve.py",
        "chosen = [files[number * len(files) // count] for number in range(count)]",
        "chosen = files[:1]",
        "iceberg/compaction/test_curve.py::test_times_that_rise_from_file_to_file_are_told_apart",
    ),
    Mutant(
        "of files that are read together nobody says which one the second reader cannot read",
        "iceberg/compaction/rewrite.py",
        "with suppress(duckdb.Error):",
        "with suppress():",
        "iceberg/compaction/test_failures.py::"
        "test_of_files_that_are_read_together_the_one_is_named_that_the_second_reader_cannot_read",
    ),
    Mutant(
        "of files that are read together deleted rows are summed up",
        ROW_SUMS,
        "if number in (self._touched or ()):",
        "if number in ():",
        OF_THE_SUMS + "test_files_of_several_schemas_and_deletes_have_the_same_sums_together_as_alone",
    ),
    Mutant(
        "files that nobody sorted say that they are in order",
        "iceberg/compaction/rewrite.py",
        "sort_order_id=ordering.order_id if isinstance(ordering, Ordering) else 0,",
        "sort_order_id=metadata.default_sort_order_id,",
        f"{SORTING}test_a_job_writes_files_in_the_order_that_is_asked_for_and_says_so_of_the_tables_own",
    ),
    Mutant(
        "one dead delete file has every lightly deleted file rewritten",
        "iceberg/compaction/job_files.py",
        "heavy if heavy or has_dead else named",
        "heavy or named",
        "iceberg/compaction/test_job_files.py::"
        "test_where_dead_deletes_are_what_is_due_they_go_and_no_file_is_rewritten_for_it",
    ),
)
