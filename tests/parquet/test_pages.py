"""What is wrong with the pages of a row group shows without decoding them, as far as their headers tell."""

import io
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isotherm.parquet.compact_thrift import Field, Struct, bytes_of, struct_of
from isotherm.parquet.footer import Chunk, Part, UnusualError, read_footer
from isotherm.parquet.pages import check_group
from support.parquet_files import write


def checked(path: Path, change: Callable[[Chunk], Chunk], rows: int | None = None) -> None:
    """Check the first row group of a file, of whose first column the footer says something else."""
    with path.open("rb") as stream:
        group = read_footer(stream).groups[0]
        first, *others = group.chunks
        check_group(stream, replace(group, chunks=(change(first), *others), rows=rows or group.rows))


def with_meta(chunk: Chunk, name: int, by: int) -> Chunk:
    meta: Struct = chunk.meta
    meta = {**meta, name: Field(meta[name].type, meta[name].value + by)}
    return replace(chunk, fields={**chunk.fields, 3: Field(chunk.fields[3].type, meta)})


def without_meta(chunk: Chunk, name: int) -> Chunk:
    meta = {field: value for field, value in chunk.meta.items() if field != name}
    return replace(chunk, fields={**chunk.fields, 3: Field(chunk.fields[3].type, meta)})


def moved(chunk: Chunk, start: int, size: int) -> Chunk:
    return replace(chunk, pages=Part(chunk.pages.start + start, chunk.pages.size + size))


WRONG: dict[str, tuple[Callable[[Chunk], Chunk], str]] = {
    "more values": (lambda chunk: with_meta(chunk, 5, 1), "another number of values"),
    "another size when unpacked": (lambda chunk: with_meta(chunk, 6, -1), "another size"),
    "another first page": (lambda chunk: with_meta(chunk, 9, 1), "the first page"),
    "no dictionary": (lambda chunk: without_meta(chunk, 11), "dictionary is not the first"),
    "a later beginning": (lambda chunk: moved(chunk, 1, -1), "page|number|size"),
    "an earlier end": (lambda chunk: moved(chunk, 0, -1), "reaches behind its chunk"),
    "a later end": (lambda chunk: moved(chunk, 0, 1), "page|number|size"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_footer_that_says_something_else_of_pages_is_found(tmp_path: Path, what: str) -> None:
    change, why = WRONG[what]
    path = write(tmp_path / "a", "several pages", 1)

    with pytest.raises(UnusualError, match=why):
        checked(path, change)


def test_a_footer_that_says_what_is_there_is_right(tmp_path: Path) -> None:
    for layout in ("several pages", "indexes of pages of version 2", "checksums", "DuckDB"):
        checked(write(tmp_path / layout, layout, 1), lambda chunk: chunk)


def test_so_many_pages_that_their_headers_take_long_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotherm.parquet.pages.MOST_PAGES", 3)

    with pytest.raises(UnusualError, match="more than 3 pages"):
        checked(write(tmp_path / "a", "several pages", 1), lambda chunk: chunk)


def test_a_header_that_would_take_much_memory_is_none(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "not packed", 1)
    content = bytearray(path.read_bytes())
    # Field 1 is a list of a million values of one byte each.
    content[4:9] = b"\x19\xf3\x80\x80\x40"
    path.write_bytes(content[:9] + bytes(2**20) + content[9:])
    with path.open("rb") as stream:
        group = read_footer(stream).groups[0]
    tracemalloc.start()
    with path.open("rb") as stream, pytest.raises(UnusualError, match="no page begins"):
        check_group(stream, replace(group, chunks=group.chunks[:1]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 4 * 2**20


def test_pages_that_tell_their_rows_are_counted(tmp_path: Path) -> None:
    with pytest.raises(UnusualError, match="another number of rows"):
        checked(write(tmp_path / "a", "pages of version 2", 1), lambda chunk: chunk, rows=101)


@pytest.mark.parametrize("part", ["offset", "size", "first row"])
def test_an_offset_index_that_names_other_pages_is_found(tmp_path: Path, part: str) -> None:
    path = write(tmp_path / "a", "indexes of pages of version 2", 1)
    with path.open("rb") as stream:
        found = read_footer(stream).groups[0].chunks[0].offset_index
    assert found is not None
    content = bytearray(path.read_bytes())
    # A list of structures of two digits, and its first page: three fields with their headers.
    index = content[found.start : found.end]
    places: dict[str, Any] = {"size": index.index(0x15) + 1, "first row": index.index(0x16, 6) + 1}
    places["offset"] = index.index(0x16) + 1
    content[found.start + places[part]] ^= 2
    path.write_bytes(content)

    with pytest.raises(UnusualError, match="offset index"):
        checked(path, lambda chunk: chunk)


def test_an_offset_index_of_a_newer_format_is_found_before_anything_is_copied(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "indexes", 1)
    with path.open("rb") as stream:
        found = read_footer(stream).groups[0].chunks[0].offset_index
        assert found is not None
        stream.seek(found.start)
        index = struct_of(stream.read(found.size))
    newer = bytes_of({**index, 9: index[1]})
    start = path.stat().st_size
    with path.open("ab") as stream:
        stream.write(newer)

    with pytest.raises(UnusualError, match="an offset index has field 9"):
        checked_as(path, start, len(newer))


def checked_as(path: Path, start: int, size: int) -> None:
    """Check the first column chunk, whose offset index lies behind what was the file."""
    with path.open("rb") as stream:
        content = stream.read()[:start]
        group = read_footer(io.BytesIO(content)).groups[0]
        first = replace(group.chunks[0], offset_index=Part(start, size))
        check_group(stream, replace(group, chunks=(first,)))
