"""Where the policy asks for it, what nothing uses any more of schemas and specs goes after an expiry, and is said."""

import pytest
from pyiceberg.exceptions import BadRequestError
from pyiceberg.table.update import RemovePartitionSpecsUpdate, RemoveSchemasUpdate
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import LongType

from isotherm.core import observations as seen
from isotherm.core.model.jobs import Action
from support.deleting import POLICY, again, every_snapshot_reads, turn
from support.evolved import ids, nothing_is_missing
from support.lab import Lab, believed, counted, of, settle, started, uuid_of, wait_for_children

CLEANING = POLICY.replace("expire: {", "expire: {clean_expired_metadata: true, ")


def evolved(lab):
    """Hours, then days, then a column; the last commits have nothing of what was before."""
    table = lab.create()
    lab.append(table, 1, 9)
    lab.append(table, 1, 9)
    with table.update_spec() as spec:
        spec.remove_field("at_hour")
        spec.add_field("at", DayTransform(), "at_day")
    with table.update_schema() as schema:
        schema.add_column("more", LongType())
    lab.append(table, 9)
    with table.update_spec() as spec:
        spec.remove_field("at_day")
        spec.add_field("what", IdentityTransform(), "by_what")
    with table.update_schema() as schema:
        schema.add_column("most", LongType())
    rows = table.scan().to_arrow()
    for _ in range(4):
        table.refresh().overwrite(rows)
    return table


def cleans(updates):
    return any(isinstance(one, RemoveSchemasUpdate | RemovePartitionSpecsUpdate) for one in updates)


def expiries(service):
    return [one for one in service.ledger.operations() if one.action is Action.EXPIRE]


@pytest.mark.parametrize(("policy", "left"), [(CLEANING, ({2}, {2})), (POLICY, ({0, 1, 2}, {0, 1, 2}))])
def test_they_go_where_the_policy_says_so(tmp_path, policy, left):
    lab = Lab(tmp_path, policy=policy)
    table = evolved(lab)
    service = started(lab)
    settle(service)

    gone = 3 - len(left[0])
    assert ids(table) == left
    assert sum(one.schemas_removed for one in of(lab, seen.SnapshotsExpired)) == gone
    assert sum(one.specs_removed for one in of(lab, seen.SnapshotsExpired)) == gone
    said = " ".join(one.outcome_why for one in expiries(service))
    assert ("removed: 2 schemas and 2 partition specs that nothing used" in said) is bool(gone)
    every_snapshot_reads(table)
    nothing_is_missing(table)
    # The fold goes on as before, and is what a scan would say.
    lab.append(table, 20)
    settle(service)
    assert believed(service, uuid_of(table)) == counted(lab.scan())
    service.stop()


def test_they_are_not_even_looked_for_where_the_policy_does_not_say_so(tmp_path):
    """The lists of all snapshots are read for it."""
    lab = Lab(tmp_path, policy=POLICY)
    evolved(lab)
    service = started(lab)
    asked, start = [], service.maintainer.start_reading

    def note(*arguments, cleans=False):
        asked.append(cleans)
        return start(*arguments, cleans=cleans)

    service.maintainer.start_reading = note
    settle(service)

    assert set(asked) == {False}
    service.stop()


def test_an_expiry_goes_on_where_the_catalog_refuses_it(tmp_path):
    lab = Lab(tmp_path, policy=CLEANING)
    table = evolved(lab)
    service = started(lab)

    def refuse(real, now, requirements, updates):
        if cleans(updates):
            raise BadRequestError("Cannot convert metadata update action from json: remove-schemas")
        return real(now, requirements, updates)

    service.maintainer.requests.on_commit = refuse
    settle(service)

    assert {one.state for one in expiries(service)} == {"done"}
    assert service.ledger.deletions(uuid_of(table)).get("deleted", 0) > 0
    assert ids(table) == ({0, 1, 2}, {0, 1, 2})
    assert "stay, as far as is known" in expiries(service)[0].outcome_why
    service.stop()


def test_a_daemon_that_dies_in_between_has_expired_snapshots_all_the_same(tmp_path):
    """What was written down before the first request is there still: by it tags that were lost are found."""
    lab = Lab(tmp_path, policy=CLEANING)
    table = evolved(lab)
    service = started(lab)
    before = table.metadata_location
    known = len(table.metadata.snapshots)

    def die(real, now, requirements, updates):
        if cleans(updates):
            raise KeyboardInterrupt
        return real(now, requirements, updates)

    service.maintainer.requests.on_commit = die
    with pytest.raises(KeyboardInterrupt):
        turn(service, 10)
    assert len(table.refresh().metadata.snapshots) < known
    (operation,) = expiries(service)
    assert operation.base_metadata == before

    service = again(lab, service)
    settle(service)
    assert expiries(service)[0].state == "done"
    # With the next expiry.
    for hour in (21, 22, 23):
        lab.append(table, hour)
    settle(service)

    assert ids(table) == ({2}, {2})
    every_snapshot_reads(table)
    nothing_is_missing(table)
    service.stop()


def test_a_policy_that_takes_it_back_meanwhile_is_heard(tmp_path):
    lab = Lab(tmp_path, policy=CLEANING)
    table = evolved(lab)
    service = started(lab)
    while not len(service.expiries):
        service.step(0)
    wait_for_children(service)
    (lab.config.policies / "all.yaml").write_text(POLICY)
    service.policies.reload(at_once=True)
    service.expiries.finish()

    assert ids(table) == ({0, 1, 2}, {0, 1, 2})
    assert [one.state for one in expiries(service)] == ["done"]
    assert (
        "the policy does not say expire.clean_expired_metadata any more" in expiries(service)[0].outcome_why
    )
    service.stop()
