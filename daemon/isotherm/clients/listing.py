"""What lies in a folder of a store, some of it at a time: names, sizes, and when each file was written.

Nothing is read, and nothing is decided. Links of a disk are not followed: what they lead to has another name.
Nor are pipes and the like listed. Each request to a store has a limit (`timeouts`), so the time for all grows with the
number of folders that there are.
"""

import os
import stat
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from pyarrow.fs import FileSelector, FileSystem, FileType
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from isotherm.clients.retries import store_of
from isotherm.contract.paths import is_local, normalised

UNKNOWN_MS = 2**62
"""Stands for a time that a store does not know: no file is as old as that."""


class StoredFile(NamedTuple):
    """A file as a store lists it."""

    name: str
    """Below the folder that was listed."""
    size_bytes: int
    written_at_ms: int
    """By the store's clock."""


@runtime_checkable
class Lists(Protocol):
    """A FileIO that lists by itself."""

    def listed(self, folder: str) -> Iterator[list[StoredFile]]:
        """The files below a folder, at any depth, some at a time."""
        ...

    def written_at_ms(self, path: str) -> int | None:
        """When a file was written; None where it is not there."""
        ...


def files_below(io: FileIO, folder: str) -> Iterator[list[StoredFile]]:
    """The files below a folder, at any depth, those of one of its subfolders at a time. A folder that is not there has none.

    Args:
        io: how the folder's files are read.
        folder: with a slash at its end.

    Raises:
        OSError: the store does not answer, or refuses.
        NotImplementedError: this FileIO cannot list.
    """
    if isinstance(io, Lists):
        return io.listed(folder)
    if is_local(folder):
        return _on_disk(normalised(folder))
    if isinstance(io, PyArrowFileIO):
        return _in_store(io, folder)
    raise NotImplementedError(f"{type(io).__name__} cannot list the files of a folder")


def written_at_ms(io: FileIO, path: str) -> int | None:
    """When a file was written, by the store's clock; None where it is not there.

    Raises:
        OSError: the store does not answer, or refuses.
        NotImplementedError: this FileIO cannot say.
    """
    if isinstance(io, Lists):
        return io.written_at_ms(path)
    if is_local(path):
        try:
            return os.lstat(normalised(path)).st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return None
    if isinstance(io, PyArrowFileIO):
        scheme, authority, place = io.parse_location(path, io.properties)
        files: FileSystem = io.fs_by_scheme(scheme, authority)
        one = store_of(path, io.properties).ask(lambda: files.get_file_info(place))
        return None if one.type is FileType.NotFound else _ms(one.mtime)
    raise NotImplementedError(f"{type(io).__name__} cannot say when a file was written")


def _on_disk(root: str) -> Iterator[list[StoredFile]]:
    if os.path.islink(root.rstrip("/")):  # noqa: PTH114
        raise OSError(f"{root} is a link: what it leads to may be another table's")
    for place, folders, names in os.walk(root, onerror=_unless_missing):
        folders.sort()
        found: list[StoredFile] = []
        for name in names:
            path = os.path.join(place, name)  # noqa: PTH118 (a million of them)
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                continue  # deleted meanwhile
            if stat.S_ISREG(status.st_mode):
                written_at_ms = status.st_mtime_ns // 1_000_000
                found.append(StoredFile(path.removeprefix(root), status.st_size, written_at_ms))
        yield found


def _unless_missing(err: OSError) -> None:
    if not isinstance(err, FileNotFoundError):
        raise err


def _in_store(io: PyArrowFileIO, folder: str) -> Iterator[list[StoredFile]]:
    scheme, authority, root = io.parse_location(folder, io.properties)
    files: FileSystem = io.fs_by_scheme(scheme, authority)
    store, root = store_of(folder, io.properties), root.rstrip("/") + "/"

    def entries(place: str, *, is_deep: bool) -> list[object] | None:
        selector = FileSelector(place.rstrip("/"), allow_not_found=True, recursive=is_deep)
        return store.listed(lambda: files.get_file_info(selector))

    def below(place: str) -> Iterator[list[object]]:
        """What lies below a place: each of its folders at once, and folder by folder where that takes too long."""
        right_here = entries(place, is_deep=False)
        if right_here is None:
            raise TimeoutError(f"{store.name} timed out: what lies right in {place} did not come as a whole")
        yield right_here
        for one in right_here:
            if one.type is FileType.Directory:  # type: ignore[attr-defined]
                all_of_it = entries(one.path, is_deep=True)  # type: ignore[attr-defined]
                yield all_of_it or []  # also where nothing came: whoever lists sees that it gets on
                if all_of_it is None:
                    yield from below(one.path)  # type: ignore[attr-defined]

    for some in below(root):
        yield _files(some, root)


def _files(entries: list[object], root: str) -> list[StoredFile]:
    return [
        StoredFile(one.path.removeprefix(root), one.size, _ms(one.mtime))  # type: ignore[attr-defined]
        for one in entries
        if one.type is FileType.File  # type: ignore[attr-defined]
    ]


def _ms(at: datetime | None) -> int:
    """A time of a store. One that it does not know is that of a file that was just written, which stays."""
    said_ms = 0 if at is None else int(at.timestamp() * 1000)
    return said_ms if said_ms > 0 else UNKNOWN_MS
