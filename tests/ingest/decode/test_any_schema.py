"""Any JSON where a schema is due: a message is refused, or it can be read."""

import json

import duckdb
import pyarrow as pa
import pytest

from isotherm_ingest.decode.debezium_messages import decoder
from isotherm_ingest.decode.debezium_schema import MAX_COST, change_schema
from isotherm_ingest.decode.kinds import MACROS, SchemaError, kind_of
from isotherm_ingest.decode.statement import Wanted
from support.wire import DATE, ID, MICROS, NANOS, ZONED, array, arrow, decimal, key, message, raw, typed

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


def of_columns(count, kind):
    fields = [ID, *({"field": f"c{number}", "optional": True, **kind} for number in range(count - 1))]
    return message(fields, after={"id": 1})


@pytest.mark.parametrize(
    ("count", "kind", "fits"),
    [
        (MAX_COST, typed("int32"), True),
        (MAX_COST + 1, typed("int32"), False),
        (MAX_COST // 2, array(DATE), True),
        (32, array(array(array(array(array(array(ZONED)))))), True),
        (33, array(array(array(array(array(array(ZONED)))))), False),
    ],
    ids=["numbers", "one more", "lists", "deep lists", "one more deep list"],
)
def test_a_schema_has_so_many_columns_and_a_list_counts_twice_what_is_in_it(count, kind, fits):
    """What DuckDB plans for them took minutes and gigabytes in each worker, and all tables waited."""
    text = of_columns(count, kind)
    if fits:
        assert len(change_schema(text.decode(), None).columns) == count
        return
    with pytest.raises(
        SchemaError, match=rf"^{count} columns cost as much as \d+, where {MAX_COST} is the most"
    ):
        change_schema(text.decode(), None)


@pytest.mark.parametrize("policy", ["dead_letter", "null", "clamp"])
@pytest.mark.parametrize("kind", [DATE, ZONED, MICROS, NANOS], ids=["date", "zoned", "micros", "nanos"])
def test_no_step_of_a_value_names_what_it_is_given_so_often_that_it_multiplies(kind, policy):
    """An expression that names one eight times that names another six times: 125 dates took each worker ten seconds."""
    sizes, given = [], "VARCHAR"
    for step in kind_of(kind).steps(policy):
        sizes.append(size_of(step("x"), given))
        given = "BIGINT"

    assert len(sizes) > 1
    assert max(sizes) < 40


def size_of(expression, given):
    """How many expressions DuckDB plans for one."""
    connection = duckdb.connect()
    for macro in MACROS:
        if "plain_number" not in macro and "without_exponent" not in macro:
            connection.execute(f"CREATE MACRO {macro}")
    sql = f"SELECT {expression} FROM (SELECT NULL::{given} AS x)"
    (plan,) = connection.execute("SELECT json_serialize_plan($1, optimize := false)", [sql]).fetchone()
    assert 'error":true' not in plan, plan
    return plan.count("expression_class")


def test_lists_that_are_nested_without_end_are_text():
    """What is planned for them grows with each by twice: thirty would take all memory there is."""
    nested = typed("int32")
    for _ in range(100):
        nested = array(nested)

    assert kind_of(nested).type == "ARRAY<" * 6 + "STRING" + ">" * 6
