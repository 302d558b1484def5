"""How many keys of equality deletes are held at a time."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.types import LongType, NestedField

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.jobs import CompactionJob
from isotherm.iceberg.compaction.deleted_rows import KEY_BYTES, deleted_rows
from isotherm.iceberg.compaction.row_sums import RowSums
from support.equality import keys

SCHEMA = Schema(NestedField(1, "id", LongType()))


class Counting(RowSums):
    """Sums that count how often keys were let go."""

    turns = 0

    def forget_keys(self) -> None:
        self.turns += 1
        super().forget_keys()


@pytest.mark.parametrize(("each_bytes", "turns"), [(KEY_BYTES // 4, 1), (KEY_BYTES // 2 + 1, 3)])
def test_long_keys_are_held_in_smaller_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each_bytes: int, turns: int
) -> None:
    monkeypatch.setattr(
        "isotherm.iceberg.compaction.local_copy.TIMES", each_bytes
    )  # as if they were as large

    def file(kind: FileKind, rows: range, number: int, size_bytes: int) -> LiveFile:
        path = tmp_path / f"{number}.parquet"
        pq.write_table(keys(("id", pa.int64(), 1), rows=[(row,) for row in rows]), path)
        ids = (1,) if kind is FileKind.EQUALITY_DELETES else ()
        return LiveFile(f"file://{path}", kind, size_bytes, len(rows), number, None, None, ids)

    data = file(FileKind.DATA, range(10), 1, 1000)
    deletes = tuple(
        file(FileKind.EQUALITY_DELETES, range(number, number + 2), number, each_bytes) for number in (2, 4, 6)
    )
    table = new_table_metadata(SCHEMA, PartitionSpec(), SortOrder(), f"file://{tmp_path}")
    whole = PartitionKey("{}")
    job = CompactionJob(
        "job", TableId("uuid", "t"), whole, "all", 0, 1, 9, (data,), deletes, frozenset(), 1, "policy", "why"
    )
    read = [file.path for file in (data, *deletes)]
    sums = Counting(SCHEMA, None, [data], read, deletes)

    deleted = deleted_rows(PyArrowFileIO(), job, table, {}, sums)

    assert list(deleted.positions(data)) == [2, 3, 4, 5, 6, 7]
    assert sums.turns == turns
