"""What the random histories found, each as its shortest story; without a JVM, on tables that PyIceberg writes."""

from dataclasses import replace

import pytest
from pyiceberg.table.update.snapshot import _SnapshotProducer
from pyiceberg.transforms import BucketTransform

from isotherm.core.observations import EventApplied, StateDrifted, TableScanned
from isotherm.service.topics import events_to_state
from isotherm.store.fold import BYTES_OF_PARTITION, JOURNAL_LENGTH
from support.lab import Lab, believed, counted

OBSERVE = """
tables: "*"
compact: {enabled: false}
expire: {enabled: false}
"""


@pytest.fixture
def lab(tmp_path):
    """A daemon that only observes; it confirms a table whenever a round comes."""
    lab = Lab(tmp_path, policy=OBSERVE)
    yield lab
    lab.executor.stop()


def following(lab, table):
    """A daemon that knows the table."""
    service = lab.service()
    service.start()
    service.step(0)
    assert list(service.fold.tables()) == [str(table.metadata.table_uuid)]
    return service


def hear(service):
    """Take what is on the topic, as between two rounds."""
    service.consume(service.events.poll(0))


def scans(lab):
    return [one.why for one in lab.seen if isinstance(one, TableScanned)]


def is_right(lab, service, table):
    service.step(0)
    return counted(lab.scan()) == believed(service, str(table.metadata.table_uuid))


@pytest.mark.parametrize("path", ["metadata/nothing.avro", "metadata/version-hint.text"])
def test_a_manifest_that_cannot_be_read_stops_nobody(lab, path):
    """It raised `Unavailable`, or Python's own `SystemError`, and the event came again after every restart."""
    table = lab.create()
    lab.append(table, 1)
    service = following(lab, table)
    event = lab.append(table, 1, announce=False)
    (lab.root / "warehouse/shop/orders/metadata/version-hint.text").write_bytes(b"\xff" * 100)
    named = event.added_manifests[0].model_copy(update={"path": f"{table.metadata.location}/{path}"})
    lab.announce(event.model_copy(update={"added_manifests": (named,)}))
    hear(service)

    assert not [one for one in lab.seen if isinstance(one, EventApplied)]
    assert is_right(lab, service, table)


def test_an_event_that_leaves_out_a_snapshot_before_it_is_found_out(lab):
    """The parent was not compared, and the snapshot in between was never looked for."""
    table = lab.create()
    base = lab.append(table, 1)
    service = following(lab, table)
    lab.append(table, 2, announce=False)
    event = lab.append(table, 3, announce=False)
    lab.announce(event.model_copy(update={"parent_id": base.snapshot_id, "summary": {}}))
    hear(service)

    assert [one for one in lab.seen if isinstance(one, EventApplied)]
    assert is_right(lab, service, table)


def test_an_event_that_names_another_spec_is_found_out(lab):
    """Only paths were compared; the files stood in partitions that do not exist."""
    table = lab.create()
    lab.append(table, 1)
    with table.refresh().update_spec() as update:
        update.remove_field("at_hour")
        update.add_field("id", BucketTransform(4), "id_bucket")
    service = following(lab, table)
    event = lab.append(table, 2, announce=False)
    named = event.added_manifests[0].model_copy(update={"spec_id": 0})
    lab.announce(event.model_copy(update={"added_manifests": (named,)}))
    hear(service)

    assert [one for one in lab.seen if isinstance(one, EventApplied)]
    assert is_right(lab, service, table)


def test_an_event_that_names_a_manifest_twice_is_found_out(lab):
    """The paths were compared as a set."""
    table = lab.create()
    lab.append(table, 1)
    service = following(lab, table)
    event = lab.append(table, 2, announce=False)
    lab.announce(event.model_copy(update={"added_manifests": event.added_manifests * 2, "summary": {}}))
    hear(service)

    assert not [one for one in lab.seen if isinstance(one, EventApplied)]
    assert is_right(lab, service, table)


@pytest.fixture
def miscounting(monkeypatch):
    """A writer that adds 100 bytes too many to the summary's total with each commit, from when it is called."""
    rightly = _SnapshotProducer._summary  # noqa: SLF001 (PyIceberg's: where its summaries come from)

    def summary(producer, *args, **kwargs):
        counted = rightly(producer, *args, **kwargs)
        size = int(counted.additional_properties["total-files-size"])
        return counted.model_copy(
            update={
                "_additional_properties": {
                    **counted.additional_properties,
                    "total-files-size": str(size + 100),
                }
            }
        )

    return lambda: monkeypatch.setattr(_SnapshotProducer, "_summary", summary)


def test_drift_that_a_confirmation_finds_rebuilds_the_table(lab, miscounting):
    """It was told, and then forgotten: saving the table said that it is trusted."""
    table = lab.create()
    lab.append(table, 1)
    service = following(lab, table)
    miscounting()
    lab.append(table, 2, announce=False)
    service.step(0)

    assert [one.gap for one in lab.seen if isinstance(one, StateDrifted)] == ["total-files-size +100"]
    assert scans(lab) == ["first seen", "its totals did not add up"]


def test_a_writer_that_always_counts_wrongly_costs_one_scan(lab, miscounting):
    """Each of its commits moves the difference again. Iceberg's own `appendManifest` leaves out bytes like that."""
    table = lab.create()
    lab.append(table, 1)
    service = following(lab, table)
    miscounting()
    for hour in (2, 3, 4, 5):
        lab.append(table, hour)
        service.step(0)

    assert scans(lab) == ["first seen", "its totals did not add up"]
    assert is_right(lab, service, table)


def test_totals_that_an_event_moved_are_looked_up_before_they_are_believed(lab):
    """It was drift, an alert and a full scan for each forged event."""
    table = lab.create()
    lab.append(table, 1)
    service = following(lab, table)
    for hour in (2, 3):
        event = lab.append(table, hour, announce=False)
        lab.announce(event.model_copy(update={"added_manifests": ()}))
        hear(service)
        service.step(0)

    assert not [one for one in lab.seen if isinstance(one, StateDrifted)]
    assert scans(lab) == ["first seen"]
    assert is_right(lab, service, table)


def test_totals_that_only_an_event_said_are_no_writers_mistake(lab, miscounting):
    """Else whoever can write to the topic could silence the alarm."""
    table = lab.create()
    lab.append(table, 1)
    service = following(lab, table)
    event = lab.append(table, 2, announce=False)
    lab.announce(event.model_copy(update={"summary": {"total-files-size": "1"}}))
    hear(service)
    service.step(0)
    miscounting()
    lab.append(table, 3, announce=False)
    service.step(0)

    assert len([one for one in lab.seen if isinstance(one, StateDrifted)]) == 1
    assert scans(lab)[-1] == "its totals did not add up"


def test_events_of_version_1_are_followed(lab):
    """Their sequence numbers are all 0; each was taken for an old one, and the catalog was asked every time."""
    table = lab.create(**{"format-version": "1"})
    lab.append(table, 1)
    service = following(lab, table)
    lab.append(table, 2)
    hear(service)

    assert len([one for one in lab.seen if isinstance(one, EventApplied)]) == 1
    assert is_right(lab, service, table)


def test_of_wide_commits_fewer_are_taken_on_faith(lab, monkeypatch):
    table = lab.create()
    lab.append(table, 1)
    service = following(lab, table)
    monkeypatch.setattr(events_to_state, "JOURNAL_BYTES", 2 * BYTES_OF_PARTITION)
    for _ in range(3):
        lab.append(table, 2)
    hear(service)

    assert len([one for one in lab.seen if isinstance(one, EventApplied)]) == 2
    assert is_right(lab, service, table)
    assert service.fold.table(str(table.metadata.table_uuid)).state.on_faith == 0


def test_no_more_is_taken_on_faith_than_can_be_undone(lab):
    """A forged event would have left the journal before the catalog was asked about it."""
    table = lab.create()
    lab.append(table, 1)
    service = following(lab, table)
    row = service.fold.table(str(table.metadata.table_uuid))
    service.fold.save_state(replace(row.state, on_faith=JOURNAL_LENGTH - 1))
    for _ in range(2):
        lab.append(table, 2)
    hear(service)

    assert len([one for one in lab.seen if isinstance(one, EventApplied)]) == 1
    assert is_right(lab, service, table)
    assert service.fold.table(str(table.metadata.table_uuid)).state.on_faith == 0
