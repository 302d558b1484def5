"""Real servers for the tests, started once a session and only when a test asks for them."""

from collections.abc import Iterator

import pytest

from isotherm.stack import Kafka, Stack


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
