"""A table belongs to one stream, and no message of another stream's topic writes it, deletes in it or stops it."""

from itertools import permutations

import pytest

from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.batches.owners import owner_of, why_not
from isotherm_ingest.failures import CatalogAway
from isotherm_ingest.name_template import may_be
from isotherm_ingest.streams import StreamsConfig
from support.messages import envelope
from support.pipelines import CONFIG, Pipeline, messages

MIRRORS = [f"m{number}" for number in range(8)]
LOGS = {"changelog": "mode: changelog", "many": "sources: many"}


def config_of(*streams):
    return CONFIG.partition("streams:")[0] + "streams:\n" + "".join(f"  - {{{one}}}\n" for one in streams)


def two(log="mode: changelog", table="shop.{table}"):
    return config_of(
        rf'topics: "shop\\.public\\.log.*", table: "{table}", {log}',
        r'topics: "shop\\.public\\..*", table: "shop.{table}"',
    )


def topic(name):
    return f"shop.public.{name}"


def forged(by, table, *offsets):
    return messages(topic(by), *offsets, value=envelope(table, ("id", "int64")))


@pytest.fixture
def started():
    """Makes pipelines, and stops them."""
    made = []

    def start(config):
        made.append(Pipeline(config))
        return made[-1]

    yield start
    for one in made:
        one.driver.stop()


@pytest.mark.parametrize("log", LOGS.values(), ids=list(LOGS))
def test_a_message_of_another_streams_topic_neither_writes_a_mirror_nor_stops_it_whenever_the_driver_begins(
    started, log
):
    pipeline = started(two(log))
    for name in MIRRORS:
        pipeline.send(*messages(topic(name), 0))
    pipeline.minute()
    for name in MIRRORS:
        pipeline.send(*forged(f"log_{name}", name, 0))
    pipeline.minute()
    for offset in (1, 2):
        pipeline.start()
        for name in MIRRORS:
            pipeline.send(*messages(topic(name), offset), *forged(f"log_{name}", name, offset))
        pipeline.minute()

    for name in MIRRORS:
        table = pipeline.lake.tables[f"shop.{name}"]
        assert table.rows == [(topic(name), 0, offset) for offset in range(3)]
        assert {one for one, _ in table.has} == {topic(name)}
        assert not pipeline.is_left_out(name)
        assert table.properties["ingest.source-topic"] == topic(name)
    sent = {(one.topic, one.offset) for one in pipeline.dead_letters.sent}
    assert sent == {(topic(f"log_{name}"), offset) for name in MIRRORS for offset in range(3)}
    assert len(pipeline.dead_letters.sent) == len(sent)


@pytest.mark.parametrize("source", ["xy", "x.y", "x.y.z"])
def test_a_source_whose_name_has_dots_gives_a_table_that_is_its_streams_after_a_restart_too(started, source):
    """The table's name has more levels than the template, and was taken for one that no stream can have made."""
    pipeline = started(two())

    def mine(offset):
        return messages(topic("m"), offset, value=envelope(source, ("id", "int64")))

    pipeline.send(*mine(0))
    pipeline.minute()
    for offset in (1, 2):
        pipeline.start()
        pipeline.send(*forged("log_m", source, offset - 1))
        pipeline.minute()
        pipeline.send(*mine(offset))
        pipeline.minute()

    table = pipeline.lake.tables[f"shop.{source}"]
    assert table.rows == [(topic("m"), 0, offset) for offset in range(3)]
    assert set(table.modes) == {"mirror"}
    assert {(one.topic, one.offset) for one in pipeline.dead_letters.sent} == {
        (topic("log_m"), 0),
        (topic("log_m"), 1),
    }
    assert not pipeline.is_left_out(source)


@pytest.mark.parametrize(
    ("template", "name", "can"),
    [
        ("shop.{table}", "shop.a.b", True),
        ("shop.{table}", "shop.a b", False),
        ("{schema}.{table}", "a.b.c.d", True),
        ("lake.{schema}_x.{table}", "lake.a.b_x.c", True),
        ("lake.x{table}.t", "lake.x.t", True),
        ("lake.{topic}", "lake.a.b", False),
        ("lake.{topic}_{table}", "lake.a_b.c", True),
        ("shop.{table}", "lake.a", False),
    ],
)
def test_which_names_a_template_can_give(template, name, can):
    assert may_be(template, name) is can


@pytest.mark.parametrize("log", LOGS.values(), ids=list(LOGS))
def test_a_mirror_into_whose_vector_an_earlier_version_let_another_streams_topic_is_written_as_a_mirror(
    started, log
):
    pipeline = started(two(log))
    for name in MIRRORS:
        pipeline.send(*messages(topic(name), 0))
    pipeline.minute()
    for name in MIRRORS:
        pipeline.lake.tables[f"shop.{name}"].has[topic(f"log_{name}"), 0] = 1
        pipeline.send(*forged(f"log_{name}", name, 0, 1), *messages(topic(name), 1))
    pipeline.store.clear()
    pipeline.start()
    pipeline.minute()

    for name in MIRRORS:
        table = pipeline.lake.tables[f"shop.{name}"]
        assert table.rows == [(topic(name), 0, 0), (topic(name), 0, 1)]
        assert set(table.modes) == {"mirror"}
        assert not pipeline.is_left_out(name)


def test_a_changelog_has_the_rows_of_its_own_streams_topics_alone(started):
    config = config_of(
        r'topics: "shop\\.public\\.log.*", table: "shop.{table}", mode: changelog',
        r'topics: "shop\\.public\\.big.*", table: "shop.{table}", mode: changelog, partition_by: [id]',
        r'topics: "shop\\.public\\.one.*", table: "shop.logx"',
    )
    pipeline = started(config)
    pipeline.send(*messages(topic("logx"), 0))
    pipeline.minute()
    for offset in range(2):
        pipeline.start()
        # Another topic of the stream may name its tables, and streams.yaml may name any; a message of another may not.
        pipeline.send(*forged("logy", "logx", offset), *forged("bigz", "logx", offset))
        pipeline.send(*messages(topic("one"), offset))
        pipeline.minute()

    table = pipeline.lake.tables["shop.logx"]
    assert {one for one, *_ in table.rows} == {topic("logx"), topic("logy"), topic("one")}
    assert table.properties == {"ingest.mode": "changelog", "ingest.first-topic": topic("logx")}
    assert {(one.topic, one.offset) for one in pipeline.dead_letters.sent} == {
        (topic("bigz"), 0),
        (topic("bigz"), 1),
    }


def test_a_table_of_which_the_catalog_did_not_say_whose_it_is_waits_instead_of_being_written_as_anothers(
    started,
):
    pipeline = started(two("sources: many"))
    pipeline.send(*messages(topic("m0"), 0), *messages(topic("m1"), 0))
    pipeline.minute()
    pipeline.lake.tables["shop.m0"].has[topic("log_m0"), 0] = 1
    pipeline.store.clear()
    # The outbox knows its name, and no mark says its topics: whoever asks first would have it.
    pipeline.lake.unreadable.add("shop.m0")
    pipeline.start()
    pipeline.send(*forged("log_m0", "m0", 0))
    pipeline.minute()
    pipeline.lake.unreadable.clear()
    pipeline.send(*messages(topic("m0"), 1), *messages(topic("m1"), 1), *forged("log_m0", "m0", 1))
    pipeline.minute()
    assert (pipeline.rows("m0"), pipeline.rows("m1")) == ([0], [0, 1])
    assert pipeline.is_left_out("m0")

    pipeline.start()
    pipeline.minute()
    assert pipeline.lake.tables["shop.m0"].rows == [(topic("m0"), 0, 0), (topic("m0"), 0, 1)]
    assert not pipeline.is_left_out("m0")


def test_a_catalog_that_answers_nobody_is_asked_for_one_new_name_and_not_for_each(started):
    pipeline = started(two())
    pipeline.lake.away = True
    for name in MIRRORS:
        pipeline.send(*messages(topic(name), 0))
    asked = pipeline.lake.asked
    with pytest.raises(CatalogAway):
        pipeline.minute()
    assert pipeline.lake.asked <= asked + 2

    pipeline.lake.away = False
    pipeline.minute()
    assert [pipeline.rows(name) for name in MIRRORS] == [[0]] * len(MIRRORS)


def test_a_table_says_itself_whose_it_is_and_no_order_of_its_topics_does():
    config = parse_yaml(two(), "streams.yaml", StreamsConfig)
    log, mirror = config.streams

    for topics in permutations([topic("log_m0"), topic("m0"), topic("gone")]):
        for said in (
            {"ingest.source-topic": topic("m0")},
            {"ingest.first-topic": topic("m0")},
            {"ingest.mode": "mirror"},
        ):
            assert owner_of(config, "shop.m0", said, topics) is mirror
        # Of one that says nothing, the order in streams.yaml decides, and of a topic that no stream has, nothing does.
        assert owner_of(config, "shop.m0", {"ingest.first-topic": "elsewhere"}, topics) is log
    assert owner_of(config, "lake.m0", {"ingest.first-topic": topic("m0")}, [topic("m0")]) is None
    assert owner_of(config, "shop.m0", {}, []) is None


@pytest.mark.parametrize(
    ("table", "is_refused"),
    [("shop.{table}", True), ("{schema}.m0", True), ("shop.m0", False), ("shop.{topic}", False)],
)
def test_only_a_name_that_a_message_has_chosen_is_refused(table, is_refused):
    config = parse_yaml(two(table=table), "streams.yaml", StreamsConfig)
    log, mirror = config.streams
    why = why_not("shop.m0", mirror, log, topic("log_m0"))

    assert (why is not None and why.startswith("other_table:shop.m0 is a table of the stream")) is is_refused
    assert why_not("shop.m0", log, log, topic("log_m0")) is None
