"""What an attempt that lost its race has written is used again as far as the table still is what it was written for."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.transforms import HourTransform

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.files import FileKind
from isotherm.core.model.jobs import OutcomeKind, Take
from isotherm.iceberg.manifests.live import live_files
from support.deleted_rows import delete_row_and_ids
from support.faults import FaultyCatalog
from support.lab import Lab
from support.rewriting import bound, commit, rewritten


def test_deletes_stay_that_a_rollback_gives_something_to_apply_to_in_the_race(tmp_path: Path) -> None:
    """Deletes of the whole table leave with their last data; here older data of a partition comes back meanwhile."""
    lab = Lab(tmp_path)
    table = lab.create(spec=UNPARTITIONED_PARTITION_SPEC, **{"format-version": "2"})
    lab.append(table, 1, announce=False)
    lab.append(table, 1, announce=False)
    with table.update_spec() as update:
        update.add_field("at", HourTransform(), "at_hour")
    lab.append(table, 9, announce=False)
    first = bound(table, UNPARTITIONED, take=Take(10**9)).data_files[0]
    delete_row_and_ids(lab, table, first.path, 0, pa.array([4]), UNPARTITIONED)
    before = table.metadata.current_snapshot_id
    table.delete("id >= 4")
    job = bound(table.refresh(), UNPARTITIONED, take=Take(with_deletes=True))
    rewrite = rewritten(table, job)
    lost: list[int] = []

    def racing(real: Any, *arguments: Any) -> Any:
        if not lost:
            lost.append(1)
            lab.catalog.load_table("shop.orders").manage_snapshots().rollback_to_snapshot(before).commit()
        return real(*arguments)

    outcome = commit(FaultyCatalog(lab.catalog, racing), job, rewrite)

    assert OutcomeKind.DONE is outcome.kind
    metadata = table.refresh().metadata
    live = live_files(metadata, table.io, metadata.current_snapshot())
    assert [FileKind.EQUALITY_DELETES] == [one.kind for one in live if one.kind is not FileKind.DATA]
