"""Snapshots that no branch or tag reaches expire by age, and nothing that anybody may still read goes with them."""

import pytest

from isotherm.core import observations as seen
from support.lab import Lab, of, started, uuid_of, wait_for_children

HOUR_MS = 3_600_000
POLICY = """
tables: "*"
cold: {after: 1, quiet_for: 0s, quiet_commits: 2}
compact: {enabled: false}
expire: {keep_for: 2h, keep_last: 50, at_once: 1, every: 0s, delete_after: 1h}
"""


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path, policy=POLICY)
    yield lab
    lab.executor.stop()


def filled(lab):
    table = lab.create()
    for hour in (1, 1, 1, 9, 9):
        lab.append(table, hour)
    return table


def known(table):
    return [one.snapshot_id for one in table.refresh().metadata.snapshots]


def pass_by(lab, service, hours, step_ms=HOUR_MS // 4):
    """So many hours in which the daemon turns."""
    for _ in range(hours * HOUR_MS // step_ms):
        lab.ahead_ms += step_ms
        for _ in range(3):
            service.step(0)
            wait_for_children(service)


def read(table):
    """The rows of each snapshot, by PyIceberg's own scan."""
    table.refresh()
    return {
        one: sorted(table.scan(snapshot_id=one).to_arrow()["id"].to_pylist())
        for one in known(table)
        if table.snapshot_by_id(one) is not None
    }


def roll_back(table, snapshot_id):
    table.manage_snapshots().rollback_to_snapshot(snapshot_id).commit()


def staged(table, **summary):
    """A snapshot on top of the head that is on no branch, with the head's rows and those of one more file."""
    table.refresh()
    before = {one.snapshot_id for one in table.metadata.snapshots}
    head = table.current_snapshot()
    table.manage_snapshots().create_branch(head.snapshot_id, "staging").commit()
    table.append(
        table.scan().to_arrow().slice(0, 1),
        snapshot_properties={"wap.id": "audit-1", **summary},
        branch="staging",
    )
    (made,) = [one for one in table.refresh().metadata.snapshots if one.snapshot_id not in before]
    table.manage_snapshots().remove_branch("staging").commit()
    assert table.refresh().current_snapshot() == head
    return made


def test_what_a_rollback_left_goes_once_it_has_been_left_for_long_enough(lab):
    table = filled(lab)
    first, second, *_, last = known(table)
    service = started(lab)
    service.round()
    # All of it is older than what the policy keeps when the rollback comes.
    lab.ahead_ms += 10 * HOUR_MS
    roll_back(table, second)
    service.follower.suspects.add("shop.orders")
    pass_by(lab, service, 1)
    assert last in known(table)

    pass_by(lab, service, 2)
    assert known(table) == [first, second]
    rows = read(table)
    pass_by(lab, service, 12)

    assert rows == read(table)
    assert service.ledger.deletions(uuid_of(table)).get("deleted", 0) >= 9
    assert service.ledger.deletions(uuid_of(table)).get("kept", 0) == 0
    assert of(lab, seen.SnapshotsExpired)[0].snapshots == 3
    service.stop()


def test_what_was_the_newest_once_more_between_two_looks_counts_from_then(lab):
    """A query that began in that minute reads it. It was left for so long that it could have gone at once."""
    table = filled(lab)
    first, *_, last = known(table)
    roll_back(table, first)
    lab.ahead_ms -= 10 * HOUR_MS  # the daemon saw that ten hours ago
    service = started(lab)
    service.round()
    table.refresh().manage_snapshots().set_current_snapshot(last).commit()
    roll_back(table, first)
    left_ms = table.metadata.snapshot_log[-1].timestamp_ms
    lab.ahead_ms += 10 * HOUR_MS
    service.follower.suspects.add("shop.orders")
    pass_by(lab, service, 1)
    assert {one.snapshot_id: one.since_ms for one in service.fold.astray(uuid_of(table))}[last] == left_ms
    assert last in known(table)

    pass_by(lab, service, 2)
    assert last not in known(table)
    service.stop()


def test_a_rollback_that_is_taken_back_has_lost_nothing(lab):
    table = filled(lab)
    first, *_, last = known(table)
    before = read(table)
    service = started(lab)
    lab.ahead_ms += 10 * HOUR_MS
    roll_back(table, first)
    pass_by(lab, service, 1)
    table.refresh().manage_snapshots().set_current_snapshot(last).commit()
    pass_by(lab, service, 4)
    # It was left once more, so its time begins again.
    roll_back(table, first)
    pass_by(lab, service, 1)

    assert before == read(table)
    service.stop()


def test_what_staged_work_was_written_on_stays_as_long(tmp_path):
    """Iceberg publishes an overwrite of whole partitions only where it finds what that was written on from the head on."""
    few = POLICY.replace("keep_last: 50", "keep_last: 2") + "override: [expire.keep_last]\n"
    lab = Lab(tmp_path, policy=few)
    table = filled(lab)
    one = staged(table)
    for hour in (10, 11, 12):
        lab.append(table, hour)
    service = started(lab)
    pass_by(lab, service, 23)
    assert known(table)[:2] == [one.parent_snapshot_id, one.snapshot_id]
    assert len(known(table)) == 5

    pass_by(lab, service, 3)
    assert len(known(table)) == 2
    service.stop()
    lab.executor.stop()


def test_what_was_staged_and_never_published_goes_after_a_day_and_no_sooner(lab):
    table = filled(lab)
    one = staged(table)
    service = started(lab)
    pass_by(lab, service, 23)
    assert one.snapshot_id in known(table)

    pass_by(lab, service, 2)
    assert one.snapshot_id not in known(table)
    rows = read(table)
    pass_by(lab, service, 6)
    assert rows == read(table)
    assert service.ledger.deletions(uuid_of(table)).get("deleted", 0) >= 3
    service.stop()


def test_files_of_a_staged_snapshot_that_was_published_stay(lab):
    """A cherry-pick adds the files of the staged snapshot once more, in a manifest of its own."""
    table = filled(lab)
    one = staged(table)
    service = started(lab)
    service.round()
    picked(lab, table, one)
    rows = read(table)
    pass_by(lab, service, 30)

    assert one.snapshot_id not in known(table)
    del rows[one.snapshot_id]
    assert rows == read(table)
    assert service.ledger.deletions(uuid_of(table)).get("kept", 0) == 0
    service.stop()


def picked(lab, table, one):
    """As Iceberg's Java publishes it after the head has moved on: the same data files in another manifest."""
    lab.append(table, 9)
    table.refresh()
    files = [
        entry.data_file.file_path
        for manifest in one.manifests(table.io)
        if manifest.added_snapshot_id == one.snapshot_id
        for entry in manifest.fetch_manifest_entry(table.io)
    ]
    table.add_files(
        files,
        snapshot_properties={"source-snapshot-id": str(one.snapshot_id), "published-wap-id": "audit-1"},
        check_duplicate_files=False,
    )


def test_what_a_branch_has_in_its_history_or_a_tag_names_is_not_astray(lab):
    table = filled(lab)
    first, second, third, fourth, last = known(table)
    table.manage_snapshots().create_tag(second, "kept").create_branch(fourth, "work").commit()
    service = started(lab)
    roll_back(table, first)
    pass_by(lab, service, 8)

    # The branch has all up to the fourth in its history.
    assert known(table) == [first, second, third, fourth]
    assert last not in known(table)
    service.stop()


def test_a_branch_that_comes_to_a_snapshot_at_the_last_moment_keeps_it(lab):
    table = filled(lab)
    first, *_, last = known(table)
    service = started(lab)
    roll_back(table, first)

    def somebody_was_faster(real, *arguments):
        service.maintainer.requests.on_commit = None
        table.refresh().manage_snapshots().create_branch(last, "saved").commit()
        return real(*arguments)

    service.maintainer.requests.on_commit = somebody_was_faster
    pass_by(lab, service, 8)

    assert service.maintainer.requests.on_commit is None
    assert table.refresh().refs()["saved"].snapshot_id == last
    assert last in known(table)
    assert len(read(table)) == len(known(table))
    service.stop()
