"""What went wrong in a write, told from what Spark says. The loops ask only: compute again, find out, or give up?"""

from enum import StrEnum

MOST_CAUSES = 20
"""Of one error. Nothing keeps them from going round in a circle."""


class TableRefused(RuntimeError):  # noqa: N818 (a state of the table, not a mistake)
    """The table cannot be written until a person looks: the message says what, and what to do."""


class CatalogAway(RuntimeError):  # noqa: N818 (nobody's mistake)
    """The catalog does not answer, whatever the table."""


class WorkFailed(RuntimeError):  # noqa: N818 (of a table's rows, wherever they are)
    """Workers could not decode or write the rows of a table."""


class TableChanged(RuntimeError):  # noqa: N818 (a state of the table, not a mistake)
    """Somebody has given the table another schema or spec since it was looked at."""


class Overtaken(RuntimeError):  # noqa: N818 (nobody's mistake)
    """Somebody has committed since the table was looked at, and nothing was done by that look yet."""


class CommitTooLate(RuntimeError):  # noqa: N818 (nobody's mistake)
    """Others committed to the table all the time. It is left out for a while: others wait for its commit."""


class Verdict(StrEnum):
    """What to do about a failed write."""

    CONFLICT = "conflict"
    """Nothing was committed, the table moved on: compute again."""
    UNKNOWN = "unknown"
    """It may have been committed: look for the own token first."""
    FAILED = "failed"
    """Anything else."""


_UNKNOWN = ("CommitStateUnknownException",)
_CONFLICT = (
    "org.apache.iceberg.exceptions.ValidationException",
    "CommitFailedException",
    # A rollback: the snapshot that we read from is in main's history no more.
    "is not an ancestor of",
    "Runtime file filtering",
    # The snapshot that the rows are looked for in has expired meanwhile.
    "Cannot find snapshot with ID",
    # A file that the scan planned is gone: compacted and expired meanwhile.
    "org.apache.iceberg.exceptions.NotFoundException",
    "java.io.FileNotFoundException",
    # The embedded catalog's way to say "somebody else is committing".
    "SQLITE_BUSY",
    "SQLITE_LOCKED",
)


def verdict(error: BaseException) -> Verdict:
    """What to do about what a write raised."""
    if isinstance(error, TableChanged):
        return Verdict.CONFLICT
    if isinstance(error, CommitTooLate):
        return Verdict.FAILED
    text = str(error)
    if any(mark in text for mark in _UNKNOWN):
        return Verdict.UNKNOWN
    if any(mark in text for mark in _CONFLICT):
        return Verdict.CONFLICT
    return Verdict.FAILED


_REFUSED = (
    # What Iceberg's checks raise, as Spark tells it.
    "Unsupported table change",
    "org.apache.iceberg.exceptions.ValidationException",
    # Spark's own: it folds case as Java does, so dotless i and i are one.
    "FIELD_ALREADY_EXISTS",
)


def is_refused(error: BaseException) -> bool:
    """Whether a change of a table's columns is refused for what it is, and not because something is away."""
    return any(mark in str(error) for mark in _REFUSED)


_ARROWS = (
    "org.apache.arrow.memory.OutOfMemoryException",
    "OutOfDirectMemoryError",
    "OversizedAllocationException",
)
"""Outside of Java's heap: no memory, or a column of more than 2 GiB."""


def was_too_much(error: BaseException) -> bool:
    """Whether fewer messages at once may pass: workers could not make their rows, or the driver could not hold them."""
    if isinstance(error, WorkFailed | MemoryError):
        return True
    text = _whole(error)
    if "bigger than spark.driver.maxResultSize" in text:  # the old values that a mirror keeps, for one
        return True
    return "OutOfMemoryError" in text or any(mark in text for mark in _ARROWS)


def _whole(error: BaseException) -> str:
    """What an error and its causes say. Some of PySpark's keep theirs out of their text."""
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(texts) < MOST_CAUSES:
        texts.append(str(cause))
        cause = getattr(cause, "_cause", None) or cause.__cause__
    return "\n".join(texts)


_TRACEBACK = "Traceback (most recent call last):"
"""Of a worker, which Spark hands on whole. The error itself is the first line behind it that is not indented."""


_WAITED = "Exception thrown in awaitResult"
"""Of the thread that waited for another. What happened there is the cause."""
_CAUSE = "Caused by: "


def brief(error: BaseException) -> str:
    """The first line that says something, for logs."""
    text = str(error)
    _, _, of_worker = text.partition(_TRACEBACK)
    raised = [line.strip() for line in of_worker.splitlines() if line and not line[0].isspace()]
    lines = raised[:1] or [line.strip() for line in text.splitlines()]
    told = next((line for line in lines if line.startswith(": ")), lines[0] if lines else "")
    if _WAITED in told:
        causes = (line for line in lines if line.startswith(_CAUSE) and _WAITED not in line)
        told = next(causes, told).removeprefix(_CAUSE)
    text = told.removeprefix(": ") or type(error).__name__
    return text[:500]
