"""`isotherm tables` and `isotherm top`: how every table stands, from the stores and from the daemon's own port."""

import json
import resource
from dataclasses import replace

import pytest
import yaml
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.commands.running_daemon import Answer, ask_daemon
from isotherm.commands.tables import standings_of
from isotherm.commands.top_screen import screen
from isotherm.contract.identity import TableId
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.standings import Word
from isotherm.runtime.config import load_config
from isotherm.service.health import Health
from isotherm.service.policies.policy_folder import in_force
from isotherm.service.ports import Unavailable
from isotherm.store import Fold, Ledger
from isotherm.telemetry.board import Board
from isotherm.telemetry.http import serve
from support.lab import EAGER, Lab, settle
from support.worked import configured, worked_in


@pytest.fixture
def ask(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    return lambda lab, *words: CliRunner().invoke(app, [*words, "--config", str(lab.root / "isotherm.yaml")])


@pytest.fixture
def lake(tmp_path):
    """A real daemon that cannot load one table, with one that is paused, one that waits for a policy, and its port."""
    lab = Lab(tmp_path, EAGER.replace('"*"', "shop.*"))
    for name in ("shop.orders", "shop.paused", "shop.elsewhere", "other.scratch"):
        lab.append(lab.create(name), 1, 1, 1)
    bad = lab.create("shop.bad")
    health = Health()
    board = Board(health, lab.now_ms)
    service = lab.service(listen=board, health=health)
    service.start()
    service.events.elsewhere.add(str(lab.catalog.load_table("shop.elsewhere").metadata.table_uuid))
    real = service.catalog.load

    def load(name):
        if name == "shop.bad":
            raise Unavailable("file not found: s3://lake/bad")
        return real(name)

    service.catalog.load = load
    lab.append(bad, 1)
    settle(service)
    paused = str(lab.catalog.load_table("shop.paused").metadata.table_uuid)
    service.ledger.hold(Hold(HoldKind.PAUSE, paused, "shop.paused", "a backfill", lab.now_ms()), told=True)
    service.fold.touch(paused, None)
    settle(service)
    port = serve("127.0.0.1", 0, CollectorRegistry(), service.health, board=board)
    path = configured(lab)
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"http": {"port": port}}))
    yield lab
    service.stop()


def test_every_table_that_the_daemon_knows_is_there_worst_first_with_who_has_it(lake, ask):
    result = ask(lake, "tables", "-o", "json")
    answer = json.loads(result.stdout)
    rows = {one["table"]: one for one in answer["tables"]}

    assert result.exit_code == 0
    assert [(one["table"], one["word"], one["daemon"]) for one in answer["tables"]] == [
        ("shop.bad", "failing", "this"),
        ("shop.paused", "paused", "this"),
        ("shop.orders", "clean", "this"),
        ("other.scratch", "left alone", "this"),
        ("shop.elsewhere", "elsewhere", "another"),
    ]
    assert answer["summary"] == {"failing": 1, "paused": 1, "clean": 1, "left alone": 1, "elsewhere": 1}
    assert "file not found: s3://lake/bad" in rows["shop.bad"]["why"]
    assert rows["shop.paused"]["why"] == "paused: a backfill"
    assert (answer["daemon"]["answers"], answer["daemon"]["events_behind"]) == (True, 0)


def test_the_lines_fit_and_say_the_same(lake, ask):
    result = ask(lake, "tables")
    lines = result.output.splitlines()

    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["table", "state", "debt", "due", "hot", "seen", "next"]
    assert lines[1].split()[:2] == ["shop.bad", "failing"]
    assert "5 tables: 1 failing, 1 paused, 1 clean, 1 left alone, 1 elsewhere" in lines
    assert "the daemon has 3 tables of group isotherm; its last round ended " in result.output


def test_without_a_daemon_it_is_as_the_stores_have_it(tmp_path, ask):
    lab = worked_in(tmp_path)
    path = configured(lab)
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"http": {"port": 1}}))
    result, top = ask(lab, "tables"), ask(lab, "top", "--once")
    answer = json.loads(ask(lab, "tables", "-o", "json").stdout)

    assert result.exit_code == 0
    assert "no daemon answers at http://127.0.0.1:1/tables" in result.stderr
    assert "1 table: 1 clean" in result.stdout
    assert [one["daemon"] for one in answer["tables"]] == ["unknown"]
    assert (top.exit_code, "no daemon answers" in top.output) == (1, True)


def test_a_thousand_tables_take_less_than_two_seconds(tmp_path, ask):
    lab = worked_in(tmp_path)
    fold = Fold(tmp_path / "state" / "fold.db")
    ((uuid, row),) = fold.tables().items()
    states = {one.key: one.state for one in fold.partitions(uuid)}
    with fold.transaction():
        for number in range(1000):
            state = replace(row.state, table=TableId(f"u{number}", f"shop.table_{number:04}"))
            fold.save_table(state, row.facts, row.confirmed_head, [])
            fold.begin_partitions(f"u{number}", states)
    fold.close()
    ledger = Ledger(tmp_path / "state" / "ledger.db")
    for number in range(100):
        ledger.hold(Hold(HoldKind.HALT, f"u{number}", f"shop.table_{number:04}", "look", 1), told=True)
    ledger.close()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    result = ask(lab, "tables")
    seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before

    assert "1,001 tables: 100 halted, 900 undecided, 1 clean" in result.output
    assert seconds < 2
    assert max(map(len, result.output.splitlines())) <= 80


def test_one_screen_of_top_says_what_needs_somebody_and_fits(lake, ask):
    result = ask(lake, "top", "--once")
    flat = " ".join(result.output.split())

    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80
    assert "3 tables here, 1 elsewhere" in flat
    assert "loop: last round" in flat
    assert "0 events behind" in flat
    assert flat.index("shop.bad failing") < flat.index("shop.paused paused")
    assert "file not found: s3://lake/bad" in flat


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 10), (200, 60)])
def test_a_screen_never_has_more_lines_or_columns_than_there_are(lake, width, height):
    answer = ask_daemon(load_config(lake.root / "isotherm.yaml"))
    said = dict(answer.said)
    (first,) = [one for one in said["tables"] if one["table"] == "shop.bad"]
    job = {
        "table": "shop.a_long_name_of_a_table_indeed",
        "action": "compact",
        "label": "at_hour=2026-01-01-01",
        "began_at_ms": said["now_ms"] - 65_000,
        "files": 10,
        "bytes": 50 * 1024**2,
        "bytes_read": 20 * 1024**2,
        "rows": 1_200_000,
        "rows_read": 480_000,
        "share": 0.4,
        "seconds_left": 97,
    }
    said |= {
        "tables": [first | {"table": f"shop.table_{number:03}"} for number in range(300)],
        "jobs": [job, job | {"share": None, "seconds_left": None}] * 20,
        "policies": "all.yaml:1:1: " + "x" * 300,
    }
    drawn = screen(Answer(answer.at, said), said["now_ms"], width, height)
    lines = drawn.plain.split("\n")

    assert len(lines) < height
    if width >= 80:
        assert max(map(len, lines)) <= width
        (found,) = {line for line in lines if "480k/1.2M" in line}
        assert "20/50 MiB  40%" in found
        assert found.split()[-2:] == ["1m", "1m"]
        assert any("more: isotherm tables" in line for line in lines)


def test_a_table_that_another_daemon_took_over_is_its_own_though_the_stores_still_have_it(lake):
    config = load_config(lake.root / "isotherm.yaml")
    fold = Fold(config.state.path / "fold.db", read_only=True)
    ledger = Ledger(config.state.path / "ledger.db", read_only=True)
    found = standings_of(
        fold, ledger, in_force(config.policies, {}), frozenset({"shop.orders"}), lake.now_ms()
    )

    assert {one.table: one.word for one in found}["shop.orders"] == Word.ELSEWHERE
