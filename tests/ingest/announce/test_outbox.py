"""Which tables the outbox looks at, when, and what it announces of a table that is handed to it."""

import json
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from structlog.testing import capture_logs

from isotherm.contract.events import decode
from isotherm.runtime import clock
from isotherm_ingest.announce.outbox import Outbox
from isotherm_ingest.http import HANGS_AFTER_S, Health
from isotherm_ingest.kafka import Record
from isotherm_ingest.metrics import Metrics
from isotherm_ingest.tables.lake import Lake
from support.messages import Broker, Session


def watching(*names):
    outbox = Outbox(None, None, "shop", "control", "announced", Metrics(), every_s=5)
    for name in names:
        outbox.wake(name)
    assert outbox.due(0.0).keys() == set(names)
    for _ in names:
        outbox.due(0.0)
    return outbox


@pytest.mark.parametrize(
    "value", [b"", b"[" * 2000, b"7", b'{"pipeline":"shop","snapshot_id":1e999,"sequence_number":1}']
)
def test_a_watermark_that_nobody_can_read_is_none(value, lake):
    broker = Broker(Session())
    broker.send([Record("announced", b"uuid", value)])
    outbox = Outbox(lake, broker, "shop", "control", "announced", Metrics(), every_s=5)
    with capture_logs() as told:
        outbox.recall(None)

    assert [one["event"] for one in told] == ["watermark_unreadable"]


def test_our_own_commits_do_not_put_off_the_look_for_those_of_others():
    outbox = watching("shop.busy", "shop.quiet")

    looked_at = []
    for tenth in range(1, 101):
        outbox.wake("shop.busy")
        looked_at += outbox.due(tenth / 10)
    assert looked_at.count("shop.busy") == 100
    assert looked_at.count("shop.quiet") == 2


def test_without_a_table_the_next_sweep_is_waited_for():
    outbox = Outbox(None, None, "shop", "control", "announced", Metrics(), every_s=5)
    assert outbox.due(0.0) == {}
    assert outbox.next_sweep_s == 5.0


def test_a_sweep_of_many_tables_delays_no_commit_and_rests_twenty_times_as_long_as_it_takes():
    many = {f"shop.t{number}" for number in range(100)}
    outbox = watching(*many, "shop.busy")

    swept = {}
    for second in range(5, 400):
        outbox.wake("shop.busy")
        due = outbox.due(float(second))
        assert "shop.busy" in due
        for name in due.keys() & many:
            swept.setdefault(name, []).append(second)
    assert swept.keys() == many
    assert {len(times) for times in swept.values()} == {1}

    for second in range(400, 5 + 101 + 20 * 101 + 110):
        for name in outbox.due(float(second)).keys() & many:
            swept[name].append(second)
    assert {len(times) for times in swept.values()} == {2}
    assert min(times[1] for times in swept.values()) >= 20 * 101


@pytest.fixture
def lake(tmp_path):
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", ROWS.schema)
    return Lake("lake", properties)


ROWS = pa.table({"id": [1]})


def appended(lake):
    """The table after one commit more."""
    table = lake.catalog.load_table("shop.orders")
    table.append(ROWS)
    return lake.load("shop.orders")


def announced(broker):
    events = [decode(one.value) for one in broker.sent if one.topic == "control"]
    return [one.snapshot_id for one in events]


def test_a_table_that_is_handed_over_is_announced_without_being_loaded(lake):
    broker = Broker(Session())
    outbox = Outbox(lake, broker, "shop", "control", "announced", Metrics(), every_s=5)
    first = appended(lake)
    outbox.announce("shop.orders", first)
    second = appended(lake)
    lake.catalog.rename_table("shop.orders", "shop.away")  # nobody can load it

    assert outbox.announce("shop.orders", second) == 1
    assert announced(broker) == [first.head, second.head]


def test_a_table_that_is_handed_over_late_is_loaded(lake):
    broker = Broker(Session())
    outbox = Outbox(lake, broker, "shop", "control", "announced", Metrics(), every_s=5)
    tables = [appended(lake) for _ in range(3)]
    outbox.announce("shop.orders")  # as a sweep does, which was faster

    with capture_logs() as said:
        assert outbox.announce("shop.orders", tables[1]) == 0
    assert said == []
    assert announced(broker) == [one.head for one in tables]


def test_which_table_had_a_name_is_known_to_the_next_driver_though_it_is_gone(lake):
    broker = Broker(Session())
    outbox, other, later = (
        Outbox(lake, broker, pipeline, "control", "announced", Metrics(), every_s=5)
        for pipeline in ("shop", "other", "shop")
    )
    table = appended(lake)
    assert outbox.announced("shop.orders") is None
    outbox.announce("shop.orders", table)
    lake.catalog.drop_table("shop.orders")
    for one in (other, later):
        one.recall(frozenset({"shop"}))

    assert outbox.announced("shop.orders") == later.announced("shop.orders") == table.uuid
    assert other.announced("shop.orders") is None
    assert later.names == frozenset()


def test_what_others_committed_in_between_is_announced_too(lake):
    broker = Broker(Session())
    outbox = Outbox(lake, broker, "shop", "control", "announced", Metrics(), every_s=5)
    tables = [appended(lake)]
    outbox.announce("shop.orders")
    tables += [appended(lake) for _ in range(3)]

    assert outbox.announce("shop.orders", tables[-1]) == 3
    assert announced(broker) == [one.head for one in tables]


@pytest.mark.parametrize(
    ("snapshot_id", "sequence_number", "expected", "told"),
    [
        (None, 3, [], []),
        (1, 1 << 60, [2], ["history_rollback"]),
        (1, 0, [0, 1, 2], ["history_gap"]),
    ],
    ids=["all is announced", "what is announced lies ahead", "history was cut"],
)
def test_a_forged_watermark_hides_or_doubles_what_was_and_nothing_that_comes(
    lake, snapshot_id, sequence_number, expected, told
):
    """The daemon finds by itself what was left out; the table is never written by a watermark."""
    tables = [appended(lake) for _ in range(3)]
    forged = {
        "pipeline": "shop",
        "snapshot_id": snapshot_id or tables[-1].head,
        "sequence_number": sequence_number,
    }
    broker = Broker(Session())
    broker.send([Record("announced", tables[0].uuid.encode(), json.dumps(forged).encode())])
    outbox = Outbox(lake, broker, "shop", "control", "announced", Metrics(), every_s=5)
    outbox.recall(None)
    with capture_logs() as said:
        assert outbox.announce("shop.orders") == len(expected)
    assert [one["event"] for one in said] == told

    tables.append(appended(lake))
    assert outbox.announce("shop.orders") == 1
    assert announced(broker) == [tables[one].head for one in [*expected, 3]]


def test_a_table_that_gets_its_name_back_is_announced_again(lake):
    broker = Broker(Session())
    outbox = Outbox(lake, broker, "shop", "control", "announced", Metrics(), every_s=5)
    tables = [appended(lake)]
    outbox.wake("shop.orders")

    def look(now_s):
        return [outbox.announce(name) for name in outbox.due(now_s)]

    assert look(0.0) + look(0.0) == [1]
    assert outbox.changed() == frozenset()
    lake.catalog.rename_table("shop.orders", "shop.away")
    assert look(6.0) + look(6.0) == [0]
    assert outbox.changed() == {"shop.orders"}
    lake.catalog.rename_table("shop.away", "shop.orders")
    tables.append(appended(lake))  # by somebody else

    assert look(12.0) == [1]
    assert (outbox.changed(), outbox.changed()) == ({"shop.orders"}, frozenset())
    assert announced(broker) == [one.head for one in tables]


@pytest.mark.parametrize(("last_look_s", "of_others"), [(0.0, 0), (60.0, 2)])
def test_a_stop_announces_our_own_commits_and_looks_for_those_of_others_for_a_while(
    lake, last_look_s, of_others
):
    broker = Broker(Session())
    broker.newest_by_key = lambda _: {}
    outbox = Outbox(
        lake, broker, "shop", "control", "announced", Metrics(), every_s=5, last_look_s=last_look_s
    )
    for name in ("shop.others", "shop.also_others"):
        table = lake.catalog.create_table(name, ROWS.schema, properties={"ingest.pipeline": "shop"})
        table.append(ROWS)
    own = appended(lake)
    outbox.wake("shop.orders", own)
    outbox.stop()
    outbox.begin(frozenset({"shop"}))
    outbox.stop()

    assert announced(broker)[0] == own.head
    assert len(announced(broker)) == 1 + of_others


def test_a_table_whose_history_goes_in_a_circle_is_told_and_the_others_are_announced(lake):
    bad = appended(lake)
    snapshot = bad.table.metadata.snapshots[0]
    circle = snapshot.model_copy(update={"parent_snapshot_id": snapshot.snapshot_id})
    metadata = bad.table.metadata.model_copy(update={"snapshots": [circle]})
    Path(bad.table.metadata_location.removeprefix("file://")).write_text(metadata.model_dump_json())
    broker = Broker(Session())
    watermark = {"pipeline": "shop", "snapshot_id": 1, "sequence_number": 0}
    broker.send([Record("announced", bad.uuid.encode(), json.dumps(watermark).encode())])
    table = lake.catalog.create_table("shop.others", ROWS.schema, properties={"ingest.pipeline": "shop"})
    table.append(ROWS)
    outbox = Outbox(lake, broker, "shop", "control", "announced", Metrics(), every_s=5)
    outbox.stop()
    with capture_logs() as said:
        outbox.begin(frozenset({"shop"}))
        outbox.stop()

    assert announced(broker) == [table.current_snapshot().snapshot_id]
    assert [(one["event"], one["table"]) for one in said] == [("announce_failed", "shop.orders")]
    assert "came before itself" in said[0]["error"]


class HangingBroker(Broker):
    """One that takes a record, and comes back when it is let go."""

    def __init__(self):
        super().__init__(Session())
        self.asked, self.let_go = threading.Event(), threading.Event()

    def read_all(self, _topic):
        return []

    def send(self, _records):
        self.asked.set()
        self.let_go.wait(60)


def test_an_outbox_that_hangs_is_seen_and_keeps_no_driver_from_its_end(lake):
    broker = HangingBroker()
    outbox = Outbox(lake, broker, "shop", "control", "announced", Metrics(), every_s=5, ends_within_s=0.05)
    now_s = clock.monotonic_s()
    health = Health(now_s + 2 * HANGS_AFTER_S, outbox_turned_s=lambda: outbox.turned_s)
    outbox.begin(frozenset({"shop"}))
    outbox.wake("shop.orders", appended(lake))
    assert broker.asked.wait(60)

    with capture_logs() as said:
        assert not health.why_dead(now_s)
        assert health.why_dead(now_s + 2 * HANGS_AFTER_S) == "the outbox hangs"
        assert health.why_dead(now_s + 2 * HANGS_AFTER_S) == "the outbox hangs"
        outbox.stop()
    broker.let_go.set()
    assert [(one["event"], "send" in one["threads"]["outbox"]) for one in said] == [
        ("outbox_hangs", True)
    ] * 2


def test_an_outbox_that_waits_for_its_next_sweep_does_not_hang(lake):
    broker = HangingBroker()
    outbox = Outbox(lake, broker, "shop", "control", "announced", Metrics(), every_s=10 * HANGS_AFTER_S)
    outbox.begin(frozenset())
    began_s = clock.monotonic_s()
    while outbox.turned_s < began_s + HANGS_AFTER_S:
        assert clock.monotonic_s() < began_s + 60
    health = Health(began_s + 8 * HANGS_AFTER_S, outbox_turned_s=lambda: outbox.turned_s)
    assert not health.why_dead(began_s + 8 * HANGS_AFTER_S)
    assert health.why_dead(began_s + 12 * HANGS_AFTER_S)
    outbox.stop()
