"""The store's time is told by a small file beside a table's metadata: where that may be written, and nowhere else."""

from pathlib import Path
from typing import Any

from isotherm.iceberg.values import loaded_table
from support.lab import Lab


def at(lab: Lab, location: str, lists_in: str | None = None) -> Any:
    """The table as if it lay there, and its manifest lists elsewhere."""
    table = lab.catalog.load_table("shop.orders")
    loaded = loaded_table(table, "shop.orders")
    metadata = table.metadata
    snapshots = [
        one if lists_in is None else one.model_copy(update={"manifest_list": f"{lists_in}/a.avro"})
        for one in metadata.snapshots
    ]
    table.metadata = metadata.model_copy(update={"location": location, "snapshots": snapshots})
    return loaded


def test_a_table_that_is_moved_to_a_disk_of_the_daemons_machine_chooses_no_folder_for_it(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path)
    lab.append(lab.create(), 1, announce=False)
    maintainer = lab.maintainer(lab.executor)
    ours, chosen = tmp_path / "ours", tmp_path / "chosen"

    skew_ms = maintainer.clock_skew_ms(at(lab, f"file://{ours}"))
    moved = maintainer.clock_skew_ms(at(lab, f"file://{chosen}", "s3://lake/orders/metadata"))

    assert skew_ms is not None
    assert ours.exists()
    assert (moved, chosen.exists()) == (None, False)
