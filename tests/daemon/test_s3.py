"""The daemon's whole path on S3 (read manifests, compact, expire, delete) while the store answers 503, or not at all."""

import pytest

from isotherm.contract.summary import JOB_ID
from isotherm.core import observations as seen
from support.lab import EXPIRING, Lab, believed, counted, settle
from support.object_store import BUCKET, Fault, object_store


@pytest.fixture
def store():
    with object_store() as running:
        yield running


@pytest.fixture
def lab(store, tmp_path):
    properties = {
        **store.properties(),
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"s3://{BUCKET}/warehouse",
    }
    # Jobs share a commit: what it replaced is to expire with the snapshot before it.
    policy = EXPIRING.replace("keep_last: 2, at_once: 2", "keep_last: 1, at_once: 1")
    lab = Lab(tmp_path, policy=policy, properties=properties)
    yield lab
    lab.executor.stop()


def test_compaction_expiry_and_deletion_ride_out_a_store_that_is_busy_and_one_that_is_silent(lab, store):
    table = lab.create()
    for hour in (1, 1, 1, 2, 2, 2, 3, 4):
        lab.append(table, hour)
    expected = sorted(map(repr, table.refresh().scan().to_arrow().to_pylist()))
    store.faults += [
        Fault("GET", "-m0.avro", 4),
        Fault("GET", "snap-", 4),
        Fault("GET", "/data/", 4),
        Fault("GET", "-m0.avro", 1, "silence"),
        Fault("PUT", "isotherm-", 4),
        Fault("PUT", ".metadata.json", 4),
        Fault("DELETE", "/data/", 4),
    ]
    service = lab.service()
    service.start()
    settle(service)

    assert store.unmet() == []
    assert not [one for one in lab.seen if isinstance(one, seen.TrySoon)]
    table.refresh()
    assert expected == sorted(map(repr, table.scan().to_arrow().to_pylist()))
    assert counted(lab.scan()) == believed(service, str(table.metadata.table_uuid))
    assert [s for s in table.snapshots() if JOB_ID in s.summary.additional_properties]
    reachable = set()
    for snapshot in table.snapshots():
        reachable.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            reachable.add(manifest.manifest_path)
            reachable |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    # PyArrow leaves an empty object named like the folder where it deleted the last file of one.
    # (Other tests keep theirs in other folders of the same bucket.)
    ours = [key for key in store.objects() if key.startswith("warehouse/")]
    stored = {f"s3://{BUCKET}/{key}" for key in ours if not key.endswith((".metadata.json", "/"))}
    assert reachable == stored
    service.stop()


def test_a_store_that_refuses_us_is_said_and_work_goes_on_when_it_lets_us_in_again(lab, store):
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    refusal = Fault("GET", "snap-", 10**6, "403")
    store.faults.append(refusal)
    service = lab.service()
    service.start()
    service.round()
    assert [one for one in lab.seen if isinstance(one, seen.TrySoon)]
    assert service.fold.tables() == {}
    store.faults.remove(refusal)
    lab.ahead_ms += 60_000  # a table that did not answer is left alone for a moment
    settle(service)

    assert counted(lab.scan()) == believed(service, str(table.metadata.table_uuid))
    assert [s for s in table.refresh().snapshots() if JOB_ID in s.summary.additional_properties]
    service.stop()
