"""Which manifests are put together, and how their entries are divided: by partition, evenly, none in two."""

import uuid
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.typedef import Record

from isotherm.clients.manifests.reading import READ_VERSION
from isotherm.iceberg.manifests.split_by_partition import MOST_BYTES, MOST_ENTRIES, alike, divided

DATA, DELETES = ManifestContent.DATA, ManifestContent.DELETES


def manifest(path, files=1, spec=0, content=DATA, size=1000, deleted=0):
    return ManifestFile.from_args(
        READ_VERSION,
        manifest_path=path,
        manifest_length=size,
        partition_spec_id=spec,
        content=content,
        added_files_count=0,
        existing_files_count=files,
        deleted_files_count=deleted,
    )


def paths(groups):
    return [[one.manifest_path for one in group] for group in groups]


def test_those_of_one_spec_and_content_go_together():
    found = [
        manifest("a"),
        manifest("b", spec=1),
        manifest("c"),
        manifest("d", content=DELETES),
        manifest("e", spec=1),
    ]
    assert paths(alike(found)) == [["a", "c"], ["b", "e"]]


@pytest.mark.parametrize(
    "other",
    [
        manifest("a"),
        manifest("b", files=None),
        manifest("b", files=MOST_ENTRIES),
        manifest("b", deleted=MOST_ENTRIES),
        manifest("b", size=MOST_BYTES),
    ],
    ids=["twice", "uncounted", "many", "many that left", "large"],
)
def test_what_cannot_be_held_or_told_apart_stays_by_itself(other):
    assert alike([manifest("a"), other]) == []


VALUES = [
    st.tuples(st.none() | st.integers(-3, 3)),
    st.tuples(st.none() | st.sampled_from("abc"), st.none() | st.booleans()),
    st.tuples(st.none() | st.sampled_from([uuid.UUID(int=1), uuid.UUID(int=2)])),
    st.tuples(st.none() | st.sampled_from([b"", b"\x00", b"z"])),
    st.tuples(st.none() | st.floats()),
    st.tuples(st.integers(0, 3) | st.sampled_from([b"a", "a"]) | st.just(uuid.UUID(int=1))),
    st.just(()),
]


@given(st.sampled_from(VALUES).flatmap(lambda kind: st.lists(kind, max_size=40)), st.integers(1, 5))
def test_no_partition_is_in_two_and_none_is_lost(values, parts):
    entries = [SimpleNamespace(data_file=SimpleNamespace(partition=Record(*one))) for one in values]
    found = divided(entries, parts)

    assert sorted(map(id, entries)) == sorted(id(one) for part in found for one in part)
    assert len(found) <= parts
    assert all(found)
    in_parts = [
        {repr([one.data_file.partition[place] for place in range(len(values[0]))]) for one in part}
        for part in found
    ]
    assert sum(map(len, in_parts)) == len(set().union(*in_parts))


def test_parts_are_about_as_large():
    entries = [
        SimpleNamespace(data_file=SimpleNamespace(partition=Record(number % 100))) for number in range(1000)
    ]
    assert [len(part) for part in divided(entries, 10)] == [100] * 10
