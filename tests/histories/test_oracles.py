"""The judges of histories at work see what they are there to see: values in, words out, no Spark."""

import random
from pathlib import Path

import pytest
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from histories.eager_policy import DRAWN, Eager, drawn
from histories.hot_partitions import HotPartitions
from histories.kept_files import KeptFiles
from histories.places import FOR_MS, needed
from isotherm.service.policies.policy_folder import PolicyFolder
from support.lab import Lab

NOW_MS = 100 * 86_400_000


def snapshots(*runs, at_ms=NOW_MS):
    """A history, newest first, of Flink's runs as `operator/job`, of other writers by their key, or of nobody."""
    found = []
    for number, run in enumerate(runs, 1):
        operator, _, job = run.partition("/")
        said = {"flink.operator-id": operator, "flink.job-id": job} if job else {run: "{}"} if run else {}
        summary = Summary(Operation.APPEND, **said)
        found.append(Snapshot(snapshot_id=number, timestamp_ms=at_ms, manifest_list="", summary=summary))
    return found[::-1]


KAFKA = "kafka.connect.offsets.control.one"


@pytest.mark.parametrize(
    ("runs", "stay"),
    [
        pytest.param(["a/1", "a/1", ""], [2], id="the newest of a run"),
        pytest.param(["a/1", "a/2"], [2], id="a run that was followed is over"),
        pytest.param(["a/1", "b/2"], [1, 2], id="two programs"),
        pytest.param(["a/2", "a/1", "a/2"], [2, 3], id="a run that another one surrounds is another job"),
        pytest.param([KAFKA, "", "a/1"], [1, 3], id="a connector"),
        pytest.param(["", ""], [], id="nobody"),
    ],
)
def test_the_places_that_writers_look_for(runs, stay):
    assert stay == sorted(one.snapshot_id for _, one in needed(snapshots(*runs), NOW_MS))


def test_a_place_that_was_left_two_weeks_ago_is_nobodys():
    assert not list(needed(snapshots("a/1", at_ms=NOW_MS - FOR_MS), NOW_MS))


def test_a_file_that_nobody_committed_has_to_stay_for_as_long_as_the_policy_says(tmp_path: Path):
    kept, stray = KeptFiles(strays_ms=1000, grace_ms=0), tmp_path / "data" / "left-behind-1.parquet"
    stray.parent.mkdir()
    stray.touch()
    kept.note_strays(tmp_path, NOW_MS)
    there = kept.gone(NOW_MS + 999)
    stray.unlink()

    assert [] == there
    assert [stray.name] == kept.gone(NOW_MS + 999)
    assert [] == kept.gone(NOW_MS + 1000)


@pytest.mark.parametrize("name", DRAWN)
def test_each_policy_that_may_be_drawn_is_a_good_one(name, tmp_path):
    """One with a complaint left all tables alone, and its histories looked well."""
    for value in DRAWN[name]:
        (tmp_path / "all.yaml").write_text(Eager({**drawn(random.Random(1)).said, name: value}).text)
        folder = PolicyFolder(tmp_path)
        folder.reload(at_once=True)

        assert not folder.complaints


@pytest.mark.parametrize(
    ("quiet_ms", "newest_hour", "is_meant", "why"),
    [
        pytest.param(0, 3, False, "", id="the stream has left"),
        pytest.param(0, 2, False, "the stream had not left", id="the stream is in the next hour"),
        pytest.param(60_000, 3, False, "was quiet for", id="somebody has just written"),
        pytest.param(0, 3, True, "intent", id="somebody means to write"),
    ],
)
def test_a_partition_that_was_hot_when_it_was_rewritten(tmp_path, quiet_ms, newest_hour, is_meant, why):
    lab = Lab(tmp_path)
    table = lab.create()
    for hour in (1, 1, 1, 1, 9, 9):
        lab.append(table, hour)
    lab.settled().stop()
    table.refresh()
    hot = HotPartitions(quiet_ms, None, 3)
    hot.note(table, newest_hour)
    found = hot.changed(lambda _: False, lambda _: is_meant, table.metadata)

    assert bool(why) == bool(found)
    assert all(why in one for one in found)
