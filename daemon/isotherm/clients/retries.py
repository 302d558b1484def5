"""Requests to a store: those that fail for a reason that passes are sent again here, and nowhere else.

A reason that passes is a 503, a time-out, a connection that was cut. The same request is sent again with growing
pauses, at most `ATTEMPTS` times and for half a minute. A store that does not answer is then left alone for a while.
"""

import errno
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from pyiceberg.io import S3_ENDPOINT, S3_REQUEST_TIMEOUT
from tenacity import (
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_after_delay,
    wait_exponential_jitter,
)

from isotherm.clients.timeouts import Patience, StoreSilentError, TricklesError
from isotherm.runtime import open_files
from isotherm.runtime.breaker import Breaker
from isotherm.runtime.clock import monotonic_s

ATTEMPTS = 6
"""With the pauses below some fifteen seconds: longer than S3 takes to split a busy prefix, shorter than a shift."""
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 8.0
REQUEST_TIMEOUT_S = "20"
"""Without a single byte; a large upload on a slow line is not cut off. What is read has a limit as a whole (`timeouts`)."""
GIVE_UP_AFTER_S = 30
"""No attempt begins later than this: a store that does not answer at all costs each request a whole time-out."""

_TRANSIENT = re.compile(
    r"HTTP status (5\d\d|429|408)|SLOW_?DOWN|INTERNAL_FAILURE|SERVICE_UNAVAILABLE|THROTTLING|REQUEST_?TIME_?OUT"
    r"|NETWORK_CONNECTION|curlCode|timed? ?out|Connection (reset|refused|closed)|Broken pipe"
    r"|\A(UNAVAILABLE|DEADLINE_EXCEEDED): ",
    re.IGNORECASE,
)
"""How PyArrow words what passes: it has one exception for all that S3, GCS and Azure may answer."""

_NO_ANSWER = re.compile(
    r"NETWORK_CONNECTION|curlCode|CURL error|timed? ?out|Connection (reset|refused|closed)", re.IGNORECASE
)
"""How it words that nobody answered."""

_SHORT = re.compile(r"curlCode: 27\b|CURL error \[27\]|Too many open files")
"""How it, and Python's clients of catalogs, word that this process has no more files or no memory: curl has one code for both."""

_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})

_NO_WAY_THERE = frozenset({errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH})

_QUOTED = re.compile(r"'[^']*'(?!\w)")

T = TypeVar("T")


class ShortageError(OSError):
    """A request could not be sent, because this process is short of something."""


def is_shortage(err: BaseException) -> bool:
    """Whether a request never left this process, because it has no file or no memory left: no word on whom it asks."""
    if not isinstance(err, OSError):
        return False
    return err.errno in _SHORTAGES or _SHORT.search(_without_path(str(err))) is not None


def is_no_answer(err: BaseException) -> bool:
    """Whether a request failed because nobody answered, rather than by an answer."""
    return _is(err, _NO_ANSWER)


def is_transient(err: BaseException) -> bool:
    """Whether the same request may succeed a little later."""
    return _is(err, _TRANSIENT) and not isinstance(err, TricklesError)


def _is(err: BaseException, wording: re.Pattern[str]) -> bool:
    """Whether an error is of a kind, by its type and number, and by its words where it has no more."""
    if isinstance(err, TimeoutError | ConnectionError):
        return True
    if not isinstance(err, OSError) or isinstance(err, FileNotFoundError | PermissionError):
        return False
    if is_shortage(err):
        return False
    if err.errno is not None:
        return err.errno in _NO_WAY_THERE
    return wording.search(_without_path(str(err))) is not None


def _without_path(text: str) -> str:
    """What an error says but for the file's name, which may be any words: a table may be called `timeouts`."""
    for before in ("AWS Error ", "google::cloud::Status("):
        _, is_theirs, words = text.rpartition(before)
        if is_theirs:
            return words
    return _QUOTED.sub("", text)


@contextmanager
def of_the_store() -> Iterator[None]:
    """Have silence inside be a store's. Python's own errors of a connection do not say whose it was."""
    try:
        yield
    except StoreSilentError:
        raise
    except (ConnectionError, TimeoutError) as err:
        raise StoreSilentError(err.errno or errno.ETIMEDOUT, err.strerror or str(err)) from err


class Store:
    """Requests to one store, each tried again while it fails for a reason that passes.

    One that was given up because nobody answered keeps no other one waiting: until the store's breaker lets the next
    question through, each fails at once.
    """

    def __init__(self, name: str, breaker: Breaker, patience: Patience) -> None:
        self.name = name
        self._breaker = breaker
        self._patience = patience

    def ask(self, action: Callable[[], T], size_bytes: int = 0) -> T:
        """The result of a request that takes or gives so many bytes, which must be over within some time.

        Raises:
            OSError: it failed, took too long, or the store did not answer (lately).
        """
        return self._asked(lambda: self._patience.within(action, size_bytes))

    def once(self, action: Callable[[], T]) -> T:
        """The result of a request that is not sent again, whatever comes of it. Raises OSError: as above."""
        return self._asked(lambda: self._patience.within(action, 0), again=False)

    def sent(self, action: Callable[[], T], size_bytes: int) -> T:
        """The result of an upload of so many bytes, which must be over within some time. Raises OSError: as above."""
        return self._asked(lambda: self._patience.sent(action, size_bytes))

    def listed(self, action: Callable[[], T]) -> T | None:
        """The result of a request whose answer may be very large, or None where it takes too long to come whole.

        It may be the answer that is large, so it is no silence of the store.
        """
        return self._asked(lambda: self._patience.listed(action))

    def _asked(self, action: Callable[[], T], *, again: bool = True) -> T:
        left_s = self._breaker.left_s
        if left_s > 0:
            raise OSError(f"{self.name} did not answer; it is asked again in {left_s:.0f} s")
        try:
            with of_the_store():
                answer = retried(action) if again else action()
        except OSError as err:
            if is_shortage(err):
                short = f"this process has no file ({open_files.limit()} at most) or no memory left"
                raise ShortageError(errno.EMFILE, f"{short}, so it could not ask {self.name}: {err}") from err
            if is_no_answer(err):
                self._breaker.failed()
            raise
        self._breaker.answered()
        return answer


_STORES: dict[tuple[str, str, float], Store] = {}
"""Of this process: by bucket, as `s3://lake`, endpoint, and time-out of a request."""


def store_name(location: str) -> str:
    """The store that a file lies in, as `s3://lake`."""
    return "/".join(location.split("/", 3)[:3])


def store_of(location: str, properties: Mapping[str, Any]) -> Store:
    """The store that a file lies in."""
    bucket = store_name(location)
    endpoint = str(properties.get(S3_ENDPOINT, ""))
    timeout_s = float(properties.get(S3_REQUEST_TIMEOUT, REQUEST_TIMEOUT_S))
    key = bucket, endpoint, timeout_s
    return _STORES.get(key) or _STORES.setdefault(key, Store(bucket, Breaker(), Patience(bucket, timeout_s)))


def retried(action: Callable[[], T]) -> T:
    """The action's result, tried again while it fails for a reason that passes."""
    began_s = monotonic_s()
    # Nearly always nothing fails, and then what counts attempts costs more than a small file.
    try:
        return action()
    except Exception as err:
        if not is_transient(err):
            raise
        failures: list[Exception] = [err]

    def attempt() -> T:
        if failures:
            raise failures.pop()
        return action()

    left_s = GIVE_UP_AFTER_S - (monotonic_s() - began_s)
    retrying = Retrying(
        stop=stop_after_attempt(ATTEMPTS) | stop_after_delay(left_s),
        wait=wait_exponential_jitter(multiplier=FIRST_PAUSE_S, max=LONGEST_PAUSE_S, jitter=FIRST_PAUSE_S),
        retry=retry_if_exception(is_transient),
        reraise=True,
    )
    return retrying(attempt)
