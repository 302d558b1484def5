"""Orphans go into a table's quarantine, and for good after their time, whatever a store does meanwhile, and never over another file."""

from dataclasses import replace

import pytest

from isotherm.contract.paths import folder
from isotherm.core.deletion import Neighbours, own_folders
from isotherm.core.quarantine import FOLDER
from isotherm.iceberg.delete_or_move import Taking
from isotherm.iceberg.quarantine import Inside, listed
from isotherm.iceberg.stopping import Stopped, never
from isotherm.service.ports import Sweep
from support.lab import Lab, uuid_of
from support.object_store import Fault, object_store
from support.quarantined import CONTENT, content, orphan, put, quarantined, swept


@pytest.fixture
def lab(on_either):
    return on_either


@pytest.fixture
def table(lab):
    table = lab.create()
    lab.append(table, 1)
    return table.refresh()


def test_an_orphan_is_moved_and_after_its_time_it_goes(table):
    path, stays = put(table, "data/a.parquet", "data/b.parquet")
    place = quarantined(table, "data/a.parquet").path

    first = swept(table, orphan(path))
    assert (first.moved, first.gone, first.postponed) == ({path: (place, len(CONTENT))}, (), {})
    assert (content(table, path), content(table, place), content(table, stays)) == (None, CONTENT, CONTENT)
    # The process ended before that was written down.
    assert swept(table, orphan(path)).moved == first.moved

    mark = quarantined(table, "data/a.parquet")
    early = swept(table, mark, not_over=frozenset({place}))
    assert (early.not_over, early.gone, early.postponed) == ((place,), (), {})
    last = swept(table, mark)
    assert (last.gone, last.missing) == ((place,), ())
    assert content(table, place) is None
    assert swept(table, mark).missing == (place,)


def test_by_a_policy_without_a_quarantine_an_orphan_goes_at_once(table):
    (path,) = put(table, "data/a.parquet")

    assert swept(table, orphan(path), to_quarantine=False).gone == (path,)
    assert list(listed(table.io, table.metadata.location)) == []


@pytest.mark.parametrize("other", ["", f"{FOLDER}/", f"{FOLDER}/job/data/inner/"])
def test_into_a_folder_of_another_table_nothing_is_moved_and_from_there_nothing_goes(table, other):
    (path,) = put(table, "data/inner/a.parquet")
    mark = quarantined(
        table, "data/b.parquet" if other != f"{FOLDER}/job/data/inner/" else "data/inner/b.parquet"
    )
    put(table, mark.path.removeprefix(f"{table.metadata.location}/"))
    own = own_folders(table.metadata.location, (), ("shop", "orders"))
    neighbours = Neighbours(own, frozenset({folder(f"{table.metadata.location}/{other}")}))

    result = swept(table, orphan(path), mark, neighbours=neighbours)

    assert set(result.postponed) == {path, mark.path}
    assert all("folder of another table" in why for why in result.postponed.values())
    assert (content(table, path), content(table, mark.path)) == (CONTENT, CONTENT)


def test_a_copy_that_took_too_long_waits_for_another_look_and_is_not_read_again(tmp_path):
    with object_store() as store:
        lab = Lab(tmp_path, properties=store.lake(tmp_path))
        table = lab.create()
        (path,) = put(table, "data/a.parquet")
        home = table.metadata.location
        taking = Taking(
            Sweep(uuid_of(table), (orphan(path),), {}, Neighbours(), home=home, to_quarantine=True), never
        )
        with pytest.raises(Stopped):
            taking.take(table.io, path, lambda: True)
        assert (content(table, path), len(list(listed(table.io, home)))) == (CONTENT, 1)
        asked = len(store.requests)
        taking.take(table.io, path, lambda: False)

        assert taking.moved == {path: (quarantined(table, "data/a.parquet").path, len(CONTENT))}
        assert content(table, path) is None
        assert not [one for one in store.requests[asked:-1] if one.startswith("GET")]
        lab.executor.stop()


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_where_the_store_refuses_the_file_waits_and_holds_up_no_other(tmp_path, method):
    with object_store() as store:
        lab = Lab(tmp_path, properties=store.lake(tmp_path))
        table = lab.create()
        lab.append(table, 1)
        one, other = put(table.refresh(), "data/one.parquet", "data/other.parquet")
        store.faults.append(Fault(method, "one.parquet", 1, "403"))

        first = swept(table, orphan(one), orphan(other))
        assert (set(first.moved), set(first.postponed)) == ({other}, {one})
        assert content(table, one) == CONTENT
        assert set(swept(table, orphan(one)).moved) == {one}
        assert content(table, one) is None
        lab.executor.stop()


def test_where_an_older_file_has_its_place_a_file_waits_for_a_folder_of_its_own_and_neither_is_lost(table):
    """The process ended after a move that nobody had written down, and a writer has used the name again since."""
    path, _ = put(table, "data/a.parquet", f"{FOLDER}/job/data/a.parquet", content=b"FIRST")
    table.io.delete(path)
    put(table, "data/a.parquet", content=b"SECOND")

    result = swept(table, orphan(path))
    assert result.kept[path].reason == "in_the_way"
    assert (result.moved, result.gone, result.postponed) == ({}, (), {})
    assert content(table, path) == b"SECOND"
    assert content(table, quarantined(table, "data/a.parquet").path) == b"FIRST"

    place = quarantined(table, "data/a.parquet").path.replace("/job/", "/next/")
    assert swept(table, replace(orphan(path), job_id="next")).moved == {path: (place, 6)}
    assert content(table, place) == b"SECOND"


def test_what_has_too_long_a_name_for_quarantine_is_kept_and_told(tmp_path):
    with object_store() as store:
        lab = Lab(tmp_path, properties=store.lake(tmp_path))
        table = lab.create()
        lab.append(table, 1)
        below = (
            len(table.refresh().metadata.location.removeprefix("s3://lake/"))
            + len("/data/")
            + len(".parquet")
        )
        path, short = put(table, f"data/{'a' * (1024 - below)}.parquet", "data/b.parquet")

        result = swept(table, orphan(path), orphan(short))
        assert (result.kept[path].reason, result.postponed, set(result.moved)) == ("too_long", {}, {short})
        assert content(table, path) == CONTENT
        lab.executor.stop()


def test_of_more_files_than_are_held_those_that_nobody_knows_and_what_is_needed_are_told(table):
    home = table.metadata.location
    put(table, *(f"{FOLDER}/j{job}/data/{name}.parquet" for job in (1, 2, 3) for name in "abc"))
    every = {one.path for one in listed(table.io, home)}
    known = {path for path in every if "/j1/" in path or path.endswith("/a.parquet")}

    def told(most, names=()):
        inside = Inside(known)
        inside.look(table.io, home, never, most)
        inside.add_needed(table.io, home, names, never, most)
        assert all(f"{one}.parquet" in inside.names for one in "abc")
        return inside.is_whole, {one.path for one in inside.files}

    assert told(9) == (True, every)
    assert told(5) == (False, every - known)
    is_whole, some = told(2)
    assert (is_whole, len(some), some & known) == (False, 2, set())
    assert told(3, {"c.parquet"})[1] >= {one for one in every if one.endswith("/c.parquet")}
