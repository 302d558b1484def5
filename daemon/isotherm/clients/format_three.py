"""Metadata of format 3, written by catalogs that are only pointers: PyIceberg reads it, and refuses to write it.

It is written only where nothing is lost. The version before is read once more as it lies there, and all that it says must
come back when PyIceberg writes what it has read of it. So a field that a later version of Iceberg brings is an error, and
nothing is written.
"""

import json
from collections.abc import Callable
from datetime import datetime, time
from decimal import Decimal
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.serializers import Compressor, ToOutputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV3
from pyiceberg.typedef import IcebergBaseModel

from isotherm.clients.metadata_file import newest_of


def write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
    """Write a version of a table's metadata.

    Raises:
        NotImplementedError: it is of format 3, and the version before says something that would be lost.
    """
    if not isinstance(metadata, TableMetadataV3):
        ToOutputFile.table_metadata(metadata, io.new_output(metadata_path))
        return
    if newest_of(io.properties) is not None:
        raise NotImplementedError("it was read without its old snapshots")
    if not metadata.metadata_log:
        raise NotImplementedError("a table of format 3 is not made here")
    before = metadata.metadata_log[-1].metadata_file
    said = _text(io, before)
    if gone := lost(json.loads(said), json.loads(_written(TableMetadataUtil.parse_raw(said)))):
        raise NotImplementedError(f"its metadata says {gone}, which would be lost")
    data = Compressor.get_compressor(metadata_path).bytes_compressor()(_written(metadata).encode())
    with io.new_output(metadata_path).create(overwrite=False) as stream:
        stream.write(data)


def lost(said: Any, written: Any, place: str = "") -> str:
    """Where something is said that is not written, or empty. What is null says nothing."""
    if isinstance(said, dict) and isinstance(written, dict):
        for name, value in said.items():
            if name in _DEFAULTS and _same_default(str(said.get("type")), value, written.get(name)):
                continue
            if value is not None and (gone := lost(value, written.get(name), f"{place}.{name}".lstrip("."))):
                return gone
        return ""
    if isinstance(said, list) and isinstance(written, list) and len(said) == len(written):
        pairs = zip(said, written, strict=True)
        places = (lost(one, other, f"{place}[{number}]") for number, (one, other) in enumerate(pairs))
        return next((gone for gone in places if gone), "")
    return "" if said == written and isinstance(said, bool) == isinstance(written, bool) else place


_DEFAULTS = ("initial-default", "write-default")


_SPELLED_IN_SEVERAL_WAYS: tuple[tuple[tuple[str, ...], Callable[[str], Any]], ...] = (
    (("binary", "fixed"), str.lower),
    (("decimal",), Decimal),
    (("timestamp",), datetime.fromisoformat),
    (("time",), time.fromisoformat),
)
"""Types of which Java and PyIceberg write one value differently, by how they begin, and what such a text means."""


def _same_default(kind: str, said: Any, written: Any) -> bool:
    """Whether two texts are one value of a type. Of any other type they must be the same to the letter."""
    if not (isinstance(said, str) and isinstance(written, str)):
        return False
    for kinds, meaning in _SPELLED_IN_SEVERAL_WAYS:
        if kind.startswith(kinds):
            try:
                return bool(meaning(said) == meaning(written))
            except (ValueError, ArithmeticError):
                return False  # what is no such value is compared as it stands
    return False


def _text(io: FileIO, location: str) -> str:
    with (
        io.new_input(location).open() as stream,
        Compressor.get_compressor(location).stream_decompressor(stream) as plain,
    ):
        text: str = plain.read().decode()
        return text


def _written(metadata: TableMetadata) -> str:
    # Format 3's own method refuses; that of all models writes it.
    return IcebergBaseModel.model_dump_json(metadata)
