"""The positions that a deletion vector removes from its data file (Puffin specification, `deletion-vector-v1`).

A vector is a bitmap with a length before it and a checksum behind it, somewhere in a Puffin file. It is read alone: its
place stands in the manifest, and one file may hold the vectors of many data files.
"""

import zlib
from array import array

from pyiceberg.io import FileIO
from pyroaring import BitMap64

from isotherm.clients.local_files import opened
from isotherm.contract.paths import is_local, normalised
from isotherm.core.model.files import LiveFile
from isotherm.core.model.refusals import Reason, RefusalError

_MAGIC = bytes.fromhex("d1d33964")
_FRAME = 12
"""Bytes around the bitmap: its length, the magic number, and the checksum of both."""
MAX_BLOB_BYTES = 256 * 1024**2
"""Of the deletes on a single data file: those on every other one of two milliards of rows."""


def positions_in(io: FileIO, vector: LiveFile, rows: int) -> "array[int]":
    """What a vector removes of a data file with so many rows: distinct positions, in order.

    Raises:
        RefusalError: it is damaged, or not what its manifest says.
    """
    blob = _blob(io, vector)
    length = int.from_bytes(blob[:4], "big")
    if len(blob) < _FRAME or length != len(blob) - 8 or blob[4:8] != _MAGIC:
        raise _corrupt(vector, "is no deletion vector")
    if zlib.crc32(blob[4:-4]) != int.from_bytes(blob[-4:], "big"):
        raise _corrupt(vector, "has another checksum than it says")
    try:
        bitmap = BitMap64.deserialize(blob[8:-4])
    except ValueError as err:
        raise _corrupt(vector, str(err)) from err
    # A few bytes can stand for milliards of positions: they are counted before they are listed.
    if len(bitmap) != vector.rows:
        raise _corrupt(vector, f"removes {len(bitmap)} rows, its manifest says {vector.rows}")
    if bitmap and bitmap.max() >= rows:
        raise _corrupt(vector, f"removes row {bitmap.max()} of a file of {rows} rows")
    return array("q", bitmap)


def _blob(io: FileIO, vector: LiveFile) -> bytes:
    start = vector.content_offset
    if start is None or start < 0 or not _FRAME <= vector.size_bytes <= MAX_BLOB_BYTES:
        raise _corrupt(vector, f"cannot have {vector.size_bytes} bytes from {start} on, as its manifest says")
    if is_local(vector.path):
        with opened(normalised(vector.path)) as file:
            file.seek(start)
            blob = file.read(vector.size_bytes)
    else:
        with io.new_input(vector.path).open() as stream:
            stream.seek(start)
            blob = stream.read(vector.size_bytes)
    if len(blob) != vector.size_bytes:
        raise _corrupt(vector, f"ends {vector.size_bytes - len(blob)} bytes early")
    return bytes(blob)


def _corrupt(vector: LiveFile, why: str) -> RefusalError:
    return RefusalError(Reason.CORRUPT_FILE, f"{vector.path}, at {vector.content_offset}: {why}")
