"""What protects a table, layer by layer: where the next layer would hide that one is gone."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from isotherm.contract.events import Intent, encode
from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.paths import normalised
from isotherm.core.deletion import LEFTOVER_GRACE_MS, Cause, Mark
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.jobs import Action, CompactionJob
from isotherm.core.observations import TableGone
from isotherm.runtime.clock import now_ms
from isotherm.service.follow import GONE_AFTER_S, REFUSED_FOR_S
from isotherm.service.intake import Touched
from isotherm.service.ledger_age import LedgerAge
from isotherm.service.ports import NotYetKnown, Refused, TableMissing, Unreadable
from isotherm.store import Ledger
from isotherm.store.ledger import Account, Operation
from isotherm.telemetry.metrics import Metrics
from support.fakes import MemoryHolds
from support.lab import EXPIRING, Lab, settle, started, uuid_of, wait_for_children, with_a_job

GRACE = EXPIRING.replace("delete_after: 0s", "delete_after: 1h").replace(", expire.delete_after", "")
ONLY_EXPIRY = GRACE.replace("compact: {min_files: 3}", "compact: {enabled: false}")
HOUR_MS = 3_600_000


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=EXPIRING)


def followed(lab):
    """A table with one commit, and a daemon that knows it."""
    table = lab.create()
    lab.append(table, 1)
    service = started(lab)
    service.step(0)
    return table, service


# --- may files go?


def paused(table, service):
    service.holds.put(Hold(HoldKind.PAUSE, uuid_of(table), "shop.orders", "a test", service.now_ms()))


def moved(_table, service):
    service.events.term = 0


def ledger_lost(_table, service):
    service.holds.doubt_ledger("it was put back")


def clock_wrong(_table, service):
    check = service.deletions
    check.clock = check.clock.compared("the store", 10**7, service.monotonic_s())


@pytest.mark.parametrize("happens", [paused, moved, ledger_lost, clock_wrong])
def test_each_thing_that_the_daemon_knows_keeps_the_files_of_a_table(lab, happens):
    table, service = followed(lab)
    uuid = uuid_of(table)
    allowed = [cause for cause in Cause if service.deletions.why_not(uuid, cause) is None]
    # Its policy wants orphans counted, and no more.
    assert allowed == [Cause.EXPIRED, Cause.LEFTOVER, Cause.OLD_VERSION]
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


def test_a_file_in_another_tables_folder_stays(lab):
    table, service, path = with_a_due_file(lab)
    service.ledger.place("another", f"{table.location()}/data")

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


# --- what the ledger counts


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
    age = LedgerAge(MemoryHolds([]), ledger)

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


# --- what is announced


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


def test_a_table_that_is_not_found_is_gone_only_minutes_later(lab):
    table, service = followed(lab)
    lab.catalog.drop_table("shop.orders")
    for _ in range(2):
        with pytest.raises(TableMissing):
            service.follower.confirm("shop.orders")
        service.step(0)  # makes a list
    assert service.fold.table(uuid_of(table)) is not None

    lab.ahead_ms += int(GONE_AFTER_S * 1000)

    assert service.follower.confirm("shop.orders") is None
    assert service.fold.table(uuid_of(table)) is None
    service.stop()


@pytest.mark.parametrize("what", ["dropped", "listed", "hidden", "alone", "unlisted for a moment"])
def test_a_table_that_is_refused_and_not_listed_for_an_hour_is_gone(lab, what):
    """Some catalogs answer 403 for a table that they do not have. One that is listed lacks a right, and stays."""
    table, service = followed(lab)
    if what != "alone":  # a list without any name is no list
        lab.append(lab.create("shop.other"), 1)
        for _ in range(3):
            service.step(0)
    front(service, what)
    if what != "listed":
        lab.catalog.drop_table("shop.orders")
    for waits_s in (0, GONE_AFTER_S, REFUSED_FOR_S - GONE_AFTER_S - 60):
        lab.ahead_ms += int(waits_s * 1000)
        with pytest.raises(Refused):
            service.follower.confirm("shop.orders")
        service.step(0)  # makes a list
    if what == "unlisted for a moment":
        lab.catalog.register_table("shop.orders", table.metadata_location)
        service.step(0)

    lab.ahead_ms += 120_000
    with suppress(Unreadable):
        service.follower.confirm("shop.orders")

    gone = [one.why for one in lab.seen if isinstance(one, TableGone)]
    assert (service.fold.table(uuid_of(table)) is None) is (what in ("dropped", "alone"))
    assert len(gone) == (what in ("dropped", "alone"))
    assert all("403" in why and "nor does the catalog list it" in why for why in gone)
    service.stop()


def test_a_table_that_was_refused_is_not_gone_when_it_is_said_once_to_be_missing(lab):
    """A catalog that is restarted may refuse everybody, and then know nothing for a moment."""
    table, service = followed(lab)
    lab.append(lab.create("shop.other"), 1)
    for _ in range(3):
        service.step(0)
    load = service.catalog.load
    front(service, "refused")
    lab.catalog.drop_table("shop.orders")
    with pytest.raises(Refused):
        service.follower.confirm("shop.orders")
    lab.ahead_ms += int(GONE_AFTER_S * 1000)
    service.step(0)  # makes a list
    service.catalog.load = load

    with pytest.raises(TableMissing):
        service.follower.confirm("shop.orders")

    assert service.fold.table(uuid_of(table)) is not None
    lab.ahead_ms += int(GONE_AFTER_S * 1000)
    with suppress(TableMissing):
        service.step(0)
        service.follower.confirm("shop.orders")
    assert service.fold.table(uuid_of(table)) is None
    service.stop()


def front(service, what):
    """A catalog that refuses one table, whether it has it or not."""
    load, names = service.catalog.load, service.catalog.names

    def refusing(name):
        if name == "shop.orders":
            raise Refused("ForbiddenError: 403")
        return load(name)

    def hiding(*_):
        return replace(names(), unlisted={"shop": "403"})

    service.catalog.load = refusing
    if what == "hidden":
        service.catalog.names = hiding


def without_lists(service):
    """From now on a list is there when the test says so, by what is given."""
    real, service.catalog.list_beside = service.catalog.list_beside, lambda _: None

    def make():
        service.catalog.list_beside = real
        assert service.lists.take() is not None
        service.catalog.list_beside = lambda _: None

    return make


def test_one_list_made_beside_the_loop_answers_for_all_tables_of_a_schema_that_was_dropped(lab):
    names = [f"shop.t{number}" for number in range(5)]
    for name in ("shop.stays", *names):
        lab.append(lab.create(name), 1)
    service = started(lab)
    for _ in range(3):
        service.step(0)
    make_a_list = without_lists(service)
    for name in names:
        lab.catalog.drop_table(name)
        with pytest.raises(TableMissing):
            service.follower.confirm(name)
    lab.ahead_ms += int(GONE_AFTER_S * 1000) + 1000
    # The newest list is older than the first time that they were not found.
    for name in names:
        with pytest.raises(TableMissing):
            service.follower.confirm(name)
    make_a_list()

    assert [service.follower.confirm(name) for name in names] == [None] * 5
    assert list(service.fold.names().values()) == ["shop.stays"]
    service.stop()


def test_a_second_entry_is_told_by_the_next_list_and_nobody_waits_for_it(lab):
    tables = [lab.create(f"shop.t{number}") for number in range(4)]
    for table in tables:
        lab.append(table, 1)
    service = started(lab)
    for _ in range(3):
        service.step(0)
    make_a_list = without_lists(service)
    for number, table in enumerate(tables):
        lab.catalog.register_table(f"shop.again{number}", table.refresh().metadata_location)
        service.follower.suspects.add(f"shop.again{number}")
    service.round()

    assert service.health.catalog_answers
    assert service.ledger.holds() == []
    with pytest.raises(NotYetKnown, match="next list"):
        service.follower.confirm("shop.again0")
    make_a_list()
    with pytest.raises(NotYetKnown, match="next list"):
        service.follower.confirm("shop.again0")  # that list was asked for before the second entry was seen
    make_a_list()
    lab.ahead_ms += 600_000
    service.round()

    assert [service.ledger.halted(uuid_of(table)) is not None for table in tables] == [True] * 4
    service.stop()


def intent_on(table, **changes):
    values = {"intent_id": "i", "writer": "w", "state": "open", "at_ms": now_ms(), "partitions": ()}
    uuid = uuid_of(table)
    return Intent(table_uuid=uuid, table="shop.orders", expires_at_ms=now_ms() + 10**11, **(values | changes))


def test_an_intent_lasts_no_longer_than_the_daemon_allows(lab):
    table, service = followed(lab)
    lab.topic.messages.append(encode(intent_on(table))[1])

    service.intake.take(service.events.poll(0))

    (kept,) = service.fold.intents(uuid_of(table))
    assert kept.expires_at_ms <= service.now_ms() + service.intake.intent_timeout_ms
    service.stop()


# --- the last look before a swap


def an_intent(lab, table, _service):
    lab.topic.messages.append(encode(intent_on(table, partitions=None))[1])


def a_wrong_clock(_lab, table, service):
    clock_wrong(table, service)


def a_mistake(lab, table, service):
    """Whatever cannot be saved is handed out again."""
    lab.topic.messages.append(encode(intent_on(table))[1])

    def broken():
        raise RuntimeError("a mistake of ours")

    service.intake.now_ms = broken


def holds_unread(_lab, _table, service):
    service.hold_topic.read = lambda _timeout_s: None


@pytest.mark.parametrize(
    ("happens", "reason"),
    [(an_intent, "hot"), (a_wrong_clock, "clock"), (a_mistake, "unavailable"), (holds_unread, "topic")],
)
def test_what_stands_against_a_swap_is_seen_by_the_last_look(tmp_path, happens, reason):
    lab = Lab(tmp_path)
    table, service = with_a_job(lab)
    head, position = table.refresh().current_snapshot(), service.events.position
    happens(lab, table, service)
    service.compactions.finish()

    assert [one.reason for one in service.ledger.operations()] == [reason]
    assert table.refresh().current_snapshot() == head
    assert (service.events.position == position) is (happens is not an_intent)
    service.stop()


def test_a_job_is_cancelled_by_what_touches_its_table_and_by_nothing_else(tmp_path):
    lab = Lab(tmp_path)
    table, service = with_a_job(lab)
    service.compactions.cancel_touched([Touched("another", None)])
    service.compactions.cancel_touched([Touched(uuid_of(table), frozenset({PartitionKey("{}")}))])
    assert len(service.compactions) == 1

    service.compactions.cancel_touched([Touched(uuid_of(table), None)])

    assert len(service.compactions) == 0
    service.stop()


# --- what a job leaves behind


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


# --- what came of an expiry


def expiring(tmp_path):
    """A table of which snapshots may go, and a daemon that is about to send the request."""
    lab = Lab(tmp_path, policy=ONLY_EXPIRY)
    table = lab.create()
    for hour in (1, 1, 1, 9, 9):
        lab.append(table, hour)
    service = started(lab)
    while not len(service.expiries):
        service.step(0)
    return lab, table, service


def test_an_expiry_is_judged_by_what_the_policy_keeps_at_the_moment_of_its_request(tmp_path):
    """All that goes lies behind the head still. But of the last two that the policy keeps one was to go."""
    _, table, service = expiring(tmp_path)
    wait_for_children(service)
    known = [one.snapshot_id for one in table.refresh().metadata.snapshots]
    table.manage_snapshots().rollback_to_snapshot(known[-2]).commit()

    service.expiries.finish()

    assert [(one.state, one.reason) for one in service.ledger.operations()] == [("failed", "stale")]
    assert [one.snapshot_id for one in table.refresh().metadata.snapshots] == known
    service.stop()


def test_an_expiry_whose_end_nobody_knows_confirms_no_mark(tmp_path):
    _, table, service = expiring(tmp_path)

    def cut(*_):
        raise ConnectionError("cut")

    service.maintainer.requests.on_commit = cut
    wait_for_children(service)
    service.expiries.finish()

    assert [one.state for one in service.ledger.operations()] == ["unknown"]
    assert set(service.ledger.deletions(uuid_of(table))) == {"marked"}
    service.stop()


@pytest.mark.parametrize("lost", [("q3",), None], ids=["a tag was dropped", "nobody can say"])
def test_where_an_expiry_may_have_dropped_a_tag_no_file_goes(tmp_path, lost):
    _, table, service = expiring(tmp_path)
    real = service.maintainer.expired
    service.maintainer.expired = lambda *arguments: replace(real(*arguments), lost_refs=lost)
    wait_for_children(service)
    service.expiries.finish()

    assert [one.state for one in service.ledger.operations()] == ["done"]
    assert service.ledger.deletions(uuid_of(table)) == {}
    assert (service.ledger.halted(uuid_of(table)) is None) is (lost is None)
    service.stop()


def test_another_table_under_the_name_says_nothing_of_an_expiry(lab):
    table, service = followed(lab)
    uuid = uuid_of(table)
    operation = Operation("job", TableId(uuid, "shop.orders"), Action.EXPIRE, None, "", "", "", 0, 0)
    service.ledger.save(operation)
    service.ledger.mark(uuid, "job", [Mark("file", "job", Cause.EXPIRED, None)], 0, snapshots=[1])
    lab.catalog.drop_table("shop.orders")
    lab.create()

    assert service.expiries.settle(operation) is False
    assert service.ledger.deletions(uuid) == {"marked": 1}
    service.stop()


def test_a_table_that_is_listed_and_refused_for_an_hour_has_no_gauges_but_that_it_fails(lab):
    """It may be dropped, and its debt would raise an alert for ever; or a right is missing, which somebody must be told."""
    metrics = Metrics(lab.now_ms, "test")
    table = lab.create()
    for hour in (1, 1, 1, 2, 3):
        lab.append(table, hour)
    service = lab.service(listen=metrics)
    service.start()

    def gauges():
        return {
            family.name
            for family in metrics.registry.collect()
            if family.type == "gauge" and not family.name.startswith("isotherm_unneeded")
            for sample in family.samples
            if sample.labels.get("table") == "shop.orders"
        }

    # A job that ends later would add a series.
    settle(service)
    before = gauges()
    assert len(before) > 10
    load = service.catalog.load
    front(service, "listed")
    for waits_s in (0, REFUSED_FOR_S - 60, 3_600):
        assert gauges() == before
        lab.ahead_ms += int(waits_s * 1000)
        service.follower.suspects.add("shop.orders")
        service.round()
    assert gauges() == {"isotherm_table_failing"}

    service.catalog.load = load
    lab.ahead_ms += 4 * 3_600_000
    service.follower.suspects.add("shop.orders")
    service.round()
    # When a job last succeeded is told by the next one.
    assert gauges() == before - {"isotherm_last_success_timestamp_seconds"}
    service.stop()
