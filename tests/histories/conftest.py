"""One catalog in the JVM's memory for all histories."""

import pytest

from histories.java import connected


@pytest.fixture(scope="session")
def java(spark, tmp_path_factory):
    """Iceberg's Java API, and a catalog of made-up tables."""
    return connected(spark, tmp_path_factory.mktemp("histories"))
