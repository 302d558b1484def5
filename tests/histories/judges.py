"""Independent counts of a table's live files: what the daemon's state is held against.

All of them count the same thing, live files of the head, and differ in what they key and name:

- *PyIceberg* at every step: its public manifest reader (`Snapshot.manifests`, `fetch_manifest_entry`), nothing of
  ours. `inspect.files` and `inspect.partitions` are built on the same reader, but key by field names, which a
  renamed or re-used name makes ambiguous, and fail once a source column was dropped.
- *Spark's `files`* at the end: read by Iceberg's Java code, one row a file, keyed by Java's unified partition type.
  `content` 1 is position deletes and deletion vectors; the format `PUFFIN` tells them apart.
- *Spark's `partitions`* at the end: one row for each value of the unified type. Compared: data files, rows and bytes,
  files and rows of position deletes (deletion vectors are counted as such) and of equality deletes. It has no bytes
  of deletes, and its `total_…` column is of data files alone.
- *`compute_partition_stats`* (the library call behind the procedure, always in full: no older statistics are
  registered) at the end, of tables whose specs have fields. One row for each spec and partition: summed over the
  specs. It counts deletion vectors by themselves (`dv_count`), their rows with the position deletes.

Not compared: `last_updated_at` and its snapshot (a daemon keeps the last *foreign* write, and when it heard of it),
`total_record_count` (optional, not filled), and `spec_id` (a partition's key is the same under every spec).

Java's unified type leaves out the fields whose source column was dropped, though the files still stand apart by
them, and a spec that still names them keeps them apart when it is planned. For the three at the end the daemon's
partitions are therefore put together by the fields that are left (`by_kind`).

They cannot judge a table at all where a field of version 1 was removed, stayed as void under a new name, and came
back by its old id after the upgrade: Java finds two entries of one key, and its metadata tables fail. Rare, counted.

Keys are neutral: (partition field id, value as text) of every field that is not null. Null in a spec's field, and a
field that the spec does not have, are one and the same, in Java's unified type as in ours.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestFile
from pyiceberg.table import Table

from isotherm.core.model.files import FileKind, FileStats, size_bucket
from isotherm.core.partition_state import PartitionState

Key = frozenset[tuple[int, str]]
Counts = dict[Key, Counter]
EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Live:
    """A live file, as PyIceberg reads it."""

    path: str
    kind: FileKind
    key: Key
    spec_id: int
    rows: int
    size: int
    content: FileStats = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", FileStats(1, self.rows, self.size))


class Reader:
    """Live files by PyIceberg's own reader. A manifest never changes: each is read once."""

    def __init__(self) -> None:
        self._known: dict[str, list[Live]] = {}

    def live(self, table: Table) -> list[Live]:
        head = table.current_snapshot()
        if head is None:
            return []
        return [one for manifest in head.manifests(table.io) for one in self._of(table, manifest)]

    def _of(self, table: Table, manifest: ManifestFile) -> list[Live]:
        if manifest.manifest_path not in self._known:
            ids = [part.field_id for part in table.metadata.specs()[manifest.partition_spec_id].fields]
            self._known[manifest.manifest_path] = [
                _live(entry.data_file, manifest.partition_spec_id, ids)
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            ]
        return self._known[manifest.manifest_path]


def _live(file: Any, spec_id: int, ids: list[int]) -> Live:
    key = neutral((field_id, file.partition[place]) for place, field_id in enumerate(ids))
    kind = _kind(int(file.content), file.file_format == FileFormat.PUFFIN)
    size = 0 if kind is FileKind.DELETION_VECTORS else file.file_size_in_bytes
    return Live(file.file_path, kind, key, spec_id, file.record_count, size)


def neutral(values: Iterable[tuple[int, Any]]) -> Key:
    """A key that every judge can make."""
    return frozenset((field_id, _text(value)) for field_id, value in values if value is not None)


def _text(value: Any) -> str:
    match value:
        case date():
            return str((value - EPOCH).days)
        case float():
            return repr(value)
        case _:
            return str(value)


def _kind(content: int, is_puffin: bool) -> FileKind:
    match content:
        case int(DataFileContent.DATA):
            return FileKind.DATA
        case int(DataFileContent.EQUALITY_DELETES):
            return FileKind.EQUALITY_DELETES
        case _:
            return FileKind.DELETION_VECTORS if is_puffin else FileKind.POSITION_DELETES


# --- the two sides ---------------------------------------------------------------------------------------------


def believed(partitions: Iterable[Any]) -> dict[Key, dict[Any, FileStats]]:
    """What the daemon's fold says: by size bucket for data, by kind for deletes."""
    return {_neutral_key(row.key): _slots(row.state) for row in partitions}


def scanned(partitions: dict[Any, PartitionState]) -> dict[Key, dict[Any, FileStats]]:
    """The daemon's own full scan, in the same form."""
    return {_neutral_key(key): _slots(state) for key, state in partitions.items()}


def _slots(state: PartitionState) -> dict[Any, FileStats]:
    return {**state.data, **without_bytes_of_vectors(state.deletes)}


def without_bytes_of_vectors(stats: Mapping[FileKind, FileStats]) -> dict[FileKind, FileStats]:
    """PyIceberg reads those of their whole file."""
    vectors = FileKind.DELETION_VECTORS
    return {kind: replace(one, bytes=0) if kind is vectors else one for kind, one in stats.items()}


def _neutral_key(key: str) -> Key:
    return neutral((int(field_id), value) for field_id, value in json.loads(key).items())


def counted(live: Iterable[Live]) -> dict[Key, dict[Any, FileStats]]:
    """What PyIceberg says, in the same form."""
    counts: dict[Key, dict[Any, FileStats]] = {}
    for one in live:
        slot = size_bucket(one.size) if one.kind is FileKind.DATA else one.kind
        here = counts.setdefault(one.key, {})
        here[slot] = here.get(slot, FileStats()) + one.content
    return counts


def difference(expected: dict[Key, Any], actual: dict[Key, Any]) -> list[str]:
    """Where two counts differ, in words; empty where they do not."""
    return [
        f"partition {dict(sorted(key))}: the judge says {expected.get(key)}, the daemon {actual.get(key)}"
        for key in sorted({*expected, *actual}, key=sorted)
        if expected.get(key) != actual.get(key)
    ]


# --- the judges at the end -------------------------------------------------------------------------------------


def by_kind(counts: dict[Key, dict[Any, FileStats]], fields: Iterable[int]) -> Counts:
    """The daemon's counts with the names and the partition fields that the three others have in common."""
    left = set(fields)
    found: dict[Key, dict[FileKind, FileStats]] = {}
    for key, slots in counts.items():
        known = frozenset(part for part in key if part[0] in left)
        here = found.setdefault(known, dict.fromkeys(FileKind, FileStats()))
        for slot, stats in slots.items():
            here[slot if isinstance(slot, FileKind) else FileKind.DATA] += stats
    return {key: _named(stats) for key, stats in found.items()}


def _named(stats: dict[FileKind, FileStats]) -> Counter:
    """Counters that are zero are absent; so are the bytes of vectors, of which PyIceberg reads their whole file's."""
    named = {
        f"{kind.value} {name}": getattr(one, name)
        for kind, one in stats.items()
        for name in ("files", "rows", "bytes")
        if (kind, name) != (FileKind.DELETION_VECTORS, "bytes")
    }
    return Counter({name: count for name, count in named.items() if count})


def of_files_table(spark: Any, name: str, ids: dict[str, int]) -> Counts:
    """Spark's `files`."""
    found: dict[Key, dict[FileKind, FileStats]] = {}
    partition = ", partition" if ids else ""
    columns = f"content, file_format, record_count, file_size_in_bytes{partition}"
    for row in spark.sql(f"SELECT {columns} FROM {name}.files").collect():
        kind = _kind(row["content"], row["file_format"] == "PUFFIN")
        here = found.setdefault(_key_of(row, ids), dict.fromkeys(FileKind, FileStats()))
        here[kind] += FileStats(1, row["record_count"], row["file_size_in_bytes"])
    return {key: _named(stats) for key, stats in found.items()}


PARTITIONS_COLUMNS = {
    "data files": "file_count",
    "data rows": "record_count",
    "data bytes": "total_data_file_size_in_bytes",
    "position files": "position_delete_file_count",
    "position rows": "position_delete_record_count",
    "equality files": "equality_delete_file_count",
    "equality rows": "equality_delete_record_count",
}
STATS_COLUMNS = {
    **PARTITIONS_COLUMNS,
    "data files": "data_file_count",
    "data rows": "data_record_count",
    "vectors": "dv_count",
}


def of_partitions_table(spark: Any, name: str, ids: dict[str, int]) -> Counts:
    """Spark's `partitions`. An unpartitioned table without files has a row too."""
    rows = (row.asDict() for row in spark.sql(f"SELECT * FROM {name}.partitions").collect())
    return _summed(((_key_of(row, ids), row) for row in rows), PARTITIONS_COLUMNS)


def of_statistics(java: Any, table: Any, ids: dict[str, int]) -> Counts:
    """What `compute_partition_stats` writes, computed in full."""
    file = java.static("PartitionStatsHandler.computeAndWriteStatsFile")(table)
    if file is None:
        return {}
    with java.lake.load_table(str(table.name()).partition(".")[2]).io.new_input(file.path()).open() as source:
        rows = pq.read_table(source).to_pylist()
    return _summed(((_key_of(row, ids), row) for row in rows), STATS_COLUMNS)


def as_partitions_table(counts: Counts) -> Counts:
    """The daemon's counts as `partitions` names them: deletion vectors are position deletes."""
    return {key: _merged(one, vectors_apart=False) for key, one in counts.items()}


def as_statistics(counts: Counts) -> Counts:
    """The daemon's counts as the statistics name them: deletion vectors apart, their rows are not."""
    return {key: _merged(one, vectors_apart=True) for key, one in counts.items()}


def _merged(one: Counter, *, vectors_apart: bool) -> Counter:
    position, vectors = one["position_deletes files"], one["deletion_vectors files"]
    merged = {
        "data files": one["data files"],
        "data rows": one["data rows"],
        "data bytes": one["data bytes"],
        "position files": position if vectors_apart else position + vectors,
        "position rows": one["position_deletes rows"] + one["deletion_vectors rows"],
        "equality files": one["equality_deletes files"],
        "equality rows": one["equality_deletes rows"],
        "vectors": vectors if vectors_apart else 0,
    }
    return Counter({name: count for name, count in merged.items() if count})


def _summed(rows: Iterator[tuple[Key, dict[str, Any]]], columns: dict[str, str]) -> Counts:
    found: Counts = {}
    for key, row in rows:
        counts = Counter({name: row[column] for name, column in columns.items() if row.get(column)})
        if counts:
            found[key] = found.get(key, Counter()) + counts
    return found


def _key_of(row: Any, ids: dict[str, int]) -> Key:
    partition = (row.asDict() if hasattr(row, "asDict") else row).get("partition")
    if partition is None:
        return frozenset()
    values = partition.asDict() if hasattr(partition, "asDict") else partition
    return neutral((ids[name], value) for name, value in values.items())


def field_ids(java: Any, table: Any) -> dict[str, int]:
    """The fields of Java's unified partition type, by name."""
    return {one.name(): one.fieldId() for one in java.static("Partitioning.partitionType")(table).fields()}
