"""A footer that is not plain is refused: what nobody here knows may say where something lies."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from thrift.Thrift import TType

from isotherm.parquet import footer as footers
from isotherm.parquet.compact_thrift import Field, Items, Struct, bytes_of
from isotherm.parquet.footer import (
    MOST_FOOTER_BYTES,
    Part,
    Places,
    UnusualError,
    as_pyarrow,
    moved,
    placed,
    placeless,
    read_footer,
)
from isotherm.parquet.row_groups import part_of
from support.footers import chunk, group, meta, rewritten
from support.parquet_files import EVERY, rows, write

NUMBER, TEXT = Field(TType.I64, 7), Field(TType.STRING, b"x")


def put(of: Callable[[Struct], Struct], **values: Any) -> Callable[[Struct], None]:
    def change(fields: Struct) -> None:
        of(fields).update({int(name[1:]): value for name, value in values.items()})

    return change


UNUSUAL: dict[str, Callable[[Struct], None]] = {
    "a newer field of the footer": put(lambda fields: fields, f10=NUMBER),
    "an encrypted file": put(lambda fields: fields, f8=Field(TType.STRUCT, {})),
    "a newer field of a row group": put(group, f8=NUMBER),
    "a newer field of a column chunk": put(chunk, f10=NUMBER),
    "a chunk in another file": put(chunk, f1=TEXT),
    "an encrypted column": put(chunk, f8=Field(TType.STRUCT, {})),
    "encrypted metadata": put(chunk, f9=TEXT),
    "a newer field of a chunk's metadata": put(meta, f18=NUMBER),
    "an index page": put(meta, f10=NUMBER),
    "a chunk without metadata": lambda fields: chunk(fields).pop(3) and None,
    "a dictionary behind its pages": put(meta, f11=Field(TType.I64, 10**6)),
    "a dictionary at the beginning": put(meta, f11=Field(TType.I64, 0)),
    "a Bloom filter of any size": put(meta, f14=NUMBER),
    "an index of any size": put(chunk, f4=NUMBER),
    "an offset that is no number": put(meta, f9=TEXT),
    "two chunks in one place": lambda fields: meta(fields, 1).update(meta(fields)),
    "a chunk that reaches into the next": put(meta, f7=Field(TType.I64, 10**4)),
    "a chunk of less than nothing": put(meta, f7=Field(TType.I64, -1)),
    "a filter behind the end": put(meta, f14=Field(TType.I64, 10**9), f15=Field(TType.I32, 8)),
    "an index before the beginning": put(chunk, f6=Field(TType.I64, -1000), f7=Field(TType.I32, 8)),
    "an index at the beginning": put(chunk, f6=Field(TType.I64, 0), f7=Field(TType.I32, 0)),
    "a chunk before the beginning": put(meta, f9=Field(TType.I64, -(10**6)), f7=Field(TType.I64, 1)),
    "more rows": put(lambda fields: fields, f3=NUMBER),
    "a row group elsewhere": put(group, f5=NUMBER),
    "a row group of another number": put(group, f7=Field(TType.I16, 3)),
    "no columns": lambda fields: group(fields)[1].value.values.clear(),
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_what_may_lead_elsewhere_is_refused(tmp_path: Path, what: str) -> None:
    path = write(tmp_path / "a", "plain", 1)
    rewritten(path, UNUSUAL[what])

    with path.open("rb") as stream, pytest.raises(UnusualError):
        read_footer(stream)


def test_a_new_field_of_what_holds_no_offset_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "plain", 1)
    rewritten(path, put(lambda fields: meta(fields)[12].value, f99=TEXT))

    with path.open("rb") as stream:
        footer = read_footer(stream)

    assert b"x" == meta(footer.fields)[12].value[99].value
    assert pq.read_table(path).num_rows == footer.groups[0].rows * 3


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"PAR1" * 2, b"PARE\0\0\0\0PARE", b"PAR1\xff\xff\xff\x7fPAR1"]
)
def test_what_is_no_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)

    with (tmp_path / "a").open("rb") as stream, pytest.raises(UnusualError):
        read_footer(stream)


def test_a_footer_that_would_take_much_memory_is_refused(tmp_path: Path) -> None:
    pq.write_table(rows(1).replace_schema_metadata({"k": "x" * (MOST_FOOTER_BYTES + 1)}), tmp_path / "a")

    with (tmp_path / "a").open("rb") as stream, pytest.raises(UnusualError, match="at most"):
        read_footer(stream)


def test_a_footer_of_more_bytes_than_are_wanted_is_not_parsed(tmp_path: Path) -> None:
    with write(tmp_path / "a", "plain", 1).open("rb") as stream:
        found = read_footer(stream).size_bytes

        assert found == read_footer(stream, found).size_bytes
        with pytest.raises(UnusualError, match=f"at most {found - 1} bytes"):
            read_footer(stream, found - 1)


def test_indexes_that_would_take_much_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotherm.parquet.footer.MOST_INDEX_BYTES", 100)
    path = write(tmp_path / "a", "indexes", 1)

    with path.open("rb") as stream, pytest.raises(UnusualError, match="indexes"):
        read_footer(stream)


def test_an_offset_index_of_a_newer_format_is_not_moved() -> None:
    location = {1: Field(TType.I64, 4), 2: Field(TType.I32, 9), 3: Field(TType.I64, 0)}
    for index in ({3: NUMBER}, {1: list_of({**location, 4: NUMBER})}):
        with pytest.raises(UnusualError):
            moved(bytes_of(index), 5)

    assert bytes_of({1: list_of({**location, 1: Field(TType.I64, 9)})}) == moved(
        bytes_of({1: list_of(location)}), 5
    )


def list_of(*structs: Struct) -> Field:
    return Field(TType.LIST, Items(TType.STRUCT, list(structs)))


def test_what_is_said_of_a_row_group_is_the_same_wherever_it_lies(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "Bloom filters", 1)
    with path.open("rb") as stream:
        first, second, _ = read_footer(stream).groups
    places = [
        Places(1000 * one, 10**6 + one, 10**7 + one, Part(10**8 + one, 300))
        for one in range(1, len(first.chunks) + 1)
    ]

    copy = placed(first, places, 7)
    footer = as_pyarrow(
        bytes_of({1: Field(TType.I32, 2), 2: schema_of(path), 3: Field(TType.I64, 100), 4: list_of(copy)})
    )

    chunks = [footer.row_group(0).column(number) for number in range(len(places))]
    assert [one.pages for one in places] == [
        one.dictionary_page_offset or one.data_page_offset for one in chunks
    ]
    assert [10**6 + 1, 10**6 + 2] == [one.bloom_filter_offset for one in chunks[:2]]
    assert 1000 == copy[5].value
    assert placeless(first) != placeless(second)


@pytest.mark.parametrize("unlimited", ["MOST_FOOTER_BYTES", "MOST_INDEX_BYTES"])
@pytest.mark.parametrize("layout", EVERY)
def test_a_share_bounds_what_row_groups_take_wherever_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, unlimited: str
) -> None:
    """As far behind as a terabyte, of which each offset takes five bytes more."""
    with write(tmp_path / "a", layout, 1).open("rb") as stream:
        footer, groups, indexes_bytes = read_footer(stream), [], 0
        for group in footer.groups:
            indexes = [
                moved(part_of(stream, one.offset_index), 2**40) if one.offset_index else b""
                for one in group.chunks
            ]
            indexes_bytes += sum(len(part_of(stream, one.column_index)) for one in group.chunks)
            indexes_bytes += sum(map(len, indexes))
            places = [Places(2**40, 2**40, 2**40, Part(2**40, len(index))) for index in indexes]
            groups.append(placed(group, places, 2**15 - 1))

    footer_bytes = len(bytes_of({**footer.fields, 4: list_of(*groups)}))

    taken = {
        "MOST_FOOTER_BYTES": footer_bytes / footers.MOST_FOOTER_BYTES,
        "MOST_INDEX_BYTES": indexes_bytes / footers.MOST_INDEX_BYTES,
    }
    assert max(taken.values()) <= footer.share
    monkeypatch.setattr(footers, unlimited, 2**60)
    assert all(taken[name] <= footer.share for name in taken.keys() - {unlimited})


def test_an_offset_that_does_not_fit_its_field_is_not_written() -> None:
    """Some writer may have taken the least field that held it."""
    location = {1: Field(TType.I32, 4), 2: Field(TType.I32, 9), 3: Field(TType.I64, 0)}

    assert moved(bytes_of({1: list_of(location)}), 2**31 - 5)
    with pytest.raises(UnusualError, match="cannot be written"):
        moved(bytes_of({1: list_of(location)}), 2**31 - 4)


def schema_of(path: Path) -> Field:
    with path.open("rb") as stream:
        return read_footer(stream).fields[2]
