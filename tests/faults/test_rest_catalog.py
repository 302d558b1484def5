"""The daemon on a REST catalog and S3, which most lakes are made of: beside a stream, and with few rights.

The rows are judged by what the writer wrote and another client of the catalog reads.
"""

import threading

import pytest
import yaml
from prometheus_client import generate_latest
from pyiceberg.table.update import UpgradeFormatVersionUpdate
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.core import observations as seen
from isotherm.core.model.jobs import OutcomeKind
from isotherm.telemetry.metrics import Metrics
from support.announcing import ControlTopic
from support.daemon_process import Daemon, eventually
from support.lab import EAGER, EXPIRING, of, settle, started, wait_for_children

pytestmark = pytest.mark.stack

POLICY = EAGER.replace("quiet_commits: 2", "quiet_commits: 0")
STREAMING = EXPIRING.replace("quiet_commits: 2", "quiet_commits: 0").replace("keep_last: 2", "keep_last: 4")
DAY_MS = 86_400_000
NOT_ALLOWED = "Principal 'isotherm' is not authorized for op UPDATE_TABLE"


class Stream:
    """Commits to a table every second, and announces it, from a thread of its own."""

    def __init__(self, lab, table, topic):
        self._lab, self._table, self._topic = lab, table, topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.errors = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(60)

    def _write(self):
        while not self._over.wait(1):
            try:
                self._topic.announce(self._lab.append(self._table, 9, announce=False))
            except Exception as err:  # noqa: BLE001 (whatever stops the stream is what the test looks for)
                self.errors.append(err)


def ids(lab, name, snapshot_id=None):
    rows = lab.writer.load_table(name).scan(snapshot_id=snapshot_id).to_arrow()
    return sorted(rows["id"].to_pylist())


def test_beside_a_stream_it_compacts_expires_and_deletes_in_nested_namespaces(rest_lab, servers):
    lab = rest_lab(STREAMING)
    deep, streamed = lab.create("a.b.c.deep"), lab.create("a.b.streamed")
    for hours in ((1,), (1,), (1, 9)):
        lab.append(deep, *hours, announce=False)
    in_deep = lab.rows
    topic = ControlTopic(servers.bootstrap_servers, "rest-stream")
    for hours in ((1,), (1,), (1, 9)):
        topic.announce(lab.append(streamed, *hours, announce=False))
    looked = lab.writer.load_table("a.b.streamed")  # the stream's own handle is for its thread alone
    tagged = looked.snapshots()[1].snapshot_id
    daemon = Daemon(lab, servers.bootstrap_servers, "rest-stream", catalog={"timeout_s": 5})
    try:
        with Stream(lab, streamed, topic) as stream:
            looked.manage_snapshots().create_tag(tagged, "q3").commit()
            daemon.until("job_started")
            lab.guard.expire_tokens()
            eventually(lambda: len(lab.ours("a.b.c.deep")) == 1 and len(lab.ours("a.b.streamed")) == 1)
            daemon.until("snapshots_expired", table="a.b.streamed")
            in_between = looked.refresh().snapshots()[-3].snapshot_id
            looked.manage_snapshots().create_tag(in_between, "q4").commit()
            before = ids(lab, "a.b.streamed", in_between)
            daemon.until("snapshots_expired", table="a.b.streamed")
            daemon.until("files_deleted", table="a.b.streamed")
        assert daemon.stop() == 0
    finally:
        daemon.end()

    assert stream.errors == []
    assert ids(lab, "a.b.c.deep") == list(range(in_deep))
    assert ids(lab, "a.b.streamed") == list(range(in_deep, lab.rows))
    assert len(ids(lab, "a.b.streamed", tagged)) == 4
    assert ids(lab, "a.b.streamed", in_between) == before
    assert all(ids(lab, "a.b.streamed", s.snapshot_id) for s in looked.refresh().snapshots())
    assert len(lab.guard.issued) > 1


def ask(lab, *words):
    """What a command answers beside the daemon, on one line."""
    config = {
        "catalog": {"properties": lab.properties},
        "kafka": {"properties": {"bootstrap.servers": "unused"}},
    }
    path = lab.root / "isotherm.yaml"
    path.write_text(yaml.safe_dump(config))
    return " ".join(CliRunner().invoke(app, [*words, "--config", str(path)]).output.split())


def look(lab):
    """What `isotherm look` says, with nothing but what the catalog needs."""
    words = [word for pair in lab.properties.items() for word in ("--property", "=".join(pair))]
    policy = lab.root / "look.yaml"
    policy.write_text(STREAMING)
    found = CliRunner().invoke(app, ["look", "--policy", str(policy), *words])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_who_may_not_commit_is_told_so_everywhere_and_asks_ever_more_rarely(rest_lab, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    lab = rest_lab(STREAMING)
    table = lab.create()
    for hours in ((1,), (1,), (1, 3), (3,), (3,), (3,)):
        lab.append(table, *hours, announce=False)
    lab.guard.readers.add("isotherm")
    service = started(lab)
    settle(service)

    ended = {one.action.value: one for one in service.ledger.operations()}
    assert {name: (one.state, one.reason) for name, one in ended.items()} == {
        "compact": ("failed", "refused"),
        "expire": ("failed", "refused"),
    }
    assert all(NOT_ALLOWED in one.outcome_why for one in ended.values())
    assert ask(lab, "plan", "shop.orders").count(NOT_ALLOWED) == 2
    assert NOT_ALLOWED in ask(lab, "explain", "shop.orders", "at_hour=2026-01-01-01")
    assert NOT_ALLOWED in ask(lab, "explain", "shop.orders")
    assert "at once: 1 job would read" in look(lab), "who may not commit may look"
    metrics = Metrics(lambda: 0, "test")
    for one in lab.seen:
        metrics(one)
    counted = generate_latest(metrics.registry).decode()
    for action in ended:
        labels = f'action="{action}",outcome="failed",reason="refused",table="shop.orders"'
        assert f"isotherm_jobs_total{{{labels}}} 1.0" in counted

    # Four minutes: again after one, and two more; not yet after four more.
    for _ in range(4):
        lab.ahead_ms += 61_000
        settle(service)
    tried = [one.action.value for one in service.ledger.operations()]
    assert {action: tried.count(action) for action in ended} == dict.fromkeys(ended, 3)
    assert service.ledger.deletions(str(table.metadata.table_uuid)).get("deleted") is None

    # Less than a day: then the hour that the stream is in would count as left, too.
    lab.guard.readers.clear()
    lab.ahead_ms += DAY_MS // 2
    settle(service)
    assert len(lab.ours()) == 1
    assert ids(lab, "shop.orders") == list(range(lab.rows))
    service.stop()


def done(lab):
    """The jobs that were done; several may be one commit."""
    return {one.job_id for one in of(lab, seen.JobEnded) if one.outcome is OutcomeKind.DONE}


def test_keys_that_the_catalog_lends_reach_the_rewrite_and_are_renewed(rest_lab):
    lab = rest_lab(POLICY, borrows=True)
    table = lab.create()
    for hours in ((1,), (1,), (1, 2), (2,), (2,), (9,)):
        lab.append(table, *hours, announce=False)
    assert not any("key" in name for name in lab.properties)
    service = lab.settled()
    assert len(done(lab)) == 2

    # Between two jobs.
    lab.guard.renew_keys()
    for hour in (3, 3, 3):
        lab.append(table, hour, announce=False)
    lab.ahead_ms += 61_000
    settle(service)
    assert len(done(lab)) == 3

    # While a rewrite is over and not yet committed.
    for hour in (4, 4, 4):
        lab.append(table, hour, announce=False)
    for _ in range(40):
        service.step(0)
        if len(service.compactions):
            break
    wait_for_children(service)
    lab.guard.renew_keys()
    settle(service)
    lab.ahead_ms += 121_000
    settle(service)

    assert len(done(lab)) == 4
    assert ids(lab, "shop.orders") == list(range(lab.rows))
    assert not of(lab, seen.TableHalted)
    service.stop()


def test_a_table_of_version_3_is_compacted_and_each_row_keeps_its_id(rest_lab):
    """The server is Iceberg's own: it counts row ids on by itself, and would refuse what is behind."""
    lab = rest_lab(EAGER.replace("quiet_commits: 2", "quiet_commits: 0"))
    table = lab.create()
    for hours in ((1,), (1,), (1, 9)):
        lab.append(table, *hours, announce=False)
    # PyIceberg writes no data into such a table, so the table becomes one after its data.
    table.catalog.commit_table(table, (), (UpgradeFormatVersionUpdate(format_version=3),))

    settle(started(lab))

    found = lab.writer.load_table("shop.orders")
    assert len(lab.ours()) == 1
    ours = found.current_snapshot()
    assert found.metadata.format_version == 3
    assert ids(lab, "shop.orders") == list(range(lab.rows))
    assert ours.first_row_id == 0
    assert found.metadata.next_row_id == ours.added_rows >= lab.rows
