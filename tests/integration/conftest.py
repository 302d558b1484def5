"""Real servers for the tests, started once a session and only when a test asks for them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.spark import CATALOG, Lake, start_session
from isotherm.stack import Kafka, Stack, find_java, jar_paths


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker: `.bootstrap_servers`, `.create_topic(name, partitions=1, config=None)`."""
    root = tmp_path_factory.mktemp("kafka")
    with Stack(root, postgres=False, connect=False) as stack:
        yield stack.kafka


@pytest.fixture(scope="session")
def shop_stack(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """PostgreSQL, Kafka Connect and the same broker: `.postgres_dsn`, `.connect`, `.kafka`, …"""
    with Stack(tmp_path_factory.mktemp("a shop"), kafka=kafka) as stack:
        yield stack


@pytest.fixture(scope="session")
def spark_jars(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What a Spark session needs beside Spark's own jars."""
    find_java()
    return jar_paths("spark", tmp_path_factory.mktemp("jars"))


@pytest.fixture(scope="session")
def lake_folder(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Where `spark` and `lake` keep their tables; the properties of both sides."""
    # With a space: it must do no harm, to anybody.
    return Lake(tmp_path_factory.mktemp("a lake"))


@pytest.fixture(scope="session")
def lake(lake_folder: Lake) -> Any:
    """The PyIceberg catalog."""
    from pyiceberg.catalog import load_catalog

    return load_catalog(CATALOG, **lake_folder.pyiceberg_properties)


@pytest.fixture(scope="session")
def spark(
    lake: Any, lake_folder: Lake, spark_jars: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """A Spark session that sees the same tables as `lake.<namespace>.<table>`."""
    session = start_session(lake_folder, spark_jars, tmp_path_factory.mktemp("a session"))
    yield session
    session.stop()
