"""Mistakes in what copies row groups as they are, and in what says which files are copied."""

from mutants.mutant import Mutant

PASSING = "iceberg/compaction/passing.py"
PACKING = "iceberg/compaction/packing.py"
SUMS = "iceberg/compaction/group_sums.py"
ROW_SUMS = "iceberg/compaction/row_sums.py"
FOOTER = "parquet/footer.py"
PAGES = "parquet/pages.py"
GROUPS = "parquet/row_groups.py"
ASKED = "parquet/as_asked.py"
STATISTICS = "parquet/statistics.py"
JOBS = "iceberg/compaction/test_passing.py::"
SAID = "iceberg/compaction/test_passing_statistics.py::"
DELETES = "iceberg/compaction/test_passing_beside_deletes.py::"
DAMAGED = "iceberg/compaction/test_passing_damaged_files.py::"
OF_GROUPS = "parquet/test_row_groups.py::"
OF_FOOTERS = "parquet/test_footer.py::"
OF_PAGES = "parquet/test_pages.py::"
OF_ASKED = "parquet/test_as_asked.py::"
OF_PACKING = "iceberg/compaction/test_packing.py::"
TWO_ENGINES = OF_GROUPS + "test_two_engines_read_the_rows_of_the_sources_in_their_order"
SAME_SUM = OF_GROUPS + "test_the_sum_is_the_same"
LEADS_ELSEWHERE = OF_FOOTERS + "test_what_may_lead_elsewhere_is_refused"
IN_A_FOOTER = OF_GROUPS + "test_the_sum_sees_whatever_is_changed_in_a_footer"
IN_PAGES = OF_GROUPS + "test_the_sum_sees_each_byte_of_pages_indexes_and_filters"
ASKS = JOBS + "test_files_are_decoded_where_the_table_asks_for_something_else"
EVOLVED = JOBS + "test_files_of_another_schema_are_decoded"
CANNOT_BE = OF_ASKED + "test_what_a_footer_leaves_open_has_the_file_decoded"
WRONG_PAGES = OF_PAGES + "test_a_footer_that_says_something_else_of_pages_is_found"

MUTANTS = (
    Mutant(
        "a file is copied of which one engine finds deleted rows",
        PASSING,
        "and not deleted.count(file) and not sums.is_named(number)",
        "and not sums.is_named(number) and False or not deleted.count(file)",
        DELETES + "test_deletes_of_rows_that_are_not_there_have_a_file_decoded",
    ),
    Mutant(
        "a file is copied with its deleted rows",
        PASSING,
        "and not deleted.count(file) and not sums.is_named(number)",
        "",
        DELETES + "test_a_file_of_which_a_row_is_deleted_is_decoded_beside_others_that_are_not",
    ),
    Mutant(
        "rows lose their ids",
        PASSING,
        "if metadata.format_version >= WITH_ROW_IDS:",
        "if False:",
        JOBS + "test_rows_that_have_ids_keep_them_and_no_file_is_copied",
    ),
    Mutant(
        "rows stay unsorted where a job sorts",
        "iceberg/compaction/rewrite.py",
        "NONE_PASSED if ordering or division else pass_through",
        "NONE_PASSED if division else pass_through",
        JOBS + "test_a_job_that_sorts_decodes_all",
    ),
    Mutant(
        "files of two kinds share a footer",
        PASSING,
        "if kind in most}",
        "}",
        JOBS + "test_files_of_another_kind_than_most_are_decoded",
    ),
    Mutant(
        "a file is copied of which its manifest says other rows",
        PASSING,
        "!= file.rows:",
        "!= file.rows and False:",
        DAMAGED + "test_a_file_with_other_rows_than_its_manifest_says_is_told",
    ),
    Mutant(
        "new files have names of each other",
        "iceberg/compaction/rewrite.py",
        "data_location(job, metadata, first + number)",
        "data_location(job, metadata, number)",
        DELETES + "test_a_file_of_which_a_row_is_deleted_is_decoded_beside_others_that_are_not",
    ),
    Mutant(
        "what is no number is not counted",
        PASSING,
        "nans.update(_nans(path, file, metadata))",
        "nans.update(dict.fromkeys(_floats(metadata), 0))",
        SAID + "test_a_manifest_says_of_a_copy_what_it_would_say_of_decoded_rows",
    ),
    Mutant(
        "a bound leaves out the lesser zero",
        STATISTICS,
        "least or -0.0",
        "least or 0.0",
        SAID + "test_bounds_hold_both_zeros",
    ),
    Mutant(
        "a damaged page is copied",
        PAGES,
        "if _CHECKSUM in header and",
        "if False and",
        DAMAGED + "test_a_damaged_page_is_told_and_not_copied",
    ),
    # What is asked
    Mutant("a table has files of another codec", ASKED, "!= self._codec:", "!= self._codec and False:", ASKS),
    Mutant("row groups are larger than asked", ASKED, "> self._most_bytes or", "> 2**60 or", ASKS),
    Mutant("row groups have more rows than asked", ASKED, "group.rows > self._most_rows", "False", ASKS),
    Mutant("a Bloom filter is missing", ASKED, "if path in self._filtered and", "if False and", ASKS),
    Mutant(
        "small row groups stay for ever",
        ASKED,
        "*groups[:-1])) < WORTH_BYTES:",
        "*groups[:-1])) < 0:",
        JOBS + "test_small_row_groups_are_decoded",
    ),
    Mutant(
        "columns are not those of the table",
        ASKED,
        "not all(map(_fits, found, wanted))",
        "False",
        EVOLVED,
    ),
    Mutant(
        "a column is null that must not be",
        ASKED,
        "theirs.nullable and not ours.nullable",
        "False",
        JOBS + "test_a_column_may_be_required_in_a_file_alone_and_not_in_the_table_alone",
    ),
    *(
        Mutant(breaks, ASKED, text, change, OF_ASKED + "test_what_a_footer_leaves_open_has_the_file_decoded")
        for breaks, text, change in (
            ("extremes are cut off", "if any(name in exact and", "if False and any(name in exact and"),
            (
                "NaN is an extreme",
                "is_told = not (math.isnan(found.min_raw)",
                "is_told = True or (math.isnan(found.min_raw)",
            ),
            (
                "floats without extremes are no numbers",
                "is_told = found.null_count == told.num_values",
                "is_told = True",
            ),
            ("a chunk has fewer values than rows", "and told.num_values != rows", "and False"),
        )
    ),
    Mutant(
        "UUIDs have extremes",
        ASKED,
        "if told.statistics is not None and told.statistics.has_min_max:",
        "if False:",
        OF_ASKED + "test_extremes_of_uuids_have_the_file_decoded",
    ),
    # Packing
    Mutant(
        "new files are too large",
        PACKING,
        "and files[number].size_bytes <= room",
        "and files[number].size_bytes <= 2 * room",
        OF_PACKING + "test_examples",
    ),
    Mutant(
        "two kinds of small files have each other written for ever",
        PACKING,
        "if anew == 1 and not others_bytes and 0 <",
        "if anew == 1 and 0 <",
        OF_PACKING + "test_examples",
    ),
    Mutant(
        "there are more files than if all was written anew",
        PACKING,
        "> anew + anew // MORE_FILES",
        "> anew * 2",
        OF_PACKING + "test_there_are_hardly_more_files_than_if_all_was_written_anew",
    ),
    Mutant(
        "more files are open than a process may have",
        PACKING,
        "or len(chosen) == MOST_FILES",
        "",
        OF_PACKING + "test_no_more_files_go_together_than_may_be_open",
    ),
    # The footer
    Mutant(
        "pages are looked for where they were",
        FOOTER,
        "number(chunk.meta, DATA_PAGE) + by",
        "number(chunk.meta, DATA_PAGE)",
        TWO_ENGINES,
    ),
    Mutant(
        "a dictionary is looked for where it was",
        FOOTER,
        "number(chunk.meta, DICTIONARY_PAGE, 0) + by",
        "number(chunk.meta, DICTIONARY_PAGE, 0)",
        SAME_SUM,
    ),
    Mutant(
        "a Bloom filter is looked for where it was",
        FOOTER,
        "BLOOM_FILTER: place.bloom_filter,",
        "",
        SAME_SUM,
    ),
    Mutant(
        "an index is looked for where it was",
        FOOTER,
        "COLUMN_INDEX: place.column_index,",
        "",
        SAME_SUM,
    ),
    Mutant(
        "an index leads to pages where they were",
        GROUPS,
        "moved(index, pages - chunk.pages.start)",
        "moved(index, 0)",
        SAME_SUM,
    ),
    Mutant(
        "a field that nobody knows leads elsewhere",
        FOOTER,
        "if unknown := sorted(fields.keys() - set(known)):",
        "if unknown := sorted(fields.keys() & set()):",
        LEADS_ELSEWHERE,
    ),
    Mutant(
        "bytes are copied once for each chunk that names them",
        FOOTER,
        "one.end > other.start for one, other in pairwise(ordered)",
        "False for one, other in pairwise(ordered)",
        LEADS_ELSEWHERE,
    ),
    Mutant("a part lies behind the end", FOOTER, "part.size < 0 or part.end > end", "False", LEADS_ELSEWHERE),
    Mutant(
        "a footer of any size is held",
        FOOTER,
        "or length > most_bytes:",
        "or False:",
        OF_FOOTERS + "test_a_footer_that_would_take_much_memory_is_refused",
    ),
    Mutant(
        "files of two writers share a footer",
        GROUPS,
        "if footer.kind != self._kind.kind:",
        "if False:",
        OF_GROUPS + "test_files_of_two_writers_cannot_share_a_footer",
    ),
    Mutant(
        "fields of a newer format get lost",
        "parquet/compact_thrift.py",
        "struct[number] = Field(kind, _read(protocol, kind, deep - 1))",
        "value = Field(kind, _read(protocol, kind, deep - 1)); number < 50 and struct.update({number: value})",
        OF_FOOTERS + "test_a_new_field_of_what_holds_no_offset_is_kept",
    ),
    # Pages
    Mutant("values get lost", PAGES, "!= number(chunk.meta, VALUES):", "< 0:", WRONG_PAGES),
    Mutant("pages have another size", PAGES, "!= number(chunk.meta, UNPACKED_BYTES):", "< 0:", WRONG_PAGES),
    Mutant(
        "the first page is another one",
        PAGES,
        "data[0].start != number(chunk.meta, DATA_PAGE)",
        "False",
        WRONG_PAGES,
    ),
    Mutant(
        "pages hold other rows",
        PAGES,
        "if None not in told and",
        "if False and",
        OF_PAGES + "test_pages_that_tell_their_rows_are_counted",
    ),
    Mutant(
        "an index names other pages",
        PAGES,
        "if chunk.offset_index is not None:",
        "if False:",
        OF_PAGES + "test_an_offset_index_that_names_other_pages_is_found",
    ),
    Mutant(
        "a job fails each time at an index of a newer format",
        PAGES,
        "moved(stream.read(chunk.offset_index.size), 0)",
        "stream.read(chunk.offset_index.size)",
        OF_PAGES + "test_an_offset_index_of_a_newer_format_is_found_before_anything_is_copied",
    ),
    Mutant(
        "a header of a page takes as much memory as it says",
        PAGES,
        "stream.read(MOST_HEADER_BYTES)",
        "stream.read()",
        OF_PAGES + "test_a_header_that_would_take_much_memory_is_none",
    ),
    # How much there may be of footers
    Mutant(
        "a footer becomes too large with the next file",
        PACKING,
        "and files[number].share <= left:",
        ":",
        OF_PACKING + "test_files_with_much_in_their_footers_go_into_more_files",
    ),
    Mutant(
        "a footer is too large already",
        PACKING,
        "and _share(left, group) <= 1:",
        ":",
        OF_PACKING + "test_files_with_much_in_their_footers_go_into_more_files",
    ),
    Mutant(
        "the footer of the only file is too large",
        PACKING,
        "and _share(files, files) <= 1:",
        ":",
        OF_PACKING + "test_files_with_much_in_their_footers_go_into_more_files",
    ),
    Mutant(
        "footers grow more than is reckoned",
        FOOTER,
        "self.size_bytes + CHUNK_GROWS_BYTES * len(chunks)",
        "self.size_bytes",
        OF_FOOTERS + "test_a_share_bounds_what_row_groups_take_wherever_they_lie",
    ),
    Mutant(
        "indexes grow more than is reckoned",
        FOOTER,
        "+ 2 * _size(",
        "+ _size(",
        OF_FOOTERS + "test_a_share_bounds_what_row_groups_take_wherever_they_lie",
    ),
    Mutant(
        "a file is written that cannot be read again",
        GROUPS,
        "if len(content) > limits.MOST_FOOTER_BYTES or indexes_bytes > limits.MOST_INDEX_BYTES:",
        "if False:",
        OF_GROUPS + "test_a_file_that_could_not_be_read_again_is_not_written",
    ),
    Mutant(
        "an offset that does not fit its field fails the job",
        FOOTER,
        "return written({**fields, LOCATIONS",
        "return bytes_of({**fields, LOCATIONS",
        OF_FOOTERS + "test_an_offset_that_does_not_fit_its_field_is_not_written",
    ),
    Mutant(
        "files of many columns take longer to copy than to decode",
        PASSING,
        "read_footer(stream, as_asked.most_footer_bytes(file.size_bytes))",
        "read_footer(stream)",
        JOBS + "test_files_of_many_columns_in_few_bytes_are_decoded",
    ),
    # What cannot be
    Mutant(
        "a part lies before the beginning",
        FOOTER,
        "part.start < len(MAGIC) or part.size < 0",
        "part.size < 0",
        LEADS_ELSEWHERE,
    ),
    Mutant(
        "wrong counts of nulls are copied",
        ASKED,
        "has_null_count and not is_counted(told):",
        "has_null_count and False:",
        CANNOT_BE,
    ),
    Mutant(
        "a manifest has a wrong count of nulls",
        STATISTICS,
        "and 0 <= told.null_count <= chunk.num_values",
        "",
        "parquet/test_statistics.py::test_a_count_of_nulls_is_told_where_it_can_be",
    ),
    Mutant(
        "an extreme of another length ends the process",
        ASKED,
        'column.length if physical == "FIXED_LEN_BYTE_ARRAY" else _SIZES.get(physical)',
        "_SIZES.get(physical)",
        CANNOT_BE,
    ),
    Mutant(
        "a histogram of another length ends the process",
        ASKED,
        "levels = {_REPETITIONS: column.max_repetition_level, _DEFINITIONS: column.max_definition_level}",
        "levels = dict[int, int]()",
        CANNOT_BE,
    ),
    Mutant(
        "a text that is none fails the job",
        ASKED,
        "except (pa.ArrowException, UnicodeDecodeError)",
        "except pa.ArrowException",
        CANNOT_BE,
    ),
    Mutant(
        "the name of a writer that is no text fails the job",
        ASKED,
        "str((told.created_by, told.schema))",
        "pass",
        CANNOT_BE,
    ),
    # The proof
    Mutant(
        "the sum does not see the pages",
        SUMS,
        "_add_part(one, stream, Part(start, column.total_compressed_size))",
        "pass",
        IN_PAGES,
    ),
    Mutant(
        "the sum does not see filters", SUMS, "_add_part(one, stream, chunk.bloom_filter)", "pass", IN_PAGES
    ),
    Mutant(
        "the sum does not see indexes of columns",
        SUMS,
        "_add_part(one, stream, chunk.column_index)",
        "pass",
        IN_PAGES,
    ),
    Mutant(
        "the sum does not see where pages lie by their index",
        SUMS,
        '_add(one, moved(index, -start) if index else b"")',
        "pass",
        IN_PAGES,
    ),
    Mutant(
        "the sum does not see what a footer says",
        SUMS,
        "for text in (*of_file, of_group, placeless(group)):",
        "for text in (*of_file, of_group):",
        IN_A_FOOTER,
    ),
)
