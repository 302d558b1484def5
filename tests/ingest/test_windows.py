"""A mirror that never cools is compacted beside its ingest: one asks, the other waits, and nothing is done twice."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from isotherm.audit.evidence import Judged
from isotherm.audit.evidence_reader import read_history
from isotherm.audit.promises import cold_only
from isotherm.contract.summary import JOB_ID, WINDOW_ID
from isotherm.runtime import clock
from isotherm.runtime.config import load_config
from support.changes import Source, latest
from support.daemon_process import Daemon
from support.ingest_lab import Lab
from support.trading import STREAMS

pytestmark = [pytest.mark.spark, pytest.mark.stack]

POLICY = """
tables: "{name}.*"
cold: {{quiet_for: 1h}}
compact: {{min_files: 4, max_position_deletes: 4, rest: 0s, ask_writer: 60s}}
expire: {{enabled: false}}
"""


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS, grants=True)
    lab.make_topics("orders")
    yield lab
    lab.close()


@pytest.fixture
def daemon(lab: Lab, kafka: Any, lake_folder: Any, tmp_path: Any) -> Iterator[Daemon]:
    around = SimpleNamespace(
        root=tmp_path, policy=POLICY.format(name=lab.name), properties=lake_folder.pyiceberg_properties
    )
    daemon = Daemon(around, kafka.bootstrap_servers, lab.config.kafka.control_topic)
    yield daemon
    daemon.end()


def figure(lab: Lab, name: str, **labels: str) -> float:
    return lab.metrics.registry.get_sample_value(f"isotherm_ingest_{name}", labels) or 0.0


def test_a_mirror_that_never_cools_is_compacted_in_a_window(lab: Lab, daemon: Daemon) -> None:
    """Its rows are those of the source, no batch failed, and no upsert was computed again."""
    source, done = Source("orders"), Event()
    for number in range(5):
        lab.send("orders", source.insert(number), source.update(max(number - 1, 0), name=f"v{number}"))
        lab.ingest()
        lab.announce()
    daemon.until("table_scanned")

    def work() -> None:
        """As `isotherm-ingest run` does."""
        while not done.is_set():
            has_more = lab.driver.turn(clock.monotonic_s())
            lab.announce()
            if not has_more:
                done.wait(0.2)

    with ThreadPoolExecutor(1) as pool:
        driver = pool.submit(work)
        try:
            lab.send("orders", source.insert(10))
            asked = daemon.until("window_asked")
            for number in range(20, 24):
                lab.send("orders", source.insert(number), source.update(10, name=f"v{number}"))
            ended = daemon.until("window_ended", end="done")
        finally:
            done.set()
        driver.result(timeout=60)
    lab.ingest()

    assert ended["jobs"] == 1
    summaries = [one.summary.additional_properties for one in lab.snapshots("orders")]
    ours = [one for one in summaries if JOB_ID in one]
    assert [one[WINDOW_ID] for one in ours[:1]] == [ended["window_id"]]
    assert asked["partitions"] == 1
    assert latest(source.rows.values()) == latest(lab.rows("orders"))
    assert figure(lab, "batches_failed_total") == 0
    assert figure(lab, "merges_recomputed_total", table=f"{lab.name}.orders") == 0
    assert figure(lab, "windows_total", table=f"{lab.name}.orders", answer="granted") >= 1
    kept = cold_only(read_history(load_config(daemon.config), f"{lab.name}.orders"))
    assert kept.verdict is Judged.PROVED
    assert f", {len(ours)} in a window that the writer had granted" in kept.why
    assert 0 < figure(lab, "window_seconds_total", table=f"{lab.name}.orders") < 60
