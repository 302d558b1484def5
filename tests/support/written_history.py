"""A history that is written file by file, so that nothing leaves that was not there."""

from dataclasses import replace

from isotherm.contract.summary import Origin
from isotherm.core.model.changes import Change, PartitionDelta
from isotherm.core.model.files import NO_FILES, FileKind, FileStats, size_bucket
from isotherm.core.replay.history import History, Recorded
from support.builders import HOUR, HOURLY, MINUTE, NOW, TABLE, facts, snapshots

BEFORE = tuple(
    replace(one, snapshot_id=1000 + one.snapshot_id)
    for one in snapshots(4, newest_at_ms=NOW - MINUTE, apart_ms=HOUR, token="sink")  # noqa: S106 (whose place, not a secret)
)
"""Snapshots from before a history."""


class Writer:
    """Writes a history file by file, so that nothing leaves that was not there."""

    def __init__(self, fields=HOURLY):
        self.fields = fields
        self.at_ms = NOW
        self.recorded = []
        self.live = {}
        self.deleted = {}

    def commit(self, deltas, *, operation="append", origin=Origin.FOREIGN):
        number = len(self.recorded) + 1
        one = Change(
            snapshot_id=number,
            parent_id=number - 1 or None,
            sequence_number=number,
            committed_at_ms=self.at_ms,
            operation=operation,
            origin=origin,
            partitions=deltas,
        )
        self.recorded.append(Recorded(one, self.at_ms))

    def append(self, *places):
        """One file in each place: `(partition, size, rows)`."""
        deltas = {}
        for where, size, rows in places:
            self.live.setdefault(where, []).append((size, rows))
            came = FileStats(1, rows, size)
            before = deltas.get(where, PartitionDelta())
            deltas[where] = plus(before, {size_bucket(size): came}, {}, added=came)
        self.commit(deltas, origin=Origin.INGEST)

    def delete_rows(self, where, rows):
        """A file of position deletes for rows that live."""
        rows = min(rows, self.rows(where))
        if rows > 0:
            self.deleted.setdefault(where, []).append(rows)
            came = FileStats(1, rows, 10 * rows)
            deletes = {FileKind.POSITION_DELETES: came}
            self.commit({where: plus(PartitionDelta(), {}, deletes, added=came)}, operation="delete")

    def rewrite(self, where, count, *, operation="overwrite", origin=Origin.FOREIGN):
        """Some files become one, as a MERGE or somebody's compaction does; all of them: with deletes applied."""
        mine = self.live.get(where, [])
        gone, stay = mine[:count], mine[count:]
        if not gone:
            return
        data, removed, deletes = {}, NO_FILES, {}
        for size, rows in gone:
            out = FileStats(1, rows, size)
            removed += out
            data[size_bucket(size)] = data.get(size_bucket(size), NO_FILES) - out
        left = sum(rows for _, rows in gone)
        if not stay:
            left -= sum(self.deleted.get(where, []))
            for rows in self.deleted.pop(where, []):
                out = FileStats(1, rows, 10 * rows)
                removed += out
                deletes[FileKind.POSITION_DELETES] = deletes.get(FileKind.POSITION_DELETES, NO_FILES) - out
        came = FileStats(1, left, sum(size for size, _ in gone)) if left else NO_FILES
        if came:
            stay = [*stay, (came.bytes, left)]
            data[size_bucket(came.bytes)] = data.get(size_bucket(came.bytes), NO_FILES) + came
        self.live[where] = stay
        delta = PartitionDelta({b: s for b, s in data.items() if s}, deletes, came, removed)
        self.commit({where: delta}, operation=operation, origin=origin)

    def rows(self, where):
        return sum(rows for _, rows in self.live.get(where, [])) - sum(self.deleted.get(where, []))

    def history(self, ends_after=0):
        return History(
            table=TABLE,
            facts=facts(fields=self.fields),
            partitions={},
            snapshots=BEFORE,
            pinned=frozenset(),
            recorded=tuple(self.recorded),
            starts_at_ms=NOW,
            ends_at_ms=self.at_ms + ends_after,
        )


def plus(delta, data, deletes, *, added):
    return PartitionDelta(
        {b: delta.data.get(b, NO_FILES) + data.get(b, NO_FILES) for b in {**delta.data, **data}},
        {k: delta.deletes.get(k, NO_FILES) + deletes.get(k, NO_FILES) for k in {**delta.deletes, **deletes}},
        delta.added + added,
        delta.removed,
    )
