"""What an announcement tells of a snapshot, and how it says that something is left out."""

import pytest
from pyiceberg.manifest import ManifestContent, ManifestFile

from isotherm.contract.announcement import announcement
from isotherm.contract.events import MAX_MANIFESTS, MAX_PARTITIONS, CommitEvent, PartitionChange
from isotherm.contract.identity import PartitionKey, TableId, partition_key
from isotherm.contract.summary import INGEST_VALID_THROUGH, Origin, valid_through_of


def announced(**changes) -> CommitEvent:
    told = {
        "snapshot_id": 2,
        "parent_id": 1,
        "sequence_number": 2,
        "timestamp_ms": 5,
        "operation": "append",
        "origin": Origin.FOREIGN,
        "valid_through_ms": None,
    }
    return announcement(TableId("u", "shop.orders"), **told | changes)


def manifest(number: int = 0, added: int | None = 3, deleted: int | None = 0) -> ManifestFile:
    return ManifestFile.from_args(
        manifest_path=f"s3://lake/m{number}.avro",
        manifest_length=10,
        partition_spec_id=1,
        content=ManifestContent.DELETES if number % 2 else ManifestContent.DATA,
        added_files_count=added,
        deleted_files_count=deleted,
    )


def change(number: int) -> tuple[PartitionKey, PartitionChange]:
    key = partition_key({1000: number})
    return key, PartitionChange(partition=key, added_files=1, removed_files=0, added_rows=1, removed_rows=0)


def test_manifests_are_told_as_the_manifest_list_has_them():
    event = announced(manifests=[manifest(0), manifest(1, 0, 4)])

    assert [(one.path, one.content, one.added_files, one.deleted_files) for one in event.added_manifests] == [
        ("s3://lake/m0.avro", "data", 3, 0),
        ("s3://lake/m1.avro", "deletes", 0, 4),
    ]
    assert event.added_manifests_complete
    assert event.spec_ids == (1,)


@pytest.mark.parametrize("counts", [(None, 0), (3, None)])
def test_a_manifest_without_counts_is_left_out_and_nothing_is_guessed(counts):
    """Tables of version 1: an event that says 0 would keep the daemon from reading the manifest."""
    event = announced(manifests=[manifest(0), manifest(1, *counts)])

    assert [one.path for one in event.added_manifests] == ["s3://lake/m0.avro"]
    assert not event.added_manifests_complete


def test_what_is_more_than_an_event_holds_is_cut_and_marked():
    manifests = [manifest(number) for number in range(MAX_MANIFESTS + 1)]
    partitions = dict(change(number) for number in range(MAX_PARTITIONS + 1))
    cut, whole = announced(manifests=manifests, partitions=partitions), announced(manifests=[], partitions={})

    assert (len(cut.added_manifests), len(cut.partitions)) == (MAX_MANIFESTS, MAX_PARTITIONS)
    assert (cut.added_manifests_complete, cut.partitions_complete) == (False, False)
    assert (whole.added_manifests_complete, whole.partitions_complete) == (True, True)


def test_what_nobody_looked_for_is_not_complete():
    event = announced()

    assert (event.added_manifests_complete, event.partitions_complete) == (False, False)


@pytest.mark.parametrize(
    ("text", "told"),
    [("-5", -5), ("1700000000000", 1_700_000_000_000), ("9" * 30, None), ("²", None), ("", None)],
)
def test_an_event_time_that_is_no_number_says_nothing(text, told):
    """An announcement that cannot be made would be tried for ever."""
    summary = {INGEST_VALID_THROUGH: text}

    assert valid_through_of(summary) == told
    assert announced(valid_through_ms=valid_through_of(summary)).valid_through_ms == told
