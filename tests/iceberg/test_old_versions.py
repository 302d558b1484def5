"""Old versions of a table's metadata go by what they say, and none that the table needs, or that is not its own."""

import gzip
import json
import os
from pathlib import Path

import pytest

from isotherm.clients import metadata_ends
from isotherm.clients.listing import files_below
from isotherm.core.deletion import Cause, Mark, Neighbours, Seen, own_folders
from isotherm.iceberg import metadata_folder, orphan_search
from isotherm.iceberg.remover import sweep
from isotherm.iceberg.stopping import never
from isotherm.service.ports import Sweep
from support.lab import uuid_of
from support.object_store import Fault
from support.search_alone import START_S, found


def test_a_version_that_a_store_lists_twice_counts_once_among_the_newest_which_stay(on_disk, monkeypatch):
    table = on_disk.create(**{"write.metadata.previous-versions-max": "1"})
    for hour in range(6):
        on_disk.append(table, hour)
    metadata = Path(table.refresh().metadata_location.removeprefix("file://")).parent
    every = sorted(metadata.glob("*.metadata.json"))
    for path in every[:3]:
        os.utime(path, (START_S, START_S))

    def oldest():
        result = found(table, Cause.OLD_VERSION, ahead_ms=-3_600_000, keep_last=4)
        return result.files, [one.path.rpartition("/")[2] for one in result.orphans]

    # Seven: two are named, two more are young, and of the three others one is among the newest that stay.
    once = oldest()
    monkeypatch.setattr(
        orphan_search, "files_below", lambda io, folder: (some + some for some in files_below(io, folder))
    )

    assert once == oldest() == (2, [path.name for path in every[:2]])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"view-uuid": "v", "properties": {}}', "it does not begin as a version of a table's metadata does"),
        (
            '{"format-version": 2, "table-uuid": "other", "last-updated-ms": 1}',
            "it is a version of another table, other",
        ),
        ("{}", "it does not begin as a version of a table's metadata does"),
    ],
)
@pytest.mark.parametrize("is_gzip", [False, True])
def test_what_is_no_version_of_this_table_stays(on_disk, text, reason, is_gzip):
    """A view, a table that was dropped, another one that writes here."""
    table = on_disk.create()
    for hour in (1, 2):
        on_disk.append(table, hour)
    path = f"{table.refresh().metadata.location}/metadata/00000-x.metadata.json"
    Path(path.removeprefix("file://")).write_bytes(gzip.compress(text.encode()) if is_gzip else text.encode())
    neighbours = Neighbours(own_folders(table.metadata.location, (), ("shop", "orders")))
    mark = Mark(path, "job", Cause.OLD_VERSION, Seen(1, 1))

    swept = sweep(table, Sweep(uuid_of(table), (mark,), {}, neighbours), never)

    assert (swept.kept[path].reason, swept.kept[path].why) == ("not_ours", reason)


@pytest.mark.parametrize("is_gzip", [False, True])
def test_a_version_that_cannot_be_read_holds_up_no_other_and_of_a_large_one_little_is_read(
    on_s3, is_gzip, monkeypatch
):
    lab, store = on_s3
    table = lab.create(**{"write.metadata.previous-versions-max": "2"})
    for hour in range(5):
        lab.append(table, hour)
    folder = f"{table.refresh().metadata.location}/metadata"
    text = f'{{"table-uuid": "{uuid_of(table)}", "last-updated-ms": 1, "x": "{"y" * 500_000}", "last-sequence-number": 3}}'.encode()
    paths = {"large": f"{folder}/00000-a.metadata.json", "cut": f"{folder}/00000-b.gz.metadata.json"}
    paths["refused"] = f"{folder}/00000-c.metadata.json"
    for name, data in (
        ("large", gzip.compress(text, 0) if is_gzip else text),
        ("cut", gzip.compress(text)[:20]),
        ("refused", text),
    ):
        with table.io.new_output(paths[name]).create() as stream:
            stream.write(data)
    store.faults += [Fault("GET", "00000-c.metadata.json", 1000, "403")]
    read = []

    def ends(*asked):
        read.append(max(map(len, said := metadata_ends.ends_of(*asked))))
        return said

    monkeypatch.setattr(metadata_folder, "ends_of", ends)
    neighbours = Neighbours(own_folders(table.metadata.location, (), ("shop", "orders")))
    marks = tuple(Mark(path, "job", Cause.OLD_VERSION, Seen(1, 1)) for path in paths.values())

    swept = sweep(table, Sweep(uuid_of(table), marks, {}, neighbours), never)

    assert swept.gone == (paths["large"],)
    assert {path: verdict.reason for path, verdict in swept.kept.items()} == {
        paths["cut"]: "not_ours",
        paths["refused"]: "not_ours",
    }
    assert max(read) == 64 * 1024


def test_where_a_table_names_no_older_version_those_before_the_newest_go(on_disk):
    table = on_disk.create()
    for hour in (1, 2, 3):
        on_disk.append(table, hour)
    path = Path(table.refresh().metadata_location.removeprefix("file://"))
    text = json.loads(path.read_text())
    path.write_text(json.dumps(text | {"metadata-log": []}))
    table = on_disk.catalog.load_table("shop.orders")

    result = found(table, Cause.OLD_VERSION)

    assert (result.listed, result.files) == (4, 3)
    assert path.name not in {one.path.rpartition("/")[2] for one in result.orphans}


def test_a_history_that_was_lost_and_is_older_than_all_that_is_named_stays(on_disk):
    """The catalog was restored, and the stream went on: the way back to the lost history has a higher number."""
    table = on_disk.create(**{"write.metadata.previous-versions-max": "2"})
    for hour in range(5):
        on_disk.append(table, hour)
    newest = Path(table.refresh().metadata_location.removeprefix("file://"))
    text = json.loads(newest.read_text()) | {"last-updated-ms": 1, "last-sequence-number": 6}
    lost = newest.with_name("00006-lost.metadata.json")
    lost.write_text(json.dumps(text))
    mark = Mark(f"file://{lost}", "job", Cause.OLD_VERSION, Seen(1, 1))
    neighbours = Neighbours(own_folders(table.metadata.location, (), ("shop", "orders")))

    swept = sweep(table, Sweep(uuid_of(table), (mark,), {}, neighbours), never)

    assert swept.kept[mark.path].reason == "not_ours"
    assert "its last sequence number is 6, not 5" in swept.kept[mark.path].why


def test_the_versions_that_a_table_needs_are_never_deleted(on_disk):
    """Each has the same sequence number: nothing else tells them apart. A catalog may be set back to an older one."""
    table = on_disk.create(**{"write.metadata.previous-versions-max": "2"})
    on_disk.append(table, 1)
    for number in range(5):
        table.transaction().set_properties({"number": str(number)}).commit_transaction()
    table.refresh()
    every = sorted(Path(table.metadata_location.removeprefix("file://")).parent.glob("*.metadata.json"))
    back_to = every[4]
    on_disk.catalog.drop_table("shop.orders")
    table = on_disk.catalog.register_table("shop.orders", f"file://{back_to}")
    marks = tuple(Mark(f"file://{path}", "job", Cause.OLD_VERSION, Seen(1, 1)) for path in every)
    neighbours = Neighbours(own_folders(table.metadata.location, (), ("shop", "orders")))

    swept = sweep(table, Sweep(uuid_of(table), marks, {}, neighbours), never)

    needed = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    # What is younger than those may be the way back to the history that was lost.
    assert {path for path, verdict in swept.kept.items() if verdict.reason == "reached"} == needed
    assert set(swept.kept) == needed | {f"file://{path}" for path in every[5:]}
    assert set(swept.gone) == {mark.path for mark in marks} - set(swept.kept) != set()
    assert on_disk.catalog.load_table("shop.orders").scan().to_arrow().num_rows == 2
