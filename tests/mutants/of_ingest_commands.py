"""Mistakes in what ingest's commands say."""

from mutants.mutant import Mutant

STANDING = "isotherm_ingest/commands/standing.py"
STATUS = "isotherm_ingest/commands/status.py"
OF_STANDING = "ingest/commands/test_standing.py::"
FIT = "isotherm_ingest/commands/table_fit.py"
OF_FIT = "ingest/commands/test_table_fit.py::"
SCHEMAS = "isotherm_ingest/commands/registry_schemas.py"
OF_SCHEMAS = "ingest/commands/test_registry_schemas.py::"

MUTANTS = (
    Mutant(
        "a status counts what was seen through and had nothing for the table as waiting",
        STANDING,
        "needs = {one: at.next[one] for one in at.next if one in needs or one in at.vector}",
        "needs = dict(at.vector)",
        OF_STANDING + "test_what_waits_is_counted_from_where_the_table_goes_on",
    ),
    Mutant(
        "a status says nothing of a table that the driver's batches go past",
        STANDING,
        "passed += max(min(mark.through, end) - needed(one, needs, seen), 0)",
        "passed += 0",
        OF_STANDING + "test_what_the_topic_was_read_past_without_the_table_is_told",
    ),
    Mutant(
        "a status takes a table that is being brought up for one that nobody writes",
        STANDING,
        "if is_silent and any(",
        "if any(",
        OF_STANDING + "test_messages_that_wait_for_long_are_told_where_nothing_was_committed_for_as_long",
    ),
    Mutant(
        "a status takes partitions without a young message for young",
        STANDING,
        "and (first < 0 or needs < first)",
        "and needs < first",
        OF_STANDING + "test_messages_that_wait_for_long_are_told_where_nothing_was_committed_for_as_long",
    ),
    Mutant(
        "a status says that retention comes near where nothing was ever dropped",
        STANDING,
        "if 0 < start < end:",
        "if start < end:",
        OF_STANDING + "test_retention_that_comes_near_is_told",
    ),
    Mutant(
        "a status forgets a halt that the marks tell",
        STANDING,
        "if lacks or (known is not None and known.is_halted):",
        "if lacks:",
        OF_STANDING + "test_a_table_that_marks_call_halted_stays_so_until_somebody_decides",
    ),
    Mutant(
        "a status asks for somebody where a stream fills the hole by itself",
        STANDING,
        'lacks = "; ".join(map(str, halted))',
        'lacks = "; ".join(map(str, (*halted, *holes)))',
        OF_STANDING + "test_what_a_stream_fills_or_accepts_is_told_and_asks_for_nobody",
    ),
    Mutant(
        "a status calls another's table fine",
        STANDING,
        "refuse_anothers(now, table.token, of_table, pipeline, owner.on_hole)",
        "pass",
        OF_STANDING + "test_another_s_rows_are_refused",
    ),
    Mutant(
        "dead letters ask for somebody for as long as their topic keeps them",
        STATUS,
        "if one.sent_ms > now_ms - LETTERS_MATTER_MS",
        "if one.sent_ms > 0",
        OF_STANDING + "test_dead_letters_count_for_the_tables_of_their_topic_and_ask_for_somebody_for_a_day",
    ),
    Mutant(
        "validate says of a schema that it fits beside one that has widened the column meanwhile",
        "isotherm_ingest/tables/schema_fit.py",
        "            kinds[name] = column.kind.type\n    return",
        "            pass\n    return",
        OF_FIT + "test_what_would_be_added_widened_and_refused_is_told_in_the_order_in_which_it_comes",
    ),
    Mutant(
        "validate has a refused schema bring its columns",
        FIT,
        "if misfit is None:",
        "if True:",
        OF_FIT + "test_a_refused_schema_brings_nothing",
    ),
    Mutant(
        "validate says nothing of a key whose column is gone",
        FIT,
        "refuse_without(name, key, columns.table.kinds)",
        "pass",
        OF_FIT + "test_a_table_that_a_driver_would_refuse_is_refused",
    ),
    Mutant(
        "validate takes messages of another topic for rows of a mirror",
        FIT,
        "names.called(group.schema)) for group in groups if group not in others",
        "names.called(group.schema)) for group in groups",
        OF_FIT + "test_messages_of_another_topic_than_a_mirror_s_are_refused",
    ),
    Mutant(
        "validate needs a key of Avro where a driver needs none",
        SCHEMAS,
        "        except SchemaError:\n            pass",
        "        except SchemaError:\n            raise",
        OF_SCHEMAS + "test_a_key_that_has_no_fields_counts_as_none",
    ),
    Mutant(
        "validate says of no level that it is unsafe",
        SCHEMAS,
        "if level != SAFE",
        "if not level",
        OF_SCHEMAS + "test_a_table_is_named_by_the_name_of_the_schema_and_its_key_is_that_of_the_keys",
    ),
    Mutant(
        "a registry that does not know one schema keeps validate from learning all others",
        "isotherm_ingest/commands/topic_schemas.py",
        "            trouble = str(err)  # of one;",
        "            return (), str(err)  # of one;",
        "ingest/commands/test_topic_schemas.py::test_of_avro_the_schemas_are_fetched_and_one_that_is_unknown_is_told",
    ),
)
