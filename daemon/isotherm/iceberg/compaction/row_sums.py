"""What the written files must hold, and what they do: both by DuckDB's own reader, which shares no code with Arrow.

`rewrite` reads, drops deleted rows, projects and writes with Arrow. Here the same files, and the same delete files,
are read a second time, deletes are an anti-join on file and position, and columns are found by the field ids of the
footer as DuckDB sees it. Of every row that must stay a 64-bit hash of its values in the table's present schema is
summed up. The same sum over the written files must agree, and the bounds and null counts that manifests will tell of
them must hold for their rows. So a mistake of the reader, the deletes, the projection, the writer or the statistics is
found (`proof`).

DuckDB reads only files that this process has open, runs on one thread, and holds a bounded amount of memory.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping

from isotherm.contract.paths import normalised
from isotherm.core.model.files import LiveFile
from isotherm.core.model.jobs import WrittenFile
from isotherm.core.model.refusals import Reason, RefusalError
from isotherm.iceberg.compaction.claims import claims
from isotherm.iceberg.compaction.duckdb_columns import Column, columns_of, columns_of_each
from isotherm.iceberg.compaction.failures import blaming
from isotherm.iceberg.compaction.key_columns import KeyColumn
from isotherm.iceberg.compaction.local_copy import FOLDER, local_paths, nearby
from isotherm.iceberg.compaction.memory_limit import allowed_bytes
from isotherm.iceberg.compaction.row_hash import key, row_hash
from isotherm.iceberg.row_ids import inherited_sql

HASH_MODULUS = 1 << 128

MEMORY_BYTES = 256 * 1024 * 1024
"""DuckDB reads page by page: a row group of 250 MB fits."""

UNLIMITED_BYTES = 2 * 1024**3
"""Where nobody limits it. PyArrow puts a thousand values in a page, however long they are: documents of 500 kB are 500 MB."""

COLUMN_BYTES = 8 * 1024 * 1024
"""A page of each column is in memory at once, with its dictionary and its values. That was 70 kB for short strings, and
6 MB where a hundred thousand strings of 250 bytes are all different."""

BYTES_PER_DELETE = 48
"""A deleted position in a table, once more while they are sorted, or in the hash table of the join."""

KEYS_IN_MEMORY = 6
"""The keys of equality deletes in a table and in the hash table of a join, in times of what they take with Arrow."""


def memory_for(target: Schema) -> int:
    """What DuckDB may hold for the columns of a schema: half of what this process may, where that has a limit.

    The other half is for Arrow, which has the same columns in memory. It holds no more than it needs, and nobody knows
    before how much that is: a footer does not say how large pages are.
    """
    allowed = allowed_bytes()
    if allowed is None:
        return max(COLUMN_BYTES * len(target.field_ids), UNLIMITED_BYTES)
    return max(allowed // 2, MEMORY_BYTES)


def out_of_memory(target: Schema) -> str:
    """Why the rows of a table could not be summed up, for people: DuckDB's own advice is for who runs its shell."""
    return (
        f"out of memory: to verify {len(target.field_ids)} columns takes more than {memory_for(target) // 2**20} MiB; "
        "raise executors.local.memory_bytes, or set compact.enabled to false for this table"
    )


def _connected(memory_bytes: int, locations: Iterable[str]) -> duckdb.DuckDBPyConnection:
    """DuckDB with so much memory and one thread, which opens nothing but local files at these locations, and copies."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{memory_bytes}B",
            "threads": 1,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            # Under one descriptor there is one file after another.
            "enable_external_file_cache": False,
            "temp_directory": "",
        },
    )
    connection.execute("SET disable_parquet_prefetching = true")
    # A footer's `geo` key would turn bytes into geometries, which come back as other bytes.
    connection.execute("SET enable_geoparquet_conversion = false")
    # It would take the extremes in a footer for those of all values, though they leave out what is no number. Nor
    # is it a proof of a footer to believe it.
    connection.execute("SET disabled_optimizers = 'statistics_propagation'")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"SET allowed_directories = ['{FOLDER}']")
    connection.execute("SET allowed_paths = ?", [local_paths(locations)])
    connection.execute("SET enable_external_access = false")
    return connection


@dataclass(frozen=True, slots=True)
class Tally:
    """The rows of a data file: all, those that no delete removes, and the sum of the hashes of those."""

    rows: int
    live: int
    hash: int


class RowSums:
    """Sums of row hashes, of files as DuckDB reads them."""

    def __init__(
        self,
        target: Schema,
        mapping: NameMapping | None,
        data: Sequence[LiveFile] = (),
        locations: Iterable[str] = (),
        equality: Sequence[LiveFile] = (),
    ) -> None:
        """Nothing is read yet.

        Args:
            target: the schema in which rows are summed up.
            mapping: gives ids to the columns of files that have none.
            data: the data files of which deletes speak, by number.
            locations: may be read, where they are local; and copies that have no name.
            equality: the equality deletes that must have been asked of each data file before it is summed up.
        """
        self._target, self._mapping, self._memory_bytes = target, mapping, memory_for(target)
        self._duckdb = _connected(self._memory_bytes, locations)
        self._duckdb.execute("CREATE TABLE named (path VARCHAR, number INTEGER)")
        self._duckdb.execute("CREATE TABLE deleted (number INTEGER, position BIGINT)")
        self._deletes = 0
        """How many positions are known."""
        self._touched: set[int] | None = None
        """The data files that deletes name; None as long as the positions lie as they came."""
        self._data: dict[str, list[tuple[int, int]]] = {}
        """By normalised path, the number and the sequence number of each data file."""
        self._keys: dict[tuple[int, ...], tuple[str, Sequence[KeyColumn]]] = {}
        """By the columns that they name, the table with keys of equality deletes."""
        self._keys_bytes = 0
        self._held: list[tuple[str, int | None]] = []
        """The equality deletes whose keys these are."""
        self._shared: frozenset[tuple[str, int | None]] | None = None
        """The same, as one set for all data files that are asked; None while keys are added."""
        self._equality, self._files = equality, data
        self._with_vector: set[int] = set()
        """The data files that have a deletion vector: no position-delete file applies to them."""
        self._asked: dict[int, list[frozenset[tuple[str, int | None]]]] = {}
        """For each data file the equality deletes that it was asked for: a set that many share, and not one for each."""
        for number, file in enumerate(data):
            self._data.setdefault(normalised(file.path), []).append((number, file.sequence_number))

    def close(self) -> None:
        """Let go of its memory."""
        self._duckdb.close()

    def delete(self, path: str, sequence_number: int, rows: int) -> None:
        """Take the positions that a delete file names out of data files that are not younger than it."""
        self._limit_memory(rows)
        names = self._duckdb.execute(
            f"SELECT DISTINCT CAST(file_path AS VARCHAR) FROM read_parquet('{path}')"  # noqa: S608 (made here)
        ).fetchall()
        meant = [
            (name, number)
            for (name,) in names
            for number, added in self._data.get(normalised(name), ())
            if added <= sequence_number and number not in self._with_vector
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

    def delete_positions(self, number: int, positions: "array[int]") -> None:
        """Take the positions of a deletion vector out of the data file of this number."""
        self._limit_memory(len(positions))
        values = pa.Array.from_buffers(pa.int64(), len(positions), [None, pa.py_buffer(positions)])
        self._duckdb.register("vector", pa.table({"position": values}))
        self._duckdb.execute(f"INSERT INTO deleted SELECT {number}, position FROM vector")  # noqa: S608 (made here)
        self._duckdb.unregister("vector")
        self._with_vector.add(number)
        self._deletes += len(positions)
        self._touched = None

    def add_keys(self, path: str, delete: LiveFile, columns: Sequence[KeyColumn], size_bytes: int) -> None:
        """Take the keys that an equality-delete file names by these columns; they take so much memory with Arrow."""
        held = columns_of(self._duckdb, path, self._mapping)
        ids = tuple(column.field_id for column in columns)
        parts = [key(held, one, {}) for one in columns]
        values = ", ".join(f"{part} AS k{place}" for place, part in enumerate(parts))
        self._keys_bytes += size_bytes
        self._limit_memory()
        source = f"SELECT {values}, {delete.sequence_number} AS number FROM {self._source(path, held)}"  # noqa: S608 (made here)
        if ids not in self._keys:
            self._keys[ids] = f"keys{len(self._keys)}", columns
            self._duckdb.execute(f"CREATE TABLE {self._keys[ids][0]} AS {source} LIMIT 0")
        ((rows,),) = self._duckdb.execute(f"INSERT INTO {self._keys[ids][0]} {source}").fetchall()
        if rows != delete.rows:
            why = f"{delete.path} has {rows} rows, its manifest says {delete.rows}"
            raise RefusalError(Reason.CORRUPT_FILE, why)
        self._held.append(delete.identity)
        self._shared = None

    def delete_by_keys(self, path: str, number: int, file: LiveFile, constants: Mapping[int, Any]) -> None:
        """Take out the rows of the data file of this number whose key a younger delete file names."""
        held = columns_of(self._duckdb, path, self._mapping)
        for table, columns in self._keys.values():
            parts = [key(held, one, constants) for one in columns]
            same = " AND ".join(f"({part}) IS NOT DISTINCT FROM k{place}" for place, part in enumerate(parts))
            younger = f"(SELECT * FROM {table} WHERE number > {file.sequence_number})"  # noqa: S608 (made here)
            ((found,),) = self._duckdb.execute(
                f"INSERT INTO deleted SELECT {number}, position "  # noqa: S608 (made here)
                f"FROM {self._source(path, held)} SEMI JOIN {younger} ON {same}"
            ).fetchall()
            self._deletes += found
            self._limit_memory()
        if self._shared is None:
            self._shared = frozenset(self._held)
        self._asked.setdefault(number, []).append(self._shared)
        self._touched = None

    def _check_asked(self, number: int) -> None:
        """Where a delete file was passed over, both engines would have passed over it."""
        asked = frozenset[tuple[str, int | None]]().union(*self._asked.get(number, ()))
        younger = (one for one in self._equality if one.sequence_number > self._files[number].sequence_number)
        if left := [one.path for one in younger if one.identity not in asked]:
            why = f"{len(left)} equality-delete files were not asked of data file {number}: {min(left)}"
            raise RefusalError(Reason.MISMATCH, why)

    def forget_keys(self) -> None:
        """Let go of the keys, not of what they removed."""
        for table, _ in self._keys.values():
            self._duckdb.execute(f"DROP TABLE {table}")
        self._keys, self._keys_bytes, self._held = {}, 0, []
        self._shared = None

    def _limit_memory(self, more_deletes: int = 0) -> None:
        positions_bytes = BYTES_PER_DELETE * (self._deletes + more_deletes)
        limit = self._memory_bytes + positions_bytes + KEYS_IN_MEMORY * self._keys_bytes
        self._duckdb.execute(f"SET memory_limit = '{limit}B'")

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

    def is_named(self, number: int) -> bool:
        """Whether any delete names a row of the data file of this number.

        Raises:
            RefusalError: deletes that may apply to it are not known yet.
        """
        self._check_asked(number)
        if self._touched is None:
            self._touched = self._sort()
        return number in self._touched

    def sum(self, paths: Mapping[int, str], constants: Mapping[int, Any]) -> list[Tally]:
        """The rows of the data files of these numbers, which can be read at these paths, in their order.

        They are one query: to plan one for a small file takes as long as to read it.

        `constants` are values of columns that the files lack, by field id, as manifests hold them.

        Raises:
            RefusalError: deletes that may apply to one are not known yet.
        """
        for number in paths:
            self._check_asked(number)
        if self._touched is None:
            self._touched = self._sort()
        columns = columns_of_each(self._duckdb, list(paths.values()), self._mapping)
        each = [self._counted(number, path, columns[path], constants) for number, path in paths.items()]
        found = self._duckdb.execute(" UNION ALL ".join(each)).fetchall()
        return [Tally(rows, live, int(total)) for _, rows, live, total in sorted(found)]

    def _counted(
        self, number: int, path: str, columns: Sequence[Column], constants: Mapping[int, Any]
    ) -> str:
        """SQL for the rows of a file, those that no delete removes, and the sum of the hashes of those."""
        inherited = inherited_sql(self._files[number]) if self._files else {}
        parts = row_hash(columns, self._target, constants, inherited)
        source, rows = self._source(path, columns), "count(*)"
        if number in (self._touched or ()):
            gone = f"(SELECT position FROM deleted WHERE number = {number})"  # noqa: S608 (made here)
            source = f"{source} ANTI JOIN {gone} USING (position)"
            rows = f"(SELECT count(*) FROM read_parquet('{path}'))"  # noqa: S608 (made here)
        return f"SELECT {number}, {rows}, count(*), coalesce(sum({parts}::HUGEINT), 0) FROM {source}"  # noqa: S608 (made here)

    def deletes_on(self, files: Mapping[int, LiveFile], *, by_keys: bool) -> Tally:
        """The rows that are deleted in data files of these numbers, with the sum of the hashes of path and position.

        Raises:
            RefusalError: with `by_keys`, equality deletes that may apply to one are not known yet.
        """
        for number in files if by_keys else ():
            self._check_asked(number)
        self._duckdb.execute("CREATE TABLE staying (number INTEGER, path VARCHAR, rows BIGINT)")
        if files:
            columns = [
                list(files),
                [one.path for one in files.values()],
                [one.rows for one in files.values()],
            ]
            self._duckdb.execute("INSERT INTO staying SELECT unnest(?), unnest(?), unnest(?)", columns)
        ((rows, total),) = self._duckdb.execute(
            "SELECT count(*), coalesce(sum(hash(path, position)::HUGEINT), 0) "
            "FROM (SELECT DISTINCT number, position FROM deleted) JOIN staying USING (number) "
            "WHERE position BETWEEN 0 AND rows - 1"
        ).fetchall()
        return Tally(rows, 0, int(total))

    def verified(self, io: FileIO, file: WrittenFile) -> Tally:
        """The rows of a file that was written, as storage gives them back.

        Raises:
            RefusalError: its statistics tell what is not true of them, or it cannot be read.
        """
        with blaming(file.path), nearby(io, file.path, file.size_bytes) as path:
            tally, problem = self.read_back(path, file)
        if problem is not None:
            raise RefusalError(Reason.MISMATCH, f"{file.path}: {problem}")
        return tally

    def read_back(self, path: str, file: WrittenFile) -> tuple[Tally, str | None]:
        """The rows of a file that was written, and what its statistics tell that is not true of them, if anything."""
        columns = columns_of(self._duckdb, path, self._mapping)
        parts = row_hash(columns, self._target, {})
        told = list(claims(columns, self._target, file))
        wanted = "".join(f", {one}" for claim in told for one in claim.sql)
        ((rows, total, *found),) = self._duckdb.execute(
            f"SELECT count(*), coalesce(sum({parts}::HUGEINT), 0){wanted} "  # noqa: S608 (made here)
            f"FROM {self._source(path, columns)}"
        ).fetchall()
        tally = Tally(rows, rows, int(total))
        for place, claim in enumerate(told):
            if problem := claim.problem(rows, *found[4 * place : 4 * place + 4]):
                return tally, problem
        return tally, None

    @staticmethod
    def _source(path: str, columns: Sequence[Column]) -> str:
        """The rows of a file, its columns by their places: DuckDB takes `a` and `A` for one name, Iceberg for two."""
        names = ", ".join(f"c{place}" for place in range(len(columns)))
        # A column of the file may be called file_row_number too: by then it has its place for a name.
        return f"(SELECT {names}, t.file_row_number AS position FROM read_parquet('{path}') AS t({names}))"  # noqa: S608 (made here)
