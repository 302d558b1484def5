"""Mistakes in ingest: what messages of each format say, and what may be learned from them."""

from mutants.mutant import Mutant

ROUTING = "isotherm_ingest/batches/routing.py"
AVRO = "isotherm_ingest/decode/avro.py"
MACRO = 'f"CREATE MACRO {macro}"'
SCHEMAS = "isotherm_ingest/batches/schemas.py"
OF_AVRO_STREAMS = "ingest/batches/test_avro_streams.py::"
COLUMNS = "isotherm_ingest/decode/avro_columns.py"
OF_AVRO = "ingest/decode/test_avro_values.py::"
OF_GARBAGE = "ingest/batches/test_garbage_sources.py::"

MUTANTS = (
    Mutant(
        "a source that is garbage in one task speaks for the good ones of another",
        ROUTING,
        "if not form.says_all(found[one][0]) and form.says_all(value):",
        "if False:",
        OF_GARBAGE + "test_a_garbage_source_is_a_dead_letter_alone",
    ),
    Mutant(
        "a source that is garbage in the first group of a task speaks for those behind it",
        "isotherm_ingest/workers/decoding.py",
        "self._samples[route] = not is_whole",
        "self._samples[route] = False",
        OF_GARBAGE + "test_a_garbage_source_is_a_dead_letter_alone",
    ),
    Mutant(
        "an Avro message whose source is garbage speaks for those beside it",
        AVRO,
        "if not self.has_envelope or names_a_table(source):",
        "if True:",
        OF_GARBAGE + "test_a_garbage_source_is_a_dead_letter_alone",
    ),
    Mutant(
        "a table is named for a source that says none",
        "isotherm_ingest/batches/table_names.py",
        "if is_nameless or not",
        "if not",
        OF_GARBAGE + "test_a_garbage_source_is_a_dead_letter_alone",
    ),
    Mutant(
        "an old row that has nothing but defaults deletes another row, where one is bytes",
        "isotherm_ingest/decode/avro_kinds.py",
        'return base64.b64encode(default.encode("latin-1", "replace")).decode()',
        "return None",
        "ingest/decode/test_avro.py::test_an_old_row_that_has_nothing_but_defaults_deletes_no_other_row",
    ),
    Mutant(
        "a decimal of sixteen digits and an exponent is the double that is near it",
        "isotherm_ingest/decode/database.py",
        MACRO,
        "\"CREATE MACRO \" + macro.replace('|[0-9.]{16}[eE]', '')",
        "ingest/decode/test_declared_json.py::"
        "test_a_decimal_is_exact_however_many_digits_and_whatever_exponent_it_has",
    ),
    Mutant(
        "an id that a stray message had days ago is not waited for",
        "isotherm_ingest/registry.py",
        "if now_s - asked_s >= FORGOTTEN_AFTER_S:",
        "if False:",
        "ingest/test_registry.py::test_an_id_that_was_wanted_long_ago_has_its_time_again",
    ),
    Mutant(
        "the id that is wanted loses its time to others",
        "isotherm_ingest/registry.py",
        "self._unknown_s[number] = since_s, now_s",
        "self._unknown_s = {number: (since_s, now_s), **self._unknown_s}",
        "ingest/test_registry.py::test_very_many_unknown_ids_forget_none_that_is_wanted_now",
    ),
    Mutant(
        "a delete that has nothing but its key is lost while a replica of the registry is behind",
        SCHEMAS,
        "if not place or needs_key or deletes:",
        "if not place or needs_key:",
        OF_AVRO_STREAMS + "test_a_delete_that_has_nothing_but_its_key_waits_for_the_schema_of_it",
    ),
    Mutant(
        "a delete behind messages that need no key is lost while a replica is behind",
        AVRO,
        'return bool(told["deletes"])',
        "return True",
        OF_AVRO_STREAMS + "test_a_delete_waits_also_where_it_comes_in_a_later_group_or_another_task",
    ),
    Mutant(
        "an id that was unknown for five minutes is no key until a restart",
        SCHEMAS,
        "_keep(self._no_keys, topic, number, isinstance(err, StillUnknownError))",
        "_keep(self._no_keys, topic, number, False)",
        OF_AVRO_STREAMS
        + "test_an_id_of_keys_that_was_unknown_for_long_is_one_as_soon_as_the_registry_knows_it",
    ),
    Mutant(
        "lists in lists take a worker's time and memory, twice with each level",
        COLUMNS,
        "_levels(node) <= MAX_DEPTH",
        "True",
        OF_AVRO + "test_what_would_take_gigabytes_to_read_at_once_is_read_one_by_one",
    ),
    Mutant(
        "a record of sixteen thousand fields takes a worker eleven gigabytes",
        COLUMNS,
        "return 0 < len(node.names) <= MAX_FIELDS",
        "return 0 < len(node.names)",
        OF_AVRO + "test_what_would_take_gigabytes_to_read_at_once_is_read_one_by_one",
    ),
    Mutant(
        "messages of nulls take a worker a thousand times their bytes",
        COLUMNS,
        "return MOST_BYTES // max(_width(node), 1)",
        "return 10_000_000",
        OF_AVRO + "test_what_would_take_gigabytes_to_read_at_once_is_read_one_by_one",
    ),
    Mutant(
        "attributes of a schema are copied wherever their record is named",
        "isotherm_ingest/decode/avro_schema.py",
        "return {name: schema[name] for name in SAID if name in schema}",
        "return dict(schema)",
        "ingest/decode/test_avro_schema.py::test_attributes_that_mean_nothing_are_not_kept",
    ),
    Mutant(
        "of Avro nobody is told that a null list may be an unchanged one",
        "isotherm_ingest/decode/avro_kinds.py",
        "return tells_items(kind, str(name))",
        "return tells_items(kind, None)",
        "ingest/decode/test_avro.py::test_whether_a_null_list_may_be_an_unchanged_one_is_told_as_of_json",
    ),
    Mutant(
        "one symbol that is none has thousands of messages read again",
        COLUMNS,
        "ELSE '{no_symbol}' END",
        "ELSE error('{no_symbol}') END",
        OF_AVRO + "test_a_symbol_that_is_none_has_no_other_message_read_again",
    ),
    Mutant(
        "a symbol that is none is a text that nobody wrote",
        COLUMNS,
        "pc.if_else(is_none, None, found).to_pylist()",
        "found.to_pylist()",
        OF_AVRO + "test_what_is_no_value_is_refused_also_where_a_reader_would_make_something_of_it",
    ),
    Mutant(
        "unknown ids of a topic wait one after the other",
        "isotherm_ingest/batches/driver.py",
        "return 0 if isinstance(error, RegistryAwayError) else count_of(ranges)",
        "return count_of(ranges)",
        OF_AVRO_STREAMS + "test_a_topic_that_waits_for_the_registry_is_read_in_no_smaller_pieces",
    ),
    Mutant(
        "a registry that answers slowly holds all topics",
        "isotherm_ingest/registry.py",
        "if self._slow_s >= SLOW_FOR_S:",
        "if False:",
        "ingest/test_registry.py::"
        "test_a_registry_that_answers_slowly_takes_a_share_of_the_time_and_not_all_of_it",
    ),
    Mutant(
        "of a slow registry the same ids are asked for again and again, and others never",
        ROUTING,
        "key=lambda one: self._asked.get(one, 0)",
        "key=lambda one: 0",
        OF_AVRO_STREAMS + "test_a_slow_registry_is_asked_for_all_ids_in_turn",
    ),
    Mutant(
        "a time with more digits than a double has becomes the next second",
        "isotherm_ingest/decode/declared_types.py",
        'is_exact=unit != "ns"',
        "is_exact=False",
        "ingest/decode/test_declared_types.py::"
        "test_a_time_with_more_digits_than_a_double_has_is_the_same_as_a_number_and_as_a_text",
    ),
    Mutant(
        "documents are lost while a replica of the registry does not know the schema of their keys",
        AVRO,
        "if _are_documents(self.schemas[number]):\n            return True",
        "if False:\n            return True",
        "ingest/decode/databases/test_mongodb.py::test_the_schema_of_a_document_s_key_is_waited_for",
    ),
    Mutant(
        "a change is a dead letter alone, and a row among many, for what nobody reads of it",
        AVRO,
        "one if name in wanted else passed_over(one)",
        "one",
        "ingest/decode/test_avro.py::test_what_nobody_reads_of_a_change_is_the_same_alone_and_among_many",
    ),
)
