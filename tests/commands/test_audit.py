"""`isotherm audit`: what is printed of a judgement, in 80 columns."""

import pytest

from isotherm.audit.evidence import Judged, Judgement, Promise
from isotherm.commands.audit import note_missing_ledger, print_judgement
from isotherm.runtime.config import load_config
from support.lab import Lab
from support.worked import configured

AWAY = "the control topic cannot be read"


@pytest.fixture
def printed(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")

    def read(verdict, why, *evidence):
        print_judgement(Judgement(Promise.WRITER_WINS, verdict, 0, 60_000, why, evidence))
        return capsys.readouterr().out

    return read


def test_what_was_not_looked_at_covers_nothing_and_says_why(printed):
    text = printed(
        Judged.NOT_LOOKED_AT, AWAY, f"4 snapshots not judged ({AWAY}), the newest of 1970-01-01 00:00:00"
    )

    assert text.startswith(f"writer_wins: not looked at: {AWAY}\n  4 snapshots not judged")
    assert "covers" not in text
    assert all(line.startswith("  ") and len(line) <= 80 for line in text.splitlines()[1:])


def test_what_is_proved_covers_a_time(printed):
    text = printed(Judged.PROVED, "4 commits of ours, none because of us")

    assert text.splitlines()[1].strip() == "covers 1970-01-01 00:00:00 to 1970-01-01 00:01:00"


def test_where_no_daemon_has_run_the_missing_ledger_is_named(tmp_path, capsys):
    lab = Lab(tmp_path)
    path = configured(lab)
    note_missing_ledger(load_config(path))
    missing = " ".join(capsys.readouterr().err.split())
    lab.append(lab.create(), 1)
    lab.settled().stop()
    note_missing_ledger(load_config(path))

    assert "is not there: no daemon has run with this state.path yet" in missing
    assert capsys.readouterr().err == ""
