"""Messages that no client can unpack are a hole of the tables that need them, and no other table waits for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from isotherm_ingest.first_readable import SINGLE_STEPS, behind_damage
from support.pipelines import CONFIG, CUSTOMERS, ORDERS, Pipeline, messages

ACCEPT = CONFIG.replace("table}", 'table}", on_hole: "accept')
BACKFILL = CONFIG.replace("table}", 'table}", on_hole: "backfill')
HOLE = f"topic_damaged ({ORDERS}/0: needs 5, could go on from 8)"


def damage(pipeline, *stretches, topic=ORDERS):
    pipeline.session.damaged[topic, 0] = stretches


def minutes(pipeline, count):
    for _ in range(count):
        pipeline.minute()


@pytest.mark.parametrize("config", [CONFIG, BACKFILL], ids=["halt", "backfill"])
def test_a_batch_that_nobody_can_unpack_halts_its_table_alone_and_says_what_to_do(config):
    pipeline = Pipeline(config)
    pipeline.send(*messages(ORDERS, *range(12)), *messages(CUSTOMERS, 0))
    damage(pipeline, (5, 8))
    with capture_logs() as said:
        pipeline.minute()
        pipeline.send(*messages(CUSTOMERS, 1))
        minutes(pipeline, 3)

    assert (pipeline.rows("orders"), pipeline.rows("customers")) == ([0, 1, 2, 3, 4], [0, 1])
    assert pipeline.is_left_out("orders")
    assert pipeline.sample("holes_total", table="shop.orders", why="topic_damaged") >= 1
    halted = [one for one in said if one["event"] == "batch_failed"]
    assert all(
        one["refused"] and HOLE in one["error"] and "on_hole: accept" in one["error"] for one in halted
    )
    assert halted
    read = [one["error"] for one in said if one["event"] == "read_failed"]
    assert any(f"{ORDERS}/0, offset 5: no client can unpack" in one for one in read)
    pipeline.driver.stop()


@pytest.mark.parametrize("restart", [False, True])
def test_who_accepts_a_batch_that_nobody_can_unpack_goes_on_behind_it_and_is_told(restart):
    pipeline = Pipeline(CONFIG if restart else ACCEPT)
    pipeline.send(*messages(ORDERS, *range(12)), *messages(CUSTOMERS, 0))
    damage(pipeline, (5, 8))
    with capture_logs() as said:
        minutes(pipeline, 3)
        if restart:
            pipeline.start(ACCEPT)
            minutes(pipeline, 3)
        pipeline.send(*messages(ORDERS, 12))
        pipeline.minute()

    assert pipeline.rows("orders") == [0, 1, 2, 3, 4, 8, 9, 10, 11, 12]
    assert [one["hole"] for one in said if one["event"] == "changes_missing"] == [HOLE]
    assert not pipeline.is_left_out("orders")
    pipeline.driver.stop()


def test_what_can_be_read_again_is_not_missed(pipeline):
    """Another replica leads, or the broker's disk is restored: nobody has to accept anything."""
    pipeline.send(*messages(ORDERS, *range(12)))
    damage(pipeline, (5, 8))
    minutes(pipeline, 3)
    assert pipeline.is_left_out("orders")
    damage(pipeline)
    minutes(pipeline, 3)

    assert pipeline.rows("orders") == list(range(12))
    assert not pipeline.is_left_out("orders")


def test_what_came_about_on_the_way_to_a_worker_is_no_damage(pipeline):
    """The broker itself says that the messages can be read, or does not say: then they are read again."""
    pipeline.send(*messages(ORDERS, *range(12)))
    damage(pipeline, (5, 8))
    pipeline.broker.is_silent = True
    minutes(pipeline, 3)
    assert pipeline.sample("holes_total", table="shop.orders", why="topic_damaged") is None
    damage(pipeline)
    minutes(pipeline, 3)

    assert pipeline.rows("orders") == list(range(12))


def test_damage_of_a_topic_that_has_no_table_yet_is_told_and_passed_by(pipeline):
    pipeline.send(*messages(ORDERS, *range(6)))
    damage(pipeline, (0, 4))
    with capture_logs() as said:
        pipeline.minute()

    assert pipeline.rows("orders") == [4, 5]
    assert [one["hole"] for one in said if one["event"] == "changes_missing"] == [
        f"topic_damaged ({ORDERS}/0: needs 0, could go on from 4)"
    ]


def test_a_topic_that_is_made_again_has_no_damage_of_the_one_before_it():
    pipeline = Pipeline(ACCEPT)
    pipeline.send(*messages(ORDERS, *range(12)))
    damage(pipeline, (5, 8))
    pipeline.minute()
    damage(pipeline)
    pipeline.session.kafka[:] = messages(ORDERS, *range(9))
    pipeline.broker.ids[ORDERS] = "another id"
    minutes(pipeline, 2)

    assert pipeline.rows("orders") == sorted([0, 1, 2, 3, 4, 8, 9, 10, 11, *range(9)])
    pipeline.driver.stop()


@given(st.lists(st.integers(1, 5), min_size=2, max_size=8), st.booleans())
def test_all_that_can_be_read_is_written_wherever_the_damage_is(lengths, begins):
    """Stretches that can be read and such that cannot, in turn."""
    bad, good, at = [], [], 0
    for place, length in enumerate(lengths):
        is_bad = (place % 2 == 0) == begins
        (bad.append((at, at + length)) if is_bad else good.extend(range(at, at + length)))
        at += length
    good.append(at)
    pipeline = Pipeline(ACCEPT)
    pipeline.send(*messages(ORDERS, *range(at + 1)), *messages(CUSTOMERS, 0))
    damage(pipeline, *bad)
    minutes(pipeline, 3)
    pipeline.driver.stop()

    assert pipeline.rows("customers") == [0]
    assert pipeline.rows("orders") == good


@given(st.integers(0, 50), st.integers(1, 400), st.integers(0, 400))
def test_where_damage_ends_is_found_to_the_message_and_in_few_questions(first, length, behind):
    asked = []

    def can_read(at):
        asked.append(at)
        assert at < first + length + behind
        return at >= first + length

    assert behind_damage(can_read, first, first + length + behind) == first + length
    assert len(asked) <= SINGLE_STEPS + 20
