"""Which manifests are merged: as the table's properties say, as many as a commit can read, and no more than twice."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import ManifestContent, ManifestFile

from isotherm.iceberg.manifests.merging import LIMITS, groups, live_entries

KIB, MIB = 1024, 1024**2
MIN, SIZE = "commit.manifest.min-count-to-merge", "commit.manifest.target-size-bytes"


def manifest(
    number: int,
    size: int = KIB,
    spec_id: int = 0,
    content: ManifestContent = ManifestContent.DATA,
    **more: Any,
) -> ManifestFile:
    return ManifestFile.from_args(
        manifest_path=f"m{number:05}",
        manifest_length=size,
        partition_spec_id=spec_id,
        content=content,
        sequence_number=number,
        min_sequence_number=number,
        added_snapshot_id=1,
        **{"added_files_count": 1, "existing_files_count": 2, "deleted_files_count": 5, **more},
    )


def paths(found: list[tuple[ManifestFile, ...]]) -> list[list[str]]:
    return [[one.manifest_path for one in group] for group in found]


manifests = st.lists(
    st.builds(
        manifest,
        st.integers(0, 10**4),
        st.integers(1, 100),
        st.integers(0, 1),
        st.sampled_from([ManifestContent.DATA, ManifestContent.DELETES]),
    ),
    max_size=60,
    unique_by=lambda one: one.manifest_path,
)


@given(manifests, st.integers(2, 20), st.integers(1, 300))
def test_what_is_merged_is_alike_small_and_many(found: list[ManifestFile], least: int, size: int) -> None:
    chosen = groups(found, {MIN: str(least), SIZE: str(size)})

    every = [one.manifest_path for group in chosen for one in group]
    assert len(every) == len(set(every))
    for group in chosen:
        assert len({(one.partition_spec_id, one.content) for one in group}) == 1
        assert len(group) > 1
        assert sum(one.manifest_length for one in group) <= size
        like = group[0]
        alike = [
            one
            for one in found
            if (one.partition_spec_id, one.content) == (like.partition_spec_id, like.content)
        ]
        assert sum(one.manifest_length < size for one in alike) >= least
    # Two neighbours that fit together and that nothing else kept apart are merged.
    if not chosen:
        for spec_id in (0, 1):
            for content in ManifestContent:
                alike = [one for one in found if (one.partition_spec_id, one.content) == (spec_id, content)]
                small = sorted(one.manifest_length for one in alike if one.manifest_length < size)
                assert len(small) < least or small[0] + small[1] > size or len(small) > 2


def test_as_the_table_says() -> None:
    many, few = [manifest(one) for one in range(150)], [manifest(one) for one in range(99)]

    assert [len(group) for group in groups(many, {})] == [150]
    assert groups(few, {}) == []
    for word in ("false", "FALSE", "off", "no", "0", " true", ""):
        assert groups(many, {"commit.manifest-merge.enabled": word}) == []
    assert groups(many, {"commit.manifest-merge.enabled": "TRUE"}) == groups(many, {})
    assert [len(group) for group in groups(many, {SIZE: str(50 * KIB)})] == [50, 50, 50]
    assert groups(many, {MIN: "151"}) == []
    # Not even one is a reason to write it again.
    assert groups([manifest(1)], {MIN: "0"}) == []


@pytest.mark.parametrize("name", [MIN, SIZE])
def test_a_property_that_is_no_number_is_the_default(name: str) -> None:
    many = [manifest(one) for one in range(100)]

    assert groups(many, {name: "a lot"}) == groups(many, {})


def test_the_oldest_are_merged_first_and_no_more_than_a_commit_can_read() -> None:
    found = [manifest(one) for one in reversed(range(1000))]
    (group,) = groups(found, {})

    assert [one.manifest_path for one in group] == [f"m{one:05}" for one in range(LIMITS.most)]
    large = [manifest(one, 3 * MIB) for one in range(100)]
    chosen = groups(large, {})
    assert paths(chosen) == [["m00000", "m00001"], ["m00002", "m00003"]]
    assert sum(one.manifest_length for group in chosen for one in group) <= LIMITS.most_bytes
    assert groups([manifest(one, 5 * MIB) for one in range(100)], {}) == []
    full = [
        manifest(one, existing_files_count=999, added_files_count=1, deleted_files_count=0)
        for one in range(100)
    ]
    assert [len(group) for group in groups(full, {})] == [20]
    fuller = [manifest(one, existing_files_count=15_000) for one in range(100)]
    assert groups(fuller, {}) == []


def test_what_a_list_names_twice_or_does_not_count_stays_and_keeps_nothing_else() -> None:
    many = [manifest(one) for one in range(150)]
    odd = [manifest(7), manifest(8), manifest(150, added_files_count=None)]

    (group,) = groups([*many, *odd], {})

    assert [one.manifest_path for one in group] == [f"m{one:05}" for one in range(150) if one not in (7, 8)]


def test_live_entries_are_those_that_the_list_counts() -> None:
    assert live_entries([manifest(1), manifest(2, added_files_count=0)]) == 5
    assert live_entries([manifest(1), manifest(2, added_files_count=None)]) is None
