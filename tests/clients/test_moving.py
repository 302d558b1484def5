"""A file that is moved lies in one of two places, or in both, whatever happens; and no other file is lost for it."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.clients import moving
from isotherm.clients.listing import written_at_ms
from isotherm.clients.moving import OtherDiskError, OtherFileError, bring_back, is_same, link_below, move
from isotherm.clients.storage import RetryingFileIO, properties_with_retries
from isotherm.runtime.clock import now_ms
from support.dying_stores import Dies, Dying, OfNoCopies
from support.object_store import BUCKET, Fault, object_store

HOUR_S = 3600


@pytest.fixture(params=["disk", "s3", "no copies"])
def place(request, tmp_path):
    """A client, and a folder in its store."""
    if request.param == "s3":
        with object_store() as store:
            yield RetryingFileIO(properties_with_retries(store.properties())), own_folder()
    elif request.param == "disk":
        yield RetryingFileIO(properties_with_retries({})), f"file://{tmp_path}/t"
    else:
        yield OfNoCopies(tmp_path), "hdfs://nn/t"


def own_folder():
    """All stores of a process are one to moto."""
    return f"s3://{BUCKET}/{uuid4()}"


def put(io, location, content=b"rows"):
    with io.new_output(location).create() as stream:
        stream.write(content)


def content(io, location):
    file = io.new_input(location)
    if not file.exists():
        return None
    with file.open() as stream:
        return bytes(stream.read())


def test_a_file_is_moved_as_it_is(place):
    io, folder = place
    source, target = f"{folder}/data/day=1/a.parquet", f"{folder}/_aside/j/data/day=1/a.parquet"
    put(io, source)

    assert move(io, source, target) == 4
    assert (content(io, source), content(io, target)) == (None, b"rows")
    # Asked once more, as after a crash, it says the same.
    assert move(io, source, target) == 4
    assert move(io, target, source) == 4
    assert (content(io, source), content(io, target)) == (b"rows", None)


def test_what_lies_in_neither_place_is_told(place):
    io, folder = place

    with pytest.raises(FileNotFoundError, match=r"neither .*/a nor .*/b"):
        move(io, f"{folder}/a", f"{folder}/b")


@pytest.mark.parametrize("there", [b"rowS", b"row", b"rows and more", b""])
@pytest.mark.parametrize("act", [move, bring_back])
def test_a_file_of_other_content_is_never_written_over_even_where_it_may_be_half_a_copy(place, there, act):
    io, folder = place
    source, target = f"{folder}/a", f"{folder}/b"
    put(io, source)
    put(io, target, there)

    with pytest.raises(OtherFileError):
        act(io, source, target)
    assert (content(io, source), content(io, target)) == (b"rows", there)


def test_what_is_brought_back_lies_where_it_was(place):
    io, folder = place
    put(io, f"{folder}/_aside/j/data/a")

    assert bring_back(io, f"{folder}/_aside/j/data/a", f"{folder}/data/day=1/a")
    assert content(io, f"{folder}/data/day=1/a") == b"rows"
    assert content(io, f"{folder}/_aside/j/data/a") is None
    # Asked once more, as after a crash, it says the same.
    assert bring_back(io, f"{folder}/_aside/j/data/a", f"{folder}/data/day=1/a")
    with pytest.raises(FileNotFoundError, match=r"neither .*/x nor .*/y"):
        bring_back(io, f"{folder}/x", f"{folder}/y")


def test_what_is_brought_back_and_there_already_stays_in_both_places(place):
    """Somebody may be about to take it away just now: he has copied it, and deletes it where it was."""
    io, folder = place
    put(io, f"{folder}/aside")
    put(io, f"{folder}/a")
    if folder.startswith("file:"):
        os.utime(folder.removeprefix("file://") + "/a", (0, 0))

    assert not bring_back(io, f"{folder}/aside", f"{folder}/a")
    assert (content(io, f"{folder}/aside"), content(io, f"{folder}/a")) == (b"rows", b"rows")
    assert written_at_ms(io, f"{folder}/a") > now_ms() - HOUR_S * 1000


def test_where_the_copy_is_put_back_meanwhile_the_original_stays(place):
    io, folder = place
    put(io, f"{folder}/a")
    put(io, f"{folder}/b")

    def put_back():
        io.delete(f"{folder}/b")
        return True

    with pytest.raises(OSError, match="somebody puts it back just now"):
        move(io, f"{folder}/a", f"{folder}/b", put_back)
    assert content(io, f"{folder}/a") == b"rows"


@pytest.mark.parametrize("new", [b"newer rows", b"ROWS"])
def test_a_file_that_is_written_again_while_it_is_copied_stays(place, new):
    """Within one second: a store's times are no finer, and must not be what tells."""
    io, folder = place
    while now_ms() % 1_000 > 300:
        pass
    put(io, f"{folder}/a")
    put(io, f"{folder}/b")

    def written_again():
        io.delete(f"{folder}/a")
        put(io, f"{folder}/a", new)
        return True

    with pytest.raises(OSError, match="was written again while it was moved"):
        move(io, f"{folder}/a", f"{folder}/b", written_again)
    assert (content(io, f"{folder}/a"), content(io, f"{folder}/b")) == (new, b"rows")
    with pytest.raises(OtherFileError):
        move(io, f"{folder}/a", f"{folder}/b")


def test_a_copy_of_what_was_written_again_since_is_no_whole_one(place):
    io, folder = place
    put(io, f"{folder}/a")
    put(io, f"{folder}/b")
    whole = {}
    assert move(io, f"{folder}/a", f"{folder}/b", lambda: False, whole=whole) is None
    io.delete(f"{folder}/a")
    put(io, f"{folder}/a", b"ROWS")

    with pytest.raises(OtherFileError):
        move(io, f"{folder}/a", f"{folder}/b", whole=whole)
    assert (content(io, f"{folder}/a"), content(io, f"{folder}/b")) == (b"ROWS", b"rows")


def test_on_a_disk_no_file_is_written_over_that_comes_at_the_last_moment(tmp_path, monkeypatch):
    io, touch = RetryingFileIO(properties_with_retries({})), os.utime
    put(io, f"file://{tmp_path}/aside")

    def comes(path, *times):
        (tmp_path / "a").write_bytes(b"newer")
        touch(path, *times)

    monkeypatch.setattr(os, "utime", comes)

    with pytest.raises(OtherFileError):
        bring_back(io, f"file://{tmp_path}/aside", f"file://{tmp_path}/a")
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "aside").read_bytes()) == (b"newer", b"rows")


@pytest.mark.parametrize("error", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_disk_without_second_names_for_files_renames_what_comes_back(tmp_path, monkeypatch, error):
    io = RetryingFileIO(properties_with_retries({}))
    put(io, f"file://{tmp_path}/aside")

    def refuse(*_, **__):
        raise OSError(error, "no links here")

    monkeypatch.setattr(os, "link", refuse)

    assert bring_back(io, f"file://{tmp_path}/aside", f"file://{tmp_path}/a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_between_two_disks_nothing_is_moved_and_that_is_said(tmp_path, monkeypatch):
    io = RetryingFileIO(properties_with_retries({}))
    put(io, f"file://{tmp_path}/a")

    def refuse(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "rename", refuse)

    with pytest.raises(OtherDiskError, match="lies on another disk"):
        move(io, f"file://{tmp_path}/a", f"file://{tmp_path}/j/a")
    assert (tmp_path / "a").read_bytes() == b"rows"


def test_a_folder_that_is_taken_away_because_it_is_empty_is_made_again(tmp_path, monkeypatch):
    io, make, once = RetryingFileIO(properties_with_retries({})), Path.mkdir, []
    put(io, f"file://{tmp_path}/a")

    def made_and_gone(path, *args, **more):
        make(path, *args, **more)
        if path.name == "j" and not once:
            once.append(path)
            path.rmdir()

    monkeypatch.setattr(Path, "mkdir", made_and_gone)

    assert move(io, f"file://{tmp_path}/a", f"file://{tmp_path}/j/a") == 4
    assert (tmp_path / "j" / "a").read_bytes() == b"rows"


@pytest.mark.parametrize("act", [move, bring_back])
def test_a_copy_that_breaks_off_half_way_shows_nothing_and_is_made_again(tmp_path, act):
    io = OfNoCopies(tmp_path)
    put(io, "hdfs://nn/t/a", b"0123456789")
    io.breaks_at = 4
    with pytest.raises(OSError, match="pipeline broken"):
        act(io, "hdfs://nn/t/a", "hdfs://nn/t/b")
    assert (content(io, "hdfs://nn/t/a"), content(io, "hdfs://nn/t/b")) == (b"0123456789", None)
    assert content(io, "hdfs://nn/t/_b.half") == b"0123"

    assert act(io, "hdfs://nn/t/a", "hdfs://nn/t/b") == (10 if act is move else True)
    assert (content(io, "hdfs://nn/t/a"), content(io, "hdfs://nn/t/b")) == (None, b"0123456789")
    assert content(io, "hdfs://nn/t/_b.half") is None


def test_a_whole_copy_from_before_is_enough(place):
    io, folder = place
    put(io, f"{folder}/a")
    put(io, f"{folder}/b")

    assert is_same(io, f"{folder}/a", f"{folder}/b")
    assert move(io, f"{folder}/a", f"{folder}/b") == 4
    assert (content(io, f"{folder}/a"), content(io, f"{folder}/b")) == (None, b"rows")


def test_the_original_stays_where_it_must_not_go_any_more(place):
    """A copy may have taken so long that the look at the table is old by then."""
    io, folder = place
    put(io, f"{folder}/a")

    assert move(io, f"{folder}/a", f"{folder}/b", lambda: False) is None
    assert content(io, f"{folder}/a") == b"rows"
    assert move(io, f"{folder}/a", f"{folder}/b") == 4


def test_what_was_moved_is_young(place):
    """So a file that is put back is left alone for as long as a file must be old to be an orphan."""
    io, folder = place
    put(io, f"{folder}/a")
    if folder.startswith("file:"):
        os.utime(folder.removeprefix("file://") + "/a", (0, 0))
    move(io, f"{folder}/a", f"{folder}/b")

    assert written_at_ms(io, f"{folder}/b") > now_ms() - HOUR_S * 1000


@pytest.mark.parametrize("path", ["t/a#b", "t/../a", "t//a"])
def test_a_name_that_programs_read_in_two_ways_is_not_moved(place, path):
    io, folder = place
    put(io, f"{folder}/a")

    for one, other in ((f"{folder}/{path}", f"{folder}/b"), (f"{folder}/a", f"{folder}/{path}")):
        with pytest.raises(OSError, match="may name another file"):
            move(io, one, other)
    assert content(io, f"{folder}/a") == b"rows"


@pytest.mark.parametrize(
    ("fault", "left"),
    [
        (Fault("PUT", "/b", 1, "403"), (b"rows", None)),
        (Fault("DELETE", "/a", 1, "403"), (b"rows", b"rows")),
        (Fault("HEAD", "/a", 1, "403"), (b"rows", None)),
    ],
)
def test_wherever_a_store_refuses_a_second_call_goes_on_from_there(fault, left):
    with object_store() as store:
        io, folder = RetryingFileIO(properties_with_retries(store.properties())), own_folder()
        put(io, f"{folder}/a")
        store.faults.append(fault)

        with pytest.raises(OSError, match=r".*"):
            move(io, f"{folder}/a", f"{folder}/b")
        assert (content(io, f"{folder}/a"), content(io, f"{folder}/b")) == left
        assert move(io, f"{folder}/a", f"{folder}/b") == 4
        assert (content(io, f"{folder}/a"), content(io, f"{folder}/b")) == (None, b"rows")


def test_s3_copies_by_itself():
    with object_store() as store:
        io, folder = RetryingFileIO(properties_with_retries(store.properties())), own_folder()
        put(io, f"{folder}/a", b"x" * 1_000_000)
        before = store.sent_bytes
        move(io, f"{folder}/a", f"{folder}/b")

        assert store.sent_bytes - before < 10_000


class BesideAWriter(RetryingFileIO):
    """A client that is slow: while what it sends is on its way through this machine, a writer takes the name."""

    def new_output(self, location):
        file = super().new_output(location)
        create = file.create

        def create_late(*args):
            stream = create(*args)
            put(RetryingFileIO(self.properties), location, b"ROWS")
            return stream

        file.create = create_late
        return file


@pytest.mark.parametrize("act", [move, bring_back])
def test_what_goes_through_this_machine_is_not_written_over_a_file_that_comes_meanwhile(monkeypatch, act):
    monkeypatch.setattr(moving, "COPIED_AT_ONCE_BYTES", 3)
    with object_store() as store:
        io, folder = BesideAWriter(properties_with_retries(store.properties())), own_folder()
        put(RetryingFileIO(io.properties), f"{folder}/aside")

        with pytest.raises(OtherFileError):
            act(io, f"{folder}/aside", f"{folder}/a")
        assert (content(io, f"{folder}/aside"), content(io, f"{folder}/a")) == (b"rows", b"ROWS")


@given(
    st.binary(max_size=20),
    st.lists(st.tuples(st.booleans(), st.integers(0, 7), st.none() | st.integers(0, 20)), max_size=6),
)
def test_however_often_a_move_is_cut_off_there_or_back_nothing_is_lost(tmp_path_factory, what, tries):
    io, a, b = Dying(tmp_path_factory.mktemp("store")), "hdfs://nn/t/a", "hdfs://nn/t/b"
    put(io, a, what)
    for is_back, left, breaks_at in tries:
        io.left, io.breaks_at = left, breaks_at
        with suppress(Dies, OSError):
            if is_back:
                bring_back(io, b, a)
            else:
                move(io, a, b)
        io.left, io.breaks_at = 0, None
        assert {content(io, a), content(io, b)} - {None} == {what}

    move(io, a, b)
    assert (content(io, a), content(io, b)) == (None, what)


def test_a_link_on_the_way_is_found_and_one_above_is_none_of_ours(tmp_path):
    above = tmp_path / "above"
    (tmp_path / "real" / "t" / "data").mkdir(parents=True)
    above.symlink_to(tmp_path / "real")
    home = f"file://{above}/t"
    assert link_below(f"{home}/data/a", home) is None
    assert link_below(f"{home}/_aside/j/data/a", home) is None
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "real" / "t" / "_aside").symlink_to(tmp_path / "elsewhere")

    assert link_below(f"{home}/_aside/j/data/a", home) == f"{above}/t/_aside"
    assert link_below("s3://lake/t/_aside/j/data/a", "s3://lake/t") is None
