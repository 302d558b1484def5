"""On a disk a quarantine has folders, links, and names that are no text: no folder is left behind, and nothing goes through a link."""

import os
from pathlib import Path

import pytest

from isotherm.core.deletion import Cause
from isotherm.core.quarantine import FOLDER
from isotherm.iceberg.quarantine import listed, put_back
from support.lab import Lab
from support.quarantined import CONTENT, orphan, put, quarantined, swept


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
