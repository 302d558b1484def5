"""The judges of histories at work see what they are there to see: values in, words out, no Spark."""

import pytest

from histories.hot_partitions import HotPartitions
from support.lab import Lab


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
