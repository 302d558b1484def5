"""Manifests and lists that somebody forged: refused in words, in bounded memory, and they never end the process."""

import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.manifest import ManifestContent, ManifestFile
from zstandard import ZstdCompressor

from isotherm.clients.manifests.avro import MAX_BLOCK_BYTES, UnreadableError
from isotherm.clients.manifests.reading import Manifest, read_manifest_list
from isotherm.contract.paths import normalised
from isotherm.iceberg.manifests.counts import Question, census
from support.lab import Lab

SYNC_BYTES = 16
GIGABYTE = 1 << 30


def number(value: int) -> bytes:
    """As Avro writes a long."""
    value, found = (value << 1) ^ (value >> 63), bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def deflated(block: bytes) -> bytes:
    return zlib.compress(block)[2:-4]


@pytest.fixture
def table(tmp_path: Path) -> Any:
    lab = Lab(tmp_path)
    made = lab.create()
    lab.append(made, 1)
    return made.refresh()


def forged(location: str, change: Callable[[bytes], bytes], count: int = 1, pack: Any = deflated) -> Path:
    """A manifest or list of one block, with a block that was changed in its place."""
    path = Path(normalised(location))
    data = path.read_bytes()
    sync = data[-SYNC_BYTES:]
    start = data.index(sync) + SYNC_BYTES
    packed = data[start + 1 : -SYNC_BYTES]
    while True:  # the length of the block, which is a number of one to three bytes
        try:
            block = zlib.decompress(packed, -15)
            break
        except zlib.error:
            packed = packed[1:]
    new = pack(change(block))
    path.write_bytes(data[:start] + number(count) + number(len(new)) + new + sync)
    return path


def manifest_of(table: Any) -> Any:
    (manifest,) = read_manifest_list(table.io, table.current_snapshot().manifest_list)
    return manifest


def announcing(text: bytes, length: int) -> Callable[[bytes], bytes]:
    """A block in which a text announces another length."""

    def change(block: bytes) -> bytes:
        place = block.index(text)
        assert block[:place].endswith(number(len(text)))
        return block[: place - len(number(len(text)))] + number(length) + block[place:]

    return change


@pytest.mark.parametrize("way", ["entries", "briefly"])
@pytest.mark.parametrize("length", [1000, 100 << 20, 3 * GIGABYTE, 1 << 62, -1, -20, -GIGABYTE, -(1 << 62)])
def test_a_length_that_leads_out_of_its_block_is_refused(table: Any, length: int, way: str) -> None:
    """PyIceberg's decoder copies what is behind its bytes, or goes back before them, and ends the process."""
    manifest = manifest_of(table)
    entry = next(iter(Manifest.read(table.io, manifest.manifest_path)))
    forged(manifest.manifest_path, announcing(entry.data_file.file_path.encode(), length))
    written = Manifest.read(table.io, manifest.manifest_path)

    # PyIceberg takes a text of less than no bytes for an empty one, and fails at what follows.
    said = f"{length} bytes are announced" if way == "briefly" else manifest.manifest_path

    with pytest.raises(UnreadableError, match=said):
        list(written if way == "entries" else written.briefly())


@pytest.mark.parametrize("length", [1000, 100 << 20, 1 << 62])
def test_a_bound_that_leads_behind_the_end_is_refused(table: Any, length: int) -> None:
    manifest = manifest_of(table)
    entry = next(iter(Manifest.read(table.io, manifest.manifest_path)))
    forged(manifest.manifest_path, announcing(max(entry.data_file.upper_bounds.values()), length))

    with pytest.raises(UnreadableError):
        list(Manifest.read(table.io, manifest.manifest_path))


@pytest.mark.parametrize("way", ["entries", "briefly"])
@pytest.mark.parametrize(
    "number_of", [b"\x80" * 9 + b"\x01", b"\x80" * 4000], ids=["of ten bytes", "without an end"]
)
def test_a_list_of_more_numbers_than_there_are_is_refused(table: Any, number_of: bytes, way: str) -> None:
    """A number takes ten bytes, or as many as somebody likes, and PyIceberg's decoder does not look where they end."""
    manifest = manifest_of(table)
    entry = next(iter(Manifest.read(table.io, manifest.manifest_path)))
    offsets = entry.data_file.split_offsets
    assert offsets is not None
    written = number(len(offsets)) + b"".join(map(number, offsets)) + number(0)

    def change(block: bytes) -> bytes:
        place = block.rindex(written)
        hostile = number_of * (200_000 // len(number_of))
        return block[:place] + number(len(hostile)) + hostile + block[place + len(written) :]

    forged(manifest.manifest_path, change)
    one = Manifest.read(table.io, manifest.manifest_path)

    with pytest.raises(UnreadableError, match="numbers are announced"):
        list(one if way == "entries" else one.briefly())


def test_a_length_in_a_list_that_leads_behind_the_end_is_refused(table: Any) -> None:
    location = table.current_snapshot().manifest_list
    path = manifest_of(table).manifest_path
    forged(location, announcing(path.encode(), 100 << 20))

    with pytest.raises(UnreadableError, match=location):
        read_manifest_list(table.io, location)


@pytest.mark.parametrize("count", [2, 1 << 40, 1 << 62, -1])
def test_more_entries_than_a_block_has_are_refused(table: Any, count: int) -> None:
    manifest = manifest_of(table)
    forged(manifest.manifest_path, lambda block: block, count)

    with pytest.raises(UnreadableError):
        list(Manifest.read(table.io, manifest.manifest_path))


@pytest.mark.parametrize("way", ["entries", "columns", "list"])
def test_a_block_that_becomes_large_is_unpacked_no_further_than_the_limit(table: Any, way: str) -> None:
    """A megabyte of it makes a gigabyte."""
    manifest = manifest_of(table)
    location = table.current_snapshot().manifest_list if way == "list" else manifest.manifest_path
    packer = zlib.compressobj(wbits=-15)
    # After a full flush nothing refers to what came before, so one megabyte is packed, and is there 1024 times.
    packed = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    bomb = packed * 1024 + packer.flush()
    length = forged(location, lambda block: block, pack=lambda _: bomb).stat().st_size
    listed = ManifestFile.from_args(
        3,
        manifest_path=location,
        manifest_length=length,
        partition_spec_id=0,
        content=ManifestContent.DATA,
        added_snapshot_id=1,
    )
    read = {
        "entries": lambda: list(Manifest.read(table.io, location)),
        "columns": lambda: census(table.metadata, table.io, [listed], Question(), large_bytes=0),
        "list": lambda: read_manifest_list(table.io, location),
    }[way]

    tracemalloc.start()
    with pytest.raises(UnreadableError, match=f"more than {MAX_BLOCK_BYTES} bytes"):
        read()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 3 * MAX_BLOCK_BYTES


def test_every_codec_has_the_limit(table: Any) -> None:
    bombs = {"zstd": ZstdCompressor().compress(bytes(MAX_BLOCK_BYTES + 1)), "bzip2": None}
    bombs["bzip2"] = KNOWN_CODECS["bzip2"].compress(bytes(MAX_BLOCK_BYTES + 1))[0]  # type: ignore[union-attr]
    manifest = manifest_of(table)
    path = forged(manifest.manifest_path, lambda block: block)
    data = path.read_bytes()
    for name, bomb in bombs.items():
        avro = {"zstd": b"zstandard", "bzip2": b"bzip2"}[name]
        header = data[: data.index(data[-SYNC_BYTES:]) + SYNC_BYTES]
        named = header.replace(number(7) + b"deflate", number(len(avro)) + avro)
        assert named != header
        assert bomb is not None
        path.write_bytes(named + number(1) + number(len(bomb)) + bomb + data[-SYNC_BYTES:])

        with pytest.raises(UnreadableError, match="more than"):
            list(Manifest.read(table.io, manifest.manifest_path))
