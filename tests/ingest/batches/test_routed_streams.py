"""Streams whose messages say themselves where they go: each value has a table, and no more than there may be."""

import json
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches.owners import why_not
from isotherm_ingest.batches.routing import Routing
from isotherm_ingest.batches.table_limits import NoMoreTablesError, TableLimits
from isotherm_ingest.decode.routed import Routed
from isotherm_ingest.failures import CatalogAway
from isotherm_ingest.streams import Stream, StreamsConfig
from support.examples import examples
from support.messages import Message, envelope, key
from support.pipelines import CONFIG, ORDERS, Pipeline

TEMPLATE = "shop.{table}_{field:region}"
ROUTED = CONFIG.replace('table: "shop.{table}"', f'table: "{TEMPLATE}", mode: changelog, tables_at_most: 3')
MIRROR = CONFIG.replace('table: "shop.{table}"', f'table: "{TEMPLATE}"')


def said(region, of=None):
    """A sample, as a worker sends it."""
    named = [["field:region", region], ["table", "orders"]]
    return json.dumps({"of": of or envelope("orders", ("id", "int64"), ("region", "string")), "named": named})


def change(offset, region):
    return Message(ORDERS, offset, schema=100 + sum(map(ord, region)), value=said(region))


class Names:
    """A catalog that lists its tables."""

    def __init__(self, *names):
        self.names_, self.asked, self.away = set(names), [], False

    def names(self, namespaces):
        self.asked.append(namespaces)
        if self.away:
            raise OSError("away")
        return sorted(self.names_)


def stream(table=TEMPLATE, **more):
    return Stream(topics="shop.*", table=table, mode="changelog", **more)


def test_a_new_value_becomes_a_table_while_ingest_runs():
    pipeline = Pipeline(ROUTED)
    pipeline.send(change(0, "eu"), change(1, "us"), change(2, "eu"))
    pipeline.minute()
    pipeline.send(change(3, "apac"), change(4, "us"))
    pipeline.minute()
    pipeline.driver.stop()

    assert {name: sorted(at for *_, at in table.rows) for name, table in pipeline.lake.tables.items()} == {
        "shop.orders_eu": [0, 2],
        "shop.orders_us": [1, 4],
        "shop.orders_apac": [3],
    }


@pytest.mark.parametrize("is_restarted", [True, False])
def test_beyond_the_limit_no_table_is_made_and_the_others_go_on(is_restarted):
    pipeline = Pipeline(ROUTED)
    read, told = pipeline.session.read, []

    def reading(spark, kafka, ranges, task):
        told.append(task.formats[ORDERS].tables)
        return read(spark, kafka, ranges, task)

    pipeline.session.read = reading
    pipeline.start()
    pipeline.send(*(change(offset, region) for offset, region in enumerate(("eu", "us", "apac"))))
    pipeline.minute()
    assert set(told) == {None}
    if is_restarted:
        pipeline.start()
    pipeline.send(change(3, "mars"), change(4, "eu"), change(5, "mars"))
    pipeline.minute()
    pipeline.driver.stop()

    assert "shop.orders_mars" not in pipeline.lake.tables
    assert [one.offset for one in pipeline.dead_letters.sent] == [3, 5]
    assert pipeline.rows("orders_eu") == [0, 4]
    assert told[-1] == {"shop.orders_eu", "shop.orders_us", "shop.orders_apac"}


def test_what_the_catalog_has_counts_and_is_always_written():
    lake = Names("shop.orders_eu", "shop.orders_us", "shop.other", "shop.orders_US")
    limits = TableLimits(lake)
    one = stream(tables_at_most=3)
    limits.check("shop.orders_us", one)
    limits.check("shop.orders_apac", one)
    limits.check("shop.orders_apac", one)
    with pytest.raises(
        NoMoreTablesError, match=r"shop\.orders_mars is not made: the stream has 3 tables"
    ) as full:
        limits.check("shop.orders_mars", one)

    assert full.value.tables == {"shop.orders_eu", "shop.orders_us", "shop.orders_apac"}
    assert lake.asked == [frozenset({"shop"})]


def test_a_table_that_was_begun_and_could_not_be_made_yet_counts_too():
    """Marks name it. After a restart it would be one too many."""
    limits = TableLimits(Names("shop.orders_us"))
    with pytest.raises(NoMoreTablesError):
        limits.check("shop.orders_mars", stream(tables_at_most=2), {"shop.orders_eu"})


def test_where_a_message_says_the_namespace_all_are_asked():
    lake = Names()
    TableLimits(lake).check("a.orders", stream("{schema}.{table}", routed_by="source"))

    assert lake.asked == [None]


def test_a_catalog_that_does_not_answer_is_waited_for():
    lake = Names()
    lake.away = True
    limits = TableLimits(lake)
    with pytest.raises(CatalogAway):
        limits.check("shop.orders_eu", stream())
    lake.away = False
    limits.check("shop.orders_eu", stream())


@pytest.mark.parametrize(
    ("fields", "problem"),
    [(("id",), "no_route"), ((), "no_route"), (("id", "Region"), None), (("region",), None)],
)
def test_a_row_of_a_mirror_can_leave_its_table_only_by_its_key(fields, problem):
    routing = Routing(parse_yaml(MIRROR, "streams.yaml", StreamsConfig), None, lambda _, stream: stream)
    routing.learn([((ORDERS, 1), said("eu"), key(*fields) if fields else None)], set())
    tables, problems = routing.told({ORDERS}, {"shop.orders_eu"})

    assert tables == ({(ORDERS, 1): ("shop.orders_eu",)} if problem is None else {})
    assert [one.partition(":")[0] for one in problems.values()] == ([problem] if problem else [])


@pytest.mark.parametrize("kind", ["bytes", "array"])
def test_bytes_and_lists_are_no_names_of_tables(kind):
    routing = Routing(parse_yaml(ROUTED, "streams.yaml", StreamsConfig), None, lambda _, stream: stream)
    value = json.loads(envelope("orders", ("id", "int64"), ("region", kind)))
    value["schema"]["fields"][0]["fields"][1]["items"] = {"type": "string"}
    routing.learn([((ORDERS, 1), said("eu", json.dumps(value)), key("id"))], set())
    (why,) = routing.told({ORDERS}, set())[1].values()

    assert why.startswith("no_route:field 'region' is ")


def test_a_value_chooses_no_table_of_another_stream():
    mine, other = stream(), Stream(topics="other.*", table="shop.orders_eu")

    assert (why_not("shop.orders_eu", other, mine, ORDERS) or "").startswith("other_table:")
    assert why_not("shop.orders_eu", mine, mine, ORDERS) is None
    assert (why_not("shop.x_eu", other, stream("shop.x_{field:region}"), ORDERS) or "").startswith(
        "other_table"
    )


def test_workers_read_each_message_only_where_the_name_asks_for_it():
    text = ROUTED.replace(f'"{TEMPLATE}"', '"shop.{table}", routed_by: source')
    found = [
        Routing(parse_yaml(one, "streams.yaml", StreamsConfig), None, None).formats([ORDERS])[ORDERS]
        for one in (CONFIG, ROUTED, text)
    ]

    assert [isinstance(one, Routed) for one in found] == [False, True, True]
    assert [one.template for one in found[1:]] == [TEMPLATE, "shop.{table}"]


class Killed(BaseException):
    """The process is killed."""


def crash(pipeline, table):
    """The driver dies once this table is to be written; others of the batch may have been."""
    pipeline.errors[table] = Killed()
    pipeline.now_s += 200
    with suppress(Killed):
        pipeline.turn()
    pipeline.driver.stop()
    pipeline.errors.clear()
    pipeline.start()


@examples(150)
@given(st.integers(0, 10**9))
def test_whatever_happens_each_message_is_in_the_table_of_its_value_or_a_dead_letter(seed):
    """The first three values have a table each, in whatever order they come, and whoever dies."""
    dice = random.Random(seed)
    pipeline = Pipeline(ROUTED.replace("messages: 4", f"messages: {dice.choice([2, 3, 4, 100])}"))
    sent = []
    for _ in range(dice.randrange(2, 10)):
        for _ in range(dice.randrange(5)):
            sent.append(dice.choice(["eu", "us", "apac", "mars", "moon"]))
            pipeline.send(change(len(sent) - 1, sent[-1]))
        match dice.randrange(6):
            case 0:
                pipeline.errors[f"shop.orders_{dice.choice(['eu', 'us'])}"] = OSError("broken")
            case 1:
                pipeline.start()
            case 2:
                crash(pipeline, f"shop.orders_{dice.choice(['eu', 'us', 'mars'])}")
            case _:
                pipeline.now_s += dice.choice([1, 30, 200])
                pipeline.turn()
    pipeline.recovers()
    pipeline.driver.stop()
    rows = {name: sorted(at for *_, at in table.rows) for name, table in pipeline.lake.tables.items()}
    dead = {one.offset for one in pipeline.dead_letters.sent}

    assert len(rows) == min(3, len(set(sent)))
    for region in set(sent):
        mine = [at for at, one in enumerate(sent) if one == region]
        if f"shop.orders_{region}" in rows:
            assert rows[f"shop.orders_{region}"] == mine
            assert not dead & set(mine)
        else:
            assert dead >= set(mine)
