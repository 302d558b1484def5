"""`isotherm look` on a real catalog that no daemon has ever seen: what is worst comes first, and nothing is changed."""

import json
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import HourTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, TimestamptzType
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.iceberg.catalog import connect, connect_to_read
from isotherm.runtime.config import CatalogConfig
from isotherm.service.ports import Unavailable

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "at", TimestamptzType()))
BY_HOUR = PartitionSpec(PartitionField(2, 1000, HourTransform(), "at_hour"))
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
ODD = "shop.<script>alert(1)</script>"


def appended(table, count, hour=0):
    at = pa.array([NEW_YEAR + timedelta(hours=hour)], pa.timestamp("us", "UTC"))
    rows = pa.table({"id": pa.array([1], pa.int64()), "at": at}, schema=SCHEMA.as_arrow())
    for _ in range(count):
        table.append(rows)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Its folder: a table with small files, one with few, one that nobody can read, an empty one with an odd name."""
    root = tmp_path_factory.mktemp("lake")
    catalog = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}/warehouse"
    )
    catalog.create_namespace("shop")
    few = catalog.create_table("shop.few", SCHEMA)
    appended(few, 2)
    many = catalog.create_table("shop.many", SCHEMA, partition_spec=BY_HOUR)
    for hour in range(2):
        appended(many, 21, hour)
    catalog.create_table(ODD, SCHEMA)
    damaged = catalog.create_table("shop.damaged", SCHEMA)
    appended(damaged, 1)
    Path(damaged.current_snapshot().manifest_list.removeprefix("file://")).write_bytes(b"no manifest list")
    return root


@pytest.fixture
def look(lake, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    words = ["look", "--catalog", "lake", "--catalog-uri", f"sqlite:///{lake}/catalog.db"]

    def run(*more):
        return CliRunner().invoke(app, [*words, "--warehouse", f"file://{lake}/warehouse", *more])

    return run


def everything_in(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_what_is_worst_comes_first_and_what_cannot_be_read_stops_nothing(look, lake):
    before = everything_in(lake)
    result = look()

    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == [
        "table",
        "files",
        "could",
        "be",
        "to",
        "rewrite",
        "snapshots",
        "may",
        "go",
        "partitions",
    ]
    assert lines[1].split()[:3] == ["shop.many", "42", "2"]
    assert any(line.split()[:3] == ["shop.few", "2", "2"] for line in lines)
    flat = " ".join(result.stdout.split())
    assert "shop.many format 2, 2 partitions, 42 data files of" in flat
    assert "once its partitions are cold: 2 jobs would read" in flat
    assert "then a full scan opens 2 files" in flat
    assert "shop.damaged" in flat
    assert "Judged by the built-in default policy. Nothing was changed." in flat
    assert max(map(len, lines)) <= 80
    assert everything_in(lake) == before


def test_a_table_that_is_named_is_told_of_whatever_it_suffers(look):
    result = look("shop.few")

    assert result.exit_code == 0
    assert "nothing to gain by compaction: a full scan opens 2 files" in " ".join(result.stdout.split())
    assert "shop.many" not in result.stdout


@pytest.mark.parametrize(("name", "code"), [("shop.damaged", 1), ("shop.nothing", 2), ("nothing", 2)])
def test_a_table_that_is_named_and_cannot_be_read_is_an_error(look, name, code):
    """The catalog has the first, and does not know the others."""
    result = look(name, "shop.few")

    assert (result.exit_code, "shop.few" in result.stdout, name in result.stdout) == (code, True, True)


def test_the_policy_of_a_file_is_judged_by_whatever_tables_it_names(look, tmp_path):
    (tmp_path / "mine.yaml").write_text("tables: other.table\ncompact:\n  min_files: 2\n")
    result = look("shop.few", "--policy", str(tmp_path / "mine.yaml"))

    assert "once its partitions are cold: 1 job would read" in " ".join(result.stdout.split())
    assert "Judged by mine.yaml." in result.stdout


def test_as_json_it_is_the_same(look):
    found = json.loads(look("-o", "json").stdout)

    assert (found["catalog"], found["policy"]) == ("lake", "built-in")
    worst = found["tables"][0]
    assert (worst["table"], worst["examination"]["data"]["files"]) == ("shop.many", 42)
    assert worst["examination"]["in_the_end"]["files"] == 2
    assert [one["name"] for one in found["unread"]] == ["shop.damaged"]


class Elements(HTMLParser):
    """The elements of a page, and all of its text."""

    def __init__(self):
        super().__init__()
        self.tags, self.text = [], ""

    def handle_starttag(self, tag, _):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def test_the_page_has_pictures_and_no_name_of_a_table_is_a_part_of_it(look, tmp_path):
    result = look("--page", str(tmp_path / "page.html"))
    page = Elements()
    page.feed((tmp_path / "page.html").read_text())

    assert result.exit_code == 0
    assert {"svg", "rect"} <= set(page.tags)
    assert "script" not in page.tags
    assert ODD in page.text
    assert "opens 44 files today, and 4 once they are compacted" in page.text
    assert "shop.damaged" in page.text


@pytest.mark.parametrize(
    ("words", "exit_code", "complaint"),
    [
        (["--property", "secret"], 2, "is no NAME=VALUE"),
        (["--catalog", ""], 2, "a catalog has a name"),
        (["--page", "nowhere/page.html"], 2, "there is no folder nowhere"),
        (["--page", "/"], 1, "/ cannot be written"),
        (["--policy", "nowhere.yaml"], 78, "nowhere.yaml"),
        (["--catalog-uri", "odd"], 1, "Could not infer the catalog type"),
        (["--catalog", "other"], 0, "catalog other has no tables"),
    ],
)
def test_a_mistake_is_a_sentence(look, words, exit_code, complaint):
    result = look(*words)

    assert result.exit_code == exit_code, result.output
    assert complaint in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_a_catalog_that_is_not_there_is_told_at_once(monkeypatch):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        result = CliRunner().invoke(
            app, ["look", "--catalog-uri", f"http://127.0.0.1:{nobody.getsockname()[1]}"]
        )
    assert result.exit_code == 1
    assert "refused" in result.output
    assert ".pyiceberg.yaml" not in result.output


def test_without_a_catalog_it_says_how_to_name_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["look"])

    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert "give --catalog-uri (http://… or https://… (REST)" in said
    assert "describe it in ~/.pyiceberg.yaml" in said


@pytest.mark.parametrize("name", ["shop.a[b]", "shop.[x]", "shop.[/x]"])
def test_a_name_is_no_pattern_and_no_markup(tmp_path, name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = load_catalog("default", type="sql", uri=uri, warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("shop")
    table = catalog.create_table(
        name, SCHEMA, partition_spec=PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "[link=x]"))
    )
    appended(table, 3)

    for words in ([], [name]):
        result = CliRunner().invoke(app, ["look", "--catalog-uri", uri, *words])
        assert result.exit_code == 0, result.output
        assert name in result.output


def test_what_was_read_is_told_though_its_page_cannot_be_written(look, tmp_path):
    result = look("--page", str(tmp_path))

    assert result.exit_code == 1
    assert "shop.damaged" in result.output
    assert "cannot be written: Is a directory" in " ".join(result.output.split())


def test_whoever_only_reads_makes_no_database(tmp_path):
    """Also where the configuration of a daemon has the mistake, as for `audit`."""
    missing = tmp_path / "typo.db"
    config = CatalogConfig(name="lake", properties={"type": "sql", "uri": f"sqlite:///{missing}"})

    with pytest.raises(Unavailable, match="there is no file"):
        connect_to_read(config)
    assert not missing.exists()


def test_a_database_in_a_folder_that_is_not_there_is_named(tmp_path):
    """SQLite says only that it is unable to open the database file."""
    path = tmp_path / "nowhere" / "catalog.db"
    config = CatalogConfig(name="lake", properties={"type": "sql", "uri": f"sqlite:///{path}"})

    with pytest.raises(Unavailable, match=f"there is no folder {path.parent}"):
        connect(config)


def test_whoever_says_nothing_of_the_catalog_is_told_our_own_options(monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__MYLAKE__URI", "sqlite:////nowhere/catalog.db")
    told = " ".join(CliRunner().invoke(app, ["look"]).output.split())

    assert "--uri" not in told
    assert "--catalog-uri (http://" in told
    assert "name it with --catalog; described there: mylake" in told


def test_an_address_that_is_only_a_path_is_told_the_forms_that_work(tmp_path):
    told = " ".join(CliRunner().invoke(app, ["look", "--catalog-uri", f"{tmp_path}/c.db"]).output.split())

    assert "sqlite:////path/to/catalog.db" in told


def test_an_address_with_a_mistake_makes_no_database(tmp_path):
    missing = tmp_path / "typo.db"
    result = CliRunner().invoke(app, ["look", "--catalog-uri", f"sqlite:///{missing}"])

    assert result.exit_code == 1
    assert f"there is no file {missing}" in result.output.replace("\n", "")
    assert not missing.exists()

    (tmp_path / "other.db").touch()
    result = CliRunner().invoke(app, ["look", "--catalog-uri", f"sqlite:///{tmp_path}/other.db"])
    assert result.exit_code == 1
    assert "iceberg_namespace_properties" in result.output or "iceberg_tables" in result.output
    assert (tmp_path / "other.db").stat().st_size == 0


@pytest.mark.parametrize(
    "text", ["catalog:\n  default:\n    uri: 'x\n\tpassword: hunter2", "- hunter2", b"\xff\xfehunter2"]
)
def test_a_mistake_in_the_configuration_of_pyiceberg_names_the_file_and_repeats_nothing(tmp_path, text):
    """PyIceberg reads it while it is imported."""
    (tmp_path / ".pyiceberg.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    said = subprocess.run(
        [sys.executable, "-m", "isotherm.cli", "look"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYICEBERG_HOME": str(tmp_path), "HOME": str(tmp_path)},
        check=False,
    )

    assert said.returncode == 1, said.stderr
    assert ".pyiceberg.yaml" in said.stderr
    assert "Traceback" not in said.stderr
    assert "hunter2" not in said.stderr


def test_a_policy_judges_as_the_daemon_does_what_the_table_says_itself(lake, look, tmp_path):
    """Its own patterns count: a file that names this very table would overrule the table."""
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{lake}/catalog.db")
    table = catalog.load_table("shop.many")
    table.transaction().set_properties(
        {"history.expire.max-snapshot-age-ms": "9223372036854775807"}
    ).commit_transaction()
    policy = tmp_path / "p.yaml"
    policy.write_text("tables: '*'\nexpire: {keep_for: 10m, keep_last: 5}\n")
    try:
        (found,) = json.loads(look("shop.many", "--policy", str(policy), "-o", "json").stdout)["tables"]
    finally:
        catalog.load_table("shop.many").transaction().remove_properties(
            "history.expire.max-snapshot-age-ms"
        ).commit_transaction()

    assert found["examination"]["may_expire"] == 0
