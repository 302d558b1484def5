"""The policy reference and the schema say what the models say, and every policy of ours does what it tells."""

import importlib.util
import json
import re
import textwrap
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.core.policy.fields import FLOORS, RULES
from isotherm.core.policy.json_schema import schema
from isotherm.core.policy.policy import Policy
from isotherm.core.policy.precedence import PROPERTIES, PolicyFile
from isotherm.demo import files as demo_files
from isotherm.runtime.strict_model import ConfigError
from isotherm.runtime.yaml_reader import parse_yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
POLICIES = sorted((ROOT / "policies").rglob("*.yaml"))
REFERENCE = (DOCS / "policies.md").read_text(encoding="utf-8")
IDS = [str(path.relative_to(ROOT)) for path in POLICIES]
VALIDATOR = Draft7Validator(schema())


def generator():
    spec = importlib.util.spec_from_file_location("docs_policies", DOCS / "policies.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def as_an_editor_reads(text: str):
    """YAML 1.2, as the models read it, without any model."""

    class Anything(PolicyFile):
        @classmethod
        def model_validate(cls, data):
            return data

    return parse_yaml(text, "p.yaml", Anything)


def test_the_reference_and_the_schema_are_those_of_the_models():
    """`python docs/policies.py` writes both."""
    made = generator()

    assert made.reference_text(REFERENCE) == REFERENCE
    assert made.schema_text() == (DOCS / "policy.schema.json").read_text(encoding="utf-8")


def test_every_field_floor_and_property_stands_in_the_reference():
    for rule in RULES.values():
        assert f"**`{rule.name}`**" in REFERENCE
    for name in (*FLOORS, *PROPERTIES):
        assert name in REFERENCE


def test_the_example_in_the_reference_is_a_policy_that_does_what_it_tells(tmp_path):
    (example,) = re.findall(r"((?:^    .*\n|^\n)+)Only a table", REFERENCE, flags=re.MULTILINE)
    path = tmp_path / "example.yaml"
    path.write_text(textwrap.dedent(example))
    result = CliRunner().invoke(app, ["policy", "test", str(path)])

    assert (result.exit_code, result.output) == (0, "1 test, all as expected\n")


def test_the_example_of_windows_in_the_reference_is_one_of_a_policy():
    (example,) = re.findall(r"((?:^    .*\n)+)\nA window says when", REFERENCE, flags=re.MULTILINE)
    work = parse_yaml(f"tables: a\n{textwrap.dedent(example)}", "p.yaml", PolicyFile).work

    assert (work.tz, len(work.windows), len(work.schedules)) == ("Europe/Berlin", 2, 1)


@pytest.mark.parametrize("path", POLICIES, ids=IDS)
class TestPolicy:
    def test_its_tests_tell_its_story(self, path):
        result = CliRunner().invoke(app, ["policy", "test", str(path), "-o", "json"])
        told = json.loads(result.stdout)

        assert [one for one in told if not one["judged"]["ok"]] == []
        verdicts = {one["judged"]["expected"] for one in told}
        assert {"due", "hot"} <= verdicts  # the yes and the no

    def test_its_first_line_leads_an_editor_to_the_schema(self, path):
        first, _, _ = path.read_text(encoding="utf-8").partition("\n")
        link = first.removeprefix("# yaml-language-server: $schema=")

        assert (path.parent / link).resolve() == DOCS / "policy.schema.json"

    def test_the_schema_accepts_it(self, path):
        data = as_an_editor_reads(path.read_text(encoding="utf-8"))

        assert list(VALIDATOR.iter_errors(data)) == []


def test_the_demo_has_its_schema_beside_it(tmp_path):
    folder = demo_files.DemoFolder(tmp_path)
    demo_files.write_files(folder, "127.0.0.1:9092", [], 0, 0)
    first, _, _ = folder.policy_yaml.read_text(encoding="utf-8").partition("\n")
    link = folder.policy_yaml.parent / first.removeprefix("# yaml-language-server: $schema=")

    assert json.loads(link.read_text(encoding="utf-8")) == schema()
    for policy in folder.policies.glob("*.yaml"):
        assert list(VALIDATOR.iter_errors(as_an_editor_reads(policy.read_text(encoding="utf-8")))) == []


def test_the_schema_is_one_of_draft_7_without_references():
    Draft7Validator.check_schema(schema())
    text = json.dumps(schema())

    assert schema()["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert not re.search(r'"(\$ref|\$defs|definitions|prefixItems|\$anchor|unevaluatedProperties)"', text)
    result = CliRunner().invoke(app, ["policy", "schema"])
    assert json.loads(result.stdout) == schema()


def test_every_field_is_described_in_the_schema():
    def undescribed(node, path=""):
        for name, one in node.get("properties", {}).items():
            if not one.get("description"):
                yield f"{path}{name}"
            yield from undescribed(one, f"{path}{name}.")
            yield from undescribed(one.get("items", {}), f"{path}{name}.")

    assert list(undescribed(schema())) == []


def test_the_defaults_in_the_schema_are_the_defaults():
    said = {
        section: {name: one["default"] for name, one in schema()["properties"][section]["properties"].items()}
        for section in Policy.model_fields
    }

    assert PolicyFile.model_validate({"tables": "*", **said}).model_dump(exclude={"tables", "tests"}) == {
        **Policy().model_dump(),
        "override": (),
    }


BAD = [
    "tables: a\ncold: {quiet_fro: 5m}",
    "tables: a\nx: 1",
    "cold: {}",
    "tables: []",
    "tables: a\ncold: {quiet_for: 15}",
    "tables: a\ncold: {quiet_for: 5 parsecs}",
    "tables: a\ncompact: {target_file_size: large}",
    "tables: a\ncompact: {min_files: '7'}",
    "tables: a\ncompact: {min_files: 1}",
    "tables: a\ncompact: {max_delete_ratio: 0}",
    "tables: a\norphans: {mode: sometimes}",
    "tables: a\nwork: {windows: [{cron: hourly, lasts: 1h}]}",
    "tables: a\nwork: {windows: [{cron: 0 3 * * *}]}",
    "tables: a\nwork: {schedules: [{cron: 0 3 * * *, lasts: 1h, do: [dance]}]}",
    "tables: a\nwork: {windows: [{cron: 0 3 * * *, lasts: 1h, do: []}]}",
    "tables: a\nwork: {tz: ../../etc/passwd}",
    "tables: a\nwork: {tz: +02:00}",
    "tables: a\noverride: [cold.after]",
    "tables: a\ntests: [{name: n, partition: '7', spec: 'bucket[8]', expect: dew}]",
    "tables: a\ntests: [{name: n, partition: '7', spec: 'buckets', expect: due}]",
    "tables: a\ntests: [{name: n, spec: none, files: many, expect: due}]",
    "tables: a\ntests: [{name: n, spec: none, last_write: 5m, expect: due}]",
    "tables: a\ntests: [{name: n, spec: none}]",
]


@pytest.mark.parametrize("text", BAD)
def test_what_the_models_refuse_at_sight_the_schema_refuses_too(text):
    with pytest.raises(ConfigError):
        parse_yaml(text, "p.yaml", PolicyFile)

    assert list(VALIDATOR.iter_errors(as_an_editor_reads(text))) != []


GOOD = [
    "tables: [a, 'b.*']\ncold:\nexpire:\n",
    "tables: a\ncold: {quiet_for: 0, after_at_most: 1h 30m, after: 0.5, epochs: {day: yyyymmdd}}",
    "tables: a\ncompact: {target_file_size: 1.5 GiB}",
    "tables: a\ncompact: {target_file_size: 134217728}",
    "tables: a\norphans: {mode: off}",
    "tables: a\nwork: {jobs_at_once: null, bytes_per_hour: 20GiB, priority: -1}",
    "tables: a\nwork: {schedules: [{name: n, cron: '*/5 1-4 * * mon', lasts: 1h, do: [compact, expire], from_score: 0.5}]}",
    "tables: a\nwork: {tz: America/Port-au-Prince, windows: [{cron: 0 22 * * *, lasts: 8h, do: [compact]}]}",
    "tables: a\noverride: [expire.keep_last]\nexpire: {keep_last: 1}",
    "tables: a\ntests: [{name: n, spec: none, files: [1 of 1MiB, 2 of 3KiB], rows: 5, deletes: 1 row in 1 file, expect: off}]",
    "tables: a\ntests: [{name: n, at: 2026-01-01T12:00:00+01:00, spec: day, partition: 2026-01-01, expect: due}]",
]


@pytest.mark.parametrize("text", GOOD)
def test_what_the_models_take_the_schema_takes_too(text):
    parse_yaml(text, "p.yaml", PolicyFile)

    assert list(VALIDATOR.iter_errors(as_an_editor_reads(text))) == []


def test_every_policy_is_read_alike_by_older_yaml():
    """Editors and CI of others may read YAML 1.1: nothing in our examples depends on the difference."""
    for path in POLICIES:
        text = path.read_text(encoding="utf-8")
        data = yaml.safe_load(text)
        data.pop("tests")
        assert data == {key: value for key, value in as_an_editor_reads(text).items() if key != "tests"}
