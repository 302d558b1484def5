"""Which files of a partition a job takes."""

import pytest

from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.jobs import MAX_JOB_BYTES, MAX_JOB_FILES, Take
from isotherm.iceberg.compaction.choice import choice_of
from support.live_entries import delete, entry


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
