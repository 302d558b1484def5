"""What the table needs again comes back from its quarantine, and no other file of its name does."""

import os
from dataclasses import replace

import pytest

from isotherm.core.deletion import Cause, Mark, Neighbours, Seen, own_folders
from isotherm.core.quarantine import FOLDER, place_for
from isotherm.iceberg.quarantine import listed, put_back
from isotherm.iceberg.remover import sweep
from isotherm.iceberg.stopping import never
from isotherm.runtime.clock import now_ms
from isotherm.service.ports import Sweep
from support.lab import Lab, uuid_of
from support.quarantined import CONTENT, content, named_again, orphan, put, quarantined, swept


@pytest.fixture
def lab(on_either):
    return on_either


@pytest.fixture
def table(lab):
    table = lab.create()
    lab.append(table, 1)
    return table.refresh()


def test_what_the_table_names_again_is_put_back(lab, table):
    path = f"{table.metadata.location}/data/a.parquet"
    data = named_again(table, path)
    swept_by_hand = quarantined(table, "data/a.parquet")
    put_by_hand(table, path, swept_by_hand.path)

    result = swept(table, swept_by_hand, not_over=frozenset({swept_by_hand.path}))
    assert (result.restored, result.gone, result.kept) == ((swept_by_hand.path,), (), {})
    assert content(table, path) == data
    assert table.refresh().scan().to_arrow().num_rows == 4


def put_by_hand(table, source, target):
    data = content(table, source)
    with table.io.new_output(target).create() as stream:
        stream.write(data)
    table.io.delete(source)


def test_what_was_moved_when_the_process_ended_and_named_since_is_put_back(table):
    path = f"{table.metadata.location}/data/a.parquet"
    data = named_again(table, path)
    put_by_hand(table, path, quarantined(table, "data/a.parquet").path)

    result = swept(table, orphan(path))

    assert result.restored == (quarantined(table, "data/a.parquet").path,)
    assert result.kept[path].reason == "reached"
    assert content(table, path) == data


def test_what_the_table_names_in_its_quarantine_stays_there(table):
    mark = quarantined(table, "data/a.parquet")
    named_again(table, mark.path)

    assert swept(table, mark).kept[mark.path].reason == "reached"
    assert table.refresh().scan().to_arrow().num_rows == 4


def in_job(table, name, job_id):
    """The same as `quarantined`, moved there by another search."""
    home = table.metadata.location
    return Mark(place_for(f"{home}/{name}", home, job_id), job_id, Cause.QUARANTINED, Seen(1, 1))


def put_at(table, mark, what):
    put(table, mark.path.removeprefix(f"{table.metadata.location}/"), content=what)


def missed(table, name):
    """The table names a file that is not there; its content."""
    path = f"{table.metadata.location}/{name}"
    data = named_again(table, path)
    table.io.delete(path)
    return path, data


def test_an_older_file_of_a_name_that_the_table_has_again_goes_in_its_time(table):
    path = f"{table.metadata.location}/data/a.parquet"
    mark = quarantined(table, "data/a.parquet")
    data = named_again(table, path)
    put_at(table, mark, CONTENT)

    early = swept(table, mark, not_over=frozenset({mark.path}))
    assert (early.not_over, early.restored, early.kept) == ((mark.path,), (), {})
    assert (content(table, path), content(table, mark.path)) == (data, CONTENT)
    late = swept(table, mark)
    assert (late.gone, late.restored, late.kept) == ((mark.path,), (), {})
    assert (content(table, path), content(table, mark.path)) == (data, None)


@pytest.mark.parametrize("last", ["j1", "j2"])
def test_of_two_files_of_one_name_the_one_that_the_table_means_comes_back_and_the_other_stays(table, last):
    path, data = missed(table, "data/a.parquet")
    first, second = (in_job(table, "data/a.parquet", one) for one in ("j1", "j2"))
    means, other = (first, second) if last == "j1" else (second, first)
    put_at(table, means, data)
    put_at(table, other, CONTENT)

    result = swept(table, first, second)
    assert (result.restored, result.gone, result.kept) == ((means.path,), (), {})
    assert set(result.postponed) == {other.path}
    assert (content(table, path), content(table, other.path)) == (data, CONTENT)
    assert table.refresh().scan().to_arrow().num_rows == 4
    assert swept(table, other).gone == (other.path,)
    assert content(table, path) == data


def test_of_two_files_of_one_name_and_size_the_newer_one_comes_back_and_the_older_one_stays(tmp_path):
    lab = Lab(tmp_path)
    table = lab.create()
    lab.append(table, 1)
    path, data = missed(table.refresh(), "data/a.parquet")
    marks = [in_job(table, "data/a.parquet", one) for one in ("j1", "j2", "j3")]
    other = bytes(len(data))
    for age, mark in enumerate(marks):
        put_at(table, mark, other if age else data)
        at_s = now_ms() / 1000 - age * 60
        os.utime(mark.path.removeprefix("file://"), (at_s, at_s))

    result = swept(table, *marks)
    assert (result.restored, result.gone, result.postponed) == ((marks[0].path,), (), {})
    assert [content(table, one) for one in (path, *(mark.path for mark in marks))] == [
        data,
        None,
        other,
        other,
    ]
    lab.executor.stop()


@pytest.mark.parametrize("what", [b"", CONTENT])
def test_a_file_of_another_size_than_the_table_says_does_not_come_back_and_does_not_go(table, what):
    path, _ = missed(table, "data/a.parquet")
    mark = quarantined(table, "data/a.parquet")
    put_at(table, mark, what)

    for one in (mark, orphan(path)):
        result = swept(table, one)
        assert (result.restored, result.gone, result.moved) == ((), (), {})
        assert (content(table, path), content(table, mark.path)) == (None, what)
    assert f"bytes, and this one has {len(what)}" in swept(table, mark).postponed[mark.path]


def test_where_half_a_file_lies_in_its_old_place_what_the_table_needs_waits_for_a_person(table):
    path, data = missed(table, "data/a.parquet")
    mark = quarantined(table, "data/a.parquet")
    put_at(table, mark, data)
    put(table, "data/a.parquet", content=data[:100])

    result = swept(table, mark)
    assert (result.restored, result.gone, result.kept) == ((), (), {})
    assert "another file lies there: of 100 bytes" in result.postponed[mark.path]
    assert (content(table, path), content(table, mark.path)) == (data[:100], data)
    table.io.delete(path)
    assert swept(table, mark).restored == (mark.path,)


@pytest.mark.parametrize("hinders", ["gc.enabled", "history"])
def test_what_is_needed_is_put_back_even_where_nothing_may_be_deleted(table, hinders):
    path, data = missed(table, "data/a.parquet")
    mark = quarantined(table, "data/a.parquet")
    put_at(table, mark, data)
    if hinders == "history":
        mark = replace(mark, seen=Seen(1, 99))
    else:
        with table.transaction() as change:
            change.set_properties({"gc.enabled": "false"})

    assert swept(table, mark).restored == (mark.path,)
    assert content(table, path) == data


def test_a_restore_that_was_cut_off_leaves_the_copy_in_quarantine_for_its_time(table):
    """It was copied, and the copy in quarantine is there still: or somebody is about to move the file there just now."""
    home = table.metadata.location
    put(table, "data/a.parquet", f"{FOLDER}/j1/data/a.parquet")

    assert not put_back(table.io, home, f"{home}/{FOLDER}/j1/data/a.parquet")
    assert len(list(listed(table.io, home))) == 1
    assert content(table, f"{home}/data/a.parquet") == CONTENT
    with pytest.raises(OSError, match="nothing was moved from this table's folders"):
        put_back(table.io, home, f"{home}/data/a.parquet")


def test_into_a_table_that_was_made_in_the_place_of_another_nothing_comes_back(lab, table):
    path, data = missed(table, "data/a.parquet")
    mark = quarantined(table, "data/a.parquet")
    put_at(table, mark, data)
    before = table.refresh()
    home = before.metadata.location
    lab.catalog.drop_table("shop.orders")
    lab.create()

    own = Neighbours(own_folders(home, (), ("shop", "orders")))
    result = sweep(before, Sweep(uuid_of(before), (mark,), {}, own, home=home, to_quarantine=True), never)

    assert (result.restored, set(result.postponed)) == ((), {mark.path})
    assert "the table was replaced" in result.postponed[mark.path]
    assert content(table, path) is None
