"""A topic that lost its newest messages gives their offsets to others: that is told, and they are written where it may be."""

import random

import pytest
from structlog.testing import capture_logs

from support.cut_backs import after_it, begun, cut, minutes, says, whys
from support.messages import TOMBSTONE, envelope
from support.pipelines import CUSTOMERS, ORDERS, Pipeline, messages

WAYS = ("halt", "backfill", "accept")


@pytest.mark.parametrize("restart", [None, "meanwhile", "before it grows", "after it has grown"])
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("grows", [(8,), tuple(range(7, 15))])
def test_what_comes_in_the_place_of_lost_messages_is_written_once_somebody_may(how, restart, grows):
    """The driver has seen the end go back, or begins when it lies behind the marks. It comes back at once, or bit by bit."""
    pipeline = begun(how)
    if restart == "meanwhile":
        pipeline.driver.stop()
    cut(pipeline, 6)
    with capture_logs() as logs:
        pipeline.start() if restart == "meanwhile" else pipeline.minute()
        if restart == "before it grows":
            pipeline.start()
        for end in (*grows, 15):
            written = max(one.offset for one in pipeline.session.kafka if one.topic == ORDERS) + 1
            pipeline.send(*messages(ORDERS, *range(written, end)))
            minutes(pipeline)
        if restart == "after it has grown":
            pipeline.start()
            minutes(pipeline)

    assert [one["ends_at"] for one in logs if one["event"] == "topic_cut_back"] == [6]
    assert after_it(pipeline) == ([] if how == "halt" else [*range(6, 15)])
    assert pipeline.is_left_out("orders") == (how == "halt")
    assert pipeline.rows("customers") == [0]
    told = f"topic_cut_back ({ORDERS}/0: needs 10, could go on from 6)"
    assert whys(logs) == ([] if how == "halt" else [told])


def test_who_decides_later_has_all_that_came_meanwhile_and_of_a_second_cut_what_was_left():
    pipeline = begun("halt")
    cut(pipeline, 6)
    pipeline.minute()
    pipeline.send(*messages(ORDERS, *range(6, 20)))
    minutes(pipeline)
    cut(pipeline, 18)
    minutes(pipeline)
    pipeline.send(*messages(ORDERS, *range(18, 25)))
    minutes(pipeline)
    assert after_it(pipeline) == []

    pipeline.start(says("accept"))
    minutes(pipeline)
    assert after_it(pipeline) == [*range(6, 25)]

    cut(pipeline, 22)
    pipeline.minute()
    pipeline.send(*messages(ORDERS, *range(22, 30)))
    minutes(pipeline)
    pipeline.start(says("halt"))
    minutes(pipeline)
    assert after_it(pipeline) == [*range(6, 25), *range(22, 30)]
    assert not pipeline.is_left_out("orders")


def test_a_table_without_rows_among_the_lost_messages_goes_on_behind_the_cut_untold():
    pipeline = begun("halt")
    pipeline.send(*messages(ORDERS, *range(10, 20), schema=0))
    minutes(pipeline)
    cut(pipeline, 15)
    pipeline.minute()
    pipeline.send(*messages(ORDERS, *range(15, 25)))
    pipeline.start()
    minutes(pipeline)

    assert after_it(pipeline) == [*range(15, 25)]
    assert not pipeline.is_left_out("orders")


@pytest.mark.parametrize("restart", [False, True])
def test_messages_that_were_lost_before_a_failing_table_had_them_are_told(restart):
    pipeline = begun("accept")
    pipeline.errors["shop.orders"] = OSError("away")
    pipeline.send(*messages(ORDERS, *range(10, 20)), *messages(CUSTOMERS, 1))
    minutes(pipeline, 1)
    cut(pipeline, 14)
    with capture_logs() as logs:
        minutes(pipeline, 1)
        pipeline.send(*messages(ORDERS, *range(14, 16)))
        if restart:
            pipeline.start()
        pipeline.errors.clear()
        minutes(pipeline)

    assert after_it(pipeline) == [*range(10, 16)]
    assert whys(logs) == [f"topic_cut_back ({ORDERS}/0: needs 20, could go on from 14)"]


def test_a_table_whose_token_has_expired_while_a_cut_halted_it_gets_nothing_twice():
    """What it has nobody knows by then, so it cannot be filled; where it goes on is known."""
    pipeline = begun("halt")
    cut(pipeline, 6)
    minutes(pipeline)
    pipeline.send(*messages(ORDERS, *range(6, 15)))
    minutes(pipeline)
    table = pipeline.lake.tables["shop.orders"]
    table.has, table.ids, table.cuts, table.is_cut = {}, {}, {}, True
    for how, rows in (("backfill", []), ("accept", [*range(6, 15)])):
        pipeline.start(says(how))
        minutes(pipeline)
        assert (after_it(pipeline), pipeline.is_left_out("orders")) == (rows, how == "backfill")


@pytest.mark.parametrize("when", ["halted", "halted before a restart", "away in a restart"])
def test_a_table_that_a_cut_has_halted_stays_so_however_many_messages_of_others_pass_it(when):
    """What it was still to get is lost. It is seen through to behind the cut, where the front begins."""
    pipeline = Pipeline(says("halt"))
    third = {"schema": 9, "value": envelope("third", ("id", "int64"))}
    pipeline.send(*messages(ORDERS, *range(3)), *messages(ORDERS, 3, **third))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, *range(4, 8), schema=TOMBSTONE))
    pipeline.minute()
    pipeline.errors["shop.orders"] = OSError("away")
    pipeline.send(*messages(ORDERS, 8, 9))
    pipeline.minute()
    cut(pipeline, 6)
    pipeline.turn()
    if when == "away in a restart":
        pipeline.start()
        pipeline.send(*messages(ORDERS, *range(6, 20), **third))
        pipeline.minute()
    pipeline.errors.clear()
    minutes(pipeline)
    assert pipeline.is_left_out("orders")

    if when == "halted before a restart":
        pipeline.start()
    if when != "away in a restart":
        pipeline.send(*messages(ORDERS, *range(6, 20), **third))
    minutes(pipeline)
    pipeline.send(*messages(ORDERS, 20))
    minutes(pipeline)
    assert (pipeline.rows("orders"), pipeline.is_left_out("orders")) == ([0, 1, 2], True)
    assert pipeline.rows("third") == [3, *range(6, 20)]

    pipeline.start(says("accept"))
    minutes(pipeline)
    assert (pipeline.rows("orders"), pipeline.is_left_out("orders")) == ([0, 1, 2, 20], False)


def test_a_partition_that_is_cut_back_while_it_has_no_leader_is_held_against_its_mark():
    pipeline = Pipeline(says("accept"))
    pipeline.send(*messages(ORDERS, *range(10)), *messages(ORDERS, *range(10), partition=1))
    pipeline.minute()
    pipeline.broker.without_leader = {(ORDERS, 1)}
    pipeline.start()
    minutes(pipeline, 1)
    pipeline.session.kafka[:] = [
        one for one in pipeline.session.kafka if one.partition == 0 or one.offset < 6
    ]
    pipeline.broker.without_leader = set()
    with capture_logs() as logs:
        pipeline.minute()
        pipeline.send(*messages(ORDERS, *range(6, 15), partition=1))
        minutes(pipeline)

    assert [one["ends_at"] for one in logs if one["event"] == "topic_cut_back"] == [6]
    assert after_it(pipeline) == [*range(10), *range(6, 15)]


def test_a_topic_that_is_made_again_has_none_of_the_cuts_of_the_one_before():
    pipeline = begun("accept")
    cut(pipeline, 6)
    minutes(pipeline)
    pipeline.session.kafka[:] = [*messages(ORDERS, *range(8)), *messages(CUSTOMERS, 0)]
    pipeline.broker.ids[ORDERS] = "another id"
    minutes(pipeline)
    pipeline.send(*messages(ORDERS, 8, 9))
    pipeline.start()
    minutes(pipeline)

    assert after_it(pipeline) == [*range(10)]
    assert pipeline.store[ORDERS, 0].cuts == ()


@pytest.mark.parametrize("seed", range(30))
def test_whatever_befalls_it_each_message_that_kafka_has_left_is_written_once(seed):
    """By the end; of what was lost again, at most once for each time that its offset was given."""
    dice = random.Random(seed)
    pipeline = Pipeline(says("accept"))
    ends, given = {0: 0, 1: 0}, {0: [], 1: []}
    for _ in range(40):
        part = dice.randrange(2)
        match dice.randrange(8):
            case 0 if ends[part]:
                ends[part] = dice.randrange(max(ends[part] - 6, 1), ends[part] + 1)
                pipeline.session.kafka[:] = [
                    one for one in pipeline.session.kafka if one.partition != part or one.offset < ends[part]
                ]
                pipeline.turn()  # the end is seen before it grows again
            case 1:
                pipeline.start()
            case 2:
                pipeline.errors["shop.orders"] = OSError("away")
            case 3 | 4:
                pipeline.errors.clear()
                pipeline.minute()
            case _:
                new = range(ends[part], ends[part] + dice.randrange(1, 5))
                pipeline.send(*messages(ORDERS, *new, partition=part))
                given[part] += new
                ends[part] = new.stop
                pipeline.now_s += dice.choice([1, 61])
                pipeline.turn()
    pipeline.errors.clear()
    minutes(pipeline)

    rows = pipeline.lake.tables["shop.orders"].rows
    for part, end in ends.items():
        mine = [offset for _, number, offset in rows if number == part]
        assert set(range(end)) <= set(mine)
        assert all(mine.count(one) <= given[part].count(one) for one in mine)
