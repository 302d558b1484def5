"""Answers to a commit by which a catalog says that it has not taken it, and those that only may say so."""

from typing import Any

import requests
from botocore.exceptions import ClientError
from pyiceberg.exceptions import RESTError, TooManyRequestsError
from sqlalchemy.exc import IntegrityError, ProgrammingError


def answered(status: int) -> RESTError:
    """What PyIceberg makes of a status that it has no error for."""
    response = requests.Response()
    response.status_code = status
    error = RESTError("no")
    error.__cause__ = requests.HTTPError(response=response)
    return error


def aws(code: str, status: int) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item]
        "UpdateTable",
    )


def in_short(error: Any) -> str:
    """The name of a test."""
    return f"{type(error).__name__} {error}"[:60]


REFUSED = [
    NotImplementedError(),
    answered(406),
    answered(412),
    answered(422),
    aws("AccessDeniedException", 400),
    aws("InvalidInputException", 400),
    ProgrammingError("UPDATE iceberg_tables", {}, Exception("permission denied")),
    IntegrityError("UPDATE iceberg_tables", {}, Exception("permission denied")),
]
BUSY = [TooManyRequestsError("429"), aws("ThrottlingException", 400), aws("RequestLimitExceeded", 503)]
UNCLEAR = [
    answered(404),
    answered(408),
    aws("InternalServiceException", 500),
    aws("RequestTimeout", 408),
    aws("OperationTimeoutException", 400),
    aws("FederationSourceRetryableException", 400),
    IntegrityError(None, None, Exception("at the end of the transaction")),
]
