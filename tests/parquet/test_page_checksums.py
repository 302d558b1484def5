"""Each page that we write has a checksum, so a byte that storage changes is known to any reader who asks for that."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

from isotherm.parquet.output import Output


def test_a_page_that_storage_has_changed_is_not_taken_for_values(tmp_path):
    metadata = new_table_metadata(
        Schema(NestedField(1, "id", LongType())),
        UNPARTITIONED_PARTITION_SPEC,
        UNSORTED_SORT_ORDER,
        f"file://{tmp_path}",
        {"write.parquet.compression-codec": "none"},
    )
    path = tmp_path / "rows.parquet"
    output = Output(PyArrowFileIO(), metadata, lambda _: str(path), 1 << 30, 1000, 8.0)
    output.write(pa.record_batch([pa.array(range(1000), pa.int64())], schema=output.arrow))
    output.finish()
    assert pq.read_table(path, page_checksum_verification=True).num_rows == 1000

    content = bytearray(path.read_bytes())
    place = content.index((999).to_bytes(8, "little"))
    content[place] ^= 1
    path.write_bytes(content)

    assert pq.read_table(path).column(0)[999].as_py() == 998
    with pytest.raises(OSError, match="checksum"):
        pq.read_table(path, page_checksum_verification=True)
