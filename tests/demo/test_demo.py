"""The whole system on a live PostgreSQL, judged by its own report: what `make demo` shows, only shorter."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

PROMISES = ("cold_only", "writer_wins", "same_rows", "nothing_needed_deleted", "nothing_unseen")


def demo(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """`isotherm demo`, with everything under the folder."""
    command = [sys.executable, "-m", "isotherm.cli", "demo", *arguments]
    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def report_of(folder: Path, *arguments: str) -> dict[str, Any]:
    """The report of a run that ends with 0."""
    process = demo(folder, "--report", "out/report.json", *arguments)
    output, _ = process.communicate()
    assert process.returncode == 0, output + logs(folder)
    report: dict[str, Any] = json.loads((folder / "out" / "report.json").read_text(encoding="utf-8"))
    return report


def logs(folder: Path) -> str:
    """The end of every log, for a failure that must be understood from afar."""
    found = sorted((folder / ".isotherm" / "demo" / "logs").glob("*.log"))
    return "".join(f"\n== {log.name}\n{log.read_text(encoding='utf-8')[-3000:]}" for log in found)


def running_in(folder: Path) -> Sequence[str]:
    """Processes that have to do with the folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and any(str(folder) in part for part in process.cmdline()):
                found.append(" ".join(process.cmdline())[:200])
        except psutil.Error:
            continue
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a space in its name, as people have them."""
    path = tmp_path / "my demo"
    path.mkdir()
    return path


@pytest.mark.stack
@pytest.mark.usefixtures("spark_jars")
@pytest.mark.timeout(600)
def test_a_run_keeps_every_promise_and_compacts_what_went_cold(folder: Path) -> None:
    report = report_of(folder, "--for", "30s", "--seed", "1")

    assert dict.fromkeys(PROMISES, True) == report["promises"], report["evidence"]
    names = {"shop.customers", "shop.orders", "shop.order_lines", "shop.payments", "shop.reviews"}
    assert names == {table["name"] for table in report["tables"]}
    for table in report["tables"]:
        assert table["source_rows"] == table["lake_rows"] > 0
        assert table["checksums_equal"]
        assert table["announced"] == table["snapshots"] > 0
    assert sum(table["partitions_compacted"] for table in report["tables"]) >= 3
    assert sum(table["files_after"] for table in report["tables"]) < sum(
        table["files_before"] for table in report["tables"]
    )
    assert report["hot_partitions_touched"] == 0
    for latency in ("change_to_readable", "commit_to_decision"):
        assert 0 < report["latency_s"][latency]["p50"] <= report["latency_s"][latency]["p99"]
    parts = {"postgres", "kafka", "connect", "ingest_python", "ingest_jvm", "daemon"}
    assert parts <= {name for name, peak in report["peak_memory_mb"].items() if peak > 10}
    assert report["batches_failed"] == 0
    assert report["keys_moved"] > 0
    assert report["truncates"] > 0
    assert report["seconds"] > 30
    assert len(report["altered"]) == 5
    assert report["restarts"] == {}
    assert_the_lake_was_altered(folder)
    assert running_in(folder) == []


def assert_the_lake_was_altered(folder: Path) -> None:
    """By PyIceberg: what came, got wider, is called otherwise, and what the source has no more, but the lake keeps."""
    root = folder / ".isotherm" / "demo"
    catalog = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}/warehouse"
    )
    orders = catalog.load_table("shop.orders").scan().to_arrow()
    points = catalog.load_table("shop.customers").scan().to_arrow().column("points")
    payments = catalog.load_table("shop.payments").scan().to_arrow().sort_by("_offset")
    references = payments.column("reference").is_valid().to_pylist()

    assert orders.column("channel").null_count > 0
    assert set(orders.column("channel").to_pylist()) == {None, "web", "shop", "phone"}
    assert "note" not in orders.column_names
    assert {"please ring twice ☕", "no bell"} <= set(orders.column("remark").to_pylist())
    assert points.type == pa.int64()
    assert max(points.to_pylist()) > 2**31
    assert any(references[:200])
    assert not any(references[-50:])
    catalog.close()


@pytest.mark.stack
@pytest.mark.usefixtures("spark_jars")
@pytest.mark.timeout(600)
def test_kills_and_a_second_driver_break_no_promise(folder: Path) -> None:
    report = report_of(folder, "--for", "60s", "--seed", "3", "--chaos", "kill")

    assert dict.fromkeys(PROMISES, True) == report["promises"], report["evidence"]
    assert len(report["kills"]) >= 2
    assert report["restarts"]
    assert report["drivers_fenced"] == 1
    assert all(table["checksums_equal"] for table in report["tables"])
    assert len(report["altered"]) == 5
    assert running_in(folder) == []


@pytest.mark.stack
@pytest.mark.usefixtures("spark_jars")
@pytest.mark.timeout(600)
def test_a_timer_in_the_place_of_the_daemon_is_judged_by_the_same_rules(folder: Path) -> None:
    report = report_of(folder, "--for", "30s", "--seed", "1", "--maintained-by", "timer")

    assert report["maintained_by"] == "timer"
    assert all(table["checksums_equal"] for table in report["tables"])
    assert sum(count for job, count in report["jobs"].items() if job.startswith("rewrite_data_files")) >= 4
    assert report["bytes_rewritten"] > 0
    assert report["hot_partitions_touched"] > 0
    assert not report["promises"]["cold_only"]
    assert "nothing_unseen" not in report["promises"]
    assert running_in(folder) == []


@pytest.mark.soak
@pytest.mark.stack
@pytest.mark.usefixtures("spark_jars")
def test_beside_a_stream_with_late_changes_maintenance_costs_its_writer_nothing(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    """Appends and upserts every few seconds, into cold partitions too, for twenty minutes (`--for`)."""
    report = report_of(folder, "--for", request.config.getoption("soak_for") or "20m")

    assert dict.fromkeys(PROMISES, True) == report["promises"], report["evidence"]
    assert report["batches_failed"] == report["appends_repeated"] == 0
    assert report["merges_recomputed_by_maintenance"] == 0
    assert report["hot_partitions_touched"] == 0
    assert report["partitions_compacted"] > 0
    assert report["snapshots_expired"] > 0
    for table in report["tables"]:
        assert table["source_rows"] == table["lake_rows"] > 0
        assert table["checksums_equal"]
    assert running_in(folder) == []


@pytest.mark.stack
@pytest.mark.timeout(120)
def test_a_signal_during_the_start_leaves_nothing_running(folder: Path) -> None:
    process = demo(folder)
    assert process.stdout is not None
    first = process.stdout.readline()
    while "PostgreSQL" not in process.stdout.readline():
        assert process.poll() is None

    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate()

    assert first.startswith("isotherm demo: everything under")
    assert process.returncode == 128 + signal.SIGTERM, output
    assert running_in(folder) == []


def test_a_folder_that_no_demo_has_made_is_left_alone(folder: Path) -> None:
    (folder / ".isotherm" / "demo").mkdir(parents=True)
    precious = folder / ".isotherm" / "demo" / "thesis.txt"
    precious.write_text("years of work", encoding="utf-8")

    process = demo(folder)
    output, _ = process.communicate()

    assert process.returncode == 1
    assert "begin this one in another directory" in output
    assert precious.read_text(encoding="utf-8") == "years of work"
