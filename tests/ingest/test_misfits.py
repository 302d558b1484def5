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
