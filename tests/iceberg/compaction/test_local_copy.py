"""A copy with holes: whatever is in them, both engines read the columns that it was made for."""

import io
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Barrier, Thread

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from isotherm.clients.storage import properties_with_retries
from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.refusals import Reason, RefusalError
from isotherm.iceberg.compaction.failures import blaming
from isotherm.iceberg.compaction.local_copy import AHEAD, AHEAD_BYTES, HOLE_BYTES, in_turn, nearby, needed
from isotherm.iceberg.compaction.source import names
from support.daemon_process import eventually
from support.object_store import BUCKET, object_store

ROWS = 3 * HOLE_BYTES // 16
KEYS = list(range(ROWS))


def wide(**options):
    """A file in three row groups: keys between columns of which each takes a hole of its own."""
    noise = pa.array([os.urandom(16) for _ in range(100)]).take(pa.array([one % 100 for one in KEYS]))
    much = pa.array([os.urandom(24) for _ in KEYS])
    table = pa.table(
        {
            "before": much,
            "key.part": pa.array([one % 7 for one in KEYS]),
            "key": pa.array(KEYS),
            "within": pa.StructArray.from_arrays([much, noise], names=["much", "noise"]),
            "after": much,
        }
    )
    table = table.cast(
        pa.schema([with_id(field, place) for place, field in enumerate(table.schema, start=1)])
    )
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=ROWS // 3 + 1, **options)
    return stream.getvalue()


class Whole(io.BytesIO):
    """A file of any name."""

    def open(self):
        return self

    def new_input(self, _):
        return self


class Brief(Whole):
    """A file of which nothing more comes once it is read up to its middle; whoever asks for its end gets that."""

    def read(self, size=-1):
        middle = len(self.getbuffer()) // 2
        return super().read(size if self.tell() > middle else min(size, middle - self.tell()))


def with_id(field, place):
    return field.with_metadata({"PARQUET:field_id": str(place)})


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "none", "use_dictionary": False},
        {"compression": "zstd", "write_page_index": True},
        {"compression": "snappy", "use_dictionary": ["key.part", "key"], "data_page_version": "2.0"},
    ],
    ids=["plain", "with an index of pages", "with dictionaries"],
)
@pytest.mark.parametrize(
    ("ids", "wanted"), [({3}, ["key"]), ({2}, ["key.part"]), ({2, 3}, ["key.part", "key"])]
)
def test_only_what_other_columns_take_is_left_out(tmp_path: Path, options, ids, wanted):
    content = wide(**options)
    footer = pq.read_metadata(io.BytesIO(content))
    parts = needed(footer, names(footer, ids, None), len(content))
    torn = bytearray(os.urandom(len(content)))
    for start, end in parts:
        torn[start:end] = content[start:end]
    (tmp_path / "torn").write_bytes(torn)

    quoted = ", ".join(f'"{name}"' for name in wanted)
    found = duckdb.sql(f"SELECT {quoted} FROM read_parquet('{tmp_path}/torn')").fetchall()
    arrow = pq.ParquetFile(tmp_path / "torn", pre_buffer=False).read(columns=wanted)

    assert sum(end - start for start, end in parts) < len(content) // 2
    assert found == list(
        zip(*({"key": KEYS, "key.part": [one % 7 for one in KEYS]}[one] for one in wanted), strict=True)
    )
    assert [arrow.column(one).to_pylist() for one in wanted] == [
        list(one) for one in zip(*found, strict=True)
    ]


def test_a_file_without_these_columns_still_says_its_rows(tmp_path: Path):
    content = wide()
    footer = pq.read_metadata(io.BytesIO(content))

    assert names(footer, {99}, None) == {"before"}


def test_of_a_remote_file_the_other_columns_are_not_fetched():
    content = wide()
    with object_store() as store:
        files = PyArrowFileIO(properties_with_retries(store.properties()))
        with files.new_output(f"s3://{BUCKET}/wide").create() as stream:
            stream.write(content)
        before = store.sent_bytes
        wanted = partial(names, known={3}, mapping=None)
        with nearby(files, f"s3://{BUCKET}/wide", len(content), wanted) as path:
            keys = pq.ParquetFile(path, pre_buffer=False).read(columns=["key"])
            sent_bytes, size_bytes = store.sent_bytes - before, Path(path).stat().st_size

    assert keys.column("key").to_pylist() == KEYS
    assert size_bytes == len(content)
    assert sent_bytes < len(content) // 2


def test_an_answer_that_ends_early_is_no_hole():
    """Zeros would be keys, and the same to both engines."""
    of = Brief(wide(compression="none", use_dictionary=False))
    wanted = partial(names, known={4}, mapping=None)
    with (
        pytest.raises(RefusalError, match="bytes early") as refused,
        blaming("wide"),
        nearby(of, "s3://lake/wide", len(of.getbuffer()), wanted),
    ):
        pass

    assert refused.value.refusal.reason is Reason.STORAGE


def test_of_a_file_that_is_longer_than_its_manifest_says_nothing_is_copied(monkeypatch):
    """Whoever may write a table's files may write any length over one, and our own stores are on the disk of the copy."""
    monkeypatch.setattr("isotherm.iceberg.compaction.local_copy.SLACK_BYTES", 1000)
    content = wide(compression="none", use_dictionary=False)
    with object_store() as store:
        files = PyArrowFileIO(properties_with_retries(store.properties()))
        with files.new_output(f"s3://{BUCKET}/longer").create() as stream:
            stream.write(content)
        before = store.sent_bytes
        for columns in (None, partial(names, known={3}, mapping=None)):
            with (
                pytest.raises(
                    RefusalError, match=f"{len(content)} bytes, its manifest says 1000$"
                ) as refused,
                nearby(files, f"s3://{BUCKET}/longer", 1000, columns),
            ):
                pass

            assert refused.value.refusal.reason is Reason.CORRUPT_FILE
            assert store.sent_bytes == before
        with nearby(files, f"s3://{BUCKET}/longer", len(content) - 1000) as path:
            # As `rewrite_table_path` leaves delete files.
            assert Path(path).read_bytes() == content


def test_a_file_that_is_shorter_than_its_manifest_says_is_copied_as_it_is():
    """Spark wrote such sizes before Iceberg 0.11, and its rows are all there."""
    content = wide()
    with nearby(Whole(content), "s3://lake/wide", 2 * len(content)) as path:
        copied = Path(path).read_bytes()

    assert copied == content


@pytest.mark.parametrize("location", ["s3://lake/wide", "local"])
def test_a_file_that_is_much_shorter_than_its_manifest_says_is_not_read(tmp_path, location):
    """Budgets count what manifests say: one file could use up those of all tables."""
    content = wide()
    if location == "local":
        location = str(tmp_path / "a.parquet")
        Path(location).write_bytes(content)
    with (
        pytest.raises(RefusalError, match=f"{len(content)} bytes, its manifest says {2**63 - 1}") as refused,
        nearby(Whole(content), location, 2**63 - 1),
    ):
        pass

    assert refused.value.refusal.reason is Reason.CORRUPT_FILE


class Many:
    """A store in which files of all names have their name as content; the first ones come together or not at all."""

    def __init__(self, together=0, missing=(), size_bytes=0):
        self.all_of_them = Barrier(together, timeout=20) if together else None
        self.together, self.missing, self.opened = together, missing, []
        self.size_bytes = size_bytes

    def new_input(self, location):
        self.opened.append(location)
        if len(self.opened) <= self.together:
            self.all_of_them.wait()
        if location in self.missing:
            raise FileNotFoundError(location)
        return Whole(location.encode().ljust(self.size_bytes))


def small(count, size_bytes=20):
    return [LiveFile(f"s3://lake/{number:04}", FileKind.DATA, size_bytes, 1, 1) for number in range(count)]


def contents(files, store):
    found = []
    for file, near in zip(files, in_turn(store, files), strict=True):
        with blaming(file.path), near as path:
            found.append(Path(path).read_text())
    return found


def test_small_files_are_fetched_before_it_is_their_turn():
    """A hundred thousand deletes of a kilobyte took two hours, one request after another."""
    files, store = small(100), Many(together=AHEAD)

    assert contents(files, store) == [file.path for file in files]
    assert sorted(store.opened) == [file.path for file in files]


@pytest.mark.parametrize("given", [0, 1, 3])
def test_where_the_system_gives_fewer_threads_small_files_are_fetched_all_the_same(monkeypatch, given):
    begun, start = [], Thread.start

    def some(thread):
        if len(begun) == given:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        start(thread)

    monkeypatch.setattr(Thread, "start", some)
    files, store = small(100), Many()

    assert contents(files, store) == [file.path for file in files]
    assert sorted(store.opened) == [file.path for file in files]
    assert len(begun) == given


def test_no_more_is_fetched_ahead_than_a_disk_has_room_for():
    """Of files of a third of it three are there at a time, whichever has its turn."""
    files, store = small(9, size_bytes=AHEAD_BYTES // 3), Many(size_bytes=AHEAD_BYTES // 3)
    for number, near in enumerate(in_turn(store, files)):
        with near:
            eventually(lambda taken=number + 1: len(store.opened) >= min(taken + 2, 9))
            assert len(store.opened) <= number + 3


def test_large_files_are_fetched_in_their_turn():
    files, store = small(5, size_bytes=AHEAD_BYTES + 1), Many(size_bytes=AHEAD_BYTES)
    taken = []
    for file, near in zip(files, in_turn(store, files), strict=True):
        taken.append(file.path)
        with near:
            # No other one has begun to be fetched, and none before it is there any more.
            assert store.opened == taken

    assert store.opened == taken


def test_what_goes_wrong_with_a_file_is_told_in_its_turn_and_of_it():
    files = small(50)
    store = Many(missing=[files[7].path])
    with pytest.raises(RefusalError, match=f"{files[7].path} is not there") as refused:
        contents(files, store)

    assert refused.value.refusal.reason is Reason.MISSING_FILE
    assert len(store.opened) <= 7 + AHEAD + 1


def test_local_files_are_opened_in_their_turn(tmp_path):
    files = [replace(file, path=str(tmp_path / file.path[-4:])) for file in small(3)]
    for file in files:
        Path(file.path).write_text(file.path)

    assert contents(files, None) == [file.path for file in files]
