"""Files, wherever a table lies: PyIceberg's FileIO with transient failures retried (`retries`).

Reading is retried request by request, and writing file by file: a remote file is spooled and goes up when it is closed,
so that an upload can begin again, and a reader never sees half a file. Each request, and each upload, has a limit as a whole
that grows with its size (`timeouts`). On a local disk nothing is spooled or retried, because there a failure is final.

A table's owner chooses its locations, and PyArrow cuts a location at `?` and `#`. So nothing is written or deleted
whose location is not plain, and no file is written over another.

What this module does not do: judge what is in a file, or decide what may be deleted.
"""

import io
import os
import tempfile
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar

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
    opened,
)
from isotherm.clients.name_nodes import MOST as MOST_NAME_NODES
from isotherm.clients.name_nodes import NAME_NODES, name_node
from isotherm.clients.name_nodes import check as check_name_node
from isotherm.clients.one_attempt import OneAttempt, gcs_client
from isotherm.clients.regions import REGIONS, Regions, ask_in_time, is_said
from isotherm.clients.retries import REQUEST_TIMEOUT_S, Store, of_the_store, store_of
from isotherm.clients.timeouts import TricklesError
from isotherm.contract.paths import is_local, is_plain

CONNECT_TIMEOUT_S = "5"
WHOLE_FILE_BYTES = 8 * 1024 * 1024
"""Up to here a remote file is read in one request; above it in pieces, as they are needed."""
REQUESTS_AT_ONCE = 48
"""Small requests that are under way together: a store takes some 30 ms for each, so that is more than a thousand a second."""
SPOOL_BYTES = 32 * 1024 * 1024
"""Up to here a remote file is spooled in memory while it is written, above it on disk."""


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


class RetryingFile(InputFile, OutputFile):
    """A remote file."""

    def __init__(self, file: PyArrowFile, store: Store) -> None:
        super().__init__(location=file.location)
        self._file = file
        self._store = store

    def __len__(self) -> int:
        return self._store.ask(self._file.__len__)

    def exists(self) -> bool:
        """Whether it is there."""
        return self._store.ask(self._file.exists)

    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002 (always seekable)
        """Its bytes: a small file at once, a large one piece by piece, each request retried."""
        size = len(self)
        if (reading := opened.reading) is not None:
            reading.location, reading.size_bytes = self.location, size
        if size > WHOLE_FILE_BYTES:
            return pa.PythonFile(
                io.BufferedReader(_Pieces(self._file, self._store, size), buffer_size=1024 * 1024), mode="r"
            )

        def whole() -> bytes:
            with self._file.open() as stream:
                return stream.read(size)

        return pa.BufferReader(pa.py_buffer(self._store.ask(whole, size)))

    def create(self, overwrite: bool = False) -> Any:  # noqa: ARG002 (Avro files are asked for with it)
        """A stream whose content goes up when it is closed."""
        if self.exists():
            raise FileExistsError(f"Cannot create file, already exists: {self.location}")
        return _Upload(self._file, self._store)

    def to_input_file(self) -> "RetryingFile":
        """The same file, to read."""
        return self


class _Pieces(io.RawIOBase):
    """A remote file as a seekable stream; after a transient failure it is opened again."""

    def __init__(self, file: PyArrowFile, store: Store, size: int) -> None:
        super().__init__()
        self._file, self._store, self._size, self._position = file, store, size, 0
        self._stream: Any = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def readinto(self, target: Any) -> int:
        wanted = min(len(target), max(self._size - self._position, 0))
        if wanted == 0:
            return 0
        try:
            data = self._store.ask(lambda: self._read(wanted), wanted)
        except TimeoutError:
            self._stream = None  # whoever was given up reads from it still
            raise
        target[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _read(self, wanted: int) -> bytes:
        try:
            if self._stream is None:
                self._stream = self._file.open()
            data: bytes = self._stream.read_at(wanted, self._position)
        except OSError:
            self._stream = None
            raise
        return data


class _Upload(io.RawIOBase):
    """What is written to a remote file, kept until it is closed; an exception inside `with` discards it."""

    def __init__(self, file: PyArrowFile, store: Store) -> None:
        super().__init__()
        self._file = file
        self._store = store
        self._spool: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES)  # noqa: SIM115 (closed below)
        self._discard = False

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._spool.tell()

    def write(self, data: Any) -> int:
        return self._spool.write(data)

    def discard(self) -> None:
        """Close it, and send nothing."""
        self._discard = True
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        try:
            if not self._discard:
                self._store.sent(self._send, self._spool.tell())
        except TricklesError:
            raise  # the thread that was given up reads from the spool still, which ends with it
        except BaseException:
            self._spool.close()
            raise
        else:
            self._spool.close()
        finally:
            super().close()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._discard = kind is not None
        self.close()

    def __del__(self) -> None:
        # Garbage collection must not send half a file.
        self._discard = True
        super().__del__()

    def _send(self) -> None:
        self._spool.seek(0)
        with self._file.create(overwrite=True) as stream:
            while chunk := self._spool.read(8 * 1024 * 1024):
                stream.write(chunk)
