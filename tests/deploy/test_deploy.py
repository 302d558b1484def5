"""What is shipped for an installation loads, says everything there is to say, and says it truly."""

import configparser
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from isotherm.cli import app
from isotherm.core.policy.policy import Policy
from isotherm.core.policy.precedence import PolicyFile, resolve
from isotherm.runtime.config import IsothermConfig, load_config
from isotherm.runtime.exit_codes import EXIT_BAD_CONFIG, EXIT_FENCED
from isotherm.runtime.yaml_reader import read_yaml
from isotherm.service.policies.policy_folder import PolicyFolder

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "deploy" / "isotherm.yaml"
UNIT = ROOT / "deploy" / "isotherm.service"
POLICIES = ROOT / "policies"
EXAMPLES = sorted((POLICIES / "examples").glob("*.yaml"))
CHOSEN_BY_AN_INSTALLATION = {
    "catalog.properties",
    "kafka.properties",
    "state.path",
    "policies",
}


def options(model: type[BaseModel], path: str = "") -> list[str]:
    """Every option of a model that a person may write, with dots."""
    found: list[str] = []
    for name, field in model.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            found += options(annotation, f"{path}{name}.")
        else:
            found.append(path + name)
    return found


def value_at(data, path: str):
    for step in path.split("."):
        data = data[step] if isinstance(data, dict) else getattr(data, step)
    return data


def comment_before(text: str, path: str) -> str:
    """The comment that stands right before an option, or behind it."""
    name = path.rpartition(".")[2]
    indent = "  " * path.count(".")
    match = re.search(rf"((?:^{indent}#.*\n)+)^{indent}(?:# )?{name}:", text, flags=re.MULTILINE)
    return match[1] if match else ""


def test_zone_data_is_locked_for_every_machine():
    """A slim image has none. Others of our packages need it on Windows alone, and then it is left out here."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")

    assert re.findall(r"^tzdata==\S+ (.*)\n +--hash=sha256:", lock, flags=re.MULTILINE) == ["\\"]


def test_make_uses_the_python_that_a_person_names():
    """A variable of its own with that name took its place, and the first Python that fits was used instead."""
    command = ["make", "-s", "--eval", "named:; @echo $$PYTHON", "named"]
    told = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHON": "python9"}, capture_output=True, text=True, check=True
    )

    assert told.stdout == "python9\n"
    assert "PYTHON" in (ROOT / "deploy" / "bootstrap.sh").read_text()


def test_the_example_of_a_configuration_loads():
    config = load_config(CONFIG, environ={})

    assert config.state.path == Path("/var/lib/isotherm")
    assert config.policies == Path("/etc/isotherm/policies")


@pytest.mark.parametrize("option", options(IsothermConfig))
class TestOption:
    def test_it_stands_in_the_example_with_a_comment_that_says_more_than_its_name(self, option):
        value_at(yaml.safe_load(CONFIG.read_text(encoding="utf-8")), option)

        comment = comment_before(CONFIG.read_text(encoding="utf-8"), option)

        assert len(comment) > 40
        assert "Default: " in comment

    def test_it_has_its_default_unless_an_installation_must_choose(self, option):
        minimal = IsothermConfig.model_validate(
            {"catalog": {}, "kafka": {"properties": {"bootstrap.servers": "b"}}}
        )
        is_default = value_at(read_yaml(CONFIG, IsothermConfig), option) == value_at(minimal, option)

        assert is_default == (option not in CHOSEN_BY_AN_INSTALLATION)

    def test_the_default_that_its_comment_names_is_the_default(self, option):
        minimal = IsothermConfig.model_validate(
            {"catalog": {}, "kafka": {"properties": {"bootstrap.servers": "b"}}}
        )
        named = re.search(r"Default: ([^,\s]+?)(?=[.,]?(\s|$))", comment_before(CONFIG.read_text(), option))
        default = value_at(minimal, option)

        assert named is not None
        if option not in ("catalog.properties", "kafka.properties"):
            assert str(yaml.safe_load(named[1])) == (
                str(int(default)) if isinstance(default, float) else str(default)
            )


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(UNIT, encoding="utf-8")
    return parser


def test_the_unit_starts_a_command_that_exists_on_the_example_of_a_configuration():
    program, command, *arguments = shlex.split(unit()["Service"]["ExecStart"])

    assert Path(program).name == "isotherm"
    assert command in {c.name or c.callback.__name__ for c in app.registered_commands}
    assert arguments == ["--config", "/etc/isotherm/isotherm.yaml"]


def test_the_unit_lets_the_daemon_write_where_the_configuration_says_and_nowhere_else():
    service = unit()["Service"]

    assert f"/var/lib/{service['StateDirectory']}" == str(load_config(CONFIG, environ={}).state.path)
    assert service["ProtectSystem"] == "strict"
    assert "ReadWritePaths" not in service


def test_the_unit_does_not_restart_where_that_mends_nothing_and_does_not_wait_for_a_notification():
    service = unit()["Service"]

    assert service["Restart"] == "on-failure"
    assert {int(one) for one in service["RestartPreventExitStatus"].split()} == {EXIT_BAD_CONFIG, EXIT_FENCED}
    assert (service["Type"], service["WatchdogSec"]) == ("notify", "120")


def test_a_rewrite_that_runs_out_of_memory_does_not_stop_the_unit_and_descriptors_are_plenty():
    service = unit()["Service"]

    assert service["OOMPolicy"] == "continue"
    assert int(service["LimitNOFILE"]) >= 65536


def test_the_default_policy_is_the_built_in_one_written_out():
    rules = read_yaml(POLICIES / "default.yaml", PolicyFile)
    resolved = resolve("any.table", {}, [("default.yaml", rules)])

    assert rules.tables == ("*",)
    assert resolved is not None
    assert resolved.policy == Policy()


@pytest.mark.parametrize("option", options(Policy))
def test_every_rule_stands_in_the_default_policy_with_a_comment(option):
    text = (POLICIES / "default.yaml").read_text(encoding="utf-8")

    assert len(comment_before(text, option)) > 40
    # What a table property may say as well is only shown, else the property would never win.
    is_said = option.rpartition(".")[2] in (yaml.safe_load(text)[option.partition(".")[0]])
    assert is_said == (option != "compact.target_file_size")


def test_under_the_default_policy_a_table_keeps_its_own_target_size_and_the_longer_history():
    rules = read_yaml(POLICIES / "default.yaml", PolicyFile)
    day_ms = 86_400_000
    properties = {
        "write.target-file-size-bytes": "16777216",
        "history.expire.max-snapshot-age-ms": str(day_ms),
        "history.expire.min-snapshots-to-keep": "500",
    }
    resolved = resolve("any.table", properties, [("default.yaml", rules)])

    assert resolved is not None
    policy = resolved.policy
    assert (policy.compact.target_file_size, policy.expire.keep_for, policy.expire.keep_last) == (
        16 * 1024**2,
        7 * day_ms,
        500,
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_of_a_policy_loads_and_changes_something(path):
    rules = read_yaml(path, PolicyFile)
    resolved = resolve(rules.tables[-1].replace("*", "x"), {}, [(path.name, rules)])

    assert resolved is not None
    assert resolved.policy != Policy()


def test_there_are_examples_and_they_are_not_in_force():
    folder = PolicyFolder(POLICIES)
    folder.reload()

    assert len(EXAMPLES) >= 3
    assert ([name for name, _ in folder.files()], folder.complaints) == (["default.yaml"], ())
