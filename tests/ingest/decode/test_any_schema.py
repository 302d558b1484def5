"""Any JSON where a schema is due: a message is refused, or it can be read."""

import json

import pyarrow as pa

from isotherm_ingest.decode.debezium_messages import decoder
from isotherm_ingest.decode.debezium_schema import change_schema
from isotherm_ingest.decode.kinds import SchemaError, kind_of
from isotherm_ingest.decode.statement import Wanted
from support.wire import array, arrow, decimal, key, message, raw, typed

JUNK = [None, 7, float("inf"), "", "other", "\0", "\ud800", [], {}, {"type": "array", "items": 7}]


def nodes(tree, path=()):
    """Every place in a JSON document."""
    yield path
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, value in inner:
        yield from nodes(value, (*path, name))


def replaced(tree, path, value):
    if not path:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = replaced(tree[path[0]], path[1:], value)
    return copy


def test_whatever_stands_in_a_schema_it_is_refused_or_its_messages_can_be_read():
    """One message that nobody foresaw would stop the driver, and all tables."""
    fields = [{"field": "id", "type": "int64"}, {"field": "x", **array(array(decimal(1, 5)))}]
    good, good_key = (json.loads(one) for one in (message(fields, after={"id": 1, "x": [[]]}), key(id=1)))
    texts = [
        *(
            (json.dumps(replaced(good, path, junk)), key(id=1).decode())
            for path in nodes(good)
            for junk in JUNK
        ),
        *(
            (json.dumps(good), json.dumps(replaced(good_key, path, junk)))
            for path in nodes(good_key)
            for junk in JUNK
        ),
    ]
    read = 0
    for text, key_text in texts:
        try:
            schema = change_schema(text, key_text)
        except SchemaError:
            continue
        columns = pa.schema([(one.name, arrow(one.kind.type)) for one in schema.columns])
        found = decoder(schema, columns, Wanted(tuple(columns.names), schema.key, keeps=True))
        read += found.decode(raw(text.encode(), keys=[key_text.encode()])).num_rows

    assert 100 < read < len(texts)


def test_lists_that_are_nested_without_end_are_text():
    """What is planned for them grows with each by twice: thirty would take all memory there is."""
    nested = typed("int32")
    for _ in range(100):
        nested = array(nested)

    assert kind_of(nested).type == "ARRAY<" * 6 + "STRING" + ">" * 6
