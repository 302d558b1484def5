"""What a driver that begins knows: where the tables are, and what is written down."""

import random

import pytest

from isotherm_ingest.mark_text import Mark
from isotherm_ingest.marks import TakenOver
from support.messages import Message, envelope
from support.pipelines import CONFIG, CUSTOMERS, ORDERS, Pipeline, messages


def test_a_table_that_never_worked_is_known_to_the_next_driver(pipeline):
    pipeline.errors["shop.orders"] = RuntimeError("broken")
    pipeline.send(*messages(ORDERS, 0, 1))
    pipeline.minute()
    pipeline.errors.clear()
    pipeline.start()
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 1]


@pytest.mark.parametrize("marks_are_lost", [False, True])
def test_a_new_driver_goes_on_where_the_tables_are(pipeline, marks_are_lost):
    pipeline.send(*messages(ORDERS, 0, 1, 2))
    pipeline.minute()
    if marks_are_lost:
        pipeline.store.clear()
    pipeline.start()
    pipeline.send(*messages(ORDERS, 3))
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 1, 2, 3]


def test_offsets_that_somebody_else_commits_for_the_group_lose_no_row_of_a_table_that_is_there(pipeline):
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1, 2))
    pipeline.store[ORDERS, 0] = Mark(3)
    pipeline.start()
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 1, 2]


def test_a_table_that_comes_later_gets_what_its_topic_holds(pipeline):
    """Another table of a topic that was read before: the streams say so now."""
    pipeline.send(*messages(ORDERS, 0, 1))
    pipeline.minute()
    pipeline.start(CONFIG.replace("shop.{table}", "lake.{table}"))
    pipeline.send(*messages(ORDERS, 2))
    pipeline.minute()

    assert sorted(offset for *_, offset in pipeline.lake.tables["lake.orders"].rows) == [0, 1, 2]


@pytest.mark.parametrize("restart", [False, True])
def test_a_table_that_the_streams_name_now_is_built_though_its_topic_is_quiet(pipeline, restart):
    pipeline.send(*messages(ORDERS, *range(6)), *messages(CUSTOMERS, 0))
    pipeline.minute()
    config = CONFIG.replace("streams: [", 'streams: [{topics: ".*orders", table: "lake.orders"}, ')
    pipeline.start(config)
    pipeline.now_s += 60
    pipeline.turn()
    if restart:
        pipeline.start(config)
    pipeline.minute()

    assert sorted(offset for *_, offset in pipeline.lake.tables["lake.orders"].rows) == list(range(6))
    assert (pipeline.rows("orders"), pipeline.rows("customers")) == (list(range(6)), [0])

    pipeline.start(config)
    reads = pipeline.session.reads
    pipeline.minute()
    assert pipeline.session.reads == reads


def test_a_driver_that_begins_takes_the_pipeline_over(pipeline):
    first = pipeline.driver
    pipeline.start()
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 1))
    with pytest.raises(TakenOver):
        first.turn(pipeline.now_s + 60)
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 1]


def test_a_driver_that_begins_puts_its_name_on_the_marks_at_once(pipeline):
    """One before it, whose producer has ended, must see it before its first batch is over."""
    pipeline.send(*messages(ORDERS, 0))
    pipeline.minute()
    before = pipeline.marks.written
    pipeline.start()

    assert pipeline.marks.written == before == {(ORDERS, 0)}


def test_of_a_topic_with_very_many_tables_none_is_halted_for_changes_that_it_never_lacked():
    """What is known of them has to find room beside the offset. Retention passes the last rows of each but the first."""
    pipeline = Pipeline(CONFIG.replace("messages: 4", "messages: 1000"))
    names = [f"customer_table_{number:03}" for number in range(120)]
    first = [
        Message(ORDERS, number, schema=number + 1, value=envelope(name, ("id", "int64")))
        for number, name in enumerate(names)
    ]
    pipeline.send(
        *first, *(Message(ORDERS, 120 + number, schema=1, value=first[0].value) for number in range(90))
    )
    pipeline.minute()
    pipeline.broker.kept_from[ORDERS, 0] = 200
    pipeline.start()
    pipeline.minute()
    assert not any(pipeline.is_left_out(name) for name in names)

    # Of those that lack changes it is told all the same.
    pipeline.lake.make(f"shop.{names[5]}")
    pipeline.lake.tables[f"shop.{names[6]}"].has = {}
    pipeline.start()
    pipeline.minute()
    assert [name for name in names if pipeline.is_left_out(name)] == names[5:7]
    assert pipeline.sample("holes_total", table=f"shop.{names[5]}", why="table_made_again")
    assert pipeline.sample("holes_total", table=f"shop.{names[6]}", why="table_rolled_back")


@pytest.mark.parametrize("how", ["halt", "backfill", "accept"])
def test_a_dropped_table_is_told_though_the_marks_had_no_room_for_it(how):
    """Of tables that are in step most is left out; what was announced says that there was one."""
    dice = random.Random(3)
    names = sorted("".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=12)) for _ in range(300))
    config = CONFIG.replace("messages: 4", "messages: 1000").replace("table}", f'table}}", on_hole: "{how}')

    def message(offset, name):
        value = envelope(name, ("id", "int64"))
        return Message(ORDERS, offset, schema=10 + names.index(name), value=value)

    pipeline = Pipeline(config)
    pipeline.send(*(message(offset, name) for offset, name in enumerate(names)))
    pipeline.minute()
    kept = pipeline.store[ORDERS, 0].tables
    gone, new = names[-1], names[-2]
    assert not {f"shop.{gone}", f"shop.{new}"} & kept.keys()

    pipeline.broker.kept_from[ORDERS, 0] = 299
    del pipeline.lake.tables[f"shop.{gone}"]
    pipeline.send(message(300, gone), message(301, names[0]), message(302, new))
    pipeline.start()
    for _ in range(3):
        pipeline.minute()

    assert pipeline.sample("holes_total", table=f"shop.{gone}", why="table_made_again")
    assert [name for name in names if pipeline.is_left_out(name)] == ([gone] if how == "halt" else [])
    assert (f"shop.{gone}" in pipeline.lake.tables) == (how != "halt")
    assert (pipeline.rows(new), pipeline.rows(names[0])) == ([298, 302], [0, 301])

    # It stays so for the next driver, and once it is decided, its next message brings all that Kafka has left.
    pipeline.start(config)
    pipeline.send(message(303, gone))
    pipeline.minute()
    assert pipeline.is_left_out(gone) == (how == "halt")
    pipeline.start(config.replace("halt", "accept"))
    pipeline.send(message(304, gone))
    for _ in range(3):
        pipeline.minute()
    assert pipeline.rows(gone) == [299, 300, 303, 304]
    pipeline.start(config)
    pipeline.minute()
    assert not pipeline.sample("holes_total", table=f"shop.{gone}", why="table_made_again")
