"""What an expiry leaves behind, in random histories, held against what each snapshot was made of.

Histories have branches, rollbacks, tags, roots without a parent, manifests that were merged, files that were added again
and files that two manifests name; and snapshots that somebody else has expired. Nobody reads a data file here.
"""

import itertools
import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.statistics import PartitionStatisticsFile, StatisticsFile
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from isotherm.core.model.jobs import WrittenFile
from isotherm.iceberg.manifests.reachability import left_behind, reached, sizes_named
from isotherm.iceberg.manifests.writing import added, existing, write_manifest, write_manifest_list
from isotherm.iceberg.threads import Threads

_names = itertools.count()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    root: Path = tmp_path_factory.mktemp("lake")
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{root}/c.db", warehouse=f"file://{root}/w")
    catalog.create_namespace("db")
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    return catalog.create_table("db.t", schema, properties={"format-version": "2"})


@dataclass
class Made:
    """A snapshot: what its list names, and what that reaches."""

    snapshot: Snapshot
    manifests: list[tuple[Any, frozenset[str]]]

    @property
    def reach(self) -> set[str]:
        files = set().union(*(files for _, files in self.manifests)) if self.manifests else set()
        return {self.snapshot.manifest_list, *(one.manifest_path for one, _ in self.manifests), *files}


@dataclass
class History:
    """Snapshots as a writer makes them."""

    table: Table
    made: list[Made] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    """Every data file that ever was."""

    def manifest(
        self, snapshot_id: int, files: frozenset[str], state: Any = lambda entry: entry
    ) -> tuple[Any, frozenset[str]]:
        location = f"{self.table.location()}/metadata/m{next(_names)}.avro"
        entries = [
            state(added(WrittenFile(path, 1, 1, {}, {}, {}, {}, {}, {}, ()), Record(), snapshot_id, 1))
            for path in sorted(files)
        ]
        metadata = self.table.metadata
        manifest = write_manifest(
            self.table.io, metadata, location, 0, ManifestContent.DATA, snapshot_id, entries
        )
        return manifest, files

    def commit(self, parent: int | None, how: str, place: int) -> None:
        """One snapshot on top of another, or of none."""
        base = [] if parent is None else list(self.made[parent].manifests)
        snapshot_id = len(self.made) + 1
        held = sorted(set().union(*(files for _, files in base))) if base else []
        new = f"{self.table.location()}/data/{next(_names)}.parquet"
        match how:
            case "again" if self.known:
                base.append(self.manifest(snapshot_id, frozenset({self.known[place % len(self.known)]})))
            case "delete" if held:
                gone = held[place % len(held)]
                base = [
                    self.manifest(snapshot_id, files - {gone}, existing) if gone in files else (one, files)
                    for one, files in base
                    if files - {gone}
                ]
            case "merge" if len(base) > 1:
                some = base[: 2 + place % 2]
                merged = frozenset().union(*(files for _, files in some))
                base = [self.manifest(snapshot_id, merged, existing), *base[len(some) :]]
            case _:
                base.append(self.manifest(snapshot_id, frozenset({new})))
                self.known.append(new)
        location = f"{self.table.location()}/metadata/list{next(_names)}.avro"
        parent_id = None if parent is None else self.made[parent].snapshot.snapshot_id
        write_manifest_list(
            self.table.io,
            self.table.metadata,
            location,
            snapshot_id,
            parent_id or 0,
            snapshot_id,
            [one for one, _ in base],
        )
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=snapshot_id,
            timestamp_ms=snapshot_id,
            manifest_list=location,
        )
        self.made.append(Made(snapshot, base))

    def metadata(self, made: list[Made]) -> Any:
        return self.table.metadata.model_copy(update={"snapshots": [one.snapshot for one in made]})


PLAIN = ["append", "append", "delete", "merge"]
steps = st.lists(
    st.tuples(st.sampled_from([*PLAIN, "again", "root"]), st.integers(0, 3), st.integers(0, 9)),
    min_size=2,
    max_size=10,
)
places = st.sets(st.integers(0, 9))


def played(table: Table, script: list[tuple[str, int, int]], plain: bool = False) -> History:
    """A history in which most snapshots follow the newest, some an older one, and some none."""
    history = History(table)
    for how, back, place in script:
        parent = len(history.made) - 1 - (back if back == 3 else 0)
        on = None if how == "root" or parent < 0 else parent
        history.commit(on, "append" if plain and how == "again" else how, place)
    return history


QUIETLY = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@QUIETLY
@given(script=steps, already=places, going=places)
def test_what_only_the_going_reach_is_found_and_the_proof_keeps_the_rest(
    table: Table, script: list[tuple[str, int, int]], already: set[int], going: set[int]
) -> None:
    history = played(table, script)
    present = [one for place, one in enumerate(history.made) if place not in already]
    leaving = [one for one in present if one.snapshot.snapshot_id - 1 in going]
    staying = [one for one in present if one not in leaving]
    needed = set().union(*(one.reach for one in staying)) if staying else set()
    unreachable = (set().union(*(one.reach for one in leaving)) if leaving else set()) - needed

    found = left_behind(history.metadata(present), table.io, {one.snapshot.snapshot_id for one in leaving})
    proved = reached(history.metadata(staying), table.io, found, None)

    assert unreachable <= set(found)
    assert unreachable == {path for path in found if path.removeprefix("file://") not in proved}


@QUIETLY
@given(
    script=st.lists(st.tuples(st.sampled_from(PLAIN), st.just(0), st.integers(0, 9)), min_size=2),
    cut=st.integers(0, 9),
)
def test_where_no_file_comes_back_nothing_is_found_too_much(
    table: Table, script: list[tuple[str, int, int]], cut: int
) -> None:
    """The oldest go first, as expiries have it; the snapshots between them and the others are all there."""
    history = played(table, script, plain=True)
    leaving, staying = history.made[:cut], history.made[cut:]
    needed = set().union(*(one.reach for one in staying)) if staying else set()
    unreachable = (set().union(*(one.reach for one in leaving)) if leaving else set()) - needed

    found = left_behind(
        history.metadata(history.made), table.io, {one.snapshot.snapshot_id for one in leaving}
    )

    assert unreachable == set(found)


class OneAfterAnother(Threads):
    """So that what is held, and not what is read together, is measured."""

    def each(self, work: Any, items: Any, at_once: int) -> Any:
        del at_once
        return map(work, items)


def test_after_a_rewrite_of_all_manifests_no_path_of_the_table_is_held(table: Table) -> None:
    """Every file of the table is then in manifests of both sides, and a table may have millions."""
    history, each, count = History(table), 200, 40
    old, new = (
        [
            history.manifest(snapshot_id, frozenset(f"{table.location()}/data/{'x' * 200}{n}" for n in some), state)
            for some in (range(start, start + each) for start in range(0, each * count, each))
        ]
        for snapshot_id, state in ((1, lambda entry: entry), (2, existing))
    )  # fmt: skip
    for snapshot_id, manifests in ((1, old), (2, new)):
        location = f"{table.location()}/metadata/list{next(_names)}.avro"
        listed = [one for one, _ in manifests]
        write_manifest_list(
            table.io, table.metadata, location, snapshot_id, snapshot_id - 1, snapshot_id, listed
        )
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=snapshot_id - 1 or None,
            sequence_number=snapshot_id,
            timestamp_ms=snapshot_id,
            manifest_list=location,
        )
        history.made.append(Made(snapshot, manifests))
    metadata = history.metadata(history.made)

    tracemalloc.start()
    left = left_behind(metadata, table.io, {1}, threads=OneAfterAnother())
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert set(left) == {history.made[0].snapshot.manifest_list, *(one.manifest_path for one, _ in old)}
    assert peak_bytes < 500 * each * count, "a path is some 280 bytes, and there were three of each"


def test_of_statistics_the_metadata_says_the_size(table: Table) -> None:
    metadata = table.metadata.model_copy(
        update={
            "statistics": [
                StatisticsFile(
                    snapshot_id=1,
                    statistics_path="s3a://lake/t/a.stats",
                    file_size_in_bytes=7,
                    file_footer_size_in_bytes=3,
                    blob_metadata=[],
                )
            ],
            "partition_statistics": [
                PartitionStatisticsFile(
                    snapshot_id=1, statistics_path=f"s3://lake/t/{name}", file_size_in_bytes=8
                )
                for name in ("b.parquet", "c.parquet")
            ],
        }
    )

    found = list(sizes_named(metadata, table.io, {"s3://lake/t/a.stats", "s3://lake/t/b.parquet"}))

    assert found == [("s3://lake/t/a.stats", 7), ("s3://lake/t/b.parquet", 8)]
