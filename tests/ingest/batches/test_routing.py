"""Which table a change goes to."""

import pytest
from structlog.testing import capture_logs

from isotherm.contract.identity import levels_of
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches.routing import KEPT, NEW_AT_ONCE, Routing, TooManyNew
from isotherm_ingest.batches.table_names import table_name
from isotherm_ingest.dead_letter_topic import MAX_PROBLEM
from isotherm_ingest.decode.debezium_schema import MAX_COST, ChangeSchema
from isotherm_ingest.name_template import may_be
from isotherm_ingest.streams import StreamsConfig
from support.messages import envelope, key
from support.pipelines import CONFIG, CUSTOMERS, ORDERS, Pipeline, messages
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
    assert may_be("raw.{schema}.{table}", name)


def test_what_is_told_of_a_schema_is_no_longer_than_a_person_reads():
    """It is logged, and goes to the workers with each batch."""
    routing = Routing(parse_yaml(CONFIG, "streams.yaml", StreamsConfig), None, lambda _, stream: stream)
    value = message([{"field": "x" * 100_000 + "\0", "type": "int64"}]).decode()
    with capture_logs() as told:
        routing.learn([((ORDERS, 1), value, None)], set())

    (why,) = routing.told({ORDERS}, set())[1].values()
    assert why.startswith("no_schema:'xxx")
    assert len(why) == MAX_PROBLEM
    assert [(one["event"], one["why"]) for one in told] == [("schema_refused", why)]


def test_whatever_a_sample_is_its_messages_have_a_table_or_a_problem():
    """What reaches the driver from here keeps the topic from being read for ever, with all of its tables."""
    routing = Routing(parse_yaml(CONFIG, "streams.yaml", StreamsConfig), None, lambda _, stream: stream)
    given = {1: message([{"field": "id", "type": "int64"}]).decode(), 2: "garbage", 3: None}
    routing.learn((((ORDERS, number), value, None) for number, value in given.items()), set())
    tables, problems = routing.told({ORDERS}, {"shop.orders"})

    assert tables == {(ORDERS, 1): ("shop.orders",)}
    assert [(number, why.partition(":")[0]) for (_, number), why in problems.items()] == [
        (2, "no_schema"),
        (3, "no_schema"),
    ]


def samples(topic, numbers):
    return [((topic, number), envelope("orders", ("id", "int64")), key("id")) for number in numbers]


def kept(routing, topic):
    return [group.number for group, *_ in routing.of({topic}, ())]


def test_of_a_topic_the_newest_schemas_are_kept_between_batches():
    routing = Routing(parse_yaml(CONFIG, "streams.yaml", StreamsConfig), None, lambda _, stream: stream)
    for number in range(KEPT + 30):
        routing.learn(samples(ORDERS, [number]), set())
    routing.learn(samples(CUSTOMERS, range(5)), set())
    # A batch goes on with all that it was told; without, it would ask for ever.
    assert kept(routing, ORDERS) == list(range(KEPT + 30))

    routing.forget_old({CUSTOMERS})
    assert len(kept(routing, ORDERS)) == KEPT + 30
    routing.forget_old({ORDERS, CUSTOMERS})
    assert kept(routing, ORDERS) == list(range(30, KEPT + 30))
    assert kept(routing, CUSTOMERS) == list(range(5))


def test_a_batch_that_brings_too_many_schemas_of_a_topic_is_given_up_and_what_was_learned_stays():
    routing = Routing(parse_yaml(CONFIG, "streams.yaml", StreamsConfig), None, lambda _, stream: stream)
    met = set()
    routing.learn(samples(ORDERS, range(NEW_AT_ONCE)), met)
    routing.learn(samples(CUSTOMERS, range(NEW_AT_ONCE)), met)
    with pytest.raises(TooManyNew):
        routing.learn(samples(ORDERS, [NEW_AT_ONCE]), met)

    assert kept(routing, ORDERS) == list(range(NEW_AT_ONCE + 1))
    routing.learn(samples(ORDERS, range(NEW_AT_ONCE)), set())


def test_a_batch_that_brings_too_many_columns_in_new_schemas_is_given_up_and_one_schema_never_is():
    """Each takes every worker a millisecond to plan, beside the tables of all other topics."""
    routing = Routing(parse_yaml(CONFIG, "streams.yaml", StreamsConfig), None, lambda _, stream: stream)
    fields = [(f"c{number}", "int64") for number in range(MAX_COST)]
    wide = [((ORDERS, number), envelope("orders", *fields), key("c0")) for number in range(26)]
    met = set()
    routing.learn(wide[:25], met)
    with pytest.raises(TooManyNew):
        routing.learn(wide[25:], met)

    routing.learn(wide[25:], set())


def test_a_topic_of_many_schemas_is_read_in_pieces_and_keeps_no_other_waiting():
    pipeline = Pipeline(CONFIG.replace("messages: 4", "messages: 10000"))
    count = 3 * KEPT // 2
    for number in range(count):
        pipeline.send(*messages(ORDERS, number, schema=number + 1))
    pipeline.send(*messages(CUSTOMERS, 0))
    pipeline.minute()
    assert pipeline.rows("customers") == [0]

    for _ in range(30):
        pipeline.minute()
    pipeline.driver.stop()
    assert pipeline.rows("orders") == list(range(count))
    assert not pipeline.is_left_out("orders")


def test_a_source_without_a_name_is_learned_anew_with_the_next_batch():
    """It may be of that message alone."""
    config = parse_yaml(CONFIG, "streams.yaml", StreamsConfig)
    routing = Routing(config, None, lambda _, stream: stream)
    nameless = envelope("orders", ("id", "int64")).replace('"table": "orders"', '"table": ""')
    routing.learn([((ORDERS, 1), nameless, key("id"))], set())
    assert "cannot be the name of a table" in routing.told({ORDERS}, ())[1][ORDERS, 1]

    routing.forget_old({ORDERS})
    routing.learn(samples(ORDERS, [1]), set())
    assert kept(routing, ORDERS) == [1]
