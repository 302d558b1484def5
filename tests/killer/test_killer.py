"""Ingest is killed, paused, doubled and cut off while it writes; at the end every change is there exactly once.

`make soak ARGS="tests/killer --for 60m"` plays seeds that nobody played before; each prints what befell it. Half of them
have a REST catalog, the others one in a file.
`--seeds 7..9` plays those again.
"""

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import SystemRandom

import pytest

from isotherm.core.units import parse_span_ms
from isotherm.demo.stack import Kafka
from isotherm.demo.stack.stack import Stack
from isotherm.runtime.clock import monotonic_s
from killer.story import play
from support.rest_catalog import RestServer

pytestmark = pytest.mark.stack


@pytest.mark.timeout(900)
def test_killed_and_doubled_it_writes_every_change_once(
    kafka: Kafka, spark_jars: list[Path], tmp_path: Path
) -> None:
    told = play(1, tmp_path / "story", kafka, spark_jars, ["kill_worker", "replace_by_two"], has_daemon=False)

    assert told.wrong == [], str(told)


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker that may be killed."""
    with Stack(tmp_path_factory.mktemp("kafka"), postgres=False, connect=False) as stack:
        yield stack.kafka


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    """A JVM with REST catalogs."""
    server = RestServer(tmp_path_factory.mktemp("rest"))
    yield server
    server.process.stop()


@pytest.mark.soak
def test_soak_of_the_killer(
    request: pytest.FixtureRequest,
    own_kafka: Kafka,
    rest: RestServer,
    spark_jars: list[Path],
    tmp_path: Path,
    seeds,
    capsys,
) -> None:
    """The seeds that `--seeds` names, or new ones for an hour (`--for`). A broken story is told, and the next begins."""
    named = request.config.getoption("--seeds")
    until_s = monotonic_s() + parse_span_ms(request.config.getoption("soak_for") or "60m") / 1000
    broken = []
    for seed in seeds(named) if named else count(SystemRandom().randrange(2, 10**9)):
        told = play(seed, tmp_path / str(seed), own_kafka, spark_jars, rest=rest)
        if told.wrong:
            broken.append(seed)
        with capsys.disabled():
            sys.stderr.write(f"{told}\n")
        if not named and monotonic_s() > until_s:
            break
    assert not broken
