"""What lies in an older partition spec is written in the current one: the same rows, each file in its partition.

The judge of rows is PyIceberg's scan, and of places DuckDB, which computes from each file's rows in which partition they lie.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    YearTransform,
)
from pyiceberg.types import DateType, LongType, NestedField, StringType, TimestampType, TimestamptzType

from isotherm.contract.identity import UNPARTITIONED, PartitionKey, partition_key, partition_values
from isotherm.core.model.files import FileKind
from isotherm.core.model.jobs import AskedOrder, CompactionJob, OutcomeKind, SortKey, Take
from isotherm.core.model.refusals import Reason, Refusal, RefusalError
from isotherm.core.planner.older_spec_moves import WHOLE_BYTES
from isotherm.iceberg.compaction.commit_outcome import settled
from isotherm.iceberg.compaction.division import told_of
from isotherm.iceberg.compaction.names import leftovers
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.iceberg.compaction.row_sums import RowSums
from isotherm.iceberg.full_scan import scanned
from isotherm.iceberg.manifests import time_ranges
from isotherm.iceberg.manifests.live import LiveEntry, live_files
from isotherm.iceberg.partition_fields import partition_fields, why_not_moved
from isotherm.iceberg.values import added_manifests, change_of, loaded_table
from isotherm.parquet.table_description import described
from isotherm.service.ports import without_end
from support.deleted_rows import delete_ids
from support.faults import FaultyCatalog
from support.rewriting import commit, rewritten, try_to_bind

NAME = "db.t"
CLOCK = SimpleNamespace(now_ms=lambda: 0)
START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "at", TimestamptzType(), required=False),
    NestedField(3, "region", StringType(), required=False),
    NestedField(4, "day", DateType(), required=False),
    NestedField(5, "local", TimestampType(), required=False),
)
HOURS = PartitionSpec(PartitionField(2, 1000, HourTransform(), "at_hour"))
DAYS = PartitionSpec(PartitionField(2, 1000, DayTransform(), "at_day"))
MONTHS = PartitionSpec(PartitionField(2, 1000, MonthTransform(), "at_month"))
REGIONS = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"))
REGIONS_AND_DAYS = PartitionSpec(
    PartitionField(3, 1000, IdentityTransform(), "region"), PartitionField(2, 1001, DayTransform(), "at_day")
)
NONE = UNPARTITIONED_PARTITION_SPEC


def some(start: int, hours: list[int | None], region: str | None = "eu") -> pa.Table:
    """A row for each hour after the start, some minutes and microseconds into it."""
    at = [
        None if hour is None else START + timedelta(hours=hour, microseconds=59 * 60_000_001)
        for hour in hours
    ]
    return pa.table(
        {
            "id": pa.array(range(start, start + len(hours)), pa.int64()),
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "region": pa.array([region] * len(hours), pa.string()),
            "day": pa.array([None if one is None else one.date() for one in at], pa.date32()),
            "local": pa.array(
                [None if one is None else one.replace(tzinfo=None) for one in at], pa.timestamp("us")
            ),
        }
    )


def made(catalog: Any, spec: PartitionSpec, *batches: pa.Table, version: int = 2, **more: Any) -> Table:
    properties = {"format-version": str(version)}
    table: Table = catalog.create_table(NAME, SCHEMA, partition_spec=spec, properties=properties, **more)
    for batch in batches:
        table.append(batch)
    return table


def becomes(table: Table, source: str, transform: Transform[Any, Any], name: str) -> Table:
    """The table, divided by one field alone from now on."""
    with table.update_spec() as update:
        names = [part.name for part in table.spec().fields]
        for other in names:
            if other != name:
                update.remove_field(other)
        if name not in names:
            update.add_field(source, transform, name)
    return table.refresh()


def moved(table: Table, partition: PartitionKey, **changes: Any) -> CompactionJob | Refusal:
    take = Take(
        **{
            "below_bytes": WHOLE_BYTES,
            "with_deletes": True,
            "output_spec_id": table.metadata.default_spec_id,
            **changes,
        }
    )
    return try_to_bind(table, partition, take=take)


def move(catalog: Any, table: Table, partition: PartitionKey, **changes: Any) -> CompactionJob:
    """Bind, rewrite and commit one job; it must go through."""
    job = moved(table, partition, **changes)
    assert isinstance(job, CompactionJob), job
    outcome = commit(catalog, job, rewritten(table, job))
    assert outcome.kind is OutcomeKind.DONE, outcome
    table.refresh()
    return job


def live(table: Table) -> list[LiveEntry]:
    head = table.metadata.current_snapshot()
    assert head is not None
    return live_files(table.metadata, table.io, head)


def older(table: Table) -> set[PartitionKey]:
    """The partitions with data files of older specs."""
    return {
        entry.partition
        for entry in live(table)
        if entry.spec_id != table.metadata.default_spec_id and entry.kind is FileKind.DATA
    }


def rows(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.refresh().scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def places(table: Table, sql: str) -> dict[PartitionKey, set[Any]]:
    """What an expression says of the rows of each partition's files of the current spec."""
    found: dict[PartitionKey, set[Any]] = {}
    for entry in live(table):
        if entry.spec_id == table.metadata.default_spec_id and entry.kind is FileKind.DATA:
            path = entry.path.removeprefix("file://")
            with duckdb.connect() as connection:
                connection.execute("SET TimeZone = 'UTC'")
                values = connection.execute(f"SELECT DISTINCT {sql} FROM read_parquet('{path}')").fetchall()
            found.setdefault(entry.partition, set()).update(value for (value,) in values)
    return found


def states_agree(table: Table) -> None:
    """What the newest snapshot's manifests say of it is what a full scan before and after it says."""
    after, (head, parent) = (
        scanned_at(table, None),
        (table.metadata.snapshots[-1], table.metadata.snapshots[-2]),
    )
    before = scanned_at(table, parent.snapshot_id)
    change = change_of(table, head, added_manifests(table.io, head))
    counted = {}
    for key in {*before, *change.partitions}:
        held = dict(before[key].data) if key in before else {}
        for bucket, stats in (change.partitions[key].data if key in change.partitions else {}).items():
            held[bucket] = held[bucket] + stats if bucket in held else stats
        if left := {bucket: stats for bucket, stats in held.items() if stats}:
            counted[key] = left

    assert {key: dict(one.data) for key, one in after.items() if one.data} == counted


def scanned_at(table: Table, snapshot_id: int | None) -> Any:
    """The partitions of a full scan, at the head or as if an older snapshot was the head."""
    metadata = table.metadata
    if snapshot_id is not None:
        refs = {"main": metadata.refs["main"].model_copy(update={"snapshot_id": snapshot_id})}
        metadata = metadata.model_copy(update={"current_snapshot_id": snapshot_id, "refs": refs})
    seen = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
    return scanned(seen, loaded_table(seen, NAME), without_end).partitions


DAY_OF = "(CAST(\"at\" AS DATE) - DATE '1970-01-01')"
HOUR_OF = 'epoch_us("at") // 3600000000'

CASES = {
    "hours to days": (HOURS, ("at", DayTransform(), "at_day"), DAY_OF),
    "days to hours": (DAYS, ("at", HourTransform(), "at_hour"), HOUR_OF),
    "months to days": (MONTHS, ("at", DayTransform(), "at_day"), DAY_OF),
    "nothing to days": (NONE, ("at", DayTransform(), "at_day"), DAY_OF),
    "regions to days": (REGIONS, ("at", DayTransform(), "at_day"), DAY_OF),
    "regions and days to days": (REGIONS_AND_DAYS, ("at", DayTransform(), "at_day"), DAY_OF),
    "hours to dates": (HOURS, ("day", IdentityTransform(), "on"), "(\"day\" - DATE '1970-01-01')"),
    "days to months": (
        DAYS,
        ("at", MonthTransform(), "at_month"),
        '(year("at") - 1970) * 12 + month("at") - 1',
    ),
    "nothing to years": (NONE, ("local", YearTransform(), "in"), 'year("local") - 1970'),
}


@pytest.mark.parametrize(("spec", "current", "sql"), CASES.values(), ids=CASES)
def test_rows_stay_the_same_and_lie_in_their_partitions(
    empty_catalog: Any, spec: PartitionSpec, current: Any, sql: str
) -> None:
    version = 1 if spec in (NONE, DAYS) else 2
    batches = [some(100 * number, [23, 24 + number, 800]) for number in range(2)]
    if spec not in (REGIONS, REGIONS_AND_DAYS):
        batches[1] = batches[1].set_column(2, "region", pa.array(["us"] * 3))
    table = becomes(made(empty_catalog, spec, *batches, version=version), *current)
    before = rows(table)
    while keys := older(table):
        move(empty_catalog, table, min(keys))
        states_agree(table)

    assert before == rows(table)
    found = places(table, sql)
    assert all(values == set(partition_values(key).values()) for key, values in found.items()), found
    assert sum(entry.rows for entry in live(table)) == len(before)


def hours_to_days(catalog: Any, *batches: pa.Table, **more: Any) -> Table:
    return becomes(made(catalog, HOURS, *batches, **more), "at", DayTransform(), "at_day")


FIRST_HOUR, FIRST_DAY = START.timestamp() // 3600, START.timestamp() // 86400


def hour(number: int) -> PartitionKey:
    return partition_key({1000: int(FIRST_HOUR) + number})


def day(number: int, field_id: int = 1001) -> PartitionKey:
    return partition_key({field_id: int(FIRST_DAY) + number})


def test_what_was_moved_is_never_moved_again(empty_catalog: Any) -> None:
    table = hours_to_days(empty_catalog, some(0, [1, 2]))
    job = move(empty_catalog, table, hour(1))
    head = table.metadata.current_snapshot()

    assert (0, 1, (day(0),)) == (job.spec_id, job.output_spec_id, job.outputs)
    assert head is not None
    assert head.summary is not None
    assert "2" == head.summary["changed-partition-count"]
    assert {(day(0), 1), (hour(2), 0)} == {(entry.partition, entry.spec_id) for entry in live(table)}
    again = moved(table, hour(1))
    assert Refusal(Reason.OUTPUT_SPEC, "no file of an older partition spec is in it") == again
    assert again == moved(table, day(0))


def test_new_files_are_as_old_as_the_snapshot_from_which_they_were_moved(empty_catalog: Any) -> None:
    table = hours_to_days(empty_catalog, some(0, [1]), some(10, [2]))
    job = move(empty_catalog, table, hour(1))

    numbers = {entry.partition: entry.sequence_number for entry in live(table)}
    assert {hour(2): 2, day(0): 2} == numbers
    assert 2 == job.base_sequence_number


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("partition", [hour(1), day(0), day(5)])
@pytest.mark.parametrize("said", [{}, {"total-equality-deletes": "0"}])
def test_where_rows_are_deleted_by_key_nothing_is_moved_whatever_snapshots_say_of_it(
    empty_catalog: Any, partition: PartitionKey, said: dict[str, str], *, before: bool
) -> None:
    """A later one would not find what was moved, or find what it did not apply to. A summary that counts none may be wrong."""
    table = hours_to_days(empty_catalog, some(0, [1]))
    spec_id = 0 if partition == hour(1) else 1
    job = moved(table, hour(1))
    if before:
        delete_ids(CLOCK, table, [0], partition, announce=False, spec_id=spec_id, said=said)
        job = moved(table.refresh(), hour(1))
    if before and (not said or partition == hour(1)):
        assert isinstance(job, Refusal), "what the job reads, or what nobody counts"
    if isinstance(job, Refusal):
        assert (Reason.OUTPUT_SPEC, True) == (job.reason, "rows of the table are replaced by key" in job.why)
        return
    if not before:
        delete_ids(CLOCK, table, [0], partition, announce=False, spec_id=spec_id, said=said)
    outcome = commit(empty_catalog, job, rewritten(table, job))

    if partition == day(5) and said:  # none of the partitions that the job touches
        assert outcome.kind is OutcomeKind.DONE
        return
    assert outcome.kind is OutcomeKind.FAILED
    is_of_source = (
        partition == hour(1) and outcome.reason is Reason.CONFLICT
    )  # somebody wrote to what was read
    assert is_of_source or "rows of the table are replaced by key" in outcome.why


def upsert(table: Table) -> None:
    with table.transaction() as change:
        change.set_properties({"write.upsert.enabled": "true"})


def identify(table: Table) -> None:
    with table.update_schema(allow_incompatible_changes=True) as schema:
        schema.update_column("id", required=True)
        schema.set_identifier_fields("id")


def say_that_rows_were_deleted_by_key(table: Table) -> None:
    table.append(some(50, [240]), snapshot_properties={"added-equality-deletes": "1"})


@pytest.mark.parametrize("says", [upsert, identify, say_that_rows_were_deleted_by_key])
def test_rows_stay_where_a_writer_looks_for_them_who_replaces_them_by_key(
    empty_catalog: Any, says: Callable[[Table], None]
) -> None:
    """He may keep the older spec, and his deletes apply to files of that one alone; also where that is known at the commit only."""
    table = hours_to_days(empty_catalog, some(0, [1, 2]))
    job = moved(table, hour(1))
    assert isinstance(job, CompactionJob), job
    assert "" == loaded_table(table, NAME).facts.not_moved
    says(table.refresh())

    outcome = commit(empty_catalog, job, rewritten(table, job))
    again = moved(table.refresh(), hour(1))

    assert (OutcomeKind.FAILED, Reason.OUTPUT_SPEC) == (outcome.kind, outcome.reason), outcome
    assert isinstance(again, Refusal)
    assert "rows of the table are replaced by key" in again.why
    assert "rows of the table are replaced by key" in loaded_table(table, NAME).facts.not_moved


def test_files_without_any_value_go_too(empty_catalog: Any) -> None:
    table = becomes(made(empty_catalog, NONE, some(0, [None, None])), "at", DayTransform(), "at_day")
    before = rows(table)
    job = move(empty_catalog, table, UNPARTITIONED)

    assert (UNPARTITIONED,) == job.outputs
    assert not older(table)
    assert before == rows(table)


def test_bounds_the_wrong_way_round_are_not_believed(empty_catalog: Any, monkeypatch: Any) -> None:
    table = becomes(made(empty_catalog, NONE, some(0, [1, 50])), "at", DayTransform(), "at_day")
    read = time_ranges.TimeRange
    monkeypatch.setattr(time_ranges, "TimeRange", lambda first, last, **more: read(last, first, **more))

    refused = moved(table, UNPARTITIONED)

    assert isinstance(refused, Refusal)
    assert "1 go into partitions that are not known, or are too many" in refused.why


def test_a_row_of_a_partition_that_is_not_named_ends_the_job(empty_catalog: Any) -> None:
    """As where a manifest says bounds that are not those of the rows."""
    table = becomes(made(empty_catalog, NONE, some(0, [1, 30])), "at", DayTransform(), "at_day")
    job = moved(table, UNPARTITIONED)
    assert isinstance(job, CompactionJob)
    assert (day(0, 1000), day(1, 1000)) == job.outputs
    narrow = replace(job, outputs=job.outputs[:1])
    refusal = attempt(narrow, described(table.metadata), table.catalog.properties)

    assert isinstance(refusal, Refusal)
    assert (Reason.CORRUPT_FILE, True) == (refusal.reason, "at_day=2026-01-02" in refusal.why), refusal


def test_a_file_that_lies_elsewhere_is_never_committed(empty_catalog: Any) -> None:
    table = becomes(made(empty_catalog, NONE, some(0, [1, 30])), "at", DayTransform(), "at_day")
    job = moved(table, UNPARTITIONED)
    assert isinstance(job, CompactionJob)
    done = rewritten(table, job)
    swapped = replace(
        done,
        files=tuple(replace(one, partition=job.outputs[1 - place]) for place, one in enumerate(done.files)),
    )
    outside = replace(done, files=tuple(replace(one, partition=day(7, 1000)) for one in done.files))

    for wrong in (swapped, outside):
        outcome = commit(empty_catalog, job, wrong)
        assert (OutcomeKind.FAILED, Reason.MISMATCH) == (outcome.kind, outcome.reason), outcome
    narrow = commit(empty_catalog, replace(job, outputs=job.outputs[:1]), done)
    assert (OutcomeKind.FAILED, Reason.MISMATCH) == (narrow.kind, narrow.reason), narrow
    assert OutcomeKind.DONE is commit(empty_catalog, job, done).kind


def test_what_storage_gives_back_must_lie_in_its_partition(empty_catalog: Any) -> None:
    """Also where the table keeps no bounds of the column: DuckDB looks at the rows."""
    plain = {"write.metadata.metrics.column.at": "none"}
    table = becomes(made(empty_catalog, HOURS, some(0, [1, 30])), "at", DayTransform(), "at_day")
    with table.transaction() as change:
        change.set_properties(plain)
    job = moved(table, hour(1))
    assert isinstance(job, CompactionJob)
    (file,) = rewritten(table, job).files
    fields, schema = partition_fields(table.metadata), table.metadata.schema()
    sums = RowSums(schema, None, locations=[file.path])

    assert not file.lower_bounds.get(2)
    assert 1 == sums.verified(table.io, told_of(file, fields, schema)).rows
    wrong = told_of(replace(file, partition=day(1)), fields, schema)
    with pytest.raises(RefusalError, match="below its lower bound"):
        sums.verified(table.io, wrong)


def test_rows_without_a_value_go_into_their_own_partition(empty_catalog: Any) -> None:
    table = becomes(made(empty_catalog, NONE, some(0, [1, None, 30])), "at", DayTransform(), "at_day")
    before = rows(table)
    job = move(empty_catalog, table, UNPARTITIONED)

    assert (
        {UNPARTITIONED, day(0, 1000), day(1, 1000)} == set(job.outputs) == {e.partition for e in live(table)}
    )
    assert before == rows(table)
    assert {None} == places(table, HOUR_OF)[UNPARTITIONED]


def test_files_with_rows_of_a_time_that_is_not_over_stay(empty_catalog: Any) -> None:
    batches = some(0, [1]), some(10, [2, 30])
    table = becomes(made(empty_catalog, NONE, *batches), "at", DayTransform(), "at_day")
    second_day_ms = int((START + timedelta(days=1)).timestamp() * 1000)

    job = moved(table, UNPARTITIONED, before_ms=second_day_ms)
    assert isinstance(job, CompactionJob)
    assert ((day(0, 1000),), [1]) == (job.outputs, [file.rows for file in job.data_files])
    none = moved(table, UNPARTITIONED, before_ms=0)
    assert isinstance(none, Refusal)
    assert (Reason.OUTPUT_SPEC, True) == (none.reason, "2 hold rows from 1970" in none.why), none


def test_a_partition_gets_one_file_however_its_rows_lie(empty_catalog: Any) -> None:
    batches = some(0, [30, 1, 31, 2]), some(10, [3, 32, 4])
    table = becomes(made(empty_catalog, NONE, *batches), "at", DayTransform(), "at_day")
    before = rows(table)
    move(empty_catalog, table, UNPARTITIONED)

    assert [(day(0, 1000), 4), (day(1, 1000), 3)] == sorted((one.partition, one.rows) for one in live(table))
    assert before == rows(table)


def test_files_with_rows_of_a_partition_that_is_hot_stay(empty_catalog: Any) -> None:
    """One day to which somebody writes for ever kept the whole partition where it was."""
    batches = some(0, [1]), some(10, [2, 30]), some(20, [50]), some(30, [None])
    table = becomes(made(empty_catalog, NONE, *batches), "at", DayTransform(), "at_day")
    before = rows(table)
    hot = {day(1, 1000): "a writer is there", UNPARTITIONED: "it is not there"}

    job = move(empty_catalog, table, UNPARTITIONED, before_ms=2**60, not_into=hot)
    assert (day(0, 1000), day(2, 1000)) == job.outputs
    assert before == rows(table)
    none = moved(table, UNPARTITIONED, before_ms=2**60, not_into=hot)
    assert isinstance(none, Refusal)
    assert (
        "2 files of older partition specs: 2 hold rows of partitions that are hot (at_day=2026-01-02: a writer is there)"
        == none.why
    )


def test_a_job_names_no_more_partitions_than_it_may_write(empty_catalog: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("isotherm.iceberg.compaction.movable.MAX_OUTPUTS", 3)
    batches = some(0, [1]), some(10, [30, 60]), some(20, [90])
    table = becomes(made(empty_catalog, NONE, *batches), "at", DayTransform(), "at_day")
    before = rows(table)

    outputs = []
    while older(table):
        outputs.append(len(move(empty_catalog, table, UNPARTITIONED).outputs))
    assert [3, 1] == outputs
    assert before == rows(table)


def test_a_large_partition_is_moved_in_parts(empty_catalog: Any) -> None:
    table = hours_to_days(empty_catalog, *(some(10 * number, [1]) for number in range(4)))
    before = rows(table)
    size = max(entry.size_bytes for entry in live(table))

    jobs = 0
    while older(table):
        move(empty_catalog, table, hour(1), at_most_bytes=2 * size)
        jobs += 1
    assert 2 == jobs
    assert before == rows(table)


def test_another_spec_meanwhile_refuses_the_commit(empty_catalog: Any) -> None:
    table = hours_to_days(empty_catalog, some(0, [1]))
    job = moved(table, hour(1))
    assert isinstance(job, CompactionJob)
    done = rewritten(table, job)
    becomes(table, "region", IdentityTransform(), "region")

    outcome = commit(empty_catalog, job, done)
    assert (OutcomeKind.FAILED, Reason.SCHEMA) == (outcome.kind, outcome.reason), outcome
    catalog = FaultyCatalog(empty_catalog)

    def meanwhile(real: Any, *arguments: Any) -> Any:
        becomes(table.refresh(), "id", BucketTransform(4), "b")
        return real(*arguments)

    job = moved(becomes(table, "at", DayTransform(), "at_day"), hour(1))
    assert isinstance(job, CompactionJob), job
    catalog.on_commit = meanwhile
    outcome = commit(catalog, job, rewritten(table, job))
    assert (OutcomeKind.FAILED, Reason.SCHEMA) == (outcome.kind, outcome.reason), outcome
    late = moved(table.refresh(), hour(1), output_spec_id=1)
    assert isinstance(late, Refusal)
    assert Reason.SCHEMA is late.reason


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda update: update.add_identity("region"), "region, the field of the current one, is no time (identity of string)"),
        (lambda update: update.add_field("at", BucketTransform(4), "b"), "b, the field of the current one, is no time (bucket[4] of timestamptz)"),
        (lambda update: update.add_identity("region").add_field("at", DayTransform(), "d"), "the current one has 2 fields"),
        (lambda _: None, "the current one is not divided"),
    ],
)  # fmt: skip
def test_it_is_said_why_a_spec_is_not_written(empty_catalog: Any, change: Any, why: str) -> None:
    table = made(empty_catalog, HOURS, some(0, [1]))
    with table.update_spec() as update:
        change(update.remove_field("at_hour"))

    said = why_not_moved(table.refresh().metadata)
    assert said.startswith(why), said


def test_rows_lie_in_the_table_s_order_within_their_partition(empty_catalog: Any) -> None:
    order = SortOrder(SortField(1, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST))
    batches = some(0, [1, 30, 2]), some(10, [31, 3, 1])
    table = becomes(made(empty_catalog, NONE, *batches, sort_order=order), "at", DayTransform(), "at_day")
    job = moved(table, UNPARTITIONED)
    assert isinstance(job, CompactionJob)
    job = replace(job, sort_order_id=table.metadata.default_sort_order_id)
    done = rewritten(table, job)

    assert 1 == done.sort_order_id
    found = [pq.read_table(file.path.removeprefix("file://"))["id"].to_pylist() for file in done.files]
    assert [[12, 11, 2, 0], [10, 1]] == found
    assert OutcomeKind.DONE is commit(empty_catalog, job, done).kind


def test_along_a_curve_too(empty_catalog: Any) -> None:
    batches = some(0, [1, 30, 2]), some(10, [31, 3, 1])
    table = becomes(made(empty_catalog, NONE, *batches), "at", DayTransform(), "at_day")
    before = rows(table)
    job = moved(table, UNPARTITIONED)
    assert isinstance(job, CompactionJob)
    job = replace(job, asked_order=AskedOrder((SortKey(1), SortKey(2)), is_zorder=True))

    assert OutcomeKind.DONE is commit(empty_catalog, job, rewritten(table, job)).kind
    assert before == rows(table)


def test_files_that_say_another_value_than_their_partition_stay(empty_catalog: Any) -> None:
    """Readers take the value of an identity partition from the manifest: moved, they would find that of the file."""
    table = made(empty_catalog, REGIONS, some(0, [1], "eu"))
    (entry,) = live(table)
    path = entry.path.removeprefix("file://")
    told = pq.read_table(path)
    pq.write_table(told.set_column(2, told.schema.field(2), pa.array(["us"])), path)
    becomes(table, "at", DayTransform(), "at_day")
    job = moved(table, entry.partition)
    assert isinstance(job, CompactionJob)
    job = replace(
        job, data_files=tuple(replace(one, size_bytes=Path(path).stat().st_size) for one in job.data_files)
    )
    refusal = attempt(job, described(table.metadata), table.catalog.properties)

    assert isinstance(refusal, Refusal)
    assert (Reason.UNSUPPORTED, True) == (refusal.reason, "another value of region" in refusal.why), refusal


def test_what_a_crash_leaves_is_found(empty_catalog: Any) -> None:
    """By names that follow from the job, wherever its rows go."""
    table = becomes(made(empty_catalog, NONE, some(0, [1, 30, 90])), "at", DayTransform(), "at_day")
    job = moved(table, UNPARTITIONED)
    assert isinstance(job, CompactionJob)
    done = rewritten(table, job)

    assert [file.path for file in done.files] == list(leftovers(table.io, table.metadata, job.without_files))
    assert 3 == len(done.files)


def test_a_commit_whose_snapshot_has_gone_is_known_by_its_files(empty_catalog: Any) -> None:
    """They lie in partitions of the new spec."""
    table = hours_to_days(empty_catalog, some(0, [1]))
    job = move(empty_catalog, table, hour(1))
    head = table.metadata.current_snapshot()
    assert head is not None
    summary = Summary(Operation.REPLACE)  # as if the snapshot was another one's
    other = head.model_copy(update={"summary": summary})
    metadata = table.metadata.model_copy(update={"snapshots": [*table.metadata.snapshots[:-1], other]})
    seen = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
    found = settled(lambda _: loaded_table(seen, NAME), [NAME], job, None)

    assert found is not None
    assert OutcomeKind.DONE is found.kind, found
