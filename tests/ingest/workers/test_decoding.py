"""The first half of the job: each message goes to its table's decoder, to the dead letters, or is a sample."""

import json
import pickle
from dataclasses import replace

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.types import DecimalType, IntegerType, LongType, NestedField, StringType

from isotherm.parquet.table_description import described
from isotherm_ingest.decode.debezium_json import DebeziumJson
from isotherm_ingest.decode.debezium_messages import decoder
from isotherm_ingest.decode.declared_json import DeclaredJson
from isotherm_ingest.decode.routed import Routed
from isotherm_ingest.decode.statement import Wanted
from isotherm_ingest.workers.decoding import SAMPLES, Decoding
from isotherm_ingest.workers.raw_messages import Sorter
from isotherm_ingest.workers.survey import survey_of
from isotherm_ingest.workers.tasks import (
    CHANGES,
    COUNT,
    ERROR,
    LETTERS,
    NO_TABLE,
    SAMPLE,
    SURVEY,
    BatchTask,
    TableTask,
    rows_of,
)
from support.wire import ID, base64_of, decimal, decoder_of, from_kafka, key, message, number_of

NAMED = [ID, {"field": "name", "type": "string"}]
ORDERS = "shop.public.orders"
WHOLE = described(
    new_table_metadata(
        Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType())),
        UNPARTITIONED_PARTITION_SPEC,
        UNSORTED_SORT_ORDER,
        "file:///w/t",
    )
)
"""A table that is not divided."""
HEADERS = '[{"key":"__debezium.oldkey","value":"AA=="}]'


def table(decoders, **more):
    return TableTask("shop.orders", WHOLE, {}, ("id", "name"), decoders, key=("id",), **more)


def task(*fields, problems=None, **more):
    """For messages of some schemas, all of one table."""
    routes = {(ORDERS, number_of(message(one))): one for one in fields}
    table_of = {"id": "BIGINT", "name": "STRING"}
    decoders = {route: decoder_of(one, table=table_of) for route, one in routes.items()}
    made = BatchTask(
        {"shop.orders": table(decoders, **more)}, dict.fromkeys(routes, ("shop.orders",)), problems or {}
    )
    return pickle.loads(pickle.dumps(made))  # noqa: S301 (our own; it travels to the workers)


def played(task, *batches):
    lines = list(Decoding(task).lines(batches))
    return {kind: [one for one in lines if one.kind == kind] for kind in {one.kind for one in lines}}


def rows(lines):
    found = [row for one in lines for row in rows_of(one.body).to_pylist()]
    return sorted((row["change"]["offset"], row["row"]["id"], row["row"]["name"]) for row in found)


def letters(lines):
    found = [row for one in lines for row in rows_of(one.body).to_pylist()]
    return {row["offset"]: row["problem"].partition(":")[0] for row in found}


def own_of_debezium(name, **payload):
    schema = {"type": "struct", "fields": [{"type": "string", "field": one} for one in payload], "name": name}
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def test_what_debezium_says_of_itself_is_passed_over_wherever_it_stands():
    """A topic may be called `transaction`, and hold the rows of a table."""
    values = [
        own_of_debezium("io.debezium.connector.common.TransactionMetadataValue", status="BEGIN", id="571"),
        own_of_debezium("io.debezium.connector.mysql.SchemaChangeValue", ddl="CREATE TABLE orders"),
        own_of_debezium("io.debezium.connector.common.Heartbeat", ts_ms="5"),
        own_of_debezium("shop.orders.Envelope", ts_ms="5"),
        message(NAMED, after={"id": 4, "name": "m"}),
    ]
    found = played(task(NAMED), from_kafka(*values))

    assert rows(found[CHANGES]) == [(4, 4, "m")]
    assert list(letters(found[LETTERS])) == [3]


def test_each_message_goes_to_the_decoder_of_its_topic_and_schema():
    values = [
        message(NAMED, after={"id": 0, "name": "n"}),
        message([ID], after={"id": 1}),
        None,
        message([ID]).replace(b'"id":1', b'"id":"one"'),
        message(NAMED, after={"id": 4, "name": "m"}),
    ]
    found = played(task(NAMED, [ID]), from_kafka(*values), from_kafka(), from_kafka(values[4], first=5))

    assert rows(found[CHANGES]) == [(0, 0, "n"), (1, 1, None), (4, 4, "m"), (5, 4, "m")]
    assert list(letters(found[LETTERS])) == [3]
    assert [one.data() for one in found[COUNT]] == [1]
    assert [survey_of(one.data()).rows for one in found[SURVEY]] == [4]


def test_a_topic_of_another_format_is_read_as_that_says_and_what_is_no_such_message_is_a_letter():
    events = DeclaredJson((("id", "BIGINT"),), has_envelope=False)
    values = [b'{"id":1}', None, b"garbage", message([ID])]
    (group, *none) = Sorter({ORDERS: events}).groups(from_kafka(*values))
    route = ORDERS, group.schema
    row = pa.schema([("id", pa.int64()), ("name", pa.string())])
    decoders = {
        route: decoder(events.schema(*group.sample()), row, Wanted(("id", "name"), ("id",), keeps=True))
    }
    told = BatchTask({"shop.orders": table(decoders)}, {route: ("shop.orders",)}, {}, {ORDERS: events})
    found = played(pickle.loads(pickle.dumps(told)), from_kafka(*values))  # noqa: S301 (it travels to the workers)

    assert none == []
    assert rows(found[CHANGES]) == [(0, 1, None)]
    assert letters(found[LETTERS]) == {2: "undecodable", 3: "null_key"}
    unknown = BatchTask({}, {}, {}, {ORDERS: events})
    assert [one.data()[:3] for one in played(unknown, from_kafka(*values))[SAMPLE]] == [[*route, '{"id":1}']]
    assert letters(played(unknown, from_kafka(b"[]"))[LETTERS]) == {0: "undecodable"}


def test_what_the_table_has_is_left_out_and_no_letter_of_it_is_sent_again():
    values = [message([ID], after={"id": number}) for number in range(3)]
    values.insert(1, message([ID], after={"id": None}))
    found = played(task([ID], from_offsets={(ORDERS, 0): 2}), from_kafka(*values))

    assert rows(found[CHANGES]) == [(2, 1, None), (3, 2, None)]
    assert LETTERS not in found


def test_of_a_topic_with_many_schemas_so_many_are_told_at_once():
    """What is not told is no letter: the batch is read again with what was learned."""
    values = [message([{**ID, "version": version}]) for version in range(SAMPLES + 20)]
    found = played(task(), from_kafka(*values), from_kafka(*values[:3], topic=f"{ORDERS}_2"))

    told = [one.data()[:2] for one in found[SAMPLE]]
    assert [topic for topic, _ in told] == [ORDERS] * SAMPLES + [f"{ORDERS}_2"] * 3
    assert len({number for _, number in told[:SAMPLES]}) == SAMPLES
    assert LETTERS not in found


def test_of_messages_that_nobody_knows_one_is_a_sample_and_what_is_none_is_a_letter():
    cut = message(NAMED, after={"id": 1, "name": "n"})[:-9]
    values = [cut, message(NAMED, after={"id": 2, "name": "n"}), message(NAMED), b"garbage", b"{}"]
    found = played(task([ID]), from_kafka(*values), from_kafka(cut, first=5))

    (one,) = found[SAMPLE]
    topic, number, value, of_key = one.data()
    assert (topic, number, value.encode(), of_key.encode()) == (
        ORDERS,
        number_of(values[1]),
        values[1],
        key(id=1),
    )
    # What is of the schema of a sample is read again, when it is known.
    assert letters(found[LETTERS]) == {3: "no_schema", 4: "no_schema"}
    assert {one.table for one in found[LETTERS]} == {NO_TABLE}
    assert letters(played(task([ID]), from_kafka(cut))[LETTERS]) == {0: "undecodable"}


def test_samples_come_in_the_order_of_their_messages():
    """A table is made for the first of them."""
    values = [message([ID, {"field": f"c{place}", "type": "string"}]) for place in range(6)]
    found = played(task([ID]), from_kafka(*values))

    assert [one.data()[2].encode() for one in found[SAMPLE]] == values


def test_messages_of_no_table_are_letters_with_the_reason_and_unwanted_ones_are_left():
    other = message(NAMED, after={"id": 1, "name": "n"})
    found = played(
        task([ID], problems={(ORDERS, number_of(other)): "no_stream:no stream has this topic"}),
        from_kafka(other),
    )
    assert letters(found[LETTERS]) == {0: "no_stream"}

    unwanted = BatchTask({}, {(ORDERS, number_of(other)): ()}, {})
    assert played(unwanted, from_kafka(other)) == {}


def test_a_schema_that_does_not_fit_sends_its_messages_to_the_letters_of_the_table():
    route = (ORDERS, number_of(message([ID])))
    refused = BatchTask(
        {"shop.orders": table({}, refused={route: "incompatible_schema:why"})}, {route: ("shop.orders",)}, {}
    )
    found = played(refused, from_kafka(message([ID], after={"id": 1})))

    assert letters(found[LETTERS]) == {0: "incompatible_schema"}
    assert found[LETTERS][0].table == "shop.orders"


def test_a_schema_for_which_the_table_would_be_altered_gives_a_sample_where_a_message_has_it():
    route = (ORDERS, number_of(message(NAMED)))
    has = {(ORDERS, 0): 1}
    waiting = BatchTask({"shop.orders": table({}, from_offsets=has)}, {route: ("shop.orders",)}, {})
    cut, whole = message(NAMED)[:-9], message(NAMED, after={"id": 1, "name": "n"})
    found = played(waiting, from_kafka(cut, cut), from_kafka(whole, first=2))

    assert [one.data()[:2] for one in found[SAMPLE]] == [list(route)]
    assert played(waiting, from_kafka(whole)) == {}
    # What can be none is a letter of the table, as what a decoder does not read.
    assert [(one.table, letters([one])) for one in found[LETTERS]] == [("shop.orders", {1: "undecodable"})]


def test_what_breaks_for_one_table_is_said_of_it():
    route = (ORDERS, number_of(message([ID])))
    broken = BatchTask({"shop.orders": table({route: None})}, {route: ("shop.orders",)}, {})
    found = played(
        broken,
        from_kafka(message([ID], after={"id": 1})),
        from_kafka(message([ID], after={"id": 1}), first=1),
    )

    assert [one.table for one in found[ERROR]] == ["shop.orders"]


def test_all_changes_of_a_key_come_to_one_task():
    values = [message([ID], after={"id": number % 10}) for number in range(100)]
    found = played(task([ID], buckets=4), from_kafka(*values[:50]), from_kafka(*values[50:], first=50))

    buckets = {}
    for one in found[CHANGES]:
        for row in rows_of(one.body).to_pylist():
            buckets.setdefault(row["row"]["id"], set()).add(one.bucket)
    assert {len(found) for found in buckets.values()} == {1}
    assert len(set.union(*buckets.values())) > 1


def test_all_changes_of_a_partition_of_a_changelog_come_to_one_task(tmp_path):
    """Also where it is cut by what it says of each change."""
    catalog = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}"
    )
    catalog.create_namespace("shop")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "_op", StringType()))
    by_op = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "op"))
    made = catalog.create_table("shop.log", schema, partition_spec=by_op)
    route = (ORDERS, number_of(message([ID])))
    decoders = {route: decoder_of([ID], table={"id": "BIGINT"}, keeps=False)}
    log = TableTask("shop.log", described(made.metadata), {}, ("id", "_op"), decoders, buckets=64)
    values = [message([ID], op=op, after={"id": number}) for number, op in enumerate("crucru")]
    found = played(BatchTask({"shop.log": log}, {route: ("shop.log",)}, {}), from_kafka(*values))

    ops = [{row["change"]["op"] for row in rows_of(one.body).to_pylist()} for one in found[CHANGES]]
    assert sorted(map(sorted, ops)) == [["c"], ["r"], ["u"]]
    assert len({one.bucket for one in found[CHANGES]}) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (message([ID]), message(NAMED)),
        (message([ID]), json.dumps(json.loads(message([ID])), indent=1).encode()),
        (b'{"payload":{"op":"c"},"schema":{"a":1}}', b'{"payload":{"op":"c"},"schema":{"a":2}}'),
    ],
    ids=["columns", "spaces", "payload first"],
)
def test_schemas_are_told_apart_wherever_they_stand(one, other):
    assert number_of(one) == number_of(one) != number_of(other)


def test_a_number_says_the_same_for_every_payload():
    first, second = message([ID], after={"id": 1}), message([ID], after={"id": 2}, op="u")

    assert number_of(first) == number_of(second)
    backwards = b'{"payload":{"op":"%s"},"schema":{"a":1}}'
    assert number_of(backwards % b"c") == number_of(backwards % b"u")


def test_an_insert_that_came_by_a_change_of_the_key_is_told():
    value = message([ID], after={"id": 1})
    (group,) = Sorter().groups(from_kafka(value, value, value, headers=[None, HEADERS, '[{"key":"trace"}]']))

    assert group.to_decode().column("moved").to_pylist() == [False, True, False]


def test_a_key_is_decoded_where_a_delete_may_need_it():
    values = [message([ID], after={"id": 1}), message([ID], op="d")]
    (group,) = Sorter().groups(from_kafka(*values))

    assert group.to_decode().column("key_text").to_pylist() == [None, key(id=1)]
    assert group.sample() == (values[0].decode(), key(id=1).decode())


def cut(column, kind, width):
    """A table that is divided by the truncated values of a column."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, column, kind))
    spec = PartitionSpec(PartitionField(2, 1000, TruncateTransform(width), "part"))
    return described(new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, "file:///w/t"))


def divided(fields, kind, ddl, **more):
    """For a table that is divided by the truncated values of its second column."""
    made = task(fields)
    (route,) = made.routes
    decoder = decoder_of(fields, table={"id": "BIGINT", "value": ddl}, **more)
    one = made.tables["shop.orders"]
    one = replace(one, description=cut("value", kind, 10), decoders={route: decoder})
    return replace(made, tables={"shop.orders": one})


@pytest.mark.parametrize(
    ("field", "kind", "ddl", "values", "lost"),
    [
        ({"type": "int32"}, IntegerType(), "INT", [-(2**31), -(2**31) + 7, -(2**31) + 8, 0, None], [0, 1]),
        ({"type": "int64"}, LongType(), "BIGINT", [-(2**63), -(2**63) + 7, -(2**63) + 8, 2**63 - 1, None], [0, 1]),
        (
            decimal(2, 10), DecimalType(10, 2), "DECIMAL(10,2)",
            [base64_of(-9_999_999_999), base64_of(-9_999_999_990), base64_of(9_999_999_999), base64_of(0), None], [0],
        ),
    ],
    ids=["int", "bigint", "decimal"],
)  # fmt: skip
def test_a_value_that_no_partition_can_hold_is_a_letter_alone(field, kind, ddl, values, lost):
    """The rows beside it are written. Its table could not be committed, or hid the row from whoever looks for it."""
    fields = [ID, {"field": "value", "optional": True, **field}]
    messages = [message(fields, after={"id": number, "value": value}) for number, value in enumerate(values)]
    messages.insert(1, b"garbage")
    found = played(divided(fields, kind, ddl), from_kafka(*messages))

    told = letters(found[LETTERS])
    offsets = [number if number == 0 else number + 1 for number in lost]
    assert [offset for offset, problem in told.items() if problem == "no_partition"] == offsets
    written = {row["row"]["id"] for one in found[CHANGES] for row in rows_of(one.body).to_pylist()}
    assert written == set(range(len(values))) - set(lost)


LOW = -(2**31)
NUMBERED = [ID, {"field": "value", "type": "int32", "optional": True}]


def test_where_no_partition_can_hold_any_of_the_rows_there_are_letters_and_nothing_to_write():
    values = [message(NUMBERED, after={"id": number, "value": LOW}) for number in range(2)]

    found = played(divided(NUMBERED, IntegerType(), "INT"), from_kafka(*values))

    assert letters(found[LETTERS]) == {0: "no_partition", 1: "no_partition"}
    assert CHANGES not in found
    assert ERROR not in found
    assert [survey_of(one.data()).rows for one in found[SURVEY]] == [0]


def test_a_row_that_goes_needs_no_partition():
    """It stays for ever otherwise: the value that no partition can hold came after the one that the mirror has."""
    gone = message(NUMBERED, op="d", before={"id": 7, "value": LOW})

    found = played(divided(NUMBERED, IntegerType(), "INT"), from_kafka(gone))

    (change,) = [row for one in found[CHANGES] for row in rows_of(one.body).to_pylist()]
    assert (change["row"]["id"], change["change"]["op"]) == (7, "d")
    assert LETTERS not in found


def test_a_message_that_says_no_table_is_a_letter_of_none_and_bookkeeping_is_passed_over():
    fields = [ID, {"field": "region", "type": "string"}]
    begin = message(fields, after={"id": 1}).replace(
        b'{"schema":{', b'{"schema":{"name":"io.debezium.connector.x.Heartbeat",', 1
    )
    values = [
        message(fields, after={"id": 1, "region": "eu"}),
        begin,
        message(fields, after={"id": 2, "region": None}),
        b"nothing",
        message(fields, after={"id": 3, "region": "us"}),
    ]
    form = Routed(DebeziumJson(), "shop.{field:region}", ORDERS)
    routed = BatchTask({}, {}, {}, {ORDERS: form})
    found = played(pickle.loads(pickle.dumps(routed)), from_kafka(*values))  # noqa: S301 (it travels to the workers)

    assert letters(found[LETTERS]) == {2: "no_route", 3: "no_schema"}
    assert {one.table for one in found[LETTERS]} == {NO_TABLE}
    told = [form.schema(value, key).named for _, _, value, key in (one.data() for one in found[SAMPLE])]
    assert told == [(("field:region", "eu"),), (("field:region", "us"),)]


def of_both(*values, mirror=None, log=None, **more):
    """Lines of a mirror and a changelog of the same messages."""
    route = (ORDERS, number_of(message(NAMED)))
    table_of = {"id": "BIGINT", "name": "STRING"}
    tables = {
        "shop.orders": table({route: decoder_of(NAMED, table=table_of)}, **(mirror or {})),
        "shop.log": replace(
            table({route: decoder_of(NAMED, table=table_of, keys=(), keeps=False, **more)}, **(log or {})),
            name="shop.log",
            key=(),
        ),
    }
    return played(BatchTask(tables, {route: ("shop.orders", "shop.log")}, {}), from_kafka(*values))


def told_by(lines):
    return sorted(
        (one.table, row["offset"], row["problem"]) for one in lines for row in rows_of(one.body).to_pylist()
    )


def test_a_message_that_two_tables_have_is_in_both_and_one_that_neither_can_have_is_one_letter():
    values = [message(NAMED, after={"id": number, "name": "n"}) for number in range(3)]
    bad = message(NAMED)[:-9]
    found = of_both(values[0], bad, values[1], bad, values[2])

    assert {one.table: rows([one]) for one in found[CHANGES]} == {
        name: [(0, 0, "n"), (2, 1, "n"), (4, 2, "n")] for name in ("shop.orders", "shop.log")
    }
    why = "undecodable:the payload does not fit its schema"
    assert told_by(found[LETTERS]) == [("shop.orders", 1, why), ("shop.orders", 3, why)]
    assert {one.table: one.data() for one in found[COUNT]} == {"shop.orders": 2, "shop.log": 0}


def test_a_message_that_only_one_of_two_tables_can_have_is_a_letter_that_names_the_other():
    """A mirror needs a key, and a changelog here a name. What stands below a table's vector is no letter of it."""
    values = [
        message(NAMED, after={"id": None, "name": "n"}),
        message(NAMED, after={"id": 1, "name": None}),
        message(NAMED, after={"id": None, "name": None}),
        message(NAMED, op="m"),
    ]
    found = of_both(*values, required=frozenset({"name"}))

    assert told_by(found[LETTERS]) == [
        ("shop.log", 1, "null_value:name (of shop.log)"),
        ("shop.orders", 0, "null_key:id (of shop.orders)"),
        ("shop.orders", 2, "null_key:id"),
        ("shop.orders", 3, "unsupported_op:m"),
    ]
    behind = of_both(*values, required=frozenset({"name"}), mirror={"from_offsets": {(ORDERS, 0): 4}})
    assert {(name, offset) for name, offset, _ in told_by(behind[LETTERS])} == {
        ("shop.log", 1), ("shop.log", 2), ("shop.log", 3),
    }  # fmt: skip


def test_one_of_two_tables_that_cannot_be_decoded_leaves_the_other():
    value = message(NAMED, after={"id": 1, "name": "n"})
    route = (ORDERS, number_of(value))
    good = table({route: decoder_of(NAMED, table={"id": "BIGINT", "name": "STRING"})})
    broken = replace(table({route: None}), name="shop.log")
    both = BatchTask({"shop.log": broken, "shop.orders": good}, {route: ("shop.log", "shop.orders")}, {})
    found = played(both, from_kafka(value))

    assert [one.table for one in found[ERROR]] == ["shop.log"]
    assert rows(found[CHANGES]) == [(0, 1, "n")]
