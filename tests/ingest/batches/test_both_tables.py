"""Streams with a mirror and a changelog beside it: two tables of one topic, each with its own word of how far it is."""

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches.owners import owner_of
from isotherm_ingest.batches.routing import Routing
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.definition import FIRST_PROPERTY, MODE_PROPERTY, SOURCE_PROPERTY
from support.examples import examples
from support.messages import envelope, key
from support.pipelines import CONFIG, CUSTOMERS, ORDERS, Pipeline, messages

BOTH = CONFIG.replace('table: "shop.{table}"', 'table: "shop.{table}", mode: changelog + mirror')


def config(text=BOTH):
    return parse_yaml(text, "streams.yaml", StreamsConfig)


def test_both_are_settings_of_one_stream():
    mirror, log = config().streams_of(ORDERS)

    assert (mirror.mode, mirror.table) == ("mirror", "shop.{table}")
    assert (log.mode, log.table, log.changelog_table) == ("changelog", "shop.{table}_changes", "")
    assert [one.mode for one in config(CONFIG).streams_of(ORDERS)] == ["mirror"]
    named = config(BOTH.replace("+ mirror", '+ mirror, changelog_table: "log.{table}"'))
    assert named.streams_of(ORDERS)[1].table == "log.{table}"


def test_each_message_is_in_both():
    pipeline = Pipeline(BOTH)
    pipeline.send(*messages(ORDERS, 0, 1), *messages(CUSTOMERS, 0))
    pipeline.minute()
    pipeline.start()
    pipeline.send(*messages(ORDERS, 2))
    pipeline.minute()
    pipeline.driver.stop()

    assert {name: pipeline.rows(name) for name in ("orders", "orders_changes", "customers_changes")} == {
        "orders": [0, 1, 2],
        "orders_changes": [0, 1, 2],
        "customers_changes": [0],
    }
    assert set(pipeline.lake.tables["shop.orders_changes"].modes) == {"changelog"}
    assert set(pipeline.lake.tables["shop.orders"].modes) == {"mirror"}


def test_one_that_fails_is_brought_up_and_the_other_goes_on():
    pipeline = Pipeline(BOTH)
    pipeline.errors["shop.orders"] = RuntimeError("broken")
    pipeline.send(*messages(ORDERS, *range(6)))
    pipeline.minute()
    assert pipeline.rows("orders_changes") == list(range(6))
    assert pipeline.rows("orders") == []
    pipeline.recovers()
    pipeline.driver.stop()

    assert pipeline.rows("orders") == pipeline.rows("orders_changes") == list(range(6))


@pytest.mark.parametrize("name", ["m_orders", "l_orders"])
def test_each_of_both_is_missed_when_a_driver_begins(name):
    """Though no message comes."""
    named = 'table: "shop.m_{table}", changelog_table: "shop.l_{table}"'
    pipeline = Pipeline(CONFIG.replace('table: "shop.{table}"', named))
    pipeline.send(*messages(ORDERS, 0, 1))
    pipeline.minute()
    del pipeline.lake.tables[f"shop.{name}"]
    pipeline.start()
    pipeline.minute()
    pipeline.driver.stop()

    assert [one for one in ("m_orders", "l_orders") if pipeline.is_left_out(one)] == [name]


def test_what_belongs_to_one_of_them_alone_is_a_letter_that_names_the_other():
    """The changelog's name is another stream's table."""
    theirs = {"shop.orders_changes": config(CONFIG).streams[0].model_copy(update={"topics": "other"})}
    routing = Routing(config(), None, theirs.get)
    routing.learn([((ORDERS, 1), envelope("orders", ("id", "int64")), key("id"))], set())
    tables, problems = routing.told({ORDERS}, {"shop.orders", "shop.orders_changes"})

    assert tables == {(ORDERS, 1): ("shop.orders",)}
    (why,) = problems.values()
    assert why.startswith("other_table:")
    assert why.endswith("(of shop.{table}_changes)")


@pytest.mark.parametrize(
    ("name", "properties", "mode"),
    [
        ("shop.orders", {}, "mirror"),
        ("shop.orders_changes", {}, "changelog"),
        ("shop.orders_changes", {MODE_PROPERTY: "changelog", FIRST_PROPERTY: ORDERS}, "changelog"),
        (
            "shop.orders_changes",
            {MODE_PROPERTY: "mirror", SOURCE_PROPERTY: "shop.public.orders_changes"},
            "mirror",
        ),
        ("shop.orders", {MODE_PROPERTY: "mirror", SOURCE_PROPERTY: ORDERS}, "mirror"),
        ("shop.orders", {MODE_PROPERTY: "changelog", FIRST_PROPERTY: ORDERS}, "mirror"),
    ],
)
def test_a_table_that_is_there_says_which_of_both_it_is(name, properties, mode):
    owner = owner_of(config(), name, properties, {ORDERS})

    assert owner is not None
    assert owner.mode == mode


class Killed(BaseException):
    """The process is killed."""


def crash(pipeline, table):
    """The driver dies once this table is to be written; the other one of both may have been, or not."""
    pipeline.errors[table] = Killed()
    pipeline.now_s += 200
    with suppress(Killed):
        pipeline.turn()
    pipeline.driver.stop()
    pipeline.errors.clear()
    pipeline.start()


@examples(200)
@given(st.integers(0, 10**9))
def test_whatever_happens_both_have_each_message_once_and_a_letter_is_sent_where_none_has(seed):
    dice = random.Random(seed)
    pipeline = Pipeline(BOTH.replace("messages: 4", f"messages: {dice.choice([2, 3, 4, 100])}"))
    ends, sent, bad = {}, {}, set()
    names = ["shop.orders", "shop.orders_changes", "shop.customers", "shop.customers_changes"]
    for _ in range(dice.randrange(2, 10)):
        for _ in range(dice.randrange(5)):
            topic = dice.choice([ORDERS, CUSTOMERS])
            offset = ends.get(topic, 0)
            ends[topic] = offset + 1
            is_readable = dice.random() < 0.8
            pipeline.send(*messages(topic, offset, is_readable=is_readable))
            if is_readable:
                sent.setdefault(topic, []).append(offset)
            else:
                bad.add((topic, offset))
        match dice.randrange(7):
            case 0:
                pipeline.errors[dice.choice(names)] = OSError("broken")
            case 1:
                pipeline.errors.clear()
            case 2:
                pipeline.start()
            case 3:
                crash(pipeline, dice.choice(names))
            case _:
                pipeline.now_s += dice.choice([1, 30, 200])
                pipeline.turn()
    pipeline.recovers()
    pipeline.driver.stop()

    for topic, offsets in sent.items():
        table = topic.rpartition(".")[2]
        assert pipeline.rows(table) == pipeline.rows(f"{table}_changes") == offsets
    assert {(one.topic, one.offset) for one in pipeline.dead_letters.sent} == bad
