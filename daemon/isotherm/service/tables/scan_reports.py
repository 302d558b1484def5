"""The scans that engines report: heard by the threads of the HTTP port, counted by the loop.

Only tables that this daemon knows are counted by name, so what is kept is bounded whatever is sent. What was heard in
the last minute is lost in a crash, and nothing depends on it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from isotherm.core.observations import Reported, ScansReported
from isotherm.core.reads import Reads
from isotherm.service.ports import Listener
from isotherm.store.fold import Fold
from isotherm.store.ledger import Ledger

MOST_BYTES_A_SECOND = 1024**2
"""Reports that are read in a second: the worst of this size cost a tenth of the interpreter that the loop needs too."""
LEAST_BYTES = 8 * 1024
"""A report counts as so large at least: 128 are read in a second."""
COUNT_EVERY_S = 60.0
"""Each time is one write to the ledger."""


@dataclass(slots=True)
class ScanReports:
    """What was heard since the loop has last counted it."""

    monotonic_s: Callable[[], float]
    _known: frozenset[str] = frozenset()
    _scans: Counter[str] = field(default_factory=Counter)
    _outcomes: Counter[Reported] = field(default_factory=Counter)
    _second: int = 0
    _bytes_in_second: int = 0
    _lock: Lock = field(default_factory=Lock)

    def has_room(self, size_bytes: int) -> bool:
        """Whether another report may be read now. One that may not is counted as crowded."""
        with self._lock:
            second = int(self.monotonic_s())
            if second != self._second:
                self._second, self._bytes_in_second = second, 0
            self._bytes_in_second += max(size_bytes, LEAST_BYTES)
            if self._bytes_in_second > MOST_BYTES_A_SECOND:
                self._outcomes[Reported.CROWDED] += 1
                return False
            return True

    def heard(self, outcome: Reported) -> None:
        """Count a report that is no scan by a reader, or none at all."""
        with self._lock:
            self._outcomes[outcome] += 1

    def scanned(self, table: str) -> bool:
        """Count a scan of a table; whether this daemon knows the table."""
        with self._lock:
            is_known = table in self._known
            self._outcomes[Reported.COUNTED if is_known else Reported.UNKNOWN_TABLE] += 1
            if is_known:
                self._scans[table] += 1
            return is_known

    def take(self, known: frozenset[str]) -> tuple[Counter[str], Counter[Reported]]:
        """What was heard of each table, and what came of all reports; from now on these tables are known."""
        with self._lock:
            taken = self._scans, self._outcomes
            self._known, self._scans, self._outcomes = known, Counter(), Counter()
            return taken


@dataclass(slots=True)
class ScanCounter:
    """Brings what was heard into the ledger."""

    reports: ScanReports | None
    """None where none are taken."""
    fold: Fold
    ledger: Ledger
    listen: Listener
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    _counted_s: float = float("-inf")

    def start(self) -> None:
        """Know the tables; and nothing of their readers where no reports are taken any more."""
        if self.reports is None:
            self.ledger.forget_reads()
        else:
            self.turn()

    def turn(self) -> None:
        """Count what was heard, once a minute."""
        if self.reports is None or self.monotonic_s() - self._counted_s < COUNT_EVERY_S:
            return
        self._counted_s = self.monotonic_s()
        names = self.fold.names()
        scans, outcomes = self.reports.take(frozenset(names.values()))
        now_ms = self.now_ms()
        kept = {
            uuid: (self.ledger.reads(uuid) or Reads()).counted(scans[name], now_ms)
            for uuid, name in names.items()
            if name in scans
        }
        if kept:
            self.ledger.keep_reads(kept)
        for outcome, reports in outcomes.items():
            self.listen(ScansReported(outcome, reports))
