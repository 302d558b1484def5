"""What happens to events, and what they say of a table, delays and never misleads."""

import pytest

from isotherm.contract.events import decode, encode
from isotherm.core import observations as seen
from isotherm.core.model.decisions import Verdict
from isotherm.service.ports import Message
from support.any_case import any_case
from support.lab import EAGER, believed, counted, event_of, of, settle, started, uuid_of


def test_an_event_alone_makes_the_verdict_without_asking_the_catalog(lab):
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    lab.append(table, 1, 2)
    uuid = str(table.metadata.table_uuid)
    service.consume(service.events.poll(0))

    assert [one.snapshot_id for one in of(lab, seen.EventApplied)] == [table.current_snapshot().snapshot_id]
    assert {one.verdict for one in service.fold.partitions(uuid)} <= {Verdict.HOT, Verdict.CLEAN}
    assert counted(lab.scan()) == believed(service, uuid)
    service.stop()


def test_garbage_is_counted_and_stops_nothing(lab):
    table = lab.create()
    lab.topic.messages += [
        None,
        b"",
        b"\xff\xfe",
        b"[1,2]",
        b'{"specversion":"1.0","type":"io.isotherm.commit.v1","data":{}}',
    ]
    lab.append(table, 1)
    service = lab.settled()
    service.stop()

    assert len(of(lab, seen.EventRejected)) == 5
    assert counted(lab.scan()) == believed(lab.service(), str(table.metadata.table_uuid))


@pytest.mark.parametrize(
    "deliver", ["dropped", "doubled", "reversed", "forged-parent", "forged-manifests", "forged-operation"]
)
def test_what_happens_to_events_delays_and_never_misleads(lab, deliver, tmp_path):
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    events = [lab.append(table, hour, announce=False) for hour in (1, 2, 2, 3)]
    match deliver:
        case "dropped":
            events = []
        case "doubled":
            events = [event for event in events for _ in range(2)]
        case "reversed":
            events.reverse()
        case "forged-parent":
            events = [event.model_copy(update={"parent_id": 17}) for event in events]
        case "forged-manifests":
            events = [events[0].model_copy(update={"added_manifests": events[1].added_manifests})]
        case "forged-operation":
            events = [event.model_copy(update={"operation": "replace", "summary": {}}) for event in events]
    for event in events:
        lab.announce(event)
    settle(service)

    assert counted(lab.scan()) == believed(service, str(table.metadata.table_uuid))
    service.stop()


def test_an_event_of_a_snapshot_that_was_never_committed_is_undone(lab):
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    real = lab.append(table, 2, announce=False)
    head = table.snapshots()[0]
    forged = real.model_copy(
        update={
            "snapshot_id": 4711,
            "parent_id": head.snapshot_id,
            "sequence_number": 9,
            "added_manifests": (),
        }
    )
    lab.announce(forged)
    settle(service)

    assert counted(lab.scan()) == believed(service, str(table.metadata.table_uuid))
    service.stop()


def test_a_rollback_is_followed_back_and_forth(lab):
    table = lab.create()
    for hour in (1, 2, 3):
        lab.append(table, hour)
    service = lab.settled()
    ids = [s.snapshot_id for s in table.refresh().snapshots()]
    uuid = str(table.metadata.table_uuid)
    for target in (ids[0], ids[2], ids[1]):
        table.manage_snapshots().set_current_snapshot(target).commit()
        settle(service)

        assert counted(lab.scan()) == believed(service, uuid)
    service.stop()


def test_a_table_that_is_dropped_and_made_again_begins_from_nothing(lab):
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    lab.catalog.drop_table("shop.orders")
    settle(service)
    # A catalog that is restarted says the same for a moment.
    assert set(service.fold.tables()) == {str(table.metadata.table_uuid)}
    for _ in range(2):
        lab.ahead_ms += 301_000
        settle(service)
    assert service.fold.tables() == {}
    again = lab.create()
    lab.append(again, 5)
    settle(service)

    assert list(service.fold.tables()) == [str(again.metadata.table_uuid)]
    assert counted(lab.scan()) == believed(service, str(again.metadata.table_uuid))
    service.stop()


def test_an_event_that_is_replayed_does_not_make_a_retired_writer_speak_again(lab):
    table = lab.create()
    said = lab.append(table, 1, announce=False)
    service = lab.service()
    service.start()
    service.follower.confirm("shop.orders")
    uuid, now_ms = said.table_uuid, service.now_ms()
    key, value, _ = encode(said)
    first = Message("control", 0, 7, now_ms - 60_000, value, key)
    service.intake.take([first])
    lab.ahead_ms += 7_200_000
    lab.append(table, 1)
    service.intake.take([first])
    (word,) = service.fold.words(uuid)
    heard_at_ms = service.fold.table(uuid).last_event_at_ms

    assert word.at_ms == heard_at_ms == now_ms - 60_000
    service.step(0)
    (newer,) = service.fold.words(uuid)
    service.intake.take([first])

    assert newer.at_ms >= now_ms + 7_200_000
    assert service.fold.words(uuid) == (newer,), "what is replayed is older than what is known"
    assert service.fold.table(uuid).last_event_at_ms == newer.at_ms
    service.stop()


def test_a_writer_that_never_announces_is_usual_and_one_that_stops_is_not(lab):
    table = lab.create()
    lab.append(table, 1, announce=False)
    service = lab.settled()

    lab.append(table, 1, announce=False)
    settle(service)
    lab.ahead_ms += 61_000
    settle(service)
    assert of(lab, seen.GapHealed)[-1].ok
    assert service.fold.table(uuid_of(table)).last_event_at_ms == 0, (
        "what we announce is no event of the writer's"
    )
    lab.append(table, 1)
    settle(service)
    lab.append(table, 1, announce=False)
    settle(service)
    lab.ahead_ms += 61_000
    settle(service)

    assert not of(lab, seen.GapHealed)[-1].ok
    service.stop()


def test_a_table_keeps_its_name_whatever_the_case_in_which_a_writer_spells_it(lab):
    table = lab.create()
    (lab.root / "policies" / "all.yaml").write_text(EAGER.replace('"*"', "shop.orders"))
    any_case(lab.root / "catalog.db")
    slow = lab.config.loop.model_copy(update={"poll_tables_every_s": 3600})
    lab.config = lab.config.model_copy(update={"loop": slow})
    first = lab.append(table, 1, announce=False)
    second = lab.append(table, 1, announce=False)
    service = started(lab)
    service.follower.suspects.add("SHOP.orders")
    for event in (first, second.model_copy(update={"ref": "audit"})):
        settle(service)
        assert list(service.fold.names().values()) == ["shop.orders"]
        lab.announce(event.model_copy(update={"table": "Shop.ORDERS"}))
    settle(service)

    assert list(service.fold.names().values()) == ["shop.orders"]
    assert {one.table.name for one in of(lab, seen.TablePlanned)} == {"shop.orders"}
    service.stop()


def test_a_foreign_event_names_itself(lab):
    """The event that a lab sends is the one that the real contract carries."""
    table = lab.create()
    event = lab.append(table, 1)

    assert event == decode(lab.topic.messages[0]) == event_of(table)


def test_a_true_event_is_enough_the_table_is_scanned_once(lab):
    """Ingest leaves the long offset vector out of the event's summary, and says itself who it is."""
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    token = {"ingest.source": '{"topics":{}}', "ingest.valid-through": "1767225600000"}
    for hour in (1, 2, 3):
        event = lab.append(table, hour, announce=False, snapshot_properties=token)
        summary = {name: value for name, value in event.summary.items() if name != "ingest.source"}
        lab.announce(event.model_copy(update={"summary": summary, "valid_through_ms": 1_767_225_600_000}))
        settle(service)

    assert event.origin == "ingest"
    assert len(of(lab, seen.EventApplied)) == 3
    assert [one.why for one in of(lab, seen.TableScanned)] == ["first seen"]
    service.stop()


def test_events_whose_parent_has_expired_by_the_time_they_are_confirmed_are_accounted_for(lab):
    """PyIceberg takes the parent out of a snapshot when that expires, so it is not what its event said any more."""
    table = lab.create()
    first = lab.append(table, 1).snapshot_id
    service = lab.settled()
    for hour in (1, 2):
        lab.append(table, hour)
    service.consume(service.events.poll(0))
    table.refresh().maintenance.expire_snapshots().by_id(first).commit()
    service.step(0)

    assert of(lab, seen.TableFailed) == []
    assert counted(lab.scan()) == believed(service, uuid_of(table))
    assert service.fold.table(uuid_of(table)).confirmed_head == table.refresh().metadata.current_snapshot_id
