"""What is learned of a topic from one message: not from one whose source is garbage, where there is another."""

import json

import pytest

from isotherm_ingest.batches.table_names import table_name
from isotherm_ingest.decode.debezium_json import DebeziumJson
from isotherm_ingest.decode.debezium_schema import ChangeSchema, SourceError, names_a_table, source_of
from isotherm_ingest.decode.declared_json import DeclaredJson
from isotherm_ingest.decode.formats import Format
from support.messages import envelope

GOOD = {"schema": "public", "table": "orders"}
BAD = [{}, {"table": ""}, {"table": "\ud800", "schema": "public"}, {"table": {"a": 1}}, {"table": "a\0"}]


def with_schema(source: object) -> bytes:
    message = json.loads(envelope("orders", ("id", "int64")))
    message["payload"]["source"] = source
    return json.dumps(message).encode()


def bare(source: object) -> bytes:
    return json.dumps({"op": "c", "source": source, "after": {"id": 1}}).encode()


@pytest.mark.parametrize("source", BAD)
@pytest.mark.parametrize(
    ("form", "written"),
    [(DebeziumJson(), with_schema), (DeclaredJson((("id", "BIGINT"),), True, "ignore"), bare)],
    ids=["with schemas", "without"],
)
def test_a_garbage_source_is_no_sample_where_there_is_another(form: Format, written, source: object) -> None:
    """A table would be named for it, or none, and all other messages of the topic would be dead letters until a restart."""
    messages = [(written(source), None, None), (written(GOOD), None, None)]

    found = form.sample(messages)
    alone = form.sample(messages[:1])

    assert found is not None
    assert form.schema(*found).source_table == "orders"
    assert alone is not None


@pytest.mark.parametrize("source", [*BAD[2:], {"schema": 7, "table": "orders"}])
def test_names_that_are_no_texts_name_no_table(source: dict[str, object]) -> None:
    assert not names_a_table(source)
    schema = ChangeSchema((), (), *source_of(source), frozenset(), ())
    with pytest.raises(SourceError, match="a change says it comes from is no name"):
        table_name("shop.{schema}.{table}", "topic", schema)

    assert table_name("shop.orders", "topic", schema) == "shop.orders"
