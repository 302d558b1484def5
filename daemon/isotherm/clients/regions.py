"""In which region of AWS a bucket is, where nobody says it: S3 itself is asked.

PyIceberg asks only once in a process, may wait for a minute and a half, and takes silence for an answer. While its client of
AWS waits, Arrow makes no other. So we ask, with a request of our own: it has some seconds, comes again later, and refuses
nothing. Until S3 has answered, the region is the one that AWS' client finds by itself, in its configuration or from the
machine. That is enough where no way leads to S3's public address. Where it is the wrong one, S3 says so to each request.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import requests
from pyiceberg.io import AWS_REGION, S3_ENDPOINT, S3_REGION
from pyiceberg.io import pyarrow as pyiceberg_files

from isotherm.clients.timeouts import TIMEOUTS, Patience, TricklesError
from isotherm.runtime.breaker import Breaker
from isotherm.runtime.clock import monotonic_s

WAIT_S = 5.0
"""S3 tells it within a second. An answer that comes later counts too, for whoever asks then."""
AGAIN_S, LONGEST_AGAIN_S = 60.0, 600.0
"""A bucket is asked for again after the first; where S3 says nothing at all, no bucket is, up to the second."""
MOST_BUCKETS = 1000
"""Remembered; for one more, the first is asked for again some day."""
ADDRESS = "https://{}.s3.us-east-1.amazonaws.com/"
"""Whoever asks there for a bucket of another region is told which. It is Arrow's address too."""
ADDRESS_OF_OTHERS = "https://s3.us-east-1.amazonaws.com/{}"
"""Of buckets whose name is no part of a host's: S3's certificate names none with another dot."""
_IN_A_HOST = re.compile(r"[a-z0-9-]{3,63}")
_BUCKET = re.compile(r"[A-Za-z0-9._-]{3,255}")


def region_said(bucket: str, address: str = "") -> str | None:
    """The region that S3 says of a bucket, whether we may read it or not; None where there is none of such a name.

    Raises:
        OSError: S3 does not answer.
    """
    if not _BUCKET.fullmatch(bucket):
        return None
    address = address or (ADDRESS if _IN_A_HOST.fullmatch(bucket) else ADDRESS_OF_OTHERS)
    with requests.head(address.format(bucket), timeout=WAIT_S, allow_redirects=False) as answer:
        return answer.headers.get("x-amz-bucket-region")


def is_said(properties: Mapping[str, Any]) -> bool:
    """Whether a client's region is the operator's word, or that of a store of another kind."""
    return any(properties.get(name) for name in (S3_REGION, AWS_REGION, S3_ENDPOINT))


class Regions:
    """What S3 has told of each bucket."""

    def __init__(
        self,
        ask: Callable[[str], str | None] = region_said,
        clock_s: Callable[[], float] = monotonic_s,
        wait_s: float = WAIT_S,
    ) -> None:
        self._ask_s3 = ask
        self._clock_s = clock_s
        self._patience = Patience("the region of a bucket", wait_s / TIMEOUTS, clock_s)
        self._silence = Breaker(clock_s, AGAIN_S, LONGEST_AGAIN_S)
        """Of S3 as a whole: a hundred buckets wait for it no longer than one."""
        self._told: dict[str, str] = {}
        self._again_s: dict[str, float] = {}
        """When a bucket may be asked for again."""

    def of(self, bucket: str | None) -> str | None:
        """The region of a bucket, or None where S3 has not told it (yet)."""
        if bucket is None or bucket in self._told or not self._is_due(bucket):
            return self._told.get(bucket or "")
        self._again_s[bucket] = self._clock_s() + AGAIN_S
        for kept in (self._told, self._again_s):
            if len(kept) > MOST_BUCKETS:
                kept.pop(next(iter(kept)), None)
        try:
            self._patience.within(lambda: self._ask(bucket))
        except (TricklesError, requests.Timeout):
            self._silence.failed()
        except OSError:
            pass  # no way leads to S3, which is known at once
        else:
            self._silence.answered()
        return self._told.get(bucket)

    def _is_due(self, bucket: str) -> bool:
        return self._silence.left_s <= 0 and self._clock_s() >= self._again_s.get(bucket, float("-inf"))

    def _ask(self, bucket: str) -> None:
        if region := self._ask_s3(bucket):
            self._told[bucket] = region


REGIONS = Regions()
"""Those of this process."""


def ask_in_time(regions: Regions) -> None:
    """Have PyIceberg ask these, whenever it makes a client without a region."""
    pyiceberg_files._cached_resolve_s3_region = regions.of  # type: ignore[assignment]  # noqa: SLF001 (there is no other way in)
