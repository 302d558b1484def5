"""Metrics of what tables have in quarantine."""

from isotherm.telemetry.series import Series


class QuarantineMetrics:
    """Shows how much of each table is in quarantine; a table with nothing there has no series."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self.files = series.gauge(
            "isotherm_quarantined_files", "Orphans of a table in quarantine, which can be restored.", "table"
        )
        self.bytes = series.gauge("isotherm_quarantined_bytes", "Their size.", "table")

    def show(self, table: str, files: int, size_bytes: int) -> None:
        """Show what a table has there now."""
        for gauge, value in ((self.files, files), (self.bytes, size_bytes)):
            if files:
                self._series.of(gauge, table).set(value)
            else:
                self._series.drop(gauge, table)
