"""Whatever happens to a table and to its events: at every confirmed head the state is what independent judges count.

`make test` plays a few short histories, `make soak` a thousand, and for every fiftieth a long one and one in SQL. A failure prints
its seed and all that happened; `--seeds N` with `-m soak` plays that seed again.
"""

import sys
from collections import Counter

import pytest

from histories.fates import HONEST, LOSSY, SILENT
from histories.happenings import ALL, BACK_AND_FORTH, EXPIRING
from histories.play import play
from histories.sql import SQL, SqlTable

ENOUGH = 200
"""After so many seeds, everything that can happen must have happened, and every forgery been tried."""

pytestmark = pytest.mark.spark

A_LONG_ONE = 50
"""Every so many seeds there is a long history too, and one in SQL."""
STEPS, LONG_STEPS, SQL_STEPS = 30, 600, 12
"""Some steps make no snapshot: 600 make about 500."""


@pytest.mark.parametrize("seed", range(1, 21))
def test_the_state_is_what_the_judges_count(java, tmp_path, seed):
    history = play(java, tmp_path / "daemon", seed, STEPS)

    assert history.judged
    assert history.refused < STEPS / 2


@pytest.mark.parametrize(("name", "fates"), [("honest", HONEST), ("lossy", LOSSY), ("silent", SILENT)])
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_scanned_that_can_be_followed(java, tmp_path, seed, name, fates):
    """A state must not be right merely because the table is scanned again and again."""
    history = play(java, tmp_path / "daemon", seed, STEPS, happenings=BACK_AND_FORTH, fates=fates)

    assert history.scans() == {"first seen": 1}, history.story("scanned again")


def test_expiry_of_what_was_seen_costs_no_scan(java, tmp_path):
    history = play(java, tmp_path / "daemon", 1, 60, confirm=1, happenings=EXPIRING, fates=LOSSY)

    assert history.scans() == {"first seen": 1}, history.story("scanned again")


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_in_sql(java, tmp_path, seed):
    history = play(java, tmp_path / "daemon", seed, SQL_STEPS, happenings=SQL, kind=SqlTable)

    assert history.judged
    assert history.refused < SQL_STEPS / 2


@pytest.mark.soak
def test_soak_of_histories(java, tmp_path, seeds, capsys):
    played = seeds("1..1000")
    scans, happened, forged, missed = Counter(), Counter(), set(), set()
    refused, judged, steps, unread = 0, 0, 0, 0
    for seed in played:
        histories = [play(java, tmp_path / f"{seed}", seed, STEPS)]
        if seed % A_LONG_ONE == 0:
            histories += [
                play(java, tmp_path / f"{seed}-long", seed, LONG_STEPS),
                play(java, tmp_path / f"{seed}-sql", seed, SQL_STEPS, happenings=SQL, kind=SqlTable),
            ]
        for history in histories:
            scans += history.scans()
            happened += history.happened
            forged |= history.post.forged
            missed |= history.post.not_forged
            refused += history.refused
            judged += history.judged
            steps += history.steps_done
            unread += not history.judged_by_java
        with capsys.disabled():
            sys.stdout.write(f"\rseed {seed}: {steps} steps, {refused} refused, {judged} times judged")
    tally = [f"{count} full scans: {why}" for why, count in scans.most_common()]
    tally += [f"{unread} histories that Java could not read"]
    tally += [f"{count} times: {name}" for name, count in happened.most_common()]
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *tally, f"{len(forged)} kinds of forgeries", ""]))

    assert judged
    assert unread <= 1 + len(played) / 20
    if len(played) >= ENOUGH:
        assert {step.__name__ for step in {**ALL, **SQL}} == set(happened)
        assert not missed - forged
