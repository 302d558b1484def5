"""Whatever happens to a table and to its events: at every confirmed head the state is what independent judges count.

`make test` plays a few short histories, `make soak` a thousand, and a long one for every fiftieth. A failure prints
its seed and all that happened; `--seeds N` with `-m soak` plays that seed again.
"""

import sys
from collections import Counter

import pytest

from histories.fates import HONEST, LOSSY, SILENT
from histories.happenings import BACK_AND_FORTH, EXPIRING
from histories.play import play

pytestmark = pytest.mark.spark

A_LONG_ONE = 50
"""Every so many seeds the history is also a long one."""
STEPS, LONG_STEPS = 30, 600
"""Some steps make no snapshot: 600 make about 500."""


@pytest.mark.parametrize("seed", range(1, 26))
def test_the_state_is_what_the_judges_count(java, tmp_path, seed):
    history = play(java, tmp_path / "daemon", seed, STEPS)

    assert history.judged
    assert history.refused < STEPS / 2


@pytest.mark.parametrize(("name", "fates"), [("honest", HONEST), ("lossy", LOSSY), ("silent", SILENT)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_scanned_that_can_be_followed(java, tmp_path, seed, name, fates):
    """A state must not be right merely because the table is scanned again and again."""
    history = play(java, tmp_path / "daemon", seed, STEPS, happenings=BACK_AND_FORTH, fates=fates)

    assert history.scans() == {"first seen": 1}, history.story("scanned again")


def test_expiry_of_what_was_seen_costs_no_scan(java, tmp_path):
    history = play(java, tmp_path / "daemon", 1, 60, confirm=1, happenings=EXPIRING, fates=LOSSY)

    assert history.scans() == {"first seen": 1}, history.story("scanned again")


@pytest.mark.soak
def test_soak_of_histories(java, tmp_path, seeds, capsys):
    scans, refused, judged, steps = Counter(), 0, 0, 0
    for seed in seeds("1..1000"):
        lengths = [STEPS, LONG_STEPS] if seed % A_LONG_ONE == 0 else [STEPS]
        for length in lengths:
            history = play(java, tmp_path / f"{seed}-{length}", seed, length)
            scans += history.scans()
            refused += history.refused
            judged += history.judged
            steps += length
        with capsys.disabled():
            sys.stdout.write(f"\rseed {seed}: {steps} steps, {refused} refused, {judged} times judged")
    with capsys.disabled():
        sys.stdout.write("".join(f"\n{count} full scans: {why}" for why, count in scans.most_common()) + "\n")

    assert judged
