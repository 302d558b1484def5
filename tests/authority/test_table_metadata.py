"""Who owns a table can have it left alone by its metadata, and no other one: it may be large, packed, or name what is no file."""

import gzip
import io
import json
import os
from pathlib import Path

import pytest

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
from isotherm.runtime.config import CatalogConfig
from isotherm.service.ports import Unreadable
from support.lab import believed, counted, of, settle, uuid_of
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
