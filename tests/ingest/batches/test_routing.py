"""Which table a change goes to."""

import pytest
from structlog.testing import capture_logs

from isotherm.contract.identity import levels_of
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches.routing import Routing, may_be, table_name
from isotherm_ingest.dead_letters import MAX_PROBLEM
from isotherm_ingest.decode.debezium_schema import ChangeSchema
from isotherm_ingest.streams import StreamsConfig
from support.pipelines import CONFIG, ORDERS
from support.wire import message


@pytest.mark.parametrize(
    ("source_table", "levels"),
    [
        ("orders", ("raw", "public", "orders")),
        ("a%2Eb", ("raw", "public", "a%2Eb")),
        ("a.b", ("raw", "public", "a", "b")),
    ],
)
def test_a_source_chooses_no_dot_within_a_level(source_table, levels):
    schema = ChangeSchema((), (), "public", source_table, frozenset(), ())
    name = table_name("raw.{schema}.{table}", "topic", schema)

    assert levels_of(name) == levels
    assert may_be("raw.{schema}.{table}", name) is (len(levels) == 3)


def test_what_is_told_of_a_schema_is_no_longer_than_a_person_reads():
    """It is logged, and goes to the workers with each batch."""
    routing = Routing(parse_yaml(CONFIG, "streams.yaml", StreamsConfig), None)
    value = message([{"field": "x" * 100_000 + "\0", "type": "int64"}]).decode()
    with capture_logs() as told:
        routing.learn([((ORDERS, 1), value, None)])

    (why,) = routing.told({ORDERS}, set())[1].values()
    assert why.startswith("no_schema:'xxx")
    assert len(why) == MAX_PROBLEM
    assert [(one["event"], one["why"]) for one in told] == [("schema_refused", why)]


def test_whatever_a_sample_is_its_messages_have_a_table_or_a_problem():
    """What reaches the driver from here keeps the topic from being read for ever, with all of its tables."""
    routing = Routing(parse_yaml(CONFIG, "streams.yaml", StreamsConfig), None)
    samples = {1: message([{"field": "id", "type": "int64"}]).decode(), 2: "garbage", 3: None}
    routing.learn(((ORDERS, number), value, None) for number, value in samples.items())
    tables, problems = routing.told({ORDERS}, {"shop.orders"})

    assert tables == {(ORDERS, 1): "shop.orders"}
    assert [(number, why.partition(":")[0]) for (_, number), why in problems.items()] == [
        (2, "no_schema"),
        (3, "no_schema"),
    ]
