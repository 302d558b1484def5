"""Random changes of a shop's tables, and what the tables must hold then."""

import random
from typing import Any

from support.changes import Source, latest
from support.ingest_lab import Lab

STREAMS = r"""
  - {topics: "NS\\.public\\.(orders|customers)", table: "NS.{table}", mode: mirror, partition_by: ["hours(at)"]}
  - {topics: "NS\\.public\\.payments", table: "NS.{table}", mode: changelog, partition_by: ["days(at)"]}
"""
TABLES = ("orders", "customers", "payments")


def trade(lab: Lab, source: Source, dice: random.Random, changes: int, from_hour: float) -> None:
    """Random changes, tombstones included."""
    messages: list[Any] = []
    for number in range(changes):
        throw = dice.random()
        if throw < 0.5 or not source.rows:
            new = max(source.rows, default=0) + dice.randrange(1, 5)
            messages.append(source.insert(new, from_hour + number / 20))
        elif throw < 0.8:
            messages.append(source.update(dice.choice(list(source.rows)), name=f"new{number}", tags=None))
        else:
            key = dice.choice(list(source.rows))
            messages += [source.delete(key), (source.key(key), None)]
    lab.send(source.table, *messages)


def check(lab: Lab, sources: dict[str, Source]) -> None:
    """Every table equals the fold of its messages."""
    for table in ("orders", "customers"):
        if table in sources:
            assert latest(sources[table].rows.values()) == latest(lab.rows(table)), table
    if "payments" in sources:
        rows = sorted(lab.rows("payments"), key=lambda row: row["_offset"])
        told = [(row["_op"], {name: row[name] for name in sources["payments"].columns}) for row in rows]
        expected = sources["payments"].log
        assert [op for op, _ in expected] == [op for op, _ in told]
        assert latest(row for _, row in expected) == latest(row for _, row in told)
