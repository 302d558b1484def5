"""Holds are told a few at a time, what stops a table first, and what is refused is told again later."""

from collections import Counter
from dataclasses import replace

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.holds import Hold, HoldKind, PartSize
from isotherm.core.part_size import GROWS_MS, allowed_bytes
from isotherm.service.ports import Refused
from isotherm.service.topics.holds import REFUSED_FOR_MS, TELL_FOR_S, Holds
from isotherm.store import Ledger
from support.held import due_table, hold_of, put
from support.lab import uuid_of
from support.memory_topics import Clock, MemoryKeyedTopic


def holds_on(topic, ledger, clock):
    return Holds(topic, ledger, lambda _: None, clock.now_ms, lambda _: None, clock.monotonic_s)


class SlowHolds(MemoryKeyedTopic):
    """A broker that takes half of the time for a record."""

    def __init__(self, clock):
        super().__init__([])
        self.clock = clock

    def write(self, key, value):
        super().write(key, value)
        self.clock.advance(TELL_FOR_S / 2)


def test_what_a_topic_has_lost_is_told_some_at_a_time_and_what_stops_a_table_first():
    clock, ledger = Clock(), Ledger(None)
    topic = SlowHolds(clock)
    holds = holds_on(topic, ledger, clock)
    for uuid in "abc":
        wait = Hold(HoldKind.QUARANTINE, uuid, "", "storage", 1, partition=PartitionKey("{}"), until_ms=2)
        ledger.hold(wait, told=False)
    holds.put(Hold(HoldKind.HALT, "z", "", "why", 1))

    assert [key for key, _ in topic.records] == ["z/halt", "a/quarantine/{}"]
    assert holds.refresh(5.0)
    assert [key for key, _ in topic.records[2:]] == ["b/quarantine/{}", "c/quarantine/{}"]


def test_waits_that_were_over_long_ago_are_lifted_together_and_told_some_at_a_time():
    clock, ledger = Clock(), Ledger(None)
    topic = SlowHolds(clock)
    holds = holds_on(topic, ledger, clock)
    for uuid in "abcd":
        wait = Hold(HoldKind.QUARANTINE, uuid, "", "storage", 1, partition=PartitionKey("{}"), until_ms=2)
        ledger.hold(wait, told=True)
    holds.lift_old(lambda _: True)

    assert [ledger.holds(uuid) for uuid in "abcd"] == [[]] * 4
    assert topic.records == [("a/quarantine/{}", None), ("b/quarantine/{}", None)]


def test_a_size_is_kept_as_long_as_it_says_something_however_long_its_wait_is_over():
    """It went a week after the last job: whoever had one a month began with the whole partition each time."""
    clock, ledger = Clock(), Ledger(None)
    holds = holds_on(MemoryKeyedTopic([]), ledger, clock)
    ended_ms = clock.now_ms()
    part = PartSize(1000, ended_ms)
    wait = Hold(HoldKind.QUARANTINE, "t", "", "", 1, PartitionKey("{}"), ended_ms, part=part)
    ledger.hold(wait, told=True)
    kept = []
    for _ in range(4):
        clock.advance(GROWS_MS / 1000)
        holds.lift_old(lambda _: True)
        kept.append([allowed_bytes(one.part, clock.now_ms()) for one in ledger.holds("t")])

    assert kept == [[2000], [4000], [8000], []]


def test_the_waits_of_a_table_cost_as_much_as_there_are_of_them_and_an_event_of_it_nothing(lab):
    """Of a store that takes no files, thousands of partitions wait."""
    table = due_table(lab)
    service = lab.settled()
    uuid, steps = uuid_of(table), Counter()
    wait = hold_of(table, HoldKind.QUARANTINE, until_ms=2**45, failures=1)

    def cost(act):
        steps.clear()
        service.ledger.db.set_progress_handler(lambda: steps.update(["ledger"]), 10)
        act()
        service.ledger.db.set_progress_handler(None, 10)
        return steps["ledger"]

    def read(count):
        for _ in range(count):
            put(lab, replace(wait, partition=PartitionKey(f'{{"1000":{len(lab.held)}}}')))
        return cost(lambda: service.holds.refresh(0))

    def hear():
        lab.append(table, 9)
        return cost(lambda: service.consume(service.events.poll(0)))

    hear()
    before, few = hear(), read(200)
    many = read(200)  # beside as many that are known

    assert len(service.ledger.holds(uuid)) == 400
    assert many < 1.5 * few
    assert hear() < 1.5 * before
    service.stop()


class RefusingHolds(MemoryKeyedTopic):
    """A broker that takes no record of one table, as one that is too large for it."""

    def __init__(self, uuid):
        super().__init__([])
        self.uuid, self.refused = uuid, []

    def write(self, key, value):
        if key.startswith(f"{self.uuid}/"):
            self.refused.append(value)
            raise Refused("MSG_SIZE_TOO_LARGE")
        super().write(key, value)


def test_a_record_that_is_refused_is_tried_again_after_an_hour_or_once_it_is_another():
    clock, ledger, topic = Clock(), Ledger(None), RefusingHolds("large")
    holds = holds_on(topic, ledger, clock)
    large = Hold(HoldKind.HALT, "large", "", "why", 1)
    holds.put(large)
    holds.put(Hold(HoldKind.HALT, "other", "", "why", 1))
    assert ([key for key, _ in topic.records], len(topic.refused)) == (["other/halt"], 1)

    clock.advance(REFUSED_FOR_MS / 1000 - 1)
    holds.refresh(5.0)
    assert len(topic.refused) == 1
    holds.put(replace(large, why="another"))
    assert len(topic.refused) == 2
    clock.advance(REFUSED_FOR_MS / 1000)
    topic.uuid = "nobody"
    holds.refresh(5.0)
    assert [key for key, _ in topic.records] == ["other/halt", "large/halt"]
    assert ledger.untold() == []
