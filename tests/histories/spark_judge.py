"""What Spark reads of a table, snapshot by snapshot: rows must stay what they were, for as long as a snapshot stays.

A snapshot never changes. So its rows are read once before a daemon may have touched the table; and again, with all others
that are there still, each time that the daemon has changed anything. What was deleted that a snapshot needs shows as an
error of Spark's.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Rows = Counter[str]


@dataclass
class SparkJudge:
    """Spark's reader of one table."""

    spark: Any
    table: str
    """As Spark names it."""
    known: dict[int, Rows] = field(default_factory=dict)
    """By snapshot: its rows as they were when it was first seen."""

    def learn(self, snapshots: Iterable[int]) -> None:
        """Read what is not known yet."""
        self.known |= self.read([one for one in snapshots if one not in self.known])

    def changed(self, snapshots: Iterable[int]) -> dict[int, str]:
        """Read them all again; which have other rows than when they were first seen, and which."""
        found = self.read(list(snapshots))
        return {
            one: f"lost {list((self.known[one] - rows).elements())}, came {list((rows - self.known[one]).elements())}"
            for one, rows in found.items()
            if one in self.known and rows != self.known[one]
        }

    def read(self, snapshots: list[int]) -> dict[int, Rows]:
        """The rows of some snapshots, in one query."""
        if not snapshots:
            return {}
        found: dict[int, Rows] = {one: Counter() for one in snapshots}
        queries = (
            f"SELECT {one}L AS snapshot, to_json(struct(*)) AS row FROM {self.table} VERSION AS OF {one}"
            for one in snapshots
        )
        for row in self.spark.sql(" UNION ALL ".join(queries)).collect():
            found[row["snapshot"]][row["row"]] += 1
        return found

    def head(self, *, with_lineage: bool) -> Counter[tuple[Any, ...]]:
        """The rows of `main`; of format 3 each with its id, and the commit that changed it last."""
        lineage = ", _row_id, _last_updated_sequence_number" if with_lineage else ""
        rows = self.spark.sql(f"SELECT to_json(struct(*)) AS row{lineage} FROM {self.table}").collect()
        return Counter(tuple(row) for row in rows)


def same_head(before: Counter[tuple[Any, ...]], after: Counter[tuple[Any, ...]]) -> str:
    """Where the head differs, or empty. A row that had no id before may have one now: the next commit gives it one."""
    if before == after:
        return ""
    named = Counter({row: count for row, count in before.items() if len(row) == 1 or row[1] is not None})
    rows = [Counter(row[0] for row in side.elements()) for side in (before, after)]
    if rows[0] != rows[1]:
        return (
            f"rows lost {list((rows[0] - rows[1]).elements())}, came {list((rows[1] - rows[0]).elements())}"
        )
    gone = named - after
    return (
        f"ids or times of rows changed: {list(gone)[:5]}, of {list((after - before).elements())[:5]}"
        if gone
        else ""
    )
