"""Counts the windows that writers grant."""

from typing import assert_never

from isotherm.core.observations import of_windows as seen
from isotherm.telemetry.series import Series


class WindowMetrics:
    """Counts requests for windows, and how those ended."""

    def __init__(self, series: Series) -> None:
        self._of = series.of
        self._label = series.label
        self.asked = series.counter(
            "isotherm_windows_asked",
            "Times that the writers of a table were asked to leave it alone.",
            "table",
        )
        self.windows = series.counter(
            "isotherm_windows_ended", "Windows that ended, by how they did.", "table", "end"
        )
        self.window_seconds = series.counter(
            "isotherm_window_seconds", "Seconds from the requests of windows to their ends.", "table"
        )
        self.late_seconds = series.counter(
            "isotherm_window_late_seconds",
            "Seconds for which a request of a job was under way after its window was over for the writers.",
            "table",
        )

    def __call__(self, what: seen.OfWindows) -> None:
        """Count one observation."""
        match what:
            case seen.WindowAsked():
                self._of(self.asked, self._label(what.table.name)).inc()
            case seen.WindowEnded():
                name = self._label(what.table.name)
                self._of(self.windows, name, what.end).inc()
                self._of(self.window_seconds, name).inc(what.seconds)
                self._of(self.late_seconds, name).inc(what.late_s)
            case _:
                assert_never(what)
