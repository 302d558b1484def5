"""streams.yaml: what is refused, and with which words; what is derived for Spark."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from isotherm.runtime.strict_model import ConfigError
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.partition_field import partition_by
from isotherm_ingest.streams import (
    BrokerConfig,
    LakeConfig,
    Stream,
    StreamsConfig,
    load_streams,
    seconds,
    spark_catalog,
)

GOOD = """\
pipeline: shop
catalog: {name: lake, properties: {type: sql, uri: "sqlite:////tmp/a b/catalog.db", warehouse: "file:///tmp/a b"}}
kafka: {properties: {bootstrap.servers: "localhost:9092"}}
streams:
  - topics: 'shop\\.public\\.(orders|lines)'
    table: "shop.{table}"
    partition_by: ["hours(order_time)"]
  - topics: 'shop\\..*'
    table: "raw.{schema}_{table}"
    mode: changelog
"""


def parsed(text: str) -> StreamsConfig:
    return parse_yaml(text, "streams.yaml", StreamsConfig)


def test_a_good_file_is_read():
    config = parsed(GOOD)

    assert ("mirror", "changelog") == tuple(stream.mode for stream in config.streams)
    assert "order_time" == config.streams[0].event_time_column
    assert config.streams[0] is config.stream_of("shop.public.orders")
    assert config.streams[1] is config.stream_of("shop.public.other")
    assert config.stream_of("elsewhere") is None


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("pipeline: shop\n", "", "1:1", "pipeline: is missing"),
        ("pipeline: shop", "pipeline: 'a b'", "1:1", "pipeline"),
        ("pipeline: shop", "pipline: shop", "1:1", "did you mean `pipeline`?"),
        ("mode: changelog", "mode: upsert", "10:5", "'mirror' or 'changelog'"),
        ("mode: changelog", "moed: changelog", "10:5", "did you mean `mode`?"),
        ("hours(order_time)", "hour(order_time)", "7:5", "is no partition field"),
        ("hours(order_time)", "bucket(0, id)", "7:5", "is no partition field"),
        ("hours(order_time)", "x) ; DROP", "7:5", "is no partition field"),
        ('"shop.{table}"', '"shop.{tabel}"', "6:5", "{tabel} is not known"),
        ('"shop.{table}"', '"orders"', "6:5", "is no `namespace.table`"),
        (
            '"shop.{table}"',
            '"shop.{table}"\n    mode: changelog + mirror\n    changelog_table: log',
            "8:5",
            "is no `namespace.table`",
        ),
        (
            '"shop.{table}"',
            '"shop.{table}"\n    changelog_table: "shop.{table}"',
            "5:5",
            "has the name of the mirror",
        ),
        (
            '"shop.{table}"',
            '"shop.{field:x}"\n    changelog_table: a.b',
            "5:5",
            "`changelog_table` is not for streams whose",
        ),
        (
            "mode: changelog",
            "mode: changelog\n    changelog_table: a.b",
            "8:5",
            "`changelog_table` is of a mirror",
        ),
        ('"shop.{table}"', '"shop.{field:}"', "6:5", "{field:} is not known"),
        ('"shop.{table}"', '"shop.{field:a.b}"', "6:5", "{field:name_of_a_field}"),
        ('"shop.{table}"', '"shop.{topic}"\n    routed_by: source', "5:5", "needs {table} or {schema}"),
        (
            '"shop.{table}"',
            '"shop.{table}"\n    tables_at_most: 5',
            "5:5",
            "`tables_at_most` is for a `table` with",
        ),
        ('"shop.{table}"', '"shop.{field:x}"\n    tables_at_most: 5000', "7:5", "less than or equal to 2000"),
        ("(orders|lines)", "(orders|lines", "5:5", "is no regular expression"),
        ("bootstrap.servers", "boot.servers", "3:1", "needs `bootstrap.servers`"),
        ("kafka:", "checkpoint: here\nkafka:", "1:1", "`checkpoint` is no option any more"),
        ("kafka:", "every: soon\nkafka:", "3:1", "is no span of time"),
    ],
)
def test_a_bad_file_is_refused_with_place_and_remedy(old, new, place, words):
    text = GOOD.replace(old, new, 1)
    assert text != GOOD

    with pytest.raises(ConfigError) as refused:
        parsed(text)
    assert words in str(refused.value)
    assert str(refused.value).startswith(f"streams.yaml:{place}: ")


def test_the_environment_wins_and_paths_are_relative_to_the_file(tmp_path):
    path = tmp_path / "streams.yaml"
    path.write_text(GOOD + "spark: {jars: [jars/one.jar, /abs/two.jar]}\n")
    config = load_streams(path, {"ISOTHERM_INGEST_KAFKA__CONTROL_TOPIC": "other", "ISOTHERM_INGESTING": "x"})

    assert "other" == config.kafka.control_topic
    assert (str(tmp_path / "jars/one.jar"), "/abs/two.jar") == config.spark.jars


@pytest.mark.parametrize(
    "topic", ["shop.public.orders", "shop.public.transaction", "shop.transaction", "shop.x"]
)
def test_topics_of_the_streams_match(topic):
    assert re.fullmatch(parsed(GOOD).topic_pattern, topic)


@pytest.mark.parametrize("topic", ["__debezium-heartbeat.shop", "shop", "xshop.public.orders"])
def test_internal_topics_do_not(topic):
    assert not re.fullmatch(parsed(GOOD).topic_pattern, topic)


def test_our_own_topics_are_never_read():
    config = parsed(
        GOOD.replace(
            'localhost:9092"}', 'localhost:9092"}, control_topic: shop.control, dead_letter_topic: shop.dead'
        )
    )

    assert [] == [
        t
        for t in ("shop.control", "shop.control.announced", "shop.dead")
        if re.fullmatch(config.topic_pattern, t)
    ]
    assert re.fullmatch(config.topic_pattern, "shop.dead.more")


@pytest.mark.parametrize(
    ("text", "column", "transform"),
    [
        ("hours(at)", "at", "hours"),
        ("bucket(16, id)", "id", "bucket"),
        (" truncate(4,name) ", "name", "truncate"),
        ("region", "region", "identity"),
    ],
)
def test_partition_fields(text, column, transform):
    field = partition_by(text)

    assert (column, transform) == (field.column, field.transform)


@pytest.mark.parametrize(("text", "expected"), [("500ms", 0.5), ("2s", 2), ("1.5m", 90), ("1h", 3600)])
def test_spans(text, expected):
    assert expected == seconds(text)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (
            {"type": "sql", "uri": "sqlite:////tmp/a b/c.db", "warehouse": "file:///w"},
            {"type": "jdbc", "uri": "jdbc:sqlite:/tmp/a b/c.db", "jdbc.schema-version": "V1", "warehouse": "file:///w"},
        ),
        (
            {"type": "sql", "uri": "postgresql+psycopg2://me:p%40ss@db:5433/lake"},
            {"type": "jdbc", "uri": "jdbc:postgresql://db:5433/lake", "jdbc.schema-version": "V1", "jdbc.user": "me", "jdbc.password": "p@ss"},
        ),
        (
            {"type": "sql", "uri": "postgresql://db/lake?sslmode=verify-full&connect_timeout=5&keepalives=1"
             "&sslrootcert=/etc/ca%20s.pem&options=-c%20statement_timeout%3D5min&target_session_attrs=read-write"},
            {"type": "jdbc", "uri": "jdbc:postgresql://db/lake", "jdbc.schema-version": "V1", "jdbc.sslmode": "verify-full",
             "jdbc.connectTimeout": "5", "jdbc.tcpKeepAlive": "true", "jdbc.sslrootcert": "/etc/ca s.pem",
             "jdbc.options": "-c statement_timeout=5min", "jdbc.targetServerType": "primary"},
        ),
        (
            {"type": "sql", "uri": "sqlite:////tmp/c.db?timeout=2.5&check_same_thread=false"},
            {"type": "jdbc", "uri": "jdbc:sqlite:/tmp/c.db", "jdbc.schema-version": "V1", "jdbc.busy_timeout": "2500"},
        ),
        (
            {"type": "rest", "uri": "http://c", "credential": "a:b", "s3.endpoint": "http://s", "s3.region": "eu", "s3.connect-timeout": "3"},
            {"type": "rest", "uri": "http://c", "credential": "a:b", "s3.endpoint": "http://s", "client.region": "eu", "io-impl": "org.apache.iceberg.aws.s3.S3FileIO"},
        ),
    ],
)  # fmt: skip
def test_the_same_catalog_for_spark(properties, expected):
    if expected["type"] == "rest":
        expected = {
            **expected,
            "rest.client.connection-timeout-ms": "5000",
            "rest.client.socket-timeout-ms": "60000",
        }
    assert {"cache-enabled": "false", **expected} == spark_catalog(LakeConfig(properties=properties))
    assert (
        "mine" == spark_catalog(LakeConfig(properties=properties, spark={"warehouse": "mine"}))["warehouse"]
    )


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("postgresql://u:secret@db/lake?sslmode=require&tcp_user_timeout=3", "`tcp_user_timeout`"),
        ("postgresql://u:secret@db/lake?target_session_attrs=secret", "`target_session_attrs`"),
        ("postgresql://u:a?secret@db/lake", "a port that is none"),
        ("postgresql://u:1?secret@db/lake", "says something in its query"),
        ("mysql+pymysql://u:secret@db/lake?ssl_ca=/secret.pem", "`ssl_ca`"),
        ("sqlite:////tmp/c.db?vfs=secret", "`vfs`"),
        ("sqlite:////tmp/c.db?timeout=secret", "`timeout`"),
    ],
)
def test_what_an_address_says_of_its_connection_is_refused_where_the_jvm_would_not_hear_it(uri, told):
    """Among it may be that the server's certificate is looked at."""
    with pytest.raises(ConfigError, match=told) as refused:
        parsed(GOOD.replace("sqlite:////tmp/a b/catalog.db", uri))

    assert "secret" not in str(refused.value)


def test_who_says_sparks_address_says_its_query_too():
    said = {"uri": "jdbc:postgresql://db/lake?sslmode=require&socketTimeout=9"}
    config = LakeConfig(
        properties={"type": "sql", "uri": "postgresql://me:p@db/lake?tcp_user_timeout=9000"}, spark=said
    )

    assert spark_catalog(config) == {
        **said, "cache-enabled": "false", "type": "jdbc", "jdbc.schema-version": "V1", "jdbc.user": "me", "jdbc.password": "p",
    }  # fmt: skip


def test_options_of_the_kafka_source_that_is_not_used_any_more():
    with pytest.raises(ValueError, match="say in `properties` what reading needs"):
        BrokerConfig(properties={"bootstrap.servers": "k:9092"}, spark={})


# The example


EXAMPLE = Path(__file__).parents[2] / "deploy" / "streams.yaml"


def options(model: type[BaseModel], path: str = "") -> list[str]:
    found: list[str] = []
    for name, field in model.model_fields.items():
        annotation = field.annotation
        below = isinstance(annotation, type) and issubclass(annotation, BaseModel)
        found += options(annotation, f"{path}{name}.") if below else [path + name]
    return found


def test_the_example_says_every_option_with_a_comment():
    load_streams(EXAMPLE, {})
    text = EXAMPLE.read_text()
    for path in options(StreamsConfig) + [f"streams.{name}" for name in Stream.model_fields]:
        if path in {"streams", "http.host", "http.port"}:  # said once for both
            continue
        name = path.rpartition(".")[2]
        indent = r"  (?:  |- )" if path.startswith("streams.") else "  " * path.count(".")
        assert re.search(rf"#.*\n{indent}{name}:", text), f"{path} is missing, or has no comment"


def test_what_the_example_calls_a_default_is_one():
    text = EXAMPLE.read_text()
    for path in options(StreamsConfig):
        value = StreamsConfig.model_fields[path].default if "." not in path else None
        if isinstance(value, str | int) and path != "pipeline":
            comment = re.search(rf"((?:^#.*\n)+)^{path}:", text, flags=re.MULTILINE)[1]
            assert f"Default: {value}" in comment, path
