"""Metrics of the rounds, of what they do without, and of the policies in force."""

from collections.abc import Callable
from typing import assert_never

from isotherm.core.model.outside import Outside
from isotherm.core.observations import of_rounds as seen
from isotherm.telemetry.event_metrics import SECONDS
from isotherm.telemetry.series import Series

ROUNDS_NEED = (Outside.CATALOG, Outside.CODE, Outside.CONSENT, Outside.CONTROL_END, Outside.HOLDS)
"""Where one of these is away, work that is due does not begin."""


class RoundMetrics:
    """Shows the last round, and counts what did not answer."""

    def __init__(self, series: Series, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.rounds = series.histogram(
            "isotherm_round_seconds", "Seconds of a planning round.", buckets=SECONDS
        )
        self.last_round = series.gauge("isotherm_last_round_timestamp_seconds", "When the last round ended.")
        self.trouble = series.counter(
            "isotherm_unavailable", "Times that something outside did not answer.", "what"
        )
        self.away = series.gauge(
            "isotherm_away", "1 while a round has to do without something outside.", "what"
        )
        self.hanging = series.gauge(
            "isotherm_hanging_threads",
            "Threads in which a catalog, a store or a library hangs, and that were given up.",
        )
        self.deletions_held = series.gauge(
            "isotherm_deletions_held",
            "1 while the daemon deletes nothing, because it does not believe its ledger or its clock.",
        )
        self.overdue = series.gauge(
            "isotherm_deletions_overdue_seconds",
            "For how long the marked file that waits longest might have gone; it is tried again once a day at least.",
        )
        self.policies_ok = series.gauge(
            "isotherm_policy_reload_successful", "1 when every policy file was good at the last reading."
        )
        self.policies_at = series.gauge(
            "isotherm_policy_reload_timestamp_seconds", "When the policies were last read."
        )
        for kind in Outside:
            self.trouble.labels(kind)

    def __call__(self, what: seen.OfRounds) -> None:
        """Count one observation."""
        match what:
            case seen.RoundPlanned():
                self.rounds.observe(what.seconds)
                self.deletions_held.set(what.deletions_held)
                self.hanging.set(what.hanging)
                self.overdue.set(what.overdue_s)
                self.last_round.set(self._now_ms() / 1000)
                for kind in ROUNDS_NEED:
                    self.away.labels(kind).set(kind in what.away)
            case seen.LedgerLost():
                self.deletions_held.set(1)
            case seen.TrySoon():
                self.trouble.labels(what.kind).inc()
            case seen.PoliciesLoaded():
                self.policies_ok.set(what.ok)
                self.policies_at.set(self._now_ms() / 1000)
            case _:
                assert_never(what)
