"""A catalog, and in it a table of six snapshots, for the tests of expiry and of the deletion that follows."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from support.expiring import NAME, SCHEMA, append, rows


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
