"""A footer that tells less than we would write, or something else than its pages hold, has its file decoded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import DoubleType, FixedType, ListType, LongType, NestedField, StringType, UUIDType
from thrift.Thrift import TType

from isotherm.parquet import as_asked
from isotherm.parquet.as_asked import AsAsked
from isotherm.parquet.compact_thrift import Field, Items, Struct
from isotherm.parquet.footer import UnusualError, read_footer
from support.footers import meta, rewritten

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "half", DoubleType(), required=False),
    NestedField(3, "text", StringType(), required=False),
    NestedField(4, "key", UUIDType(), required=False),
    NestedField(5, "list", ListType(7, LongType(), element_required=False), required=False),
    NestedField(6, "code", FixedType(3), required=False),
)
ROWS = pa.table(
    {
        "id": range(100),
        "half": [one / 2 for one in range(100)],
        "text": [f"text {one}" for one in range(100)],
        "key": pa.array([bytes(15) + bytes([one]) for one in range(100)], pa.uuid()),
        "list": [[one, one] for one in range(100)],
        "code": pa.array([b"%03d" % one for one in range(100)], pa.binary(3)),
    }
)
TEXT, NO, NO_TEXT = Field(TType.STRING, b"abc"), Field(TType.BOOL, False), Field(TType.STRING, b"a\xff")
ID, HALF, WORDS, KEY, LIST, CODE = range(6)


@pytest.fixture(autouse=True)
def _small_groups_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_asked, "WORTH_BYTES", 1)


def table(schema: Schema = SCHEMA, **properties: str) -> TableMetadata:
    return new_table_metadata(
        schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "file:///t", properties
    )


def written(path: Path, **options: Any) -> Path:
    """A file as we write it, but for some options."""
    leaves = ["id", "half", "text", "list.list.element", "code"]
    plain = {"compression": "zstd", "store_schema": False, "write_statistics": leaves}
    pq.write_table(ROWS.cast(schema_to_pyarrow(SCHEMA)), path, **{**plain, **options})
    return path


def count(number: int) -> Field:
    return Field(TType.I64, number)


def histogram(*counts: int) -> Field:
    return Field(TType.LIST, Items(TType.I64, list(counts)))


def sized(column: int, **values: Field) -> Callable[[Struct], None]:
    """Statistics of sizes."""
    fields = {int(name[1:]): value for name, value in values.items()}
    return lambda footer: meta(footer, column).update({16: Field(TType.STRUCT, fields)})


def check(path: Path, metadata: TableMetadata | None = None) -> None:
    with path.open("rb") as stream:
        AsAsked(metadata or table()).check(read_footer(stream))


def statistics(fields: Struct, column: int) -> Struct:
    found: Struct = meta(fields, column)[12].value
    return found


def test_a_file_as_we_write_it_can_stay(tmp_path: Path) -> None:
    check(written(tmp_path / "a"))


WRONG: dict[str, tuple[Callable[[Struct], Any], str]] = {
    "an extreme of another size": (lambda one: statistics(one, 0).update({6: TEXT}), "have not 8 bytes"),
    "an extreme that is no text": (
        lambda one: statistics(one, 0).update({6: Field(TType.I64, 1)}),
        "have not 8 bytes",
    ),
    "an extreme of the older kind": (lambda one: statistics(one, 1).update({1: TEXT}), "have not 8 bytes"),
    **{
        f"an extreme of {len(text)} fixed bytes": (
            lambda one, text=text: statistics(one, CODE).update({6: Field(TType.STRING, text)}),
            "have not 3 bytes",
        )
        for text in (b"abcd", b"ab", b"")
    },
    "levels that are no numbers": (sized(ID, f3=TEXT), "no list"),
    "levels of repetition that there are not": (sized(LIST, f2=histogram(1, 2, 3)), "histogram"),
    "levels of definition that there are not": (sized(ID, f3=histogram(0, 100, 0)), "histogram"),
    "a length of texts in numbers": (sized(ID, f1=count(9)), "length of texts"),
    "less nulls than none": (lambda one: statistics(one, WORDS).update({3: count(-1)}), "less than none"),
    "more nulls than values": (lambda one: statistics(one, LIST).update({3: count(201)}), "more nulls"),
    "more nulls than UUIDs": (
        lambda one: meta(one, KEY).update({12: Field(TType.STRUCT, {3: count(2**62)})}),
        "more nulls",
    ),
    "a writer whose name is no text": (lambda one: one.update({6: NO_TEXT}), "does not read the footer"),
    "a column whose name is no text": (
        lambda one: one[2].value.values[1].update({4: NO_TEXT}),
        "does not read the footer",
    ),
    "a path that is no text": (
        lambda one: meta(one).update({3: Field(TType.LIST, Items(TType.STRING, [b"a\xff"]))}),
        "does not read the footer",
    ),
    "another type": (lambda one: meta(one).update({1: Field(TType.I32, 5)}), "of another type"),
    "another codec": (lambda one: meta(one, 2).update({4: Field(TType.I32, 1)}), "packed in another way"),
    "a cut off text": (lambda one: statistics(one, 2).update({7: NO}), "were cut off"),
    "a text cut off before": (lambda one: statistics(one, 2).update({8: NO}), "were cut off"),
    "no count of nulls": (lambda one: statistics(one, 2).pop(3), "how many values of column text are null"),
    "no statistics": (lambda one: meta(one, 2).pop(12), "how many values of column text are null"),
    "floats without extremes": (
        lambda one: [statistics(one, 1).pop(name) for name in (1, 2, 5, 6) if name in statistics(one, 1)],
        "between which numbers column half lies",
    ),
    "floats whose extreme is none": (
        lambda one: statistics(one, 1).update({5: Field(TType.STRING, bytes(6) + b"\xf8\x7f")}),
        "between which numbers column half lies",
    ),
    "fewer values than rows": (
        lambda one: meta(one).update({5: Field(TType.I64, 99)}),
        "does not hold 100 values of column id",
    ),
    "a column in the place of another": (
        lambda one: meta(one).update({3: Field(TType.LIST, Items(TType.STRING, [b"list"]))}),
        "does not hold 100 values of column id",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_a_footer_leaves_open_has_the_file_decoded(tmp_path: Path, what: str) -> None:
    change, why = WRONG[what]
    path = written(tmp_path / "a")
    rewritten_in_place(path, change)

    with pytest.raises(UnusualError, match=why):
        check(path)


def rewritten_in_place(path: Path, change: Callable[[Struct], Any]) -> None:
    rewritten(path, lambda fields: change(fields) and None)


def test_what_a_footer_says_of_sizes_may_be_there(tmp_path: Path) -> None:
    path = written(tmp_path / "a")
    rewritten_in_place(path, sized(LIST, f2=histogram(100, 100), f3=histogram(0, 0, 0, 200)))
    rewritten_in_place(path, sized(WORDS, f1=count(690), f2=histogram(), f3=histogram(0, 100)))
    rewritten_in_place(path, lambda one: statistics(one, WORDS).update({3: count(100)}))

    check(path)


def test_extremes_of_uuids_have_the_file_decoded(tmp_path: Path) -> None:
    """Java orders them in another way than Parquet, so we write none."""
    with pytest.raises(UnusualError, match="several orders"):
        check(written(tmp_path / "a", write_statistics=True))


def test_sixteen_bytes_that_nobody_has_called_a_uuid_are_none(tmp_path: Path) -> None:
    bytes_alone = ROWS.set_column(3, "key", ROWS["key"].combine_chunks().storage)
    schema = schema_to_pyarrow(SCHEMA)
    field = pa.field("key", pa.binary(16), metadata=schema.field("key").metadata)
    path = tmp_path / "a"
    pq.write_table(bytes_alone.cast(schema.set(3, field)), path, compression="zstd", store_schema=False)

    with pytest.raises(UnusualError, match="not written as the table's are"):
        check(path)


def test_lists_of_an_older_shape_are_decoded(tmp_path: Path) -> None:
    schema = schema_to_pyarrow(SCHEMA)
    field = schema.field("list")
    item = field.type.value_field.with_name("array")
    older = schema.set(4, field.with_type(pa.list_(item)))
    options = {"use_compliant_nested_type": False, "write_statistics": False}
    path = tmp_path / "a"
    pq.write_table(ROWS.cast(older), path, compression="zstd", store_schema=False, **options)

    with pytest.raises(UnusualError, match=r"not those of the table|not written as the table's are"):
        check(path)


def test_a_row_group_may_be_a_tenth_larger_than_asked(tmp_path: Path) -> None:
    path = written(tmp_path / "a")
    with path.open("rb") as stream:
        (group,) = read_footer(stream).groups
    asked = "write.parquet.row-group-size-bytes"

    check(path, table(**{asked: str(int(group.size_bytes / 1.09))}))
    with pytest.raises(UnusualError, match="larger than the table asks"):
        check(path, table(**{asked: str(int(group.size_bytes / 1.11))}))
