"""Values of a type that their column cannot become: a column beside it has them."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from support.changes import COLUMNS, Source, latest
from support.ingest_lab import Lab
from support.wire import PLACEHOLDER

pytestmark = [pytest.mark.spark, pytest.mark.stack]
STREAMS = r"""
  - topics: NS\.public\.(orders|lines)
    table: NS.{table}
    misfits: column
  - topics: NS\.public\.payments
    table: NS.{table}
    mode: changelog
    misfits: column
"""
KINDS = {
    "paid": COLUMNS["paid"],
    "paid__string": COLUMNS["name"],
    "paid__array_string": COLUMNS["tags"],
}
"""By column of the table, what the source has in `paid`."""
VALUES: dict[str, list[Any]] = {
    "paid": [True, False, None],
    "paid__string": ["yes", "", None],
    "paid__array_string": [["a", None], [], None],
}


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    lab.make_topics("orders", "lines", "payments")
    yield lab
    lab.close()


def sources_of(table: str) -> dict[str, Source]:
    return {one: Source(table, {**COLUMNS, "paid": kind}) for one, kind in KINDS.items()}


def placed(row: dict[str, Any], column: str) -> dict[str, Any]:
    """A row as the table has it: one of the columns has a value."""
    return {**row, **dict.fromkeys(KINDS), column: row["paid"]}


@pytest.mark.parametrize("seed", range(2))
def test_a_row_has_its_value_where_the_newest_change_put_it(lab: Lab, seed: int) -> None:
    """Types come and go; an unchanged large text stays where it is. Judged by a fold in plain Python."""
    choose = random.Random(seed)
    sources = sources_of("orders")
    rows: dict[int, dict[str, Any]] = {}
    for turn in range(5):
        for _ in range(15):
            column, number = choose.choice(list(KINDS)[: 1 + turn]), choose.randrange(6)
            source, value = sources[column], choose.choice(VALUES[column])
            if number in rows and column == "paid__string" and choose.random() < 0.4:
                source.rows[number] = {name: rows[number].get(name) for name in COLUMNS}
                lab.send("orders", source.update(number, paid=PLACEHOLDER, name=f"kept {turn}"))
                rows[number] = {**rows[number], "name": f"kept {turn}"}
            elif number in rows and choose.random() < 0.2:
                source.rows[number] = dict.fromkeys(COLUMNS) | {"id": number}
                lab.send("orders", source.delete(number))
                del rows[number]
            else:
                lab.send("orders", source.insert(number, paid=value))
                rows[number] = placed(source.rows[number], column)
        lab.ingest()
        if choose.random() < 0.4:
            lab.again()

    assert latest(rows.values()) == latest(lab.rows("orders"))
    assert lab.dead() == []


def test_a_changelog_has_each_value_in_its_column(lab: Lab) -> None:
    expected = []
    for number, (column, source) in enumerate(sources_of("payments").items()):
        lab.send("payments", source.insert(number, paid=VALUES[column][0]))
        expected.append(placed(source.rows[number], column))
        lab.ingest()

    told = [{name: row[name] for name in {**COLUMNS, **KINDS}} for row in lab.rows("payments")]
    assert latest(expected) == latest(told)


def change_streams(lab: Lab, **options: Any) -> None:
    """The driver is started again with other options in all streams."""
    streams = tuple(one.model_copy(update=options) for one in lab.config.streams)
    lab.config = lab.config.model_copy(update={"streams": streams})
    lab.again()


def told_of(lab: Lab, *names: str) -> dict[str, Any]:
    (row,) = lab.rows("orders")
    return {name: row[name] for name in names}


@pytest.mark.parametrize(
    ("renames", "streams", "base", "text"),
    [
        ({"paid": "settled"}, {}, "settled", "paid__string"),
        ({"paid__string": "paid_text"}, {}, "paid", "paid_text"),
        ({"paid": "x", "paid__string": "paid", "x": "paid__string"}, {}, "paid__string", "paid"),
        ({}, {"names": {"settled": ("paid",)}}, "settled", "paid__string"),
    ],
    ids=["the column", "the one beside it", "they are swapped", "by the stream"],
)
def test_a_row_has_one_of_its_values_whoever_renames_columns(
    lab: Lab, renames: dict[str, str], streams: dict[str, Any], base: str, text: str
) -> None:
    sources = sources_of("orders")
    lab.send("orders", sources["paid"].insert(1, paid=True))
    lab.ingest()
    lab.send("orders", sources["paid__string"].insert(1, paid="yes"))
    lab.ingest()
    for old, new in renames.items():
        lab.spark.sql(f"ALTER TABLE lake.{lab.name}.orders RENAME COLUMN {old} TO {new}")
    change_streams(lab, **streams)
    lab.send("orders", sources["paid"].insert(1, paid=False))
    lab.ingest()
    assert told_of(lab, base, text) == {base: False, text: None}
    lab.send("orders", sources["paid__string"].insert(1, paid="no"))
    lab.ingest()

    assert told_of(lab, base, text) == {base: None, text: "no"}
    assert set(lab.rows("orders")[0]) == {*COLUMNS, base, text} - ({"paid"} - {base, text})


def test_a_column_of_the_source_that_is_named_for_a_type_is_one_of_its_own(lab: Lab) -> None:
    """Also after the stream says no more that misfits have columns: those that are there keep no old value."""
    both = Source("orders", {**COLUMNS, "paid__string": COLUMNS["name"]})
    sources = sources_of("orders")
    lab.send("orders", both.insert(1, paid=True, paid__string="how it was paid"))
    lab.ingest()
    sources["paid"].insert(1, paid=True)
    lab.send("orders", sources["paid"].update(1, paid=False))
    lab.ingest()
    assert told_of(lab, "paid", "paid__string") == {"paid": False, "paid__string": "how it was paid"}
    sources["paid__string"].insert(1, paid="")
    lab.send("orders", sources["paid__string"].update(1, paid="yes"))
    lab.ingest()
    names = ("paid", "paid__string", "paid__string_2")
    assert told_of(lab, *names) == dict(zip(names, (None, "how it was paid", "yes"), strict=True))
    change_streams(lab, misfits="dead_letter")
    lab.send("orders", sources["paid"].update(1, paid=True))
    lab.ingest()

    assert told_of(lab, *names) == dict(zip(names, (True, "how it was paid", None), strict=True))
    assert lab.dead() == []


def test_a_key_and_what_takes_no_null_must_fit(lab: Lab) -> None:
    source = Source("lines")
    lab.send("lines", source.insert(1, paid=True))
    lab.ingest()
    now = lab.lake.load(f"{lab.name}.lines")
    assert now is not None
    with now.table.update_schema(allow_incompatible_changes=True) as change:
        change.update_column("name", required=True)
    for name, kind in (("id", COLUMNS["name"]), ("name", COLUMNS["paid"])):
        other = Source("lines", {**COLUMNS, name: kind})
        lab.send("lines", other.insert(2, **{name: "x" if name == "id" else True}))
    lab.send("lines", source.insert(3))
    lab.ingest()

    assert [1, 3] == sorted(row["id"] for row in lab.rows("lines"))
    assert set(lab.rows("lines")[0]) == set(COLUMNS)
    assert [b"incompatible_schema"] * 2 == [one.headers["isotherm.reason"] for one in lab.dead()]
