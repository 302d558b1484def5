"""How far a rewrite is: four numbers in memory that its process and the executor share.

The process writes them as it goes on, which costs less than a microsecond, and asks nobody. The executor reads them whenever
it wants, and waits for nothing. One number may be a batch of rows ahead of another.
"""

import mmap
import struct
from typing import Protocol

from isotherm.core.model.progress import Progress

NUMBERS = struct.Struct("=4Q")


class Told(Protocol):
    """Is told how far a rewrite is."""

    def read(self, rows: int, size_bytes: int) -> None:
        """So much more was read."""
        ...

    def written(self, rows: int, size_bytes: int) -> None:
        """So much was written in all, but for what was passed."""
        ...

    def passed(self, rows: int, bytes_read: int, bytes_written: int) -> None:
        """So much more was read, and is written as it was."""
        ...


class Nobody:
    """Where nobody wants to know."""

    def read(self, rows: int, size_bytes: int) -> None:
        """Nothing."""

    def written(self, rows: int, size_bytes: int) -> None:
        """Nothing."""

    def passed(self, rows: int, bytes_read: int, bytes_written: int) -> None:
        """Nothing."""


NOBODY = Nobody()


class Counters:
    """The process's side."""

    def __init__(self, descriptor: int) -> None:
        self._shared = mmap.mmap(descriptor, NUMBERS.size)
        self._rows_read = self._bytes_read = self._rows_written = self._bytes_written = 0
        self._rows_passed = self._bytes_passed = 0

    def read(self, rows: int, size_bytes: int) -> None:
        """So much more was read."""
        self._rows_read += rows
        self._bytes_read += size_bytes
        self._tell()

    def written(self, rows: int, size_bytes: int) -> None:
        """So much was written in all, but for what was passed."""
        self._rows_written, self._bytes_written = rows, size_bytes
        self._tell()

    def passed(self, rows: int, bytes_read: int, bytes_written: int) -> None:
        """So much more was read, and is written as it was."""
        self._rows_passed += rows
        self._bytes_passed += bytes_written
        self.read(rows, bytes_read)

    def _tell(self) -> None:
        # Not by `pack_into`, which makes the place zero before it fills it: whoever looked in between saw a job that began again.
        self._shared[:] = NUMBERS.pack(
            self._rows_read,
            self._bytes_read,
            self._rows_passed + self._rows_written,
            self._bytes_passed + self._bytes_written,
        )

    def close(self) -> None:
        """Let go of the memory."""
        self._shared.close()


def seen(shared: mmap.mmap) -> Progress:
    """The executor's side: how far it is now."""
    return Progress(*NUMBERS.unpack(shared[:]))


def part_of(size_bytes: int, rows: int, start: int, end: int) -> int:
    """The bytes of a file that its rows from one place to another stand for; of all its rows, the whole size."""
    whole = max(rows, 1)
    return size_bytes * min(end, whole) // whole - size_bytes * min(start, whole) // whole
