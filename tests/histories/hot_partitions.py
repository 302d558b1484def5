"""Which partitions the daemon may change, by brute force: what each snapshot wrote, when, and how far the stream had come.

By the policy's words and by no code of the planner's. Nothing here says that a partition must be cold: a partition in which
somebody has just written, or which the stream has not left, must be hot. Snapshots are written down as soon as they are
seen, because each may expire.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import Any

from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from histories.judges import EPOCH, Key, neutral

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
SILENT_MS = HOUR_MS
"""`cold.silent_for` of the policy: so long after its last write a partition needs no boundary."""
AWAY_MS, VISITS = SILENT_MS // 12, 3
"""Writers who stay away for longer than a twelfth of it, so often, come in visits: less silence will do."""
START_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1000
"""Hour 0 of the stream."""


@dataclass(frozen=True)
class Written:
    """What one snapshot did."""

    at_ms: int
    number: int
    parent: int | None
    is_ours: bool
    is_append: bool
    touched: Mapping[Key, frozenset[int]]
    """By partition that it changed: the sequence numbers of files that it took away."""
    newest_hour: int
    """Of the stream, when it was first seen."""


class HotPartitions:
    """What has been written to a table, and which of our snapshots changed what they may not."""

    def __init__(self, quiet_ms: int, appends_ms: int | None, appends: int) -> None:
        self.quiet_ms = quiet_ms
        self.appends_ms = appends_ms
        """For so long writers must have appended only, where old files of a hot partition may be merged; or nobody may."""
        self.appends = appends
        self._written: dict[int, Written] = {}
        self._judged: set[int] = set()
        self._spans: dict[int, Callable[[Any], tuple[int, int]]] = {}
        self._values: dict[tuple[int, str], Any] = {}

    def note(self, table: Table, newest_hour: int) -> None:
        """Write down what is new."""
        for snapshot in table.metadata.snapshots:
            if snapshot.snapshot_id not in self._written:
                self._written[snapshot.snapshot_id] = self._of(table, snapshot, newest_hour)

    def changed(
        self, is_minor: Callable[[str], bool], is_meant: Callable[[int], bool], metadata: TableMetadata
    ) -> list[str]:
        """Which of our snapshots, of those that were not asked about before, changed a partition that was hot then."""
        found = []
        for snapshot in metadata.snapshots:
            said = {} if snapshot.summary is None else snapshot.summary.additional_properties
            one = self._written[snapshot.snapshot_id]
            if not one.is_ours or snapshot.snapshot_id in self._judged:
                continue
            self._judged.add(snapshot.snapshot_id)
            jobs = said.get("isotherm.job-ids", said["isotherm.job-id"]).split(",")
            before = list(self._before(one))
            if one.touched and is_meant(one.at_ms):
                found.append(f"snapshot {snapshot.snapshot_id} came while a writer's intent was open")
            for key in one.touched:
                if (why := self._why_hot(key, one, before)) is None:
                    continue
                if any(is_minor(job) for job in jobs) and self._may_merge_old(key, one, before):
                    continue
                found.append(f"snapshot {snapshot.snapshot_id} changed {dict(sorted(key))}, which {why}")
        return found

    def _why_hot(self, key: Key, ours: Written, before: list[Written]) -> str | None:
        writes = [one.at_ms for one in before if not one.is_ours and key in one.touched]
        quiet_ms = ours.at_ms - max(writes, default=0)
        if quiet_ms < self.quiet_ms:
            return f"was quiet for {quiet_ms / 1000:g} s"
        span = self._span(key)
        if span is None or quiet_ms >= SILENT_MS:
            return None
        end_ms, length_ms = span
        away = [later - one for one, later in pairwise(sorted(writes)) if later - one > AWAY_MS]
        if START_MS + ours.newest_hour * HOUR_MS - end_ms >= length_ms:
            return None
        if len(away) >= VISITS and quiet_ms >= AWAY_MS:
            return None
        return (
            f"the stream had not left for {length_ms / HOUR_MS:g} h, and was quiet for {quiet_ms / 1000:g} s"
        )

    def _may_merge_old(self, key: Key, ours: Written, before: list[Written]) -> bool:
        """Whether writers were seen to append only, and no file that left was new."""
        if self.appends_ms is None:
            return False
        theirs = [one for one in before if not one.is_ours]
        # Newest first.
        appends = next((place for place, one in enumerate(theirs) if not one.is_append), len(theirs))
        since_ms = theirs[appends - 1].at_ms if appends else ours.at_ms
        new = {one.number for one in theirs if ours.at_ms - one.at_ms < self.quiet_ms}
        is_proved = appends >= self.appends and ours.at_ms - since_ms >= self.appends_ms
        return is_proved and not ours.touched[key] & new

    def _before(self, one: Written) -> Iterator[Written]:
        seen: set[int] = set()
        parent = one.parent
        while parent in self._written and parent not in seen:
            seen.add(parent)
            yield self._written[parent]
            parent = self._written[parent].parent

    def _span(self, key: Key) -> tuple[int, int] | None:
        """Where the time of a partition ends, and how long it is: of several the narrowest."""
        spans = [self._spans[part[0]](self._values[part]) for part in key if part[0] in self._spans]
        return min(spans, key=lambda span: span[1], default=None)

    def _of(self, table: Table, snapshot: Snapshot, newest_hour: int) -> Written:
        said = {} if snapshot.summary is None else snapshot.summary.additional_properties
        touched: dict[Key, set[int]] = {}
        for key, number in self._entries(table, snapshot):
            touched.setdefault(key, set()).update(() if number is None else (number,))
        return Written(
            at_ms=int(said.get("isotherm.committed-at-ms", snapshot.timestamp_ms)),
            number=snapshot.sequence_number or 0,
            parent=snapshot.parent_snapshot_id,
            is_ours="isotherm.job-id" in said,
            is_append=snapshot.summary is not None and snapshot.summary.operation.value == "append",
            touched={key: frozenset(numbers) for key, numbers in touched.items()},
            newest_hour=newest_hour,
        )

    def _entries(self, table: Table, snapshot: Snapshot) -> Iterator[tuple[Key, int | None]]:
        """The files that a snapshot added or took away: the partition, and of the latter the sequence number."""
        for manifest in snapshot.manifests(table.io):
            if manifest.added_snapshot_id != snapshot.snapshot_id:
                continue
            fields = table.metadata.specs()[manifest.partition_spec_id].fields
            for part in fields:
                if (span := SPANS.get(str(part.transform))) is not None:
                    self._spans[part.field_id] = span
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                if entry.status == ManifestEntryStatus.EXISTING or entry.snapshot_id != snapshot.snapshot_id:
                    continue
                record = entry.data_file.partition
                values = [(part.field_id, record[place]) for place, part in enumerate(fields)]
                key = neutral(values)
                for one in values:
                    self._values.update(dict.fromkeys(neutral([one]), one[1]))
                yield key, entry.sequence_number if entry.status == ManifestEntryStatus.DELETED else None


def _hour(value: int) -> tuple[int, int]:
    return (value + 1) * HOUR_MS, HOUR_MS


def _day(value: int | date) -> tuple[int, int]:
    days = (value - EPOCH).days if isinstance(value, date) else value
    return (days + 1) * DAY_MS, DAY_MS


def _month(value: int) -> tuple[int, int]:
    begin, end = (
        int(datetime(1970 + month // 12, month % 12 + 1, 1, tzinfo=UTC).timestamp()) * 1000
        for month in (value, value + 1)
    )
    return end, end - begin


SPANS: dict[str, Callable[[Any], tuple[int, int]]] = {"hour": _hour, "day": _day, "month": _month}
"""By transform: the end of a partition, and its length, in milliseconds."""
