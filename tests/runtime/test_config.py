"""The daemon's configuration: what contradicts itself is refused, with its place."""

import pytest

from isotherm.runtime.config import IsothermConfig, load_config
from isotherm.runtime.strict_model import ConfigError
from isotherm.runtime.yaml_reader import environment_overrides, parse_yaml

TEXT = """
catalog: {}
kafka:
  properties: {bootstrap.servers: b}
"""


def test_sources_and_the_dead_letter_topic_are_read():
    text = TEXT + "  sources: [{topic: a, format: iceberg-kafka-connect}]\n  dead_letter_topic: d\n"
    kafka = parse_yaml(text, "isotherm.yaml", IsothermConfig).kafka

    assert [(source.topic, source.format) for source in kafka.sources] == [("a", "iceberg-kafka-connect")]
    assert kafka.dead_letter_topic == "d"


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("  dead_letter_topic: isotherm.control", "isotherm.control stands twice"),
        ("  sources: [{topic: isotherm.control, format: iceberg-kafka-connect}]", "isotherm.control stands twice"),
        ("  sources: [{topic: a, format: avro}]", "isotherm.yaml:5:24: kafka.sources.0.format"),
        ("  sources: [{topic: a, formt: iceberg-kafka-connect}]", "did you mean `format`"),
        ("  sources: [{topic: '', format: iceberg-kafka-connect}]", "kafka.sources.0.topic"),
        ("  dead_letter_topic: d\n  sources: [{topic: d, format: iceberg-kafka-connect}]", "d stands twice"),
    ],
)  # fmt: skip
def test_a_topic_has_one_purpose_and_a_known_format(lines, complaint):
    with pytest.raises(ConfigError) as refused:
        parse_yaml(TEXT + lines, "isotherm.yaml", IsothermConfig)

    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("budgets: 5", "budgets: a section is expected here, with keys of its own: bytes_per_hour"),
        ("budgets: [1]", "budgets: a section is expected here, with keys of its own: bytes_per_hour"),
        ("kafka: {sources: {topic: a}}", "kafka.sources: a list is expected here"),
        ("kafka: {sources: [a]}", "kafka.sources.0: a section is expected here, with keys of its own: format, topic"),
    ],
)  # fmt: skip
def test_something_else_in_the_place_of_a_section_or_a_list_is_told_what_belongs_there(text, complaint):
    with pytest.raises(ConfigError) as refused:
        parse_yaml(text, "isotherm.yaml", IsothermConfig)

    assert complaint in str(refused.value)


SECRET = "hunter2hunter2"  # noqa: S105 (of nothing)


@pytest.mark.parametrize(
    "text",
    [
        "catalog: {properties: {s3.secret-access-key: 1234567}}",
        "catalog: {properties: {credential: [1234567]}}",
        "catalog: {properties: 1234567}",
        "catalog: {timeout_s: 10, password: 1234567}",
        "catalog: {name: 1, properties: {token: !!int 1234567x}}",
        "catalog:\n  properties:\n    token: !1234567",
        "catalog:\n  properties:\n    token: !1234567!x",
        "catalog: {properties: {token: '1234567}}",
        "kafka: {properties: {sasl.password: 1234567.5}}",
    ],
)
def test_a_complaint_repeats_no_secret(text):
    with pytest.raises(ConfigError) as refused:
        parse_yaml(text, "isotherm.yaml", IsothermConfig)

    assert "1234567" not in str(refused.value)
    assert "isotherm.yaml:" in str(refused.value)


@pytest.mark.parametrize(
    "value", ["!!timestamp x", "!!map [a]", "!!set [a]", "!!omap x", "!!binary x", "!!str 1", "! x", "!a!b x"]
)
def test_tags_are_refused_before_a_value_is_made_of_them(value):
    with pytest.raises(ConfigError, match=r"^isotherm.yaml:2:1\d: tags \(!name\) are not allowed: quote "):
        parse_yaml(f"kafka:\n  properties: {value}", "isotherm.yaml", IsothermConfig)


def test_an_environment_variable_may_be_nested_too_deeply():
    with pytest.raises(ConfigError, match="ISOTHERM_HTTP__PORT: not YAML"):
        environment_overrides("ISOTHERM_", {"ISOTHERM_HTTP__PORT": "[" * 5_000})


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("LOOP__PLAN_EVRY_S", "loop.plan_evry_s: unknown key; did you mean `plan_every_s`?"),
        ("HTTP__PORT", "http.port: Input should be a valid integer"),
    ],
)
def test_a_complaint_of_an_environment_variable_names_it_and_no_line_of_the_file(tmp_path, variable, said):
    file = tmp_path / "isotherm.yaml"
    file.write_text(TEXT + "http: {port: 9000}")
    with pytest.raises(ConfigError) as refused:
        load_config(file, {f"ISOTHERM_{variable}": "many"})

    assert str(refused.value).startswith(f"environment variable ISOTHERM_{variable}: {said}")
    assert "many" not in str(refused.value)


def test_other_values_are_still_repeated():
    with pytest.raises(ConfigError, match=r"http\.port: .* \(it says 70000\)"):
        parse_yaml(TEXT + "http: {port: 70000}", "isotherm.yaml", IsothermConfig)


def test_what_an_environment_variable_says_is_not_repeated():
    with pytest.raises(ConfigError, match="ISOTHERM_CATALOG__PROPERTIES__CREDENTIAL: not YAML") as refused:
        environment_overrides("ISOTHERM_", {"ISOTHERM_CATALOG__PROPERTIES__CREDENTIAL": f"{{{SECRET}"})

    assert SECRET not in str(refused.value)


@pytest.fixture
def with_secrets(tmp_path):
    (tmp_path / "isotherm.yaml").write_text(
        "catalog: {properties: {uri: u}, properties_from: lake.yaml}\nkafka: {properties_from: kafka.yaml}\n"
    )

    def write(catalog, kafka):
        (tmp_path / "lake.yaml").write_text(catalog)
        (tmp_path / "kafka.yaml").write_text(kafka)
        return load_config(tmp_path / "isotherm.yaml", {})

    return write


def test_properties_may_stand_in_a_file_of_their_own(with_secrets):
    config = with_secrets(f"credential: {SECRET}", f"bootstrap.servers: b\nsasl.password: {SECRET}")

    assert config.catalog.properties == {"uri": "u", "credential": SECRET}
    assert config.kafka.properties == {"bootstrap.servers": "b", "sasl.password": SECRET}


@pytest.mark.parametrize(
    ("catalog", "kafka", "complaint"),
    [
        (
            "credential: 1234567",
            "bootstrap.servers: b",
            "lake.yaml: credential: Input should be a valid string",
        ),
        ("credential: [1234567]", "bootstrap.servers: b", "lake.yaml:1:1: credential"),
        ("", "sasl.password: '1234567'", "kafka.yaml: kafka.properties needs `bootstrap.servers`"),
        ("{1234567", "bootstrap.servers: b", "lake.yaml:1:9: "),
    ],
)
def test_a_file_of_secrets_that_is_wrong_is_refused_without_repeating_it(
    with_secrets, catalog, kafka, complaint
):
    with pytest.raises(ConfigError) as refused:
        with_secrets(catalog, kafka)

    assert complaint in str(refused.value)
    assert "1234567" not in str(refused.value)


def test_a_file_of_secrets_that_is_not_there_is_named(tmp_path):
    (tmp_path / "isotherm.yaml").write_text("catalog: {}\nkafka: {properties_from: nowhere.yaml}\n")
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: no such file"):
        load_config(tmp_path / "isotherm.yaml", {})
