"""Truncates in the workers: told once, and then known to all of them, whoever has read what is of before."""

from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField, StringType

from isotherm.parquet.table_description import described
from isotherm_ingest.batches.fan_out import done_of, is_lost, new_of, truncates_of
from isotherm_ingest.plan.truncates import Emptied
from isotherm_ingest.workers.decoding import Decoding
from isotherm_ingest.workers.newest import newest
from isotherm_ingest.workers.survey import merged, survey_of
from isotherm_ingest.workers.tasks import CHANGES, COUNT, LETTERS, SURVEY, BatchTask, TableTask, rows_of
from isotherm_ingest.workers.writing import lost_values, write
from support.examples import examples
from support.wire import ID, PLACEHOLDER, decoder_of, from_kafka, message, number_of

ORDERS = "shop.public.orders"
NAMED = [ID, {"field": "name", "type": "string"}]
DESCRIPTION = described(
    new_table_metadata(
        Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType())),
        UNPARTITIONED_PARTITION_SPEC,
        UNSORTED_SORT_ORDER,
        "file:///w/t",
    )
)
TRUNCATE = message(NAMED, op="t")


def put(number, name, op="c"):
    return message(NAMED, op=op, after={"id": number, "name": name})


def told(emptied, *values, first=0):
    """What one task of a batch reports."""
    route = ORDERS, number_of(TRUNCATE)
    decoders = {route: decoder_of(NAMED)}
    name = "shop.orders"
    table = TableTask(name, DESCRIPTION, {}, ("id", "name"), decoders, key=("id",), emptied=emptied)
    task = BatchTask({name: table}, {route: (name,)}, {})
    return table, list(Decoding(task).lines([from_kafka(*values, first=first)]))


def of(lines, kind):
    return [one for one in lines if one.kind == kind]


def told_of(lines, kind):
    return [row for one in of(lines, kind) for row in rows_of(one.body).to_pylist()]


def rows(lines):
    found = told_of(lines, CHANGES)
    return sorted((row["change"]["offset"], row["row"]["id"], row["row"]["name"]) for row in found)


def test_a_truncate_is_told_until_it_is_known_and_what_is_of_before_it_is_left_out():
    values = [put(1, "old"), TRUNCATE, put(2, "between"), TRUNCATE, put(1, "new")]
    _, lines = told(Emptied(), *values)
    assert truncates_of(lines) == {(ORDERS, 0): 3}
    _, lines = told(Emptied({(ORDERS, 0): 1}), *values)
    assert truncates_of(lines) == {(ORDERS, 0): 3}

    _, lines = told(Emptied({(ORDERS, 0): 3}), *values)
    assert new_of(truncates_of(lines), {(ORDERS, 0): 3}) == {}
    assert not is_lost(truncates_of(lines), {(ORDERS, 0): 3})
    assert rows(lines) == [(4, 1, "new")]
    # The truncate is a change like others: a batch of nothing else is committed, too.
    assert [survey_of(one.data()).rows for one in of(lines, SURVEY)] == [2]


def test_a_truncate_that_is_gone_when_it_is_read_again_is_missed():
    _, lines = told(Emptied({(ORDERS, 0): 3}), put(1, "a"), put(2, "b"), put(3, "c"), put(4, "d"))

    assert is_lost(truncates_of(lines), {(ORDERS, 0): 3})


def test_another_worker_leaves_out_what_is_of_before_it_too():
    known = Emptied({(ORDERS, 0): 7})
    _, lines = told(known, *(put(number, "n") for number in range(5)), first=4)

    assert rows(lines) == [(7, 3, "n"), (8, 4, "n")]
    _, lines = told(Emptied({(ORDERS, 1): 7, ("other", 0): 7}), put(1, "n"))
    assert rows(lines) == [(0, 1, "n")]


def test_bad_messages_of_before_a_truncate_are_told_all_the_same():
    _, lines = told(Emptied({(ORDERS, 0): 1}), put(1, "n").replace(b'"id":1', b'"id":"x"'), TRUNCATE)

    assert [row["problem"] for row in told_of(lines, LETTERS)] == ["undecodable_value:id"]


def test_where_its_order_is_not_known_it_is_a_letter_and_nothing_is_left_out():
    _, lines = told(Emptied(why_not="two partitions"), put(1, "n"), TRUNCATE, put(2, "n"))

    assert truncates_of(lines) == {}
    assert rows(lines) == [(0, 1, "n"), (2, 2, "n")]
    (letter,) = told_of(lines, LETTERS)
    assert (letter["offset"], letter["problem"]) == (1, "truncate_unordered:two partitions")
    assert [one.data() for one in of(lines, COUNT)] == [1]


def test_a_large_value_that_was_in_a_row_that_is_gone_is_told():
    known = Emptied({(ORDERS, 0): 1})
    values = [put(1, "large"), TRUNCATE, put(1, PLACEHOLDER, "u"), put(2, "told")]
    table, lines = told(known, *values)
    changes = rows_of(of(lines, CHANGES)[0].body)

    assert lost_values(table, newest(changes, ("id",))) == {"name"}
    first = next(one for one in write(replace(table, is_empty=True), changes) if one.kind == SURVEY)
    assert done_of([first], list, lambda *_: None).survey.untold == {"name"}


@examples(100)
@given(
    st.lists(st.tuples(st.sampled_from("ccuddt"), st.integers(1, 4), st.booleans()), min_size=1, max_size=30),
    st.integers(1, 4),
)
def test_whoever_reads_what_the_rows_are_those_of_a_table_in_plain_python(changes, tasks):
    values, expected = [], {}
    for place, (op, number, is_large) in enumerate(changes):
        if op == "t":
            expected.clear()
            values.append(TRUNCATE)
        elif op == "d":
            expected.pop(number, None)
            values.append(message(NAMED, op="d", before={"id": number, "name": None}))
        elif op == "u" and is_large:
            expected.setdefault(number, None)  # of a row that is not there nobody knows the value
            values.append(put(number, PLACEHOLDER, "u"))
        else:
            expected[number] = f"n{place}"
            values.append(put(number, f"n{place}", op))
    size = -(-len(values) // tasks)
    parts = [(first, values[first : first + size]) for first in range(0, len(values), size)]
    newest_truncate = truncates_of(
        line for first, some in parts for line in told(Emptied(), *some, first=first)[1]
    )
    known = Emptied(newest_truncate)
    lines = [line for first, some in parts for line in told(known, *some, first=first)[1]]
    bodies = [rows_of(one.body) for one in of(lines, CHANGES)]

    assert truncates_of(lines) == newest_truncate
    assert merged(survey_of(one.data()) for one in of(lines, SURVEY)).rows > 0
    there = newest(pa.concat_tables(bodies), ("id",)).written().rows.to_pylist() if bodies else []
    assert {row["id"]: row["name"] for row in there} == expected
