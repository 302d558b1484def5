"""`isotherm doctor` on a daemon's folder and a catalog in a file: what is wrong is told with its remedy, and nothing changes."""

import json
import resource
import shutil
import socket
import stat
import zipfile
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.contract.paths import normalised
from support.servers import http_server
from support.worked import worked_in

SECRET = "hunter2"  # noqa: S105 (it must not be shown)


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    return worked_in(tmp_path_factory.mktemp("worked"))


@pytest.fixture
def lab(worked, tmp_path):
    """A configuration beside the worked one, which a test may alter."""
    config = yaml.safe_load((worked.root / "isotherm.yaml").read_text())
    config |= {"state": {"path": str(worked.root / "state")}, "policies": str(worked.root / "policies")}
    config["http"] = {"port": free_port()}
    # Refused at once; a broker that cannot be reached is asked for five seconds.
    config["kafka"] = {"properties": {"bootstrap.servers": "127.0.0.1:1", "acks_": "all"}}
    return Doctored(tmp_path / "isotherm.yaml", config, worked)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Doctored:
    def __init__(self, path, config, worked):
        self.path, self.config, self.worked = path, config, worked

    def ask(self, *words):
        self.path.write_text(yaml.safe_dump(self.config))
        self.path.chmod(0o640)
        return CliRunner().invoke(app, ["doctor", str(self.path), *map(str, words)])

    def findings(self, *words):
        return json.loads(self.ask("-o", "json", *words).stdout)["findings"]

    def of(self, subject, *words):
        return [(one["mark"], one["found"]) for one in self.findings(*words) if one["subject"] == subject]


def everything_in(root):
    """The lake and its catalog. (The stores are SQLite's own, which tidies up when the lab's connection is collected.)"""
    files = [*(root / "warehouse").rglob("*"), root / "catalog.db", *(root / "policies").iterdir()]
    return {path: path.stat().st_mtime_ns for path in files if path.is_file()}


def test_each_line_says_what_was_found_and_what_to_do(lab, monkeypatch):
    del lab.config["kafka"]["properties"]["acks_"]
    monkeypatch.setenv("COLUMNS", "80")
    before = everything_in(lab.worked.root)
    result = lab.ask()

    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    flat = " ".join(result.stdout.split())
    assert "✓ configuration: " in flat
    assert "kafka.properties.bootstrap.servers: 127.0.0.1:1" in flat
    assert "✓ ledger: " in flat
    assert "✗ brokers: none answers: " in flat
    assert "127.0.0.1:1" in flat
    assert "→ kafka.properties.bootstrap.servers says where they are: can this machine reach them?" in flat
    assert "✓ namespace shop: shop.orders is loaded" in flat
    assert "✓ tables: 1 of 1 loaded; 1 table with a policy" in flat
    assert "writing and deleting was not tried: --write-test does" in flat
    assert "findings, 1 for a person" in lines[-1]
    assert everything_in(lab.worked.root) == before


def test_as_json_it_is_the_same_with_every_key(lab):
    told = json.loads(lab.ask("-o", "json").stdout)

    assert set(told) == {"config", "at_ms", "is_well", "write_test", "keys", "findings"}
    assert (told["is_well"], told["write_test"], told["config"]) == (False, False, str(lab.path))
    assert told["keys"]["loop.plan_every_s"] == "10.0"
    assert set(told["findings"][0]) == {"subject", "mark", "found", "remedy", "took_ms", "is_hanging"}
    assert {one["mark"] for one in told["findings"]} == {"well", "wrong", "unknown"}
    assert [one["subject"] for one in told["findings"] if one["mark"] == "wrong"] == ["brokers"]


def test_a_write_test_leaves_nothing_behind(lab):
    before = everything_in(lab.worked.root)
    told = [said for _, said in lab.of("store of this machine", "--write-test")]

    assert [said.partition(" in ")[0] for said in told if said.startswith("a small")] == [
        "a small file was written",
        "a small file was deleted",
    ]
    assert "this machine's clock agrees with that of the store, within 45s" in told
    assert everything_in(lab.worked.root) == before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "no such file"),
        ("catalog: {nam: lake}\nkafka: {}\n", "did you mean `name`?"),
        (f"catalog: {{}}\nkafka: {{properties: {{sasl.password: [{SECRET}]}}}}\n", "kafka.properties"),
        (f"catalog: {{}}\n kafka: {SECRET}\n", "isotherm.yaml:"),
    ],
)
def test_a_configuration_that_cannot_be_read_ends_it(tmp_path, text, told):
    path = tmp_path / "isotherm.yaml"
    if text is not None:
        path.write_text(text)
    result = CliRunner().invoke(app, ["doctor", str(path)])

    assert (result.exit_code, result.stdout) == (78, "")
    assert told in result.stderr
    assert SECRET not in result.output


def test_a_configuration_with_secrets_is_no_bodys_to_read(lab):
    lab.config["kafka"]["properties"]["sasl.password"] = SECRET
    lab.ask()
    lab.path.chmod(0o644)
    result = CliRunner().invoke(app, ["doctor", "--config", str(lab.path)])

    assert "everybody on this machine may read" in " ".join(result.stdout.split())
    assert "chmod 640" in result.stdout
    assert SECRET not in result.output


def test_a_property_that_the_broker_does_not_take_is_named(lab):
    lab.config["kafka"]["properties"]["acks_"] = SECRET
    marks = lab.of("brokers")

    assert marks == [("wrong", 'kafka.properties: No such configuration property: "acks_"')]


def test_a_catalog_that_is_not_there_stops_no_other_check(lab):
    lab.config["catalog"]["properties"]["uri"] = "sqlite:////nowhere/at/all/catalog.db"
    found = lab.findings()

    assert [(one["mark"], one["found"]) for one in found if one["subject"] == "catalog"] == [
        ("wrong", "there is no file /nowhere/at/all/catalog.db")
    ]
    assert "catalog.properties.uri" in next(one["remedy"] for one in found if one["subject"] == "catalog")
    assert found[-1]["subject"] == "daemon"
    assert not Path("/nowhere").exists()


def test_a_table_that_cannot_be_read_is_told_and_the_others_are_counted(lab, tmp_path):
    root = tmp_path / "damaged"
    shutil.copytree(lab.worked.root, root)
    lab.config["catalog"]["properties"] = {
        name: text.replace(str(lab.worked.root), str(root)) for name, text in lab.worked.properties.items()
    }
    location = lab.worked.catalog.load_table("shop.orders").metadata_location
    gone = Path(normalised(location))
    kept = gone.read_bytes()
    gone.unlink()
    try:
        found = lab.findings()
    finally:
        gone.write_bytes(kept)

    assert [one["mark"] for one in found if one["subject"] == "table shop.orders"] == ["wrong"]
    assert ("wrong", "0 of 1 loaded; 0 tables with a policy") in [
        (one["mark"], one["found"]) for one in found if one["subject"] == "tables"
    ]


def test_policies_that_are_missing_or_broken_are_told(lab, tmp_path):
    folder = tmp_path / "policies"
    lab.config["policies"] = str(folder)
    assert "no such folder" in lab.of("policies")[0][1]
    folder.mkdir()
    (folder / "other.yaml").write_text("tables: other.*\n")
    # What a daemon held before counts as in force only as long as its file is there.
    assert lab.of("policies") == [("well", f"1 file in {folder}")]
    assert lab.of("tables")[0] == ("wrong", "1 of 1 loaded; 0 tables with a policy")
    (folder / "broken.yaml").write_text("tables: shop.orders\ncold: {quiet: 3h}\n")
    marks = lab.of("policies")

    assert marks[0][0] == "wrong"
    assert "broken.yaml:2:8: cold.quiet: unknown key" in marks[0][1]


def test_a_state_folder_that_nobody_may_write_and_a_ledger_of_a_newer_version(lab, tmp_path):
    state = tmp_path / "state"
    lab.config["state"]["path"] = str(state)
    assert lab.of("state folder")[0] == ("unknown", f"{state} is not there yet: the daemon makes it")
    assert lab.of("ledger")[0][0] == "unknown"
    state.write_text("a file")
    assert lab.of("state folder") == [("wrong", f"{state} is no folder")]
    state.unlink()
    state.mkdir()
    (state / "ledger.db").write_bytes(b"x" * 5000)
    [(mark, said)] = lab.of("ledger")

    assert mark == "wrong"
    assert "ledger.db: file is not a database" in said


def test_a_limit_of_open_files_that_is_too_low(lab, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    [one] = [one for one in lab.findings() if one["subject"] == "open files"]

    assert (one["mark"], one["found"][:5]) == ("wrong", "1,024")
    assert "LimitNOFILE=" in one["remedy"]


@pytest.mark.parametrize(("status", "mark"), [(200, "well"), (503, "wrong")])
def test_a_daemon_that_answers_is_asked_whether_it_is_ready(lab, status, mark):
    with http_server(lambda *_: (status, {"why": "the catalog does not answer"})) as url:
        lab.config["http"] = {"port": int(url.rpartition(":")[2])}
        [(marked, said)] = lab.of("daemon")

    assert marked == mark
    assert ("the catalog does not answer" in said) is (status == 503)


def test_the_bundle_has_what_helps_and_is_for_its_owner_alone(lab, tmp_path):
    bundle = tmp_path / "b.zip"
    with http_server(lambda *asked: (200, f"isotherm_score 1.0 {asked[1]}\n")) as url:
        lab.config["http"] = {"port": int(url.rpartition(":")[2])}
        result = lab.ask("--bundle", bundle)
    packed = zipfile.ZipFile(bundle)

    assert result.exit_code == 1
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600
    assert {name for name in packed.namelist() if not name.startswith("policies/")} == {
        *("report.json", "configuration.json", "versions.txt", "readyz.txt", "metrics.txt", "ledger.json")
    }
    assert [name for name in packed.namelist() if name.startswith("policies/")]
    assert json.loads(packed.read("report.json"))["findings"]
    assert json.loads(packed.read("configuration.json"))["loop"]["plan_every_s"] == 10
    assert b"isotherm_score 1.0 /metrics" in packed.read("metrics.txt")
    operations = json.loads(packed.read("ledger.json"))
    assert {one["table"]["name"] for one in operations} == {"shop.orders"}
    assert "pyiceberg 0.12.0" in packed.read("versions.txt").decode()


def test_no_bundle_is_written_over_a_file(lab, tmp_path):
    (tmp_path / "b.zip").write_text("mine")
    taken, nowhere = lab.ask("--bundle", tmp_path / "b.zip"), lab.ask("--bundle", tmp_path / "no" / "b.zip")

    assert (taken.exit_code, nowhere.exit_code) == (2, 2)
    assert (tmp_path / "b.zip").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"b.zip", "isotherm.yaml"}
