"""Data files that a job passes through: their row groups go into new files as they are, and no value is decoded.

A file passes where no delete names a row of it, and it is such a file as we would write (`parquet.as_asked`), in row groups
that are large enough. Where anything about it is unusual it is decoded and written anew, as all others. Files that are
copied together have the target size (`packing`), and are of one kind: they have the same schema and the same writer.

The proof is a sum of hashes of bytes, of what was read and of what storage gives back (`group_sums`), which is added to the
sums of row hashes of all other files. Before, the pages of a file must be what its footer says (`parquet.pages`). Nobody
sees whether pages without a checksum mean what their writer meant, because nobody decodes them.

In format version 3 no file passes: its rows have ids that follow from where they lie.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow.compute as pc
from pyiceberg.io import FileIO, OutputStream
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import DoubleType, FloatType

from isotherm.core.model.files import LiveFile
from isotherm.core.model.jobs import CompactionJob, WrittenFile
from isotherm.core.model.refusals import Reason, RefusalError
from isotherm.core.model.tables import WITH_ROW_IDS
from isotherm.iceberg.compaction.counters import NOBODY, Told
from isotherm.iceberg.compaction.deleted_rows import Deleted
from isotherm.iceberg.compaction.failures import blaming, writing
from isotherm.iceberg.compaction.group_sums import group_sums
from isotherm.iceberg.compaction.local_copy import in_turn, nearby
from isotherm.iceberg.compaction.names import data_location
from isotherm.iceberg.compaction.packing import Copyable, packed
from isotherm.iceberg.compaction.row_sums import RowSums, Tally
from isotherm.iceberg.compaction.source import Source
from isotherm.parquet import as_asked
from isotherm.parquet.footer import MAGIC, Footer, UnusualError, read_footer
from isotherm.parquet.pages import DamagedPageError, check_group
from isotherm.parquet.row_groups import Layout, RowGroups
from isotherm.parquet.statistics import statistics


@dataclass(frozen=True, slots=True)
class Passed:
    """The data files of a job that were passed through, by number; what was made of them, and found in them."""

    numbers: frozenset[int]
    files: Sequence[WrittenFile]
    found: Sequence[Tally]


NONE_PASSED = Passed(frozenset(), (), ())


def pass_through(
    io: FileIO,
    job: CompactionJob,
    metadata: TableMetadata,
    deleted: Deleted,
    sums: RowSums,
    told: Told = NOBODY,
) -> Passed:
    """Copy what can be copied of a job's data files. All others are left to whoever decodes them.

    Raises:
        RefusalError: a file is missing or damaged, or storage does not answer.
    """
    if metadata.format_version >= WITH_ROW_IDS:
        return NONE_PASSED
    untouched = {
        number: file
        for number, file in enumerate(job.data_files)
        if file.size_bytes >= as_asked.WORTH_BYTES and not deleted.count(file) and not sums.is_named(number)
    }
    copyable = _of_one_kind(io, untouched, as_asked.AsAsked(metadata)) if untouched else {}
    others = [file.size_bytes for number, file in enumerate(job.data_files) if number not in copyable]
    together = packed(copyable, sum(others), job.target_size_bytes).together
    near = in_turn(io, [job.data_files[number] for group in together for number in group])
    numbers, files, found = set[int](), list[WrittenFile](), list[Tally]()
    for group in together:
        chosen = [job.data_files[number] for number in group]
        with ExitStack() as open_files, ThreadPoolExecutor(1) as beside:
            paths = [_opened(open_files, near, file) for file in chosen]
            plain = _plain(paths, chosen)
            if plain is None:
                continue
            footers, layout = plain
            # Hashing releases the interpreter: the second core sums up while this one copies.
            tallies = beside.submit(_summed, paths, chosen, footers)
            files.append(
                _copied(io, data_location(job, metadata, len(files)), metadata, paths, chosen, layout)
            )
            numbers.update(group)
            found += tallies.result()
        told.passed(files[-1].rows, sum(file.size_bytes for file in chosen), files[-1].size_bytes)
    return Passed(frozenset(numbers), files, found)


def passed_back(io: FileIO, file: WrittenFile) -> Tally:
    """What storage gives back of a file that was made of copied row groups.

    Raises:
        RefusalError: it cannot be read, or its footer does not say what it should.
    """
    with blaming(file.path), nearby(io, file.path, file.size_bytes) as path:
        try:
            return group_sums(path)
        except UnusualError as err:
            raise RefusalError(Reason.MISMATCH, f"{file.path}: {err}") from err


def _of_one_kind(io: FileIO, files: Mapping[int, LiveFile], asked: as_asked.AsAsked) -> dict[int, Copyable]:
    """Those of some files that may pass, by number: of several kinds that which most of them have."""
    kinds: dict[int, bytes] = {}
    copyable: dict[int, Copyable] = {}
    each = zip(files.items(), in_turn(io, list(files.values()), lambda _: ()), strict=True)
    for (number, file), near in each:
        with blaming(file.path), near as path, suppress(UnusualError):
            footer = _footer(path, file)
            asked.check(footer)
            kinds[number] = hashlib.blake2b(footer.kind).digest()
            copyable[number] = Copyable(file.size_bytes, footer.share)
    most = [kind for kind, _ in Counter(kinds.values()).most_common(1)]
    return {number: copyable[number] for number, kind in kinds.items() if kind in most}


def _footer(path: str, file: LiveFile) -> Footer:
    with Path(path).open("rb") as stream:
        footer = read_footer(stream, as_asked.most_footer_bytes(file.size_bytes))
    if sum(group.rows for group in footer.groups) != file.rows:
        raise UnusualError(f"{file.path} has other rows than its manifest says")
    return footer


def _opened(open_files: ExitStack, near: Iterator[AbstractContextManager[str]], file: LiveFile) -> str:
    with blaming(file.path):
        return open_files.enter_context(next(near))


def _plain(paths: Sequence[str], files: Sequence[LiveFile]) -> tuple[list[Footer], Layout] | None:
    """The footers of some files and the file that will be made of them.

    Returns None where the pages of one of them are not plainly what its footer says, or that file could not be read again.
    """
    footers: list[Footer] = []
    try:
        for path, file in zip(paths, files, strict=True):
            with blaming(file.path), Path(path).open("rb") as stream:
                footers.append(_footer(path, file))
                _check_pages(stream, footers[-1], file)
                if len(footers) == 1:
                    groups = RowGroups(footers[0])
                groups.add(stream, footers[-1])
        return footers, groups.laid_out()
    except UnusualError:
        return None


def _check_pages(stream: BinaryIO, footer: Footer, file: LiveFile) -> None:
    try:
        for group in footer.groups:
            check_group(stream, group)
    except DamagedPageError as err:
        raise RefusalError(Reason.CORRUPT_FILE, f"{file.path}: {err}") from err


def _summed(paths: Sequence[str], files: Sequence[LiveFile], footers: Sequence[Footer]) -> list[Tally]:
    tallies: list[Tally] = []
    for path, file, footer in zip(paths, files, footers, strict=True):
        with blaming(file.path):
            tallies.append(group_sums(path, footer))
    return tallies


def _copied(
    io: FileIO,
    location: str,
    metadata: TableMetadata,
    paths: Sequence[str],
    files: Sequence[LiveFile],
    layout: Layout,
) -> WrittenFile:
    """A new file of the row groups of some files."""
    nans: Counter[int] = Counter()
    with writing():
        sink = io.new_output(location).create()
    try:
        with writing():
            sink.write(MAGIC)
        for source, (path, file) in enumerate(zip(paths, files, strict=True)):
            with blaming(file.path), Path(path).open("rb") as stream:
                for piece in layout.copied(source, stream):
                    with writing():
                        sink.write(piece)
            nans.update(_nans(path, file, metadata))
        with writing():
            sink.write(layout.behind)
            sink.close()
    except BaseException:
        _abandon(sink)
        raise
    told = layout.footer
    found = statistics(told, metadata.schema(), metadata.properties, nans)
    return WrittenFile(location, layout.size_bytes, told.num_rows, **asdict(found))


def _abandon(sink: OutputStream) -> None:
    """Let go of a file; what lies in storage is found by `leftovers`."""
    with suppress(Exception):
        # A remote file that is not closed yet need not go up at all.
        getattr(sink, "discard", sink.close)()


def _nans(path: str, file: LiveFile, metadata: TableMetadata) -> dict[int, int]:
    """How many values are no number, by field id. A footer does not tell, so columns of floats are read for it."""
    floats = _floats(metadata)
    counts = dict.fromkeys(floats, 0)
    if not floats:
        return counts
    with blaming(file.path):
        source = Source(path, file, floats, None)
        for batch in source.batches():
            for column, values in zip(source.columns, batch.columns, strict=True):
                if column.field_id is not None:
                    counts[column.field_id] += pc.sum(pc.is_nan(values)).as_py() or 0
    return counts


def _floats(metadata: TableMetadata) -> Collection[int]:
    """The columns whose values may be no number."""
    fields = metadata.schema().fields
    return [field.field_id for field in fields if isinstance(field.field_type, FloatType | DoubleType)]
