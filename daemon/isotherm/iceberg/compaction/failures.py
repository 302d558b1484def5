"""Why a rewrite came to nothing, and whose fault it was: a file's, the store's, or the machine's.

A file that is to blame is named, because a person has to look at it.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import duckdb
import pyarrow as pa

from isotherm.iceberg.retries import is_transient


class FailureKind(StrEnum):
    """Why a rewrite came to nothing."""

    MISSING_FILE = "missing_file"
    CORRUPT_FILE = "corrupt_file"
    OUT_OF_MEMORY = "out_of_memory"
    KILLED = "killed"
    DEADLINE = "deadline"
    STORAGE = "storage"
    MISMATCH = "mismatch"
    """The rows that were written are not as manifests would tell; the same word as the committer's."""
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of a rewrite that wrote nothing of use, and why."""

    kind: FailureKind
    why: str
    path: str | None = None
    """The input file that is to blame, if one is."""


class RewriteError(Exception):
    """A rewrite that cannot go on."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.why)
        self.failure = failure


@contextlib.contextmanager
def blaming(path: str) -> Iterator[None]:
    """What goes wrong inside is the fault of this file, or of the store that holds it."""
    try:
        yield
    except (RewriteError, MemoryError, duckdb.OutOfMemoryException):
        raise
    except (duckdb.DataError, duckdb.IOException, duckdb.InvalidInputException) as err:
        raise RewriteError(
            Failure(FailureKind.CORRUPT_FILE, f"{path} is no sound Parquet: {err}", path)
        ) from err
    except FileNotFoundError as err:
        raise RewriteError(Failure(FailureKind.MISSING_FILE, f"{path} is not there: {err}", path)) from err
    except pa.ArrowInvalid as err:
        raise RewriteError(
            Failure(FailureKind.CORRUPT_FILE, f"{path} is no sound Parquet: {err}", path)
        ) from err
    except OSError as err:
        # PyArrow has one exception for a broken page and for a broken store; only the store's carry a number
        # of the operating system or the name of a cloud.
        if is_transient(err) or err.errno is not None or "AWS Error" in str(err):
            raise RewriteError(Failure(FailureKind.STORAGE, f"reading {path}: {err}", path)) from err
        raise RewriteError(
            Failure(FailureKind.CORRUPT_FILE, f"{path} is no sound Parquet: {err}", path)
        ) from err


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """What goes wrong inside is not the fault of an input file."""
    try:
        yield
    except OSError as err:
        raise RewriteError(Failure(FailureKind.STORAGE, f"writing: {err}")) from err
