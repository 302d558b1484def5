"""Which table a change goes to."""

import pytest

from isotherm.contract.identity import levels_of
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches.routing import KEPT, NEW_AT_ONCE, Routing, TooManyNew
from isotherm_ingest.batches.table_names import may_be, table_name
from isotherm_ingest.decode.debezium_schema import ChangeSchema
from isotherm_ingest.streams import StreamsConfig
from support.messages import envelope, key
from support.pipelines import CONFIG, CUSTOMERS, ORDERS, Pipeline, messages


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
