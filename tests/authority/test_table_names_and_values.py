"""Names and partition values of a table lead no file elsewhere and no terminal astray, and fill neither metrics nor memory."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
import structlog
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from isotherm.core.model.jobs import OutcomeKind
from isotherm.runtime import logs
from isotherm.telemetry.metrics import Metrics
from support.lab import of, uuid_of

HOSTILE = (
    "../../../../etc/passwd",
    "\x1b[2J\x1b[31mred\x07",
    "[bold red]loud[/bold red]",
    "new\nline\r\ttab",
    "quotes\"'`\\",
    "{job}=%2F%00",
    "x" * 150,
    "\u202eright to left",
)


def with_hostile_partitions(lab):
    """A table whose partitions are what somebody typed, all of them left by the stream."""
    table = lab.create(spec=PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "what")))
    rows = len(HOSTILE)
    for number in range(4):
        table.refresh().append(
            pa.table(
                {
                    "id": pa.array(range(number * rows, (number + 1) * rows), pa.int64()),
                    "at": pa.array([0] * rows, pa.timestamp("us", "UTC")),
                    "what": pa.array(HOSTILE, pa.string()),
                }
            )
        )
    for _ in range(3):
        lab.append(table, 1, announce=False)
    return table


def asked(lab, monkeypatch, *words):
    (lab.root / "isotherm.yaml").write_text(
        yaml.safe_dump(
            {
                "catalog": {"properties": lab.properties},
                "kafka": {"properties": {"bootstrap.servers": "unused"}},
            }
        )
    )
    monkeypatch.setenv("COLUMNS", "80")
    return CliRunner().invoke(app, [*words, "--config", str(lab.root / "isotherm.yaml")], color=True)


def controls(text):
    """Characters with which a terminal does something, but for colours of ours and line ends."""

    plain = (
        re.sub(r"\x1b\[[0-9;]*m", "", text) if "\x1b[2J" not in text and "\x1b[31mred" not in text else text
    )
    return {c for c in plain if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2066"}


def test_partition_values_lead_no_file_elsewhere_and_no_terminal_astray(lab, monkeypatch):
    table = with_hostile_partitions(lab)
    home = Path(normalised(table.metadata.location))
    rows = sorted(map(repr, table.refresh().scan().to_arrow().to_pylist()))
    before = {path for path in lab.root.parent.rglob("*") if home not in path.parents}
    service = lab.settled()
    service.stop()

    done = [one for one in of(lab, seen.JobEnded) if one.outcome is OutcomeKind.DONE]
    assert len(done) == len(HOSTILE)
    assert rows == sorted(map(repr, table.refresh().scan().to_arrow().to_pylist()))
    after = {path for path in lab.root.parent.rglob("*") if home not in path.parents}
    assert {path for path in after - before if lab.root / "state" not in path.parents} <= {lab.root / "state"}
    for task in table.scan().plan_files():
        assert home in Path(normalised(task.file.file_path)).resolve().parents
    for words in (("plan",), ("plan", "shop.orders"), ("explain", "shop.orders"), ("state", "shop.orders")):
        answer = asked(lab, monkeypatch, *words)
        assert answer.exit_code == 0, answer.output
        assert controls(answer.output) == set(), words


def test_a_partition_value_of_a_megabyte_sets_its_table_aside_and_no_other(lab):
    table = lab.create("shop.aaa", spec=PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "what")))
    other = lab.create("shop.bbb")
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(other, hour)
    with table.transaction() as changed, changed.update_snapshot().fast_append() as append:
        append.append_data_file(
            DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"{table.location()}/data/nobody opens it.parquet",
                file_format=FileFormat.PARQUET,
                partition=Record("x" * 1_000_000),
                record_count=1,
                file_size_in_bytes=1000,
                spec_id=0,
            )
        )
    service = lab.settled()

    assert {one.name for one in of(lab, seen.TableFailed)} == {"shop.aaa"}
    assert "partition's values have 1000011 characters" in of(lab, seen.TableFailed)[0].error
    assert [one.table.name for one in of(lab, seen.JobEnded)] == ["shop.bbb"]
    service.stop()


@pytest.mark.parametrize("style", ["console", "json"])
def test_names_reach_no_terminal_through_the_log(style, capsys):
    logs.configure("DEBUG", style)
    for text in HOSTILE:
        logs.tell(seen.TableFailed(f"shop.{text}", "looking at it", text, text))
    shown = capsys.readouterr().err
    structlog.reset_defaults()

    assert "red" in shown
    assert controls(shown) == set()


def test_names_and_values_make_no_series_and_no_line_of_their_own(lab):
    """A table has the same series whatever its partitions are called; a name stays within its label."""
    metrics = Metrics(lab.now_ms, "test")
    (lab.root / "policies" / "all.yaml").write_text(lab.policy.replace("min_files: 3", "enabled: false"))
    table = with_hostile_partitions(lab)
    service = lab.settled()
    for one in lab.seen:
        metrics(one)
    of_one = [
        sample for family in text_string_to_metric_families(generate_latest(metrics.registry).decode())
        for sample in family.samples if sample.labels.get("table") == "shop.orders"
    ]  # fmt: skip
    assert len(list(service.fold.partitions(uuid_of(table)))) > len(HOSTILE)
    assert len(of_one) < 60
    for text in HOSTILE:
        metrics(seen.TableFailed(f"shop.{text}", "looking at it", text, text))
    exposed = list(text_string_to_metric_families(generate_latest(metrics.registry).decode()))
    named = {s.labels["table"] for f in exposed for s in f.samples if f.name == "isotherm_table_failing"}
    assert named == {f"shop.{text}" for text in HOSTILE}
    service.stop()
