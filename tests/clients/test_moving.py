"""A file that is moved lies in one of two places, or in both, whatever happens; and no other file is lost for it."""

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.fs import FileSystemHandler, LocalFileSystem, PyFileSystem

from isotherm.clients.listing import written_at_ms
from isotherm.clients.moving import OtherFileError, is_same, link_below, move
from isotherm.clients.storage import RetryingFileIO, properties_with_retries
from isotherm.runtime.clock import now_ms
from support.object_store import BUCKET, Fault, object_store

HOUR_S = 3600


class NoCopies(FileSystemHandler):
    """A folder of this disk as a store that cannot copy, like HDFS through PyArrow."""

    def __init__(self, root):
        self.root, self.files = root, LocalFileSystem()

    def at(self, path):
        return str(self.root / path.lstrip("/"))

    def get_type_name(self):
        return "without copies"

    def get_file_info(self, paths):
        return self.files.get_file_info([self.at(path) for path in paths])

    def delete_file(self, path):
        self.files.delete_file(self.at(path))

    def open_input_stream(self, path):
        return self.files.open_input_stream(self.at(path))

    def open_input_file(self, path):
        return self.files.open_input_file(self.at(path))

    def open_output_stream(self, path, metadata):  # noqa: ARG002
        Path(self.at(path)).parent.mkdir(parents=True, exist_ok=True)
        return self.files.open_output_stream(self.at(path))

    def refused(self, *_):
        raise NotImplementedError("not supported yet")

    copy_file = move = get_file_info_selector = create_dir = delete_dir = delete_dir_contents = refused
    delete_root_dir_contents = open_append_stream = normalize_path = refused


class OfNoCopies(RetryingFileIO):
    def __init__(self, root):
        super().__init__(properties_with_retries({}))
        self.root = root

    def _initialize_fs(self, scheme, netloc=None):  # noqa: ARG002
        return PyFileSystem(NoCopies(self.root))


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
def test_a_file_of_other_content_is_not_written_over_unless_it_can_only_be_half_a_copy(place, there):
    io, folder = place
    source, target = f"{folder}/a", f"{folder}/b"
    put(io, source)
    put(io, target, there)

    with pytest.raises(OtherFileError):
        move(io, source, target)
    assert (content(io, source), content(io, target)) == (b"rows", there)
    assert move(io, source, target, takes_over=True) == 4
    assert (content(io, source), content(io, target)) == (None, b"rows")


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


class Dies(BaseException):
    """The process ends here."""


class Dying(RetryingFileIO):
    """A client that ends its process before or after the n-th thing that it changes."""

    left = 0

    def _maybe(self):
        self.left -= 1
        if self.left == 0:
            raise Dies

    def delete(self, location):
        self._maybe()
        super().delete(location)
        self._maybe()


class DyingWithoutCopies(Dying, OfNoCopies):
    """The same in a store without copies, where half of a file may be left."""

    def new_output(self, location):
        self._maybe()
        return super().new_output(location)


@given(st.binary(max_size=20), st.lists(st.integers(0, 5), max_size=4), st.none() | st.binary(max_size=20))
def test_however_often_a_move_is_cut_off_nothing_is_lost(tmp_path_factory, what, deaths, half):
    root = tmp_path_factory.mktemp("store")
    io = DyingWithoutCopies(root)
    put(io, "hdfs://nn/t/a", what)
    if half is not None:
        put(io, "hdfs://nn/t/b", half)
    for left in deaths:
        io.left = left
        with suppress(Dies):
            move(io, "hdfs://nn/t/a", "hdfs://nn/t/b", takes_over=True)
        io.left = 0
        assert what in (content(io, "hdfs://nn/t/a"), content(io, "hdfs://nn/t/b"))

    assert move(io, "hdfs://nn/t/a", "hdfs://nn/t/b", takes_over=True) == len(what)
    assert (content(io, "hdfs://nn/t/a"), content(io, "hdfs://nn/t/b")) == (None, what)


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
