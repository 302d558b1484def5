"""Expiry on a real catalog: what goes, what stays, and somebody who comes in between."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException, ForbiddenError
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.statistics import BlobMetadata, PartitionStatisticsFile, StatisticsFile
from pyiceberg.table.update import SetPartitionStatisticsUpdate

from isotherm.contract.paths import normalised
from isotherm.contract.summary import as_of, taken_at
from isotherm.core.model.jobs import OutcomeKind
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.expiry import expire, newest_tokens, read
from isotherm.iceberg.manifests.reachability import left_behind, reached
from isotherm.iceberg.values import loaded_table
from isotherm.runtime.clock import now_ms
from support.expiring import (
    NAME,
    SCHEMA,
    append,
    branch,
    contents,
    every_snapshot_reads,
    expired,
    ids,
    load,
    swept,
)
from support.faults import FaultyCatalog


def on_disk(table: Table) -> set[str]:
    home = Path(normalised(table.metadata.location))
    return {str(path) for path in home.rglob("*") if path.is_file() and path.suffix != ".json"}


# --- how old a snapshot is


def test_when_main_left_what_it_was_is_known_where_a_branch_was_published(table: Table) -> None:
    """The commits of the branch are older than that."""
    stood_on = ids(table)[-1]
    branch(table, "audit", stood_on)
    for number in (1, 2):
        append(table, number, branch="audit")
    table.refresh().manage_snapshots().set_current_snapshot(ref_name="audit").commit()
    log = loaded_table(table.refresh(), NAME).log()

    published_ms = table.metadata.snapshot_log[-1].timestamp_ms
    assert published_ms > log[-2].committed_at_ms
    assert {stood_on: published_ms} == {one.snapshot_id: one.left_at_ms for one in log if one.left_at_ms}


# --- the ordinary way


def test_what_only_old_snapshots_reach_goes_and_nothing_else(catalog: Any, table: Table) -> None:
    going = ids(table)[:4]
    before = {one: contents(table, one) for one in ids(table)[4:]}

    reading = read(table, going, now_ms())
    outcome = expired(catalog, reading).outcome
    gone = swept(table, reading)

    assert OutcomeKind.DONE is outcome.kind
    assert ids(table) == list(before)
    assert before == {one: contents(table, one) for one in before}
    assert set(gone.gone) == set(reading.files)
    assert (dict(gone.kept), dict(gone.postponed)) == ({}, {})
    # A plain walk over what is left reaches everything that is on disk.
    assert on_disk(table) == {normalised(path) for path in reach_of(table)}


def reach_of(table: Table) -> set[str]:
    """By PyIceberg's own readers."""
    found = set()
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io)}
    return found


def test_statistics_of_snapshots_that_stay_stay(catalog: Any, table: Table) -> None:
    known = ids(table)
    home = normalised(table.metadata.location)
    for name, snapshot_id in (("old", known[0]), ("new", known[-1])):
        path = Path(home, "metadata", f"{name}.puffin")
        path.write_bytes(b"sketch")
        blob = BlobMetadata(
            type="apache-datasketches-theta-v1", snapshot_id=snapshot_id, sequence_number=1, fields=[1]
        )
        statistics = StatisticsFile(
            snapshot_id=snapshot_id,
            statistics_path=f"file://{path}",
            file_size_in_bytes=6,
            file_footer_size_in_bytes=6,
            blob_metadata=[blob],
        )
        with table.refresh().update_statistics() as update:
            update.set_statistics(statistics)

    found = left_behind(table.refresh().metadata, table.io, [known[0]])

    assert f"file://{home}/metadata/old.puffin" in found
    assert f"file://{home}/metadata/new.puffin" not in found
    assert reached(table.metadata, table.io, [f"file:{home}/metadata/new.puffin"], None) == {
        f"{home}/metadata/new.puffin"
    }


def test_statistics_of_partitions_go_with_their_snapshot(catalog: Any, table: Table) -> None:
    known = ids(table)
    home = normalised(table.metadata.location)
    updates = []
    for name, snapshot_id in (("old", known[0]), ("new", known[-1])):
        path = Path(home, "metadata", f"partition-stats-{name}.parquet")
        path.write_bytes(b"counts")
        statistics = PartitionStatisticsFile(
            **{"snapshot-id": snapshot_id, "statistics-path": f"file://{path}", "file-size-in-bytes": 6}
        )
        updates.append(SetPartitionStatisticsUpdate(**{"partition-statistics": statistics}))
    catalog.commit_table(table.refresh(), (), tuple(updates))

    reading = read(table.refresh(), known[:1], now_ms())
    assert OutcomeKind.DONE is expired(catalog, reading).outcome.kind
    found = swept(table, reading)

    (left,) = load(catalog).metadata.partition_statistics
    assert left.snapshot_id == known[-1]
    assert f"file://{home}/metadata/partition-stats-old.parquet" in found.gone
    assert Path(home, "metadata", "partition-stats-new.parquet").exists()


def test_a_rollback_to_a_snapshot_that_goes_wins(catalog: Any, table: Table) -> None:
    going = ids(table)[:3]
    reading = read(table, going, now_ms())

    def rolling_back(real: Any, *arguments: Any) -> Any:
        load(catalog).manage_snapshots().set_current_snapshot(going[1]).commit()
        return real(*arguments)

    outcome = expired(FaultyCatalog(catalog, rolling_back), reading).outcome

    assert OutcomeKind.FAILED is outcome.kind
    assert contents(table) == [0, 1]
    every_snapshot_reads(table)


def test_a_rollback_behind_the_head_that_was_seen_wins(catalog: Any, table: Table) -> None:
    """All that goes is still behind the new head; whether it may go is asked again of the table as it is now."""
    known = ids(table)
    reading, asked = read(table, known[:3], now_ms()), []

    def rolling_back(real: Any, *arguments: Any) -> Any:
        if len(asked) == 1:
            load(catalog).manage_snapshots().set_current_snapshot(known[-2]).commit()
        return real(*arguments)

    outcome = expired(
        FaultyCatalog(catalog, rolling_back),
        reading,
        lambda now: asked.append(now.metadata.current_snapshot_id),
    ).outcome

    assert OutcomeKind.DONE is outcome.kind
    assert asked == [known[-1], known[-2]]


def test_a_stream_that_commits_before_each_request_stops_no_expiry(catalog: Any, table: Table) -> None:
    reading = read(table, ids(table)[:3], now_ms())
    sent = []

    def streaming(real: Any, *arguments: Any) -> Any:
        sent.append(1)
        append(load(catalog), 100 + len(sent))
        return real(*arguments)

    outcome = expired(FaultyCatalog(catalog, streaming), reading).outcome

    assert (OutcomeKind.DONE, 1) == (outcome.kind, len(sent))
    assert swept(table, reading).kept == {}
    every_snapshot_reads(table)


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("error", [ConnectionError("cut"), ValueError("garbage"), KeyError("?")])
def test_after_a_lost_answer_a_look_says_what_came_of_it(
    catalog: Any, table: Table, error: Exception, lands: bool
) -> None:
    reading = read(table, ids(table)[:3], now_ms())

    def cut(real: Any, *arguments: Any) -> Any:
        if lands:
            real(*arguments)
        raise error

    outcome = expired(FaultyCatalog(catalog, cut), reading).outcome

    assert (OutcomeKind.DONE if lands else OutcomeKind.UNKNOWN) is outcome.kind
    assert outcome.was_sent


def test_a_refusal_is_told_in_the_catalogs_words(catalog: Any, table: Table) -> None:
    def forbidding(*_: Any) -> Any:
        raise ForbiddenError("Principal 'isotherm' is not authorized for op UPDATE_TABLE")

    outcome = expired(FaultyCatalog(catalog, forbidding), read(table, ids(table)[:3], now_ms())).outcome

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "refused")
    assert "not authorized for op UPDATE_TABLE" in outcome.why


def test_nothing_expires_from_another_table_of_that_name_or_under_gc_disabled(
    catalog: Any, table: Table
) -> None:
    reading = read(table, ids(table)[:3], now_ms())
    with table.transaction() as change:
        change.set_properties({"gc.enabled": "false"})

    assert expired(catalog, reading).outcome.reason == "gc_disabled"

    catalog.drop_table(NAME)
    catalog.create_table(NAME, SCHEMA)
    found = expire(catalog, NAME, str(table.metadata.table_uuid), reading, "job", lambda _: None, now_ms())
    assert (found.outcome.reason, found.outcome.was_sent) == ("gone", False)


def test_who_may_not_mark_sends_nothing(catalog: Any, table: Table) -> None:
    before = ids(table)

    outcome = expired(
        catalog, read(table, before[:3], now_ms()), lambda _: Refusal(Reason.OWNER, "another daemon has it")
    ).outcome

    assert (outcome.reason, outcome.why, outcome.was_sent) == ("owner", "another daemon has it", False)
    assert ids(table) == before


def test_the_newest_token_of_each_pipeline_is_kept_as_a_property(catalog: Any, table: Table) -> None:
    for place, pipeline in ((1, "a"), (2, "b"), (3, "a")):
        summary = {"ingest.source": f"{pipeline}{place}", "ingest.pipeline": pipeline}
        append(table, place, snapshot_properties=summary)
    append(table, 77)
    going = ids(table)[:-1]

    assert newest_tokens(table.metadata) == {"ingest.a.source": "a3", "ingest.b.source": "b2"}
    assert OutcomeKind.DONE is expired(catalog, read(table, going, now_ms())).outcome.kind
    said = load(catalog).metadata.properties
    assert (said["ingest.a.source"], said["ingest.b.source"]) == ("a3", "b2")


def test_a_kept_token_says_how_new_its_snapshot_was(table: Table) -> None:
    """The property stays when the table is rolled back; ingest must see that it is newer than the head."""
    append(table, 1, snapshot_properties={"ingest.source": '{"topics":{}}', "ingest.pipeline": "a"})
    newest = load(table.catalog).current_snapshot()
    append(table, 2)

    (kept,) = newest_tokens(table.metadata).values()
    assert taken_at(kept) == newest.sequence_number > 0
    assert as_of(kept) == load(table.catalog).current_snapshot().snapshot_id


def test_each_expiry_says_anew_that_a_kept_token_is_the_newest(catalog: Any, table: Table) -> None:
    append(table, 1, snapshot_properties={"ingest.source": '{"topics":{}}', "ingest.pipeline": "a"})
    said = []
    for number in range(2, 5):
        append(table, number)
        assert OutcomeKind.DONE is expired(catalog, read(table, ids(table)[:-1], now_ms())).outcome.kind
        said.append(as_of(load(catalog).metadata.properties["ingest.a.source"]))
        assert said[-1] == load(catalog).current_snapshot().snapshot_id

    assert len(set(said)) == 3


def test_a_conflict_is_given_up_after_a_while(catalog: Any, table: Table) -> None:
    def losing(*_: Any) -> Any:
        raise CommitFailedException("Requirement failed: branch main has changed")

    outcome = expired(FaultyCatalog(catalog, losing), read(table, ids(table)[:3], now_ms())).outcome

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "conflict")


def test_done_is_what_the_answer_shows(catalog: Any, table: Table) -> None:
    reading = read(table, ids(table)[:3], now_ms())

    def pretends(*_: Any) -> Any:
        now = load(catalog)
        return CommitTableResponse(metadata=now.metadata, metadata_location=now.metadata_location)

    outcome = expired(FaultyCatalog(catalog, pretends), reading).outcome

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "refused")
    assert set(reading.snapshots) <= set(ids(table))


# --- what cannot be read


def test_a_going_snapshot_that_cannot_be_read_goes_and_its_files_stay(catalog: Any, table: Table) -> None:
    going = ids(table)[:4]
    damaged = table.metadata.snapshots[2]
    Path(normalised(damaged.manifest_list)).write_bytes(b"nothing")

    reading = read(table, going, now_ms())

    assert reading.damage == ""
    assert OutcomeKind.DONE is expired(catalog, reading).outcome.kind
    swept(table, reading)
    every_snapshot_reads(table)


def test_where_the_next_snapshot_cannot_be_read_snapshots_go_and_no_file(catalog: Any, table: Table) -> None:
    going = ids(table)[:3]
    Path(normalised(table.metadata.snapshots[3].manifest_list)).unlink()

    reading = read(table, going, now_ms())

    assert (reading.snapshots, reading.files) == (tuple(going), ())
    assert "cannot be read" in reading.damage
    assert OutcomeKind.DONE is expired(catalog, reading).outcome.kind


def test_of_what_stays_an_expiry_reads_only_the_next_snapshot(catalog: Any, table: Table) -> None:
    """It costs what goes: damage in younger snapshots is not even met, and the proof before the deletion meets it."""
    for number in range(20, 30):
        append(table, number)
    going = ids(table)[:4]
    for snapshot in table.metadata.snapshots[5:-1]:
        Path(normalised(snapshot.manifest_list)).write_bytes(b"nobody reads this")

    reading = read(table, going, now_ms())
    assert OutcomeKind.DONE is expired(catalog, reading).outcome.kind
    found = swept(table, reading)

    assert reading.damage == ""
    assert len([path for path in reading.files if path.endswith(".parquet")]) == 3
    assert (found.gone, set(found.postponed)) == ((), set(reading.files))
