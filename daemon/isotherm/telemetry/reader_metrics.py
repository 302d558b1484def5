"""Metrics of the readers that expiry waits for."""

from collections.abc import Iterable

from isotherm.core.model.readers import ReaderLag
from isotherm.telemetry.series import Series


class ReaderMetrics:
    """Shows how far the readers of each table are behind."""

    def __init__(self, series: Series) -> None:
        self._of = series.of
        self.lag = series.gauge(
            "isotherm_reader_lag_seconds",
            "For how long there has been something that the slowest registered reader of a table has not read.",
            "table",
        )
        self.let_go = series.gauge(
            "isotherm_readers_let_go",
            "Registered readers of a table for which nothing is kept: too far behind, or at a snapshot that is gone.",
            "table",
        )

    def show(self, table: str, readers: Iterable[ReaderLag]) -> None:
        """Show the readers of a table as they are now."""
        readers = tuple(readers)
        kept = [one.behind_ms for one in readers if one.is_kept]
        self._of(self.lag, table).set(max(kept, default=0) / 1000)
        self._of(self.let_go, table).set(len(readers) - len(kept))
