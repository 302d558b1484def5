"""The reference of `streams.yaml`, and its schema, say what the models say."""

import importlib.util
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from isotherm_ingest.query_config import Emit, Query
from isotherm_ingest.stream_formats import FormatOptions, RegistryConfig
from isotherm_ingest.streams import BrokerConfig, LakeConfig, SparkSettings, Stream, StreamsConfig

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def generator():
    spec = importlib.util.spec_from_file_location("docs_streams", DOCS / "streams.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_and_the_schema_are_those_of_the_models():
    """`python docs/streams.py` writes both."""
    made = generator()

    assert made.reference_text() == (DOCS / "streams.md").read_text(encoding="utf-8")
    assert made.schema_text() == (DOCS / "streams.schema.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "model",
    [
        StreamsConfig,
        BrokerConfig,
        LakeConfig,
        SparkSettings,
        RegistryConfig,
        FormatOptions,
        Stream,
        Query,
        Emit,
    ],
)
def test_every_option_is_described(model):
    text = (DOCS / "streams.md").read_text(encoding="utf-8")

    assert [] == [name for name, one in model.model_fields.items() if not one.description]
    assert [] == [name for name in model.model_fields if f"- **`{name}`** (" not in text]


def test_an_editor_takes_the_example_and_complains_of_what_ingest_refuses():
    validator = Draft202012Validator(generator().schema())
    good = yaml.safe_load((ROOT / "deploy" / "streams.yaml").read_text(encoding="utf-8"))

    assert [] == [one.message for one in validator.iter_errors(good)]
    for bad in (
        {"every": 3},
        {"streams": []},
        {"pipelin": "x"},
        {"streams": [{"topics": "t"}]},
        {"batch_messages": 0},
    ):
        assert list(validator.iter_errors({**good, **bad}))
