"""A topic that is deleted and made again is told, and read from its start where the stream allows it."""

from collections import Counter

import pytest
from structlog.testing import capture_logs

from isotherm_ingest.failures import TableRefused
from support.messages import envelope
from support.pipelines import CONFIG, CUSTOMERS, ORDERS, Pipeline, messages
from support.two_topics import FIRST, change, configured, holes_of, later


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("count", [1, 9])
def test_a_topic_that_is_made_again_is_told_and_read_from_its_start(pipeline, restart, count):
    config = CONFIG.replace("table}", 'table}", on_hole: "accept')
    pipeline.start(config)
    pipeline.send(*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.session.kafka[:] = [*messages(ORDERS, *range(count)), *messages(CUSTOMERS, 0, 1)]
    pipeline.broker.ids[ORDERS] = "another id"
    if restart:
        pipeline.start(config)
    pipeline.minute()

    assert pipeline.rows("customers") == [0, 1]
    assert pipeline.rows("orders") == sorted([0, 1, 2, *range(count)])


def test_a_topic_that_was_away_for_a_while_is_read_from_its_start_at_once(pipeline):
    pipeline.start(CONFIG.replace("table}", 'table}", on_hole: "accept'))
    pipeline.send(*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.session.kafka[:] = messages(CUSTOMERS, 0)
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 0))
    pipeline.broker.ids[ORDERS] = "another id"
    pipeline.minute()

    assert pipeline.rows("orders") == [0, 0, 1, 2]


def test_what_was_read_of_a_topic_that_was_made_again_meanwhile_is_of_nobody(pipeline):
    def made_again():
        pipeline.session.kafka[:] = [*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0)]
        pipeline.broker.ids[ORDERS] = "another id"

    pipeline.send(*messages(ORDERS, 0, 1), *messages(CUSTOMERS, 0))
    pipeline.session.meanwhile = [made_again]
    pipeline.now_s += 60
    pipeline.turn()
    assert (pipeline.rows("orders"), pipeline.rows("customers")) == ([], [0])

    pipeline.minute()
    assert (pipeline.rows("orders"), pipeline.rows("customers")) == ([0, 1, 2], [0])
    assert not pipeline.is_left_out("orders")


def test_a_topic_that_was_made_again_halts_for_as_long_as_nobody_has_decided(pipeline):
    """Kafka drops the marks of a topic that goes, so a driver that begins knows nothing but what the table says."""
    pipeline.send(*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.session.kafka[:] = [*messages(ORDERS, 0, 1, 2, 3, 4), *messages(CUSTOMERS, 0, 1)]
    pipeline.broker.ids[ORDERS] = "another id"
    for position in [one for one in pipeline.store if one != "owner" and one[0] == ORDERS]:
        del pipeline.store[position]
    pipeline.start()
    for _ in range(5):
        pipeline.minute()

    assert pipeline.rows("orders") == [0, 1, 2]
    assert pipeline.rows("customers") == [0, 1]
    assert pipeline.is_left_out("orders")
    assert pipeline.sample("holes_total", table="shop.orders", why="topic_made_again") >= 1


def test_a_table_that_was_halted_before_its_topics_had_leaders_is_looked_at_again(pipeline):
    pipeline.send(*messages(ORDERS, 0, 1, 2), *messages(CUSTOMERS, 0))
    pipeline.minute()
    del pipeline.lake.tables["shop.orders"]
    pipeline.send(*messages(ORDERS, 3))
    pipeline.minute()
    pipeline.minute()
    pipeline.broker.without_leader = {(ORDERS, 0)}
    pipeline.start(CONFIG.replace("table}", 'table}", on_hole: "backfill'))
    pipeline.minute()
    pipeline.broker.without_leader = set()
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 4))
    for _ in range(3):
        pipeline.minute()

    assert pipeline.rows("orders") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("restart", ["", "after the marks", "before the marks"])
@pytest.mark.parametrize("topic", [ORDERS, CUSTOMERS])
def test_a_replacement_that_is_accepted_gets_no_old_row_of_any_topic_of_the_table(topic, restart):
    """Somebody made the table again, with its rows, and a message of one topic comes first."""
    config = CONFIG.replace("shop.{table}", 'shop.all", on_hole: "accept')
    pipeline = Pipeline(config)
    pipeline.send(*messages(ORDERS, 0, 1), *messages(CUSTOMERS, 0, 1))
    pipeline.minute()
    rows = pipeline.lake.tables["shop.all"].rows
    pipeline.lake.make("shop.all").rows = list(rows)
    pipeline.send(*messages(topic, 2))
    pipeline.now_s += 60
    marked = dict(pipeline.store)
    pipeline.turn()
    assert pipeline.sample("holes_total", table="shop.all", why="table_made_again") == 1
    if restart == "before the marks":
        pipeline.store = marked
    if restart:
        pipeline.start(config)
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 3), *messages(CUSTOMERS, 3))
    pipeline.minute()

    expected = [(one, 0, offset) for one in (ORDERS, CUSTOMERS) for offset in (0, 1, 3)]
    assert sorted(pipeline.lake.tables["shop.all"].rows) == sorted([*expected, (topic, 0, 2)])


def test_dead_letters_of_a_topic_that_was_made_again_are_sent_though_their_offsets_were(pipeline):
    nameless = {"schema": 8, "value": '{"schema": {}, "payload": {"op": "c"}}'}
    pipeline.send(*messages(ORDERS, 0, 1, **nameless))
    pipeline.minute()
    pipeline.session.kafka[:] = messages(ORDERS, 0, **nameless)
    pipeline.broker.ids[ORDERS] = "another id"
    pipeline.minute()

    assert [one.offset for one in pipeline.dead_letters.sent] == [0, 1, 0]


@pytest.mark.parametrize("on_hole", ["halt", "backfill"])
def test_what_a_table_was_still_to_be_brought_of_a_topic_that_is_made_again_is_told(on_hole):
    """It has seen a part of it, and no row: neither its token nor a note speaks of the topic."""
    a, b = (
        {"schema": number, "value": envelope(name, ("id", "int64"))}
        for name, number in (("a", 11), ("b", 12))
    )
    config = CONFIG.replace(
        'table: "shop.{table}"', f'table: "shop.{{table}}", mode: changelog, on_hole: {on_hole}'
    )
    pipeline = Pipeline(config)
    pipeline.send(*messages(ORDERS, *range(12), **a))
    pipeline.minute()
    pipeline.send(*messages(ORDERS, 12, 13, **b))
    pipeline.now_s += 60
    for _ in range(2):
        pipeline.turn()
    pipeline.session.kafka[:] = [*messages(ORDERS, 0, **a), *messages(ORDERS, 1, **b)]
    pipeline.broker.ids[ORDERS] = "another id"
    with capture_logs() as said:
        for _ in range(4):
            pipeline.now_s += 130
            pipeline.minute()

    told = [one["hole"] for one in said if one["event"] == "changes_missing" and one["table"] == "shop.b"]
    assert told == [f"topic_made_again ({ORDERS}/0: needs 8, could go on from 0)"]
    assert pipeline.rows("b") == [1]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("old", ["a", "b"])
@pytest.mark.parametrize("on_hole", ["backfill", "accept"])
def test_marks_of_a_topic_that_is_gone_say_nothing_beside_those_of_the_one_that_has_its_name(
    on_hole, old, restart
):
    """Kafka kept them, and one partition has no leader yet when the others are marked."""
    pipeline = Pipeline(configured(on_hole))
    pipeline.send(change(FIRST, 0, "a", 1), *(change(FIRST, offset, old) for offset in range(4)))
    later(pipeline, 2)
    pipeline.session.kafka[:] = [change(FIRST, offset, "a", 1) for offset in range(3)]
    pipeline.broker.ids[FIRST] = "another id"
    pipeline.broker.empty |= {(FIRST, 0), (FIRST, 1)}
    pipeline.broker.without_leader = {(FIRST, 0)}
    later(pipeline, 3)
    pipeline.send(*(change(FIRST, offset, "a") for offset in range(2)))
    with capture_logs() as said:
        if restart:
            pipeline.start()
        pipeline.broker.without_leader = set()
        later(pipeline)

    rows = Counter(pipeline.lake.tables["shop.a"].rows)
    assert {rows[FIRST, 0, offset] for offset in range(2)} == {2 if old == "a" else 1}
    assert not [hole for hole in holes_of(said, "shop.a") if "rolled_back" in hole or "cut_back" in hole]


@pytest.mark.parametrize("on_hole", ["backfill", "accept"])
def test_a_hole_in_a_partition_without_a_message_is_told_once(on_hole):
    pipeline = Pipeline(configured(on_hole))
    pipeline.send(change(FIRST, 0, "a"), change(FIRST, 1, "b"))
    pipeline.minute()
    pipeline.errors["shop.b"] = TableRefused("for a while")
    pipeline.broker.ids[FIRST] = "another id"
    pipeline.broker.empty |= {(FIRST, 0), (FIRST, 1)}
    pipeline.session.kafka[:] = [change(FIRST, offset, "a") for offset in range(7)]
    with capture_logs() as said:
        for turn in range(60):
            pipeline.now_s += 5
            pipeline.turn()
            if turn == 20:
                pipeline.errors.clear()

    assert Counter(holes_of(said, "shop.b")).most_common(1)[0][1] == 1
