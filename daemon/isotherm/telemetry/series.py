"""The series of this process: a table's series are born and forgotten together.

The modules beside it (`table_metrics`, `job_metrics`, `event_metrics`, …) declare their metrics through it.

A counter that has the table as its only label is born at zero with the table, so that `rate` sees its first
increment. A table that is gone, another's or at rest keeps no series. What still happens because of a table that is gone
is counted without its name: files are kept weeks after a drop, and such a series would stay until the next start.
"""

from collections.abc import Sequence
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

Numbers = TypeVar("Numbers", Counter, Gauge)


class Series:
    """What is declared, and what each table has of it."""

    def __init__(self) -> None:
        # A third of all series would be the times at which counters were born.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._born_with_a_table: list[Counter] = []
        self._of_tables: dict[str, set[tuple[Counter | Gauge, tuple[str, ...]]]] = {}
        """What each table has, so that it is forgotten without a look at all the others."""
        self._resting: set[str] = set()
        self._planned: set[str] = set()
        """Tables that were born, and are neither gone nor another's. Some of them rest."""

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        """Declare a counter."""
        made = Counter(name, text, labels, registry=self.registry)
        if labels == ("table",):
            self._born_with_a_table.append(made)
        return made

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Declare a gauge."""
        return Gauge(name, text, labels, registry=self.registry)

    def histogram(self, name: str, text: str, *labels: str, buckets: Sequence[float]) -> Histogram:
        """Declare a histogram."""
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

    def of(self, metric: Numbers, table: str, *labels: str) -> Numbers:
        """The series of a table in a metric; it is made at the first time."""
        self._resting.discard(table)
        self._of_tables.setdefault(table, set()).add((metric, (table, *labels)))
        return metric.labels(table, *labels)

    def bear(self, table: str) -> None:
        """Have every counter of a table begin at zero."""
        self._planned.add(table)
        for counter in self._born_with_a_table:
            self.of(counter, table)

    def label(self, table: str) -> str:
        """The name under which a table is counted: its own, or none if it has not been planned or is gone."""
        return table if table in self._planned else ""

    def drop(self, metric: Gauge, table: str, *labels: str) -> None:
        """Take one series of a table away, if it has it."""
        known = self._of_tables.get(table, set())
        if (metric, (table, *labels)) in known:
            known.remove((metric, (table, *labels)))
            metric.remove(table, *labels)
            if not known:
                del self._of_tables[table]

    def forget(self, table: str, *but: Gauge) -> None:
        """Take all series of a table away, but those of some metrics."""
        self._resting.discard(table)
        self._planned.discard(table)
        for metric, labels in self._of_tables.pop(table, ()):
            if metric in but:
                self._of_tables.setdefault(table, set()).add((metric, labels))
            else:
                metric.remove(*labels)

    def rest(self, table: str, *but: Gauge) -> None:
        """Take all series of a table away, but those of some metrics, and count it among those that rest."""
        # Of ten thousand tables most rest: with series for each, a scrape would take seconds.
        self.forget(table, *but)
        self._resting.add(table)
        self._planned.add(table)

    def resting(self) -> int:
        """How many tables rest."""
        return len(self._resting)
