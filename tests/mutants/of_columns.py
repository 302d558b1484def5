"""Mistakes in ingest: which column of a table a column of the source is."""

from mutants.mutant import Mutant

NAMES = "isotherm_ingest/tables/source_names.py"
OF_NAMES = "ingest/tables/test_source_names.py::"
FIT = "isotherm_ingest/tables/schema_fit.py"
OF_FIT = "ingest/tables/test_schema_fit.py::"
MISFITS = "isotherm_ingest/tables/misfits.py"
OF_MISFITS = "ingest/tables/test_misfits.py::"
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
        "names that are swapped in the lake swap the values of their columns",
        NAMES,
        "{name.lower(): name for name in columns.values()}\n        | {name: columns[number] for name, number in kept.items()}",
        "{name: columns[number] for name, number in kept.items()}\n        | {name.lower(): name for name in columns.values()}",
        OF_NAMES + "test_names_that_are_swapped_or_used_again_in_the_lake_are_followed_by_id",
    ),
    Mutant(
        "a column that is gone keeps its name from one that comes",
        NAMES,
        "for name, number in _kept(properties).items() if number in columns}",
        "for name, number in _kept(properties).items()}",
        OF_NAMES + "test_a_stream_s_word_comes_first_then_the_table_s_then_a_schema_s",
    ),
    Mutant(
        "an alias moves a name away from its column",
        NAMES,
        "if alias not in names.declared and alias not in names.known:",
        "if alias not in names.declared:",
        OF_NAMES + "test_a_name_stays_with_its_column_until_that_is_gone_or_a_stream_says_otherwise",
    ),
    Mutant(
        "what a stream says of a name is lost with its line where the name was another column's",
        NAMES,
        "names.kept.get(name) != number",
        "name not in names.kept",
        OF_NAMES + "test_a_name_stays_with_its_column_until_that_is_gone_or_a_stream_says_otherwise",
    ),
    Mutant(
        "a new name of the lake is the source's for good",
        NAMES,
        "if number not in are_known and name not in names.kept",
        "if name not in names.kept",
        OF_NAMES + "test_a_new_name_of_the_lake_is_none_of_the_source_before_a_message_has_it",
    ),
    Mutant(
        "a stream's word renames a changelog's own column",
        NAMES,
        "if one.name not in own and",
        "if",
        OF_NAMES + "test_columns_that_are_not_the_source_s_have_no_name_of_it",
    ),
    Mutant(
        "a column of the source is written into one that holds what did not fit into another",
        NAMES,
        "return free_name(called, self.there) if called.lower() in self.misfits else called",
        "return called",
        OF_NAMES + "test_a_column_of_the_source_is_never_one_that_stands_beside_another",
    ),
    Mutant(
        "aliases without end make metadata without end",
        NAMES,
        "[: max(room, 0)]",
        "[:]",
        OF_NAMES + "test_the_names_that_are_kept_are_bounded_and_those_of_columns_come_first",
    ),
    Mutant(
        "a name of a message means the column beside its own for good",
        FIT,
        "met.append(given.schema)",
        "met.append(group.schema)",
        OF_FIT + "test_what_does_not_fit_gets_a_column_that_says_so_in_the_alter_that_adds_it",
    ),
    Mutant(
        "a column for what does not fit does not say so",
        FIT,
        """{said.get(name, '')}" for name""",
        """" for name""",
        OF_FIT + "test_what_does_not_fit_gets_a_column_that_says_so_in_the_alter_that_adds_it",
    ),
    Mutant(
        "a column of a batch is written into one that came for what does not fit",
        FIT,
        "brought = {column.name.lower() for group in groups for column in group.columns}",
        "brought = set()",
        OF_FIT + "test_what_does_not_fit_gets_a_column_that_says_so_in_the_alter_that_adds_it",
    ),
    Mutant(
        "a column that was named for a type counts as one beside another",
        MISFITS,
        '_OF_COLUMN.match(column.doc or "")',
        '_OF_COLUMN.search(column.doc or "")',
        OF_MISFITS + "test_which_column_stands_beside_which_is_in_its_doc_by_id",
    ),
    Mutant(
        "what does not fit gets a new column after one was renamed",
        MISFITS,
        "if other == there)",
        "if one == _name_beside(there, wanted))",
        OF_MISFITS + "test_the_column_beside_is_told_by_its_doc_whatever_it_is_called",
    ),
    Mutant(
        "what does not fit goes into a column of the source with that name",
        MISFITS,
        "fitting = free_name(_name_beside(there, wanted), taken)",
        "fitting = _name_beside(there, wanted)",
        OF_MISFITS + "test_the_column_beside_is_told_by_its_doc_whatever_it_is_called",
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
        "return self._saying_names(now, met), tuple(fitting), refused",
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
        MISFITS,
        "widened(kind, wanted) or name.lower() in stays:",
        "widened(kind, wanted):",
        OF_MISFITS + "test_columns_of_the_key_stay",
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
