"""What a stream says of its format: what is refused, and with which words."""

import pytest

from isotherm.runtime.strict_model import ConfigError
from isotherm_ingest.decode.debezium_json import DebeziumJson
from isotherm_ingest.decode.declared_json import DeclaredJson
from support.declared import CONFIG, stream_of

MIRROR = CONFIG.replace("mode: changelog", "key: [sensor]")


def test_a_stream_says_nothing_of_debeziums_json_with_schemas():
    bare = CONFIG.partition("    mode:")[0]

    assert stream_of(bare).message_format == DebeziumJson()


def test_a_stream_of_json_says_its_columns():
    assert stream_of().message_format == DeclaredJson(
        (("sensor", "STRING NOT NULL"), ("at", "TIMESTAMP(ms)")), has_envelope=False
    )
    assert stream_of(MIRROR).key == ("sensor",)
    bare = stream_of(CONFIG.replace("envelope: none", "others: text")).message_format
    assert (bare.has_envelope, bare.others) == (True, "text")


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("TIMESTAMP(ms)", "TIMESTAMPS", "12:7", "'TIMESTAMPS' is no type of a column; known: BOOLEAN, INT"),
        ("at: TIMESTAMP(ms)", "at: 7", "12:7", "valid string"),
        ("format: json", "format: xml", "8:5", "'debezium-json' or 'json'"),
        ("envelope: none", "envelope: connect", "9:5", "'debezium' or 'none'"),
        ("envelope: none", "others: keep", "9:5", "'ignore', 'dead_letter' or 'text'"),
        ("format: json", "on_hole: halt", "5:5", "`columns` is of `format: json` alone"),
        ("at: TIMESTAMP(ms)", "SENSOR: STRING", "5:5", "two columns differ by upper and lower case only"),
        ("at: TIMESTAMP(ms)", "_Others: STRING", "5:5", "`_others` is the column of `others: text`"),
        ("at: TIMESTAMP(ms)", '"": STRING', "5:5", "'' cannot be the name of a column"),
        ("mode: changelog", "mode: mirror", "5:5", "a mirror of plain events needs `key`"),
        ("mode: changelog", "key: [id]", "5:5", "`key` names 'id', which is none of `columns`"),
        ("mode: changelog", "key: [sensor]\n    partition_by: [days(day)]", "5:5", "`partition_by` names 'day'"),
        ("mode: changelog", "key: [SENSOR]\n    event_time: when", "5:5", "`event_time` names 'when'"),
        ("lake.sensors", "lake.{table}", "5:5", "{table} comes from a change's source"),
    ],
)  # fmt: skip
def test_a_bad_stream_is_refused_with_place_and_remedy(old, new, place, words):
    text = CONFIG.replace(old, new, 1)
    assert text != CONFIG

    with pytest.raises(ConfigError) as refused:
        stream_of(text)
    assert words in str(refused.value)
    assert str(refused.value).startswith(f"streams.yaml:{place}: ")


def test_json_needs_columns_and_of_those_not_too_many():
    with pytest.raises(ConfigError, match="needs `columns`"):
        stream_of(CONFIG.partition("    columns:")[0])
    many = "".join(f"      c{number}: ARRAY<INT>\n" for number in range(1000))
    with pytest.raises(ConfigError, match="cost as much as 2002"):
        stream_of(CONFIG + many)
