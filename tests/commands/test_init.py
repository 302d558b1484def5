"""`isotherm init` writes what the program reads back, for the lake that it is shown, and overwrites nothing."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.core.policy.policy import Mode
from isotherm.core.policy.precedence import resolve
from isotherm.runtime.config import load_config
from isotherm.service.policies.policy_folder import in_force
from support.servers import silent_server
from support.worked import worked_in

SECRET = "hunter2"  # noqa: S105 (it must be in no file that others may read)
ODD = [
    "shop.a: b #c",
    "shop.[x]",
    "shop.star*",
    'shop."quoted"',
    "shop.two words",
    "shop.new\nline",
    "shop.plain",
    "shop.größe",
]


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    return worked_in(tmp_path_factory.mktemp("worked"))


@pytest.fixture
def begin(worked, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words, folder=tmp_path / "new"):
        given = ["--catalog-uri", worked.properties["uri"], "--warehouse", worked.properties["warehouse"]]
        return CliRunner().invoke(app, ["init", *given, *words, str(folder)])

    return run


def test_what_it_writes_is_read_back_and_names_one_table_of_which_nothing_is_deleted(begin, worked, tmp_path):
    result = begin()
    folder = tmp_path / "new"

    assert result.exit_code == 0, result.output
    config = load_config(folder / "isotherm.yaml", environ={})
    assert config.catalog.properties == {name: worked.properties[name] for name in ("uri", "warehouse")}
    assert config.state.path == folder / "state"
    policies = in_force(config.policies, {})
    assert policies.complaints == ()
    policy = policies.resolve("shop.orders", {}).policy
    assert (policy.compact.enabled, policy.expire.enabled, policy.metadata.enabled) == (True, False, False)
    assert policy.orphans.mode is Mode.OFF
    assert policies.resolve("shop.others", {}) is None
    text = (folder / "policies" / "first.yaml").read_text()
    assert "# shop.orders: format 2, 4 partitions, 5 data files of" in text
    assert "partitions would be hot now" in text
    # Commands are whole lines, to be copied.
    assert max(len(one) for one in result.stdout.splitlines() if not one.startswith("    isotherm")) <= 80
    assert [line.split()[1] for line in result.stdout.splitlines() if line.startswith("    isotherm ")] == [
        "doctor",
        "policy",
        "run",
    ]
    assert "Nobody said where Kafka is" in result.stderr


def test_doctor_finds_nothing_wrong_with_it_but_the_broker_that_nobody_named(begin, tmp_path):
    begin()
    result = CliRunner().invoke(app, ["doctor", str(tmp_path / "new" / "isotherm.yaml")])

    assert result.exit_code == 1, result.output
    [wrong] = [line for line in result.stdout.splitlines() if line.startswith("✗")]
    assert wrong.startswith("✗ brokers")


@pytest.mark.parametrize("taken", ["isotherm.yaml", "catalog-secrets.yaml", "policies/first.yaml"])
def test_no_file_is_overwritten_and_then_none_is_written(begin, tmp_path, taken):
    mine = tmp_path / "new" / taken
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    result = begin("--property", f"token={SECRET}")

    assert result.exit_code == 1
    assert f"{taken} is there already" in "".join(result.stderr.split("\n"))
    assert [path for path in (tmp_path / "new").rglob("*") if path.is_file()] == [mine]
    assert mine.read_text() == "mine"


def test_what_may_be_secret_is_in_a_file_for_its_owner_alone(begin, tmp_path):
    properties = {"s3.region": "eu-1", "s3.secret-access-key": SECRET, "unheard.of": f'a "{SECRET}": #'}
    words = [word for name, text in properties.items() for word in ("--property", f"{name}={text}")]
    result = begin(*words)
    folder = tmp_path / "new"
    config = load_config(folder / "isotherm.yaml", environ={})

    assert {name: config.catalog.properties[name] for name in properties} == properties
    assert SECRET not in result.output + (folder / "isotherm.yaml").read_text()
    assert "s3.region" in (folder / "isotherm.yaml").read_text()
    assert stat.S_IMODE((folder / "catalog-secrets.yaml").stat().st_mode) == 0o600
    assert not stat.S_IMODE((folder / "isotherm.yaml").stat().st_mode) & stat.S_IROTH


def test_a_catalog_of_pyicebergs_own_file_is_named_and_nothing_of_it_is_copied(worked, tmp_path):
    described = {"catalog": {"mine": {**worked.properties, "token": SECRET}}}
    (tmp_path / ".pyiceberg.yaml").write_text(yaml.safe_dump(described))
    # PyIceberg reads it once, while it is imported.
    result = subprocess.run(
        [sys.executable, "-m", "isotherm.cli", "init", "--catalog", "mine", str(tmp_path / "new")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYICEBERG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    config = load_config(tmp_path / "new" / "isotherm.yaml", environ={})
    assert (config.catalog.name, config.catalog.properties) == ("mine", {})
    assert not any(SECRET in path.read_text() for path in (tmp_path / "new").rglob("*") if path.is_file())


def test_tables_with_odd_names_break_no_file(tmp_path):
    catalog = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh"
    )
    catalog.create_namespace("shop")
    for number, name in enumerate(ODD):
        location = f"file://{tmp_path}/wh/{number}"
        catalog.create_table(
            tuple(name.split(".", 1)), Schema(NestedField(1, "id", LongType())), location=location
        )
    words = ["init", "--catalog-uri", f"sqlite:///{tmp_path}/c.db", str(tmp_path / "new")]
    result = CliRunner().invoke(app, words)

    assert result.exit_code == 0, result.output
    folder = load_config(tmp_path / "new" / "isotherm.yaml", environ={}).policies
    files = in_force(folder, {}).files()
    assert sum(resolve(name, {}, files) is not None for name in ODD) == 1
    # Each name that is written down can be taken in force as it stands.
    text = (folder / "first.yaml").read_text().replace("# - ", "- ")
    (folder / "first.yaml").write_text(text)
    policies = in_force(folder, {})
    assert policies.complaints == ()
    assert {name for name in ODD if policies.has_policy(name)} == {
        'shop."quoted"',
        "shop.plain",
        "shop.größe",
    }


def test_an_empty_lake_gets_a_policy_for_all_that_will_be_there(tmp_path):
    load_catalog("lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh")
    words = ["init", "--catalog-uri", f"sqlite:///{tmp_path}/c.db", str(tmp_path / "new")]
    result = CliRunner().invoke(app, words)

    assert result.exit_code == 0, result.output
    assert in_force(tmp_path / "new" / "policies", {}).has_policy("any.table")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--catalog-uri", "http://127.0.0.1:1"], ["the catalog http://127.0.0.1:1", "refused", "forms of --catalog-uri"]),
        (["--catalog-uri", "nonsense"], ["the catalog nonsense", "forms of --catalog-uri"]),
        (["--catalog", "nobody-described-it"], ["nobody-described-it", "give --catalog-uri"]),
        (["--catalog-uri", "sqlite:////nowhere/c.db"], ["there is no file /nowhere/c.db"]),
        (["--catalog-uri", f"http://me:{SECRET}@127.0.0.1:1"], ["the catalog http://***@127.0.0.1:1"]),
    ],
)  # fmt: skip
def test_a_bad_address_says_the_place_and_what_to_do_and_writes_nothing(tmp_path, words, told):
    result = CliRunner().invoke(app, ["init", *words, str(tmp_path / "new")])
    said = " ".join(result.stderr.split())

    assert result.exit_code == 1
    assert [one for one in told if one not in said] == []
    assert SECRET not in result.output
    assert not (tmp_path / "new").exists()
    assert not Path("/nowhere").exists()


@pytest.mark.parametrize("is_kafka", [False, True])
def test_what_takes_connections_and_says_nothing_is_given_up_in_time(begin, tmp_path, is_kafka):
    with silent_server() as server:
        if is_kafka:
            result = begin("--kafka", f"127.0.0.1:{server.port}")
        else:
            result = CliRunner().invoke(app, ["init", "--catalog-uri", server.url, str(tmp_path / "new")])
    said = " ".join(result.stderr.split())

    assert result.exit_code == 1
    assert f"127.0.0.1:{server.port or ''}" in said
    assert ("--kafka HOST:PORT" in said) is is_kafka
    assert not (tmp_path / "new").exists()
