"""What a last look sees before a swap, and what cancels a job: intents, holds, clocks, mistakes of ours."""

import pytest

from isotherm.contract.events import Intent, encode
from isotherm.contract.identity import PartitionKey
from isotherm.runtime.clock import now_ms
from isotherm.service.topics.events_to_state import Touched
from support.deleting import clock_wrong, followed
from support.lab import EXPIRING, Lab, uuid_of, with_a_job


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=EXPIRING)


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


def test_a_commit_that_nobody_announced_ends_a_job_once_its_table_was_looked_at(tmp_path):
    lab = Lab(tmp_path)
    table, service = with_a_job(lab)
    lab.append(table, 9, announce=False)
    service.rounds.confirm("shop.orders")
    service.compactions.cancel_hot()
    assert len(service.compactions) == 1, "it wrote another partition"
    lab.append(table, 1, announce=False)
    service.rounds.confirm("shop.orders")

    service.compactions.cancel_hot()

    assert [one.reason for one in service.ledger.operations()] == ["hot"]
    assert len(service.compactions) == 0
    service.stop()
