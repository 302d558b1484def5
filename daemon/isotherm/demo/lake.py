"""The lake as an outsider reads it: metadata and manifests by PyIceberg, rows by DuckDB with SQL of our own.

Independent of the daemon's readers and executors on purpose: what they get wrong must not be got wrong here as well.
Reads local files of format version 2 only, which is what the demo writes; it says so where it meets anything else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
from pyiceberg.manifest import (
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import DecimalType, IcebergType, ListType

from isotherm.audit.evidence import Commit, Touch
from isotherm.contract.identity import PartitionKey, partition_key
from isotherm.contract.summary import committed_at_of

JOB_ID_KEY = "isotherm.job-id"
POLICY_KEY = "isotherm.policy-hash"
VALID_THROUGH_KEY = "ingest.valid-through"
WINDOW_KEY = "isotherm.window-id"


@dataclass(frozen=True, slots=True)
class SeenFile:
    """One data or delete file, as a manifest entry has it."""

    path: str
    is_data: bool
    partition: PartitionKey
    rows: int
    sequence_number: int = 0
    size_bytes: int = 0

    @property
    def local_path(self) -> str:
        """Where it lies on this machine."""
        return local_path(self.path)


@dataclass(frozen=True, slots=True)
class SeenChange:
    """The files that one snapshot added and removed."""

    added: tuple[SeenFile, ...]
    removed: tuple[SeenFile, ...]


class CannotReadError(Exception):
    """The referee does not know how to read this; the text says what."""


def local_path(location: str) -> str:
    """`file:///a/b`, `file:/a/b` and `/a/b` are one and the same file."""
    return "/" + location.removeprefix("file:").lstrip("/") if location.startswith("file:") else location


def transforms(metadata: TableMetadata) -> dict[int, str]:
    """Partition field id → transform, over all specs."""
    found = {}
    for spec in metadata.partition_specs:
        for field in spec.fields:
            source = str(metadata.schema().find_type(field.source_id))
            name = str(field.transform)
            found[field.field_id] = "date" if name == "identity" and source == "date" else name
    return found


def summary(snapshot: Snapshot) -> dict[str, str]:
    """A snapshot's summary, without its operation."""
    return {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)


def change(table: Table, snapshot: Snapshot) -> SeenChange:
    """What a snapshot added and removed, from the manifests that it added."""
    added: list[SeenFile] = []
    removed: list[SeenFile] = []
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            if entry.status == ManifestEntryStatus.EXISTING or entry.snapshot_id != snapshot.snapshot_id:
                continue
            files = removed if entry.status == ManifestEntryStatus.DELETED else added
            files.append(_seen(table.metadata, manifest, entry))
    return SeenChange(tuple(added), tuple(removed))


def commit_of(snapshot: Snapshot, change: SeenChange, maintainer: str | None = None) -> Commit:
    """A snapshot and what it did, as the audit's rules know it.

    Where somebody else maintains the tables, every rewrite is his, and judged as if it were ours.
    """
    said = summary(snapshot)
    operation = "" if snapshot.summary is None else snapshot.summary.operation.value
    job_id = said.get(JOB_ID_KEY) or (maintainer if operation == "replace" else None)
    touches: dict[PartitionKey, list[int]] = {}
    for file in change.added:
        touches.setdefault(file.partition, [0, 0])[0] += 1
    for file in change.removed:
        touches.setdefault(file.partition, [0, 0])[1] += 1
    newest: dict[PartitionKey, int] = {}
    for file in change.removed:
        newest[file.partition] = max(newest.get(file.partition, 0), file.sequence_number)
    valid_through = said.get(VALID_THROUGH_KEY, "")
    return Commit(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        committed_at_ms=committed_at_of(said, snapshot.timestamp_ms),
        operation=operation,
        job_id=job_id,
        policy_hash=said.get(POLICY_KEY),
        sequence_number=snapshot.sequence_number or 0,
        valid_through_ms=int(valid_through) if valid_through.lstrip("-").isdecimal() else None,
        touches=tuple(
            Touch(key, added, removed, newest.get(key)) for key, (added, removed) in touches.items()
        ),
        window_ids=tuple(said[WINDOW_KEY].split(",")) if WINDOW_KEY in said else (),
    )


def live(table: Table, snapshot: Snapshot) -> dict[str, SeenFile]:
    """Every live file of a snapshot by path."""
    found = {}
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = _seen(table.metadata, manifest, entry)
            found[file.path] = file
    return found


def reachable(table: Table, snapshot: Snapshot, known: dict[str, tuple[str, ...]]) -> set[str]:
    """Every file that reading a snapshot needs; `known` remembers what each manifest names."""
    found = {snapshot.manifest_list}
    for manifest in snapshot.manifests(table.io):
        path = manifest.manifest_path
        if path not in known:
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            known[path] = tuple(entry.data_file.file_path for entry in entries)
        found.add(path)
        found.update(known[path])
    return found


def _seen(metadata: TableMetadata, manifest: ManifestFile, entry: ManifestEntry) -> SeenFile:
    file = entry.data_file
    if (
        str(file.file_format).rsplit(".", 1)[-1].upper() != "PARQUET"
        or file.content == DataFileContent.EQUALITY_DELETES
    ):
        raise CannotReadError(f"{file.file_path}: neither data nor position deletes in Parquet")
    spec = metadata.specs()[manifest.partition_spec_id]
    values = {field.field_id: file.partition[place] for place, field in enumerate(spec.fields)}
    is_data = manifest.content == ManifestContent.DATA
    number = entry.sequence_number or 0
    size_bytes = file.file_size_in_bytes
    return SeenFile(file.file_path, is_data, partition_key(values), file.record_count, number, size_bytes)


DUCKDB_TYPES = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    "string": "VARCHAR",
    "binary": "BLOB",
}


class Rows:
    """Rows of Parquet files by a table's schema, with position deletes applied in SQL.

    Columns are found by field id, as Iceberg has it: those that an older file does not have are null, whatever they were
    called or how narrow they were then.
    """

    def __init__(self) -> None:
        self._db = duckdb.connect()
        self._db.execute("SET threads = 1; SET TimeZone = 'UTC'").fetchall()

    def close(self) -> None:
        """Let go of the memory."""
        self._db.close()

    def count_and_sum(self, files: Iterable[SeenFile], schema: Schema) -> tuple[int, int]:
        """How many rows there are, and a sum of a hash of each: equal multisets of rows have equal sums."""
        relation = self._relation(list(files), schema)
        if relation is None:
            return 0, 0
        names = [_quoted(field.name) for field in schema.fields]
        packed = ", ".join(f"{name} := {name}" for name in names)
        row = self._ask(
            f"SELECT count(*), coalesce(sum(md5_number_lower(struct_pack({packed})::VARCHAR)::HUGEINT), 0) "
            f"FROM ({relation})"
        )[0]
        return int(row[0]), int(row[1])

    def read(
        self, files: Iterable[SeenFile], schema: Schema, columns: Sequence[str], where: str = "TRUE"
    ) -> list[tuple[Any, ...]]:
        """The rows, some columns of them; `where` may be any condition, also a QUALIFY behind one."""
        relation = self._relation(list(files), schema)
        if relation is None:
            return []
        return self._ask(f"SELECT {', '.join(map(_quoted, columns))} FROM ({relation}) WHERE {where}")

    def _relation(self, files: list[SeenFile], schema: Schema) -> str | None:
        """SQL that gives the live rows of some files, or None where there are no files."""
        data = [file.local_path for file in files if file.is_data]
        deletes = [file.local_path for file in files if not file.is_data]
        if not data:
            return None
        rows = (
            f"read_parquet({_list(data)}, filename = true, file_row_number = true, schema = {_by_id(schema)})"
        )
        if not deletes:
            return f"SELECT * EXCLUDE (filename, file_row_number) FROM {rows}"
        # DuckDB reads back the file name as we gave it; delete files name the same file as a URI.
        gone = (
            "SELECT regexp_replace(file_path, '^file:/*', '/') AS gone_path, pos AS gone_pos "
            f"FROM read_parquet({_list(deletes)})"
        )
        return (
            f"SELECT live.* EXCLUDE (filename, file_row_number) FROM {rows} AS live ANTI JOIN ({gone}) AS gone "
            "ON live.filename = gone.gone_path AND live.file_row_number = gone.gone_pos"
        )

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        # By way of Arrow: DuckDB's own conversion of times with a zone needs a package that nothing else needs.
        rows = self._db.sql(query).to_arrow_table()
        return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _list(paths: Sequence[str]) -> str:
    return "[" + ", ".join(map(_text, paths)) + "]"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _by_id(schema: Schema) -> str:
    """A table's columns, as DuckDB is told to find them in Parquet files."""
    columns = ", ".join(
        f"{field.field_id}: {{name: {_text(field.name)}, type: {_text(_duckdb_type(field.field_type))}, "
        "default_value: NULL}"
        for field in schema.fields
    )
    return f"MAP {{{columns}}}"


def _duckdb_type(kind: IcebergType) -> str:
    match kind:
        case ListType():
            return f"{_duckdb_type(kind.element_type)}[]"
        case DecimalType():
            return f"DECIMAL({kind.precision}, {kind.scale})"
        case _ if str(kind) in DUCKDB_TYPES:
            return DUCKDB_TYPES[str(kind)]
        case _:
            raise CannotReadError(f"a column of type {kind}")
