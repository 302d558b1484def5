"""What we may do to a table and to its folders, found out without changing anything, or by one small file."""

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import datetime
from typing import NamedTuple
from uuid import uuid4

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, ForbiddenError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID
from pyiceberg.typedef import Identifier

from isotherm.clients.listing import files_below
from isotherm.contract.identity import name_from
from isotherm.core.clock_check import apart_ms
from isotherm.iceberg.catalog import IcebergCatalog, sqlite_file
from isotherm.iceberg.errors import translated
from isotherm.iceberg.list_tables import Lister
from isotherm.iceberg.misplaced import misplaced_table
from isotherm.iceberg.threads import THREADS
from isotherm.runtime.breaker import Breaker
from isotherm.runtime.config import CatalogConfig
from isotherm.service.ports import LoadedTable, Refused


class Namespaces:
    """The namespaces of a catalog, asked one by one."""

    def __init__(self, catalog: IcebergCatalog) -> None:
        """Ask nothing yet."""
        self._lister = Lister(lambda: catalog.catalog, nullcontext, Breaker(), THREADS)

    def top(self) -> list[Identifier]:
        """Those at the top. Raises Unavailable."""
        return sorted(self._lister.namespaces())

    def within(self, namespace: Identifier) -> tuple[list[str], list[Identifier]]:
        """The tables in one, and the namespaces right below it. Raises TableMissing, Unavailable."""
        return sorted(self._lister.tables_in(namespace)), sorted(self._lister.below(namespace))

    @staticmethod
    def name(namespace: Identifier) -> str:
        """Its name, as we write it."""
        return name_from(namespace)


class Listed(NamedTuple):
    """A folder that was listed, or a part of it."""

    files: int
    newest_ms: int | None


def may_commit(catalog: Catalog, config: CatalogConfig, loaded: LoadedTable) -> bool | None:
    """Whether the catalog would take a commit of ours to a table; None where it cannot be told without one.

    A REST catalog is asked for a commit that changes nothing, and that it must turn down: it asserts a uuid that the table
    does not have. Who has no right to commit is refused before that is looked at.

    Raises:
        Refused: it would not, and says why.
        Unavailable: it does not answer.
    """
    if isinstance(catalog, RestCatalog):
        try:
            with translated(f"a commit to {loaded.table}"):
                try:
                    catalog.commit_table(loaded.handle, (AssertTableUUID(uuid=uuid4()),), ())
                except CommitFailedException:
                    return True
        except Refused as err:
            if isinstance(err.__cause__, ForbiddenError):
                raise
        return None  # it took what it must turn down, or turned it down in words of its own
    path = sqlite_file(config)
    return None if path is None else os.access(path, os.W_OK)


def metadata_bytes(loaded: LoadedTable) -> int:
    """The size of a table's metadata.json, read from its store. Raises Unavailable."""
    table: Table = loaded.handle
    with (
        translated(f"the metadata of {loaded.table}"),
        table.io.new_input(table.metadata_location).open() as stream,
    ):
        return len(stream.read())


def listed(loaded: LoadedTable) -> Listed:
    """What lies right in a table's metadata folder. Raises Unavailable."""
    table: Table = loaded.handle
    with translated(f"the folder of {loaded.table}"):
        files = next(files_below(table.io, f"{folder_of(loaded)}/"), [])
    return Listed(len(files), max((one.written_at_ms for one in files), default=None))


def folder_of(loaded: LoadedTable) -> str:
    """The folder of a table's metadata."""
    return f"{loaded.facts.location.rstrip('/')}/metadata"


def write_and_delete(loaded: LoadedTable, now_ms: Callable[[], int]) -> Iterator[tuple[str, int | None]]:
    """Write a small file below a table's metadata folder, and delete it; tells each step, and how far our clock is ahead.

    Raises:
        Unavailable: one of the steps was refused, or not answered.
    """
    table: Table = loaded.handle
    if why := misplaced_table(table.metadata):
        raise Refused(why)
    # A new name each time. Where it may not be deleted, a search for orphans finds it by this ending.
    location = f"{folder_of(loaded)}/isotherm-doctor-{uuid4()}.stats"
    before_ms = now_ms()
    with translated(f"writing {location}"), table.io.new_output(location).create() as stream:
        stream.write(b"May this be written, and deleted?")
    after_ms = now_ms()
    io = table.io
    skew_ms = None
    if isinstance(io, PyArrowFileIO):
        with translated(f"looking at {location}"):
            scheme, authority, path = io.parse_location(location, io.properties)
            written_at: datetime | None = io.fs_by_scheme(scheme, authority).get_file_info(path).mtime
            skew_ms = None if written_at is None else apart_ms(before_ms, written_at, after_ms)
    yield "written", skew_ms
    with translated(f"deleting {location}, which stays there"):
        io.delete(location)
    yield "deleted", None
