"""What the written files must hold, and what they do: both by DuckDB's own reader, which shares no code with Arrow.

`rewrite` reads, drops deleted rows, projects and writes with Arrow. Here the same files, and the same delete files,
are read a second time, deletes are an anti-join on file and position, and columns are found by the field ids of the
footer as DuckDB sees it. Of every row that must stay a 64-bit hash of its values in the table's present schema is
summed up. The same sum over the written files must agree, and the bounds and null counts that manifests will tell of
them must hold for their rows. So a mistake of the reader, the deletes, the projection, the writer or the statistics is
a mismatch, and a mismatch commits nothing.

Values are cast to the table's types before they are hashed: how a file holds them makes no difference. Nested values
are hashed part by part, together with their lengths and nulls, because DuckDB's `hash` takes a null list, an empty
list and a list of one null for the same. (Of floats, 0.0 and -0.0 hash alike.)

DuckDB reads only files that this process has open, runs on one thread, and holds a bounded amount of memory.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from isotherm.core.model.files import LiveFile
from isotherm.core.model.jobs import WrittenFile
from isotherm.core.paths import normalised
from isotherm.iceberg.compaction.nearby import FOLDER, local_paths

MEMORY_BYTES = 256 * 1024 * 1024
"""DuckDB reads page by page: a row group of 250 MB fits."""

BYTES_PER_DELETE = 48
"""A deleted position in a table, once more while they are sorted, or in the hash table of the join."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The rows of a data file: all, those that no delete removes, and the sum of the hashes of those."""

    rows: int
    live: int
    hash: int


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a Parquet file, at any depth, as DuckDB sees it."""

    name: str
    field_id: int | None
    sql_type: str
    children: tuple["_Column", ...] = ()


class Proof:
    """Sums of row hashes, of files as DuckDB reads them."""

    def __init__(
        self,
        target: Schema,
        mapping: NameMapping | None,
        data: Sequence[LiveFile] = (),
        locations: Iterable[str] = (),
    ) -> None:
        """It may read these locations, where they are local, and copies that have no name.

        `data` are the data files of which deletes speak, by number.
        """
        self._target, self._mapping = target, mapping
        self._duckdb = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{MEMORY_BYTES}B",
                "threads": 1,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                # Under one descriptor there is one file after another.
                "enable_external_file_cache": False,
                "temp_directory": "",
            },
        )
        self._duckdb.execute("SET disable_parquet_prefetching = true")
        # A footer's `geo` key would turn bytes into geometries, which come back as other bytes.
        self._duckdb.execute("SET enable_geoparquet_conversion = false")
        self._duckdb.execute("SET TimeZone = 'UTC'")
        self._duckdb.execute(f"SET allowed_directories = ['{FOLDER}']")
        self._duckdb.execute("SET allowed_paths = ?", [local_paths(locations)])
        self._duckdb.execute("SET enable_external_access = false")
        self._duckdb.execute("CREATE TABLE named (path VARCHAR, number INTEGER)")
        self._duckdb.execute("CREATE TABLE deleted (number INTEGER, position BIGINT)")
        self._deletes = 0
        """How many positions are known."""
        self._touched: set[int] | None = None
        """The data files that deletes name; None as long as the positions lie as they came."""
        self._data: dict[str, list[tuple[int, int]]] = {}
        """By normalised path, the number and the sequence number of each data file."""
        for number, file in enumerate(data):
            self._data.setdefault(normalised(file.path), []).append((number, file.sequence_number))

    def close(self) -> None:
        """Let go of its memory."""
        self._duckdb.close()

    def delete(self, path: str, sequence_number: int, rows: int) -> None:
        """Take the positions that a delete file names out of data files that are not younger than it."""
        limit = MEMORY_BYTES + BYTES_PER_DELETE * (self._deletes + rows)
        self._duckdb.execute(f"SET memory_limit = '{limit}B'")
        names = self._duckdb.execute(
            f"SELECT DISTINCT CAST(file_path AS VARCHAR) FROM read_parquet('{path}')"  # noqa: S608 (made here)
        ).fetchall()
        meant = [
            (name, number)
            for (name,) in names
            for number, added in self._data.get(normalised(name), ())
            if added <= sequence_number
        ]
        if not meant:
            return
        self._duckdb.execute("DELETE FROM named")
        self._duckdb.execute(
            "INSERT INTO named SELECT unnest(?), unnest(?)", [list(one) for one in zip(*meant, strict=True)]
        )
        ((kept,),) = self._duckdb.execute(
            "INSERT INTO deleted SELECT number, CAST(pos AS BIGINT) "  # noqa: S608 (made here)
            f"FROM read_parquet('{path}') AS one JOIN named ON named.path = CAST(one.file_path AS VARCHAR)"
        ).fetchall()
        self._deletes += kept
        self._touched = None

    def _sort(self) -> set[int]:
        """Put the positions of each data file together, so that DuckDB need not look at the others for it."""
        self._duckdb.execute(
            "CREATE TABLE sorted AS SELECT number, position FROM deleted ORDER BY number, position"
        )
        self._duckdb.execute("DROP TABLE deleted")
        self._duckdb.execute("ALTER TABLE sorted RENAME TO deleted")
        return {
            number for (number,) in self._duckdb.execute("SELECT DISTINCT number FROM deleted").fetchall()
        }

    def sum(self, path: str, number: int, constants: Mapping[int, Any]) -> Tally:
        """The rows of the data file of this number, which can be read at this path.

        `constants` are values of columns that the file lacks, by field id, as manifests hold them.
        """
        columns = self._columns(path)
        parts = _hashed(columns, self._target, constants)
        source = self._source(path, columns)
        if self._touched is None:
            self._touched = self._sort()
        if number in self._touched:
            gone = f"(SELECT position FROM deleted WHERE number = {number})"  # noqa: S608 (made here)
            source = f"{source} ANTI JOIN {gone} USING (position)"
        ((live, total),) = self._duckdb.execute(
            f"SELECT count(*), coalesce(sum({parts}::HUGEINT), 0) FROM {source}"  # noqa: S608 (made here)
        ).fetchall()
        rows = live
        if number in self._touched:
            ((rows,),) = self._duckdb.execute(f"SELECT count(*) FROM read_parquet('{path}')").fetchall()  # noqa: S608
        return Tally(rows, live, int(total))

    def read_back(self, path: str, file: WrittenFile) -> tuple[Tally, str | None]:
        """The rows of a file that was written, and what its statistics tell that is not true of them, if anything."""
        columns = self._columns(path)
        parts = _hashed(columns, self._target, {})
        facts = list(_facts(columns, self._target, file))
        wanted = "".join(f", {one}" for fact in facts for one in fact.sql)
        ((rows, total, *found),) = self._duckdb.execute(
            f"SELECT count(*), coalesce(sum({parts}::HUGEINT), 0){wanted} "  # noqa: S608 (made here)
            f"FROM {self._source(path, columns)}"
        ).fetchall()
        tally = Tally(rows, rows, int(total))
        for place, fact in enumerate(facts):
            if problem := fact.problem(rows, *found[3 * place : 3 * place + 3]):
                return tally, problem
        return tally, None

    def _columns(self, path: str) -> list[_Column]:
        """The top-level columns of a file, with the ids by which the table knows them."""
        rows = self._duckdb.execute(
            "SELECT name, field_id, duckdb_type, coalesce(num_children, 0), "  # noqa: S608 (made here)
            f"coalesce(logical_type, converted_type, '') FROM parquet_schema('{path}') ORDER BY column_id"
        ).fetchall()
        root = _tree(iter(rows))
        columns = [_unwrapped(one) for one in root.children]
        if any(row[1] is not None for row in rows[1:]):
            return columns
        if self._mapping is not None:
            return [_identified(one, self._mapping.root) for one in columns]
        return [
            _Column(one.name, place, one.sql_type, one.children) for place, one in enumerate(columns, start=1)
        ]

    @staticmethod
    def _source(path: str, columns: Sequence[_Column]) -> str:
        """The rows of a file, its columns by their places: DuckDB takes `a` and `A` for one name, Iceberg for two."""
        names = ", ".join(f"c{place}" for place in range(len(columns)))
        taken = any(column.name.lower() == "file_row_number" for column in columns)
        # A column of this name hides the number of the row; then rows are counted as they come, on one thread.
        position = "row_number() OVER () - 1" if taken else "t.file_row_number"
        return f"(SELECT {names}, {position} AS position FROM read_parquet('{path}') AS t({names}))"  # noqa: S608 (made here)


def _tree(rows: Iterator[tuple[str, int | None, str | None, int, str]]) -> _Column:
    """The next element of a footer's schema, which lists the children of an element behind it."""
    name, field_id, sql_type, children, kind = next(rows)
    inner = tuple(_tree(rows) for _ in range(children))
    marked = "LIST" if kind.upper().startswith("LIST") else "MAP" if kind.upper().startswith("MAP") else ""
    return _Column(name, field_id, marked or sql_type or "", inner)


def _unwrapped(column: _Column) -> _Column:
    """A column whose lists have one child, and whose maps have two: without the groups that repeat them."""
    children = column.children
    if column.sql_type == "MAP":
        children = children[0].children
    elif column.sql_type == "LIST":
        (repeated,) = children
        # Older writers repeat the element itself.
        is_element = len(repeated.children) != 1 or repeated.name in ("array", f"{column.name}_tuple")
        children = (repeated,) if is_element else repeated.children
    return _Column(
        column.name, column.field_id, column.sql_type, tuple(_unwrapped(child) for child in children)
    )


def _identified(column: _Column, fields: Sequence[MappedField]) -> _Column:
    """A column without an id, and all within, with the ids that a name mapping gives to their names."""
    found = next((field for field in fields if column.name in field.names), None)
    inner = found.fields if found is not None else []
    names = {"LIST": ["element"], "MAP": ["key", "value"]}.get(column.sql_type)
    children = tuple(
        _identified(_Column(names[place], None, child.sql_type, child.children) if names else child, inner)
        for place, child in enumerate(column.children)
    )
    return _Column(column.name, found.field_id if found is not None else None, column.sql_type, children)


def _hashed(columns: Sequence[_Column], target: Schema, constants: Mapping[int, Any]) -> str:
    """The hash of one row, as `target` has the row."""
    by_id = {column.field_id: place for place, column in enumerate(columns)}
    parts: list[str] = []
    for field in target.fields:
        place = by_id.get(field.field_id)
        if place is not None:
            parts += _parts(f"c{place}", columns[place], field.field_type, 0)
        elif constants.get(field.field_id) is not None:
            parts.append(_literal(constants[field.field_id], field.field_type))
        else:
            parts += _parts("NULL", None, field.field_type, 0)
    return f"hash({', '.join(parts)})"


_NO_LENGTH, _NO_HASHES = "CAST(NULL AS BIGINT)", "CAST(NULL AS UBIGINT[])"
"""Of a list that is not there: DuckDB hashes nulls of several types in several ways."""


def _parts(value: str, column: _Column | None, target: IcebergType, depth: int) -> list[str]:
    """What is hashed of a value; without a column it is null."""
    one = f"v{depth}"
    match target:
        case StructType(fields=fields):
            by_id = {child.field_id: place for place, child in enumerate(column.children if column else ())}
            parts = [f"({value} IS NULL)"]
            for field in fields:
                place = by_id.get(field.field_id)
                if column is None or place is None:
                    parts += _parts("NULL", None, field.field_type, depth)
                else:
                    inner = f"struct_extract_at({value}, {place + 1})"
                    parts += _parts(inner, column.children[place], field.field_type, depth)
            return parts
        case ListType(element_type=element):
            if column is None:
                return [_NO_LENGTH, _NO_HASHES]
            inner = ", ".join(_parts(one, column.children[0], element, depth + 1))
            return [f"len({value})", f"list_transform({value}, lambda {one}: hash({inner}))"]
        case MapType(key_type=key, value_type=item):
            if column is None:
                return [_NO_LENGTH, _NO_HASHES, _NO_HASHES]
            keys = ", ".join(_parts(one, column.children[0], key, depth + 1))
            items = ", ".join(_parts(one, column.children[1], item, depth + 1))
            return [
                f"len(map_keys({value}))",
                f"list_transform(map_keys({value}), lambda {one}: hash({keys}))",
                f"list_transform(map_values({value}), lambda {one}: hash({items}))",
            ]
        case _:
            return [_cast(value, column, target)]


def _cast(value: str, column: _Column | None, target: IcebergType) -> str:
    """A value in the table's type, however the file holds it."""
    held = column.sql_type if column is not None else ""
    if held == "BLOB" and isinstance(target, StringType):
        return f"decode({value})"
    if held == "VARCHAR" and isinstance(target, BinaryType | FixedType):
        return f"encode({value})"
    if held.startswith("TIMESTAMP") and held.endswith("_NS"):
        nanoseconds = _ticks(value, "epoch_ns")
        # DuckDB's own cast, and its division, cut towards 1970.
        down = f"({nanoseconds}) // 1000 - CAST(({nanoseconds}) % 1000 < 0 AS BIGINT)"
        value = f"make_timestamp(CAST({down} AS BIGINT))"
    return f"CAST({value} AS {_sql_type(target)})"


def _literal(value: Any, target: IcebergType) -> str:
    """A partition value, as manifests hold it, in the table's type."""
    match target:
        case DateType():
            made = f"DATE '1970-01-01' + {value}"
        case TimeType() | TimestampType() | TimestamptzType():
            made = f"make_timestamp({value}::BIGINT)"
        case BinaryType() | FixedType():
            made = f"from_hex('{value.hex()}')"
        case _:
            made = "'" + str(value).replace("'", "''") + "'"
    return f"CAST({made} AS {_sql_type(target)})"


_SQL_TYPES = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "string": "VARCHAR",
    "uuid": "UUID",
    "binary": "BLOB",
}


def _sql_type(iceberg: IcebergType) -> str:
    match iceberg:
        case DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case FixedType():
            return "BLOB"
        case _ if str(iceberg) in _SQL_TYPES:
            return _SQL_TYPES[str(iceberg)]
        case _:
            raise TypeError(f"columns of type {iceberg} cannot be compacted")


@dataclass(frozen=True, slots=True)
class _Fact:
    """A column of which a manifest will tell something."""

    name: str
    field_type: PrimitiveType
    value: str
    nulls: int | None
    values: int | None
    lower: bytes | None
    upper: bytes | None

    @property
    def sql(self) -> tuple[str, str, str]:
        """Its values that are not null, the least and the greatest: as what Python can hold, in the same order."""
        count = f"count({self.value})"
        if self.lower is None and self.upper is None:
            return count, "NULL", "NULL"
        # Not by FILTER: DuckDB takes quadratic time for many aggregates with filters of their own.
        kept = f"CASE WHEN NOT isnan({self.value}) THEN {self.value} END" if self._is_float else self.value
        low, high = (_comparable(f"{name}({kept})", self.field_type) for name in ("min", "max"))
        return count, low, high

    @property
    def _is_float(self) -> bool:
        return isinstance(self.field_type, FloatType | DoubleType)

    def problem(self, rows: int, count: int, least: Any, greatest: Any) -> str | None:
        """What is told of it that does not hold, if anything."""
        if self.values is not None and self.values != rows:
            return f"column {self.name} is said to have {self.values} values in {rows} rows"
        if self.nulls is not None and self.nulls != rows - count:
            return f"column {self.name} is said to have {self.nulls} nulls, and has {rows - count}"
        if least is None and (count == 0 or self._is_float):
            # Nothing counts: there is no value, or none that is a number.
            return None
        if self.lower is not None and not _ordinal(self.field_type, self.lower) <= least:
            return f"column {self.name} has values below its lower bound"
        if self.upper is not None and not greatest <= _ordinal(self.field_type, self.upper):
            return f"column {self.name} has values above its upper bound"
        return None


def _facts(columns: Sequence[_Column], target: Schema, file: WrittenFile) -> Iterator[_Fact]:
    """What is told of the columns that have one value in each row."""
    places = {column.field_id: (f"c{place}", column) for place, column in enumerate(columns)}
    for field in target.fields:
        yield from _facts_of(field.name, field, *places[field.field_id], file)


def _facts_of(
    name: str, field: NestedField, value: str, column: _Column, file: WrittenFile
) -> Iterator[_Fact]:
    if isinstance(field.field_type, StructType):
        places = {child.field_id: place for place, child in enumerate(column.children)}
        for child in field.field_type.fields:
            place = places[child.field_id]
            inner = f"struct_extract_at({value}, {place + 1})"
            yield from _facts_of(f"{name}.{child.name}", child, inner, column.children[place], file)
    elif isinstance(field.field_type, PrimitiveType):
        yield _Fact(
            name,
            field.field_type,
            _cast(value, column, field.field_type),
            file.null_value_counts.get(field.field_id),
            file.value_counts.get(field.field_id),
            file.lower_bounds.get(field.field_id),
            file.upper_bounds.get(field.field_id),
        )


_INFINITY = 2**63 - 1


def _comparable(value: str, field_type: PrimitiveType) -> str:
    """SQL for a value that Python compares as Iceberg does; Python's own times end at year 9999."""
    match field_type:
        case DateType():
            return f"({value} - DATE '1970-01-01')"
        case TimeType():
            return f"epoch_us({value})"
        case TimestampType() | TimestamptzType():
            return _ticks(value, "epoch_us")
        case StringType():
            return f"encode({value})"
        case _:
            return value


def _ticks(value: str, function: str) -> str:
    """The number that a time is made of: DuckDB takes two of the numbers for infinite, and gives none of them."""
    return f"CASE {value} WHEN 'infinity' THEN {_INFINITY} WHEN '-infinity' THEN -{_INFINITY} ELSE {function}({value}) END"


def _ordinal(field_type: PrimitiveType, bound: bytes) -> Any:
    """A bound, in the same form."""
    match field_type:
        case StringType() | BinaryType() | FixedType():
            return bound
        case BooleanType():
            return bool(struct.unpack("<?", bound)[0])
        case _:
            return from_bytes(field_type, bound)
