"""Rows of older partition specs, divided by the field of time of the table's current one.

They are sorted by it, so one file is open at a time, however many partitions there are. A row that belongs to none of the
partitions which were cold when the job began ends the job. Arrow computes where each row goes; what storage gives back is
held against the spans of the partitions by DuckDB, which knows no transform (`told_of`).
"""

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, PrimitiveType

from isotherm.contract.identity import PartitionKey, partition_key, partition_values
from isotherm.core.model.jobs import CompactionJob, WrittenFile
from isotherm.core.model.refusals import Reason, RefusalError
from isotherm.core.model.tables import PartitionField
from isotherm.core.older_specs import WITHOUT_VALUE, only_field, ordinal, span_of
from isotherm.core.partitions import label
from isotherm.core.units import DAY_MS
from isotherm.iceberg.compaction.projection import repeated
from isotherm.iceberg.compaction.sorting import Comparing
from isotherm.iceberg.manifests.time_ranges import milliseconds
from isotherm.iceberg.partition_fields import partition_fields
from isotherm.parquet.output import NewFile, Output

LACKING = -(2**63)
"""In the place of an ordinal, for rows without a value."""


@dataclass(frozen=True, slots=True)
class Division:
    """Where rows go."""

    by: PartitionField
    place: int
    """Of its source column, among the table's."""
    source: PrimitiveType
    transform: Callable[[pa.Array], pa.Array] | None
    """None: the value itself."""
    named: Mapping[int, PartitionKey]
    """The partitions that may be written, by their ordinals."""
    constants: Mapping[int, Any]
    """What the older partition says of columns, by their places: files may say something else."""
    rows: Counter[int] = field(default_factory=Counter)
    """How many there are for each of them."""

    @classmethod
    def of(
        cls, job: CompactionJob, metadata: TableMetadata, constants: Mapping[int, Any]
    ) -> "Division | None":
        """That of a job, or None where it writes in the spec of what it reads."""
        if job.output_spec_id is None:
            return None
        known = only_field(partition_fields(metadata))
        spec = metadata.specs()[job.output_spec_id]
        if known is None or known.source_id is None or metadata.default_spec_id != job.output_spec_id:
            raise RefusalError(Reason.SCHEMA, "another partition spec is current by now")
        places = {one.field_id: place for place, one in enumerate(metadata.schema().fields)}
        place = places[known.source_id]
        source = metadata.schema().fields[place].field_type
        transform = next(one.transform for one in spec.fields if one.field_id == known.field_id)
        if not isinstance(source, PrimitiveType):
            raise RefusalError(Reason.UNSUPPORTED, f"the column of {known.name} has type {source}")
        return cls(
            known,
            place,
            source,
            None if isinstance(transform, IdentityTransform) else transform.pyarrow_transform(source),
            {_number(key): key for key in job.outputs},
            {places[source_id]: value for source_id, value in constants.items() if source_id in places},
        )

    @property
    def is_of_one(self) -> bool:
        """Whether all rows go into one partition: then they need no order for it."""
        return len(self.named) == 1

    def ordinals(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        """The ordinal of each row."""
        values = rows.column(self.place)
        values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        if self.transform is not None:
            values = self.transform(values)
        # A day is a date to Arrow, and a date has 32 bits.
        narrow = values.cast(pa.int32()) if pa.types.is_date(values.type) else values
        return pc.fill_null(narrow.cast(pa.int64()), LACKING)

    def count(self, rows: pa.RecordBatch) -> None:
        """Count rows for their partitions.

        Raises:
            RefusalError: one belongs to a partition that is not named, or is not what its partition says.
        """
        for number, count in _counts(self.ordinals(rows)):
            if number not in self.named:
                where = label(_key(self.by, number), (self.by,))
                why = (
                    f"a row lies in {where}, which is none of the {len(self.named)} partitions that were cold"
                )
                raise RefusalError(Reason.CORRUPT_FILE, f"{why}: what manifests say of its column is wrong")
            self.rows[number] += count
        for place, value in self.constants.items():
            if not _is_all(rows.column(place), value):
                name = rows.schema.field(place).name
                why = f"its partition says another value of {name} than its files do: readers go by the partition"
                raise RefusalError(Reason.UNSUPPORTED, why)


@dataclass(frozen=True, slots=True)
class ByPartition:
    """Rows by their partition, and within it by another order."""

    division: Division
    inner: Comparing | None

    def columns(self, rows: pa.Table) -> pa.Table:
        """What is compared of each row: its ordinal, then what the other order compares."""
        first = pa.table({"partition": self.division.ordinals(rows)})
        if self.inner is not None:
            inner = self.inner.columns(rows)
            for name in inner.column_names:
                first = first.append_column(name, inner.column(name))
        return first

    def sorted(self, columns: pa.Table) -> pa.Array:
        """The places of rows in their order."""
        if self.inner is not None:
            return self.inner.sorted(columns)  # which takes columns in their order
        return pc.sort_indices(columns, sort_keys=[(name, "ascending") for name in columns.column_names])


class DividedOutput:
    """Takes rows in the order of their partitions, and writes files of one after another."""

    def __init__(self, division: Division, make: Callable[[int, int], Output], live_rows: int) -> None:
        """Nothing is written before the first rows.

        Args:
            division: of the rows. Where there are many partitions, it has counted them all before they come.
            make: an output for so many rows, whose first file has this number.
            live_rows: how many there are in all.
        """
        self._division, self._make, self._live_rows = division, make, live_rows
        self._output: Output | None = None
        self._number = LACKING
        self._done: list[NewFile] = []
        self._partitions: list[PartitionKey] = []
        self._so_far = (0, 0)
        self.arrow = make(0, 0).arrow

    def count(self, rows: pa.RecordBatch) -> None:
        """Count rows that will come. Raises RefusalError: one may not."""
        self._division.count(rows)

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows, which lie behind all before."""
        start = 0
        for number, count in _runs(self._division.ordinals(rows)):
            if self._output is None or number != self._number:
                self._close()
                expected_rows = self._live_rows if self._division.is_of_one else self._division.rows[number]
                self._output = self._make(expected_rows, len(self._done))
                self._number = number
            self._output.write(rows.slice(start, count))
            start += count

    @property
    def so_far(self) -> tuple[int, int]:
        """How many rows and bytes have gone out."""
        rows, size = self._so_far
        more = (0, 0) if self._output is None else self._output.so_far
        return rows + more[0], size + more[1]

    def finish(self) -> list[NewFile]:
        """Everything written, in order."""
        self._close()
        return self._done

    @property
    def partitions(self) -> Sequence[PartitionKey]:
        """That of each file."""
        return self._partitions

    def abandon(self) -> None:
        """Let go of the open file."""
        if self._output is not None:
            self._output.abandon()

    def _close(self) -> None:
        if self._output is None:
            return
        files = self._output.finish()
        self._so_far = self.so_far
        self._output = None
        self._done += files
        self._partitions += [self._division.named[self._number]] * len(files)


def lies_elsewhere(file: WrittenFile, fields: Sequence[PartitionField]) -> str | None:
    """Why a file that was moved does not lie in its partition, by the bounds that its manifest will tell, or None."""
    known, key = only_field(fields), file.partition
    if known is None or known.source_id is None or key is None:
        return f"{file.path} is of no partition"
    nulls = file.null_value_counts.get(known.source_id, 0)
    if key == WITHOUT_VALUE:
        return None if nulls in (0, file.rows) else f"{file.path} has values, and is said to have none"
    told = (milliseconds(bounds.get(known.source_id)) for bounds in (file.lower_bounds, file.upper_bounds))
    number = partition_values(key).get(known.field_id)
    if nulls or any(one is not None and ordinal(one, known) != number for one in told):
        return f"{file.path} has rows beside {label(key, fields)}"
    return None


def told_of(file: WrittenFile, fields: Sequence[PartitionField], schema: Schema) -> WrittenFile:
    """The file as if its manifest told what its partition says of its rows, so that whoever verifies that verifies this.

    Bounds of its own are narrower, once `lies_elsewhere` has passed them.
    """
    known, key = only_field(fields), file.partition
    if known is None or known.source_id is None or key is None:
        return file
    column = known.source_id
    nulls = {**file.null_value_counts, column: file.rows if key == WITHOUT_VALUE else 0}
    file = replace(file, null_value_counts=nulls)
    if key == WITHOUT_VALUE:
        return file
    span = span_of(known, partition_values(key)[known.field_id])
    is_date = isinstance(schema.find_type(column), DateType)
    first, last = (
        (span.start_ms // DAY_MS, span.end_ms // DAY_MS - 1)
        if is_date
        else (span.start_ms * 1000, span.end_ms * 1000 - 1)
    )
    kind = "<i" if is_date else "<q"
    lower = {column: struct.pack(kind, first), **file.lower_bounds}
    upper = {column: struct.pack(kind, last), **file.upper_bounds}
    return replace(file, lower_bounds=lower, upper_bounds=upper)


def _number(key: PartitionKey) -> int:
    """The ordinal of a partition of one field of time."""
    held = list(partition_values(key).values())
    return int(held[0]) if held else LACKING


def _key(known: PartitionField, number: int) -> PartitionKey:
    return WITHOUT_VALUE if number == LACKING else partition_key({known.field_id: number})


def _is_all(column: pa.Array, value: Any) -> bool:
    """Whether a column has this value in each row."""
    if value is None:
        return bool(column.null_count == len(column))
    wanted = repeated(value, len(column), column.type)
    if isinstance(column, pa.ExtensionArray):
        column, wanted = column.storage, wanted.storage
    return bool(column.null_count == 0 and pc.all(pc.equal(column, wanted), min_count=0).as_py())


def _counts(numbers: pa.Array) -> Iterator[tuple[int, int]]:
    for one in pc.value_counts(numbers).to_pylist():
        yield one["values"], one["counts"]


def _runs(numbers: pa.Array) -> Iterator[tuple[int, int]]:
    """Each ordinal that follows another one, and how many rows in a row have it."""
    ends = pc.run_end_encode(numbers)
    start = 0
    for number, end in zip(ends.values.to_pylist(), ends.run_ends.to_pylist(), strict=True):
        yield number, end - start
        start = end
