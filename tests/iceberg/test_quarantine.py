"""Orphans go into a table's quarantine and come back, whatever a store does meanwhile, and never over another file."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from isotherm.contract.paths import folder
from isotherm.core.deletion import Cause, Mark, Neighbours, Seen, own_folders
from isotherm.core.quarantine import FOLDER, place_for
from isotherm.iceberg.delete_or_move import Taking
from isotherm.iceberg.quarantine import Inside, listed, put_back
from isotherm.iceberg.remover import sweep
from isotherm.iceberg.stopping import Stopped, never
from isotherm.runtime.clock import now_ms
from isotherm.service.ports import Sweep
from support.lab import Lab, uuid_of
from support.object_store import Fault, object_store

DAY_MS = 86_400_000
CONTENT = b"nobody knows me"


@pytest.fixture(params=["disk", "s3"])
def lab(request, tmp_path):
    if request.param == "disk":
        lab = Lab(tmp_path)
        yield lab
        lab.executor.stop()
        return
    with object_store() as store:
        lab = Lab(tmp_path, properties=store.lake(tmp_path))
        yield lab
        lab.executor.stop()


@pytest.fixture
def table(lab):
    table = lab.create()
    lab.append(table, 1)
    return table.refresh()


def put(table, *names, content=CONTENT):
    for name in names:
        with table.io.new_output(f"{table.metadata.location}/{name}").create() as stream:
            stream.write(content)
    return [f"{table.metadata.location}/{name}" for name in names]


def content(table, path):
    file = table.io.new_input(path)
    if not file.exists():
        return None
    with file.open() as stream:
        return bytes(stream.read())


def orphan(path):
    return Mark(path, "job", Cause.ORPHAN, Seen(1, 1))


def quarantined(table, name):
    """A mark of a file in quarantine, by where it was."""
    home = table.metadata.location
    return Mark(place_for(f"{home}/{name}", home, "job"), "job", Cause.QUARANTINED, Seen(1, 1))


def swept(table, *marks, **more):
    home = table.metadata.location
    wanted = Sweep(
        uuid_of(table),
        marks,
        {},
        Neighbours(own_folders(home, (), ("shop", "orders"))),
        {Cause.ORPHAN: now_ms() + DAY_MS, Cause.OLD_VERSION: now_ms() + DAY_MS},
        home=home,
        to_quarantine=True,
    )
    return sweep(table.refresh(), replace(wanted, **more), never)


def named_again(table, path):
    """The table gets rows in a file of this name, by a writer that was slow."""
    (file,) = table.inspect.files()["file_path"].to_pylist()[:1]
    data = content(table, file)
    with table.io.new_output(path).create() as stream:
        stream.write(data)
    table.add_files([path])
    return data


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


def test_a_restore_that_was_cut_off_leaves_the_copy_in_quarantine_for_its_time(table):
    """It was copied, and the copy in quarantine is there still: or somebody is about to move the file there just now."""
    home = table.metadata.location
    put(table, "data/a.parquet", f"{FOLDER}/j1/data/a.parquet")

    assert not put_back(table.io, home, f"{home}/{FOLDER}/j1/data/a.parquet")
    assert len(list(listed(table.io, home))) == 1
    assert content(table, f"{home}/data/a.parquet") == CONTENT
    with pytest.raises(OSError, match="nothing was moved from this table's folders"):
        put_back(table.io, home, f"{home}/data/a.parquet")


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


def test_on_a_disk_no_empty_folder_is_left_in_quarantine(tmp_path):
    lab = Lab(tmp_path)
    table = lab.create()
    lab.append(table, 1)
    home = Path(table.refresh().metadata.location.removeprefix("file://"))
    one, two = put(table, "data/day=1/a.parquet", "data/day=2/a.parquet")
    marks = [quarantined(table, f"data/day={day}/a.parquet") for day in (1, 2)]
    assert set(swept(table, orphan(one), orphan(two)).moved) == {one, two}

    assert swept(table, marks[0]).gone == (marks[0].path,)
    assert [path.name for path in (home / FOLDER / "job" / "data").iterdir()] == ["day=2"]
    put_back(table.io, f"file://{home}", marks[1].path)
    assert list((home / FOLDER).iterdir()) == []
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


def test_through_a_link_nothing_comes_back(tmp_path):
    lab = Lab(tmp_path)
    table = lab.create()
    lab.append(table, 1)
    home = Path(table.refresh().metadata.location.removeprefix("file://"))
    put(table, f"{FOLDER}/j1/data/out/a.parquet")
    (tmp_path / "elsewhere").mkdir()
    (home / "data" / "out").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="is a link"):
        put_back(table.io, f"file://{home}", f"file://{home}/{FOLDER}/j1/data/out/a.parquet")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    lab.executor.stop()


@pytest.mark.parametrize("cause", [Cause.ORPHAN, Cause.QUARANTINED])
def test_through_a_folder_that_became_a_link_nothing_of_another_table_goes(tmp_path, cause):
    lab = Lab(tmp_path)
    table, other = lab.create(), lab.create("shop.other")
    for one in (table, other):
        lab.append(one, 1)
    theirs = Path(other.refresh().inspect.files()["file_path"].to_pylist()[0].removeprefix("file://"))
    name = f"data/x/{theirs.name}"
    mark = (
        quarantined(table, name)
        if cause is Cause.QUARANTINED
        else orphan(f"{table.metadata.location}/{name}")
    )
    folder_of_it = Path(mark.path.removeprefix("file://")).parent
    folder_of_it.parent.mkdir(parents=True, exist_ok=True)
    folder_of_it.symlink_to(theirs.parent)

    result = swept(table, mark, to_quarantine=False)

    assert (result.gone, set(result.postponed)) == ((), {mark.path})
    assert "is a link" in result.postponed[mark.path]
    assert theirs.exists()
    lab.executor.stop()


def test_a_name_that_is_no_text_is_no_file_of_ours(tmp_path):
    lab = Lab(tmp_path)
    table = lab.create()
    put(table, f"{FOLDER}/j1/data/a.parquet")
    top = Path(table.metadata.location.removeprefix("file://")) / FOLDER
    for name in (b"\xff.parquet", b"a?b.parquet"):
        Path(os.fsdecode(bytes(top / "j1" / "data") + b"/" + name)).write_bytes(CONTENT)

    found = [one.path for one in listed(table.io, table.metadata.location)]

    assert found == [f"{table.metadata.location}/{FOLDER}/j1/data/a.parquet"]
    lab.executor.stop()


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
