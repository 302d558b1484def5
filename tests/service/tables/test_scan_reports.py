"""What engines report of their scans, in a whole daemon: counted, kept over a restart, told, and first in line."""

import pytest
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.core import observations as seen
from isotherm.core.model.jobs import Action
from isotherm.service.tables.scan_reports import COUNT_EVERY_S, ScanReports
from support.lab import EAGER, Lab, of, settle, uuid_of

DAY_MS = 86_400_000
LATER_MS = int(COUNT_EVERY_S * 1000) + 1


@pytest.fixture(autouse=True)
def _narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def listening(lab):
    """A daemon that takes reports, and knows its tables."""
    service = lab.service(scan_reports=ScanReports(lab.monotonic_s))
    service.start()
    settle(service)
    count(lab, service)
    return service


def count(lab, service):
    """Let the minute go by after which what was heard is counted."""
    lab.ahead_ms += LATER_MS
    service.step(0)


def reported(service, name, scans):
    for _ in range(scans):
        service.scan_reports.scanned(name)


def per_day(service, table):
    return service.verdicts.reads_per_day(uuid_of(table))


def test_scans_are_counted_once_a_minute_and_known_after_a_restart(lab):
    table = lab.create()
    lab.append(table, 1)
    service = listening(lab)
    reported(service, "shop.orders", 100)
    service.step(0)

    assert per_day(service, table) is None
    count(lab, service)
    assert per_day(service, table) == pytest.approx(100, rel=0.1)
    reported(service, "shop.orders", 50)
    reported(service, "made.up", 7)
    count(lab, service)
    again = listening(lab)
    assert per_day(again, table) == pytest.approx(150, rel=0.1)
    told = {one.outcome: one.reports for one in of(lab, seen.ScansReported)}
    assert told == {seen.Reported.COUNTED: 50, seen.Reported.UNKNOWN_TABLE: 7}


def test_what_nobody_has_read_for_months_is_forgotten(lab):
    table = lab.create()
    lab.append(table, 1)
    service = listening(lab)
    reported(service, "shop.orders", 100)
    count(lab, service)
    service.ledger.prune(lab.now_ms() + 80 * DAY_MS)

    assert service.ledger.reads(uuid_of(table)) is not None
    service.ledger.prune(lab.now_ms() + 91 * DAY_MS)
    assert service.ledger.reads(uuid_of(table)) is None


def test_where_reports_are_not_wanted_any_more_nothing_is_left_of_them(lab):
    table = lab.create()
    lab.append(table, 1)
    service = listening(lab)
    reported(service, "shop.orders", 100)
    count(lab, service)
    settled = lab.settled()

    assert per_day(settled, table) is None


def first_compacted(lab, service):
    settle(service)
    jobs = [one for one in of(lab, seen.JobStarted) if one.action is Action.COMPACT]
    return jobs[0].table.name


@pytest.mark.parametrize("read", ["shop.a", "shop.b", "shop.c"])
def test_of_tables_that_are_due_alike_the_one_that_is_read_is_compacted_first(tmp_path, read):
    lab = Lab(tmp_path, policy=EAGER.replace("min_files: 3", "min_files: 4"))
    tables = [lab.create(f"shop.{name}") for name in "abc"]
    for table in tables:
        for hour in (1, 1, 1, 9):
            lab.append(table, hour)
    service = listening(lab)
    reported(service, read, 1000)
    count(lab, service)
    for table in tables:
        for hour in (1, 9, 9):
            lab.append(table, hour)

    assert first_compacted(lab, service) == read


def asked(lab, *words):
    (lab.root / "isotherm.yaml").write_text(lab.config.model_dump_json())
    result = CliRunner().invoke(app, [*words, "--config", str(lab.root / "isotherm.yaml")])
    assert result.exit_code == 0, result.output
    return result.output


COMMANDS = [("plan",), ("plan", "shop.orders"), ("explain", "shop.orders"), ("state", "shop.orders")]
COMMANDS.append(("explain", "shop.orders", "at_hour=2026-01-01-01"))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_commands_tell_how_often_a_table_is_read_where_it_was_reported_and_else_nothing(lab, words):
    table = lab.create()
    lab.append(table, 1)
    service = listening(lab)

    assert "read" not in asked(lab, *words)
    reported(service, "shop.orders", 412)
    count(lab, service)
    said = asked(lab, *words)
    assert "times a day" in said
    assert max(map(len, said.splitlines())) <= 80
