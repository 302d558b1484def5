"""`isotherm simulate` on the stores of a daemon that has worked: its history is the table's, and it reads well."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.commands.inspector import Inspector
from isotherm.commands.simulate import simulate
from isotherm.commands.table_history import read_history
from isotherm.contract.summary import Origin
from isotherm.core.policy.precedence import PolicyFile, resolve
from isotherm.core.replay.assumed import Assumed
from isotherm.core.replay.replay import replay
from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import load_config
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm.store import Fold, Ledger
from support.builders import DAY, HOUR
from support.lab import EAGER, EXPIRING, NEVER_DUE, Lab, settle
from support.worked import configured

LAZY = EAGER.replace("min_files: 3", "min_files: 50")


def worked_in(root, policy=EAGER):
    """A lab whose daemon has compacted hour 1, which the stream has left behind."""
    lab = Lab(root, policy=policy)
    table = lab.create()
    service = lab.settled()
    for hour in (1, 1, 1, 2, 2, 3, 4):
        lab.append(table, hour)
    settle(service)
    service.stop()
    configured(lab)
    (root / "lazy.yaml").write_text(LAZY)
    return lab


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    return worked_in(tmp_path_factory.mktemp("worked"))


def history(lab, ledger=None):
    fold = Fold(lab.root / "state" / "fold.db", read_only=True)
    ledger = ledger or Ledger(lab.root / "state" / "ledger.db", read_only=True)
    (row,) = fold.tables().values()
    return read_history(fold, ledger, IcebergCatalog(lab.catalog), row, since_ms=0, now_ms=now_ms())


def test_the_ledger_and_the_tables_own_snapshots_tell_the_same(worked):
    recorded, retained = history(worked), history(worked, Ledger(None))

    assert [one.change.partitions for one in recorded.recorded] == [
        one.change.partitions for one in retained.recorded
    ]
    assert recorded.partitions == retained.partitions == {}
    assert "8 changes are from the ledger, 0 from the table's own snapshots" in recorded.remarks
    assert "0 changes are from the ledger, 8 from the table's own snapshots" in retained.remarks


def test_without_our_own_work_the_table_would_hold_what_was_written(worked):
    past = history(worked)
    partitions = replay(past, None, Assumed()).partitions
    files = {key: state.data_total.files for key, state in partitions.items()}

    assert [one.change.origin for one in past.recorded].count(Origin.MAINTENANCE) == 1
    assert sorted(files.values()) == [1, 1, 2, 3]


def test_a_history_goes_on_where_snapshots_have_expired_if_the_ledger_remembers(tmp_path):
    lab = worked_in(tmp_path, EXPIRING)
    recorded, retained = history(lab), history(lab, Ledger(None))
    files = sum(state.data_total.files for state in retained.partitions.values())
    left = len(retained.recorded)

    assert (len(recorded.recorded), recorded.partitions) == (8, {})
    # Without it the history begins with what the first snapshot that is left found there.
    assert 0 < left < 8
    assert retained.remarks[-1].startswith(f"{files} data files in")
    assert replay(recorded, None, Assumed()).totals.files == 7


@pytest.mark.parametrize("place", [0, 3, 7])
def test_a_commit_that_a_clock_far_ahead_has_stamped_ends_no_history(tmp_path, place):
    """The ledger has not heard of it, so its own time is all that is known."""
    lab = Lab(tmp_path, policy=NEVER_DUE)
    table = lab.create()
    for hour in range(8):
        lab.append(table, hour)
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    snapshot = sorted(metadata["snapshots"], key=lambda one: one["sequence-number"])[place]
    snapshot["timestamp-ms"] += 3650 * DAY
    metadata["snapshot-log"][place]["timestamp-ms"] = snapshot["timestamp-ms"]
    path.write_text(json.dumps(metadata))
    lab.settled().stop()
    past = history(lab, Ledger(None))

    assert len(past.recorded) == 8
    assert past.ends_at_ms < lab.now_ms() + DAY
    assert replay(past, None, Assumed()).totals.files == 8


def run(lab, *policies, config="isotherm.yaml", **fields):
    inspector = Inspector(load_config(lab.root / config))
    fields = {"now_ms": now_ms() + HOUR, "for_ms": None, "every_ms": None, **fields}
    return simulate(inspector, "shop.orders", list(policies), plan_every_ms=1000, err=Console(), **fields)


def test_two_policies_are_compared_on_one_history(worked):
    lazy = parse_yaml(LAZY, "lazy.yaml", PolicyFile)
    simulation = run(worked, ("in force", None), ("lazy.yaml", lazy))
    in_force, other = simulation.runs

    # As the daemon did: one compaction, of three files into one.
    assert (in_force.totals.jobs, in_force.totals.files) == (1, 5)
    assert (other.totals.jobs, other.totals.files) == (0, 7)
    assert in_force.totals.ingested_bytes == other.totals.ingested_bytes > 0
    assert simulation.changes == 8


def test_a_table_that_no_policy_matches_is_compared_with_doing_nothing(worked):
    text = (worked.root / "isotherm.yaml").read_text()
    (worked.root / "nothing").mkdir()
    (worked.root / "observer.yaml").write_text(f"{text}\npolicies: nothing\n")
    simulation = run(worked, ("in force", None), config="observer.yaml")

    assert [(one.name, one.policy_hash) for one in simulation.runs] == [("no policy", None)]
    assert simulation.runs[0].totals.files == 7


def test_only_the_last_part_of_a_history(worked):
    past = history(worked)
    at_ms = past.recorded[5].received_at_ms
    now = now_ms()
    simulation = run(worked, ("in force", None), now_ms=now, for_ms=now - at_ms)

    assert simulation.from_ms >= at_ms
    assert simulation.changes == sum(one.received_at_ms >= at_ms for one in past.recorded)


@pytest.fixture
def ask(worked, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    words = ["simulate", "shop.orders", "--config", str(worked.root / "isotherm.yaml")]
    return lambda *more, charset="utf-8": CliRunner(charset=charset).invoke(app, [*words, *more])


def test_it_reads_well_in_80_columns(ask, worked):
    result = ask("--policy", str(worked.root / "lazy.yaml"))
    flat = " ".join(result.output.split())

    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert "in force lazy.yaml difference" in flat
    assert "data files ⠤ in force ▄ lazy.yaml" in flat
    assert "┤" in result.output
    assert "Intents and open windows are not in the history" in flat
    assert "\x1b[" not in result.output


def test_where_the_output_is_no_utf_8_it_draws_in_plain_characters(ask, worked):
    result = ask("--policy", str(worked.root / "lazy.yaml"), charset="ascii")

    assert result.exit_code == 0, result.output
    assert result.output.isascii()
    assert "* in force   o lazy.yaml" in result.output


def test_json_holds_everything(ask, worked):
    lazy = str(worked.root / "lazy.yaml")
    answer = json.loads(ask("--policy", lazy, "--against", lazy, "-o", "json").stdout)

    assert answer["table"] == "shop.orders"
    assert [one["name"] for one in answer["runs"]] == ["lazy.yaml", "lazy.yaml"]
    assert answer["runs"][0]["totals"] == answer["runs"][1]["totals"]
    assert answer["runs"][0]["totals"]["files"] == 7
    assert {"at_ms", "files", "delete_rows", "rewritten_bytes"} <= answer["runs"][0]["samples"][-1].keys()


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (["--every", "10"], 2, "a span with a unit"),
        (["--for", "0s"], 2, "neither the ledger nor shop.orders itself has a commit"),
        (["--policy", "nowhere.yaml"], 78, "no such file"),
    ],
    ids=["no unit", "nothing in it", "no file"],
)
def test_what_cannot_be_replayed_is_said(ask, words, exit_code, said):
    result = ask(*words)

    assert result.exit_code == exit_code
    assert said in " ".join(result.output.split())


def test_what_other_writers_removed_leaves_the_rows_that_are_there(tmp_path):
    lab = Lab(tmp_path)
    table = lab.create()
    service = lab.settled()
    for hour in (1, 1, 1, 2, 2, 3):
        lab.append(table, hour, rows=5)
    table.refresh().delete("id >= 3 AND id < 12")  # rewrites files of hour 1
    lab.append(table, 4, rows=5)
    settle(service)
    table.refresh().delete("id = 1 OR id = 16")  # finds the compacted file of hour 1
    settle(service)
    service.stop()
    eager = parse_yaml(EAGER, "eager.yaml", PolicyFile)
    policy = resolve("shop.orders", {}, [("eager.yaml", eager)]).policy
    past = history(lab)
    scanned = {key: one.data_total.rows for key, one in lab.scan().items()}

    assert sum(scanned.values()) == 24
    for assumed in (Assumed(plan_every_ms=1, job_overhead_ms=0), Assumed()):
        for one in (policy, None):
            replayed = replay(replace(past, ends_at_ms=past.ends_at_ms + HOUR), one, assumed)

            assert {key: state.data_total.rows for key, state in replayed.partitions.items()} == scanned
