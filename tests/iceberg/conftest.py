"""A catalog, and in it a table of six snapshots, for the tests of expiry and of the deletion that follows. Labs on a disk and
on S3, for those of searches and of quarantine.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from support.expiring import NAME, SCHEMA, append, rows
from support.lab import Lab
from support.object_store import ObjectStore, object_store


@pytest.fixture
def empty_catalog(tmp_path: Path) -> Any:
    found = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w"
    )
    found.create_namespace("db")
    return found


@pytest.fixture
def catalog(empty_catalog: Any) -> Any:
    return empty_catalog


@pytest.fixture
def table(catalog: Any) -> Table:
    """Six snapshots: three appends, an overwrite of everything, two more appends."""
    made: Table = catalog.create_table(NAME, SCHEMA)
    for number in range(3):
        append(made, number)
    made.overwrite(rows(10, 11))
    append(made, 12)
    append(made, 13)
    return made.refresh()


@pytest.fixture
def on_s3(tmp_path: Path) -> Iterator[tuple[Lab, ObjectStore]]:
    with object_store() as store:
        lab = Lab(tmp_path, properties=store.lake(tmp_path))
        yield lab, store
        lab.executor.stop()


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    lab.executor.stop()


@pytest.fixture(params=["disk", "s3"])
def on_either(request: Any) -> Lab:
    """A lab on a disk, and one on S3."""
    if request.param == "disk":
        disk: Lab = request.getfixturevalue("on_disk")
        return disk
    s3: tuple[Lab, ObjectStore] = request.getfixturevalue("on_s3")
    return s3[0]
