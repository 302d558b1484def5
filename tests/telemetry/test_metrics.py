"""What the daemon exports, and what it stops exporting; how loud a line of its log is."""

import json
import sys
from dataclasses import replace

import pytest
from prometheus_client import generate_latest

from isotherm.contract.identity import TableId
from isotherm.core import observations as seen
from isotherm.core.model.jobs import Action, Outcome, OutcomeKind
from isotherm.core.model.outside import Outside
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.runtime import logs
from isotherm.service.jobs.operations import Operations
from isotherm.store import Ledger
from isotherm.store.ledger import Operation
from isotherm.telemetry.job_metrics import MOST_STARTED
from isotherm.telemetry.metrics import Metrics


def planned(name):
    return seen.TablePlanned(
        TableId(f"uuid of {name}", name),
        snapshots=1, metadata_bytes=1, partitions=9, hot=1, due=1, unsupported=1, waiting=1, quarantined=1, score=1.5,
        files_per_partition=1, backlog_files=1, backlog_bytes=1, expire_score=0.5, metadata_file_bytes=1, oldest_due_at_ms=None, halted=False, paused=False,
        last_event_at_ms=1,
    )  # fmt: skip


def started(table, job_id="job"):
    return seen.JobStarted(table, Action.COMPACT, job_id, "compact a partition", files=9, bytes=9, why="due")


def ended(table, job_id="job"):
    return seen.JobEnded(
        table, Action.COMPACT, job_id, "compact a partition", OutcomeKind.DONE, "committed", "", snapshot_id=2,
        files_before=9, files_after=1, bytes_read=9, bytes_written=9, seconds=1.5, peak_memory_bytes=1,
        still_running=0,
    )  # fmt: skip


def with_tables(count):
    metrics = Metrics(lambda: 0, "test")
    for number in range(count):
        metrics(planned(f"t{number}"))
    return metrics


def text(metrics):
    """What is scraped, without what the process itself says: its CPU seconds grow between two scrapes."""
    scraped = generate_latest(metrics.registry).decode()
    return "".join(line for line in scraped.splitlines(keepends=True) if not line.startswith("process_"))


def a_round(**changes):
    return replace(seen.RoundPlanned(1, 1, 0, 0.5, deletions_held=False), **changes)


ORDERS = TableId("uuid of t0", "t0")
ALERTING = [
    ([a_round(away=(Outside.CATALOG,))], 'isotherm_away{what="catalog"} 1.0'),
    ([a_round(away=(Outside.CATALOG,))], 'isotherm_away{what="holds"} 0.0'),
    ([a_round(away=(Outside.HOLDS,)), a_round()], 'isotherm_away{what="holds"} 0.0'),
    ([a_round(away=(Outside.CONSENT,))], 'isotherm_away{what="consent"} 1.0'),
    ([a_round(away=(Outside.CONTROL_END,))], 'isotherm_away{what="control_end"} 1.0'),
    ([a_round(deletions_held=True)], "isotherm_deletions_held 1.0"),
    ([a_round(overdue_s=5.0)], "isotherm_deletions_overdue_seconds 5.0"),
    ([a_round(deletions_held=True), a_round()], "isotherm_deletions_held 0.0"),
    ([seen.LedgerLost("new")], "isotherm_deletions_held 1.0"),
    ([a_round()], "isotherm_last_round_timestamp_seconds 7200.0"),
    ([seen.TrySoon("t0", "503", Outside.STORAGE)], 'isotherm_unavailable_total{what="storage"} 1.0'),
    ([seen.TableHalted(ORDERS, Reason.MISMATCH, "rows")], 'isotherm_table_halted{table="t0"} 1.0'),
    ([replace(planned("t0"), halted=True)], 'isotherm_table_halted{table="t0"} 1.0'),
    (
        [seen.TableHalted(ORDERS, Reason.MISMATCH, "rows"), planned("t0")],
        'isotherm_table_halted{table="t0"} 0.0',
    ),
    ([replace(planned("t0"), paused=True)], 'isotherm_table_paused{table="t0"} 1.0'),
    ([seen.TableFailed("t0", "looking", "damaged")], 'isotherm_table_failing{table="t0"} 1.0'),
    ([planned("t0")], 'isotherm_partitions{table="t0",verdict="quarantined"} 1.0'),
    (
        [replace(planned("t0"), oldest_due_at_ms=3_600_000)],
        'isotherm_compaction_lag_seconds{table="t0"} 3600.0',
    ),
    ([planned("t0")], 'isotherm_compaction_lag_seconds{table="t0"} 0.0'),
    ([seen.StateDrifted(ORDERS, 1, "files +1")], 'isotherm_state_drift_total{table="t0"} 1.0'),
    ([seen.EventsLost("cut")], "isotherm_events_lost_total 1.0"),
    ([seen.EventRejected("no JSON", "control", 0, 1, 9, 5)], "isotherm_events_rejected_total 5.0"),
]


@pytest.mark.parametrize(("happened", "line"), ALERTING)
def test_what_an_alert_asks_for_is_what_was_seen(happened, line):
    metrics = Metrics(lambda: 7_200_000, "test")
    for what in happened:
        metrics(what)

    assert line in text(metrics).splitlines()
    metrics(seen.TableFailed("t1", "looking", "damaged"))
    metrics(seen.TableRecovered("t1"))
    assert 'isotherm_table_failing{table="t1"}' not in text(metrics)


def test_how_often_a_table_is_read_is_shown_while_it_is_known():
    metrics = with_tables(1)

    assert "isotherm_reads_per_day{" not in text(metrics)
    metrics(replace(planned("t0"), reads_per_day=412.0))
    metrics(seen.ScansReported(seen.Reported.COUNTED, 7))
    assert 'isotherm_reads_per_day{table="t0"} 412.0' in text(metrics)
    assert 'isotherm_scan_reports_total{outcome="counted"} 7.0' in text(metrics)
    metrics(planned("t0"))
    assert "isotherm_reads_per_day{" not in text(metrics)


@pytest.mark.parametrize("kind", [seen.TableGone, seen.TableMoved])
def test_a_table_that_is_gone_or_another_daemons_leaves_no_series_behind(kind):
    metrics = with_tables(2)
    gone = TableId("uuid of t0", "t0")
    metrics(seen.SnapshotsExpired(gone, 3, 1))
    metrics(kind(gone, "dropped") if kind is seen.TableGone else kind(gone))

    assert 'table="t0"' not in text(metrics)
    assert text(metrics).count('table="t1"') == text(with_tables(2)).count('table="t1"') > 10
    metrics(planned("t0"))
    assert 'isotherm_snapshots_expired_total{table="t0"} 0.0' in text(metrics)


@pytest.mark.parametrize("kind", [seen.TableGone, seen.TableMoved, None])
def test_what_happens_after_a_table_is_gone_is_counted_without_its_name(kind):
    """Its files are kept four weeks later, by a process that may never have seen it."""
    metrics, gone = Metrics(lambda: 0, "test"), TableId("uuid of t0", "t0")
    if kind is not None:
        metrics(planned("t0"))
        metrics(started(gone))
        metrics(kind(gone, "dropped") if kind is seen.TableGone else kind(gone))
        metrics(ended(gone))
    metrics(seen.SnapshotsExpired(gone, 3, 1))
    metrics(seen.FilesDeleted(gone, 0, 5, 0, "not_ours: its table was dropped"))

    assert 'table="t0"' not in text(metrics)
    assert 'isotherm_files_kept_total{table=""} 5.0' in text(metrics)
    assert 'isotherm_snapshots_expired_total{table=""} 3.0' in text(metrics)


@pytest.mark.parametrize("rests", [False, True])
def test_what_happens_at_a_table_that_rests_has_its_name(rests):
    metrics = with_tables(1)
    metrics(replace(planned("t0"), rests=rests))
    metrics(seen.FilesDeleted(TableId("uuid of t0", "t0"), 7, 5, 0, ""))

    assert 'isotherm_files_deleted_total{table="t0"} 7.0' in text(metrics)


def test_a_job_of_an_earlier_process_has_the_name_of_its_table():
    metrics = Metrics(lambda: 0, "test")
    metrics(ended(TableId("uuid of t0", "t0")))

    assert 'outcome="done",reason="committed",table="t0"} 1.0' in text(metrics)


@pytest.mark.parametrize("action", [Action.EXPIRE, Action.REMOVE_ORPHANS, Action.COMPACT])
def test_the_end_of_what_is_no_running_compaction_leaves_those_that_run_in_their_gauge(action):
    """An expiry or a search is none, and neither is one of which the files could not be told."""
    metrics, ledger = Metrics(lambda: 0, "test"), Ledger(None)
    for number in range(3):
        metrics(started(ORDERS, f"job {number}"))
    operations = Operations(ledger, metrics, lambda: 0, lambda: 0.0)
    operation = Operation("other", ORDERS, action, None, "", "", "", 1, 0)
    operations.end(operation, Outcome.refused("other", Refusal(Reason.STORAGE, "it cannot be read")))

    assert "isotherm_jobs_running 3.0" in text(metrics)
    metrics(replace(ended(ORDERS, "job 0"), still_running=2))
    assert "isotherm_jobs_running 2.0" in text(metrics)
    ledger.close()


def test_of_jobs_whose_end_is_never_told_the_oldest_count_as_those_of_an_earlier_process():
    """Their ids would be kept as long as the daemon runs."""
    metrics, table = Metrics(lambda: 0, "test"), TableId("uuid of t0", "t0")
    for number in range(MOST_STARTED + 1):
        metrics(started(table, f"job {number}"))
    metrics(ended(table, "job 1"))

    assert 'table="t0"' not in text(metrics)
    metrics(ended(table, "job 0"))
    assert 'outcome="done",reason="committed",table="t0"} 1.0' in text(metrics)


def test_a_table_that_rests_has_no_series_until_it_is_written_again():
    metrics = with_tables(2)
    metrics(replace(planned("t0"), rests=True))

    assert 'table="t0"' not in text(metrics)
    assert "isotherm_tables_resting 1.0" in text(metrics)
    metrics(planned("t0"))
    assert 'isotherm_score{table="t0"} 1.5' in text(metrics)
    assert "isotherm_tables_resting 0.0" in text(metrics)
    metrics(replace(planned("t0"), rests=True))
    metrics(seen.TableGone(TableId("uuid of t0", "t0"), "dropped"))
    assert "isotherm_tables_resting 0.0" in text(metrics)


def test_that_a_table_fails_stays_while_it_rests_and_goes_with_it():
    """Its deletions may fail. Each plan took that away, and no alert could come of it."""
    metrics = with_tables(2)
    metrics(seen.TableFailed("t0", "deleting", "ours"))
    for _ in range(2):
        metrics(replace(planned("t0"), rests=True))
        assert 'isotherm_table_failing{table="t0"} 1.0' in text(metrics)
    metrics(seen.TableRecovered("t0"))
    assert 'table="t0"' not in text(metrics)


def calls_to_forget_one_of(count):
    metrics, calls = with_tables(count), []
    sys.setprofile(lambda *_: calls.append(1))
    try:
        metrics(seen.TableGone(TableId("uuid of t0", "t0"), "dropped"))
    finally:
        sys.setprofile(None)
    return len(calls)


def test_to_forget_a_table_costs_the_same_however_many_there_are():
    # What the collector of garbage calls meanwhile comes on top.
    many, few = (min(calls_to_forget_one_of(count) for _ in range(5)) for count in (200, 2))

    assert many == few


def test_no_series_says_when_a_counter_was_born():
    assert "_created" not in text(with_tables(1))


def test_the_stores_of_the_daemon_are_measured_when_they_are_asked_for(tmp_path):
    metrics = with_tables(0)
    metrics.watch(tmp_path)
    before = text(metrics)
    for name, size in (("fold.db", 10), ("ledger.db", 20), ("ledger.db-wal", 300)):
        (tmp_path / name).write_bytes(bytes(size))
    after = text(metrics)

    assert 'isotherm_state_bytes{store="ledger"} 0.0' in before
    assert 'isotherm_state_bytes{store="fold"} 10.0' in after
    assert 'isotherm_state_bytes{store="ledger"} 320.0' in after
    assert "isotherm_state_free_bytes " in after


def test_no_events_yet_is_a_number():
    assert 'isotherm_events_total{outcome="applied"} 0.0' in text(with_tables(0))


@pytest.mark.parametrize(("is_silent", "level"), [(True, "info"), (False, "warning")])
def test_snapshots_of_a_writer_that_never_announces_are_no_warning(capsys, is_silent, level):
    logs.configure(style="json")
    logs.tell(seen.GapHealed(TableId("u", "t"), 2, ok=is_silent))

    assert json.loads(capsys.readouterr().err)["level"] == level


@pytest.mark.parametrize(("ok", "level"), [(True, "info"), (False, "warning")])
def test_policies_with_complaints_are_a_warning(capsys, ok, level):
    logs.configure(style="json")
    logs.tell(seen.PoliciesLoaded(ok=ok, files=1, complaints="" if ok else "a.yaml:1:1: unknown key"))

    assert json.loads(capsys.readouterr().err)["level"] == level


def test_how_far_rewrites_are_is_shown_while_they_run():
    metrics = with_tables(1)
    metrics(seen.RewritesRun(ORDERS, 2, 100, 1000, 60, 600, 40, 400))
    shown = text(metrics)
    metrics(seen.RewritesRun(TableId("x", "nobody's"), 1, 100, 1000, 60, 600, 40, 400))

    assert 'isotherm_rewrite_bytes{table="t0",what="read"} 600.0' in shown
    assert 'isotherm_rewrite_bytes{table="t0",what="all"} 1000.0' in shown
    assert 'isotherm_rewrite_rows{table="t0",what="written"} 40.0' in shown
    assert text(metrics) == shown
    metrics(seen.RewritesRun(ORDERS, 0))
    assert "isotherm_rewrite_rows{" not in text(metrics)
    assert "isotherm_rewrite_bytes{" not in text(metrics)
