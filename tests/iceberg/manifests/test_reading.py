"""Files that are named as manifests: of a large one little is read, and none of another length than listed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

from isotherm.clients.manifests.avro import FIRST_BYTES, MAX_BYTES, UnreadableError
from isotherm.clients.manifests.reading import Manifest, read_manifest_list
from support.manifest_entries import read


@dataclass
class Metered:
    """A file of which no more is kept than was asked for, and how much that was."""

    begin: bytes
    size: int
    read_bytes: int = 0

    def new_input(self, _: str) -> Any:
        return self

    def open(self) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None: ...

    def read(self, count: int = -1) -> bytes:
        count = min(count if count >= 0 else self.size, self.size - self.read_bytes)
        part = self.begin[self.read_bytes :][:count]
        self.read_bytes += count
        return part + bytes(count - len(part))


AVRO, PARQUET = b"Obj\x01", b"PAR1"
GIGABYTE = 1 << 30


@pytest.mark.parametrize(
    ("begin", "said", "at_most"),
    [
        (PARQUET, 5000, 5001),
        (PARQUET, None, FIRST_BYTES),
        (AVRO, 5000, 5001),
        (AVRO, None, MAX_BYTES + 1),
        (AVRO, GIGABYTE, 0),
    ],
)
def test_of_a_large_file_that_is_named_as_a_manifest_little_is_read(
    begin: bytes, said: int | None, at_most: int
) -> None:
    file: Any = Metered(begin, GIGABYTE)

    with pytest.raises(UnreadableError):
        Manifest.read(file, "data.parquet", said)

    assert file.read_bytes <= at_most


def test_a_manifest_of_another_length_than_listed_is_refused(make: Callable[..., Table]) -> None:
    table = make(LongType(), IdentityTransform())
    table.append(pa.table({"v": [1], "id": [1]}))
    head = table.metadata.current_snapshot()
    assert head is not None
    (listed,) = read_manifest_list(table.io, head.manifest_list)
    length = listed.manifest_length
    assert len(read(table.io, listed)) == 1

    for wrong in (length - 1, length + 1):
        with pytest.raises(UnreadableError, match="bytes"):
            Manifest.read(table.io, listed.manifest_path, wrong)
