"""PyIceberg's errors as those that the service knows.

What does not answer becomes `Unavailable`; of its kinds, `Refused` is a right that is missing for one thing, `NoWord` an
answer that says nothing of it, and `Unreadable` a table that nothing can be made of. Only the catalog's own word makes a table `TableMissing`.
"""

import gzip
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pydantic
import pyiceberg.exceptions
import requests.exceptions
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    NoSuchIdentifierError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OAuthError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)
from requests.exceptions import ReadTimeout, RequestException

from isotherm.clients.retries import is_shortage
from isotherm.clients.timeouts import StoreSilentError
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.runtime.hanging import NotBegunError
from isotherm.runtime.secrets import without_secrets
from isotherm.service.ports import NoWord, Refused, StoreAway, TableMissing, Unavailable, Unreadable
from isotherm.service.tables.failing_tables import FATAL


def _kind(error: BaseException) -> type[Unavailable]:
    """What a catalog's error is: a refusal, an answer that says nothing of what was asked for, or no answer at all."""
    if isinstance(error, PermissionError):
        return Refused
    if isinstance(error, _OF_THE_SERVER):
        return NoWord
    if isinstance(error, RESTError):
        is_busy = isinstance(error, ServiceUnavailableError | TooManyRequestsError)
        return Unavailable if is_busy else Refused
    # AWS: a family that exists only where boto3 is installed.
    answer = getattr(error, "response", None)
    code = answer.get("Error", {}).get("Code", "") if isinstance(answer, dict) else ""
    return Refused if "AccessDenied" in code else Unavailable


def is_no_answer(error: Unavailable) -> bool:
    """Whether an error is the catalog's silence, and not its answer, nor that of the files behind it."""
    cause = error.__cause__
    if cause is not None and is_shortage(cause):
        return False
    if isinstance(cause, RequestException):
        return isinstance(cause, requests.exceptions.ConnectionError | requests.exceptions.Timeout)
    if isinstance(cause, StoreSilentError):
        return False
    # boto3, SQLAlchemy and Thrift have errors of their own, and are installed where they are used.
    return type(cause).__name__ in _SILENCE or isinstance(cause, ConnectionError | TimeoutError)


def is_time_out(error: Unavailable) -> bool:
    """Whether the catalog took a question, and no answer came: it may be what was asked for that hangs."""
    cause = error.__cause__
    return isinstance(cause, ReadTimeout | TimeoutError) or type(cause).__name__ == "ReadTimeoutError"


_OF_THE_SERVER = (ServerError, AuthorizationExpiredError, OAuthError, UnauthorizedError)


def wanted_pause_s(error: Unavailable) -> float:
    """How long a catalog that has had too many requests wants no more, or 0 where it does not say that."""
    cause = error.__cause__
    if not isinstance(cause, TooManyRequestsError):
        return 0.0
    # In seconds, as all catalogs have it; it may be a date, which says less than the clock that it is read with.
    response = getattr(cause.__cause__, "response", None)
    said = "" if response is None else str(response.headers.get("Retry-After", ""))
    return min(float(said), LONGEST_WANTED_S) if said.isdecimal() and int(said) else WANTED_S


WANTED_S, LONGEST_WANTED_S = 10.0, 600.0
"""The pause where the catalog names none, and the longest that is believed."""

_SILENCE = frozenset(
    {
        "ConnectTimeoutError",
        "EndpointConnectionError",
        "InterfaceError",
        "OperationalError",
        "ReadTimeoutError",
        "TTransportException",
    }
)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn whatever PyIceberg and its clients raise into an error that the service knows.

    Only an answer makes something missing. What we do not understand is there, as far as we know: a table is never
    forgotten because of it. What our own callbacks raise, and our own stores, goes through.
    """
    try:
        yield
    except (TableMissing, Unavailable, *FATAL):
        raise
    except (NoSuchTableError, NoSuchNamespaceError, NoSuchIdentifierError) as err:
        if _NOT_THE_CATALOG.match(str(err)):
            raise Unavailable(f"{what}: {_first_line(err)}") from err
        raise TableMissing(f"{what}: the catalog does not have it") from err
    except (FileNotFoundError, gzip.BadGzipFile) as err:  # the table's own metadata names it, or is it
        raise Unreadable(f"{what} cannot be read: {_first_line(err)}") from err
    except (RESTError, PermissionError) as err:
        raise _kind(err)(f"{what}: {_first_line(err)}") from err
    except RequestException as err:  # some of them are a ValueError too
        raise Unavailable(f"{what}: {_first_line(err)}") from err
    except OSError as err:
        # PyArrow has one error for all that a store may answer; a refusal is an answer.
        kind = Refused if "ACCESS_DENIED" in str(err) else StoreAway
        raise kind(f"{what}: {_first_line(err)}") from err
    except _NOT_UNDERSTOOD as err:
        raise Unreadable(f"{what} cannot be read: {_first_line(err)}") from err
    except Exception as err:
        raise _kind(err)(f"{what}: {_first_line(err)}") from err


_NOT_THE_CATALOG = re.compile(r"RESTError 404: |\w+: RestError: ")
"""How PyIceberg words a 404 that has no error of a catalog in it: a proxy's, or a wrong path."""

_NOT_UNDERSTOOD = (
    pydantic.ValidationError,
    pyiceberg.exceptions.ValidationError,
    pa.ArrowException,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    RecursionError,
    SystemError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
"""What parsers raise at bytes that are not what they should be."""


_PYDANTIC = re.compile(r"\d+ validation errors? for ")
"""A first line that says nothing: the place and the complaint are in the two below it."""


_REPEATED = "[type="
"""With what pydantic begins to repeat a part of what it was given, which may be any file that a catalog points to."""
LOOKED_AT = 16 * 1024
"""Characters of an error that are looked at. It may be all of a metadata file, and no search of it may take long."""
LONGEST = 500
"""Characters of an error that are told: a table's owner chooses what it repeats."""


def _first_line(err: Any) -> str:
    lines = str(err)[:LOOKED_AT].strip().splitlines()
    if lines and _PYDANTIC.match(lines[0]):
        lines = [": ".join(line.strip() for line in lines[1:3])]
    said = without_secrets(lines[0].partition(_REPEATED)[0].rstrip()) if lines else ""
    noted = "".join(f" ({without_secrets(note)})" for note in getattr(err, "__notes__", ()))
    return f"{type(err).__name__}: {said if len(said) <= LONGEST else f'{said[:LONGEST]}…'}{noted}"


def binding_refused(err: BaseException) -> Refusal | Unavailable:
    """What a binding came to that went wrong: where the catalog or the store is away, nothing is known yet."""
    if isinstance(err, Unavailable) and not isinstance(err, Unreadable):
        return err
    if isinstance(err, NotBegunError):
        return Unavailable(f"reading its manifests: {error_text(err)}")
    if isinstance(err, TimeoutError):  # it waits, so that the table's others have their turn
        return Refusal(Reason.UNAVAILABLE, f"reading its manifests: {error_text(err)}")
    if isinstance(err, Unreadable):
        is_missing = isinstance(err.__cause__, FileNotFoundError)
        return Refusal(Reason.MISSING_FILE if is_missing else Reason.CORRUPT_FILE, str(err))
    return Refusal(Reason.UNEXPECTED, f"its files could not be told: {error_text(err)}")


def error_text(err: object) -> str:
    """An error with its kind, for people."""
    return f"{type(err).__name__}: {err}"
