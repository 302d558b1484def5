"""`isotherm orphans`: what the daemon's own search finds now, and nothing is changed."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from isotherm.cli import app
from support.lab import Lab, started, wait_for_children
from support.worked import configured

DAY_S = 86_400
REPORT = """
tables: "*"
compact: {enabled: false}
expire: {enabled: false}
metadata: {keep_last: 5}
orphans: {mode: report}
"""


@pytest.fixture
def lab(tmp_path):
    """A table with old files that nobody knows, and a daemon that has seen it."""
    lab = Lab(tmp_path, policy=REPORT)
    configured(lab)
    table = lab.create(**{"write.metadata.previous-versions-max": "2"})
    for hour in range(9):
        lab.append(table, hour)
    home = Path(table.metadata.location.removeprefix("file://"))
    for number in range(25):
        (home / "data" / f"{number}.parquet").write_bytes(b"x" * 2048)
    for path in home.rglob("*"):
        os.utime(path, (path.stat().st_mtime - 9 * DAY_S,) * 2)
    service = started(lab)
    for _ in range(3):
        service.step(0)
        wait_for_children(service)
    service.stop()
    return lab


@pytest.fixture
def ask(monkeypatch, lab):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    return lambda *words: CliRunner().invoke(
        app, ["orphans", *words, "--config", str(lab.root / "isotherm.yaml")]
    )


def test_it_tells_what_nothing_needs_and_why_it_stays(ask, lab):
    before = sorted(lab.root.rglob("*.parquet"))
    result = ask("shop.orders")

    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines())) <= 80
    said = " ".join(result.stdout.split())
    assert "… and 5 more: -o json has them" in said
    assert "25 of 52 files (50.0 KiB) are reached by nothing, and old enough" in said
    assert said.endswith("Nothing is deleted: the policy says orphans.mode: report.")
    assert sorted(lab.root.rglob("*.parquet")) == before


def test_json_has_all_of_them(ask):
    answer = json.loads(ask("shop.orders", "-o", "json").stdout)

    assert (answer["files"], len(answer["orphans"]), answer["cause"]) == (25, 25, "orphan")
    assert {one["size_bytes"] for one in answer["orphans"]} == {2048}


def test_old_versions_are_asked_for_by_a_word(ask):
    answer = json.loads(ask("shop.orders", "--versions", "-o", "json").stdout)

    # Ten there are: the newest, two that it names, and three more so that five stay.
    assert (answer["listed"], answer["files"], answer["cause"]) == (10, 4, "old_version")


def test_a_table_that_nobody_knows_is_a_sentence(ask):
    result = ask("shop.none")

    assert result.exit_code == 2
    assert "the daemon knows no table shop.none" in " ".join(result.output.split())


def test_a_table_that_keeps_its_files_to_itself_is_one_too(ask, lab):
    table = lab.catalog.load_table("shop.orders")
    table.transaction().set_properties({"gc.enabled": "false"}).commit_transaction()
    result = ask("shop.orders")

    assert result.exit_code == 1
    assert "gc.enabled=false" in result.output
