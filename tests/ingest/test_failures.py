"""What is made of an error, from what it and its causes say."""

import pytest

from isotherm_ingest.failures import WorkFailed, brief, was_too_much
from support.spark_errors import HEAP, RESULTS


class CapturedError(Exception):
    """As PySpark's own: its text is its message, and it keeps the cause beside it."""

    def __init__(self, text, cause=None):
        super().__init__(text)
        self._cause = cause

    @classmethod
    def in_a_circle(cls):
        one = cls("one")
        one._cause = cls("another", one)
        return one


def raised_from(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(HEAP),
        RuntimeError(RESULTS),
        RuntimeError(
            ": org.apache.spark.memory.SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] of 64 bytes"
        ),
        RuntimeError(
            "\nCaused by: io.netty.util.internal.OutOfDirectMemoryError: failed to allocate 16777216"
        ),
        MemoryError("malloc of size 2147483648 failed"),
        WorkFailed("a worker was killed"),
    ],
)
def test_less_may_pass_where_there_was_no_room(error):
    assert was_too_much(error)


@pytest.mark.parametrize(
    "error",
    [
        OSError("the store is away"),
        RuntimeError(RESULTS.replace("bigger", "other")),
        CapturedError.in_a_circle(),
    ],
)
def test_of_anything_else_less_is_no_help(error):
    assert not was_too_much(error)


def test_what_an_error_keeps_out_of_its_text_is_looked_for_in_its_causes():
    assert was_too_much(CapturedError("the job failed", CapturedError("a task failed", RuntimeError(HEAP))))
    assert was_too_much(
        raised_from(OSError("not written"), CapturedError("the job failed", RuntimeError(RESULTS)))
    )


def test_of_a_thread_that_waited_for_another_the_log_says_what_happened_there():
    assert brief(RuntimeError(RESULTS)) == (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Total size of serialized results of 1 tasks "
        "(14.4 MiB) is bigger than spark.driver.maxResultSize (8.0 MiB)"
    )
    assert brief(RuntimeError(RESULTS[: RESULTS.index("Caused by")])) == (
        "org.apache.spark.SparkException: Exception thrown in awaitResult:"
    )
    assert brief(RuntimeError(HEAP)) == "java.lang.OutOfMemoryError: Java heap space"
