"""The proof, proved: each of these mistakes in the reader, the deletes, the projection, the writer or the statistics
is found, on rows in which each of them shows.

A mutant is a copy of a module with one line changed; the proof's own module is never changed.
"""

import datetime as dt
import importlib
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.jobs import CompactionJob
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.proof import mismatch
from isotherm.parquet.table_description import described, table_of
from support.proof_mistakes import IN_PIECES, KEYED, MERGING, MUTANTS, PIECES

COMPACTION, PARQUET = "isotherm.iceberg.compaction", "isotherm.parquet"
SCHEMA = Schema(
    NestedField(1, "a", LongType(), required=False),
    NestedField(2, "b", LongType(), required=False),
    NestedField(3, "text", StringType(), required=False),
    NestedField(4, "price", DecimalType(9, 2), required=False),
    NestedField(5, "at", TimestamptzType(), required=False),
    NestedField(6, "list", ListType(7, LongType(), element_required=False), required=False),
    NestedField(
        8,
        "map",
        MapType(9, StringType(), 10, LongType(), value_required=False),
        required=False,
    ),
    NestedField(11, "struct", StructType(NestedField(12, "x", LongType(), required=False)), required=False),
    NestedField(14, "note", StringType(), required=False),
    NestedField(15, "ratio", DoubleType(), required=False),
    NestedField(13, "part", StringType(), required=False),
)
ROWS = 400
MINUS_INFINITY = -(2**63) + 1
"""Microseconds that DuckDB takes for no time at all."""
GROUP = 100
"""Rows of a row group in what is written."""


@dataclass(frozen=True)
class World:
    """A job, and what it takes to do it."""

    job: CompactionJob
    description: str
    properties: dict[str, str]


def value_rows(number: int) -> list[dict[str, Any]]:
    """The rows of one data file: each row has values of its own, and each column nulls."""
    rows = []
    for place in range(ROWS):
        one = number * ROWS + place
        rows.append(
            {
                "a": None if one % 11 == 0 else one - 300,
                "b": None if one % 13 == 0 else 10_000_000 - one,
                "text": None
                if one % 17 == 0
                else ("z" * 5000 if one == 150 else f"a text of more than sixteen {one}"),
                "price": None if one % 7 == 0 else Decimal(one - 300) / 100,
                "at": dt.datetime(1, 1, 1, tzinfo=dt.UTC)
                if one == 7
                else MINUS_INFINITY
                if one == 2 * ROWS + 9
                else dt.datetime(2020, 1, 1, 0, 0, one % 60, tzinfo=dt.UTC),
                "list": [None, [], [None], [one, None]][one % 4],
                "map": [None, [], [(f"k{one}", None)], [("k", one)]][one % 4],
                "struct": [None, {"x": None}, {"x": one}][one % 3],
                "ratio": None if one % 19 == 0 else float("nan") if one % 5 == 0 else one / 3,
                "note": f"of more than sixteen characters, {one}",
            }
        )
    return rows


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("mutants")
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/w"}
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("db")
    made = catalog.create_table(
        "db.t",
        SCHEMA,
        partition_spec=PartitionSpec(PartitionField(13, 1000, IdentityTransform(), "part")),
        properties={"format-version": "2", "write.parquet.row-group-limit": str(GROUP)},
    )
    # The catalog numbers fields in its own way; files without the partition's column, in another order.
    schema = made.schema()
    arrow = schema.as_arrow()
    files = []
    for number in range(3):
        rows = pa.Table.from_pylist(value_rows(number), schema=pa.schema(list(arrow)[:-1]))
        rows = rows.select([rows.schema.names[place] for place in (1, 0, 9, 8, 7, 6, 5, 4, 3, 2)])
        path = folder / f"data-{number}.parquet"
        # Times of 96 bits are never infinite.
        pq.write_table(rows, path, use_deprecated_int96_timestamps=number < 2, row_group_size=150)
        files.append(LiveFile(f"file://{path}", FileKind.DATA, path.stat().st_size, ROWS, number + 1))
    first, second, third = files
    deletes = (
        # As old as the second, older than the third; twice the same position, and one behind the end.
        deleted(
            folder,
            2,
            [(first.path, 3), (first.path, 3), (second.path, 5), (third.path, 6), (first.path, 999)],
        ),
        # The same position once more.
        deleted(folder, 9, [(first.path, 3), (third.path, 149), (third.path, 150)]),
        deleted(folder, 9, [(second.path, place) for place in range(0, ROWS, 7)]),
    )
    job = CompactionJob(
        job_id="mutant",
        table=TableId(str(made.metadata.table_uuid), "db.t"),
        partition=PartitionKey('{"1000":"here"}'),
        partition_label="here",
        spec_id=0,
        base_snapshot_id=1,
        base_sequence_number=9,
        data_files=tuple(files),
        delete_files=deletes,
        bystanders=frozenset(),
        target_size_bytes=1 << 27,
        policy_hash="",
        why="a test",
    )
    return World(job, described(made.metadata), properties)


_files = itertools.count()


def deleted(folder: Path, sequence_number: int, positions: list[tuple[str, int]]) -> LiveFile:
    path = folder / f"deletes-{next(_files)}.parquet"
    names, places = zip(*positions, strict=True)
    pq.write_table(pa.table({"file_path": list(names), "pos": pa.array(places, pa.int64())}), path)
    return LiveFile(str(path), FileKind.POSITION_DELETES, path.stat().st_size, len(places), sequence_number)


_numbers = itertools.count()

MAKERS = (
    "statistics",
    "projection",
    "source",
    "output",
    "equality_keys",
    "deleted_rows",
    "delete_files",
    "rewrite",
)
"""The modules that make a file, each after those that it imports."""
PACKAGES = {name: PARQUET if name in {"statistics", "output"} else COMPACTION for name in MAKERS}


def changed(name: str, copied: Sequence[str], changes: Sequence[tuple[str, str]]) -> ModuleType:
    """A copy of a module of the rewrite, with some of its text changed; it imports the copies of other modules."""
    source = text_of(name)
    for old, new in changes:
        assert source.count(old) == 1, (source.count(old), old)
        source = source.replace(old, new)
    for other in copied:
        package = PACKAGES[other]
        source = source.replace(f"from {package}.{other} import", f"from {package}.changed_{other} import")
    copy = ModuleType(f"{PACKAGES[name]}.changed_{name}")
    copy.__package__ = PACKAGES[name]
    sys.modules[copy.__name__] = copy
    exec(compile(source, name, "exec"), copy.__dict__)  # noqa: S102 (that is what a mutant is)
    return copy


def text_of(name: str) -> str:
    file = importlib.import_module(f"{PACKAGES[name]}.{name}").__file__
    assert file is not None
    return Path(file).read_text(encoding="utf-8")


def verdict(world: World, module: str, *changes: tuple[str, str]) -> str | None:
    """What the proof finds wrong with the work of a changed module, or None if nothing."""
    # The rewrite has six modules, and a change is in one of them.
    of_rewrite = ("source", "output", "equality_keys", "deleted_rows", "delete_files", "rewrite")
    parts = of_rewrite if module == "rewrite" else (module,)
    assert all(any(old in text_of(part) for part in parts) for old, _ in changes), changes
    for place, name in enumerate(MAKERS):
        mine = [change for change in changes if name in parts and change[0] in text_of(name)]
        rewrite = changed(name, MAKERS[:place], mine)
    # A job of its own: nothing is ever written over a file.
    job = replace(world.job, job_id=f"mutant{next(_numbers)}")
    result = rewrite.attempt(job, world.description, world.properties)
    if isinstance(result, Refusal):
        # Wrong values may also be none of the table's type.
        assert result.reason in (Reason.MISMATCH, Reason.CORRUPT_FILE), result
        assert isinstance(result.why, str)
        return result.why
    return mismatch(job, result)


def test_without_a_mutation_the_proof_holds(world: World) -> None:
    assert verdict(world, "rewrite") is None
    for module in ("projection", "statistics"):
        assert verdict(world, module) is None


@pytest.mark.parametrize(("module", "change"), MUTANTS)
def test_a_mutant_is_found(world: World, module: str, change: tuple[str, str]) -> None:
    assert verdict(world, module, change) is not None


@pytest.fixture(scope="module")
def merging(world: World) -> World:
    """A job that rewrites one file, and merges the deletes on the two others."""
    *staying, third = world.job.data_files
    job = replace(world.job, data_files=(third,), staying=tuple(staying), merges_deletes=True)
    return replace(world, job=job)


def test_without_a_mutation_the_proof_of_merged_deletes_holds(merging: World) -> None:
    assert verdict(merging, "rewrite") is None


@pytest.mark.parametrize("change", [pytest.param(change, id=what) for what, change in MERGING.items()])
def test_a_mutant_of_merging_is_found(merging: World, change: tuple[str, str]) -> None:
    assert verdict(merging, "rewrite", change) is not None


@pytest.fixture(scope="module")
def keyed(world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A job with equality deletes: by one column, by two, and with nulls."""
    folder = tmp_path_factory.mktemp("keys")
    schema = table_of(world.description).schema()
    a, b, text = (schema.find_field(name).field_id for name in ("a", "b", "text"))
    arrow = schema.as_arrow()

    def by(number: int, columns: Sequence[str], ids: Sequence[int], rows: list[tuple[Any, ...]]) -> LiveFile:
        path = folder / f"keys-{next(_files)}.parquet"
        keys = [dict(zip(columns, row, strict=True)) for row in rows]
        pq.write_table(pa.Table.from_pylist(keys, pa.schema([arrow.field(one) for one in columns])), path)
        size, kind = path.stat().st_size, FileKind.EQUALITY_DELETES
        return LiveFile(str(path), kind, size, len(rows), number, equality_ids=tuple(ids))

    both = [
        (10_000_000 - 400, "a text of more than sixteen 400"),
        (None, "a text of more than sixteen 403"),
        (10_000_000 - 425, None),
        # Of these rows one column is another.
        (10_000_000 - 409, None),
        (10_000_000 - 407, "a text of more than sixteen 410"),
        # Of row 409, which stays, the places among the values of each column add up to those of the row before.
        (10_000_000 - 413, "a text of more than sixteen 409"),
    ]
    deletes = (
        # Of the first file, of the second (as old as it), and of the third.
        by(2, ["a"], [a], [(-295,), (105,), (505,), (None,), (108,)]),
        by(3, ["a"], [a], [(106,), (108,), (506,), (7_000,)]),
        by(9, ["b", "text"], [b, text], both),
    )
    job = replace(world.job, delete_files=(*world.job.delete_files, *deletes))
    return replace(world, job=job)


@pytest.fixture(scope="module")
def converting(keyed: World) -> World:
    """A job that rewrites one file, and writes what the deletes say of the two others as positions."""
    first, *staying = keyed.job.data_files
    kept = {"staying": tuple(staying), "merges_deletes": True, "converts_equality": True}
    return replace(keyed, job=replace(keyed.job, data_files=(first,), **kept))


@pytest.mark.parametrize("changes", [(), IN_PIECES], ids=["at once", "in pieces"])
@pytest.mark.parametrize("name", ["keyed", "converting"])
def test_without_a_mutation_the_proof_of_equality_deletes_holds(
    name: str, changes: Any, request: pytest.FixtureRequest
) -> None:
    assert verdict(request.getfixturevalue(name), "rewrite", *changes) is None


@pytest.mark.parametrize("change", [pytest.param(change, id=what) for what, change in KEYED.items()])
@pytest.mark.parametrize("name", ["keyed", "converting"])
def test_a_mutant_of_equality_deletes_is_found(
    name: str, change: tuple[str, str], request: pytest.FixtureRequest
) -> None:
    assert verdict(request.getfixturevalue(name), "rewrite", change) is not None


@pytest.mark.parametrize("change", [pytest.param(change, id=what) for what, change in PIECES.items()])
def test_a_mutant_of_equality_deletes_in_pieces_is_found(keyed: World, change: tuple[str, str]) -> None:
    assert verdict(keyed, "rewrite", *IN_PIECES, change) is not None
