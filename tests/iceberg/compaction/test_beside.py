"""What may stand beside a job, and what refuses it: by the files of its partition alone."""

from dataclasses import replace

import pytest

from isotherm.contract.identity import UNPARTITIONED, TableId
from isotherm.core.model.files import FileKind
from isotherm.core.model.jobs import CompactionJob
from isotherm.iceberg.compaction.commit_outcome import strangers
from isotherm.iceberg.manifests.live import LiveEntry
from support.live_entries import entry


def live(path: str, number: int, kind: FileKind = FileKind.DATA) -> LiveEntry:
    return entry(path, kind, number, size_bytes=10)


OLD = [live("a", 1), live("b", 2), live("c", 9)]
JOB = CompactionJob(
    "j", TableId("u", "t"), UNPARTITIONED, "", 0, 5, 10, (OLD[0].live_file(), OLD[1].live_file()), (),
    frozenset({("c", None)}), 100, "p", "a test", beside_appends=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("now", "came", "left"),
    [
        (OLD, set(), set()),
        ([*OLD, live("d", 11)], set(), set()),
        ([*OLD, live("d", 10)], {"d"}, set()),
        ([*OLD, live("d", 11, FileKind.POSITION_DELETES)], {"d"}, set()),
        ([*OLD, live("d", 11, FileKind.EQUALITY_DELETES)], {"d"}, set()),
        ([*OLD[1:], live("d", 11)], set(), {"a"}),
        (OLD[:2], set(), {"c"}),
    ],
    ids=[
        "as it was",
        "appended",
        "added again",
        "deletes",
        "equality deletes",
        "an input left",
        "another left",
    ],
)
def test_beside_appends_only_what_was_appended_since_passes(
    now: list[LiveEntry], came: set[str], left: set[str]
) -> None:
    found = [{path for path, _ in files} for files in strangers(JOB, now)]

    assert found == [came, left]


def test_nothing_stands_beside_any_other_job() -> None:
    came, left = strangers(replace(JOB, beside_appends=False), [*OLD, live("d", 11)])

    assert (came, left) == ({("d", None)}, set())


def test_deletes_that_left_and_were_added_again_have_come() -> None:
    """A file to which they did not apply may be older than they are now."""
    job = replace(JOB, bystanders=JOB.bystanders | {("e", None)})

    found = [strangers(job, [*OLD, live("e", number, FileKind.POSITION_DELETES)]) for number in (9, 11)]

    assert found == [(set(), set()), ({("e", None)}, set())]
