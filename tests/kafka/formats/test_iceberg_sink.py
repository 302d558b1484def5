"""Tables that Kafka Connect writes are followed from the sink's own control topic, without any event of ours."""

import re
import uuid
from pathlib import Path

import pytest

from isotherm.store import Fold
from support.daemon_process import Daemon
from support.iceberg_sink import Sink
from support.lab import EAGER, Lab, counted

pytestmark = pytest.mark.stack

RECORDED = Path(__file__).parents[2] / "support" / "kafka-connect"
KINDS = ("StartCommit", "DataWritten", "DataComplete", "CommitToTable", "CommitComplete")


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=EAGER)


@pytest.fixture
def sink(lab, kafka):
    name = uuid.uuid4()
    sink = Sink(lab, kafka, f"orders-{name}", f"control-iceberg-{name}")
    try:
        sink.start()
        yield sink
    finally:
        sink.stop()


@pytest.fixture
def daemon(lab, kafka, sink):
    # The looks at silent tables would find the commits as well: here only the source may.
    daemon = Daemon(
        lab,
        kafka.bootstrap_servers,
        f"control-{uuid.uuid4()}",
        loop={"poll_tables_every_s": 3600},
        kafka={"sources": [{"topic": sink.control_topic, "format": "iceberg-kafka-connect"}]},
        log={"level": "DEBUG"},
    )
    yield daemon
    daemon.end()


def rows(first, *hours):
    return [
        {"id": number, "at": f"2026-01-01T{hour:02}:05:00Z", "what": f"row {number}"}
        for number, hour in enumerate(hours, start=first)
    ]


def record(messages, root):
    """Keep a message of each kind for the decoder's tests, without the folder of this machine."""
    folder = str(root).encode()
    RECORDED.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        first = next(value for value in messages if f'"name":"{kind}"'.encode() in value)
        name = re.sub(r"(?<!^)(?=[A-Z])", "-", kind).lower()
        (RECORDED / f"{name}.avro").write_bytes(first.replace(folder, b"/lake".ljust(len(folder), b"/")))


def test_the_daemon_follows_the_sink_compacts_behind_it_and_the_sink_goes_on(lab, sink, daemon, request):
    table = lab.create()
    port = daemon.until("http_listening")["port"]
    daemon.until("started")
    messages = []
    for number, hours in enumerate([(1,), (1, 2), (1, 3), (4,), (5,)]):
        messages += sink.write(rows(10 * number, *hours))
        daemon.until("source_heard", outcome="announced")
    done = daemon.until("job_ended", outcome="done")
    sink.write(rows(50, 6, 7))
    daemon.until("source_heard", outcome="announced")
    daemon.until("event_applied", "event_seen")
    _, metrics = daemon.get("/metrics", port)
    assert daemon.stop() == 0

    announced = re.search(
        rf'isotherm_source_events_total{{outcome="announced",topic="{sink.control_topic}"}} (\d+)', metrics
    )
    assert int(announced[1]) >= 6
    assert "at_hour" in done["label"]
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [0, 10, 11, 20, 21, 30, 40, 50, 51]
    fold = Fold(daemon.folder / "state" / "fold.db", read_only=True)
    believed = {
        p.key: (dict(p.state.data), dict(p.state.deletes))
        for p in fold.partitions(str(table.metadata.table_uuid))
    }
    assert believed == counted(lab.scan())
    assert not [line for line in daemon.lines if line["event"] in {"event_rejected", "gap_healed"}]
    if request.config.getoption("--rewrite"):
        record(messages, lab.root)
