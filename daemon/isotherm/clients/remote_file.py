"""A remote file: read request by request, each tried again, and sent as a whole when it is closed (`storage`)."""

import io
import tempfile
from types import TracebackType
from typing import IO, Any

import pyarrow as pa
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile

from isotherm.clients.metadata_file import opened
from isotherm.clients.retries import Store
from isotherm.clients.timeouts import TricklesError

WHOLE_FILE_BYTES = 8 * 1024 * 1024
"""Up to here a remote file is read in one request; above it in pieces, as they are needed."""
SPOOL_BYTES = 32 * 1024 * 1024
"""Up to here a remote file is spooled in memory while it is written, above it on disk."""


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
        stream, size = self._store.ask(self._opened)
        if (reading := opened.reading) is not None:
            reading.location, reading.size_bytes = self.location, size
        if size > WHOLE_FILE_BYTES:
            return pa.PythonFile(
                io.BufferedReader(_Pieces(self._file, self._store, size, stream), buffer_size=1024 * 1024),
                mode="r",
            )
        streams = [stream]

        def whole() -> bytes:
            # What failed once is opened again.
            with streams.pop() if streams else self._file.open() as opened_:
                return opened_.read(size)

        return pa.BufferReader(pa.py_buffer(self._store.ask(whole, size)))

    def create(self, overwrite: bool = False) -> Any:  # noqa: ARG002 (Avro files are asked for with it)
        """A stream whose content goes up when it is closed."""
        if self._store.ask(self._is_there):
            raise FileExistsError(f"Cannot create file, already exists: {self.location}")
        return _Upload(self._file, self._store)

    def to_input_file(self) -> "RetryingFile":
        """The same file, to read."""
        return self

    def _opened(self) -> tuple[Any, int]:
        """It, and its size, which its store tells whoever opens it: nobody needs to ask for that before."""
        try:
            stream: Any = self._file.open()
        except FileNotFoundError:
            len(self._file)  # which knows a file that is not there from a whole container
            stream = self._file.open()
        return stream, stream.size()

    def _is_there(self) -> bool:
        """Whether it can be opened. To be told that nothing exists, PyArrow would list the folder of its name, too."""
        try:
            self._file.open().close()
        except FileNotFoundError:
            return False
        return True


class _Pieces(io.RawIOBase):
    """A remote file as a seekable stream; after a transient failure it is opened again."""

    def __init__(self, file: PyArrowFile, store: Store, size: int, stream: Any) -> None:
        super().__init__()
        self._file, self._store, self._size, self._position = file, store, size, 0
        self._stream = stream

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
