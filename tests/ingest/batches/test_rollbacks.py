"""A table that was rolled back or dropped is told, and filled or accepted as its stream says."""

import pytest
from structlog.testing import capture_logs

from support.messages import envelope
from support.pipelines import CONFIG, CUSTOMERS, ORDERS, Pipeline, messages

ONE_TABLE = CONFIG.replace('table: "shop.{table}"', 'table: "shop.{table}", mode: changelog')


def changes(topic, *offsets):
    """Of one table, whatever the topic."""
    return messages(topic, *offsets, schema=12, value=envelope("all", ("id", "int64")))


@pytest.mark.parametrize("restart", [False, True])
def test_a_rollback_halts_the_table_alone(pipeline, restart):
    pipeline.send(*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.lake.tables["shop.orders"].has = {(ORDERS, 0): 1}
    if restart:
        pipeline.start()
    pipeline.send(*messages(ORDERS, 3), *messages(CUSTOMERS, 1))
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 1, 2]
    assert pipeline.rows("customers") == [0, 1]
    assert pipeline.is_left_out("orders")
    assert pipeline.sample("holes_total", table="shop.orders", why="table_rolled_back") >= 1


def test_a_rollback_of_a_table_whose_topics_are_quiet_is_told_once_somebody_has_seen_it(pipeline):
    """The outbox has, which looks at each table every few seconds."""
    pipeline.send(*messages(ORDERS, 0, 1, 2))
    pipeline.minute()
    pipeline.lake.tables["shop.orders"].has = {(ORDERS, 0): 1}
    pipeline.minute()
    assert not pipeline.is_left_out("orders")

    pipeline.outbox.noticed = {"shop.orders", "shop.never_met"}
    pipeline.minute()

    assert pipeline.is_left_out("orders")
    assert pipeline.sample("holes_total", table="shop.orders", why="table_rolled_back") >= 1


def test_a_hole_that_is_accepted_is_told_before_the_table_goes_on_behind_it(pipeline):
    """A driver that dies between the commit and the telling has told it; the table itself says nothing of it any more."""
    pipeline.start(CONFIG.replace("table}", 'table}", on_hole: "accept'))
    pipeline.send(*messages(ORDERS, 0, 1, 2))
    pipeline.minute()
    table = pipeline.lake.tables["shop.orders"]
    table.has, table.rows = {(ORDERS, 0): 1}, table.rows[:1]
    pipeline.send(*messages(ORDERS, 3))
    pipeline.errors["shop.orders"] = KeyboardInterrupt()
    pipeline.now_s += 60
    with capture_logs() as said, pytest.raises(KeyboardInterrupt):
        pipeline.turn()

    assert [one["hole"] for one in said if one["event"] == "changes_missing"] == [
        f"table_rolled_back ({ORDERS}/0: needs 1, could go on from 3)"
    ]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(("on_hole", "expected"), [("backfill", [0, 1, 2, 3]), ("accept", [0, 3])])
def test_a_rollback_is_filled_or_accepted_as_the_stream_says(pipeline, restart, on_hole, expected):
    config = CONFIG.replace("table}", f'table}}", on_hole: "{on_hole}')
    pipeline.start(config)
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1, 2))
    pipeline.minute()
    table = pipeline.lake.tables["shop.orders"]
    table.has, table.rows = {(ORDERS, 0): 1}, table.rows[:1]
    if restart:
        pipeline.start(config)
    pipeline.send(*messages(ORDERS, 3))
    pipeline.minute()
    pipeline.minute()

    assert pipeline.rows("orders") == expected
    assert pipeline.sample("holes_total", table="shop.orders", why="table_rolled_back") == 1


@pytest.mark.parametrize("restart", [False, True])
def test_a_table_that_is_dropped_is_not_begun_again_with_the_newest_rows(pipeline, restart):
    pipeline.send(*messages(ORDERS, 0, 1))
    pipeline.minute()
    del pipeline.lake.tables["shop.orders"]
    if restart:
        pipeline.start()
    pipeline.send(*messages(ORDERS, 2))
    pipeline.minute()
    assert "shop.orders" not in pipeline.lake.tables
    assert pipeline.is_left_out("orders")

    pipeline.start(CONFIG.replace("table}", 'table}", on_hole: "backfill'))
    pipeline.minute()
    assert pipeline.rows("orders") == [0, 1, 2]


SHARED = CONFIG.replace("shop.{table}", 'shop.all", on_hole: "HOLE')
"""Two topics, one table."""


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("is_kept", [True, False], ids=["Kafka has it all", "retention has passed"])
@pytest.mark.parametrize(("on_hole", "filled"), [("halt", False), ("backfill", True), ("accept", False)])
def test_a_dropped_table_is_not_begun_again_by_a_topic_that_it_never_had(on_hole, filled, is_kept, restart):
    """What it had of its other topic is missing, whoever speaks first."""
    config = SHARED.replace("HOLE", on_hole)
    pipeline = Pipeline(config)
    pipeline.send(*messages(ORDERS, 0, 1, 2))
    pipeline.minute()
    del pipeline.lake.tables["shop.all"]
    if not is_kept:
        pipeline.session.kafka[:] = messages(ORDERS, 2)
        pipeline.broker.kept_from[ORDERS, 0] = 2
    pipeline.send(*messages(CUSTOMERS, 0))
    if restart:
        pipeline.start(config)
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 3))
    pipeline.minute()
    pipeline.minute()

    assert pipeline.sample("holes_total", table="shop.all", why="table_made_again") >= 1
    if on_hole == "halt":
        assert "shop.all" not in pipeline.lake.tables
        assert pipeline.is_left_out("all")
        return
    old = [0, 1, 2] if is_kept else [2]
    assert pipeline.rows("all") == sorted([*(old if filled else []), 0, 3])


@pytest.mark.parametrize("restart", [False, True])
def test_what_one_topic_of_a_table_lacks_is_not_lifted_by_another(restart):
    pipeline = Pipeline(SHARED.replace("HOLE", "halt"))
    pipeline.send(*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.session.kafka[:] = [*messages(ORDERS, 0, 1), *messages(CUSTOMERS, 0)]
    pipeline.broker.ids[ORDERS] = "another id"
    pipeline.minute()
    assert pipeline.is_left_out("all")
    if restart:
        pipeline.start()
    for offset in range(1, 6):
        pipeline.send(*messages(CUSTOMERS, offset))
        for _ in range(10):
            pipeline.minute()
            assert pipeline.is_left_out("all")

    assert pipeline.rows("all") == [0, 0, 1, 2]
    pipeline.start(SHARED.replace("HOLE", "backfill"))
    pipeline.minute()
    pipeline.minute()
    assert not pipeline.is_left_out("all")
    assert pipeline.rows("all") == sorted([0, 0, 1, 2, 0, 1, 1, 2, 3, 4, 5])


@pytest.mark.parametrize("restart", [False, True])
def test_a_rollback_that_was_told_stands_though_the_token_has_expired_since(pipeline, restart):
    """Without a token, and with a history that is cut, the table seems to have what was last known of it."""
    pipeline.send(*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0))
    pipeline.minute()
    table = pipeline.lake.tables["shop.orders"]
    table.has, table.rows = {(ORDERS, 0): 1}, table.rows[:1]
    pipeline.send(*messages(ORDERS, 3), *messages(CUSTOMERS, 1))
    pipeline.minute()
    assert pipeline.is_left_out("orders")
    table.has, table.is_cut = {}, True
    if restart:
        pipeline.start()
    for offset in range(4, 8):
        pipeline.send(*messages(ORDERS, offset))
        pipeline.minute()

    assert pipeline.is_left_out("orders")
    assert pipeline.rows("orders") == [0]
    pipeline.start(CONFIG.replace("table}", 'table}", on_hole: "accept'))
    pipeline.minute()
    pipeline.minute()
    assert pipeline.rows("orders") == [0, 3, 4, 5, 6, 7]


def test_a_table_whose_token_has_expired_goes_on_where_it_was(pipeline):
    pipeline.send(*messages(ORDERS, 0, 1, 2))
    pipeline.minute()
    table = pipeline.lake.tables["shop.orders"]
    table.has, table.is_cut = {}, True
    pipeline.send(*messages(ORDERS, 3))
    pipeline.minute()

    assert not pipeline.is_left_out("orders")
    assert pipeline.rows("orders") == [0, 1, 2, 3]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("on_hole", ["halt", "backfill"])
def test_a_table_of_several_topics_whose_token_has_expired_goes_on_in_each_of_them(on_hole, restart):
    """The next token speaks for all of them, or what the table has of the others seems to be gone."""
    pipeline = Pipeline(SHARED.replace("HOLE", on_hole))
    pipeline.send(*messages(ORDERS, 0, 1), *messages(CUSTOMERS, 0, 1))
    pipeline.minute()
    table = pipeline.lake.tables["shop.all"]
    table.has, table.ids, table.is_cut = {}, {}, True
    pipeline.send(*messages(ORDERS, 2))
    pipeline.minute()
    if restart:
        pipeline.start()
    pipeline.send(*messages(CUSTOMERS, 2))
    pipeline.minute()

    assert sorted(table.rows) == [(topic, 0, offset) for topic in (CUSTOMERS, ORDERS) for offset in range(3)]
    assert pipeline.sample("holes_total", table="shop.all", why="table_rolled_back") is None


def test_a_rollback_is_filled_for_all_topics_of_the_table():
    pipeline = Pipeline(CONFIG.replace("shop.{table}", 'shop.all", on_hole: "backfill'))
    pipeline.send(*messages(ORDERS, 0), *messages(CUSTOMERS, 0))
    pipeline.minute()
    table = pipeline.lake.tables["shop.all"]
    table.has, table.rows = {}, []
    pipeline.send(*messages(ORDERS, 1))
    pipeline.minute()
    pipeline.minute()

    assert sorted(table.rows) == [(CUSTOMERS, 0, 0), (ORDERS, 0, 0), (ORDERS, 0, 1)]


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("restart", [False, True])
def test_where_a_rollback_is_filled_a_partition_that_came_later_waits_once_more(restart, size):
    """The table had nothing of it, and had seen it through. A key's newest change is there, its older ones are to be filled."""
    config = CONFIG.replace("messages: 4", f"messages: {size}").replace(
        "table}", 'table}", on_hole: "backfill'
    )
    pipeline = Pipeline(config)
    nameless = {"schema": 8, "value": '{"schema": {}, "payload": {"op": "c"}}'}
    pipeline.send(*messages(ORDERS, 0, 1))
    pipeline.minute()
    table = pipeline.lake.tables["shop.orders"]
    old = dict(table.has), list(table.rows)
    pipeline.send(*messages(ORDERS, 2, 3))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 0, 1, partition=1, **nameless))
    pipeline.minute()
    table.has, table.rows = old
    pipeline.outbox.noticed.add("shop.orders")
    if restart:
        pipeline.start()
    pipeline.send(*messages(ORDERS, 2, partition=1))
    pipeline.recovers()
    pipeline.driver.stop()

    of_it = [row[1:] for batch in table.batches for row in sorted(batch)]
    assert of_it[-1] == (1, 2)
    assert pipeline.lake.tables["shop.orders"].rows.count((ORDERS, 1, 2)) == 1
    assert all((1, 2) not in [row[1:] for row in batch] or len(batch) == 1 for batch in table.batches)


@pytest.mark.parametrize("below", [5, 21])
def test_what_retention_takes_of_what_is_read_once_more_halts_nothing_unless_it_was_never_seen(below):
    """A partition of which the table has nothing waits at Kafka's beginning until the others are filled."""
    config = CONFIG.replace("table}", 'table}", on_hole: "backfill')
    pipeline = Pipeline(config)
    nameless = {"schema": 8, "value": '{"schema": {}, "payload": {"op": "c"}}'}
    pipeline.send(*messages(ORDERS, *range(10)))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, *range(20), partition=1, **nameless))
    pipeline.minute()
    table = pipeline.lake.tables["shop.orders"]
    old = dict(table.has), list(table.rows)
    pipeline.send(*messages(ORDERS, *range(10, 40)))
    pipeline.minute()
    table.has, table.rows = old
    pipeline.outbox.noticed.add("shop.orders")
    for _ in range(3):
        pipeline.turn()
    pipeline.send(*messages(ORDERS, 20, 21, partition=1))
    pipeline.broker.kept_from[ORDERS, 1] = below
    pipeline.session.kafka[:] = [
        one for one in pipeline.session.kafka if one.partition == 0 or one.offset >= below
    ]
    pipeline.recovers()
    pipeline.driver.stop()

    assert pipeline.is_left_out("orders") is (below > 20)
    if below <= 20:
        assert sorted(row[1:] for row in table.rows) == [*((0, n) for n in range(40)), (1, 20), (1, 21)]


def test_a_rollback_is_told_though_the_table_lacks_something_that_nobody_can_bring_it():
    pipeline = Pipeline(ONE_TABLE)
    pipeline.send(*changes(ORDERS, 0), *changes(CUSTOMERS, 0))
    pipeline.minute()
    table = pipeline.lake.tables["shop.all"]
    early = dict(table.has), list(table.rows), dict(table.ids)
    pipeline.send(*changes(CUSTOMERS, 1, 2))
    pipeline.minute()
    pipeline.errors["shop.all"] = OSError("away")
    pipeline.send(*changes(ORDERS, 1))
    pipeline.minute()
    pipeline.errors.clear()
    pipeline.broker.without_leader = {(ORDERS, 0)}
    pipeline.minute()

    table.has, table.rows, table.ids = early
    pipeline.outbox.noticed = {"shop.all"}
    pipeline.minute()

    assert pipeline.is_left_out("all")
    assert pipeline.sample("holes_total", table="shop.all", why="table_rolled_back") >= 1
    pipeline.driver.stop()
