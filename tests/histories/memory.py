"""PyIceberg's way to the files that Iceberg's `InMemoryFileIO` keeps in the JVM of the Spark session.

On a disk, Hadoop starts a `chmod` for every file that it makes, some 15 ms each; a history of made-up files would
take minutes. The bytes are those that would be on the disk. Read only: in these tests only the JVM writes.
"""

import io
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from pyiceberg.io import FileIO, InputFile

MOST_KNOWN = 3_000
"""Files that are kept on this side; some KB each."""


class _Memory:
    """The JVM's files: they are static there, every instance has them all. A file never changes while it exists."""

    def __init__(self) -> None:
        from pyspark import SparkContext

        # Looked up once: py4j asks the JVM at every dot.
        jvm = SparkContext._active_spark_context._jvm
        self.exists = jvm.org.apache.iceberg.inmemory.InMemoryFileIO().fileExists
        self._input = jvm.org.apache.iceberg.inmemory.InMemoryFileIO().newInputFile
        self._copy = jvm.java.nio.file.Files.copy
        self._file = jvm.java.io.File
        self._options = jvm.java.lang.reflect.Array.newInstance(
            jvm.java.lang.Class.forName("java.nio.file.CopyOption"), 0
        )
        self._known: dict[str, bytes] = {}

    def read(self, location: str) -> bytes:
        if not self.exists(location):
            raise FileNotFoundError(location)
        if location not in self._known:
            if len(self._known) > MOST_KNOWN:
                self._known.clear()
            self._known[location] = self._fetched(location)
        return self._known[location]

    def _fetched(self, location: str) -> bytes:
        # Through a file: a py4j answer of more than 8 KB waits 40 ms for a delayed acknowledgement.
        with tempfile.TemporaryDirectory(prefix="histories-") as folder:
            path = Path(folder, "bytes")
            self._copy(self._input(location).newStream(), self._file(str(path)).toPath(), self._options)
            return path.read_bytes()


@cache
def _memory() -> _Memory:
    return _Memory()


class MemoryInput(InputFile):
    """One file, fetched when it is opened."""

    def __len__(self) -> int:
        return len(_memory().read(self.location))

    def exists(self) -> bool:
        return bool(_memory().exists(self.location))

    def open(self, seekable: bool = True) -> Any:
        del seekable
        return io.BytesIO(_memory().read(self.location))


class MemoryIO(FileIO):
    """All of them."""

    def new_input(self, location: str) -> MemoryInput:
        return MemoryInput(location)

    def new_output(self, location: str) -> Any:
        raise NotImplementedError

    def delete(self, location: Any) -> None:
        raise NotImplementedError
