"""What the written files must hold, and what they do: both by DuckDB's own reader, which shares no code with Arrow.

`rewrite` reads, drops deleted rows, projects and writes with Arrow. Here the same files, and the same delete files,
are read a second time, deletes are an anti-join on file and position, and columns are found by the field ids of the
footer as DuckDB sees it. Of every row that must stay a 64-bit hash of its values in the table's present schema is
summed up. The same sum over the written files must agree, and the bounds and null counts that manifests will tell of
them must hold for their rows. So a mistake of the reader, the deletes, the projection, the writer or the statistics is
found (`proof`).

DuckDB reads only files that this process has open, runs on one thread, and holds a bounded amount of memory.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping

from isotherm.core.model.files import LiveFile
from isotherm.core.model.jobs import WrittenFile
from isotherm.core.paths import normalised
from isotherm.iceberg.compaction.claims import claims
from isotherm.iceberg.compaction.columns import Column, columns_of
from isotherm.iceberg.compaction.local_copy import FOLDER, local_paths
from isotherm.iceberg.compaction.row_hash import row_hash

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


class RowSums:
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
        # It would take the extremes in a footer for those of all values, though they leave out what is no number. Nor
        # is it a proof of a footer to believe it.
        self._duckdb.execute("SET disabled_optimizers = 'statistics_propagation'")
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
        columns = columns_of(self._duckdb, path, self._mapping)
        parts = row_hash(columns, self._target, constants)
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
