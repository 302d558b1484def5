"""Whether the rows of a schema fit into a table, and which ALTERs make room."""

import pytest

from isotherm_ingest.decode.debezium import ChangeSchema, Column
from isotherm_ingest.decode.kinds import kind_of
from isotherm_ingest.sql.raw import Group
from isotherm_ingest.tables.schema_fit import changes_for


def group(**columns):
    named = tuple(Column(name, kind_of({"type": kind})) for name, kind in columns.items())
    return Group(
        "shop.public.orders",
        7,
        ChangeSchema(named, ("id",), "public", "orders", frozenset(), ("before", "after")),
    )


@pytest.mark.parametrize(
    ("columns", "message", "misfit", "changes"),
    [
        ({"id": "BIGINT"}, {"id": "int64"}, None, []),
        ({"ID": "BIGINT"}, {"id": "int64"}, None, []),
        ({"id": "BIGINT"}, {"id": "int32"}, None, []),
        ({"id": "INT"}, {"id": "int64"}, None, ["ALTER COLUMN `id` TYPE BIGINT"]),
        ({"a": "FLOAT"}, {"a": "double"}, None, ["ALTER COLUMN `a` TYPE DOUBLE"]),
        ({"id": "INT"}, {"id": "int32", "x`y": "string"}, None, ["ADD COLUMN `x``y` STRING"]),
        ({"id": "INT", "gone": "STRING"}, {"id": "int32"}, None, []),
        ({"id": "STRING"}, {"id": "int64"}, "column id is STRING in the table and BIGINT in the message", []),
        # What does not fit changes nothing, whatever else would.
        (
            {"id": "STRING"},
            {"new": "int32", "id": "int64"},
            "column id is STRING in the table and BIGINT in the message",
            [],
        ),
    ],
)
def test_a_column_is_added_or_widened_and_never_anything_else(columns, message, misfit, changes):
    assert changes_for(columns, group(**message)) == (misfit, changes)
