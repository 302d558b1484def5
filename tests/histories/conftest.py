"""One catalog in the JVM's memory for all histories."""

import pytest

from histories.java import connected, on_disk


@pytest.fixture(scope="session")
def java(spark, tmp_path_factory):
    """Iceberg's Java API, and a catalog of made-up tables."""
    return connected(spark, tmp_path_factory.mktemp("histories"))


@pytest.fixture(scope="session")
def worked(spark, tmp_path_factory):
    """Iceberg's Java API, and a catalog of tables on a disk, which a daemon opens with these properties."""
    return on_disk(spark, tmp_path_factory.mktemp("at work"))
