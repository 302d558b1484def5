"""Manifests of very wide tables are read, and only a few bytes of them are in memory together."""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from isotherm.clients.manifests.avro import ALONE_BYTES
from isotherm.clients.manifests.reading import read_manifest_list
from isotherm.contract.paths import normalised
from isotherm.iceberg.announced_changes import changes_announced
from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.iceberg.manifests.counts import Question, census
from isotherm.iceberg.manifests.reachability import reached
from isotherm.iceberg.threads import Threads
from isotherm.service.ports import without_end

MIB = 1024 * 1024
MOST_TOGETHER_BYTES = 256 * MIB


class Noting(Threads):
    """Everything in turn; it says how much would have been done together."""

    at_once = 1

    def each(self, work: Callable[[Any], Any], items: Sequence[Any], at_once: int) -> Iterator[Any]:
        self.at_once = at_once
        for item in items:
            yield work(item)


class Metered:
    """A FileIO that notes how many bytes of each file were read, and how many files were read together."""

    def __init__(self, io: Any, threads: Noting) -> None:
        self.io, self.threads = io, threads
        self.reads: list[tuple[int, int]] = []

    def new_input(self, location: str) -> "Metered":
        self.input = self.io.new_input(location)
        return self

    @contextmanager
    def open(self) -> Iterator["Metered"]:
        with self.input.open() as stream:
            self.stream, self.size = stream, 0
            yield self
        self.reads.append((self.size, self.threads.at_once))

    def read(self, count: int) -> bytes:
        part: bytes = self.stream.read(count)
        self.size += len(part)
        return part


@pytest.fixture
def wide(tmp_path: Path) -> Table:
    """A table with a manifest of 70 MiB and one of 20, of which its lists say a few kilobytes."""
    root = tmp_path
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{root}/c.db", warehouse=f"file://{root}/w")
    catalog.create_namespace("db")
    rows = pa.table({"text": [os.urandom(MIB).hex()]})
    full = {"write.metadata.metrics.default": "full"}
    table = catalog.create_table("db.t", rows.schema, properties=full)
    for size in (70 * MIB, 20 * MIB):
        table.append(rows)
        head = table.metadata.current_snapshot()
        assert head is not None
        path = Path(normalised(read_manifest_list(table.io, head.manifest_list)[0].manifest_path))
        data = path.read_bytes()
        start = data.index(data[-16:]) + 16
        path.write_bytes(data[:start] + data[start:] * (size // len(data[start:]) + 1))
    return table


@pytest.mark.parametrize(
    ("a_read_s", "small_ones"),
    [
        pytest.param(0.03, [1, 1, 48], id="a store"),
        pytest.param(0.0001, [1, 1, 1], id="a disk of this machine"),
    ],
)
def test_events_that_name_large_manifests_are_read_few_together(
    lab: Any, a_read_s: float, small_ones: list[int]
) -> None:
    """Small ones are, where the store is slow; beside a disk that answers at once threads would only cost."""
    table, threads, asked, sizes = lab.create(), Noting(), [], []
    catalog = IcebergCatalog(lab.catalog, threads=threads)
    for hour, size in enumerate((0, 0, 0, 900, 2048, 15 * 1024, 20 * 1024, 33 * 1024)):
        event = lab.append(table, hour)
        (manifest,) = event.added_manifests
        path = Path(normalised(manifest.path))
        data = path.read_bytes()
        start = data.index(data[-16:]) + 16
        path.write_bytes(data[:start] + data[start:] * max(size * 1024 // len(data[start:]), 1))
        sizes.append(path.stat().st_size)
        # Of the first it is forged: no more than that is read of it, and nothing is believed.
        named = manifest.model_copy(update={"length": sizes[-1] if hour else 1000})
        asked.append((catalog.load("shop.orders"), event.model_copy(update={"added_manifests": (named,)})))
    files = [Metered(loaded.handle.io, threads) for loaded, _ in asked]
    for (loaded, _), metered in zip(asked, files, strict=True):
        loaded.handle.io = metered
    clock = itertools.count(0.0, a_read_s)
    changes = changes_announced(asked, threads, without_end, lambda: next(clock))

    assert [change is None for change in changes] == [True, *[False] * 7]
    together = [metered.reads[0] for metered in files]
    assert [size for size, _ in together][1:] == sizes[1:]
    assert [at_once for _, at_once in together] == [*small_ones, 48, 8, 8, 1, 1]
    assert max(size * at_once for size, at_once in together) <= 128 * MIB


def listed(table: Table) -> list[Any]:
    head = table.metadata.current_snapshot()
    assert head is not None
    return read_manifest_list(table.io, head.manifest_list)


def test_a_proof_reads_large_manifests_alone_whatever_the_lists_say(wide: Table) -> None:
    threads = Noting()
    files: Any = Metered(wide.io, threads)
    live = {str(path) for path in Path(normalised(wide.location())).rglob("*.parquet")}

    assert reached(wide.metadata, files, [*live, "/gone"], None, threads=threads) == live
    assert max(size for size, _ in files.reads) > 64 * MIB
    assert {at_once for size, at_once in files.reads if size > ALONE_BYTES + 1} == {1}
    assert max(size * at_once for size, at_once in files.reads) < MOST_TOGETHER_BYTES


def test_a_count_reads_a_wide_manifest(wide: Table) -> None:
    manifests = listed(wide)
    for manifest in manifests:
        manifest[1] = Path(normalised(manifest.manifest_path)).stat().st_size

    counted = census(wide.metadata, wide.io, manifests, Question())

    assert counted.files > 64
