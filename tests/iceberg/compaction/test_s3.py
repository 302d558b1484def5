"""The same on S3, while the store answers 503 or not at all: what passes is ridden out, what does not is said."""

import itertools
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField

from isotherm.clients.remote_file import WHOLE_FILE_BYTES
from isotherm.clients.storage import properties_with_retries
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import OutcomeKind
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.iceberg.compaction.local_copy import AHEAD
from isotherm.iceberg.compaction.process_executor import LocalExecutor
from isotherm.iceberg.compaction.proof import mismatch
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.parquet import as_asked
from isotherm.parquet.table_description import described
from isotherm.service.ports import Refused
from support.object_store import BUCKET, Fault, ObjectStore, object_store
from support.rewriting import bound, cleaned, commit, rewritten

NAME = "db.t"
OURS = PartitionKey('{"1000":1}')
_warehouses = itertools.count(1)


@pytest.fixture(scope="module")
def running_store() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def store(running_store: ObjectStore) -> ObjectStore:
    running_store.faults.clear()
    running_store.requests.clear()
    return running_store


@pytest.fixture
def catalog(store: ObjectStore, tmp_path: Path) -> Any:
    properties = properties_with_retries(store.properties())
    warehouse = f"s3://{BUCKET}/w{next(_warehouses)}"
    found = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=warehouse, **properties
    )
    found.create_namespace("db")
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "part", IntegerType(), required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    table = found.create_table(NAME, schema, partition_spec=spec, properties={"format-version": "2"})
    for start in range(0, 300, 100):
        ids = list(range(start, start + 100))
        table.append(pa.table({"id": ids, "part": pa.array([one % 2 for one in ids], pa.int32())}))
    return found


def ids(catalog: Any) -> list[int]:
    return sorted(catalog.load_table(NAME).scan().to_arrow().column("id").to_pylist())


def test_a_compaction_rides_out_a_store_that_is_busy_and_one_that_is_silent(
    catalog: Any, store: ObjectStore
) -> None:
    """Each burst is longer than the three tries of the AWS library, so it is ours that get through."""
    table = catalog.load_table(NAME)
    job = bound(table, OURS)
    location = job.data_files[0].path.removeprefix("s3:/")
    store.faults += [
        Fault("HEAD", location, 4),
        Fault("GET", job.data_files[1].path.removeprefix("s3:/"), 4),
        Fault("GET", job.data_files[2].path.removeprefix("s3:/"), 1, "silence"),
        Fault("PUT", f"isotherm-{job.job_id}-00000.parquet", 4),
        Fault("PUT", f"isotherm-{job.job_id}-m", 4),
        Fault("PUT", f"isotherm-{job.job_id}.avro", 1, "silence"),
        Fault("PUT", ".metadata.json", 4),
    ]
    executor = LocalExecutor()
    executor.start(job, described(table.metadata), catalog.properties)
    executor.wait(120)
    ((_, rewrite),) = executor.poll()
    assert not isinstance(rewrite, Refusal), rewrite

    outcome = commit(catalog, job, rewrite)

    assert OutcomeKind.DONE is outcome.kind, outcome
    assert store.unmet() == []
    assert list(range(300)) == ids(catalog)
    files = catalog.load_table(NAME).inspect.files()
    assert [f"s3://{BUCKET}/"] == sorted({path[: len(BUCKET) + 6] for path in files["file_path"].to_pylist()})
    assert files.num_rows == 3 + 1


def test_a_job_of_little_memory_fetches_small_files_ahead(catalog: Any) -> None:
    """Each thread that fetches took 64 MiB of address space, of which 256 MiB have none to give: it ended by a signal."""
    table = catalog.load_table(NAME)
    ids = pa.array(range(4000), pa.int64())
    for _ in range(2 * AHEAD):
        table.append(pa.table({"id": ids, "part": pa.array([1] * len(ids), pa.int32())}))
    executor = LocalExecutor(memory_bytes=256 * 1024**2)
    executor.start(bound(table, OURS), described(table.metadata), catalog.properties)
    executor.wait(120)

    ((_, rewrite),) = executor.poll()
    executor.stop()
    assert not isinstance(rewrite, Refusal), rewrite
    assert rewrite.rows_written == 2 * AHEAD * len(ids) + 150


def test_leftovers_are_found_by_the_job_alone_and_deleted_in_spite_of_503(
    catalog: Any, store: ObjectStore
) -> None:
    table = catalog.load_table(NAME)
    job = bound(table, OURS)
    rewrite = rewritten(table, job)
    assert [one for one in store.objects() if job.job_id in one]
    store.faults += [Fault("DELETE", job.job_id, 4)]

    removed = cleaned(table, job)

    assert [file.path for file in rewrite.files] == list(removed)
    assert store.unmet() == []
    assert [one for one in store.objects() if job.job_id in one] == []


def test_an_object_that_is_missing_is_named_at_once(catalog: Any, store: ObjectStore) -> None:
    table = catalog.load_table(NAME)
    job = bound(table, OURS)
    victim = job.data_files[1].path
    bucket, key = victim.removeprefix("s3://").split("/", 1)
    store.client().delete_object(Bucket=bucket, Key=key)
    store.requests.clear()

    result = attempt(job, described(table.metadata), catalog.properties)

    assert isinstance(result, Refusal)
    assert result.reason is Reason.MISSING_FILE
    assert victim in result.why
    # Opened, and looked for: what is missing does not come back by asking again.
    assert sum(key in one for one in store.requests) == 2


def test_a_store_that_stays_away_is_said_to_be(catalog: Any, store: ObjectStore) -> None:
    table = catalog.load_table(NAME)
    job = bound(table, OURS)
    victim = job.data_files[1].path
    store.faults += [Fault("HEAD", victim.removeprefix("s3:/"), 1000)]

    result = attempt(job, described(table.metadata), catalog.properties)

    assert isinstance(result, Refusal)
    assert result.reason is Reason.STORAGE
    assert victim in result.why


@pytest.mark.parametrize(
    ("method", "words"),
    [("*", "AWS Error ACCESS_DENIED"), ("PUT", "AWS Error REQUEST_TIME_TOO_SKEWED")],
    ids=["reading", "writing"],
)
def test_a_store_that_finds_our_clock_wrong_is_said_to_refuse_and_work_goes_on_once_it_is_mended(
    catalog: Any, store: ObjectStore, method: str, words: str
) -> None:
    """The first request to a file has no body in its answer: there S3's code for clocks cannot be told from others."""
    table = catalog.load_table(NAME)
    job = bound(table, OURS)
    store.faults += [Fault(method, "/", 1000, "skewed")]
    store.requests.clear()

    result = attempt(job, described(table.metadata), catalog.properties)
    assert isinstance(result, Refusal)
    assert (result.reason, words in result.why) == (Reason.STORAGE, True)
    # It is an answer: ours does not send it again, the AWS library does so twice with the time that it was told.
    assert store.faults[0].met <= 3
    with pytest.raises(Refused, match=r"db\.t.*ACCESS_DENIED") if method == "*" else nullcontext():
        IcebergCatalog(catalog).load(NAME)
    store.faults.clear()
    cleaned(table, job)
    assert [one for one in store.objects() if job.job_id in one] == []
    outcome = commit(catalog, job, rewritten(table, job))
    assert (outcome.kind, ids(catalog)) == (OutcomeKind.DONE, list(range(300)))


def test_a_commit_that_cannot_write_its_manifests_fails_cleanly(catalog: Any, store: ObjectStore) -> None:
    table = catalog.load_table(NAME)
    job = bound(table, OURS)
    rewrite = rewritten(table, job)
    store.faults += [Fault("PUT", f"isotherm-{job.job_id}.avro", 1000)]

    outcome = commit(catalog, job, rewrite)

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "storage")
    cleaned(table, job, outcome)
    assert [one for one in store.objects() if job.job_id in one] == []
    assert job.base_snapshot_id == catalog.load_table(NAME).metadata.current_snapshot_id


def test_large_objects_are_read_in_pieces(catalog: Any, store: ObjectStore) -> None:
    table = catalog.load_table(NAME)
    store.client().put_object(Bucket=BUCKET, Key="large", Body=bytes(range(256)) * 4096 * 10)
    assert WHOLE_FILE_BYTES < 256 * 4096 * 10
    with table.io.new_input(f"s3://{BUCKET}/large").open() as stream:
        stream.seek(5 * 1024 * 1024 + 3)
        store.faults += [Fault("GET", "/large", 4)]
        assert bytes(range(3, 13)) == stream.read(10)
        assert store.unmet() == []
        stream.seek(-2, 2)
        assert bytes([254, 255]) == stream.read(10)


@pytest.mark.parametrize("part", [1, 2, 3])
def test_an_upload_of_which_a_part_is_refused_leaves_no_half_file(
    catalog: Any, store: ObjectStore, part: int
) -> None:
    """PyArrow closes what it could not write, and must not complete it by that."""
    name = f"half{part}.bin"
    store.faults += [Fault("PUT", f"{name}?partNumber={part}", 1, "403")]
    stream = catalog.load_table(NAME).io.new_output(f"s3://{BUCKET}/{name}").create()
    stream.write(bytes(25 * 1024 * 1024))

    with pytest.raises(OSError, match=r"ACCESS_DENIED|AccessDenied|403"):
        stream.close()

    assert store.unmet() == []
    assert name not in store.objects()


def test_large_row_groups_of_a_store_are_copied_and_given_back_by_it(
    catalog: Any, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their footers are asked for first, and each file is fetched once."""
    monkeypatch.setattr(as_asked, "WORTH_BYTES", 100)
    table = catalog.load_table(NAME)
    job, before = bound(table, OURS), ids(catalog)
    store.requests.clear()

    result = rewritten(table, job)

    (file,) = result.files
    with table.io.new_input(file.path).open() as stream:
        footer = pq.read_metadata(stream)
    assert len(job.data_files) == footer.num_row_groups > 1
    assert mismatch(job, result) is None
    outcome = commit(catalog, job, result)
    assert OutcomeKind.DONE is outcome.kind, outcome
    assert before == ids(catalog)
