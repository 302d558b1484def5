"""Observations as Prometheus metrics.

Labels are few and bounded: a table, an action, a reason of a closed list; never a partition. The dashboard and the
alerts change in the same commit as a metric does.
"""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import assert_never

from prometheus_client import Info, ProcessCollector

from isotherm.core import observations as seen
from isotherm.core.observations import Observation
from isotherm.telemetry.event_metrics import EventMetrics
from isotherm.telemetry.healing_metrics import HealingMetrics
from isotherm.telemetry.job_metrics import JobMetrics
from isotherm.telemetry.round_metrics import RoundMetrics
from isotherm.telemetry.series import Series
from isotherm.telemetry.table_metrics import TableMetrics
from isotherm.telemetry.window_metrics import WindowMetrics


class Metrics:
    """A listener that counts."""

    def __init__(self, now_ms: Callable[[], int], version: str) -> None:
        self._series = Series()
        self.registry = self._series.registry
        ProcessCollector(registry=self.registry)
        Info("isotherm_build", "The version that runs.", registry=self.registry).info({"version": version})
        self._events = EventMetrics(self._series)
        self._healing = HealingMetrics(self._series)
        self._tables = TableMetrics(self._series, now_ms)
        self._jobs = JobMetrics(self._series, now_ms)
        self._windows = WindowMetrics(self._series)
        self._rounds = RoundMetrics(self._series, now_ms)

    def watch(self, folder: Path) -> None:
        """Tell at each scrape how large the stores in this folder are, and how much room is left for them."""
        stores = self._series.gauge("isotherm_state_bytes", "Bytes of a store of the daemon's own.", "store")
        for name in ("fold", "ledger"):
            stores.labels(name).set_function(partial(_bytes_of, folder / f"{name}.db"))
        free = self._series.gauge(
            "isotherm_state_free_bytes", "Bytes that are free where the state folder is."
        )
        free.set_function(lambda: shutil.disk_usage(folder).free)

    def __call__(self, what: Observation) -> None:
        """Count one observation."""
        match what:
            case (
                seen.EventApplied()
                | seen.EventSeen()
                | seen.EventRejected()
                | seen.HoldRejected()
                | seen.ReaderRejected()
                | seen.SourceHeard()
                | seen.ScansReported()
                | seen.EventsLost()
            ):
                self._events(what)
            case seen.GapHealed() | seen.TableScanned() | seen.StateDrifted() | seen.PartitionsRecounted():
                self._healing(what)
            case (
                seen.TablePlanned()
                | seen.TableHalted()
                | seen.TableFailed()
                | seen.TableRecovered()
                | seen.TableGone()
                | seen.TableMoved()
                | seen.TableRefused()
                | seen.QuarantineCounted()
            ):
                self._tables(what)
            case (
                seen.JobStarted()
                | seen.JobEnded()
                | seen.RewritesRun()
                | seen.SnapshotsExpired()
                | seen.FolderSearched()
                | seen.FilesDeleted()
                | seen.FilesRestored()
            ):
                self._jobs(what)
            case seen.WindowAsked() | seen.WindowEnded():
                self._windows(what)
            case seen.RoundPlanned() | seen.LedgerLost() | seen.TrySoon() | seen.PoliciesLoaded():
                self._rounds(what)
            case seen.HoldChanged() | seen.JobGoesOn():
                pass  # gauges say how the table stands, and how far its rewrites are
            case _:
                assert_never(what)


def _bytes_of(store: Path) -> int:
    """A store with the log beside it."""
    parts = (store, store.with_name(f"{store.name}-wal"))
    return sum(part.stat().st_size for part in parts if part.exists())
