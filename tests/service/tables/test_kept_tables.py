"""What the daemon keeps of each table has a bound, whatever its owner has written into its metadata."""

import pytest
from pyiceberg.table.statistics import StatisticsFile

from isotherm.core import observations as seen
from isotherm.service.ports import LoadedTable
from isotherm.service.tables.kept_tables import KeptTables
from support.builders import facts, table_state
from support.lab import EXPIRING, Lab, of, settle, started, uuid_of, with_a_job


def table(uuid, kept_bytes):
    named = type(table_state().table)(uuid, f"shop.{uuid}")
    return LoadedTable(named, facts(), None, {}, {}, (), "", kept_bytes)


def size_of(light):
    return light.handle


def kept_after(*sizes):
    """Names of what is kept, after tables of these sizes were loaded in this order."""
    kept = KeptTables(size_of, ordinary_bytes=10, others_bytes=100)
    for uuid, size in sizes:
        kept.keep(table(uuid, size))
        kept.measure()
    return "".join(uuid for uuid in "abcdef" if kept.get(uuid) is not None)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([("a", 10), ("b", 10), ("c", 10)], "abc", id="ordinary ones are all kept"),
        pytest.param(
            [("a", 60), ("b", 30), ("c", 90)], "abc", id="so are larger ones that fit, and the newest"
        ),
        pytest.param([("a", 60), ("b", 50), ("c", 11)], "bc", id="of others the largest goes first"),
        pytest.param([("a", 900), ("b", 10), ("c", 90)], "bc", id="one that is too large goes with the next"),
        pytest.param([("a", 90), ("b", 900)], "ab", id="and pushes out no smaller one"),
        pytest.param(
            [("a", 90), ("b", 90), ("a", 5), ("c", 90)], "abc", id="one that became small is ordinary"
        ),
    ],
)
def test_of_tables_with_much_metadata_so_many_are_kept_as_fit(sizes, expected):
    assert kept_after(*sizes) == expected


def test_between_the_last_look_and_the_swap_no_table_is_measured(tmp_path):
    """To write three hundred schemas as JSON takes a tenth of a second, in which a writer commits."""
    lab = Lab(tmp_path, policy=EXPIRING)
    table, service = with_a_job(lab)
    measured = []

    def size_of(light):
        measured.append(light.head)
        return service.catalog.kept_bytes(light)

    service.follower.kept = KeptTables(size_of)
    service.compactions.finish()

    ended = of(lab, seen.JobEnded)
    ours = table.refresh().current_snapshot().snapshot_id
    assert [ours] == [one.snapshot_id for one in ended]
    assert [ours] == measured, "the look kept the head before, and measured it"
    assert service.follower.loaded(uuid_of(table)).head == ours
    service.stop()


def test_what_is_kept_of_a_table_is_measured_without_what_only_a_confirmation_needs(tmp_path):
    lab = Lab(tmp_path)
    made = lab.create()
    lab.append(made, 1)
    catalog = lab.service().catalog
    before = catalog.light(catalog.load("shop.orders"))
    with made.refresh().manage_snapshots() as manage:
        for number in range(20):
            manage.create_tag(made.current_snapshot().snapshot_id, f"tag{number}")
    snapshot_id = made.refresh().current_snapshot().snapshot_id
    with made.update_statistics() as update:
        update.set_statistics(
            StatisticsFile(
                **{
                    "snapshot-id": snapshot_id,
                    "statistics-path": "s.puffin",
                    "file-size-in-bytes": 1,
                    "file-footer-size-in-bytes": 1,
                    "blob-metadata": [],
                }
            )
        )

    after = catalog.light(catalog.load("shop.orders"))

    assert 500 < catalog.kept_bytes(after) <= catalog.kept_bytes(before) + 100
    assert after.handle.metadata.refs.keys() == {"main"}
    assert after.handle.current_snapshot().snapshot_id == snapshot_id


def test_tables_that_are_too_large_to_be_kept_are_followed_and_compacted_all_the_same(tmp_path):
    """Of each, all was kept for good: three owners with schemas of 18 MB took a gigabyte."""
    lab = Lab(tmp_path)
    names = ["shop.t0", "shop.t1", "shop.t2"]
    large = [lab.create(name, text="x" * 20_000) for name in names]
    ordinary = lab.create("shop.zzz")
    service = started(lab)
    service.follower.kept = KeptTables(service.catalog.kept_bytes, ordinary_bytes=10_000, others_bytes=30_000)
    for hour in (1, 1, 1, 1, 9, 9, 9, 9):
        for one in (*large, ordinary):
            lab.append(one, hour)
        service.step(0)
    settle(service)

    kept = [service.follower.loaded(uuid_of(one)) for one in (*large, ordinary)]
    assert kept[-1] is not None
    assert None in kept
    for one in (*large, ordinary):
        assert service.fold.table(uuid_of(one)).state.head == one.refresh().current_snapshot().snapshot_id
    assert {one.table.name for one in of(lab, seen.JobEnded)} == {*names, "shop.zzz"}
    assert of(lab, seen.TableFailed) == []
    service.stop()
