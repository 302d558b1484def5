"""A file gets another place in its store, and at no moment lies in neither.

A disk renames it. Every other store is asked for a copy, and only when that is whole does the original go. So a process
that dies on the way leaves the original, or both, or the copy, and a second call goes on from each. HDFS makes no copies
by itself, and S3 none of more than 5 GB: these go through this machine, and through the folder for temporary files.

Where both places have a file, they are compared byte by byte. No file is written over another. What is moved is as old
as the move, by the store: on a disk it is touched, where its owner lets us.
"""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pyarrow.fs import FileSystem, FileType
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from isotherm.clients.retries import store_of
from isotherm.contract.paths import is_local, is_plain, normalised

COPIED_AT_ONCE_BYTES = 5 * 10**9
"""What is larger S3 copies in parts alone."""
CHUNK_BYTES = 8 * 1024 * 1024


class OtherFileError(FileExistsError):
    """A file of other content lies where one should be moved to."""


def move(
    io: FileIO,
    source: str,
    target: str,
    may_end: Callable[[], bool] = lambda: True,
    *,
    takes_over: bool = False,
    whole: set[str] | None = None,
    step: Callable[[], object] = lambda: None,
) -> int | None:
    """Move a file, or go on with a move. Returns its size, or None where `may_end` kept the original in its place.

    Args:
        io: the client of both places, which are in one store.
        source: where it lies.
        target: where it shall lie.
        may_end: asked right before the original goes: a copy may have taken long.
        takes_over: whether a file at the target can only be what an earlier call did not finish, so that it may go.
        whole: targets that are known to be whole copies, which are not read for it; this one is added.
        step: called now and then where the file goes through this machine; what it raises ends the move.

    Raises:
        FileNotFoundError: it is in neither place.
        OtherFileError: a file of other content is in its way.
        OSError: the store refuses, or does not answer.
    """
    if (wrong := next((one for one in (source, target) if not is_plain(one)), None)) is not None:
        raise OSError(f"the location {wrong!r} may name another file than it says")
    size_bytes, there = _size(io, source), _size(io, target)
    if size_bytes is None:
        if there is None:
            raise FileNotFoundError(f"there is neither {source} nor {target}")
        return there
    whole = set() if whole is None else whole
    if there is not None and target not in whole and not is_same(io, source, target, step):
        if not takes_over:
            raise OtherFileError(f"another file is in the way: {target}")
        io.delete(target)
        there = None
    if there is None and is_local(source):
        return _renamed(source, target, size_bytes) if may_end() else None
    if there is None:
        _copy(io, source, target, size_bytes, step)
    whole.add(target)
    if not may_end():
        return None
    with suppress(FileNotFoundError):
        io.delete(source)
    return size_bytes


def is_same(io: FileIO, one: str, other: str, step: Callable[[], object] = lambda: None) -> bool:
    """Whether two files have the same content, by reading both; `step` is called now and then."""
    if _size(io, one) != _size(io, other):
        return False
    with io.new_input(one).open() as first, io.new_input(other).open() as second:
        while chunk := first.read(CHUNK_BYTES):
            step()
            if chunk != second.read(CHUNK_BYTES):
                return False
    return True


def link_below(location: str, home: str) -> str | None:
    """A link of this machine's disk among the folders from `home` down to a file, or None: it would lead elsewhere."""
    if not is_local(location):
        return None
    place, top = Path(normalised(location)).parent, Path(normalised(home))
    between = [place, *place.parents]
    return next(
        (str(one) for one in between if one.is_relative_to(top) and one != top and one.is_symlink()), None
    )


def _size(io: FileIO, location: str) -> int | None:
    """The size of a file; None where there is none."""
    if is_local(location):
        try:
            status = os.lstat(normalised(location))
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{location} is a link, a pipe or a folder, and no file")
        return status.st_size
    if isinstance(io, PyArrowFileIO):
        files, place = _client(io, location)
        found = store_of(location, io.properties).ask(lambda: files.get_file_info(place))
        return int(found.size) if found.type is FileType.File else None
    file = io.new_input(location)
    return len(file) if file.exists() else None


def _client(io: PyArrowFileIO, location: str) -> tuple[FileSystem, str]:
    scheme, authority, place = io.parse_location(location, io.properties)
    return io.fs_by_scheme(scheme, authority), place


def _renamed(source: str, target: str, size_bytes: int) -> int:
    old, new = Path(normalised(source)), Path(normalised(target))
    new.parent.mkdir(parents=True, exist_ok=True)
    # Before: if the process dies now it is young in its old place, and nobody takes it from there for days.
    with suppress(PermissionError):
        os.utime(old)
    old.rename(new)
    return size_bytes


def _copy(io: FileIO, source: str, target: str, size_bytes: int, step: Callable[[], object]) -> None:
    """Copy a file, whole."""
    if not (size_bytes <= COPIED_AT_ONCE_BYTES and _store_copies(io, source, target, size_bytes)):
        with io.new_input(source).open() as reading, io.new_output(target).create() as writing:
            while chunk := reading.read(CHUNK_BYTES):
                step()
                writing.write(chunk)
    if (there := _size(io, target)) != size_bytes:
        raise OSError(f"the copy {target} has {there} bytes, and its original {size_bytes}")


def _store_copies(io: FileIO, source: str, target: str, size_bytes: int) -> bool:
    """Have a store copy a file by itself; whether it can."""
    if not isinstance(io, PyArrowFileIO):
        return False
    files, place = _client(io, source)
    there = _client(io, target)[1]
    try:
        store_of(source, io.properties).sent(lambda: files.copy_file(place, there), size_bytes)
    except NotImplementedError:
        return False
    return True
