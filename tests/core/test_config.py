"""The daemon's configuration: what contradicts itself is refused, with its place."""

import pytest

from isotherm.config import ConfigError, IsothermConfig, parse_yaml

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
