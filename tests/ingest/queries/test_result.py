"""Which columns the table of a query can have."""

import pytest

from isotherm_ingest.failures import TableRefused
from isotherm_ingest.queries.result import changes_of, columns_of, is_like


def test_types_are_those_of_iceberg():
    found = [("id", "smallint"), ("at", "timestamp"), ("sum", "decimal(10,2)"), ("tags", "array<string>")]

    assert columns_of("a.b", found, ["id"]) == {
        "id": "INT", "at": "TIMESTAMP", "sum": "DECIMAL(10,2)", "tags": "ARRAY<STRING>",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([("id", "int"), ("ID", "int")], "two columns 'id'"),
        ([("id", "int"), ("_POS", "int")], "column '_POS' of a.b has the name of one of Iceberg's own"),
        ([("x", "int")], "key column 'id' is no column of the query of a.b: ['x']"),
        ([("id", "double")], "key column 'id' of a.b is DOUBLE, by which no row is found surely"),
        ([("id", "array<int>")], "key column 'id' of a.b is ARRAY<INT>"),
        ([("id", "int"), ("m", "map<string,int>")], "column 'm' of a.b is map<string,int>: say `to_json(m)`"),
        ([("id", "int"), ("n", "void")], "column 'n' of a.b is void"),
    ],
)
def test_what_no_table_can_have_is_refused_with_what_to_say(found, words):
    with pytest.raises(TableRefused) as refused:
        columns_of("a.b", found, ["id"])
    assert words in str(refused.value)


def test_a_table_follows_its_query_where_it_can():
    there = {"id": "INT", "Gone": "STRING", "n": "BIGINT"}

    assert changes_of("a.b", there, {"ID": "BIGINT", "n": "INT", "x`y": "DATE"}) == [
        "ADD COLUMNS (`x``y` DATE)",
        "ALTER COLUMN `id` TYPE BIGINT",
    ]
    assert changes_of("a.b", there, {"id": "INT"}) == []
    with pytest.raises(TableRefused, match=r"column 'gone' of a\.b is STRING there and INT in its query"):
        changes_of("a.b", there, {"gone": "INT"})


@pytest.mark.parametrize(
    ("found", "wanted", "told"),
    [("int", "BIGINT", True), ("bigint", "INT", True), ("smallint", "INT", True), ("string", "STRING", True),
     ("timestamp", "DATE", False), ("string", "BIGINT", False), ("decimal(10,2)", "DECIMAL(12,2)", True),
     ("decimal(10,2)", "DECIMAL(10,3)", False), ("timestamp_ntz", "TIMESTAMP", False)],
)  # fmt: skip
def test_keys_of_another_kind_are_told(found, wanted, told):
    assert is_like(found, wanted) == told
