"""Why a rewrite failed: a bad file is named, and a store or a lack of memory is not blamed on a file."""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from isotherm.clients.manifests.avro import UnreadableError
from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.failures import damaged
from isotherm.iceberg.compaction.process_executor import LocalExecutor
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.parquet.table_description import described
from support.one_partition import NAME, OURS, finished, on_disk
from support.rewriting import bound, cleaned

pytestmark = pytest.mark.usefixtures("only_programs_of_this_test")


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def overwritten(path: Path) -> None:
    """Damage in a page: the footer is sound, the rows are not."""
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(bytes(content))


def shortened(path: Path) -> None:
    pq.write_table(pq.read_table(path).slice(1), path)


def replaced(path: Path) -> None:
    path.unlink()
    path.mkdir()


def piped(path: Path) -> None:
    """By a pipe that has a writer: whoever opens it all the same does not wait for ever here."""
    path.unlink()
    os.mkfifo(path)
    WRITERS.append(os.open(path, os.O_RDWR))


WRITERS: list[int] = []


@pytest.fixture(autouse=True)
def _no_writers() -> Iterator[None]:
    yield
    while WRITERS:
        os.close(WRITERS.pop())


BAD = {
    "missing": (Reason.MISSING_FILE, Path.unlink),
    "empty": (Reason.CORRUPT_FILE, lambda path: path.write_bytes(b"")),
    "truncated": (Reason.CORRUPT_FILE, truncated),
    "damaged": (Reason.CORRUPT_FILE, overwritten),
    "other rows": (Reason.CORRUPT_FILE, shortened),
    "a folder": (Reason.MISSING_FILE, replaced),
    "a pipe": (Reason.MISSING_FILE, piped),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_input_file_is_named(catalog: Any, job: CompactionJob, what: str) -> None:
    kind, spoil = BAD[what]
    victim = job.data_files[1].path
    spoil(Path(victim.removeprefix("file://")))

    result = attempt(job, described(catalog.load_table(NAME).metadata), catalog.properties)

    assert isinstance(result, Refusal)
    assert kind is result.reason
    assert victim in result.why
    cleaned(catalog.load_table(NAME), job)
    assert on_disk(catalog, job) == []


def test_of_files_that_are_read_together_the_one_is_named_that_the_second_reader_cannot_read(
    catalog: Any, job: CompactionJob
) -> None:
    """PyArrow takes text for what it is told; DuckDB looks whether it is any."""
    victim = job.data_files[1].path
    path = victim.removeprefix("file://")
    rows = pq.read_table(path)
    no_text = pa.array([b"\xff\xfe"] * rows.num_rows)
    as_text = pa.Array.from_buffers(pa.string(), rows.num_rows, no_text.buffers())
    place = rows.schema.get_field_index("part")
    pq.write_table(rows.set_column(place, rows.schema.field(place), as_text), path)

    result = attempt(job, described(catalog.load_table(NAME).metadata), catalog.properties)

    assert isinstance(result, Refusal)
    assert result.reason is Reason.CORRUPT_FILE
    assert victim in result.why
    cleaned(catalog.load_table(NAME), job)


def test_a_store_that_refuses_is_not_blamed_on_the_file(catalog: Any, job: CompactionJob) -> None:
    folder = Path(job.data_files[0].path.removeprefix("file://")).parent
    location = f"file://{folder.parent}/not-a-folder"
    Path(location.removeprefix("file://")).write_text("a file")
    table = catalog.load_table(NAME)
    table.transaction().set_properties({"write.data.path": location}).commit_transaction()
    job = bound(table.refresh(), OURS)

    result = attempt(job, described(table.metadata), catalog.properties)

    assert isinstance(result, Refusal)
    assert result.reason is Reason.STORAGE
    assert not any(file.path in result.why for file in job.data_files)


class Starved(PyArrowFileIO):
    """A store under whose files no memory is left."""

    def new_input(self, location: str) -> Any:
        errors = {"python": MemoryError, "arrow": pa.ArrowMemoryError, "duckdb": duckdb.OutOfMemoryException}
        raise errors[self.properties["starved"]](f"not enough for {location}")


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        ("python", "out of memory: not enough for far://lake/data.parquet"),
        ("arrow", "out of memory: not enough for far://lake/data.parquet"),
        (
            "duckdb",
            r"out of memory: to verify \d+ columns takes more than \d+ MiB; raise executors\.local\.memory_bytes",
        ),
    ],
)
def test_a_lack_of_memory_is_not_blamed_on_the_file(
    catalog: Any, job: CompactionJob, engine: str, why: str
) -> None:
    """A file that is called corrupt is looked for by a person; with more memory it is rewritten."""
    far = replace(job, data_files=(replace(job.data_files[0], path="far://lake/data.parquet"),))
    properties = {**catalog.properties, "py-io-impl": f"{__name__}.{Starved.__name__}", "starved": engine}

    result = attempt(far, described(catalog.load_table(NAME).metadata), properties)

    assert isinstance(result, Refusal)
    assert result.reason is Reason.OUT_OF_MEMORY
    assert re.match(why, result.why)


def test_a_rewrite_that_takes_too_much_memory_ends_alone_and_says_so(
    catalog: Any, job: CompactionJob, tmp_path: Path
) -> None:
    """Sixty rows share one text of thirty megabytes: a kilobyte on disk, two gigabytes when they are read."""
    large = pa.DictionaryArray.from_arrays(pa.array([0] * 60, pa.int32()), pa.array(["x" * 30 * 2**20]))
    field = pa.field("part", large.type, metadata={"PARQUET:field_id": "2"})
    path = tmp_path / "large.parquet"
    pq.write_table(pa.Table.from_arrays([large], schema=pa.schema([field])), path, compression="zstd")
    file = replace(job.data_files[0], path=str(path), rows=60, size_bytes=path.stat().st_size)
    executor = LocalExecutor(memory_bytes=2**20)
    description = described(catalog.load_table(NAME).metadata)

    executor.start(replace(job, data_files=(file,)), description, catalog.properties)
    result = finished(executor, job)
    assert isinstance(result, Refusal)
    assert result.reason is Reason.OUT_OF_MEMORY
    cleaned(catalog.load_table(NAME), job)
    assert on_disk(catalog, job) == []
    executor.start(job, description, catalog.properties)
    assert isinstance(finished(executor, job), Rewrite)
    executor.stop()


def test_a_manifest_that_cannot_be_read_is_damage_and_no_mistake_of_ours() -> None:
    broken = damaged("the manifests of t", UnreadableError("cut off"))

    assert broken.refusal == Refusal(Reason.CORRUPT_FILE, "the manifests of t: cut off")
    assert damaged("it", KeyError("x")).refusal.reason is Reason.UNEXPECTED
