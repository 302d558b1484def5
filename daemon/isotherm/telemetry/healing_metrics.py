"""Metrics of what the daemon had to find out by itself, because no event told it, or an event was wrong."""

from typing import assert_never

from isotherm.core import observations as seen
from isotherm.telemetry.series import Series

Healed = seen.GapHealed | seen.TableScanned | seen.StateDrifted | seen.PartitionsRecounted


class HealingMetrics:
    """Counts what needed healing, and what was looked at again."""

    def __init__(self, series: Series) -> None:
        self._of = series.of
        self.gaps = series.counter(
            "isotherm_unannounced_snapshots_found", "Snapshots that nobody had announced.", "table"
        )
        self.scans = series.counter("isotherm_table_scans", "Full scans of a table's manifests.", "table")
        self.drift = series.counter(
            "isotherm_state_drift", "States that moved away from their table.", "table"
        )
        self.recounted = series.counter(
            "isotherm_partitions_recounted", "Partitions counted again in idle time.", "table"
        )

    def __call__(self, what: Healed) -> None:
        """Count one observation."""
        match what:
            case seen.GapHealed():
                self._of(self.gaps, what.table.name).inc(what.snapshots)
            case seen.TableScanned():
                self._of(self.scans, what.table.name).inc()
            case seen.StateDrifted():
                self._of(self.drift, what.table.name).inc()
            case seen.PartitionsRecounted():
                self._of(self.recounted, what.table.name).inc(what.partitions)
            case _:
                assert_never(what)
