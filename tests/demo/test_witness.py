"""A witness that has missed something says so for good, and goes on looking: what it shows must not stand still."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from isotherm.demo.lake import Rows, local_path
from isotherm.demo.witness import LOOKS, SeenTable, Witness

NAME = "shop.orders"


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}


@pytest.fixture
def catalog(properties: dict[str, str]) -> Catalog:
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("shop")
    catalog.create_table(NAME, Schema(NestedField(1, "id", LongType(), required=False)))
    return catalog


@pytest.fixture
def witness(properties: dict[str, str]) -> Witness:
    """One that looks when it is told to; nothing listens."""
    return Witness(properties, "127.0.0.1:1", "isotherm.control", seed=1)


@pytest.fixture
def look(catalog: Catalog, witness: Witness) -> Iterator[Callable[[], SeenTable]]:
    rows = Rows()

    def looked() -> SeenTable:
        witness.look(catalog, rows)
        return witness.tables[NAME]

    yield looked
    rows.close()


def append(catalog: Catalog) -> Path:
    """One more file; gives the list of the manifests of the snapshot."""
    table = catalog.load_table(NAME)
    table.append(pa.table({"id": pa.array([1], pa.int64())}))
    return Path(local_path(table.current_snapshot().manifest_list))


def test_what_expired_unseen_is_told_and_the_table_is_followed_from_its_head(
    catalog: Catalog, witness: Witness, look: Callable[[], SeenTable]
) -> None:
    append(catalog)
    look()
    for _ in range(3):
        append(catalog)
    table = catalog.load_table(NAME)
    unseen = [one.snapshot_id for one in table.snapshots()][:-1]
    table.maintenance.expire_snapshots().by_ids(unseen).commit()
    files = len(look().live)
    append(catalog)

    seen = look()
    assert (files, len(seen.live)) == (4, 5)
    assert seen.head == catalog.load_table(NAME).current_snapshot().snapshot_id
    assert f"{NAME}: what came shortly before snapshot" in str(witness.error)


def test_a_look_that_fails_is_made_again_and_nothing_is_missed(
    catalog: Catalog, witness: Witness, look: Callable[[], SeenTable]
) -> None:
    append(catalog)
    look()
    listed = append(catalog)
    away = listed.rename(listed.with_suffix(".away"))
    look()
    error = witness.error
    away.rename(listed)

    assert len(look().commits) == 2
    assert NAME in str(error)
    assert witness.error is None


def test_what_stays_unreadable_is_given_up_and_told(
    catalog: Catalog, witness: Witness, look: Callable[[], SeenTable]
) -> None:
    append(catalog)
    look()
    listed = append(catalog)
    append(catalog)
    listed.unlink()
    for _ in range(LOOKS):
        assert len(look().live) == 1
    seen = look()

    assert len(seen.live) == 3
    assert "was not seen" in str(witness.error)
