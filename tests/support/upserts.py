"""Changes of a mirror as they are once decoded, written by the upsert alone: no Kafka, no messages."""

import itertools
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import ManifestEntryStatus

from isotherm.contract.identity import partition_key, scalar
from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN
from isotherm.parquet.table_description import described
from isotherm_ingest.batches.fan_out import done_of, filled_of
from isotherm_ingest.decode.debezium_messages import CHANGE, as_type
from isotherm_ingest.plan.resume_or_halt import Place
from isotherm_ingest.spark_session import FORCED
from isotherm_ingest.table_template import MIRROR_PROPERTIES
from isotherm_ingest.tables.lake import Lake, SpecField, TableNow
from isotherm_ingest.tables.offset_vector import Source
from isotherm_ingest.tables.portion import Done, Filled, Look
from isotherm_ingest.tables.upsert import Upsert
from isotherm_ingest.workers.survey import Surveyor
from isotherm_ingest.workers.tasks import SURVEY, WAITING, Line, TableTask, as_json, lines_of, report
from isotherm_ingest.workers.writing import fill_stage, write
from support.spark import CATALOG

COLUMNS = {"id": "BIGINT", "name": "STRING", "region": "STRING", "at": "TIMESTAMP"}
START = datetime(2024, 1, 1, tzinfo=UTC)
KEPT = "the value is not told"
"""Of a column whose value stays as it is."""
PIPELINE = "shop"
_numbers = itertools.count(1)


def hour(number: float) -> datetime:
    return START + timedelta(hours=number)


@dataclass(frozen=True)
class Put:
    """A row as it is from now on; columns that are not said are null."""

    id: int
    values: dict[str, Any] = field(default_factory=dict)
    op: str = "u"


@dataclass(frozen=True)
class Delete:
    """A row is gone; `before` is what the message has of it."""

    id: int
    before: dict[str, Any] = field(default_factory=dict)


class Mirror:
    """One table, and what a plain dict says that it holds."""

    def __init__(
        self,
        spark: Any,
        folder: Any,
        partitioned_by: str = "",
        key: tuple[str, ...] = ("id",),
        columns: dict[str, str] | None = None,
        **properties: str,
    ) -> None:
        self.spark = spark
        self.key = key
        self.columns = dict(columns or COLUMNS)
        self.lake = Lake(CATALOG, folder.pyiceberg_properties)
        self.name = f"upserts.t{next(_numbers)}"
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.offset = 0
        for name, value in FORCED.items():  # as the sessions of writers have it
            spark.conf.set(name, value)
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.upserts")
        settings = {
            **MIRROR_PROPERTIES,
            **{name.replace("__", "."): value for name, value in properties.items()},
        }
        said = ", ".join(f"'{name}'='{value}'" for name, value in settings.items())
        body = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        spark.sql(
            f"CREATE TABLE {self.spark_name} ({body}) USING iceberg "
            f"{f'PARTITIONED BY ({partitioned_by})' if partitioned_by else ''} TBLPROPERTIES ({said})"
        )

    @property
    def spark_name(self) -> str:
        return f"{CATALOG}.{self.name}"

    # A plain dict's answer

    def fold(self, changes: Any) -> None:
        """What the changes make of the rows."""
        for change in changes:
            match change:
                case Put(number, values):
                    row = {name: values.get(name) for name in self.columns} | {"id": number}
                    key = tuple(row[name] for name in self.key)
                    old = self.rows.get(key, {})
                    untold = {name for name in old if name not in self.columns}
                    kept = {name for name, value in row.items() if value == KEPT} | untold
                    self.rows[key] = row | {name: old.get(name) for name in kept}
                case Delete(number, before):
                    self.rows.pop(tuple((before | {"id": number})[name] for name in self.key), None)

    # What others do

    def evolve(self) -> None:
        """Cut what comes from now on in another way."""
        now = self.lake.load(self.name)
        assert now is not None
        if now.spec:
            self.spark.sql(f"ALTER TABLE {self.spark_name} DROP PARTITION FIELD {_term(now.spec[0])}")
        else:
            self.spark.sql(f"ALTER TABLE {self.spark_name} ADD PARTITION FIELD days(at)")

    def compact(self) -> None:
        """Rewrite every file."""
        options = "map('rewrite-all', 'true')"
        self.spark.sql(
            f"CALL {CATALOG}.system.rewrite_data_files(table => '{self.name}', options => {options})"
        )

    def fill_own_column(self) -> None:
        """Somebody adds a column, and a value to every row."""
        now = self.lake.load(self.name)
        assert now is not None
        if "mine" not in now.columns:
            self.spark.sql(f"ALTER TABLE {self.spark_name} ADD COLUMN mine STRING")
        self.spark.sql(f"UPDATE {self.spark_name} SET mine = concat('mine ', id)")
        for row in self.rows.values():
            row["mine"] = f"mine {row['id']}"

    # The upsert

    def prepared(self, changes: Any) -> tuple[Look, Done]:
        """The changes as a batch that is ready to be written to the table as it is now."""
        names = list(self._columns_now())
        rows = []
        for change in changes:
            values = change.values if isinstance(change, Put) else change.before
            # As decoding says it: also of columns that the messages lack.
            kept = sorted(name for name in names if values.get(name) == KEPT or name not in self.columns)
            row = [None if name in kept else values.get(name) for name in names]
            row[names.index("id")] = change.id
            rows.append((change.op if isinstance(change, Put) else "d", kept, tuple(row)))
        return self._prepared_rows(rows)

    def write_rows(self, rows: Any) -> None:
        """Write changes that are pairs of an op, the columns that are kept, and all columns as the table has them."""
        self._write(*self._prepared_rows(rows), set().update)

    def write_changes(self, rows: pa.Table, changes: pa.StructArray | None = None) -> None:
        """Write rows in Arrow: as updates, or as what `changes` says of them."""
        now, arrow = self._now()
        row = pa.StructArray.from_arrays(
            [as_type(rows[one.name].combine_chunks(), one.type) for one in arrow], fields=list(arrow)
        )
        told = {"op": pa.array(["u"] * len(row)), "offset": pa.array(range(len(row)))}
        if changes is not None:
            told = {name: changes.field(name) for name in ("op", "offset")}
        told["partition"] = pa.array([0] * len(row), pa.int32())
        change = pa.StructArray.from_arrays(
            [told[one.name] if one.name in told else pa.nulls(len(row), one.type) for one in CHANGE],
            fields=list(CHANGE),
        )
        self._write(*self._ready(now, pa.table({"row": row, "change": change})), set().update)

    def write_view(self, view: str) -> None:
        """Write the `row`s of a view, as their `change` says."""
        found = self.spark.table(view).toArrow()
        row, change = (found[name].combine_chunks() for name in ("row", "change"))
        self.write_changes(pa.table(dict(zip(row.type.names, row.flatten(), strict=True))), change)

    def _prepared_rows(self, rows: Any) -> tuple[Look, Done]:
        now, arrow = self._now()
        changes = []
        for op, kept, _ in rows:
            changes.append(
                (
                    op,
                    START,
                    1,
                    "t",
                    0,
                    self.offset,
                    json.dumps(sorted(kept)).encode() if kept else None,
                    None,
                    None,
                    False,
                )
            )
            self.offset += 1
        values = [
            as_type(pa.array([row[place] for _, _, row in rows], _plain(one.type)), one.type)
            for place, one in enumerate(arrow)
        ]
        row = pa.StructArray.from_arrays(values, fields=list(arrow))
        return self._ready(now, pa.table({"row": row, "change": pa.array(changes, CHANGE)}))

    def _ready(self, now: TableNow, changes: pa.Table) -> tuple[Look, Done]:
        task = TableTask(
            self.name,
            described(now.table.metadata),
            {},
            tuple(now.columns),
            {},
            key=self.key,
            is_empty=now.head is None,
            has_ids=now.table.metadata.format_version >= 3 and now.head is not None,
        )
        lines = list(write(task, changes))
        waiting = [one for one in lines if one.kind == WAITING]

        def fill(old: bytes, kept: tuple[str, ...]) -> Filled:
            return filled_of(list(lines_of(fill_stage(task, old, kept)(report(waiting)))))

        surveyor = Surveyor(None)
        for batch in changes.to_batches():
            surveyor.look(batch)
        survey = Line(self.name, SURVEY, as_json(surveyor.found().as_json()))
        look = Look(now, Place(now.uuid, {}, {}), self.key, (), {}, {}, Source(), Source(), None)
        return look, done_of([survey, *lines], list, fill)

    def _now(self) -> tuple[TableNow, pa.Schema]:
        now = self.lake.load(self.name)
        assert now is not None
        schema = schema_to_pyarrow(now.table.schema(), include_field_ids=False)
        return now, pa.schema([one.with_nullable(True) for one in schema])

    def _columns_now(self) -> dict[str, str]:
        return self._now()[0].columns

    def attempt(self, look: Look, done: Done) -> Upsert:
        return Upsert(self.spark, self.lake, look, done)

    def upsert(self, changes: Any) -> Upsert:
        """An attempt that has read the table as it is now, and located nothing yet."""
        return self.attempt(*self.prepared(changes))

    def _write(self, look: Look, done: Done, say: Any) -> None:
        attempt = self.attempt(look, done)
        try:
            attempt.write(attempt.locate(), self.summary(), say)
        finally:
            attempt.close()

    def apply(self, *changes: Any) -> set[str]:
        """Write a batch; gives the partitions that were told before the commit."""
        said: set[str] = set()
        self._write(*self.prepared(changes), said.update)
        self.fold(changes)
        return said

    def summary(self) -> dict[str, str]:
        return {INGEST_PIPELINE: PIPELINE, INGEST_TOKEN: str(self.offset)}

    # Answers of Spark

    def found(self, sql: str | None = None) -> list[tuple[Any, ...]]:
        rows = self.spark.sql(sql) if sql else self.spark.table(self.spark_name)
        return sorted((tuple(row) for row in rows.collect()), key=str)

    def expected(self) -> list[tuple[Any, ...]]:
        now = self.lake.load(self.name)
        assert now is not None
        rows = [tuple(_naive(row.get(name)) for name in now.columns) for row in self.rows.values()]
        return sorted(rows, key=str)

    def rows_that_differ_from(self, other: "Mirror") -> int:
        """Rows that one of the two has and the other has not."""
        a, b = (f"SELECT * FROM {one.spark_name}" for one in (self, other))
        both = f"SELECT * FROM ({a} EXCEPT ALL {b}) UNION ALL SELECT * FROM ({b} EXCEPT ALL {a})"
        return len(self.found(both))

    def partitions(self) -> set[str]:
        """The partitions of the newest snapshot's own files, as PyIceberg has them."""
        now = self.lake.load(self.name)
        assert now is not None
        table, head = now.table, now.table.current_snapshot()
        assert head is not None
        found = set()
        for manifest in head.manifests(table.io):
            fields = table.specs()[manifest.partition_spec_id].fields
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                if entry.snapshot_id == head.snapshot_id and entry.status != ManifestEntryStatus.EXISTING:
                    values = entry.data_file.partition
                    found.add(
                        partition_key({one.field_id: scalar(values[at]) for at, one in enumerate(fields)})
                    )
        return found

    def files(self) -> list[str]:
        """What lies in the table's data folder."""
        now = self.lake.load(self.name)
        assert now is not None
        folder = Path(now.table.location().removeprefix("file:"), "data")
        return sorted(str(path) for path in folder.rglob("*") if path.suffix in {".parquet", ".puffin"})


def _term(field: SpecField) -> str:
    match field.transform:
        case "identity":
            return field.column
        case "bucket" | "truncate":
            return f"{field.transform}({field.width}, {field.column})"
        case _:
            return f"{field.transform}({field.column})"


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if isinstance(kind, pa.UuidType) else kind


def _naive(value: Any) -> Any:
    """As Spark gives timestamps to Python: local time, here UTC's."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value
