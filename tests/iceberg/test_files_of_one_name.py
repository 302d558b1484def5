"""Two partitions may have files of one name: what is in quarantine is judged by where it was, not by its name alone."""

from io import BytesIO

import pyarrow.parquet as pq
import pytest
from pyiceberg.table.statistics import StatisticsFile

from isotherm.core.deletion import Cause, Mark, Neighbours, Seen, own_folders
from isotherm.core.quarantine import FOLDER, place_for
from isotherm.iceberg.named_files import NamedFiles
from isotherm.iceberg.remover import sweep
from isotherm.iceberg.restoring import restorable, restore
from isotherm.iceberg.stopping import never
from isotherm.iceberg.values import loaded_table
from isotherm.service.ports import Sweep
from support.lab import Lab, uuid_of

HOME, OTHER = "data/day=1/a.parquet", "data/day=2/a.parquet"


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path)
    yield lab
    lab.executor.stop()


@pytest.fixture
def table(lab):
    table = lab.create()
    lab.append(table, 1)
    return table.refresh()


def path_of(table, name):
    return f"{table.metadata.location}/{name}"


def put(table, name, content):
    with table.io.new_output(path_of(table, name)).create() as stream:
        stream.write(content)


def content(table, name):
    file = table.io.new_input(path_of(table, name))
    if not file.exists():
        return None
    with file.open() as stream:
        return bytes(stream.read())


def named(table, name, compression="zstd"):
    """The table gets a file of this name; its content."""
    (file, *_) = table.inspect.files()["file_path"].to_pylist()
    with table.io.new_input(file).open() as stream:
        rows = pq.read_table(stream)
    pq.write_table(rows, written := BytesIO(), compression=compression)
    data = written.getvalue()
    put(table, name, data)
    table.add_files([path_of(table, name)])
    table.refresh()
    return data


def quarantined(table, name, content, job_id="job"):
    place = place_for(path_of(table, name), table.metadata.location, job_id)
    put(table, place.removeprefix(f"{table.metadata.location}/"), content)
    return Mark(place, job_id, Cause.QUARANTINED, Seen(1, 1))


def swept(table, *marks, **more):
    home = table.metadata.location
    neighbours = Neighbours(own_folders(home, (), ("shop", "orders")))
    return sweep(
        table.refresh(),
        Sweep(uuid_of(table), marks, {}, neighbours, home=home, to_quarantine=True, **more),
        never,
    )


def test_a_file_whose_name_the_table_has_in_another_partition_is_not_put_back_and_goes_in_its_time(table):
    data = named(table, OTHER)
    mark = quarantined(table, HOME, data)

    early = swept(table, mark, not_over=frozenset({mark.path}))
    assert (early.restored, early.not_over) == ((), (mark.path,))
    late = swept(table, mark)
    assert (late.restored, late.gone) == ((), (mark.path,))
    assert (content(table, HOME), content(table, OTHER)) == (None, data)
    assert table.refresh().scan().to_arrow().num_rows == 4


@pytest.mark.parametrize("there", [None, b"half of it"])
def test_where_the_tables_file_is_not_there_the_other_place_may_be_an_alias_and_it_comes_back(table, there):
    data = named(table, OTHER)
    mark = quarantined(table, HOME, data)
    table.io.delete(path_of(table, OTHER))
    if there is not None:
        put(table, OTHER, there)

    assert swept(table, mark).restored == (mark.path,)
    assert content(table, HOME) == data


def test_of_two_files_of_one_name_each_comes_back_where_its_size_is_named(table):
    """By the name alone the other one would fit too, and readers would get other rows."""
    first = named(table, HOME)
    second = named(table, OTHER, "none")
    assert len(first) != len(second)
    table.io.delete(path_of(table, HOME))
    right = quarantined(table, HOME, first, "j1")
    wrong = quarantined(table, HOME, second, "j2")

    result = swept(table, wrong, right)

    assert result.restored == (right.path,)
    assert set(result.postponed) == {wrong.path}
    assert content(table, HOME) == first


def test_a_person_gets_back_what_has_the_name_of_a_file_in_another_partition(table):
    named(table, OTHER)
    mark = quarantined(table, HOME, b"for another reader")
    loaded = loaded_table(table, "shop.orders")

    result = restore(loaded, restorable(loaded, [table.metadata.location]))

    assert (set(result.restored), result.failed) == ({path_of(table, HOME)}, {})
    assert content(table, HOME) == b"for another reader"
    assert content(table, mark.path.removeprefix(f"{table.metadata.location}/")) is None


@pytest.mark.parametrize(
    ("locations", "sizes", "are_elsewhere"),
    [
        ({"s3a://lake/t/data/x/a": 7}, {7}, False),  # the same, spelled otherwise
        ({"s3://lake/t/data//x/a": 7, "s3://lake/t/data/y/a": 8}, {7}, False),
        ({"s3://lake/t/data/y/a": 8}, {8}, True),
        ({"s3://lake/t/data/y/a": None}, set(), True),
        ({"s3://lake/t/data/y/a": 9}, {9}, False),  # it lies there with another size
        ({"s3://lake/t/data/y/a": 8, "s3://lake/t/data/z/a": 8}, {8}, False),  # one is missing
        ({"s3://lake/t/data/x/b": 7}, set(), False),  # nothing of this name
    ],
)
def test_the_sizes_at_a_place_and_whether_all_of_a_name_lie_in_others(locations, sizes, are_elsewhere):
    files = NamedFiles()
    for location, size_bytes in locations.items():
        files.add(location)
        files.add(location, size_bytes)

    assert files.sizes_at("s3://lake/t/data/x/a") == sizes
    assert files.has("s3://lake/t/data/x/a") is any("/x/a" in one for one in locations)
    there = {"s3://lake/t/data/y/a": 8}
    assert files.are_elsewhere("s3://lake/t/data/x/a", there.get) is are_elsewhere


def test_an_orphan_that_was_moved_unnoticed_stays_in_quarantine_where_its_name_is_of_another_partition(table):
    data = named(table, OTHER)
    mark = quarantined(table, HOME, data)
    orphan = Mark(path_of(table, HOME), "job", Cause.ORPHAN, Seen(1, 1))

    result = swept(table, orphan)

    assert (result.restored, result.kept[orphan.path].reason) == ((), "reached")
    assert content(table, HOME) is None
    assert content(table, f"{FOLDER}/job/{HOME}") == data
    assert mark.path.endswith(f"{FOLDER}/job/{HOME}")


def with_statistics(table, name, size_bytes):
    """The table names a file of statistics, of this size."""
    snapshot_id = table.current_snapshot().snapshot_id
    with table.update_statistics() as change:
        change.set_statistics(StatisticsFile(
            snapshot_id=snapshot_id, statistics_path=path_of(table, name), file_size_in_bytes=size_bytes,
            file_footer_size_in_bytes=10, blob_metadata=[],
        ))  # fmt: skip
    table.refresh()


def test_of_two_files_of_statistics_the_one_of_the_size_that_the_table_says_comes_back(table):
    name = "metadata/20261130.stats"
    with_statistics(table, name, 100)
    right = quarantined(table, name, b"r" * 100, "j1")
    wrong = quarantined(table, name, b"w" * 37, "j2")

    result = swept(table, right, wrong)

    assert (result.restored, set(result.postponed)) == ((right.path,), {wrong.path})
    assert content(table, name) == b"r" * 100


def test_where_statistics_of_another_size_lie_those_in_quarantine_stay(table):
    name = "metadata/20261130.stats"
    with_statistics(table, name, 100)
    right = quarantined(table, name, b"r" * 100)
    put(table, name, b"w" * 37)

    result = swept(table, right)

    assert (result.gone, result.restored, set(result.postponed)) == ((), (), {right.path})


def test_what_the_table_needs_comes_back_though_it_has_a_file_of_that_name_in_its_quarantine(table):
    """Somebody has added one where it lies, and a slow writer has committed another partition's."""
    data = named(table, HOME)
    table.io.delete(path_of(table, HOME))
    there = quarantined(table, OTHER, data, "j1")
    table.add_files([there.path])
    mark = quarantined(table, HOME, data, "j2")

    result = swept(table, there, mark)

    assert result.restored == (mark.path,)
    assert result.kept[there.path].reason == "reached"
    assert table.refresh().scan().to_arrow().num_rows == 6
    # By its name alone one that the table has there is kept: its folder may have an alias.
    older = quarantined(table, HOME, data, "j3")
    assert swept(table, older).kept[older.path].reason == "reached"


def test_what_the_table_names_in_both_places_stays_in_quarantine(table):
    data = named(table, HOME)
    table.io.delete(path_of(table, HOME))
    mark = quarantined(table, HOME, data)
    table.add_files([mark.path])

    assert swept(table, mark).kept[mark.path].reason == "reached"
    assert content(table, f"{FOLDER}/job/{HOME}") == data
