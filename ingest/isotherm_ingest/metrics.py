"""What the driver counts, for Prometheus. Labels are few: tables, reasons, origins."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from isotherm_ingest.announce.pending import Break

BATCH_BUCKETS = (0.25, 0.5, 1, 2, 3, 5, 10, 20, 60, 180, 600)
"""Seconds; fine where a trigger of one or two seconds lives, coarse where somebody must look."""


class Metrics:
    """The metrics of one driver, in a registry of their own."""

    def __init__(self) -> None:
        """Everything at zero."""
        self.registry = CollectorRegistry()
        self.rows = self._counter("rows", "Change events written to a table.", "table")
        self.commits = self._counter("commits", "Snapshots that ingest committed.", "table")
        self.recomputed = self._counter(
            "merges_recomputed", "Upserts that were computed again after a conflict.", "table"
        )
        self.batches_failed = Counter(
            "isotherm_ingest_batches_failed",
            "Batches in which at least one table failed.",
            registry=self.registry,
        )
        self.dead_letters = self._counter("dead_letters", "Messages sent to the dead-letter topic.", "reason")
        self.batch_seconds = Histogram(
            "isotherm_ingest_batch_seconds",
            "Seconds from a batch's begin to its last commit.",
            buckets=BATCH_BUCKETS,
            registry=self.registry,
        )
        self.lag_seconds = self._gauge(
            "lag_seconds", "Age of the newest change when it became readable.", "table"
        )
        self.unannounced = self._gauge("unannounced_snapshots", "Snapshots not yet announced.", "table")
        self.quarantined = self._gauge(
            "table_quarantined", "1 while a table is left out after a failure of its own.", "table"
        )
        self.announced = self._counter("events_announced", "Commit events sent.", "table", "origin")
        self.breaks = self._counter(
            "history_breaks", "Gaps and rollbacks found while announcing.", "table", "kind"
        )
        self.holes = self._counter("holes", "Times that a table was found to lack changes.", "table", "why")
        self.windows = self._counter(
            "windows", "Windows that the daemon asked for, by what was said.", "table", "answer"
        )
        self.window_seconds = self._counter(
            "window_seconds",
            "Seconds for which a table was left alone, because the daemon had asked.",
            "table",
        )
        self.unread = self._gauge("unread_messages", "Messages that wait, by topic.", "topic")
        self.unread_share = self._gauge(
            "unread_share",
            "Share of what Kafka holds of a topic that is still unread; at 1 it begins to be lost.",
            "topic",
        )
        self.turned = Gauge(
            "isotherm_ingest_last_turn_timestamp_seconds",
            "When the driver last looked at Kafka and did all that was due; it ages by itself where the driver hangs.",
            registry=self.registry,
        )
        self.dead_letters.labels("no_schema")

    def expect(self, table: str) -> None:
        """Have the counters of a table's troubles born at zero, so that `rate` sees their first increment."""
        self.recomputed.labels(table)
        for kind in (Break.GAP, Break.ROLLBACK):
            self.breaks.labels(table, kind.value)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"isotherm_ingest_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"isotherm_ingest_{name}", text, labels, registry=self.registry)
