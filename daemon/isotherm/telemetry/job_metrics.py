"""Metrics of jobs, and of what went because of them."""

from collections.abc import Callable
from typing import assert_never

from isotherm.core.observations import of_work as seen
from isotherm.telemetry.series import Series

JOB_SECONDS = (0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
MOST_STARTED = 1000
"""A few jobs run at once. The end of one that began so many jobs ago is looked for in the ledger, if at all: it counts as
one of an earlier process."""


JobOrFiles = (
    seen.JobStarted
    | seen.JobEnded
    | seen.RewritesRun
    | seen.SnapshotsExpired
    | seen.FolderSearched
    | seen.FilesDeleted
    | seen.FilesRestored
)


class JobMetrics:
    """Counts jobs, snapshots that expired, files that were deleted."""

    def __init__(self, series: Series, now_ms: Callable[[], int]) -> None:
        self._of = series.of
        self._label = series.label
        self._now_ms = now_ms
        self._started: dict[str, None] = {}
        """Jobs of this process whose end was not told yet, in the order in which they began."""
        self.running = series.gauge("isotherm_jobs_running", "Compactions that run now.")
        self.jobs = series.counter(
            "isotherm_jobs", "Jobs that ended.", "table", "action", "outcome", "reason"
        )
        self.job_seconds = series.histogram(
            "isotherm_job_seconds", "Seconds of a rewrite.", "action", buckets=JOB_SECONDS
        )
        self.bytes_read = series.counter("isotherm_bytes_read", "Bytes that rewrites read.", "table")
        self.bytes_written = series.counter("isotherm_bytes_written", "Bytes that rewrites wrote.", "table")
        self.progress_rows = series.gauge(
            "isotherm_rewrite_rows",
            "Rows of the rewrites of a table that run: all, those that were read, and those that were written.",
            "table",
            "what",
        )
        self.progress_bytes = series.gauge("isotherm_rewrite_bytes", "The same of bytes.", "table", "what")
        self._drop = series.drop
        self.files_removed = series.counter(
            "isotherm_files_compacted", "Data files that compaction made superfluous.", "table"
        )
        self.job_memory = series.gauge(
            "isotherm_job_peak_memory_bytes", "Peak memory of the last rewrite's process."
        )
        self.last_success = series.gauge(
            "isotherm_last_success_timestamp_seconds", "When a job last succeeded.", "table", "action"
        )
        self.expired = series.counter("isotherm_snapshots_expired", "Snapshots expired.", "table")
        self.unneeded = series.gauge(
            "isotherm_unneeded_files",
            "Files in a table's folders that nothing needs, when they were last listed.",
            "table",
            "action",
        )
        self.unneeded_bytes = series.gauge("isotherm_unneeded_bytes", "Their size.", "table", "action")
        self.moved = series.counter(
            "isotherm_files_quarantined", "Orphans that were moved into quarantine.", "table"
        )
        self.purged = series.counter(
            "isotherm_files_purged", "Of the deleted files those that were in quarantine.", "table"
        )
        self.restored = series.counter(
            "isotherm_files_restored",
            "Files that came back from quarantine because their table needs them.",
            "table",
        )
        self.deleted = series.counter("isotherm_files_deleted", "Files deleted after an expiry.", "table")
        self.kept = series.counter(
            "isotherm_files_kept", "Files that a last look kept from being deleted.", "table"
        )
        self.postponed = series.counter(
            "isotherm_files_postponed",
            "Times that a file was not deleted yet, because something may need it or the store refused.",
            "table",
        )

    def __call__(self, what: JobOrFiles) -> None:
        """Count one observation."""
        match what:
            case seen.JobStarted():
                self.running.inc()
                self._started[what.job_id] = None
                if len(self._started) > MOST_STARTED:
                    del self._started[next(iter(self._started))]
            case seen.JobEnded():
                self._ended(what)
            case seen.RewritesRun():
                self._progressed(what)
            case seen.SnapshotsExpired():
                self._of(self.expired, self._label(what.table.name)).inc(what.snapshots)
            case seen.FolderSearched():
                name = self._label(what.table.name)
                self._of(self.unneeded, name, what.action).set(what.files)
                self._of(self.unneeded_bytes, name, what.action).set(what.bytes)
            case seen.FilesDeleted():
                name = self._label(what.table.name)
                self._of(self.deleted, name).inc(what.files)
                self._of(self.kept, name).inc(what.kept)
                self._of(self.postponed, name).inc(what.postponed)
                self._of(self.moved, name).inc(what.moved)
                self._of(self.purged, name).inc(what.purged)
            case seen.FilesRestored():
                self._of(self.restored, self._label(what.table.name)).inc(what.files)
            case _:
                assert_never(what)

    def _progressed(self, what: seen.RewritesRun) -> None:
        name = self._label(what.table.name)
        rows = {"all": what.rows, "read": what.rows_read, "written": what.rows_written}
        size_bytes = {"all": what.bytes, "read": what.bytes_read, "written": what.bytes_written}
        for metric, numbers in ((self.progress_rows, rows), (self.progress_bytes, size_bytes)):
            for word, number in numbers.items():
                if what.jobs and name:
                    self._of(metric, name, word).set(number)
                else:
                    self._drop(metric, what.table.name, word)

    def _ended(self, what: seen.JobEnded) -> None:
        name = what.table.name
        if what.job_id in self._started:
            # One of an earlier process may end before its table is planned for the first time.
            del self._started[what.job_id]
            name = self._label(name)
        self._of(self.jobs, name, what.action, what.outcome, what.reason).inc()
        if what.still_running is not None:
            self.running.set(what.still_running)
        if what.outcome == "done" and name:
            self._of(self.last_success, name, what.action).set(self._now_ms() / 1000)
        if what.bytes_read:
            self.job_seconds.labels(what.action).observe(what.seconds)
            self._of(self.bytes_read, name).inc(what.bytes_read)
            self._of(self.bytes_written, name).inc(what.bytes_written)
            self.job_memory.set(what.peak_memory_bytes)
        if what.outcome == "done" and what.action == "compact":
            self._of(self.files_removed, name).inc(max(what.files_before - what.files_after, 0))
