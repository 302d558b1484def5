"""Mistakes in what tables are made of."""

from mutants.mutant import Mutant

TEMPLATE = "isotherm_ingest/table_template.py"
OF_TABLE = "isotherm_ingest/tables/template.py"
BY = "ingest/test_table_template.py::"
MADE = "ingest/test_templates.py::"

MUTANTS = (
    Mutant(
        "two fields by time of one column stand in a spec",
        TEMPLATE,
        "if field.transform in TIME_TRANSFORMS:",
        "if False:",
        BY + "test_a_bad_template_is_refused_before_anything_is_read",
    ),
    Mutant(
        "properties of a stream by which nobody writes are found when the table is there",
        TEMPLATE,
        "if why := refused_property(value):",
        "if why := '':",
        BY + "test_a_bad_template_is_refused_before_anything_is_read",
    ),
    Mutant(
        "ingest's own properties win over those of a stream",
        TEMPLATE,
        "{**own, **version, **self.properties}",
        "{**self.properties, **own, **version}",
        BY + "test_what_a_stream_says_of_a_property_comes_before_what_ingest_says",
    ),
    Mutant(
        "a template names a column that the stream renames",
        TEMPLATE,
        "if column.lower() in called",
        "if column in ()",
        BY + "test_a_bad_template_is_refused_before_anything_is_read",
    ),
    Mutant(
        "a descending order has nulls first",
        "isotherm_ingest/sort_field.py",
        '"first" if direction == "ASC" else "last"',
        '"first"',
        BY + "test_a_field_of_a_sort_order_is_what_iceberg_takes_it_for",
    ),
    Mutant(
        "a key of identifier fields is not required",
        OF_TABLE,
        'f"{kind} NOT NULL" if column in identifiers else kind',
        "kind",
        BY + "test_columns_are_named_as_the_table_writes_them_and_a_key_is_required",
    ),
    Mutant(
        "a table is sorted by a list",
        OF_TABLE,
        "if columns[found].startswith(refused):",
        "if False:",
        BY + "test_what_only_the_first_message_tells_refuses_the_table_before_it_is_made",
    ),
    Mutant(
        "a table whose driver died before it was sorted is never sorted",
        "isotherm_ingest/tables/looking.py",
        "found = self._fit.finished(found, key)",
        "pass",
        MADE + "test_a_driver_that_died_between_making_and_sorting_a_table_is_followed_by_one_that_sorts_it",
    ),
    Mutant(
        "an empty table of somebody else is sorted",
        "isotherm_ingest/tables/schema_fit.py",
        "if now.head is not None or not is_ours:",
        "if now.head is not None:",
        MADE + "test_a_driver_that_died_between_making_and_sorting_a_table_is_followed_by_one_that_sorts_it",
    ),
)
