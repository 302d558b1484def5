"""Who owns a table can have that table left alone, and nothing else: its metadata, properties, names and values."""

import gzip
import io
import json
import os
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
from pyiceberg.table.update import AssertTableUUID, SetLocationUpdate, SetPropertiesUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.clients.metadata_file import (
    MAX_METADATA_BYTES,
    MAX_METADATA_OBJECTS,
    MAX_METADATA_VALUES,
    PIECE_BYTES,
    TooLargeError,
    within_limits,
)
from isotherm.contract.paths import normalised
from isotherm.core import observations as seen
from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.catalog import IcebergCatalog, connect
from isotherm.runtime import logs
from isotherm.runtime.config import CatalogConfig
from isotherm.service.ports import Unreadable
from isotherm.telemetry.metrics import Metrics
from support.lab import EXPIRING, Lab, believed, counted, of, settle, uuid_of
from support.servers import http_server


def metadata_path(table):
    return Path(normalised(table.refresh().metadata_location))


def packed_zeros(size):
    packed = io.BytesIO()
    with gzip.open(packed, "wb", compresslevel=1) as stream:
        for _ in range(size // PIECE_BYTES):
            stream.write(bytes(PIECE_BYTES))
    return packed.getvalue()


def larger(path):
    with path.open("r+b") as file:
        file.truncate(2**30)


def with_refs(path):
    metadata = json.loads(path.read_text())
    tag = {"snapshot-id": metadata["current-snapshot-id"], "type": "tag"}
    metadata["refs"] |= {f"t{number}": tag for number in range(MAX_METADATA_OBJECTS)}
    path.write_text(json.dumps(metadata))


def with_a_log_of_nothing(path):
    """Two bytes for each entry, and two kilobytes of the daemon's memory: packed, it is a file of a few kilobytes."""
    metadata = json.loads(path.read_text()) | {"snapshot-log": [0] * (MAX_METADATA_VALUES + 1)}
    path.write_text(json.dumps(metadata))


def with_partition_fields(path):
    metadata = json.loads(path.read_text())
    (spec,) = metadata["partition-specs"]
    metadata["partition-specs"] += [
        {
            "spec-id": number,
            "fields": [{**spec["fields"][0], "field-id": 1000 + number, "name": f"at_{number}"}],
        }
        for number in range(1, 3000)
    ]
    path.write_text(json.dumps(metadata))


def with_a_long_location(path):
    metadata = json.loads(path.read_text())
    metadata["location"] += "x" * 300_000
    path.write_text(json.dumps(metadata))


METADATA = {
    "partition fields that each event would read": with_partition_fields,
    "a location that each event would read": with_a_long_location,
    "a gigabyte": larger,
    "more refs than anybody needs": with_refs,
    "a log of nothing": with_a_log_of_nothing,
}


@pytest.mark.parametrize("damage", METADATA.values(), ids=METADATA)
def test_metadata_that_would_fill_the_memory_sets_its_table_aside_and_no_other(lab, damage):
    tables = [lab.create(f"shop.{name}") for name in ("aaa", "bbb")]
    for table in tables:
        for hour in (1, 1, 1, 2, 3, 4):
            lab.append(table, hour)
    damage(metadata_path(tables[0]))
    service = lab.settled()

    assert {one.name for one in of(lab, seen.TableFailed)} == {"shop.aaa"}
    assert "has more than" in of(lab, seen.TableFailed)[0].error
    assert "leave it out" in of(lab, seen.TableFailed)[0].error
    ended = {(one.table.name, one.outcome) for one in of(lab, seen.JobEnded)}
    assert ended == {("shop.bbb", OutcomeKind.DONE)}
    service.stop()


def seen_at(lab, service, table, location, **properties):
    """Its owner says where it lies, and the daemon looks a minute later."""
    changes = (SetLocationUpdate(location=location), SetPropertiesUpdate(updates=properties))
    lab.catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), changes)
    lab.ahead_ms += 60_000
    service.step(0)


def test_a_table_that_lies_elsewhere_at_each_look_is_set_aside_and_costs_the_others_little(lab):
    """Each deletion of another table reads all places, and they are kept for as long as the ledger."""
    tables = [lab.create(f"shop.{name}") for name in ("aaa", "bbb")]
    for table in tables:
        lab.append(table, 1)
    service = lab.settled()
    home, uuid = tables[0].location(), uuid_of(tables[0])
    metadata, long = {"write.metadata.path": f"{home}/metadata"}, "y" * (8000 - len(home))
    for number in range(50):
        data = {f"write.{name}.path": f"{home}/{name}#{number}{long}" for name in ("data", "object-storage")}
        seen_at(lab, service, tables[0], f"{home}/x#{number}/{long}", **metadata, **data)

    failed = {one.name: one.error for one in of(lab, seen.TableFailed)}
    assert list(failed) == ["shop.aaa"]
    assert "were changed too often" in failed["shop.aaa"]
    places = [one.location for one in service.ledger.places() if one.uuid == uuid]
    assert places[0] == home
    assert sum(map(len, places)) < 1_000_000 + 5 * 8192
    others = service.deletions.neighbours(service.catalog.load("shop.bbb")).others
    assert f"{normalised(home)}/data#0{long}/" in others
    # Where it was is a place that is known for good.
    assert service.fold.table(uuid).facts.location != home
    back = {f"write.{name}.path": f"{home}/data" for name in ("data", "object-storage")}
    for _ in range(20):
        lab.ahead_ms += 3_600_000
        seen_at(lab, service, tables[0], home, **back)
    assert service.fold.table(uuid).facts.location == home
    service.stop()


KEEP = "history.expire.min-snapshots-to-keep"


def test_of_its_properties_those_are_kept_by_which_a_table_is_maintained(lab):
    """A million others were read with each of its events, and for each look at any table."""
    others = {f"p{number}": "x" for number in range(10_000)}
    said = {"gc.enabled": "false", "write.folder-storage.path": f"file://{lab.root}/else", KEEP: "x" * 10**6}
    table = lab.create("shop.aaa", **others, **said)
    lab.append(table, 1)
    service = lab.settled()

    kept = service.fold.table(uuid_of(table)).facts.properties
    assert kept == said | {KEEP: "x" * 16_000}
    assert dict(IcebergCatalog(lab.catalog).lies("shop.aaa").properties) == kept
    service.stop()


def test_a_pipe_that_is_named_as_a_manifest_list_sets_its_table_aside_and_no_other(lab):
    tables = [lab.create(f"shop.{name}") for name in ("aaa", "bbb")]
    for table in tables:
        for hour in (1, 1, 1, 2, 3, 4):
            lab.append(table, hour)
    pipe = lab.root / "pipe"
    os.mkfifo(pipe)
    # Whoever opens it all the same does not wait for ever.
    writer = os.open(pipe, os.O_RDWR)
    path = metadata_path(tables[0])
    metadata = json.loads(path.read_text())
    for snapshot in metadata["snapshots"]:
        snapshot["manifest-list"] = f"file://{pipe}"
    path.write_text(json.dumps(metadata))
    service = lab.settled()
    os.close(writer)

    assert {one.name for one in of(lab, seen.TableFailed)} == {"shop.aaa"}
    assert f"{pipe} is not opened" in of(lab, seen.TableFailed)[0].error
    assert [one.table.name for one in of(lab, seen.JobEnded)] == ["shop.bbb"]
    service.stop()


def test_packed_metadata_is_not_unpacked_beyond_its_limit(lab):
    table = lab.create()
    path = metadata_path(table)
    bomb = path.with_name("00001-bomb.gz.metadata.json")
    bomb.write_bytes(packed_zeros(2 * MAX_METADATA_BYTES))
    lab.catalog.drop_table("shop.orders")
    assert bomb.stat().st_size < MAX_METADATA_BYTES / 50
    with pytest.raises(ValueError, match="has more than"):
        lab.catalog.register_table("shop.orders", f"file://{bomb}")


def test_no_more_is_asked_for_than_the_limit():
    asked = []

    def endless():
        while True:
            asked.append(PIECE_BYTES)
            yield bytes(PIECE_BYTES)

    with pytest.raises(TooLargeError):
        within_limits(endless(), "an answer")

    assert sum(asked) <= MAX_METADATA_BYTES + PIECE_BYTES


def test_an_answer_of_a_catalog_has_the_same_limit():
    config = {"defaults": {}, "overrides": {}}
    tag = {"snapshot-id": 1, "type": "tag"}
    refs = {"metadata": {"refs": {f"t{number}": tag for number in range(MAX_METADATA_OBJECTS)}}}
    with http_server(lambda _, path: (200, config if path == "/v1/config" else refs)) as url:
        catalog = IcebergCatalog(connect(CatalogConfig(properties={"type": "rest", "uri": url})))
        with pytest.raises(Unreadable, match="has more than"):
            catalog.load("shop.orders")


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


def taking_long(lab, catalog, began):
    """Each step of counting shop.aaa takes minutes. How often that begins is noted."""
    real = catalog.scan

    def scan(loaded, go_on):
        if loaded.table.name != "shop.aaa":
            return real(loaded, go_on)
        began.append(lab.ahead_ms)

        def later():
            lab.ahead_ms += 200_000
            go_on()

        return real(loaded, later)

    catalog.scan = scan


def test_a_table_that_takes_too_long_to_count_is_set_aside_and_the_loop_counts_as_alive(lab):
    tables = [lab.create(f"shop.{name}") for name in ("aaa", "bbb")]
    lab.append(tables[0], 1)
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(tables[1], hour)
    service, began, alive = lab.service(), list[int](), list[bool]()
    taking_long(lab, service.catalog, began)
    service.start()
    for _ in range(240):
        service.step(0)
        alive.append(service.health.is_alive(lab.monotonic_s()))
        lab.ahead_ms += 30_000

    failed = [one for one in of(lab, seen.TableFailed) if one.name == "shop.aaa"]
    assert {one.name for one in of(lab, seen.TableFailed)} == {"shop.aaa"}
    assert "hold so much that they were not counted within 300 s" in failed[0].error
    assert "it is read again in" in failed[1].error
    assert [one.table.name for one in of(lab, seen.JobEnded)] == ["shop.bbb"]
    assert all(alive)
    # Two hours, of which each count takes five minutes.
    assert 2 <= len(began) <= 3
    service.stop()


def test_commits_that_take_long_to_read_get_a_tenth_of_the_time_and_are_all_seen(lab):
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    real, began = service.catalog.changes, []

    def changes(loaded, missing, go_on):
        lab.ahead_ms += 100_000 if missing else 0
        began.extend([1] if missing else [])
        return real(loaded, missing, go_on)

    service.catalog.changes = changes
    began_ms = lab.ahead_ms
    while lab.ahead_ms - began_ms < 4_000_000:
        lab.append(table, 1, announce=False)
        service.follower.suspects.add("shop.orders")
        service.round()
        lab.ahead_ms += 30_000

    assert 3 <= len(began) <= 5
    lab.ahead_ms += 2_000_000
    service.round()
    assert believed(service, uuid_of(table)) == counted(lab.scan())
    assert service.fold.table(uuid_of(table)).is_trusted
    assert of(lab, seen.TableFailed) == []
    service.stop()


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


def test_a_folder_that_a_table_names_is_none_of_those_in_which_a_daemon_was_started(tmp_path, monkeypatch):
    """Nothing is written there, neither by a compaction nor by an expiry."""
    lab = Lab(tmp_path, policy=EXPIRING)
    table = lab.create()
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    started_in = tmp_path / "started in"
    started_in.mkdir()
    with table.transaction() as changed:
        changed.set_properties({"write.data.path": "here"})
    monkeypatch.chdir(started_in)

    lab.settled().stop()

    assert any("may name another place" in str(one) for one in lab.seen)
    assert list(started_in.iterdir()) == []
    assert len(table.refresh().metadata.snapshots) >= 6


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


SUMMARIES = [
    {"total-records": "9" * 5000, "total-data-files": "-1", "total-files-size": "NaN"},
    {"total-records": "\u0667", "deleted-duplicate-files": "1e400"},
    {"isotherm.valid-through": "9" * 400, "isotherm.job-id": "../../x", "isotherm.offsets": "{" * 5000},
    {f"key {number}": "x" for number in range(20_000)},
]


@pytest.mark.parametrize("summary", SUMMARIES, ids=["numbers", "digits", "ours", "many"])
def test_a_summary_may_say_anything(lab, summary):
    table = lab.create()
    for hour in (1, 1, 1, 2, 3):
        lab.append(table, hour)
    lab.append(table, 4, snapshot_properties=summary, announce=False)
    service = lab.settled()

    assert believed(service, uuid_of(table)) == counted(lab.scan())
    lab.append(table, 5, snapshot_properties=summary, announce=False)
    settle(service)
    assert believed(service, uuid_of(table)) == counted(lab.scan())
    assert {one.error for one in of(lab, seen.TableFailed)} == set()
    service.stop()
