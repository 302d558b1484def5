"""Who may write to the control topic can make maintenance wait, and no more: it misleads nobody, and what is old is forgotten."""

from isotherm.contract.events import OpenWindow
from isotherm.core import observations as seen
from isotherm.core.units import DAY_MS
from isotherm.iceberg.announced_changes import MAX_READ_BYTES
from support.forged import AN_HOUR_MS, hear, intent, verdicts, with_debt
from support.lab import believed, counted, event_of, of, settle, started, uuid_of


def test_forged_totals_and_forged_snapshots_cost_a_look_and_no_scan(lab):
    table, service = with_debt(lab)
    uuid, event = uuid_of(table), event_of(table)
    lies = [
        {"summary": {"total-data-files": "7", "total-records": "1"}},
        {"summary": {}, "added_manifests": ()},
        # Its entries, counted once more, and as removed.
        {"summary": {}},
        {"summary": {}, "added_manifests_complete": False},
    ]
    for number in range(20):
        head = service.fold.table(uuid).state
        made_up = {
            "snapshot_id": 1000 + number,
            "parent_id": head.head,
            "sequence_number": head.sequence_number + 1,
        }
        hear(lab, service, [event.model_copy(update=made_up | lies[number % len(lies)])])
        service.round()
        assert believed(service, uuid) == counted(lab.scan())

    assert [one.why for one in of(lab, seen.TableScanned)] == ["first seen"]
    assert of(lab, seen.StateDrifted) == []
    real = {one.snapshot_id for one in table.refresh().snapshots()}
    assert {one.snapshot_id for one in service.ledger.accounts(uuid)} == real
    service.stop()


def test_an_event_has_no_more_read_than_a_manifest_has(lab):
    """Sixty kilobytes of names could stand for gigabytes: the round reads what the catalog says, once."""
    table, service = with_debt(lab)
    loaded, event = service.follower.loaded(uuid_of(table)), event_of(table)
    made_up = {
        "snapshot_id": 77,
        "parent_id": event.snapshot_id,
        "sequence_number": event.sequence_number + 1,
    }
    (manifest,) = event.added_manifests
    half = MAX_READ_BYTES // 2 + 1
    large = [manifest.model_copy(update={"length": half, "path": f"{manifest.path}{n}"}) for n in range(2)]
    opened, new_input = [], loaded.handle.io.new_input
    loaded.handle.io.new_input = lambda location: opened.append(location) or new_input(location)
    for named in ([manifest] * 200, large):
        lie = event.model_copy(update=made_up | {"added_manifests": tuple(named)})
        assert service.catalog.changes_of([(loaded, lie)]) == [None]

    assert opened == []
    service.stop()


def test_an_event_that_lies_about_a_real_snapshot_is_taken_back_and_costs_no_scan(lab):
    table, service = with_debt(lab)
    uuid = uuid_of(table)
    for hour in (1, 2, 9):
        true = lab.append(table, hour, announce=False)
        hear(lab, service, [true.model_copy(update={"added_manifests": (), "summary": {}})])
        follows = lab.append(table, hour, announce=False)
        hear(lab, service, [follows])
        assert believed(service, uuid) != counted(lab.scan())
        service.round()
        assert believed(service, uuid) == counted(lab.scan())

    assert [one.why for one in of(lab, seen.TableScanned)] == ["first seen"]
    service.stop()


def test_whatever_forces_a_table_to_be_scanned_gets_a_tenth_of_the_time(lab):
    """Its owner can: with histories that lead nowhere, or totals that differ in another way each time."""
    table, service = with_debt(lab)
    uuid, real = uuid_of(table), service.catalog.scan

    def slow(loaded, go_on):
        lab.ahead_ms += 60_000
        return real(loaded, go_on)

    service.catalog.scan = slow
    lab.seen.clear()
    service.fold.distrust(uuid)
    service.round()
    began_ms = lab.ahead_ms
    while lab.ahead_ms - began_ms < 2 * AN_HOUR_MS:
        service.fold.distrust(uuid)
        service.round()
        lab.ahead_ms += 30_000

    assert 11 <= len(of(lab, seen.TableScanned)) <= 13
    lab.ahead_ms += AN_HOUR_MS
    service.round()
    assert believed(service, uuid) == counted(lab.scan())
    assert service.fold.table(uuid).is_trusted
    service.stop()


def test_debt_that_forged_intents_hold_back_shows_as_lag(lab):
    """One message in a quarter of an hour is enough to keep a table hot: a person must be able to see it."""
    table, service = with_debt(lab)
    uuid = uuid_of(table)
    for number in range(8):
        hear(lab, service, [intent(uuid, number, partitions=None)])
        lab.ahead_ms += AN_HOUR_MS // 5
        service.round()
        assert verdicts(service, uuid) == {"hot"}

    planned = of(lab, seen.TablePlanned)[-1]
    assert lab.now_ms() - planned.oldest_due_at_ms > AN_HOUR_MS
    row = service.fold.table(uuid)
    policy = service.verdicts.policy_of(row).policy
    for partition in service.fold.partitions(uuid):
        assert "means to write any partition" in service.verdicts.why_hot(row, partition.key, policy)
    service.stop()


def test_a_forged_closing_costs_a_writer_a_merge_and_nobody_a_row(lab):
    """The topic does not say who wrote a message. What a writer said there, another can take back."""
    table, service = with_debt(lab)
    uuid = uuid_of(table)
    rows = sorted(map(repr, table.scan().to_arrow().to_pylist()))
    hear(lab, service, [intent(uuid, partitions=None)])
    assert verdicts(service, uuid) == {"hot"}
    hear(lab, service, [intent(uuid, partitions=None, state="closed")])
    service.events.is_reachable = True
    settle(service)

    assert [one.action for one in service.ledger.operations()] == ["compact"]
    assert rows == sorted(map(repr, table.refresh().scan().to_arrow().to_pylist()))
    service.stop()


def test_what_writers_said_of_a_table_that_is_gone_is_forgotten_after_a_month(lab):
    gone, stays = lab.create("shop.gone"), lab.create("shop.stays")
    service = started(lab)
    for table in (gone, stays):
        lab.announce(intent(uuid_of(table), state="closed"))
        lab.append(table, 1, announce=False)
        lab.announce(event_of(table.refresh(), writer="nobody 0", open_window=OpenWindow()))
    service.step(0)
    for table in (gone, stays):
        lab.announce(intent(uuid_of(table), state="closed"))
        lab.append(table, 1, announce=False)
        lab.announce(event_of(table.refresh(), writer="nobody 0", open_window=OpenWindow()))
    service.step(0)
    service.fold.drop(uuid_of(gone))
    days = []
    for day in (30, 2):
        now_ms = service.now_ms() + sum([*days, day]) * DAY_MS
        days.append(day)
        assert service.fold.prune(now_ms, limit=1) == (day == 2)
        assert not service.fold.prune(now_ms)
        kept = [
            (len(service.fold.words(uuid)), service.fold.announces(uuid, "nobody 0"))
            for uuid in map(uuid_of, (gone, stays))
        ]
        assert kept == [(0, False) if day == 2 else (1, True), (1, True)]
    service.stop()


def test_the_hourly_pruning_forgets_them_too(lab):
    service = started(lab)
    service.fold.note_announcer("no table", "nobody", service.now_ms())
    lab.ahead_ms += 40 * DAY_MS
    service.step(0)

    assert not service.fold.announces("no table", "nobody")
    service.stop()
