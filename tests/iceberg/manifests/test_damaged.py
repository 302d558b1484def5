"""Damaged manifests, as a bit that flips or a forger makes them: read to the end or refused, soon, in bounded memory."""

import io
import json
import random
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import META_SCHEMA, AvroFileHeader
from pyiceberg.avro.resolver import construct_writer
from pyiceberg.io.pyarrow import PyArrowFileIO

from isotherm.clients.manifests.avro import (
    MAX_BLOCK_BYTES,
    MAX_UNPACKED_BYTES,
    MAX_VALUE_BYTES,
    AvroData,
    UnreadableError,
    file_of,
    number,
)
from isotherm.clients.manifests.reading import (
    KEPT_CHARS,
    MAX_LISTED,
    MAX_SCHEMA_CHARS,
    Manifest,
    manifests_listed,
    read_manifest_list,
)
from isotherm.contract.paths import normalised
from isotherm.iceberg.manifests.columns import NotReadError, read_columns
from support.lab import Lab

WAYS = ("entries", "briefly", "columns", "list")
LENGTHS = (1, 2, 50, 1000, 4_000_000, 10**9, 2**31, 2**40, 2**62, 2**63 - 1)
TRIES = 500
LISTED: Any = SimpleNamespace(added_snapshot_id=1)
READS_COLUMNS = """
import sys
from types import SimpleNamespace
from isotherm.iceberg.manifests.columns import NotReadError, read_columns
from isotherm.clients.manifests.reading import Manifest

written = Manifest("a manifest", open(sys.argv[1], "rb").read())
try:
    list(read_columns(written, SimpleNamespace(added_snapshot_id=1)))
except NotReadError as err:
    print("not read:", err)
else:
    print("read")
"""


class Whole:
    """A good manifest, or a list of manifests, with its values repeated, in one block."""

    def __init__(self, location: str, times: int = 1) -> None:
        avro = AvroData(location, Path(normalised(location)).read_bytes())
        ((count, block),) = avro.pieces(sys.maxsize)
        self.schema, self.count, self.block = avro.schema, count * times, block * times

    def with_block(self, block: bytes, count: int | None = None) -> bytes:
        return b"".join(file_of(self.schema, self.count if count is None else count, [block]))

    def with_schema(self, change: Callable[[dict[str, Any]], None], block: bytes) -> bytes:
        schema = json.loads(self.schema)
        change(schema)
        return b"".join(file_of(json.dumps(schema), self.count, [block]))


@pytest.fixture
def table(tmp_path: Path) -> Any:
    lab = Lab(tmp_path)
    made = lab.create()
    lab.append(made, 1)
    return made.refresh()


@pytest.fixture
def whole(table: Any) -> Whole:
    (manifest,) = read_manifest_list(table.io, table.current_snapshot().manifest_list)
    return Whole(manifest.manifest_path, times=150)


def read(data: bytes, way: str, folder: Path) -> int:
    """How many values there are."""
    if way == "list":
        path = folder / "damaged.avro"
        path.write_bytes(data)
        return sum(1 for _ in manifests_listed(PyArrowFileIO(), str(path)))
    written = Manifest("a manifest", data)
    if way == "columns":
        return sum(table.num_rows for table in read_columns(written, LISTED))
    return sum(1 for _ in (written if way == "entries" else written.briefly()))


@pytest.mark.parametrize("behind", [b"\0", bytes(40), b"a whole entry"])
def test_a_block_that_goes_on_behind_its_entries_is_read_as_columns_to_an_end(
    whole: Whole, tmp_path: Path, behind: bytes
) -> None:
    """DataFusion waits for its announced entries for ever, and hears no signal meanwhile: so in a process of its own."""
    more = whole.block[: len(whole.block) // whole.count] if behind == b"a whole entry" else behind
    path = tmp_path / "damaged.avro"
    path.write_bytes(whole.with_block(whole.block + more))

    done = subprocess.run(
        [sys.executable, "-c", READS_COLUMNS, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout.startswith("not read: "), done.stdout


@pytest.mark.parametrize("way", ["entries", "briefly"])
def test_a_block_that_goes_on_behind_its_entries_is_refused(whole: Whole, tmp_path: Path, way: str) -> None:
    with pytest.raises(UnreadableError, match="does not end with it"):
        read(whole.with_block(whole.block + b"\0"), way, tmp_path)
    assert read(whole.with_block(whole.block), way, tmp_path) == 150


@pytest.mark.parametrize("count", [0, 149, 151, 1 << 20])
def test_columns_are_as_many_as_announced(whole: Whole, tmp_path: Path, count: int) -> None:
    assert read(whole.with_block(whole.block), "columns", tmp_path) == 150
    with pytest.raises(NotReadError):
        read(whole.with_block(whole.block, count), "columns", tmp_path)


@pytest.mark.parametrize("way", WAYS)
def test_bits_that_flip_and_numbers_that_are_forged_end_in_words(
    table: Any, tmp_path: Path, way: str
) -> None:
    """Each of some hundred damages: a crash would end this process, and a hang would never end it."""
    location = table.current_snapshot().manifest_list
    (manifest,) = read_manifest_list(table.io, location)
    whole = Whole(location, 20) if way == "list" else Whole(manifest.manifest_path, 40)
    chance = random.Random(way)
    answers = {"read": 0, "refused": 0}
    for _ in range(TRIES):
        block = bytearray(whole.block)
        for _ in range(chance.choice((1, 1, 2, 4))):
            damage(block, chance)
        try:
            read(whole.with_block(bytes(block)), way, tmp_path)
        except (UnreadableError, NotReadError):
            answers["refused"] += 1
        else:
            answers["read"] += 1

    assert min(answers.values()) > TRIES / 20, answers


def damage(block: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(block))
    match chance.randrange(3):
        case 0:
            block[place] ^= 1 << chance.randrange(8)
        case 1:
            forged = number(chance.choice((1, -1)) * chance.choice(LENGTHS))
            block[place : place + chance.choice((1, len(forged)))] = forged
        case _:
            del block[place : place + chance.randrange(1, 20)]


@pytest.mark.parametrize("way", ["entries", "briefly", "columns"])
@pytest.mark.parametrize("inner", [{"type": "record", "name": "nothing", "fields": []}, "null"])
def test_a_list_of_values_without_bytes_is_refused(
    whole: Whole, tmp_path: Path, way: str, inner: Any
) -> None:
    """Ten bytes announce as many of them as a century has nanoseconds."""

    def change(schema: dict[str, Any]) -> None:
        fields = next(field for field in schema["fields"] if field["name"] == "data_file")["type"]["fields"]
        kind = next(field for field in fields if field["name"] == "split_offsets")["type"]
        kind[1]["items"] = inner

    with pytest.raises(UnreadableError):
        read(whole.with_schema(change, whole.block), way, tmp_path)


@pytest.mark.parametrize("way", ["entries", "briefly"])
def test_a_value_takes_no_more_memory_than_it_may(whole: Whole, table: Any, tmp_path: Path, way: str) -> None:
    """A hundred kilobytes of zeros, unpacked, are a map of a hundred million numbers."""
    (manifest,) = read_manifest_list(table.io, table.current_snapshot().manifest_list)
    entry = next(iter(Manifest.read(table.io, manifest.manifest_path)))
    sizes = b"".join(number(key) + number(size) for key, size in entry.data_file.column_sizes.items())
    at = whole.block.index(sizes)
    entries = 3 * MAX_VALUE_BYTES
    forged = whole.block[: at - 1] + number(entries) + bytes(2 * entries) + whole.block[at + len(sizes) :]

    tracemalloc.start()
    with pytest.raises(UnreadableError, match="are announced where"):
        read(whole.with_block(forged), way, tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 5 * len(forged)


def test_all_blocks_together_have_a_limit(whole: Whole) -> None:
    """Some megabytes make as many gigabytes."""
    header, sync = whole.with_block(b"", 0)[:-18], bytes(16)
    packer = zlib.compressobj(wbits=-15)
    bomb = b"".join([packer.compress(bytes(MAX_BLOCK_BYTES)), packer.flush()])
    block = number(1) + number(len(bomb)) + bomb + sync
    header = header.replace(number(4) + b"null", number(7) + b"deflate", 1)

    blocks = MAX_UNPACKED_BYTES // MAX_BLOCK_BYTES + 1
    with pytest.raises(UnreadableError, match="when unpacked"):
        for _ in Manifest("a manifest", header + block * blocks).pieces(1):
            pass


def padded(to: str) -> Callable[[dict[str, Any]], None]:
    def change(schema: dict[str, Any]) -> None:
        schema["doc"] = to

    return change


def of_many_fields(schema: dict[str, Any]) -> None:
    fields = next(field for field in schema["fields"] if field["name"] == "data_file")["type"]["fields"]
    partition = next(field for field in fields if field["name"] == "partition")["type"]
    names = [f"field_{number}" for number in range(MAX_SCHEMA_CHARS // 40)]
    partition["fields"] = [
        {"name": name, "field-id": 1000 + place, "type": "int"} for place, name in enumerate(names)
    ]


@pytest.mark.parametrize(
    ("way", "change"),
    [(way, padded("x" * MAX_SCHEMA_CHARS)) for way in WAYS] + [("columns", of_many_fields)],
)
def test_a_schema_that_no_table_needs_is_not_resolved(
    table: Any, tmp_path: Path, way: str, change: Callable[[dict[str, Any]], None]
) -> None:
    location = table.current_snapshot().manifest_list
    (manifest,) = read_manifest_list(table.io, location)
    whole = Whole(location if way == "list" else manifest.manifest_path)

    with pytest.raises(UnreadableError, match=r"has a schema of \d+ characters, more than 262144"):
        read(whole.with_schema(change, whole.block), way, tmp_path)


def test_what_a_schema_means_is_kept_where_it_is_short(whole: Whole) -> None:
    """Each manifest may have another one, as long as its owner likes."""
    short, long = (
        whole.with_schema(padded("x" * size), whole.block) for size in (KEPT_CHARS // 2, KEPT_CHARS)
    )

    assert Manifest("a manifest", short).layout is Manifest("a manifest", short).layout
    assert Manifest("a manifest", long).layout is not Manifest("a manifest", long).layout
    assert sum(1 for _ in Manifest("a manifest", long)) == whole.count


def test_the_header_of_a_table_of_ten_thousand_columns_is_read(whole: Whole) -> None:
    said = "what this column is for, where it comes from, and whom to ask about it, in a sentence or two " * 2
    columns = [
        {"id": place, "name": f"the_column_{place}", "required": False, "type": "string", "doc": said}
        for place in range(10_000)
    ]
    schema = json.dumps({"type": "struct", "schema-id": 0, "fields": columns})
    buffer, sync = io.BytesIO(), bytes(16)
    meta = {"avro.schema": whole.schema, "schema": schema, "avro.codec": "null"}
    construct_writer(META_SCHEMA).write(BinaryEncoder(buffer), AvroFileHeader(b"Obj\x01", meta, sync))
    block = number(whole.count) + number(len(whole.block)) + whole.block + sync

    assert sum(1 for _ in Manifest("a manifest", buffer.getvalue() + block)) == 150


def test_a_list_names_so_many_manifests_at_most(table: Any, tmp_path: Path) -> None:
    """Packed, a million of them take a megabyte, and in memory a thousand."""
    whole = Whole(table.current_snapshot().manifest_list)
    assert read(whole.with_block(whole.block * 20, 20), "list", tmp_path) == 20

    with pytest.raises(UnreadableError, match="names 1000001 manifests, more than 1000000"):
        read(whole.with_block(whole.block, MAX_LISTED + 1), "list", tmp_path)
