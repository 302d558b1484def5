"""Files that should be deleted by now: `plan` and `explain` say why they are still there."""

import json

import pytest
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.core.deletion import Cause, Mark
from isotherm.runtime.clock import now_ms
from isotherm.service.ports import Unavailable
from isotherm.store import Ledger
from support.lab import EXPIRING, Lab, started, uuid_of, wait_for_children
from support.worked import configured

HOUR_MS = 3_600_000
SHOP = EXPIRING.replace('tables: "*"', 'tables: "shop.*"')


def turn(service, times=6):
    for _ in range(times):
        service.step(0)
        wait_for_children(service)


@pytest.fixture
def ask(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    return lambda lab, *words: CliRunner().invoke(app, [*words, "--config", str(lab.root / "isotherm.yaml")])


def flat(result):
    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines())) <= 80
    return " ".join(result.output.split())


@pytest.fixture
def lab(tmp_path):
    """A daemon with files to delete, and another table in the catalog that may share files."""
    lab = Lab(tmp_path, policy=SHOP)
    configured(lab)
    table = lab.create()
    lab.create("other.table")
    for hour in (1, 2, 3, 4, 5):
        lab.append(table, hour)
    return lab


def test_a_table_that_keeps_a_search_from_its_end_is_named_until_it_answers(lab, ask):
    service = started(lab)
    lies = service.catalog.lies

    def silent(name):
        if name == "other.table":
            raise Unavailable("timed out after 30 s")
        return lies(name)

    service.catalog.lies = silent
    turn(service)
    plan = flat(ask(lab, "plan", "shop.orders"))
    explained = json.loads(ask(lab, "explain", "shop.orders", "-o", "json").stdout)
    (files,) = [one for one in explained["conditions"] if one["name"] == "delete files"]
    service.catalog.lies = lies
    lab.ahead_ms += HOUR_MS
    turn(service)
    after = flat(ask(lab, "plan", "shop.orders"))

    for text in (plan, files["text"]):
        assert "should be deleted by now: other.table, which may share files," in text
        assert "gives no answer: timed out after 30 s" in text
    assert "waiting (files)" in plan
    assert (files["word"], files["holds"]) == ("waiting", False)
    assert "(files)" not in after
    service.stop()


def test_a_catalog_that_does_not_list_its_tables_keeps_them_too(lab, ask):
    service = started(lab)
    names = service.catalog.names

    def refused(*_):
        raise Unavailable("HTTP 503")

    service.catalog.names = refused
    turn(service)
    before = Ledger(lab.root / "state" / "ledger.db", read_only=True).obstacles()
    service.catalog.names = names
    turn(service)
    after = Ledger(lab.root / "state" / "ledger.db", read_only=True).obstacles()

    assert list(before.values()) == ["the catalog does not list its tables: HTTP 503"]
    assert after == {}
    service.stop()


def test_a_daemon_that_begins_knows_of_no_obstacle_yet(lab):
    with_one = Ledger(lab.root / "state" / "ledger.db")
    with_one.note_obstacle("search", "a namespace refuses")
    with_one.close()
    service = lab.service()

    assert service.ledger.obstacles() == {}
    service.stop()


def test_what_the_daemon_has_said_of_its_clock_holds_expiry_back_in_a_plan_as_well(lab, ask):
    service = started(lab)
    turn(service)
    service.stop()
    ledger = Ledger(lab.root / "state" / "ledger.db")
    ledger.note_obstacle("clock", "this machine's clock is 2h ahead of that of the catalog")
    ledger.close()
    lazy = lab.root / "eager.yaml"
    lazy.write_text(SHOP.replace("keep_last: 2, at_once: 2", "keep_last: 1, at_once: 1"))
    text = flat(ask(lab, "plan", "shop.orders", "--policy", str(lazy)))

    assert "halted" in text
    assert "2h ahead of that of the catalog" in text


def test_files_that_nobody_came_to_are_told_after_a_while_and_those_whose_grace_runs_are_not(lab, ask):
    service = started(lab)
    lab.ahead_ms += HOUR_MS
    turn(service)
    service.stop()
    uuid = uuid_of(lab.catalog.load_table("shop.orders"))
    ledger = Ledger(lab.root / "state" / "ledger.db")
    ledger.mark(
        uuid, "j1", [Mark("file:///a", "j1", Cause.LEFTOVER, None)], now_ms(), due_at_ms=now_ms() + HOUR_MS
    )
    young = flat(ask(lab, "plan", "shop.orders"))
    ledger.mark(
        uuid, "j2", [Mark("file:///b", "j2", Cause.LEFTOVER, None)], now_ms(), due_at_ms=now_ms() - HOUR_MS
    )
    old = flat(ask(lab, "plan", "shop.orders"))
    as_json = json.loads(ask(lab, "plan", "shop.orders", "-o", "json").stdout)
    ledger.postponed(uuid, {"file:///b": "the table says gc.enabled=false"}, now_ms())
    waits = flat(ask(lab, "plan", "shop.orders"))
    ledger.close()

    assert "(files)" not in young
    assert "1 file should be deleted by now: the daemon has not come to them for 1h" in old
    assert "1 file should be deleted by now: the table says gc.enabled=false" in waits
    assert [set(one) for one in as_json] == [{"table", "reads_per_day", "decisions", "note", "trouble"}]
