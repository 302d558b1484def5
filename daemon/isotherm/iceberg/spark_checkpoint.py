"""Up to where a streaming query of Spark has read, as its checkpoint says it.

After each batch Spark writes `commits/<number>`, and before it `offsets/<number>`: a line for the version, one for the
batch, and one for each source with where the batch ends. Iceberg's source writes JSON there
(`org.apache.iceberg.spark.source.StreamingOffset`).
"""

import json
from collections.abc import Iterator
from typing import Any

from pyiceberg.io import FileIO

from isotherm.clients.listing import files_below
from isotherm.service.ports import Unavailable

MAX_BYTES = 16 * 1024**2
"""A larger file is no file of offsets."""


def snapshots_read(io: FileIO, location: str) -> frozenset[int]:
    """The snapshots up to which the sources of a query were read by its last batch that is done.

    Args:
        io: reads the checkpoint.
        location: its folder.

    Raises:
        ValueError: there is no such checkpoint, or no batch is done, or it has no source of Iceberg's.
        Unavailable: it cannot be read.
    """
    folder = location.rstrip("/")
    try:
        done = max(_numbers(io, f"{folder}/commits/"), default=None)
        if done is None:
            raise ValueError(
                f"{location} is no checkpoint of a query that has done a batch: it has no commits"
            )
        with io.new_input(f"{folder}/offsets/{done}").open() as stream:
            text = stream.read(MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as err:
        raise Unavailable(f"the checkpoint {location}: {err}") from err
    found = frozenset(_snapshots(text))
    if not found:
        raise ValueError(f"{location}/offsets/{done} names no snapshot: the query reads no table of Iceberg")
    return found


def _numbers(io: FileIO, folder: str) -> Iterator[int]:
    for some in files_below(io, folder):
        for file in some:
            if file.name.isascii() and file.name.isdecimal():
                yield int(file.name)


def _snapshots(text: str) -> Iterator[int]:
    for line in text.splitlines():
        try:
            offset: Any = json.loads(line)
        except (ValueError, RecursionError):  # the line with the version, or a source of another kind
            continue
        snapshot_id = offset.get("snapshot_id") if isinstance(offset, dict) else None
        if isinstance(snapshot_id, int) and snapshot_id >= 0:
            yield snapshot_id
