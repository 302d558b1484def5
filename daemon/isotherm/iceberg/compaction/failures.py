"""Why a rewrite or a commit came to nothing, and whose fault it was: a file's, or the store's.

A file that is to blame is named, because a person has to look at it.
"""

import contextlib
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from isotherm.clients.manifests.avro import UnreadableError
from isotherm.clients.retries import is_transient
from isotherm.core.model.refusals import Reason, RefusalError


@contextlib.contextmanager
def blaming(path: str) -> Iterator[None]:
    """What goes wrong inside is the fault of this file, or of the store that holds it."""
    try:
        yield
    except (RefusalError, MemoryError, duckdb.OutOfMemoryException):
        raise
    except (duckdb.DataError, duckdb.IOException, duckdb.InvalidInputException) as err:
        raise RefusalError(Reason.CORRUPT_FILE, f"{path} is not a valid Parquet file: {err}") from err
    except FileNotFoundError as err:
        raise RefusalError(Reason.MISSING_FILE, f"{path} is not there: {err}") from err
    except pa.ArrowInvalid as err:
        raise RefusalError(Reason.CORRUPT_FILE, f"{path} is not a valid Parquet file: {err}") from err
    except OSError as err:
        # PyArrow has one exception for a broken page and for a broken store; only the store's carry a number
        # of the operating system or the name of a cloud.
        if is_transient(err) or err.errno is not None or "AWS Error" in str(err):
            raise RefusalError(Reason.STORAGE, f"reading {path}: {err}") from err
        raise RefusalError(Reason.CORRUPT_FILE, f"{path} is not a valid Parquet file: {err}") from err


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """What goes wrong inside is not the fault of an input file."""
    try:
        yield
    except OSError as err:
        raise RefusalError(Reason.STORAGE, f"writing: {err}") from err


class DamagedError(RefusalError):
    """Something that a commit reads is damaged; it may concern one of its jobs alone."""


def damaged(what: str, err: Exception) -> DamagedError:
    """That something is missing, or is not what it should be."""
    if isinstance(err, OSError):
        return DamagedError(Reason.STORAGE, f"{what}: {err}")
    if isinstance(err, UnreadableError):
        return DamagedError(Reason.CORRUPT_FILE, f"{what}: {err}")
    return DamagedError(Reason.UNEXPECTED, f"{type(err).__name__}: {err}")
