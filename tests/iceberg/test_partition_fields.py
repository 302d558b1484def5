"""The fields of all specs that a table had, and which of them divide what is written now."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.transforms import DayTransform, HourTransform

from isotherm.iceberg.values import loaded_table
from support.lab import SCHEMA


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_field_is_current_as_long_as_the_default_spec_has_it(tmp_path: Path, version: str) -> None:
    """A table of format 1 keeps the field of a spec, and its transform gives nothing any more (`void`)."""
    uri, root = f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/w"
    catalog = load_catalog("lake", type="sql", uri=uri, warehouse=root)
    catalog.create_namespace("db")
    table: Any = catalog.create_table("db.t", SCHEMA, properties={"format-version": version})

    def current() -> dict[str, bool]:
        facts = loaded_table(table.refresh(), "db.t").facts
        return {field.transform: field.is_current for field in facts.fields}

    assert current() == {}
    with table.update_spec() as change:
        change.add_field("at", HourTransform(), "at_hour")
    assert current() == {"hour": True}
    with table.update_spec() as change:
        change.remove_field("at_hour")
    assert current() == {"hour": False}
    with table.update_spec() as change:
        change.add_field("at", DayTransform(), "at_day")
    assert current() == {"hour": False, "day": True}
