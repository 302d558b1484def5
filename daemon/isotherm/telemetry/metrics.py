"""Observations as Prometheus metrics.

Labels are few and bounded: a table, an action, a reason of a closed list; never a partition. The dashboard and the
alerts change in the same commit as a metric does.
"""

import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, assert_never

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)

from isotherm.core import observations as seen
from isotherm.core.observations import Observation, Outside

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
Numbers = TypeVar("Numbers", Counter, Gauge)
JOB_SECONDS = (0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)


def _bytes_of(store: Path) -> int:
    """A store with the log beside it."""
    parts = (store, store.with_name(f"{store.name}-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())


class Metrics:
    """A listener that counts."""

    def __init__(self, now_ms: Callable[[], int], version: str) -> None:  # noqa: PLR0915 (one line for each)
        # A third of all series would be the times at which counters were born.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._series: dict[str, set[tuple[Counter | Gauge, tuple[str, ...]]]] = {}
        """What each table has, so that it is forgotten without a look at all the others."""
        self._now_ms = now_ms
        one: Any = {"registry": self.registry}
        ProcessCollector(registry=self.registry)
        Info("isotherm_build", "The version that runs.", **one).info({"version": version})
        self.events = Counter(
            "isotherm_events", "Messages of the control topic, by what came of them.", ["outcome"], **one
        )
        self.events.labels("applied")
        self.events_rejected = Counter(
            "isotherm_events_rejected", "Messages that are no event of ours.", **one
        )
        self.source_events = Counter(
            "isotherm_source_events",
            "Messages of other systems' topics, by what came of them.",
            ["topic", "outcome"],
            **one,
        )
        self.event_seconds = Histogram(
            "isotherm_event_seconds", "Seconds to apply one commit event.", buckets=SECONDS, **one
        )
        self.decision_seconds = Histogram(
            "isotherm_commit_to_decision_seconds",
            "Seconds from a commit until its partitions had new verdicts.",
            buckets=SECONDS,
            **one,
        )
        self.gaps = Counter(
            "isotherm_unannounced_snapshots_found", "Snapshots that nobody had announced.", ["table"], **one
        )
        self.scans = Counter("isotherm_table_scans", "Full scans of a table's manifests.", ["table"], **one)
        self.drift = Counter(
            "isotherm_state_drift", "States that moved away from their table.", ["table"], **one
        )
        self.recounted = Counter(
            "isotherm_partitions_recounted", "Partitions counted anew in idle time.", ["table"], **one
        )
        self.snapshots = Gauge("isotherm_snapshots", "Snapshots of a table's main branch.", ["table"], **one)
        self.metadata_bytes = Gauge(
            "isotherm_metadata_bytes", "Bytes of manifests that a table's head needs.", ["table"], **one
        )
        self.metadata_file_bytes = Gauge(
            "isotherm_metadata_file_bytes",
            "Bytes of a table's metadata.json, which every commit writes again.",
            ["table"],
            **one,
        )
        self.expire_score = Gauge(
            "isotherm_expire_score",
            "Snapshots that may go, over what makes an expiry due; 1 is due.",
            ["table"],
            **one,
        )
        self.partitions = Gauge("isotherm_partitions", "Partitions by verdict.", ["table", "verdict"], **one)
        self.score = Gauge(
            "isotherm_score", "Highest debt over threshold of what is not hot; 1 is due.", ["table"], **one
        )
        self.files_per_partition = Gauge(
            "isotherm_files_per_partition_max", "Most data files in any one partition.", ["table"], **one
        )
        self.todo_files = Gauge("isotherm_todo_files", "Files that would be rewritten now.", ["table"], **one)
        self.todo_bytes = Gauge("isotherm_todo_bytes", "Bytes that would be rewritten now.", ["table"], **one)
        self.compaction_lag = Gauge(
            "isotherm_compaction_lag_seconds",
            "For how long some partition has had a debt of 1 or more, whatever it waits for.",
            ["table"],
            **one,
        )
        self.halted = Gauge(
            "isotherm_table_halted", "1 while a person must look at the table.", ["table"], **one
        )
        self.paused = Gauge(
            "isotherm_table_paused", "1 while a person wants the table to be left alone.", ["table"], **one
        )
        self.failing = Gauge(
            "isotherm_table_failing",
            "1 while a table is set aside because it cannot be read, or because of a mistake of ours.",
            ["table"],
            **one,
        )
        self._resting: set[str] = set()
        self.resting = Gauge(
            "isotherm_tables_resting",
            "Tables that nobody has written to for a day and that need nothing: they have no series of their own.",
            **one,
        )
        self.tables_gone = Counter(
            "isotherm_tables_gone", "Tables that the catalog did not have any more.", **one
        )
        self.last_event = Gauge(
            "isotherm_last_event_timestamp_seconds", "When the table's last event came.", ["table"], **one
        )
        self.rounds = Histogram(
            "isotherm_round_seconds", "Seconds of a planning round.", buckets=SECONDS, **one
        )
        self.last_round = Gauge("isotherm_last_round_timestamp_seconds", "When the last round ended.", **one)
        self.running = Gauge("isotherm_jobs_running", "Jobs that run now.", **one)
        self.jobs = Counter(
            "isotherm_jobs", "Jobs that ended.", ["table", "action", "outcome", "reason"], **one
        )
        self.job_seconds = Histogram(
            "isotherm_job_seconds", "Seconds of a rewrite.", ["action"], buckets=JOB_SECONDS, **one
        )
        self.bytes_read = Counter("isotherm_bytes_read", "Bytes that rewrites read.", ["table"], **one)
        self.bytes_written = Counter("isotherm_bytes_written", "Bytes that rewrites wrote.", ["table"], **one)
        self.files_removed = Counter(
            "isotherm_files_compacted", "Data files that compaction made superfluous.", ["table"], **one
        )
        self.job_memory = Gauge(
            "isotherm_job_peak_memory_bytes", "Peak memory of the last rewrite's process.", **one
        )
        self.last_success = Gauge(
            "isotherm_last_success_timestamp_seconds",
            "When a job last succeeded.",
            ["table", "action"],
            **one,
        )
        self.expired = Counter("isotherm_snapshots_expired", "Snapshots expired.", ["table"], **one)
        self.deleted = Counter("isotherm_files_deleted", "Files deleted after an expiry.", ["table"], **one)
        self.kept = Counter(
            "isotherm_files_kept", "Files that a last look kept from being deleted.", ["table"], **one
        )
        self.postponed = Counter(
            "isotherm_files_postponed",
            "Times that a file was not deleted yet, because something may need it or the store refused.",
            ["table"],
            **one,
        )
        self.trouble = Counter(
            "isotherm_unavailable", "Times that something outside did not answer.", ["what"], **one
        )
        for kind in Outside:
            self.trouble.labels(kind)
        self.away = Gauge(
            "isotherm_away", "1 while a round has to do without something outside.", ["what"], **one
        )
        self.events_lost = Counter(
            "isotherm_events_lost", "Times that messages of the control topic may have gone by unread.", **one
        )
        self.deletions_held = Gauge(
            "isotherm_deletions_held",
            "1 while the daemon deletes nothing, because it does not believe its ledger or its clock.",
            **one,
        )
        self.policies_ok = Gauge(
            "isotherm_policy_reload_successful",
            "1 when every policy file was good at the last reading.",
            **one,
        )
        self.policies_at = Gauge(
            "isotherm_policy_reload_timestamp_seconds", "When the policies were last read.", **one
        )

    def watch(self, folder: Path) -> None:
        """Tell at each scrape how large the stores in this folder are, and how much room is left for them."""
        one: Any = {"registry": self.registry}
        stores = Gauge("isotherm_state_bytes", "Bytes of a store of the daemon's own.", ["store"], **one)
        for name in ("fold", "ledger"):
            stores.labels(name).set_function(partial(_bytes_of, folder / f"{name}.db"))
        free = Gauge("isotherm_state_free_bytes", "Bytes that are free where the state folder is.", **one)
        free.set_function(lambda: shutil.disk_usage(folder).free)

    def __call__(self, what: Observation) -> None:  # noqa: C901, PLR0912, PLR0915 (one line for each kind)
        """Count one observation."""
        match what:
            case seen.EventApplied():
                self.events.labels("applied").inc()
                self.event_seconds.observe(what.seconds)
                self.decision_seconds.observe(max(what.decided_at_ms - what.committed_at_ms, 0) / 1000)
            case seen.EventSeen():
                self.events.labels(what.outcome).inc()
            case seen.EventRejected():
                self.events_rejected.inc(what.messages)
            case seen.SourceHeard():
                self.source_events.labels(what.topic, what.outcome).inc()
            case seen.GapHealed():
                self._of(self.gaps, what.table.name).inc(what.snapshots)
            case seen.TableScanned():
                self._of(self.scans, what.table.name).inc()
            case seen.StateDrifted():
                self._of(self.drift, what.table.name).inc()
            case seen.PartitionsRecounted():
                self._of(self.recounted, what.table.name).inc(what.partitions)
            case seen.TableGone() | seen.TableMoved():
                self._forget(what.table.name)
                if isinstance(what, seen.TableGone):
                    self.tables_gone.inc()
            case seen.TableFailed():
                self._of(self.failing, what.name).set(1)
            case seen.TableRecovered():
                with suppress(KeyError):
                    self.failing.remove(what.name)
            case seen.TablePlanned():
                self._table(what)
            case seen.RoundPlanned():
                self.rounds.observe(what.seconds)
                self.deletions_held.set(what.deletions_held)
                self.last_round.set(self._now_ms() / 1000)
                for kind in (Outside.CATALOG, Outside.CONTROL_END, Outside.HOLDS):
                    self.away.labels(kind).set(kind in what.away)
            case seen.JobStarted():
                self.running.inc()
            case seen.JobEnded():
                self._job(what)
            case seen.SnapshotsExpired():
                self._of(self.expired, what.table.name).inc(what.snapshots)
            case seen.FilesDeleted():
                self._of(self.deleted, what.table.name).inc(what.files)
                self._of(self.kept, what.table.name).inc(what.kept)
                self._of(self.postponed, what.table.name).inc(what.postponed)
            case seen.TableHalted():
                self._of(self.halted, what.table.name).set(1)
            case seen.HoldChanged():
                pass  # the next round's gauges say how the table stands
            case seen.HoldRejected():
                self.events_rejected.inc()
            case seen.LedgerLost():
                self.deletions_held.set(1)
            case seen.EventsLost():
                self.events_lost.inc()
            case seen.TrySoon():
                self.trouble.labels(what.kind).inc()
            case seen.PoliciesLoaded():
                self.policies_ok.set(what.ok)
                self.policies_at.set(self._now_ms() / 1000)
            case _:
                assert_never(what)

    def _table(self, what: seen.TablePlanned) -> None:
        name = what.table.name
        if what.rests:
            # Of ten thousand tables most rest: with series for each, a scrape would take seconds.
            self._forget(name)
            self._resting.add(name)
            self.resting.set(len(self._resting))
            return
        # A counter is born at zero, so that `rate` sees its first increment.
        for counter in (
            self.gaps,
            self.scans,
            self.drift,
            self.recounted,
            self.expired,
            self.deleted,
            self.kept,
            self.postponed,
            self.bytes_read,
            self.bytes_written,
            self.files_removed,
        ):
            self._of(counter, name)
        self._of(self.snapshots, name).set(what.snapshots)
        self._of(self.metadata_bytes, name).set(what.metadata_bytes)
        self._of(self.metadata_file_bytes, name).set(what.metadata_file_bytes)
        self._of(self.expire_score, name).set(what.expire_score)
        self._of(self.partitions, name, "hot").set(what.hot)
        self._of(self.partitions, name, "due").set(what.due)
        self._of(self.partitions, name, "unsupported").set(what.unsupported)
        self._of(self.partitions, name, "waiting").set(what.waiting)
        self._of(self.partitions, name, "quarantined").set(what.quarantined)
        told = what.hot + what.due + what.unsupported + what.waiting + what.quarantined
        self._of(self.partitions, name, "other").set(what.partitions - told)
        self._of(self.score, name).set(what.score)
        self._of(self.files_per_partition, name).set(what.files_per_partition)
        self._of(self.todo_files, name).set(what.backlog_files)
        self._of(self.todo_bytes, name).set(what.backlog_bytes)
        since_ms = what.oldest_due_at_ms
        self._of(self.compaction_lag, name).set(0 if since_ms is None else (self._now_ms() - since_ms) / 1000)
        self._of(self.halted, name).set(what.halted)
        self._of(self.paused, name).set(what.paused)
        if what.last_event_at_ms:
            self._of(self.last_event, name).set(what.last_event_at_ms / 1000)

    def _job(self, what: seen.JobEnded) -> None:
        name = what.table.name
        self._of(self.jobs, name, what.action, what.outcome, what.reason).inc()
        self.running.set(what.still_running)
        if what.outcome == "done":
            self._of(self.last_success, name, what.action).set(self._now_ms() / 1000)
        if what.bytes_read:
            self.job_seconds.labels(what.action).observe(what.seconds)
            self._of(self.bytes_read, name).inc(what.bytes_read)
            self._of(self.bytes_written, name).inc(what.bytes_written)
            self.job_memory.set(what.peak_memory_bytes)
        if what.outcome == "done" and what.action == "compact":
            self._of(self.files_removed, name).inc(max(what.files_before - what.files_after, 0))

    def _of(self, metric: Numbers, table: str, *labels: str) -> Numbers:
        """The series of a table in a metric; it is made at the first time."""
        if table in self._resting:
            self._resting.discard(table)
            self.resting.set(len(self._resting))
        self._series.setdefault(table, set()).add((metric, (table, *labels)))
        return metric.labels(table, *labels)

    def _forget(self, table: str) -> None:
        """A table that is gone, somebody else's, or at rest keeps no series."""
        self._resting.discard(table)
        self.resting.set(len(self._resting))
        for metric, labels in self._series.pop(table, ()):
            metric.remove(*labels)
