"""A file of copied row groups holds what its sources held: by PyArrow, by DuckDB, and byte by byte."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isotherm.parquet import footer as footers
from isotherm.parquet.compact_thrift import Field, Items, bytes_of
from isotherm.parquet.footer import UnusualError, read_footer
from isotherm.parquet.pages import DamagedPageError, check_group
from support.parquet_files import BY_DUCKDB, EVERY, copied, laid_out, rows, summed, write

FILES = 3
WHERE = ("dictionary_page_offset", "data_page_offset", "bloom_filter_offset", "file_offset")


@pytest.fixture
def sources(tmp_path: Path, layout: str) -> list[Path]:
    return [write(tmp_path / f"{number}.parquet", layout, number) for number in range(FILES)]


def told(path: Path) -> list[dict[str, Any]]:
    """All that PyArrow reads in a footer of each column chunk, but where it lies."""
    footer = pq.read_metadata(path)
    chunks = [
        footer.row_group(group).column(column).to_dict()
        for group in range(footer.num_row_groups)
        for column in range(footer.num_columns)
    ]
    return [{name: value for name, value in chunk.items() if name not in WHERE} for chunk in chunks]


@pytest.mark.parametrize("layout", EVERY)
def test_two_engines_read_the_rows_of_the_sources_in_their_order(
    tmp_path: Path, sources: list[Path], layout: str
) -> None:
    path = tmp_path / "copied.parquet"

    footer = copied(sources, path)

    expected = pa.concat_tables([pq.read_table(source) for source in sources])
    assert expected.num_rows == footer.num_rows
    # As text: a NaN is no NaN to Arrow.
    assert str(expected.to_pylist()) == str(pq.read_table(path, page_checksum_verification=True).to_pylist())
    of_sources = ", ".join(f"'{source}'" for source in sources)
    by_duckdb = [
        str(
            duckdb.sql(
                f"SELECT CAST(t AS VARCHAR) AS row FROM read_parquet([{names}]) AS t ORDER BY row"
            ).fetchall()
        )
        for names in (of_sources, f"'{path}'")
    ]
    assert by_duckdb[0] == by_duckdb[1]


@pytest.mark.parametrize("layout", EVERY)
def test_the_footer_says_of_each_column_what_it_said(
    tmp_path: Path, sources: list[Path], layout: str
) -> None:
    path = tmp_path / "copied.parquet"

    footer = copied(sources, path)

    assert [chunk for source in sources for chunk in told(source)] == told(path)
    first = pq.read_metadata(sources[0])
    assert (first.created_by, first.schema, first.metadata, first.format_version) == (
        footer.created_by,
        footer.schema,
        footer.metadata,
        footer.format_version,
    )


@pytest.mark.parametrize("layout", EVERY)
def test_indexes_and_filters_lead_to_the_pages_that_are_there_now(
    tmp_path: Path, sources: list[Path], layout: str
) -> None:
    path = tmp_path / "copied.parquet"
    copied(sources, path)

    with path.open("rb") as stream:
        for group in read_footer(stream).groups:
            check_group(stream, group)

    def flags(file: Path) -> list[tuple[bool, bool]]:
        groups = pq.read_metadata(file)
        chunks = [groups.row_group(number).column(0) for number in range(groups.num_row_groups)]
        return [(one.has_offset_index, one.has_column_index) for one in chunks]

    assert [one for source in sources for one in flags(source)] == flags(path)
    count = "SELECT count(*) FROM parquet_metadata('{}') WHERE bloom_filter_offset IS NOT NULL"
    filters = sum(duckdb.sql(count.format(source)).fetchall()[0][0] for source in sources)
    assert [(filters,)] == duckdb.sql(count.format(path)).fetchall()
    if layout == "Bloom filters":
        assert filters == 2 * FILES * 3
        probe = f"SELECT row_group_id FROM parquet_bloom_probe('{path}', 'id', 650) WHERE NOT bloom_filter_excludes"
        # The id is in the first row group of the third file.
        assert (6,) in duckdb.sql(probe).fetchall()
        assert len(duckdb.sql(probe).fetchall()) < 3


@pytest.mark.parametrize("layout", EVERY)
def test_the_sum_is_the_same(tmp_path: Path, sources: list[Path], layout: str) -> None:
    path = tmp_path / "copied.parquet"

    copied(sources, path)

    assert summed(sources) == summed([path])
    # And once more, since a copy may be copied.
    copied([path, sources[0]], tmp_path / "again.parquet")
    assert summed([path, sources[0]]) == summed([tmp_path / "again.parquet"])


def unseen(source: Path, path: Path) -> list[int]:
    """The bytes before the footer of a copy that may be changed while its sum stays."""
    copied([source], path)
    content, expected, found = path.read_bytes(), summed([source]), []
    for place in range(len(content) - 8 - int.from_bytes(content[-8:-4], "little")):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x11]) + content[place + 1 :])
        # Where it is no file any more whose row groups can be told apart, that is seen too.
        with contextlib.suppress(UnusualError, pa.ArrowException, OSError, UnicodeDecodeError):
            found += [place] if summed([path]) == expected else []
    return found


def test_the_sum_sees_each_byte_of_pages_indexes_and_filters(tmp_path: Path) -> None:
    source = tmp_path / "source"
    options = {"write_page_index": True, "bloom_filter_options": {"id": {"ndv": 9}}}
    pq.write_table(rows(1, 20).select(["id", "text"]), source, **options)

    assert unseen(source, tmp_path / "copy") == []


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all numbers and texts in a structure."""
    match value:
        case dict():
            for name, field in value.items():
                yield from leaves(field.value, (*path, name))
        case Items():
            for place, item in enumerate(value.values):
                yield from leaves(item, (*path, place))
        case bool() | int() | bytes():
            yield path


def changed(value: Any, path: tuple[Any, ...]) -> Any:
    """The same structure with one of its numbers or texts changed."""
    if not path:
        return value[:-1] + b"~" if isinstance(value, bytes) else value + 1 if value is not True else False
    first, *rest = path
    if isinstance(value, Items):
        values = [
            changed(one, tuple(rest)) if place == first else one for place, one in enumerate(value.values)
        ]
        return Items(value.type, values)
    field = value[first]
    return {**value, first: Field(field.type, changed(field.value, tuple(rest)))}


def test_the_sum_sees_whatever_is_changed_in_a_footer(tmp_path: Path) -> None:
    source, path = tmp_path / "source", tmp_path / "copy"
    options = {"write_page_index": True, "bloom_filter_options": {"id": {"ndv": 9}}}
    pq.write_table(rows(1, 20).select(["id", "text"]), source, row_group_size=10, **options)
    copied([source], path)
    with path.open("rb") as stream:
        fields, expected = read_footer(stream).fields, summed([source])
    before = path.read_bytes()
    length = int.from_bytes(before[-8:-4], "little")
    seen, unseen = 0, []
    for leaf in leaves(fields):
        # Types that do not fit, and histograms of another size, end PyArrow's process, and with it a job.
        if leaf[0] == 2 or leaf[4:6] in {(3, 1), (3, 16)}:
            continue
        content = bytes_of(changed(fields, leaf))
        path.write_bytes(before[: -8 - length] + content + len(content).to_bytes(4, "little") + b"PAR1")
        seen += 1
        with contextlib.suppress(UnusualError, pa.ArrowException, OSError, UnicodeDecodeError):
            unseen += [leaf] if summed([path]) == expected else []

    assert seen > 100
    # A chunk's own offset means nothing where its metadata is in the footer alone.
    assert [leaf for leaf in unseen if leaf[4:] != (2,)] == []


@pytest.mark.parametrize("layout", ["plain", "indexes"])
def test_a_chunk_of_another_file_changes_the_sum(tmp_path: Path, sources: list[Path], layout: str) -> None:
    assert summed([sources[0], sources[1]]) != summed([sources[0], sources[0]])
    assert summed([sources[0], sources[1]]) == summed([sources[1], sources[0]])


@pytest.mark.parametrize("layout", ["checksums"])
def test_a_page_that_has_not_its_checksum_is_not_copied(tmp_path: Path, sources: list[Path]) -> None:
    chunk = pq.read_metadata(sources[1]).row_group(1).column(1)
    content = bytearray(sources[1].read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    sources[1].write_bytes(content)

    with pytest.raises(DamagedPageError, match="has not the checksum that its header tells"):
        copied(sources, tmp_path / "copied.parquet")


@pytest.mark.parametrize("limit", ["MOST_FOOTER_BYTES", "MOST_INDEX_BYTES"])
@pytest.mark.parametrize("layout", ["indexes"])
def test_a_file_that_could_not_be_read_again_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: list[Path], limit: str
) -> None:
    copied(sources, tmp_path / "copied.parquet")
    with (tmp_path / "copied.parquet").open("rb") as stream:
        footer = read_footer(stream)
    parts = [
        part
        for group in footer.groups
        for one in group.chunks
        for part in (one.column_index, one.offset_index)
    ]
    found = {
        "MOST_FOOTER_BYTES": footer.size_bytes,
        "MOST_INDEX_BYTES": sum(one.size for one in parts if one),
    }

    monkeypatch.setattr(footers, limit, found[limit])
    assert laid_out(sources)
    monkeypatch.setattr(footers, limit, found[limit] - 1)
    with pytest.raises(UnusualError, match="too large"):
        laid_out(sources)


def test_files_of_two_writers_cannot_share_a_footer(tmp_path: Path) -> None:
    """Readers judge statistics by who wrote them."""
    sources = [write(tmp_path / "a", "plain", 1), write(tmp_path / "b", next(iter(BY_DUCKDB)), 1)]

    with pytest.raises(UnusualError, match="two kinds"):
        copied(sources, tmp_path / "copied.parquet")


def test_files_of_two_schemas_cannot_share_a_footer(tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    pq.write_table(rows(1), one)
    pq.write_table(rows(1).rename_columns(["no", *rows(1).column_names[1:]]), other)

    with pytest.raises(UnusualError, match="two kinds"):
        copied([one, other], tmp_path / "copied.parquet")
