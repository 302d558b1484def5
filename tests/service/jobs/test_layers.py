"""What protects a table, layer by layer: where the next layer would hide that one is gone."""

import json
from pathlib import Path

import pytest

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.paths import normalised
from isotherm.core.deletion import LEFTOVER_GRACE_MS, Cause, Mark
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import CompactionJob
from isotherm.runtime.clock import now_ms
from isotherm.service.topics.ledger_age import LedgerAge
from isotherm.store import Ledger
from isotherm.store.ledger import Account
from support.deleting import ONLY_EXPIRY, clock_wrong, followed
from support.lab import EXPIRING, Lab, started, uuid_of, wait_for_children
from support.memory_topics import MemoryKeyedTopic

HOUR_MS = 3_600_000


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=EXPIRING)


def paused(table, service):
    service.holds.put(Hold(HoldKind.PAUSE, uuid_of(table), "shop.orders", "a test", service.now_ms()))


def moved(_table, service):
    service.events.term = 0


def ledger_lost(_table, service):
    service.holds.doubt_ledger("it was put back")


@pytest.mark.parametrize("happens", [paused, moved, ledger_lost, clock_wrong])
def test_each_thing_that_the_daemon_knows_keeps_the_files_of_a_table(lab, happens):
    table, service = followed(lab)
    uuid = uuid_of(table)
    allowed = [cause for cause in Cause if service.deletions.why_not(uuid, cause) is None]
    # Its policy wants orphans counted, and no more. What is in quarantine is looked at, to be put back where it is needed.
    assert allowed == [Cause.EXPIRED, Cause.LEFTOVER, Cause.OLD_VERSION, Cause.QUARANTINED]
    assert service.deletions.everywhere() is None

    happens(table, service)

    assert None not in [service.deletions.why_not(uuid, cause) for cause in Cause]
    assert (service.deletions.everywhere() is None) is (happens in (paused, moved))
    service.stop()


def test_a_policy_that_expires_no_more_keeps_what_expiries_left(lab):
    table, service = followed(lab)
    policy = lab.policy.replace("expire: {", "expire: {enabled: false, ")
    (lab.config.policies / "all.yaml").write_text(policy)
    for _ in range(2):  # a change is taken once it looks the same twice
        service.reload_policies()

    assert service.deletions.why_not(uuid_of(table), Cause.EXPIRED) is not None
    assert service.deletions.why_not(uuid_of(table), Cause.LEFTOVER) is None
    service.stop()


def test_a_policy_file_that_nobody_can_read_keeps_what_expiries_left(lab):
    table, service = followed(lab)
    (lab.config.policies / "new.yaml").write_text("tables: [")
    for _ in range(2):
        service.reload_policies()

    assert service.deletions.why_not(uuid_of(table), Cause.EXPIRED) is not None
    assert service.deletions.why_not(uuid_of(table), Cause.LEFTOVER) is None
    service.stop()


def with_a_due_file(lab):
    """A file of nobody in the table's folder, marked, its grace over."""
    table, service = followed(lab)
    path = f"{table.location()}/data/isotherm-job-0.parquet"
    Path(normalised(path)).write_bytes(b"left behind")
    mark = Mark(path, "job", Cause.LEFTOVER, None)
    service.ledger.mark(uuid_of(table), "job", [mark], 0, due_at_ms=0)
    for _ in range(3):
        service.survey.turn()  # nothing goes before all tables of the catalog were looked at
    return table, service, Path(normalised(path))


def swept(service):
    service.deletions.sweep()
    service.maintainer.wait(30)
    service.deletions.turn()


def test_a_file_of_nobody_goes(lab):
    _, service, path = with_a_due_file(lab)

    swept(service)

    assert not path.exists()
    service.stop()


@pytest.mark.parametrize("spelled", ["{}/data", "{}//data", "{}/./data", "{}/x/../data/", "{}/data?x"])
def test_a_file_in_another_tables_folder_stays_however_that_is_spelled(lab, spelled):
    table, service, path = with_a_due_file(lab)
    service.ledger.place(
        "another", spelled.format(table.location().replace("shop/", "//shop/", spelled.count("//")))
    )

    swept(service)

    assert path.exists()
    service.stop()


@pytest.mark.parametrize("what", ["another table", "another clock", "out of the group"])
def test_files_are_held_against_their_own_table_and_its_stores_clock(lab, what):
    table, service, path = with_a_due_file(lab)
    if what == "another table":
        lab.catalog.drop_table("shop.orders")
        lab.create()
    elif what == "out of the group":
        service.events.is_member = False
    else:
        lab.ahead_ms += 2 * HOUR_MS  # it is time to look at the store's clock again
        service.survey.listed(service.catalog.names(), service.monotonic_s(), HOUR_MS, is_whole=True)
        service.maintainer.lab = Lab.__new__(Lab)
        service.maintainer.lab.ahead_ms = 0

    service.deletions.sweep()
    service.maintainer.wait(30)

    assert [swept.uuid for swept in service.maintainer.swept()] == []
    assert len(service.ledger.due_deletions(uuid_of(table), now_ms(), 10)) == 1
    assert path.exists()
    service.stop()


@pytest.mark.parametrize("happens", [paused, moved, ledger_lost, clock_wrong])
def test_deleting_stops_when_the_table_is_held_or_moves_away(lab, happens):
    table, service, _ = with_a_due_file(lab)
    stopped = []
    service.maintainer.start_sweep = lambda *_: None
    service.maintainer.stop_sweep = stopped.append
    service.deletions.sweep()
    service.deletions.turn()
    assert stopped == []

    happens(table, service)
    service.deletions.turn()

    assert stopped == [uuid_of(table)]
    service.stop()


def test_whatever_cannot_be_undone_is_counted_first(tmp_path):
    lab = Lab(tmp_path, policy=ONLY_EXPIRY)
    table = lab.create()
    for hour in (1, 1, 1, 9, 9):
        lab.append(table, hour)
    service = started(lab)
    counts, real = [], service.maintainer.start_sweep

    def commit(asked, *arguments):
        counts.append(("expiry", service.ledger.acts))
        return asked(*arguments)

    def start_sweep(*arguments):
        counts.append(("sweep", service.ledger.acts))
        real(*arguments)

    service.maintainer.requests.on_commit = commit
    service.maintainer.start_sweep = start_sweep
    for _ in range(60):  # one to two graces, by the table's uuid, and a look at all tables
        service.step(0)
        wait_for_children(service)
        lab.ahead_ms += HOUR_MS // 8
        if ("sweep", len(counts)) in counts:
            break

    assert {what for what, _ in counts} == {"expiry", "sweep"}
    assert [acts for _, acts in counts] == list(range(1, len(counts) + 1))
    service.stop()


def test_a_ledger_is_held_against_the_count_on_the_topic(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    age = LedgerAge(MemoryKeyedTopic([]), ledger)

    def heard(acts, process="another"):
        return age.heard(json.dumps({"acts": acts, "process": process}).encode())

    assert heard(0) is None
    assert "older than what it did" in heard(5)
    assert heard(ledger.acts) is None
    age.act()
    counted = ledger.acts
    assert heard(counted, age.process) is None
    assert "another process" in heard(counted)
    assert "makes no sense" in heard(10**12)
    assert ledger.acts < 10**9
    ledger.close()


def test_a_ledger_that_was_saved_when_the_fold_was_not_leads_to_a_look(lab):
    table, service = followed(lab)
    event = lab.append(table, 2)
    account = Account(event.snapshot_id, event.sequence_number, "ingest", 1, 1, None, announced=True)
    service.ledger.account(uuid_of(table), [account])
    assert service.follower.suspects == set()

    service.intake.take(service.events.poll(0))

    assert service.follower.suspects == {"shop.orders"}
    service.stop()


def test_an_event_that_moves_the_totals_leads_to_a_look_and_changes_nothing(lab):
    table, service = followed(lab)
    before = service.fold.table(uuid_of(table)).state
    event = lab.append(table, 2, announce=False)
    lab.announce(event.model_copy(update={"summary": {**event.summary, "total-data-files": "999"}}))

    taken = service.intake.take(service.events.poll(0))

    assert (taken.applied, service.follower.suspects) == ([], {"shop.orders"})
    assert service.fold.table(uuid_of(table)).state == before
    service.stop()


def job_of(table):
    number = table.current_snapshot().sequence_number
    head, partition = table.current_snapshot().snapshot_id, PartitionKey("{}")
    named = TableId(uuid_of(table), "shop.orders")
    return CompactionJob("job", named, partition, "", 0, head, number, (), (), frozenset(), 0, "", "")


def test_what_a_request_may_have_named_waits_for_its_grace(lab):
    table, service = followed(lab)
    uuid, job = uuid_of(table), job_of(table.refresh())
    path = Path(normalised(f"{table.location()}/metadata/snap-1-0-isotherm-job.avro"))
    path.write_bytes(b"a manifest list")
    loaded = service.catalog.load("shop.orders")

    service.deletions.leave(loaded, job, None, others=[str(path)], was_sent=True)

    soon, later = (service.now_ms() + part for part in (LEFTOVER_GRACE_MS // 2, LEFTOVER_GRACE_MS))
    assert path.exists()
    assert service.ledger.due_deletions(uuid, soon, 10) == []
    assert [mark.path for mark in service.ledger.due_deletions(uuid, later, 10)] == [str(path)]
    service.deletions.leave(loaded, job, None, others=[str(path)], was_sent=False)
    assert not path.exists()
    service.stop()


def test_a_job_leaves_nothing_to_delete_in_another_table_of_its_name(lab):
    table, service = followed(lab)
    job = job_of(table.refresh())
    path = Path(normalised(f"{table.location()}/metadata/snap-1-0-isotherm-job.avro"))
    path.write_bytes(b"a manifest list")
    lab.catalog.drop_table("shop.orders")
    lab.create()

    another = service.catalog.load("shop.orders")
    service.deletions.leave(another, job, None, others=[str(path)], was_sent=False)

    assert path.exists()
    service.stop()
