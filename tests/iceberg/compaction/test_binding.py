"""What is refused before anything is read."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, VoidTransform
from pyiceberg.types import LongType, NestedField

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.jobs import Take
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.binding import bind

BY_ID = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"), spec_id=0)
OTHERS = {
    "another transform": (PartitionField(1, 1000, BucketTransform(4), "id"), True),
    "another column": (PartitionField(2, 1000, IdentityTransform(), "v"), True),
    "another name": (PartitionField(1, 1000, IdentityTransform(), "renamed"), False),
    "another id": (PartitionField(2, 1001, IdentityTransform(), "v"), False),
    "dropped": (PartitionField(1, 1000, VoidTransform(), "id"), False),
}


@pytest.mark.parametrize("other", OTHERS)
def test_partitions_that_cannot_be_told_apart_are_left_alone(tmp_path: Path, other: str) -> None:
    """Specs from before partition fields had ids all count from 1000."""
    field, is_refused = OTHERS[other]
    catalog: Any = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w"
    )
    catalog.create_namespace("db")
    fields = (NestedField(number, name, LongType(), required=False) for number, name in ((1, "id"), (2, "v")))
    table = catalog.create_table(
        "db.t", Schema(*fields), partition_spec=BY_ID, properties={"format-version": "2"}
    )
    for _ in range(2):
        table.append(pa.table({"id": [3], "v": [1]}))
    specs = [BY_ID, PartitionSpec(field, spec_id=1)]
    metadata = table.metadata.model_copy(update={"partition_specs": specs})
    head = metadata.current_snapshot()

    bound = bind(
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

    assert is_refused == (isinstance(bound, Refusal) and bound.reason is Reason.AMBIGUOUS_FIELDS)
