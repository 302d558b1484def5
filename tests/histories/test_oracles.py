"""The judges of histories at work see what they are there to see: values in, words out, no Spark."""

import random
from pathlib import Path

import pytest

from histories.eager_policy import DRAWN, Eager, drawn
from histories.hot_partitions import HotPartitions
from histories.kept_files import KeptFiles
from isotherm.service.policies.policy_folder import PolicyFolder
from support.lab import Lab

NOW_MS = 100 * 86_400_000


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
    ("quiet_ms", "newest_hour", "why"),
    [
        pytest.param(0, 3, "", id="the stream has left"),
        pytest.param(0, 2, "the stream had not left", id="the stream is in the next hour"),
        pytest.param(60_000, 3, "was quiet for", id="somebody has just written"),
    ],
)
def test_a_partition_that_was_hot_when_it_was_rewritten(tmp_path, quiet_ms, newest_hour, why):
    lab = Lab(tmp_path)
    table = lab.create()
    for hour in (1, 1, 1, 1, 9, 9):
        lab.append(table, hour)
    lab.settled().stop()
    table.refresh()
    hot = HotPartitions(quiet_ms, None, 3)
    hot.note(table, newest_hour)
    found = hot.changed(lambda _: False, table.metadata)

    assert bool(why) == bool(found)
    assert all(why in one for one in found)
