"""What is refused before anything is read."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import RemoveSchemasUpdate
from pyiceberg.transforms import (
    BucketTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)
from pyiceberg.types import LongType, NestedField

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.jobs import CompactionJob, OutcomeKind, Take
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.binding import bind
from isotherm.service.ports import Bound
from support.rewriting import commit, partitions, rewritten, try_to_bind

BY_ID = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"), spec_id=0)
OTHERS = {
    "another transform": (PartitionField(1, 1000, BucketTransform(4), "id"), True),
    "another column": (PartitionField(2, 1000, IdentityTransform(), "v"), True),
    "another name": (PartitionField(1, 1000, IdentityTransform(), "renamed"), False),
    "another id": (PartitionField(2, 1001, IdentityTransform(), "v"), False),
    "dropped": (PartitionField(1, 1000, VoidTransform(), "id"), False),
}


@pytest.fixture
def lake(tmp_path: Path) -> Any:
    catalog = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w"
    )
    catalog.create_namespace("db")
    return catalog


def created(lake: Any, spec: PartitionSpec) -> Table:
    fields = (NestedField(number, name, LongType(), required=False) for number, name in ((1, "id"), (2, "v")))
    table: Table = lake.create_table(
        "db.t", Schema(*fields), partition_spec=spec, properties={"format-version": "2"}
    )
    for _ in range(2):
        table.append(pa.table({"id": [3], "v": [1]}))
    return table


@pytest.fixture
def table(lake: Any) -> Table:
    return created(lake, BY_ID)


def bound(table: Table, metadata: TableMetadata) -> Bound | Refusal:
    head = metadata.current_snapshot()
    assert head is not None
    return bind(
        metadata,
        table.io,
        head,
        PartitionKey('{"1000":3}'),
        job_id="job",
        table=TableId("u", "db.t"),
        partition_label="3",
        take=Take(750_000, with_deletes=True),
        target_size_bytes=1_000_000,
        policy_hash="",
        why="a test",
    )


@pytest.mark.parametrize("other", OTHERS)
def test_partitions_that_cannot_be_told_apart_are_left_alone(table: Table, other: str) -> None:
    """Specs from before partition fields had ids all count from 1000."""
    field, is_refused = OTHERS[other]
    specs = [BY_ID, PartitionSpec(field, spec_id=1)]

    found = bound(table, table.metadata.model_copy(update={"partition_specs": specs}))

    assert is_refused == (isinstance(found, Refusal) and found.reason is Reason.AMBIGUOUS_FIELDS)


def test_a_table_of_a_store_that_is_moved_to_this_machine_is_left_alone(table: Table) -> None:
    """Its owner chose a folder of ours: by its location, which may lie on a disk where the table does."""
    moved = [
        one.model_copy(update={"manifest_list": "s3://lake/t/metadata/a.avro"})
        for one in table.metadata.snapshots
    ]

    found = bound(table, table.metadata.model_copy(update={"snapshots": moved}))

    assert isinstance(found, Refusal)
    assert found.reason is Reason.LOCATION
    assert isinstance(bound(table, table.metadata), Bound)


@pytest.mark.parametrize(
    ("transform", "goes"),
    [(BucketTransform(4), True), (IdentityTransform(), False), (TruncateTransform(2), False)],
    ids=["bucket", "identity", "truncate"],
)
def test_a_partition_by_a_column_of_which_no_schema_is_left(
    lake: Any, transform: Transform[Any, Any], goes: bool
) -> None:
    """Iceberg's `cleanExpiredMetadata` takes schemas away, though data lies in a spec of theirs: values lose their type."""
    table = created(lake, PartitionSpec(PartitionField(1, 1000, transform, "part")))
    (key,) = partitions(table)
    with table.update_spec() as spec:
        spec.remove_field("part")
    with table.update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("id")
    lake.commit_table(table, (), (RemoveSchemasUpdate(**{"schema-ids": [0]}),))
    before = table.refresh().scan().to_arrow().to_pylist()

    job = try_to_bind(table, key)

    if goes:
        assert isinstance(job, CompactionJob)
        assert commit(lake, job, rewritten(table, job)).kind is OutcomeKind.DONE
        assert len(list(table.refresh().scan().plan_files())) == 1
        assert table.scan().to_arrow().to_pylist() == before
    else:
        assert isinstance(job, Refusal)
        assert (job.reason, "part of spec 0" in job.why) == (Reason.AMBIGUOUS_FIELDS, True)
