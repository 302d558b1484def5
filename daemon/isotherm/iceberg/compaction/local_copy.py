"""Files within reach of both engines: what is remote is fetched once, and each engine reads the copy on its own.

Both get a file by a descriptor that this process has open (`/proc/self/fd/7`). So no name of a file is taken for a
pattern or an address, and a copy, which has no name, is gone with the process, however that ends. A copy is as large as
its file; there is one at a time, or some that are small together, and the next few. Of a file of which few columns are read the copy has holes where others are: at
the same offsets, so that both engines find what they look for without knowing of it.

A file that is much longer than its manifest says is not copied at all. Jobs are as large as manifests say, and the copy
may be on the disk of the daemon's stores. A little longer are delete files after Iceberg's `rewrite_table_path`
(apache/iceberg#12554), shorter are some that Spark listed before 0.11. A file that is much shorter is not read, either,
because budgets count what manifests say. On a local disk nothing is copied, and a longer file does no harm.
"""

import contextlib
import errno
import os
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import chain
from typing import IO

import pyarrow.parquet as pq
from pyiceberg.io import FileIO, InputStream

from isotherm.clients.local_files import opened
from isotherm.contract.paths import is_local, normalised
from isotherm.core.model.files import LiveFile
from isotherm.core.model.refusals import Reason, RefusalError

FOLDER = "/proc/self/fd/" if sys.platform == "linux" else "/dev/fd/"
"""Where the kernel shows the files that this process has open. Linux's own /dev/fd is a link to it."""
PIECE_BYTES = 16 * 1024 * 1024
"""What is fetched at a time: requests to an object store cost some thirty milliseconds each."""
HOLE_BYTES = 1024 * 1024
"""The least that is left out: what is fetched in the time of another request costs nothing."""

SLACK_BYTES = 1024 * 1024
"""By which a file may be longer than its manifest says."""
AHEAD, AHEAD_BYTES = 16, 32 * 1024 * 1024
"""So many files are fetched before it is their turn, of so many bytes together: a store takes some 30 ms for each request,
however little it gives. A larger file alone takes so long that its requests do not count."""
TIMES = 3
"""As large, and that much larger, may a manifest say a file is: Spark said twice as large. Budgets count what it says."""

Columns = Callable[[pq.FileMetaData], Collection[str]]
"""The names of the top-level columns that will be read of a file with such a footer."""
Range = tuple[int, int]
"""Where a part of a file begins, and where it ends."""


def local_paths(locations: Iterable[str]) -> list[str]:
    """Where those of some files lie that need no copy: the names behind their descriptors."""
    return [os.path.realpath(normalised(location)) for location in locations if is_local(location)]


@contextlib.contextmanager
def nearby(io: FileIO, location: str, listed_bytes: int, columns: Columns | None = None) -> Iterator[str]:
    """A path under which the content of a file can be read, as long as the context lasts.

    Args:
        io: the table's files.
        location: of the file.
        listed_bytes: its size, as its manifest has it.
        columns: of a Parquet file no other columns need to be there. None: everything is.

    Raises:
        RefusalError: it is much shorter than that; or it would have to be copied, and is much longer.
        NoRegularFileError: it is local, and a pipe, a device or a folder.
    """
    if is_local(location):
        with opened(normalised(location)) as file:
            _check(location, os.fstat(file.fileno()).st_size, listed_bytes)
            yield f"{FOLDER}{file.fileno()}"
        return
    with tempfile.TemporaryFile(prefix="isotherm-") as copy:
        with io.new_input(location).open() as stream:
            size_bytes = stream.seek(0, os.SEEK_END)
            _check(location, size_bytes, listed_bytes, most_bytes=listed_bytes + SLACK_BYTES)
            _copy(stream, copy, _parts(stream, size_bytes, columns))
            copy.truncate(size_bytes)
        copy.flush()
        yield f"{FOLDER}{copy.fileno()}"


def in_turn(
    io: FileIO, files: Sequence[LiveFile], columns: Columns | None = None
) -> Iterator[AbstractContextManager[str]]:
    """What `nearby` gives for each of some files, in their order. The next few are fetched meanwhile, as far as there is room.

    What goes wrong with a file is raised where its path is asked for. Where the system gives no thread, each is fetched in
    its turn.
    """
    pool = ThreadPoolExecutor(AHEAD)
    rest, begun = deque(files), deque[tuple[LiveFile, AbstractContextManager[str]]]()
    try:
        while rest or begun:
            while rest and (not begun or _has_room([file for file, _ in begun], rest[0])):
                file = rest.popleft()
                near = nearby(io, file.path, file.size_bytes, columns)
                begun.append((file, near if is_local(file.path) else _begun(pool, near)))
            yield begun.popleft()[1]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _has_room(begun: Sequence[LiveFile], file: LiveFile) -> bool:
    """Whether one more file may be fetched beside those that were begun and had no turn yet."""
    return len(begun) <= AHEAD and sum(one.size_bytes for one in (*begun, file)) <= AHEAD_BYTES


def _begun(pool: ThreadPoolExecutor, near: AbstractContextManager[str]) -> AbstractContextManager[str]:
    """A file that is fetched from now on, or in its turn."""
    entered = Future[tuple[contextlib.ExitStack, str]]()
    try:
        pool.submit(_enter, near, entered)
    except RuntimeError:  # the system gives no thread; those that there are may take it all the same
        if entered.cancel():
            return near
    return _Fetched(entered)


def _enter(near: AbstractContextManager[str], entered: Future[tuple[contextlib.ExitStack, str]]) -> None:
    if not entered.set_running_or_notify_cancel():
        return
    stack = contextlib.ExitStack()
    try:
        entered.set_result((stack, stack.enter_context(near)))
    except BaseException as err:  # noqa: BLE001 (it is given to whoever asks)
        entered.set_exception(err)


class _Fetched(AbstractContextManager[str]):
    """A file that some thread fetches. A copy that nobody asks for is gone with this."""

    def __init__(self, entered: Future[tuple[contextlib.ExitStack, str]]) -> None:
        self._entered = entered

    def __enter__(self) -> str:
        return self._entered.result()[1]

    def __exit__(self, *_: object) -> None:
        self._entered.result()[0].close()


def _check(location: str, size_bytes: int, listed_bytes: int, most_bytes: int | None = None) -> None:
    """Raises RefusalError: it is not what its manifest says."""
    is_longer = most_bytes is not None and size_bytes > most_bytes
    if is_longer or listed_bytes > TIMES * size_bytes + SLACK_BYTES:
        why = f"{location} has {size_bytes} bytes, its manifest says {listed_bytes}"
        raise RefusalError(Reason.CORRUPT_FILE, why)


def _parts(stream: InputStream, size_bytes: int, columns: Columns | None) -> list[Range]:
    """The parts of a file that are copied."""
    if columns is None:
        return [(0, size_bytes)]
    stream.seek(0)
    footer = pq.read_metadata(stream)
    return needed(footer, columns(footer), size_bytes)


def _copy(stream: InputStream, copy: IO[bytes], parts: Iterable[Range]) -> None:
    for start, end in parts:
        stream.seek(start)
        copy.seek(start)
        while left_bytes := end - copy.tell():
            piece = stream.read(min(left_bytes, PIECE_BYTES))
            if not piece:
                # What is missing would be zeros, and both engines would take them for keys.
                raise OSError(errno.EIO, f"the store's answer ends {left_bytes} bytes early")
            copy.write(piece)


def needed(footer: pq.FileMetaData, names: Collection[str], size_bytes: int) -> list[Range]:
    """The parts of a file of which these top-level columns are read: all but what its footer says that others take."""
    wanted: list[Range] = []
    others: list[Range] = []
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            path = chunk.path_in_schema
            # Names may hold dots: of what could be meant nothing is left out.
            is_wanted = any(path == name or path.startswith(f"{name}.") for name in names)
            (wanted if is_wanted else others).append(_range(chunk, size_bytes))
    ends = [0, *chain.from_iterable(_joined(others, 0)), size_bytes]
    return _joined([*wanted, *zip(ends[::2], ends[1::2], strict=True)], HOLE_BYTES)


def _range(chunk: pq.ColumnChunkMetaData, size_bytes: int) -> Range:
    """Where the pages of a column chunk lie, its dictionary before them."""
    starts = [start for start in (chunk.dictionary_page_offset, chunk.data_page_offset) if start]
    start = min(max(min(starts, default=0), 0), size_bytes)
    return start, min(max(start + chunk.total_compressed_size, start), size_bytes)


def _joined(ranges: Sequence[Range], gap_bytes: int) -> list[Range]:
    """The same in order, without overlaps, and those together that lie no further apart."""
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if joined and start - joined[-1][1] <= gap_bytes:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        elif end > start:
            joined.append((start, end))
    return joined
