"""Metrics of how each table stands."""

from collections.abc import Callable
from typing import assert_never

from isotherm.core import observations as seen
from isotherm.telemetry.quarantine_metrics import QuarantineMetrics
from isotherm.telemetry.reader_metrics import ReaderMetrics
from isotherm.telemetry.series import Series

Standing = (
    seen.TablePlanned
    | seen.TableHalted
    | seen.TableFailed
    | seen.TableRecovered
    | seen.TableGone
    | seen.TableMoved
    | seen.TableRefused
    | seen.QuarantineCounted
)


class TableMetrics:
    """Shows each table as the last look found it."""

    def __init__(self, series: Series, now_ms: Callable[[], int]) -> None:
        self._series = series
        self._of = series.of
        self._now_ms = now_ms
        self._readers = ReaderMetrics(series)
        self._quarantine = QuarantineMetrics(series)
        self.snapshots = series.gauge("isotherm_snapshots", "Snapshots of a table's main branch.", "table")
        self.metadata_bytes = series.gauge(
            "isotherm_metadata_bytes", "Bytes of manifests that a table's head needs.", "table"
        )
        self.metadata_file_bytes = series.gauge(
            "isotherm_metadata_file_bytes",
            "Bytes of a table's metadata.json, which every commit writes again.",
            "table",
        )
        self.expire_score = series.gauge(
            "isotherm_expire_score",
            "Snapshots that may go, over what makes an expiry due; 1 is due.",
            "table",
        )
        self.partitions = series.gauge("isotherm_partitions", "Partitions by verdict.", "table", "verdict")
        self.score = series.gauge(
            "isotherm_score", "Highest debt over threshold of what is not hot; 1 is due.", "table"
        )
        self.files_per_partition = series.gauge(
            "isotherm_files_per_partition_max", "Most data files in any one partition.", "table"
        )
        self.todo_files = series.gauge("isotherm_todo_files", "Files that would be rewritten now.", "table")
        self.todo_bytes = series.gauge("isotherm_todo_bytes", "Bytes that would be rewritten now.", "table")
        self.compaction_lag = series.gauge(
            "isotherm_compaction_lag_seconds",
            "For how long some partition has had a debt of 1 or more, whatever it waits for.",
            "table",
        )
        self.reads_per_day = series.gauge(
            "isotherm_reads_per_day", "How often a table is read in a day, as engines have reported.", "table"
        )
        self.halted = series.gauge(
            "isotherm_table_halted", "1 while a person must look at the table.", "table"
        )
        self.paused = series.gauge(
            "isotherm_table_paused", "1 while a person wants the table to be left alone.", "table"
        )
        self.failing = series.gauge(
            "isotherm_table_failing",
            "1 while a table is set aside because it cannot be read, or because of a mistake of ours.",
            "table",
        )
        self.resting = series.gauge(
            "isotherm_tables_resting",
            "Tables that nobody has written to for a day and that need nothing: they have no series of their own.",
        )
        self.tables_gone = series.counter(
            "isotherm_tables_gone", "Tables that the catalog did not have any more."
        )
        self.last_event = series.gauge(
            "isotherm_last_event_timestamp_seconds", "When the table's last event came.", "table"
        )
        self.resting.set_function(series.resting)

    def __call__(self, what: Standing) -> None:
        """Count one observation."""
        match what:
            case seen.TablePlanned():
                self._planned(what)
            case seen.QuarantineCounted():
                self._quarantine.show(what.table.name, what.files, what.bytes)
            case seen.TableHalted():
                self._of(self.halted, what.table.name).set(1)
            case seen.TableFailed():
                self._of(self.failing, what.name).set(1)
            case seen.TableRecovered():
                self._series.drop(self.failing, what.name)
            case seen.TableGone():
                self._series.forget(what.table.name)
                self.tables_gone.inc()
            case seen.TableMoved():
                self._series.forget(what.table.name)
            case seen.TableRefused():  # each time that it is asked for; that it fails is told once an hour
                self._series.forget(what.table.name, self.failing)
            case _:
                assert_never(what)

    def _planned(self, what: seen.TablePlanned) -> None:
        name = what.table.name
        if what.rests:
            # Its deletions may fail still, and its quarantine empties by time.
            self._series.rest(name, self.failing, self._quarantine.files, self._quarantine.bytes)
            return
        self._series.bear(name)
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
        if what.readers is not None:
            self._readers.show(name, what.readers)
        if what.reads_per_day is None:
            self._series.drop(self.reads_per_day, name)
        else:
            self._of(self.reads_per_day, name).set(what.reads_per_day)
        self._of(self.halted, name).set(what.halted)
        self._of(self.paused, name).set(what.paused)
        if what.last_event_at_ms:
            self._of(self.last_event, name).set(what.last_event_at_ms / 1000)
