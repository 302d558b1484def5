"""Which files of a partition a job takes."""

from dataclasses import replace
from typing import Any

import pytest

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.files import FileKind
from isotherm.core.model.job_limits import MAX_JOB_BYTES, MAX_JOB_FILES
from isotherm.core.model.jobs import Take
from isotherm.iceberg.compaction.job_files import choice_of
from isotherm.iceberg.manifests.live import LiveEntry
from support.builders import MIB
from support.live_entries import delete, entry, equality


@pytest.mark.parametrize(
    ("take", "count"),
    [({"below_bytes": 10}, 0), ({"with_deletes": True}, 1), ({"merges_deletes": True}, None)],
)
def test_a_job_opens_no_more_files_than_it_can_in_some_minutes(
    take: dict[str, int], count: int | None
) -> None:
    """By their bytes they are a job of seconds; each request to a store takes some 30 ms."""
    numbers = range(MAX_JOB_FILES + 5)
    live = [entry(f"s3://b/{number:05}", number=1) for number in numbers]
    deletes = [delete(f"s3://d/{number:05}", 2) for number in (numbers if count is None else range(count))]

    found = choice_of([*live, *deletes], UNPARTITIONED, 0, Take(at_most_bytes=MAX_JOB_BYTES, **take), {0: 1})

    expected = live[:MAX_JOB_FILES] if count is not None else []
    merged = deletes[:MAX_JOB_FILES] if count is None else []
    assert sorted(one.path for one in found.chosen) == [one.path for one in expected]
    assert [one.path for one in found.merged] == [one.path for one in merged]


def spared(*deletes: LiveEntry, ratio: float = 0.2) -> list[str]:
    """Of three files of 1,000 rows, those that a job takes that is about these deletes."""
    data = [entry(name, number=1, rows=1000, size_bytes=MIB) for name in "abc"]
    take = Take(10, with_deletes=True, spared_ratio=ratio)
    return [one.path for one in choice_of([*data, *deletes], UNPARTITIONED, 0, take, {0: 1}).chosen]


def of(path: str, rows: int, number: int = 2, **more: Any) -> LiveEntry:
    """Deletes of a file's own."""
    return delete(f"d-{path}-{rows}", number, referenced_data_file=path, rows=rows, **more)


def test_a_large_file_of_few_deleted_rows_stays_though_others_of_its_partition_have_many() -> None:
    assert spared(of("a", 600), of("b", 3), of("c", 199)) == ["a"]
    assert spared(of("a", 600), of("b", 3), of("c", 200)) == ["a", "c"]
    assert spared(of("a", 600), of("b", 3), ratio=0.0) == ["a", "b"]
    assert spared(of("a", 600), of("b", 150), of("b", 50)) == ["a", "b"]
    assert spared(of("a", 600, kind=FileKind.DELETION_VECTORS), of("b", 3)) == ["a"]


def test_what_deletes_of_several_files_may_name_does_not_stay() -> None:
    """How many of its rows they name is not known before they are read."""
    assert spared(of("a", 600), of("b", 3), delete("wide", 2, rows=3)) == ["a", "b", "c"]
    assert spared(of("a", 600), of("b", 3), equality(2)) == ["a", "b", "c"]


def test_where_every_file_could_stay_none_does() -> None:
    """The partition is due all the same: its rows were counted otherwise, and would be again."""
    assert spared(of("a", 100), of("b", 3)) == ["a", "b"]


def test_where_dead_deletes_are_what_is_due_they_go_and_no_file_is_rewritten_for_it() -> None:
    assert spared(of("a", 100), of("b", 3), of("gone", 600)) == []


@pytest.mark.parametrize(
    "take", [{"with_deletes": True}, {"merges_deletes": True, "converts_equality": True}]
)
@pytest.mark.parametrize(("oldest", "is_over"), [({0: 4, 1: 1}, False), ({0: 4, 1: 9}, True), ({0: 4}, True)])
def test_deletes_that_apply_to_older_data_elsewhere_stay_and_the_refusal_says_so(
    oldest: dict[int, int], take: dict[str, bool], *, is_over: bool
) -> None:
    """The planner counts them, and cannot know: no partition's state holds its oldest sequence number."""
    deletes = [replace(equality(number, is_global=True), path=f"e{number}") for number in (2, 3)]
    wanted = Take(**take)

    found = choice_of([entry("a", number=4, rows=100), *deletes], UNPARTITIONED, None, wanted, oldest)

    assert len(found.converted or found.dead) == (2 if is_over else 0)
    refusal = found.refusal(wanted)
    if is_over:
        assert refusal is None
    else:
        assert refusal is not None
        assert str(refusal.why).startswith(
            "2 equality-delete files apply to older data of other partitions too"
        )
