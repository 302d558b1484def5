"""Files on a disk of this machine: only regular ones are opened, and none is written over another.

A table's owner chooses the names of its files. Opening a pipe waits for its writer, and reading a device may never end.
So whoever reads a local file opens it here, and is told at once where something else has its name.
"""

import os
import stat
from pathlib import Path
from typing import IO, Any

from pyiceberg.io.pyarrow import PyArrowFile


class NoRegularFileError(FileNotFoundError):
    """What has a file's name on a disk of this machine is something else, so the file is not there."""


def check_regular(path: str) -> None:
    """Refuse what may be opened or read for ever.

    Raises:
        NoRegularFileError: it is a pipe, a device, a socket or a folder; FileNotFoundError if nothing is there.
    """
    _check(path, Path(path).stat())


def opened(path: str) -> IO[bytes]:
    """A local file to read.

    Raises:
        NoRegularFileError: it is a pipe, a device, a socket or a folder; FileNotFoundError if nothing is there.
    """
    check_regular(path)  # some devices do something when they are opened
    # A pipe that has taken the file's place since then is opened without waiting for its writer, and refused below.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        _check(path, os.fstat(file))
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def _check(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NoRegularFileError(
            f"{path} is not opened: it is a pipe, a device or a folder, and no file; restore the table's file"
        )


class LocalFile(PyArrowFile):
    """A local file, which is written once, and read only if it is a file."""

    def __init__(self, file: PyArrowFile) -> None:
        self.__dict__.update(file.__dict__)

    def create(self, overwrite: bool = False) -> Any:  # noqa: ARG002 (Avro files are asked for with it)
        """A stream to a file that is not there yet."""
        return super().create(overwrite=False)

    def open(self, seekable: bool = True) -> Any:
        """Its bytes."""
        check_regular(self._path)
        return super().open(seekable)
