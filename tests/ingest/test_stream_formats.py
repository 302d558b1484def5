"""What a stream says of its format: what is refused, and with which words."""

import pytest
from typer.testing import CliRunner

from isotherm.runtime.strict_model import ConfigError
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.cli import app
from isotherm_ingest.decode.avro import Avro
from isotherm_ingest.decode.debezium_json import DebeziumJson
from isotherm_ingest.decode.declared_json import DeclaredJson
from isotherm_ingest.streams import StreamsConfig, load_streams
from support.declared import CONFIG, stream_of

MIRROR = CONFIG.replace("mode: changelog", "key: [sensor]")


def test_a_stream_says_nothing_of_debeziums_json_with_schemas():
    bare = CONFIG.partition("    mode:")[0]

    assert stream_of(bare).message_format(None) == DebeziumJson()


def test_a_stream_of_json_says_its_columns():
    assert stream_of().message_format(None) == DeclaredJson(
        (("sensor", "STRING NOT NULL"), ("at", "TIMESTAMP(ms)")), has_envelope=False
    )
    assert stream_of(MIRROR).key == ("sensor",)
    assert stream_of(MIRROR.replace("at: T", "_op: T")).columns["_op"]
    bare = stream_of(CONFIG.replace("envelope: none", "others: text")).message_format(None)
    assert (bare.has_envelope, bare.others) == (True, "text")


def test_a_stream_of_avro_needs_a_registry_which_says_how_messages_say_their_schema():
    rest = CONFIG.partition("    format:")[0] + "    format: avro\n"
    with pytest.raises(ConfigError, match="`format: avro` needs a `registry`"):
        stream_of(rest)
    text = rest + "    envelope: none\nregistry: {url: 'https://r.example.com/apis', framing: headers}\n"
    config = parse_yaml(text, "streams.yaml", StreamsConfig)
    assert config.streams[0].message_format(config.registry) == Avro("headers", has_envelope=False)
    assert config.streams[0].has_events


@pytest.mark.parametrize(
    "url",
    ["r.example.com", "ftp://r", "https://me:secret@r.example.com", "https://r/?key=secret", "https://"],
)
def test_an_address_of_a_registry_has_no_login_in_it(url):
    """It stands in errors."""
    with pytest.raises(ConfigError, match="must be an address without a login") as refused:
        stream_of(CONFIG + f"registry: {{url: '{url}'}}\n")
    assert "secret" not in str(refused.value)


def test_a_login_that_no_header_can_have_is_refused_and_not_shown():
    with pytest.raises(ConfigError, match="cannot have characters beyond Latin-1") as refused:
        stream_of(CONFIG + "registry: {url: 'https://r', username: me, password: 'p\u20acs3cret'}\n")
    assert "s3cret" not in str(refused.value)


def test_certificates_that_are_missing_are_told_before_anything_is_read(tmp_path):
    """A file is checked on other machines, too, so this is no mistake in it."""
    path = tmp_path / "streams.yaml"
    path.write_text(CONFIG + "registry: {url: 'https://r', ca_file: ca.pem}\n")
    told = CliRunner().invoke(app, ["validate", "--no-environment", str(path)])
    refused = CliRunner().invoke(app, ["run", str(path)])

    words = f"registry.ca_file: {tmp_path / 'ca.pem'} does not exist"
    assert (told.exit_code, words in told.stderr) == (0, True)
    assert (refused.exit_code != 0, words in refused.stderr) == (True, True)
    (tmp_path / "ca.pem").touch()
    assert CliRunner().invoke(app, ["validate", "--no-environment", str(path)]).stderr == ""


def test_what_a_registry_asks_for_comes_from_the_environment_and_from_files_beside(tmp_path):
    path = tmp_path / "streams.yaml"
    path.write_text(CONFIG + "registry: {url: 'https://r', username: me, ca_file: ca.pem}\n")
    config = load_streams(path, {"ISOTHERM_INGEST_REGISTRY__PASSWORD": "s3cret"})

    assert config.registry.login == ("me", "s3cret")
    assert config.registry.ca_file == tmp_path / "ca.pem"
    assert "s3cret" not in repr(config)
    assert stream_of(CONFIG + "registry: {url: 'https://r'}\n")


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("TIMESTAMP(ms)", "TIMESTAMPS", "12:7", "'TIMESTAMPS' is no type of a column; known: BOOLEAN, INT"),
        ("at: TIMESTAMP(ms)", "at: 7", "12:7", "valid string"),
        ("format: json", "format: xml", "8:5", "'debezium-json', 'json' or 'avro'"),
        ("envelope: none", "envelope: connect", "9:5", "'debezium' or 'none'"),
        ("envelope: none", "others: keep", "9:5", "'ignore', 'dead_letter' or 'text'"),
        ("format: json", "on_hole: halt", "5:5", "`columns` is of `format: json`: here"),
        ("format: json", "format: avro", "5:5", "`columns` is of `format: json`: here"),
        ("at: TIMESTAMP(ms)", "SENSOR: STRING", "5:5", "two columns differ by upper and lower case only"),
        ("at: TIMESTAMP(ms)", "_POS: BIGINT", "5:5", "column '_POS' has the name of one that Iceberg"),
        ("at: TIMESTAMP(ms)", "_op: STRING", "5:5", "column '_op' has the name of one that Iceberg, or a changelog"),
        ("at: TIMESTAMP(ms)", "_Others: STRING", "5:5", "`_others` is the column of `others: text`"),
        ("at: TIMESTAMP(ms)", '"": STRING', "5:5", "'' cannot be the name of a column"),
        ("mode: changelog", "mode: mirror", "5:5", "a mirror of plain events needs `key`"),
        ("mode: changelog", "key: [id]", "5:5", "`key` names 'id', which is none of `columns`"),
        ("mode: changelog", "key: [sensor]\n    partition_by: [days(day)]", "5:5", "`partition_by` names 'day'"),
        ("mode: changelog", "mode: changelog\n    partition_by: [days(sensor)]", "5:5", "`partition_by` has 'days(sensor)', but 'sensor' is STRING"),
        ("mode: changelog", "mode: changelog\n    partition_by: [hours(Sensor)]", "5:5", "`partition_by` has 'hours(Sensor)', but 'Sensor' is STRING"),
        ("mode: changelog", "key: [SENSOR]\n    event_time: when", "5:5", "`event_time` names 'when'"),
        ("lake.sensors", "lake.{table}", "5:5", "{table} comes from a change's source"),
        ("mode: changelog", "mode: changelog\n    names: {when: [at], At: [x]}", "5:5", "`names` has 'at' for a column, and for the source of"),
        ("mode: changelog", "mode: changelog\n    names: {a: [x], A: [y]}", "5:5", "`names` has the column 'a' twice"),
        ("mode: changelog", "mode: changelog\n    names: {a: [x], b: [X]}", "5:5", "`names` has the name of the source 'x' twice"),
        ("mode: changelog", "mode: changelog\n    names: {a: []}", "5:5", "`names` says no name of the source for 'a'"),
        ("mode: changelog", "mode: changelog\n    names: {_file: [at]}", "5:5", "column '_file' has the name of one that Iceberg"),
        ("mode: changelog", "mode: changelog\n    names: {when: [at]}\n    event_time: whenever", "5:5", "`event_time` names 'whenever'"),
        ("lake.sensors", '"lake.{field:room}"', "5:5", "`table` names the field 'room', which is none of `columns`"),
        ("lake.sensors", '"lake.{field:Sensor}"', "5:5", "`table` names the field 'Sensor', which is none of `columns`"),
        ("lake.sensors\n    mode: changelog", '"lake.{field:sensor}"\n    key: [at]', "5:5", "`table` names the field 'sensor', which is not in `key`"),
        ("mode: changelog", "misfits: drop", "7:5", "'dead_letter' or 'column'"),
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


def test_a_date_has_days_but_no_hours():
    days = CONFIG.replace("TIMESTAMP(ms)", "DATE") + "    partition_by: [days(at), sensor]\n"

    assert stream_of(days).event_time_column == "at"
    assert stream_of(CONFIG + "    partition_by: [hours(At)]\n").event_time_column == "At"
    with pytest.raises(ConfigError, match=r"'hours.at.', but 'at' is DATE"):
        stream_of(days.replace("days(at)", "hours(at)"))


def test_a_table_is_named_by_a_declared_field_and_a_mirror_by_one_of_its_key():
    log = CONFIG.replace("lake.sensors", '"lake.{field:sensor}"')
    assert stream_of(log).fields == ("sensor",)
    mirror = log.replace("mode: changelog", "key: [place, at]\n    names: {place: [Sensor]}")
    assert stream_of(mirror).is_routed
    with pytest.raises(ConfigError, match="`table` cannot have 'sensor', which is BINARY"):
        stream_of(log.replace("STRING NOT NULL", "BINARY"))


def test_a_changelog_beside_a_mirror_keeps_its_own_columns_from_being_declared():
    assert stream_of(MIRROR.replace("at: T", "_op: T")).mode == "mirror"
    with pytest.raises(ConfigError, match="column '_op' has the name of one that Iceberg, or a changelog"):
        stream_of(MIRROR.replace("at: T", "_op: T").replace("key:", "mode: changelog + mirror\n    key:"))


def test_a_stream_may_say_a_column_by_either_of_its_names():
    named = CONFIG + "    names: {when: [at]}\n    partition_by: [hours(WHEN)]\n"

    assert stream_of(named).event_time_column == "WHEN"
    assert stream_of(named.replace("[hours(WHEN)]", "[sensor]\n    event_time: at")).event_time_column == "at"
    with pytest.raises(ConfigError, match=r"'hours.when.', but 'when' is DATE"):
        stream_of(named.replace("TIMESTAMP(ms)", "DATE").replace("WHEN", "when"))
