"""Who wins when a compaction meets others, and what is known when an answer is lost. Real catalog, real files.

Foreign writers are PyIceberg here, and Spark where PyIceberg has no such operation.
"""

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyiceberg.table.update
import pytest
import requests.exceptions
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, ForbiddenError, NoSuchTableError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.summary import BEHIND_MS, JOB_ID, committed_at_of
from isotherm.core.model.files import FileKind
from isotherm.core.model.jobs import CompactionJob, Outcome, OutcomeKind, Rewrite
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.iceberg.compaction import commit_outcome
from isotherm.iceberg.compaction.committer import ATTEMPTS, SENDS
from isotherm.iceberg.compaction.replace_snapshot import AssertUnmoved, ReplaceSnapshot
from isotherm.iceberg.manifests.live import LiveEntry, live_files
from support.faults import FaultyCatalog
from support.rewriting import bound, commit, compacted, fresh, rewritten, rows, swept

OURS, OTHER = PartitionKey('{"1000":1}'), PartitionKey('{"1000":2}')
NAME = "db.t"
_ids = itertools.count(1000)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a catalog of one table: two partitions of three small files each, a fourth file for both."""
    folder = tmp_path_factory.mktemp("catalog") / "made"
    folder.mkdir()
    catalog = catalog_in(folder)
    catalog.create_namespace("db")
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "part", IntegerType(), required=False),
        NestedField(3, "text", StringType(), required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    table = catalog.create_table(NAME, schema, partition_spec=spec, properties={"format-version": "2"})
    for start in (0, 10, 20):
        append(table, 1, start)
        append(table, 2, start)
    table.append(pa.concat_tables([some(1, 30), some(2, 30)]))
    catalog.engine.dispose()
    return folder


@pytest.fixture
def catalog(made: Path) -> Any:
    """An embedded catalog, as it was made. Its paths are absolute, so it is put back where it was for each test."""
    kept = made.with_name("kept")
    if kept.exists():
        shutil.rmtree(made)
    else:
        made.rename(kept)
    shutil.copytree(kept, made)
    return catalog_in(made)


def catalog_in(folder: Path) -> Any:
    return load_catalog("lake", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/w")


def some(part: int, start: int, count: int = 10) -> pa.Table:
    ids = list(range(start, start + count))
    return pa.table(
        {"id": ids, "part": pa.array([part] * count, pa.int32()), "text": [f"{part}/{one}" for one in ids]}
    )


def append(table: Table, part: int, start: int | None = None) -> None:
    table.append(some(part, next(_ids) * 100 if start is None else start))


def contents(catalog: Any) -> list[Any]:
    found = catalog.load_table(NAME).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row["part"], row["id"]))


def ready(catalog: Any) -> tuple[CompactionJob, Rewrite]:
    table = catalog.load_table(NAME)
    job = bound(table, OURS)
    assert len(job.data_files) == 4
    return job, rewritten(table, job)


def metadata_files(catalog: Any, job: CompactionJob | Outcome) -> list[str]:
    folder = Path(catalog.load_table(NAME).metadata.location.removeprefix("file://")) / "metadata"
    return sorted(path.name for path in folder.iterdir() if job.job_id in path.name)


def settled(catalog: Any, job: CompactionJob, asserted_head_id: int | None = None) -> Outcome | None:
    return commit_outcome.settled(IcebergCatalog(catalog).load, [NAME], job, asserted_head_id, may_land=True)


def assert_done(catalog: Any, outcome: Outcome, before: list[Any]) -> None:
    """It is in the table, once, whole; and what lost attempts wrote is gone."""
    assert OutcomeKind.DONE is outcome.kind, outcome
    table = catalog.load_table(NAME)
    ours = [one for one in table.metadata.snapshots if one.summary.get(JOB_ID) == outcome.job_id]
    assert [outcome.snapshot_id] == [one.snapshot_id for one in ours]
    assert before == contents(catalog)
    job_of = CompactionJob(
        outcome.job_id,
        TableId(str(table.metadata.table_uuid), NAME),
        OURS,
        "",
        0,
        0,
        0,
        (),
        (),
        frozenset(),
        0,
        "",
        "",
    )
    gone = swept(table, job_of, outcome)
    assert (not gone.kept, not gone.postponed) == (True, True), gone
    assert before == contents(catalog)
    used = {ours[0].manifest_list} | {
        one.manifest_path
        for one in ours[0].manifests(table.io)
        if one.added_snapshot_id == outcome.snapshot_id
    }
    here = metadata_files(catalog, outcome)
    assert sorted(path.rsplit("/", 1)[1] for path in used) == here


def assert_failed(catalog: Any, outcome: Outcome, reason: str, job: CompactionJob, head: int | None) -> None:
    """Nothing of it is in the table or on disk, and the head is somebody else's."""
    assert (OutcomeKind.FAILED, reason) == (outcome.kind, outcome.reason), outcome.why
    table = catalog.load_table(NAME)
    gone = swept(table, job, outcome)
    assert (not gone.kept, not gone.postponed) == (True, True), gone
    assert head == table.metadata.current_snapshot_id
    assert [one for one in table.metadata.snapshots if one.summary.get(JOB_ID) == job.job_id] == []
    assert metadata_files(catalog, job) == []
    data = Path(table.metadata.location.removeprefix("file://")) / "data"
    assert list(data.rglob(f"*{job.job_id}-*")) == []
    contents(catalog)


def test_nothing_in_between(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    before = contents(catalog)

    outcome = commit(catalog, job, rewrite)

    assert_done(catalog, outcome, before)


def schema_change(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("more", StringType())


def name_mapping_change(table: Table) -> None:
    with table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()})


def rows_deleted(table: Table) -> None:
    table.delete("part == 1 and id < 5")


def another_compaction(table: Table) -> None:
    assert OutcomeKind.DONE is compacted(table.catalog, NAME, OURS).kind


REFUSED: dict[str, tuple[str, Callable[[Table], Any]]] = {
    "append": ("conflict", lambda table: append(table, 1)),
    "append to both": (
        "conflict",
        lambda table: table.append(pa.concat_tables([some(1, 500), some(2, 500)])),
    ),
    "delete of rows": ("conflict", rows_deleted),
    "delete of the partition": ("conflict", lambda table: table.delete("part == 1")),
    "overwrite": ("conflict", lambda table: table.overwrite(some(1, 0), overwrite_filter="part == 1")),
    "another compaction": ("conflict", another_compaction),
    "schema change": ("schema", schema_change),
    "rollback": (
        "conflict",
        lambda table: (
            table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[1].snapshot_id).commit()
        ),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("when", ["before the commit", "in the race"])
def test_whoever_was_faster_in_our_partition_wins(catalog: Any, what: str, when: str) -> None:
    reason, happens = REFUSED[what]
    job, rewrite = ready(catalog)
    heads = []

    def foreign() -> None:
        if not heads:
            table = catalog.load_table(NAME)
            happens(table)
            heads.append(catalog.load_table(NAME).metadata.current_snapshot_id)

    def racing(real: Any, *arguments: Any) -> Any:
        foreign()
        return real(*arguments)

    if when == "before the commit":
        foreign()
        outcome = commit(catalog, job, rewrite)
    else:
        outcome = commit(FaultyCatalog(catalog, racing), job, rewrite)

    assert_failed(catalog, outcome, reason, job, heads[0])


@pytest.mark.parametrize("when", ["before the commit", "in the race"])
def test_what_was_read_by_another_name_mapping_is_not_committed(catalog: Any, when: str) -> None:
    """Whoever mends an import mends what files without field ids mean."""
    job, rewrite = ready(catalog)
    table = catalog.load_table(NAME)
    head = table.metadata.current_snapshot_id

    def racing(real: Any, *arguments: Any) -> Any:
        name_mapping_change(table.refresh())
        return real(*arguments)

    if when == "before the commit":
        name_mapping_change(table)
        assert_failed(catalog, commit(catalog, job, rewrite), "schema", job, head)
    else:
        # Nothing that it asserted has moved as far as a look shows: the fate of the request is looked up later.
        assert commit(FaultyCatalog(catalog, racing), job, rewrite).kind is OutcomeKind.UNKNOWN
        assert catalog.load_table(NAME).metadata.current_snapshot_id == head


def old(table: Table) -> list[int]:
    return [one.snapshot_id for one in table.refresh().metadata.snapshots[:-1]]


def branch(table: Table) -> None:
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "b").commit()
    table.refresh().append(some(1, 900), branch="b")


PASSED: dict[str, Callable[[Table], Any]] = {
    "append elsewhere": lambda table: append(table, 2),
    "delete elsewhere": lambda table: table.delete("part == 2 and id < 5"),
    "compaction elsewhere": lambda table: compacted(table.catalog, NAME, OTHER),
    "new partition": lambda table: append(table, 3),
    "expiry of the base": lambda table: (
        append(table, 2),
        table.refresh().maintenance.expire_snapshots().by_ids(old(table)).commit(),
    ),
    "tag": lambda table: (
        table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "t").commit()
    ),
    "property": lambda table: table.transaction().set_properties({"a": "b"}).commit_transaction(),
    "branch": branch,
}


@pytest.mark.parametrize("what", PASSED)
@pytest.mark.parametrize("when", ["before the commit", "in the race"])
def test_what_happens_elsewhere_does_not_stop_us(catalog: Any, what: str, when: str) -> None:
    job, rewrite = ready(catalog)
    seen: list[list[Any]] = []

    def foreign() -> None:
        if not seen:
            PASSED[what](catalog.load_table(NAME))
            seen.append(contents(catalog))

    def racing(real: Any, *arguments: Any) -> Any:
        foreign()
        return real(*arguments)

    if when == "before the commit":
        foreign()
        outcome = commit(catalog, job, rewrite)
    else:
        outcome = commit(FaultyCatalog(catalog, racing), job, rewrite)

    assert_done(catalog, outcome, seen[0])


def test_manifests_of_a_lost_attempt_are_used_again(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    times = []

    def racing(real: Any, *arguments: Any) -> Any:
        times.append(len(metadata_files(catalog, job)))
        if len(times) < 4:
            append(catalog.load_table(NAME), 2)
        return real(*arguments)

    outcome = commit(FaultyCatalog(catalog, racing), job, rewrite)

    assert OutcomeKind.DONE is outcome.kind
    # Each attempt adds one list, and no manifest.
    assert [times[0], times[0] + 1, times[0] + 2, times[0] + 3] == times
    # The lists of the lost ones are reported, for their grace begins now.
    assert len(outcome.leftovers) == 3
    assert len(swept(catalog.load_table(NAME), job, outcome).gone) == 3
    assert times[0] == len(metadata_files(catalog, job))


def test_new_files_keep_the_starting_sequence_number(catalog: Any) -> None:
    """A delete that came after we read has a higher one, and must go on applying."""
    job, rewrite = ready(catalog)
    append(catalog.load_table(NAME), 2)

    outcome = commit(catalog, job, rewrite)

    table = catalog.load_table(NAME)
    head = table.metadata.current_snapshot()
    live = (
        entry for manifest in head.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)
    )
    found = {entry.data_file.file_path: entry for entry in live if entry.data_file.partition[0] == 1}
    assert {file.path for file in rewrite.files} == set(found)
    assert {(job.base_sequence_number, head.sequence_number, outcome.snapshot_id)} == {
        (one.sequence_number, one.file_sequence_number, one.snapshot_id) for one in found.values()
    }
    assert head.sequence_number == job.base_sequence_number + 2


def test_it_gives_way_when_it_loses_every_race(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    lost = []

    def racing(real: Any, *arguments: Any) -> Any:
        append(catalog.load_table(NAME), 2)
        lost.append(1)
        return real(*arguments)

    outcome = commit(FaultyCatalog(catalog, racing), job, rewrite)

    assert len(lost) == ATTEMPTS
    assert_failed(catalog, outcome, "contention", job, catalog.load_table(NAME).metadata.current_snapshot_id)


def test_a_table_that_is_gone_or_another_one(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    table = catalog.load_table(NAME)
    catalog.drop_table(NAME)

    outcome = commit(catalog, job, rewrite)

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "gone")
    catalog.create_table(NAME, table.schema())
    outcome = commit(catalog, job, rewrite)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "gone")
    assert "another table" in outcome.why


def test_a_partition_that_turned_hot_is_left_alone(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    head = catalog.load_table(NAME).metadata.current_snapshot_id
    asked = []

    def hot(table: Table) -> Refusal:
        asked.append(table.metadata.current_snapshot_id)
        return Refusal(Reason.HOT, "quiet for 5m of 15m")

    outcome = commit(catalog, job, rewrite, hot)

    assert [head] == asked
    assert outcome.why == "quiet for 5m of 15m"
    assert_failed(catalog, outcome, "hot", job, head)


def test_it_is_asked_again_after_every_lost_race(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    asked: list[int] = []

    def racing(real: Any, *arguments: Any) -> Any:
        append(catalog.load_table(NAME), 2)
        return real(*arguments)

    def hot_the_second_time(table: Table) -> Refusal | None:
        asked.append(table.metadata.current_snapshot_id)
        return Refusal(Reason.HOT, "an intent names it") if len(asked) == 2 else None

    outcome = commit(FaultyCatalog(catalog, racing), job, rewrite, hot_the_second_time)

    head = catalog.load_table(NAME).metadata.current_snapshot_id
    assert [job.base_snapshot_id, head] == asked
    assert_failed(catalog, outcome, "hot", job, head)


def test_who_cannot_say_does_not_allow(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    head = catalog.load_table(NAME).metadata.current_snapshot_id

    def broken(_: Table) -> None:
        raise TimeoutError("the broker is away")

    outcome = commit(catalog, job, rewrite, broken)

    assert_failed(catalog, outcome, "unavailable", job, head)


# --- answers that are lost -----------------------------------------------------------------------------------


def failing(error: Exception, lands: Callable[[int], bool]) -> tuple[list[int], Callable[..., Any]]:
    """A catalog whose answers are `error`; the request number n takes effect where `lands(n)`."""
    sent: list[int] = []

    def hook(real: Any, *arguments: Any) -> Any:
        sent.append(len(sent) + 1)
        if lands(sent[-1]):
            real(*arguments)
        raise error

    return sent, hook


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("cut"),
        CommitFailedException("409"),
        ValueError("garbage"),
        KeyError("?"),
        ForbiddenError("the second copy"),
    ],
)
def test_an_answer_that_is_lost_after_the_commit_landed(catalog: Any, error: Exception) -> None:
    job, rewrite = ready(catalog)
    before = contents(catalog)
    sent, hook = failing(error, lands=lambda number: number == 1)

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)

    assert sent == [1]
    assert_done(catalog, outcome, before)


def test_a_request_that_is_lost_is_sent_again_and_counts_once(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    before = contents(catalog)
    sent, hook = failing(ConnectionError("cut"), lands=lambda number: number == 2)

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)

    assert sent == [1, 2]
    assert_done(catalog, outcome, before)


def test_a_request_that_lands_while_it_is_sent_again_counts_once(catalog: Any) -> None:
    """The first copy was under way; the second meets the head that the first one made."""
    job, rewrite = ready(catalog)
    before = contents(catalog)
    held: list[tuple[Any, ...]] = []

    def hook(real: Any, *arguments: Any) -> Any:
        if not held:
            held.append(arguments)
            raise ConnectionError("cut")
        real(*held[0])
        return real(*arguments)

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)

    assert_done(catalog, outcome, before)


def test_a_request_whose_end_is_not_known_leaves_everything(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    head = catalog.load_table(NAME).metadata.current_snapshot_id
    held: list[tuple[Any, ...]] = []

    def hook(_: Any, *arguments: Any) -> Any:
        held.append(arguments)
        raise ConnectionError("cut")

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)

    assert len(held) == SENDS
    assert (OutcomeKind.UNKNOWN, head) == (outcome.kind, outcome.asserted_head_id)
    assert settled(catalog, job, outcome.asserted_head_id) is None
    # And it lands after all: every file that it names is there.
    before = contents(catalog)
    catalog.commit_table(*held[0])
    found = settled(catalog, job, outcome.asserted_head_id)
    assert found is not None
    assert_done(catalog, found, before)


def test_a_request_whose_end_is_not_known_can_no_longer_land_once_the_head_moved(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    held: list[tuple[Any, ...]] = []

    def hook(_: Any, *arguments: Any) -> Any:
        held.append(arguments)
        raise ConnectionError("cut")

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)
    append(catalog.load_table(NAME), 2)

    found = settled(catalog, job, outcome.asserted_head_id)
    assert found is not None
    assert (found.kind, found.reason) == (OutcomeKind.FAILED, "lost")
    with pytest.raises(CommitFailedException):
        catalog.commit_table(*held[0])


def test_without_a_way_to_look_the_end_is_unknown(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    before = contents(catalog)
    away: list[bool] = []

    def load(real: Any, name: str) -> Any:
        if away:
            raise ConnectionError("the catalog is away")
        return real(name)

    def hook(real: Any, *arguments: Any) -> Any:
        real(*arguments)
        away.append(True)
        raise ConnectionError("cut")

    weak = FaultyCatalog(catalog, hook, load)
    outcome = commit(weak, job, rewrite)

    assert OutcomeKind.UNKNOWN is outcome.kind
    assert settled(weak, job, outcome.asserted_head_id) is None
    away.clear()
    found = settled(weak, job, outcome.asserted_head_id)
    assert found is not None
    assert_done(catalog, found, before)


@pytest.mark.parametrize(
    "error",
    [ConnectionError("cut"), CommitFailedException("lost"), ForbiddenError("no")],
    ids=["cut", "lost", "refused"],
)
@pytest.mark.parametrize("looks", [1, 3, 1000])
def test_a_replica_that_lags_does_not_make_a_landed_commit_a_failed_one(
    catalog: Any, error: Exception, looks: int
) -> None:
    """It shows an older head, which is no sign that the table has gone on without us."""
    old = catalog.load_table(NAME)
    append(catalog.load_table(NAME), 2)
    job, rewrite = ready(catalog)
    before = contents(catalog)
    left: list[int] = []

    def load(real: Any, name: str) -> Any:
        if left and left[0] > 0:
            left[0] -= 1
            return old
        return real(name)

    def hook(real: Any, *arguments: Any) -> Any:
        answer = real(*arguments)
        if left:
            return answer
        left.append(looks)
        raise error

    lagging = FaultyCatalog(catalog, hook, load)
    outcome = commit(lagging, job, rewrite)
    if looks < 10:
        assert_done(catalog, outcome, before)
        return
    assert OutcomeKind.UNKNOWN is outcome.kind
    assert settled(lagging, job, outcome.asserted_head_id) is None
    # After a day it is believed.
    late = commit_outcome.settled(
        IcebergCatalog(lagging).load, [NAME], job, outcome.asserted_head_id, may_land=False
    )
    assert late is not None
    left[0] = 0
    found = settled(lagging, job, outcome.asserted_head_id)
    assert found is not None
    assert_done(catalog, found, before)


def test_a_commit_whose_snapshot_was_expired_before_anyone_looked(catalog: Any) -> None:
    job, rewrite = ready(catalog)

    def hook(real: Any, *arguments: Any) -> Any:
        real(*arguments)
        append(catalog.load_table(NAME), 2)
        table = catalog.load_table(NAME)
        table.maintenance.expire_snapshots().by_ids(old(table)).commit()
        raise ConnectionError("cut")

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)

    assert OutcomeKind.DONE is outcome.kind
    found = settled(catalog, job)
    assert found is not None
    assert OutcomeKind.DONE is found.kind
    contents(catalog)


def test_a_catalog_that_forbids_is_believed(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    head = catalog.load_table(NAME).metadata.current_snapshot_id
    sent, hook = failing(ForbiddenError("no"), lands=lambda _: False)

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)

    assert (sent, outcome.was_sent) == ([1], True)
    assert_failed(catalog, outcome, "refused", job, head)


def test_done_is_what_the_answer_shows(catalog: Any) -> None:
    """A front that redirects a POST gives back what a GET gives: the table as it was."""
    job, rewrite = ready(catalog)
    head = catalog.load_table(NAME).metadata.current_snapshot_id

    def pretends(*_: Any) -> Any:
        table = catalog.load_table(NAME)
        return CommitTableResponse(metadata=table.metadata, metadata_location=table.metadata_location)

    outcome = commit(FaultyCatalog(catalog, pretends), job, rewrite)

    assert OutcomeKind.UNKNOWN is outcome.kind
    assert outcome.asserted_head_id == head
    assert head == catalog.load_table(NAME).metadata.current_snapshot_id


def test_committing_twice_changes_nothing(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    before = contents(catalog)
    first = commit(catalog, job, rewrite)

    second = commit(catalog, job, rewrite)

    assert (first.kind, first.snapshot_id) == (second.kind, second.snapshot_id)
    assert_done(catalog, second, before)


@pytest.mark.parametrize(
    "total", ["9" * 5000, "²", "-7", "many"], ids=["digits", "superscript", "negative", "word"]
)
def test_a_total_of_another_writer_that_is_no_number_is_left_out_and_told_once(
    catalog: Any, total: str
) -> None:
    before = contents(catalog)
    job, rewrite = ready(catalog)
    table = catalog.load_table(NAME)
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata["snapshots"][-1]["summary"]["total-records"] = total
    path.write_text(json.dumps(metadata))

    outcome = commit(catalog, job, rewrite)

    assert_done(catalog, outcome, before)
    summary = catalog.load_table(NAME).current_snapshot().summary
    assert summary.get("total-records") is None
    assert int(summary["total-data-files"]) == len(catalog.load_table(NAME).inspect.data_files())
    assert ("total-records were no numbers" in outcome.why) == (total != "-7")
    for _ in range(4):
        append(catalog.load_table(NAME), 1)
    job = bound(catalog.load_table(NAME), OURS)
    assert "no numbers" not in commit(catalog, job, rewritten(catalog.load_table(NAME), job)).why


# --- layer by layer ------------------------------------------------------------------------------------------


def request(
    catalog: Any, job: CompactionJob, rewrite: Rewrite, more: tuple[LiveEntry, ...] = ()
) -> tuple[tuple[Any, ...], Any]:
    """What a commit would ask of the catalog, and its snapshot."""
    table = catalog.load_table(NAME)
    live = live_files(table.metadata, table.io, table.current_snapshot(), OURS)
    asserted, updates = ReplaceSnapshot(job, rewrite, is_metastore=True, now_ms=0).request(
        table, [*live, *more], 0
    )
    return asserted, updates[0].snapshot


def test_what_is_asserted(catalog: Any) -> None:
    """Each requirement by itself: the committer's own checks would notice most of it in the next attempt."""
    asserted, _ = request(catalog, *ready(catalog))
    # That times do not go back has a test of its own.
    later = {"stamped_at_ms": 2**60}
    asserted = [one.model_copy(update=later if isinstance(one, AssertUnmoved) else {}) for one in asserted]

    def refused() -> set[str]:
        found = set()
        for requirement in asserted:
            try:
                requirement.validate(catalog.load_table(NAME).metadata)
            except CommitFailedException:
                found.add(type(requirement).__name__)
        return found

    assert refused() == set()
    schema_change(catalog.load_table(NAME))
    assert refused() == {"AssertCurrentSchemaId"}
    branch(catalog.load_table(NAME))
    assert refused() == {"AssertCurrentSchemaId", "AssertUnmoved"}
    append(catalog.load_table(NAME), 2)
    assert refused() == {"AssertCurrentSchemaId", "AssertUnmoved", "AssertRefSnapshotId"}
    catalog.drop_table(NAME)
    catalog.create_table(NAME, Schema())
    assert "AssertTableUUID" in refused()


def test_deletes_that_apply_to_files_that_stay_stay(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    table = catalog.load_table(NAME)
    (file, *_) = live_files(table.metadata, table.io, table.current_snapshot(), OURS)
    delete = replace(file, path="s3://b/d", kind=FileKind.POSITION_DELETES, sequence_number=99)

    def removed(job: CompactionJob) -> str | None:
        found: str | None = request(catalog, job, rewrite, (delete,))[1].summary.get("removed-delete-files")
        return found

    assert removed(job) == "1"
    assert removed(replace(job, data_files=job.data_files[1:])) is None


def test_history_does_not_run_backwards_and_main_keeps_what_it_states(catalog: Any) -> None:
    table = catalog.load_table(NAME)
    stated = {"min_snapshots_to_keep": 4, "max_snapshot_age_ms": 10**9, "max_ref_age_ms": 10**10}
    head = table.metadata.current_snapshot_id
    update = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=head, **stated)
    before = catalog.commit_table(table, (), (update,)).metadata

    assert OutcomeKind.DONE is commit(catalog, *ready(catalog)).kind

    metadata = catalog.load_table(NAME).metadata
    times = [one.timestamp_ms for one in metadata.snapshots]
    assert times == sorted(times)
    assert times[-1] == before.last_updated_ms + 1
    assert stated == {name: getattr(metadata.refs["main"], name) for name in stated}


@pytest.mark.parametrize("ahead_ms", [0, BEHIND_MS // 2, BEHIND_MS, 10 * BEHIND_MS])
def test_no_writers_clock_has_to_be_as_far_as_ours(catalog: Any, ahead_ms: int) -> None:
    """Java refuses what a writer stamps more than a minute before the last snapshot; its clock may be minutes behind."""
    table = catalog.load_table(NAME)
    now_ms = table.metadata.last_updated_ms + ahead_ms
    job = bound(table, OURS)

    assert commit(catalog, job, rewritten(table, job), now_ms=now_ms).kind is OutcomeKind.DONE

    snapshot = catalog.load_table(NAME).metadata.current_snapshot()
    assert snapshot.timestamp_ms == max(table.metadata.last_updated_ms + 1, now_ms - BEHIND_MS)
    assert committed_at_of(snapshot.summary.additional_properties, snapshot.timestamp_ms) == max(
        now_ms, snapshot.timestamp_ms
    )


def set_a_property(table: Table) -> None:
    with table.transaction() as change:
        change.set_properties({"owner": "me"})


@pytest.mark.parametrize(
    "happens",
    [
        set_a_property,
        lambda table: table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "t").commit(),
    ],
    ids=["a property", "a tag"],
)
@pytest.mark.parametrize("when", ["in the last look", "in the race"])
def test_times_of_metadata_do_not_go_back_where_something_else_was_committed(
    catalog: Any, monkeypatch: pytest.MonkeyPatch, happens: Callable[[Table], None], when: str
) -> None:
    """Java does not load a table whose metadata is more than a minute older than its log says."""
    job, rewrite = ready(catalog)
    # An hour has passed since the last commit, also for who commits meanwhile.
    now_ms = catalog.load_table(NAME).metadata.last_updated_ms + 6 * BEHIND_MS
    monkeypatch.setattr(pyiceberg.table.update, "datetime_to_millis", lambda _: now_ms)
    done: list[bool] = []

    def meanwhile() -> None:
        if not done:
            happens(catalog.load_table(NAME))
        done.append(True)

    def racing(real: Any, *arguments: Any) -> Any:
        meanwhile()
        return real(*arguments)

    if when == "in the race":
        outcome = commit(FaultyCatalog(catalog, racing), job, rewrite, now_ms=now_ms)
    else:
        outcome = commit(catalog, job, rewrite, lambda _: meanwhile(), now_ms=now_ms)

    assert outcome.kind is OutcomeKind.DONE
    metadata = catalog.load_table(NAME).metadata
    assert metadata.last_updated_ms >= max(one.timestamp_ms for one in metadata.metadata_log)


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_what_was_written_and_is_gone_or_cut_is_not_committed(catalog: Any, damage: str) -> None:
    job, rewrite = ready(catalog)
    file = Path(rewrite.files[0].path.removeprefix("file://"))
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1])
    head = catalog.load_table(NAME).metadata.current_snapshot_id

    outcome = commit(catalog, job, rewrite)

    assert_failed(catalog, outcome, "missing_file", job, head)


def test_not_found_after_a_request_is_no_answer(catalog: Any) -> None:
    """A proxy that restarts answers so once; the next look shows what came of it."""
    job, rewrite = ready(catalog)
    before, away = contents(catalog), [False]

    def load(real: Any, name: str) -> Any:
        if away == [True]:
            away.clear()
            raise NoSuchTableError("default backend - 404")
        return real(name)

    def hook(real: Any, *arguments: Any) -> Any:
        real(*arguments)
        away[:] = [True]
        raise ConnectionError("cut")

    outcome = commit(FaultyCatalog(catalog, hook, load), job, rewrite)

    assert away == []
    assert_done(catalog, outcome, before)


def test_a_catalog_that_did_not_answer_is_not_asked_again_for_the_fate_of_a_job(catalog: Any) -> None:
    job, _ = ready(catalog)
    asked: list[str] = []

    class Silent:
        def load_table(self, name: str) -> Any:
            asked.append(name)
            raise requests.exceptions.ReadTimeout("read timed out")

    cautious = IcebergCatalog(Silent())  # type: ignore[arg-type]
    for _ in range(3):
        assert commit_outcome.settled(cautious.load, ["shop.renamed", NAME], job, None) is None
    assert asked == ["shop.renamed"]


def test_another_table_under_the_name_says_nothing_of_a_job(catalog: Any) -> None:
    job, _ = ready(catalog)
    table = catalog.load_table(NAME)
    catalog.drop_table(NAME)
    catalog.create_table(NAME, table.schema(), partition_spec=table.spec())

    assert settled(catalog, job) is None


# --- with Spark ----------------------------------------------------------------------------------------------


@pytest.fixture
def spark_table(spark: Any) -> Iterator[str]:
    with fresh(spark, "db.races", "id BIGINT, part INT, text STRING", "PARTITIONED BY (part)") as name:
        for start in (0, 10, 20):
            spark.sql(
                f"INSERT INTO lake.{name} SELECT id, CAST(1 + id % 2 AS INT), concat('v', id) "
                f"FROM range({start}, {start + 10}, 1, 1)"
            )
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (4, 5, 14, 15)")
        yield name


BETWEEN = {
    "rewrite_manifests": "CALL lake.system.rewrite_manifests('{name}')",
    "rewrite_data_files elsewhere": (
        "CALL lake.system.rewrite_data_files(table => '{name}', where => 'part = 2', "
        "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))"
    ),
    "expire_snapshots": (
        "CALL lake.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    ),
    "merge elsewhere": (
        "MERGE INTO lake.{name} t USING (SELECT id FROM range(0, 60)) s ON t.id = s.id AND t.part = 2 AND s.id % 2 = 1 "
        "WHEN MATCHED THEN UPDATE SET text = 'merged' WHEN NOT MATCHED AND s.id > 30 AND s.id % 2 = 1 "
        "THEN INSERT (id, part, text) VALUES (s.id, 2, 'new')"
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("what", BETWEEN)
def test_what_spark_does_elsewhere_does_not_stop_us(
    spark: Any, lake: Any, spark_table: str, what: str
) -> None:
    table = lake.load_table(spark_table)
    job = bound(table, OURS)
    assert job.delete_files
    rewrite = rewritten(table, job)
    if what == "expire_snapshots":
        spark.sql(f"INSERT INTO lake.{spark_table} VALUES (7, 2, 'x')")
    spark.sql(BETWEEN[what].format(name=spark_table))
    before = rows(spark, spark_table)

    outcome = commit(lake, job, rewrite)

    assert OutcomeKind.DONE is outcome.kind, outcome
    assert before == rows(spark, spark_table)
    assert (
        spark.sql(
            f"SELECT * FROM lake.{spark_table}.all_files WHERE partition.part = 1 AND file_path LIKE '%{job.job_id}-%'"
        )
        .select("file_path")
        .distinct()
        .count()
        == 1
    )
    assert spark.sql(f"SELECT * FROM lake.{spark_table}.files WHERE partition.part = 1").count() == 1
