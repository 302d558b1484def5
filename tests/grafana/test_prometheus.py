"""A real Prometheus scrapes both registries, and every query of the dashboard returns numbers.

Once with made-up observations of every kind, once with those of a real daemon on a healthy table.
"""

import itertools

import pytest
from prometheus_client import Counter, Gauge, Histogram, start_http_server

from grafana.prometheus import empty_after, scraping
from grafana.queries import daemon_metrics, ingest_metrics, panel_queries, program, substituted
from isotherm.contract.identity import TableId
from isotherm.core import observations as seen
from isotherm.core.model.jobs import Action, OutcomeKind
from isotherm.core.model.outside import Outside
from isotherm.core.model.readers import ReaderLag
from support.lab import EXPIRING, Lab, settle

TABLE = TableId("uuid-1", "shop.orders")
DEADLINE_S = 120
NOT_ITS_OWN = (
    *("isotherm_ingest", "isotherm_source", "isotherm_scan_reports", "isotherm_reads_per_day"),
    "isotherm_quarantined",  # of tables that have something there alone
    "isotherm_windows_ended",
    "isotherm_rewrite_",  # of tables of which a rewrite runs alone
)
AT_MS = 1_700_000_000_000


def something_of_everything() -> list[seen.Observation]:
    """What a daemon sees in a day, once."""
    job = {
        "table": TABLE, "action": Action.COMPACT, "job_id": "job-1", "label": "order_time_hour=2026-11-21-13", "why": "cold and due",
    }  # fmt: skip
    return [
        seen.EventApplied(TABLE, 1, "ingest", 1, AT_MS, AT_MS + 100, AT_MS + 200, 0.004),
        seen.EventSeen(seen.Heard.INTENT, TABLE.name),
        seen.EventRejected("no JSON", "isotherm.control", 0, 1, 10),
        seen.SourceHeard("control-iceberg", seen.Heard.ANNOUNCED, "shop.orders"),
        seen.ScansReported(seen.Reported.COUNTED, 3),
        seen.GapHealed(TABLE, 1),
        seen.TableScanned(TABLE, "first sight", 10, 0.1),
        seen.StateDrifted(TABLE, 1, "files"),
        seen.PartitionsRecounted(TABLE, 5, 0, 0.02),
        seen.TablePlanned(
            table=TABLE, snapshots=20, metadata_bytes=10_000, partitions=12, hot=2, due=3, unsupported=1,
            waiting=1, quarantined=1, score=1.5,
            files_per_partition=120, backlog_files=300, backlog_bytes=1_000_000, expire_score=0.4, metadata_file_bytes=9000, oldest_due_at_ms=AT_MS - 60_000,
            halted=False, paused=False, last_event_at_ms=AT_MS, reads_per_day=12.0,
            readers=(ReaderLag(3, "scoring", 60_000, is_kept=True), ReaderLag(-1, "gone", 0, is_kept=False)),
        ),
        seen.RoundPlanned(1, 3, 1, 0.02, deletions_held=False),
        seen.JobStarted(**job, files=100, bytes=1000),
        seen.JobEnded(
            **job, outcome=OutcomeKind.DONE, reason="committed", snapshot_id=2, files_before=100, files_after=1,
            bytes_read=1000, bytes_written=900, seconds=1.5, peak_memory_bytes=1_000_000, still_running=0,
        ),
        seen.RewritesRun(TABLE, 1, 100, 10_000, 50, 5_000, 40, 4_000),
        seen.SnapshotsExpired(TABLE, 10, 30),
        seen.FolderSearched(TABLE, "remove_orphans", 900, 12, 10**6, 12, "s3://lake/shop/orders/data/a.parquet"),
        seen.FilesDeleted(TABLE, 30, 1, 2, "reached: a retained snapshot reaches it"),
        seen.FilesRestored(TABLE, 1, "s3://lake/shop/orders/_isotherm_quarantine/j/data/a.parquet"),
        seen.QuarantineCounted(TABLE, 12, 10**6),
        seen.WindowAsked(TABLE, "w-1", 3, 60_000),
        seen.WindowEnded(TABLE, "w-1", seen.WindowEnd.DONE, 4.5, 1),
        seen.TableFailed("shop.orders", "looking at it", "format version 4"),
        seen.TableHalted(TABLE, "mismatch", "rows"),
        seen.HoldRejected("no/key", "no JSON"),
        seen.ReaderRejected("no/key", "no JSON"),
        seen.LedgerLost("it is new"),
        seen.EventsLost("the topic was made again"),
        seen.TrySoon("the catalog", "timed out", Outside.CATALOG),
        seen.PoliciesLoaded(ok=True, files=1, complaints=""),
    ]  # fmt: skip


def test_the_list_has_every_kind_of_observation_that_leaves_something_to_see():
    assert {type(what) for what in something_of_everything()} == set(seen.Observation.__args__) - {
        seen.TableGone,
        seen.TableMoved,
        seen.TableRecovered,
        seen.TableRefused,
        seen.HoldChanged,
        seen.JobGoesOn,
    }


def touch(metrics: object) -> None:
    """Move every metric of ingest, under some labels."""
    for metric in vars(metrics).values():
        if not isinstance(metric, Counter | Gauge | Histogram):
            continue
        labels = metric._labelnames  # noqa: SLF001 (nothing public tells them)
        one = metric.labels(*["shop.orders"] * len(labels)) if labels else metric
        match one:
            case Counter():
                one.inc()
            case Gauge():
                one.set(1)
            case Histogram():
                one.observe(1)


@pytest.fixture
def prometheus(tmp_path):
    """The address of a Prometheus, and the metrics of both programs, which it scrapes."""
    binary = program("prometheus")
    daemon, ingest = daemon_metrics(), ingest_metrics()
    servers = [
        start_http_server(0, addr="127.0.0.1", registry=metrics.registry)[0] for metrics in (daemon, ingest)
    ]
    try:
        with scraping(
            binary, tmp_path, *(f"127.0.0.1:{server.server_port}" for server in servers)
        ) as address:
            yield address, daemon, ingest
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def test_every_query_of_the_dashboard_returns_numbers(prometheus):
    address, daemon, ingest = prometheus
    queries = {query.where: substituted(query.expr, rate_interval="10s") for query in panel_queries()}
    assert len(queries) > 40

    def move():
        for what in something_of_everything():
            daemon(what)
        touch(ingest)

    assert empty_after(address, queries, DEADLINE_S, move) == {}


class Told(list):
    """The observations of a daemon, told to its metrics as they come."""

    def __init__(self, metrics):
        super().__init__()
        self._metrics = metrics

    def append(self, what):
        super().append(what)
        self._metrics(what)


def test_a_daemon_that_maintains_a_healthy_table_leaves_no_graph_of_its_own_empty(prometheus, tmp_path):
    address, metrics, _ = prometheus
    lab = Lab(tmp_path / "lab", policy=EXPIRING, seen=Told(metrics))
    table = lab.create()
    service = lab.service()
    service.start()
    queries = {
        query.where: substituted(query.expr, rate_interval="10s")
        for query in panel_queries()
        # Not its own: ingest's, and those of sources, of engines that report scans, and of writers that grant windows: it has none of these.
        if not any(name in query.expr for name in NOT_ITS_OWN)
    }
    assert len(queries) > 30
    hours = itertools.count(1)

    def move():
        hour = next(hours)
        for _ in range(4):
            lab.append(table, hour)
        settle(service)

    try:
        empty = empty_after(address, queries, DEADLINE_S, move)
    finally:
        service.stop()
        lab.executor.stop()

    assert empty == {}
    assert {what.reason for what in lab.seen if isinstance(what, seen.JobEnded)} == {"committed"}
