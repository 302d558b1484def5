"""Mistakes in ingest: which column of a table a column of the source is."""

from mutants.mutant import Mutant

NAMES = "isotherm_ingest/tables/source_names.py"
OF_NAMES = "ingest/tables/test_source_names.py::"
FIT = "isotherm_ingest/tables/schema_fit.py"
OF_FIT = "ingest/tables/test_schema_fit.py::"
STATEMENT = "isotherm_ingest/decode/statement.py"
OF_KEYS = (
    "ingest/decode/test_changed_keys.py::"
    "test_a_key_and_a_row_may_have_the_names_that_the_table_calls_otherwise"
)
MESSAGES = "isotherm_ingest/decode/debezium_messages.py"
OF_BESIDE = (
    "ingest/decode/test_debezium_messages.py::"
    "test_a_value_that_went_into_a_column_beside_its_own_empties_that"
)

MUTANTS = (
    Mutant(
        "a name that a column had comes before what a stream says",
        NAMES,
        "for names in (self.declared, self.known):",
        "for names in (self.known, self.declared):",
        OF_NAMES + "test_a_stream_s_word_comes_first_then_the_table_s_then_a_schema_s",
    ),
    Mutant(
        "the values of a column go into another one that was once called so",
        NAMES,
        "mapped | {name.lower(): name for name in columns.values()}",
        "{name.lower(): name for name in columns.values()} | mapped",
        OF_NAMES + "test_a_column_of_that_name_comes_before_one_that_had_it",
    ),
    Mutant(
        "an alias takes the values of a column that is there",
        NAMES,
        "if alias.lower() not in own)",
        "if alias)",
        OF_NAMES + "test_an_alias_that_is_another_column_of_the_message_is_none",
    ),
    Mutant(
        "of two schemas that come together, each makes a column of its own",
        NAMES,
        "self.before.get(folded, name)",
        "name",
        OF_NAMES + "test_of_schemas_that_come_together_an_alias_counts_for_all",
    ),
    Mutant(
        "a name stands twice in a mapping, which Iceberg refuses",
        NAMES,
        'one["names"] = [name for name in one["names"] if str(name).lower() not in more]',
        'one["names"] = [*one["names"]]',
        OF_NAMES + "test_a_name_belongs_to_one_column",
    ),
    Mutant(
        "a column that a stream wants itself is renamed",
        NAMES,
        "if now is None or now.lower() in wanted or",
        "if now is None or",
        OF_NAMES + "test_no_column_is_renamed_that_a_stream_wants_for_another_name",
    ),
    Mutant(
        "of two columns of a message that are one of the table, one is lost",
        FIT,
        "!= own.name:",
        "is None:",
        OF_FIT + "test_two_columns_of_a_message_that_are_one_of_the_table_do_not_fit",
    ),
    Mutant(
        "what a stream once said is forgotten with it",
        FIT,
        "return self.saying(now, more), tuple(fitting), refused",
        "return now, tuple(fitting), refused",
        OF_FIT + "test_a_column_is_renamed_as_its_stream_says_and_the_table_keeps_its_old_name",
    ),
    Mutant(
        "a delete finds no row where the key's field has another name than the table's",
        STATEMENT,
        "folded = {schema.in_table(name).lower(): name for name in schema.key}",
        "folded = {name.lower(): name for name in schema.key}",
        OF_KEYS,
    ),
    Mutant(
        "a key that the messages tell by another name counts as hidden",
        STATEMENT,
        "told = {schema.in_table(name).lower() for name in schema.key}\n    keys",
        "told = {name.lower() for name in schema.key}\n    keys",
        OF_KEYS,
    ),
    Mutant(
        "columns of a key are taken apart by type",
        "isotherm_ingest/tables/misfits.py",
        "if not is_right and name.lower() not in stays:",
        "if not is_right:",
        "ingest/tables/test_misfits.py::test_columns_of_the_key_stay",
    ),
    Mutant(
        "a row keeps an old value beside the new one of another type",
        MESSAGES,
        "tuple(name for name in lacking if name not in dict(emptied))",
        "tuple(lacking)",
        OF_BESIDE,
    ),
    Mutant(
        "an unchanged large value is lost where the row has it in the other column",
        MESSAGES,
        "masks |= {name: masks[names[one]] for name, one in self.emptied if names[one] in masks}",
        "pass",
        OF_BESIDE,
    ),
)
