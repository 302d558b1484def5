"""Metrics of what the daemon hears."""

from typing import assert_never

from isotherm.core.observations import of_events as seen
from isotherm.telemetry.series import Series

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class EventMetrics:
    """Counts messages."""

    def __init__(self, series: Series) -> None:
        self.events = series.counter(
            "isotherm_events", "Messages of the control topic, by what came of them.", "outcome"
        )
        self.events_rejected = series.counter(
            "isotherm_events_rejected", "Messages that are no event of ours."
        )
        self.source_events = series.counter(
            "isotherm_source_events",
            "Messages of other systems' topics, by what came of them.",
            "topic",
            "outcome",
        )
        self.scan_reports = series.counter(
            "isotherm_scan_reports",
            "Reports that engines sent of their scans, by what came of them.",
            "outcome",
        )
        self.event_seconds = series.histogram(
            "isotherm_event_seconds", "Seconds to apply one commit event.", buckets=SECONDS
        )
        self.decision_seconds = series.histogram(
            "isotherm_commit_to_decision_seconds",
            "Seconds from a commit until its partitions had new verdicts.",
            buckets=SECONDS,
        )
        self.events_lost = series.counter(
            "isotherm_events_lost", "Times that messages of the control topic may have gone by unread."
        )
        self.events.labels(seen.Heard.APPLIED)

    def __call__(self, what: seen.OfEvents) -> None:
        """Count one observation."""
        match what:
            case seen.EventApplied():
                self.events.labels(seen.Heard.APPLIED).inc()
                self.event_seconds.observe(what.seconds)
                if what.decided_at_ms is not None:
                    self.decision_seconds.observe(max(what.decided_at_ms - what.committed_at_ms, 0) / 1000)
            case seen.EventSeen():
                self.events.labels(what.outcome).inc()
            case seen.EventRejected():
                self.events_rejected.inc(what.messages)
            case seen.HoldRejected() | seen.ReaderRejected():
                self.events_rejected.inc()
            case seen.SourceHeard():
                self.source_events.labels(what.topic, what.outcome).inc()
            case seen.ScansReported():
                self.scan_reports.labels(what.outcome).inc(what.reports)
            case seen.EventsLost():
                self.events_lost.inc()
            case _:
                assert_never(what)
