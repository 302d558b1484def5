"""What time it is by the clock of a table's store, told by a small file."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from uuid import uuid4

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from isotherm.clients.retries import store_name
from isotherm.core.clock_check import apart_ms
from isotherm.iceberg.errors import translated
from isotherm.iceberg.misplaced import misplaced_table
from isotherm.iceberg.threads import Threads
from isotherm.service.ports import LoadedTable

LIMIT_S = 5.0
"""The loop waits for it."""


def skew_ms(loaded: LoadedTable, now_ms: Callable[[], int], threads: Threads) -> int | None:
    """How far this machine's clock is ahead of the store's, as a file written now shows.

    A table that is not written at all gets no such file either. Returns None where the store does not tell.

    Raises:
        Unavailable: the store does not answer.
    """
    table: Table = loaded.handle
    io = table.io
    if not isinstance(io, PyArrowFileIO) or misplaced_table(table.metadata):
        return None
    # A new name each time: no file is ever written over another one. Where it may not be deleted, a search finds it by
    # this ending.
    location = f"{table.metadata.location.rstrip('/')}/metadata/isotherm-clock-{uuid4()}.stats"
    with translated(f"the store of {loaded.table}"):
        before_ms = now_ms()
        written_at = threads.within(LIMIT_S, store_name(location), lambda: _written_at(io, location))
    return None if written_at is None else apart_ms(before_ms, written_at, now_ms())


def _written_at(io: PyArrowFileIO, location: str) -> datetime | None:
    """When a small file was written that is written now, by the store's clock; the file is deleted."""
    with io.new_output(location).create() as stream:
        stream.write(b"What time is it?")
    scheme, authority, path = io.parse_location(location, io.properties)
    written_at: datetime | None = io.fs_by_scheme(scheme, authority).get_file_info(path).mtime
    with suppress(OSError):
        io.delete(location)
    return written_at
