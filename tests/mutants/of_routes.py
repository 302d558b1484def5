"""Mistakes in which table a message goes to that says so itself."""

from mutants.mutant import Mutant

ROUTED = "isotherm_ingest/decode/routed.py"
OF = "ingest/decode/test_routed.py::"
LIMITS = "isotherm_ingest/batches/table_limits.py"
OWNERS = "isotherm_ingest/batches/owners.py"
IN_BATCHES = "ingest/batches/test_routed_streams.py::"
ORACLE = OF + "test_whatever_is_said_each_message_comes_out_once_and_where_it_says"
WHERE = OF + "test_a_change_goes_where_its_row_is_and_a_delete_where_the_old_row_or_the_key_says"
NO_NAME = OF + "test_what_is_no_name_goes_nowhere_alone_and_says_why"

MUTANTS = (
    Mutant(
        "a delete goes where its key says, though it has an old row",
        ROUTED,
        'elif old_type not in {None, "NULL"}:',
        "elif False:",
        WHERE,
    ),
    Mutant(
        "what PostgreSQL leaves out names a table",
        ROUTED,
        "if value == UNAVAILABLE:",
        "if False:",
        NO_NAME,
    ),
    Mutant(
        "an update that leaves the field out goes nowhere, though its old row says where",
        ROUTED,
        "old if after[1] == UNAVAILABLE and old[1] is not None else after",
        "after",
        WHERE,
    ),
    Mutant(
        "a text of any length names a table",
        ROUTED,
        "if len(name) > LONGEST else",
        "if False else",
        NO_NAME,
    ),
    Mutant(
        "messages of one schema are of one table, whatever they say",
        ROUTED,
        "(*identity, *name),",
        "identity,",
        OF + "test_each_name_is_a_route_of_its_own_beside_the_schema",
    ),
    Mutant(
        "of two source tables that look alike the second one's changes go to the first one's table",
        ROUTED,
        "values[part] = source[part]",
        'values[part] = ""',
        ORACLE,
    ),
    Mutant(
        "once there are enough tables, workers ask for further ones all the same",
        ROUTED,
        "if name not in self.tables:",
        "if False:",
        OF + "test_where_no_further_table_is_made_only_those_that_are_there_get_messages",
    ),
    Mutant(
        "a message that says no table asks the driver again and again",
        "isotherm_ingest/workers/decoding.py",
        "if group.problem is not None:",
        "if False:",
        "ingest/workers/test_decoding.py::"
        "test_a_message_that_says_no_table_is_a_letter_of_none_and_bookkeeping_is_passed_over",
    ),
    Mutant(
        "bookkeeping of Debezium is a dead letter where messages are read for their table",
        "isotherm_ingest/workers/decoding.py",
        "if not group.is_bookkeeping():\n                yield self._letter(NO_TABLE, group.rows, group.problem)",
        "yield self._letter(NO_TABLE, group.rows, group.problem)",
        "ingest/workers/test_decoding.py::"
        "test_a_message_that_says_no_table_is_a_letter_of_none_and_bookkeeping_is_passed_over",
    ),
    Mutant(
        "an id in place of a region makes a table for each message",
        LIMITS,
        "if name not in tables and len(tables) >= stream.tables_at_most:",
        "if False:",
        IN_BATCHES + "test_beyond_the_limit_no_table_is_made_and_the_others_go_on",
    ),
    Mutant(
        "each restart has room for as many tables again",
        LIMITS,
        "return {name for name in names if may_be(stream.table, name)}",
        "return set()",
        IN_BATCHES + "test_what_the_catalog_has_counts_and_is_always_written",
    ),
    Mutant(
        "a table that could not be made yet counts for none after a restart",
        LIMITS,
        "tables.update(begun)",
        "pass",
        IN_BATCHES + "test_a_table_that_was_begun_and_could_not_be_made_yet_counts_too",
    ),
    Mutant(
        "a value of a field chooses a table of another stream",
        OWNERS,
        "not (stream.source_parts or stream.fields)",
        "not stream.source_parts",
        IN_BATCHES + "test_a_value_chooses_no_table_of_another_stream",
    ),
    Mutant(
        "a row of a mirror stays in the table of its old value",
        "isotherm_ingest/batches/table_names.py",
        "and field.lower() not in keys:",
        "and False:",
        IN_BATCHES + "test_a_row_of_a_mirror_can_leave_its_table_only_by_its_key",
    ),
    Mutant(
        "a mirror of events keeps a row in two tables",
        "isotherm_ingest/table_naming.py",
        "if one.lower() not in folded]",
        "if False]",
        "ingest/test_stream_formats.py::test_a_bad_stream_is_refused_with_place_and_remedy",
    ),
)
