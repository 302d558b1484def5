"""The newest change of each key, held against a plain dict."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm_ingest.decode.debezium_messages import CHANGE, KEPT
from isotherm_ingest.workers.newest import flags_of, newest, waited
from isotherm_ingest.workers.tasks import TableTask
from isotherm_ingest.workers.writing import filled

THEN = datetime(2024, 1, 1, tzinfo=UTC)
NAN = float("nan")
ROW = pa.struct(
    [("id", pa.int64()), ("real", pa.float64()), ("note", pa.large_string()), ("list", pa.list_(pa.int64()))]
)

texts = st.sampled_from(["a", "b", None])
lists = st.sampled_from([[1], [], [None, 2], None])
one = st.fixed_dictionaries(
    {"id": st.integers(1, 3), "real": st.sampled_from([0.0, 1.5, NAN]), "note": texts, "list": lists,
     "op": st.sampled_from(["c", "u", "d"]), "kept": st.sets(st.sampled_from(["note", "list"]))}
)  # fmt: skip


def changes(rows, order):
    """Changes at these offsets."""
    row = pa.array(
        [{name: None if name in each["kept"] else each[name] for name in ROW.names} for each in rows], ROW
    )
    about = [
        (
            each["op"],
            THEN,
            1,
            "t",
            0,
            offset,
            json.dumps(sorted(each["kept"])) if each["kept"] else None,
            None,
            None,
            False,
        )
        for each, offset in zip(rows, order, strict=True)
    ]
    return pa.table({"row": row, "change": pa.array(about, CHANGE)})


def test_columns_that_the_same_changes_keep_cost_as_much_as_one():
    """Of a table with a thousand columns, each that a schema lacked was a part of the statement: 3 GB for 500 messages."""
    many = [f"c{place}" for place in range(1000)]
    sets = [["a", *many], many, None, ["a"]]
    kept = pa.array([None if one is None else json.dumps(one) for one in sets], KEPT)

    found = flags_of(kept, ["c0"])
    assert [(len(names), flag.to_pylist()) for names, flag in found] == [
        (1, [True, False, False, True]),
        (999, [True, True, False, False]),
    ]


def named(value):
    return "nan" if value != value else value  # noqa: PLR0124 (so NaN is told)


def folded(rows, order):
    """By key, what a dict holds after all changes: the row, or None; and which values only the table knows."""
    state = {}
    for _, each in sorted(zip(order, rows, strict=True), key=lambda pair: pair[0]):
        key = each["id"], named(each["real"])
        # Of a row of which nothing was said yet, the table knows all; of one that was deleted, nobody knows anything.
        old = state.get(key, {"note": None, "list": None, "unknown": {"note", "list"}})
        old = old or {"note": None, "list": None, "unknown": set()}
        if each["op"] == "d":
            state[key] = None
            continue
        kept = each["kept"]
        values = {name: old[name] if name in kept else each[name] for name in ("note", "list")}
        state[key] = {**values, "unknown": old["unknown"] & kept}
    return state


@given(st.lists(one, min_size=1, max_size=12), st.randoms())
def test_it_is_what_a_dict_holds(rows, dice):
    order = dice.sample(range(100), len(rows))
    found = newest(changes(rows, order), ("id", "real"))
    expected = folded(rows, order)

    told = {}
    for place, row in enumerate(found.rows.to_pylist()):
        unknown = {name for name, flags in found.kept.items() if flags[place].as_py()}
        is_gone = found.is_gone[place].as_py()
        told[row["id"], named(row["real"])] = None if is_gone else {
            "note": row["note"], "list": row["list"], "unknown": unknown,
        }  # fmt: skip
    assert told == {
        key: row and {name: row[name] for name in ("note", "list", "unknown")}
        for key, row in expected.items()
    }
    assert found.must_wait == any(row and row["unknown"] for row in told.values())
    assert found.written().rows.num_rows == sum(row is not None for row in told.values())


def test_rows_that_wait_get_the_values_and_the_ids_of_those_in_whose_place_they_come():
    rows = [
        {"id": 1, "real": NAN, "note": "new", "list": None, "op": "u", "kept": {"list"}},
        {"id": 2, "real": 0.0, "note": None, "list": None, "op": "u", "kept": {"note", "list"}},
        {"id": 3, "real": 0.0, "note": "first", "list": [9], "op": "c", "kept": set()},
    ]
    packed = newest(changes(rows, range(3)), ("id", "real")).waiting()
    task = TableTask("a.b", "", {}, ("id", "real", "note", "list"), {}, key=("id", "real"))
    old = pa.table(
        {
            "k0": [2, 1, 1], "k1": [0.0, NAN, NAN], "o0": ["kept", "x", "double"],
            "o1": pa.array([[4], None, [7]], pa.list_(pa.int64())), "o2": [20, 10, 11],
        }
    )  # fmt: skip
    found = filled(task, packed, old, ("note", "list", "_row_id"))

    assert sorted(found.select(["id", "note", "list", "_row_id"]).to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "note": "new", "list": None, "_row_id": 10},
        {"id": 2, "note": "kept", "list": [4], "_row_id": 20},
        {"id": 3, "note": "first", "list": [9], "_row_id": None},
    ]


@pytest.mark.parametrize("name", ["note", "is gone"])
def test_rows_that_wait_come_back_as_they_were_whatever_their_columns_are_called(name):
    """Rows were taken for gone, and the batch was committed without them."""
    rows = [
        {"id": 1, "real": 0.0, "note": None, "list": [1], "op": "u", "kept": {"note", "list"}},
        {"id": 2, "real": 0.0, "note": "x", "list": None, "op": "d", "kept": set()},
        {"id": 3, "real": 0.0, "note": "y", "list": None, "op": "u", "kept": {"list"}},
    ]
    found = newest(changes(rows, range(3)), ("id", "real"))
    new = {one: name if one == "note" else one for one in ROW.names}
    found = replace(
        found,
        rows=found.rows.rename_columns(new),
        kept={new[one]: mask for one, mask in found.kept.items()},
    )

    back = waited(found.waiting(), len(ROW.names))
    assert back.rows.equals(found.rows)
    assert (back.is_gone, back.kept) == (found.is_gone, found.kept)
