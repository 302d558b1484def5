"""What looking over the decoded rows of a table tells: counts, problems, and the event time that they reach."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isotherm.contract.boundary import BOUNDARY_QUANTILE
from isotherm_ingest.decode.debezium_messages import kept_names
from isotherm_ingest.plan.topic_partition import Position


@dataclass(frozen=True, slots=True)
class Survey:
    """What looking over the rows told."""

    rows: int = 0
    kept: frozenset[str] = frozenset()
    """Columns whose value some row does not tell, so that the one in the table stays."""
    untold: frozenset[str] = frozenset()
    """Columns where a null may mean that a large value did not change."""
    newest_ms: int | None = None
    reached_ms: Mapping[Position, int] = field(default_factory=dict)
    """By Kafka partition, the event time that all but the last of its rows have reached."""
    elsewhere: bool = False
    """Whether some change is of another source than the table's rows."""

    def as_json(self) -> dict[str, Any]:
        """As it travels."""
        return {
            "rows": self.rows,
            "kept": sorted(self.kept),
            "untold": sorted(self.untold),
            "newest_ms": self.newest_ms,
            "reached_ms": [[*position, ms] for position, ms in self.reached_ms.items()],
            "elsewhere": self.elsewhere,
        }


def survey_of(told: Mapping[str, Any]) -> Survey:
    """From how it travelled."""
    reached = {(topic, partition): ms for topic, partition, ms in told["reached_ms"]}
    return Survey(
        told["rows"],
        frozenset(told["kept"]),
        frozenset(told["untold"]),
        told["newest_ms"],
        reached,
        told["elsewhere"],
    )


def merged(surveys: Iterable[Survey]) -> Survey:
    """One survey of several. Of a Kafka partition that was cut, the least counts: what all of it has reached is no less."""
    all_of = list(surveys)
    newest = [one.newest_ms for one in all_of if one.newest_ms is not None]
    reached: dict[Position, int] = {}
    for one in all_of:
        for position, ms in one.reached_ms.items():
            reached[position] = min(ms, reached.get(position, ms))
    return Survey(
        sum(one.rows for one in all_of),
        frozenset[str]().union(*(one.kept for one in all_of)),
        frozenset[str]().union(*(one.untold for one in all_of)),
        max(newest, default=None),
        reached,
        any(one.elsewhere for one in all_of),
    )


class Surveyor:
    """Looks over the rows of one table, batch by batch."""

    def __init__(self, event_time: str | None) -> None:
        """`event_time` is the column that `valid_through` speaks of."""
        self._event_time = event_time
        self._rows = 0
        self._elsewhere = False
        self._kept: set[str] = set()
        self._untold: set[str] = set()
        self._newest_ms: int | None = None
        self._times: dict[Position, list[np.ndarray[Any, Any]]] = {}

    def look(self, changes: pa.RecordBatch) -> None:
        """Take decoded changes into account."""
        change = changes.column("change")
        fine = pc.is_null(change.field("problem"))
        self._rows += pc.sum(fine).as_py() or 0
        self._kept |= frozenset[str]().union(*kept_names(pc.unique(change.field("kept").filter(fine))))
        self._untold |= _named(change.field("untold"))
        newest = pc.max(change.field("ts")).cast(pa.int64()).as_py()
        if newest is not None:
            self._newest_ms = max(newest // 1000, self._newest_ms or newest // 1000)
        if self._event_time is not None:
            self._look_at_times(changes, fine)

    def look_at_sources(self, changes: pa.RecordBatch) -> None:
        """Take into account where changes come from: those, too, that a truncate behind them leaves out."""
        self._elsewhere = self._elsewhere or bool(pc.any(changes.column("change").field("elsewhere")).as_py())

    def found(self) -> Survey:
        """What was seen."""
        reached = {position: reached_of(np.concatenate(times)) for position, times in self._times.items()}
        return Survey(
            self._rows,
            frozenset(self._kept),
            frozenset(self._untold),
            self._newest_ms,
            reached,
            self._elsewhere,
        )

    def _look_at_times(self, changes: pa.RecordBatch, fine: pa.Array) -> None:
        row = changes.column("row")
        # By place: a name that begins with a dot would be a path.
        times = pc.struct_field(row, [row.type.get_field_index(self._event_time)])
        there = pc.and_(fine, pc.is_valid(times))
        if not pc.any(there).as_py():
            return
        millis = times.filter(there).cast(pa.timestamp("us")).cast(pa.int64()).to_numpy() // 1000
        topics, partitions = (
            changes.column("change").field(name).filter(there) for name in ("topic", "partition")
        )
        for topic in pc.unique(topics).to_pylist():
            of_topic = pc.equal(topics, topic)
            for partition in pc.unique(partitions.filter(of_topic)).to_pylist():
                mine = pc.and_(of_topic, pc.equal(partitions, partition)).to_numpy(zero_copy_only=False)
                self._times.setdefault((topic, partition), []).append(millis[mine])


def reached_of(times: "np.ndarray[Any, Any]") -> int:
    """The time that all but the last rows have reached: the least one above which a share of them lies."""
    place = max(int(np.ceil(BOUNDARY_QUANTILE * len(times))) - 1, 0)
    return int(np.partition(times, place)[place])


def _named(names: pa.Array) -> set[str]:
    return set(pc.unique(names.flatten()).to_pylist()) if names.null_count < len(names) else set()
