"""Deletion vectors are read by their place, and believed only where all that is said of them agrees."""

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyroaring import BitMap64

from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.refusals import Reason, RefusalError
from isotherm.iceberg.compaction.deletion_vectors import positions_in

MAGIC = bytes.fromhex("d1d33964")
FAR = 2**33 + 7


def blob(positions: Any, magic: bytes = MAGIC, checksum: int | None = None) -> bytes:
    body = magic + BitMap64(positions).serialize()
    checksum = zlib.crc32(body) if checksum is None else checksum
    return struct.pack(">I", len(body)) + body + struct.pack(">I", checksum)


def read(
    path: Path, content: bytes, said: int, rows: int = 2**40, start: int = 9, **changes: Any
) -> list[int]:
    """What is read of a vector that lies behind another one, and before a third."""
    path.write_bytes(b"x" * 9 + content + b"y" * 20)
    vector = LiveFile(
        **{
            "path": str(path),
            "kind": FileKind.DELETION_VECTORS,
            "size_bytes": len(content),
            "rows": said,
            "sequence_number": 2,
            "content_offset": start,
            "referenced_data_file": "data.parquet",
            **changes,
        }
    )
    return positions_in(PyArrowFileIO(), vector, rows).tolist()


@pytest.mark.parametrize("positions", [[0], [5, 1, 3], range(100_000), [1, FAR, FAR + 2**20], []])
def test_the_positions_come_in_order(tmp_path: Path, positions: Any) -> None:
    assert read(tmp_path / "v", blob(positions), len(positions)) == sorted(positions)


@pytest.mark.parametrize(
    ("content", "changes", "why"),
    [
        (blob([1, 2], checksum=7), {}, "checksum"),
        (blob([1, 2], magic=b"abcd"), {}, "is no deletion vector"),
        (blob([1, 2])[1:], {}, "is no deletion vector"),
        (blob([1, 2]) + b"more", {}, "is no deletion vector"),
        (blob([1, 2]), {"said": 3}, "removes 2 rows, its manifest says 3"),
        (blob([1, 20]), {"rows": 20}, "removes row 20 of a file of 20 rows"),
        (blob(range(2**32)), {}, "removes 4294967296 rows, its manifest says 2"),
        (blob([1, 2]), {"size_bytes": 10_000}, "bytes early"),
        (blob([1, 2]), {"size_bytes": 2**40}, "cannot have"),
        (blob([1, 2]), {"content_offset": None}, "cannot have"),
        (blob([1, 2]), {"content_offset": -1}, "cannot have"),
    ],
)
def test_what_does_not_agree_is_refused_by_its_name(
    tmp_path: Path, content: bytes, changes: Any, why: str
) -> None:
    """Also a few bytes that stand for milliards of positions: they are counted before they are listed."""
    with pytest.raises(RefusalError, match=why) as refused:
        read(tmp_path / "v", content, **{"said": 2, **changes})

    assert refused.value.refusal.reason is Reason.CORRUPT_FILE
    assert str(tmp_path / "v") in refused.value.refusal.why


def test_a_bitmap_that_breaks_off_is_refused(tmp_path: Path) -> None:
    body = MAGIC + BitMap64([1, FAR]).serialize()[:-3]
    content = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))

    with pytest.raises(RefusalError, match="at 9"):
        read(tmp_path / "v", content, 2)
