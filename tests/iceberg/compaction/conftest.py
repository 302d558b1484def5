"""Tables to compact: of one partition and its jobs, for the tests of the executor; of two, for the tests of commits; of
any column, for the tests of values. Files that need others make their own.
"""

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IcebergType, IntegerType, LongType, NestedField, StringType

from isotherm.core.model.jobs import CompactionJob
from isotherm.parquet import as_asked
from support import two_partitions as two
from support.one_partition import NAME, OURS
from support.rewrites import fork_servers_of
from support.rewriting import bound


@pytest.fixture
def catalog(empty_catalog: Any) -> Any:
    """A table of one partition, in three files."""
    schema = Schema(
        NestedField(1, "id", LongType(), required=False), NestedField(2, "part", StringType(), required=False)
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    table = empty_catalog.create_table(NAME, schema, partition_spec=spec, properties={"format-version": "2"})
    for start in range(0, 60, 20):
        ids = list(range(start, start + 20))
        table.append(pa.table({"id": ids, "part": ["a b/c"] * 20}))
    return empty_catalog


@pytest.fixture
def job(catalog: Any) -> CompactionJob:
    return bound(catalog.load_table(NAME), OURS)


@pytest.fixture
def only_programs_of_this_test() -> None:
    """An executor that nobody stopped, because its test has failed, keeps its program for a while."""
    for one in fork_servers_of(os.getpid()):
        one.kill()
        one.wait(60)


@pytest.fixture
def silent_store() -> Iterator[socket.socket]:
    """A store that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


@pytest.fixture
def stuck(catalog: Any, job: CompactionJob, silent_store: socket.socket) -> CompactionJob:
    """A job whose process waits for a store that never answers. Any other may be over before somebody looks."""
    catalog.properties |= {
        "s3.endpoint": f"http://127.0.0.1:{silent_store.getsockname()[1]}",
        "s3.region": "us-east-1",
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.request-timeout": "600",
    }
    return replace(job, data_files=(replace(job.data_files[0], path="s3://lake/data.parquet"),))


@pytest.fixture(scope="session")
def two_partitions_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a catalog of one table: two partitions of three small files each, a fourth file for both."""
    folder = tmp_path_factory.mktemp("catalog") / "made"
    folder.mkdir()
    catalog = two.catalog_in(folder)
    catalog.create_namespace("db")
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "part", IntegerType(), required=False),
        NestedField(3, "text", StringType(), required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    table = catalog.create_table(two.NAME, schema, partition_spec=spec, properties={"format-version": "2"})
    for start in (0, 10, 20):
        two.append(table, 1, start)
        two.append(table, 2, start)
    table.append(pa.concat_tables([two.some(1, 30), two.some(2, 30)]))
    catalog.engine.dispose()
    return folder


@pytest.fixture
def two_partitions(two_partitions_made: Path) -> Any:
    """An embedded catalog, as it was made. Its paths are absolute, so it is put back where it was for each test."""
    made = two_partitions_made
    kept = made.with_name("kept")
    if kept.exists():
        shutil.rmtree(made)
    else:
        made.rename(kept)
    shutil.copytree(kept, made)
    return two.catalog_in(made)


@pytest.fixture
def make(empty_catalog: Any) -> Callable[..., Table]:
    """A table `id, v` of two files that hold every second value each, in row groups of three rows once rewritten."""

    def table(field_type: IcebergType, values: Any, **properties: str) -> Table:
        schema = Schema(
            NestedField(1, "id", LongType(), required=False), NestedField(2, "v", field_type, required=False)
        )
        made = empty_catalog.create_table(
            "db.t",
            schema,
            properties={"format-version": "2", "write.parquet.row-group-limit": "3", **properties},
        )
        arrow = schema.as_arrow()
        column = values if isinstance(values, pa.Array) else pa.array(values, arrow.field("v").type)
        rows = pa.table([pa.array(range(len(column)), pa.int64()), column], schema=arrow)
        for first in (0, 1) if len(column) else ():
            made.append(rows.take(list(range(first, len(column), 2))))
        return made

    return table


@pytest.fixture
def small_groups_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of files as small as those of tests are copied as they are."""
    monkeypatch.setattr(as_asked, "WORTH_BYTES", 500)
