"""Clients of stores that do not try again by themselves: `retries` does, and theirs would multiply ours.

A store that is away would cost minutes for each request: Google's client tries for a quarter of an hour.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlparse

from pyarrow.fs import AwsStandardS3RetryStrategy, FileSystem, GcsFileSystem
from pyiceberg.io import GCS_DEFAULT_LOCATION, GCS_SERVICE_HOST, GCS_TOKEN, GCS_TOKEN_EXPIRES_AT_MS
from pyiceberg.utils.datetime import millis_to_datetime

GCS_TRIES_FOR = timedelta(seconds=2)
"""Google's client knows no number of attempts. No attempt begins later; the first one always does."""


class OneAttempt(AwsStandardS3RetryStrategy):  # type: ignore[misc]
    """PyArrow's strategy for S3: one attempt."""

    def __init__(self) -> None:
        super().__init__(max_attempts=1)


def gcs_client(properties: Mapping[str, Any]) -> FileSystem:
    """A client of GCS as PyIceberg makes it, which gives up soon."""
    options: dict[str, Any] = {}
    if token := properties.get(GCS_TOKEN):
        options["access_token"] = token
    if expires_at := properties.get(GCS_TOKEN_EXPIRES_AT_MS):
        options["credential_token_expiration"] = millis_to_datetime(int(expires_at))
    if bucket_location := properties.get(GCS_DEFAULT_LOCATION):
        options["default_bucket_location"] = bucket_location
    if endpoint := properties.get(GCS_SERVICE_HOST):
        parts = urlparse(endpoint)
        options |= {"scheme": parts.scheme, "endpoint_override": parts.netloc}
    return GcsFileSystem(retry_time_limit=GCS_TRIES_FOR, **options)
