"""Which answers to a commit say that the request was not taken, whichever catalog gave them.

Everything else may have landed. An answer that only might mean "no" is not among these.
"""

import re

from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    RESTError,
    TooManyRequestsError,
    UnauthorizedError,
)

_REFUSALS = (BadRequestError, ForbiddenError, UnauthorizedError, AuthorizationExpiredError)
_LOST_RACE = "older than last sequence number"
"""How servers around Iceberg's older versions word a lost race, with status 400: another branch was faster."""
_NOT_TAKEN = frozenset({406, 412, 422})
"""Of REST, besides those above. A 404 may come from a proxy, and a 408 after the request was heard."""
_THROTTLED = re.compile("Throttl|TooManyRequests|RequestLimitExceeded|ThroughputExceeded|SlowDown")
"""In the codes by which AWS says that there are too many requests (of botocore's list for its own second attempts)."""
_UNSURE = re.compile("Timeout|TimedOut|FederationSource")
"""In codes of Glue's with a status of 400 after which the request may have been heard: OperationTimeoutException, and that
a source behind Glue has failed."""
_STATEMENTS = frozenset({"ProgrammingError", "IntegrityError"})
"""Of SQLAlchemy: a right or a column is missing, a trigger or a constraint says no."""


def is_refusal(err: Exception) -> bool:
    """Whether a catalog has said that it does not take a request, so that sending it again makes no sense."""
    if isinstance(err, _REFUSALS):
        return _LOST_RACE not in str(err)
    # PyIceberg's own, before anything is sent (DynamoDB), and what it makes of REST's 501.
    if isinstance(err, NotImplementedError):
        return True
    if isinstance(err, RESTError):
        return getattr(getattr(err.__cause__, "response", None), "status_code", None) in _NOT_TAKEN
    return _is_refused_by_aws(err) or _is_refused_by_sql(err)


def is_lost_race(err: Exception) -> bool:
    """Whether another commit was faster, or a proxy has sent the request twice and this answers the second copy."""
    return isinstance(err, (CommitFailedException, ValueError, *_REFUSALS)) and not is_refusal(err)


def is_busy(err: Exception) -> bool:
    """Whether a catalog has not taken a request because there are so many: it may take the next one."""
    return isinstance(err, TooManyRequestsError) or _THROTTLED.search(_said_by_aws(err)[0]) is not None


def _is_refused_by_aws(err: Exception) -> bool:
    """Whether it is an answer of Glue's with a status of the 400s that is not about time."""
    code, status = _said_by_aws(err)
    if is_busy(err) or _UNSURE.search(code):
        return False
    return "AccessDenied" in code or (400 <= status < 500 and status != 408)


def _said_by_aws(err: Exception) -> tuple[str, int]:
    """The code and the status of an answer of AWS; empty and 0 for all else. boto3 is installed where it is used."""
    answer = getattr(err, "response", None)
    is_aws = any(one.__module__ == "botocore.exceptions" for one in type(err).__mro__)
    if not is_aws or not isinstance(answer, dict):
        return "", 0
    code = answer.get("Error", {}).get("Code", "")
    return str(code), answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def _is_refused_by_sql(err: Exception) -> bool:
    """Whether the database refused the statement. One that is raised at the end of a transaction names no statement."""
    names = {one.__name__ for one in type(err).__mro__ if one.__module__.startswith("sqlalchemy.")}
    return bool(names & _STATEMENTS) and getattr(err, "statement", None) is not None
