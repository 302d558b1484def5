"""A file gets another place in its store, and at no moment lies in neither.

A disk renames it. Every other store is asked for a copy, and only when that is whole does the original go. So a process
that dies on the way leaves the original, or both, or the copy, and a second call goes on from each. HDFS makes no copies
by itself, and S3 none of more than 5 GB: these go through this machine, and through the folder for temporary files. An
object store shows no half of a file. Elsewhere a copy is written under a hidden name and renamed when it is whole.

Where both places have a file, they are compared byte by byte. No file is written over another, and none counts as half a
copy. Two processes may move one file in opposite directions. So right before the original goes its copy is asked for once more,
and whoever brings a file back that is there already leaves the other one where it is. What is moved is as old as the
move, by the store: on a disk it is touched, where its owner lets us.
"""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pyarrow.fs import FileSystem, FileType
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from isotherm.clients.retries import store_of
from isotherm.clients.storage import RetryingFileIO, delete_once
from isotherm.contract.paths import is_local, is_plain, normalised

COPIED_AT_ONCE_BYTES = 5 * 10**9
"""What is larger S3 copies in parts alone."""
CHUNK_BYTES = 8 * 1024 * 1024
OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})
"""As PyArrow names them. Each shows a file only when it is whole, and gives each content a tag."""
FOLDERS_MADE = 5
NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
"""A disk says so that has no second names for files, or not for those of other users."""


class OtherFileError(FileExistsError):
    """A file of other content lies where one should be moved to."""


class OtherDiskError(OSError):
    """Both places are of this machine, and not of one disk: nothing can be moved between them in one act."""


class Version(NamedTuple):
    """What is written again has another one of these."""

    size_bytes: int
    written_at: object
    tag: str | int = ""


def move(
    io: FileIO,
    source: str,
    target: str,
    may_end: Callable[[], bool] = lambda: True,
    *,
    whole: dict[str, Version] | None = None,
    step: Callable[[], object] = lambda: None,
) -> int | None:
    """Move a file, or go on with a move. Returns its size, or None where `may_end` kept the original in its place.

    Args:
        io: the client of both places, which are in one store.
        source: where it lies.
        target: where it shall lie.
        may_end: asked right before the original goes: a copy may have taken long.
        whole: by target, of which file it is known to be a copy: it is not read for that. This one is added.
        step: called now and then where the file goes through this machine; what it raises ends the move.

    Raises:
        FileNotFoundError: it is in neither place.
        OtherFileError: a file of other content is in its way.
        OtherDiskError: a folder on the way is a mount of its own.
        OSError: the store refuses, or does not answer; or somebody writes the file meanwhile, or puts it back.
    """
    _check_names(source, target)
    was, there = _version(io, source), size_of(io, target)
    if was is None:
        return _moved_already(source, target, there)
    whole = {} if whole is None else whole
    if there is None and is_local(source):
        return _renamed(source, target, was.size_bytes) if may_end() else None
    if there is None:
        _copy(io, source, target, was.size_bytes, step)
    elif whole.get(target) != was and not is_same(io, source, target, step):
        raise OtherFileError(f"another file is in the way: {target}")
    whole[target] = was
    if not may_end():
        return None
    if size_of(io, target) != was.size_bytes:
        raise OSError(f"{target} is there no more: somebody puts it back just now")
    # The last of all: what a writer writes now would be lost.
    if _version(io, source) not in {was, None}:
        raise OSError(f"{source} was written again while it was moved")
    with suppress(FileNotFoundError):
        delete_once(io, source)
    return was.size_bytes


def bring_back(io: FileIO, place: str, origin: str) -> bool:
    """Move a file to where it was; whether it lies there alone now.

    Where it is there already, the one at `place` stays: another process may be about to take the other one away. On a
    disk it is made young, so that none does. Elsewhere that would be a copy, which may write over another file.

    No store that PyArrow knows is asked to copy only where nothing lies, and so a file is written over that comes while one
    is copied. It is looked for right before, and what passes through this machine is looked for when that has come.

    Raises:
        FileNotFoundError: it is in neither place.
        OtherFileError: a file of other content lies there.
        OSError: the store refuses, or does not answer.
    """
    _check_names(place, origin)
    size_bytes, there = size_of(io, place), size_of(io, origin)
    if size_bytes is None:
        _moved_already(place, origin, there)
        return True
    if there is not None:
        if not is_same(io, place, origin):
            raise OtherFileError(f"another file is in the way: {origin}")
        if is_local(origin):
            _touch(Path(normalised(origin)))
        return False
    if is_local(place):
        _linked(place, origin)
        return True
    _copy(io, place, origin, size_bytes, lambda: None)
    if size_of(io, origin) != size_bytes:
        raise OSError(f"{origin} is there no more: somebody takes it away just now")
    with suppress(FileNotFoundError):
        delete_once(io, place)
    return True


def is_same(io: FileIO, one: str, other: str, step: Callable[[], object] = lambda: None) -> bool:
    """Whether two files have the same content, by reading both; `step` is called now and then."""
    if size_of(io, one) != size_of(io, other):
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


def remove_empty_folders(location: str, top: str) -> None:
    """On a disk, take away the folders of a file that is gone, from the deepest one up to below `top`, while they are empty."""
    if not is_local(location):
        return
    end = Path(normalised(top))
    for one in Path(normalised(location)).parents:
        if one == end or not one.is_relative_to(end):
            return
        try:
            one.rmdir()
        except OSError:
            return


def _check_names(*locations: str) -> None:
    if (wrong := next((one for one in locations if not is_plain(one)), None)) is not None:
        raise OSError(f"the location {wrong!r} may name another file than it says")


def _moved_already(source: str, target: str, size_bytes: int | None) -> int:
    if size_bytes is None:
        raise FileNotFoundError(f"there is neither {source} nor {target}")
    return size_bytes


def size_of(io: FileIO, location: str) -> int | None:
    """The size of a file; None where there is none."""
    if is_local(location) or isinstance(io, PyArrowFileIO):
        found = _version(io, location, with_tag=False)
        return None if found is None else found.size_bytes
    file = io.new_input(location)
    return len(file) if file.exists() else None


def _version(io: FileIO, location: str, *, with_tag: bool = True) -> Version | None:
    """What a file is now; None where there is none."""
    if is_local(location):
        try:
            status = os.lstat(normalised(location))
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{location} is a link, a pipe or a folder, and no file")
        return Version(status.st_size, status.st_mtime_ns, status.st_ino)
    if not isinstance(io, PyArrowFileIO):
        size_bytes = size_of(io, location)
        return None if size_bytes is None else Version(size_bytes, None)
    files, place = _client(io, location)
    store = store_of(location, io.properties)
    found = store.ask(lambda: files.get_file_info(place))
    if found.type is not FileType.File:
        return None
    tag = ""
    if with_tag and files.type_name in OBJECT_STORES:
        # By the second alone two contents may have one time.
        tag = store.ask(lambda: _tag(files, place))
    return Version(int(found.size), found.mtime, tag)


def _tag(files: FileSystem, place: str) -> str:
    with files.open_input_file(place) as stream:
        said = {name.lower(): value for name, value in (stream.metadata() or {}).items()}
    return str(said.get("etag", ""))


def _client(io: PyArrowFileIO, location: str) -> tuple[FileSystem, str]:
    scheme, authority, place = io.parse_location(location, io.properties)
    return io.fs_by_scheme(scheme, authority), place


def _renamed(source: str, target: str, size_bytes: int) -> int:
    old, new = Path(normalised(source)), Path(normalised(target))
    # Before: if the process dies now it is young in its old place, and nobody takes it from there for days.
    _touch(old)
    try:
        _in_a_folder(new, lambda: old.rename(new), old)
    except OSError as err:
        if err.errno == errno.EXDEV:
            raise OtherDiskError(f"{source} lies on another disk than {target}") from err
        raise
    return size_bytes


def _linked(place: str, origin: str) -> None:
    """Give a file of a disk its old name, unless another file has that, and then take the other name away."""
    old, new = Path(normalised(place)), Path(normalised(origin))
    _touch(old)
    try:
        _in_a_folder(new, lambda: new.hardlink_to(old), old)
    except FileExistsError as err:
        raise OtherFileError(f"another file is in the way: {origin}") from err
    except OSError as err:
        if err.errno not in NO_LINKS:
            raise
        old.rename(new)
        return
    old.unlink(missing_ok=True)


def _in_a_folder(new: Path, act: Callable[[], object], old: Path) -> None:
    """Do what needs the folder of a new file. Somebody may take that away meanwhile, because it is empty."""
    for _ in range(FOLDERS_MADE):
        new.parent.mkdir(parents=True, exist_ok=True)
        try:
            act()
        except FileNotFoundError:
            os.lstat(old)
            continue
        return
    raise OSError(f"the folder {new.parent} is taken away as soon as it is made")


def _touch(file: Path) -> None:
    with suppress(PermissionError):
        os.utime(file)


def _copy(io: FileIO, source: str, target: str, size_bytes: int, step: Callable[[], object]) -> None:
    """Copy a file: afterwards it is whole, or not there."""
    if isinstance(io, PyArrowFileIO) and _client(io, source)[0].type_name not in OBJECT_STORES:
        if not _store_copies(io, source, target, size_bytes):
            _copied_aside(io, source, target, size_bytes, step)
    elif not (size_bytes <= COPIED_AT_ONCE_BYTES and _store_copies(io, source, target, size_bytes)):
        _stream(io, source, target, step)
    if (there := size_of(io, target)) != size_bytes:
        raise OSError(f"the copy {target} has {there} bytes, and its original {size_bytes}")


def _stream(io: FileIO, source: str, target: str, step: Callable[[], object]) -> None:
    with io.new_input(source).open() as reading, io.new_output(target).create() as writing:
        while chunk := reading.read(CHUNK_BYTES):
            step()
            writing.write(chunk)
        # It goes up when it is closed, perhaps an hour after it was begun.
        if isinstance(io, RetryingFileIO) and size_of(io, target) is not None:
            raise OtherFileError(f"another file is in the way: {target}")


def _copied_aside(
    io: PyArrowFileIO, source: str, target: str, size_bytes: int, step: Callable[[], object]
) -> None:
    """Copy a file through this machine to a store that shows what is half written: under a hidden name at first."""
    folder, _, name = target.rpartition("/")
    aside = f"{folder}/_{name}.half"
    with suppress(FileNotFoundError):
        io.delete(aside)
    _stream(io, source, aside, step)
    if (there := size_of(io, aside)) != size_bytes:
        raise OSError(f"the copy {aside} has {there} bytes, and its original {size_bytes}")
    if size_of(io, target) is not None:
        raise OtherFileError(f"another file is in the way: {target}")
    files, half = _client(io, aside)
    whole = _client(io, target)[1]
    store_of(target, io.properties).ask(lambda: files.move(half, whole))


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
