"""Has PyIceberg read all eight bytes of a double in an Avro file.

Its compiled decoder rounds doubles to single precision (apache/iceberg-python#3808, mended after 0.12.0). A partition of 0.1
got a name in events and in the audit that its manifests do not have. PyIceberg's own resolver is changed, once: it plans scans
by it too, and nobody can hand it another one there.
"""

import struct
from functools import cache

from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.reader import DoubleReader, Reader
from pyiceberg.avro.resolver import ReadSchemaResolver
from pyiceberg.types import DoubleType, IcebergType


class WholeDoubleReader(DoubleReader):
    """All eight bytes of a double."""

    def read(self, decoder: BinaryDecoder) -> float:
        """The number as it was written."""
        value: float = struct.unpack("<d", decoder.read(8))[0]
        return value


@cache
def read_whole_doubles() -> None:
    """Change the resolver; called before a manifest is read by it."""
    ReadSchemaResolver.visit_double = _whole  # type: ignore[assignment]


def _whole(_: ReadSchemaResolver, _double: DoubleType, _partner: IcebergType | None) -> Reader:
    return WholeDoubleReader()  # type: ignore[no-untyped-call]
