"""What tests of ingest with Spark and a broker share."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.ingest_lab import Lab
from support.trading import STREAMS, TABLES


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    lab.make_topics(*TABLES)
    yield lab
    lab.close()
