"""Large row groups without deletes are copied as they are; all others are decoded, and rows are the same in either case."""

import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from mmap import mmap
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)
from thrift.Thrift import TType

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.jobs import CompactionJob, OutcomeKind, Rewrite
from isotherm.core.model.progress import Progress
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.counters import NUMBERS, Counters, seen
from isotherm.iceberg.compaction.names import leftovers
from isotherm.iceberg.compaction.proof import mismatch
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.parquet import as_asked
from isotherm.parquet import footer as footers
from isotherm.parquet.compact_thrift import Field
from isotherm.parquet.footer import read_footer
from isotherm.parquet.table_description import described
from support.footers import chunk, meta
from support.footers import rewritten as change_footer
from support.parquet_files import LAYOUTS, local, rows
from support.rewriting import bound, commit, rewritten

NAME = "db.t"
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "text", StringType(), required=False),
    NestedField(3, "price", DecimalType(9, 2), required=False),
    NestedField(4, "at", TimestamptzType(), required=False),
    NestedField(5, "half", DoubleType(), required=False),
    NestedField(6, "flag", BooleanType(), required=False),
    NestedField(7, "raw", BinaryType(), required=False),
    NestedField(8, "list", ListType(9, LongType(), element_required=False), required=False),
    NestedField(10, "map", MapType(11, StringType(), 12, LongType(), value_required=False), required=False),
    NestedField(
        13,
        "inner",
        StructType(
            NestedField(14, "x", IntegerType(), required=False),
            NestedField(15, "y", StringType(), required=False),
        ),
        required=False,
    ),
)
FILES = 4


@pytest.fixture(autouse=True)
def _small_groups_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_asked, "WORTH_BYTES", 500)


@pytest.fixture
def catalog(empty_catalog: Any) -> Any:
    return empty_catalog


@pytest.fixture
def table(catalog: Any) -> Table:
    """A table of some files, as PyIceberg writes them: without indexes, which tells them from ours."""
    made: Table = catalog.create_table(NAME, SCHEMA, properties={"format-version": "2"})
    for seed in range(FILES):
        made.append(rows(seed))
    return made


def changed(table: Table, **properties: str) -> Table:
    table.transaction().set_properties(
        {f"write.{name.replace('_', '-')}": value for name, value in properties.items()}
    ).commit_transaction()
    return table.refresh()


def was_copied(path: Path) -> bool:
    """Whether a new file has no indexes, as those that it was made of."""
    return not pq.read_metadata(path).row_group(0).column(0).has_offset_index


def sizes(result: Rewrite) -> tuple[int, int]:
    """How many new files were copied, and how many were not."""
    found = [was_copied(local(file)) for file in result.files]
    return sum(found), len(found) - sum(found)


def content(paths: list[Path]) -> list[Any]:
    """All rows, by an engine that has written none of them."""
    names = ", ".join(f"'{path}'" for path in paths)
    return duckdb.sql(
        f"SELECT CAST(t AS VARCHAR) AS row FROM read_parquet([{names}]) AS t ORDER BY row"
    ).fetchall()


def sources(job: CompactionJob) -> list[Path]:
    return [Path(file.path.removeprefix("file://")) for file in job.data_files]


def test_files_are_copied_and_no_row_is_lost(catalog: Any, table: Table) -> None:
    job = bound(table, UNPARTITIONED)
    before = table.scan().to_arrow().sort_by("id")

    result = rewritten(table, job)

    assert sizes(result) == (1, 0)
    assert mismatch(job, result) is None
    assert content(sources(job)) == content([local(file) for file in result.files])
    outcome = commit(catalog, job, result)
    assert OutcomeKind.DONE is outcome.kind, outcome
    after = catalog.load_table(NAME).scan().to_arrow().sort_by("id")
    assert str(before.to_pylist()) == str(after.to_pylist())


@pytest.mark.parametrize("metrics", ["truncate(16)", "full", "counts", "none", "truncate(3)"])
def test_a_manifest_says_of_a_copy_what_it_would_say_of_decoded_rows(
    table: Table, monkeypatch: pytest.MonkeyPatch, metrics: str
) -> None:
    table = changed(table, **{"metadata.metrics.default": metrics})
    (copy,) = rewritten(table, bound(table, UNPARTITIONED)).files
    monkeypatch.setattr(as_asked, "WORTH_BYTES", 2**40)
    (decoded,) = rewritten(table, bound(table, UNPARTITIONED)).files

    assert not was_copied(local(decoded))
    own = {"path": "", "size_bytes": 0, "column_sizes": {}, "split_offsets": ()}
    assert replace(decoded, **own) == replace(copy, **own)
    assert copy.column_sizes.keys() == decoded.column_sizes.keys()
    footer = pq.read_metadata(local(copy))
    begins = [footer.row_group(group).column(0) for group in range(footer.num_row_groups)]
    assert list(copy.split_offsets) == [
        chunk.dictionary_page_offset or chunk.data_page_offset for chunk in begins
    ]
    assert local(copy).stat().st_size == copy.size_bytes
    if metrics == "full":
        values = pq.read_table(local(copy))["half"]
        assert 0 < pc.sum(pc.is_nan(values)).as_py() == copy.nan_value_counts[5]


def test_bounds_hold_both_zeros(catalog: Any) -> None:
    schema = Schema(NestedField(1, "half", DoubleType(), required=False))
    table = catalog.create_table(NAME, schema, properties={"format-version": "2"})
    for _ in range(2):
        table.append(pa.table({"half": [0.0, 5.0] + [float(one) for one in range(300)]}))

    (file,) = rewritten(table, bound(table, UNPARTITIONED)).files

    assert was_copied(local(file))
    assert bytes(7) + b"\x80" == file.lower_bounds[1]


def with_deletes(
    table: Table, job: CompactionJob, folder: Path, *positions: tuple[int, int]
) -> CompactionJob:
    """The same job, with deletes of these positions of these of its files."""
    path = folder / "deletes.parquet"
    names = [job.data_files[number].path for number, _ in positions]
    places = pa.array([place for _, place in positions], pa.int64())
    pq.write_table(pa.table({"file_path": names, "pos": places}), path)
    delete = LiveFile(str(path), FileKind.POSITION_DELETES, path.stat().st_size, len(positions), 99)
    return replace(job, delete_files=(delete,))


def test_a_file_of_which_a_row_is_deleted_is_decoded_beside_others_that_are_not(
    table: Table, tmp_path: Path
) -> None:
    job = with_deletes(table, bound(table, UNPARTITIONED), tmp_path, (1, 5), (1, 299))
    # Two files of the others have the target size.
    job = replace(job, target_size_bytes=job.data_files[0].size_bytes + job.data_files[2].size_bytes)

    result = rewritten(table, job)

    assert sizes(result) == (1, 1)
    assert mismatch(job, result) is None
    assert (1200, 2, 1198) == (result.rows_read, result.rows_deleted, result.rows_written)
    ids = sorted(one for file in result.files for one in pq.read_table(local(file))["id"].to_pylist())
    assert [one for one in range(1200) if one not in {305, 599}] == ids
    assert tuple(file.path for file in result.files) == leftovers(table.io, table.metadata, job)


def test_what_is_said_of_how_far_it_is_counts_files_that_are_copied_and_those_that_are_decoded(
    table: Table, tmp_path: Path
) -> None:
    job = with_deletes(table, bound(table, UNPARTITIONED), tmp_path, (1, 5), (1, 299))
    job = replace(job, target_size_bytes=job.data_files[0].size_bytes + job.data_files[2].size_bytes)
    with tempfile.TemporaryFile() as file:
        file.truncate(NUMBERS.size)
        shared, counters = mmap(file.fileno(), NUMBERS.size), Counters(file.fileno())

    result = attempt(job, described(table.metadata), table.catalog.properties, counters)

    assert isinstance(result, Rewrite)
    assert sizes(result) == (1, 1)
    assert seen(shared) == Progress(1200, job.read_bytes, 1198, result.bytes_written)


def test_deletes_of_rows_that_are_not_there_have_a_file_decoded(table: Table, tmp_path: Path) -> None:
    """One engine counts them, the other does not: what is unclear is not copied."""
    job = with_deletes(table, bound(table, UNPARTITIONED), tmp_path, *((file, 300) for file in range(FILES)))

    assert sizes(rewritten(table, job)) == (0, 1)


ASKED: dict[str, Callable[[Table], Table]] = {
    "another codec": lambda table: changed(table, **{"parquet.compression-codec": "gzip"}),
    "smaller row groups": lambda table: changed(table, **{"parquet.row-group-size-bytes": "900"}),
    "fewer rows in each": lambda table: changed(table, **{"parquet.row-group-limit": "299"}),
    "a Bloom filter": lambda table: changed(table, **{"parquet.bloom-filter-enabled.column.id": "true"}),
}


@pytest.mark.parametrize("what", ASKED)
def test_files_are_decoded_where_the_table_asks_for_something_else(table: Table, what: str) -> None:
    table = ASKED[what](table)
    job = bound(table, UNPARTITIONED)

    result = rewritten(table, job)

    assert (0, 1) == sizes(result)
    assert mismatch(job, result) is None


EVOLVED: dict[str, Callable[[Any], Any]] = {
    "a column came": lambda update: update.add_column("new", LongType()),
    "a column left": lambda update: update.delete_column("flag"),
    "a column has another name": lambda update: update.rename_column("text", "words"),
    "a column is wider": lambda update: update.update_column("price", DecimalType(12, 2)),
    "columns have another order": lambda update: update.move_first("at"),
    "a part of a column is wider": lambda update: update.update_column(("inner", "x"), LongType()),
}


@pytest.mark.parametrize("what", EVOLVED)
def test_files_of_another_schema_are_decoded(table: Table, what: str) -> None:
    with table.update_schema() as update:
        EVOLVED[what](update)
    table = table.refresh()
    job = bound(table, UNPARTITIONED)

    result = rewritten(table, job)

    assert (0, 1) == sizes(result)
    assert mismatch(job, result) is None


def test_a_job_that_sorts_decodes_all(table: Table) -> None:
    assert (0, 1) == sizes(rewritten(table, bound(table, UNPARTITIONED, sort="id DESC")))


def test_rows_that_have_ids_keep_them_and_no_file_is_copied(table: Table, tmp_path: Path) -> None:
    """Also where files say the ids themselves, so that they are such files as we write."""
    version_3 = json.dumps(json.loads(described(table.metadata)) | {"format-version": 3, "next-row-id": 9999})
    job = bound(table, UNPARTITIONED)
    files = tuple(replace(file, first_row_id=300 * place) for place, file in enumerate(job.data_files))
    result = attempt(replace(job, data_files=files), version_3, table.catalog.properties)
    assert isinstance(result, Rewrite), result
    (with_ids,) = result.files
    again = LiveFile(with_ids.path, FileKind.DATA, with_ids.size_bytes, with_ids.rows, 1, first_row_id=0)

    result = attempt(
        replace(job, job_id="again", data_files=(again, again)), version_3, table.catalog.properties
    )

    assert isinstance(result, Rewrite), result
    ids = [row["_row_id"] for row in pq.read_table(local(result.files[0])).to_pylist()]
    assert [*range(1200)] * 2 == ids
    assert pq.read_metadata(local(result.files[0])).num_row_groups == 1


@pytest.mark.parametrize("rows_each", [100, 300])
def test_small_row_groups_are_decoded(catalog: Any, monkeypatch: pytest.MonkeyPatch, rows_each: int) -> None:
    properties = {"format-version": "2", "write.parquet.row-group-limit": str(rows_each)}
    table = catalog.create_table(NAME, SCHEMA, properties=properties)
    for seed in range(2):
        table.append(rows(seed))
    job = bound(table, UNPARTITIONED)
    groups = pq.read_metadata(sources(job)[0])
    largest = max(groups.row_group(number).total_byte_size for number in range(groups.num_row_groups))
    monkeypatch.setattr(as_asked, "WORTH_BYTES", largest + 1)

    result = rewritten(table, job)

    assert (0, 1) == sizes(result)
    assert mismatch(job, result) is None


NULLS: dict[str, tuple[bool, bool, tuple[int, int]]] = {
    "required in the table": (True, False, (0, 1)),
    "required in the files": (False, True, (1, 0)),
    "required in both": (True, True, (1, 0)),
}


@pytest.mark.parametrize("what", NULLS)
def test_a_column_may_be_required_in_a_file_alone_and_not_in_the_table_alone(
    catalog: Any, tmp_path: Path, what: str
) -> None:
    """Spark calls a column required that has no null in a file."""
    in_table, in_files, expected = NULLS[what]
    schema = Schema(NestedField(1, "id", LongType(), required=in_table))
    table = catalog.create_table(NAME, schema, properties={"format-version": "2"})
    field = pa.field("id", pa.int64(), nullable=not in_files, metadata={"PARQUET:field_id": "1"})
    for seed in range(2):
        table.append(pa.table([rows(seed)["id"]], schema=table.schema().as_arrow()))
    job = bound(table, UNPARTITIONED)
    files = []
    for seed, file in enumerate(job.data_files):
        path = tmp_path / f"{seed}.parquet"
        pq.write_table(
            pa.table([rows(seed)["id"]], schema=pa.schema([field])),
            path,
            compression="zstd",
            store_schema=False,
        )
        files.append(replace(file, path=str(path), size_bytes=path.stat().st_size))
    job = replace(job, data_files=tuple(files))

    result = rewritten(table, job)

    assert expected == sizes(result)
    assert mismatch(job, result) is None
    assert content(sources(job)) == content([local(file) for file in result.files])


def test_the_last_row_group_of_a_file_may_be_small(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_asked, "WORTH_BYTES", 2000)
    table = catalog.create_table(
        NAME, SCHEMA, properties={"format-version": "2", "write.parquet.row-group-limit": "280"}
    )
    for seed in range(2):
        table.append(rows(seed))
    job = bound(table, UNPARTITIONED)

    (file,) = rewritten(table, job).files

    assert was_copied(local(file))
    footer = pq.read_metadata(local(file))
    assert [280, 20, 280, 20] == [footer.row_group(number).num_rows for number in range(4)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_the_same_whatever_layout_files_have(
    catalog: Any, table: Table, tmp_path: Path, layout: str
) -> None:
    """Some are copied and some are not, as their layout allows; the same files stand for those of the table."""
    job = bound(table, UNPARTITIONED)
    arrow = table.schema().as_arrow()
    files = []
    for seed, file in enumerate(job.data_files):
        path = tmp_path / f"{seed}.parquet"
        pq.write_table(
            rows(seed).cast(arrow), path, **{"store_schema": False, "row_group_size": 100, **LAYOUTS[layout]}
        )
        files.append(replace(file, path=str(path), size_bytes=path.stat().st_size))
    job = replace(job, data_files=tuple(files))

    result = rewritten(table, job)

    assert mismatch(job, result) is None
    assert content(sources(job)) == content([local(file) for file in result.files])
    is_other = layout in {"not packed", "snappy", "gzip", "lz4", "without statistics"}
    (file,) = result.files
    # What is written anew is one row group.
    assert (1 if is_other else 3 * FILES) == pq.read_metadata(local(file)).num_row_groups


def test_files_of_another_kind_than_most_are_decoded(table: Table, tmp_path: Path) -> None:
    job = bound(table, UNPARTITIONED)
    path = tmp_path / "other.parquet"
    path.write_bytes(sources(job)[1].read_bytes())
    change_footer(path, lambda fields: fields.update({6: Field(TType.STRING, b"somebody else" * 20)}))
    other = replace(job.data_files[1], path=str(path), size_bytes=path.stat().st_size)
    target = job.data_files[0].size_bytes * 3
    job = replace(job, data_files=(job.data_files[0], other, *job.data_files[2:]), target_size_bytes=target)

    result = rewritten(table, job)

    assert (0, 1) == sizes(result)
    assert mismatch(job, result) is None
    job = replace(
        job,
        job_id="other",
        data_files=(*job.data_files, *job.data_files[2:]),
        target_size_bytes=target // 3 * 2,
    )
    result = rewritten(table, job)
    assert (2, 1) == sizes(result)
    assert mismatch(job, result) is None
    # The largest file is of the other kind, and the oldest one goes with another one all the same.
    (decoded,) = (local(file) for file in result.files if not was_copied(local(file)))
    oldest = pq.read_table(sources(job)[0])["id"]
    assert 0 == pc.sum(pc.is_in(pq.read_table(decoded)["id"], oldest)).as_py()


def test_files_of_many_columns_in_few_bytes_are_decoded(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To parse their footers takes longer than to decode them."""
    job = bound(table, UNPARTITIONED)
    footer_bytes = [int.from_bytes(path.read_bytes()[-8:-4], "little") for path in sources(job)]
    part = max(length / file.size_bytes for length, file in zip(footer_bytes, job.data_files, strict=True))

    monkeypatch.setattr(as_asked, "FOOTER_BYTES", math.ceil(part * as_asked.WORTH_BYTES) + 1)
    assert (1, 0) == sizes(rewritten(table, job))
    monkeypatch.setattr(as_asked, "FOOTER_BYTES", int(part / 2 * as_asked.WORTH_BYTES))
    assert (0, 1) == sizes(rewritten(table, replace(job, job_id="many")))


def test_files_go_together_only_as_far_as_the_footer_of_the_new_one_can_be_read(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = bound(table, UNPARTITIONED)
    with sources(job)[0].open("rb") as stream:
        share = read_footer(stream).share
    job = replace(job, data_files=job.data_files * 2)

    monkeypatch.setattr(footers, "MOST_FOOTER_BYTES", int(footers.MOST_FOOTER_BYTES * share * 5))
    result = rewritten(table, job)
    assert (0, 1) == sizes(result)
    assert mismatch(job, result) is None
    halves = replace(job, job_id="halves", target_size_bytes=job.data_files[0].size_bytes * 4)
    result = rewritten(table, halves)
    assert (2, 0) == sizes(result)
    assert mismatch(halves, result) is None


@pytest.mark.parametrize("nulls", [-1, 2**62])
def test_no_manifest_says_of_nulls_what_cannot_be(table: Table, nulls: int) -> None:
    """A filtered read skips a file in which all values are null, or none: by sums in which a wrong one has part."""
    job = bound(table, UNPARTITIONED)
    for path in sources(job):
        change_footer(path, lambda fields: meta(fields, 1)[12].value.update({3: Field(TType.I64, nulls)}))
    files = [
        replace(file, size_bytes=path.stat().st_size)
        for file, path in zip(job.data_files, sources(job), strict=True)
    ]

    (file,) = rewritten(table, replace(job, data_files=tuple(files))).files

    assert not was_copied(local(file))
    assert pq.read_table(local(file))["text"].null_count == file.null_value_counts[2]


def test_an_index_that_lies_before_the_file_has_it_decoded(table: Table, tmp_path: Path) -> None:
    job, path = bound(table, UNPARTITIONED), tmp_path / "a.parquet"
    pq.write_table(pq.read_table(sources(job)[0]), path, **LAYOUTS["indexes"], store_schema=False)
    change_footer(path, lambda fields: chunk(fields).update({6: Field(TType.I64, -1000)}))
    file = replace(job.data_files[0], path=str(path), size_bytes=path.stat().st_size)
    job = replace(job, data_files=(file, file))

    result = rewritten(table, job)

    assert mismatch(job, result) is None
    assert content(sources(job)) == content([local(file) for file in result.files])


def test_a_damaged_page_is_told_and_not_copied(table: Table, tmp_path: Path) -> None:
    job = bound(table, UNPARTITIONED)
    path = tmp_path / "damaged.parquet"
    pq.write_table(
        pq.read_table(sources(job)[1]),
        path,
        compression="zstd",
        write_page_checksum=True,
        use_dictionary=False,
    )
    damaged = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(0).column(0)
    damaged[chunk.data_page_offset + chunk.total_compressed_size - 3] ^= 1
    path.write_bytes(damaged)
    job = replace(job, data_files=(replace(job.data_files[1], path=str(path)),) * 2)

    result = attempt(job, described(table.metadata), table.catalog.properties)

    assert isinstance(result, Refusal)
    assert Reason.CORRUPT_FILE is result.reason
    assert f"{path}: the page at byte" in result.why
    assert "checksum" in result.why


def test_a_file_with_other_rows_than_its_manifest_says_is_told(catalog: Any) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    table = catalog.create_table(NAME, schema, properties={"format-version": "2"})
    for seed in range(2):
        table.append(rows(seed).select(["id"]))
    job = bound(table, UNPARTITIONED)
    job = replace(job, data_files=tuple(replace(file, rows=299) for file in job.data_files))

    result = attempt(job, described(table.metadata), table.catalog.properties)

    assert isinstance(result, Refusal)
    assert Reason.CORRUPT_FILE is result.reason


def test_a_file_that_the_table_names_twice_is_copied_twice(table: Table) -> None:
    job = bound(table, UNPARTITIONED)
    job = replace(job, data_files=(job.data_files[0], job.data_files[0]))

    result = rewritten(table, job)

    assert (1, 0) == sizes(result)
    assert 600 == result.rows_written
    assert mismatch(job, result) is None


@pytest.mark.parametrize("seed", range(10))
def test_a_job_of_any_files_keeps_each_row_and_says_what_is_in_each_file(
    table: Table, tmp_path: Path, seed: int
) -> None:
    chance, job, files = Random(seed), bound(table, UNPARTITIONED), []
    layouts = [
        "plain",
        "indexes",
        "checksums",
        "pages of version 2",
        "several pages",
        "Bloom filters",
        "snappy",
    ]
    for number in range(chance.randrange(2, 14)):
        path = tmp_path / f"{number}.parquet"
        some = rows(chance.randrange(50)).cast(table.schema().as_arrow()).slice(0, chance.randrange(20, 300))
        layout = LAYOUTS[chance.choice(layouts) if seed % 2 else "plain"]
        pq.write_table(
            some, path, **{"store_schema": False, "row_group_size": chance.choice([50, 100, 300]), **layout}
        )
        file = job.data_files[0]
        files.append(replace(file, path=str(path), size_bytes=path.stat().st_size, rows=some.num_rows))
    target = sum(file.size_bytes for file in files) / chance.uniform(0.5, 6)
    job = replace(job, data_files=tuple(files), target_size_bytes=max(int(target), 1000))

    result = rewritten(table, job)

    assert mismatch(job, result) is None
    assert content(sources(job)) == content([local(file) for file in result.files])
    for file in result.files:
        found = pq.read_table(local(file))["id"].to_pylist()
        bounds = (file.lower_bounds[1], file.upper_bounds[1])
        assert (min(found), max(found)) == tuple(int.from_bytes(one, "little") for one in bounds)
        assert len(found) == file.rows
