"""Which manifests become one: small ones of one kind, neighbours by partition, no more than a commit can read."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import ManifestContent, ManifestFile, PartitionFieldSummary
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, NestedField

from isotherm.clients.manifests.reading import MANIFEST_ROW_ID
from isotherm.core.planner.whole_table import MANIFEST_BYTES
from isotherm.iceberg.manifests.merging import live_entries
from isotherm.iceberg.manifests.which_are_rewritten import LIMITS, SMALL, groups_to_rewrite, needless

SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "part"))
METADATA = new_table_metadata(
    Schema(NestedField(1, "part", IntegerType(), required=False)), SPEC, UNSORTED_SORT_ORDER, "file:///t"
)


def manifest(
    number: int,
    part: int | None = 0,
    size: int = 5_000,
    content: ManifestContent = ManifestContent.DATA,
    **more: Any,
) -> ManifestFile:
    bound = None if part is None else to_bytes(IntegerType(), part)
    return ManifestFile.from_args(
        manifest_path=f"m{number:05}",
        manifest_length=size,
        partition_spec_id=0,
        content=content,
        sequence_number=number,
        min_sequence_number=number,
        added_snapshot_id=1,
        **{
            "added_files_count": 1,
            "existing_files_count": 2,
            "deleted_files_count": 5,
            "partitions": [PartitionFieldSummary(part is None, False, bound, bound)],
            **more,
        },
    )


def paths(found: list[tuple[ManifestFile, ...]]) -> list[list[str]]:
    return [[one.manifest_path for one in group] for group in found]


drawn = st.lists(
    st.builds(
        manifest,
        st.integers(0, 10**4),
        st.one_of(st.none(), st.integers(-300, 300)),
        st.integers(1, 2 * MANIFEST_BYTES),
        st.sampled_from([ManifestContent.DATA, ManifestContent.DELETES]),
    ),
    max_size=60,
    unique_by=lambda one: one.manifest_path,
)


@given(drawn)
def test_what_becomes_one_is_alike_and_small_and_there_are_never_more(found: list[ManifestFile]) -> None:
    chosen = groups_to_rewrite(METADATA, found)

    every = [one.manifest_path for group in chosen for one in group]
    assert len(every) == len(set(every))
    for group in chosen:
        assert len(group) > 1
        assert len({(one.partition_spec_id, one.content) for one in group}) == 1
        assert all(one.manifest_length < SMALL * MANIFEST_BYTES for one in group)
        assert sum(one.manifest_length for one in group) <= MANIFEST_BYTES
    assert sum(one.manifest_length for group in chosen for one in group) <= LIMITS.most_bytes
    assert len(every) <= LIMITS.most


@given(drawn)
def test_what_is_needless_is_what_a_rewrite_of_one_partition_saves(found: list[ManifestFile]) -> None:
    """Where they all lie in one partition, both have the same order: that of their ages."""
    alike = [manifest(number, 0, one.manifest_length, one.content) for number, one in enumerate(found)]
    groups = groups_to_rewrite(METADATA, alike)

    if sum(one.manifest_length for group in groups for one in group) < LIMITS.most_bytes - MANIFEST_BYTES:
        assert needless(METADATA, alike) == sum(len(group) - 1 for group in groups)


def test_what_cannot_become_one_is_not_needless() -> None:
    large = [manifest(number, number, int(0.7 * MANIFEST_BYTES)) for number in range(300)]
    of_kinds = [manifest(0), manifest(1, content=ManifestContent.DELETES)]
    empty = manifest(2, added_files_count=0, existing_files_count=0)

    assert needless(METADATA, large) == needless(METADATA, of_kinds) == 0
    assert needless(METADATA, [*of_kinds, empty]) == 1
    assert needless(METADATA, [manifest(number) for number in range(2_500)]) == 2_497


def test_one_whose_rows_get_their_ids_from_the_next_commit_is_neither_needless_nor_rewritten() -> None:
    """A table that was just upgraded to version 3 has no others."""
    version_3 = new_table_metadata(
        METADATA.schema(), SPEC, UNSORTED_SORT_ORDER, "file:///t", {"format-version": "3"}
    ).model_copy(update={"next_row_id": 1_000})
    found = [manifest(number) for number in range(10)]
    deletes = [manifest(number, content=ManifestContent.DELETES) for number in range(10, 12)]

    assert needless(version_3, found) == 0
    assert groups_to_rewrite(version_3, found) == []
    for number, one in enumerate(found[:3]):
        has_id = [*one._data, *[None] * (MANIFEST_ROW_ID - len(one._data)), 100 * number]  # noqa: SLF001 (no property for it)
        found[number] = ManifestFile(*has_id)
    assert needless(version_3, [*found, *deletes]) == 3
    assert paths(groups_to_rewrite(version_3, [*found, *deletes])) == [
        ["m00000", "m00001", "m00002"],
        ["m00010", "m00011"],
    ]


def test_neighbours_by_partition_go_together_whatever_came_first() -> None:
    size = int(0.3 * MANIFEST_BYTES)
    # By their bytes as they are stored, -1 would be the greatest, and 256 less than 1.
    parts = [256, 1, -1, 2, None, 255]
    found = [manifest(number, part, size) for number, part in enumerate(parts)]

    assert paths(groups_to_rewrite(METADATA, found)) == [
        ["m00002", "m00001", "m00003"],
        ["m00005", "m00000", "m00004"],
    ]


def test_one_without_bounds_or_with_some_that_are_none_is_put_somewhere() -> None:
    short = PartitionFieldSummary(False, False, b"\x01", b"\x01")
    odd = [manifest(0, partitions=None), manifest(1, partitions=[short]), manifest(2)]

    assert sorted(paths(groups_to_rewrite(METADATA, odd))[0]) == ["m00000", "m00001", "m00002"]


def test_a_commit_reads_no_more_than_its_limits() -> None:
    many = [manifest(number, number) for number in range(2_500)]
    (group,) = groups_to_rewrite(METADATA, many)
    assert len(group) == LIMITS.most

    full = [
        manifest(number, number, added_files_count=0, existing_files_count=30_000) for number in range(20)
    ]
    chosen = groups_to_rewrite(METADATA, full)
    entries = sum(
        (live_entries([one]) or 0) + (one.deleted_files_count or 0) for group in chosen for one in group
    )
    assert 0 < entries <= LIMITS.most_entries


def test_one_that_is_listed_twice_or_does_not_say_what_it_holds_stays() -> None:
    twice, silent = manifest(1), manifest(2, added_files_count=None)

    assert groups_to_rewrite(METADATA, [twice, twice, silent, manifest(3)]) == []
