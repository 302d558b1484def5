"""What is held against Isotherm: a timer's calls, how they are counted, and that its rewrites are judged like ours."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.transforms import HourTransform
from pyiceberg.types import NestedField, TimestamptzType
from typer.testing import CliRunner

from isotherm.audit.evidence import Commit, Evidence, Judged, Judgement, Promise, Touch
from isotherm.audit.promises import judge
from isotherm.cli import app
from isotherm.contract.identity import PartitionKey, partition_key
from isotherm.contract.summary import JOB_ID
from isotherm.demo import lake
from isotherm.demo.files import DemoFolder, write_files
from isotherm.demo.lake import SeenChange, SeenFile
from isotherm.demo.logbook import Logbook, Tail
from isotherm.demo.referee import Referee
from isotherm.demo.report import promises
from isotherm.demo.shop import TABLES
from isotherm.demo.timer import calls, first_cause
from isotherm.demo.witness import SeenTable, Witness

NOON = partition_key({1000: 495_000})
HOUR_MS = 3_600_000


@pytest.fixture
def folder(tmp_path: Path) -> DemoFolder:
    """With a space in its name, as people have them."""
    made = DemoFolder(tmp_path / "my demo")
    write_files(made, "127.0.0.1:9092", [Path("a.jar"), Path("b.jar")], 0, 0)
    return made


@pytest.fixture
def config(folder: DemoFolder) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(folder.timer_yaml.read_text(encoding="utf-8"))
    return config


def test_a_round_rewrites_and_expires_every_table_of_the_shop(config: dict[str, Any]) -> None:
    assert [table.lake_name for table in TABLES] == config["tables"]

    statements = dict(calls(config, "shop.orders", 1_795_271_710_964))

    assert statements == {
        "rewrite_data_files": "CALL lake.system.rewrite_data_files(table => 'shop.orders', options => map("
        "'target-file-size-bytes', '16777216', 'min-input-files', '2', 'delete-ratio-threshold', '0.01', "
        "'remove-dangling-deletes', 'true'))",
        "expire_snapshots": "CALL lake.system.expire_snapshots(table => 'shop.orders', "
        "older_than => TIMESTAMP '2026-11-21 14:34:30.964000', retain_last => 5)",
    }


def test_the_timer_has_what_the_policy_says(folder: DemoFolder, config: dict[str, Any]) -> None:
    policy = yaml.safe_load(folder.policy_yaml.read_text(encoding="utf-8"))
    rewrite, expire = config["rewrite_data_files"], config["expire_snapshots"]

    assert f"{rewrite['target-file-size-bytes'] >> 20}MiB" == policy["compact"]["target_file_size"]
    assert rewrite["min-input-files"] == policy["compact"]["min_files"]
    assert rewrite["delete-ratio-threshold"] == policy["compact"]["max_delete_ratio"]
    assert f"{expire['older_than_s']}s" == policy["expire"]["keep_for"]
    assert expire["retain_last"] == policy["expire"]["keep_last"]


def test_the_cause_of_a_failure_is_the_line_that_names_it() -> None:
    spark = "An error occurred while calling o50.sql.\n: java.lang.RuntimeException: Cannot commit\n\tat org.apache"

    assert first_cause(RuntimeError(spark)) == "java.lang.RuntimeException: Cannot commit"
    assert first_cause(RuntimeError("plain words")) == "plain words"
    assert first_cause(RuntimeError()) == "RuntimeError"


def test_every_call_of_the_timer_is_counted_by_its_end(tmp_path: Path) -> None:
    def line(event: str, **more: Any) -> str:
        return json.dumps({"event": event, "table": "shop.orders", **more}) + "\n"

    rewrite = {"procedure": "rewrite_data_files"}
    (tmp_path / "timer").write_text(
        line("started")
        + line("procedure_done", **rewrite)
        + line("procedure_failed", **rewrite, error="no", level="error") * 2
        + line("procedure_done", procedure="expire_snapshots")
        + line("round_done", began_ms=5, seconds=1.5)
    )
    book = Logbook(Tail(tmp_path / "ingest"), Tail(tmp_path / "daemon"), Tail(tmp_path / "timer"))
    book.read()

    assert book.procedures == {
        "rewrite_data_files done": 1,
        "rewrite_data_files failed (no)": 2,
        "expire_snapshots done": 1,
    }
    assert book.round_began_ms == 5
    assert len(book.complaints) == 2


# Its commits


def snapshot(operation: Operation, **summary: str) -> Snapshot:
    more = {key.replace("__", "."): value for key, value in summary.items()}
    return Snapshot(
        snapshot_id=2,
        parent_snapshot_id=1,
        sequence_number=2,
        timestamp_ms=1,
        manifest_list="list",
        summary=Summary(operation, **more),
    )


def test_only_a_rewrite_without_a_name_is_the_maintainers() -> None:
    file = SeenFile("file:///a.parquet", True, NOON, 1, 1, 100)
    change = SeenChange(added=(file,), removed=(file,))

    def job(operation: Operation, maintainer: str | None, **summary: str) -> str | None:
        return lake.commit_of(snapshot(operation, **summary), change, maintainer).job_id

    assert job(Operation.REPLACE, "timer") == "timer"
    assert job(Operation.REPLACE, None) is None
    assert job(Operation.OVERWRITE, "timer") is None
    assert job(Operation.REPLACE, "timer", **{JOB_ID.replace(".", "__"): "j"}) == "j"


@pytest.fixture
def referees(folder: DemoFolder) -> Iterator[tuple[Referee, Referee, SeenTable]]:
    """One that judges a daemon, one that judges a timer, and a table."""
    properties = {"type": "sql", "uri": f"sqlite:///{folder.root}/c.db", "warehouse": f"file://{folder.root}"}
    catalog: Catalog = load_catalog("lake", **properties)
    catalog.create_namespace("shop")
    schema = Schema(NestedField(1, "at", TimestamptzType(), required=False))
    table = catalog.create_table(
        "shop.orders", schema, partition_spec=PartitionSpec(PartitionField(1, 1000, HourTransform(), "h"))
    )
    witness = Witness(properties, "127.0.0.1:1", "isotherm.control", seed=1)
    seen = SeenTable("shop.orders", str(table.metadata.table_uuid), lake.transforms(table.metadata))
    ours, theirs = (
        Referee("", catalog, witness, folder.policies, by_daemon=by_daemon) for by_daemon in (True, False)
    )
    yield ours, theirs, seen
    catalog.close()


def rewritten(key: PartitionKey, after_ms: int) -> tuple[Commit, Commit]:
    """A write, and so long after it a rewrite by the timer of the same partition."""
    write = Commit(1, None, 10**12, "append", touches=(Touch(key, 1, 0),), valid_through_ms=10**15)
    rewrite = Commit(2, 1, 10**12 + after_ms, "replace", "timer", touches=(Touch(key, 1, 2),))
    return write, rewrite


@pytest.mark.parametrize(
    ("after_ms", "verdict", "hot"), [(1_000, Judged.BROKEN, 1), (9_000, Judged.PROVED, 0)]
)
def test_a_rewrite_by_a_timer_is_held_to_the_rule_of_the_policy(
    referees: tuple[Referee, Referee, SeenTable], after_ms: int, verdict: Judged, hot: int
) -> None:
    _, referee, seen = referees

    found = cold_only(seen, referee, rewritten(NOON, after_ms))

    assert (found.verdict, found.counts["hot_partitions_touched"]) == (verdict, hot)


def test_no_rule_of_a_daemons_run_excuses_a_rewrite_that_names_no_policy(
    referees: tuple[Referee, Referee, SeenTable],
) -> None:
    referee, _, seen = referees

    assert cold_only(seen, referee, rewritten(NOON, 9_000)).verdict is Judged.NOT_PROVABLE


def cold_only(seen: SeenTable, referee: Referee, commits: tuple[Commit, ...]) -> Judgement:
    evidence = Evidence(
        table=seen.name,
        transforms=seen.transforms,
        commits=commits,
        rules=referee.rules(seen),
        now_ms=10**15,
        announced=frozenset({1, 2}),
    )
    return next(one for one in judge(evidence) if one.promise is Promise.COLD_ONLY)


def test_without_a_daemon_nobody_owes_that_it_accounts_for_snapshots() -> None:
    unseen = Judgement(Promise.NOTHING_UNSEEN, Judged.NOT_PROVABLE, None, None, "no ledger")
    rows = Judgement(Promise.SAME_ROWS, Judged.PROVED, 0, 1, "")

    assert promises({"t": (unseen, rows)}, [], [Promise.SAME_ROWS]) == ({"same_rows": True}, {})


# What one may ask for


@pytest.mark.parametrize(
    "arguments",
    [["--maintained-by", "cron"], ["--maintained-by", "timer", "--chaos", "kill"]],
)
def test_what_the_demo_does_not_have_is_refused(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["demo", *arguments])

    assert result.exit_code == 2
