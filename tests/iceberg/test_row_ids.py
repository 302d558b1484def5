"""What a row inherits from its file, where it says nothing itself."""

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile

from isotherm.clients.manifests.reading import READ_VERSION, entries, first_row_id
from isotherm.core.model.files import FileKind, LiveFile
from isotherm.iceberg.manifests.writing import as_listed
from isotherm.iceberg.row_ids import filled, inherited_sql

TOLD = pa.table(
    {"id": [7, 8, 9], "_row_id": [None, 500, None], "_last_updated_sequence_number": [None, 3, None]}
)


def rows() -> pa.RecordBatch:
    types = [("id", pa.int64()), ("_row_id", pa.int64()), ("_last_updated_sequence_number", pa.int64())]
    return TOLD.cast(pa.schema(types)).to_batches()[0]


def file(first: int | None) -> LiveFile:
    return LiveFile("f", FileKind.DATA, 1, 20, sequence_number=4, first_row_id=first)


def test_what_a_row_says_itself_holds_and_the_rest_follows_from_its_place() -> None:
    found = filled(rows(), file(100), pa.array([0, 5, 19]))

    assert found.column("_row_id").to_pylist() == [100, 500, 119]
    assert found.column("_last_updated_sequence_number").to_pylist() == [4, 3, 4]
    assert found.column("id").to_pylist() == [7, 8, 9]


def test_rows_of_a_file_without_ids_have_none_yet() -> None:
    assert filled(rows(), file(None), pa.array([0, 5, 19])) == rows()
    assert inherited_sql(file(None)) == {}


def test_rows_without_columns_for_ids_stay_as_they_are() -> None:
    """Those of tables of version 2."""
    plain = rows().select(["id"])

    assert filled(plain, file(100), pa.array([0, 5, 19])) == plain


def entry(status: ManifestEntryStatus, count: int, first: int | None = None) -> ManifestEntry:
    of = DataFile.from_args(READ_VERSION, file_path="f", record_count=count, file_size_in_bytes=1)
    of._data[16] = first  # noqa: SLF001 (0.12 has no property for it)
    return ManifestEntry.from_args(
        READ_VERSION, status=status, snapshot_id=1, sequence_number=1, data_file=of
    )


def manifest(
    first: int | None, content: ManifestContent = ManifestContent.DATA, **counts: int
) -> ManifestFile:
    found = ManifestFile.from_args(
        READ_VERSION,
        manifest_path="m",
        content=content,
        sequence_number=1,
        min_sequence_number=1,
        added_rows_count=counts.get("added", 0),
        existing_rows_count=counts.get("existing", 0),
    )
    found._data[15] = first  # noqa: SLF001
    return found


@pytest.mark.parametrize(
    ("first", "ids"), [(1000, [1000, 1010, None, 7, 1015]), (None, [None, None, None, None, None])]
)
def test_files_follow_each_other_in_their_manifest(first: int | None, ids: Any) -> None:
    """Without an id of the manifest none has one, as in Iceberg's Java. A file that left takes no place."""
    added, existing, deleted = (ManifestEntryStatus(number) for number in (1, 0, 2))
    listed: Any = [
        entry(added, 10),
        entry(existing, 5),
        entry(deleted, 99),
        entry(existing, 3, 7),
        entry(added, 2),
    ]

    found = [first_row_id(one.data_file) for one in entries(listed, manifest(first))]

    assert found == ids


def test_a_list_gives_ids_to_the_manifests_of_data_that_have_none() -> None:
    given = [
        manifest(None, added=10, existing=5),
        manifest(None, ManifestContent.DELETES, added=7),
        manifest(40, added=3),
        manifest(None, existing=2),
    ]

    listed, assigned = as_listed(given, 9, 100)

    assert [first_row_id(one) for one in listed] == [100, None, 40, 115]
    assert assigned == 17
    assert [first_row_id(one) for one in given] == [None, None, 40, None], "a lost race lists them again"
    assert [first_row_id(one) for one in as_listed(given, 9, None)[0]] == [None, None, 40, None]


def test_the_sql_says_the_same() -> None:
    assert set(inherited_sql(file(100)).values()) == {"(100 + position)", "4"}
