"""Which table a change goes to."""

import pytest

from isotherm.contract.identity import levels_of
from isotherm_ingest.batches.table_names import may_be, table_name
from isotherm_ingest.decode.debezium_schema import ChangeSchema


@pytest.mark.parametrize(
    ("source_table", "levels"),
    [
        ("orders", ("raw", "public", "orders")),
        ("a%2Eb", ("raw", "public", "a%2Eb")),
        ("a.b", ("raw", "public", "a", "b")),
    ],
)
def test_a_source_chooses_no_dot_within_a_level(source_table, levels):
    schema = ChangeSchema((), (), "public", source_table, frozenset(), ())
    name = table_name("raw.{schema}.{table}", "topic", schema)

    assert levels_of(name) == levels
    assert may_be("raw.{schema}.{table}", name) is (len(levels) == 3)
