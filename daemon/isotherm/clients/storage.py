"""Files, wherever a table lies: PyIceberg's FileIO with transient failures retried (`retries`).

Reading is retried request by request, and writing file by file: a remote file is spooled and goes up when it is closed,
so that an upload can begin again, and a reader never sees half a file (`remote_file`). Each request, and each upload, has a limit as a whole
that grows with its size (`timeouts`). On a local disk nothing is spooled or retried, because there a failure is final.

A table's owner chooses its locations, and PyArrow cuts a location at `?` and `#`. So nothing is written or deleted
whose location is not plain, and no file is written over another.

What this module does not do: judge what is in a file, or decide what may be deleted.
"""

import os
import tempfile
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyarrow.fs import FileSystem
from pyiceberg.io import (
    S3_CONNECT_TIMEOUT,
    S3_REQUEST_TIMEOUT,
    S3_RETRY_STRATEGY_IMPL,
    FileIO,
    InputFile,
    OutputFile,
)
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from isotherm.clients import azure
from isotherm.clients.connected import CONNECTED
from isotherm.clients.local_files import LocalFile
from isotherm.clients.metadata_file import (
    METADATA_NAMES,
    MetadataFile,
    newest_of,
)
from isotherm.clients.name_nodes import MOST as MOST_NAME_NODES
from isotherm.clients.name_nodes import NAME_NODES, name_node
from isotherm.clients.name_nodes import check as check_name_node
from isotherm.clients.one_attempt import OneAttempt, gcs_client
from isotherm.clients.regions import REGIONS, Regions, ask_in_time, is_said
from isotherm.clients.remote_file import RetryingFile
from isotherm.clients.retries import REQUEST_TIMEOUT_S, of_the_store, store_of
from isotherm.contract.paths import is_local, is_plain

CONNECT_TIMEOUT_S = "5"
REQUESTS_AT_ONCE = 48
"""Small requests that are under way together: a store takes some 30 ms for each, so that is more than a thousand a second."""


def allow_requests() -> None:
    """Let this process have so many requests under way; before its first one.

    PyArrow opens at most 25 connections to a store, or as many as it has threads for input and output.
    """
    pa.set_io_thread_count(REQUESTS_AT_ONCE)


def properties_with_retries(properties: Mapping[str, str]) -> dict[str, str]:
    """Catalog or FileIO properties that make PyIceberg use `RetryingFileIO`, with time-outs; those given win."""
    return {
        "py-io-impl": f"{__name__}.RetryingFileIO",
        S3_CONNECT_TIMEOUT: CONNECT_TIMEOUT_S,
        S3_REQUEST_TIMEOUT: REQUEST_TIMEOUT_S,
        S3_RETRY_STRATEGY_IMPL: f"{OneAttempt.__module__}.{OneAttempt.__name__}",
        **properties,
    }


def plain_properties(io: FileIO) -> dict[str, str]:
    """A FileIO's properties for another process, its keys among them: never log them.

    What is no text stays here: a session, an object that fetches tokens.
    """
    plain = {name: value for name, value in io.properties.items() if isinstance(value, str)}
    if isinstance(io, RetryingFileIO) and io.name_nodes:
        plain[NAME_NODES] = " ".join(io.name_nodes)
    return plain


def spool_in(folder: Path) -> None:
    """Put what does not fit into memory into this folder, here and in every process that is started from here.

    The system's folder may be memory itself, or not be writable. What a killed process left in it is deleted.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for leftover in folder.iterdir():
        if leftover.is_file():
            leftover.unlink(missing_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


class RetryingFileIO(PyArrowFileIO):
    """PyIceberg's PyArrow FileIO, with retries for remote files, and a limit for metadata files."""

    regions: ClassVar[Regions] = REGIONS

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self.metadata_locations: deque[str] = deque(maxlen=64)
        """Of the tables that are being loaded; other files of metadata are known by their names."""
        self.name_nodes: tuple[str, ...] = tuple(str(properties.get(NAME_NODES, "")).split())
        """Hosts of HDFS that a catalog gave."""
        self._guessed: set[str] = set()
        """Buckets with a client whose region S3 has not told."""

    def may_ask(self, location: str) -> None:
        """Take the host in a location, where it is one of HDFS, for one that the catalog gave."""
        host = name_node(location)
        if host is not None and host not in self.name_nodes:
            # Where two threads do so at once one may be lost, until its table is loaded again.
            self.name_nodes = (*self.name_nodes, host)[-MOST_NAME_NODES:]

    @staticmethod
    def parse_location(location: str, properties: Properties = EMPTY_DICT) -> tuple[str, str, str]:
        """The scheme, the host and the path by which PyArrow knows a location.

        Raises:
            ForeignAccountError: it lies in an account of Azure that is not the operator's.
        """
        scheme, authority, path = PyArrowFileIO.parse_location(location, properties)
        is_azure = scheme in azure.SCHEMES
        return scheme, authority, azure.in_container(authority, path, properties) if is_azure else path

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> FileSystem:
        CONNECTED.use(self)
        return super()._initialize_fs(scheme, netloc)

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        ask_in_time(self.regions)
        client = super()._initialize_s3_fs(netloc)
        if netloc and not is_said(self.properties) and self.regions.of(netloc) is None:
            self._guessed.add(netloc)
        return client

    def _note_use(self) -> None:
        """Note that it is used, and have clients made again where S3 has told by now what was guessed."""
        CONNECTED.use(self)
        if self._guessed and any(self.regions.of(bucket) for bucket in tuple(self._guessed)):
            self._guessed = set()
            self.fs_by_scheme.cache_clear()  # type: ignore[attr-defined]

    def _initialize_gcs_fs(self) -> FileSystem:
        return gcs_client(self.properties)

    def _initialize_hdfs_fs(self, scheme: str, netloc: str | None) -> FileSystem:
        if netloc:
            check_name_node(f"{scheme}://{netloc}", self.properties, self.name_nodes)
        with of_the_store():
            return super()._initialize_hdfs_fs(scheme, netloc)

    def new_input(self, location: str) -> Any:
        """A file to read."""
        self._note_use()
        file = self._ours(super().new_input(location))
        is_metadata = location in self.metadata_locations or location.endswith(METADATA_NAMES)
        return MetadataFile(file, newest_of(self.properties)) if is_metadata else file

    def new_output(self, location: str) -> Any:
        """A file to write, which is never written over another one: no file of a table ever changes.

        Raises:
            UnsafeLocationError: the location may name another file than it says.
        """
        self._note_use()
        return self._ours(super().new_output(_plain(location)))

    def _ours(self, file: PyArrowFile) -> Any:
        local = is_local(file.location)
        return LocalFile(file) if local else RetryingFile(file, store_of(file.location, self.properties))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file; one that is not there raises FileNotFoundError, but only on the first try.

        A delete whose answer was lost finds nothing when it is sent again: that is what was wanted.

        Raises:
            UnsafeLocationError: the location may name another file than it says.
        """
        path = _plain(location if isinstance(location, str) else location.location)
        self._note_use()
        tries = 0

        def attempt() -> None:
            nonlocal tries
            tries += 1
            try:
                super(RetryingFileIO, self).delete(location)
            except FileNotFoundError:
                if tries == 1:
                    raise

        if is_local(path):
            attempt()
        else:
            # One that was given up may be done later: no name is used twice.
            store_of(path, self.properties).ask(attempt)

    def delete_once(self, location: str) -> None:
        """Delete a file whose name somebody may use again; where the answer is lost, whoever asks looks before they ask again.

        A second request could delete what was put back, or written, in between.

        Raises:
            FileNotFoundError: it is not there.
            UnsafeLocationError: the location may name another file than it says.
        """
        path = _plain(location)
        self._note_use()
        if is_local(path):
            super().delete(location)
        else:
            store_of(path, self.properties).once(lambda: super(RetryingFileIO, self).delete(location))


def delete_once(io: FileIO, location: str) -> None:
    """The same through any client: one that is not ours sends again what it likes."""
    if isinstance(io, RetryingFileIO):
        io.delete_once(location)
    else:
        io.delete(location)


class UnsafeLocationError(ValueError):
    """A location that PyArrow would cut, or that programs read in two ways: nothing is written or deleted there."""


def _plain(location: str) -> str:
    if not is_plain(location):
        raise UnsafeLocationError(f"the location {location!r} may name another file than it says")
    return location
