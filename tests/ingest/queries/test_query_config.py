"""What `streams.yaml` says of a query."""

import pytest

from isotherm.runtime.strict_model import ConfigError
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.query_config import Query
from isotherm_ingest.streams import StreamsConfig

CONFIG = """
pipeline: shop
catalog: {}
kafka: {properties: {bootstrap.servers: k}}
streams:
  - {topics: t, table: shop.log, mode: changelog}
queries:
  - table: shop.sums
    key: [id]
    sql: "SELECT id FROM shop.log WHERE id >= {first:id} AND id <= {last:id};"
    changes: {shop.log: SELECT id FROM changes}
"""


def test_ends_are_put_where_they_are_asked_for():
    (query,) = parse_yaml(CONFIG, "streams.yaml", StreamsConfig).queries

    assert query.sql_for(lambda which, name: f"<{which} {name}>") == (
        "SELECT id FROM shop.log WHERE id >= <first id> AND id <= <last id>"
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("table: shop.sums", "table: sums", "'sums' is no `namespace.table`"),
        ("table: shop.sums", "table: shop.{table}", "is no `namespace.table`"),
        ("table: shop.sums", "table: shop.log", "cannot be computed from its own changes"),
        ("key: [id]", "key: []", "at least 1 item"),
        ("key: [id]", "key: [id, ID]", "`key` has a column twice"),
        ("{last:id}", "{last:day}", "asks for the ends of 'day', which is none of `key`"),
        ("changes: {shop.log: SELECT id FROM changes}", "changes: {}", "at least 1 item"),
        ("shop.log: SELECT", "log: SELECT", "'log' is no `namespace.table`"),
        ("key: [id]", "key: [id]\n    partition_by: [weeks(id)]", "'weeks(id)' is no partition field"),
        ("key: [id]", "key: [id]\n    every: soon", "is no span of time"),
        ("key: [id]", "key: [id]\n    emit: {topic: x, when: final}", "`when: final` needs `time`"),
        ("key: [id]", "key: [id]\n    emit: {topic: x, time: id}", "`when: final` needs `time`"),
        ("table: shop.log, mode", "table: shop.sums, mode", "is the table of a stream, and cannot be that of a query"),
    ],
)  # fmt: skip
def test_a_bad_query_is_refused_with_its_place(old, new, words):
    text = CONFIG.replace(old, new.replace("\\\n", "\n"), 1)
    assert text != CONFIG
    with pytest.raises(ConfigError) as refused:
        parse_yaml(text, "streams.yaml", StreamsConfig)
    assert words in str(refused.value)
    assert str(refused.value).startswith("streams.yaml:")


def test_a_table_has_one_query():
    twice = CONFIG + CONFIG.partition("queries:\n")[2]
    with pytest.raises(ConfigError, match=r"`queries` has the table 'shop\.sums' twice"):
        parse_yaml(twice, "streams.yaml", StreamsConfig)
    with pytest.raises(ValueError, match="`sql` is empty"):
        Query(table="a.b", key=("x",), sql=" ; ", changes={"c.d": "e"})
